"""The columns that have changed in an episode: how its rows differ from those before it, column by column, as the documentation of package lca/recent says it."""

import copy
import math

import numpy as np

from recent import RATES, halves

MOST = 16  # columns that a record names
LAST = 7  # rows in the account of the last ones
AGAIN = 50  # rows after which a column that was told may be told again
REST = 200  # rows in which a column has hardly moved, and did before
CALM = 5  # rows without a change after which one that comes is another one
DRIFT = 1 / 500  # of a row in the slow mean of an episode
LEAST = 0.05  # scales: what steps and deviations are compared with at least
CHANGED, STRANGE = 2.5, 1.75**2  # the least rank of a column that has changed by itself; residual of one in a relation that has broken
TOLERANCE = 1e-4  # numbers are rounded to 20 bits on their way


class Steps:
    """What is kept of the steps of a series while no episode is open."""

    def __init__(self, d):
        self.rows, self.last, self.mean, self.slow = 0, np.full(d, np.nan), None, None

    def look(self, e, series):
        """By how much the last row is away from the mean, and from the row before."""
        if self.mean is None:
            self.mean, self.slow = halves(e.mean[2 * e.d:]), series.m2.copy()
        away = series.x - series.m1
        with np.errstate(all="ignore"):
            step = np.abs(away / (1 - max(RATES[0], 1 / series.rows)) - self.last)
        step = np.where(np.isnan(step), self.mean, step)
        self.last = np.where(np.isnan(series.x), self.last, halves(away))
        return away, step

    def step(self, e, series):
        _, step = self.look(e, series)
        known = ~np.isnan(series.x)
        self.rows = min(self.rows + 1, 1000)
        rate, slow = (max(r, 1 / (self.rows + 20)) for r in (1 / 1000, 1 / 200))
        self.mean = np.where(known, halves(self.mean + rate * (step - self.mean)), self.mean)
        was = np.where(np.isnan(self.slow), series.x, self.slow)
        self.slow = np.where(known, was + slow * (series.x - was), self.slow)


class Account:
    """How columns differ, over rows of an episode, from what they were before."""

    def __init__(self, d):
        self.noise, self.rms, self.mean, self.strange = np.full(d, np.nan), np.zeros(d), np.zeros(d), np.zeros(d)

    def add(self, weight, known, noise, moved, residual, drift=0):
        new = np.isnan(self.noise)
        weight = np.where(new, 1, weight)
        follow = lambda m, v: np.where(known, halves(m + weight * (v - m)), m)
        self.noise = np.where(known, follow(np.where(new, 0, self.noise), noise), self.noise)
        self.rms = np.where(known, halves(np.sqrt(self.rms**2 + weight * ((moved - drift) ** 2 - self.rms**2))), self.rms)
        self.mean, self.strange = follow(self.mean, moved), follow(self.strange, residual**2)


class Cause:
    """The accounts of an episode: of all its rows, each by the fourth power of its score, and of the last ones."""

    def __init__(self, e, series, steps):
        self.rows, d = 0, e.d
        long = np.where(np.isnan(series.m2), e.c, series.m2)
        short = np.where(np.isnan(series.m2), e.c, series.m1)
        before = long if steps.slow is None else np.where(np.isnan(steps.slow), long, steps.slow)
        self.before = np.array([e.uncut(k, v)[0] for k, v in enumerate(before)])  # each version cuts it by itself
        self.all, self.last, self.drift = Account(d), Account(d), np.zeros(d)  # the last is the slow mean of what each column has moved
        self.top = self.weight = 0  # the highest score, and the sum of (score / top)⁴
        self.rest, self.told = [None] * d, {}  # rows: since when a column has hardly moved, and in which it was told
        self.first, self.other = None, 0  # the column that was told first, and rows in a row that tell another one
        self.onset = [began(x, s, l, max(LEAST * scale, v)) for x, s, l, scale, v in zip(series.x, short, long, e.s, e.mean[2 * d:])]
        self.since, self.far = list(self.onset), [None if o is None else 0 for o in self.onset]
        self.ends()

    def step(self, e, series, steps, score):
        away, step = steps.look(e, series)
        self.rows += 1
        least, typical = LEAST * e.s, e.mean[2 * e.d:]
        noise = (step / np.maximum(steps.mean, least) + np.abs(away) / np.maximum(typical, least)) / 2
        moved, residual, known = series.x - e.cut(self.before), self.residual(e, series), ~np.isnan(series.x)
        if score > self.top:
            self.weight, self.top = self.weight * (self.top / score) ** 4, score
        self.weight += (weight := (max(score, 0) / self.top) ** 4 if self.top else 1)
        self.all.add(max(weight / self.weight, 1e-5), known, noise, moved, residual)
        self.last.add(max(1 / self.rows, 1 / LAST), known, noise, moved, residual, self.drift)
        self.drift = np.where(known, halves(self.drift + DRIFT * (moved - self.drift)), self.drift)
        with np.errstate(invalid="ignore"):
            away, rests = (np.abs(moved) > 3 * np.maximum(typical, least)) | (noise > 3), (steps.mean > least) & (step < 0.2 * steps.mean)
        for k in np.flatnonzero(known):
            self.dates(k, self.rows - 1, away[k], rests[k])

    def dates(self, k, row, away, rests):
        """Since when a column has been as it is."""
        if away:
            self.far[k] = row
            for began in self.onset, self.since:
                began[k] = row if began[k] is None else began[k]
        elif self.far[k] is not None and row - self.far[k] >= CALM:
            self.since[k] = None
        self.rest[k] = None if not rests else row if self.rest[k] is None else self.rest[k]

    def ends(self):
        """The episode ends with this row, if those to come are no part of it."""
        self.ended, self.end = copy.copy(self.all), self.rows

    def residual(self, e, series):
        """How far each column is from what the others tell of it; in the first row, the short means."""
        x, f = (series.m1, e.triangles[0][: e.d, : e.d]) if self.rows == 1 and e.charted else (series.x, e.triangles[2])
        return f.T @ (f @ np.nan_to_num((x - e.cut(self.before)) / e.s)) / np.sqrt((f * f).sum(0))

    def now(self, e, features):
        """What has changed most in the last rows; what moved compares with from now on."""
        all, _ = self.lately(e, features)
        self.first, self.other = (all[0]["column"] if all else None), 0
        self.told[self.first] = self.rows
        return all

    def moved(self, e, features):
        """Whether another column than the first that was told is first, for three rows in a row, and one has changed at all."""
        all, changed = self.lately(e, features)
        told = max((one["rank"] for one in all if one["column"] == self.first), default=-math.inf)
        again = all and self.rows - self.told.get(all[0]["column"], -math.inf) < AGAIN
        self.other = min(self.other, 3) + 1 if changed and all[0]["rank"] > told + 0.2 and not again else 0
        return self.other >= 3

    def lately(self, e, features):
        """The columns in the order of the last rows, by the slow mean of the episode if one has changed by that; and whether one has changed at all."""
        rows = min(self.rows, LAST)
        all = self.columns(e, features, self.last, 0.1 * min(1, rows / 10))
        if changed_itself(all, rows, "lately"):
            for one in all:
                one["rank"] = one["lately"]
            changed = True
        else:
            changed = changed_itself(all, rows) or broken(all)
        return sorted(all, key=lambda one: -one["rank"]), changed

    def ranked(self, e, features):
        """The columns in the order of its rows, those that have changed most first; where none has by itself, those that do not fit the others."""
        all = self.columns(e, features, self.ended, 0.2 if self.end > 30 else 0.1 * min(1, self.end / 10))
        if not changed_itself(all, self.end):
            broken(all)
        return sorted(all, key=lambda one: -one["rank"])

    def columns(self, e, features, a, quiet):
        """What became of each column with a value in the episode."""
        all, was, spread = [], e.cut(self.before), np.sqrt((np.linalg.inv(e.triangles[1]) ** 2).sum(1))
        for k in np.flatnonzero(~np.isnan(a.noise)):
            noise, mean, late = a.noise[k], a.mean[k] / e.s[k], a.rms[k] / e.s[k]
            drift = self.drift[k] / e.s[k] if a is self.last else 0
            rms = math.sqrt(max(late**2 + drift * (2 * mean - drift), mean**2)) if drift else late
            typical = e.mean[2 * e.d + k] / e.s[k]  # in scales
            now, steep = e.uncut(k, was[k] + a.mean[k])
            own = 1.5 * math.log1p(noise)
            onset = (self.since if a is self.last else self.onset)[k] or 0
            onset = 0 if a is self.ended and onset >= self.end else onset
            one = {"feature": short(features[k]), "before": self.before[k], "now": now, "steep": steep, "unit": e.s[k] + abs(a.mean[k]), "onset": onset,
                   "rank": own + math.log1p(rms), "lately": own + math.log1p(late), "strange": a.strange[k], "column": k}
            below = (1 - noise) * typical / spread[k]
            if a is self.last and self.rest[k] is not None and self.rows - self.rest[k] >= REST:
                below = max(below, 3)
            one["still"] = noise < quiet and typical > LEAST and below >= 3
            if one["still"]:
                more = 1.5 * math.log1p(below)
                one.update(rank=one["rank"] + more, lately=one["lately"] + more)
            if one["still"] and steep == 1:  # what is cut says nothing of its noise
                one["direction"] = "quiet"
                one["onset"] = 0 if a is not self.last else max(0, self.rows - LAST) if self.rest[k] is None else self.rest[k]
            elif abs(mean) < 2 * max(typical, LEAST) and noise > 1 or abs(mean) < rms / 2:
                one["direction"] = "noisy"
            else:
                one["direction"] = "down" if mean < 0 else "up"
            all.append(one)
        return all


def changed_itself(all, rows, by="rank"):
    """Whether a column has changed by itself."""
    return any(one["still"] or one[by] >= CHANGED + 0.5 / math.sqrt(rows) for one in all)


def broken(all):
    """Whether a relation has broken: the columns are ranked by how far they are from what the others tell of them then."""
    if not max((one["strange"] for one in all), default=0) > STRANGE:
        return False
    for one in all:
        one["rank"] = math.sqrt(one["strange"])
    return True


def began(x, short, long, noise):
    """In which row, seen from this one, a step began that has taken a column from its long mean to x; None: there was no step."""
    if not abs(short - long) > 3 * noise or not (x - long) * (short - long) >= 0:
        return None
    rows = math.log(max(abs(x - long), 1e-300) / max(abs(x - short), noise)) / math.log((1 - RATES[1]) / (1 - RATES[0]))
    return 1 - round(min(max(rows, 1), 40))


def short(name):
    """A name as records have it."""
    return name if len(name.encode()) <= 120 else name.encode()[:120].decode(errors="ignore") + "…"


def check(got, want):
    """Raises what is wrong with the causes of a record."""
    if [c["rank"] for c in got] != [*range(1, min(MOST, len(want)) + 1)]:
        raise ValueError(f"{len(got)} causes, or not in order")
    left = {}
    for w in want:
        left.setdefault(w["feature"], []).append(w)
    ranks = []
    for c in got:
        w = left[c["feature"]].pop(0)
        ranks.append(w["rank"])
        near = lambda k, steep=1: abs(c[k] - w[k]) <= TOLERANCE * w["unit"] * steep + 1e-9 * abs(w[k])
        if not near("before") or not near("now", w["steep"]) or c["direction"] != w["direction"] or c["onset"] != w["onset"]:
            raise ValueError(f"cause {c} should be {w}")
    rest = [w["rank"] for ws in left.values() for w in ws]
    if any(a < b - TOLERANCE for a, b in zip(ranks, ranks[1:])) or rest and max(rest) > ranks[-1] + TOLERANCE:
        raise ValueError(f"the causes are in the order {[c['feature'] for c in got]}, and should be {[w['feature'] for w in want]}")
