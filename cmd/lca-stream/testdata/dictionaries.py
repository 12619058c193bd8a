"""Whitens files and streams whose dictionaries differ into one Arrow file, and reads it with pyarrow, polars and pandas.
usage: dictionaries.py DIRECTORY, which is empty"""
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

os.chdir(sys.argv[1])
rng = np.random.default_rng(1)


def lca(*arguments, **more):
    return subprocess.run(["lca-stream", "transform", "--model", "model.arrows", *arguments], capture_output=True, **more)


def words(values, t=pa.string(), index=pa.int8(), ordered=False):
    """A dictionary of its own for each array: the words in the order in which they come."""
    known = list(dict.fromkeys(v for v in values if v is not None))
    places = [None if v is None else known.index(v) for v in values]
    return pa.DictionaryArray.from_arrays(pa.array(places, index), pa.array(known, t), ordered=ordered)


def rows(**columns):
    n = len(next(iter(columns.values())))
    a = rng.normal(size=n)
    return pa.table({"a": a, "b": a + rng.normal(size=n), **columns})


def feather(name, table):
    with pa.ipc.new_file(name, table.schema) as w:
        w.write_table(table)
    return name


def same(name, out, inputs, polars=True):
    want = {c: [v for t in inputs for v in t[c].to_pylist()] for c in inputs[0].column_names}
    got = pa.ipc.open_file(out).read_all()
    got.validate(full=True)
    for c, values in want.items():
        assert got[c].to_pylist() == values, (name, c, got[c].to_pylist()[:9], values[:9])
    if polars:
        frame = pl.read_ipc(out)
        for c, values in want.items():
            assert frame[c].to_list() == values, (name, c, frame[c].to_list()[:9], values[:9])
    return got


def one(name, tables, polars=True):
    inputs = [feather(f"{name}{i}.arrow", t) for i, t in enumerate(tables)]
    done = lca(*[x for i in inputs for x in ("--input", i)], "-o", name + ".arrow")
    assert done.returncode == 0, (name, done.stderr)
    return same(name, name + ".arrow", tables, polars)


sample = rows(x=list(range(200)))
feather("sample.arrow", sample)
subprocess.run(["lca-stream", "replay", "--algorithm", "gaussian", "--input", "sample.arrow", "-o", "model.arrows", "--set", "source.features=[a,b]"], check=True, capture_output=True)

# pandas' categories: the everyday case.
months = []
for name, states in (("jan", ["idle", "run"]), ("feb", ["run", "stop", "fault"]), ("mar", ["idle", "run"])):
    n = 60
    a = rng.normal(size=n)
    pd.DataFrame({"a": a, "b": a + rng.normal(size=n), "state": pd.Categorical([states[i % len(states)] for i in range(n)])}).to_feather(name + ".feather")
    months.append(pa.ipc.open_file(name + ".feather").read_all())
done = lca("--input", "jan.feather", "--input", "feb.feather", "--input", "mar.feather", "-o", "months.arrow")
assert done.returncode == 0, done.stderr
got = same("months", "months.arrow", months)
assert got.schema.field("state").type.index_type == pa.int32(), got.schema
frame = pd.read_feather("months.arrow")
assert list(frame["state"].astype(str)) == got["state"].to_pylist() and frame["state"].dtype == "category"

# One file has each dictionary once, and keeps its types.
done = lca("--input", "jan.feather", "-o", "one.arrow")
assert done.returncode == 0, done.stderr
got = same("one", "one.arrow", months[:1])
assert got.schema.field("state").type == months[0].schema.field("state").type, got.schema

# polars' Categorical.
for i, states in enumerate((["x", "y"], ["z", "y", None])):
    pl.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30), "view": ["text"] * 30, "c": pl.Series([states[k % len(states)] for k in range(30)], dtype=pl.Categorical)}).write_ipc(f"polars{i}.arrow")
done = lca("--input", "polars0.arrow", "--input", "polars1.arrow", "-o", "polars.arrow")
assert done.returncode == 0, done.stderr
want = pl.read_ipc("polars0.arrow")["c"].to_list() + pl.read_ipc("polars1.arrow")["c"].to_list()
assert pa.ipc.open_file("polars.arrow").read_all()["c"].to_pylist() == want and pl.read_ipc("polars.arrow")["c"].to_list() == want

# A stream whose dictionary is replaced, grows, and is replaced again: as a file, and on standard input.
batches = [rows(s=words(v)).combine_chunks().to_batches()[0] for v in (["x", "y", "x"], ["q", None, "r", "s"], ["y", "q"], ["y", "q", "new"])]
with pa.ipc.new_stream("grow.arrows", batches[0].schema) as w:
    for b in batches:
        w.write_batch(b)
tables = [pa.Table.from_batches([b]) for b in batches]
assert lca("--input", "grow.arrows", "-o", "grow.arrow").returncode == 0
same("grow", "grow.arrow", tables)
assert lca("--input", "-", "-o", "pipe.arrow", stdin=open("grow.arrows", "rb")).returncode == 0
same("pipe", "pipe.arrow", tables)

# Within structs, lists, lists of structs and maps; words that are numbers or null; nulls, empty lists, slices.
def nested(word):
    inner = words([word, "same", None, word])
    return rows(
        struct=pa.StructArray.from_arrays([inner, pa.array([1, 2, 3, 4])], ["state", "n"]),
        list=pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), inner),
        structs=pa.ListArray.from_arrays(pa.array([0, 1, 1, 4, 4], pa.int32()), pa.StructArray.from_arrays([inner], ["state"])),
        map=pa.MapArray.from_arrays(pa.array([0, 1, 1, 4, 4], pa.int32()), pa.array(["k", "l", "m", "n"]), inner),
        numbers=words([len(word), 7, None, 8], pa.int64()),
        times=words([len(word), 7, 7, 7], pa.timestamp("us")),
        bytes=words([word.encode(), b"", b"\xff", None], pa.binary()),
        null=pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0], pa.int8()), pa.array([word, None])),
        empty=words([None] * 4),
    )


one("nested", [nested("alpha"), nested("be"), nested("gamma ray"), nested("alpha")], polars=False)
one("sliced", [nested("alpha").slice(1, 2), nested("be").slice(2)], polars=False)

# Next to types of which the library makes no rows, and within them.
def unusual(word):
    inner = words([word, "same"])
    return rows(
        view=pa.array([word, "a text of more than twelve bytes"], pa.string_view()),
        views=pa.array([[1], []], pa.list_view(pa.int64())),
        union=pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([1, 0], pa.int32()), [inner, pa.array([1])]),
        runs=pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), inner),
        words=pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([[len(word)]], pa.list_view(pa.int64()))),
    )


one("unusual", [unusual("alpha"), unusual("be").slice(0, 0), unusual("gamma ray")], polars=False)
assert lca("--input", feather("none.arrow", unusual("none").slice(0, 0)), "-o", "empty.arrow").returncode == 0
assert pa.ipc.open_file("empty.arrow").read_all().num_rows == 0

# More words than indices of 8 bits number.
many = one("many", [rows(s=words([f"{k}-{i}" for i in range(100)])) for k in range(5)])
assert many.schema.field("s").type.index_type == pa.int32()

# Words in an order keep it, or are refused.
order = one("ordered", [rows(s=words(["low", "mid"], ordered=True)), rows(s=words(["low", "mid", "high"], ordered=True))], polars=False)
assert order.schema.field("s").type.ordered
inputs = [feather(f"odd{i}.arrow", rows(s=words(v, ordered=True))) for i, v in enumerate((["low", "high"], ["low", "mid", "high"]))]
done = lca("--input", inputs[0], "--input", inputs[1], "-o", "odd.arrow")
assert done.returncode == 2 and b'column "s"' in done.stderr and b".arrows or .parquet" in done.stderr and not os.path.exists("odd.arrow"), done

# What we have written is read by us.
done = subprocess.run(["lca-stream", "replay", "--algorithm", "gaussian", "--input", "nested.arrow", "-o", "again.arrows", "--set", "source.features=[a,b]"], capture_output=True)
assert done.returncode == 0, done.stderr
print("ok")
