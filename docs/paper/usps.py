"""Sections 6.2 and 6.3: LCA as a density of the USPS digits, and what subsampling costs.

The digits are not part of this repository: their licence is not stated. `make paper` fetches them from LIBSVM's
collection, or takes a file: Arrow, with a column x of 256 pixels in [-1, 1] and 9298 rows. Either way their fingerprint
is checked.
"""
import bz2
import hashlib
import io
import os
import urllib.request

import numpy as np
import pyarrow as pa

import design
import program
import runs

SOURCE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
FILES = [("usps.bz2", 7291), ("usps.t.bz2", 2007)]
PIXELS = 256
# SHA-256 of the pixels in thousandths, little-endian int16, row after row, training rows first.
FINGERPRINT = "9cf22299793712e1eca4804d130224a06d933663814aa8ad7f29f64a1f310270"

data = {}


def open_data(path):
    """Reads the digits, from a file or from where they were fetched to, and draws the splits."""
    x = read(path) if path else fetched()
    thousandths = np.rint(x * 1000)
    found = hashlib.sha256(thousandths.astype("<i2").tobytes()).hexdigest()
    if x.shape != (9298, PIXELS) or found != FINGERPRINT:
        raise ValueError(f"{path or SOURCE}: {x.shape[0]} rows of {x.shape[1]} with fingerprint {found} are not the USPS digits in "
                         f"LIBSVM's order and scale: want 9298 of {PIXELS} in [-1, 1], {FINGERPRINT}")
    data.update(x=thousandths / 1000, splits=permutations(len(x), 100), halves=permutations(len(x), 500))


def permutations(n, seed):
    return [np.random.default_rng(seed + run).permutation(n) for run in range(20)]


def read(path):
    with pa.OSFile(path) as f:
        column = pa.ipc.open_file(f).read_all()["x"].combine_chunks()
    return column.flatten().to_numpy().astype(float).reshape(len(column), -1)


def fetched():
    """The digits in build/paper, fetched there first where they are not."""
    path = os.path.join(runs.CACHE, "usps.arrow")
    if not os.path.exists(path):
        os.makedirs(runs.CACHE, exist_ok=True)
        x = np.vstack([parse(urllib.request.urlopen(SOURCE + name, timeout=60).read(), rows) for name, rows in FILES])
        program.write_rows(path + ".part", x)
        os.replace(path + ".part", path)
    return read(path)


def parse(packed, rows):
    """Rows of `label 1:value 2:value …`; what is left out is 0."""
    x = np.zeros((rows, PIXELS))
    with io.TextIOWrapper(bz2.open(io.BytesIO(packed)), encoding="ascii") as lines:
        for i, line in enumerate(lines):
            for pair in line.split()[1:]:
                column, value = pair.split(":")
                x[i, int(column) - 1] = float(value)
    return x


def density(model, run):
    """One row of the table, on one split."""
    rows = data["splits"][run]
    X, T = data["x"][rows[design.TRAIN]], data["x"][rows[design.TEST]]
    m = program.fit(X, flags=design.USPS_FLAGS, **design.MODELS[model])
    return {"nll": m.nll(T, X), "parzen": len(m.parzen), "iterations": m.info["passes"], "seconds": m.info["seconds"]}


def subsampled(gamma, batch, neighbours, run):
    """One cell of the subsampling table, on one split; every density is over all training rows."""
    rows = data["halves"][run]
    X, T = data["x"][rows[:design.HALF]], data["x"][rows[design.HALF:]]
    passes, flags, settings = 0, ["--precision", "float32", "--tolerance", "1e-3"], []
    if (gamma, batch, neighbours) != design.WHOLE:
        # A pass' NLL is noisy, so a number of passes and no tolerance.
        passes, flags = design.PASSES[batch], ["--precision", "float32", "--tolerance", "0", "--subsample"]
        settings = [f"minibatch.rows={batch}", f"lca.neighbours={neighbours}", f"lca.gamma={gamma}"]
    m = program.fit(X, "lca-gauss", passes, nu=design.NU, nu_gaussian=design.NU_GAUSSIAN, flags=flags, settings=settings)
    return {"test": m.nll(T, X), "train": m.nll(X, X, leave_one_out=True), "passes": m.info["passes"], "seconds": m.info["seconds"]}


EXPERIMENTS = {"usps": (design.usps, density, None), "subsampling": (design.subsampling, subsampled, design.whole)}
