"""Output messages as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from lca_stream._files import FormatError

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"


def rows_from_bytes(value: bytes, headers: Iterable[tuple[str, bytes]], *, column: str = "lca") -> pa.Table:
    """The rows of one output message, Arrow or JSON: the input's columns and ours, then where they are from.

    ``column`` is ``transform.column``: in JSON, it names the columns that get the types which they have in Arrow. The other
    numbers of JSON are float64, but integers of more than 15 digits int64 or uint64; its objects are structs.

    The last columns are ``lca_model_id`` (utf8), ``lca_version`` (int64, 0 where no model was known yet), ``lca_source_topic``
    (utf8), ``lca_source_partition`` (int32), ``lca_source_offset`` (int64) and ``lca_source_row`` (int64): the row within the
    input message.
    """
    h = {k: v.decode() for k, v in headers if v is not None}
    if "lca-source-offset" not in h:
        raise FormatError("this message was not written by lca-stream: it has no header lca-source-offset")
    content = h.get("content-type", "")
    if content == JSON:
        table = _from_json(value, column)
    elif content == ARROW:
        table = pa.ipc.open_stream(value).read_all()
    else:
        raise FormatError(f"this message has content-type {content!r}; this package reads {ARROW} and {JSON}")
    n = table.num_rows
    for name, type_, v in (
        ("lca_model_id", pa.string(), h.get("lca-model-id")),
        ("lca_version", pa.int64(), int(h.get("lca-model-version", 0))),
        ("lca_source_topic", pa.string(), h["lca-source-topic"]),
        ("lca_source_partition", pa.int32(), int(h["lca-source-partition"])),
        ("lca_source_offset", pa.int64(), int(h["lca-source-offset"])),
    ):
        table = table.append_column(pa.field(name, type_), pa.repeat(pa.scalar(v, type_), n))
    return table.append_column("lca_source_row", pa.array(range(n), pa.int64()))


def _from_json(value: bytes, column: str) -> pa.Table:
    """The rows of an object, an array of objects, or lines of objects."""
    text = value.decode("utf-8-sig")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = [rows] if isinstance(rows, dict) else rows
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column(name, [row.get(name) for row in rows], column) for name in names})


def _column(name: str, values: list, column: str) -> pa.Array:
    if name == column and any(isinstance(v, list) for v in values):
        return _vectors(values)
    if name == column and all(v is None for v in values):
        return pa.nulls(len(values))  # how long vectors are is known from other messages alone
    if name == column + "_why":
        item = pa.struct([pa.field("feature", pa.string(), nullable=False), pa.field("nats", pa.float32(), nullable=False)])
        return pa.array(values, pa.list_(pa.field("item", item, nullable=False)))
    if name == column + "_imputed":
        return pa.array(values, pa.int16())
    if name in (column, column + "_score", column + "_p") or name.removeprefix(column + "_").isdigit():
        return pa.array(values, pa.float32())
    some = [v for v in values if v is not None]
    if not any(isinstance(v, bool) or not isinstance(v, int | float) for v in some):
        whole = all(isinstance(v, int) for v in some) and any(abs(v) >= 10**15 for v in some)
        return pa.array(values, None if whole else pa.float64())
    return pa.array(values)


def _vectors(values: list) -> pa.Array:
    k = next(len(v) for v in values if v is not None)
    numbers = np.array([np.zeros(k) if v is None else v for v in values], np.float32).reshape(-1)
    kind = pa.list_(pa.field("item", pa.float32(), nullable=False), k)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), type=kind, mask=pa.array([v is None for v in values]))
