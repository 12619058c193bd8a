"""A slice of `make quality`, in seconds, without scikit-learn and River: the page is what the summaries give,
machine.yaml finds a fault in a small machine's stream that a covariance cannot see, and does not learn it, and
`make board` judges a series and a table, once.

    KAFKA_BROKERS=… LCA_STREAM=bin/lca-stream python docs/quality/check.py      # numpy, pyarrow and confluent-kafka
"""
import os

import tempfile

import numpy as np
import pyarrow as pa

import board
import broker
import live
import page
import store

CONFIG = os.path.join(store.ROOT, "docs", "quality", "machine.yaml")
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


def small_board(directory):
    """Three columns that wander, and whose mean moves by one standard deviation in 100 of 600 test rows; and rows without an order, of which
    each tenth is far."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1400, 3))
    for i in range(1, len(x)):
        x[i] += .5 * x[i - 1]
    y = np.zeros(len(x), np.int8)
    y[1000:1100] = 1
    x[y > 0] += [1.2, 0, 0]
    odd = np.arange(700) % 10 == 0
    table = rng.normal(size=(700, 4)) * np.where(odd, 5, 1)[:, None]
    for name, rows, labels, train in (("asd0", x, y, 800), ("table-far", table, odd.astype(np.int8), 400)):
        t = pa.table({f"s{i:02}": rows[:, i].astype(np.float32) for i in range(rows.shape[1])} |
                     {"split": np.where(np.arange(len(rows)) < train, "train", "test"), "label": labels})
        with pa.OSFile(os.path.join(directory, name + ".arrow"), "wb") as f, pa.ipc.new_file(f, t.schema) as w:
            w.write_table(t)


def check_board():
    known = {n: m for n, m in board.methods().items() if n.startswith(("lca-stream", "row", "mean", "LODA"))}
    with tempfile.TemporaryDirectory() as d:
        small_board(d)
        board.CACHE = os.path.join(d, "results")
        rows = board.summary(board.run(d, ["asd", "table"], known))
        never = {n: (None, tables, by) for n, (_, tables, by) in known.items()}
        assert board.summary(board.run(d, ["asd", "table"], never)) == rows, "a second call does not resume"
    found = {(r["method"], r["group"]): r for r in rows}
    for (method, group), r in found.items():
        print(f"board: {method:30} {group:6}", *(f"{f} {r[f]['mean']:.3f}" for f in board.FIGURES if f in r))
    for ours, (_, column, _) in board.OURS.items():
        group, least = ("asd", .75) if column == board.LAST else ("table", .95)
        assert found[ours, group]["auc"]["mean"] > least, ours
    assert found["mean T²", "asd"]["auc"]["mean"] > .9 and found["row T²", "asd"]["auc"]["mean"] < .6
    y, s = np.array([0, 0, 1, 1]), np.array([.1, .4, .35, .8])  # the documentation of scikit-learn
    assert abs(board.average_precision(y, s) - 5 / 6) < 1e-12 and board.area(y, s) == .75


def main():
    page.check()
    check_board()
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
