"""Mean-shift on the density that LCA learns: each row climbs to a mode of the Parzen windows, and rows of one mode are a cluster, without k.

In the coordinates of a snapshot the kernel is a Gaussian of width 1: nothing is left to choose. In the columns, which have no width of their
own, it is the normal-scale bandwidth for the slope of a density (Chacon and Duong, 2010), which knows rows and columns alone.
"""
import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import design
import sets

ROWS = 500  # a climb takes each row to all others, many times
SMALL = .01  # a mode of fewer rows joins the nearest that has as many


def normal_scale(n, d):
    return (4 / ((d + 4) * n)) ** (1 / (d + 6))


def climb(start, centres, width, steps=500):
    """Where each row of start ends on the density of the centres."""
    at, moving = start.copy(), np.arange(len(start))
    for _ in range(steps):
        D = cdist(at[moving], centres, "sqeuclidean")
        w = np.exp((D.min(1, keepdims=True) - D) / (2 * width * width))
        to = w @ centres / w.sum(1, keepdims=True)
        far = np.linalg.norm(to - at[moving], axis=1) > 1e-3 * width
        at[moving] = to
        moving = moving[far]
        if not len(moving):
            break
    return at


def modes(ends, width, small=SMALL):
    """The cluster of each row by where it ended, and the share of rows whose own mode is small."""
    places, of = np.unique(np.round(ends / (.1 * width)), axis=0, return_inverse=True)
    label = connected_components(cdist(places, places) < 5)[1][of.ravel()]  # ends nearer than half a width
    count = np.bincount(label)
    large = np.flatnonzero(count >= max(small * len(ends), 2))
    if not len(large):
        return label * 0, 1.
    stays = np.isin(label, large)
    peaks = np.array([ends[label == m].mean(0) for m in large])
    return large[cdist(ends, peaks).argmin(1)] * ~stays + label * stays, float(1 - stays.mean())


def measure(set, method, run):
    X, y = sets.load(set, run)
    X, y = sets.standard(X[:ROWS]), y[:ROWS]
    n, k = len(X), len(np.unique(y))
    Y = X if method.startswith("columns") else sets.fit(X, preset="none" if method.endswith("unpenalised") else "metric").transform(X)
    found, alone = y * 0, 0.
    if method.endswith("k-means"):
        found = KMeans(k, n_init=10, random_state=0).fit_predict(Y)
    elif Y.shape[1]:  # else all is Gaussian: one mode
        width = normal_scale(*X.shape) if method == "columns" else 1
        found, alone = modes(climb(Y, Y, width), width)
    return {"ari": adjusted_rand_score(y, found), "clusters": len(np.unique(found)), "k": k, "alone": alone}


def keys(count):
    return [dict(set=s, method=m, run=r) for r in range(count) for s in sets.NAMES for m in design.MODES
            if m != "lca unpenalised" or s not in sets.REAL]


EXPERIMENTS = {"meanshift": (keys, measure, None)}
