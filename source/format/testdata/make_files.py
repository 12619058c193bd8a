"""Writes files/: one table of 250 rows in every file format and encoding that replay reads. The
tests compare what is read from each with what is read from table.arrow.

    pip install pyarrow==26.0.1 numpy
    python make_files.py
"""
import decimal
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parent / "files"
ROWS = 250
rng = np.random.default_rng(2)


def holes(a, t):
    return pa.array(a, t, mask=rng.random(len(a)) < 0.1)


def table():
    ints = rng.integers(-100, 100, ROWS)
    cols = {str(t): holes(np.abs(ints) if str(t)[0] == "u" else ints, t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())}
    for t in (pa.float16(), pa.float32(), pa.float64()):
        cols[str(t)] = holes(np.round(rng.normal(size=ROWS), 1).astype(t.to_pandas_dtype()), t)
    cols["full"] = pa.array(np.arange(ROWS, dtype=np.float32))
    cols["bool"] = holes(ints > 0, pa.bool_())
    cols["string"] = pa.array([None if k % 7 == 0 else "wörd%d" % (k % 5) for k in range(ROWS)])
    cols["binary"] = pa.array([bytes([k % 3, 255]) for k in range(ROWS)], pa.binary())
    cols["date"] = pa.array(ints.astype(np.int32)).cast(pa.date32())
    cols["time"] = pa.array(np.abs(ints).astype(np.int64)).cast(pa.time64("us"))
    cols["timestamp"] = pa.array(ints.astype(np.int64)).cast(pa.timestamp("ms", "UTC"))
    x = np.round(rng.normal(size=3 * ROWS), 1)
    cols["fsl"] = pa.FixedSizeListArray.from_arrays(pa.array(x, pa.float32()), 3, mask=pa.array(rng.random(ROWS) < 0.1))
    cols["list"] = pa.array([None if k % 11 == 0 else [float(v) if v < 3 else None for v in range(k % 5)] for k in range(ROWS)], pa.list_(pa.float64()))
    return pa.table(cols)


def nested():
    """Columns that Parquet stores in levels, or in another type than Arrow's."""
    rng = np.random.default_rng(3)
    some = lambda f: [None if rng.random() < 0.15 else f() for _ in range(ROWS)]
    word = lambda: "wörd%d" % rng.integers(5)
    several = lambda f: [None if rng.random() < 0.1 else f() for _ in range(rng.integers(5))]
    point = lambda: {"temp": None if rng.random() < 0.2 else float(rng.integers(50)), "tags": None if rng.random() < 0.2 else several(word)}
    point_type = pa.struct([("temp", pa.float32()), ("tags", pa.list_(pa.string()))])
    digits = lambda n: decimal.Decimal(int(rng.integers(-10**9, 10**9)) * 10 ** (n - 9)).scaleb(-2)
    cols = {
        "struct": pa.array(some(lambda: {"after": None if rng.random() < 0.2 else point(), "id": int(rng.integers(9))}), pa.struct([("after", point_type), ("id", pa.int64())])),
        "structs": pa.array(some(lambda: several(point)), pa.list_(point_type)),
        "lists": pa.array(some(lambda: several(lambda: several(lambda: int(rng.integers(9))))), pa.list_(pa.list_(pa.int16()))),
        "texts": pa.array(some(lambda: several(word)), pa.list_(pa.string())),
        "map": pa.array(some(lambda: [(word(), None if rng.random() < 0.2 else float(k)) for k in range(rng.integers(4))]), pa.map_(pa.string(), pa.float64())),
        "fixed": pa.array(some(lambda: rng.bytes(5)), pa.binary(5)),
    }
    for n in (9, 18, 38, 60):
        cols["decimal%d" % n] = pa.array(some(lambda: digits(n)), (pa.decimal128 if n < 39 else pa.decimal256)(n, 2))
    cols["nothing"] = pa.nulls(ROWS)
    cols["nanoseconds"] = pa.array(some(lambda: int(rng.integers(-10**18, 10**18))), pa.timestamp("ns"))
    return pa.table(cols)


def main():
    OUT.mkdir(exist_ok=True)
    for old in OUT.glob("*"):
        old.unlink()
    t = table()
    words = pa.DictionaryArray.from_arrays(pa.array([k % 3 for k in range(ROWS)], pa.int8()), pa.array(["a", "b", "c"]))
    ipc = t.append_column("dictionary", words)
    with pa.ipc.new_file(OUT / "table.arrow", ipc.schema) as w:
        w.write_table(ipc, max_chunksize=100)
    with pa.ipc.new_stream(OUT / "table.arrows", ipc.schema) as w:
        w.write_table(ipc, max_chunksize=70)
    with pa.ipc.new_file(OUT / "zstd.arrow", ipc.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as w:
        w.write_table(ipc)
    # a stream whose dictionary changes on the way
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])
    with pa.ipc.new_stream(OUT / "replaced.arrows", schema) as w:
        for words in (["a", "b"], ["c", "d"], ["e", "f"]):
            w.write_batch(pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(words))], schema=schema))
    for codec in ("none", "snappy", "zstd", "lz4", "gzip", "brotli"):
        pq.write_table(t, OUT / (codec + ".parquet"), compression=codec, row_group_size=100)
    numbers = ["float32", "float64", "full"]
    pq.write_table(t, OUT / "split.parquet", compression="zstd", use_dictionary=False,
                   column_encoding={c: "BYTE_STREAM_SPLIT" for c in numbers})
    pq.write_table(t, OUT / "delta.parquet", compression="zstd", use_dictionary=False, data_page_version="2.0",
                   column_encoding={"int32": "DELTA_BINARY_PACKED", "int64": "DELTA_BINARY_PACKED", "string": "DELTA_BYTE_ARRAY", "binary": "DELTA_LENGTH_BYTE_ARRAY"})
    pq.write_table(t, OUT / "pages.parquet", compression="zstd", data_page_size=256, write_batch_size=16, write_page_index=True, version="1.0")
    pq.write_table(t.append_column("decimal", t["int32"].cast(pa.decimal128(12, 0))), OUT / "decimal.parquet", compression="zstd")
    t = nested()
    with pa.ipc.new_file(OUT / "nested.arrow", t.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as w:
        w.write_table(t)
    pq.write_table(t, OUT / "nested.parquet", compression="zstd", row_group_size=120, data_page_size=64, write_batch_size=16)
    pq.write_table(t, OUT / "nested1.parquet", compression="zstd", use_dictionary=False, store_decimal_as_integer=True, data_page_size=64,
                   write_batch_size=16, use_compliant_nested_type=False, use_deprecated_int96_timestamps=True)
    nested_dictionary()


def nested_dictionary():
    """A dictionary whose values are one, for which Arrow IPC has no form."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", "y"]))
    batch = pa.record_batch({"c": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), words)})
    with pa.ipc.new_stream(OUT.parent / "nested_dictionary.arrows", batch.schema) as w:
        w.write_batch(batch)


main()
