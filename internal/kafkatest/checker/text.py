"""Messages that are JSON, as tables, and what was added to their text."""

import json

import numpy as np
import pyarrow as pa

JSON = "application/json"


def is_text(value):
    return value.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def objects(value):
    """The text, and from where to where each row stands in it: an object, an array of them, or lines of them."""
    text, reader, places = value.decode(), json.JSONDecoder(), []
    i = skip(text, 0, "\ufeff")
    array = text[i] == "["
    i = skip(text, i + 1) if array else i
    while i < len(text) and text[i] != "]":
        row, end = reader.raw_decode(text, i)
        if not isinstance(row, dict):
            raise ValueError("a row is no object")
        places.append((i, end))
        i = skip(text, end, "," if array else "")
    if array and (text[i:i + 1] != "]" or skip(text, i + 1) != len(text)):
        raise ValueError("the array does not end")
    return text, places


def skip(text, i, more=""):
    while i < len(text) and text[i] in " \t\r\n" + more:
        i += 1
    return i


def table(value):
    """The rows of a message; keys that a row does not have are null."""
    text, places = objects(value)
    return of_rows([json.loads(text[a:b]) for a, b in places])


def of_rows(rows):
    names = list(dict.fromkeys(k for row in rows for k in row))
    columns = {n: pa.array([row.get(n) for row in rows]) for n in names}
    return pa.table({n: c.cast(pa.float64()) if pa.types.is_null(c.type) else c for n, c in columns.items()})


def added(before, after, column, layout, width):
    """The keys that after has in addition to before, as columns of the types that Arrow outputs have, where width is the length of
    vectors. None if after is anything else than the text of before with keys at the end of each row."""
    (was, old), (now, new) = objects(before), objects(after)
    if len(old) != len(new):
        return None
    rows, at, to = [], 0, 0
    for (a, b), (c, d) in zip(old, new):
        own, whole = was[a:b - 1], now[c:d - 1]
        if was[at:a] != now[to:c] or not whole.startswith(own):
            return None
        ours = whole[len(own):]
        empty = own.strip() == "{"
        if ours.startswith(",") == empty:
            return None
        rows.append(json.loads("{" + ours.removeprefix(",") + "}", object_pairs_hook=once))
        at, to = b, d
    return typed(rows, column, layout, width) if was[at:] == now[to:] else None


def once(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


def typed(rows, column, layout, width):
    names = list(rows[0]) if rows else []
    if any(list(row) != names for row in rows):
        raise ValueError("rows have different keys")
    columns = {}
    for n in names:
        values = [row[n] for row in rows]
        if n == column and layout == "vector":
            k = next((len(v) for v in values if v is not None), width)
            kind = pa.list_(pa.field("item", pa.float32(), nullable=False), k)
            numbers = np.array([np.zeros(k) if v is None else v for v in values], np.float32).reshape(-1)
            columns[n] = pa.FixedSizeListArray.from_arrays(pa.array(numbers), type=kind, mask=pa.array([v is None for v in values]))
        elif n == column + "_why":
            columns[n] = pa.array(values, pa.list_(pa.struct([("feature", pa.string()), ("nats", pa.float32())])))
        elif n == column + "_episode":
            columns[n] = pa.array(values, pa.string())
        else:
            columns[n] = pa.array(values, pa.int16() if n == column + "_imputed" else pa.float32())
    return pa.table(columns)
