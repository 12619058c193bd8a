"""The pictures of docs/quality.md, as SVG, from the summaries."""
import os

import matplotlib

import design
import page
import store

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "lca-stream"  # the same figures give the same file
SHORT = ["lca-stream, online", "LCA-Gauss, batch", "Mahalanobis", "HalfSpaceTrees", "OneClassSVM", "IsolationForest", "LOF", "IncrementalPCA"]


def save(figure, name):
    figure.tight_layout()
    figure.savefig(os.path.join(store.HERE, name), metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def legend(figure, axes, columns):
    """The names of the lines of the fullest picture, below all."""
    handles, labels = max((ax.get_legend_handles_labels() for ax in axes), key=lambda h: len(h[0]))
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(.5, 0), ncol=columns, fontsize=7, frameon=False)


def valve(rows):
    """A point for each run, a bar for the mean."""
    found = [r for r, _ in page.best_rows(rows).values()]
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharey=True)
    for ax, f, title in zip(axes, ("auc", "ap"), ("ROC-AUC", "average precision")):
        for i, r in enumerate(found):
            ax.barh(i, r[f]["mean"], color="#4477aa" if i < 2 else "#bbbbbb")
            ax.plot([r[f"{f}_{k}"]["mean"] for k in page.segments(r)], [i] * len(page.segments(r)), "k.", ms=3)
        ax.set_yticks(range(len(found)), SHORT[:len(found)], fontsize=8)
        ax.set_title(title, fontsize=9)
        ax.set_xlim(.2, 1)
        ax.tick_params(labelsize=7)
        ax.invert_yaxis()
    axes[1].invert_yaxis()
    save(figure, "valve.svg")


def clusters(rows):
    """ARI of MiniBatchKMeans by tenths of the stream."""
    sets = [s for s in design.SETS if any(r["set"] == s for r in rows)]
    figure, axes = plt.subplots(1, len(sets), figsize=(2.2 * len(sets), 2.6), sharey=True, squeeze=False)
    for ax, s in zip(axes[0], sets):
        for c, name in design.COORDINATES.items():
            for r in rows:
                if (r["set"], r["coordinates"]) == (s, c):
                    at = sorted(int(k[7:]) for k in r if k.startswith("ari_at_"))
                    ax.plot(at, [r[f"ari_at_{a}"]["mean"] for a in at], label=name, **({"lw": 2.2, "color": "black"} if c == "auto" else {"lw": 1.2}))
        ax.set_title(design.SETS[s], fontsize=8)
        ax.set_xlabel("% of the stream", fontsize=7)
        ax.tick_params(labelsize=7)
    axes[0][0].set_ylabel("ARI, MiniBatchKMeans", fontsize=7)
    legend(figure, axes[0], 5)
    save(figure, "clusters.svg")


def growth(rows):
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=False)
    for r in rows:
        if r.get("more") == design.SINGLE:
            axes[0].plot(design.GROWTH_ROWS, [r[f"own_{n}"]["mean"] for n in design.GROWTH_ROWS], ":", color="#888888", label=design.SINGLE, lw=1.2)
            continue
        label = "N = " + page.growth_name(r)
        colour = f"C{len(design.GROWTH_N) + list(design.GROWTH_MORE).index(r['more']) if 'more' in r else design.GROWTH_N.index(r['neighbours'])}"
        for ax, f, x in [(axes[0], "own", None), (axes[1], "many", None), (axes[2], "own", "seconds")]:
            at = [r[f"{x}_{n}"]["mean"] if x else n for n in design.GROWTH_ROWS]
            ax.plot(at, [r[f"{f}_{n}"]["mean"] for n in design.GROWTH_ROWS], color=colour, label=label, lw=1.2, marker=".", ms=3)
    for ax, title, x in zip(axes, ("the pool's rows as centres", "10000 rows as centres", "the pool's rows, against time"), ("rows", "rows", "seconds")):
        ax.set_title(title, fontsize=9)
        ax.set_xlabel(x, fontsize=8)
        ax.set_xscale("log")
        ax.tick_params(labelsize=7)
    axes[0].set_ylabel("NLL above the true density, nats per row", fontsize=8)
    legend(figure, axes, 5)
    save(figure, "growth.svg")


def main():
    for name, draw in [("valve", valve), ("clusters", clusters), ("growth", growth)]:
        rows = store.load(name)
        if rows:
            draw(rows)
