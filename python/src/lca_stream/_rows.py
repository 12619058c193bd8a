"""Output messages as tables."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lca_stream._files import FormatError

ARROW = "application/vnd.apache.arrow.stream"


def rows_from_bytes(value: bytes, headers: Iterable[tuple[str, bytes]]) -> pa.Table:
    """The rows of one output message: the input's columns and ours, then where they are from.

    The last columns are ``lca_model_id`` (utf8), ``lca_version`` (int64, 0 where no model was known yet), ``lca_source_topic``
    (utf8), ``lca_source_partition`` (int32), ``lca_source_offset`` (int64) and ``lca_source_row`` (int64): the row within the
    input message.
    """
    h = {k: v.decode() for k, v in headers if v is not None}
    if "lca-source-offset" not in h:
        raise FormatError("this message was not written by lca-stream: it has no header lca-source-offset")
    content = h.get("content-type", "")
    if content != ARROW:
        raise FormatError(f"this message has content-type {content!r}; this package reads {ARROW}")
    table = pa.ipc.open_stream(value).read_all()
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
