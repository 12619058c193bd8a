"""Where results are kept: as in docs/paper, whose runs and toys are used here too.

build/quality holds every run, so that a `make quality` that was broken off resumes; docs/quality/results
the means and standard errors, from which the page is made."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.append(os.path.join(HERE, "..", "paper"))

import runs  # noqa: E402

runs.HERE = HERE
runs.RESULTS = os.path.join(HERE, "results")
runs.CACHE = os.path.join(ROOT, "build", "quality")

Runs, save, load, spread = runs.Runs, runs.save, runs.load, runs.spread
