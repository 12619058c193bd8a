"""Sections 6.2 and 6.3: LCA as a density of the USPS digits, and what subsampling costs.

The data are not part of this repository. The file given to `make paper` is Arrow, with a column x of
256 pixels in [-1, 1] and 9298 rows. usps_splits.csv and usps_splits_subsampling.csv beside it, one
permutation a line, fix the splits; without them they are drawn from a fixed seed.
"""
import os

import numpy as np
import pyarrow as pa

import design
import program

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
    X, T = data["x"][rows[design.TRAIN]], data["x"][rows[design.TEST]]
    m = program.fit(X, flags=design.USPS_FLAGS, **design.MODELS[model])
    return {"nll": m.nll(T, X), "parzen": len(m.parzen), "iterations": m.info["passes"], "seconds": m.info["seconds"]}


def subsampled(gamma, batch, neighbours, run):
    """One cell of the subsampling table, on one split; every density is over all training rows."""
    rows = data["halves"][run]
    X, T = data["x"][rows[:design.HALF]], data["x"][rows[design.HALF:]]
    flags, settings = ["--precision", "float32", "--tolerance", "1e-3"], []
    if (gamma, batch, neighbours) != design.WHOLE:
        flags = ["--precision", "float32", "--tolerance", "1e-2", "--subsample"]
        settings = [f"minibatch.rows={batch}", f"lca.neighbours={neighbours}", f"lca.gamma={gamma}"]
    m = program.fit(X, "lca-gauss", nu=design.NU, nu_gaussian=design.NU_GAUSSIAN, flags=flags, settings=settings)
    return {"test": m.nll(T, X), "train": m.nll(X, X, leave_one_out=True), "passes": m.info["passes"], "seconds": m.info["seconds"]}


EXPERIMENTS = {"usps": (design.usps, density, None), "subsampling": (design.subsampling, subsampled, design.whole)}
