import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lca_stream


def frame():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(3000, 3))
    X[2500:2700, 1] += 6
    rows = pd.DataFrame(X, columns=["a", 'b "x", c', "c"])
    rows["at"] = pd.Timestamp("2026-05-01T00:00:00Z") + pd.to_timedelta(np.arange(3000), unit="min")
    rows["faulty"] = ((np.arange(3000) >= 2500) & (np.arange(3000) < 2700)).astype(int)
    return rows


def test_a_fault_is_an_episode(binary, tmp_path):
    rows, page = frame(), tmp_path / "rows.html"
    found = lca_stream.backtest(rows, labels="faulty", until=2000, settings={"alarms.budget": "1/week"}, page=page, binary=binary)
    assert isinstance(found.episodes, pd.DataFrame) and len(found.rows) == 3000
    clearest = found.episodes.sort_values("peak_score").iloc[-1]
    assert 2495 <= clearest["from_row"] <= 2510 and clearest["cause"] == 'b "x", c' and clearest["direction"] == "up"
    assert clearest["from_time"] == rows["at"][clearest["from_row"]]
    assert set(found.rows["lca_episode"].dropna()) == set(found.episodes["id"])
    assert found.result["met"] == found.result["faults"] == 1 and "</html>" in page.read_text()
    again = lca_stream.backtest(pa.Table.from_pandas(rows), features=["a", 'b "x", c'], labels="faulty", time=None, key=None, binary=binary)
    assert isinstance(again.episodes, pa.Table) and again.episodes["from_time"].null_count == len(again.episodes) > 0


def test_frames_of_polars(binary):
    polars = pytest.importorskip("polars")
    found = lca_stream.backtest(polars.from_pandas(frame()), labels="faulty", binary=binary)
    assert isinstance(found.episodes, polars.DataFrame) and isinstance(found.rows, polars.DataFrame)


def test_faults_are_told(binary):
    with pytest.raises(ValueError, match="there are 0 columns"):
        lca_stream.backtest(frame(), labels="no", binary=binary)
    with pytest.raises(RuntimeError, match="which is not there"):
        lca_stream.backtest(frame(), binary="no-such-program")
