"""Features as numbers, from tables whose columns may be nested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def matrix(rows: pa.Table | pa.RecordBatch | Iterable[pa.Table | pa.RecordBatch], features: Sequence[str]) -> np.ndarray:
    """The features of one table, or of several after each other: float64, shape (rows, features), with NaN for null.

    A feature is the name of a column, ``v[2]`` an element of the list column ``v``, and ``payload.after.temp`` a path: a field of
    a struct, a place in a list, or a key of a map, as in ``source.features``. A name is taken exactly first, and as a
    path only where no column has it. A feature that only some of the tables have is NaN in the others: a key that no JSON row of a
    message has is no column of its table. Text that is no number is NaN: the row has no result. Raises KeyError where there are rows, and no table has a feature.
    """
    tables = [rows] if isinstance(rows, pa.Table | pa.RecordBatch) else rows
    found, lacking = set(), {}

    def column(table, name):
        try:
            numbers = _numbers(_find(table, name))
        except KeyError as error:
            lacking.setdefault(name, error)
            return np.full(table.num_rows, np.nan)
        found.add(name)
        return numbers

    parts = [np.column_stack([column(t, name) for name in features]) for t in tables if t.num_rows > 0]
    for name, error in lacking.items():
        if name not in found:
            raise error
    return np.concatenate(parts) if parts else np.empty((0, len(features)))


def _numbers(column: pa.Array) -> np.ndarray:
    """Numbers, also those of JSON that are text, as float64; other text is NaN."""
    if pa.types.is_nested(column.type):
        raise KeyError(f"a feature is a number, and this is {column.type}")
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    try:
        column = column.cast(pa.float64())
    except pa.ArrowInvalid:
        column = pa.array([_number(text) for text in column.to_pylist()], pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _number(text: str | None) -> float:
    try:
        return float(text == "true") if text in ("true", "false") else float(text)
    except (TypeError, ValueError):
        return np.nan


def _find(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    for head, rest in _splits(name):
        if head in table.schema.names:
            found = _within(_whole(table[head]), rest)
            if found is not None:
                return found
    if name.endswith("]") and "[" in name:
        head, place = name[:-1].rsplit("[", 1)
        column = _find(table, head)
        if place.isdigit() and _is_list(column.type):
            return _element(column, int(place))
    raise KeyError(f"no column or path {name!r} in {table.schema.names}")


def _splits(name: str) -> Iterable[tuple[str, str]]:
    """The ways to read a name as a column and a path within it, the longest column first."""
    yield name, ""
    for i in range(len(name) - 2, 0, -1):
        if name[i] == ".":
            yield name[:i], name[i + 1 :]


def _within(column: pa.Array, path: str) -> pa.Array | None:
    """What is at a path within a column; None if nothing can be."""
    if not path or pa.types.is_null(column.type):  # within a null all is null
        return column
    for head, rest in _splits(path):
        inner = None
        if pa.types.is_struct(column.type) and column.type.get_field_index(head) >= 0:
            inner = pc.struct_field(column, head)
        elif _is_list(column.type) and head.isdigit():
            inner = _element(column, int(head))
        elif pa.types.is_map(column.type):
            inner = pc.map_lookup(column, head, "first")
        found = None if inner is None else _within(inner, rest)
        if found is not None:
            return found
    return None


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _element(lists: pa.Array, place: int) -> pa.Array:
    """One element of each list; null where a list is shorter, or null."""
    long = pc.fill_null(pc.greater(pc.list_value_length(lists), place), False)
    some = pc.list_element(lists.filter(long), place)
    where = np.cumsum(long.to_numpy(zero_copy_only=False)) - 1
    return some.take(pa.array(where, mask=~long.to_numpy(zero_copy_only=False)))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
