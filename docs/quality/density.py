"""A snapshot as numpy arrays, and its density by the formula of the paper (section 4, before eq. 6)."""
import json
import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Model:
    mean: np.ndarray
    whiten: np.ndarray
    parzen: np.ndarray  # rows are the columns of B_L, eigenvalues ascending
    gaussian: np.ndarray  # rows are the columns of B_G
    c_l: np.ndarray
    c_g: np.ndarray
    pool: np.ndarray  # the Parzen centres
    active: np.ndarray  # the columns that vary
    info: dict = field(default_factory=dict)

    def transform(self, X):
        return (X - self.mean) @ self.whiten.T

    def score(self, X, centres=None):
        """-log p of each row, in nats; the pool's rows are the Parzen centres, or those that are given."""
        centres = self.pool if centres is None else centres
        B = np.vstack([self.parzen, self.gaussian])[:, self.active]
        out = len(B) / 2 * np.log(2 * np.pi) - np.linalg.slogdet(B)[1] + (((X - self.mean) @ self.gaussian.T) ** 2).sum(1) / 2
        if len(self.parzen):
            dof = int(self.info.get("lca.dof", 0))
            out -= log_kernel_mean((X - self.mean) @ self.parzen.T, (centres - self.mean) @ self.parzen.T, dof)
        return out


def log_kernel_mean(q, p, dof=0, block=500):
    """log (1/m) sum_j exp(-|q_i - p_j|^2 / 2) for each row of q, with the exact maximum taken out; with degrees of freedom
    the same of t kernels, whose constants take the place of (2 pi)^(-d_P/2)."""
    half = (p * p).sum(1) / 2
    out = np.empty(len(q))
    for a in range(0, len(q), block):
        z = q[a:a + block]
        logits = z @ p.T - half - (z * z).sum(1)[:, None] / 2
        if dof:
            d = p.shape[1]
            logits = (math.lgamma((dof + d) / 2) - math.lgamma(dof / 2) - d / 2 * math.log(dof / 2)
                      - (dof + d) / 2 * np.log1p(np.maximum(-2 * logits, 0) / dof))
        top = logits.max(1)
        out[a:a + block] = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return out - np.log(len(p))


def of_tables(model, neighbours):
    """From the two parts of a snapshot, as Arrow tables."""
    meta = {k.decode(): v.decode() for k, v in model.schema.metadata.items()}
    vectors, kind = stack(model["vector"]), np.array(model["kind"].to_pylist())
    d = vectors.shape[1]
    active = np.setdiff1d(np.arange(d), json.loads(meta["lca.constant_columns"]))
    mean = vectors[kind == "mean"][0]
    pool = stack(neighbours["x"]).astype(float) + (mean if int(meta["lca.format"]) > 1 else 0)
    parts = {k: vectors[kind == k] for k in ("whiten", "parzen", "gaussian", "c_l", "c_g")}
    return Model(mean, *parts.values(), pool, active, meta)


def stack(column):
    column = column.combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
