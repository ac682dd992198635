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
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor

import anchortm as atm
from anchortm.bases import LogLinearBasis
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError, InputTypeError, ModelFileError
from anchortm.likelihood import build_terms, loglik_and_residuals
from anchortm.newton import expand
from anchortm.persistence import _digest
from anchortm.rounds import Booster
from anchortm.trees import binned, grow

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
    return Booster(base, base._prepare(None, y, rows()[1], weights, None), xi)


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
    b.f = 0.3 * np.sin(np.arange(N))
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
    b = Booster(clone(base).set_params(xi=1.0), base._prepare(None, y, columns, weights, None), 1.0)
    A = np.column_stack([np.ones(N), *(np.eye(6)[c] if c.dtype.kind == "i" else c for c in columns)])[b.order]
    w, values = weights[b.order], rng.normal(size=N)
    root = np.sqrt(w)[:, None]
    expected = A @ np.linalg.lstsq(root * A, root[:, 0] * values, rcond=1e-10)[0]
    np.testing.assert_allclose(b.project(values), expected, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradient_and_hessian_of_leaves_are_those_of_the_loss(name: str) -> None:
    b = booster(name)
    b.f = 0.3 * np.sin(np.arange(N))
    Z = np.eye(4)[np.random.default_rng(3).integers(0, 4, N)]
    objective = b.with_columns(Z)
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
    assert max(stage.kkt for stage in model._stages) <= 1e-8
    assert all(stage.converged for stage in model._stages)
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
        b = Booster(base.set_params(xi=xi), base._prepare(None, np.exp(y), site, None, None), xi)
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
    np.testing.assert_allclose(alone.nll(X, y), model.nll(X, y), atol=1e-10)
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


def test_staged_models_are_fits_of_fewer_rounds() -> None:
    base, y = CASES["counts"]
    X, site, _ = rows()
    long, short = (atm.AnchorBoostedTM(base, 1.0, n_rounds=k).fit(X, y, anchors=site) for k in (10, 4))
    staged = long.staged(4)
    np.testing.assert_array_equal(staged.nll(X, y), short.nll(X, y))
    assert staged.loss_ == short.loss_
    np.testing.assert_allclose(staged.feature_importances_, short.feature_importances_)
    assert long.n_rounds_ == 10
    with pytest.raises(InputError, match="10 rounds, not 11"):
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
    J = np.linalg.pinv(model.model_._jacobian)
    H = J.T @ model.model_._information @ J / model.model_.n_total_

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
    return record | {"sha256": _digest(record)}


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
    atm.save(atm.AnchorBoostedTM(base, 1.0, n_rounds=2).fit(X, y, anchors=site), path)
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
    with pytest.raises(InputTypeError, match="no parameters to follow along xi"):
        atm.anchor_path(model, X, y, site, [0, 1])


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
        ({"model": atm.CoxPH()}, "CoxPH cannot be boosted"),
        ({"model": atm.AnchorGLM()}, "AnchorGLM cannot be boosted: it has no baseline"),
        ({"model": atm.ContinuousProbit(strata="a")}, "strata is not for boosting"),
        ({"model": atm.ContinuousProbit(varying=[0])}, "varying is not for boosting"),
        ({"model": atm.ContinuousProbit(l1=0.1)}, "l1 is not for boosting"),
        ({"model": atm.ContinuousProbit(scale=[0])}, "scale is not for boosting"),
        ({"xi": -1.0}, "xi must be at least 0 and finite"),
        ({"xi": np.inf}, "xi must be at least 0 and finite"),
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
        ({"validation": 2}, "validation must be None, a share"),
        ({"validation": [17]}, "not there: 17"),
        ({"validation": []}, "some of the 6 environments"),
        ({"validation": list(range(6))}, "and not all"),
        ({"validation": "each", "all_rows": False}, "leave all_rows=False out"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    model = atm.AnchorBoostedTM(**({"model": atm.NormalLinear(), "n_rounds": 3} | options))
    with pytest.raises(AnchorTMError, match=message):
        model.fit(X_BAD, Y_BAD, anchors=SITE_BAD)
    assert not hasattr(model, "model_")


def test_bad_rows_are_refused() -> None:
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3)
    with pytest.raises(NotFittedError):
        model.predict(X_BAD)
    with pytest.raises(NotFittedError):
        model.refit(X_BAD, Y_BAD)
    with pytest.raises(InputError, match="X is None: there is nothing to boost"):
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
    with pytest.raises(InputError, match="constant"):
        clone(model).set_params(learner="linear").fit(np.ones((N, 1)), Y_BAD)
    with pytest.raises(InputTypeError, match="table in memory"):
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
    with pytest.raises(InputError, match="no rounds: take them of the model before"):
        model.refit(frame[:5], Y_BAD[:5], strength=1.0).staged(1)


def test_a_class_that_only_held_out_rows_have_is_named() -> None:
    _, y = CASES["classes"]
    X, site, _ = rows()
    grade = np.where(site == 2, 9, y)
    model = atm.AnchorBoostedTM(atm.OrdinalRegression(), validation=[2], n_rounds=3)
    with pytest.raises(InputError, match="held out has a class that no other has"):
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
