"""The rivals of board.py. Each is fitted to the train rows and scores the test rows, in order; larger is more unusual. Where one has
an online form, it is there twice: fixed, and learning each test row once that is scored (in blocks of 25 rows where that is
quicker). All see the columns in the same units: `units`. numpy alone, unless a function says otherwise.
"""
import numpy as np

BLOCK = 25


def units(train, test, beyond=10.):
    """Columns by the train rows' median and standard deviation. A column that was constant gets a hundredth of its level, so that its first
    move is far. Beyond ten units growth is logarithmic, so that one wild cell does not decide alone."""
    centre, spread = np.median(train, 0), train.std(0)
    constant = spread <= 1e-9 * (np.abs(centre) + 1e-12)
    spread = np.where(constant, np.maximum(.01 * np.abs(centre), 1e-3), spread)

    def cut(x):
        z = (x - centre) / spread
        size = np.maximum(np.abs(z), 1e-300)
        return np.where(size <= beyond, z, np.sign(z) * beyond * (1 + np.log(size / beyond)))

    train, test = cut(train), cut(test)
    middle = train.mean(0)
    return train - middle, test - middle


def shrunk(x):
    """Mean and covariance of rows, the covariance shrunk towards the sphere (Ledoit and Wolf 2004)."""
    n, d = x.shape
    mean = x.mean(0)
    z = x - mean
    s = z.T @ z / n
    level = np.trace(s) / d
    distance = ((s ** 2).sum() - 2 * level * np.trace(s) + d * level ** 2) / d
    noise = min(((z ** 2).sum(1) ** 2).mean() - (s ** 2).sum(), n * d * distance) / (n * d)
    a = noise / distance if distance > 0 else 0.
    return mean, (1 - a) * s + a * level * np.eye(d)


def t2(train, test):
    mean, c = shrunk(train)
    c += 1e-6 * max(np.trace(c) / len(c), 1) * np.eye(len(c))
    return (((test - mean) @ np.linalg.inv(np.linalg.cholesky(c)).T) ** 2).sum(1)


def forgetting(train, test, half_life=14e3, hold=None, shrink=.002):
    """T² of a mean and a covariance that forget with a half-life, in rows. With hold, a block of rows is not learnt whose median is that many times the
    train rows' 99.5 % quantile."""
    mean, c, n, d = train.mean(0), np.cov(train.T).reshape(train.shape[1], -1), half_life / np.log(2), train.shape[1]

    def score(x):
        whole = (1 - shrink) * c + shrink * max(np.trace(c) / d, 1e-3) * np.eye(d)
        return ((x - mean) * np.linalg.solve(whole, (x - mean).T).T).sum(1)

    limit, out = hold and hold * np.quantile(score(train), .995), np.empty(len(test))
    for at in range(0, len(test), BLOCK):
        x = test[at:at + BLOCK]
        out[at:at + BLOCK] = s = score(x)
        if hold and np.median(s) > limit:
            continue
        keep = np.exp(-len(x) / n)
        c = keep * c + (1 - keep) * (x - mean).T @ (x - mean) / len(x)
        mean = keep * mean + (1 - keep) * x.mean(0)
    return out


def means(train, test, rates):
    """Exponentially weighted means, which go on from the train rows to the test rows."""
    out = []
    for r in rates:
        m, x = np.zeros(train.shape[1]), np.vstack([train, test])
        for i in range(len(x)):
            x[i] = m = m + r * (x[i] - m)
        out.append(x)
    x = np.hstack(out)
    return x[:len(train)], x[len(train):]


def with_means(train, test):
    a, b = means(train, test, (.1, .02))
    return np.hstack([train, a]), np.hstack([test, b])


def two_memories(train, test):
    a, b = with_means(train, test)
    return np.log(forgetting(a, b, 70e3, hold=1)) + np.log(forgetting(a, b))


def neighbours(train, test, k=5):
    """Mean distance to the nearest train rows. scikit-learn."""
    from sklearn.neighbors import NearestNeighbors
    return NearestNeighbors(n_neighbors=k).fit(train).kneighbors(test)[0].mean(1)


def isolation_forest(train, test, seed=1):
    """scikit-learn."""
    from sklearn.ensemble import IsolationForest
    return -IsolationForest(random_state=seed).fit(train).score_samples(test)


def half_space_trees(train, seed=1):
    """River: 25 trees."""
    from river import anomaly, preprocessing
    model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(n_trees=25, seed=seed)
    for x in train.tolist():
        model.learn_one(dict(enumerate(x)))
    return model


def half_space_trees_score(model, test, learns):
    out = []
    for x in test.tolist():
        x = dict(enumerate(x))
        out.append(model.score_one(x))
        if learns:
            model.learn_one(x)
    return np.array(out)


class Loda:
    """Sums of the log-densities of sparse random projections, each a histogram (Pevný 2016)."""

    def __init__(self, train, seed=1, projections=100, bins=10):
        random, d = np.random.default_rng(seed), train.shape[1]
        self.w = np.zeros((d, projections))
        for j in range(projections):
            chosen = random.choice(d, max(1, round(d ** .5)), replace=False)
            self.w[chosen, j] = random.normal(size=len(chosen))
        y = train @ self.w
        self.low, self.bins = y.min(0), bins
        self.width = np.maximum((y.max(0) - self.low) / bins, 1e-12)
        self.counts, self.rows = np.zeros((bins + 2, projections)), 0
        self.learn(train)

    def places(self, x):
        return np.clip(np.floor((x @ self.w - self.low) / self.width), -1, self.bins).astype(int) + 1

    def learn(self, x):
        at = self.places(x)
        np.add.at(self.counts, (at, np.arange(at.shape[1])), 1)
        self.rows += len(x)

    def score(self, x):
        at = self.places(x)
        return -np.log(np.maximum(self.counts[at, np.arange(at.shape[1])] / self.rows, 1e-12)).mean(1)


def loda(train, test, learns, seed=1):
    model, out = Loda(train, seed), np.empty(len(test))
    if not learns:
        return model.score(test)
    for at in range(0, len(test), BLOCK):
        out[at:at + BLOCK] = model.score(test[at:at + BLOCK])
        model.learn(test[at:at + BLOCK])
    return out


def random_cut_forest(train, seed=1):
    """krcf, Amazon's forest in Rust: 50 trees of 256 rows, a row at a time."""
    from krcf import RandomCutForest
    model = RandomCutForest(dict(dimensions=train.shape[1], shingle_size=1, num_trees=50, sample_size=256, random_seed=seed, parallel_execution_enabled=False))
    for x in train.tolist():
        model.update(x)
    return model


def random_cut_forest_score(model, test, learns):
    out = []
    for x in test.tolist():
        out.append(model.score(x))
        if learns:
            model.update(x)
    return np.array(out)


def both(fit, score):
    """The two forms of a model that a row changes."""
    return (lambda a, b: score(fit(a), b, False)), (lambda a, b: score(fit(a), b, True))


_hst, _rcf = both(half_space_trees, half_space_trees_score), both(random_cut_forest, random_cut_forest_score)
RATE = (.05,)

# name -> (function of the train and the test rows in `units`, whether it is for rows without an order, too)
FIXED = {
    "row T²": (t2, True),
    "mean T²": (lambda a, b: t2(*means(a, b, RATE)), False),
    "5-NN": (neighbours, True),
    "isolation forest": (isolation_forest, True),
    "half-space trees": (_hst[0], True),
    "LODA": (lambda a, b: loda(a, b, False), True),
    "random cut forest": (_rcf[0], True),
    "row and means T²": (lambda a, b: t2(*with_means(a, b)), False),
}
LEARNING = {
    "row T², learning": (forgetting, True),
    "mean T², learning": (lambda a, b: forgetting(*means(a, b, RATE)), False),
    "half-space trees, learning": (_hst[1], True),
    "LODA, learning": (lambda a, b: loda(a, b, True), True),
    "random cut forest, learning": (_rcf[1], True),
    "row and means, two memories": (two_memories, False),
}
