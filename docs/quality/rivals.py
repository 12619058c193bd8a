"""Anomaly scores that lca-stream is compared with. Each takes the rows of a machine's run, in order, and gives a score for
every row, larger = more unusual. All see what ours sees: the first rows are taken for normal and learnt, then scored; every later
row is scored before it is learnt. learn: all of them, none, or those that are near."""
import warnings

import numpy as np
from sklearn.decomposition import IncrementalPCA
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

import design

N = design.WARMUP
BLOCK = 100


def standard(X):
    """In units of the standard deviations of the first rows."""
    return (X - X[:N].mean(0)) / np.maximum(X[:N].std(0), 1e-12)


def mahalanobis(X, seed, learn):
    """The running mean and covariance; near = rows beyond the .999 quantile of chi^2 are not learnt."""
    X = standard(X)
    d = X.shape[1]
    count, mean, square = N, X[:N].mean(0), np.cov(X[:N].T, bias=True) * N
    limit = d * (1 - 2 / (9 * d) + 3.0902 * np.sqrt(2 / (9 * d))) ** 3  # Wilson and Hilferty

    def score(x):
        z = x - mean
        return (z * np.linalg.solve(square / count + 1e-6 * np.eye(d), z.T).T).sum(-1)

    out = list(score(X[:N]))
    for x in X[N:]:
        out.append(score(x))
        if learn == "all" or (learn == "near" and out[-1] < limit):
            count += 1
            step = x - mean
            mean = mean + step / count
            square = square + np.outer(step, x - mean)
    return np.array(out)


def river_scores(model, X, learn):
    rows = [dict(enumerate(x)) for x in X.tolist()]
    for x in rows[:N]:
        model.learn_one(x)
    out = [model.score_one(x) for x in rows[:N]]
    for x in rows[N:]:
        out.append(model.score_one(x))
        if learn == "all":
            model.learn_one(x)
    return np.array(out, float)


def half_space_trees(X, seed, trees, height, window, learn):
    from river import anomaly, preprocessing
    model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(n_trees=trees, height=height, window_size=window, seed=seed)
    return river_scores(model, X, learn)


def one_class_svm(X, seed, nu, learn):
    from river import anomaly, preprocessing
    return river_scores(preprocessing.StandardScaler() | anomaly.OneClassSVM(nu=nu), X, learn)


def isolation_forest(X, seed, trees, sample):
    return -IsolationForest(n_estimators=trees, max_samples=sample, random_state=seed).fit(X[:N]).score_samples(X)


def lof(X, seed, neighbours):
    X = standard(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return -LocalOutlierFactor(n_neighbors=neighbours, novelty=True).fit(X[:N]).score_samples(X)


def incremental_pca(X, seed, components, learn):
    """Squared distance to the subspace of the first components, learnt a hundred rows at a time."""
    X = standard(X)
    pca, out = IncrementalPCA(n_components=components).fit(X[:N]), []
    for a in [0, *range(N, len(X), BLOCK)]:
        x = X[a:N if a == 0 else a + BLOCK]
        out.append(((x - pca.inverse_transform(pca.transform(x))) ** 2).sum(1))
        if learn == "all" and a and len(x) >= components:
            pca.partial_fit(x)
    return np.concatenate(out)
