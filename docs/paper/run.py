"""Makes docs/paper-results.md: runs what has not been run, and writes the page and its pictures.

    make paper                       everything; fetches USPS from LIBSVM's collection
    make paper USPS=usps.arrow       USPS from a file: Arrow, a list column x of 256 pixels in [-1, 1]
    make paper RUNS=100 ONLY=clustering,iterations
    make paper ONLY=page             the pictures and the page alone, from docs/paper/results

Runs are kept in build/paper, so a second call resumes a first that was broken off. A row of the summaries is replaced
by one with at least as many runs.
"""
import argparse
import os
import sys
import urllib.error

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import arithmetic
import clustering
import embeddings
import labels
import local
import manifold
import meanshift
import page
import pictures
import reduction
import runs
import segments
import speed
import tobe
import usps
import width


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=13, help="runs of each clustering experiment (the paper: 100)")
    p.add_argument("--splits", type=int, default=20, help="splits of the USPS table (the paper: 20)")
    p.add_argument("--subsampling-splits", type=int, default=4, help="splits of the subsampling table (the paper: 20)")
    p.add_argument("--usps", default="", help="USPS as an Arrow file; fetched where it is not given")
    p.add_argument("--only", default="", help="comma-separated: " + ", ".join(names()) + ", page")
    a = p.parse_args()
    only = a.only.split(",") if a.only else names()
    for unknown in set(only) - set(names()) - {"page"}:
        p.error(f"--only {unknown}: want some of {', '.join(names())}, page")
    counts = {"clustering": a.runs, "iterations": a.runs, "usps": a.splits, "subsampling": a.subsampling_splits, "arithmetic": 1, "speed": 3, "width": 1, "embeddings": 1, "reduction": 5, "labels": 20, "manifold": 2, "meanshift": 3, "local": 2}
    missing = digits(a.usps) if {"usps", "subsampling", "arithmetic", "speed"} & set(only) else ""
    for module in (clustering, usps, arithmetic, speed, width, embeddings, reduction, labels, manifold, meanshift, local):
        for name, (keys, work, base) in module.EXPERIMENTS.items():
            if name not in only or (module is usps and missing):
                continue
            r = runs.Runs(name)
            try:
                r.each([k for k in keys(counts[name]) if not (missing and k.get("set") == "USPS")], work)
            finally:
                runs.save(name, r.summary(keys(counts[name]), base))
    if "tobe" in only:
        tobe.main()
    if "segments" in only:
        segments.main()
    pictures.main()
    page.main()
    if missing:
        sys.exit(missing)


def digits(path):
    """Opens USPS, and returns what to say where it cannot be fetched."""
    try:
        usps.open_data(path)
    except urllib.error.URLError as e:
        return f"{usps.SOURCE}: {e.reason}: all was made but the tables of USPS, which stay as they are; give the file, USPS=FILE"
    return ""


def names():
    return ["clustering", "iterations", "tobe", "usps", "subsampling", "arithmetic", "speed", "width", "embeddings", "reduction", "labels", "manifold", "meanshift", "local", "segments"]


if __name__ == "__main__":
    main()
