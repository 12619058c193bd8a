"""A model, and what it says about rows. The formulas are those of docs/wire-format.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import lgamma, log, pi

import numpy as np

from lca_stream._columns import matrix

BLOCK = 4 << 20  # numbers in the largest intermediate array: 32 MiB
LEAST_P = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """One version of a model, of d features, d_P directions of the Parzen part and d_G = d − d_P of the Gaussian part.

    Methods take ``X`` of shape (rows, d), with columns in the order of ``features``. A row with a value that is NaN or
    infinite, or too large to be whitened in float32, has NaN in every result, as it has null on the topic; ``impute`` fills
    what is NaN.
    """

    metadata: Mapping[str, str]
    """What the snapshot says of itself: the keys ``lca.…``."""
    mean: np.ndarray
    """μ, shape (d,)."""
    whitening: np.ndarray
    """W, shape (d, d): y = W (x − μ)."""
    parzen: np.ndarray
    """B_L, shape (d, d_P)."""
    gaussian: np.ndarray
    """B_G, shape (d, d_G)."""
    neighbours: np.ndarray
    """x_j − μ, shape (N, d), float32."""
    scores: np.ndarray = field(default_factory=lambda: np.empty(0))
    """Scores of the neighbours, each without itself, ascending. Empty where the model has none."""

    def __repr__(self) -> str:
        d, p = self.parzen.shape
        return f"<lca_stream.Model {self.model_id!r} version {self.version}: {d} features, {p} Parzen directions, {len(self.neighbours)} neighbours>"

    @property
    def model_id(self) -> str:
        return self.metadata["lca.model_id"]

    @property
    def version(self) -> int:
        return int(self.metadata["lca.model_version"])

    @property
    def features(self) -> list[str]:
        return json.loads(self.metadata["lca.features"])

    def matrix(self, rows) -> np.ndarray:
        """X of a table of rows, or of several: :func:`lca_stream.matrix` with the model's features."""
        return matrix(rows, self.features)

    def whiten(self, X) -> np.ndarray:
        """y = W (x − μ), float32, shape (rows, d): Euclidean distances mean something here."""
        X = self._rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            Y = ((X - self.mean) @ self.whitening.T).astype(np.float32)
        Y[~(np.isfinite(X) & np.isfinite(Y)).all(1)] = np.nan
        return Y

    def score(self, X) -> np.ndarray:
        """−log p(x) in nats, shape (rows,): high for rows that are unusual."""
        X = self._rows(X)
        result = np.full(len(X), np.nan)
        for rows in self._blocks(self._known(X)):
            offset = X[rows] - self.mean
            g = offset @ self.gaussian
            log_parzen = np.zeros(len(rows))
            if self.parzen.shape[1]:
                log_parzen = _log_mean_exp(self._log_kernels(self._distances(offset)))
            result[rows] = (g * g).sum(1) / 2 - log_parzen + self._departures(offset).sum(1)
        return np.minimum(result + self._normaliser, np.finfo(np.float32).max)

    def p_value(self, X) -> np.ndarray:
        """The probability, under the model, of a score at least as high as that of each row, shape (rows,)."""
        return self.p_of_score(self.score(X))

    def p_of_score(self, score) -> np.ndarray:
        """The same for scores. NaN where the model has no scores of its own."""
        s = np.asarray(score, float)
        n = len(self.scores)
        if n == 0:
            return np.full(s.shape, np.nan)
        p = (n - np.searchsorted(self.scores, s, "left") + 1) / (n + 1)
        tail = json.loads(self.metadata["lca.tail"])
        if tail and tail["beta"] > 0:
            p = np.where(s > tail["u"], np.maximum(_tail(s, **tail), LEAST_P), p)
        return np.where(np.isnan(s), np.nan, p)

    def why(self, X, most: int = 3) -> tuple[np.ndarray, np.ndarray]:
        """Which features make the score of each row as high as it is: their numbers, shape (rows, most), and by how many
        nats the score would fall were that feature given its best other value, the largest first."""
        X = self._rows(X)
        most = max(0, min(most, X.shape[1]))
        columns = np.zeros((len(X), most), int)
        nats = np.full((len(X), most), np.nan)
        for rows in self._blocks(self._known(X)):
            offset = X[rows] - self.mean
            gain = self._gains(offset) + self._departures(offset)
            columns[rows] = np.argsort(-gain, axis=1, kind="stable")[:, :most]
            nats[rows] = np.take_along_axis(gain, columns[rows], axis=1)
        return columns, nats

    def impute(self, X) -> np.ndarray:
        """X with each NaN replaced by its mean under the model, given the rest of its row, as the program does with
        ``source.on_invalid: impute``. An infinity is no missing value: such a row stays as it is."""
        X = self._rows(X).copy()
        active = self._active
        constant = np.setdiff1d(np.arange(len(self.mean)), active)
        for i in np.flatnonzero(np.isnan(X).any(1) & ~np.isinf(X).any(1)):
            X[i, constant] = np.where(np.isnan(X[i, constant]), self.mean[constant], X[i, constant])
            r = (X[i] - self.mean)[active]
            X[i, active] = self.mean[active] + self._filled(r) if np.isnan(r).any() else X[i, active]
        return X

    def _filled(self, r: np.ndarray) -> np.ndarray:
        """A row less the mean, of the columns that vary, with what it lacks filled."""
        S, centres = self._mixture
        B_G, B_L = self.gaussian[self._active], self.parzen[self._active]
        m, o = np.flatnonzero(np.isnan(r)), np.flatnonzero(~np.isnan(r))
        off = r[o] - centres[:, o]
        pulled = np.linalg.solve(S[np.ix_(o, o)], off.T).T
        delta = (off * pulled).sum(1)
        logs = -delta / 2
        if self._dof:
            g = np.nan_to_num(r) @ B_G
            if len(g):
                g = g - B_G[m].T @ np.linalg.lstsq(B_G[m].T, g, rcond=1e-10)[0]
            local, both = B_L[m] @ B_L[m].T, B_L[m] @ B_L[m].T + B_G[m] @ B_G[m].T
            p = max(1, B_L.shape[1] - round(np.trace(np.linalg.solve(both, local))))
            logs = -(self._dof + p) / 2 * np.log1p(np.maximum(delta - g @ g, 0) / self._dof)
        share = np.exp(logs - logs.max())
        filled = r.copy()
        filled[m] = share @ (centres[:, m] + pulled @ S[np.ix_(o, m)]) / share.sum()
        return filled

    @cached_property
    def _mixture(self) -> tuple[np.ndarray, np.ndarray]:
        """The covariance S that all kernels share, and their centres less the mean, of the columns that vary."""
        inverse = np.linalg.inv(np.hstack([self.gaussian, self.parzen])[self._active])
        along = np.hstack([np.zeros((len(self.neighbours), self.gaussian.shape[1])), self._centres])
        return inverse.T @ inverse, along @ inverse if self.parzen.shape[1] else np.zeros((1, len(self._active)))

    @cached_property
    def _active(self) -> np.ndarray:
        """The columns that vary."""
        return np.setdiff1d(np.arange(len(self.mean)), json.loads(self.metadata["lca.constant_columns"]))

    @cached_property
    def _centres(self) -> np.ndarray:
        return self.neighbours.astype(float) @ self.parzen

    @cached_property
    def _dof(self) -> int:
        return int(self.metadata.get("lca.dof", 0))

    @cached_property
    def _normaliser(self) -> float:
        """What does not depend on the row: log of the determinant and of 2π, of the columns that vary."""
        square = np.hstack([self.gaussian, self.parzen])[self._active].astype(float)  # damaged bytes may say float16, of which numpy has no determinant
        return len(self._active) / 2 * log(2 * pi) - np.linalg.slogdet(square)[1]

    def _rows(self, X) -> np.ndarray:
        X = np.asarray(X, float)
        if X.ndim != 2 or X.shape[1] != len(self.mean):
            raise ValueError(f"X has shape {X.shape}; the model wants (rows, {len(self.mean)}), the columns {self.features}")
        return X

    def _known(self, X: np.ndarray) -> np.ndarray:
        """The numbers of the rows that have results."""
        return np.flatnonzero(np.isfinite(self.whiten(X)).all(1))

    def _blocks(self, rows: np.ndarray) -> Sequence[np.ndarray]:
        size = max(1, BLOCK // max(1, len(self.neighbours)))
        return [rows[i : i + size] for i in range(0, len(rows), size)]

    def _distances(self, offset: np.ndarray) -> np.ndarray:
        """δ = |B_Lᵀ(x − x_j)|² of each row and neighbour."""
        z, c = offset @ self.parzen, self._centres
        return np.maximum((z * z).sum(1)[:, None] + (c * c).sum(1) - 2 * z @ c.T, 0)

    def _log_kernels(self, delta: np.ndarray) -> np.ndarray:
        """The logarithm of each kernel, except for (2π)^(−d_P/2), which the normaliser has."""
        n, p = self._dof, self.parzen.shape[1]
        if n == 0:
            return -delta / 2
        return lgamma((n + p) / 2) - lgamma(n / 2) - p / 2 * log(n / 2) - (n + p) / 2 * np.log1p(delta / n)

    def _departures(self, offset: np.ndarray) -> np.ndarray:
        """How many nats each column costs that was constant while the model was learnt and has moved. 0 for the others."""
        constant = ~(self.parzen.any(1) | self.gaussian.any(1))
        nats = np.zeros(offset.shape)
        v = np.abs(offset[:, constant])
        unit = np.maximum(1e-6 * np.abs(self.mean[constant]), 1e-12)
        with np.errstate(divide="ignore", over="ignore"):
            cut = np.where(v > 10 * unit, 10 * (1 + np.log(v) - np.log(10 * unit)), v / unit)
        nats[:, constant] = np.where(v > unit, cut * cut / 2, 0)
        return nats

    def _gains(self, offset: np.ndarray) -> np.ndarray:
        """½ g² / (P_L + P_G)_kk with g the gradient of the score: exact where one neighbour has all the responsibility."""
        local, across = (self.parzen**2).sum(1), (self.gaussian**2).sum(1)
        b = offset @ self.gaussian @ self.gaussian.T
        if not self.parzen.shape[1]:
            return _ratio(b * b / 2, across)
        delta = self._distances(offset)
        logs = self._log_kernels(delta)
        weight = np.exp(logs - logs.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        if self._dof:
            weight *= (self._dof + self.parzen.shape[1]) / (self._dof + delta)
        pull = weight.sum(1, keepdims=True)
        a = (offset @ self.parzen - weight @ self._centres / pull) @ self.parzen.T
        if not self._dof:
            return _ratio((a + b) ** 2 / 2, local + across)
        return _student_gains(self._dof, self.parzen.shape[1], pull, a, local, b, across)


def _student_gains(dof: int, p: int, pull, a, local, b, across) -> np.ndarray:
    """The largest decrease over t of ½(ν+p) log(ν + δ + 2at + At²) + bt + ½Bt², for each row and column.

    Each of the two terms falls towards its own best value of t, so the best of both lies between. A fixed point is
    reached from either side; the better one counts.
    """
    half = (dof + p) / 2
    spread = np.broadcast_to(2 * half / pull, a.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.maximum(spread - a * a / local, dof)
        start = a / local
        to = start - b / across
        best = np.zeros_like(a)
        for t in (np.zeros_like(a), to.copy()):
            for _ in range(100):
                w = across * (least + local * t * t) / (2 * half * local)
                following = to * w / (1 + w)
                done = np.abs(following - t) <= 1e-9 * np.abs(to)
                t = following
                if done.all():
                    break
            gain = half * np.log(spread / (least + local * t * t)) + across / 2 * ((start - to) ** 2 - (t - to) ** 2)
            best = np.maximum(best, gain)
        best = np.where(across == 0, half * np.log(spread / least), best)
        best = np.where(local == 0, b * b / (2 * across), best)
    return np.where((local == 0) & (across == 0), 0.0, best)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """0 for a column without weight: it is constant, see _departures."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _log_mean_exp(logs: np.ndarray) -> np.ndarray:
    top = logs.max(1)
    return top + np.log(np.exp(logs - top[:, None]).mean(1))


def _tail(s: np.ndarray, u: float, xi: float, beta: float) -> np.ndarray:
    """The share of scores beyond s, where s is beyond u, the 90 % quantile."""
    x = np.maximum(s - u, 0) / beta
    if xi == 0:
        return 0.1 * np.exp(-x)
    base = 1 + xi * x
    return np.where(base > 0, 0.1 * np.maximum(base, np.finfo(float).tiny) ** (-1 / xi), 0)
