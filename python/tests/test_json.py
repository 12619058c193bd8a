"""Rows of JSON messages have the types of Arrow messages."""

import json

import numpy as np
import pyarrow as pa
import pytest

import lca_stream

HEADERS = [(k, v.encode()) for k, v in {
    "content-type": "application/json", "lca-model-id": "m", "lca-model-version": "7", "lca-source-topic": "t",
    "lca-source-partition": "0", "lca-source-offset": "5"}.items()]
WHY = [{"feature": "t", "nats": 2.5}]
GOOD = {"id": 3, "long": 12345678901234567, "t": 1, "note": "a", "lca": [0.1, 2], "lca_score": 1.5, "lca_p": 0.25, "lca_why": WHY, "lca_imputed": 1,
        "lca_recent_score": 2.5, "lca_recent_p": 0.5, "lca_episode": "m/0/a/3.0"}
NULL = {"id": 4, "t": 2.5, "lca": None, "lca_score": None, "lca_p": None, "lca_why": None, "lca_imputed": None, "lca_recent_score": None, "lca_recent_p": None, "lca_episode": None}
OURS = {"lca_score": pa.float32(), "lca_p": pa.float32(), "lca_imputed": pa.int16(), "lca_recent_score": pa.float32(), "lca_recent_p": pa.float32(), "lca_episode": pa.string()}


@pytest.mark.parametrize("text", [json.dumps([GOOD, NULL]), f"{json.dumps(GOOD)}\n\n{json.dumps(NULL)}\n", "\ufeff" + json.dumps([GOOD, NULL])])
def test_vectors(text):
    rows = lca_stream.rows_from_bytes(text.encode(), HEADERS)
    assert rows.schema.field("lca").type == pa.list_(pa.field("item", pa.float32(), nullable=False), 2)
    assert all(rows.schema.field(n).type == t for n, t in OURS.items())
    assert rows["lca_why"].to_pylist() == [WHY, None] and rows["lca_imputed"].to_pylist() == [1, None]
    assert [rows.schema.field(n).type for n in ("id", "long", "t", "note")] == [pa.float64(), pa.int64(), pa.float64(), pa.string()]
    assert rows["lca"].to_pylist() == [[pytest.approx(0.1), 2.0], None] and rows["lca_source_row"].to_pylist() == [0, 1]
    assert rows["long"].to_pylist() == [12345678901234567, None]


def test_messages_without_vectors():
    both = [lca_stream.rows_from_bytes(json.dumps(row).encode(), HEADERS) for row in (NULL, GOOD)]
    rows = pa.concat_tables(both, promote_options="permissive")
    assert rows["lca"].to_pylist() == [None, [pytest.approx(0.1), 2.0]] and rows["lca_why"].to_pylist() == [None, WHY]
    assert all(one.schema.field(n).type == t for one in both for n, t in OURS.items())


def test_messages_without_a_value():
    """What is null in one message joins with what other messages say."""
    texts = [{"after": None, "note": None}, {"after": {"temp": 21.5}, "note": "a"}]
    tables = [lca_stream.rows_from_bytes(json.dumps(row).encode(), HEADERS) for row in texts]
    rows = pa.concat_tables(tables, promote_options="permissive")
    assert rows["after"].to_pylist() == [None, {"temp": 21.5}] and rows["note"].to_pylist() == [None, "a"]
    for given in (tables, rows):
        assert np.array_equal(lca_stream.matrix(given, ["after.temp"]), [[np.nan], [21.5]], equal_nan=True)


def test_columns():
    row = {"id": 3, "y_0": 0.5, "y_1": None, "y_score": 3, "lca": "a column of the input"}
    rows = lca_stream.rows_from_bytes(json.dumps(row).encode(), HEADERS, column="y")
    assert [rows.schema.field(n).type for n in ("y_0", "y_1", "y_score", "lca")] == [pa.float32()] * 3 + [pa.string()]
    assert rows["lca_version"].to_pylist() == [7] and rows["y_1"].to_pylist() == [None]


@pytest.mark.parametrize("column", ["lca", "y"])
@pytest.mark.parametrize("arrow", [False, True])
def test_models_of_rows(column, arrow):
    """With model.by: column:NAME the headers say no version, and each row says its own."""
    headers = [(k, b"0" if k == "lca-model-version" else v) for k, v in HEADERS]
    given = [{"t": 1, column + "_model": "m/0/a", column + "_version": 9}, {"t": 2, column + "_model": None, column + "_version": None}]
    value = json.dumps(given).encode()
    if arrow:
        table = pa.Table.from_pylist(given)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        value = out.getvalue().to_pybytes()
        headers = [(k, b"application/vnd.apache.arrow.stream" if k == "content-type" else v) for k, v in headers]
    rows = lca_stream.rows_from_bytes(value, headers, column=column)
    assert rows["lca_version"].to_pylist() == [9, 0] and rows["lca_model_id"].to_pylist() == ["m/0/a", "m"]
    assert rows.schema.field("lca_version").type == pa.int64() and rows[column + "_model"].to_pylist() == ["m/0/a", None]
    none = lca_stream.rows_from_bytes(json.dumps(given[1]).encode(), [(k, b"0" if k == "lca-model-version" else v) for k, v in HEADERS], column=column)
    assert none["lca_version"].to_pylist() == [0] and none["lca_model_id"].to_pylist() == ["m"]


@pytest.mark.parametrize(("text", "column", "kind"), [
    ('{"v":123456789012345678901234567890,"t":1}', ["123456789012345678901234567890"], pa.string()),
    ('[{"v":1,"t":1},{"v":1e400,"t":1}]', [1.0, np.inf], pa.float64()),
    ('{"v":{"y":[1,"a",null]},"t":1}', ['{"y": [1, "a", null]}'], pa.string()),
    ('[{"v":1,"t":1},{"v":"a","t":1},{"v":null,"t":1}]', ["1", '"a"', None], pa.string()),
    ('{"v":"\\ud800","t":1}', ['"\\ud800"'], pa.string()),
    ('{"v":"a\u2028\u0085b","t":1}\n{"v":"c","t":1}', ["a\u2028\u0085b", "c"], pa.string()),
    ('{"v":' + "9" * 5000 + ',"t":1}', ["9" * 5000], pa.string()),
    ('{"v":{"n":[{}]},"t":1} {"v":{},"t":1}', [{"n": [{}]}, {"n": None}], pa.struct([("n", pa.list_(pa.struct([])))])),
])
def test_values_that_arrow_has_no_type_for_are_text(text, column, kind):
    rows = lca_stream.rows_from_bytes(text.encode(), HEADERS)
    assert rows["v"].type == kind and rows["v"].to_pylist() == column
    assert set(rows["t"].to_pylist()) == {1.0}


def test_a_large_integer_is_a_feature():
    rows = lca_stream.rows_from_bytes(b'{"v":123456789012345678901234567890,"t":1}', HEADERS)
    assert lca_stream.matrix(rows, ["v", "t"]).tolist() == [[123456789012345678901234567890.0, 1.0]]


def test_a_name_may_be_half_of_a_pair():
    assert "\\ud800" in lca_stream.rows_from_bytes(b'{"\\ud800":1}', HEADERS).column_names


@pytest.mark.parametrize("body", [b"42", b"[1]", b"null", b'"a"', b"{", b'{"a":1}x', b"\xff\xfe", b'{"a":1}\n2', b"[" * 100_000])
def test_what_is_no_row_is_a_format_error(body):
    with pytest.raises(lca_stream.FormatError, match="this message is"):
        lca_stream.rows_from_bytes(body, HEADERS)


def test_an_arrow_message_that_is_cut_is_a_format_error():
    headers = [(k, b"application/vnd.apache.arrow.stream" if k == "content-type" else v) for k, v in HEADERS]
    for body in (b"", b"ARROW1", b"\xff\xff\xff\xff\x10\0\0\0abc"):
        with pytest.raises(lca_stream.FormatError, match="this message is no Arrow stream"):
            lca_stream.rows_from_bytes(body, headers)
