"""A transformer of scikit-learn. Needs scikit-learn: ``pip install 'lca-stream[sklearn]'``."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lca_stream._files import read_model
from lca_stream._model import Model


class LCATransformer(TransformerMixin, BaseEstimator):
    """Whitens rows by a model of lca-stream, and scores them.

    Parameters
    ----------
    model : Model, path or None
        A model that was learnt before: ``fit`` then learns nothing, and checks the number of columns. With None, ``fit``
        learns one from X by the program ``lca-stream replay``.
    algorithm : str
        What learns it: an ``--algorithm`` of ``lca-stream replay``.
    settings : dict or None
        Settings of that run by their configuration keys, such as ``{"lca.preset": "density"}``.
    binary : str
        The program, in PATH or by its path.

    Attributes
    ----------
    model_ : Model
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X had names
    """

    def __init__(self, model=None, *, algorithm="lca-gauss", settings=None, binary="lca-stream"):
        self.model = model
        self.algorithm = algorithm
        self.settings = settings
        self.binary = binary

    def fit(self, X, y=None):
        """Learns a model from X, shape (rows, d), or takes the one that was given. y is ignored."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self.model_ = self._learn(X) if self.model is None else self._given()
        return self

    def transform(self, X):
        """The whitened rows, float32, shape (rows, d)."""
        return self.model_.whiten(self._check(X))

    def inverse_transform(self, X):
        """The rows of which X is the whitened form. A column that has been constant has the mean."""
        check_is_fitted(self)
        return np.asarray(X, float) @ np.linalg.pinv(self.model_.whitening).T + self.model_.mean

    def score_samples(self, X):
        """log p(x) of each row: low for rows that are unusual. ``lca_score`` is its negative."""
        return -self.model_.score(self._check(X))

    def score(self, X, y=None):
        """The mean of log p(x)."""
        return float(np.mean(self.score_samples(X)))

    def p_value(self, X):
        """The probability of a score at least as high, as ``lca_p`` has it."""
        return self.model_.p_value(self._check(X))

    def why(self, X, most=3):
        """The guilty columns of each row and their nats, as ``lca_why`` has them."""
        return self.model_.why(self._check(X), most)

    def get_feature_names_out(self, input_features=None):
        check_is_fitted(self)
        return np.array([f"lca{k}" for k in range(self.n_features_in_)], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # float32 whatever X is, as on the topic
        return tags

    def _check(self, X):
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _given(self) -> Model:
        model = self.model if isinstance(self.model, Model) else read_model(self.model)
        if self.n_features_in_ != len(model.mean):
            raise ValueError(f"X has {self.n_features_in_} features, but the model has {len(model.mean)}: {model.features}")
        names = list(getattr(self, "feature_names_in_", model.features))
        if names != model.features:
            raise ValueError(f"X has the columns {names}, but the model has {model.features}: give them in its order")
        return model

    def _learn(self, X) -> Model:
        names = list(getattr(self, "feature_names_in_", [f"x{k}" for k in range(X.shape[1])]))
        with tempfile.TemporaryDirectory() as directory:
            rows, model, config = (os.path.join(directory, name) for name in ("rows.arrow", "model.arrows", "config.json"))
            table = pa.table({name: X[:, k] for k, name in enumerate(names)})
            with pa.ipc.new_file(rows, table.schema) as f:
                f.write_table(table)
            with open(config, "w") as f:
                # JSON is YAML, in which the program would take ${NAME} for a variable of the environment.
                json.dump({"source": {"features": [name.replace("${", "$${") for name in names]}}, f)
            command = [self.binary, "replay", "-c", config, "--algorithm", self.algorithm, "--sample", str(len(X))]
            command += ["--input", rows, "--output", model]
            for key, value in (self.settings or {}).items():
                command += ["--set", f"{key}={value}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except FileNotFoundError as err:
                raise RuntimeError(f"fit runs the program {self.binary}, which is not there: install it, give its path as binary, or give a model") from err
            if done.returncode != 0:
                raise ValueError(f"lca-stream replay: {done.stderr.strip()}")
            return read_model(model)
