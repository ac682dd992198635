"""Strata and effects that vary along the response: against R, separate fits, other solvers and the definition."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from parameters import moved
from reference_fits import COVARIATES, basis_of, data, record
from sklearn.base import clone

import anchortm as atm
from anchortm import saving as persistence
from anchortm.exceptions import (
    AnchorTMWarning,
    IdentificationError,
    InputError,
    InputTypeError,
    ModelFileError,
    SeparationError,
)
from anchortm.inference.covariance import influence
from anchortm.inputs.baselines import Corners, Group, make_mixture

BOSTON = data("BostonHousing2").assign(side=lambda d: np.where(d.nox > 0.55, "east", "west"))
RIVER = [142, 152, 154, 155, 160, 162, 163, 208, 209, 210, 211, 212, 216, 218, 219, 220, 221, 222, 234, 236, 269, 273]
RIVER += [274, 276, 277, 282, 283, 356, 357, 358, 363, 364, 369, 370, 372]  # tracts that bound the Charles River
CHAS = np.isin(np.arange(506), RIVER).astype(int)
Y = BOSTON.cmedv.to_numpy()
CAPPED = atm.Surv(Y, Y < 50)
SITES = np.arange(506) % 5
RIVERSIDE = np.random.default_rng(0).normal(size=506)


def test_strata_equal_r() -> None:
    reference = record("boston_exact_Colr_strata_chas")
    wanted, shift = np.array(reference["polished"]["coef"]), np.array(reference["is_shift"])
    X = BOSTON[COVARIATES].assign(chas=CHAS)
    model = atm.ContinuousLogit(strata="chas", support=basis_of(reference).support).fit(X, Y)
    assert model.loglik_ == pytest.approx(reference["polished"]["logLik"], abs=1e-9)
    np.testing.assert_allclose(model.coef_, -wanted[shift], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.baseline_, wanted[~shift], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.residuals(X, Y), reference["polished"]["residuals"], atol=1e-7)
    np.testing.assert_allclose(-model.nll(X, Y), reference["polished"]["loglik_i"], atol=1e-7)
    np.testing.assert_allclose(
        np.diag(model.covariance())[14:], np.diag(reference["polished"]["vcov_shift"]), rtol=1e-4
    )
    by_formula = atm.ContinuousLogit.from_formula(
        f"cmedv | chas ~ {' + '.join(COVARIATES)}", BOSTON.assign(chas=CHAS), support=model.support_
    )
    np.testing.assert_array_equal(by_formula.coef_, model.coef_)


OUTCOMES: dict[str, tuple[Callable[..., Any], Any]] = {
    "exact": (lambda **k: atm.ContinuousProbit(support=(13.0, 35.0), order=4, **k), Y),
    "right": (lambda **k: atm.ContinuousLogit(support=(13.0, 35.0), order=4, **k), CAPPED),
    "interval": (
        lambda **k: atm.ProportionalHazards(support=(13.0, 35.0), order=4, **k),
        atm.Interval(np.floor(Y), np.floor(Y) + 1.0),
    ),
    "ordinal": (atm.OrdinalRegression, np.digitize(Y, [15.0, 20.0, 25.0])),
    "count": (lambda **k: atm.CountRegression(support=(10.0, 40.0), order=4, **k), np.floor(Y).astype(int)),
    "line": (lambda **k: atm.NormalLinear(**k), Y),
    "log-line": (lambda **k: atm.ParametricSurvival(**k), CAPPED),
}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_strata_and_a_factor_that_varies_are_separate_fits(kind: str) -> None:
    make, y = OUTCOMES[kind]
    X = BOSTON[["side"]].assign(east=(BOSTON.side == "east").astype(float))
    strata = make(strata="side").fit(X[["side"]], y)
    varying = make(varying=["east"]).fit(X[["east"]], y)
    apart = {side: make().fit(None, y[(BOSTON.side == side).to_numpy()]) for side in ("east", "west")}
    total = sum(model.loglik_ for model in apart.values())
    assert strata.converged_
    assert strata.loglik_ == pytest.approx(total, abs=1e-7)
    assert varying.loglik_ == pytest.approx(total, abs=1e-7)
    for side, model in apart.items():
        np.testing.assert_allclose(strata.baselines_.loc[side], model.baseline_, rtol=1e-5, atol=1e-5)
    effect = varying._sign * (apart["east"].baseline_ - apart["west"].baseline_)
    np.testing.assert_allclose(varying.baselines_.loc["east"], effect, rtol=1e-5, atol=1e-5)
    rows = [0, 300, 400]
    for q in (0.2, 0.5, 0.9):
        wanted = [apart[side].predict_distribution(None).ppf(q)[0] for side in BOSTON.side.iloc[rows]]
        for model, columns in ((strata, ["side"]), (varying, ["east"])):
            found = model.predict_distribution(X[columns].iloc[rows]).ppf(q)
            np.testing.assert_allclose(found.astype(float), np.array(wanted, dtype=float), rtol=1e-6)


def numbers_vary(xi: float = 0.0, order: int = 4) -> Any:
    make = atm.ContinuousLogit(xi, order=order, support=(13.0, 35.0), varying=["lstat", "rm"])
    return make.fit(BOSTON[["rm", "lstat", "crim"]], Y, anchors=BOSTON.town if xi else None)


def test_two_numbers_that_vary_equal_a_conic_solver() -> None:
    """The same likelihood in the textbook's parameters, with h' >= 0 asked for at the four corners of the box."""
    cp = pytest.importorskip("cvxpy")
    model = numbers_vary()
    A, D = model.basis_.rows(Y), model.basis_.derivative_rows(Y)
    x = BOSTON[["lstat", "rm"]].to_numpy()
    unit = (x - x.min(axis=0)) / np.ptp(x, axis=0)
    theta, B, beta = cp.Variable(5), cp.Variable((5, 2)), cp.Variable()
    h = A @ theta - cp.sum(cp.multiply(A @ B, unit), axis=1) - BOSTON.crim.to_numpy() * beta
    slope = D @ theta - cp.sum(cp.multiply(D @ B, unit), axis=1)
    loglik = cp.sum(cp.log(slope) - cp.logistic(h) - cp.logistic(-h))
    corners = [cp.diff(theta - B @ np.array(corner)) >= 0 for corner in ((0, 0), (0, 1), (1, 0), (1, 1))]
    problem = cp.Problem(cp.Maximize(loglik), corners)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert model.loglik_ == pytest.approx(problem.value, abs=1e-5)
    assert model.loglik_ > problem.value - 1e-7
    found = model.baselines_.loc[["lstat", "rm"]].to_numpy() * np.ptp(x, axis=0)[:, None]
    np.testing.assert_allclose(found, B.value.T, atol=1e-3 * np.abs(B.value).max())
    assert model.kkt_ < 1e-8
    assert model.min_eigenvalue_ > 1e-4


def test_the_constraint_is_met_everywhere_in_the_box_and_only_there_needed() -> None:
    model = numbers_vary()
    rng = np.random.default_rng(0)
    low, high = model.result_.corners.groups[0], model.result_.corners.groups[1]
    X = pd.DataFrame({"rm": rng.uniform(high.low, high.high, 300), "lstat": rng.uniform(low.low, low.high, 300)})
    h = model.predict_distribution(X.assign(crim=1.0)).trafo(np.linspace(5.0, 50.0, 200))
    assert (np.diff(h, axis=1) >= -1e-9).all()
    assert model.result_.corners.least(np.diff(model.baselines_.to_numpy())).min() == pytest.approx(0.0, abs=1e-9)
    assert model.active_.any()


@pytest.mark.parametrize("xi", [0.0, 2.0, 30.0])
def test_the_loss_is_the_definition_and_least(xi: float) -> None:
    X = BOSTON[["rm", "lstat", "crim", "side"]]
    model = atm.ContinuousLogit(xi, order=3, support=(13.0, 35.0), varying=["lstat", "rm"], strata="side")
    model.fit(X, CAPPED, anchors=BOSTON.town)

    def loss(m: Any) -> float:
        loglik, r = m.new_rows_.logliks(X, CAPPED, None)
        means = pd.Series(r).groupby(BOSTON.town.to_numpy()).transform("mean")
        return float(-loglik.mean() + xi * (means**2).mean())

    assert model.loss_ == pytest.approx(loss(model), abs=1e-11)
    rng, tried = np.random.default_rng(1), 0
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(60):
            baseline = model.baseline_ + size * rng.normal(size=model.baseline_.size)
            other = moved(model, baseline, model.coef_ + size * rng.normal(size=model.coef_.size))
            steps = np.diff(other.baseline_.reshape(4, -1))
            if (other.result_.corners.least(steps) >= 0.0).all():
                tried += 1
                assert loss(other) > model.loss_
    # and along directions that keep what is at its bound
    for scale in (0.99, 1.01):
        other = moved(model, scale * model.baseline_, scale * model.coef_)
        assert loss(other) > model.loss_
    assert model.converged_
    assert model.kkt_ < 1e-8


def test_derivatives_with_corners() -> None:
    model = atm.ContinuousLogit(2.0, order=3, support=(13.0, 35.0), varying=["lstat", "rm"], strata="side")
    X = BOSTON[["rm", "lstat", "crim", "side"]]
    problem = model.problem(X, CAPPED, anchors=BOSTON.town)
    objective = problem.objective
    rng = np.random.default_rng(0)
    v = problem.start(objective)
    v = v + 0.05 * rng.uniform(size=v.size)
    pull = rng.normal(size=objective.sums(v).t.size)
    at = objective.derivatives(v, pull)
    step = 1e-5
    for j in rng.choice(v.size, 8, replace=False):
        e = np.zeros(v.size)
        e[j] = step
        ahead, behind = objective.sums(v + e), objective.sums(v - e)
        assert at.gradient[j] == pytest.approx(-(ahead.loglik - behind.loglik) / (2 * step), rel=1e-5, abs=1e-4)
        np.testing.assert_allclose(at.E[:, j], (ahead.t - behind.t) / (2 * step), rtol=1e-4, atol=1e-6)
        up, down = objective.derivatives(v + e, pull), objective.derivatives(v - e, pull)
        curve = (up.gradient + up.E.T @ pull - down.gradient - down.E.T @ pull) / (2 * step)
        faint = objective.n_total * objective.coordinates.faint
        np.testing.assert_allclose((at.hessian - faint)[j], curve, rtol=1e-5, atol=1e-3)


def test_the_way_in_which_increments_are_shared_out_makes_no_difference() -> None:
    model = atm.ContinuousLogit(order=3, support=(13.0, 35.0), varying=["lstat", "rm"], strata="side")
    problem = model.problem(BOSTON[["rm", "lstat", "side"]], Y, anchors=BOSTON.town)
    objective = problem.objective
    coordinates = objective.coordinates
    v = problem.start(objective) + 0.1
    moved = v + 0.03 * np.einsum("kdj->d", coordinates._moves)
    assert objective.sums(moved).loglik == pytest.approx(objective.sums(v).loglik, abs=1e-9)
    np.testing.assert_allclose(coordinates.shared_out(moved), coordinates.shared_out(v), atol=1e-12)
    np.testing.assert_allclose(coordinates.apart(moved, v), 0.0, atol=1e-14)
    for a, b in zip(coordinates.split(moved), coordinates.split(v), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(coordinates.join(*coordinates.split(v)), coordinates.shared_out(v), atol=1e-10)


def test_the_sandwich_is_what_weights_do() -> None:
    """The influence of a row is the derivative of the estimate in its weight: by fits with other weights."""
    X = BOSTON[["rm", "lstat", "side"]]
    make = atm.ContinuousLogit(1.0, order=2, support=(13.0, 35.0), varying=["lstat"], strata="side", tol=1e-11)
    model = clone(make).fit(X, Y, anchors=BOSTON.town)
    found = influence(model)
    assert model.covariance("sandwich").shape == (10, 10)
    for row in (3, 250, 480):
        ends = []
        for step in (-1e-4, 1e-4):
            weights = np.ones(506)
            weights[row] += step
            fit = clone(make).fit(X, Y, anchors=BOSTON.town, sample_weight=weights)
            ends.append(np.concatenate([fit.baseline_, fit.coef_]))
        wanted = (ends[1] - ends[0]) / 2e-4
        np.testing.assert_allclose(found[row], wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max())


def test_paths_and_left_out_environments() -> None:
    X = BOSTON[["rm", "lstat", "side"]]
    make = atm.ContinuousProbit(order=3, support=(13.0, 35.0), varying=["lstat"], strata="side")
    path = atm.anchor_path(make, X, Y, BOSTON.town, [0.0, 1.0, 10.0])
    for xi, model in zip(path.xis, path.models, strict=True):
        alone = clone(make).set_params(xi=xi).fit(X, Y, anchors=BOSTON.town)
        assert alone.loss_ == pytest.approx(model.loss_, abs=1e-10)
        assert model.converged_
    groups = np.arange(506) % 3
    table = atm.leave_one_environment_out(make, X, Y, groups, [0.0, 5.0], anchors=BOSTON.town).frame()
    inner = groups != 1
    alone = clone(make).set_params(xi=5.0).fit(X[inner], Y[inner], anchors=BOSTON.town[inner])
    wanted = alone.nll(X[~inner], Y[~inner]).mean()
    nll = table.query("environment == 1 and xi == 5").nll.item()
    assert nll == pytest.approx(wanted, abs=1e-7)


def test_left_out_strata_are_named() -> None:
    X = BOSTON[["rm", "side"]]
    with pytest.raises(InputError, match="environment east: not predicted: only this environment has stratum east"):
        atm.leave_one_environment_out(atm.NormalLinear(strata="side"), X, Y, BOSTON.side, [0.0], anchors=BOSTON.town)


def test_saving_and_formulas(tmp_path: Path) -> None:
    table = BOSTON.assign(level=pd.cut(BOSTON.crim, [-1, 0.1, 1, 100], labels=["low", "mid", "high"]))
    model = atm.ContinuousLogit.from_formula(
        "cmedv | side ~ rm + lstat + level | town", table, xi=1.0, order=3, varying="level + lstat"
    )
    assert model.varying == [["level[T.mid]", "level[T.high]"], ["lstat"]]
    assert model.strata == ["side"]
    assert model.coef_names_ == ["rm"]
    assert model.n_parameters_ == 5 * 4 + 1
    same = atm.load(atm.save(model, tmp_path / "model.json"))
    for ask in (same, pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(ask.predict(table), model.predict(table))
        np.testing.assert_array_equal(ask.nll(table), model.nll(table))
        assert str(ask.summary()) == str(model.summary())
    assert "the baseline is that of lstat = 1.73" in str(model.summary())
    assert "each with a baseline of its own" in str(model.summary())
    assert same.parameter_names_[-1] == "effect of lstat: Bs4"
    with pytest.raises(InputError, match="strata that the fit has not seen: north"):
        model.predict(table.assign(side="north"))
    with pytest.warns(AnchorTMWarning, match="lstat leaves its range"):
        far = model.predict(table[:2].assign(lstat=99.0))
    with pytest.warns(AnchorTMWarning, match="in 1 rows"):
        model.predict(table[:1].assign(lstat=0.0))
    np.testing.assert_array_equal(far, model.predict(table[:2].assign(lstat=table.lstat.max())))


def test_arrays_anchors_and_strata_by_position() -> None:
    frame = BOSTON[["town", "rm", "side", "lstat"]].assign(
        town=BOSTON.town.astype("category").cat.codes, side=(BOSTON.side == "east").astype(int)
    )
    named = atm.ContinuousProbit(1.0, anchor_names=["town"], strata=["side"], varying="lstat", order=3).fit(frame, Y)
    rows = frame.to_numpy(dtype=float)
    placed = atm.ContinuousProbit(1.0, strata=1, varying=[1], order=3).fit(rows[:, 1:], Y, anchors=frame.town)
    np.testing.assert_allclose(placed.coef_, named.coef_, atol=1e-9)
    np.testing.assert_allclose(placed.predict(rows[:5, 1:]), named.predict(frame[:5]), rtol=1e-9)
    without = named.predict(frame[:5].drop(columns="town"))
    np.testing.assert_array_equal(without, named.predict(frame[:5]))


def test_weights_replicate_rows() -> None:
    weights = np.random.default_rng(0).integers(0, 3, 506)
    X = BOSTON[["rm", "lstat", "side"]]
    make = atm.ContinuousLogit(1.0, order=3, support=(13.0, 35.0), varying=["lstat"], strata="side")
    weighted = clone(make).fit(X, Y, anchors=BOSTON.town, sample_weight=weights)
    rows = np.repeat(np.arange(506), weights)
    # the range that is stated must be the same
    copied = clone(make).set_params(varying={"lstat": (X.lstat.min(), X.lstat.max())})
    copied.fit(X.iloc[rows].reset_index(drop=True), Y[rows], anchors=BOSTON.town.iloc[rows].to_numpy())
    again = clone(copied).fit(X, Y, anchors=BOSTON.town, sample_weight=weights)
    np.testing.assert_allclose(again.coef_, copied.coef_, atol=1e-7)
    assert weighted.loss_ == pytest.approx(copied.loss_, abs=1e-9)


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"varying": "age"}, InputError, "varying names 'age', which is not a covariate: there are rm, lstat"),
        ({"varying": ["rm", "rm"]}, InputError, "named twice"),
        ({"varying": {"rm": (5.0, 6.0)}}, InputError, "beyond its range"),
        ({"varying": {"rm": (9.0, 3.0)}}, InputError, "not a range"),
        ({"varying": {"rm": 3.0}}, InputError, "give \\(low, high\\)"),
        ({"varying": [["rm", "lstat"]]}, InputError, "not dummies of one factor at row 0"),
        ({"strata": "rm"}, InputError, "strata are names or whole numbers"),
        ({"strata": "there"}, InputError, "strata not in X: there"),
        ({"strata": 3.5}, InputTypeError, "strata must be names"),
        ({"strata": "one"}, InputError, "single stratum"),
        ({"strata": "side", "anchor_names": "side"}, InputError, "strata and anchors at once"),
        ({"strata": "side", "random": "side"}, InputError, "strata and clusters at once"),
    ],
)
def test_what_is_refused(parameters: dict[str, Any], error: type[Exception], match: str) -> None:
    X = BOSTON[["rm", "lstat"]]
    named = parameters.get("strata")
    if isinstance(named, str) and named in ("side", "one"):
        X = X.assign(**{named: BOSTON.side if named == "side" else 1})
    with pytest.raises(error, match=match):
        atm.ContinuousProbit(**parameters).fit(X, Y)


def test_refusals_elsewhere() -> None:
    with pytest.raises(InputError, match="strata are among the covariates: rm"):
        atm.Formula("cmedv | rm ~ rm + lstat", BOSTON)
    with pytest.raises(InputError, match="before '~', after the outcome"):
        atm.Formula("cmedv | rm | age ~ lstat", BOSTON)
    with pytest.raises(InputTypeError, match="does not support strata"):
        atm.LinearAnchorRegression.from_formula("cmedv | side ~ lstat | town", BOSTON)
    with pytest.raises(InputError, match="not among the terms of the formula, which has lstat"):
        atm.NormalLinear.from_formula("cmedv ~ lstat", BOSTON, varying="rm")
    with pytest.raises(InputError, match="before '~' in the formula"):
        atm.NormalLinear.from_formula("cmedv ~ lstat", BOSTON, strata="side")
    model = atm.NormalLinear.from_formula("cmedv | side ~ lstat", BOSTON)
    with pytest.raises(InputError, match="see baselines_"):
        _ = model.sigma_
    with pytest.raises(InputError, match="this model has no varying effects"):
        model.varying_effects(20.0)
    with pytest.raises(InputError, match="one baseline"):
        atm.marginal_effects(model, BOSTON)


def test_effects_along_the_response_are_what_they_say() -> None:
    model = numbers_vary()
    table = model.varying_effects([15.0, 25.0])
    X = BOSTON[["rm", "lstat", "crim"]][:1]
    for name in ("rm", "lstat"):
        h = [model.predict_distribution(X.assign(**{name: X[name] + d})).trafo([15.0, 25.0])[0] for d in (0.0, 1.0)]
        wanted = -(h[1] - h[0])  # h - x'beta
        np.testing.assert_allclose(table[table.covariate == name].effect, wanted, rtol=1e-9)
    one = atm.ContinuousLogit(order=4, support=(13.0, 35.0)).fit(BOSTON[["rm"]], Y)
    both = atm.ContinuousLogit(order=4, support=(13.0, 35.0), varying=["rm"]).fit(BOSTON[["rm"]], Y)
    middle = both.varying_effects(np.linspace(15, 35, 9))
    assert middle.lower.min() < one.coef_[0] < middle.upper.max()
    ordinal = atm.OrdinalRegression(varying=["rm"]).fit(BOSTON[["rm"]], np.digitize(Y, [15.0, 20.0, 25.0]))
    assert ordinal.varying_effects([0, 1, 2]).shape == (3, 6)
    with pytest.raises(InputError, match="at must be among the classes"):
        ordinal.varying_effects([3])


def test_bands_of_rows_with_baselines_of_their_own() -> None:
    """The delta method against derivatives by differences."""
    X = BOSTON[["rm", "lstat", "side"]]
    model = atm.ContinuousLogit(order=3, support=(13.0, 35.0), varying=["lstat"], strata="side").fit(X, Y)
    at, V = np.array([18.0, 25.0]), model.covariance("sandwich")
    band = model.confidence_band(X[:2], at, uncertainty=V)

    def h(parameters: np.ndarray) -> np.ndarray:
        other = moved(model, parameters[: model.baseline_.size], parameters[model.baseline_.size :])
        return other.predict_distribution(X[:2]).trafo(at)

    here = np.concatenate([model.baseline_, model.coef_])
    steps = 1e-5 * np.eye(here.size)
    J = np.array([(h(here + e) - h(here - e)) / 2e-5 for e in steps])
    error = np.sqrt(np.einsum("jab,jk,kab->ab", J, V, J))
    np.testing.assert_allclose(band.lower, np.exp(model.link_.log_cdf(h(here) - 1.959964 * error)), rtol=1e-5)
    quantiles = model.confidence_band(X[:2], [0.3, 0.6], of="ppf", uncertainty=V)
    assert (quantiles.lower < quantiles.estimate).all()


def test_the_score_test_and_the_likelihood_ratio_agree() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(-1, 1, 5000), "z": rng.integers(0, 2, 5000)})
    y = atm.Surv(X.x + (1 + 0.15 * X.z) * rng.logistic(size=5000) + 20, rng.uniform(size=5000) < 0.8)
    make = atm.ContinuousLogit(order=3, support=(15.0, 25.0))
    table = atm.proportionality_test(make, X, y).frame()
    plain = clone(make).fit(X, y)
    for name in X:
        wider = clone(make).set_params(varying=[name]).fit(X, y)
        assert table.df[name] == 3
        assert table.statistic[name] == pytest.approx(2.0 * (wider.loglik_ - plain.loglik_), rel=0.05)
    assert table["p-value"]["z"] < 0.05 < table["p-value"]["x"]
    strata = atm.ContinuousLogit(order=3, support=(10.0, 45.0), strata="side", varying=["rm"])
    more = atm.proportionality_test(strata, BOSTON[["rm", "lstat", "age", "side"]], CAPPED, ["age", "lstat"]).frame()
    assert list(more.index) == ["age", "lstat"]
    assert (more.df <= 3).all()


def test_the_score_statistic_is_rao_s() -> None:
    """Slope and curvature of the wider model's likelihood at the plain fit, in its own parameters by differences."""
    X = BOSTON[["rm"]]
    y = np.digitize(Y, [15.0, 20.0, 25.0])
    plain = atm.OrdinalRegression().fit(X, y)
    found = atm.proportionality_test(atm.OrdinalRegression(), X, y).frame().iloc[0]
    x = X.rm.to_numpy()

    def loglik(parameters: np.ndarray) -> float:
        h = parameters[:3] - x[:, None] * parameters[3:]
        F = np.column_stack([np.zeros(506), 1.0 / (1.0 + np.exp(-h)), np.ones(506)])
        return float(np.log(np.diff(F)[np.arange(506), y]).sum())

    here, step = np.concatenate([plain.baseline_, np.repeat(plain.coef_, 3)]), 1e-4
    E = step * np.eye(6)
    gradient = np.array([(loglik(here + e) - loglik(here - e)) / (2 * step) for e in E])
    H = [
        [(loglik(here + a + b) - loglik(here + a - b) - loglik(here - a + b) + loglik(here - a - b)) for a in E]
        for b in E
    ]
    information = -np.array(H) / (4 * step**2)
    assert found.df == 2
    assert found.statistic == pytest.approx(gradient @ np.linalg.solve(information, gradient), rel=1e-4)


@pytest.mark.slow
def test_the_score_test_keeps_its_level() -> None:
    rng = np.random.default_rng(0)
    low = []
    for _ in range(400):
        x, z = rng.normal(size=300), rng.integers(0, 2, 300)
        y = np.digitize(x + 0.5 * z + rng.logistic(size=300), [-1.0, 0.5, 2.0])
        frame = pd.DataFrame({"x": x, "z": z})
        low.append(atm.proportionality_test(atm.OrdinalRegression(), frame, y).frame()["p-value"] < 0.05)
    share = np.array(low).mean(axis=0)
    assert (share > 0.025).all()
    assert (share < 0.085).all()


def test_limit_with_strata() -> None:
    X = BOSTON[["rm", "lstat", "age", "side"]]
    make = atm.ContinuousLogit(np.inf, order=3, strata="side", varying=["age"])
    model = make.fit(X, Y, anchors=BOSTON[["crim"]])
    r = model.residuals(X, Y)
    assert abs(r.mean()) < 1e-9
    assert abs(np.corrcoef(r, BOSTON.crim)[0, 1]) < 1e-9
    assert model.min_eigenvalue_ > 1e-4
    near = clone(make).set_params(xi=1e6).fit(X, Y, anchors=BOSTON[["crim"]])
    np.testing.assert_allclose(near.coef_, model.coef_, rtol=1e-3)


def test_corners_hold_together() -> None:
    """Internal columns times internal parameters are h by the reported ones, for all kinds of groups at once."""
    rng = np.random.default_rng(0)
    factor = rng.integers(0, 3, 50)
    matrix = np.column_stack([rng.uniform(2, 5, 50), factor == 1, factor == 2, rng.normal(size=50)]).astype(float)
    labels = rng.choice(["a", "b"], 50).tolist()
    mixture, taken = make_mixture(labels, ["u", ["f1", "f2"]], ["u", "f1", "f2", "w"], matrix, -1.0)
    assert taken == [0, 1, 2]
    corners = mixture.corners
    assert corners == Corners(
        (
            Group("strata", (), ("a", "b")),
            Group("number", ("u",), (), float(matrix[:, 0].min()), float(matrix[:, 0].max())),
            Group("factor", ("f1", "f2")),
        ),
        -1.0,
        ("u", "f1", "f2", "w"),
    )
    M = np.tril(np.ones((4, 4)))
    inside = corners.inside(M, np.array([-np.inf, 0.0, 0.0, 0.0]), np.full(4, np.inf))
    delta, a = rng.normal(size=inside.matrix.shape[1]), rng.normal(size=(50, 4))
    theta = inside.matrix @ delta
    h = mixture.columns(a @ M, slice(None)) @ delta
    np.testing.assert_allclose(h, np.einsum("ij,ij->i", a, mixture.thetas(theta)), atol=1e-12)
    blocks = theta.reshape(5, 4)
    wanted = blocks[[0 if s == "a" else 1 for s in labels]] - (matrix[:, 0] - matrix[:, 0].min())[:, None] * blocks[2]
    wanted -= matrix[:, 1:2] * blocks[3] + matrix[:, 2:3] * blocks[4]
    np.testing.assert_allclose(mixture.thetas(theta), wanted, atol=1e-12)


def test_searches_and_the_shell_take_strata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search = atm.XiSearchCV.from_formula(
        "cmedv | side ~ rm + lstat | tract",
        BOSTON.assign(tract=np.arange(506) % 4),
        model=atm.NormalLinear(),
        xis=[0, 1],
    )
    assert search.best_estimator_.strata == ["side"]
    assert search.predict(BOSTON).shape == (506,)
    BOSTON.assign(part=np.arange(506) % 3).to_csv(tmp_path / "boston.csv", index=False)
    from anchortm.cli.main import main

    for command in (["fit", "--xi", "1"], ["path", "--xi", "0,1"], ["loeo", "--xi", "0,1", "--environments", "part"]):
        formula = ["--formula", "cmedv | side ~ rm + lstat | part", "--model", "c-logit"]
        done = main([command[0], str(tmp_path / "boston.csv"), *formula, *command[1:]])
        assert done in (0, None), capsys.readouterr().err


def test_a_level_that_lacks_classes_is_no_riddle() -> None:
    frame = atm.Formula("rating ~ temp + contact", data("wine"))  # no warm wine was rated 1
    with pytest.raises(SeparationError, match="a stratum or level may lack outcomes that others have"):
        atm.OrdinalRegression(varying=["temp[T.warm]"]).fit(frame.X, frame.y)


def test_covariates_that_strata_contain_are_named() -> None:
    X = BOSTON[["rm", "side"]].assign(east=(BOSTON.side == "east").astype(float))
    with pytest.raises(IdentificationError, match="east"):
        atm.NormalLinear(strata="side").fit(X, Y)
    with pytest.raises(IdentificationError, match="flat has no rows"):
        atm.NormalLinear(varying=["flat"]).fit(BOSTON[["rm"]].assign(flat=0.0), Y)
    factors = atm.NormalLinear(varying=["rm"], strata="side", l2=1.0, penalty_factor=[0.0, 2.0])
    fit = factors.fit(BOSTON[["rm", "lstat", "side", "age"]], Y)
    assert fit.coef_names_ == ["lstat", "age"]


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"varying": 1.5}, InputTypeError, "varying must be names or positions"),
        ({"varying": [None]}, InputTypeError, "varying must be names or positions"),
        ({"varying": [[]]}, InputTypeError, "or lists of dummies"),
        ({"varying": {"rm": (1, "x")}}, InputTypeError, "varying\\['rm'\\]"),
        ({"strata": ["side", "side"]}, InputError, "names a column twice"),
    ],
)
def test_odd_arguments(parameters: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        atm.ContinuousProbit(**parameters).fit(
            BOSTON[["rm", "lstat", "side"]] if "strata" in parameters else BOSTON[["rm"]], Y
        )


@pytest.mark.parametrize("odd", [np.inf, pd.NA, pd.Timestamp("2020-01-01"), (1, 2), None, 1.5])
def test_odd_strata(odd: Any) -> None:
    column = pd.Series([odd, *BOSTON.side[1:]], dtype=object)
    with pytest.raises(InputError, match="strata are names or whole numbers"):
        atm.NormalLinear(strata="s").fit(BOSTON[["rm"]].assign(s=column), Y)
    with pytest.raises(InputError, match="strata are names or whole numbers"):
        atm.NormalLinear(strata="s").fit(BOSTON[["rm"]].assign(s=pd.Timestamp("2020-01-01")), Y)


def test_nothing_that_varies_is_nothing() -> None:
    plain = atm.NormalLinear().fit(BOSTON[["rm"]], Y)
    for nothing in ([], {}, ()):
        np.testing.assert_array_equal(atm.NormalLinear(varying=nothing).fit(BOSTON[["rm"]], Y).coef_, plain.coef_)
    array = atm.ContinuousProbit(varying=np.array(["rm"]), order=3).fit(BOSTON[["rm", "lstat"]], Y)
    assert array.coef_names_ == ["lstat"]


def test_left_out_places_are_checked_like_fits() -> None:
    """A varying effect is left out where it cannot be estimated, and so is one that is constant within strata."""
    z, away, told = np.where(SITES == 0, RIVERSIDE, 0.0), SITES != 0, "environment 0: without z, which the other"
    X = BOSTON[["rm"]]
    with pytest.warns(AnchorTMWarning, match=told):
        found = atm.leave_one_environment_out(
            atm.ContinuousLogit(varying="z", order=3, tol=1e-10), X.assign(z=z), Y, SITES, [1.0]
        )
    alone = atm.ContinuousLogit(xi=1.0, order=3, tol=1e-10).fit(X[away], Y[away], anchors=SITES[away])
    assert found.frame().nll[0] == pytest.approx(alone.nll(X[~away], Y[~away]).mean(), abs=1e-8)
    time = atm.Surv(Y, Y < 50)
    X = BOSTON[["rm", "side"]]
    with pytest.warns(AnchorTMWarning, match=told):
        found = atm.leave_one_environment_out(
            atm.CoxPH(strata="side", tol=1e-10), X.assign(z=z + (BOSTON.side == "east")), time, SITES, [0.0]
        )
    alone = atm.CoxPH(strata="side", tol=1e-10).fit(X[away], time[away])
    np.testing.assert_allclose(found.frame()[["coef_rm", "coef_z"]].to_numpy()[0], [*alone.coef_, np.nan], atol=1e-8)


def test_the_proportionality_test_refuses_what_it_cannot_test() -> None:
    X = BOSTON[["rm", "lstat"]]
    with pytest.raises(InputError, match=r"score tests cannot be combined with an l. penalty"):
        atm.proportionality_test(atm.ContinuousLogit(l2=0.1), X, Y)
    with pytest.raises(InputError, match="cannot vary along the response with CoxPH"):
        atm.proportionality_test(atm.CoxPH(), X, CAPPED)
    with pytest.raises(InputError, match="scale effects"):
        atm.proportionality_test(atm.NormalLinear(scale="rm"), X, Y)
    with pytest.raises(InputError, match="no covariates whose effect"):
        atm.proportionality_test(atm.NormalLinear(), X, Y, [])
    assert list(atm.proportionality_test(atm.NormalLinear(), X, Y, "rm").frame().index) == ["rm"]
    assert list(atm.proportionality_test(atm.NormalLinear(), X, Y, 1).frame().index) == ["lstat"]


def test_tables_on_disk_find_the_strata(tmp_path: Path) -> None:
    BOSTON.to_parquet(tmp_path / "boston.parquet")
    model = atm.ContinuousLogit.from_formula("cmedv | side ~ rm + lstat", BOSTON, order=3)
    atm.predict_table(model, str(tmp_path / "boston.parquet"), str(tmp_path / "out.parquet"), quantiles=[0.5])
    found = pd.read_parquet(tmp_path / "out.parquet").iloc[:, -1]
    np.testing.assert_allclose(found, model.predict(BOSTON))
    again = atm.ContinuousLogit.from_formula("cmedv | side ~ rm + lstat", str(tmp_path / "boston.parquet"), order=3)
    np.testing.assert_allclose(again.baseline_, model.baseline_, atol=1e-6)


def test_extrapolation_sees_covariates_whose_effects_vary() -> None:
    X = BOSTON[["rm", "lstat"]]
    model = atm.ContinuousLogit(varying="rm", order=3).fit(X, Y)
    assert model.covariate_ranges_.shape == (2, 2)
    assert model.extrapolation(X[:2].assign(rm=99.0)).covariates.tolist() == ["rm", "rm"]


def test_a_fitted_model_remembers_its_strata() -> None:
    X = BOSTON[["rm", "side"]]
    model = atm.NormalLinear(strata="side").fit(X, Y)
    wanted = model.predict(X)
    np.testing.assert_array_equal(model.set_params(strata=None).predict(X), wanted)


def test_strata_that_are_the_anchors() -> None:
    with pytest.raises(InputError, match="side cannot be strata and anchors at once"):
        atm.NormalLinear.from_formula("cmedv | side ~ rm | side", BOSTON)
    with pytest.warns(AnchorTMWarning, match="the strata explain all differences"):
        atm.ContinuousLogit(1.0, strata="side", order=3).fit(BOSTON[["rm", "side"]], Y, anchors=BOSTON.side)


def test_summaries_tell_baselines_apart() -> None:
    classes = pd.Categorical(np.where(Y > 20, "x: hi", "a: lo"), ["a: lo", "x: hi"], ordered=True)
    assert "Baseline  a: lo|x: hi " in str(atm.OrdinalRegression().fit(BOSTON[["rm"]], classes).summary())
    assert "increments of h zero for some covariates or strata" in str(numbers_vary(order=6).summary())


def test_strata_without_baselines_are_no_file(tmp_path: Path) -> None:
    """A file of a plain model whose parameters name strata."""
    path = atm.save(atm.NormalLinear().fit(BOSTON[["rm"]], Y), tmp_path / "model.json")
    record = json.loads(path.read_text())
    record["parameters"]["strata"] = "side"
    record["sha256"] = persistence.digest(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match="baselines of strata"):
        atm.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["corners"]["groups"][0].update(labels=["west", "east"]),
        lambda r: r["corners"]["groups"][1].update(names=["rm"]),
        lambda r: r["corners"].update(covariates=["lstat", "lstat"]),
        lambda r: r["corners"]["groups"][1].update(low=99.0),
        lambda r: r["parameters"].update(strata=None),
        lambda r: r["parameters"].update(varying=None),
        lambda r: r.update(corners=None),
    ],
)
def test_tampered_corners_are_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    model = atm.ContinuousLogit(order=3, strata="side", varying=["lstat"]).fit(BOSTON[["rm", "lstat", "side"]], Y)
    path = atm.save(model, tmp_path / "model.json")
    record = json.loads(path.read_text())
    change(record)
    record["sha256"] = persistence.digest(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ModelFileError):
        atm.load(path)
