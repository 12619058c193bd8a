"""The checker checked: good histories give no code, and every spoiled one gives exactly its codes."""

import copy
import functools
import io
import json
import math
import time
import unittest

import fastavro
import google_crc32c
import numpy as np
import pyarrow as pa

import episodes
import recent
import registered
import text
import verify
from model import STREAM

NOW = int(time.time() * 1000)  # brokers delete what is old
D, N, ROWS, PER = 5, 40, 6, 9  # features, neighbours, rows per message, messages per partition
FEATURES = [f"x[{i}]" for i in range(D)]


def stream(table, metadata=None):
    if metadata is not None:
        table = table.replace_schema_metadata(metadata)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as w:
        for batch in table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
            w.write_batch(batch)
    return out.getvalue()


def lists(rows, kind):
    flat = pa.array(np.ascontiguousarray(rows).reshape(-1), kind)
    return pa.FixedSizeListArray.from_arrays(flat, type=pa.list_(pa.field("item", kind, nullable=False), rows.shape[1]))


class Truth:
    """A model made up here, and the messages that describe it."""

    def __init__(self, version, number, seed, features):
        rng = np.random.default_rng(seed)
        self.version, self.number, self.features = version, number, features
        self.mean = np.array([30.0, -5, 0, 100, 8]) + rng.normal(size=D) / 10
        b = rng.normal(size=(D, D)) / 4 + np.eye(D)
        self.BG, self.BL, self.W = b[:, :2], b[:, 2:], np.linalg.qr(rng.normal(size=(D, D)))[0] @ b.T
        offsets = rng.normal(size=(N, D)).astype(np.float32)
        self.format = 1 + number % 2  # the first has no scores
        self.x = (self.mean + offsets).astype(np.float32) if self.format == 1 else self.mean + offsets
        self.neighbours = self.x if self.format == 1 else offsets
        self.scores = np.sort(rng.normal(9, 3, size=60)) if self.format == 2 else None
        self.tail = {"u": 12.0, "xi": 0.2, "beta": 1.5}

    def apply(self, x):
        """y and score, written out term by term rather than as the checker does."""
        y = np.array([[sum(self.W[i, j] * (r[j] - self.mean[j]) for j in range(D)) for i in range(D)] for r in x])
        s = []
        for r in x:
            g, l = (r - self.mean) @ self.BG, [(r - n) @ self.BL for n in self.x.astype(float)]
            parzen = np.log(np.mean([np.exp(-0.5 * v @ v) for v in l]))
            s.append(0.5 * g @ g + D / 2 * np.log(2 * np.pi) - np.log(abs(np.linalg.det(np.hstack([self.BG, self.BL])))) - parzen)
        return y.astype(np.float32), np.array(s).astype(np.float32)

    def probability(self, s):
        above = [int((self.scores >= v).sum()) for v in s.astype(float)]
        beyond = [0.1 * (1 + 0.2 * (v - 12) / 1.5) ** -5 if v > 12 else None for v in s.astype(float)]
        return np.array([(a + 1) / 61 if b is None else max(b, 1e-12) for a, b in zip(above, beyond)], np.float32)

    def guilty(self, x, most):
        """By the slope of the score along each feature."""
        gains, h = np.zeros((len(x), D)), 1e-4
        for k in range(D):
            step = np.eye(D)[k] * h
            slope = (self.exact(x + step) - self.exact(x - step)) / (2 * h)
            gains[:, k] = slope**2 / 2 / (self.BL[k] @ self.BL[k] + self.BG[k] @ self.BG[k])
        order = np.argsort(-gains, 1)[:, :most]
        return [[{"feature": self.features[k], "nats": g[k]} for k in o] for o, g in zip(order, gains)]

    def exact(self, x):
        l = ((x - self.mean)[:, None, :] - (self.x.astype(float) - self.mean)) @ self.BL
        return (((x - self.mean) @ self.BG) ** 2).sum(1) / 2 - np.log(np.exp(-0.5 * (l**2).sum(2)).sum(1))

    def filled(self, x):
        """A row that lacks one feature with its mean under the density, by a sum over its values."""
        x = x.copy()
        for r in x:
            for k in np.flatnonzero(np.isnan(r)):
                values = self.mean[k] + np.linspace(-15, 15, 30001)
                rows = np.repeat(r[None, :], len(values), 0)
                rows[:, k] = values
                density = np.exp(-self.exact(rows) + self.exact(rows).min())
                r[k] = density @ values / density.sum()
        return x

    def records(self):
        rows = [("mean", 0, 0.0, self.mean)]
        rows += [("whiten", i, 0.0, r) for i, r in enumerate(self.W)]
        # 1.1: the cut is beyond 1 while the pool fills.
        rows += [("parzen", i, 1.1 if i else 0.5, r) for i, r in enumerate(self.BL.T)] + [("gaussian", i, 1.5, r) for i, r in enumerate(self.BG.T)]
        meta = {"lca.format": str(self.format), "lca.model_version": str(self.version), "lca.d": str(D), "lca.d_gaussian": "2",
                "lca.features": json.dumps(self.features), "lca.neighbours": str(N), "lca.kind": "lca_gauss"}
        parts = {"model": [pa.table({
            "kind": [r[0] for r in rows], "index": pa.array([r[1] for r in rows], pa.int32()),
            "eigenvalue": [r[2] for r in rows], "vector": lists(np.array([r[3] for r in rows]), pa.float64())})],
            "neighbours": [pa.table({"x": lists(self.neighbours[:25], pa.float32())}), pa.table({"x": lists(self.neighbours[25:], pa.float32())})]}
        if self.format == 2:
            meta |= {"lca.scores": str(len(self.scores)), "lca.tail": json.dumps(self.tail)}
            parts["scores"] = [pa.table({"score": self.scores})]
        for part, tables in parts.items():
            for i, t in enumerate(tables):
                value = stream(t, meta)
                yield {"key": f"m/{self.number % 3}/{part}/{i}".encode(), "value": value, "headers": [
                    ("content-type", STREAM.encode()), ("lca-model-id", b"m"), ("lca-model-version", str(self.version).encode()),
                    ("lca-part", part.encode()), ("lca-chunk", f"{i}/{len(tables)}".encode()),
                    ("lca-crc32c", str(google_crc32c.value(value)).encode())]}


def log(records, every=4):
    """Gives records of one partition their offsets, with the gaps that transaction markers leave."""
    for i, r in enumerate(records):
        r.setdefault("partition", 0)
        r["offset"], r["timestamp"] = i + i // every, r.get("timestamp", NOW)
    return records


def history(*what, **more):
    return copy.deepcopy(made_history(*what, **more))


@functools.cache
def made_history(shape="list", layout="vector", passthrough=True, score=True, p=True, why=2, gaps=True, impute=False):
    features = [f"x[{i}]" for i in range(D)] if shape == "list" else ["b", "a", "e", "d", "c"]
    p_value, truths = p, [Truth(100, 0, 1, features), Truth(250, 1, 2, features)]
    h = {"input": [], "output": [], "dead": [], "alarms": [told("drift"), told("model_changed")], "snapshots": log([r for t in truths for r in t.records()])}
    rng = np.random.default_rng(3)
    for p in range(2):
        into, out, dead = [], [], []
        for m in range(PER):
            x = rng.normal(size=(ROWS, D)) + truths[0].mean
            table = make_input(x, shape, first=1000 * p + ROWS * m, null=m == 4)
            source = {"partition": p, "key": f"{p}-{m}".encode(), "timestamp": NOW + m, "headers": [("own", b"h"), ("content-type", b"arrow")]}
            source["value"] = b"rubbish" if m == 6 else stream(table)
            into.append(source)
            truth = truths[m > 5]
            record = dict(source, headers=[("own", b"h")])
            record["from"], record["truth"] = source, truth
            (dead if m == 6 else out).append(record)
        log(into, 4 if gaps else 10**9)
        for r in out + dead:
            identity = [("lca-source-topic", b"in"), ("lca-source-partition", str(p).encode()), ("lca-source-offset", str(r["from"]["offset"]).encode())]
            if r in dead:
                r["headers"] = r["from"]["headers"] + identity + [("lca-error-code", b"arrow_bad"), ("lca-error", b"no"), ("lca-source-timestamp", b"5")]
            else:
                r["headers"] += identity + [("content-type", STREAM.encode()), ("lca-model-id", b"m"), ("lca-model-version", str(r["truth"].version).encode())]
                r["value"] = make_output(r["from"], r["truth"], features, shape, layout, passthrough, score, p_value, why, impute)
            del r["from"], r["truth"]
        h["input"] += into
        h["output"] += log(out)
        h["dead"] += log(dead)
    return h


def make_input(x, shape, first, null):
    if null:
        x[2, 1] = np.nan
    ids = pa.array(range(first, first + len(x)), pa.int64())
    if shape == "list":
        return pa.table({"id": ids, "x": lists(x.astype(np.float32), pa.float32())})
    columns = {n: pa.array(x[:, i], pa.float64(), from_pandas=True) for i, n in zip(range(D), "bacde")}
    return pa.table({"id": ids, **columns})


def numbers(table, features, shape):
    if shape == "list":
        return np.asarray(table["x"].combine_chunks().flatten()).reshape(-1, D).astype(float)
    return np.stack([table[n].to_numpy() for n in features], 1)


def make_output(source, truth, features, shape, layout, passthrough, score, p, why, impute=False):
    table = pa.ipc.open_stream(source["value"]).read_all()
    x = numbers(table, features, shape)
    missing = np.isnan(x).sum(1)
    if impute:
        x = truth.filled(x)
    null = ~np.isfinite(x).all(1)
    y, s = truth.apply(np.where(null[:, None], truth.mean, x))
    table = table if passthrough else table.select([])
    columns = dict(zip(table.column_names, table.columns))
    if layout == "vector":
        flat = pa.array(y.reshape(-1), pa.float32())
        columns["lca"] = pa.FixedSizeListArray.from_arrays(flat, type=pa.list_(pa.field("item", pa.float32(), nullable=False), D), mask=pa.array(null))
    else:
        columns |= {f"lca_{i}": pa.array(y[:, i], pa.float32(), mask=null) for i in range(D)}
    if score:
        columns["lca_score"] = pa.array(s, pa.float32(), mask=null)
    if p:
        columns["lca_p"] = pa.nulls(len(s), pa.float32()) if truth.scores is None else pa.array(truth.probability(s), pa.float32(), mask=null)
    if why:
        entry = pa.struct([pa.field("feature", pa.string(), nullable=False), pa.field("nats", pa.float32(), nullable=False)])
        guilty = truth.guilty(np.where(null[:, None], truth.mean, x), why)
        columns["lca_why"] = pa.array([None if n else g for n, g in zip(null, guilty)], pa.list_(entry))
    if impute:
        columns["lca_imputed"] = pa.array(missing, pa.int16(), mask=null)
    return stream(pa.table(columns))


def told(kind):
    """An alarm of a model."""
    event = {"type": kind, "time": "2026-01-01T00:00:00Z", "model_id": "m", "version": 250, "message": "changed", "source": {"topic": "in", "partition": 0, "offset": 3, "row": None}}
    return {"partition": 1, "offset": 0, "timestamp": NOW, "key": b"m", "headers": [("content-type", b"application/json")], "value": json.dumps(event).encode()}


def change_alarm(h, i, change):
    event = json.loads(h["alarms"][i]["value"])
    change(event)
    h["alarms"][i]["value"] = json.dumps(event).encode()


def codes(h, **options):
    return verify.verify(h, verify.Options(model_id="m", **{"why": 2, "recent": False, **options}))


def header(r, name, value):
    r["headers"] = [(k, value if k == name else v) for k, v in r["headers"] if not (k == name and value is None)]


def as_text(h):
    """The same history in JSON: arrays, lines and objects of rows."""
    values = {(m["partition"], m["offset"]): m for m in h["input"]}
    for r in h["output"]:
        at = dict(r["headers"])
        source = values[int(at["lca-source-partition"]), int(at["lca-source-offset"])]
        before, after = (pa.ipc.open_stream(m["value"]).read_all() for m in (source, r))
        ours = after.select([n for n in after.column_names if n not in before.column_names])
        passed = len(ours.column_names) < len(after.column_names)
        rows = ["{" + ", ".join(f'"{k}":  {plain(v)}' for k, v in row.items()) for row in before.to_pylist()]
        added = [",".join(f'"{k}":{plain(v)}' for k, v in row.items()) for row in ours.to_pylist()]
        begin, between, end = [(" [", " ,", "] "), ("", "\n", "\n")][source["offset"] % 2]
        source["text"] = (begin + between.join(row + "}" for row in rows) + end).encode()
        r["value"] = (begin + between.join(f"{row},{more}}}" for row, more in zip(rows, added)) + end).encode()
        if not passed:
            begin, between, end = [("[", ",", "]"), ("", "\n", "")][source["offset"] % 2]
            r["value"] = (begin + between.join(f"{{{more}}}" for more in added) + end).encode()
        header(r, "content-type", text.JSON.encode())
    for m in h["input"]:
        m["value"] = m.pop("text", m["value"])
    return h


def as_json_schema(h):
    """The same history in JSON that names its schema: 7, and 8 in the output."""
    h = as_text(h)
    for part, number in (("input", 7), ("output", 8)):
        for r in h[part]:
            if r["value"] != b"rubbish":
                r["value"] = registered.prefixed(number, r["value"])
                header(r, "content-type", None)
    into = {"title": "Row", "properties": {"id": {"type": "integer"}, "x": {"type": "array"}}, "required": ["id"]}
    ours = {n: {"type": [t, "null"]} for n, t in (("lca", "array"), ("lca_score", "number"), ("lca_p", "number"), ("lca_why", "array"))}
    return h, schemas("JSON", into, {**into, "properties": into["properties"] | ours})


def as_avro(h):
    """The rows of a history as Avro: each is a message, with schema 7, or 8 in the output."""
    entry = {"type": "record", "name": "Entry", "fields": [{"name": "feature", "type": "string"}, {"name": "nats", "type": "float"}]}
    ours = [("lca", {"type": "array", "items": "float"}), ("lca_score", "float"), ("lca_p", "float"), ("lca_why", {"type": "array", "items": entry})]
    into = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": {"type": "array", "items": "float"}}]}
    known = schemas("AVRO", into, {**into, "fields": into["fields"] + [{"name": n, "type": ["null", t], "default": None} for n, t in ours]})
    for part, number in (("input", 7), ("output", 8), ("dead", 0)):
        messages = []
        for r in h[part]:
            rubbish = r["value"] == b"rubbish"
            for i, row in enumerate([None] if rubbish else pa.ipc.open_stream(r["value"]).read_all().to_pylist()):
                one = {**r, "offset": r["offset"] * ROWS + i, "value": r["value"] if rubbish else avro(number, known, row)}
                if part != "input":
                    header(one, "lca-source-offset", str(int(dict(r["headers"])["lca-source-offset"]) * ROWS + i).encode())
                if part == "output":
                    header(one, "content-type", b"arrow")  # that of the input
                messages.append(one)
        h[part] = messages
    return h, known


def avro(number, known, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, known[number].avro, row)
    return registered.prefixed(number, out.getvalue())


def schemas(kind, into, out):
    return {n: registered.Schema({"schema": json.dumps(s), "schemaType": kind}) for n, s in ((7, into), (8, out))}


def rewritten(h, known, i, change):
    """An output of Avro with another row."""
    row = known[8].row(h["output"][i]["value"][5:])
    change(row)
    h["output"][i]["value"] = avro(8, known, row)


def plain(v):
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(plain(w) for w in v) + "]"
    if isinstance(v, dict):
        return "{" + ",".join(f'"{k}":{plain(w)}' for k, w in v.items()) + "}"
    return "null" if v is None or v != v else json.dumps(v)


def replaced(h, i, *pairs):
    for a, b in pairs:
        assert a in h["output"][i]["value"], (a, h["output"][i]["value"])
        h["output"][i]["value"] = h["output"][i]["value"].replace(a, b, 1)


def edit(r, change):
    t = pa.ipc.open_stream(r["value"]).read_all()
    r["value"] = stream(change(t))


def replace(name, change):
    def do(t):
        column = t[name].combine_chunks()
        return t.set_column(t.column_names.index(name), t.schema.field(name), change(column))
    return do


def flat(change):
    """Changes the numbers of a FixedSizeList column."""
    def do(column):
        v = np.array(column.flatten())
        change(v)
        return pa.FixedSizeListArray.from_arrays(pa.array(v), type=column.type)
    return do


def set_at(i, f):
    def change(v):
        v[i] = f(v[i])
    return change


def swap(h, i, j):
    a, b = h["output"][i], h["output"][j]
    a["offset"], b["offset"] = b["offset"], a["offset"]
    h["output"][i], h["output"][j] = b, a


def scalar(f):
    return scalar_at(1, f)


def scalar_at(i, f):
    def do(column):
        v = np.array(column.to_numpy(zero_copy_only=False))
        v[i] = f(v[i])
        return pa.array(v, column.type)
    return do


def entries(change):
    """Changes what a row names."""
    def do(column):
        rows = column.to_pylist()
        change(rows[1])
        return pa.array(rows, column.type)
    return do


def snapshot_edit(h, i, change):
    r = h["snapshots"][i]
    edit(r, change)
    header(r, "lca-crc32c", str(google_crc32c.value(r["value"])).encode())


def shuffle_rows(t):
    return t.take(pa.array([1, 0] + list(range(2, t.num_rows))))


def clone(h, where, i):
    h[where].insert(i + 1, copy.deepcopy(h[where][i]))


def wrong_width(t):
    return t.set_column(t.column_names.index("lca"), "lca", lists(np.zeros((t.num_rows, D - 1), np.float32), pa.float32()))


# name, what is done to a good history, the codes it must give, and no others
SPOILED = [
    ("lost message", lambda h: h["output"].pop(3), {"LOSS"}),
    ("lost dead letter", lambda h: h["dead"].pop(0), {"LOSS"}),
    ("everything lost", lambda h: h.update(output=[]), {"LOSS"}),
    ("twice", lambda h: clone(h, "output", 3), {"DUP"}),
    ("twice, far apart", lambda h: h["output"].insert(7, copy.deepcopy(h["output"][0])), {"DUP", "VERSION_BACK"}),
    ("order of messages", lambda h: swap(h, 1, 2), {"REORDER"}),
    ("order of rows, values too", lambda h: edit(h["output"][0], shuffle_rows), {"REORDER"}),
    ("partition", lambda h: h["output"][0].update(partition=1), {"WRONG_PARTITION"}),
    ("unknown source", lambda h: header(h["output"][7], "lca-source-offset", b"999"), {"UNKNOWN_SRC", "LOSS"}),
    ("rows cut off", lambda h: edit(h["output"][0], lambda t: t.slice(0, 4)), {"ROWS"}),
    ("id", lambda h: edit(h["output"][0], replace("id", scalar(lambda v: v + 1))), {"ID"}),
    ("a feature", lambda h: edit(h["output"][0], replace("x", flat(set_at(0, lambda v: v + 1)))), {"ID"}),
    ("column dropped", lambda h: edit(h["output"][0], lambda t: t.drop_columns(["id"])), {"ID"}),
    ("key", lambda h: h["output"][0].update(key=b"other"), {"KEY"}),
    ("no key", lambda h: h["output"][0].update(key=None), {"KEY"}),
    ("own header", lambda h: header(h["output"][0], "own", None), {"META"}),
    ("time", lambda h: h["output"][0].update(timestamp=1), {"META"}),
    ("value", lambda h: edit(h["output"][0], replace("lca", flat(set_at(7, lambda v: v * 1.001)))), {"VALUE"}),
    ("value, slightly", lambda h: edit(h["output"][0], replace("lca", flat(set_at(np.s_[0:D], lambda v: v * (1 + 3e-5))))), {"VALUE"}),
    ("values of another version", lambda h: header(h["output"][0], "lca-model-version", b"250"), {"VALUE", "SCORE", "P", "WHY", "VERSION_BACK"}),
    ("width", lambda h: edit(h["output"][0], wrong_width), {"VALUE"}),
    ("score", lambda h: edit(h["output"][0], replace("lca_score", scalar(lambda v: v + 0.01))), {"SCORE"}),
    ("score without a constant", lambda h: edit(h["output"][0], replace("lca_score", scalar(lambda v: v - D / 2 * np.log(2 * np.pi)))), {"SCORE"}),
    ("probability", lambda h: edit(h["output"][7], replace("lca_p", scalar(lambda v: v * 1.001))), {"P"}),
    ("a probability that the model does not give", lambda h: edit(h["output"][0], replace("lca_p", lambda c: pa.array([0.5] * ROWS, pa.float32()))), {"P"}),
    ("no probability where the model gives one", lambda h: edit(h["output"][7], replace("lca_p", lambda c: pa.nulls(ROWS, pa.float32()))), {"P"}),
    ("nats", lambda h: edit(h["output"][0], replace("lca_why", entries(lambda e: e[0].update(nats=e[0]["nats"] * 1.001)))), {"WHY"}),
    ("another feature named", lambda h: edit(h["output"][7], replace("lca_why", entries(lambda e: e[1].update(feature=next(f for f in FEATURES if f not in (e[0]["feature"], e[1]["feature"])))))), {"WHY"}),
    ("a feature named twice", lambda h: edit(h["output"][7], replace("lca_why", entries(lambda e: e[1].update(e[0])))), {"WHY"}),
    ("fewer features named", lambda h: edit(h["output"][7], replace("lca_why", entries(lambda e: e.pop()))), {"WHY"}),
    ("NaN", lambda h: edit(h["output"][0], replace("lca", flat(set_at(3, lambda v: np.nan)))), {"NONFINITE"}),
    ("infinite score", lambda h: edit(h["output"][0], replace("lca_score", scalar(lambda v: np.inf))), {"NONFINITE"}),
    ("not Arrow", lambda h: h["output"][0].update(value=b"{}"), {"DECODE"}),
    ("no probabilities", lambda h: edit(h["output"][0], lambda t: t.drop_columns(["lca_p"])), {"DECODE"}),
    ("no values", lambda h: edit(h["output"][0], lambda t: t.drop_columns(["lca"])), {"DECODE"}),
    ("null where good", lambda h: edit(h["output"][0], nulls), {"VALUE"}),
    ("no source", lambda h: header(h["output"][0], "lca-source-offset", None), {"NO_HEADER", "LOSS"}),
    ("no version", lambda h: header(h["output"][0], "lca-model-version", None), {"NO_HEADER", "LOSS"}),
    ("other model", lambda h: header(h["output"][0], "lca-model-id", b"n"), {"NO_HEADER", "LOSS"}),
    ("unknown version", lambda h: header(h["output"][-1], "lca-model-version", b"999"), {"VERSION_UNKNOWN"}),
    ("version 0", lambda h: header(h["output"][0], "lca-model-version", b"0"), {"VERSION_UNKNOWN"}),
    ("version back", lambda h: go_back(h), {"VERSION_BACK"}),
    ("two contents", lambda h: conflict(h), {"SNAP_CONFLICT"}),
    ("header and body differ", lambda h: renumber(h), {"SNAP_CONFLICT", "VERSION_UNKNOWN"}),
    ("chunk lost", lambda h: h["snapshots"].pop(-1), {"SNAP_BAD", "VERSION_UNKNOWN"}),
    ("checksum", lambda h: header(h["snapshots"][0], "lca-crc32c", b"1"), {"SNAP_BAD", "VERSION_UNKNOWN"}),
    ("infinite W", lambda h: snapshot_edit(h, 0, replace("vector", flat(set_at(D, lambda v: np.inf)))), {"SNAP_BAD", "VERSION_UNKNOWN"}),
    ("a direction in the wrong part", lambda h: snapshot_edit(h, 0, replace("eigenvalue", scalar_at(-1, lambda v: 0.9))), {"SNAP_BAD", "VERSION_UNKNOWN"}),
    ("a Parzen direction beyond a Gaussian one", lambda h: snapshot_edit(h, 0, replace("eigenvalue", scalar_at(1 + D, lambda v: 1.6))), {"SNAP_BAD", "VERSION_UNKNOWN"}),
    ("one neighbour missing", lambda h: snapshot_edit(h, 1, lambda t: t.slice(1)), {"SNAP_BAD", "VERSION_UNKNOWN"}),
    ("neighbours of another model", lambda h: snapshot_edit(h, 1, replace("x", flat(set_at(np.s_[0:20], lambda v: v + 1)))), {"SCORE", "WHY"}),
    ("order of snapshots", lambda h: h.update(snapshots=h["snapshots"][3:] + h["snapshots"][:3]), {"SNAP_ORDER"}),
    ("in both", lambda h: both(h), {"DLQ_BOTH", "DLQ_GOOD"}),
    ("dead letter twice", lambda h: clone(h, "dead", 0), {"DLQ_DUP"}),
    ("good one in the dead letters", lambda h: (both(h), h["output"].pop(0)), {"DLQ_GOOD"}),
    ("dead letter changed", lambda h: h["dead"][0].update(value=b"rubbisch"), {"DLQ_CHANGED"}),
    ("dead letter without its header", lambda h: header(h["dead"][0], "own", None), {"DLQ_CHANGED"}),
    ("dead letter cut", lambda h: cut(h, b"value", b""), set()),
    ("dead letter cut to its headers", lambda h: (cut(h, b"value,key,headers", b""), header(h["dead"][0], "lca-error", b"")), set()),
    ("dead letter cut, with a value", lambda h: cut(h, b"value", b"rub"), {"DLQ_CHANGED"}),
    ("dead letter cut of another value", lambda h: (cut(h, b"value", b""), header(h["dead"][0], "lca-original-crc32c", b"00000000")), {"DLQ_CHANGED"}),
    ("dead letter cut without its size", lambda h: (cut(h, b"value", b""), header(h["dead"][0], "lca-original-size", None)), {"DLQ_CHANGED"}),
    ("dead letter cut of something else", lambda h: cut(h, b"key", b""), {"DLQ_CHANGED"}),
    ("dead letter without a sentence", lambda h: header(h["dead"][0], "lca-error", b""), {"NO_HEADER"}),
    ("dead letter without a source, of rows that were scored", lambda h: (header(h["dead"][0], "lca-source-offset", None), h["dead"][0]["headers"].append(("lca-model-version", b"100"))), {"NO_HEADER", "LOSS"}),
    ("dead letter without a reason", lambda h: header(h["dead"][0], "lca-error-code", None), {"NO_HEADER"}),
    ("dead letter of nothing", lambda h: header(h["dead"][0], "lca-source-offset", b"999"), {"UNKNOWN_SRC", "LOSS"}),
    ("dead letter without a source", lambda h: header(h["dead"][0], "lca-source-partition", None), {"NO_HEADER", "LOSS"}),
    ("bad one passed", lambda h: bad_passed(h), {"BAD_PASSED", "LOSS"}),
    ("values for a NaN row", lambda h: edit(h["output"][4], fill), {"BAD_PASSED"}),
    ("an alarm twice", lambda h: clone(h, "alarms", 0), {"ALARM_DUP"}),
    ("an alarm of no kind", lambda h: change_alarm(h, 0, lambda e: e.update(type="anomaly")), {"ALARM_WRONG"}),
    ("an alarm of another model", lambda h: change_alarm(h, 0, lambda e: e.update(model_id="n")), {"ALARM_WRONG"}),
    ("an alarm that is not JSON", lambda h: h["alarms"][0].update(value=b"{"), {"ALARM_WRONG"}),
    ("alarms in two partitions", lambda h: h["alarms"][0].update(partition=0), {"ALARM_WRONG"}),
    ("open transaction", lambda h: h.update(open={"out": 2}), {"OPEN_TXN"}),
]


# The same for a history in which missing features are filled.
SPOILED_IMPUTED = [
    ("a wrong number", lambda h: edit(h["output"][4], replace("lca_imputed", scalar_at(2, lambda v: 2))), {"IMPUTED"}),
    ("another type", lambda h: edit(h["output"][4], retype), {"IMPUTED"}),
    ("not said", lambda h: edit(h["output"][4], lambda t: t.drop_columns(["lca_imputed"])), {"DECODE"}),
    ("filled with something else", lambda h: edit(h["output"][4], replace("lca", flat(set_at(np.s_[2 * D:3 * D], lambda v: v + 0.01)))), {"VALUE"}),
    ("left null", lambda h: edit(h["output"][4], null_row), {"VALUE"}),
]


# The same for a history of JSON.
SPOILED_TEXT = [
    ("a space more", lambda h: replaced(h, 0, (b'"id":  ', b'"id": ')), {"ID"}),
    ("a digit less", lambda h: replaced(h, 3, (b'"id":  1', b'"id":  ')), {"ID"}),
    ("between rows", lambda h: replaced(h, 0, (b" ,", b",")), {"ID"}),
    ("the end", lambda h: h["output"][0].update(value=h["output"][0]["value"] + b" "), {"ID"}),
    ("a row less", lambda h: h["output"][1].update(value=b"\n".join(h["output"][1]["value"].split(b"\n")[1:])), {"ROWS"}),
    ("a key twice", lambda h: replaced(h, 0, (b'"lca_score"', b'"lca"')), {"DECODE"}),
    ("no values", lambda h: replaced(h, 0, (b'"lca"', b'"lcb"')), {"DECODE"}),
    ("cut off", lambda h: h["output"][0].update(value=h["output"][0]["value"][:-9]), {"DECODE"}),
    ("a value", lambda h: replaced(h, 0, (b'"lca":[-', b'"lca":[-1')), {"VALUE"}),
    ("a score", lambda h: replaced(h, 0, (b'"lca_score":', b'"lca_score":1')), {"SCORE"}),
    ("a null", lambda h: replaced(h, 0, (b'"lca_score":', b'"lca_score":null,"was":')), {"DECODE"}),
    ("the type", lambda h: header(h["output"][0], "content-type", STREAM.encode()), {"NO_HEADER", "LOSS"}),
]


# The same for a history of Avro, in which each row is a message.
SPOILED_AVRO = [
    ("a number", lambda h, k: rewritten(h, k, 0, lambda row: row.update(id=row["id"] + 1)), {"ID"}),
    ("a digit", lambda h, k: rewritten(h, k, 0, lambda row: row["x"].__setitem__(0, row["x"][0] + 0.01)), {"ID"}),
    ("a value", lambda h, k: rewritten(h, k, 0, lambda row: row["lca"].__setitem__(3, row["lca"][3] + 0.01)), {"VALUE"}),
    ("a value less", lambda h, k: rewritten(h, k, 0, lambda row: row["lca"].pop()), {"VALUE"}),
    ("a score", lambda h, k: rewritten(h, k, 0, lambda row: row.update(lca_score=row["lca_score"] + 0.01)), {"SCORE"}),
    ("a probability", lambda h, k: rewritten(h, k, -1, lambda row: row.update(lca_p=row["lca_p"] / 2)), {"P"}),
    ("a gain", lambda h, k: rewritten(h, k, 0, lambda row: row["lca_why"][0].update(nats=row["lca_why"][0]["nats"] * 2)), {"WHY"}),
    ("a null", lambda h, k: rewritten(h, k, 0, lambda row: row.update(lca_score=None)), {"DECODE"}),
    ("no values", lambda h, k: rewritten(h, k, 0, lambda row: row.update(dict.fromkeys(["lca", "lca_score", "lca_p", "lca_why"]))), {"VALUE"}),
    ("values for a NaN row", lambda h, k: rewritten(h, k, 4 * ROWS + 2, lambda row: row.update(lca=[0.0] * D, lca_score=1.0, lca_why=[])), {"BAD_PASSED"}),
    ("the schema of the input", lambda h, k: h["output"][0].update(value=registered.prefixed(7, h["output"][0]["value"][5:])), {"DECODE"}),
    ("an unknown schema", lambda h, k: h["output"][0].update(value=registered.prefixed(9, h["output"][0]["value"][5:])), {"DECODE"}),
    ("no schema", lambda h, k: h["output"][0].update(value=h["output"][0]["value"][5:]), {"DECODE"}),
    ("cut off", lambda h, k: h["output"][0].update(value=h["output"][0]["value"][:-1]), {"DECODE"}),
    ("a byte more", lambda h, k: h["output"][0].update(value=h["output"][0]["value"] + b"\0"), {"DECODE"}),
    ("a field without a default", lambda h, k: k[8].json["fields"][2].pop("default"), {"DECODE"}),
    ("a schema with another field", lambda h, k: k[8].json["fields"][0].update(doc="new"), {"DECODE"}),
    ("the type", lambda h, k: header(h["output"][0], "content-type", None), {"NO_HEADER", "LOSS"}),
    ("twice", lambda h, k: clone(h, "output", 5), {"DUP"}),
    ("lost", lambda h, k: h["output"].pop(5), {"LOSS"}),
    ("passed over", lambda h, k: h["input"][0].update(value=h["input"][0]["value"][:-1]), {"BAD_PASSED"}),
]

# The same for a history of JSON with a schema.
SPOILED_JSON_SCHEMA = [
    ("a space more", lambda h, k: replaced(h, 0, (b'"id":  ', b'"id": ')), {"ID"}),
    ("a row less", lambda h, k: h["output"][1].update(value=h["output"][1]["value"][:5] + b"\n".join(h["output"][1]["value"].split(b"\n")[1:])), {"ROWS"}),
    ("a value", lambda h, k: replaced(h, 0, (b'"lca":[-', b'"lca":[-1')), {"VALUE"}),
    ("no schema", lambda h, k: h["output"][0].update(value=h["output"][0]["value"][5:]), {"DECODE"}),
    ("a schema without our keys", lambda h, k: h["output"][0].update(value=registered.prefixed(7, h["output"][0]["value"][5:])), {"DECODE"}),
    ("a schema that changes a key", lambda h, k: k[8].json["properties"]["id"].update(type="string"), {"DECODE"}),
    ("a type", lambda h, k: h["output"][0]["headers"].append(("content-type", text.JSON.encode())), {"NO_HEADER", "LOSS"}),
]


def retype(t):
    i = t.column_names.index("lca_imputed")
    return t.set_column(i, "lca_imputed", t["lca_imputed"].cast(pa.int32()))


def null_row(t):
    """Row 2 as if nothing had been filled."""
    for n in ("lca", "lca_score", "lca_p", "lca_why", "lca_imputed"):
        rows = t[n].to_pylist()
        rows[2] = None
        t = t.set_column(t.column_names.index(n), t.schema.field(n), pa.array(rows, t.schema.field(n).type))
    return t

def nulls(t):
    for n in ("lca", "lca_score", "lca_p", "lca_why"):
        t = t.set_column(t.column_names.index(n), t.schema.field(n), pa.nulls(t.num_rows, t.schema.field(n).type))
    return t


def fill(t):
    t = replace("lca_score", lambda c: pa.array(np.nan_to_num(c.to_numpy(zero_copy_only=False)), pa.float32()))(t)
    t = replace("lca_why", lambda c: pa.array([v or [] for v in c.to_pylist()], c.type))(t)
    full = np.zeros((t.num_rows, D), np.float32)
    for i, v in enumerate(t["lca"].to_pylist()):
        if v is not None:
            full[i] = v
    return t.set_column(t.column_names.index("lca"), t.schema.field("lca"), lists(full, pa.float32()))


def go_back(h):
    """The same work with the older model at the end: right values, but the version goes back."""
    good = history()
    truth = Truth(100, 0, 1, [f"x[{i}]" for i in range(D)])
    r = h["output"][7]
    at = dict(r["headers"])["lca-source-offset"]
    source = next(m for m in good["input"] if m["partition"] == 0 and m["offset"] == int(at))
    r["value"] = make_output(source, truth, truth.features, "list", "vector", True, True, True, 2)
    header(r, "lca-model-version", b"100")


def conflict(h):
    other = copy.deepcopy(h["snapshots"][1])
    other["value"] = stream(pa.ipc.open_stream(other["value"]).read_all().slice(1))
    header(other, "lca-crc32c", str(google_crc32c.value(other["value"])).encode())
    h["snapshots"].insert(2, other)


def renumber(h):
    for r in h["snapshots"][3:]:
        header(r, "lca-model-version", b"251")


def both(h):
    dead = copy.deepcopy(h["dead"][0])
    source = h["input"][0]
    dead.update(value=source["value"], key=source["key"])
    header(dead, "lca-source-offset", b"0")
    h["dead"].insert(0, dead)


def cut(h, what, value):
    dead = h["dead"][0]
    whole = dead["value"]
    if what != b"value":
        dead["key"] = None
        dead["headers"] = [(k, v) for k, v in dead["headers"] if k.startswith("lca-")]
    dead["headers"] += [("lca-cut", what), ("lca-original-size", b"%d" % len(whole)), ("lca-original-crc32c", b"%08x" % google_crc32c.value(whole))]
    dead["value"] = value


def bad_passed(h):
    lost = h["dead"].pop(0)
    at = dict(lost["headers"])["lca-source-offset"]
    passed = copy.deepcopy(h["output"][5])
    header(passed, "lca-source-offset", at)
    source = next(m for m in h["input"] if m["partition"] == 0 and m["offset"] == int(at))
    passed.update(key=source["key"], timestamp=source["timestamp"])
    h["output"].insert(6, passed)
    h["output"].pop(0)


def by_key(h):
    """The same, with a model for each of two keys of a partition: one learnt the first version, one the second."""
    keys = {b"100": b"a b", b"250": "c/\u00e9".encode()}
    names = {100: "a%20b", 250: "c%2F%C3%A9"}
    sources = {(r["partition"], r["offset"]): r for r in h["input"]}
    for r in h["input"]:
        r["key"] = b"spoilt"
    for r in h["output"]:
        headers = dict(r["headers"])
        r["key"] = sources[r["partition"], int(headers["lca-source-offset"])]["key"] = keys[headers["lca-model-version"]]
        header(r, "lca-model-id", f"m/{r['partition']}/{names[int(headers['lca-model-version'])]}".encode())
    for r in h["dead"]:
        r["key"] = b"spoilt"
    for r in h["alarms"]:
        change_alarm({"alarms": [r]}, 0, lambda e: e.update(model_id=f"m/0/{names[250]}"))
        r["key"] = json.loads(r["value"])["model_id"].encode()
    own = []
    for p in range(2):
        for r in copy.deepcopy(h["snapshots"]):
            identity = f"m/{p}/{names[int(dict(r['headers'])['lca-model-version'])]}"
            header(r, "lca-model-id", identity.encode())
            own.append(dict(r, partition=p, key=r["key"].replace(b"m/", identity.encode() + b"/", 1)))
    h["snapshots"] = own
    return h


SPOILED_BY_KEY = [
    ("another key's model", lambda h: header(h["output"][0], "lca-model-id", b"m/0/c%2F%C3%A9"), {"NO_HEADER", "LOSS"}),
    ("another partition's model", lambda h: header(h["output"][0], "lca-model-id", b"m/1/a%20b"), {"NO_HEADER", "LOSS"}),
    ("another key's version", lambda h: header(h["output"][0], "lca-model-version", b"250"), {"VERSION_UNKNOWN", "VERSION_BACK"}),
    ("a model in another partition", lambda h: h["snapshots"][0].update(partition=1), {"SNAP_BAD"}),
    ("another model's alarm", lambda h: (change_alarm(h, 0, lambda e: e.update(model_id="n/9/z")), h["alarms"][0].update(key=b"n/9/z")), {"ALARM_WRONG"}),
]


class Good(unittest.TestCase):
    def test_by_key(self):
        """Each row is judged by the model of its own key."""
        r = codes(by_key(history()), by_key=True)
        self.assertEqual((dict(r.codes), r.rows, r.models), ({}, 2 * (PER - 1) * ROWS, 4), r.examples)
        for name, spoil, want in SPOILED_BY_KEY:
            with self.subTest(name):
                h = by_key(history())
                spoil(h)
                r = codes(h, by_key=True)
                self.assertEqual(set(r.codes), want, r.examples)

    def test_imputed(self):
        """on_invalid: impute fills what is missing, by the formula that sums over the density show to be the mean."""
        options = {"on_invalid": "impute"}
        for shape, layout in (("list", "vector"), ("columns", "columns")):
            r = codes(history(shape, layout, impute=True), layout=layout, **options)
            self.assertEqual((dict(r.codes), r.imputed_rows, r.null_rows), ({}, 2, 0), r.examples)
        for name, spoil, want in SPOILED_IMPUTED:
            with self.subTest(name):
                h = history(impute=True)
                spoil(h)
                self.assertEqual(set(codes(h, **options).codes), want)
        self.assertEqual(set(codes(history(), **options).codes), {"DECODE"})

    def test_good(self):
        for shape in ("list", "columns"):
            for layout in ("vector", "columns"):
                for passthrough, score, p, why in ((True, True, True, 2), (False, False, False, 0), (False, False, True, 9)):
                    with self.subTest(shape=shape, layout=layout, passthrough=passthrough, score=score, p=p, why=why):
                        r = codes(history(shape, layout, passthrough, score, p, why), layout=layout, passthrough=passthrough, score=score, p=p, why=why)
                        self.assertEqual(dict(r.codes), {}, r.examples)
                        self.assertEqual((r.rows, r.messages, r.dead_letters, r.null_rows), (2 * (PER - 1) * ROWS, 2 * (PER - 1), 2, 2))
                        self.assertEqual((r.versions, r.models), ({("m", 100), ("m", 250)}, 2))
                        self.assertTrue(0 < r.worst_value < 1e-6 and 0 < r.worst_bound < 0.5, (r.worst_value, r.worst_bound))

    def test_alarms_are_counted(self):
        r = codes(history())
        self.assertEqual((dict(r.codes), dict(r.alarms)), ({}, {"drift": 1, "model_changed": 1}))

    def test_nothing_is_not_enough(self):
        r = codes({"input": [], "output": [], "dead": [], "snapshots": []})
        self.assertEqual((dict(r.codes), r.rows), ({}, 0))

    def test_text(self):
        """JSON in and out, whatever the columns are."""
        for more in ({}, {"shape": "columns"}, {"layout": "columns"}, {"passthrough": False, "why": 0}, {"impute": True}):
            h = as_text(history(**more))
            r = codes(h, layout=more.get("layout", "vector"), passthrough=more.get("passthrough", True), why=more.get("why", 2),
                      on_invalid="impute" if "impute" in more else "null")
            self.assertEqual(set(r.codes), set(), dict(r.examples))
            self.assertEqual(r.rows, 2 * (PER - 1) * ROWS)
            self.assertGreater(r.p_rows, 0)

    def test_registered(self):
        for make, messages in ((as_avro, ROWS), (as_json_schema, 1)):
            h, known = make(history())
            r = codes(h, schemas=known)
            self.assertEqual(set(r.codes), set(), dict(r.examples))
            self.assertEqual((r.rows, r.messages, r.dead_letters, r.null_rows), (2 * (PER - 1) * ROWS, 2 * (PER - 1) * messages, 2, 2))
            self.assertTrue(r.p_rows > 0 and r.why_rows == r.rows - 2, (r.p_rows, r.why_rows))

    def test_before_the_first_model(self):
        h = history()
        edit(h["output"][0], nulls)
        header(h["output"][0], "lca-model-version", b"0")
        self.assertEqual(dict(codes(h, without_model=True).codes), {})
        self.assertEqual(set(codes(h).codes), {"VERSION_UNKNOWN"})

    def test_first_edition(self):
        h = history()
        edit(h["output"][0], lambda t: t.drop_columns(["lca_p"]))
        self.assertEqual(dict(codes(h, former=True).codes), {})

    def test_dead_letter_policy(self):
        """on_invalid: dead_letter makes the messages with a NaN row bad: here they passed."""
        self.assertEqual(dict(codes(history(), on_invalid="dead_letter").codes), {"BAD_PASSED": 2})

    def test_slots_are_reused(self):
        """A version whose slot was overwritten may be incomplete; rows under it cannot be checked."""
        h = history()
        h["snapshots"] = [r for i, r in enumerate(h["snapshots"]) if i != 1] + list(Truth(400, 3, 9, [f"x[{i}]" for i in range(D)]).records())
        self.assertEqual(set(codes({**h, "snapshots": log(h["snapshots"])}).codes), {"VERSION_UNKNOWN"})


class Spoiled(unittest.TestCase):
    def test_exactly_its_codes(self):
        for name, spoil, want in SPOILED:
            with self.subTest(name):
                h = history()
                spoil(h)
                r = codes(h)
                self.assertEqual(set(r.codes), want, dict(r.examples))

    def test_text(self):
        for name, spoil, want in SPOILED_TEXT:
            with self.subTest(name):
                h = as_text(history())
                spoil(h)
                r = codes(h)
                self.assertEqual(set(r.codes), want, dict(r.examples))

    def test_registered(self):
        for make, spoiled in ((as_avro, SPOILED_AVRO), (as_json_schema, SPOILED_JSON_SCHEMA)):
            for name, spoil, want in spoiled:
                with self.subTest(name, make=make.__name__):
                    h, known = make(history())
                    spoil(h, known)
                    r = codes(h, schemas=known)
                    self.assertEqual(set(r.codes), want, dict(r.examples))

    def test_every_code_is_shown(self):
        # see LastRows, test_episodes.py and test_accepted.py
        others = {"RECENT", "EPISODE_LOST", "EPISODE_DUP", "EPISODE_WRONG", "ACCEPT_DUP", "ACCEPT_WRONG"}
        self.assertEqual(others.union(*(want for _, _, want in SPOILED + SPOILED_IMPUTED)), set(verify.CODES))

    def test_every_position(self):
        n = len(history()["output"])
        for i in range(n):
            h = history()
            h["output"].pop(i)
            self.assertEqual(dict(codes(h).codes), {"LOSS": ROWS}, f"lost {i}")
            h = history()
            clone(h, "output", i)
            self.assertEqual(dict(codes(h).codes), {"DUP": ROWS}, f"twice {i}")

    def test_every_element(self):
        for i in range(ROWS * D):
            h = history()
            edit(h["output"][0], replace("lca", flat(set_at(i, lambda v: v + 0.01))))
            self.assertEqual(dict(codes(h).codes), {"VALUE": 1}, f"element {i}")


class Recent:
    """An evaluator of two columns made up here, and scores of it a number at a time."""

    def __init__(self):
        rng = np.random.default_rng(8)
        self.c, self.s, self.mean, self.row = [3.0, 0], [2.0, 1], rng.normal(size=6), rng.normal(size=2)
        self.f = [np.tril(rng.normal(size=(p, p))).astype(np.float32) for p in (6, 2, 2)]
        self.low, self.weights = 200, [50.0, 300, 500, 100, 40, 8, 2]  # of scores from -1.75 on
        self.state = {}

    def model(self):
        numbers = [*self.c, *self.s, *self.mean, *self.row, *self.weights]
        factors = [v for f in self.f for i, r in enumerate(f) for v in r[: i + 1]]
        told = {"learnt": 1000, "settled": True, "constant": [], "scores": {"low": self.low, "bins": 7, "sum": 1000.0}, "first": {"low": 0, "bins": 0, "sum": 0.0},
                "tail": {"above": -1.5, "peaks": 20, "rows": 1000, "heavy": 0.1, "light": 0.1, "share": 0.5, "most": 0}}
        one = type("Model", (), {"d": 2, "young": False, "features": ["a", "b"], "version": 1})()
        one.recent = recent.Evaluator(json.dumps(told), 2, np.array(numbers), np.array(factors))
        return one

    def score(self, series, x):
        n, m1, m2, v = self.state.get(series, (0, [math.nan] * 2, [math.nan] * 2, [math.nan] * 2))
        n += 1
        x = list(x)
        for k in range(2):
            far = abs(x[k] - self.c[k]) / self.s[k]
            if far > 10:
                x[k] = self.c[k] + math.copysign(10 * (1 + math.log(far / 10)), x[k] - self.c[k]) * self.s[k]
            if x[k] == x[k]:
                if m1[k] != m1[k]:
                    m1[k], m2[k], v[k] = (x[k], x[k], 0.0) if n == 1 else self.mean[k::2]
                m1[k] += max(0.2, 1 / n) * (x[k] - m1[k])
                m2[k] += max(0.05, 1 / n) * (x[k] - m2[k])
                v[k] += max(0.02, 1 / n) * (abs(x[k] - m1[k]) - v[k])
        self.state[series] = n, m1, m2, v
        if n <= 50:
            return math.log(self.square(2, x, self.row) / 2), None
        score = 0.8 * math.log(self.square(0, m1 + m2 + v, self.mean) / 6) + 0.2 * math.log(self.square(1, v, self.mean[4:]) / 2)
        bin = (float(np.float32(score)) + 8) * 32 - self.low
        if bin > 4:  # beyond it 50 rows are a twentieth, of which two and a half are alike
            mean = sum((j + 0.5) / 32 * w for j, w in enumerate(self.weights[4:])) / 50
            return score, max(1e-12, 70 / 1020 * (1 + (bin - 4) / 32 / (2.5 * mean)) ** -2.5)
        rows = sum(w * min(1, max(0, j + 1 - bin)) for j, w in enumerate(self.weights))
        return score, min(1, (rows + 20) / 1020)

    def square(self, which, z, mean):
        u = [0.0 if a != a else (a - m) / self.s[k % 2] for k, (a, m) in enumerate(zip(z, mean))]
        return sum(sum(float(f) * b for f, b in zip(r, u)) ** 2 for r in self.f[which])


def last_rows(spoil=lambda messages: None, aside=None, young=False, **options):
    """The codes of messages of a partition, of two series by key. By a young model all is null but the scores of the last rows."""
    made, rng, messages = Recent(), np.random.default_rng(4), []
    for i in range(60):
        x = np.where(rng.random((5, 2)) < 0.02, 90, rng.normal(size=(5, 2)) + [3, 0])
        null = np.arange(5) == (2 if i == 30 else 9)
        x[4, 1] = np.nan if i == 40 else x[4, 1]
        x[:2, 0] = np.nan if i == 0 else x[:2, 0]
        key = b"ab"[i % 2 :][:1]
        if i == aside:
            continue
        told = [(None, None) if n else made.score(key, r) for n, r in zip(null, x)]
        messages.append([{"partition": 0, "offset": i, "timestamp": NOW, "key": key}, x, null, [t[0] for t in told], [t[1] for t in told]])
    spoil(messages)
    r, chosen, options = verify.Report(), made.model(), verify.Options(series="key", **options)
    chosen.young, r.partitions = young, {0: episodes.Partition(0, [], options)}
    for i, (source, x, null, score, p) in enumerate(messages):
        after = pa.table({"lca_recent_score": pa.array(score, pa.float32()), "lca_recent_p": pa.array(p, pa.float32())})
        if young:
            x, null = np.where(null[:, None], np.inf, x), null | True
        y = np.ma.array(np.zeros((5, 2)), mask=np.repeat(null[:, None], 2, 1))
        verify.check_recent(f"message {i}", source, x, y, after, chosen, options, r)
    return r


class LastRows(unittest.TestCase):
    def test_good(self):
        r = last_rows()
        self.assertEqual((r.codes, r.recent_rows), ({}, 299), r.examples)

    def test_young(self):
        r = last_rows(young=True, on_invalid="impute")
        self.assertEqual((r.codes, r.recent_rows), ({}, 299), r.examples)
        self.assertEqual(set(last_rows(lambda m: m[50][3].__setitem__(1, None), young=True, on_invalid="impute").codes), {"RECENT"})
        none, null = np.full(2, np.nan), np.ma.array(np.zeros((2, 3)), mask=True)
        for y, score, p, why, imputed, want in [
            (null, none, none, [None, None], pa.nulls(2, pa.int16()), {}), (null, None, None, None, None, {}), (null, np.array([1, np.nan]), none, None, None, {"VALUE": 1}),
            (np.ma.array(np.zeros((2, 3)), mask=False), None, None, None, None, {"VALUE": 1}), (null, none, none, [None, []], None, {"VALUE": 1}), (null, none, none, None, pa.array([0, 0], pa.int16()), {"VALUE": 1}),
        ]:
            r = verify.Report()
            verify.check_young("a message", y, score, p, why, imputed, r)
            self.assertEqual(dict(r.codes), want)

    def test_spoiled(self):
        def change(message, column, row, by):
            def do(messages):
                messages[message][column][row] += by
            return do

        for name, spoil in [
            ("a score", change(50, 3, 1, 1e-3)), ("a probability", change(50, 4, 1, 1e-2)),
            ("a row that the series had before", lambda m: m.insert(20, m[20])), ("a row that the series never had", lambda m: m.pop(20)),
            ("rows of another series", lambda m: m[20][0].update(key=b"b")), ("a null", lambda m: m[50][3].__setitem__(1, None)),
            ("a null row that is scored", lambda m: m[30][3].__setitem__(2, 1.0)),
        ]:
            with self.subTest(name):
                self.assertEqual(set(last_rows(spoil).codes), {"RECENT"})
        self.assertEqual(last_rows(aside=30).codes, {})  # on_invalid: dead_letter
        self.assertIn("RECENT", last_rows(lambda m: [one[0].update(key=b"a") for one in m]).codes)


if __name__ == "__main__":
    unittest.main()
