"""Seconds of processor time that LCA takes by the number of columns, in each family of metrics, one thread each, taking turns.

Two fits of 2,000 made-up rows each, of few and of more steps: their difference is what a step takes, and the rest is what a fit takes once.
"""
import resource

import numpy as np

import program

ROWS, FEW, MORE = 2000, 2, 8
COLUMNS = [256, 512, 1024]
METRICS = ["full", "low_rank:8", "diagonal"]


def made_up(columns):
    """Noise of a scale for each column, and eight directions in which four clusters lie apart."""
    rng = np.random.default_rng(columns)
    label = rng.integers(0, 4, ROWS)
    inner = rng.normal(size=(ROWS, 8)) * .3 + rng.normal(size=(4, 8))[label] * 3
    return rng.normal(size=(ROWS, columns)) * np.exp(rng.normal(size=columns) * .3) + inner @ rng.normal(size=(8, columns))


def seconds(X, metric, steps):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    m = program.fit(X, "lca", passes=steps, metric=metric, nu=.1, nu_gaussian=.001, threads=1,
                    flags=["--tolerance", "0"], settings=["lca.nu_unit=relative"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, m.info["nll"]


def measure(columns, metric, run):
    X = made_up(columns)
    few, _ = seconds(X, metric, FEW)
    more, nll = seconds(X, metric, MORE)
    return {"fit": more, "step": (more - few) / (MORE - FEW), "nll": nll}


def keys(count):
    return [dict(columns=d, metric=m, run=r) for r in range(count) for d in COLUMNS for m in METRICS]


EXPERIMENTS = {"width": (keys, measure, None)}
