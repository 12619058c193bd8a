"""Writes passthrough.arrows: one batch of every type that passes through, with metadata.

Run once with pyarrow 26: python make_passthrough.py passthrough.arrows
The test needs no Python; the script stands here to say where the bytes came from.
"""
import datetime as dt
import decimal
import sys

import pyarrow as pa

n = 5


def gaps(values):  # every third value is a null
    return [None if i % 3 == 1 else v for i, v in enumerate(values)]


class Celsius(pa.ExtensionType):  # unknown to every reader: storage and metadata must survive
    def __init__(self):
        super().__init__(pa.float32(), "example.celsius")

    def __arrow_ext_serialize__(self):
        return b'{"zero": 273.15}'


columns = {}
for t in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]:
    columns[t] = pa.array(gaps(range(n)), getattr(pa, t)())
for t in ["float16", "float32", "float64"]:
    columns[t] = pa.array(gaps([0.5, 1.0, float("inf"), -0.0, 2.0]), getattr(pa, t)())
columns["bool"] = pa.array(gaps([True, False, True, True, False]))
words = gaps(["alpha", "", "a word of more than twelve bytes", "δ", "z"])
for t in ["string", "large_string", "string_view"]:
    columns[t] = pa.array(words, getattr(pa, t)())
for t in ["binary", "large_binary", "binary_view"]:
    columns[t] = pa.array([w and w.encode() for w in words], getattr(pa, t)())
columns["fixed_binary"] = pa.array(gaps([bytes([i] * 3) for i in range(n)]), pa.binary(3))
columns["decimal128"] = pa.array(gaps([decimal.Decimal(i) / 4 for i in range(n)]), pa.decimal128(9, 2))
columns["decimal256"] = pa.array(gaps([decimal.Decimal(i) / 4 for i in range(n)]), pa.decimal256(50, 2))
columns["date32"] = pa.array(gaps([dt.date(2020, 1, 1 + i) for i in range(n)]), pa.date32())
columns["date64"] = pa.array(gaps([dt.date(2020, 1, 1 + i) for i in range(n)]), pa.date64())
columns["time32"] = pa.array(gaps(range(n)), pa.time32("ms"))
columns["time64"] = pa.array(gaps(range(n)), pa.time64("ns"))
columns["timestamp"] = pa.array(gaps(range(n)), pa.timestamp("us", tz="Europe/Paris"))
columns["duration"] = pa.array(gaps(range(n)), pa.duration("s"))
columns["interval"] = pa.array(gaps([pa.MonthDayNano([i, 2, 3]) for i in range(n)]))
columns["null"] = pa.nulls(n)
columns["list"] = pa.array(gaps([list(range(i)) for i in range(n)]), pa.list_(pa.int16()))
columns["large_list"] = pa.array(gaps([["x"] * i for i in range(n)]), pa.large_list(pa.string()))
columns["fixed_list"] = pa.array(gaps([[i, None] for i in range(n)]), pa.list_(pa.float64(), 2))
columns["struct"] = pa.array(gaps([{"a": i, "b": {"c": str(i)}} for i in range(n)]))
columns["map"] = pa.array(gaps([[("k", i)] * i for i in range(n)]), pa.map_(pa.string(), pa.int32()))
columns["dictionary"] = pa.array(gaps(["red", "red", "blue", "green", "red"])).dictionary_encode()
columns["dictionary_int"] = pa.array(gaps([10, 20, 10, 30, 10])).dictionary_encode()
columns["list_of_dictionary"] = pa.ListArray.from_arrays([0, 1, 1, 3, 4, 4], pa.array(["p", "q", "p", "q"]).dictionary_encode())
columns["sparse_union"] = pa.UnionArray.from_sparse(pa.array([0, 1, 0, 1, 0], pa.int8()), [pa.array(range(n)), pa.array(list("abcde"))])
columns["dense_union"] = pa.UnionArray.from_dense(
    pa.array([0, 1, 0, 1, 0], pa.int8()), pa.array([0, 0, 1, 1, 2], pa.int32()), [pa.array([1, 2, 3]), pa.array(["a", "b"])])
columns["run_end"] = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["on", "off"]))
columns["extension"] = pa.ExtensionArray.from_storage(Celsius(), pa.array(gaps([1, 2, 3, 4, 5]), pa.float32()))
columns["uuid"] = pa.array([bytes([i] * 16) for i in range(n)], pa.uuid())

fields = [pa.field(k, v.type, metadata={"unit": "k·" + k, "": "empty key"} if i % 2 else None) for i, (k, v) in enumerate(columns.items())]
schema = pa.schema(fields, metadata={"pandas": '{"index_columns": []}', "owner": "späti"})
with pa.ipc.new_stream(sys.argv[1], schema) as w:
    w.write_batch(pa.record_batch(list(columns.values()), schema=schema))
