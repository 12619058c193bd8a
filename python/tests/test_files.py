import subprocess

import numpy as np
import pyarrow as pa
import pytest
from conftest import SNAPSHOTS

import lca_stream


def test_npz_is_the_same_model(learnt, binary, tmp_path):
    model, path, X = learnt
    exported = tmp_path / "model.npz"
    subprocess.run([binary, "snapshot", "export", "--file", path, "-o", exported], check=True)
    again = lca_stream.read_model(exported)
    assert again.features == model.features and again.version == model.version and again.model_id == model.model_id
    assert (again.whiten(X) == model.whiten(X)).all() and np.allclose(again.score(X), model.score(X), rtol=1e-13)
    assert (again.p_value(X) == model.p_value(X)).mean() > 0.99


def test_both_formats_are_read():
    first, second = (lca_stream.read_model(SNAPSHOTS / f"format{n}.arrows") for n in (1, 2))
    assert (first.whitening == second.whitening).all() and (first.mean == second.mean).all()
    # The first format holds x_j, the second x_j − μ, each rounded to float32.
    assert first.neighbours.shape == second.neighbours.shape and second.neighbours.dtype == np.float32
    assert np.isnan(first.p_of_score([0.0, 9.0])).all() and np.isfinite(second.p_of_score([0.0, 9.0])).all()


def test_a_cut_file_is_refused(learnt):
    _, path, _ = learnt
    data = path.read_bytes()
    for n in list(range(0, len(data) - 1, 997)):
        with pytest.raises(lca_stream.FormatError):
            lca_stream.model_from_bytes(data[:n])


def test_a_newer_format_is_refused(learnt):
    _, path, _ = learnt
    buffer, out = pa.BufferReader(path.read_bytes()), pa.BufferOutputStream()
    while buffer.tell() < buffer.size():
        table = pa.ipc.open_stream(buffer).read_all()
        table = table.replace_schema_metadata({**table.schema.metadata, b"lca.format": b"99"})
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    with pytest.raises(lca_stream.FormatError, match="99.*update"):
        lca_stream.model_from_bytes(out.getvalue().to_pybytes())


def test_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(lca_stream.FormatError, match="not exported by lca-stream"):
        lca_stream.read_model(tmp_path / "x.npz")
    with pytest.raises(lca_stream.FormatError, match="no snapshot"):
        lca_stream.model_from_bytes(b"PAR1" * 10)
    with pytest.raises(lca_stream.FormatError, match="not written by lca-stream"):
        lca_stream.rows_from_bytes(b"", [])
