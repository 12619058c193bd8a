"""The tests run against the installed package, the program LCA_STREAM and, for those on topics, the brokers LCA_BROKERS."""

import os
import pathlib
import subprocess

import numpy as np
import pyarrow as pa
import pytest

import lca_stream

SNAPSHOTS = pathlib.Path(__file__).parents[2] / "sink" / "snapshot" / "testdata"


@pytest.fixture(scope="session")
def binary():
    return os.environ["LCA_STREAM"]


@pytest.fixture(scope="session", params=["gaussian", "student"])
def learnt(request, binary, tmp_path_factory):
    """A model of 400 rows in 4 columns, one of them constant, its path, and the rows."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4)) + rng.integers(0, 2, (400, 1)) * 8.0
    X[:, 2] = 5
    directory = tmp_path_factory.mktemp(request.param)
    rows, model = directory / "rows.arrow", directory / "model.arrows"
    table = pa.table({f"x{k}": X[:, k] for k in range(4)})
    with pa.ipc.new_file(str(rows), table.schema) as f:
        f.write_table(table)
    config = directory / "config.yaml"
    config.write_text(f"source: {{features: [x0, x1, x2, x3]}}\nlca: {{kernel: {request.param}}}\n")
    subprocess.run([binary, "replay", "-c", config, "--algorithm", "lca-gauss", "--input", rows, "--output", model], check=True)
    return lca_stream.read_model(model), model, X
