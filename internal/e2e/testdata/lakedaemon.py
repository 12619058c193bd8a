"""PySpark's daemon, whose workers are waited for: spark.python.daemon.module of the jobs that lakecpu_test.go measures.

The daemon ignores SIGCHLD. So the kernel forgets workers that end, and the CPU time of a worker, and of the programs that it has run, counts for
nobody (getrusage(2)). Here it ignores another signal instead, which nobody sends: its workers stay as zombies until it ends, and then become children
of `lake.py cpu`.
"""

import signal

from pyspark import daemon

daemon.SIGCHLD = signal.SIGURG

if __name__ == "__main__":
    daemon.manager()
