"""Online clusterers on what lca-stream writes, compared with other preprocessing.

Rows come in blocks. A block is brought into coordinates by what was learnt of the rows before it (the first by what it
gave itself), then clustered, then learnt by the clusterer, which begins after a fifth of the stream. The rows of ours are
those of the output topic of `lca-stream run`.
"""
import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import IncrementalPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

import design
import live
import store  # noqa: F401  docs/paper's modules
import toys
import usps

brokers = []


def prepare(arguments, address):
    brokers[:] = [address]
    usps.prepare(arguments, address)
    return True


def keys(runs):
    return [k for k in design.clusters(runs) if k["set"] != "usps" or usps.data]


def dataset(name, run):
    """Rows in the order of the stream and their labels; and rows that are never streamed, with theirs."""
    rng = np.random.default_rng(run)
    if name in design.NOISE:
        X, y = toys.toy(name, design.TOY_ROWS + design.TOY_ROWS // 4, rng)
        X = np.c_[X, rng.normal(size=(len(X), design.NOISE[name]))]
        X = X @ rng.normal(size=(X.shape[1], X.shape[1]))
    elif name == "usps":
        some = rng.permutation(len(usps.data["x"]))[:design.USPS_ROWS + design.USPS_ROWS // 4]
        X, y = usps.data["x"][some], usps.data["y"][some]
    else:
        X, y = {"digits": load_digits, "wine": load_wine, "breast_cancer": load_breast_cancer}[name](return_X_y=True)
    X, shuffled = X.astype(float), rng.permutation(len(X))
    streamed, fresh = np.split(shuffled, [len(X) * 4 // 5])
    passes = -(-design.LEAST_ROWS // len(streamed))
    order = np.concatenate([streamed, *(rng.permutation(streamed) for _ in range(passes - 1))])
    return X[order], y[order], X[fresh], y[fresh]


class Whitening:
    """Whitening by the running covariance of all rows so far."""

    def partial_fit(self, X):
        if not hasattr(self, "n"):
            self.n, self.sum, self.square = 0, 0, 0
        self.n, self.sum, self.square = self.n + len(X), self.sum + X.sum(0), self.square + X.T @ X
        self.mean = self.sum / self.n
        w, V = np.linalg.eigh(self.square / self.n - np.outer(self.mean, self.mean))
        w[w <= 1e-9 * w[-1]] = np.inf  # constant so far
        self.root = (V / np.sqrt(w)) @ V.T  # the symmetric root, which turns nothing from block to block

    def transform(self, X):
        return (X - self.mean) @ self.root


class Raw:
    def partial_fit(self, X):
        pass

    def transform(self, X):
        return X


def blocks(X):
    """Ends of the blocks; whole minibatches, so that each has its snapshot."""
    size = max(100, len(X) // design.BLOCKS // 100 * 100)
    return [*range(size, len(X), size), len(X)]


def by_preprocessing(X, method, k):
    """Yields, for each block, its rows in the coordinates of the time, and that time's transform."""
    model = {"raw": Raw, "standard": StandardScaler, "whitening": Whitening}.get(method)
    model = model() if model else IncrementalPCA(min(X.shape[1], 30), whiten=True)
    ends = blocks(X)
    model.partial_fit(X[:ends[0]])
    for b, (a, e) in enumerate(zip([0, *ends], ends)):
        yield model.transform(X[a:e]), model.transform
        if b:
            model.partial_fit(X[a:e])


def by_program(X, method, k):
    warmup = max(200, 4 * X.shape[1])
    with live.Live(brokers[0], live.relative(design.SETTINGS[method], X) + ["snapshot.every_rows=100"]) as s:
        done, model, ready = 0, None, []
        for a, e in zip([0, *blocks(X)], blocks(X)):
            s.put(X[a:e])
            ready.append((a, e))
            if e < warmup + 100 and e < len(X):
                continue  # no model yet: the program holds these rows, and so do we
            rows = live.density.stack(s.output(e)["lca"]).astype(float)
            before, model = model, s.model(e // 100 * 100)
            for a, e in ready:
                yield rows[a:e], (before or model).transform
            ready = []


def clusterers(k, run, first):
    from river import cluster
    start = KMeans(k, n_init=10, random_state=run).fit(first).cluster_centers_
    return {
        "minibatch": MiniBatchKMeans(k, random_state=run, init=start, n_init=1),
        "river": cluster.KMeans(n_clusters=k, halflife=.1, sigma=1, seed=run),
        "stream": cluster.STREAMKMeans(chunk_size=100, n_clusters=k, halflife=.5, sigma=1, seed=run),
    }


def learn(model, Y):
    if isinstance(model, MiniBatchKMeans):
        model.partial_fit(Y)
        return
    for y in Y.tolist():
        model.learn_one(dict(enumerate(y)))


def predict(model, Y):
    if isinstance(model, MiniBatchKMeans):
        return model.predict(Y)
    return np.array([model.predict_one(dict(enumerate(y))) for y in Y.tolist()])


def clustered(set, coordinates, run):
    """ARI of every clusterer over the second half of the stream, of MiniBatchKMeans by tenths, of k-means that sees the
    coordinates of the second half at once, of the same k-means on rows that were never streamed, and how far the assignments that
    MiniBatchKMeans gives to fixed rows agree from one block to the next."""
    X, y, fresh, truth = dataset(set, run)
    k = len(np.unique(y))
    models, labels, every, at = {}, {}, [], 0
    half = slice(len(X) // 2, None)
    fixed, agreement, last = X[:: max(1, len(X) // 500)], [], None
    steps = (by_program if coordinates in design.SETTINGS else by_preprocessing)(X, coordinates, k)
    for Y, transform in steps:
        if at >= len(X) / 5 and not models:
            models = clusterers(k, run, Y)
            if run >= design.RIVER_RUNS:
                models = {"minibatch": models["minibatch"]}
            for m in models.values():
                learn(m, Y)
        for name, m in models.items():
            labels.setdefault(name, []).append(predict(m, Y))
            learn(m, Y)
        every.append(Y)
        if not models:
            skipped = at = at + len(Y)
            continue
        now = predict(models["minibatch"], transform(fixed))
        if last is not None and at > len(X) / 2:
            agreement.append(adjusted_rand_score(last, now))
        last, at = now, at + len(Y)
    together = KMeans(k, n_init=10, random_state=run).fit(np.concatenate(every)[half])
    value = {"ari_kmeans": adjusted_rand_score(y[half], together.labels_)}
    value["ari_fresh"] = adjusted_rand_score(truth, together.predict(transform(fresh)))
    for name, parts in labels.items():
        c = np.concatenate([np.full(skipped, -1), *parts])
        value["ari_" + name] = adjusted_rand_score(y[half], c[half])
        if name == "minibatch":
            value |= {f"ari_at_{10 * i}": adjusted_rand_score(y[t], c[t]) for i, t in enumerate(tenths(len(X)), 1) if t.start >= skipped}
    return value | {"stability": float(np.mean(agreement))}


def tenths(n):
    return [slice(n * i // 10, n * (i + 1) // 10) for i in range(10)]


EXPERIMENTS = {"clusters": (keys, clustered)}
