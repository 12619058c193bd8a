"""The three clustering problems of section 6.1."""
import numpy as np


def toy(name, n, rng):
    """Two columns and labels: two Gaussians, two circles, or five Gaussians."""
    if name == "two":
        y = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 2))
        X[:, 0] += np.where(y == 1, 3, -3)
        return X, y
    if name == "circles":
        y = rng.integers(0, 2, n)
        t = rng.uniform(0, 2 * np.pi, n)
        r = 1.0 + y
        return np.c_[r * np.cos(t), r * np.sin(t)] + .1 * rng.normal(size=(n, 2)), y
    y = rng.choice(5, n, p=np.array([4, 1, 1, 1, 1]) / 8)
    centres = np.array([[0, 0], [4, 4], [-4, 4], [4, -4], [-4, -4.]])
    return centres[y] + rng.normal(size=(n, 2)), y


def whiten(X):
    """PCA whitening: what every method starts from."""
    X = X - X.mean(0)
    w, V = np.linalg.eigh(X.T @ X / len(X))
    return X @ (V / np.sqrt(w))


def problem(name, n, noise, run):
    """The whitened rows, with `noise` columns of white Gaussian noise, and the labels of a run."""
    rng = np.random.default_rng(1000 * run + noise)
    X, y = toy(name, n, rng)
    return whiten(np.c_[X, rng.normal(size=(n, noise))]), y
