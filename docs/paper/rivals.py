"""The methods that LCA is compared with in section 6.1: FastICA and NGCA."""
import warnings

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning


def fastica(Z, k, contrast, seed=0):
    """The first k components that FastICA finds one by one (deflation); contrast: logcosh, exp or cube."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # noise has no components to converge to
        ica = FastICA(algorithm="deflation", fun=contrast, whiten="unit-variance", random_state=seed)
        return ica.fit_transform(Z)[:, :k]


def ngca(Z, k, each=60, steps=10, threshold=1.5, seed=0):
    """Non-Gaussian component analysis (Blanchard, Kawanabe, Sugiyama, Spokoiny and Müller, JMLR 2006).

    For a smooth h, beta(h) = E[z h(z) - grad h(z)] of white z lies in the non-Gaussian subspace, by
    Stein's identity. h(z) = f(w'z) for four families of f, each with `each` scales and, as there, FastICA
    steps w <- beta / |beta| to find a good w. beta is brought to unit noise; those shorter than the threshold
    say nothing and are dropped; the k principal directions of the rest span the answer."""
    rng = np.random.default_rng(seed)
    n, d = Z.shape
    families = [
        (np.linspace(.5, 5, each), lambda t, s: t ** 3 * np.exp(-t ** 2 / (2 * s)),
         lambda t, s: (3 * t ** 2 - t ** 4 / s) * np.exp(-t ** 2 / (2 * s))),
        (np.linspace(.05, 5, each), lambda t, s: np.tanh(s * t), lambda t, s: s / np.cosh(s * t) ** 2),
        (np.linspace(.05, 4, each), lambda t, s: np.sin(s * t), lambda t, s: s * np.cos(s * t)),
        (np.linspace(.05, 4, each), lambda t, s: np.cos(s * t), lambda t, s: -s * np.sin(s * t)),
    ]
    found = []
    for scales, f, slope in families:
        w = rng.normal(size=(each, d))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        for _ in range(steps):
            t = Z @ w.T
            h, dh = f(t, scales), slope(t, scales)
            beta = h.T @ Z / n - dh.mean(0)[:, None] * w
            # E|z h - h' w|^2 - |beta|^2, the variance of the terms that beta is the mean of
            spread = ((h ** 2) * (Z * Z).sum(1)[:, None] - 2 * h * dh * t + dh ** 2).mean(0) - (beta ** 2).sum(1)
            w = beta / np.maximum(np.linalg.norm(beta, axis=1, keepdims=True), 1e-300)
        found.append(beta * np.sqrt(n / np.maximum(spread, 1e-300))[:, None])
    v = np.vstack(found)
    size = np.linalg.norm(v, axis=1)
    kept = v[size > threshold] if (size > threshold).sum() >= k else v[np.argsort(-size)[:k]]
    directions = np.linalg.svd(kept, full_matrices=False)[2][:k]
    return Z @ directions.T
