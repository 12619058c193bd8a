"""LCA-Gauss in numpy, as one would write it from Algorithm 1 with care for speed: what our seconds are held against.

    OPENBLAS_NUM_THREADS=1 python docs/paper/reference.py ROWS.npy NU NU_GAUSSIAN TOLERANCE TYPE

prints one JSON object. Sums over pairs are matrix products, in blocks of rows that stay in the cache; TYPE (float32 or
float64) is that of the E-step, and weights too small to count are 0 before they are subnormal, which cost tenfold.
"""
import json
import sys
import time

import numpy as np

BLOCK = 256


def e_step(X, B, dtype):
    """C_L (eq. 5), and per row log sum_{j /= i} exp(-|B'(x_i - x_j)|^2 / 2) (eqs. 3, 4)."""
    n, d = X.shape
    Z, Y = (X @ B).astype(dtype), X.astype(dtype)
    half = .5 * np.einsum("ij,ij->i", Z, Z)
    cut = np.log(np.finfo(dtype).tiny) + 20
    log_sum, column, S = np.empty(n), np.zeros(n, dtype), X.T @ X
    for a in range(0, n, BLOCK):
        b = min(n, a + BLOCK)
        L = Z[a:b] @ Z.T
        L -= half
        L -= half[a:b, None]
        L[np.arange(b - a), np.arange(a, b)] = -np.inf
        top = L.max(1)
        L -= top[:, None]
        L[L < cut] = -np.inf
        np.exp(L, out=L)
        total = L.sum(1)
        log_sum[a:b] = np.log(total) + top
        L /= total[:, None]
        cross = Y[a:b].T @ (L @ Y)
        S -= cross + cross.T
        column += L.sum(0)
    S += (Y * column[:, None]).T @ Y
    return (S + S.T) / (2 * n), log_sum


def split(ig, m2):
    """Proposition 1."""
    e, U = np.linalg.eigh(ig @ m2 @ ig)
    k = int((e < 1).sum())
    return ig @ U[:, k:], ig @ U[:, :k] / np.sqrt(e[:k])


def fit(X, nu, nu_gaussian, tolerance, dtype):
    """EM until a step gains less than the tolerance. Returns B_G, B_L, the leave-one-out NLL and the steps made."""
    n, d = X.shape
    X = X - X.mean(0)
    w, V = np.linalg.eigh(X.T @ X / n + nu_gaussian * np.eye(d))
    ig = (V / np.sqrt(w)) @ V.T
    bg, bl = np.zeros((d, 0)), ig
    last, steps = np.inf, 0
    while True:
        cl, log_sum = e_step(X, bl, dtype)
        nll = (d / 2 * np.log(2 * np.pi) - np.linalg.slogdet(np.hstack([bl, bg]))[1]
               + (.5 * ((X @ bg) ** 2).sum(1) - log_sum).mean() + np.log(n - 1))
        penalised = nll + .5 * (nu * (bl ** 2).sum() + nu_gaussian * (bg ** 2).sum())
        if steps and last - penalised < tolerance:
            return bg, bl, nll, steps
        last, steps = penalised, steps + 1
        bg, bl = split(ig, cl + nu * np.eye(d))


if __name__ == "__main__":
    X, start = np.load(sys.argv[1]), time.process_time()
    bg, bl, nll, steps = fit(X, *map(float, sys.argv[2:5]), np.dtype(sys.argv[5]))
    print(json.dumps({"nll": nll, "steps": steps, "parzen": bl.shape[1], "seconds": time.process_time() - start}))
