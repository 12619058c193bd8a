"""USPS as a stream, and spectral clustering with the preset for it."""
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import design
import live
import spectral
import streams
import toys
import usps

HALF = 6000  # training rows; all others test
SETTINGS = ["lca.nu_unit=absolute", "lca.nu=0.01,0.0015", "lca.neighbours=3000"]


def prepare(arguments, address):
    streams.prepare(arguments, address)
    usps.prepare(arguments, address)
    return True


def digits(setting, run):
    """Test NLL after one pass through Kafka, or five passes by replay; with the pool's rows as centres, and with all."""
    rows = usps.data["splits"][run]
    X, T = usps.data["x"][rows[:HALF]], usps.data["x"][rows[HALF:]]
    if setting == "five passes":
        m = live.replay(X, SETTINGS, ["--algorithm", "stochastic", "--passes", "5"])
    elif setting == "batch":
        m = live.replay(X, SETTINGS, ["--algorithm", "lca-gauss", "--passes", "0", "--sample", str(HALF), "--precision", "float32", "--tolerance", "1e-3"])
    else:
        with live.Live(streams.brokers[0], [*SETTINGS, *design.USPS[setting], "snapshot.every_rows=6000"], command="learn") as s:
            s.put(X)
            m = s.model(HALF)
    return {"nll": float(m.score(T).mean()), "nll_all": float(m.score(T, X).mean()), "parzen": len(m.parzen)}


def batch_of(key):
    """The run that others of a split are compared with."""
    return key | {"setting": "batch"}


def grouped(set, coordinates, run):
    """ARI of spectral clustering in the coordinates that a batch fit gives, or other preprocessing; and nearest(). Runs differ in the order of
    the rows and the seed of k-means; a toy's also in its rows."""
    rng = np.random.default_rng(run)
    if set.startswith("five"):
        X, y = toys.toy("five", 500, rng)
        X = np.c_[X, rng.normal(size=(500, 10))]
        X = whitened(X) if set == design.WHITENED else X @ rng.normal(size=(12, 12))
    else:
        X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits, "breast_cancer": load_breast_cancer}[set](return_X_y=True)
        order = rng.permutation(len(X))
        X, y = X[order].astype(float), y[order]
    fitted = coordinates.split(",")[0]
    if fitted in ("metric", "density", "alike"):
        settings = live.relative(design.ALIKE, X) if fitted == "alike" else [f"lca.preset={fitted}"]
        if "relative" in coordinates:
            settings.append("lca.nu_unit=relative")
        m = live.replay(X, settings, ["--algorithm", "lca-gauss", "--passes", "0"])
        Y = (X - m.mean) @ m.parzen.T if "Parzen" in coordinates else m.transform(X)
    else:
        Y = {"raw": lambda X: X, "standard": lambda X: StandardScaler().fit_transform(X), "whitening": whitened}[coordinates](X)
    return {"ari": adjusted_rand_score(y, spectral.spectral(Y, len(np.unique(y)), seed=run)), "neighbours": nearest(Y, y)}


def nearest(Y, y):
    """The share of rows whose label is that of most of their five nearest neighbours."""
    labels, i = np.unique(y), NearestNeighbors(n_neighbors=5).fit(Y).kneighbors(return_distance=False)
    return float((labels[np.stack([(y[i] == k).sum(1) for k in labels], 1).argmax(1)] == y).mean())


def whitened(X):
    X = X - X.mean(0)
    _, s, V = np.linalg.svd(X, full_matrices=False)
    kept = s > 1e-6 * s[0]
    return X @ V[kept].T / s[kept] * np.sqrt(len(X))


EXPERIMENTS = {"usps": (lambda runs: design.usps(runs) if usps.data else [], digits, batch_of), "spectral": (design.spectral, grouped)}
