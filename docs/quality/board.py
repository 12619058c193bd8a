"""The board: real labelled series and tables, our program and rivals, all run in the same way: the train rows are learnt first, then
every test row is scored before it is learnt, if at all. Labels judge, and nothing else; no label is moved or widened but in VUS-PR,
which is defined so.

    make board WILD=directory            the files of the directory, then the first table of docs/quality.md
    make board WILD=directory ONLY=smd   some groups, into build/quality/board alone

A file is an Arrow file: columns of numbers s00, s01, …, split (train, then test), label (0, 1). A group is the files whose names
begin with it; the rows of tables have no order. The data are not ours to pass on: asd, smd (InterFusion, OmniAnomaly), jump2, jump3
(JumpStarter), smap, msl (NASA), tep (Tennessee Eastman), table (ADBench).

Each result is a file of its own in build/quality/board, so that a second call resumes the first; ours are made again by another program.
"""
import argparse
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "GOMAXPROCS"):
    os.environ.setdefault(threads, "1")

import numpy as np
import pyarrow as pa

import boardrivals
import store

GROUPS = ["asd", "jump2", "jump3", "smd", "smap", "msl", "tep"]
TABLES = "table"
DENSITY, METRIC, LAST = ["lca.preset=density"], ["lca.preset=metric"], "lca_recent_score"  # the last is of rows with an order
SCORES = {"last rows": (DENSITY, LAST), "row, `density`": (DENSITY, "lca_score"), "row, `metric`": (METRIC, "lca_score")}
# As it is shipped, which is with the columns that it chooses by the train rows; and with all columns, as rivals have them.
OURS = {f"lca-stream, {name}" + ", all columns" * every: (settings, column, every) for every in (False, True) for name, (settings, column) in SCORES.items()}
FIGURES = ["ap", "auc", "vus_pr", "cpu"]
EPISODES = ["faults", "met", "false", "others", "begun", "open", "rows"]
BUDGET = "alarms.budget=1/2000 rows"
CACHE = os.path.join(store.ROOT, "build", "quality", "board")
PROGRAM = os.environ.get("LCA_STREAM", os.path.join(store.ROOT, "bin", "lca-stream"))


def ranked(y, s):
    """Labels by falling score; how many there are up to each, and up to each of other scores than the next one."""
    order = np.argsort(-s, kind="stable")
    y, s = y[order].astype(float), s[order]
    last = np.append(np.flatnonzero(np.diff(s)), len(s) - 1)
    return np.cumsum(y)[last], last + 1.


def average_precision(y, s):
    hits, rows = ranked(y, s)
    return float((np.diff(hits, prepend=0) * hits / rows).sum() / hits[-1])


def area(y, s):
    """Under the ROC curve."""
    hits, rows = ranked(y, s)
    others = rows - hits
    return float((np.diff(others, prepend=0) * (hits + np.append(0, hits[:-1])) / 2).sum() / hits[-1] / others[-1])


def stretches(y):
    edges = np.diff(np.concatenate([[0], y.astype(int), [0]]))
    return list(zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1))


def vus_pr(y, s, widest=100, thresholds=250):
    """Volume under the surface of precision and recall (Paparrizos and others 2022): the area with labels that fade out around each fault over
    0, 1, …, widest rows, and a recall that counts the faults that are met as well; the mean over the widths."""
    n, faults = len(y), stretches(y)
    order = np.argsort(-s, kind="stable")
    places = np.linspace(0, n - 1, thresholds).astype(int)
    levels = s[order][places]
    predicted = np.searchsorted(-s[order], -levels, side="right")  # rows with at least that score
    volume = 0.
    for width in range(widest + 1):
        label, reach = y.astype(float), width // 2
        for first, last in faults:
            after = np.arange(last + 1, min(last + reach + 1, n))
            label[after] += np.sqrt(1 - (after - last) / width)
            before = np.arange(max(first - reach, 0), first)
            label[before] += np.sqrt(1 - (first - before) / width)
        label = np.minimum(label, 1)
        hits = np.cumsum(label[order])[predicted - 1]
        around = np.cumsum((label * (y == 0))[order])[predicted - 1]
        peaks = np.sort([s[first:last + 1].max() for first, last in stretches(label > 0)])
        met = (len(peaks) - np.searchsorted(peaks, levels, side="left")) / len(peaks)
        recall = np.minimum(hits / (y.sum() + around / 2), 1) * met
        volume += (np.diff(recall, prepend=0) * hits / predicted).sum()
    return float(volume / (widest + 1))


def judged(y, s, ordered):
    """The figures of the scores of test rows. A row without a score counts as the least unusual, because it raises no alarm."""
    s = np.where(np.isfinite(s), s, np.nanmin(s[np.isfinite(s)]) - 1 if np.isfinite(s).any() else 0.).astype(float)
    return {"ap": average_precision(y, s), "auc": area(y, s)} | ({"vus_pr": vus_pr(y, s)} if ordered else {})


def judged_episodes(y, ids, own):
    """What the episodes of test rows are worth, by what the program says of them: faults, those that are met, false episodes and others; and faults in which one
    begins, or up to 60 rows before, rows in one, and all."""
    begun = np.flatnonzero((ids != "") & (ids != np.append("", ids[:-1])))
    return dict(zip(EPISODES, (own["faults"], own["met"], own["false_episodes"], own["episodes"] - own["false_episodes"],
                               sum(bool(((begun >= a - 60) & (begun <= b)).any()) for a, b in stretches(y)), int((ids != "").sum()), len(y))))


class Series:
    def __init__(self, path):
        self.path, self.name = path, os.path.basename(path)[:-len(".arrow")]
        self.ordered = not self.name.startswith(TABLES)

    def load(self):
        t = pa.ipc.open_file(self.path).read_all()
        self.columns = [c for c in t.column_names if c not in ("split", "label")]
        train = np.array(t["split"].to_pylist()) == "train"
        self.rows = int(train.sum())
        x = np.nan_to_num(np.column_stack([t[c].to_numpy() for c in self.columns]).astype(float))
        self.train, self.test, self.y = x[train], x[~train], t["label"].to_numpy()[~train].astype(int)
        return self


def ours(series, settings, column, every):
    """A score of our program, with these settings on top of those that are shipped. One run has all scores."""
    how = settings, every
    if (last := getattr(series, "run", None)) is None or last[0] != how:
        series.run = how, backtest(series, *how)
    rows, own, used = series.run[1]
    s = rows[column].to_numpy()[series.rows:]
    figures = judged(series.y, s, series.ordered) | {"cpu": cpu(used, series)}
    if column == LAST:
        ids = rows["lca_episode"].cast("string").fill_null("").to_numpy(zero_copy_only=False)[series.rows:].astype(str)
        figures |= judged_episodes(series.y, ids, own)
        if own["scored"] == len(series.y):
            for f in ("ap", "auc"):
                assert abs(own[f] - figures[f]) < 1e-6, (series.name, f, own[f], figures[f])
    return figures


def backtest(series, settings, every):
    """The rows that come out, what is said of them, and the CPU seconds."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "rows.arrow")
        command = [PROGRAM, "backtest", series.path, "--until", str(series.rows), "--labels", "label", "--rows", out, "--json", "--time=", "--key=", "--set", BUDGET]
        if every:
            command += ["--features", ",".join(series.columns)]
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as log:
            process = subprocess.Popen(command + [a for s in settings for a in ("--set", s)], stdout=said, stderr=log)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0), log.seek(0)
            if process.returncode:
                raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}: {log.read().decode()}")
            own = json.loads(said.read().splitlines()[-1])
        with pa.OSFile(out) as f:
            return pa.ipc.open_file(f).read_all(), own, used.ru_utime + used.ru_stime


def rival(series, score):
    begin = time.process_time()
    s = score(*boardrivals.units(series.train, series.test))
    seconds = time.process_time() - begin
    return judged(series.y, s, series.ordered) | {"cpu": cpu(seconds, series)}


def cpu(seconds, series):
    """µs per row, learnt or scored."""
    return 1e6 * seconds / (len(series.train) + len(series.test))


def methods():
    """name -> (function of a series, whether it is for tables, what makes its results other ones)"""
    with open(PROGRAM, "rb") as f:
        program = hashlib.sha256(f.read()).hexdigest()[:16]
    all = {name: (lambda s, how=how: ours(s, *how), how[1] != LAST, program) for name, how in OURS.items()}
    for kind in (boardrivals.FIXED, boardrivals.LEARNING):
        all |= {name: (lambda s, score=score: rival(s, score), tables, "") for name, (score, tables) in kind.items()}
    return all


def result(method, made_by, series, work):
    """A result, from its file where it is there."""
    path = os.path.join(CACHE, method.replace("`", ""), series.name + ".json")
    try:
        with open(path) as f:
            found = json.load(f)
        if found["by"] == made_by:
            return found["figures"]
    except FileNotFoundError:
        pass
    if not hasattr(series, "train"):
        series.load()
    figures = work(series)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.{os.getpid()}"
    with open(part, "w") as f:
        json.dump({"by": made_by, "figures": figures}, f)
    os.replace(part, path)
    return figures


def run(directory, groups, known):
    """method -> group -> figures of its series"""
    all = {}
    for group in groups:
        paths = sorted(glob.glob(os.path.join(directory, group + "*.arrow")))
        if not paths:
            raise SystemExit(f"board: {directory} has no files {group}*.arrow")
        begin = time.time()
        for path in paths:
            series = Series(path)
            for name, (work, tables, by) in known.items():
                if group != TABLES or tables:
                    all.setdefault(name, {}).setdefault(group, []).append(result(name, by, series, work))
        print(f"board: {group}, {len(paths)} files, {time.time() - begin:.0f} s", file=sys.stderr, flush=True)
    return all


def summary(all):
    """A row for each method and group: means over its files."""
    rows = []
    for name, groups in all.items():
        for group, found in groups.items():
            rows.append({"method": name, "group": group} | {f: store.spread([r[f] for r in found]) for f in FIGURES if f in found[0]}
                        | {f: sum(r[f] for r in found) for f in EPISODES if f in found[0]})
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--wild", required=True, help="directory of the files")
    p.add_argument("--only", default="", help="comma-separated groups; the page stays as it is")
    a = p.parse_args()
    groups = a.only.split(",") if a.only else GROUPS + [TABLES]
    rows = summary(run(a.wild, groups, methods()))
    if not a.only:
        with open(os.path.join(store.HERE, "results", "board.json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
        import page
        page.main()
        return
    for r in rows:
        print(f"{r['method']:30} {r['group']:6}", *(f"{f} {r[f]['mean']:.3f}" for f in FIGURES if f in r))


if __name__ == "__main__":
    main()
