"""The USPS digits, which are not part of this repository: an Arrow file with a column x of 256 pixels in [-1, 1], and label."""
import os

import numpy as np
import pyarrow as pa

data = {}


def prepare(arguments, brokers):
    """Reads the digits, and the splits next to them: permutations of which the first 6000 rows train and the others test."""
    if not arguments.usps:
        return False
    if not data:
        with pa.OSFile(arguments.usps) as f:
            t = pa.ipc.open_file(f).read_all().combine_chunks()
        x = t["x"].combine_chunks()
        data.update(x=x.flatten().to_numpy().astype(float).reshape(len(x), -1), y=t["label"].to_numpy())
        splits = os.path.join(os.path.dirname(arguments.usps), "usps_splits_subsampling.csv")
        drawn = [np.random.default_rng(run).permutation(len(x)) for run in range(5)]
        data["splits"] = np.loadtxt(splits, delimiter=",", dtype=int) if os.path.exists(splits) else drawn
    return True
