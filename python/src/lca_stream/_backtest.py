"""Backtests of rows in memory, by the program."""

import json
import os
import subprocess
import tempfile
from typing import NamedTuple

import pyarrow as pa


class Backtest(NamedTuple):
    """What a live stream would have told of rows."""

    episodes: pa.Table | object  # a row for each, as in the records of alarms.topic, flat: from_row, to_row, cause, …
    rows: pa.Table | object  # the rows with what the transform adds
    result: dict  # the figures of --json


def backtest(rows, *, time="", key="", labels="", features=(), until="", settings=None, page=None, binary="lca-stream"):
    """Scores rows as a live stream would, and tells the episodes.

    rows is a frame of pandas or polars, or an Arrow table, in the order of time; episodes and rows come back as the same kind. time, key and labels name
    columns; those of time and key are chosen where "" stands, and None is none. until is the number of rows that are known to be normal, or a time. settings
    are those of --set. page names a file for the page. The program binary does the work.
    """
    table = rows if isinstance(rows, pa.Table) else rows.to_arrow() if hasattr(rows, "to_arrow") else pa.Table.from_pandas(rows, preserve_index=False)
    with tempfile.TemporaryDirectory() as directory:
        given, scored, told = (os.path.join(directory, name) for name in ("rows.arrow", "scored.arrow", "episodes.json"))
        with pa.ipc.new_file(given, table.schema) as f:
            f.write_table(table)
        command = [binary, "backtest", given, "--rows", scored, "--episodes", told, "--json"]
        for name, value in (("time", time), ("key", key), ("labels", labels), ("until", until)):
            if value is None or value != "":
                command.append(f"--{name}={'' if value is None else value}")
        for name in features:
            command.append('--features="' + name.replace('"', '""') + '"')
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        if page is not None:
            command += ["--output", os.fspath(page)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as err:
            raise RuntimeError(f"backtest runs the program {binary}, which is not there: install it, or give its path as binary") from err
        if done.returncode != 0:
            raise ValueError(f"lca-stream backtest: {done.stderr.strip()}")
        with open(told, encoding="utf-8") as f:
            episodes = _episodes(json.load(f))
        with open(scored, "rb") as f:
            out = pa.ipc.open_file(f).read_all()
    return Backtest(_like(rows, episodes), _like(rows, out), json.loads(done.stdout.splitlines()[-1]))


_EPISODE = pa.schema(
    [("id", pa.string()), ("series", pa.string()), ("from_row", pa.int64()), ("to_row", pa.int64()), ("from_time", pa.timestamp("us", "UTC")),
     ("to_time", pa.timestamp("us", "UTC")), ("rows", pa.int64()), ("peak_score", pa.float64()), ("peak_p", pa.float64()), ("open", pa.bool_()),
     ("young", pa.bool_()), ("cause", pa.string()), ("direction", pa.string()), ("message", pa.string())]
)  # fmt: skip


def _episodes(records) -> pa.Table:
    def time(text):
        return None if text is None else pa.scalar(text).cast(pa.timestamp("us", "UTC")).as_py()

    def flat(r):
        first = (r["causes"] or [{}])[0]
        return {
            "id": r["id"], "series": r["series"], "from_row": r["from"]["row"], "to_row": r["to"]["row"], "from_time": time(r["from"]["time"]),
            "to_time": time(r["to"]["time"]), "rows": r["rows"], "peak_score": r["peak"]["score"], "peak_p": r["peak"]["p"],
            "open": r["type"] != "episode_closed", "young": r["young"], "cause": first.get("feature"), "direction": first.get("direction"), "message": r["message"],
        }  # fmt: skip

    return pa.Table.from_pylist([flat(r) for r in records], schema=_EPISODE)


def _like(rows, table: pa.Table):
    """A table as the kind of frame that rows is."""
    if isinstance(rows, pa.Table):
        return table
    if hasattr(rows, "to_arrow"):
        import polars

        return polars.from_arrow(table)
    return table.to_pandas()
