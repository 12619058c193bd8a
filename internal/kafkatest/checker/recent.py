"""The score of the last rows of a series, from the parts `recent` and `factors` of a snapshot, as the documentation of package lca/recent says it."""

import json
import math

import numpy as np

RATES = 1 / 5, 1 / 20, 1 / 50
FIRST = 50  # rows of a series that are scored by the row alone
LOWEST, WIDTH, ALIKE = -8.0, 1 / 32, 20


class Histogram:
    def __init__(self, low, weights, total):
        self.low, self.weights, self.sum = low, weights, total
        self.beyond = [*np.cumsum(weights[::-1])[::-1].tolist(), 0.0]  # a bin's weight and those of all above it
        self.begins = at = len(weights)  # of the tail
        inside = excess = 0.0
        while at > 0 and inside < min(200, total / 20):
            at -= 1
            inside += weights[at]
        self.begins, self.inside = at, inside
        if total:
            excess = float(((np.arange(len(weights) - at) + 0.5) * WIDTH * weights[at:]).sum())
        self.u, self.mean = LOWEST + (low + at) * WIDTH, excess / inside if inside else 0

    def share(self, rows):
        return min(1, (rows + ALIKE) / (self.sum + ALIKE))

    def quantile(self, share):
        """The score that a share of the scores do not pass."""
        at, beyond = len(self.weights), 0.0
        while at > 0 and beyond + self.weights[at - 1] <= (1 - share) * self.sum:
            at -= 1
            beyond += self.weights[at]
        return LOWEST + (self.low + at) * WIDTH

    def p(self, score):
        if not self.sum:
            return math.nan
        if score > self.u:
            m = max(self.inside / ALIKE, 0.5)
            return max(self.share(self.inside) * (1 + (score - self.u) / (m * self.mean)) ** -m, 1e-12)
        at = (score - LOWEST) / WIDTH - self.low  # in bins
        whole = min(max(math.ceil(at), 0), len(self.weights))  # the first bin that is above it; of the one before a part may be
        part = self.weights[whole - 1] * min(whole - at, 1) if 0 < whole and at < whole else 0
        return self.share(float(self.beyond[whole] + part))


class Evaluator:
    def __init__(self, meta, d, numbers, factors):
        told = json.loads(meta)
        sizes = [d, d, 3 * d, d, told["scores"]["bins"], told["first"]["bins"]]
        if len(numbers) != sum(sizes) or len(factors) != sum(p * (p + 1) // 2 for p in (3 * d, d, d)):
            raise ValueError(f"{len(numbers)} numbers and {len(factors)} factors of the last rows of {d} columns")
        self.c, self.s, self.mean, self.row, scores, first = np.split(np.asarray(numbers, float), np.cumsum(sizes)[:-1])
        self.d, self.limit = d, np.full(d, 10.0)
        self.units, self.means = np.tile(self.s, 3), np.split(self.mean, 3)
        if not told["settled"]:
            self.limit[told["constant"]] = 1e4
        self.tail, self.levels = told["tail"], {}
        self.turn, self.accepted = told.get("turn", 0), {int(a["series"], 16): (a["turn"], a.get("until"), a["reason"]) for a in told.get("accepted", [])}
        self.scores, self.first = (Histogram(told[k]["low"], w, told[k]["sum"]) for k, w in (("scores", scores), ("first", first)))
        self.triangles, at = [], 0
        for p in (3 * d, d, d):
            f = np.zeros((p, p))
            f[np.tril_indices(p)] = factors[at:at + p * (p + 1) // 2]
            self.triangles.append(f)
            at += p * (p + 1) // 2
        self.charted = self.triangles[0].any()  # else all series were too young
        self.usual = min(self.scores.quantile(0.99), self.tail["above"])  # scores of usual rows are up to it

    def level(self, rate):
        """The score above which an episode opens, at a rate of false ones per row, and whether it is young: the h with
        rate n / c = share (1 + (exp(h) - exp(u)) / (m light))^-m + (1 - share) (1 + (h - u) / (m heavy))^-m, where m is c without a quarter."""
        if rate in self.levels:
            return self.levels[rate]
        u, c, n, heavy, light, share, most = (float(self.tail[k]) for k in ("above", "peaks", "rows", "heavy", "light", "share", "most"))
        if not rate or not c:
            return math.inf, True
        m = max(1, c - c // 4)
        low, high = u, u + 64
        while low < (h := (low + high) / 2) < high:
            beyond = share * (1 + math.exp(u) * math.expm1(h - u) / (m * light)) ** -m + (1 - share) * (1 + (h - u) / (m * heavy)) ** -m
            low, high = (h, high) if beyond * c > rate * n else (low, h)
        if most > 0 and c < 10:  # they tell little of their mean
            runs, mean = (c, heavy * (1 + m ** -0.5)) if c >= 2 else (max(1, n / 31), heavy)  # or rows alone are known
            high = min(high, u + max(most + mean, mean * math.log(runs / (rate * n))))
        self.levels[rate] = high, rate * n < 10
        return self.levels[rate]

    def cut(self, x):
        v = (x - self.c) / self.s
        if not (np.abs(v) > self.limit).any():
            return x
        with np.errstate(all="ignore"):
            return np.where(np.abs(v) > self.limit, self.c + np.sign(v) * self.s * self.limit * (1 + np.log(np.minimum(np.abs(v), np.finfo(float).max) / self.limit)), x)

    def uncut(self, k, x):
        """The number of which x is the cut, and by how much more it changes than x."""
        v, limit = (x - self.c[k]) / self.s[k], self.limit[k]
        if not abs(v) > limit:
            return x, 1
        with np.errstate(over="ignore"):
            steep = float(np.exp(abs(v) / limit - 1))
        if (now := self.c[k] + math.copysign(self.s[k] * limit * steep, v)) in (math.inf, -math.inf):
            return math.copysign(np.finfo(float).max, v), 0
        return now, steep

    def squared(self, which, u, mean):
        u = (u - mean) / self.units[:len(mean)]
        u = self.triangles[which] @ (u if np.isfinite(u).all() else np.nan_to_num(u))
        return float(u @ u)


HALF, UPPER = np.uint64(1 << 31), ~np.uint64((1 << 32) - 1)


def halves(v):
    """Rounds to the upper half of the bits."""
    whole = ((np.asarray(v, float).view(np.uint64) + HALF) & UPPER).view(float)
    return whole if np.isfinite(v).all() else np.where(np.isfinite(v), whole, v)


class Series:
    def __init__(self, d):
        self.rows, self.m1, self.m2, self.v = 0, *np.full((3, d), np.nan)

    def score(self, e, x):
        """Moves the series on by a row, in which a null is NaN, and returns its score and the probability of one at least as high."""
        self.x = x = e.cut(x)
        self.rows += 1
        short, long, deviation = (max(r, 1 / self.rows) for r in RATES)
        known = ~np.isnan(x)
        u, all_known = x, known.all()
        if not all_known:
            u = np.where(known, x, 0)
        if (begins := known & np.isnan(self.m1)).any():
            m1, m2, v = e.means
            if self.rows == 1:
                m1, m2, v = u, u, np.zeros(e.d)
            self.m1, self.m2, self.v = np.where(begins, m1, self.m1), np.where(begins, m2, self.m2), np.where(begins, v, self.v)
        of_known = (lambda new, old: new) if all_known else (lambda new, old: np.where(known, new, old))
        self.m1 = of_known(self.m1 + short * (u - self.m1), self.m1)
        self.m2 = of_known(self.m2 + long * (u - self.m2), self.m2)
        self.v = of_known(halves(self.v + deviation * (np.abs(u - self.m1) - self.v)), self.v)
        share = lambda t, p: math.log(max(t / p, 1e-9))
        first = self.rows <= FIRST or not e.scores.sum
        if first:
            score = share(e.squared(2, x, e.row), e.d)
        else:
            z = e.squared(0, np.concatenate([self.m1, self.m2, self.v]), e.mean)
            score = 0.8 * share(z, 3 * e.d) + 0.2 * share(e.squared(1, self.v, e.mean[2 * e.d:]), e.d)
        told = float(np.float32(score))
        return told, (e.first if first else e.scores).p(told)
