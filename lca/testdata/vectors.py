"""Makes vectors.json: what lca.Fit must find, from the paper's formulas written out pair by pair.

    python3 vectors.py > vectors.json      # numpy only

Nothing here is fast or clever on purpose: explicit sums over pairs, matrix functions by
eigendecomposition, the best number of Parzen columns by trying all. Everything is float64.
"""
import json
import math
import numpy as np


def power(m, p):
    w, v = np.linalg.eigh((m + m.T) / 2)
    return (v * w**p) @ v.T


def gaussian_nll(x, mu, precision):
    """-log of exp(-(x-mu)' P (x-mu) / 2), without its constant."""
    return 0.5 * np.einsum("ni,ij,nj->n", x - mu, precision, x - mu)


def parzen_log(x, centres, precision, leave_out, p, dof):
    """Per row log (1/m) sum_j k(delta_ij), delta_ij = (x-x_j)' P (x-x_j) over p dimensions, and the weight of each pair.

    dof 0: k = exp(-delta/2), and the weight is lambda. Otherwise k is the t kernel times (2 pi)^(p/2), and the weight is
    lambda times the expected precision of the t as a mixture of Gaussians."""
    logs, weights = [], []
    for i, xi in enumerate(x):
        delta = np.array([(xi - c) @ precision @ (xi - c) for c in centres])
        if dof:
            a = (math.lgamma((dof + p) / 2) - math.lgamma(dof / 2) - p / 2 * math.log(dof * math.pi) + p / 2 * math.log(2 * math.pi)
                 - (dof + p) / 2 * np.log1p(delta / dof))
        else:
            a = -0.5 * delta
        if leave_out:
            a[i] = -np.inf
        top = a.max()
        e = np.exp(a - top)
        logs.append(top + np.log(e.sum()) - np.log(np.isfinite(a).sum()))
        weights.append(e / e.sum() * ((dof + p) / (dof + delta) if dof else 1))
    return np.array(logs), np.array(weights)


def nll(x, centres, mu, pg, pl, leave_out, p, dof):
    d = x.shape[1]
    logdet = np.linalg.slogdet(pg + pl)[1]
    return np.mean(gaussian_nll(x, mu, pg) + d / 2 * np.log(2 * np.pi) - logdet / 2
                   - parzen_log(x, centres, pl, leave_out, p, dof)[0])


def local_covariance(x, lam):
    n, d = x.shape
    c = np.zeros((d, d))
    for i in range(n):
        for j in range(n):
            c += lam[i, j] * np.outer(x[i] - x[j], x[i] - x[j])
    return c / n


def family(metric, rank, c):
    """The Sigma of the family that minimises tr(inv(Sigma) C) + log det Sigma."""
    d = len(c)
    if metric == "full":
        return c
    if metric == "diagonal":
        return np.diag(np.diag(c))
    if metric == "isotropic":
        return np.eye(d) * np.trace(c) / d
    w, v = np.linalg.eigh(c)
    w[: d - rank] = w[: d - rank].mean()
    return (v * w) @ v.T


def split(metric, rank, cg, cl):
    """Proposition 1, the Parzen part within the family. Returns P_G, P_L, e, Parzen first, and d_P."""
    if metric == "diagonal":
        cg, cl = np.diag(np.diag(cg)), np.diag(np.diag(cl))
    ig = power(cg, -0.5)
    e, u = np.linalg.eigh(ig @ cl @ ig)
    d, best = len(e), None
    for m in range(d + 1):
        s = e[:m].copy()
        k = {"isotropic": 0, "low_rank": rank}.get(metric, d)
        if m > k:
            s[: m - k] = s[: m - k].mean()
        cost = np.log(s).sum()
        if best is None or cost < best[0]:
            best = cost, m, s
    _, m, s = best
    bl, bg = ig @ u[:, :m] / np.sqrt(s), ig @ u[:, m:]
    return bg @ bg.T, bl @ bl.T, np.r_[s, e[m:]], m


def em(x, kind, metric, rank, nu, nu_g, iters, covariance=False, dof=0):
    n, d = x.shape
    mu, p = x.mean(0), d
    cg = (x - mu).T @ (x - mu) / n
    add_l, add_g = nu * np.eye(d), nu_g * np.eye(d)
    if covariance:  # with the ridge that stands for rounding
        ridge = 1e-12 * np.diag(np.diag(cg))
        add_l, add_g = nu * cg + ridge, nu_g * cg + ridge
    cg = cg + add_g
    pg = np.zeros((d, d))
    start = cg
    if kind == "lca":
        start = family(metric, rank, cg)
    elif metric == "diagonal":
        start = np.diag(np.diag(cg))
    pl, cl, e, trace = np.linalg.inv(start), start, None, []
    for it in range(iters + 1):
        value = nll(x, x, mu, pg, pl, True, p, dof)
        trace.append(value + (np.trace(add_l @ pl) + np.trace(add_g @ pg)) / 2)
        if it == iters:
            break
        lam = parzen_log(x, x, pl, True, p, dof)[1]
        cl = local_covariance(x, lam) + add_l
        if kind == "lca":
            cl = family(metric, rank, cl)
            pl = np.linalg.inv(cl)
            ig = power(cg, -0.5)
            e = np.linalg.eigvalsh(ig @ cl @ ig)
        else:
            pg, pl, e, p = split(metric, rank, cg, cl)
    return dict(mean=mu, c_g=cg, c_l=cl, p_g=pg, p_l=pl, ratio=e, trace=trace, nll=value, p=p)


def data(name, rng):
    if name == "two":  # two Gaussians along the first of four columns, mixed and moved
        x = rng.normal(size=(36, 4))
        x[:, 0] += 3 * np.where(np.arange(36) % 2, 1, -1)
        return x @ rng.normal(size=(4, 4)) + 5, x[:9] @ rng.normal(size=(4, 4)) + 5
    if name == "line":
        return rng.gamma(2, size=(25, 1)), rng.gamma(2, size=(7, 1))
    if name == "pair":
        return np.array([[1.0], [4.0]]), np.array([[2.0], [40.0]])
    if name == "scales":
        x = rng.normal(size=(30, 3)) * [1e-3, 1, 1e3]
        x[:, 0] += 4e-3 * (np.arange(30) % 2)
        return x + [0, 10, -1e4], x[:5] * 1.1 + [0, 10, -1e4]


def main():
    cases, sets = [], {}
    for name in ["two", "line", "pair", "scales"]:
        x, fresh = data(name, np.random.default_rng(20110901))
        sets[name] = dict(x=x, fresh=fresh)
        for kind in ["lca", "lca_gauss"]:
            for metric in ["full", "diagonal", "isotropic", "low_rank"]:
                if metric == "low_rank" and x.shape[1] < 3 or metric != "full" and name in ("line", "pair"):
                    continue
                if name == "pair" and kind == "lca_gauss":
                    continue
                for nu, nu_g in [(0, 0), (0.05, 0.01)]:
                    for iters in [1, 12]:
                        if name == "scales" and (metric != "full" or iters == 1):
                            continue
                        rank = 1 if metric == "low_rank" else 0
                        # relative nu: the columns divided by their standard deviation
                        s = x.std(0) if name == "scales" else np.ones(x.shape[1])
                        r = em(x / s, kind, metric, rank, nu, nu_g, iters)
                        test = nll(fresh / s, x / s, r["mean"], r["p_g"], r["p_l"], False, r["p"], 0)
                        r["trace"] = np.array(r["trace"]) + np.log(s).sum()
                        r["nll"] += np.log(s).sum()
                        r["test_nll"] = test + np.log(s).sum()
                        r["mean"] *= s
                        for k in ["c_g", "c_l"]:
                            r[k] = r[k] * np.outer(s, s)
                        for k in ["p_g", "p_l"]:
                            r[k] = r[k] / np.outer(s, s)
                        cases.append(dict(name=f"{name}/{kind}/{metric}/nu={nu}/iters={iters}", data=name, kind=kind, metric=metric,
                                          rank=rank, nu=nu, nu_gaussian=nu_g, relative=name == "scales", iters=iters, want=r))
    # t kernels, and nu in multiples of C_G
    for name, dof, covariance in [("two", 0, True), ("two", 4, True), ("two", 4, False), ("two", 1, False), ("line", 4, False), ("line", 30, True)]:
        x, fresh = sets[name]["x"], sets[name]["fresh"]
        for kind in ["lca", "lca_gauss"]:
            for metric in ["full", "low_rank"] if name == "two" and not covariance else ["full"]:
                for iters in [1, 12]:
                    rank = 1 if metric == "low_rank" else 0
                    r = em(x, kind, metric, rank, 0.05, 0.01, iters, covariance, dof)
                    r["test_nll"] = nll(fresh, x, r["mean"], r["p_g"], r["p_l"], False, r["p"], dof)
                    cases.append(dict(name=f"{name}/{kind}/{metric}/dof={dof}/covariance={covariance}/iters={iters}", data=name, kind=kind,
                                      metric=metric, rank=rank, nu=0.05, nu_gaussian=0.01, relative=False, covariance=covariance, dof=dof,
                                      iters=iters, want=r))
    print(json.dumps(dict(sets=sets, cases=cases), default=lambda a: a.tolist(), separators=(",", ":")))


main()
