"""The sections of docs/paper-results.md on what the paper says its metric is good for."""
import statistics

import design
import prose

COORDINATES = {"raw": "raw", "columns": "standardised", "lca": "LCA", "lca-gauss-red": "LCA-Gauss-Red"}


def mean(rows, figure):
    return statistics.fmean(r[figure]["mean"] for r in rows)


def beyond(a, b):
    """The sets on which a is lower than b, and higher, each by more than two standard errors of the difference."""
    apart = [(x["mean"] - y["mean"], 2 * ((x["se"] or 0) ** 2 + (y["se"] or 0) ** 2) ** .5) for x, y in zip(a, b)]
    return sum(d < -error for d, error in apart), sum(d > error for d, error in apart)


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
