import random
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


def test_a_young_model_says_so():
    with pytest.raises(lca_stream.FormatError, match="young: 128 rows so far; the row score comes after 3000 rows"):
        lca_stream.read_model(SNAPSHOTS / "format3.arrows")


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


def mutants(data, n, seed):
    """The bytes cut, overwritten, shifted, and with lengths and offsets that lead elsewhere."""
    rng = random.Random(seed)
    for _ in range(n):
        b, kind = bytearray(data), rng.randrange(4)
        if kind == 0:
            b = b[: rng.randrange(len(b))]
        elif kind == 1:
            for _ in range(rng.randrange(1, 8)):
                b[rng.randrange(len(b))] = rng.randrange(256)
        elif kind == 2:
            i = rng.randrange(len(b))
            b[i : i + rng.randrange(1, 40)] = bytes(rng.choice([0, 128, 255]) for _ in range(rng.randrange(60)))
        else:
            i = rng.randrange(0, len(b) - 8) // 4 * 4
            b[i : i + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\0\0\0\0"])
        yield bytes(b)


def test_damaged_bytes_are_refused_or_read(learnt, binary, tmp_path):
    # Whatever a disk or a sender has made of a model: it is one, or a FormatError. pyarrow alone reads outside of its
    # memory then, which ends the process.
    model, path, X = learnt
    exported = tmp_path / "model.npz"
    subprocess.run([binary, "snapshot", "export", "--file", path, "-o", exported], check=True)
    damaged = tmp_path / "damaged.npz"
    read = 0
    with np.errstate(all="ignore"):
        for data in mutants(path.read_bytes(), 700, 1):
            try:
                m = lca_stream.model_from_bytes(data)
                m.whiten(X), m.score(X), m.p_value(X), m.why(X), m.features, m.version, m.model_id
                read += 1
            except lca_stream.FormatError:
                pass
        for data in mutants(exported.read_bytes(), 200, 2):
            damaged.write_bytes(data)
            try:
                lca_stream.read_model(damaged)
            except lca_stream.FormatError:
                pass
    assert read > 100  # most bytes are numbers


def test_damaged_rows_are_refused_or_read():
    table = pa.table({"id": ["one", None, "three"], "a": [1.5, 2, 3], "lca": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2))})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    where = [("content-type", b"application/vnd.apache.arrow.stream"), ("lca-source-topic", b"in"), ("lca-source-partition", b"0"), ("lca-source-offset", b"7")]
    for data in mutants(out.getvalue().to_pybytes(), 2000, 3):
        try:
            rows = lca_stream.rows_from_bytes(data, where)
            rows.to_pylist(), rows.sort_by("lca_source_row")
        except lca_stream.FormatError:
            pass


def test_headers_of_the_input_may_be_any_bytes():
    table = pa.table({"a": [1.5]})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    value = out.getvalue().to_pybytes()
    where = [("content-type", b"application/vnd.apache.arrow.stream"), ("lca-source-topic", b"in"), ("lca-source-partition", b"0"), ("lca-source-offset", b"7")]
    rows = lca_stream.rows_from_bytes(value, [("correlation-id", b"\xff\xfe\x00"), ("none", None), *where])
    assert rows["lca_source_offset"].to_pylist() == [7]
    for headers in (None, [], [("lca-source-offset", b"\xff")], [(k, b"x" if k == "lca-source-partition" else v) for k, v in where], where[:1] + where[3:]):
        with pytest.raises(lca_stream.FormatError):
            lca_stream.rows_from_bytes(value, headers)
    with pytest.raises(lca_stream.FormatError, match="tombstone"):
        lca_stream.rows_from_bytes(None, where)
