"""Boosting the anchor loss: formulas against finite differences, dense projections, other software, brute force."""

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags

import anchortm as atm
from anchortm.bases import LogLinearBasis
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.engine.solve.newton import expand
from anchortm.exceptions import (
    AnchorTMError,
    AnchorTMWarning,
    IdentificationError,
    InputError,
    InputTypeError,
    ModelFileError,
)
from anchortm.inputs.parts import refusal
from anchortm.models.boosted.booster import Booster
from anchortm.models.boosted.growth import binned, grow
from anchortm.saving import digest

N = 160


def rows(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariates, sites and a shift that is not linear."""
    rng = np.random.default_rng(seed)
    site, hidden = rng.integers(0, 6, n), rng.normal(size=n)
    X = rng.normal(size=(n, 3)) + 0.3 * site[:, None] + hidden[:, None]
    return X, site, np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + hidden + 0.2 * site


def outcomes(n: int = N) -> dict[str, tuple[Any, Any]]:
    """Return models and outcomes of every kind."""
    _, _, f = rows(n=n)
    rng = np.random.default_rng(1)
    y = f + rng.logistic(size=n)
    t, seen = np.exp(y / 2), rng.uniform(size=n)
    lower, upper = np.where(seen < 0.3, -np.inf, y - seen), np.where(seen > 0.8, np.inf, y + seen)
    entry = np.where(rng.uniform(size=n) < 0.5, 0.3 * t, 0.0)
    return {
        "normal": (atm.NormalLinear(), y),
        "probit, exact": (atm.ContinuousProbit(order=4), y),
        "logit, right": (atm.ContinuousLogit(order=4), atm.Surv(t, seen < 0.6)),
        "probit, all kinds": (atm.AnchorTM(link="probit", order=3), atm.Interval(lower, upper)),
        "cloglog, truncated": (atm.ProportionalHazards(order=3), atm.Surv(t, seen < 0.7, entry)),
        "loglog, left": (atm.Lehmann(order=3), atm.Interval(np.where(seen < 0.4, -np.inf, y), y)),
        "classes": (atm.OrdinalRegression(), np.digitize(y, [-1.0, 0.5, 2.0])),
        "counts": (atm.CountRegression(order=3), np.floor(t).astype(int)),
    }


CASES = outcomes()


def booster(name: str, xi: float = 2.0, weights: Any = None) -> Booster:
    base, y = CASES[name]
    base = clone(base).set_params(xi=xi)
    problem = base.problem(None, y, anchors=rows()[1], sample_weight=weights)
    return Booster(problem.spec, problem.data)


def dense_loss(b: Booster, f: np.ndarray, theta: np.ndarray) -> float:
    """Return the loss as the paper prints it, with P a matrix."""
    A = np.eye(6)[np.asarray(rows()[1])[b.order]]
    w = np.ones(N) if b.data.weights is None else b.data.weights
    P = A @ np.linalg.solve(A.T @ (w[:, None] * A), (A * w[:, None]).T)
    loglik, r = loglik_and_residuals(b.link, build_terms(b.basis, b.data.response), theta, b.sign * f)
    return float((-(w @ loglik) + b.xi * (P @ r) @ (w * (P @ r))) / w.sum())


@pytest.mark.parametrize("name", CASES)
def test_pseudo_residuals_are_the_slope_of_the_loss(name: str) -> None:
    weights = np.random.default_rng(2).uniform(0.5, 2.0, N)
    b = booster(name, weights=weights)
    b.put(0.3 * np.sin(np.arange(N)), b.solution.v)
    theta = b.parameters[0]
    found, step = -b.pseudo_residuals() / weights.sum(), 1e-5
    for i in range(0, N, 7):
        e = step * (np.arange(N) == i)
        slope = (dense_loss(b, b.f + e, theta) - dense_loss(b, b.f - e, theta)) / (2 * step)
        assert found[i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kinds", ["numbers", "two factors", "factor and number"])
def test_projection_is_the_dense_one(kinds: str) -> None:
    rng = np.random.default_rng(4)
    base, y = CASES["logit, right"]
    _, site, _ = rows()
    year, number, weights = rng.integers(0, 4, N), rng.normal(size=N), rng.uniform(0.5, 2.0, N)
    columns = {"numbers": [number], "two factors": [site, year], "factor and number": [site, number]}[kinds]
    problem = clone(base).set_params(xi=1.0).problem(None, y, anchors=columns, sample_weight=weights)
    b = Booster(problem.spec, problem.data)
    A = np.column_stack([np.ones(N), *(np.eye(6)[c] if c.dtype.kind == "i" else c for c in columns)])[b.order]
    w, values = weights[b.order], rng.normal(size=N)
    root = np.sqrt(w)[:, None]
    expected = A @ np.linalg.lstsq(root * A, root[:, 0] * values, rcond=1e-10)[0]
    np.testing.assert_allclose(b.project(values), expected, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("by", ["leaves", "columns"])
def test_gradient_and_hessian_of_leaves_are_those_of_the_loss(name: str, by: str) -> None:
    b = booster(name)
    b.put(0.3 * np.sin(np.arange(N)), b.solution.v)
    leaf = np.random.default_rng(3).integers(0, 4, N)
    Z = np.eye(4)[leaf]
    objective = b.with_leaves(leaf, 4) if by == "leaves" else b.with_columns(Z)
    k = b.solution.v.size
    v = np.append(b.solution.v, np.zeros(4))
    # columns are centred inside: leaf values move the constant too, and the map takes account of it
    J = np.linalg.inv(objective.coordinates.jacobian) if objective.coordinates.jacobian.shape[0] == v.size else None
    state = expand(objective, v, objective.sums(v), b.xi)
    theta = objective.coordinates.split(v)[0]
    assert J is not None
    own = J[:, k:]  # dv / d(leaf values) at fixed theta
    gradient, hessian, step = own.T @ state.gradient, own.T @ state.hessian @ own, 1e-4
    E = step * np.eye(4)

    def loss(values: np.ndarray) -> float:
        return dense_loss(b, b.f + Z @ values, theta)

    for i in range(4):
        assert gradient[i] == pytest.approx((loss(E[i]) - loss(-E[i])) / (2 * step), rel=1e-6, abs=1e-7)
        for j in range(4):
            four = loss(E[i] + E[j]) - loss(E[i] - E[j]) - loss(E[j] - E[i]) + loss(-E[i] - E[j])
            assert hessian[i, j] == pytest.approx(four / (4 * step**2), rel=1e-4, abs=2e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("xi", [0.0, 3.0])
def test_loss_never_rises_and_the_baseline_is_the_best_for_f(name: str, xi: float) -> None:
    base, y = CASES[name]
    X, site, _ = rows()
    model = atm.AnchorBoostedTM(base, xi, n_rounds=12).fit(X, y, anchors=site)
    history = model.loss_history_
    assert (np.diff(history.loss) < 1e-12).all()
    assert history.loss.iloc[-1] < history.loss.iloc[0] - 1e-3
    assert max(stage.kkt for stage in model.boosted_.stages) <= 1e-8
    assert all(stage.converged for stage in model.boosted_.stages)
    f = sum(tree.predict(X) for tree in model.trees_)
    alone = clone(base).set_params(xi=xi).fit(None, y, anchors=site, offset=f)  # the engine, from its own start
    assert model.loss_ == pytest.approx(alone.loss_, abs=1e-10)
    np.testing.assert_allclose(model.baseline_, alone.baseline_, atol=1e-5)
    np.testing.assert_allclose(model.nll(X, y), alone.nll(None, y, offset=f), rtol=1e-5, atol=1e-6)


LINEAR = ["normal", "logit, right", "cloglog, truncated", "classes", "counts"]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("xi", [0.0, 1.0, 10.0])
def test_linear_learner_becomes_the_linear_model(name: str, xi: float) -> None:
    base, y = CASES[name]
    X, site, _ = rows()
    model = atm.AnchorBoostedTM(base, xi, learner="linear", learning_rate=0.7, n_rounds=30).fit(X, y, anchors=site)
    linear = clone(base).set_params(xi=xi).fit(X, y, anchors=site)
    np.testing.assert_allclose(model.coef_, linear.coef_, atol=1e-8)
    np.testing.assert_allclose(model.baseline_, linear.baseline_, atol=1e-8)
    assert model.loss_ == pytest.approx(linear.loss_, abs=1e-10)
    np.testing.assert_allclose(model.residuals(X, y), linear.residuals(X, y), atol=1e-7)


def test_no_rounds_beside_a_linear_part_are_the_linear_model() -> None:
    base, y = CASES["logit, right"]
    X, site, _ = rows()
    model = atm.AnchorBoostedTM(base, 1.0, learner="linear+tree", n_rounds=0).fit(X, y, anchors=site)
    linear = clone(base).set_params(xi=1.0).fit(X, y, anchors=site)
    np.testing.assert_allclose(model.coef_, linear.coef_, atol=1e-10)
    more = atm.AnchorBoostedTM(base, 1.0, learner="linear+tree", n_rounds=10).fit(X, y, anchors=site)
    assert more.loss_ < linear.loss_
    f = sum(tree.predict(X) for tree in more.trees_)
    alone = clone(base).set_params(xi=1.0).fit(X, y, anchors=site, offset=f)
    np.testing.assert_allclose(more.coef_, alone.coef_, atol=1e-6)


def test_gaussian_case_is_l2_anchor_boosting_by_hand() -> None:
    X, site, f = rows()
    y = f + np.random.default_rng(1).normal(size=N)
    xi, rate, rounds = 3.0, 0.3, 15
    base = atm.AnchorTM(link="probit", basis=LogLinearBasis(1.0))  # h = log y - shift: a normal with deviation 1
    model = atm.AnchorBoostedTM(
        base, xi, n_rounds=rounds, learning_rate=rate, max_leaf_nodes=5, min_samples_leaf=8, l2_leaf=0.0
    ).fit(X, np.exp(y), anchors=site)
    A = np.eye(6)[site]
    M = np.eye(N) + 2 * xi * A @ np.linalg.solve(A.T @ A, A.T)  # I + (gamma - 1) P
    one = np.ones((N, 1))

    def weighted(C: np.ndarray, e: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(C.T @ M @ C, C.T @ M @ e, rcond=1e-10)[0]

    m = one @ weighted(one, y)
    for k in range(rounds):
        pull = M @ (y - m)
        problem = base.set_params(xi=xi).problem(None, np.exp(y), anchors=site)
        b = Booster(problem.spec, problem.data)
        if k == 0:
            np.testing.assert_allclose(b.pseudo_residuals(), pull[b.order], atol=1e-10)
        tree = DecisionTreeRegressor(max_leaf_nodes=5, min_samples_leaf=8).fit(X, pull)
        C = np.hstack([one, np.eye(tree.tree_.node_count)[tree.apply(X)]])
        m = m + rate * C @ weighted(C, y - m)
        m = m + one @ weighted(one, y - m)
    np.testing.assert_allclose(np.log(model.predict(X)), m, atol=1e-9)


def test_trees_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 4, 200), rng.exponential(size=200)])
    u, w = np.sin(X[:, 0]) + X[:, 1] * X[:, 2], rng.uniform(0.5, 2.0, 200)
    tree, leaf = grow(binned(X), w * u, w, 9, 6)
    values = np.bincount(leaf, w * u) / np.bincount(leaf, w)
    other = DecisionTreeRegressor(max_leaf_nodes=9, min_samples_leaf=6).fit(X, u, sample_weight=w)
    np.testing.assert_allclose(tree.with_values(values).predict(X), other.predict(X), atol=1e-12)
    assert np.array_equal(tree.apply(X), leaf)
    assert np.bincount(leaf).min() >= 6


def test_many_values_share_bins_and_rows_keep_their_leaves() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 2))
    bins = binned(X)
    assert [edges.size for edges in bins.edges] == [255, 255]
    tree, leaf = grow(bins, X[:, 0] ** 2, np.ones(5000), 8, 20, 1.0)
    assert np.array_equal(tree.apply(X), leaf)
    constant, leaf = grow(binned(np.ones((50, 1))), np.arange(50.0), np.ones(50), 8, 1)
    assert constant.leaves.size == 1
    assert not constant.apply(np.zeros((3, 1))).any()


def test_penalty_falls_with_xi() -> None:
    base, y = CASES["logit, right"]
    X, site, _ = rows()
    found = [atm.AnchorBoostedTM(base, xi, n_rounds=20).fit(X, y, anchors=site) for xi in (0.0, 1.0, 10.0, 100.0)]
    penalties = [model.penalty_ for model in found]
    assert penalties == sorted(penalties, reverse=True)
    assert penalties[-1] < 0.1 * penalties[0]
    A, r = np.eye(6)[site], found[1].residuals(X, y)
    Pr = A @ np.linalg.solve(A.T @ A, A.T @ r)
    assert found[1].penalty_ == pytest.approx(Pr @ Pr / N, rel=1e-8)


@pytest.mark.parametrize("learner", ["tree", "linear+tree", "linear"])
def test_early_stopping_keeps_the_best_round_of_held_out_environments(learner: str) -> None:
    base, y = CASES["logit, right"]
    X, site, _ = rows()
    options = {"learner": learner, "n_rounds": 60, "validation": [1, 4], "n_iter_no_change": 8}
    model = atm.AnchorBoostedTM(base, 1.0, all_rows=False, **options).fit(X, y, anchors=site)
    held_out = model.loss_history_.held_out
    assert model.n_rounds_ == held_out.argmin()
    assert model.held_out_ == [1, 4]
    assert held_out.size == min(model.n_rounds_ + 8, 60) + 1
    held = np.mean([model.nll(X[site == e], y[site == e]).mean() for e in (1, 4)])
    assert held == pytest.approx(held_out.min(), abs=1e-10)
    rest = ~np.isin(site, [1, 4])
    alone = atm.AnchorBoostedTM(base, 1.0, learner=learner, n_rounds=model.n_rounds_)
    alone.fit(X[rest], y[rest], anchors=site[rest])
    np.testing.assert_array_equal(alone.nll(X, y), model.nll(X, y))
    np.testing.assert_array_equal(alone.covariate_ranges_, model.covariate_ranges_)  # not of rows held out
    np.testing.assert_array_equal(alone.boosted_.shape.spread, model.boosted_.shape.spread)
    np.testing.assert_array_equal(alone.model_.result_.information, model.model_.result_.information)
    again = atm.AnchorBoostedTM(base, 1.0, **options).fit(X, y, anchors=site)
    whole = atm.AnchorBoostedTM(base, 1.0, learner=learner, n_rounds=model.n_rounds_).fit(X, y, anchors=site)
    np.testing.assert_array_equal(again.nll(X, y), whole.nll(X, y))


def test_each_environment_held_out_in_turn() -> None:
    base, y = CASES["classes"]
    X, site, _ = rows()
    options = {"n_rounds": 12, "n_iter_no_change": 12, "max_leaf_nodes": 4}
    model = atm.AnchorBoostedTM(base, 1.0, validation="each", **options).fit(X, y, anchors=site)
    curves = []
    for e in range(6):
        one = atm.AnchorBoostedTM(base, 1.0, validation=[e], **options).fit(X, y, anchors=site)
        curves.append(one.loss_history_.held_out)
    np.testing.assert_allclose(model.loss_history_.held_out, np.mean(curves, axis=0), atol=1e-12)
    numbers = X[:, 0] + np.random.default_rng(0).normal(size=N)
    by_number = atm.AnchorBoostedTM(base, 1.0, validation="each", cut=4, **options)
    assert len(by_number.fit(X, y, anchors=numbers, environments=numbers).held_out_) == 4


def test_staged_models_are_fits_of_fewer_rounds(tmp_path: Path) -> None:
    base, y = CASES["counts"]
    X, site, _ = rows()
    long, short = (atm.AnchorBoostedTM(base, 1.0, n_rounds=k).fit(X, y, anchors=site) for k in (10, 4))
    staged = long.staged(4)
    np.testing.assert_array_equal(staged.nll(X, y), short.nll(X, y))
    assert staged.loss_ == short.loss_
    np.testing.assert_allclose(staged.feature_importances_, short.feature_importances_)
    assert long.n_rounds_ == 10
    for other in (staged, atm.load(atm.save(long, tmp_path / "m.json")).staged(4)):
        mine, inner = short.model_, other.model_
        np.testing.assert_array_equal(inner.result_.information, mine.result_.information)
        np.testing.assert_array_equal(inner.active_, mine.active_)
        for name in ("convexity_", "n_iter_", "warnings_", "atom_"):
            assert getattr(inner, name) == getattr(mine, name)
        assert inner.result_.history == mine.result_.history
        refits = [model.refit(X[:30], y[:30], strength=5.0) for model in (other, short)]
        np.testing.assert_array_equal(refits[0].nll(X, y), refits[1].nll(X, y))
    watched = atm.AnchorBoostedTM(base, 1.0, n_rounds=6, validation=[1], n_iter_no_change=6).fit(X, y, anchors=site)
    curve = watched.loss_history_.held_out
    assert f"{curve.min():.4f}" in watched.summary().facts["rounds"]
    assert watched.staged(0).summary().facts["rounds"].startswith("not by the 1 held-out")
    assert f"{curve[0]:.4f}" in watched.staged(0).summary().facts["rounds"]
    with pytest.raises(InputError, match="n_rounds = 11 is more than the 10 rounds"):
        long.staged(11)


def shifted_target(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 5, 600)
    X = rng.normal(size=(600, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=600)
    new = rng.normal(size=(430, 2))
    there = np.sin(2 * new[:, 0]) + 1.0 * (new[:, 1] > 0) + 0.5 + 0.5 * rng.normal(size=430)
    return X, y, site, new[:30], there[:30], new[30:], there[30:]


@pytest.mark.parametrize("learner", ["tree", "linear+tree", "linear"])
def test_refit_to_a_few_rows_of_the_target_helps(learner: str) -> None:
    gains = []
    for seed in range(3):
        X, y, site, few, y_few, rest, y_rest = shifted_target(seed)
        model = atm.AnchorBoostedTM(atm.ContinuousProbit(order=3), 1.0, learner=learner, n_rounds=30)
        model.fit(X, y, anchors=site)
        before = model.nll(X, y)
        moved = model.refit(few, y_few)
        gains.append(model.nll(rest, y_rest).mean() - moved.nll(rest, y_rest).mean())
        np.testing.assert_array_equal(model.nll(X, y), before)  # the model itself stays
        assert moved.refit_["rows"] == 30
        assert "refit" in moved.summary().facts
    assert min(gains) > 0.05
    same = [model.refit(few[:0], y_few[:0]), model.refit(few, y_few, strength=1e12)]
    for refitted in same:
        np.testing.assert_allclose(refitted.nll(rest, y_rest), model.nll(rest, y_rest), atol=1e-6)
    assert np.isfinite(model.refit(few[:1], y_few[:1]).nll(rest, y_rest)).all()


def test_refit_does_not_move_where_the_target_is_no_other_place() -> None:
    harm = []
    for seed in range(4):
        X, y, *_ = shifted_target(seed)
        model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=20).fit(X[:300], y[:300])
        moved = model.refit(X[300:330], y[300:330])
        harm.append(moved.nll(X[330:], y[330:]).mean() - model.nll(X[330:], y[330:]).mean())
    assert max(harm) < 0.05
    assert np.mean(harm) < 0.02


def test_refit_minimises_what_it_says() -> None:
    X, y, site, few, y_few, *_ = shifted_target(0)
    model = atm.AnchorBoostedTM(atm.NormalLinear(), 1.0, n_rounds=3, max_leaf_nodes=4).fit(X, y, anchors=site)
    moved = model.refit(few, y_few, strength=5.0)
    Z = np.hstack([np.eye(tree.leaves.size)[tree.apply(few)] for tree in model.trees_])
    old = np.concatenate([tree.value[tree.leaves] for tree in model.trees_])
    J = np.linalg.pinv(model.model_.result_.jacobian)
    H = J.T @ model.model_.result_.information @ J / model.model_.n_total_

    def total(parameters: np.ndarray) -> float:
        theta, values = parameters[:2], parameters[2:]
        h = theta[0] + theta[1] * y_few - Z @ values
        away = theta - model.baseline_
        loss = np.sum(0.5 * h**2) - few.shape[0] * np.log(theta[1])
        return float(loss + 2.5 * (away @ H @ away) + 2.5 * len(model.trees_) * np.sum((values - old) ** 2))

    found = np.concatenate([moved.baseline_, *(tree.value[tree.leaves] for tree in moved.trees_)])
    best = optimize.minimize(total, np.append(model.baseline_, old), method="BFGS", options={"gtol": 1e-7})
    assert total(found) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, atol=1e-5)
    assert moved.loss_ == pytest.approx((best.fun + 30 * 0.5 * np.log(2 * np.pi)) / 30, abs=1e-9)
    assert moved.loglik_ == pytest.approx(-moved.nll(few, y_few).sum(), abs=1e-9)
    assert (moved.penalty_, moved.n_rows_, moved.n_total_, moved.converged_) == (0.0, 30, 30.0, True)
    assert moved.kkt_ < 1e-8 < moved.min_eigenvalue_
    assert moved.kkt_ != model.kkt_
    assert moved.loss_history_.equals(model.loss_history_)
    facts = moved.summary().facts
    assert facts["rows"].startswith("30 (30 exact")
    assert facts["refit loss"].startswith(f"{moved.loss_:.6f}")
    twice = moved.refit(few, y_few, strength=5.0)  # as much is known of the baseline as before
    H2 = J.T @ moved.model_.result_.information @ J / moved.model_.n_total_
    np.testing.assert_allclose(H2, H, rtol=1e-12)
    assert twice.loglik_ > moved.loglik_
    still = model.refit(few[:0], y_few[:0])
    assert (still.loss_, still.n_rows_) == (model.loss_, model.n_rows_)
    assert "no change" in still.summary().facts["refit"]
    narrow = atm.AnchorBoostedTM(atm.ContinuousProbit(), n_rounds=3).fit(X, y).refit(few, y_few, strength=0.1)
    assert narrow.model_.active_.any()
    assert "at a fifth of the former slope" in narrow.summary().facts["constraints"]


@pytest.mark.parametrize("strength", [None, 5.0])
def test_rows_of_weight_zero_are_not_in_a_refit(strength: float | None) -> None:
    X, y, site, few, y_few, *_ = shifted_target(0)
    model = atm.AnchorBoostedTM(atm.NormalLinear(), 1.0, n_rounds=3, max_leaf_nodes=4).fit(X, y, anchors=site)
    weights, offset = np.where(np.arange(30) < 12, 0.0, 2.0), np.linspace(0, 1, 30)
    some = model.refit(few, y_few, sample_weight=weights, offset=offset, strength=strength)
    alone = model.refit(few[12:], y_few[12:], sample_weight=weights[12:], offset=offset[12:], strength=strength)
    np.testing.assert_array_equal(some.nll(X, y), alone.nll(X, y))
    assert some.refit_ == alone.refit_
    one = model.refit(few, y_few, sample_weight=np.arange(30) == 29, strength=strength)
    np.testing.assert_array_equal(one.nll(X, y), model.refit(few[29:], y_few[29:], strength=strength).nll(X, y))
    with pytest.raises(InputError, match="X is None: pass the covariates"):
        model.refit(None, y_few)


@pytest.mark.parametrize("name", ["logit, right", "classes", "counts"])
@pytest.mark.parametrize("learner", ["tree", "linear+tree", "linear"])
def test_saved_models_predict_the_same_bits(name: str, learner: str, tmp_path: Path) -> None:
    base, y = CASES[name]
    X, site, _ = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = atm.AnchorBoostedTM(base, 1.0, learner=learner, n_rounds=8, validation=0.4, random_state=1)
    model.fit(frame, y, anchors=site)
    same = [atm.load(atm.save(model, tmp_path / "m.json")), pickle.loads(pickle.dumps(model))]  # noqa: S301 - our own
    for other in same:
        np.testing.assert_array_equal(other.nll(frame, y), model.nll(frame, y))
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(other.staged(0).nll(frame, y), model.staged(0).nll(frame, y))
        assert str(other.summary()) == str(model.summary())
        assert other.loss_history_.equals(model.loss_history_)
        assert repr(other) == repr(model)
    moved = model.refit(frame[:20], y[:20], strength=10.0)
    other = atm.load(atm.save(moved, tmp_path / "r.json"))
    np.testing.assert_array_equal(other.nll(frame, y), moved.nll(frame, y))
    assert other.refit_ == moved.refit_
    assert clone(model).get_params()["xi"] == 1.0


def damage(record: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    change(record)
    return record | {"sha256": digest(record)}


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["boosted"]["trees"][0]["left"].__setitem__(0, 0),  # a circle
        lambda r: r["boosted"]["trees"][0]["right"].__setitem__(0, 99),
        lambda r: r["boosted"]["trees"][0]["feature"].__setitem__(0, 7),
        lambda r: r["boosted"]["trees"][0]["threshold"].__setitem__(0, {"number": "nan"}),
        lambda r: r["boosted"]["trees"][0]["value"].pop(),
        lambda r: r["boosted"]["trees"][0]["value"].__setitem__(0, "1"),
        lambda r: r["boosted"]["trees"].pop(),
        lambda r: r["boosted"]["stages"].pop(),
        lambda r: r["boosted"]["stages"][1]["theta"].pop(),
        lambda r: r["boosted"]["names"].append("d"),
        lambda r: r["boosted"].pop("spread"),
        lambda r: r["boosted"].__setitem__("ranges", [[0.0], [1.0]]),
        lambda r: r["boosted"].__setitem__("curve", []),
        lambda r: r["boosted"]["curve"].pop(),
        lambda r: r["boosted"].__setitem__("held_out", "x"),
        lambda r: r["boosted"].__setitem__("held_out", []),
        lambda r: r["boosted"].__setitem__("held_out", [None]),
        lambda r: r["boosted"].__setitem__("coef", [1.0, 0.0, 0.0]),
        lambda r: r["boosted"].__setitem__("spread", [1.0, -1.0, 1.0]),
        lambda r: r["boosted"].__setitem__("importances", [1.0, -1.0, 1.0]),
        lambda r: r["boosted"]["ranges"].reverse(),
        lambda r: r["boosted"]["stages"][1].__setitem__("kkt", -1.0),
        lambda r: r["boosted"]["stages"][1].__setitem__("convexity", "odd"),
        lambda r: r["boosted"]["stages"][1]["active"].pop(),
        lambda r: r["boosted"]["stages"][0]["information"][0].__setitem__(0, None),
        lambda r: r["boosted"]["stages"][-1]["theta"].__setitem__(0, -9.0),
        lambda r: r["model"]["fit"].__setitem__("kkt_", -1.0),
        lambda r: r["model"]["fit"].__setitem__("l1_", 0.5),
        lambda r: r["model"]["fit"].__setitem__("smooth_", 0.5),
        lambda r: r["model"]["parameters"].__setitem__("l1", 0.5),
        lambda r: r["model"]["covariance"]["information"][0].__setitem__(0, None),
        lambda r: r["model"]["covariance"]["jacobian"][0].__setitem__(0, None),
        lambda r: r["parameters"].__setitem__("validation", "some"),
        lambda r: r["parameters"].__setitem__("validation", 7.5),
        lambda r: r["parameters"].__setitem__("cut", "x"),
        lambda r: r["parameters"].__setitem__("random_state", "x"),
        lambda r: r["boosted"].__setitem__("refit", {"rows": -1, "strength": 1.0}),
        lambda r: r["parameters"].__setitem__("learner", "forest"),
        lambda r: r["parameters"].__setitem__("hammer", 1),
        lambda r: r["parameters"].__setitem__("xi", 2.0),
        lambda r: r["base"].__setitem__("strata", "a"),
        lambda r: r["model"].__setitem__("link", "probit"),
        lambda r: r.__setitem__("model", None),
        lambda r: r.pop("formula"),
    ],
)
def test_damaged_files_are_refused(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    base, y = CASES["logit, right"]
    X, site, _ = rows()
    path = tmp_path / "m.json"
    model = atm.AnchorBoostedTM(base, 1.0, n_rounds=2, validation=[1]).fit(X, y, anchors=site)
    assert model.n_rounds_ == 2
    atm.load(atm.save(model, path))
    path.write_text(json.dumps(damage(json.loads(path.read_text()), change)))
    with pytest.raises(ModelFileError):
        atm.load(path)


def test_weights_replicate_rows_and_order_does_not_matter() -> None:
    base, y = CASES["classes"]
    X, site, _ = rows()
    times = np.random.default_rng(0).integers(0, 3, N)
    options = {"n_rounds": 8, "min_samples_leaf": 1, "max_leaf_nodes": 4}
    weighted = atm.AnchorBoostedTM(base, 1.0, **options).fit(X, y, anchors=site, sample_weight=times)
    again = np.random.default_rng(1).permutation(np.repeat(np.arange(N), times))
    repeated = atm.AnchorBoostedTM(base, 1.0, **options).fit(X[again], y[again], anchors=site[again])
    np.testing.assert_allclose(weighted.nll(X, y), repeated.nll(X, y), atol=1e-8)


def test_offsets_and_formulas() -> None:
    data = atm.datasets.load_cgd().assign(extra=np.linspace(0, 1, 128))
    formula = "Surv(tstop, status) ~ treat + age + propylac | center"
    base = atm.ProportionalHazards(order=3)
    options: dict[str, Any] = {"model": base, "xi": 1.0, "n_rounds": 6}
    model = atm.AnchorBoostedTM.from_formula(formula, data, offset="extra", **options)
    made = atm.Formula(formula, data)
    other = atm.AnchorBoostedTM(**options).fit(made.X, made.y, anchors=made.anchors, offset=data.extra)
    np.testing.assert_array_equal(model.nll(data), other.nll(made.X, made.y, offset=data.extra))
    with pytest.warns(AnchorTMWarning, match="offset"):
        other.predict(made.X)
    assert model.score(data) == pytest.approx(-model.nll(data).mean())
    assert list(model.extrapolation(data[:2].assign(age=[30, 88])).covariates) == ["", "age"]
    table = atm.predict_table(model, data[:3], quantiles=[0.5])
    np.testing.assert_array_equal(table["q0.5"], model.predict_distribution(data[:3]).ppf(0.5).ravel())


def test_anchors_may_be_columns_of_x() -> None:
    base, y = CASES["normal"]
    X, site, _ = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(site=site)
    named = atm.AnchorBoostedTM(atm.NormalLinear(anchor_names="site"), 1.0, n_rounds=5).fit(frame, y)
    given = atm.AnchorBoostedTM(base, 1.0, n_rounds=5).fit(frame[["a", "b", "c"]], y, anchors=site)
    np.testing.assert_array_equal(named.predict(frame), given.predict(frame[["a", "b", "c"]]))
    np.testing.assert_array_equal(named.predict(frame.drop(columns="site")), named.predict(frame))


def test_left_out_environments_are_predicted_by_fits_to_the_others() -> None:
    base, y = CASES["logit, right"]
    X, site, _ = rows()
    model = atm.AnchorBoostedTM(base, n_rounds=6)
    table = atm.leave_one_environment_out(model, X, y, site, [0, 2]).frame()
    for xi, e in ((0.0, 1), (2.0, 4)):
        rest = site != e
        fit = clone(model).set_params(xi=xi).fit(X[rest], y[rest], anchors=site[rest])
        found = table[(table.environment == e) & (table.xi == xi)].nll.item()
        assert found == pytest.approx(fit.nll(X[~rest], y[~rest]).mean(), abs=1e-10)
    search = atm.XiSearchCV(model, [0, 2]).fit(X, y, anchors=site)
    worst = table.groupby("xi").nll.max()
    assert search.best_xi_ == worst.idxmin()
    assert search.best_estimator_.n_rounds_ == 6
    path = atm.anchor_path(model, X, y, site, [0, 2])
    whole = clone(model).set_params(xi=2.0).fit(X, y, anchors=site)
    np.testing.assert_array_equal(path.models[1].nll(X, y), whole.nll(X, y))
    np.testing.assert_array_equal(path.baselines[1], whole.baseline_)
    assert path.coefs.shape == (2, 0)
    assert path.frame().penalty.tolist() == [m.penalty_ for m in path.models]
    assert repr(path) == "AnchorPath(AnchorBoostedTM, 2 values of xi, 2 converged)"
    steps = atm.anchor_path(clone(model).set_params(learner="linear"), X, y, site, [0, 2])
    np.testing.assert_array_equal(steps.coefs[1], steps.models[1].coef_)
    assert steps.coef_names == ("x0", "x1", "x2")
    assert path.plot() is not None
    with pytest.raises(InputError, match="a path in xi needs anchors"):
        atm.anchor_path(model, X, y, None, [0, 1])


def test_summary_and_picture() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    base, y = CASES["classes"]
    X, site, _ = rows()
    model = atm.AnchorBoostedTM(base, 1.0, learner="linear+tree", n_rounds=30, validation=0.4, random_state=0)
    model.fit(X, y, anchors=site)
    text = str(model.summary())
    assert "F(h(y) - x'beta - f(x))" in text
    assert f"{model.n_rounds_} rounds of linear+tree" in text
    assert "AIC" not in text
    assert model.feature_importances_.sum() == pytest.approx(1.0 if model.n_rounds_ else 0.0)
    ax = model.plot()
    assert "held-out environments" in [label.get_text() for label in ax.get_legend().get_texts()]
    plt.close(ax.figure)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probabilities.argmax(axis=1)])
    assert not hasattr(atm.AnchorBoostedTM(atm.NormalLinear()), "predict_proba")


X_BAD, SITE_BAD, _ = rows()
Y_BAD = CASES["normal"][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "probit"}, "model must be an estimator of this package"),
        ({"model": atm.CoxPH()}, "boosting cannot be combined with CoxPH"),
        ({"model": atm.AnchorGLM(family="negative_binomial", alpha="ml")}, "give alpha a number"),
        ({"model": atm.ContinuousProbit(strata="a")}, "strata must be column positions from 0 to 2"),
        ({"model": atm.ContinuousProbit(varying=["a"])}, "varying names 'a', which is not a covariate"),
        ({"model": atm.ContinuousProbit(l1=0.1)}, "boosting cannot be combined with an l1 penalty"),
        ({"model": atm.ContinuousProbit(scale=[0])}, "boosting cannot be combined with scale effects"),
        ({"model": atm.ContinuousProbit(random="a")}, "boosting cannot be combined with random effects"),
        ({"model": atm.ContinuousProbit(n_restarts=2)}, "boosting does not use n_restarts"),
        ({"model": atm.ContinuousProbit(penalty_factor=np.ones(3))}, "boosting does not use penalty_factor"),
        ({"cut": 1}, "cut"),
        ({"random_state": "seed"}, "random_state"),
        ({"xi": -1.0}, "xi must be at least 0 and finite"),
        ({"xi": np.inf}, r"boosting cannot be combined with xi = inf: .*; set xi to a large finite number"),
        ({"learner": "forest"}, "learner must be 'tree', 'linear\\+tree' or 'linear', not 'forest'"),
        ({"n_rounds": -1}, "n_rounds"),
        ({"n_rounds": 2.5}, "n_rounds"),
        ({"learning_rate": 0.0}, "learning_rate must lie in"),
        ({"learning_rate": 1.5}, "learning_rate must lie in"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes"),
        ({"min_samples_leaf": 0}, "min_samples_leaf"),
        ({"l2_leaf": -1.0}, "l2_leaf must be at least 0"),
        ({"validation": "some"}, "validation must be None"),
        ({"validation": 1.5}, "validation"),
        ({"validation": 2}, "validation must be None, a fraction"),
        ({"validation": [17]}, "unknown environments: 17"),
        ({"validation": []}, "some of the 6 environments"),
        ({"validation": list(range(6))}, "but not all"),
        ({"validation": "each", "all_rows": False}, "leave all_rows=False out"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    model = atm.AnchorBoostedTM(**({"model": atm.NormalLinear(), "n_rounds": 3} | options))
    with pytest.raises(AnchorTMError, match=message):
        model.fit(X_BAD, Y_BAD, anchors=SITE_BAD)
    assert not hasattr(model, "model_")


@pytest.mark.bug("other software", "boosting ignored the xi of its inner model")
def test_xi_of_the_inner_model_is_refused() -> None:
    model = atm.AnchorBoostedTM(atm.ContinuousProbit(xi=1), n_rounds=3)
    with pytest.raises(InputError, match="xi = 1 of the inner model is not used: pass it to"):
        model.fit(X_BAD, Y_BAD, anchors=SITE_BAD)
    assert not hasattr(model, "model_")


def test_bad_rows_are_refused() -> None:
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3)
    with pytest.raises(NotFittedError):
        model.predict(X_BAD)
    with pytest.raises(NotFittedError):
        model.refit(X_BAD, Y_BAD)
    with pytest.raises(InputError, match="X is None: boosting needs covariates"):
        model.fit(None, Y_BAD)
    with pytest.raises(InputError, match="X has 159 rows, but y has 160"):
        model.fit(X_BAD[1:], Y_BAD)
    with pytest.raises(InputError, match="0 feature"):
        model.fit(X_BAD[:, :0], Y_BAD)
    with pytest.raises(InputError, match="needs anchors"):
        clone(model).set_params(xi=1.0).fit(X_BAD, Y_BAD)
    with pytest.raises(InputError, match="there is no anchor factor"):
        clone(model).set_params(validation=0.2).fit(X_BAD, Y_BAD, anchors=X_BAD[:, 0])
    with pytest.raises(InputError, match="environments has 10 rows"):
        clone(model).set_params(validation=0.2).fit(X_BAD, Y_BAD, environments=SITE_BAD[:10])
    with pytest.raises(InputError, match="environments has 10 rows"):
        model.fit(X_BAD, Y_BAD, environments=SITE_BAD[:10])
    narrow, wide = (clone(model).set_params(validation=kind(0.3), random_state=0) for kind in (np.float32, float))
    assert narrow.fit(X_BAD, Y_BAD, anchors=SITE_BAD).held_out_ == wide.fit(X_BAD, Y_BAD, anchors=SITE_BAD).held_out_
    with pytest.raises(InputError, match="constant"):
        clone(model).set_params(learner="linear").fit(np.ones((N, 1)), Y_BAD)
    with pytest.raises(InputTypeError, match=r"boosting cannot be combined with tables .*; read the table into memory"):
        atm.AnchorBoostedTM.from_formula("y ~ x", "rows.parquet", model=atm.NormalLinear())
    frame = pd.DataFrame(X_BAD, columns=["a", "b", "c"])
    model.fit(frame, Y_BAD)
    with pytest.raises(InputError, match="expecting 3 features"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(InputError, match="feature names should match"):
        model.predict(frame[["c", "b", "a"]])
    with pytest.raises(InputError, match="strength must be positive"):
        model.refit(frame, Y_BAD, strength=0.0)
    with pytest.raises(InputError, match="X has 160 rows, but y has 3"):
        model.refit(frame, Y_BAD[:3])
    with pytest.raises(InputError, match="no earlier rounds: use the model before"):
        model.refit(frame[:5], Y_BAD[:5], strength=1.0).staged(1)


def test_a_class_that_only_held_out_rows_have_is_named() -> None:
    _, y = CASES["classes"]
    X, site, _ = rows()
    grade = np.where(site == 2, 9, y)
    model = atm.AnchorBoostedTM(atm.OrdinalRegression(), validation=[2], n_rounds=3)
    with pytest.raises(InputError, match="a held-out environment has a class that no other environment has"):
        model.fit(X, grade, anchors=site)


def test_a_fit_that_is_refused_leaves_the_model_as_it_was() -> None:
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3).fit(X_BAD, Y_BAD)
    before = model.predict(X_BAD)
    with pytest.raises(InputError):
        model.fit(X_BAD[1:], Y_BAD)
    np.testing.assert_array_equal(model.predict(X_BAD), before)


def test_rows_that_leave_nothing_to_learn_stop_the_rounds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=5).fit(np.ones((N, 1)), Y_BAD)
    assert model.n_rounds_ == 0


@pytest.mark.parametrize("learner", ["linear", "linear+tree"])
def test_covariates_that_are_constant_in_a_part_are_named(learner: str) -> None:
    X, site, _ = rows()
    wide = np.column_stack([X, site == 4])
    model = atm.AnchorBoostedTM(atm.NormalLinear(), 1.0, learner=learner, n_rounds=3)
    for validation in ([4], "each"):
        with pytest.raises(IdentificationError, match=r"without environment 4: .*constant"):
            clone(model).set_params(validation=validation).fit(wide, Y_BAD, anchors=site)
    with pytest.warns(AnchorTMWarning, match="environment 4: without x3, which only this environment has"):
        found = atm.leave_one_environment_out(model, wide, Y_BAD, site, [1.0]).frame()
    here = site == 4
    alone = clone(model).fit(X[~here], Y_BAD[~here], anchors=site[~here])
    assert found.nll[4] == pytest.approx(alone.nll(X[here], Y_BAD[here]).mean(), abs=1e-8)
    trees = atm.AnchorBoostedTM(atm.NormalLinear(), 1.0, n_rounds=3, validation=[4])
    assert trees.fit(wide, Y_BAD, anchors=site).n_rounds_ == 3


def test_scores_and_diagnostics_take_boosted_models() -> None:
    X, site, _ = rows()
    model, other = (
        atm.AnchorBoostedTM(atm.NormalLinear(), xi, n_rounds=4).fit(X, Y_BAD, anchors=site) for xi in (0, 5)
    )
    table = atm.scores.score_table(model, X, Y_BAD).frame()
    assert table.nll.iloc[0] == pytest.approx(model.nll(X, Y_BAD).mean())
    assert len(atm.diagnostics.calibration(model, X, Y_BAD, site).frame()) == 7
    for which in ("shift", "scale"):
        explained = atm.diagnostics.residual_invariance(model, other, X, Y_BAD, site, which=which).explained
        assert 0.0 < min(explained) <= max(explained) < 1.0
    f = sum(tree.predict(X) for tree in model.trees_)
    alone = atm.NormalLinear().fit(None, Y_BAD, offset=f)
    np.testing.assert_allclose(
        model.residuals(X, Y_BAD, which="scale"), alone.residuals(None, Y_BAD, offset=f, which="scale"), atol=1e-6
    )
    with pytest.raises(InputError, match="X is None: a boosted model"):
        model.predict_distribution(None, n_rows=3)


def test_what_a_boosted_model_does_not_answer_is_refused_clearly() -> None:
    X, site, _ = rows()
    plain = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=2)
    model, linear = clone(plain).fit(X, Y_BAD), atm.NormalLinear().fit(X, Y_BAD)
    asked: list[Callable[[], Any]] = [
        lambda: atm.likelihood_ratio_test(linear, model),
        lambda: atm.likelihood_ratio_test(model, linear),
        lambda: atm.marginal_effects(model, X),
        lambda: model.covariance(),
        lambda: model.standard_errors(),
        lambda: model.intervals(),
        lambda: model.aic_,
    ]
    for ask in asked:
        with pytest.raises(InputTypeError, match="AnchorBoostedTM has no"):
            ask()
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("score_test", lambda: atm.diagnostics.score_test(plain, X, Y_BAD, site)),
        ("score_test", lambda: atm.proportionality_test(plain, X, Y_BAD)),
        ("score_test", lambda: atm.xi_by_score_test(plain, X, Y_BAD, site)),
        ("sandwich", lambda: model.covariance()),
        ("l1", lambda: atm.ElasticNetCV(plain).fit(X, Y_BAD, anchors=site)),
    ]
    with pytest.raises(InputTypeError, match="for boosting use XiSearchCV"):
        atm.SmoothSearchCV(plain).fit(X, Y_BAD, anchors=site)
    for part, ask in refused:
        with pytest.raises(AnchorTMError) as error:
            ask()
        assert refusal("boosting", part) in str(error.value)
    assert not any(hasattr(model, name) for name in ("covariance", "standard_errors", "l1", "aic_", "hammer"))
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        _ = plain.coef_


def test_boosted_models_are_drawn_and_say_when_they_are_not_fitted() -> None:
    X, _, _ = rows()
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=2)
    for ask in (model.summary, lambda: model.staged("x")):
        with pytest.raises(NotFittedError):
            ask()
    assert "AnchorBoostedTM" in model.fit(X, Y_BAD)._repr_html_()


def test_validation_goes_with_left_out_environments() -> None:
    X, site, _ = rows()
    number = X[:, 0] + site
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=5, validation=0.3, random_state=0, n_iter_no_change=2)
    search = atm.XiSearchCV(model, [0, 1.0]).fit(X, Y_BAD, anchors=number, environments=site)
    assert len(search.best_estimator_.held_out_) == 2
    table = atm.leave_one_environment_out(model, X, Y_BAD, site, [1.0], anchors=number).frame()
    rest = site != 3
    alone = clone(model).set_params(xi=1.0)
    alone.fit(X[rest], Y_BAD[rest], anchors=number[rest], environments=site[rest])
    found = table[table.environment == 3]
    assert found.rounds.item() == alone.n_rounds_
    assert found.nll.item() == pytest.approx(alone.nll(X[~rest], Y_BAD[~rest]).mean(), abs=1e-10)
    cut = atm.XiSearchCV(model, [1.0], cut=3).fit(X, Y_BAD, anchors=site, environments=number)
    assert len(cut.best_estimator_.held_out_) == 1
    pair = clone(model).set_params(validation=[1, 2])
    frame = atm.leave_one_environment_out(pair, X, Y_BAD, site, [1.0]).frame()
    one = clone(pair).set_params(validation=[2], xi=1.0)
    one.fit(X[site != 1], Y_BAD[site != 1], anchors=site[site != 1])
    assert frame.rounds[1] == one.n_rounds_
    with pytest.warns(AnchorTMWarning, match="without environment 1 no environment that validation names is left"):
        frame = atm.leave_one_environment_out(pair.set_params(validation=[1]), X, Y_BAD, site, [1.0]).frame()
    assert frame.rounds[1] == 5
    with pytest.raises(InputError, match="validation names unknown environments: 9"):
        atm.leave_one_environment_out(pair.set_params(validation=[9]), X, Y_BAD, site, [1.0])


def test_formulas_name_environments_and_ask_for_the_model() -> None:
    X, site, _ = rows()
    data = pd.DataFrame({"y": Y_BAD, "x": X[:, 0], "z": X[:, 1], "e": site})
    options: dict[str, Any] = {"n_rounds": 4, "validation": [1, 2], "xi": 1.0}
    model = atm.AnchorBoostedTM.from_formula("y ~ x | z", data, model=atm.NormalLinear(), environments="e", **options)
    other = atm.AnchorBoostedTM(atm.NormalLinear(), **options)
    other.fit(data[["x"]], data.y, anchors=data.z, environments=data.e)
    np.testing.assert_array_equal(model.predict(data), other.predict(data[["x"]]))
    search = atm.XiSearchCV.from_formula("y ~ x | z", data, model=atm.NormalLinear(), xis=[0, 1], environments="e")
    assert search.loeo_.frame().environment.nunique() == 6
    with pytest.raises(InputTypeError, match="LinearAnchorRegression does not use environments"):
        atm.LinearAnchorRegression.from_formula("y ~ x | z", data, environments="e")
    with pytest.raises(InputTypeError, match="AnchorBoostedTM needs model="):
        atm.AnchorBoostedTM.from_formula("y ~ x | z", data, xi=1.0)


def test_outcomes_that_are_not_there_are_named() -> None:
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=2).fit(X_BAD, Y_BAD)
    for ask in (model.nll, model.residuals, model.refit):
        with pytest.raises(InputError, match="X has 3 rows, but y has 2: pass the same rows of both"):
            ask(X_BAD[:3], Y_BAD[:2])
        with pytest.raises(InputError, match="y is None: pass the outcome"):
            ask(X_BAD, None)


def test_scikit_learn_knows_what_is_boosted() -> None:
    assert is_regressor(atm.AnchorBoostedTM(atm.ContinuousProbit()))
    assert not is_classifier(atm.AnchorBoostedTM(atm.ContinuousProbit()))
    assert is_classifier(atm.AnchorBoostedTM(atm.OrdinalRegression()))
    assert get_tags(atm.AnchorBoostedTM(atm.OrdinalRegression())).input_tags.sparse
    assert get_tags(atm.AnchorBoostedTM("no model")).estimator_type is None


@pytest.mark.parametrize("where", [-1.0, 0.0, 1.0])
def test_rare_values_are_not_hidden_by_ties(where: float) -> None:
    rng = np.random.default_rng(0)
    x = np.zeros(20_000)
    x[:76] = rng.exponential(size=76) ** 3 + 0.01
    x[76:300] = -rng.exponential(size=224)
    x += where
    bins = binned(x[:, None])
    assert bins.edges[0].size <= 255
    assert np.unique(bins.codes).size > 200
    tree, leaf = grow(bins, np.where(x > where, 3.0, 0.0) + 0.1 * rng.normal(size=x.size), np.ones(x.size), 2, 20)
    assert sorted(np.bincount(leaf)) == [76, 20_000 - 76]
    assert np.array_equal(tree.apply(x[:, None]), leaf)
    many = np.concatenate([np.repeat(np.arange(60.0), 200), rng.normal(size=400)])
    assert binned(many[:, None]).edges[0].size <= 255


@pytest.mark.parametrize("base", [atm.NormalLinear(), atm.ContinuousProbit(order=3)])
def test_refit_to_rows_that_share_all_leaves(base: Any) -> None:
    X, y, site, few, y_few, *_ = shifted_target(0)
    model = atm.AnchorBoostedTM(base, 1.0, n_rounds=20).fit(X, y, anchors=site)
    away = few + 50.0  # beyond the data, where f is constant
    moved = model.refit(away, y_few + 3.0, strength=3.0)
    assert moved.converged_
    assert moved.min_eigenvalue_ > 0.0
    assert moved.loss_ < model.nll(away, y_few + 3.0).mean()
    f = [m.boosted_.shape.f(away[:1]).item() for m in (model, moved)]
    assert f[1] > f[0] + 0.5
