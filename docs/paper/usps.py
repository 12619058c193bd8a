"""Sections 6.2 and 6.3: LCA as a density of the USPS digits, and what subsampling costs.

The data are not part of this repository. The file given to `make paper` is Arrow, with a column x of
256 pixels in [-1, 1] and 9298 rows. usps_splits.csv and usps_splits_subsampling.csv beside it, one
permutation a line, fix the splits; without them they are drawn from a fixed seed.
"""
import os

import numpy as np
import pyarrow as pa

import program

TRAIN, TEST = slice(0, 3000), slice(3000, 6000)  # 2000 + the 1000 of validation, as the paper's final models
HALF = 6000  # training rows of section 6.3; all others test

# Chosen on the validation rows: nu_g is the one best for a single Gaussian, then nu. The order is that of running.
MODELS = {
    "gauss": dict(algorithm="lca-gauss", nu=.05, nu_gaussian=.003),
    "gaussian": dict(algorithm="gaussian", nu_gaussian=.003),
    "isotropic": dict(algorithm="lca", metric="isotropic"),
    "diagonal": dict(algorithm="lca", metric="diagonal"),
    "full": dict(algorithm="lca", nu=.004, nu_gaussian=.003),
    "gauss-red": dict(algorithm="lca-gauss-red", nu=.05, nu_gaussian=.003),
}
FLAGS = ["--precision", "float32", "--tolerance", "1e-3"]

# (gamma, B, N) in the order in which they are run: the model that all are compared with comes first.
WHOLE = (0, HALF, HALF)
CELLS = [WHOLE, (.6, 100, 3000), (.6, 1000, 1000), (.6, 1000, 3000), (.6, 6000, 3000), (.6, 3000, 3000),
         (.6, 3000, 1000), (.6, 6000, 1000), (.3, 1000, 1000), (.3, 1000, 3000), (.3, 3000, 1000), (.3, 3000, 3000),
         (.3, 6000, 1000), (.3, 6000, 3000), (.6, 1000, 6000), (.6, 3000, 6000), (.6, 6000, 6000),
         (.3, 1000, 6000), (.3, 3000, 6000), (.3, 6000, 6000)]
NU, NU_GAUSSIAN = .01, .0015

data = {}


def open_data(path):
    """Reads the digits, and the splits."""
    with pa.OSFile(path) as f:
        column = pa.ipc.open_file(f).read_all()["x"].combine_chunks()
    x = column.flatten().to_numpy().astype(float).reshape(len(column), -1)
    data.update(x=x, splits=permutations(path, "usps_splits.csv", x, 20),
                halves=permutations(path, "usps_splits_subsampling.csv", x, 20))


def permutations(path, name, x, count):
    beside = os.path.join(os.path.dirname(path), name)
    if os.path.exists(beside):
        return np.loadtxt(beside, delimiter=",", dtype=int)
    return [np.random.default_rng(run).permutation(len(x)) for run in range(count)]


def density(model, run):
    """One row of the table, on one split."""
    rows = data["splits"][run]
    X, T = data["x"][rows[TRAIN]], data["x"][rows[TEST]]
    m = program.fit(X, flags=FLAGS, **MODELS[model])
    return {"nll": m.nll(T, X), "parzen": len(m.parzen), "iterations": m.info["passes"], "seconds": m.info["seconds"]}


def subsampled(gamma, batch, neighbours, run):
    """One cell of the subsampling table, on one split; every density is over all training rows."""
    rows = data["halves"][run]
    X, T = data["x"][rows[:HALF]], data["x"][rows[HALF:]]
    flags, settings = ["--precision", "float32", "--tolerance", "1e-3"], []
    if (gamma, batch, neighbours) != WHOLE:
        flags = ["--precision", "float32", "--tolerance", "1e-2", "--subsample"]
        settings = [f"minibatch.rows={batch}", f"lca.neighbours={neighbours}", f"lca.gamma={gamma}"]
    m = program.fit(X, "lca-gauss", nu=NU, nu_gaussian=NU_GAUSSIAN, flags=flags, settings=settings)
    return {"test": m.nll(T, X), "train": m.nll(X, X, leave_one_out=True), "passes": m.info["passes"], "seconds": m.info["seconds"]}


def keys(count):
    return [dict(model=m, run=r) for m in MODELS for r in range(count)]


def cell_keys(count):
    return [dict(gamma=g, batch=b, neighbours=n, run=r) for g, b, n in CELLS for r in range(count)]


def whole(key):
    """The run that a cell is compared with, on the same split."""
    return dict(zip(("gamma", "batch", "neighbours"), WHOLE), run=key["run"])


EXPERIMENTS = {"usps": (keys, density, None), "subsampling": (cell_keys, subsampled, whole)}
