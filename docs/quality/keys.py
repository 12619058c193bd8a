"""What a small pool costs a model that belongs to one key: its gain over a single Gaussian on rows that it has not learnt, in nats
per row, and the bytes of its snapshot, by rows learnt and lca.neighbours. No broker is needed.

    python3 docs/quality/keys.py bin/lca-stream
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
from pyarrow import ipc

ROWS = 500, 1000, 2000, 5000
NEIGHBOURS = 50, 100, 250, 500, 1000, 3000
MACHINES = 1, 2, 3
FRESH, D, CLUSTERS = 2000, 8, 3


def machine(seed, rows):
    """Rows of one machine: three clusters, each of its own shape, in eight columns."""
    random = np.random.default_rng(seed)
    centres = 3 * random.normal(size=(CLUSTERS, D))
    shapes = [np.linalg.qr(random.normal(size=(D, D)))[0] * np.exp(random.uniform(-1.5, 0.5, D)) for _ in range(CLUSTERS)]
    return np.stack([centres[k] + shapes[k] @ random.normal(size=D) for k in random.integers(0, CLUSTERS, rows)]).astype(np.float32)


def write(rows, file):
    table = pa.table({f"s{i}": rows[:, i] for i in range(D)})
    with ipc.new_file(file, table.schema) as out:
        out.write_table(table, max_chunksize=100)


def gaussian(learnt, fresh):
    """Mean score of fresh rows under the single Gaussian of the rows that were learnt."""
    factor = np.linalg.cholesky(np.cov(learnt.T))
    z = np.linalg.solve(factor, (fresh - learnt.mean(0)).T)
    return (0.5 * (z ** 2).sum(0)).mean() + np.log(np.diag(factor)).sum() + D / 2 * np.log(2 * np.pi)


def gain(binary, folder, seed, rows, neighbours):
    all_rows = machine(seed, rows + FRESH)
    learnt, fresh = all_rows[:rows], all_rows[rows:]
    files = {name: os.path.join(folder, name) for name in ("learnt.arrow", "fresh.arrow", "model.arrows", "scored.arrow")}
    write(learnt, files["learnt.arrow"])
    write(fresh, files["fresh.arrow"])
    run = lambda *arguments: subprocess.run([binary, *arguments], check=True, capture_output=True, text=True)
    run("replay", "--input", files["learnt.arrow"], "-o", files["model.arrows"], "--set", "lca.preset=density", "--set", f"lca.neighbours={neighbours}")
    run("transform", "--model", files["model.arrows"], "--input", files["fresh.arrow"], "-o", files["scored.arrow"], "--force")
    score = ipc.open_file(files["scored.arrow"]).read_all()["lca_score"].to_numpy().mean()
    return gaussian(learnt, fresh) - score, os.path.getsize(files["model.arrows"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        for rows in ROWS:
            for neighbours in NEIGHBOURS:
                gains, sizes = zip(*(gain(sys.argv[1], folder, seed, rows, neighbours) for seed in MACHINES))
                print(json.dumps({"rows": rows, "neighbours": neighbours, "gain": round(float(np.mean(gains)), 3),
                                  "standard_error": round(float(np.std(gains, ddof=1) / len(gains) ** 0.5), 3), "bytes": sizes[-1]}), flush=True)


if __name__ == "__main__":
    main()
