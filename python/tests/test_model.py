from math import exp, gamma, log, pi

import numpy as np
import pytest


def by_hand(model, x):
    """−log p(x) by the formula of docs/wire-format.md, one kernel after the other."""
    active = [k for k in range(len(model.mean)) if k != 2]
    square = np.hstack([model.gaussian, model.parzen])[active]
    p, nu, parzen = model.parzen.shape[1], int(model.metadata["lca.dof"]), 0.0
    for neighbour in model.neighbours:
        delta = ((model.parzen.T @ (x - model.mean - neighbour)) ** 2).sum()
        if nu:
            parzen += gamma((nu + p) / 2) / gamma(nu / 2) / (nu * pi) ** (p / 2) * (1 + delta / nu) ** (-(nu + p) / 2)
        else:
            parzen += exp(-delta / 2) / (2 * pi) ** (p / 2)
    g = model.gaussian.T @ (x - model.mean)
    rest = g @ g / 2 + (len(active) - p) / 2 * log(2 * pi) - log(abs(np.linalg.det(square)))
    moved = abs(x[2] - model.mean[2]) / (1e-6 * abs(model.mean[2]))
    if moved > 1:
        rest += (10 * (1 + log(moved / 10)) if moved > 10 else moved) ** 2 / 2
    return rest - log(parzen / len(model.neighbours))


def test_score_is_the_formula(learnt):
    model, _, X = learnt
    x = X[:20] + 0.3
    x[:10, 2], x[10, 2], x[11, 2] = 5, 5 + 1e-6, 5 + 2e-5  # the constant column
    assert model.score(x) == pytest.approx([by_hand(model, row) for row in x], rel=1e-9)


def test_rows_that_are_not_finite_have_nan(learnt):
    model, _, X = learnt
    x = X[:4].copy()
    x[1, 0], x[2, 3] = np.nan, np.inf
    for result in (model.score(x), model.p_value(x), model.whiten(x)[:, 0], model.why(x)[1][:, 0]):
        assert list(np.isnan(result)) == [False, True, True, False]


def test_rows_beyond_float32(learnt):
    """What is too large to be whitened has NaN, as it has null on the topic; a score goes no further than float32."""
    model, _, X = learnt
    x = X[:4].copy()
    x[1, 0], x[2, 3], x[3, 1] = 1e154, -1e300, 1e25
    y, score, p = model.whiten(x), model.score(x), model.p_value(x)
    assert np.isnan(y[1:3]).all() and np.isnan(score[1:3]).all() and np.isnan(p[1:3]).all()
    assert np.isfinite(y[[0, 3]]).all() and score[3] == np.finfo(np.float32).max and p[3] == 1e-12


def test_a_model_shows_itself_in_a_line(learnt):
    model, _, _ = learnt
    assert repr(model).startswith(f"<lca_stream.Model {model.model_id!r} version {model.version}: {len(model.mean)} features, ")


def test_whitened_neighbours_are_local(learnt):
    model, _, X = learnt
    assert model.whiten(X).dtype == np.float32
    assert np.allclose(model.whiten(X), (X - model.mean) @ model.whitening.T, atol=1e-4)


def test_p_is_a_rank_and_then_a_tail(learnt):
    model, _, X = learnt
    n = len(model.scores)
    assert model.p_of_score(model.scores[0] - 1) == pytest.approx(1)
    assert model.p_of_score(model.scores[n // 2]) == pytest.approx((n - n // 2 + 1) / (n + 1))
    tail = np.linspace(model.scores[-1], model.scores[-1] + 50, 100)
    p = model.p_of_score(tail)
    assert (np.diff(p) <= 0).all() and p.min() >= 1e-12 and p[0] < 0.1
    assert np.isnan(model.p_of_score(np.nan))


def test_why_is_what_the_best_other_value_gains(learnt):
    model, _, X = learnt
    x = X[5].copy()
    x[1] += 60  # so far that one neighbour, or none but the Gaussian, rules
    columns, nats = model.why(x[None], most=4)
    assert columns[0, 0] == 1
    candidates = np.repeat(x[None], 40001, 0)
    candidates[:, 1] = np.linspace(x[1] - 120, x[1] + 60, 40001)
    assert nats[0, 0] == pytest.approx(model.score(x[None])[0] - model.score(candidates).min(), rel=0.1)
    assert (np.diff(nats[0]) <= 0).all()
    assert nats[0][columns[0] == 2] == 0  # the constant column
    x[2] = 5.1
    columns, nats = model.why(x[None], most=1)
    assert columns[0, 0] == 2 and nats[0, 0] == pytest.approx(model.score(x[None])[0] - model.score(np.array([[*x[:2], 5, x[3]]]))[0])


def test_filled_is_the_mean_of_the_density(learnt):
    model, _, X = learnt
    x = X[3].copy()
    x[1], x[2] = np.nan, np.nan  # the second is constant
    filled = model.impute(np.array([X[0], x, [np.inf, np.nan, 5, 0]]))
    assert (filled[0] == X[0]).all() and filled[1, 2] == model.mean[2] and np.isnan(filled[2, 1])
    candidates = np.repeat(filled[1][None], 40001, 0)
    candidates[:, 1] = filled[1, 1] + np.sinh(np.linspace(-12, 12, 40001))
    score = model.score(candidates)
    weight = np.exp(score.min() - score) * np.cosh(np.linspace(-12, 12, 40001))
    # With t kernels next to a Gaussian part the formula is not exact.
    exact = int(model.metadata["lca.dof"]) == 0 or model.gaussian.shape[1] == 0
    assert filled[1, 1] == pytest.approx(weight @ candidates[:, 1] / weight.sum(), abs=1e-6 if exact else 0.1 * X[:, 1].std())
    nothing = model.impute(np.full((1, 4), np.nan))[0]
    assert nothing[[0, 1, 3]] == pytest.approx((model.mean + model._mixture[1].mean(0) @ np.eye(4)[[0, 1, 3]])[[0, 1, 3]])


def test_shape_is_checked(learnt):
    model, _, _ = learnt
    with pytest.raises(ValueError, match=r"wants \(rows, 4\)"):
        model.score(np.zeros(4))


def test_blocks_do_not_change_scores(learnt, monkeypatch):
    model, _, X = learnt
    whole = model.score(X), model.why(X)[1]
    monkeypatch.setattr("lca_stream._model.BLOCK", 1)
    assert np.allclose(model.score(X), whole[0], rtol=1e-12) and np.allclose(model.why(X)[1], whole[1], rtol=1e-9)
