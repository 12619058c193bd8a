"""Nearest neighbours of made-up embeddings: rows of length 1 in 384 columns, a spectrum that decays, twenty classes that lie apart in it.

Half of the rows are learnt without labels; of the others, the share that five labelled neighbours of the first half get wrong.

    LCA_STREAM=bin/lca-stream python3 docs/paper/embeddings.py FILE.npz    # the same of rows x, in any order that is no time, and their label
"""
import sys

import numpy as np

import program

ROWS, COLUMNS, CLASSES, STEPS = 6000, 384, 20, 30
APART = [.25, .5]  # class means, as a multiple of the rows' own spread


def made_up(apart):
    rng = np.random.default_rng(1)
    spread = (1 + np.arange(COLUMNS)) ** -.6
    turn = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
    means = rng.normal(size=(CLASSES, COLUMNS)) * spread * apart
    label = rng.integers(0, CLASSES, ROWS)
    X = (rng.normal(size=(ROWS, COLUMNS)) * spread + means[label]) @ turn + .5 * turn[0]
    return X / np.linalg.norm(X, axis=1, keepdims=True), label


def measure(apart, run):
    return judged(*made_up(apart))


def judged(X, label):
    from sklearn.neighbors import KNeighborsClassifier

    half = len(X) // 2

    def wrong(Z):
        return 1 - KNeighborsClassifier(5).fit(Z[:half], label[:half]).score(Z[half:], label[half:])

    m = program.fit(X[:half], "lca-gauss", passes=STEPS, nu=.1, nu_gaussian=.001, flags=["--precision", "float32"], settings=["lca.nu_unit=relative"])
    w, U = np.linalg.eigh(np.cov(X[:half].T))
    w = np.maximum(w, 1e-6 * w[-1])  # directions that no row has
    Z = X - m.mean
    return {"raw": wrong(X), "whitening": wrong(Z @ U / np.sqrt(w)), "all": wrong(Z @ np.vstack([m.parzen, m.gaussian]).T),
            "parzen": wrong(Z @ m.parzen.T), "directions": len(m.parzen)}


def keys(count):
    return [dict(apart=a, run=r) for r in range(count) for a in APART]


EXPERIMENTS = {"embeddings": (keys, measure, None)}


if __name__ == "__main__":
    rows = np.load(sys.argv[1])
    print(judged(rows["x"].astype(float), rows["label"]))
