import os
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from lca_stream.sklearn import LCATransformer


@parametrize_with_checks([LCATransformer(binary=os.environ["LCA_STREAM"])])
def test_conventions(estimator, check):
    check(estimator)


def test_a_given_model_is_taken(learnt):
    model, path, X = learnt
    for given in (model, str(path), path):
        t = LCATransformer(given).fit(X)
        assert (t.transform(X) == model.whiten(X)).all()
        assert (t.score_samples(X) == -model.score(X)).all() and (t.p_value(X) == model.p_value(X)).all()
    again = pickle.loads(pickle.dumps(t))
    assert (again.transform(X) == model.whiten(X)).all()


def test_other_columns_are_refused(learnt):
    model, _, X = learnt
    with pytest.raises(ValueError, match="X has 3 features, but the model has 4"):
        LCATransformer(model).fit(X[:, :3])
    with pytest.raises(ValueError, match="in its order"):
        LCATransformer(model).fit(pd.DataFrame(X, columns=["x1", "x0", "x2", "x3"]))
    LCATransformer(model).fit(pd.DataFrame(X, columns=model.features))


def test_inverse(learnt):
    model, _, X = learnt
    t = LCATransformer(model).fit(X)
    assert np.allclose(t.inverse_transform(t.transform(X)), X, atol=1e-4)


def test_in_a_pipeline(binary):
    rng = np.random.default_rng(3)
    label = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 6))
    X[:, 0] = 0.05 * X[:, 0] + label
    frame = pd.DataFrame(X @ rng.normal(size=(6, 6)), columns=['a,b', 'c"', "d:", "[e]", " f", "g#"])
    found = make_pipeline(
        LCATransformer(binary=binary, settings={"transform.components": "parzen", "lca.nu_unit": "covariance"}),
        KMeans(3, n_init=10, random_state=0),
    ).fit_predict(frame)
    same = pd.crosstab(label, found).max(axis=1).sum() / len(label)
    assert same > 0.95


def test_a_missing_program_is_said(learnt):
    with pytest.raises(RuntimeError, match="give a model"):
        LCATransformer(binary="no-such-program").fit(learnt[2])
    with pytest.raises(ValueError, match="lca-gaus"):
        LCATransformer(binary=os.environ["LCA_STREAM"], algorithm="lca-gaus").fit(learnt[2])


def test_a_column_is_no_window_on_the_environment(binary, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    names = ["${SECRET_TOKEN}", "$${SECRET_TOKEN}", "${", "a$"]
    X = np.random.default_rng(4).normal(size=(300, 4))
    assert LCATransformer(binary=binary).fit(pd.DataFrame(X, columns=names)).model_.features == names
    with pytest.raises(ValueError) as refused:
        LCATransformer(binary=binary, settings={"source.features": "other"}).fit(pd.DataFrame(X, columns=names))
    assert "hunter2" not in str(refused.value)
