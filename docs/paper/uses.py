"""The sections of docs/paper-results.md on what the paper says its metric is good for."""
import statistics

import design
import prose
import runs

REDUCTIONS = {"columns": "all columns", "pca": "PCA", "lca": "LCA-Gauss-Red", "lda": "LDA, labels", "nca": "NCA, labels"}
MANIFOLD = {"columns": "standardised", "metric": "`metric`", "density": "`density`"}
MANIFOLD_NOISE = {"roll": [0, 20], "digits": [0, 60]}  # what the page shows
PARTS = {"toys": False, "real": True}
LOCAL = {"global": "LCA", "local": "`lca-local`", "local 1": "`--smoothing 1`", "regions 2": "2 regions", "regions 8": "8 regions"}
COORDINATES = {"raw": "raw", "columns": "standardised", "lca": "LCA", "lca-gauss-red": "LCA-Gauss-Red"}


def mean(rows, figure):
    return statistics.fmean(r[figure]["mean"] for r in rows)


def beyond(a, b):
    """The sets on which a is lower than b, and higher, each by more than two standard errors of the difference."""
    apart = [(x["mean"] - y["mean"], 2 * ((x["se"] or 0) ** 2 + (y["se"] or 0) ** 2) ** .5) for x, y in zip(a, b)]
    return sum(d < -error for d, error in apart), sum(d > error for d, error in apart)


def reduction(rows, table):
    found, sets = {(r["set"], r["directions"]): r for r in rows}, list(dict.fromkeys(r["set"] for r in rows))
    body, counts = [], []
    for part, real in PARTS.items():
        of = [s for s in sets if real == ("noise" not in s)]
        for m, title in REDUCTIONS.items():
            at = [[found[s, k] for s in of] for k in design.DIRECTIONS]
            cells = [f"{mean(a, m + ' wrong'):.0f}/{mean(a, m + ' ari'):.2f}" for a in at]
            body.append([f"{part}: {title}"] + (cells if m != "columns" else ["–"] * (len(cells) - 1) + cells[-1:]))
    for m in ("pca", "lda", "nca"):
        for figure, sign in (("wrong", 1), ("ari", -1)):
            pairs = [(found[s, 0]["lca " + figure], found[s, 0][m + " " + figure]) for s in sets if "noise" not in s]
            better, worse = beyond(*zip(*pairs))[::sign]
            counts.append(f"{better} and {worse}")
    return prose.REDUCTION.format(
        table=table(["sets: by"] + [f"k = {k}" if k else "k = d_P" for k in design.DIRECTIONS], body),
        toy_runs=found[sets[0], 0]["parzen"]["runs"], runs=found[sets[-1], 0]["parzen"]["runs"],
        pca=counts[0], lda=counts[2], nca=counts[4], pca_ari=counts[1], lda_ari=counts[3], nca_ari=counts[5])


def manifold(rows, table):
    found = {(r["set"], r["noise"], r["coordinates"], r["method"]): r for r in rows}

    def cell(r):
        return "–" if r is None else "/".join(f"{r[f]['mean']:.2f}" for f in ("trust", "ari") if f in r)

    body = []
    for s, noises in MANIFOLD_NOISE.items():
        for q in noises:
            for c, title in MANIFOLD.items():
                of = [found.get((s, q, c, m)) for m in design.EMBEDDINGS]
                body.append([s, str(q), title + (f": {of[0]['parzen']['mean']:.0f}" if "parzen" in of[0] else "")] + [cell(r) for r in of])

    def change(preset):
        before, after = (found["digits", 120, c, "spectral"]["ari"]["mean"] for c in ("columns", preset))
        return f"{before:.2f} to {after:.2f}"

    return prose.MANIFOLD.format(
        runs=min(r[f]["runs"] for r in rows for f in ("trust", "ari") if f in r), more=change("metric"), less=change("density"),
        table=table(["rows", "noise", "coordinates: d_P", "Isomap", "LLE", "UMAP", "spectral"], body))


def labels(rows, table):
    by = {c: [r for r in rows if r["coordinates"] == c] for c in design.COORDINATES}
    figures = [f"{n} labels" for n in design.LABELS]
    body = [[COORDINATES[c]] + [f"{mean(of, f):.1f}" for f in figures] for c, of in by.items()]
    counts = {}
    for c in ("lca", "lca-gauss-red"):
        lower, higher = zip(*[beyond([r[f] for r in by[c]], [r[f] for r in by["columns"]]) for f in figures])
        counts |= {c + " lower": sum(lower), c + " higher": sum(higher)}
    return prose.LABELS.format(
        table=table(["coordinates"] + [f"{n} of a class" for n in design.LABELS], body), runs=rows[0][figures[0]]["runs"], cells=len(figures) * len(by["lca"]),
        lower=counts["lca lower"], higher=counts["lca higher"], red_lower=counts["lca-gauss-red lower"], red_higher=counts["lca-gauss-red higher"])


def meanshift(rows, table):
    found, sets = {(r["set"], r["method"]): r for r in rows}, list(dict.fromkeys(r["set"] for r in rows))
    methods = [m for m in design.MODES if (sets[-1], m) in found]

    def cell(r, method):
        return f"{r['ari']['mean']:.2f}".replace("-0.00", "0.00") + ("" if "k-means" in method else f"/{r['clusters']['mean']:.0f}")

    body = [[f"{s}: {found[s, 'lca']['k']['mean']:.0f}"] + [cell(found[s, m], m) for m in methods] for s in sets]
    body.append(["mean"] + [f"{mean([found[s, m] for s in sets], 'ari'):.2f}" for m in methods])
    by, pictures, better = {(r["picture"], r["metric"]): r for r in runs.load("segments")}, [], []
    for p in dict.fromkeys(p for p, _ in by):
        one, wide, full = ((by[p, m]["segments"]["mean"], by[p, m]["lost"]["mean"]) for m in ("isotropic", "isotropic, wider", "full"))
        pictures.append(f"{one[0]:.0f} ({one[1]:.1f} %) and {full[0]:.0f} ({full[1]:.1f} %)")
        better.append(f"{wide[0]:.0f} ({wide[1]:.1f} %)")
    return prose.MEANSHIFT.format(
        runs=rows[0]["ari"]["runs"], sets=len(sets), near=sum(found[s, "lca"]["ari"]["mean"] >= found[s, "lca k-means"]["ari"]["mean"] - .05 for s in sets),
        rough=f"{found[sets[0], 'lca unpenalised']['clusters']['mean']:.0f}", alone=f"{100 * found['digits', 'lca']['alone']['mean']:.0f} % of rows",
        pictures=", ".join(pictures), wider=", ".join(better),
        table=table(["set: k", "k-means, standardised", "k-means, LCA", "modes, standardised", "modes, LCA"], body))


def local(rows, table):
    most = max(r["n"] for r in rows)
    found = {(r["set"], r["metric"]): r for r in rows if r["n"] == most}
    body = [[LOCAL[m]] + [f"{found[s, m]['nll']['mean']:.2f}/{found[s, m]['seconds']['mean']:.1f}" for s in design.PLACES] for m in design.PLACES_METRICS]

    def gain(s, m):
        return f"{found[s, 'global']['nll']['mean'] - found[s, m]['nll']['mean']:.2f}"

    return prose.LOCAL.format(runs=min(r["nll"]["runs"] for r in found.values()), roll_gain=gain("roll", "regions 8"), two_gain=gain("two regimes", "regions 2"),
                              table=table(["metric", *design.PLACES], body))
