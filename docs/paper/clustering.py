"""Section 6.1: clustering accuracy against noise dimensions, and against EM iterations."""
import program
import rivals
import runs
import toys

ROWS = 500
NOISE = [5, 10, 20, 40]
CONTRASTS = ["logcosh", "exp", "cube"]
METHODS = ["whitening", "fastica " + CONTRASTS[0], "fastica " + CONTRASTS[1], "fastica " + CONTRASTS[2],
           "ngca", "lca", "lca-gauss", "lca-gauss-red", "lca-gauss-search"]
ITERATIONS = [1, 2, 5, 10, 20, 50, 0]  # 1 = Manifold Parzen Windows, 0 = to convergence


def represent(Z, name, method):
    """The coordinates that spectral clustering sees, and the model where one was fitted."""
    if method == "whitening":
        return Z, None
    if method.startswith("fastica"):
        return rivals.fastica(Z, toys.RELEVANT[name], method.split()[1]), None
    if method == "ngca":
        return rivals.ngca(Z, toys.RELEVANT[name]), None
    model = program.fit(Z, method)
    return model.transform(Z), model


def score(set, noise, method, run):
    Z, y = toys.problem(set, ROWS, noise, run)
    Y, model = represent(Z, set, method)
    value = {"accuracy": toys.accuracy(y, toys.spectral(Y, toys.CLUSTERS[set]) if Y.shape[1] else y * 0)}
    if model is not None:
        value["parzen"] = len(model.parzen)
        value["seconds"] = model.info["seconds"]
    return value


def score_iterations(set, noise, iterations, run):
    Z, y = toys.problem(set, ROWS, noise, run)
    Y = program.fit(Z, "lca", passes=iterations).transform(Z)
    return {"accuracy": toys.accuracy(y, toys.spectral(Y, toys.CLUSTERS[set]))}


def keys(count):
    """Every run of the table, the noise outermost, so that a table that was broken off has whole columns."""
    return [dict(set=s, noise=q, method=m, run=r) for q in NOISE for r in range(count) for s in toys.CLUSTERS for m in METHODS]


def iteration_keys(count):
    return [dict(set=s, noise=q, iterations=i, run=r)
            for q in NOISE for r in range(count) for s in toys.CLUSTERS for i in ITERATIONS]


EXPERIMENTS = {"clustering": (keys, score, None), "iterations": (iteration_keys, score_iterations, None)}
