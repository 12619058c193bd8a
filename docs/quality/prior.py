"""What a new key would gain from a prior of the fleet: its C_G is taken as (n · its own + k · the mean of the other keys') / (n + k)
after n rows of its own. Printed are −log p of rows of the key that were not learnt, under a single Gaussian with that
covariance, and the ROC-AUC of that score where rows have labels. k = 0 is the key by itself. No program of ours is run.

    python3 docs/quality/prior.py [valve_stream.arrow]
"""
import sys

import numpy as np
from pyarrow import ipc
from sklearn.metrics import roc_auc_score

ROWS = 12, 25, 50, 100, 200, 400
WEIGHTS = 0, 10, 30, 100
MACHINES, FRESH, D, CLUSTERS = 12, 2000, 8, 3


def covariance(rows):
    c = np.cov(rows.T, ddof=0)
    return c + np.diag(1e-6 * np.diag(c) + 1e-12)


def score(mean, c, rows):
    """−log p under a Gaussian."""
    factor = np.linalg.cholesky(c)
    z = np.linalg.solve(factor, (rows - mean).T)
    return 0.5 * (z ** 2).sum(0) + np.log(np.diag(factor)).sum() + rows.shape[1] / 2 * np.log(2 * np.pi)


def machine(seed, shape):
    """Rows of one machine: three clusters of the shapes that `shape` draws, around a level of its own."""
    own, shared = np.random.default_rng(seed), np.random.default_rng(shape)
    centres = 3 * shared.normal(size=(CLUSTERS, D))
    shapes = [np.linalg.qr(shared.normal(size=(D, D)))[0] * np.exp(shared.uniform(-1.5, 0.5, D)) for _ in range(CLUSTERS)]
    level, of = 3 * own.normal(size=D), own.integers(0, CLUSTERS, max(ROWS) + FRESH)
    return np.stack([level + centres[k] + shapes[k] @ own.normal(size=D) for k in of])


def table(name, machines, labels=None):
    print(f"\n{name}\n| rows of its own | " + " | ".join(f"k = {k}" for k in WEIGHTS) + " |\n|---" + "|---" * len(WEIGHTS) + "|")
    for n in ROWS:
        cells = []
        for k in WEIGHTS:
            nats, areas = [], []
            for i, rows in enumerate(machines):
                others = np.mean([covariance(m[:max(ROWS)]) for j, m in enumerate(machines) if j != i], axis=0)
                learnt, fresh = rows[:n], rows[max(ROWS):]
                c = (n * covariance(learnt) + k * others) / (n + k)
                s = score(learnt.mean(0), (1 + 1 / n) * c, fresh)
                normal = slice(None) if labels is None else labels[i][max(ROWS):] == 0
                nats.append(s[normal].mean())
                if labels is not None:
                    areas.append(roc_auc_score(labels[i][max(ROWS):], s))
            cells.append(f"{np.median(nats):.1f}" + (f", AUC {np.mean(areas):.2f}" if areas else ""))
        print(f"| {n} | " + " | ".join(cells) + " |")


def main():
    table("alike except for their levels", [machine(s, 7) for s in range(MACHINES)])
    table("each of its own shape", [machine(s, 100 + s) for s in range(MACHINES)])
    if len(sys.argv) > 1:
        t = ipc.open_file(sys.argv[1]).read_all().to_pandas()
        columns = [c for c in t.columns if c not in ("time", "anomaly", "segment")]
        runs = [g for s, g in t.groupby("segment") if s > 0]
        rows, labels = [g[columns].to_numpy(float) for g in runs], [g["anomaly"].to_numpy() for g in runs]
        table("runs of one pump", rows, labels)
        units = np.random.default_rng(5)
        table("runs of one pump, each in units of its own", [r * np.exp(units.uniform(-1, 1, r.shape[1])) for r in rows], labels)


if __name__ == "__main__":
    main()
