"""Seconds of processor time that LCA-Gauss takes to converge on 3000 x 256, ours and numpy's, one thread each.

The rows are the first split of USPS where it is given, else twenty clusters in a space of 40 of 256 dimensions, drawn
from a fixed seed. Both measure processor time, so other work on the machine costs little; ours has the reading and the
writing of its files in it, numpy's is EM alone.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np

import design
import program
import runs
import usps

ROWS, COLUMNS = 3000, 256


def made_up():
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(20, 40)) * 3
    X = rng.normal(size=(ROWS, COLUMNS))
    X[:, :40] += centres[rng.integers(0, 20, ROWS)]
    return X @ np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]


def ours(X, type, tolerance):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    m = program.fit(X, **design.MODELS["gauss"], flags=["--precision", type, "--tolerance", str(tolerance)], threads=1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"nll": m.info["nll"], "steps": m.info["passes"], "parzen": len(m.parzen), "seconds": seconds}


def numpy_(X, type, tolerance):
    model = design.MODELS["gauss"]
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.npy")
        np.save(rows, X)
        command = [sys.executable, os.path.join(runs.HERE, "reference.py"), rows, model["nu"], model["nu_gaussian"], tolerance, type]
        threads = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        done = subprocess.run([str(c) for c in command], env=os.environ | threads, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(rows, type, tolerance, by, run):
    X = usps.data["x"][usps.data["splits"][run][design.TRAIN]] if rows == "USPS" else made_up()
    return {"numpy": numpy_, "ours": ours}[by](X, type, tolerance)


def keys(count):
    """The two take turns, so that a machine that slows down slows both."""
    rows = "USPS" if usps.data else "made up"
    return [dict(rows=rows, type=t, tolerance=design.SPEED_TOLERANCE, by=by, run=r)
            for r in range(count) for t in ("float32", "float64") for by in ("numpy", "ours")]


EXPERIMENTS = {"speed": (keys, measure, None)}
