"""Mean-shift's segments of scikit-learn's two pictures: pixels climb the density of (row, column, red, green, blue) to a mode.

LCA learns a metric of all five columns; next to it is LCA's isotropic metric of the columns brought to one variance, which is a kernel of one
width, as mean-shift usually has it; and the same, widened until it has no more segments than LCA.
"""
import os

import numpy as np
from sklearn.datasets import load_sample_image

import meanshift
import program
import runs
import sets

PICTURES, WIDER = ["china.jpg", "flower.jpg"], 1.05
SHRINK, CENTRES = 8, 800  # pixels are means of SHRINK², and the density is of as many pixels, drawn at random


def pixels(name):
    image = load_sample_image(name).astype(float)
    h, w = (s // SHRINK for s in image.shape[:2])
    image = image[:h * SHRINK, :w * SHRINK].reshape(h, SHRINK, w, SHRINK, 3).mean((1, 3))
    return np.c_[np.indices((h, w)).reshape(2, -1).T, image.reshape(-1, 3)], image


def segmented(X, metric, most=None):
    """The segment of each pixel, by LCA's own width, or wider until there are at most so many."""
    centres = X[np.random.default_rng(0).permutation(len(X))[:CENTRES]]
    m = sets.fit(centres, "lca", "density", metric=metric)
    X, centres, width = m.transform(X), m.transform(centres), 1
    while True:
        label, _ = meanshift.modes(meanshift.climb(X, centres, width), width, small=.002)
        if most is None or len(np.unique(label)) <= most:
            return label
        width *= WIDER


def painted(label, image):
    out = np.empty_like(image)
    for s in np.unique(label):
        out[label == s] = image[label == s].mean(0)
    return out


def main():
    rows, drawn = [], []
    for name in PICTURES:
        X, image = pixels(name)
        X, labels = sets.standard(X), {}
        labels["isotropic"], labels["full"] = segmented(X, "isotropic"), segmented(X, "full")
        labels["isotropic, wider"] = segmented(X, "isotropic", len(np.unique(labels["full"])))
        panels = []
        for metric, label in labels.items():
            flat = painted(label.reshape(image.shape[:2]), image)
            lost = ((image - flat) ** 2).sum() / ((image - image.mean((0, 1))) ** 2).sum()
            rows.append({"picture": name, "metric": metric, "segments": runs.spread([len(np.unique(label))]), "lost": runs.spread([100 * float(lost)])})
            panels.append(flat)
        drawn.append(np.hstack([image, *panels[:2]]))
    runs.save("segments", rows)
    draw(np.vstack(drawn), os.path.join(runs.HERE, "segments.png"))


def draw(image, path):
    from PIL import Image
    # 128 colours, and each pixel nine times: small enough for the repository, large enough to look at.
    picture = Image.fromarray(image.clip(0, 255).astype(np.uint8)).quantize(128, dither=Image.Dither.NONE)
    picture.resize((picture.width * 3, picture.height * 3), Image.Resampling.NEAREST).save(path, optimize=True)


if __name__ == "__main__":
    main()
