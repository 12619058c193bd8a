"""Section 6.1: clustering accuracy against noise dimensions, and against EM iterations."""
import design
import program
import rivals
import spectral
import toys


def represent(Z, name, method):
    """The coordinates that spectral clustering sees, and the model where one was fitted."""
    if method == "whitening":
        return Z, None
    if method.startswith("fastica"):
        return rivals.fastica(Z, design.RELEVANT[name], method.split()[1]), None
    if method == "ngca":
        return rivals.ngca(Z, design.RELEVANT[name]), None
    algorithm, _, nu = method.partition(" nu=")
    # The search converges five times. (1e-6 takes longer, and at ν = 0 sharpens some fits past the clusters.)
    flags = ["--tolerance", "1e-4"] if algorithm == "lca-gauss-search" else []
    model = program.fit(Z, algorithm, nu=float(nu or 0), flags=flags)
    return model.transform(Z), model


def score(set, noise, method, run):
    Z, y = toys.problem(set, design.ROWS, noise, run)
    Y, model = represent(Z, set, method)
    # A model that is all Gaussian has no coordinates, and puts every row in one cluster.
    value = {"accuracy": spectral.accuracy(y, spectral.spectral(Y, design.CLUSTERS[set]) if Y.shape[1] else y * 0)}
    if model is not None:
        value["parzen"] = len(model.parzen)
        value["seconds"] = model.info["seconds"]
    return value


def score_iterations(set, noise, iterations, run):
    Z, y = toys.problem(set, design.ROWS, noise, run)
    Y = program.fit(Z, "lca", passes=iterations).transform(Z)
    return {"accuracy": spectral.accuracy(y, spectral.spectral(Y, design.CLUSTERS[set]))}


EXPERIMENTS = {"clustering": (design.clustering, score, None), "iterations": (design.iterations, score_iterations, None)}
