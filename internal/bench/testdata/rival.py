"""What an experienced Python programmer would write instead of lca-stream, for the benchmarks.

    rival.py transform|learn|pass|alone|file|compare  JSON

The same topics, the same output, exactly once: outputs and input offsets in one transaction, a few
megabytes or 100 ms at a time. It is written for speed: librdkafka for Kafka; Arrow messages are
parsed once for each layout (same metadata, so same offsets), and then a whole fetch is one numpy view;
outputs are a template with the numbers patched in; products in float32, in place. The last line it
prints is what it did, in JSON; its clock starts after the imports.
"""
import json
import os
import resource
import sys
import time

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

f4 = np.float32
MANY = 10_000          # messages asked for at a time
TXN_BYTES = 8 << 20    # and bytes of input, or
TXN_SECONDS = 0.1      # seconds of a transaction


def peak():
    """The largest resident size, in MiB. ru_maxrss counts the program that started this one, too."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


class Layout:
    """Where the numbers of a message are, for all messages whose metadata has the same bytes."""

    def __init__(self, value, column):
        batch = pa.ipc.open_stream(value).read_next_batch()
        x = batch.column(column)
        self.rows, self.dim, self.size, self.column = batch.num_rows, x.type.list_size, len(value), column
        self.batch = batch
        raw = np.frombuffer(value, np.uint8)
        numbers = x.flatten().buffers()[1]
        self.at = numbers.address - raw.ctypes.data
        self.length = 4 * self.rows * self.dim
        self.head = value[:self.at]
        self.tail = value[self.at + self.length:]

    def matches(self, value):
        return len(value) == self.size and value.startswith(self.head)

    def view(self, values):
        """All rows of some messages, message by message."""
        raw = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), self.size)
        return raw[:, self.at:self.at + self.length].view(f4).reshape(-1, self.dim)


class Layouts:
    def __init__(self, column):
        self.column, self.known = column, []

    def of(self, value):
        for l in self.known:
            if l.matches(value):
                return l
        l = Layout(value, self.column)
        self.known.append(l)
        return l

    def runs(self, msgs):
        """Neighbouring messages of one layout, together."""
        run, last = [], None
        for m in msgs:
            v = m.value()
            l = last if last is not None and last.matches(v) else self.of(v)
            if l is not last and run:
                yield last, run
                run = []
            last = l
            run.append(m)
        if run:
            yield last, run


class Template:
    """The output of a layout: written once by pyarrow, then patched."""

    def __init__(self, layout, score):
        n, d = layout.rows, layout.dim
        y = pa.FixedSizeListArray.from_arrays(pa.array(np.full(n * d, 1, f4)), type=pa.list_(pa.field("item", pa.float32(), nullable=False), d))
        arrays, names = [layout.batch.column(0), y], [layout.batch.schema.names[0], "lca"]
        if score:
            arrays.append(pa.array(np.full(n, 2, f4)))
            names.append("lca_score")
        batch = pa.record_batch(arrays, names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as w:
            w.write_batch(batch)
        self.bytes = sink.getvalue().to_pybytes()
        got = pa.ipc.open_stream(self.bytes).read_next_batch()
        base = np.frombuffer(self.bytes, np.uint8).ctypes.data
        self.x = got.column(0).flatten().buffers()[1].address - base
        self.y = got.column(1).flatten().buffers()[1].address - base
        self.score = got.column(2).buffers()[1].address - base if score else None
        self.template = np.frombuffer(self.bytes, np.uint8)
        self.rows, self.dim = n, d

    def fill(self, x, y, score):
        count = len(x) // self.rows
        out = np.empty((count, len(self.bytes)), np.uint8)
        out[:] = self.template
        wide = 4 * self.rows * self.dim
        out[:, self.x:self.x + wide] = np.ascontiguousarray(x).reshape(count, -1).view(np.uint8)
        out[:, self.y:self.y + wide] = y.reshape(count, -1).view(np.uint8)
        if self.score is not None:
            out[:, self.score:self.score + 4 * self.rows] = score.reshape(count, -1).view(np.uint8)
        whole, size = out.tobytes(), len(self.bytes)
        return [whole[i * size:(i + 1) * size] for i in range(count)]


class Model:
    """The newest snapshot, in float32; the density's constants in float64."""

    def __init__(self, config):
        c = Consumer({"bootstrap.servers": config["brokers"], "group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"})
        tp = TopicPartition(config["snapshots"], 0)
        low, high = c.get_watermark_offsets(tp, timeout=10)
        c.assign([TopicPartition(config["snapshots"], 0, low)])
        parts, idle = {}, 0
        while idle < 5:
            msgs = c.consume(1000, 0.5)
            idle = 0 if msgs else idle + 1
            for m in msgs:
                if m.value():
                    h = dict(m.headers())
                    parts.setdefault(int(h["lca-model-version"]), {})[h["lca-part"], m.key()] = pa.ipc.open_stream(m.value()).read_all()
        c.close()
        version = max(parts)
        self.version = str(version)
        get = lambda p: pa.concat_tables([t for (part, key), t in sorted(parts[version].items(), key=lambda i: (i[0][0], int(i[0][1].split(b"/")[-1]))) if part == p])
        t = get(b"model")
        d = int(t.schema.metadata[b"lca.d"])
        v, kind = t["vector"].combine_chunks().flatten().to_numpy().reshape(-1, d), np.array(t["kind"].to_pylist())
        self.mean, w = v[kind == "mean"][0], v[kind == "whiten"]
        bl, bg = v[kind == "parzen"], v[kind == "gaussian"]
        self.w, self.shift = np.ascontiguousarray(w.T.astype(f4)), (w @ self.mean).astype(f4)
        z = get(b"neighbours")["x"].combine_chunks().flatten().to_numpy().reshape(-1, d).astype(float)
        self.centre = z.mean(0)
        z = (z - self.centre) @ bl.T
        # The bias −½|z|² is the last coordinate, so that logits are one product.
        self.z = np.ascontiguousarray(np.hstack([z, -0.5 * (z * z).sum(1, keepdims=True)]).T.astype(f4))
        self.bl, self.bg = np.ascontiguousarray(bl.T.astype(f4)), np.ascontiguousarray(bg.T.astype(f4))
        self.constant = 0.5 * d * np.log(2 * np.pi) - np.linalg.slogdet(np.vstack([bl, bg]))[1] + np.log(len(z))

    def whiten(self, x):
        y = x @ self.w
        y -= self.shift
        return y

    def score(self, x):
        out = np.empty(len(x), f4)
        for i in range(0, len(x), 512):
            b = x[i:i + 512]
            q = (b - self.centre.astype(f4)) @ self.bl
            e = np.hstack([q, np.ones((len(q), 1), f4)]) @ self.z
            top = e.max(1)
            e -= top[:, None]
            np.maximum(e, -80, out=e)
            np.exp(e, out=e)
            g = (b - self.mean.astype(f4)) @ self.bg
            out[i:i + 512] = self.constant + 0.5 * (g * g).sum(1) - (np.log(e.sum(1)) + top - 0.5 * (q * q).sum(1))
        return out


class Pipe:
    """Consumer and transactional producer; work is a function of messages."""

    def __init__(self, config):
        self.config = config
        self.consumer = Consumer({
            "bootstrap.servers": config["brokers"], "group.id": config["group"], "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "isolation.level": "read_committed", "check.crcs": True,
            "fetch.max.bytes": 64 << 20, "max.partition.fetch.bytes": 16 << 20, "queued.max.messages.kbytes": 128 << 10,
            "queued.min.messages": 100_000, "fetch.wait.max.ms": 20})
        # At least once: everything is flushed before its offsets are committed, and nothing more.
        self.once = not config.get("at_least_once")
        delivery = {"transactional.id": config["group"] + "-txn"} if self.once else {"enable.idempotence": True}
        self.producer = Producer({
            "bootstrap.servers": config["brokers"], "linger.ms": 5, **delivery,
            "batch.size": 1 << 20, "message.max.bytes": 8 << 20, "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20, "compression.type": "none"})
        if self.once:
            self.producer.init_transactions()
        self.next = {}

    def take(self, timeout):
        msgs = self.consumer.consume(1, timeout)
        if msgs:
            msgs += self.consumer.consume(MANY, 0)
        for m in msgs:
            self.next[m.topic(), m.partition()] = m.offset() + 1
        return msgs

    def commit(self):
        offsets = [TopicPartition(t, p, o) for (t, p), o in self.next.items()]
        if not self.once:
            self.producer.flush()
            self.consumer.commit(offsets=offsets, asynchronous=False)
            return
        self.producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata())
        self.producer.commit_transaction()

    def run(self, work, messages):
        """Until so many messages are done and committed; 0 is forever."""
        self.consumer.subscribe([self.config["input"]])
        done = 0
        first = None
        while not messages or done < messages:
            msgs = self.take(1.0)
            if not msgs:
                continue
            first = first or time.perf_counter()
            began, size, count = time.monotonic(), 0, 0
            if self.once:
                self.producer.begin_transaction()
            while msgs:
                size += sum(map(len, msgs))
                count += len(msgs)
                work(msgs)
                if size >= TXN_BYTES or time.monotonic() - began >= TXN_SECONDS or (messages and done + count >= messages):
                    break
                msgs = self.take(0)
            self.commit()
            done += count
        return done, time.perf_counter() - first


def transform(config):
    pipe, layouts, templates = Pipe(config), Layouts(config["column"]), {}
    model = Model(config)
    topic, version, model_id = config["output"], model.version.encode(), b"default"
    produce, score = pipe.producer.produce, config["score"]

    def work(msgs):
        for layout, run in layouts.runs(msgs):
            if layout not in templates:
                templates[layout] = Template(layout, score)
            x = layout.view([m.value() for m in run])
            values = templates[layout].fill(x, model.whiten(x), model.score(x) if score else None)
            for m, value in zip(run, values):
                p = m.partition()
                produce(topic, value, m.key(), p, timestamp=m.timestamp()[1], headers=[
                    ("content-type", b"application/vnd.apache.arrow.stream"), ("lca-model-id", model_id), ("lca-model-version", version),
                    ("lca-source-topic", m.topic()), ("lca-source-partition", str(p)), ("lca-source-offset", str(m.offset()))])
            pipe.producer.poll(0)

    return pipe, work


def copy(config):
    pipe = Pipe(config)
    topic, produce = config["output"], pipe.producer.produce

    def work(msgs):
        for m in msgs:
            produce(topic, m.value(), m.key(), m.partition(), timestamp=m.timestamp()[1])
        pipe.producer.poll(0)

    return pipe, work


class Learner:
    """LCA-Gauss, stochastic: γ^(B/n) averages, Cholesky factors at each minibatch, the split at each sixteenth.

    With identities of the rows it is guarded as lca-stream is, at whole arrays' price: a row is never its own
    neighbour, near copies are none, and outliers and what is not finite are not learnt.
    """

    def __init__(self, d, rows, neighbours, eigen, gamma=0.6):
        self.d, self.rows, self.n, self.eigen = d, rows, neighbours, eigen
        self.keep = lambda seen: gamma ** (rows / max(seen / 8, 50, 2.6 * d))
        self.pool, self.seen, self.steps, self.b = None, 0, 0, None
        self.rng = np.random.default_rng(1)

    def learn(self, x, ids=None):
        from scipy.linalg import blas, eigh, lapack
        if ids is not None and not np.isfinite(x.sum()):
            whole = np.isfinite(x).all(1)
            x, ids = x[whole], ids[whole]
        self.seen += len(x)
        x8 = x.astype(np.float64)
        if self.pool is None:
            self.mean, self.cg = x8.mean(0), np.cov(x8.T)
            self.cl, self.pool = self.cg.copy(), x[:self.n].copy()
            if ids is not None:
                self.ids = ids[:self.n].tolist()
                self.slot = {id: s for s, id in enumerate(self.ids)}
            self.split()
            return
        keep = self.keep(self.seen)
        centre = self.pool.mean(0)
        z = np.asfortranarray((self.pool - centre) @ self.b4).T
        q = np.asfortranarray((x - centre) @ self.b4).T
        p = self.parzen
        if ids is not None:
            inside = self.inside(q, centre)
            if not inside.all():
                x, x8, q, ids = x[inside], x8[inside], q[:, inside], ids[inside]
        bias = -0.5 * np.einsum("kj,kj->j", z[:p], z[:p])
        e = z[:p].T @ q[:p]
        e += bias[:, None]
        top = e.max(0) if ids is None else self.admissible(e, z, q, ids)
        e -= top
        np.maximum(e, -80, out=e)
        np.exp(e, out=e)
        total = e.sum(0)
        e *= 1 / total
        m = z @ e
        # leave-one-out NLL of the minibatch, and that of one Gaussian, as figures to watch
        self.nll = float(np.mean(0.5 * (q[:p] ** 2).sum(0) - top - np.log(total / len(self.pool))))
        s = np.sqrt(e.sum(1))
        c = blas.ssyrk(1, np.asfortranarray(z * s), lower=1)
        c = blas.ssyrk(1, np.asfortranarray(q - m), beta=1, c=c, overwrite_c=1, lower=1)
        c = blas.ssyrk(-1, np.asfortranarray(m), beta=1, c=c, overwrite_c=1, lower=1).astype(np.float64)
        c = np.tril(c) + np.tril(c, -1).T
        local = self.inv.T @ c @ self.inv
        self.cl *= keep
        self.cl += (1 - keep) / len(x) * local
        y = x8 - self.mean
        step = 1 - keep
        self.cg *= keep
        self.cg += step / len(x) * (y.T @ y)
        self.mean += step * y.mean(0)
        enter = self.rng.random(len(x)) < 0.3
        slots = self.rng.integers(0, len(self.pool), int(enter.sum()))
        self.pool[slots] = x[enter]
        if ids is not None:
            for s, id in zip(slots.tolist(), ids[enter].tolist()):
                self.slot.pop(self.ids[s], None)
                self.ids[s], self.slot[id] = id, s
        self.steps += 1
        if self.steps % self.eigen == 0:
            self.split()
        else:
            self.refresh()

    def inside(self, q, centre):
        """Rows within ten standard deviations by C_G, for Bᵀ C_G B is diag(1/e, 1) where the split was found."""
        y = q - ((self.mean - centre) @ self.b).astype(f4)[:, None]
        p = self.parzen
        w = self.wide @ y[:p]
        return np.einsum("kj,kj->j", y[p:], y[p:]) + self.e @ (w * w) <= 100 * self.d

    def admissible(self, e, z, q, ids):
        """Takes the rows themselves and near copies of them from the logits; returns the largest that are left."""
        same = self.slot.keys() & ids.tolist()
        for id in same:
            e[self.slot[id], ids == id] = -np.inf
        top, p = e.max(0), self.parzen
        half = 0.5 * np.einsum("kj,kj->j", q[:p], q[:p])
        limit = 1e-6 * self.d
        least = half * f4(1 - (p + 4) * 2.0 ** -22) - f4(limit)  # what the rounding of a logit leaves open
        if (top >= least).any():
            j, i = np.divmod(np.flatnonzero(e >= least), e.shape[1])
            for k in (slice(p, p + 4), slice(None)):  # a few coordinates tell nearly all that are none
                apart = z[k, j] - q[k, i]
                copies = np.einsum("kj,kj->j", apart, apart) < limit
                j, i = j[copies], i[copies]
            if len(j):
                e[j, i] = -np.inf
                top = e.max(0)
        return top

    def split(self):
        from scipy.linalg import eigh
        one, two = self.cg.copy(), self.cl.copy()
        self.ridge = 0.1 * self.cg.diagonal()
        one[np.diag_indices(self.d)] *= 1.001
        two[np.diag_indices(self.d)] += self.ridge
        e, u = eigh(two, one, check_finite=False, overwrite_a=True)
        p = self.parzen = max(1, int((e < 1).sum()))
        self.inv = u.T @ one  # uᵀ one u = 1
        self.b = u
        self.b[:, :p] /= np.sqrt(e[:p])
        self.inv[:p] *= np.sqrt(e[:p, None])
        self.b4 = self.b.astype(f4)
        self.wide, self.e = np.eye(p, dtype=f4), e[:p].astype(f4)

    def refresh(self):
        """B_L alone: B_G changes as slowly as C_G."""
        from scipy.linalg import blas, lapack
        p = self.parzen
        b = self.b[:, :p]
        c = b.T @ (self.cl @ b) + (b.T * self.ridge) @ b
        low, info = lapack.dpotrf(c, lower=1, clean=1)
        self.b[:, :p] = blas.dtrsm(1, low, b, lower=1, trans_a=1, side=1)
        self.inv[:p] = low.T @ self.inv[:p]
        self.wide = self.wide @ low.astype(f4)
        self.b4[:, :p] = self.b[:, :p]


def learn(config):
    pipe, layouts = Pipe(config), Layouts(config["column"])
    rows, guarded, state = config["rows"], config["guarded"], {"left": None, "ids": None, "learner": None}

    def snapshot(l):
        table = pa.record_batch([pa.FixedSizeListArray.from_arrays(pa.array(np.vstack([l.mean, l.b.T, l.cl, l.cg]).ravel()), l.d)], ["vector"])
        pool = pa.record_batch([pa.FixedSizeListArray.from_arrays(pa.array(l.pool.ravel()), l.d)], ["x"])
        for key, batch in (("model", table), ("neighbours", pool)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as w:
                w.write_batch(batch)
            value = sink.getvalue().to_pybytes()
            for i in range(0, len(value), 900_000):
                pipe.producer.produce(config["versions"], value[i:i + 900_000], f"{key}/{i}")

    def identities(run, layout):
        """One number a row: its partition, offset and place."""
        first = np.fromiter((m.partition() << 56 | m.offset() << 16 for m in run), np.int64, len(run))
        return (first[:, None] + np.arange(layout.rows)).ravel()

    def work(msgs):
        for layout, run in layouts.runs(msgs):
            x = layout.view([m.value() for m in run])
            ids = identities(run, layout) if guarded else None
            if state["left"] is not None and len(state["left"]):
                x = np.vstack([state["left"], x])
                ids = np.concatenate([state["ids"], ids]) if guarded else None
            at = 0
            if state["learner"] is None:
                at = max(4 * x.shape[1], rows)
                if len(x) < at:
                    state["left"], state["ids"] = x, ids
                    continue
                state["learner"] = Learner(x.shape[1], rows, config["neighbours"], 16)
                state["learner"].learn(x[:at], ids[:at] if guarded else None)
            l = state["learner"]
            while at + rows <= len(x):
                l.learn(x[at:at + rows], ids[at:at + rows] if guarded else None)
                at += rows
                if l.steps % 64 == 0:
                    snapshot(l)
            state["left"] = x[at:].copy()
            state["ids"] = ids[at:].copy() if guarded else None

    return pipe, work


def alone(config):
    """The learner without Kafka: rows per second of processor time, after a hundred minibatches."""
    d, rows = config["dim"], config["rows"]
    x = np.fromfile(config["file"], f4).reshape(-1, d)
    blocks = [x[i:i + rows] for i in range(0, len(x), rows)]
    l, seen = Learner(d, rows, config["neighbours"], 16), max(4 * d, rows)
    ids = lambda of: np.arange(seen, seen + len(of)) if config["guarded"] else None
    l.learn(x[:seen], ids(x[:seen]))

    def learn(i):
        nonlocal seen
        block = blocks[i % len(blocks)]
        seen += len(block)
        l.learn(block, ids(block))

    for i in range(100):
        learn(i)
    began = cpu()
    for i in range(config["messages"]):
        learn(i)
    return {"messages": config["messages"], "cpu": cpu() - began}


def file(config):
    """Whitens an Arrow file, mapped into memory, batch by batch."""
    model, began = Model(config), cpu()
    with pa.memory_map(config["file"]) as source:
        rows = pa.ipc.open_file(source)
        batches = (rows.get_batch(i) for i in range(rows.num_record_batches))
        d = rows.schema.field(config["column"]).type.list_size
        fields = [*rows.schema, pa.field("lca", pa.list_(pa.field("item", pa.float32(), nullable=False), d))]
        schema = pa.schema(fields + [pa.field("lca_score", pa.float32())] * config["score"])
        with pa.OSFile(config["output"], "wb") as sink, pa.ipc.new_file(sink, schema) as out:
            for batch in batches:
                x = batch.column(config["column"]).flatten().to_numpy().reshape(-1, d)
                y = pa.FixedSizeListArray.from_arrays(pa.array(model.whiten(x).ravel()), type=schema.field("lca").type)
                out.write_batch(pa.record_batch([*batch.columns, y] + ([pa.array(model.score(x))] if config["score"] else []), schema=schema))
    return {"cpu": cpu() - began, "rss": peak()}


def compare(config):
    """Reads two output topics and compares the numbers of the messages that both have."""
    def read(topic):
        c = Consumer({"bootstrap.servers": config["brokers"], "group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"})
        c.assign([TopicPartition(topic, 0, 0)])
        got, idle = {}, 0
        while idle < 5 and len(got) < config["most"]:
            msgs = c.consume(1000, 0.5)
            idle = 0 if msgs else idle + 1
            for m in msgs:
                h = dict(m.headers())
                t = pa.ipc.open_stream(m.value()).read_all()
                key = int(h["lca-source-offset"])
                assert key not in got, f"{topic}: input {key} came twice"
                got[key] = [h["lca-model-version"]] + [t[n].combine_chunks() for n in t.schema.names]
        c.close()
        return got
    a, b = read(config["a"]), read(config["b"])
    worst, count = 0.0, 0
    flat = lambda v: np.asarray(v.flatten() if pa.types.is_nested(v.type) else v, float)
    for key in a.keys() & b.keys():
        if a[key][0] != b[key][0]:
            continue
        assert len(a[key]) == len(b[key])
        for u, v in zip(a[key][1:], b[key][1:]):
            u, v = flat(u), flat(v)
            worst = max(worst, float(np.max(np.abs(u - v) / (1 + np.abs(v)))))
        count += 1
    assert count >= config["least"], f"only {count} of {len(a)} and {len(b)} messages are in both"
    assert worst < 1e-3, f"outputs differ by {worst}"
    return {"messages": count, "worst": worst}


def main():
    what, config = sys.argv[1], json.loads(sys.argv[2])
    if what == "compare":
        print(json.dumps(compare(config)))
        return
    if what in ("alone", "file"):
        print(json.dumps({"alone": alone, "file": file}[what](config)))
        return
    if what == "learn":
        import scipy.linalg  # before the clock starts
    began = cpu()
    pipe, work = {"transform": transform, "learn": learn, "pass": copy}[what](config)
    print("ready", flush=True)
    done, wall = pipe.run(work, config["messages"])
    spent = cpu() - began
    rss = peak()
    pipe.consumer.close()
    print(json.dumps({"messages": done, "cpu": spent, "wall": wall, "rss": rss}))


main()
