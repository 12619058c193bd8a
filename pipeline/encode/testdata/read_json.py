"""Compares an output message that is JSON with the Arrow message it came from.

usage: read_json.py INPUT OUTPUT: rows 0, 1, … of lca are [2i+1, 2i+2], row 3 is null.
"""
import base64
import datetime as dt
import decimal
import json
import math
import sys

import pyarrow as pa


def scalars(column):
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def same(kind, want, got):
    """Whether a JSON value is what Python has for a value of a type."""
    if want is None or isinstance(want, float) and not math.isfinite(want):
        return got is None
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return same(kind.value_type, want, got)
    if pa.types.is_struct(kind):
        return list(got) == [f.name for f in kind] and all(same(f.type, want[f.name], got[f.name]) for f in kind)
    if pa.types.is_map(kind):
        return len(dict(want)) == len(got) and all(same(kind.item_type, v, got[str(k)]) for k, v in dict(want).items())
    if isinstance(want, list):
        return len(want) == len(got) and all(same(kind.value_type, v, g) for v, g in zip(want, got))
    if isinstance(want, bytes):
        return base64.b64decode(got, validate=True) == want
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, decimal.Decimal):
        return decimal.Decimal(got.text) == want and len(got.text.partition(".")[2]) == kind.scale
    if isinstance(want, int):
        return got.text == str(want)
    if isinstance(want, float):
        number = float(got.text)
        return number == want or pa.scalar(number, kind).as_py() == want
    if isinstance(want, dt.timedelta):
        return math.isclose(float(got.text), want.total_seconds())
    if isinstance(want, dt.datetime):
        return dt.datetime.fromisoformat(got) == want and (dt.datetime.fromisoformat(got).tzinfo is None) == (want.tzinfo is None)
    if isinstance(want, dt.date):
        return dt.date.fromisoformat(got) == want
    if isinstance(want, dt.time):
        return dt.time.fromisoformat(got) == want
    if isinstance(want, pa.MonthDayNano):
        months, days, nanoseconds = want
        return got == f"P{months // 12}Y{months % 12}M{days}DT{decimal.Decimal(nanoseconds).scaleb(-9):f}S"
    return type(got) is str and got == want


class Number:
    """The digits as they stand, because Python would round them."""

    def __init__(self, text):
        self.text = text


before = pa.ipc.open_stream(sys.argv[1]).read_all().combine_chunks()
rows = json.load(open(sys.argv[2]), parse_float=Number, parse_int=Number)
assert len(rows) == before.num_rows
for i, row in enumerate(rows):
    assert list(row)[:-4] == before.column_names and list(row)[-4:] == ["lca", "lca_score", "lca_p", "lca_why"], list(row)
    for name in before.column_names:
        column = scalars(before[name].chunk(0))
        assert same(column.type, column[i].as_py(), row[name]), (name, i, column[i], row[name], getattr(row[name], "text", None))
    named = None if row["lca_why"] is None else [(e["feature"], float(e["nats"].text)) for e in row["lca_why"]]
    y = None if row["lca"] is None else [float(v.text) for v in row["lca"]]
    others = [row[k] if row[k] is None else float(row[k].text) for k in ("lca_score", "lca_p")]
    want = (None, None, [None, None]) if i == 3 else ([2.0 * i + 1, 2.0 * i + 2], [("α", 2.0), ("second", 1.0)], [float(i), i / 64])
    assert (y, named, others) == want, (i, y, named, others)
print(len(before.column_names), "columns passed through")
