"""Writes streams.json: one small Arrow IPC stream (base64) for every type and layout that pyarrow
and polars produce, with what pyarrow itself reads from each. And mutants.txt: streams of these with
some numbers changed that pyarrow still takes as fully valid, with a digest of what it reads: name,
changed bytes as offset:hex, first 16 digits of the SHA-256 of all values, a line each.

    pip install pyarrow==26.0.1 polars==2.1.0 numpy
    python make_arrow.py

A value is dumped as text that leaves nothing to formatting: integers in decimal, floats as the
bits of a float64, text and binary in hex, dates and times as their integers, lists in [], structs
in {}. A stream that the decoder must refuse has the code of the error instead of values.
"""
import base64
import datetime
import decimal
import hashlib
import io
import json
import pathlib
import random
import struct
import uuid

import numpy as np
import polars as pl
import pyarrow as pa

OUT = pathlib.Path(__file__).parent / "streams.json"
CASES = {}


def bits(x):
    return "f" + struct.pack(">d", float(x)).hex()


def dump(a):
    """The values of an array as canonical text, one string each."""
    if isinstance(a, pa.ChunkedArray):
        return [v for c in a.chunks for v in dump(c)]
    t = a.type
    if isinstance(a, pa.ExtensionArray):
        return dump(a.storage)
    if pa.types.is_dictionary(t):
        values = dump(a.dictionary)
        return ["null" if k is None else values[k] for k in a.indices.to_pylist()]
    if pa.types.is_run_end_encoded(t):
        values, ends = dump(a.values), a.run_ends.to_pylist()
        return [values[next(k for k, e in enumerate(ends) if e > i + a.offset)] for i in range(len(a))]
    valid = a.is_valid().to_pylist()
    if pa.types.is_union(t):
        kids, ids = [dump(a.field(i)) for i in range(t.num_fields)], a.type_codes.to_pylist()
        where = a.offsets.to_pylist() if t.mode == "dense" else range(len(a))
        child = {c: i for i, c in enumerate(t.type_codes)}
        return [kids[child[c]][o] for c, o in zip(ids, where)]
    return [one(t, a, i) if ok else "null" for i, ok in enumerate(valid)]


def one(t, a, i):
    if pa.types.is_struct(t):
        return "{" + ",".join(dump(a.flatten()[k].slice(i, 1))[0] for k in range(t.num_fields)) + "}"
    if pa.types.is_map(t):
        lo, hi = a.offsets[i].as_py(), a.offsets[i + 1].as_py()
        k, v = dump(a.keys.slice(lo, hi - lo)), dump(a.items.slice(lo, hi - lo))
        return "[" + ",".join("{" + x + "," + y + "}" for x, y in zip(k, v)) + "]"
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t) or pa.types.is_list_view(t) or pa.types.is_large_list_view(t):
        return "[" + ",".join(dump(a[i].values)) + "]"
    if pa.types.is_floating(t):
        return bits(a[i].as_py())
    if pa.types.is_boolean(t):
        return "true" if a[i].as_py() else "false"
    if pa.types.is_integer(t):
        return str(a[i].as_py())
    if pa.types.is_decimal(t):
        return str(int(a[i].as_py().scaleb(t.scale, decimal.Context(prec=100))))
    if pa.types.is_temporal(t) and t == pa.month_day_nano_interval():
        return "%d/%d/%d" % tuple(a[i].as_py())
    if pa.types.is_temporal(t):
        return str(a.view(pa.int32() if t.bit_width == 32 else pa.int64())[i].as_py())
    v = a[i].as_py()
    return "x" + (v.encode() if isinstance(v, str) else v).hex()


def add(name, data, code=None):
    """Keeps a stream under a name: with the code it is refused with, or pyarrow's values."""
    CASES[name] = {"bytes": base64.b64encode(data).decode()}
    if code:
        CASES[name]["code"] = code
        return
    t = pa.ipc.open_stream(data).read_all()
    CASES[name]["rows"] = t.num_rows
    CASES[name]["columns"] = [{"name": f.name, "type": str(f.type), "values": dump(t.column(i))} for i, f in enumerate(t.schema)]


def stream(batches, schema=None, **options):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        for b in batches:
            w.write_batch(b)
    return sink.getvalue()


def batch(**columns):
    return pa.record_batch(list(columns.values()), names=list(columns))


def numbers():
    for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        lo, hi = np.iinfo(t.to_pandas_dtype()).min, np.iinfo(t.to_pandas_dtype()).max
        yield str(t), pa.array([0, 1, None, hi, lo], t)
    for t in (pa.float16(), pa.float32(), pa.float64()):
        d = t.to_pandas_dtype()
        v = np.array([0, -0.0, 1.5, np.nan, np.inf, -np.inf, np.finfo(d).max, np.finfo(d).smallest_subnormal], d)
        yield str(t), pa.array(v, t, mask=np.array([0, 0, 0, 0, 0, 0, 1, 0], bool))
    yield "bool", pa.array([True, False, None, True, True, False, False, True, None])
    yield "null", pa.nulls(5)


def others():
    d = decimal.Decimal
    yield "decimal128", pa.array([d("1.25"), None, d("-99999.99")], pa.decimal128(12, 2))
    yield "decimal256", pa.array([d("1.25"), None, d("-99999.99")], pa.decimal256(60, 2))
    yield "date32", pa.array([0, None, 20000], pa.int32()).cast(pa.date32())
    yield "date64", pa.array([0, None, 86400000], pa.int64()).cast(pa.date64())
    for u, t in (("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        yield "time_" + u, pa.array([0, None, 3599], pa.int32() if t is pa.time32 else pa.int64()).cast(t(u))
        yield "timestamp_" + u, pa.array([0, None, -5], pa.int64()).cast(pa.timestamp(u))
        yield "duration_" + u, pa.array([0, None, -5], pa.int64()).cast(pa.duration(u))
    yield "timestamp_zone", pa.array([0, None, 5], pa.int64()).cast(pa.timestamp("ms", "Europe/Berlin"))
    yield "interval", pa.array([(1, 2, 3), None, (-1, 0, 5)], pa.month_day_nano_interval())
    text = ["", "a", None, "longer than twelve bytes", "日本"]
    for t in (pa.string(), pa.large_string(), pa.string_view()):
        yield str(t), pa.array(text, t)
    raw = [b"", b"\x00", None, b"\xff\xfe longer than twelve", b"x"]
    for t in (pa.binary(), pa.large_binary(), pa.binary_view(), ):
        yield str(t), pa.array(raw, t)
    yield "fixed_size_binary", pa.array([b"abc", None, b"\x00\xff1"], pa.binary(3))


def nested():
    f = pa.float32()
    lists = [[1, 2], None, [], [3, None]]
    yield "list", pa.array(lists, pa.list_(f))
    yield "large_list", pa.array(lists, pa.large_list(f))
    yield "list_view", pa.array(lists, pa.list_view(f))
    yield "large_list_view", pa.array(lists, pa.large_list_view(f))
    yield "list_view_shared", pa.ListViewArray.from_arrays([2, 0, 1], [2, 2, 3], pa.array([1, 2, 3, 4], pa.int32()))
    yield "fsl", pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(f, 2))
    yield "fsl64", pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.field("item", pa.float64(), nullable=False), 3))
    yield "fsl_fsl", pa.array([[[1, 2]], None, [[3, 4]]], pa.list_(pa.list_(f, 2), 1))
    yield "struct", pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "c"}], pa.struct([("x", f), ("y", pa.string())]))
    yield "struct_empty", pa.array([{}, None, {}], pa.struct([]))
    yield "map", pa.array([[("a", 1)], None, [], [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int32()))
    yield "list_struct_list", pa.array([[{"v": [1, 2]}], [], None, [{"v": None}, None]], pa.list_(pa.struct([("v", pa.list_(f))])))
    yield "list_null", pa.array([[None], [], None], pa.list_(pa.null()))
    ids = pa.array([0, 5, 0, 5], pa.int8())
    kids = [pa.array([1, 2, 3, 4], pa.int64()), pa.array(["a", "b", None, "d"])]
    yield "union_sparse", pa.UnionArray.from_sparse(ids, kids, ["i", "s"], [0, 5])
    yield "union_dense", pa.UnionArray.from_dense(ids, pa.array([0, 1, 3, 3], pa.int32()), kids, ["i", "s"], [0, 5])
    for w in (pa.int16(), pa.int32(), pa.int64()):
        yield "ree_" + str(w), pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], w), pa.array([1.5, None, 2], pa.float64()))


def dictionaries():
    words = pa.array(["red", None, "green"])
    for w in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
        yield "dictionary_" + str(w), pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 1, 0], w), words)
    yield "dictionary_float", pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array([0.5, 1.5]))
    yield "dictionary_view", pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), words.cast(pa.string_view()))
    yield "dictionary_in_list", pa.ListArray.from_arrays([0, 2, 2, 3], pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), pa.array(["x", "y"])))
    inner = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), pa.array(["x", "y"]))
    yield "dictionary_of_struct", pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1], pa.int16()), pa.StructArray.from_arrays([inner, pa.array([1, 2, 3])], ["d", "n"]))
    yield "dictionary_of_list", pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int16()), pa.array([[1, 2], [3]], pa.list_(pa.int32())))
    yield "dictionary_empty", pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))


def extensions():
    yield "uuid", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=k).bytes for k in range(3)], pa.binary(16)))
    yield "json", pa.ExtensionArray.from_storage(pa.json_(pa.utf8()), pa.array(['{"a":1}', None, "[]"]))
    yield "bool8", pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))
    yield "opaque", pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "t", "v"), pa.array([1, None, 3], pa.int32()))
    t = pa.fixed_shape_tensor(pa.float32(), [2, 2], permutation=[1, 0])
    yield "tensor", pa.ExtensionArray.from_storage(t, pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.float32(), 4)))


def layouts():
    """Ways to write the same columns."""
    rng = np.random.default_rng(1)
    b = batch(
        x=pa.array(np.round(rng.normal(size=40), 2), pa.float32()),
        y=pa.array(rng.normal(size=40)),
        v=pa.FixedSizeListArray.from_arrays(pa.array(np.round(rng.normal(size=120), 1), pa.float32()), 3),
        s=pa.array(["word%d" % (k % 3) if k % 4 else None for k in range(40)]),
        d=pa.array(["red", "green", "red", None] * 10).dictionary_encode(),
    )
    add("layout_plain", stream([b]))
    add("layout_lz4", stream([b], compression="lz4"))
    add("layout_zstd", stream([b], compression="zstd"))
    add("layout_v4", stream([b.select(["x", "s", "v"])], metadata_version=pa.ipc.MetadataVersion.V4))
    add("layout_legacy", stream([b.select(["x", "s", "v"])], use_legacy_format=True))
    add("layout_batches", stream([b.slice(0, 15), b.slice(15, 0), b.slice(15, 25)]))
    add("layout_batches_lz4", stream([b.slice(0, 15), b.slice(15, 25)], compression="lz4"))
    add("layout_sliced", stream([b.slice(3, 11)]))
    add("layout_no_rows", stream([b.slice(0, 0)]))
    add("layout_no_batches", stream([], b.schema))
    add("layout_no_end", stream([b])[:-8])
    add("layout_no_columns", stream([pa.record_batch([], names=[])]))
    add("layout_same_names", stream([pa.record_batch([b["x"], b["y"], b["x"]], names=["x", "x", ""])]))
    f = pa.field("x", pa.float32(), metadata={"unit": "K", "ключ": "значение"})
    add("layout_metadata", stream([pa.record_batch([b["x"]], schema=pa.schema([f], metadata={"origin": "test", "empty": ""}))]))
    wide = pa.record_batch([pa.array([k / 8], pa.float32()) for k in range(64)], names=["f%d" % k for k in range(64)])
    add("layout_wide", stream([wide]))


def many_batches():
    """Two batches of every type in one stream, which have to be joined."""
    for name, a in list(numbers()) + list(others()) + list(nested()) + list(dictionaries()):
        refused = name in ("union_sparse", "union_dense", "dictionary_of_struct", "dictionary_of_list")
        data = stream([batch(c=a), batch(c=a.slice(1, len(a) - 1))]) if name not in ("list_view_shared", "union_dense") else stream([batch(c=a), batch(c=a)])
        add("two_" + name, data, "arrow_unsupported" if refused and not name.startswith("dictionary") else None)


def changing_dictionaries():
    def b(words, idx):
        return batch(d=pa.DictionaryArray.from_arrays(pa.array(idx, pa.int8()), pa.array(words)))
    grown = [b(["a", "b"], [0, 1]), b(["a", "b", "c"], [2, 0]), b(["a", "b", "c", "d"], [3, None])]
    add("dictionary_delta", stream(grown, emit_dictionary_deltas=True))
    add("dictionary_replaced", stream([b(["a", "b"], [0, 1]), b(["z"], [0, None]), b(["a", "z"], [1, 0])]))


def polars():
    df = pl.DataFrame({
        "i": [1, None, 3], "f": [0.5, float("nan"), None], "s": ["a", None, "a string longer than twelve bytes"],
        "b": [True, None, False], "l": [[1.0], None, [2.0, 3.0]], "c": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
        "d": [datetime.date(2020, 1, 1), None, datetime.date(1960, 1, 1)],
        "a": pl.Series([[1.0, 2.0], [3.0, 4.0], None], dtype=pl.Array(pl.Float32, 2)),
    })
    for compression in ("uncompressed", "lz4", "zstd"):
        sink = io.BytesIO()
        df.write_ipc_stream(sink, compression=compression)
        add("polars_" + compression, sink.getvalue())


def refused():
    x = pa.array([1.0, 2.0], pa.float32())
    d = decimal.Decimal
    add("refused_decimal32", stream([batch(c=pa.array([d("1.5")], pa.decimal32(5, 1)))]), "arrow_unsupported")
    add("refused_decimal64", stream([batch(c=pa.array([d("1.5")], pa.decimal64(12, 1)))]), "arrow_unsupported")
    add("refused_fsl0", stream([batch(c=pa.array([[], []], pa.list_(pa.float32(), 0)))]), "arrow_unsupported")
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, pa.schema([("x", pa.float32())])) as w:
        w.write_batch(batch(x=x))
    add("refused_file", sink.getvalue(), "arrow_file_format")
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(np.zeros((2, 2))), sink)
    add("refused_tensor", sink.getvalue().to_pybytes(), "arrow_unsupported")
    deep = x
    for _ in range(40):
        deep = pa.ListArray.from_arrays([0, len(deep)], deep)
    add("refused_deep", stream([batch(c=deep)]), "arrow_too_large")
    two = stream([batch(x=x)])
    add("refused_two_streams", two + two, "arrow_invalid")


def mutate(data, rng):
    """Changes up to four aligned numbers of data, and returns the changed bytes by offset."""
    changed = {}
    for _ in range(rng.randint(1, 4)):
        width = rng.choice([1, 2, 4, 8])
        at = rng.randrange(len(data) // width) * width
        old = int.from_bytes(data[at:at + width], "little")
        new = rng.choice([0, 1, -1, old + 1, old - 1, old * 2, old // 2, -old, 1 << 31, 1 << 62, len(data), rng.randrange(64), rng.randrange(1 << 62)])
        changed.update(enumerate((new % (1 << 8 * width)).to_bytes(width, "little"), at))
    return {k: v for k, v in changed.items() if data[k] != v}


def mutants(count):
    rng = random.Random(1)
    names = sorted(k for k, v in CASES.items() if "code" not in v)
    lines = []
    while len(lines) < count:
        name = rng.choice(names)
        data = bytearray(base64.b64decode(CASES[name]["bytes"]))
        changed = mutate(data, rng)
        for k, v in changed.items():
            data[k] = v
        try:
            t = pa.ipc.open_stream(bytes(data)).read_all()
            t.validate(full=True)
            values = [dump(c) for c in t.columns] if t.num_rows < 1000 else None
        except Exception:
            continue
        if values is not None and changed:
            text = "\n".join(" ".join(v) for v in values)
            edits = ",".join("%d:%02x" % kv for kv in sorted(changed.items()))
            lines.append(name + " " + edits + " " + hashlib.sha256(text.encode()).hexdigest()[:16])
    return "\n".join(lines) + "\n"


def main():
    for group in (numbers, others, nested, dictionaries, extensions):
        for name, a in group():
            add(name, stream([batch(c=a)]))
    for group in (layouts, many_batches, changing_dictionaries, polars, refused):
        group()
    lines = [json.dumps(k) + ": " + json.dumps(v) for k, v in CASES.items()]
    OUT.with_name("mutants.txt").write_text(mutants(2000))
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
