"""Features are found as source.features names them."""

import numpy as np
import pyarrow as pa
import pytest

import lca_stream

TABLE = pa.table({
    "a": [1, None, 3],
    "a.b": [7, 8, 9],
    "s": pa.array([{"x": {"y": 1.5}, "p.q": 1}, {"x": None, "p.q": 2}, None]),
    "v": pa.array([[1, 2], [3, 4], None], pa.list_(pa.float32(), 2)),
    "w": pa.array([[1.0], [], None]),
    "deep": pa.array([[{"t": 1}, {"t": 2}], [{"t": 3}], None]),
    "text": ["1.5", "2", None],
    "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "ok": [True, False, None],
    "odd": ["1.5", '"n/a"', None],
    "odder": ["true", "", "NaN"],
})
NAN = np.nan


@pytest.mark.parametrize(("feature", "want"), [
    ("a", [1, NAN, 3]), ("a.b", [7, 8, 9]), ("s.x.y", [1.5, NAN, NAN]), ("s.p.q", [1, 2, NAN]), ("v[1]", [2, 4, NAN]), ("v.0", [1, 3, NAN]),
    ("w.0", [1, NAN, NAN]), ("w[3]", [NAN] * 3), ("deep.1.t", [2, NAN, NAN]), ("text", [1.5, 2, NAN]), ("m.k", [1, NAN, NAN]), ("ok", [1, 0, NAN]),
    ("odd", [1.5, NAN, NAN]), ("odder", [1, NAN, NAN]),
])
def test_feature(feature, want):
    for rows in (TABLE, [TABLE.slice(0, 1), TABLE.slice(1)], TABLE.to_batches()):
        np.testing.assert_array_equal(lca_stream.matrix(rows, [feature, "a"]), np.column_stack([want, [1, NAN, 3]]))


@pytest.mark.parametrize("feature", ["b", "s.z", "a.c", "v[x]", "a[0]", "s.x.y.z", ""])
def test_lacking(feature):
    with pytest.raises(KeyError, match="no column or path"):
        lca_stream.matrix(TABLE, [feature])


def test_lacking_in_some():
    some = [TABLE.drop_columns("a"), TABLE, TABLE.drop_columns("a").slice(0, 0)]
    np.testing.assert_array_equal(lca_stream.matrix(iter(some), ["v.0", "a"]), np.column_stack([[1, 3, NAN] * 2, [NAN] * 3 + [1, NAN, 3]]))
    with pytest.raises(KeyError, match="'b'"):
        lca_stream.matrix(some, ["a", "b"])


def test_nested_is_no_number():
    some = [TABLE, pa.table({"a": [{"x": 1}]})]
    np.testing.assert_array_equal(lca_stream.matrix(some, ["a"]), [[1], [NAN], [3], [NAN]])
    with pytest.raises(KeyError, match="a feature is a number"):
        lca_stream.matrix(TABLE, ["s"])


def test_no_rows():
    assert lca_stream.matrix([], ["a", "b"]).shape == lca_stream.matrix(TABLE.slice(0, 0), ["a", "b"]).shape == (0, 2)
