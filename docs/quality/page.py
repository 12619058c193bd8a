"""Writes docs/quality.md from the summaries in docs/quality/results, with Python alone:

    python3 docs/quality/page.py            # writes it
    python3 docs/quality/page.py --check    # fails where it is not what the summaries give
"""
import difflib
import os
import sys

import design
import prose
import store

PATH = os.path.join(store.HERE, "..", "quality.md")
FIGURES = {"excess": "", "gaussian": ": above a single Gaussian", "recovery": ": rows until it is back"}
# What the page shows of what was measured; docs/quality/results has all.
CLUSTERERS = ["minibatch", "kmeans"]
COORDINATES = ["raw", "standard", "whitening", "auto", "parzen"]
SPECTRAL_COORDINATES = ["raw", "standard", "whitening", "metric", "metric, Parzen", "density", "density, relative"]
GROWTH_ROWS, GROWTH_LEFT_OUT = [1000, 5000, 20000], ["ν = 0.01, model lca_gauss"]
VALVE_LEFT_OUT = ["model lca", "gate 5", "gate 10", "nu 0.001", "nu 0.003", "warm-up 300", "20 rows per minibatch"]
CLUSTERS_LEFT_OUT = ["circles"]  # 0.00 in all coordinates
METHODS = {
    ("lca-stream", "shipped"): "**lca-stream, online** (machine.yaml)",
    ("lca-gauss, batch", None): "LCA-Gauss, batch on the first 400 rows",
    ("mahalanobis", None): "Mahalanobis, running covariance",
    ("half_space_trees", None): "River HalfSpaceTrees",
    ("one_class_svm", None): "River OneClassSVM",
    ("isolation_forest", None): "IsolationForest on the first 400 rows",
    ("lof", None): "LocalOutlierFactor on the first 400 rows",
    ("incremental_pca", None): "IncrementalPCA, reconstruction error",
}


def show(v, digits=3, bold=False):
    if v is None:
        return "–"
    text = f"{round(v['mean'], digits) + 0.0:.{digits}f}"  # no −0
    if v["se"] and round(v["se"], digits) > 0:
        text += f" ± {v['se']:.{digits}f}"
    return f"**{text}**" if bold else text


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def best_rows(rows):
    """For each method of METHODS its row: the one named, or the best by mean AUC of all that were tried."""
    found = {}
    for (method, setting), name in METHODS.items():
        tried = [r for r in rows if r["method"] == method and setting in (None, r["setting"])]
        if tried:
            found[name] = max(tried, key=lambda r: r["auc"]["mean"]), len(tried)
    return found


def segments(row):
    """The numbers of the machine's runs."""
    return sorted(int(f[4:]) for f in row if f.startswith("auc_") and f[4:].isdigit())


def highest(rows, figure, digits=3):
    return max(round(r[figure]["mean"], digits) for r in rows)


def reached(v, target, error=None, larger=True):
    """Whether a figure is at least (or at most) the target, or short of it by no more than two standard errors."""
    short = (target - v) * (1 if larger else -1)
    return "reached" if short <= 1e-9 else "within two standard errors" if short <= 2 * (error or 0) else "missed"


def jackknife(a, b, figure):
    """The standard error of the difference of two methods, by leaving out one run at a time."""
    differences = [a[f]["mean"] - b[f]["mean"] for f in a if f.startswith(figure + "_without_")]
    mean, n = sum(differences) / len(differences), len(differences)
    return (sum((d - mean) ** 2 for d in differences) * (n - 1) / n) ** .5


def board_part(rows):
    """The board: each method's mean AP of the groups' files, the means of the groups, and by how much it is behind the best fixed rival where that
    is worst."""
    found = {(r["method"], r["group"]): r for r in rows}
    groups = [g for g in dict.fromkeys(r["group"] for r in rows) if g != design.BOARD_TABLES]

    def mean(method, figure="ap"):
        v = [found[method, g][figure]["mean"] for g in groups]
        return sum(v) / len(v)

    methods = [m for m in dict.fromkeys(r["method"] for r in rows) if (m, groups[0]) in found]
    best = max((m for m in methods if m in design.BOARD_FIXED), key=mean)
    columns = {}
    for m in methods:
        behind = min((found[m, g]["ap"]["mean"] - found[best, g]["ap"]["mean"], g) for g in groups)
        table_row = found.get((m, design.BOARD_TABLES))
        columns[m] = [*(found[m, g]["ap"]["mean"] for g in groups), mean(m), mean(m, "auc"), mean(m, "vus_pr"), None if m == best else behind,
                      *(table_row and table_row[f]["mean"] for f in ("ap", "auc")), mean(m, "cpu")]
    tops = [max((c[k] for c in columns.values() if c[k] is not None), default=None) for k in range(len(groups) + 6)]
    body = []
    for m, cells in columns.items():
        shown = []
        for k, v in enumerate(cells):
            if v is None:
                shown.append("–" if k != len(groups) + 3 else "")
            elif isinstance(v, tuple):
                shown.append(f"{v[0]:+.3f} {v[1]}".replace("-", "−"))
            elif k == len(cells) - 1:
                shown.append(f"{v:.2g}" if v < 10 else f"{v:.0f}")
            else:
                shown.append(f"**{v:.3f}**" if round(v, 3) == round(tops[k], 3) else f"{v:.3f}")
        body.append([f"**{m}**" if m.startswith("lca") else m, *shown])
    head = ["AP", *groups, "mean", "AUC", "VUS-PR", f"worst against {best}", "tables: AP", "AUC", "µs a row"]
    files = {r["group"]: r["ap"]["runs"] for r in rows}
    return prose.BOARD.format(table=table(head, body), episodes=episodes_table(rows), series=sum(files[g] for g in groups), tables=files[design.BOARD_TABLES],
                              files=", ".join(f"{g} {files[g]}" for g in groups),
                              verdict="Mean AP: " + "; ".join(f"{m} {mean(m):.3f}" for m in columns if m.startswith("lca") and not m.endswith("columns")) + f"; {best}, the best fixed rival, {mean(best):.3f}.")


def episodes_table(rows):
    """What the episodes are worth, of all series."""
    body = []
    for m in dict.fromkeys(r["method"] for r in rows if "met" in r):
        n = {f: sum(r[f] for r in rows if r["method"] == m and f in r) for f in ("faults", "met", "false", "others", "begun", "open", "rows")}
        body.append([m, f"{n['met']} of {n['faults']}", str(n["false"]), f"{n['others'] / n['met']:.2f}", str(n["begun"]), f"{100 * n['open'] / n['rows']:.0f} %"])
    return table(["", "faults met", "false episodes", "others per fault met", "faults in which one begins, or up to 60 rows before", "rows in an episode"], body)


def valve_part(rows):
    found = best_rows(rows)
    shown = [r for r, _ in found.values()]
    figures = ["auc", "ap"]
    columns = ["auc", "ap", "pooled_auc"]
    body = []
    for name, (r, tried) in found.items():
        cells = []
        for f in columns:
            text = f"{r[f]['mean']:.3f}"
            if f in ("auc", "ap"):
                text += f" ± {r[f + '_error']['mean']:.3f}"
            cells.append(f"**{text}**" if round(r[f]["mean"], 3) == highest(shown, f) else text)
        body.append([name, *cells, "shipped" if r["method"] == "lca-stream" else str(tried)])
    ours = next(r for r in rows if (r["method"], r["setting"]) == ("lca-stream", "shipped"))
    settings = [[s] + [f"{r[f]['mean']:.3f}" for f in figures]
                for s in design.LCA if s not in VALVE_LEFT_OUT for r in rows if (r["method"], r["setting"]) == ("lca-stream", s)]
    batch = next(r for r in rows if r["method"] == "lca-gauss, batch")
    errors = {"pooled_auc": jackknife(ours, batch, "pooled_auc")}
    verdicts = ";\n".join(f"{name} {ours['all_' + f]['mean']:.3f} against {t} to reach: {reached(round(ours['all_' + f]['mean'], 3), t, errors.get(f))}"
                         for f, name, t in [(f, n, design.VALVE_TARGETS[f]) for f, n in
                                            [("auc", "mean AUC"), ("ap", "mean AP"), ("pooled_auc", "pooled AUC")]])
    others = [[next(n for n, (r, _) in found.items() if r["method"] == o["method"]) if o["method"] != "lca-stream" else f"lca-stream, {o['setting']}",
               f"{o['auc']['mean']:.3f} ± {o['auc_error']['mean']:.3f}"] for o in store.load("others")]
    rivals = [r for r in shown if not r["method"].startswith("lca")]
    wins = {f: sum(ours[f"{f}_{k}"]["mean"] > max(r[f"{f}_{k}"]["mean"] for r in rivals) for k in segments(ours)) for f in ("auc", "ap")}
    return prose.VALVE.format(
        table=table(["score", "mean AUC", "mean AP", "pooled AUC", "settings tried"], body),
        others=others and prose.OTHERS.format(table=table(["score", "mean AUC"], others),
                                              count=len(segments(store.load("others")[0]))) or "",
        settings=table(["setting", "mean AUC", "mean AP"], settings),
        verdicts=verdicts, error=f"{errors['pooled_auc']:.3f}", auc_wins=wins["auc"], ap_wins=wins["ap"], count=len(segments(ours)))


def fleet_part(rows):
    found = {(r["units"], r["models"], r["warmup"]): r for r in rows}
    body = []
    for units in design.FLEET_UNITS:
        keyed = found[(units, *design.FLEET[0])]
        for models, warmup in design.FLEET:
            r = found[units, models, warmup]
            auc = f"{r['auc']['mean']:.3f} ± {r['auc_error']['mean']:.3f}"
            mean, error = differences(r, keyed, "auc") if r is not keyed else (None, None)
            chance = "" if mean is None or abs(mean) > 2 * error else ", within two standard errors"
            body.append([units, models, str(warmup), auc, "" if mean is None else f"{mean:+.3f} ± {error:.3f}" + chance])
    shipped = next(r for r in store.load("valve") if (r["method"], r["setting"]) == ("lca-stream", "shipped"))["auc"]["mean"]
    alone = found[(design.FLEET_UNITS[0], *design.FLEET[0])]["auc"]["mean"]
    earlier = f" The table above has {shipped:.3f} for the same: it was made by an earlier build." if abs(shipped - alone) > .0035 else ""
    head = ["sensors", "models", "warm-up, rows", "mean AUC", "mean AUC above a model for each"]
    return prose.FLEET.format(earlier=earlier, table=table(head, body), count=len(segments(rows[0])), topics=max(r["auc"]["runs"] for r in rows))


def differences(a, b, figure):
    """The mean difference of two rows over the runs, and its standard error."""
    d = [a[f"{figure}_{k}"]["mean"] - b[f"{figure}_{k}"]["mean"] for k in segments(a)]
    mean = sum(d) / len(d)
    return mean, (sum((v - mean) ** 2 for v in d) / (len(d) - 1) / len(d)) ** .5


def clusters_part(rows):
    found = {(r["set"], r["coordinates"]): r for r in rows}
    parts = []
    for c in CLUSTERERS:
        body = []
        for s, title in design.SETS.items():
            if s in CLUSTERS_LEFT_OUT:
                continue
            here = [found[s, m] for m in COORDINATES if (s, m) in found]
            if here:
                top = highest(here, "ari_" + c, 2)
                body.append([title] + [show(r and r["ari_" + c], 2, bool(r) and round(r["ari_" + c]["mean"], 2) == top)
                                       for r in (found.get((s, m)) for m in COORDINATES)])
        parts.append(f"**{design.CLUSTERERS[c]}**\n\n" + table(["ARI", *(design.COORDINATES[m] for m in COORDINATES)], body))
    runs = {s: found[s, "raw"]["stability"]["runs"] for s in design.SETS if (s, "raw") in found}
    return prose.CLUSTERS.format(runs=runs["wine"], mixings=runs["five"], tables="\n\n".join(parts), spectral=spectral_table(),
                                 ungated=", ".join(show(found["breast_cancer", "ungated"]["ari_" + c], 2) for c in CLUSTERERS))


def spectral_table():
    spectral = {(r["set"], r["coordinates"]): r for r in store.load("spectral")}
    body = []
    for s in design.SPECTRAL:
        here = [spectral[s, c] for c in SPECTRAL_COORDINATES if (s, c) in spectral]
        if not here:
            continue
        here += [None] * (len(SPECTRAL_COORDINATES) - len(here))
        verdict = ["", ""]
        if s in design.SPECTRAL_TARGETS:
            preset, target = design.SPECTRAL_TARGETS[s]
            ours = spectral[s, preset]["ari"]
            verdict = [f"{preset} ≥ {target}", reached(round(ours["mean"], 2), target, ours["se"])]
        top = highest([r for r in here if r], "ari", 2)
        body.append([design.SETS.get(s, s)] + [show(r and r["ari"], 2, bool(r) and round(r["ari"]["mean"], 2) == top) for r in here] + verdict)
    return table(["ARI, spectral", *SPECTRAL_COORDINATES, "to reach", ""], body)


def targets_part():
    rows = {("usps", r["setting"]): r for r in store.load("usps")}
    rows |= {(r["stream"], r["setting"]): r for r in store.load("streams")}
    body = []
    for (stream, setting, figure), target in design.TARGETS.items():
        r = rows.get((stream, setting))
        if r:
            v = r[figure]
            body.append([prose.TARGETS[stream, setting, figure], show(v, 2 if stream == "usps" else 3),
                         f"≤ {target}", reached(v["mean"], target, v["se"], larger=False)])
    return prose.STREAMS.format(table=table(["what", "ours", "to reach", ""], body),
                                usps=store.load("usps")[0]["nll"]["runs"], runs=store.load("streams")[0]["excess_1000"]["runs"])


def floors_part(now):
    """The streams whose law is known: the first edition, and today."""
    def index(rows):
        return {(r["stream"], r["preset"]): r for r in rows}

    before, now, body = index(store.load("floors_before")), index(now), []
    for stream in dict.fromkeys(stream for stream, _ in now):
        figure, floor = design.FLOORS.get(stream, ("excess", None))
        both = {preset: now[stream, preset] for preset in ("density", "metric")}
        promised = "" if floor is None else f"≤ {floor}: " + floor_reached(both["density"], figure, floor)
        if promised and stream in design.FLOORS_OF_BOTH:
            promised += ", `metric` " + floor_reached(both["metric"], figure, floor)
        digits, was = 0 if figure == "recovery" else 2, before.get((stream, "density"))
        body.append([stream + FIGURES[figure], show(was and was.get(figure), digits), *(show(r[figure], digits) for r in both.values()), promised,
                     f"{both['density']['alarms']['mean']:.1f}"])
    why = table(["stream", "moved by, sd", "named first", "among three"], [[r["stream"], f"{r['off']:.0f}", show(r["first"], 2), show(r["three"], 2)] for r in store.load("why")])
    probability, levels = store.load("probability"), ["below 0.01", "below 0.001", "below 0.0001"]
    multiples = table(["stream", *levels], [[r["stream"], *(show(r[f], 2) for f in levels)] for r in probability])
    found = store.load("found")
    others = table(["what", "mean", "floor", "worst", "floor"], [
        [text, show(r["found"], 3), f"≥ {mean} " + reached(r["found"]["mean"], mean, r["found"]["se"]), f"{r['least']:.3f}",
         f"≥ {worst} " + reached(r["least"], worst) if worst else ""] for r in found for text, mean, worst in [design.FOUND[r["figure"]]]])
    return prose.FLOORS.format(
        found=found[0]["runs"], others=others, probable=probability[0]["runs"], probability=multiples, why=why, runs_why=store.load("why")[0]["runs"],
        runs=next(iter(now.values()))["runs"], runs_before=next(iter(before.values()))["runs"],
        table=table(["stream", "first edition", "`density`", "`metric`", "floor", "alarms"], body))


def floor_reached(row, figure, floor):
    return reached(row[figure]["mean"], floor, row[figure]["se"], larger=False)


def when_not():
    named = {r["stream"]: show(r["first"], 2) for r in store.load("why")}
    return prose.WHEN_NOT.format(collinear=named["collinear columns"], duplicated=named["duplicated columns"], noise=named["five + 8 noise, mixed"])


def decisions_part():
    def row(experiment, parameters):
        return parameters and next((r for r in store.load(experiment) if all(r.get(k) == v for k, v in parameters.items())), None)

    body = []
    for decision, instead, experiment, decided, other, figure, digits in design.DECISIONS:
        a, b = row(experiment, decided), row(experiment, other)
        if b:
            body.append([decision, instead, prose.FIGURES[experiment, other.get("stream"), figure],
                         "0" if decided is None else show(a[figure], digits), show(b[figure], digits)])
    return prose.DECISIONS.format(table=table(["decision", "instead", "figure", "as decided", "instead"], body))


def lost(task, ours, rivals, digits=2):
    """A row of the table of losses; None where no rival is better. rivals: name -> figure."""
    name = max(rivals, key=lambda n: rivals[n]["mean"])
    best = rivals[name]
    if round(best["mean"], digits) <= round(ours["mean"], digits):
        return None
    error = ((ours["se"] or 0) ** 2 + (best["se"] or 0) ** 2) ** .5
    return [task, show(ours, digits), show(best, digits), name, "" if best["mean"] - ours["mean"] > 2 * error else "within two standard errors"]


def losses_part():
    """Every figure above in which a rival is ahead of what the program does by default."""
    rows = []
    for figure, what in (("auc", "mean AUC"), ("ap", "mean AP")):
        machine = {n: r for n, (r, _) in best_rows(store.load("valve")).items()}
        others = {(r["method"], r["setting"]): r for r in store.load("others")}
        for title, ours, rivals in [
                ("the machine", next(r for r in machine.values() if r["method"] == "lca-stream"), {n: r for n, r in machine.items() if not r["method"].startswith("lca")}),
                ("the other runs of SKAB", others["lca-stream", "shipped"], {METHODS[m, None]: r for (m, _), r in others.items() if not m.startswith("lca")})]:
            rows.append(lost(f"{title}: {what}", with_error(ours, figure), {n: with_error(r, figure) for n, r in rivals.items()}, 3))
    found = {(r["set"], r["coordinates"]): r for r in store.load("clusters")}
    rivals = [c for c in design.COORDINATES if c not in design.SETTINGS]
    for c, name in design.CLUSTERERS.items():
        for s, title in design.SETS.items():
            if (s, "auto") in found:
                rows.append(lost(f"{title}: {name}", found[s, "auto"]["ari_" + c], {design.COORDINATES[r]: found[s, r]["ari_" + c] for r in rivals}))
    found = {(r["set"], r["coordinates"]): r for r in store.load("spectral")}
    for s in design.SPECTRAL:
        for figure, name, digits in (("ari", "spectral clustering", 2), ("neighbours", "five nearest", 3)):
            rows.append(lost(f"{design.SETS.get(s, s)}: {name}", found[s, "metric"][figure],
                             {c: found[s, c][figure] for c in ("raw", "standard", "whitening")}, digits))
    return prose.LOSSES.format(table=table(["what", "ours, by default", "best", "of", ""], [r for r in rows if r]))


def with_error(row, figure):
    """A figure of the machine, with its error between runs of the machine."""
    return {"mean": row[figure]["mean"], "se": row[figure + "_error"]["mean"]}


def growth_name(r):
    if r.get("more") == design.SINGLE:
        return r["more"]
    return ", ".join([str(r["neighbours"]), *([r["more"]] if "more" in r else [])])


def growth_part(rows):
    last = design.GROWTH_ROWS[-1]
    body = [[growth_name(r)] + [show(r[f"own_{n}"], 3) for n in GROWTH_ROWS] + [show(r.get(f"parzen_{last}"), 1)]
            for r in rows if r.get("more") not in GROWTH_LEFT_OUT]
    return prose.GROWTH.format(own=table(["N", *[f"{n} rows" for n in GROWTH_ROWS], "d_P at the end"], body), runs=rows[0]["own_500"]["runs"])


def text():
    parts = [prose.HEAD, board_part(store.load("board")), when_not(), losses_part()]
    for name, part in [("valve", valve_part), ("fleet", fleet_part), ("clusters", clusters_part), ("floors", floors_part),
                       ("streams", lambda rows: targets_part()), ("growth", growth_part)]:
        rows = store.load(name)
        if rows:
            parts.append(part(rows))
    return "".join(parts) + decisions_part()


def check():
    """Fails where the page is not what the summaries give."""
    with open(PATH, encoding="utf-8") as f:
        old = f.read()
    difference = "\n".join(difflib.unified_diff(old.splitlines(), text().splitlines(), "docs/quality.md", "the summaries", lineterm=""))
    assert not difference, "docs/quality.md is not what docs/quality/results gives: run `make quality ONLY=page`\n" + difference


def main():
    if "--check" in sys.argv:
        check()
        return
    now = text()
    with open(PATH, "w", encoding="utf-8") as f:
        f.write(now)


if __name__ == "__main__":
    main()
