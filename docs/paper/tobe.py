"""The picture of section 3: a text's letters as points, by PCA and by LCA."""
import os

import matplotlib
import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath

import program
import runs

matplotlib.use("svg")
import matplotlib.pyplot as plt

TEXTS = ["To be", "To be or not", "To be or not to be"]
POINTS_A_LETTER = 150


def points(text, seed=1):
    """Points drawn uniformly inside the letters, the same density in each text; a letter is about 1 high."""
    glyphs = TextPath((0, 0), text, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    polygons = [Path(p) for p in glyphs.to_polygons()]
    low, high = glyphs.get_extents().get_points()
    rng = np.random.default_rng(seed)
    count, found = POINTS_A_LETTER * len(text.replace(" ", "")), []
    while sum(map(len, found)) < count:
        z = rng.uniform(low, high, size=(4000, 2))
        inside = np.zeros(len(z), int)
        for p in polygons:
            inside += p.contains_points(z)
        found.append(z[inside % 2 == 1])  # the hole of an o lies in two outlines
    return np.vstack(found)[:count]


def root(C):
    """The symmetric C^(-1/2): it whitens and turns nothing, so that letters stay upright."""
    w, V = np.linalg.eigh(C)
    return (V / np.sqrt(w)) @ V.T


def main():
    rows, drawn = [], {}
    for text in TEXTS:
        X = points(text)
        for method, algorithm in [("PCA", "gaussian"), ("LCA", "lca")]:
            m = program.fit(X, algorithm)
            W = root(m.c_g if method == "PCA" else m.c_l)
            drawn[text, method] = (X - m.mean) @ W
            # How much narrower a letter becomes against its height: 1 = as it was written.
            rows.append({"text": text, "method": method, "width": runs.spread([float(W[0, 0] / W[1, 1])])})
    runs.save("tobe", rows)
    draw(drawn, os.path.join(runs.HERE, "to-be.svg"))


def draw(drawn, path):
    """The longest text by both, each scaled to the same height of letters."""
    figure, axes = plt.subplots(2, 1, figsize=(8, 2.6), height_ratios=[1, 1])
    for ax, method in zip(axes, ["PCA", "LCA"]):
        y = drawn[TEXTS[-1], method]
        y = y / np.ptp(y[:, 1])
        ax.plot(*y.T, ".", ms=1, color="#1b4f72", rasterized=True)
        ax.set_aspect("equal")
        ax.set_xlim(-8, 8)
        ax.set_title(method, fontsize=9, loc="left")
        ax.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=200, metadata={"Date": None})
    plt.close(figure)
