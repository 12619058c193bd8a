"""Drives `lca-stream run` and `learn` on a real broker, as a program in Python would: writes rows to a topic, and reads
the whitened rows and the snapshots back.

    with Live(brokers, settings=["lca.preset=density"]) as s:
        s.put(X)                      # rows, as Arrow messages
        t = s.output(len(X))          # Arrow table: the input's columns, lca, lca_score, version
        m = s.model(2000)             # the snapshot of that many rows
"""
import contextlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import confluent_kafka as ck
import confluent_kafka.admin as admin
import numpy as np
import pyarrow as pa

import density
import store

BINARY = os.environ.get("LCA_STREAM", os.path.join(store.ROOT, "bin", "lca-stream"))
PATIENCE = 300  # seconds without anything new before it is called a fault
number = itertools.count()


def arrow(table):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as w:
        w.write_table(table.combine_chunks())
    return out.getvalue()


def relative(settings, X):
    """Settings in which {share} stands for that share of the mean variance of the columns of X."""
    return [re.sub(r"{(.*?)}", lambda m: repr(float(m[1]) * float(X.var(0).mean())), s) for s in settings]


def rows_table(X, **more):
    """A table with one list column x, and further columns."""
    x = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X, float).ravel()), X.shape[1])
    return pa.table({"x": x, **{k: pa.array(v) for k, v in more.items()}})


class Live:
    """The program on topics of its own, which are deleted at the end. command: run, or learn; waiting: rows that are there
    before it starts."""

    def __init__(self, brokers, settings=(), command="run", config=None, features=("x",), waiting=None):
        self.waiting, self.brokers, self.name = waiting, brokers, f"quality-{os.getpid()}-{next(number)}"
        self.admin = admin.AdminClient({"bootstrap.servers": brokers, "log_level": 0})
        # Idempotent, or messages that are sent again while a broker starts would come behind later ones.
        self.producer = ck.Producer({"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 0, "message.max.bytes": 16 << 20,
                                     "enable.idempotence": True})
        topics = {"source.topic": "", "transform.topic": "-out", "snapshot.topic": "-snap", "checkpoint.topic": "-check", "transform.state_topic": "-state"}
        self.topics = {k: self.name + v for k, v in topics.items()}
        self.consumers, self.tables, self.rows, self.snapshots, self.stamps = {}, [], 0, {}, {}
        self.log = tempfile.TemporaryFile("w+")
        self.args = [*(["-c", config] if config else []), "--set", f"kafka.brokers={brokers}", "--set", "http.listen=",
                     "--set", f"source.group={self.name}", "--set", f"source.features=[{','.join(features)}]",
                     "--set", "source.partitions=0",
                     "--set", "lca.skip_when_behind=false"]
        self.args += [a for k, v in self.topics.items() for a in ("--set", f"{k}={v}")]
        self.args += [a for s in settings for a in ("--set", s)]
        self.command = command

    def __enter__(self):
        if self.args[0] != "-c":
            self.empty = tempfile.NamedTemporaryFile("w", suffix=".yaml")
            self.args = ["-c", self.empty.name, *self.args]
        policies = dict.fromkeys(["snapshot.topic", "checkpoint.topic", "transform.state_topic"], "compact")
        new = [admin.NewTopic(t, 1, 1, config={"cleanup.policy": policies.get(k, "delete"), "max.message.bytes": str(16 << 20)})
               for k, t in self.topics.items()]
        for f in self.admin.create_topics(new).values():
            f.result(PATIENCE)
        if self.waiting is not None:
            self.put(self.waiting)
        self.began = time.time()
        self.process = subprocess.Popen([BINARY, self.command, *self.args], stdout=self.log, stderr=self.log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE)
        for c in self.consumers.values():
            c.close()
        with contextlib.suppress(Exception):
            for f in self.admin.delete_topics(list(self.topics.values())).values():
                f.result(PATIENCE)

    def put(self, table, per_message=100):
        """Writes the rows of a table, or of an array as list column x."""
        table = rows_table(table) if isinstance(table, np.ndarray) else table
        for a in range(0, table.num_rows, per_message):
            value = arrow(table.slice(a, per_message))
            while True:
                try:
                    self.producer.produce(self.topics["source.topic"], value, partition=0)
                    break
                except BufferError:
                    self.producer.poll(.1)
        self.producer.flush()

    def output(self, rows):
        """All output so far, once it has that number of rows."""
        start, seen = time.time(), self.rows
        while self.rows < rows:
            for m in self._poll("transform.topic"):
                t = pa.ipc.open_stream(m.value()).read_all()
                version = int(dict(m.headers())["lca-model-version"])
                self.tables.append(t.append_column("version", pa.array([version] * t.num_rows)))
                self.rows += t.num_rows
            if self.rows > seen:
                start, seen = time.time(), self.rows
            self._check(start, f"{self.rows} of {rows} rows of output")
        return pa.concat_tables(self.tables)

    def model(self, rows):
        """The snapshot of that number of rows, or the first one of more."""
        self.wait(rows)
        return self.whole(min(v for v in self.versions() if v >= rows))

    def wait(self, rows):
        """Waits until a snapshot of that number of rows is there."""
        start, seen = time.time(), len(self.snapshots)
        while not any(v >= rows for v in self.versions()):
            for m in self._poll("snapshot.topic"):
                if m.value() is not None:
                    h = {k: v.decode() for k, v in m.headers()}
                    i, n = map(int, h["lca-chunk"].split("/"))
                    self.stamps[int(h["lca-model-version"])] = m.timestamp()[1] / 1000
                    parts = self.snapshots.setdefault(int(h["lca-model-version"]), {})
                    parts.setdefault(h["lca-part"], [None] * n)[i] = m.value()
            if len(self.snapshots) > seen:
                start, seen = time.time(), len(self.snapshots)
            self._check(start, f"the snapshot of {rows} rows; there are {self.versions()}")

    def seconds(self, rows):
        """From the start of the program to the moment of the snapshot."""
        return self.stamps[rows] - self.began

    def versions(self):
        return [v for v, parts in self.snapshots.items() if {"model", "neighbours"} <= parts.keys() and all(None not in p for p in parts.values())]

    def whole(self, version):
        parts = {k: pa.concat_tables(pa.ipc.open_stream(c).read_all() for c in chunks)
                 for k, chunks in self.snapshots[version].items()}
        return density.of_tables(parts["model"], parts["neighbours"])

    def _poll(self, topic):
        if topic not in self.consumers:
            c = ck.Consumer({"bootstrap.servers": self.brokers, "group.id": self.name + "-quality", "isolation.level": "read_committed",
                             "enable.auto.commit": False, "log_level": 0, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 16 << 20})
            c.assign([ck.TopicPartition(self.topics[topic], 0, ck.OFFSET_BEGINNING)])
            self.consumers[topic] = c
        found = self.consumers[topic].consume(1000, .05)
        for m in found:
            if m.error():
                raise ck.KafkaException(m.error())
        return found

    def _check(self, start, what):
        if self.process.poll() is not None or time.time() - start > PATIENCE:
            self.log.seek(0)
            raise RuntimeError(f"waiting for {what}; the program says:\n{self.log.read()[-3000:]}")


def replay(table, settings=(), flags=(), config=None):
    """A refit from files, without Kafka: the model, and what --json says."""
    with tempfile.TemporaryDirectory() as folder:
        rows, model = os.path.join(folder, "rows.arrow"), os.path.join(folder, "model.arrows")
        table = rows_table(table) if isinstance(table, np.ndarray) else table
        with pa.OSFile(rows, "wb") as f, pa.ipc.new_file(f, table.schema) as w:
            w.write_table(table.combine_chunks(), max_chunksize=1000)
        command = [BINARY, "replay", *(["-c", config] if config else []), "--input", rows, "--output", model, "--json", *flags]
        for s in settings:
            command += ["--set", s]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stderr}")
        with pa.OSFile(model) as f:
            parts = []
            while f.tell() < f.size():
                parts.append(pa.ipc.open_stream(f).read_all())
        kinds = [[p for p in parts if column in p.column_names] for column in ("vector", "x")]  # model, neighbours
        m = density.of_tables(pa.concat_tables(kinds[0]), pa.concat_tables(kinds[1]))
        m.info |= json.loads(done.stdout.splitlines()[-1])
        return m


def say(text):
    print(text, file=sys.stderr, flush=True)
