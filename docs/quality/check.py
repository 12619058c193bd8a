"""A slice of `make quality`, in seconds, without scikit-learn and River: the page is what the summaries give, and
configs/anomaly-scores.yaml finds a fault in a small machine's stream that a covariance cannot see, and does not learn it.

    KAFKA_BROKERS=… LCA_STREAM=bin/lca-stream python docs/quality/check.py      # numpy, pyarrow and confluent-kafka
"""
import os

import numpy as np
import pyarrow as pa

import broker
import live
import page
import store

CONFIG = os.path.join(store.ROOT, "configs", "anomaly-scores.yaml")
ROWS, FAULT, BLOCK = 900, slice(500, 800), 100
GATE = 2.5  # for each sensor, as the configuration has it for eight


def machine(rng):
    """Six sensors of a machine with three operating points. In the fault it hangs between two of them: nothing is out of
    range, and nothing far from the mean."""
    points = np.array([[0, 0], [6, 0], [3, 5]]) * 1.0
    state = points[rng.integers(0, 3, ROWS)]
    state[FAULT] = (points[0] + points[1]) / 2 + [0, 1]
    hidden = np.c_[state + .3 * rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 4))]
    return hidden @ rng.normal(size=(6, 6)) * [1, 10, .01, 1, 1e3, 1] + [20, 1000, 1, 0, 1e4, 5]


def auc(y, s):
    """Mann and Whitney."""
    rank = np.empty(len(s))
    rank[np.argsort(s, kind="stable")] = np.arange(1, len(s) + 1)
    return (rank[y].sum() - y.sum() * (y.sum() + 1) / 2) / (y.sum() * (~y).sum())


def main():
    page.check()
    X = machine(np.random.default_rng(1))
    y = np.zeros(ROWS, bool)
    y[FAULT] = True
    names = [f"sensor_{i}" for i in range(X.shape[1])]
    table = pa.table({n: X[:, i] for i, n in enumerate(names)})
    with broker.Broker() as address, live.Live(address, [f"lca.outlier_gate={GATE * len(names)}"], config=CONFIG, features=names) as s:
        for a in range(0, ROWS, BLOCK):
            s.put(table.slice(a, BLOCK), per_message=10)
            if a + BLOCK >= 400:
                s.wait(a + BLOCK)
        score = s.output(ROWS)["lca_score"].to_numpy()
        gated = int(s.whole(ROWS).info["lca.gated_rows"])
    Z = X - X[:400].mean(0)
    rival = auc(y, (Z * np.linalg.solve(np.cov(Z[:400].T), Z.T).T).sum(1))
    ours, end = auc(y, score), auc(y[700:], score[700:])
    print(f"AUC {ours:.3f} of lca_score (last third of the fault: {end:.3f}), {rival:.3f} of a Mahalanobis distance; {gated} rows gated")
    assert ours > .95 and end > .95, "the fault is not found, or was learnt"
    assert ours > rival + .1


if __name__ == "__main__":
    main()
