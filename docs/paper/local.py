"""A covariance for each point (`--algorithm lca-local`) next to the one of LCA, and to one for each of some regions: NLL of fresh rows of the
same law, and what a fit takes. Regions are k-means' in LCA's coordinates, and each is a LCA of its own rows.

On a roll the thin direction turns from place to place; of two regimes each has its own wide directions; of one cloud nothing turns.
"""
import resource

import numpy as np
import pyarrow as pa
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.datasets import make_swiss_roll

import design
import program
import sets

FRESH, COLUMNS = 2000, 6


def rows(name, n, run):
    if name == "roll":
        return make_swiss_roll(n, noise=.3, random_state=run)[0]
    rng = np.random.default_rng(run)
    regime = rng.integers(0, 2 if name == "two regimes" else 1, n)
    law = np.random.default_rng(9)  # the same for all runs
    turns = np.array([np.linalg.qr(law.normal(size=(COLUMNS, COLUMNS)))[0] for _ in range(2)])
    Z = rng.normal(size=(n, COLUMNS)) * np.geomspace(3, .3, COLUMNS)
    return np.einsum("ni,nij->nj", Z, turns[regime]) + 4 * regime[:, None]


def read_points(path, _):
    with pa.OSFile(path) as f:
        t = pa.ipc.open_stream(f).read_all().combine_chunks()
    x = t["x"].combine_chunks().flatten().to_numpy().reshape(len(t), -1)
    return x, t["factor"].combine_chunks().flatten().to_numpy().reshape(len(t), x.shape[1], -1), t["log_det"].to_numpy()


def density(Q, points):
    """Mean of -log p over the rows of Q, by the formula of docs/wire-format.md."""
    x, factor, log_det = points
    logs = np.array([-.5 * (((Q - c) @ F.T) ** 2).sum(1) - .5 * l for c, F, l in zip(x, factor, log_det)])
    return float(Q.shape[1] / 2 * np.log(2 * np.pi) + np.log(len(x)) - logsumexp(logs, axis=0).mean())


def by_regions(X, Q, count):
    """Mean of -log p over the rows of Q, p the sum of the regions' densities by their shares of rows."""
    region = KMeans(count, n_init=4, random_state=0).fit_predict(sets.fit(X, "lca", "density").transform(X))
    parts = []
    for r in range(count):
        own = X[region == r]
        m = sets.fit(own, "lca", "density")
        logs = program.log_kernel_mean(m.transform(Q), m.transform(own), False)
        parts.append(logs + np.linalg.slogdet(m.parzen)[1] + np.log(len(own) / len(X)))
    return float(Q.shape[1] / 2 * np.log(2 * np.pi) - logsumexp(parts, axis=0).mean())


def measure(set, n, metric, run):
    X, fresh = rows(set, n, run), rows(set, FRESH, run + 1000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kind, _, figure = metric.partition(" ")
    if kind == "local":
        settings = [f"lca.nu={sets.NU['density']},{sets.NU_GAUSSIAN}", "lca.nu_unit=relative"]
        nll = density(fresh, program.replay(X, "lca-local", ["--json"] + (["--smoothing", figure] if figure else []), settings, 1, read_points))
    elif kind == "regions":
        nll = by_regions(X, fresh, int(figure))
    else:
        nll = sets.fit(X, "lca", "density").nll(fresh, X)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"nll": nll, "seconds": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime}


def keys(count):
    return [dict(set=s, n=n, metric=m, run=r) for r in range(count) for s in design.PLACES for n in design.PLACES_ROWS for m in design.PLACES_METRICS]


EXPERIMENTS = {"local": (keys, measure, None)}
