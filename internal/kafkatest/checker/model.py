"""Snapshots as the topic holds them, put together from their chunks, and the formulas of a model.

Written from docs/wire-format.md and the paper, and sharing no code with the program that is checked:

    y     = W (x - mean)
    score = 1/2 |B_G'(x-mean)|^2 + d/2 log 2 pi - log|det(B_G, B_L)|
            - log( 1/N sum_j exp(-1/2 |B_L'(x - x_j)|^2) )

where a t kernel with n = lca.dof degrees of freedom over p dimensions stands for exp(-1/2 delta) (2 pi)^(-p/2) if lca.kernel
is student: Gamma((n+p)/2) / (Gamma(n/2) (n pi)^(p/2)) (1 + delta/n)^(-(n+p)/2). What lca_p and lca_why say is at p and why.
"""

import json
import math
import re

import google_crc32c
import numpy as np
import pyarrow as pa

import recent

STREAM = "application/vnd.apache.arrow.stream"


class Model:
    """One version: mean (d), W (k,d), BG (d,g), BL (d,p), neighbours less the mean (N,d), scores ascending, and its metadata."""

    def __init__(self, version, model, neighbours, scores, last_rows=None):
        meta = {k.decode(): v.decode() for k, v in (model.schema.metadata or {}).items()}
        self.version, self.meta, self.d = version, meta, int(meta["lca.d"])
        if int(meta["lca.format"]) not in (1, 2, 3):
            raise ValueError(f"format {meta['lca.format']}")
        self.young = meta.get("lca.young") == "true"  # it scores the last rows, and nothing else
        if self.young != (meta["lca.format"] == "3"):
            raise ValueError(f"format {meta['lca.format']}, and young is {self.young}")
        if int(meta["lca.model_version"]) != version:
            raise Conflict(f"version {version} in the header, {meta['lca.model_version']} in the body")
        self.features = json.loads(meta["lca.features"])
        if len(self.features) != self.d:
            raise ValueError(f"{len(self.features)} features for d = {self.d}")
        for name in ("kind", "index", "eigenvalue", "vector"):
            if model[name].null_count:
                raise ValueError(f"nulls in {name}")
        if model.schema.field("vector").type.list_size != self.d:
            raise ValueError("vectors are not d long")
        kind = np.array(model["kind"].to_pylist())
        index = model["index"].to_numpy()
        vector = rows_of(model["vector"], self.d)
        value = model["eigenvalue"].to_numpy()
        if not (np.isfinite(vector).all() and np.isfinite(value).all()):
            raise ValueError("not finite")
        for k in set(kind):
            if (index[kind == k] != np.arange((kind == k).sum())).any():
                raise ValueError(f"rows of kind {k} are not numbered 0, 1, ...")
        self.mean, self.W = vector[kind == "mean"], vector[kind == "whiten"]
        self.BG, self.BL = vector[kind == "gaussian"].T, vector[kind == "parzen"].T
        if len(self.mean) != 1 or self.young != (len(self.W) == 0):
            raise ValueError("no mean or no whitening matrix")
        if self.young:
            if len(kind) != 1 or len(neighbours) or last_rows is None:
                raise ValueError("a young model has a mean and what scores the last rows, and nothing else")
            self.W = np.zeros((self.d, self.d))
        self.mean = self.mean[0]
        if self.BG.shape[1] != int(meta["lca.d_gaussian"]):
            raise ValueError(f"{self.BG.shape[1]} gaussian directions, metadata say {meta['lca.d_gaussian']}")
        # All Parzen directions are below the cut, all Gaussian ones beyond it. It is at 1, or beyond while the pool fills; a direction
        # changes sides only beyond 0.98 and 1.02 of it, so as not to flicker. Where preset density has found that one Gaussian is as good, all are Gaussian.
        below, beyond = value[kind == "parzen"], value[kind == "gaussian"]
        single = "lca.choice" in meta and not len(below)
        if meta.get("lca.kind") != "lca" and not single and ((beyond < 0.98).any() or below.max(initial=0) > beyond.min(initial=np.inf)):
            raise ValueError("a direction is in the wrong part for its eigenvalue")
        self.neighbours = rows_of(neighbours["x"], self.d).astype(np.float64)
        if int(meta["lca.format"]) == 1:
            self.neighbours = self.neighbours - self.mean
        self.dof = int(meta.get("lca.dof", 0))
        if (meta.get("lca.kernel", "gaussian") == "student") != (self.dof > 0):
            raise ValueError(f"kernel {meta.get('lca.kernel')} with {self.dof} degrees of freedom")
        if len(self.neighbours) != int(meta["lca.neighbours"]) or not np.isfinite(self.neighbours).all():
            raise ValueError("the neighbours are not as many as the metadata say, or not finite")
        self.scores = np.zeros(0) if scores is None else scores["score"].to_numpy()
        if len(self.scores) != int(meta.get("lca.scores", 0)) or not np.isfinite(self.scores).all() or (np.diff(self.scores) < 0).any():
            raise ValueError("the scores are not as many as the metadata say, or not in order")
        self.tail = json.loads(meta.get("lca.tail", "null"))
        self.logdet = 0.0 if self.young else log_det(np.hstack([self.BG, self.BL]))
        self.recent = None  # what scores the last rows of a series
        if ("lca.recent" in meta) != (last_rows is not None):
            raise ValueError("the parts and the metadata of the last rows do not go together")
        if last_rows is not None:
            self.recent = recent.Evaluator(meta["lca.recent"], self.d, last_rows[0]["number"].to_numpy(), last_rows[1]["factor"].to_numpy())

    def whiten(self, x):
        return (x - self.mean) @ self.W.T

    def whiten_bound(self, x):
        """What 32 roundings of float32 can do to y: 32 eps |W| (|x| + |mean|)."""
        eps = np.finfo(np.float32).eps
        return 32 * eps * (np.abs(x) + np.abs(self.mean)) @ np.abs(self.W).T

    def logits(self, x):
        """log of each neighbour's kernel less -p/2 log 2 pi, and its squared distance."""
        z, q = self.neighbours @ self.BL, (x - self.mean) @ self.BL
        delta = np.maximum((q**2).sum(1)[:, None] - 2 * q @ z.T + (z**2).sum(1)[None, :], 0)
        if not self.dof:
            return -0.5 * delta, delta
        n, p = self.dof, self.BL.shape[1]
        constant = math.lgamma((n + p) / 2) - math.lgamma(n / 2) - p / 2 * math.log(n * math.pi) + p / 2 * math.log(2 * math.pi)
        return constant - (n + p) / 2 * np.log1p(delta / n), delta

    def score(self, x):
        d = self.BG.shape[1] + self.BL.shape[1]
        s = 0.5 * d * np.log(2 * np.pi) - self.logdet + 0.5 * (((x - self.mean) @ self.BG) ** 2).sum(1)
        if self.BL.shape[1]:
            logits, _ = self.logits(x)
            top = logits.max(1)
            s -= top + np.log(np.exp(logits - top[:, None]).mean(1))
        return s + self.departures(x).sum(1)

    def departures(self, x):
        """What each feature that was constant while the model was learnt adds to the score: 1/2 cut(|x-mean|/s)^2, s = max(1e-6 |mean|, 1e-12),
        cut(v) 0 to 1, v to 10, and 10 (1 + log(v/10)) beyond."""
        constant = (np.abs(self.BG).sum(1) + np.abs(self.BL).sum(1)) == 0
        v = np.abs(x - self.mean) / np.maximum(1e-6 * np.abs(self.mean), 1e-12)
        with np.errstate(divide="ignore"):
            cut = np.where(v <= 1, 0, np.where(v <= 10, v, 10 * (1 + np.log(np.maximum(v, 1e-300) / 10))))
        return np.where(constant, cut**2 / 2, 0)

    def impute(self, x):
        """x with each NaN replaced by its mean given the rest of its row. The model is a mixture of N(c_j, S) with S = (B B')^-1 and
        centres that agree with the neighbours along B_L and with the mean along B_G. With t kernels a neighbour's share is by what its
        squared distance exceeds the least of |B_G'(x-mean)|^2, in as many dimensions as B_L has beyond those of what is missing."""
        x, b = x.copy(), np.hstack([self.BG, self.BL])
        active = np.flatnonzero(np.abs(b).sum(1))
        x = np.where(np.isnan(x) & ~np.isin(np.arange(self.d), active), self.mean, x)
        b, g, p = b[active], self.BG.shape[1], self.BL.shape[1]
        inverse, precision = np.linalg.inv(b), b @ b.T
        local, cov = b[:, g:] @ b[:, g:].T, inverse.T @ inverse
        centres = np.hstack([np.zeros((len(self.neighbours), g)), self.neighbours @ self.BL]) @ inverse if p else np.zeros((1, len(active)))
        for i in np.flatnonzero(np.isnan(x).any(1) & ~np.isinf(x).any(1)):
            r = (x[i] - self.mean)[active]
            m, o = np.flatnonzero(np.isnan(r)), np.flatnonzero(~np.isnan(r))
            off = r[o] - centres[:, o]
            pulled = np.linalg.solve(cov[np.ix_(o, o)], off.T).T
            square = (off * pulled).sum(1)
            log = -square / 2
            if self.dof and p:
                known = np.where(np.isnan(r), 0, r) @ b[:, :g]
                least = np.sum((known - b[m, :g].T @ np.linalg.lstsq(b[m, :g].T, known, rcond=1e-10)[0]) ** 2) if g else 0
                rest = max(1, p - round(np.trace(np.linalg.solve(precision[np.ix_(m, m)], local[np.ix_(m, m)]))))
                log = -(self.dof + rest) / 2 * np.log1p(np.maximum(square - least, 0) / self.dof)
            share = np.exp(log - log.max())
            share /= share.sum()
            x[i, active[m]] = self.mean[active[m]] + share @ (centres[:, m] + pulled @ cov[np.ix_(o, m)])
        return x

    def p(self, score):
        """The probability of a score at least as high: by rank, and beyond the 90 % quantile by a generalised Pareto tail."""
        n = len(self.scores)
        p = (n - np.searchsorted(self.scores, score, "left") + 1) / (n + 1)
        u, xi, beta = (self.tail[k] for k in ("u", "xi", "beta"))
        for i in np.flatnonzero(score > u if beta > 0 else []):
            x = (score[i] - u) / beta
            base = 1 + xi * x
            p[i] = max(1e-12, 0.1 * math.exp(-x) if xi == 0 else 0.1 * base ** (-1 / xi) if base > 0 else 0)
        return p

    def why(self, x):
        """Gains (rows, d): what the score falls by if one feature has its best other value, as if one neighbour had all
        the responsibility."""
        along, PL = np.zeros_like(x), self.BL @ self.BL.T
        across, PG = (x - self.mean) @ self.BG @ self.BG.T, self.BG @ self.BG.T
        pull = np.ones(len(x))
        if self.BL.shape[1]:
            logits, delta = self.logits(x)
            weight = np.exp(logits - logits.max(1)[:, None])
            weight /= weight.sum(1)[:, None]
            if self.dof:
                weight *= (self.dof + self.BL.shape[1]) / (self.dof + delta)
            pull = weight.sum(1)
            along = (x - self.mean - weight @ self.neighbours / pull[:, None]) @ PL
        A, B = np.diag(PL), np.diag(PG)
        if not self.dof:
            return np.where(A + B > 0, 0.5 * (along + across) ** 2 / np.where(A + B > 0, A + B, 1), self.departures(x))
        n, p = self.dof, self.BL.shape[1]
        spread = ((n + p) / pull)[:, None]

        def gain(t):
            inside = spread + 2 * along * t + A * t * t
            return (n + p) / 2 * np.log(spread / np.maximum(inside, n)) - across * t - 0.5 * B * t * t

        ends = [np.where(v > 0, -g / np.where(v > 0, v, 1), np.nan) for g, v in ((along, A), (across, B))]
        low, high = np.fmin(*ends), np.fmax(*ends)
        low, high = np.nan_to_num(low), np.nan_to_num(high)
        for _ in range(3):  # the best of a grid, and of a finer one around it
            grid = [low + (high - low) * i / 200 for i in range(201)]
            best = np.argmax([gain(t) for t in grid], 0)
            step = (high - low) / 200
            low, high = low + (best - 1) * step, low + (best + 1) * step
        return np.where(A + B > 0, np.maximum(gain((low + high) / 2), 0), self.departures(x))


class Conflict(ValueError):
    """One version that says two things."""


def rows_of(column, d):
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, d)


def log_det(b):
    """log|det| of (B_G, B_L); constant columns have a zero row and no direction, and are left out."""
    b = b[np.abs(b).max(1) > 0]
    if b.shape[0] != b.shape[1]:
        raise ValueError(f"{b.shape[1]} directions for {b.shape[0]} columns that vary")
    return np.linalg.slogdet(b)[1]


def read_models(records, model_id, fault):
    """Models by version, from the records of the snapshot topic. fault(code, text) is told what is wrong."""
    chunks, order, last_of_slot = {}, [], {}
    for r in records:
        parsed = read_chunk(r, model_id, fault)
        if parsed is None:
            continue
        version, slot, part, i, n = parsed
        if version not in chunks:
            if order and version <= order[-1]:
                fault("SNAP_ORDER", f"version {version} after {order[-1]}")
            order.append(version)
            chunks[version] = {}
        last_of_slot[slot] = version
        held = chunks[version].setdefault((part, i), (r["value"], n, slot))
        if held != (r["value"], n, slot):
            fault("SNAP_CONFLICT", f"version {version} has two chunks {part}/{i}")
    models = {}
    for version in order:
        try:
            models[version] = put_together(version, chunks[version])
        except Conflict as e:
            fault("SNAP_CONFLICT", str(e))
        except Exception as e:  # whatever a damaged snapshot makes numpy or pyarrow say
            slot = next(iter(chunks[version].values()))[2]
            if last_of_slot[slot] == version:  # an older one may have lost chunks to its successor
                fault("SNAP_BAD", f"version {version}: {e}")
    return models


def read_chunk(r, model_id, fault):
    headers = {k: v.decode(errors="replace") for k, v in r["headers"] if v is not None}
    if r["value"] is None or headers.get("lca-model-id") != model_id:
        return None
    try:
        owner, slot, part, chunk = r["key"].decode().rsplit("/", 3)
        i, n = (int(v) for v in headers["lca-chunk"].split("/"))
        if owner != model_id or part != headers["lca-part"] or int(chunk) != i:
            raise ValueError(f"key {r['key']!r} and headers {headers} differ")
        if headers["content-type"] != STREAM:
            raise ValueError(f"content-type {headers['content-type']}")
        if len(r["value"]) > 900_000:
            raise ValueError(f"chunk of {len(r['value'])} bytes")
        if int(headers["lca-crc32c"]) != google_crc32c.value(r["value"]):
            raise ValueError("lca-crc32c does not fit the value")
        return int(headers["lca-model-version"]), int(slot), part, i, n
    except (ValueError, KeyError) as e:
        fault("SNAP_BAD", f"offset {r['offset']}: {e}")
        return None


def put_together(version, chunks):
    tables = {}
    for part in ("model", "neighbours", "scores", "recent", "factors"):
        n = next((n for (p, _), (_, n, _) in chunks.items() if p == part), 0)
        if n == 0 and part == "scores" and "neighbours" in tables and b"lca.scores" not in (tables["neighbours"].schema.metadata or {}):
            continue  # format 1
        if n == 0 and part in ("recent", "factors"):
            continue
        if n == 0 or any((part, i) not in chunks for i in range(n)):
            raise ValueError(f"chunks of {part} are missing")
        tables[part] = pa.concat_tables(pa.ipc.open_stream(chunks[part, i][0]).read_all() for i in range(n))
    last_rows = (tables["recent"], tables["factors"]) if "recent" in tables and "factors" in tables else None
    return Model(version, tables["model"], tables["neighbours"], tables.get("scores"), last_rows)


def features_of(table, names):
    """The numbers a model sees: columns by name, or one list column v whose parts are v[0], v[1], ...

    Returns X (rows, d) with NaN for null, or None when the table does not have them.
    """
    lists = [re.fullmatch(r"(.*)\[(\d+)\]", n) for n in names]
    if all(lists) and len({m[1] for m in lists}) == 1 and lists[0][1] in table.column_names:
        return list_column(table[lists[0][1]], len(names))
    if any(n not in table.column_names for n in names):
        return None
    columns = []
    for n in names:
        if not (pa.types.is_integer(table[n].type) or pa.types.is_floating(table[n].type)):
            return None
        columns.append(np.array([np.nan if v is None else v for v in table[n].to_pylist()], dtype=np.float64))
    return np.stack(columns, 1) if columns else None


def list_column(column, d):
    x = np.full((len(column), d), np.nan)
    for i, row in enumerate(column.to_pylist()):
        if row is None:
            continue
        if len(row) != d:
            return None
        x[i] = [np.nan if v is None else v for v in row]
    return x
