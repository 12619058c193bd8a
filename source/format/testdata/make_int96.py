"""Writes int96.parquet, with times in Parquet's deprecated INT96 as Spark, Hive and Impala write them, and int96.json: what
pyarrow reads from it as microseconds. pyarrow writes only what 64 bits of nanoseconds hold, so the values are put into the file.

    pip install pyarrow==26.0.1
    python make_int96.py
"""
import datetime
import json
import pathlib
import struct

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parent
DAY = 24 * 3600 * 10**9


def of(year, month, day, nanoseconds=0):
    return datetime.date(year, month, day).toordinal() + 1721425, nanoseconds


TIMES = [
    of(9999, 12, 31, DAY - 10**9), of(1, 1, 1), of(1970, 1, 1), of(1969, 12, 31, DAY - 1000), of(2262, 4, 11, 85636854775807),
    of(2262, 4, 12), of(1677, 9, 21), of(1600, 2, 29, 12345000), of(2300, 1, 1, 1000), of(9999, 12, 31, DAY - 1), None, (2**32 - 1, 0), of(2024, 2, 29, DAY - 1000),
]


def main():
    marks = [None if t is None else 7 * 10**15 + 10**9 * i + 7 for i, t in enumerate(TIMES)]
    column = pa.array(marks, pa.timestamp("ns"))
    table = pa.table({"t": column, "l": pa.array([[m] for m in marks], pa.list_(pa.timestamp("ns"))), "a": pa.array(range(len(TIMES)), pa.float64())})
    path = OUT / "int96.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)
    raw = path.read_bytes()
    for mark, time in zip(marks, TIMES):
        if time is not None:
            day, rest = divmod(mark, DAY)
            old = struct.pack("<QI", rest, day + 2440588)
            assert raw.count(old) == 2
            raw = raw.replace(old, struct.pack("<QI", time[1], time[0]))
    path.write_bytes(raw)
    read = pq.read_table(path, coerce_int96_timestamp_unit="us")["t"].cast(pa.int64()).to_pylist()
    read[TIMES.index((2**32 - 1, 0))] = None  # beyond microseconds of 64 bits; pyarrow wraps it
    (OUT / "int96.json").write_text(json.dumps(read) + "\n")


main()
