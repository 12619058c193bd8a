"""On the topics of a real run: what the program wrote is what this package computes."""

import os

import numpy as np
import pyarrow as pa

import lca_stream

BROKERS = os.environ["LCA_BROKERS"]
OUTPUT, SNAPSHOTS = os.environ["LCA_OUTPUT"], os.environ["LCA_SNAPSHOTS"]


def test_rows_are_those_of_the_model():
    model = lca_stream.read_models(SNAPSHOTS, BROKERS)["default"]
    rows = pa.concat_tables(lca_stream.read_rows(OUTPUT, BROKERS), promote_options="permissive").to_pandas()
    assert len(rows) == int(os.environ["LCA_ROWS"])
    assert not rows.duplicated(["lca_source_topic", "lca_source_partition", "lca_source_offset", "lca_source_row"]).any()
    of_model = rows[rows["lca_version"] == model.version]
    assert len(of_model) == len(rows)
    X = of_model[model.features].to_numpy(float)
    known = of_model["lca"].notna().to_numpy()
    assert (np.isfinite(X).all(1) == known).all() and not known.all()
    Y = np.stack(of_model["lca"][known])
    assert np.abs(model.whiten(X)[known] - Y).max() < 1e-6 * np.abs(Y).max()
    score = of_model["lca_score"].to_numpy()
    assert np.allclose(model.score(X)[known], score[known], rtol=1e-5)
    assert np.isnan(model.score(X)[~known]).all()
    p = of_model["lca_p"].to_numpy()
    assert np.allclose(model.p_value(X)[known], p[known], rtol=1e-4, atol=2 / len(model.scores))  # a score may fall between two others
    columns, nats = model.why(X, most=2)
    for row in np.flatnonzero(known):
        named = of_model["lca_why"].iloc[row]
        assert np.allclose([w["nats"] for w in named], nats[row], rtol=1e-4, atol=1e-6)
        if nats[row, 0] > 1.01 * nats[row, 1]:
            assert named[0]["feature"] == model.features[columns[row, 0]]


def test_an_older_version_is_found():
    newest = lca_stream.read_models(SNAPSHOTS, BROKERS)["default"]
    parent = int(newest.metadata["lca.parent_version"])
    assert lca_stream.read_models(SNAPSHOTS, BROKERS, version=newest.version)["default"].version == newest.version
    assert lca_stream.read_models(SNAPSHOTS, BROKERS, version=-5) == {}
    if parent:
        assert lca_stream.read_models(SNAPSHOTS, BROKERS, version=parent)["default"].version == parent
