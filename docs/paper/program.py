"""Calls lca-stream and reads what it writes: all that a data scientist needs to use it from Python.

`fit` runs one batch algorithm on the rows of a numpy array, through files and without Kafka:

    m = fit(X, "lca-gauss", nu=0.01, nu_gaussian=0.003)
    Y = m.transform(X)          # the Parzen coordinates, B_L'(x - mean)
    m.nll(X_test, X)            # mean of -log p, nats per row, X as the Parzen centres
"""
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

BINARY = os.environ.get("LCA_STREAM", "bin/lca-stream")


@dataclass
class Model:
    """A fitted model, and what the program said about it (the object of `--json`)."""

    mean: np.ndarray
    parzen: np.ndarray  # rows are the columns of B_L, eigenvalues ascending
    gaussian: np.ndarray  # rows are the columns of B_G
    c_l: np.ndarray
    c_g: np.ndarray
    ratio: np.ndarray  # eigenvalues e of I_G C_L I_G, as the rows of parzen and then those of gaussian have them
    info: dict

    def transform(self, X):
        """B_L'(x - mean): where there is a Gaussian part, the paper's unsupervised dimension reduction."""
        return (X - self.mean) @ self.parzen.T

    def nll(self, Q, centres, leave_one_out=False):
        """Mean of -log p over the rows of Q, every constant included (section 4, before eq. 6).

        Leave-one-out: Q are the centres themselves, and the sum is divided by n - 1."""
        B = np.vstack([self.parzen, self.gaussian])
        constant = len(B) / 2 * np.log(2 * np.pi) - np.linalg.slogdet(B)[1]
        out = constant + 0.5 * (((Q - self.mean) @ self.gaussian.T) ** 2).sum(1)
        if len(self.parzen):
            out -= log_kernel_mean((Q - self.mean) @ self.parzen.T, (centres - self.mean) @ self.parzen.T, leave_one_out)
        return float(out.mean())


def log_kernel_mean(q, p, leave_one_out, block=500):
    """log (1/m) sum_j exp(-|q_i - p_j|^2 / 2) for each row of q, with the exact maximum taken out."""
    half = 0.5 * (p * p).sum(1)
    out = np.empty(len(q))
    for a in range(0, len(q), block):
        z = q[a:a + block]
        logits = z @ p.T - half - 0.5 * (z * z).sum(1)[:, None]
        if leave_one_out:
            logits[np.arange(len(z)), a + np.arange(len(z))] = -np.inf
        top = logits.max(1)
        out[a:a + block] = top + np.log(np.exp(logits - top[:, None]).sum(1))
    return out - np.log(len(p) - leave_one_out)


def write_rows(path, X):
    """An Arrow file with one list column x, in batches of 1000 rows; float64 keeps every bit."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X, float).ravel()), X.shape[1])
    table = pa.table({"x": column})
    with pa.OSFile(path, "wb") as f, pa.ipc.new_file(f, table.schema) as w:
        w.write_table(table, max_chunksize=1000)


def read_model(path, info):
    """A snapshot file is Arrow IPC streams, one after the other; the first is the model."""
    with pa.OSFile(path) as f:
        t = pa.ipc.open_stream(f).read_all().combine_chunks()
    d = int(t.schema.metadata[b"lca.d"])
    vectors = t["vector"].combine_chunks().flatten().to_numpy().reshape(-1, d)
    kind = np.array(t["kind"].to_pylist())
    part = {k: vectors[kind == k] for k in ("parzen", "gaussian", "c_l", "c_g")}
    e = t["eigenvalue"].to_numpy()
    return Model(vectors[kind == "mean"][0], **part, ratio=np.r_[e[kind == "parzen"], e[kind == "gaussian"]], info=info)


def fit(X, algorithm, passes=0, metric="full", nu=0.0, nu_gaussian=0.0, flags=(), settings=(), threads=0):
    """Fits a model to the rows of X; `passes` is the most EM iterations, 0 = to convergence.

    nu and nu_gaussian are the paper's (lca.nu_unit: absolute); the rank of low_rank is 2. Further flags and settings go to the
    program as they are; threads = 0 takes all there are. A fault of the program comes back as its own message."""
    settings = [f"lca.metric={'low_rank:2' if metric == 'low_rank' else metric}", "lca.nu_unit=absolute", f"lca.nu={nu},{nu_gaussian}", *settings]
    return replay(X, algorithm, ["--passes", str(passes), "--json", *flags], settings, threads,
                  lambda path, out: read_model(path, json.loads(out.splitlines()[-1])))


def replay(X, algorithm, flags, settings, threads, read):
    """Runs the program on the rows of X, and returns what `read` makes of the file that it wrote and of what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        rows, model = os.path.join(folder, "rows.arrow"), os.path.join(folder, "model.arrows")
        write_rows(rows, X)
        command = [BINARY, "replay", "--algorithm", algorithm, "--sample", str(len(X)), "--input", rows, "--output", model, *flags]
        for s in ["source.features=[x]", *settings]:
            command += ["--set", s]
        environment = os.environ | ({"GOMAXPROCS": str(threads)} if threads else {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stderr}")
        return read(model, done.stdout)
