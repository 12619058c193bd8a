"""Does EM never raise its objective, and how far is float32 from float64? Both seen from outside, step by step."""
import numpy as np

import design
import program
import toys
import usps


def objective(m, nu, nu_gaussian):
    """The penalised leave-one-out NLL that EM lowers (section 6.2): NLL + nu/2 tr P_L + nu_g/2 tr P_G."""
    return m.info["nll"] + nu / 2 * (m.parzen ** 2).sum() + nu_gaussian / 2 * (m.gaussian ** 2).sum()


def steps(X, algorithm, metric, nu, type):
    """The model after each step."""
    models = []
    for passes in range(1, design.STEPS + 1):
        m = program.fit(X, algorithm, passes, metric, nu, nu / 2, ["--precision", type, "--tolerance", "0"])
        models.append(m)
    return models


def apart(a, b):
    """max |A - B|_ij / sqrt(B_ii B_jj)."""
    scale = np.sqrt(np.diag(b))
    return float((np.abs(a - b) / np.outer(scale, scale)).max())


def differences(single, double):
    metric = [m.parzen.T @ m.parzen + m.gaussian.T @ m.gaussian for m in (single, double)]
    return {"matrices": max(apart(single.c_l, double.c_l), apart(*metric)), "nll": abs(single.info["nll"] - double.info["nll"])}


def measure(set, algorithm, metric, nu, run):
    if set == "USPS":
        X = usps.data["x"][usps.data["splits"][run][design.TRAIN]]
        fits = [program.fit(X, algorithm, 10, metric, nu, nu / 2, ["--precision", type]) for type in ("float32", "float64")]
        return differences(*fits)
    Z, _ = toys.problem(set, 300, 20, run)
    models = {type: steps(Z, algorithm, metric, nu, type) for type in ("float32", "float64")}
    rise = {type: float(np.diff([objective(m, nu, nu / 2) for m in of]).max()) for type, of in models.items()}
    last = list(zip(models["float32"], models["float64"]))[-1]  # after as many steps
    return {"rise32": rise["float32"], "rise64": rise["float64"], "steps": len(models["float64"])} | differences(*last)


EXPERIMENTS = {"arithmetic": (design.arithmetic, measure, None)}
