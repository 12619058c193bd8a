"""What runs in executors and what makes models of it, with plain processes in Spark's place: go test ./cmd/lca-stream -run TestSparkJob."""

import json
import random
import subprocess
from functools import partial
from pathlib import Path

import lca_spark
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def write(path: Path, x: np.ndarray, group: int) -> str:
    columns = {"id": [f"row {i}" for i in range(len(x))], "a": pa.array(x[:, 0], from_pandas=True), "b": x[:, 1].astype(np.float32)}
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return str(path)


def clusters(rows: int) -> np.ndarray:
    r = np.random.default_rng(7)
    side = r.integers(2, size=rows)
    return np.stack([50 + 9 * side, 3 * side], 1) + r.normal(size=(rows, 2))


def replay(path: Path, files: list[str], *flags: str) -> dict:
    inputs = [word for file in files for word in ("--input", file)]
    settings = ["--set", "source.features=[a, b]", "--set", "lca.nu_unit=covariance", "-o", str(path), "--json"]
    done = subprocess.run(["lca-stream", "replay", "--algorithm", "lca-gauss", *flags, *inputs, *settings], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row_groups(files: list[str]) -> list[pa.Table]:
    """What Spark hands to a task each: rows with their places."""
    found = []
    for file in files:
        rows, at = pq.ParquetFile(file), 0
        for group in range(rows.num_row_groups):
            table = rows.read_row_group(group, columns=["a", "b"])
            table = table.append_column(lca_spark.FILE, pa.array([file] * table.num_rows))
            found.append(table.append_column(lca_spark.ROW, pa.array(range(at, at + table.num_rows))))
            at += table.num_rows
    return found


def refit(files: list[str], model: Path, output: Path, iterations: int, order: random.Random, most: int = 0, tolerance: float = 0) -> tuple[dict, list[int]]:
    """A refit whose steps hand out the row groups in any order and batches, and two of different files as one task. Returns the steps' limits, too."""
    found = sorted(tuple(part.values()) for group in row_groups(files) for batch in lca_spark.parts(group.to_batches(40)) for part in batch.to_pylist())
    numbers, limits = {(file, row): i for i, (file, row, _) in enumerate(found)}, []

    def step(frozen: bytes, limit: int) -> list[dict]:
        limits.append(limit)
        first, *between, last = row_groups(files)
        work = [*between, pa.concat_tables([first, last]).combine_chunks()]
        order.shuffle(work)
        sums = partial(lca_spark.expect, binary="lca-stream", model=frozen, numbers=numbers, limit=max(limit, most))
        return [row for group in work for batch in sums(group.to_batches(order.randint(30, 200))) for row in batch.to_pylist()]

    rows = sum(rows for *_, rows in found)
    return lca_spark.refit(step, rows, "lca-stream", str(model), str(output), {"lake.table": "a, b=c"}, iterations, tolerance), limits


def test_refit_is_replay_whoever_sums(tmp_path):
    x = clusters(800)
    files = [write(tmp_path / "a.parquet", x[:400], 150), write(tmp_path / "b.parquet", x[400:], 150)]
    replay(tmp_path / "first.arrows", files, "--passes", "1")
    results = [refit(files, tmp_path / "first.arrows", tmp_path / f"{seed}.arrows", 3, random.Random(seed))[0] for seed in range(2)]
    assert results[0] == results[1]
    assert (results[0]["rows"], results[0]["parts"], results[0]["neighbours"]) == (800, 6, 800)
    assert results[0]["nll"] == pytest.approx(replay(tmp_path / "whole.arrows", files, "--passes", "3")["nll"], abs=1e-6)
    assert lca_spark.metadata_of(str(tmp_path / "0.arrows"))["lake.table"] == "a, b=c"


@pytest.mark.parametrize("valid, steps", [(1, 1), (50, 2)])
def test_neighbours_are_a_sample_of_all_rows(tmp_path, valid, steps):
    """Most candidates stay in the executors, and the result is as if all came. Where few rows are valid, too few come: the step is taken again."""
    x = clusters(6000)
    x[np.arange(len(x)) % valid > 0, 0] = np.nan
    files = [write(tmp_path / "a.parquet", x[:3050], 2000), write(tmp_path / "b.parquet", x[3050:], 3000)]
    replay(tmp_path / "first.arrows", files, "--passes", "1", "--sample", "50")
    some, limits = refit(files, tmp_path / "first.arrows", tmp_path / "some.arrows", 1, random.Random(1))
    everything, _ = refit(files, tmp_path / "first.arrows", tmp_path / "all.arrows", 1, random.Random(2), most=lca_spark.EVERY)
    assert some == everything
    assert (some["rows"], some["neighbours"], len(limits)) == (6000 // valid, 50, steps)
    assert limits[0] < lca_spark.EVERY / 4


def test_refit_ends_when_a_step_gains_little(tmp_path):
    files = [write(tmp_path / f"{name}.parquet", part, 600) for name, part in zip("ab", np.split(clusters(400), 2))]
    replay(tmp_path / "first.arrows", files, "--passes", "1")
    _, limits = refit(files, tmp_path / "first.arrows", tmp_path / "next.arrows", 0, random.Random(1), tolerance=0.01)
    assert 3 <= len(limits) < 12
    _, again = refit(files, tmp_path / "next.arrows", tmp_path / "next.arrows", 0, random.Random(1), tolerance=0.01)
    assert len(again) == 3


def test_score_is_transform(tmp_path):
    """Values as the offline transform's, with all columns of the rows, also of rows that cannot be whitened; and the columns are known without rows."""
    x = clusters(500)
    x[::50, 0] = np.nan
    file, model = write(tmp_path / "a.parquet", x, 250), str(tmp_path / "first.arrows")
    replay(tmp_path / "first.arrows", [file], "--passes", "2")
    table = pq.read_table(file).append_column("site", pa.array([{"line": i % 3, "tags": ["x"] * (i % 2)} for i in range(500)]))
    with pa.ipc.new_stream(tmp_path / "rows.arrows", table.schema) as out:
        out.write_table(table)
    subprocess.run(["lca-stream", "transform", "--model", model, "--input", str(tmp_path / "rows.arrows"), "--output", str(tmp_path / "want.arrows"), *lca_spark.ROWS_ALONE], check=True, capture_output=True)
    want = pa.ipc.open_stream(tmp_path / "want.arrows").read_all()
    scored = partial(lca_spark.score, binary="lca-stream", model=Path(model).read_bytes())
    got = pa.Table.from_batches(scored(table.to_batches(max_chunksize=70)))
    assert got.column_names == ["id", "a", "b", "site", "lca", "lca_score", "lca_p"]
    assert got["lca"].null_count == 10 and got["lca"].type == pa.list_(pa.field("item", pa.float32(), nullable=False))
    for name in got.column_names:
        assert got[name].to_pylist() == want[name].to_pylist(), name
    assert list(scored([])) == []
    assert lca_spark.columns(scored, table.schema) == got.schema


def numbered(batches: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": np.arange(i * 20_000, (i + 1) * 20_000)}) for i in range(batches)]


def test_pipe_holds_more_than_any_buffer():
    assert list(lca_spark.pipe(["cat"], numbered(50))) == numbered(50)


@pytest.mark.parametrize("script, says", [
    ("printf '{\"rows\":1}\\nno such feature\\nsend it\\n' >&2; exit 2", "exit code 2: no such feature send it$"),
    ("head -c 1000 > /dev/null; echo the rows end; exit 3", "exit code 3"),
    ("cat | head -c 500000; echo out of memory >&2; exit 1", "exit code 1: out of memory"),
    ("cat > /dev/null", "exit code 0"),
    ("kill -9 $$", "exit code -9"),
])
def test_pipe_says_what_the_program_says(script, says):
    with pytest.raises(lca_spark.Failed, match=says):
        list(lca_spark.pipe(["sh", "-c", script], numbered(50)))


def test_pipe_does_not_take_an_answer_to_some_rows_for_all(tmp_path):
    with pa.ipc.new_stream(tmp_path / "answer.arrows", numbered(1)[0].schema) as out:
        out.write_batch(numbered(1)[0])
    with pytest.raises(lca_spark.Failed, match="exit code 0: .*Broken pipe"):
        list(lca_spark.pipe(["cat", str(tmp_path / "answer.arrows")], numbered(50)))


def test_pipe_does_not_take_broken_rows_for_all():
    def rows():
        yield from numbered(3)
        raise OSError("the file system is away")

    with pytest.raises(OSError, match="the file system is away"):
        list(lca_spark.pipe(["cat"], rows()))


def test_rows_that_change_are_refused(tmp_path):
    files = [write(tmp_path / f"{name}.parquet", clusters(100), 100) for name in "ab"]
    replay(tmp_path / "first.arrows", files, "--passes", "1")
    model = (tmp_path / "first.arrows").read_bytes()
    with pytest.raises(lca_spark.Failed, match="b.parquet has changed"):
        list(lca_spark.expect(row_groups(files[1:])[0].to_batches(), "lca-stream", model, {(files[0], 0): 0}, lca_spark.EVERY))
    with pytest.raises(lca_spark.Failed, match="100 rows of 101"):
        lca_spark.refit(
            lambda frozen, limit: [r for b in lca_spark.expect(row_groups(files)[0].to_batches(), "lca-stream", frozen, {(files[0], 0): 0}, limit) for r in b.to_pylist()],
            101, "lca-stream", str(tmp_path / "first.arrows"), str(tmp_path / "next.arrows"), {}, 1, 0)
