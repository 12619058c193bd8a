"""Reads what became of the messages of interop_write.py with pyarrow, polars, DuckDB and ClickHouse.

usage: interop_read.py DIR, which holds NNN-name.arrows (the input), NNN.out (its output message),
NNN.version (the lca-model-version of its headers) and snapshot-VERSION-PART-CHUNK.arrows.

Every reader must find the input's columns equal, the same lca, lca_score and lca_p as pyarrow does, and in the
snapshot the W and μ that give that lca.
"""
import glob
import json
import sys

import chdb
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

folder = sys.argv[1]
FEATURES = ["f_" + t for t in
            ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]]

OURS = ["lca", "lca_score", "lca_p", "lca_recent_score", "lca_recent_p", "lca_why"]

# What a reader itself cannot take in, tried with the columns alone; all else must be there.
POLARS_CANNOT = {"decimal256", "interval", "sparse_union", "dense_union", "run_end"}
DUCKDB_CANNOT = {"decimal256", "dense_union", "float16", "f_float16",
                 "map", "timestamp", "at"}  # a key twice in one map; zoned times want pytz in Python
CLICKHOUSE_CANNOT = {"interval", "null", "nothing", "run_end"}


def read(path):
    return pa.ipc.open_stream(path).read_all()


def write(table, path):
    with pa.ipc.new_stream(path, table.schema) as w:
        w.write_table(table)
    return path


def numbers(table):
    """The features as float64, and which rows have them all."""
    columns = [table[f].combine_chunks() for f in FEATURES]
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    valid = np.logical_and.reduce([np.array(c.is_valid()) for c in columns])
    return np.stack([c.filter(pa.array(valid)).to_numpy(zero_copy_only=False).astype(np.float64) for c in columns], 1), valid


def model(version, part="model"):
    return sorted(glob.glob(f"{folder}/snapshot-{version}-{part}-*.arrows"))


# Each reader's way from the chunks of a snapshot to kind and vector.
def by_pyarrow(chunks):
    t = pa.concat_tables(read(c) for c in chunks)
    return t["kind"].to_pylist(), np.stack(t["vector"].to_numpy(zero_copy_only=False))


def by_polars(chunks):
    t = pl.concat([pl.read_ipc_stream(c) for c in chunks])
    return t["kind"].to_list(), t["vector"].to_numpy()


def by_duckdb(chunks):
    t = pa.concat_tables(read(c) for c in chunks)  # DuckDB reads Arrow tables where they are
    r = duckdb.sql("SELECT kind, vector FROM t").fetchall()
    return [k for k, _ in r], np.array([v for _, v in r], np.float64)


def by_clickhouse(chunks):
    kinds, vectors = [], []
    for c in chunks:
        query = f"SELECT kind, vector FROM file('{c}', ArrowStream) SETTINGS max_threads = 1"  # one thread, so that rows stay in order
        r = json.loads(chdb.query(query, "JSONCompact").bytes())["data"]
        kinds, vectors = kinds + [k for k, _ in r], vectors + [v for _, v in r]
    return kinds, np.array(vectors, np.float64)


READERS = {"pyarrow": by_pyarrow, "polars": by_polars, "duckdb": by_duckdb, "clickhouse": by_clickhouse}
worst = {name: 0.0 for name in READERS}


def whitened(reader, version, x):
    kind, vector = READERS[reader](model(version))
    kind = np.array(kind)
    return (x - vector[kind == "mean"]) @ vector[kind == "whiten"].T


def check_model(name, before, after, version):
    x, valid = numbers(before)
    got = np.stack(after["lca"].filter(pa.array(valid)).to_numpy(zero_copy_only=False))
    assert [v is not None for v in after["lca"].to_pylist()] == list(valid), name
    for column in OURS[1:]:
        assert [v is not None for v in after[column].to_pylist()] == list(valid), name
    for reader in READERS:
        y = whitened(reader, version, x)
        error = np.abs(got - y).max() / max(1, np.abs(y).max())
        assert error <= 1e-5, (name, reader, error)
        worst[reader] = max(worst[reader], error)


def plain(before):
    """A dictionary of views, as polars writes, comes out as a dictionary of plain text: docs/wire-format.md says so."""
    for i, f in enumerate(before.schema):
        if pa.types.is_dictionary(f.type) and f.type.value_type == pa.string_view():
            t = pa.dictionary(f.type.index_type, pa.string(), f.type.ordered)
            c = before[f.name].combine_chunks()
            c = pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.string()), ordered=f.type.ordered)
            before = before.set_column(i, f.with_type(t), c)
    return before


def check_pyarrow(name, before, after):
    before = plain(before)
    after.validate(full=True)
    assert after.column_names[-len(OURS):] == OURS, name
    kept = after.drop(OURS)
    assert kept.schema.equals(before.schema, check_metadata=True), (name, kept.schema, before.schema)
    for c in before.column_names:
        assert kept[c].combine_chunks().equals(before[c].combine_chunks()), (name, c)


def check_polars(name, before, after, path):
    skip = [c for c in after.column_names if c in POLARS_CANNOT]
    if skip:
        path = write(after.drop(skip), f"{folder}/polars.arrows")
    t = pl.read_ipc_stream(path)
    original = pl.read_ipc_stream(write(before.drop([c for c in before.column_names if c in skip]), f"{folder}/before.arrows"))
    assert t.drop(*OURS).equals(original, null_equal=True), name
    assert t.drop(*OURS).schema == original.schema, (name, t.schema, original.schema)
    assert t["lca"].dtype == pl.Array(pl.Float32, len(FEATURES)) and t["lca_score"].dtype == pl.Float32, t.schema
    assert t["lca"].to_list() == after["lca"].to_pylist() and t["lca_score"].to_list() == after["lca_score"].to_pylist(), name
    assert t["lca_p"].to_list() == after["lca_p"].to_pylist() and t["lca_why"].to_list() == after["lca_why"].to_pylist(), name


def check_duckdb(name, before, after):
    t = after.select([c for c in after.column_names if c not in DUCKDB_CANNOT])
    original = before.select([c for c in before.column_names if c not in DUCKDB_CANNOT])
    r = duckdb.sql(f"SELECT {', '.join(OURS)} FROM t").fetchall()
    assert [None if v is None else list(v) for v, *_ in r] == after["lca"].to_pylist(), name
    assert [row[1:] for row in r] == list(zip(*(after[c].to_pylist() for c in OURS[1:]))), name
    got = duckdb.sql(f"SELECT * EXCLUDE ({', '.join(OURS)}) FROM t").fetchall()
    assert repr(got) == repr(duckdb.sql("SELECT * FROM original").fetchall()), name


def clickhouse(path, columns):
    names = ", ".join("`" + c + "`" for c in columns)
    # With several threads record batches may come in another order.
    text = chdb.query(f"SELECT {names} FROM file('{path}', ArrowStream) SETTINGS max_threads = 1", "JSONCompact").bytes()
    answer = json.loads(text)
    return answer["meta"], answer["data"]


def check_clickhouse(name, before, after, path):
    if any(c in CLICKHOUSE_CANNOT for c in after.column_names):
        path = write(after.select([c for c in after.column_names if c not in CLICKHOUSE_CANNOT]), f"{folder}/clickhouse.arrows")
    columns = [c for c in before.column_names if c not in CLICKHOUSE_CANNOT]
    original = write(before.select(columns), f"{folder}/before.arrows")
    assert clickhouse(path, columns) == clickhouse(original, columns), name
    _, rows = clickhouse(path, OURS)
    for (v, s, *_, named), want, score, why in zip(rows, *(after[c].to_pylist() for c in ("lca", "lca_score", "lca_why")), strict=True):
        # ClickHouse has no null in place of an array: there it is empty.
        assert np.array_equal(np.array(v, np.float32), np.array(want or [], np.float32)), (name, v, want)
        assert (s is None) == (score is None) and (s is None or np.float32(s) == np.float32(score)), (name, s, score)
        assert [e["feature"] for e in named] == [e["feature"] for e in why or []], (name, named, why)


inputs = sorted(glob.glob(folder + "/[0-9]*-*.arrows"))
versions = set()
for path in inputs:
    number = path.rsplit("/", 1)[1][:3]
    name, out = path.rsplit("/", 1)[1], f"{folder}/{number}.out"
    before, after = read(path), read(out)
    version = open(f"{folder}/{number}.version").read()
    if name.endswith("-learn.arrows") and version in versions:
        continue  # one message of each model will do
    versions.add(version)
    check_pyarrow(name, before, after)
    check_model(name, before, after, version)
    check_polars(name, before, after, out)
    check_duckdb(name, before, after)
    check_clickhouse(name, before, after, out)

# The neighbours, too.
chunks = model(max(versions, key=int), "neighbours")
pool = pa.concat_tables(read(c) for c in chunks)
want = np.stack(pool["x"].to_numpy(zero_copy_only=False))
assert want.dtype == np.float32 and want.shape[1] == len(FEATURES) and len(want) > 0
assert (pl.concat([pl.read_ipc_stream(c) for c in chunks])["x"].to_numpy() == want).all()
assert (np.array(duckdb.sql("SELECT x FROM pool").fetchall(), np.float32)[:, 0] == want).all()
rows = [r[0] for c in chunks for r in json.loads(chdb.query(f"SELECT x FROM file('{c}', ArrowStream)", "JSONCompact").bytes())["data"]]
assert (np.array(rows, np.float32) == want).all()
print(f"{len(inputs)} messages, {len(versions)} versions; worst relative error of y:",
      ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
