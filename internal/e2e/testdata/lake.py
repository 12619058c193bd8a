"""Data and judges of the tests with Spark: see ../lake_test.go."""

import ctypes
import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def table(rows: int, features: int, seed: int) -> pa.Table:
    """Ten clusters in half of the columns, noise in the other half; and one value in a thousand is missing."""
    r = np.random.default_rng(seed)
    centres = 4 * np.random.default_rng(1).normal(size=(10, features // 2))
    x = r.normal(size=(rows, features)).astype(np.float32)
    x[:, : features // 2] += centres[r.integers(10, size=rows)]
    x[r.integers(1000, size=rows) == 0, 0] = np.nan
    columns = {f"f{i}": pa.array(x[:, i], from_pandas=True) for i in range(features)}
    return pa.table({"id": np.arange(rows) + seed * rows, "name": [f"row {i}" for i in range(rows)]} | columns)


def files(folder: str, number: str, rows: str, features: str) -> None:
    os.makedirs(folder)
    for i in range(int(number)):
        pq.write_table(table(int(rows), int(features), i), f"{folder}/{i}.parquet", row_group_size=int(rows) // 3 + 1)


def iceberg(folder: str) -> None:
    """Appends a directory of Parquet to the table lake.db.events, in row groups of 500 kB, and prints the snapshot's id."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    rows = spark.read.parquet(folder).writeTo("lake.db.events").tableProperty("write.parquet.row-group-size-bytes", "500000")
    rows.append() if spark.catalog.tableExists("lake.db.events") else rows.create()
    print(spark.sql("SELECT snapshot_id FROM lake.db.events.refs WHERE name = 'main'").collect()[0][0])
    spark.stop()


def same(scored: str, want: str) -> None:
    """Prints the columns of a directory of Parquet that are those of an Arrow file, up to the order of the rows."""
    a, b = pq.read_table(scored).sort_by("id"), pa.ipc.open_file(want).read_all().sort_by("id")
    lists = {name: a.schema.field(name).type for name in b.column_names if pa.types.is_fixed_size_list(b.schema.field(name).type)}
    equal = [name for name in b.column_names if a[name].equals(b[name].cast(lists[name]) if name in lists else b[name])]
    print(f"{a.num_rows} rows:", *equal)


def cpu(*command: str) -> None:
    """Runs a command, and prints the CPU seconds of all its descendants. Those that outlive it become children of this process."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime)
    sys.exit(code)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
