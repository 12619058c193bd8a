"""The pictures of section 6.1 and of few labels, as SVG, from the summaries."""
import os

import matplotlib

import design
import page
import runs
import uses

matplotlib.use("svg")
import matplotlib.pyplot as plt

matplotlib.rcParams["svg.hashsalt"] = "lca-stream"  # the same figures give the same file
CHANCE = {"two": 50, "circles": 50, "five": 20}


def panels(rows, lines, across, path, legend):
    """One panel a set; a line for each of lines: (label, filter), accuracy over the figure named across."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
    for ax, name in zip(axes, design.TITLES):
        for label, keep in lines:
            points = sorted((r[across], r["accuracy"]["mean"], r["accuracy"]["se"] or 0) for r in rows if r["set"] == name and keep(r))
            if points:
                at, mean, error = zip(*points)
                ax.errorbar(range(len(at)) if across == "iterations" else at, mean, error, label=label, marker="o", ms=3, lw=1.2, capsize=2)
                if across == "iterations":
                    ax.set_xticks(range(len(at)), ["converged" if i >= 10 ** 9 else str(i) for i in at], rotation=45, fontsize=7)
        ax.axhline(CHANCE[name], color="grey", lw=.6, ls=":")
        ax.set_title(design.TITLES[name], fontsize=9)
        ax.set_xlabel("EM iterations" if across == "iterations" else "dimensions of noise", fontsize=8)
        ax.tick_params(labelsize=7)
    axes[0].set_ylabel("clustering accuracy, %", fontsize=8)
    axes[-1].legend(fontsize=7, title=legend, title_fontsize=7)
    figure.tight_layout()
    figure.savefig(os.path.join(runs.HERE, path), metadata={"Date": None})
    plt.close(figure)


def clustering(rows):
    rows, methods = page.clustering_rows(rows)
    panels(rows, [(page.NAMES[m], lambda r, m=m: r["method"] == m) for m in methods], "noise", "clustering.svg", None)


def iterations(rows):
    rows = [dict(r, iterations=r["iterations"] or 10 ** 9) for r in rows]
    noises = sorted({r["noise"] for r in rows})
    panels(rows, [(str(q), lambda r, q=q: r["noise"] == q) for q in noises], "iterations", "iterations.svg", "noise")


def labels(rows):
    """One panel a set; a line for each of the coordinates: the share that is named wrong over the labels of a class."""
    names = list(dict.fromkeys(r["set"] for r in rows))
    figure, axes = plt.subplots(2, 4, figsize=(10, 4.2))
    for ax, name in zip(axes.flat, names):
        for coordinates, title in uses.COORDINATES.items():
            for r in rows:
                if (r["set"], r["coordinates"]) == (name, coordinates):
                    points = [r[f"{n} labels"] for n in design.LABELS]
                    ax.errorbar(design.LABELS, [p["mean"] for p in points], [p["se"] or 0 for p in points], label=title, marker="o", ms=3, lw=1.2, capsize=2)
        ax.set_title(name, fontsize=9)
        ax.set_ylim(0)
        ax.set_xticks(design.LABELS)
        ax.tick_params(labelsize=7)
    axes[0, 0].set_ylabel("wrong, %", fontsize=8)
    axes[1, 0].set_ylabel("wrong, %", fontsize=8)
    axes[1, 1].set_xlabel("labels of a class", fontsize=8)
    axes[0, 3].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(os.path.join(runs.HERE, "labels.svg"), metadata={"Date": None})
    plt.close(figure)


def main():
    for name, draw in [("clustering", clustering), ("iterations", iterations), ("labels", labels)]:
        rows = runs.load(name)
        if rows:
            draw(rows)
