"""A model for each machine, or one for all: the runs of the machine's event stream as machines that run at the same time, with the run as
the key of each message. The same records in the same order are learnt by `lca-stream learn`, once with model.by: key and once
without. A row is scored by the snapshot of all rows before its block of 100, and rows are judged as in valve.py.
"""
import time

import numpy as np
import pyarrow as pa

import density
import design
import live
import valve

KEYED, ALL = design.FLEET_MODELS


class Fleet(live.Live):
    """Messages have keys, and a model may belong to each."""

    def __enter__(self):
        self.parts, self.versions_of = {}, {}
        return super().__enter__()

    def put_messages(self, messages):
        """Writes pairs of a key and a table."""
        for key, table in messages:
            self.producer.produce(self.topics["source.topic"], live.arrow(table), key=key, partition=0)
            self.producer.poll(0)
        self.producer.flush()

    def wait_for(self, wanted):
        """Waits until a model of each id has learnt that number of rows, and keeps all snapshots on the way."""
        start = time.time()
        while not all(rows in self.versions_of.get(m, ()) for m, rows in wanted.items()):
            for m in self._poll("snapshot.topic"):
                if m.value() is not None:
                    h = {k: v.decode() for k, v in m.headers()}
                    model, version = h["lca-model-id"], int(h["lca-model-version"])
                    self.parts.setdefault((model, version), {}).setdefault(h["lca-part"], []).append(m.value())
                    if h["lca-part"] == "neighbours" and h["lca-chunk"].split("/")[0] == str(int(h["lca-chunk"].split("/")[1]) - 1):  # the last record
                        self.versions_of.setdefault(model, set()).add(version)
            self._check(start, f"models of {wanted}; there are {self.versions_of}")

    def snapshot(self, model, version):
        parts = self.parts[model, version]
        return density.of_tables(*(pa.concat_tables(pa.ipc.open_stream(c).read_all() for c in parts[p]) for p in ("model", "neighbours")))


def messages(runs):
    """All messages in order, with the run and its first row: those of all runs in turn."""
    for a in range(0, max(t.num_rows for t in runs.values()), valve.MESSAGE):
        for k, table in runs.items():
            if a < table.num_rows:
                yield k, a, table.slice(a, valve.MESSAGE)


def machines(units):
    """The runs; with units of their own each column of each run is multiplied by a number of its own, from 1/e to e."""
    runs = {k: t.select(valve.data["features"]) for k, t in valve.data["segments"].items()}
    if units == design.FLEET_UNITS[0]:
        return runs
    factors = {k: np.exp(np.random.default_rng(k).uniform(-1, 1, len(valve.data["features"]))) for k in runs}
    return {k: pa.table({c: (t[c].to_numpy() * f).astype(np.float32) for c, f in zip(t.column_names, factors[k])}) for k, t in runs.items()}


def scores(units, models, warmup):
    """lca_score of every row of each run; NaN before the first model."""
    runs = machines(units)
    settings = [f"lca.warmup_rows={warmup}", "lca.neighbours=3000"] + (["model.by=key", "transform.until_model=pass_through"] if models == KEYED else [])
    sent, before, rows = [], {}, 0  # before: the rows of the stream before a block of a run
    for k, a, table in messages(runs):
        if a % valve.BLOCK == 0:
            before[k, a] = rows
        sent.append((str(k), table))
        rows += table.num_rows

    def model_of(k, a):
        """The model of the rows before a block: minibatches have a hundred rows."""
        return (f"machine/0/{k}", a) if models == KEYED else ("machine", before[k, a] // valve.BLOCK * valve.BLOCK)

    found = {}
    with Fleet(valve.data["brokers"], settings, "learn", config=valve.CONFIG, features=valve.data["features"]) as s:
        s.put_messages(sent)
        s.wait_for({model_of(k, t.num_rows)[0]: t.num_rows // valve.BLOCK * valve.BLOCK for k, t in runs.items()} if models == KEYED
                   else {"machine": rows // valve.BLOCK * valve.BLOCK})
        for k, table in runs.items():
            X, found[k] = valve.array(table), np.full(table.num_rows, np.nan)
            for a in range(0, len(X), valve.BLOCK):
                if model_of(k, a)[1] >= warmup:
                    found[k][a:a + valve.BLOCK] = s.snapshot(*model_of(k, a)).score(X[a:a + valve.BLOCK])
    return found


def judged(units, models, warmup, run):
    """The figures of valve.py, of the rows after the first 400 of each run."""
    found = scores(units, models, warmup)
    return valve.figures({k: (t["anomaly"].to_numpy()[design.WARMUP:], found[k][design.WARMUP:]) for k, t in valve.data["segments"].items()})


prepare = valve.prepare
EXPERIMENTS = {"fleet": (design.fleet, judged)}
