"""Semi-supervised learning: few rows have a label, and label spreading over ten neighbours (Zhou and others, 2004) names the others.

LCA learns all rows without labels, as it may. The figure is the share of rows without a label that are named wrong.
"""
import functools
import warnings

import numpy as np
from sklearn.semi_supervised import LabelSpreading

import design
import sets

@functools.lru_cache(1)
def represent(name, coordinates):
    """A set's rows in coordinates, and their labels. The runs differ in which labels are given, so the rows are learnt once."""
    X, y = sets.load(name, 0)
    if coordinates == "raw":
        return X, y
    X = sets.standard(X)
    if coordinates == "columns":
        return X, y
    return sets.fit(X, coordinates).transform(X), y


def measure(set, coordinates, run):
    Y, y = represent(set, coordinates)
    value = {}
    for count in design.LABELS:
        # The same rows are given in all coordinates.
        order = np.random.default_rng([run, count]).permutation(len(y))
        given = np.concatenate([order[y[order] == c][:count] for c in np.unique(y)])
        known = np.full(len(y), -1)
        known[given] = y[given]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows that no label reaches
            named = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=200).fit(Y, known).transduction_
        value[f"{count} labels"] = 100 * float((named != y)[known < 0].mean())
    return value


def keys(count):
    return [dict(set=s, coordinates=c, run=r) for s in sets.REAL for c in design.COORDINATES for r in range(count)]


EXPERIMENTS = {"labels": (keys, measure, None)}
