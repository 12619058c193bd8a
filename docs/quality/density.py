"""A snapshot as numpy arrays, and its density by the formula of the paper (section 4, before eq. 6)."""
import json
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
            out -= log_kernel_mean((X - self.mean) @ self.parzen.T, (centres - self.mean) @ self.parzen.T)
        return out


def log_kernel_mean(q, p, block=500):
    """log (1/m) sum_j exp(-|q_i - p_j|^2 / 2) for each row of q, with the exact maximum taken out."""
    half = (p * p).sum(1) / 2
    out = np.empty(len(q))
    for a in range(0, len(q), block):
        z = q[a:a + block]
        logits = z @ p.T - half - (z * z).sum(1)[:, None] / 2
        top = logits.max(1)
        out[a:a + block] = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return out - np.log(len(p))


def of_tables(model, neighbours):
    """From the two parts of a snapshot, as Arrow tables."""
    meta = {k.decode(): v.decode() for k, v in model.schema.metadata.items()}
    vectors, kind = stack(model["vector"]), np.array(model["kind"].to_pylist())
    d = vectors.shape[1]
    active = np.setdiff1d(np.arange(d), json.loads(meta["lca.constant_columns"]))
    pool = stack(neighbours["x"]).astype(float)
    parts = {k: vectors[kind == k] for k in ("whiten", "parzen", "gaussian", "c_l", "c_g")}
    return Model(vectors[kind == "mean"][0], *parts.values(), pool, active, meta)


def stack(column):
    column = column.combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
