"""Writes docs/paper-results.md from the summaries in docs/paper/results, with Python alone:

    python3 docs/paper/page.py            # writes it
    python3 docs/paper/page.py --check    # fails where it is not what the summaries give
"""
import difflib
import math
import os
import sys

import design
import expected
import prose
import runs
import uses

NAMES = {"whitening": "whitening", "fastica": "FastICA", "ngca": "NGCA", "lca": "LCA", "lca-gauss": "LCA-Gauss",
         "lca-gauss-red": "LCA-Gauss-Red", "lca-gauss-search": "search (ours)"}
MODELS = {"isotropic": "LCA, isotropic", "diagonal": "LCA, diagonal", "full": "LCA, full", "gaussian": "Gaussian",
          "gauss": "LCA-Gauss", "gauss-red": "LCA-Gauss-Red"}


def show(v, digits=1):
    """12.3 ± 0.4 (13), the number of runs in brackets."""
    if v is None:
        return "–"
    error = "" if v["se"] is None else f" ± {v['se']:.{digits}f}"
    return f"{v['mean']:.{digits}f}{error} ({v['runs']})"


def brief(v, digits=1):
    """12.3 ± 0.4, where the page says how many runs there were; an error that rounds to 0 is left out."""
    if v is None:
        return "–"
    error = "" if not v["se"] or round(v["se"], digits) == 0 else f" ± {v['se']:.{digits}f}"
    return f"{v['mean']:.{digits}f}{error}"


def given(v, digits=2):
    """A figure of the paper, or of the numpy implementation."""
    if v is None:
        return "–"
    return f"{v[0]:.{digits}f}" + ("" if v[1] is None else f" ± {v[1]:.{digits}f}")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def best_contrast(rows):
    """FastICA by the contrast with the highest mean for that set and noise, as the paper has it."""
    kept, best = [], {}
    for r in rows:
        if not r["method"].startswith("fastica"):
            kept.append(r)
            continue
        at = (r["set"], r["noise"])
        if at not in best or best[at]["accuracy"]["mean"] < r["accuracy"]["mean"]:
            best[at] = dict(r, method="fastica")
    return kept + list(best.values())


def clustering_rows(rows):
    """The rows that are shown, and the methods without a penalty among them in the order of NAMES."""
    rows = best_contrast(rows)
    return rows, [m for m in NAMES if any(r["method"] == m for r in rows)]


def clustering_part(rows):
    rows, methods = clustering_rows(rows)
    found = {(r["set"], r["noise"], r["method"]): r["accuracy"] for r in rows}
    penalty = f" nu={design.NU_CLUSTERING[1]}"

    def accuracies(methods):
        body = []
        for name in design.TITLES:
            for q in NOISE:
                cells = [found.get((name, q, m)) for m in methods]
                if any(cells):
                    body.append([design.TITLES[name], str(q)] + [brief(c) for c in cells])
        return table(["set", "noise"] + [NAMES[m] for m in methods], body)

    targets = []
    for (s, q, m), t in expected.CLUSTERING.items():
        cells = [found.get((s, q, m + suffix)) for suffix in ("", penalty)]
        if any(cells):
            targets.append([design.TITLES[s], str(q), NAMES[m], given(t, 1)] +
                           [text for c in cells for text in (brief(c), c and expected.verdict(c, t, True) or "–")])
    return prose.CLUSTERING.format(
        runs=max(r["accuracy"]["runs"] for r in rows), table=accuracies([m for m in methods if m in NAMES]),
        targets=table(["set", "noise", "method", "numpy", "ours, ν = 0", "", "ours, ν = 0.01", ""], targets))


def iterations_part(rows):
    found = {(r["set"], r["noise"], r["iterations"]): r["accuracy"] for r in rows}
    steps = [i for i in ITERATIONS if any(r["iterations"] == i for r in rows)]
    body = [[design.TITLES[s], str(q)] + [brief(found.get((s, q, i))) for i in steps]
            for s in design.TITLES for q in NOISE if (s, q, 1) in found]
    lines = []
    for (s, q), t in expected.MPW.items():
        one, end = found.get((s, q, 1)), found.get((s, q, 0))
        if one and end:
            lines.append(f"{design.TITLES[s][0].upper()}{design.TITLES[s][1:]} and {q} dimensions of noise: one iteration {brief(one)} "
                         f"(numpy: {given(t, 1)}), converged {brief(end)}, {end['mean'] - one['mean']:.0f} points above.")
    return prose.ITERATIONS.format(
        table=table(["set", "noise"] + ["MPW (1)" if i == 1 else "converged" if i == 0 else str(i) for i in steps], body),
        mpw="\n".join(lines))


def tobe_part(rows):
    texts = list(dict.fromkeys(r["text"] for r in rows))
    width = {(r["text"], r["method"]): r["width"] for r in rows}
    body = [[t, f"{width[t, 'PCA']['mean']:.2f}", f"{width[t, 'LCA']['mean']:.2f}"] for t in texts]
    return prose.TOBE.format(table=table(["text", "PCA", "LCA"], body))


def usps_part(rows):
    found = {r["model"]: r for r in rows}
    body = []
    for m, name in MODELS.items():
        r = found.get(m)
        if r is None:
            body.append([name, given(expected.USPS_PAPER[m]), given(expected.USPS.get(m)), "not run", "–", "–"])
            continue
        target = expected.USPS.get(m, expected.USPS_PAPER[m])
        body.append([name, given(expected.USPS_PAPER[m]), given(expected.USPS.get(m)), brief(r["nll"], 2),
                     expected.verdict(r["nll"], target, False), f"{r['parzen']['mean']:.0f}"])
    return prose.USPS.format(table=table(["model", "paper", "numpy", "ours", "", "d_P"], body), runs=max(r["nll"]["runs"] for r in rows))


def subsampling_part(rows):
    body = []
    found = {(r["gamma"], r["batch"], r["neighbours"]): r for r in rows}
    for cell in sorted(design.CELLS):
        r = found.get(cell)
        if r is None or cell == design.WHOLE or r["batch"] not in MINIBATCHES:
            continue
        body.append([f"{r['gamma']}", str(r["batch"]), str(r["neighbours"]),
                     given(expected.SUBSAMPLING_TRAIN.get(cell)), brief(r.get("train_difference"), 2),
                     given(expected.SUBSAMPLING_TEST.get(cell)), brief(r.get("test_difference"), 2)])
    base = found.get(design.WHOLE)
    counts = [r["train_difference"]["runs"] for r in rows if r.get("train_difference")]
    return prose.SUBSAMPLING.format(
        passes=design.PASSES[1000], fewest=min(counts), most=max(counts),
        table=table(["γ", "B", "N", "train: paper", "ours", "test: paper", "ours"], body),
        base=f"train {show(base['train'], 2)}, test {show(base['test'], 2)}" if base else "not run")


def speed_part(rows):
    found = {(r["rows"], r["type"], r["by"]): r for r in rows}
    body = []
    for (data, type, by), r in found.items():
        other = found.get((data, type, "numpy"))
        if by == "ours" and other:
            n, o = other["seconds"], r["seconds"]
            body.append([data, type, f"{r['steps']['mean']:.0f}, {other['steps']['mean']:.0f}", show(n, 2), show(o, 2),
                         f"{n['mean'] / o['mean']:.1f}", f"{abs(r['nll']['mean'] - other['nll']['mean']):.0e}"])
    return prose.SPEED.format(table=table(["rows", "E-step", "steps: ours, numpy's", "numpy, s", "ours, s", "numpy / ours", "NLL differs by"], body))


def width_part(rows):
    found = {(r["metric"], r["columns"]): r for r in rows}
    wide = sorted({r["columns"] for r in rows})
    body = []
    for metric in dict.fromkeys(r["metric"] for r in rows):
        for figure, title in (("fit", "whole fit"), ("step", "a step")):
            v = [found[metric, d][figure]["mean"] for d in wide]
            slope = math.log(v[-1] / v[0]) / math.log(wide[-1] / wide[0])
            body.append([metric, title] + [f"{x:.2f}" for x in v] + [f"{found['full', wide[-1]][figure]['mean'] / v[-1]:.1f}", f"{slope:.1f}"])
    return prose.WIDTH.format(table=table(["metric", "seconds of"] + [f"d = {d}" for d in wide] + [f"full / it at {wide[-1]}", "slope"], body))


def embeddings_part(rows):
    body = [[str(r["apart"])] + [f"{100 * r[m]['mean']:.0f} %" for m in ("raw", "whitening", "all", "parzen")] + [f"{r['directions']['mean']:.0f}"] for r in rows]
    return prose.EMBEDDINGS.format(table=table(["classes apart", "raw", "whitened by the covariance", "LCA, all", "LCA, Parzen", "d_P"], body))


def arithmetic_part(rows):
    body = []
    for algorithm in ("lca", "lca-gauss"):
        for metric in design.METRICS:
            for data in ("five", "USPS"):
                group = [r for r in rows if (r["algorithm"], r["metric"], r["set"]) == (algorithm, metric, data)]
                if group:
                    worst = {f: max(r[f]["mean"] for r in group) if f in group[0] else None for f in expected.ARITHMETIC}
                    body.append([design.TITLES.get(data, data), NAMES[algorithm], metric] + ["–" if v is None else f"{v:.0e}" for f, v in worst.items() if f != "nll"] +
                                ["reached" if all(v is None or v <= expected.ARITHMETIC[f] for f, v in worst.items()) else "missed"])
    return prose.ARITHMETIC.format(steps=design.STEPS, table=table(
        ["rows", "model", "metric", "largest rise, float64", "float32", "matrices differ by", ""], body))


# Of what was run, what the page shows: the pictures have all noise and iterations, the summaries all minibatches.
NOISE, ITERATIONS, MINIBATCHES = [5, 10, 20], [1, 5, 0], [1000, 6000]
PAGE = os.path.join(runs.HERE, "..", "paper-results.md")


def render():
    parts = [prose.HEAD]
    for name, write in [("tobe", tobe_part), ("clustering", clustering_part), ("iterations", iterations_part),
                        ("usps", usps_part), ("subsampling", subsampling_part), ("arithmetic", arithmetic_part), ("speed", speed_part), ("width", width_part),
                        ("embeddings", embeddings_part)]:
        rows = runs.load(name)
        if rows:
            parts.append(write(rows))
    for name, write in [("reduction", uses.reduction), ("manifold", uses.manifold), ("labels", uses.labels), ("meanshift", uses.meanshift), ("local", uses.local)]:
        rows = runs.load(name)
        if rows:
            parts.append(write(rows, table))
    parts.append(prose.TAIL.format(passes=design.PASSES[1000]))
    return "\n".join(p.strip("\n") + "\n" for p in parts)


def main():
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(render())


def check():
    with open(PAGE, encoding="utf-8") as f:
        differences = list(difflib.unified_diff(f.read().splitlines(), render().splitlines(), "docs/paper-results.md", "what the summaries give", lineterm=""))
    if differences:
        sys.exit("\n".join(differences) + "\nrun: python3 docs/paper/page.py")


if __name__ == "__main__":
    check() if sys.argv[1:] == ["--check"] else main()
