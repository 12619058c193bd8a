"""Runs that are made once: each is a line of JSON in build/paper, so that a broken-off `make paper`
resumes, and their means and standard errors go to docs/paper/results, from which the page is made."""
import json
import os
import sys
import statistics
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results")
CACHE = os.path.join(HERE, "..", "..", "build", "paper")


class Runs:
    """The runs of one experiment. A run's key is its parameters; the same key is never run twice."""

    def __init__(self, name):
        self.name, self.path = name, os.path.join(CACHE, name + ".jsonl")
        os.makedirs(CACHE, exist_ok=True)
        self.done = {}
        if os.path.exists(self.path):
            with open(self.path) as f:
                for line in f:
                    try:
                        r = json.loads(line)
                    except json.JSONDecodeError:
                        continue  # the last line of a run that was broken off
                    self.done[self._id(r["key"])] = r

    @staticmethod
    def _id(key):
        return json.dumps(key, sort_keys=True)

    def each(self, keys, work):
        """Calls work(**key), which returns a dictionary of figures, for each key that has no result yet."""
        todo = [k for k in keys if self._id(k) not in self.done]
        start = time.time()
        for i, key in enumerate(todo):
            begin = time.time()
            r = {"key": key, "value": work(**key), "seconds": round(time.time() - begin, 3)}
            with open(self.path, "a") as f:
                f.write(json.dumps(r) + "\n")
            self.done[self._id(key)] = r
            left = (time.time() - start) / (i + 1) * (len(todo) - i - 1)
            self._progress(i + 1, len(todo), left, key)

    def _progress(self, done, total, left, key):
        text = f"{self.name}: {done}/{total}, {left / 60:.1f} min left, {json.dumps(key)}"
        if sys.stderr.isatty():
            print("\r\033[K" + text[:110], end="\n" if done == total else "", file=sys.stderr, flush=True)
        elif done == total or done % 10 == 0 or left > 600:
            print(text, file=sys.stderr, flush=True)

    def summary(self, keys, base=None):
        """Mean, standard error and number of runs of every figure, for each key without its run. Where
        base(key) names a run to compare with, the figures' differences to it are added as *_difference."""
        groups = {}
        for key in keys:
            r = self.done.get(self._id(key))
            if r is None:
                continue
            value = dict(r["value"])
            other = self.done.get(self._id(base(key))) if base else None
            if other is not None:
                value |= {figure + "_difference": value[figure] - v for figure, v in other["value"].items()}
            rest = {k: v for k, v in key.items() if k != "run"}
            groups.setdefault(self._id(rest), (rest, []))[1].append(value)
        rows = []
        for rest, values in groups.values():
            row = dict(rest)
            for figure in values[0]:
                row[figure] = spread([v[figure] for v in values if figure in v])
            rows.append(row)
        return rows


def spread(v):
    """Mean, standard error and number of runs."""
    error = statistics.stdev(v) / len(v) ** .5 if len(v) > 1 else None
    return {"mean": float(f"{statistics.fmean(v):.6g}"), "se": None if error is None else float(f"{error:.4g}"), "runs": len(v)}


def save(name, rows):
    """Writes the summary that the page is made from, one row a line. A row that is there with more runs stays, so that
    a trial with few runs, or one that was broken off, takes nothing away."""
    def parameters(row):
        return Runs._id({k: v for k, v in row.items() if not isinstance(v, dict)})

    def count(row):
        return max((v["runs"] for v in row.values() if isinstance(v, dict)), default=0)

    merged = {parameters(r): r for r in load(name)}
    for r in rows:
        old = merged.get(parameters(r))
        if old is None or count(r) >= count(old):
            merged[parameters(r)] = r
    if not merged:
        return
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, name + ".json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in merged.values()) + "\n]\n")


def load(name):
    """The summary of an experiment, or nothing where it has not been run."""
    path = os.path.join(RESULTS, name + ".json")
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return json.load(f)
