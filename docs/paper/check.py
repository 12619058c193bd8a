"""A minute's worth of `make paper`, in a second, and without scikit-learn: the page is what the summaries give, and our
program, called as the experiments call it, fits models that numpy finds true.

    LCA_STREAM=bin/lca-stream python docs/paper/check.py      # numpy and pyarrow
"""
import bz2

import numpy as np

import page
import program
import toys
import usps

ROWS, NOISE = 300, 6
# (algorithm, metric, nu, nu_gaussian)
FITS = [("gaussian", "full", 0, .01), ("lca", "full", .01, .01), ("lca", "diagonal", 0, 0), ("lca", "isotropic", 0, 0),
        ("lca", "low_rank", .01, 0), ("lca-gauss", "full", .02, .01), ("lca-gauss-red", "full", 0, 0)]


def close(what, got, want, tolerance=1e-8):
    error = np.abs(np.asarray(got) - want).max() / max(1, np.abs(want).max())
    assert error <= tolerance, f"{what}: {got}, numpy has {want}"


def root(C):
    w, V = np.linalg.eigh(C)
    return (V / np.sqrt(w)) @ V.T


def judge(Z, algorithm, metric, nu, nu_gaussian):
    """The model file against numpy: moments, Proposition 1, and the leave-one-out NLL that the program prints."""
    what, n, d = f"{algorithm}, {metric}", *Z.shape
    m = program.fit(Z, algorithm, metric=metric, nu=nu, nu_gaussian=nu_gaussian)
    close(what + ": mean", m.mean, Z.mean(0))
    close(what + ": C_G", m.c_g, np.cov(Z.T, bias=True) + nu_gaussian * np.eye(d))
    ig = root(m.c_g)
    e = np.linalg.eigvalsh(ig @ m.c_l @ ig)
    close(what + ": e", np.sort(m.ratio), e)
    if algorithm == "lca":
        close(what + ": B_L B_L'", m.parzen.T @ m.parzen, np.linalg.inv(m.c_l))
    elif algorithm != "gaussian":
        assert (m.ratio[:len(m.parzen)] < 1).all() and (m.ratio[len(m.parzen):] >= 1).all(), m.ratio
    spread = {"diagonal": m.c_l - np.diag(np.diag(m.c_l)), "isotropic": m.c_l - m.c_l[0, 0] * np.eye(d)}
    if metric in spread:
        close(what + ": outside the metric's family", spread[metric], np.zeros((d, d)))
    if metric == "low_rank":
        w = np.linalg.eigvalsh(m.c_l)
        close(what + ": smallest eigenvalues", w[:-2], np.full(d - 2, w[:-2].mean()))
    close(what + ": NLL", m.nll(Z, Z, leave_one_out=True), m.info["nll"])
    return m


def agree(Y, y):
    """The share of rows whose nearest other row has the same label."""
    D = ((Y[:, None] - Y[None]) ** 2).sum(2)
    np.fill_diagonal(D, np.inf)
    return (y[D.argmin(1)] == y).mean()


def parses():
    """The digits as LIBSVM's collection has them: labels from 1, columns from 1, zeros left out."""
    x = usps.parse(bz2.compress(b"7 1:-1 8:-0.631 256:1 \n10 2:0.5\n"), 2)
    assert x.shape == (2, 256) and x[0, 0] == -1 and x[0, 7] == -.631 and x[0, 255] == 1 and x[1, 1] == .5, x
    assert np.count_nonzero(x) == 4, x


def main():
    page.check()
    parses()
    for name in ("two", "five"):
        Z, y = toys.problem(name, ROWS, NOISE, 0)
        models = {(a, metric): judge(Z, a, metric, nu, g) for a, metric, nu, g in FITS}
        red = models["lca-gauss-red", "full"]
        assert len(red.parzen) <= 3, f"{name}: LCA-Gauss-Red keeps {len(red.parzen)} of {NOISE + 2} dimensions"
        found = agree(red.transform(Z), y)
        assert found > .95 and found > agree(Z, y), f"{name}: {found:.0%} of the nearest neighbours are of the same cluster"
        mpw = program.fit(Z, "lca", passes=1)
        assert mpw.info["passes"] == 1 and mpw.info["nll"] > program.fit(Z, "lca").info["nll"], mpw.info
        print(f"{name}: {len(models)} models are what numpy has; nearest neighbours of the same cluster: "
              f"{agree(Z, y):.0%} whitened, {found:.0%} by LCA-Gauss-Red")


if __name__ == "__main__":
    main()
