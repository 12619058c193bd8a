"""Reads what lca-stream writes: whitened rows and models, from Kafka, files and bytes.

    model = lca_stream.read_model("model.arrows")
    model.whiten(X), model.score(X), model.p_value(X), model.why(X)

    for rows in lca_stream.read_rows("whitened", "localhost:9092"): ...
    X = model.matrix(rows)
    newest = lca_stream.read_models("lca-snapshots", "localhost:9092")["default"]

    lca_stream.backtest(frame, time="at").episodes    # what a live stream would have told of these rows

``lca_stream.sklearn.LCATransformer`` is the same as a transformer of scikit-learn.
"""

from lca_stream._backtest import Backtest, backtest
from lca_stream._columns import matrix
from lca_stream._files import FormatError, model_from_bytes, read_model
from lca_stream._kafka import read_models, read_rows
from lca_stream._model import Model
from lca_stream._registry import Registry
from lca_stream._rows import rows_from_bytes

__version__ = "0.2.0"
__all__ = ["Backtest", "FormatError", "Model", "Registry", "backtest", "matrix", "model_from_bytes", "read_model", "read_models", "read_rows", "rows_from_bytes"]
