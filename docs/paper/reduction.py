"""Dimension reduction without labels and with them: the first directions of LCA-Gauss-Red and of PCA, next to LDA and NCA, which see the labels.

Each learns half of the rows; the other half is judged in its coordinates: the share that five neighbours of the first half get wrong, and the
ARI of spectral clustering with the true number of clusters.
"""
import warnings

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

import design
import sets
import spectral


def reduced(X, y, method, k, lca):
    """The map to k coordinates, or to as many as there are, that a method finds in the rows X."""
    if method == "columns":
        return lambda Z: Z
    if method == "pca":
        V = np.linalg.svd(X - X.mean(0), full_matrices=False)[2][:k]
        return lambda Z: Z @ V.T
    if method == "lca":
        return lambda Z: lca.transform(Z)[:, :k]
    if method == "lda":
        return LinearDiscriminantAnalysis(n_components=min(k, len(np.unique(y)) - 1, X.shape[1])).fit(X, y).transform
    return NeighborhoodComponentsAnalysis(n_components=min(k, X.shape[1]), random_state=0).fit(X, y).transform


def measure(set, directions, run):
    X, y = sets.load(set, run)
    half = len(X) // 2
    X = sets.standard(X, X[:half])
    lca = sets.fit(X[:half], preset=sets.preset(set))
    value = {"parzen": len(lca.parzen)}
    for method in design.REDUCTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LDA on columns that depend on each other, NCA at its last step
            Y = reduced(X[:half], y[:half], method, directions or max(len(lca.parzen), 1), lca)(X)
        if Y.shape[1] == 0:
            Y = np.zeros((len(X), 1))  # all Gaussian: no coordinates
        found = spectral.spectral(Y[half:], len(np.unique(y))) if np.ptp(Y) else y[half:] * 0
        value[method + " ari"] = adjusted_rand_score(y[half:], found)
        value[method + " wrong"] = 100 * (1 - KNeighborsClassifier(5).fit(Y[:half], y[:half]).score(Y[half:], y[half:]))
    return value


def keys(count):
    return [dict(set=s, directions=k, run=r) for r in range(count) for s in sets.NAMES for k in design.DIRECTIONS]


EXPERIMENTS = {"reduction": (keys, measure, None)}
