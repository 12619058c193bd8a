"""Makes docs/quality.md: runs what has not been run, and writes the page and its pictures.

    make quality                                  what needs no data from elsewhere
    make quality VALVE=valve_stream.arrow         and the machine's event stream (see valve.py)
    make quality USPS=usps.arrow                  and USPS: column x of 256 pixels in [-1, 1], label
    make quality RUNS=5 ONLY=valve,streams
    make quality ONLY=page                        the page alone, from docs/quality/results

Runs are kept in build/quality, so a second call resumes a first that was broken off. Kafka's jars come from Maven, once;
KAFKA_BROKERS names a broker of your own instead.
"""
import argparse
import contextlib
import importlib
import os

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "GOMAXPROCS"):
    os.environ.setdefault(threads, "1")

import broker
import store

NAMES = ["floors", "valve", "fleet", "streams", "targets", "clusters", "growth"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=3, help="runs of each experiment that has chance in it")
    p.add_argument("--valve", default="", help="the machine's event stream as an Arrow file; without it its tables stay as they are")
    p.add_argument("--usps", default="", help="USPS as an Arrow file; without it the USPS figures are not made again")
    p.add_argument("--only", default="", help="comma-separated: " + ", ".join(NAMES) + ", page")
    a = p.parse_args()
    only = a.only.split(",") if a.only else NAMES
    for unknown in set(only) - set(NAMES) - {"page"}:
        p.error(f"--only {unknown}: want some of {', '.join(NAMES)}, page")
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(broker.Broker()) if set(only) & set(NAMES[1:]) else ""
        for name in NAMES:
            if name in only:
                module = importlib.import_module(name)
                if module.prepare(a, address):
                    experiments(module, a.runs)
    import page
    import pictures
    pictures.main()
    page.main()


def experiments(module, runs):
    for name, (keys, work, *base) in module.EXPERIMENTS.items():
        if not keys(runs):
            continue
        r = store.Runs(name)
        try:
            r.each(keys(runs), work)
        finally:
            store.save(name, r.summary(keys(runs), *base))


if __name__ == "__main__":
    main()
