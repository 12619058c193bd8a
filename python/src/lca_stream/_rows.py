"""Output messages as tables."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lca_stream import _avro
from lca_stream._files import ARROW_FAULTS, FormatError, read_stream
from lca_stream._registry import Registry

Schemas = Registry | Mapping[int, str | tuple[str, ...]]

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
_SPACE = re.compile(r"[ \t\r\n]*")
MOST_DIGITS = 4000  # Python refuses to read much longer integers; they stay text


def ours(headers: Iterable[tuple[str, bytes]] | None) -> dict[str, str]:
    """The headers that the program writes, as text. Those of the input are there too, and may be any bytes."""
    try:
        return {k: v.decode() for k, v in headers or () if v is not None and (k == "content-type" or k.startswith("lca-"))}
    except UnicodeDecodeError as err:
        raise FormatError(f"a header of this message was not written by lca-stream: {err}") from err


def rows_from_bytes(value: bytes, headers: Iterable[tuple[str, bytes]] | None, *, column: str = "lca", registry: Schemas | None = None) -> pa.Table:
    """The rows of one output message, whatever its format: the input's columns and ours, then where they are from.

    ``column`` is ``transform.column``: in JSON and Avro, it names the columns that get the types which they have in Arrow. Other
    columns of Avro have the types of Arrow output too. Other numbers of JSON are float64, but integers of more than 15 digits
    int64 or uint64; its objects are structs, and what is null in all rows of the message has the type null. What
    Arrow has no type for, such as an integer beyond 64 bits or a list of numbers and text, makes its column JSON text.

    ``registry`` has the schemas of Avro and JSON Schema: a Registry, or a mapping from ids to texts of schemas. A schema that
    refers to others is a tuple there: those, each before it is used, and then itself.

    The last columns are ``lca_model_id`` (utf8), ``lca_version`` (int64, 0 where no model was known yet; with ``model.by: column:NAME``
    both are those of each row), ``lca_source_topic``
    (utf8), ``lca_source_partition`` (int32), ``lca_source_offset`` (int64) and ``lca_source_row`` (int64): the row within the
    input message.

    Raises FormatError for a message that cannot be read.
    """
    h = ours(headers)
    try:
        place = [h["lca-source-topic"], int(h["lca-source-partition"]), int(h["lca-source-offset"])] if "lca-source-offset" in h else []
        version = int(h.get("lca-model-version", 0))
    except (KeyError, ValueError) as err:
        raise FormatError(f"the headers of this message were not written by lca-stream: {err!r}") from err
    if "lca-source-offset" not in h:
        raise FormatError("this message was not written by lca-stream: it has no header lca-source-offset")
    if value is None:
        raise FormatError("this message is a tombstone: it has no rows")
    content = h.get("content-type", "")
    if value[:1] == b"\0":  # neither Arrow nor JSON begins so; the content-type is that of the input
        table = _from_registered(value, column, registry)
    elif content == JSON:
        table = _from_json(value, column)
    elif content == ARROW:
        try:
            table = read_stream(value)
        except ARROW_FAULTS as err:
            raise FormatError(f"this message is no Arrow stream: {err}") from err
    else:
        raise FormatError(f"this message has content-type {content!r} and names no schema; this package reads {ARROW}, {JSON} and what names its schema")
    n = table.num_rows
    table, of_rows = _models_of_rows(table, column, version, h.get("lca-model-id"))
    for name, type_, v in (
        ("lca_model_id", pa.string(), h.get("lca-model-id")),
        ("lca_version", pa.int64(), version),
        ("lca_source_topic", pa.string(), place[0]),
        ("lca_source_partition", pa.int32(), place[1]),
        ("lca_source_offset", pa.int64(), place[2]),
    ):
        table = table.append_column(pa.field(name, type_), of_rows[name] if name in of_rows else pa.repeat(pa.scalar(v, type_), n))
    return table.append_column("lca_source_row", pa.array(range(n), pa.int64()))


def _models_of_rows(table: pa.Table, column: str, version: int, model_id: str | None) -> tuple[pa.Table, dict[str, pa.ChunkedArray]]:
    """With model.by: column:NAME each row says its own model and version, and the headers none: what becomes of lca_model_id and lca_version,
    and the table without the column that already has one of these names."""
    models, versions = column + "_model", column + "_version"
    if version != 0 or table.schema.get_field_index(models) < 0 or table.schema.get_field_index(versions) < 0:
        return table, {}
    of_rows = {
        "lca_model_id": pc.fill_null(table[models].cast(pa.string()), pa.scalar(model_id or "", pa.string())),
        "lca_version": pc.fill_null(table[versions].cast(pa.int64()), 0),
    }
    return table.drop_columns([versions]) if versions in of_rows else table, of_rows


def _from_registered(value: bytes, column: str, registry: Schemas | None) -> pa.Table:
    """The rows of a value that names its schema: Avro, or JSON with a schema."""
    if len(value) < 5:
        raise FormatError("this message is cut off within the id of its schema")
    number, body = int.from_bytes(value[1:5], "big"), value[5:]
    if registry is None:
        raise FormatError(f"this message names schema {number} of a schema registry: say which, as in registry=lca_stream.Registry('http://localhost:8081')")
    try:
        texts = registry[number]
    except KeyError as err:
        raise FormatError(f"this message names schema {number}, which was not given") from err
    reader = _reader((texts,) if isinstance(texts, str) else tuple(texts))
    if reader is None:
        return _from_json(body, column)
    columns = reader.columns(body)
    for name in (column, column + "_why", column + "_imputed"):  # more is known of their types than Avro says
        if name in columns:
            columns[name] = _column(name, columns[name].to_pylist(), column)
    return pa.table(columns)


@functools.lru_cache(1000)
def _reader(texts: tuple[str, ...]) -> _avro.Reader | None:
    """Reads rows of the last of these schemas. None: it is a JSON Schema, which is not needed to read them."""
    try:
        schemas = [json.loads(text) for text in texts]
        return _avro.Reader(schemas) if schemas[-1].get("type") == "record" else None
    except FormatError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise FormatError(f"the schema of this message cannot be read: {err!r}: {texts[-1][:200]}") from err


def _from_json(value: bytes, column: str) -> pa.Table:
    """The rows of an object, an array of objects, or lines of objects."""
    try:
        values = list(_values(value.decode("utf-8-sig")))
    except (ValueError, RecursionError) as err:
        raise FormatError(f"this message is no JSON: {err}") from err
    rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if not all(isinstance(row, dict) for row in rows):
        raise FormatError("this message is JSON, but not of rows, which are objects")
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({_text(name): _column(name, [row.get(name) for row in rows], column) for name in names})


def _values(text: str) -> Iterator[object]:
    """The values of JSON that follow each other."""
    decoder = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < MOST_DIGITS else digits)
    at = _SPACE.match(text).end()
    while at < len(text):
        value, end = decoder.raw_decode(text, at)
        yield value
        at = _SPACE.match(text, end).end()


def _text(name: str) -> str:
    """A name that Arrow can hold: JSON may have half of a surrogate pair in it."""
    return name.encode(errors="backslashreplace").decode()


def _column(name: str, values: list, column: str) -> pa.Array:
    if name == column and any(isinstance(v, list) for v in values):
        return _vectors(values)
    if name == column and all(v is None for v in values):
        return pa.nulls(len(values))  # how long vectors are is known from other messages alone
    if name == column + "_why":
        item = pa.struct([pa.field("feature", pa.string(), nullable=False), pa.field("nats", pa.float32(), nullable=False)])
        return pa.array(values, pa.list_(pa.field("item", item, nullable=False)))
    if name == column + "_episode":
        return pa.array(values, pa.string())
    if name == column + "_imputed":
        return pa.array(values, pa.int16())
    if name in (column, column + "_score", column + "_p", column + "_recent_score", column + "_recent_p") or name.removeprefix(column + "_").isdigit():
        return pa.array(values, pa.float32())
    some = [v for v in values if v is not None]
    if some and not any(isinstance(v, bool) or not isinstance(v, int | float) for v in some):
        whole = all(isinstance(v, int) for v in some) and any(abs(v) >= 10**15 for v in some)
        return _typed(values, None if whole else pa.float64())
    return _typed(values)


def _typed(values: list, kind: pa.DataType | None = None) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.array([None if v is None else json.dumps(v) for v in values], pa.string())


def _vectors(values: list) -> pa.Array:
    k = next(len(v) for v in values if v is not None)
    numbers = np.array([np.zeros(k) if v is None else v for v in values], np.float32).reshape(-1)
    kind = pa.list_(pa.field("item", pa.float32(), nullable=False), k)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), type=kind, mask=pa.array([v is None for v in values]))
