"""Makes docs/paper-results.md: runs what has not been run, and writes the page and its pictures.

    make paper                       everything but USPS, which is not ours to give away
    make paper USPS=usps.arrow       USPS too: an Arrow file, column x of 256 pixels in [-1, 1]
    make paper RUNS=100 ONLY=clustering,iterations
    make paper ONLY=page             the page alone, from docs/paper/results

Runs are kept in build/paper, so a second call resumes a first that was broken off.
"""
import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import clustering
import page
import pictures
import runs
import speed
import tobe
import usps


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=13, help="runs of each clustering experiment (the paper: 100)")
    p.add_argument("--splits", type=int, default=20, help="splits of the USPS table (the paper: 20)")
    p.add_argument("--subsampling-splits", type=int, default=4, help="splits of the subsampling table (the paper: 20)")
    p.add_argument("--usps", default="", help="USPS as an Arrow file; without it those tables stay as they are")
    p.add_argument("--only", default="", help="comma-separated: " + ", ".join(names()) + ", page")
    a = p.parse_args()
    only = a.only.split(",") if a.only else names()
    for unknown in set(only) - set(names()) - {"page"}:
        p.error(f"--only {unknown}: want some of {', '.join(names())}, page")
    counts = {"clustering": a.runs, "iterations": a.runs, "usps": a.splits, "subsampling": a.subsampling_splits, "speed": 3}
    if a.usps:
        usps.open_data(a.usps)
    for module in (clustering, usps, speed):
        for name, (keys, work, base) in module.EXPERIMENTS.items():
            if name not in only or (module is usps and not a.usps):
                continue
            r = runs.Runs(name)
            try:
                r.each(keys(counts[name]), work)
            finally:
                runs.save(name, r.summary(keys(counts[name]), base))
    if "tobe" in only:
        tobe.main()
    pictures.main()
    page.main()


def names():
    return ["clustering", "iterations", "tobe", "usps", "subsampling", "speed"]


if __name__ == "__main__":
    main()
