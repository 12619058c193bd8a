"""Streams through Kafka and `lca-stream learn`, and what can go wrong on them: a young stream, a change, bursts, records
that come twice, outliers, columns of very different scale. All figures are of rows that were not learnt."""
import functools
import math

import numpy as np

import design
import live
import toys

brokers = []
TEST, LONG = 4000, 15000


def prepare(arguments, address):
    brokers[:] = [address]
    return True


class Source:
    """Rows of one distribution: five Gaussians and noise, mixed by a matrix of its own."""

    def __init__(self, run, which=0):
        self.rng = np.random.default_rng([run, which])
        self.mix = self.rng.normal(size=(2 + design.NOISE_COLUMNS,) * 2)

    def draw(self, n, labels=False):
        X, y = self.hidden(n)
        return (X @ self.mix, y) if labels else X @ self.mix

    def hidden(self, n):
        """Rows before they are mixed, and their clusters."""
        X, y = toys.toy("five", n, self.rng)
        return np.c_[X, self.rng.normal(size=(n, design.NOISE_COLUMNS))], y

    def score(self, X):
        """-log p of each row under the very density that they are drawn from, in nats."""
        Z = np.linalg.solve(self.mix.T, X.T).T
        centres = np.array([[0, 0], [4, 4], [-4, 4], [4, -4], [-4, -4]])
        half = ((Z[:, None, :2] - centres) ** 2).sum(2) / 2 - np.log([4 / 8, *[1 / 8] * 4])
        return (Z[:, 2:] ** 2).sum(1) / 2 - np.logaddexp.reduce(-half, 1) + Z.shape[1] / 2 * np.log(2 * np.pi) + np.linalg.slogdet(self.mix)[1]


def learnt(X, settings, at, per_message=100):
    """The models after the given numbers of rows."""
    every = math.gcd(*at)
    with live.Live(brokers[0], [*design.DENSITY, *settings, f"snapshot.every_rows={every}"], command="learn") as s:
        s.put(X, per_message)
        return [s.model(n) for n in at]


@functools.lru_cache(maxsize=4)
def fixed_point(run):
    """Where EM comes to on a long stream, with nothing chosen by the data: its last models, over which the noise of the pool averages out."""
    return learnt(Source(run).draw(design.FIXED_ROWS[-1]), design.FIXED, design.FIXED_ROWS)


@functools.lru_cache(maxsize=1)
def settled(run):
    """Where EM comes to on a long stream of what follows the change, with the settings that the learner begins with."""
    return learnt(Source(run, 1).draw(design.FIXED_ROWS[-1]), design.BEGINNING, design.FIXED_ROWS[-1:])[0]


def precision(m):
    return m.parzen.T @ m.parzen + m.gaussian.T @ m.gaussian


def distance(a, b):
    """Root mean square of the log eigenvalues of one metric in units of the other."""
    e = np.linalg.eigvals(np.linalg.solve(precision(a), precision(b))).real
    return float(np.sqrt((np.log(e) ** 2).mean()))


def young(settings, run):
    """NLL after the given numbers of rows above that of the fixed point of the same stream, with the same centres; and, with each
    model's own pool, above that of the density the rows are drawn from."""
    source = Source(run)
    X, test, centres = source.draw(design.FIXED_ROWS[-1]), source.draw(TEST), source.draw(design.POOL)
    floor, truth = np.mean([m.score(test, centres).mean() for m in fixed_point(run)]), source.score(test).mean()
    models = learnt(X[:max(design.AT)], settings, design.AT)
    return {f"excess_{n}": float(m.score(test, centres).mean() - floor) for n, m in zip(design.AT, models)} | {
        f"truth_{n}": float(m.score(test).mean() - truth) for n, m in zip(design.AT, models)}


def drift(settings, run):
    """2000 rows after everything has changed: distance from the new fixed point, and NLL above the truth; alarms before and after."""
    before, after = Source(run), Source(run, 1)
    best = settled(run)
    after.draw(design.FIXED_ROWS[-1])
    start = 8000
    old, new = learnt(np.vstack([before.draw(start), after.draw(2000)]), settings, [start, start + 2000])
    test, alarms = after.draw(TEST), [int(m.info["lca.alarms"]) for m in (old, new)]
    return {"distance": distance(best, new), "excess": float((new.score(test) - after.score(test)).mean()), "alarms_before": alarms[0],
            "alarms_after": alarms[1] - alarms[0]}


def slow(settings, run):
    """After 45000 rows the mixing matrix turns by an eighth of a circle into another while 15000 come, a little with every row:
    NLL of rows as they are at the end, above that of a stream that was always so; and alarms."""
    source, other = Source(run), Source(run, 1)
    angle = np.r_[np.zeros(3 * LONG), np.linspace(0, np.pi / 4, LONG)]
    X = source.hidden(len(angle))[0]
    X = np.cos(angle)[:, None] * (X @ source.mix) + np.sin(angle)[:, None] * (X @ other.mix)
    source.mix = np.cos(angle[-1]) * source.mix + np.sin(angle[-1]) * other.mix
    still, test = learnt(source.draw(LONG), [], [LONG])[0], source.draw(TEST)
    moved = learnt(X, settings, [len(angle)])[0]
    return {"excess": float((moved.score(test) - still.score(test)).mean()), "alarms": int(moved.info["lca.alarms"])}


def bursts(settings, run):
    """A stream whose rows come sorted by cluster, 1500 at a time: NLL above that of the same rows well mixed."""
    source = Source(run)
    X, y = source.draw(LONG, labels=True)
    test = source.draw(TEST)
    order = np.concatenate([a + np.argsort(y[a:a + 7500], kind="stable") for a in range(0, LONG, 7500)])
    mixed, sorted_ = learnt(X, [], [LONG])[0], learnt(X[order], settings, [LONG])[0]
    return {"excess": float((sorted_.score(test) - mixed.score(test)).mean())}


def redelivery(settings, run):
    """A fifth of the messages comes again, as another record: mean log eigenvalue of C_L against the clean stream's."""
    source = Source(run)
    X = source.draw(LONG)
    clean = learnt(X, [], [LONG])[0]
    messages = [X[a:a + 10] for a in range(0, LONG, 10)]
    place = [(i, m) for i, m in enumerate(messages)]
    place += [(i + source.rng.integers(1, 200), messages[i]) for i in np.flatnonzero(source.rng.random(len(messages)) < .2)]
    again = np.vstack([m for _, m in sorted(place, key=lambda p: p[0])])
    rows = len(again) // 100 * 100
    dirty = learnt(again[:rows], settings, [rows], per_message=10)[0]
    e = np.linalg.eigvals(np.linalg.solve(clean.c_l, dirty.c_l)).real
    return {"bias": float(abs(np.log(e).mean()))}


def outliers(settings, run):
    """One row in a hundred is 1000 standard deviations away: NLL of clean rows above the clean stream's."""
    source = Source(run)
    X, test = source.draw(LONG), source.draw(TEST)
    clean = learnt(X, [], [LONG])[0]
    bad = source.rng.random(LONG) < .01
    dirty = X.copy()
    dirty[bad] += 1000 * X.std(0) * source.rng.normal(size=(bad.sum(), X.shape[1]))
    m = learnt(dirty, settings, [LONG])[0]
    return {"excess": float((m.score(test) - clean.score(test)).mean()), "gated": float(m.info["lca.gated_rows"])}


def scales(settings, run):
    """Columns of 0.01 … 100: NLL above that of the same rows in like units."""
    source = Source(run)
    X, test = source.draw(5000), source.draw(TEST)
    unit = np.logspace(-2, 2, X.shape[1])
    like, unlike = learnt(X, [], [5000])[0], learnt(X * unit, settings, [5000])[0]
    return {"excess": float((unlike.score(test * unit) - np.log(unit).sum() - like.score(test)).mean())}


def noise(settings, run):
    """White noise, in which there is nothing to find: NLL above the single Gaussian's, the number of Parzen directions, and the
    least and the largest e."""
    X = np.random.default_rng(run).normal(size=(LONG + TEST, 2 + design.NOISE_COLUMNS))
    m, test = learnt(X[:LONG], settings, [LONG])[0], X[LONG:]
    e = np.linalg.eigvals(np.linalg.solve(m.c_g, m.c_l)).real
    return {"excess": float((m.score(test) - gaussian(X[:LONG], test)).mean()), "parzen": len(m.parzen), "least_e": float(e.min()), "largest_e": float(e.max())}


def gaussian(X, test):
    """-log p of each test row under the single Gaussian of the rows X, in nats."""
    Z, C = test - X.mean(0), np.cov(X.T)
    return (Z * np.linalg.solve(C, Z.T).T).sum(1) / 2 + np.linalg.slogdet(2 * np.pi * C)[1] / 2


def near(settings, run):
    """Sensors that move slowly, AR(1) .99 in each of ten mixed columns: NLL above the truth of rows that are drawn from the law of
    the stream, the number of rows that were not learnt, and alarms."""
    d = 2 + design.NOISE_COLUMNS
    rng, still = np.random.default_rng(run), .99
    X, mix = rng.normal(size=(LONG, d)), rng.normal(size=(d, d))
    for before, row in zip(X, X[1:]):
        row[:] = still * before + (1 - still ** 2) ** .5 * row
    test = rng.normal(size=(TEST, d))
    m = learnt(X @ mix, settings, [LONG])[0]
    truth = (test ** 2).sum(1).mean() / 2 + d / 2 * np.log(2 * np.pi) + np.linalg.slogdet(mix)[1]
    return {"excess": float(m.score(test @ mix).mean() - truth), "gated": float(m.info["lca.gated_rows"]), "alarms": int(m.info["lca.alarms"])}


def tails(settings, run):
    """Ten mixed columns of Student's t with 2 degrees of freedom: NLL above the truth, and the number of Parzen directions."""
    d = 2 + design.NOISE_COLUMNS
    rng = np.random.default_rng(run)
    X, mix = rng.standard_t(2, size=(LONG + TEST, d)), rng.normal(size=(d, d))
    m, test = learnt(X[:LONG] @ mix, settings, [LONG])[0], X[LONG:]
    truth = 1.5 * np.log(2 + test ** 2).sum(1).mean() + np.linalg.slogdet(mix)[1]  # p(x) = (2 + x²)^(-3/2)
    return {"excess": float(m.score(test @ mix).mean() - truth), "parzen": len(m.parzen)}


def again(setting, run):
    """A range learnt three times over: mean log eigenvalue of C_L against one that is learnt once. With the same identities, or
    as three copies that have each their own."""
    X = Source(run).draw(5000)
    flags = ["--algorithm", "stochastic"]
    once = live.replay(X, design.DENSITY, flags)
    thrice = live.replay(X, design.DENSITY, [*flags, "--passes", "3"]) if setting == design.AGAIN[0] else live.replay(np.tile(X, (3, 1)), design.DENSITY, flags)
    e = np.linalg.eigvals(np.linalg.solve(once.c_l, thrice.c_l)).real
    return {"bias": float(np.log(e).mean())}


def skip(every, run):
    """A range of which one minibatch in 3 or in 10 is learnt: NLL above that of the whole range."""
    source = Source(run)
    X, test, centres = source.draw(LONG), source.draw(TEST), source.draw(design.POOL)
    models = [live.replay(X, design.DENSITY, ["--algorithm", "stochastic", *more]) for more in ([], ["--every", str(every)])]
    nll = [m.score(test, centres).mean() for m in models]
    return {"excess": float(nll[1] - nll[0])}


def measured(stream, setting, run):
    if stream == "skip":
        return skip(int(setting.split()[-1]), run)
    if stream == "again":
        return again(setting, run)
    work = {"stream": young, "drift": drift, "slow": slow, "bursts": bursts, "redelivery": redelivery, "outliers": outliers, "scales": scales,
            "noise": noise, "near": near, "tails": tails}
    return work[stream](design.CHANGES[setting], run)


EXPERIMENTS = {"streams": (design.streams, measured)}
