"""Spectral clustering, and the score of a clustering (section 6.1)."""
import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans


def spectral(Z, k, neighbours=20, local=7, seed=0):
    """Ng, Jordan and Weiss on a symmetrised graph of nearest neighbours, with the self-tuning affinity
    exp(-d_ij^2 / s_i s_j) of Zelnik-Manor and Perona, s_i the distance to the 7th neighbour."""
    n = len(Z)
    q = (Z * Z).sum(1)
    D2 = np.maximum(q[:, None] + q[None] - 2 * Z @ Z.T, 0)
    np.fill_diagonal(D2, np.inf)
    i = np.argpartition(D2, neighbours, axis=1)[:, :neighbours]
    d = np.sqrt(np.take_along_axis(D2, i, 1))
    order = d.argsort(1)
    i, d = np.take_along_axis(i, order, 1), np.take_along_axis(d, order, 1)
    s = d[:, min(local, neighbours) - 1] + 1e-12
    A = np.zeros((n, n))
    A[np.arange(n)[:, None], i] = np.exp(-d ** 2 / (s[:, None] * s[i]))
    A = np.maximum(A, A.T)
    g = 1 / np.sqrt(A.sum(1) + 1e-300)
    _, V = eigh(A * g[:, None] * g[None], subset_by_index=[n - k, n - 1])
    V /= np.linalg.norm(V, axis=1, keepdims=True) + 1e-12
    return KMeans(k, n_init=5, random_state=seed).fit_predict(V)


def accuracy(y, c):
    """100/n max_P tr(E P), E the confusion matrix, over matchings P of clusters to labels."""
    k = max(y.max(), c.max()) + 1
    E = np.zeros((k, k))
    np.add.at(E, (y, c), 1)
    a, b = linear_sum_assignment(-E)
    return float(100 * E[a, b].sum() / len(y))
