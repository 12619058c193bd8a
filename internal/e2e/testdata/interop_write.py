"""Writes Arrow messages as other programs do: one file a message, in the order of their names.

usage: interop_write.py DIR PASSTHROUGH, a stream of one batch with a column of every type.

Every message has the eleven features f_TYPE, by name; the rest differs. 000 to 029 are plain rows to
learn from. The later ones are named after what is special about them.
"""
import datetime as dt
import decimal
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

folder, passthrough = sys.argv[1:]
rng = np.random.default_rng(7)
TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
SCALE = [10, 3000, 1e6, 1e9, 20, 6000, 1e6, 1e9, 2, 1e-4, 1e5]  # of each type, well within its range
count = 0


def features(n):
    """Two clusters along every axis at once, and noise; unsigned columns are shifted to be positive."""
    side = rng.integers(0, 2, n)[:, None] * 4 - 2
    z = side * np.linspace(1, 0, len(TYPES)) + rng.normal(size=(n, len(TYPES)))
    out = {}
    for k, (t, s) in enumerate(zip(TYPES, SCALE)):
        v = z[:, k] * s + (6 * s if t.startswith("u") else 0)
        if not t.startswith("float"):
            info = np.iinfo(t)
            v = np.clip(np.round(v), info.min, info.max)
        out["f_" + t] = v.astype(t)
    return out


def save(name, data):
    global count
    with open(f"{folder}/{count:03d}-{name}", "wb") as f:
        f.write(data)
    count += 1


def stream(*tables, options=None):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema, options=options) as w:
        for t in tables:
            w.write_table(t)
    return sink.getvalue().to_pybytes()


def plain(n):
    return pa.table(features(n))


for _ in range(30):
    save("learn.arrows", stream(plain(40)))

# pyarrow: every type that passes through, with metadata, and nulls in every column but the features.
wide = pa.ipc.open_stream(passthrough).read_all()
more = plain(wide.num_rows)
fields = list(wide.schema) + [f.with_metadata({"unit": "bar"}) for f in more.schema]
save("pyarrow-every-type.arrows", stream(pa.table(wide.columns + more.columns, pa.schema(fields, metadata=wide.schema.metadata))))

# pyarrow: features as dictionaries, as pandas' categories are; several batches; compressed bodies.
dictionary = plain(7)
for i in (1, 4, 10):
    dictionary = dictionary.set_column(i, dictionary.schema.field(i).name, dictionary[i].combine_chunks().dictionary_encode())
save("pyarrow-dictionary-features.arrows", stream(dictionary))
save("pyarrow-batches.arrows", stream(plain(3), plain(1), plain(5)))
for codec in ("lz4", "zstd"):
    save(f"pyarrow-{codec}.arrows", stream(plain(50), options=pa.ipc.IpcWriteOptions(compression=codec)))
save("pyarrow-null-features.arrows", stream(plain(4).set_column(2, "f_int32", pa.array([1, None, 3, 4], pa.int32()))))

# pandas through pyarrow: an index, categories, and its own metadata.
df = pd.DataFrame({**features(6), "site": pd.Categorical(list("abacab")), "at": pd.date_range("2026-01-01", periods=6, tz="UTC")},
                  index=pd.Index([10, 20, 30, 40, 50, 60], name="key"))
save("pandas.arrows", stream(pa.Table.from_pandas(df)))

# polars: what it has, in its newest layout (views) and in the oldest.
n = 6
df = pl.DataFrame(features(n)).with_columns(
    pl.Series("text", ["alpha", None, "a text of more than twelve bytes", "δ", "", "z"]),
    pl.Series("bytes", [b"\x00\x01", None, b"more than twelve bytes of them", b"", b"x", b"y"]),
    pl.Series("category", list("abacab"), pl.Categorical),
    pl.Series("enum", list("xyxyxy"), pl.Enum(["x", "y"])),
    pl.Series("flag", [True, None, False, True, False, True]),
    pl.Series("date", [dt.date(2026, 1, 1 + i) for i in range(n)]),
    pl.Series("time", [dt.time(1, 2, i) for i in range(n)]),
    pl.Series("at", [dt.datetime(2026, 1, 1, i) for i in range(n)]).dt.replace_time_zone("Europe/Paris"),
    pl.Series("took", [dt.timedelta(milliseconds=i) for i in range(n)]),
    pl.Series("price", [decimal.Decimal(i) / 4 for i in range(n)], pl.Decimal(12, 2)),
    pl.Series("list", [[1, 2], [], None, [3], [4, None], [5]], pl.List(pl.Int16)),
    pl.Series("texts", [["p"], [], None, ["a text of more than twelve bytes"], ["q", None], []], pl.List(pl.String)),
    pl.Series("pair", [[i, i + 1] for i in range(n)], pl.Array(pl.Float32, 2)),
    pl.Series("struct", [{"a": i, "b": str(i)} for i in range(n)]),
    pl.Series("nothing", [None] * n),
)
for level in ("newest", "oldest"):
    path = f"{folder}/{count:03d}-polars-{level}.arrows"
    df.write_ipc_stream(path, compat_level=getattr(pl.CompatLevel, level)())
    count += 1
for codec in ("lz4", "zstd"):
    path = f"{folder}/{count:03d}-polars-{codec}.arrows"
    df.write_ipc_stream(path, compression=codec)
    count += 1
print(count)
