"""Manifold learning and spectral clustering in columns with noise among them, and in the coordinates that LCA-Gauss-Red finds there.

A roll's trustworthiness is that of the embedding to the flat sheet that was rolled up, digits' that to their pixels without the noise: 1 where
the twelve nearest in the embedding are near in truth, about .5 by chance.
"""
import functools
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.manifold import Isomap, LocallyLinearEmbedding, trustworthiness
from sklearn.metrics import adjusted_rand_score

import design
import sets
import spectral

ROWS, NEIGHBOURS = 1000, 12


@functools.lru_cache(1)
def problem(name, noise, run):
    """Columns of mean 0 and variance 1 with columns of noise, the truth that an embedding should keep, and labels where there are some."""
    rng = np.random.default_rng(1000 * run + noise)
    if name == "roll":
        X, t = make_swiss_roll(ROWS, noise=.05, random_state=run)
        truth, y = np.c_[(t * np.sqrt(1 + t * t) + np.arcsinh(t)) / 2, X[:, 1]], None  # the length along the spiral, and the height
    else:
        X, y = load_digits(return_X_y=True)
        some = rng.permutation(len(X))[:ROWS]
        X, y = X[some], y[some]
        X = X[:, X.std(0) > 0]
        truth = X
    X = sets.standard(np.c_[X, rng.normal(size=(ROWS, noise))])
    return X, truth, y


@functools.lru_cache(1)
def learnt(name, noise, preset, run):
    return sets.fit(problem(name, noise, run)[0], preset=preset)


def embedded(Y, method):
    """Two coordinates, or one where the rows have no more; or none where the method has none."""
    two = min(2, Y.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph of neighbours in several pieces; UMAP with a seed runs in one thread
        if method == "isomap":
            return Isomap(n_neighbors=NEIGHBOURS, n_components=two).fit_transform(Y)
        if method == "lle":
            return LocallyLinearEmbedding(n_neighbors=NEIGHBOURS, n_components=two, random_state=0).fit_transform(Y)
        if method == "umap":
            import umap
            return umap.UMAP(n_neighbors=NEIGHBOURS, random_state=0, n_jobs=1).fit_transform(Y)
    return None


def measure(set, noise, coordinates, method, run):
    X, truth, y = problem(set, noise, run)
    Y, value = X, {}
    if coordinates != "columns":
        m = learnt(set, noise, coordinates, run)
        Y, value = m.transform(X), {"parzen": len(m.parzen)}
    E = embedded(Y, method)
    if E is not None:
        value["trust"] = trustworthiness(truth, E, n_neighbors=NEIGHBOURS)
    if y is not None:
        clusters = len(np.unique(y))
        found = spectral.spectral(Y, clusters) if E is None else KMeans(clusters, n_init=10, random_state=0).fit_predict(E)
        value["ari"] = adjusted_rand_score(y, found)
    return value


def keys(count):
    return [dict(set=s, noise=q, coordinates=c, method=m, run=r) for r in range(count) for s, noise in design.MANIFOLDS.items() for q in noise
            for c in design.MANIFOLD_COORDINATES for m in design.EMBEDDINGS if s == "digits" or m != "spectral"]


EXPERIMENTS = {"manifold": (keys, measure, None)}
