"""A machine's event stream: lca_score as an anomaly score, through Kafka and `lca-stream run`, compared with its rivals.

The data (SKAB, a water pump with valves; GPL-3.0) is not part of this repository: give `make quality` a clone of
https://github.com/waico/SKAB, whose first eight runs of valve 1 are then taken and, apart from them, all others that are normal
for as long as that; or an Arrow file of your own machine's runs
with sensor columns, `time`, `anomaly` (0 or 1, for judging only) and `segment` (0 = a long normal run, 1, 2, … =
runs that begin normal and have a fault).
"""
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from sklearn.metrics import average_precision_score, roc_auc_score

import design
import live
import rivals
import store

CONFIG = os.path.join(store.ROOT, "docs", "quality", "machine.yaml")
CHOSEN = [f"valve1/{i}" for i in range(8)]
OTHERS = [f"valve1/{i}" for i in range(8, 16)] + [f"valve2/{i}" for i in range(4)] + [f"other/{i}" for i in range(1, 15)]
MESSAGE, BLOCK = 10, 100  # rows per message; rows that are written before the program is waited for

data = {}


def prepare(arguments, brokers):
    """Reads the data; false where there is none."""
    if not arguments.valve:
        return False
    data.update(brokers=brokers, others={})
    if os.path.isdir(arguments.valve):
        t = clone(arguments.valve, CHOSEN)
        others = segments(clone(arguments.valve, OTHERS))
        data["others"] = {s: t for s, t in others.items() if not any(t["anomaly"].to_pylist()[:design.WARMUP])}
    else:
        t = pa.ipc.open_file(pa.OSFile(arguments.valve)).read_all()
    data.update(features=[c for c in t.column_names if c not in ("time", "anomaly", "segment")], segments=segments(t))
    return True


def segments(t):
    """The runs by number; 0 has no fault."""
    return {s: t.filter(pa.compute.equal(t["segment"], s)).combine_chunks() for s in sorted(set(t["segment"].to_pylist())) if s}


def clone(folder, names):
    """Runs of a clone of SKAB as one table."""
    runs = []
    for i, name in enumerate(names):
        t = pa.csv.read_csv(os.path.join(folder, "data", name + ".csv"), parse_options=pa.csv.ParseOptions(delimiter=";"))
        sensors = [c for c in t.column_names if c not in ("datetime", "anomaly", "changepoint")]
        columns = {c.lower().replace(" ", "_"): t[c].cast(pa.float32()) for c in sensors}
        runs.append(pa.table({**columns, "anomaly": t["anomaly"].cast(pa.int8()), "segment": pa.array([i + 1] * t.num_rows, pa.int16())}))
    return pa.concat_tables(runs)


def online(table, settings, warmup):
    """lca_score of every row: rows come in blocks, as from a machine that a program keeps up with. Rows before the first
    model wait for it; every other is scored by a model of the rows before its block."""
    with live.Live(data["brokers"], settings, config=CONFIG, features=data["features"]) as s:
        for a in range(0, table.num_rows, BLOCK):
            rows = table.slice(a, BLOCK)
            s.put(rows.select(data["features"]), MESSAGE)
            if a + rows.num_rows >= warmup:
                s.output(a + rows.num_rows)
                if rows.num_rows == BLOCK:
                    s.wait(a + BLOCK)
        return s.output(table.num_rows)["lca_score"].to_numpy()


def array(table):
    return np.stack([table[c].to_numpy().astype(float) for c in data["features"]], 1)


def batch(table, nu):
    X = array(table)
    m = live.replay(X[:design.WARMUP], ["lca.preset=density", f"lca.nu={nu}"], ["--algorithm", "lca-gauss", "--passes", "0"])
    return m.score(X)


def scores(table, method, setting, run):
    if method == "lca-stream":
        settings = design.LCA[setting]
        given = dict(s.split("=") for s in settings)
        warmup = int(given.get("lca.warmup_rows", design.WARMUP))
        return online(table, settings, warmup)
    if method == "lca-gauss, batch":
        return batch(table, design.BATCH[setting])
    return getattr(rivals, method)(array(table), run, **design.RIVALS[method][setting])


def judged(method, setting, run, runs="segments"):
    """ROC-AUC and average precision of every run, their means, and over all rows of all runs at once; the pooled AUC
    without each run too, for its error. Of the rows after the warm-up, which no score has seen before; and, as names that begin
    with all_, of all rows, of which the first have been learnt."""
    scored = {k: (table["anomaly"].to_numpy(), scores(table, method, setting, run)) for k, table in data[runs].items()}
    value = figures({k: (y[design.WARMUP:], s[design.WARMUP:]) for k, (y, s) in scored.items()})
    return value | {"all_" + name: v for name, v in figures(scored).items() if "_without_" not in name}


def figures(scored):
    """scored: run -> labels and scores of its rows."""
    value = {}
    for k, (y, s) in scored.items():
        value |= {f"auc_{k}": roc_auc_score(y, s), f"ap_{k}": average_precision_score(y, s)}
    for what in ("auc", "ap"):
        v = [value[f"{what}_{k}"] for k in scored]
        value |= {what: float(np.mean(v)), what + "_error": float(np.std(v, ddof=1) / np.sqrt(len(v)))}
    for left_out in scored:
        value[f"pooled_auc_without_{left_out}"] = roc_auc_score(*pooled(v for k, v in scored.items() if k != left_out))
    return value | {"pooled_auc": roc_auc_score(*pooled(scored.values())), "pooled_ap": average_precision_score(*pooled(scored.values()))}


def pooled(parts):
    return [np.concatenate(v) for v in zip(*parts)]


def judged_others(method, setting, run):
    return judged(method, setting, run, "others")


EXPERIMENTS = {"valve": (design.valve, judged), "others": (lambda runs: design.others() if data["others"] else [], judged_others)}
