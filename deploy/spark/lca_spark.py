"""Refits a model to all rows of a lake, or scores them, on Spark: tables and files go through lca-stream in the executors.

    spark-submit --files bin/lca-stream lca_spark.py refit --model model.arrows --input s3a://lake/events/ --output next.arrows
    spark-submit --files bin/lca-stream lca_spark.py score --model next.arrows --input lake.db.events --output s3a://lake/scored/

What runs in executors (expect, score) and what makes the model of its results (refit) know nothing of Spark.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

FILE, ROW = "_lca_file", "_lca_row"  # columns that are added to those of the input: the file of a row, and its place in it
PARTS = pa.schema({FILE: pa.string(), ROW: pa.int64(), "rows": pa.int64()})
SUMS = pa.schema({"part": pa.int32(), "rows": pa.int64(), "invalid": pa.int64(), "candidates": pa.int64(), "sums": pa.binary()})
STRETCH = 128 << 20  # bytes of a file
EVERY = 2**64 - 1  # no candidate has a greater id


class Failed(Exception):
    """What an operator has to know, on one line."""


# What runs in executors: rows in, rows out.


def pipe(command: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a program that reads an Arrow stream and writes one. A thread feeds it while its output is read: the buffers between are small."""
    batches, faults = iter(batches), []

    def feed(sink) -> None:
        try:
            first = next(batches)
            with sink, pa.ipc.new_stream(sink, first.schema) as out:
                for batch in itertools.chain([first], batches):
                    out.write_batch(batch)
        except BaseException as err:
            faults.append(err)
            if not isinstance(err, BrokenPipeError):
                program.kill()  # its answer would be to some of the rows

    with tempfile.TemporaryFile() as words:
        one_core = {"GOMAXPROCS": "1", **os.environ}  # a task has one; the results are the same for any
        try:
            program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, env=one_core)
        except OSError as err:
            raise Failed(f"{command[0]} does not run on this machine ({err.strerror}): ship it with spark-submit --files bin/lca-stream, or say where it is with --lca-stream") from err
        feeder = threading.Thread(target=feed, args=[program.stdin], daemon=True)
        feeder.start()
        broken = None
        try:
            yield from pa.ipc.open_stream(program.stdout)
        except (pa.ArrowInvalid, OSError) as err:
            broken = err
        except GeneratorExit:  # no reader is left
            program.kill()
            raise
        finally:
            program.stdout.close()
            code = program.wait()
        if code == 0:
            feeder.join()
        if faults and not isinstance(faults[0], BrokenPipeError):
            raise faults[0]
        if code or broken or faults:
            words.seek(0)
            said = " ".join(line.decode(errors="replace").strip() for line in words if not line.startswith(b"{"))  # that is its progress
            raise Failed(f"{os.path.basename(command[0])} {' '.join(command[1:3])} ended with exit code {code}: {said or broken or faults[0]}")


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, int], Iterator[pa.RecordBatch]]]:
    """The rows of each file in a task, with the file's name and the place of the first row in it."""

    def of_one_file():
        for batch in batches:
            start = 0
            for end in pc.run_end_encode(batch[FILE]).run_ends.to_pylist():
                yield batch.slice(start, end - start)
                start = end

    for file, rows in itertools.groupby(of_one_file(), lambda batch: batch[FILE][0].as_py()):
        first = next(rows)
        yield (file, first[ROW][0].as_py()), itertools.chain([first], rows)


def parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What there is to sum: the pieces and their numbers of rows."""
    for (file, row), rows in pieces(batches):
        yield pa.record_batch([[file], [row], [sum(b.num_rows for b in rows)]], schema=PARTS)


def expect(batches: Iterable[pa.RecordBatch], binary: str, model: bytes, numbers: dict[tuple[str, int], int], limit: int) -> Iterator[pa.RecordBatch]:
    """The E-step: the sums of each part under a model, with those candidates for its neighbours whose ids are up to a limit."""
    with file_of(model) as path:
        for place, rows in pieces(batches):
            if place not in numbers:
                raise Failed(f"{place[0]} has changed since the job began: row {place[1]} did not begin a part")
            command = [local(binary), "em", "expect", "--model", path, "--part", str(numbers[place]), "--input", "-", "--output", "-"]
            sums = pa.Table.from_batches(pipe(command, (b.drop_columns([FILE, ROW]) for b in rows)))
            at = sums.schema.get_field_index("candidates")
            lists = sums.column(at).combine_chunks()
            found = lists.flatten()
            found = found.filter(pc.less_equal(found.field("id"), pa.scalar(limit, pa.uint64())))
            sums = sums.set_column(at, sums.field(at), pa.ListArray.from_arrays(pa.array([0, len(found)], pa.int32()), found, type=lists.type))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, sums.schema) as out:
                out.write_table(sums)
            counted = [sums[name][0].as_py() for name in ("rows", "invalid")]
            yield pa.record_batch([[numbers[place]], *([n] for n in counted), [len(found)], [sink.getvalue().to_pybytes()]], schema=SUMS)


# Spark gives rows in parts and in any order: there are no last rows to score.
ROWS_ALONE = ["--set", "transform.recent=off"]


def score(batches: Iterable[pa.RecordBatch], binary: str, model: bytes) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of the transform. Spark knows no lists of a fixed size."""
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return
    with file_of(model) as path:
        for batch in pipe([local(binary), "transform", "--model", path, "--input", "-", "--output", "-", *ROWS_ALONE], itertools.chain([first], batches)):
            yield batch.cast(pa.schema([f.with_type(pa.list_(f.type.value_field)) if pa.types.is_fixed_size_list(f.type) else f for f in batch.schema]))


def columns(scored: Callable[[list[pa.RecordBatch]], Iterator[pa.RecordBatch]], given: pa.Schema) -> pa.Schema:
    """The columns of scored rows, learnt from a row without values."""
    return next(scored([pa.record_batch([pa.nulls(1, f.type) for f in given], schema=given)])).schema


@contextmanager
def file_of(model: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".arrows") as file:
        file.write(model)
        file.flush()
        yield file.name


def local(name: str) -> str:
    """The path on this machine of what spark-submit --files brought, or else the name as it is."""
    if "pyspark" in sys.modules:
        shipped = sys.modules["pyspark"].SparkFiles.get(name)
        if os.path.exists(shipped):
            return shipped
    return name


# What runs in the driver.


def refit(step: Callable[[bytes, int], list[dict]], rows: int, binary: str, model: str, output: str, notes: dict[str, str], iterations: int, tolerance: float) -> dict:
    """EM to convergence: step returns the sums of all parts under a model. The model so far is in output, which a later run can go on from."""
    neighbours = int(metadata_of(model)["lca.neighbours"])
    # That many of all rows are as good as certain to have ids up to the limit, which are evenly spread; where they do not, no candidate is left out.
    limit = min(EVERY, int(2**64 * (2 * neighbours + 1000) / max(rows, 1)))
    last = math.inf
    for i in itertools.count(1):
        began = time.monotonic()
        with open(model, "rb") as file:
            frozen = file.read()
        sums = step(frozen, limit)
        valid = sum(s["rows"] for s in sums)
        if (read := valid + sum(s["invalid"] for s in sums)) != rows:
            raise Failed(f"step {i} has read {read} rows of {rows}: the input has changed since the job began")
        if sum(s["candidates"] for s in sums) < min(neighbours, valid) and limit < EVERY:
            limit = EVERY
            sums = step(frozen, limit)
        result = maximize(sums, binary, model, output, notes)
        print(f"step {i}: NLL {result['nll']:.6f} before it, {result['rows']} rows in {result['parts']} parts, {time.monotonic() - began:.1f} s", file=sys.stderr)
        # The first step may change the neighbours, which is no gain.
        if i == iterations or (i > 2 and last - result["nll"] < tolerance):
            return result
        model, last = output, result["nll"]


def maximize(sums: list[dict], binary: str, model: str, output: str, notes: dict[str, str]) -> dict:
    """The M-step."""
    with tempfile.TemporaryDirectory() as folder:
        command = [local(binary), "em", "maximize", "--model", model, "--output", output, "--json"]
        for key, value in notes.items():
            command += ["--metadata", f"{key}={value}"]
        for s in sums:
            path = os.path.join(folder, str(s["part"]))
            with open(path, "wb") as file:
                file.write(s["sums"])
            command += ["--input", path]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"lca-stream em maximize ended with exit code {done.returncode}: {' '.join(done.stderr.split())}")
    return json.loads(done.stdout)


def metadata_of(model: str) -> dict[str, str]:
    with pa.ipc.open_stream(model) as part:
        return {key.decode(): value.decode() for key, value in part.schema.metadata.items()}


# What knows Spark.


def open_lake(spark, inputs: list[str]):
    """The rows with their places, FILE and ROW, and what to note of where they come from. A task gets the row groups of one stretch of one
    file, for any cluster and configuration: Spark packs no more than one into a task where opening a file costs as much as reading one."""
    if len(inputs) == 1 and (named := re.fullmatch(r"(\w+(?:\.\w+)+?)(?:\.snapshot_id_(\d+))?", inputs[0])) and not inputs[0].endswith(".parquet"):
        table, snapshot = named.groups()
        if snapshot is None:
            main = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()
            if not main:
                raise Failed(f"the table {table} has no rows yet")
            snapshot = main[0][0]
        rows = spark.read.options(**{"split-size": STRETCH, "file-open-cost": STRETCH}).table(f"{table}.snapshot_id_{snapshot}")
        return rows.selectExpr("*", f"_file AS {FILE}", f"_pos AS {ROW}"), {"lake.table": table, "lake.snapshot_id": str(snapshot)}
    spark.conf.unset("spark.sql.files.maxPartitionNum")
    spark.conf.set("spark.sql.files.maxPartitionBytes", STRETCH)
    spark.conf.set("spark.sql.files.openCostInBytes", STRETCH)
    rows = spark.read.parquet(*inputs)
    return rows.selectExpr("*", f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {ROW}"), {"lake.files": json.dumps(inputs)}


def refit_on(spark, args: argparse.Namespace) -> dict:
    features = json.loads(metadata_of(local(args.model))["lca.features"])
    rows, notes = open_lake(spark, args.input)
    found = sorted((r[FILE], r[ROW], r["rows"]) for r in rows.select(FILE, ROW).mapInArrow(parts, spark_schema(PARTS)).collect())
    numbers = {(file, row): i for i, (file, row, _) in enumerate(found)}
    if not found or len(numbers) < len(found):
        raise Failed(f"{args.input} has no rows" if not found else f"{args.input} names a file twice")
    if "lake.files" in notes:
        notes["lake.listing_sha256"] = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    wanted = [c for c in rows.columns if any(f == c or f.startswith((c + ".", c + "[")) for f in features)]
    rows = rows.select(FILE, ROW, *(f"`{c}`" for c in wanted))

    def step(model: bytes, limit: int) -> list[dict]:
        summed = partial(expect, binary=args.lca_stream, model=model, numbers=numbers, limit=limit)
        return [r.asDict() for r in rows.mapInArrow(summed, spark_schema(SUMS)).collect()]

    return refit(step, sum(n for _, _, n in found), args.lca_stream, local(args.model), args.output, notes, args.iterations, args.tolerance)


def score_on(spark, args: argparse.Namespace) -> dict:
    rows = open_lake(spark, args.input)[0].drop(FILE, ROW)
    with open(local(args.model), "rb") as file:
        scored = partial(score, binary=args.lca_stream, model=file.read())
    from pyspark.sql.pandas.types import to_arrow_schema

    rows.mapInArrow(scored, spark_schema(columns(scored, to_arrow_schema(rows.schema)))).write.parquet(args.output)
    return {"output": args.output}


def spark_schema(schema: pa.Schema):
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    for name, help in {"refit": "EM over all rows, to convergence", "score": "whiten and score all rows"}.items():
        c = commands.add_parser(name, help=help)
        c.add_argument("--model", required=True, metavar="FILE", help="the model, of this machine or from --files of spark-submit")
        c.add_argument("--input", required=True, action="extend", nargs="+", metavar="PATH", help="Parquet files, directories or patterns; or one Iceberg table, CATALOG.DB.TABLE[.snapshot_id_ID]")
        c.add_argument("--output", required=True, metavar="PATH", help="the next model, a file of this machine" if name == "refit" else "a directory of Parquet that does not exist yet")
        c.add_argument("--lca-stream", default="lca-stream", metavar="BINARY", help="the program: a name from --files of spark-submit or in PATH, or a path on all machines")
        c.add_argument("--json", action="store_true", help="the last line of standard output is one JSON object")
        if name == "refit":
            c.add_argument("--iterations", type=int, default=30, metavar="N", help="most EM steps; 0: to convergence (default 30)")
            c.add_argument("--tolerance", type=float, default=1e-6, metavar="T", help="converged when a step gains less, nats per row (default 1e-6)")
    return p.parse_args()


def main() -> int:
    args = arguments()
    try:
        from pyspark.errors import AnalysisException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as err:
        print(f"lca_spark: {err}: run it with spark-submit", file=sys.stderr)
        return 2

    spark = SparkSession.builder.appName(f"lca-stream {args.command}").getOrCreate()
    try:
        result = (refit_on if args.command == "refit" else score_on)(spark, args)
    except Exception as err:
        words = re.search(r"^(?:\w+\.)*Failed: (.*)$", str(err), re.MULTILINE)  # Spark hands over an executor's fault as text
        if not words and not isinstance(err, (Failed, OSError, AnalysisException)):
            raise
        print(f"lca_spark: {words[1] if words else str(err).splitlines()[0]}", file=sys.stderr)
        return 2
    finally:
        spark.stop()
    if args.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
