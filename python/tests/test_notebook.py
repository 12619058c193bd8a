import json
import os
import pathlib

NOTEBOOK = pathlib.Path(__file__).parents[2] / "docs" / "backtest.ipynb"


def test_the_notebook_runs(binary, tmp_path, monkeypatch):
    """Its cells run one after the other, with the program on the path, and the fault in it is met."""
    (tmp_path / "lca-stream").symlink_to(os.path.abspath(binary))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    result = names["found"].result
    assert result["faults"] == result["met"] == 1 and names["outside"] == 0
