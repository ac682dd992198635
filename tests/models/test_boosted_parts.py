"""Boosted models with strata, varying effects, offsets and weights: against linear models, brute force and copies."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import anchortm as atm
from anchortm.bases import LogLinearBasis
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, ModelFileError, UnavailableError
from anchortm.models.boosted.booster import Booster
from anchortm.saving import digest

N = 240
RNG = np.random.default_rng(5)
SITE = RNG.integers(0, 6, N)
HIDDEN = RNG.normal(size=N)
PART = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
OFFSET, SITES = RNG.normal(size=N), np.eye(6)[SITE]
X = pd.DataFrame(RNG.normal(size=(N, 3)) + 0.3 * SITE[:, None] + HIDDEN[:, None], columns=["x", "z", "w"])
WITH_PART = X.assign(part=PART)
SHIFT = np.sin(2 * X.x) + X.w + HIDDEN
Y = (np.where(PART == "a", 0.5, 2.0) * (SHIFT + (1.0 + 0.2 * X.z) * RNG.logistic(size=N))).to_numpy() + OFFSET
TIMES = atm.Surv(np.exp(Y / 6), RNG.uniform(size=N) < 0.7)
CLASSES, COUNTS = np.digitize(Y, [-3.0, 0.0, 3.0]), np.floor(np.exp(Y / 5)).astype(int)

# the model, the covariates, the outcome
CASES: dict[str, tuple[Any, pd.DataFrame, Any]] = {
    "strata": (atm.ContinuousLogit(order=3, strata="part"), WITH_PART, Y),
    "strata, normal": (atm.NormalLinear(strata="part"), WITH_PART, Y),
    "strata, censored": (atm.ProportionalHazards(order=3, strata="part"), WITH_PART, TIMES),
    "strata, classes": (atm.OrdinalRegression(strata="part"), WITH_PART, CLASSES),
    "strata, counts": (atm.CountRegression(order=3, strata="part"), WITH_PART, COUNTS),
    "varying": (atm.ContinuousLogit(order=3, varying="z"), X, Y),
    "varying classes": (atm.OrdinalRegression(varying=["z"]), X, CLASSES),
    "both": (atm.ContinuousLogit(order=3, strata="part", varying="z"), WITH_PART, TIMES),
}


def boosted(name: str, xi: float = 1.0, **options: Any) -> Any:
    base, columns, y = CASES[name]
    model = atm.AnchorBoostedTM(base, xi, **({"n_rounds": 8} | options))
    return model.fit(columns, y, anchors=SITE, offset=OFFSET)


@pytest.mark.filterwarnings("ignore:nearly collinear")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_a_linear_learner_becomes_the_linear_model_with_the_same_parts(name: str, xi: float) -> None:
    base, columns, y = CASES[name]
    model = boosted(name, xi, learner="linear", learning_rate=0.7, n_rounds=40)
    linear = clone(base).set_params(xi=xi).fit(columns, y, anchors=SITE, offset=OFFSET)
    assert model.coef_names_ == linear.coef_names_
    np.testing.assert_allclose(model.coef_, linear.coef_, atol=1e-8)
    np.testing.assert_allclose(model.baseline_, linear.baseline_, atol=1e-7)
    assert model.loss_ == pytest.approx(linear.loss_, abs=1e-10)
    np.testing.assert_allclose(model.nll(columns, y, offset=OFFSET), linear.nll(columns, y, offset=OFFSET), atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_the_baselines_are_the_best_for_f(name: str) -> None:
    base, columns, y = CASES[name]
    model = boosted(name)
    own = columns[model.coef_names_].to_numpy()
    f = sum(tree.predict(own) for tree in model.trees_)
    beside = columns.drop(columns=model.coef_names_)
    alone = clone(base).set_params(xi=1.0).fit(beside, y, anchors=SITE, offset=f + OFFSET)  # from its own start
    assert model.loss_ == pytest.approx(alone.loss_, abs=1e-10)
    np.testing.assert_allclose(model.nll(columns, y, offset=OFFSET), alone.nll(beside, y, offset=f + OFFSET), atol=1e-4)
    history = model.loss_history_
    assert (np.diff(history.loss) < 1e-12).all()
    assert history.loss.iloc[-1] < history.loss.iloc[0] - 1e-3


def test_one_whole_newton_step_leaves_no_gradient_of_a_quadratic_loss() -> None:
    """For h = log y + theta_s - f - offset the loss is |h|^2 / 2n + xi |P h|^2 / n: one round minimises it."""
    xi = 1.5
    base = atm.AnchorTM(link="probit", basis=LogLinearBasis(1.0), strata="part")
    model = atm.AnchorBoostedTM(base, xi, n_rounds=1, learning_rate=1.0, l2_leaf=0.0, max_leaf_nodes=4)
    model.fit(WITH_PART, np.exp(Y), anchors=SITE, offset=OFFSET)
    (tree,) = model.trees_
    leaves, strata, A = np.eye(4)[tree.apply(X.to_numpy())], np.eye(3)[np.searchsorted(["a", "b", "c"], PART)], SITES
    theta = model.baseline_.reshape(3, 2)
    np.testing.assert_allclose(theta[:, 1], 1.0)
    h = Y + strata @ theta[:, 0] - leaves @ tree.value[tree.leaves] - OFFSET
    weighted = h + 2 * xi * A @ np.linalg.solve(A.T @ A, A.T @ h)
    np.testing.assert_allclose(strata.T @ weighted / N, 0.0, atol=1e-10)
    np.testing.assert_allclose(leaves.T @ weighted / N, 0.0, atol=1e-10)
    assert model.loss_ == pytest.approx(h @ weighted / (2 * N) + 0.5 * np.log(2 * np.pi) + Y.mean(), abs=1e-10)


def test_baselines_by_stratum_have_no_gradient_of_the_stated_loss() -> None:
    xi = 1.5
    model = boosted("strata, normal", xi, n_rounds=3, max_leaf_nodes=4)
    f = sum(tree.predict(X.to_numpy()) for tree in model.trees_)

    def loss(theta: np.ndarray) -> float:
        own = theta.reshape(3, 2)[np.searchsorted(["a", "b", "c"], PART)]
        h = own[:, 0] + own[:, 1] * Y - f - OFFSET  # the score residual of the normal link is h
        Pr = SITES @ np.linalg.solve(SITES.T @ SITES, SITES.T @ h)
        loglik = -0.5 * h**2 - 0.5 * np.log(2 * np.pi) + np.log(own[:, 1])
        return float(-loglik.mean() + xi * Pr @ Pr / N)

    theta = model.baseline_
    assert loss(theta) == pytest.approx(model.loss_, abs=1e-12)
    for e in 1e-5 * np.eye(6):
        assert abs(loss(theta + e) - loss(theta - e)) / 2e-5 < 1e-7


def test_strata_are_fitted_apart_where_nothing_is_shared() -> None:
    """Trees that split by stratum first: with leaves that lie within strata each part has its own model."""
    x = X.x.to_numpy() + 100.0 * (PART == "b")
    keep = PART != "c"
    table = pd.DataFrame({"x": x, "part": PART})[keep]
    y = Y[keep]
    options: dict[str, Any] = {"learning_rate": 1.0, "l2_leaf": 0.0, "n_rounds": 200, "min_samples_leaf": 1}
    # few distinct values, so that trees reach the saturated model
    table["x"] = np.round(table.x)
    together = atm.AnchorBoostedTM(atm.NormalLinear(strata="part"), **options).fit(table, y)
    for part in ("a", "b"):
        own = (table.part == part).to_numpy()
        dummies = pd.get_dummies(table.x[own], drop_first=True, dtype=float)
        apart = atm.NormalLinear().fit(dummies.to_numpy(), y[own])
        np.testing.assert_allclose(together.nll(table[own], y[own]), apart.nll(dummies.to_numpy(), y[own]), atol=1e-6)


@pytest.mark.parametrize("name", ["strata", "both"])
def test_rows_in_another_order_and_copies_of_rows_change_nothing(name: str) -> None:
    base, columns, y = CASES[name]
    times = np.random.default_rng(0).integers(0, 3, N)
    base = clone(base).set_params(support=(0.5, 2.0) if name == "both" else (-5.0, 5.0))
    if name == "both":
        base.set_params(varying={"z": (X.z.min(), X.z.max())})
    model = atm.AnchorBoostedTM(base, 1.0, n_rounds=6, min_samples_leaf=1, max_leaf_nodes=4)
    weighted = clone(model).fit(columns, y, anchors=SITE, sample_weight=times, offset=OFFSET)
    again = np.random.default_rng(1).permutation(np.repeat(np.arange(N), times))
    repeated = clone(model).fit(columns.iloc[again], y[again], anchors=SITE[again], offset=OFFSET[again])
    np.testing.assert_allclose(
        weighted.nll(columns, y, offset=OFFSET), repeated.nll(columns, y, offset=OFFSET), atol=1e-7
    )


def test_units_of_the_outcome_do_not_matter() -> None:
    base, columns, _ = CASES["strata"]
    one, other = (
        atm.AnchorBoostedTM(base, 1.0, n_rounds=6).fit(columns, unit * Y, anchors=SITE, offset=OFFSET)
        for unit in (1.0, 1000.0)
    )
    np.testing.assert_allclose(
        1000.0 * one.predict(columns, offset=OFFSET), other.predict(columns, offset=OFFSET), rtol=1e-6
    )
    assert other.loss_ == pytest.approx(one.loss_ + np.log(1000.0), abs=1e-8)


@pytest.mark.parametrize("name", ["strata", "varying classes", "both"])
@pytest.mark.parametrize("learner", ["tree", "linear+tree", "linear"])
def test_saved_models_predict_the_same_bits(name: str, learner: str, tmp_path: Path) -> None:
    _, columns, y = CASES[name]
    model = boosted(name, learner=learner)
    for other in (atm.load(atm.save(model, tmp_path / "m.json")), pickle.loads(pickle.dumps(model))):  # noqa: S301
        for mine, theirs in ((model, other), (model.staged(3), other.staged(3))):
            np.testing.assert_array_equal(mine.nll(columns, y, offset=OFFSET), theirs.nll(columns, y, offset=OFFSET))
        assert str(other.summary()) == str(model.summary())
        moved = [
            m.refit(columns[:30], y[:30], offset=OFFSET[:30], strength=5.0).nll(columns, y, offset=OFFSET)
            for m in (model, other)
        ]
        np.testing.assert_array_equal(*moved)
        assert list(other.extrapolation(columns[:2].assign(z=[0.0, 99.0])).covariates) == ["", "z"]


def test_formulas_name_strata(tmp_path: Path) -> None:
    data = WITH_PART.assign(y=Y, site=SITE, extra=OFFSET)
    base = atm.ContinuousLogit(order=3, varying="z")
    model = atm.AnchorBoostedTM.from_formula(
        "y | part ~ x + z + w | site", data, model=base, xi=1.0, n_rounds=5, offset="extra"
    )
    other = atm.AnchorBoostedTM(clone(base).set_params(strata="part"), 1.0, n_rounds=5)
    other.fit(WITH_PART, Y, anchors=SITE, offset=OFFSET)
    np.testing.assert_allclose(model.nll(data), other.nll(WITH_PART, Y, offset=OFFSET), atol=1e-12)
    loaded = atm.load(atm.save(model, tmp_path / "m.json"))
    np.testing.assert_array_equal(loaded.nll(data), model.nll(data))
    assert "strata" in model.summary().facts
    boosting = atm.AnchorBoostedTM(base, n_rounds=5)
    search = atm.XiSearchCV.from_formula("y | part ~ x + z + w | site", data, model=boosting, xis=[1.0], offset="extra")
    np.testing.assert_array_equal(search.best_estimator_.nll(data), model.nll(data))
    assert boosting.model.strata is None  # what the user passed does not change
    with pytest.raises(InputError, match="strata that the fit has not seen: q"):
        model.predict(data.assign(part="q"))


def test_positions_name_strata_and_anchors(tmp_path: Path) -> None:
    numbers = np.column_stack([SITE, X, np.searchsorted(["a", "b", "c"], PART)])
    numbers[:, 0] += 0.5  # not codes
    base = atm.ContinuousLogit(order=3, anchor_names=[0], strata=[4])
    model = atm.AnchorBoostedTM(base, 1.0, n_rounds=5).fit(numbers, Y)
    other = atm.AnchorBoostedTM(atm.ContinuousLogit(order=3, strata="part"), 1.0, n_rounds=5)
    other.fit(WITH_PART, Y, anchors=SITE + 0.5)
    np.testing.assert_allclose(model.nll(numbers, Y), other.nll(WITH_PART, Y), atol=1e-12)
    loaded = atm.load(atm.save(model, tmp_path / "m.json"))
    np.testing.assert_array_equal(loaded.nll(numbers, Y), model.nll(numbers, Y))
    assert loaded.n_features_in_ == 5


def test_left_out_environments_and_validation_know_strata() -> None:
    base, columns, y = CASES["strata"]
    model = atm.AnchorBoostedTM(base, n_rounds=6)
    table = atm.leave_one_environment_out(model, columns, y, SITE, [0, 2], offset=OFFSET).frame()
    rest = SITE != 3
    fit = clone(model).set_params(xi=2.0).fit(columns[rest], y[rest], anchors=SITE[rest], offset=OFFSET[rest])
    found = table[(table.environment == 3) & (table.xi == 2.0)].nll.item()
    assert found == pytest.approx(fit.nll(columns[~rest], y[~rest], offset=OFFSET[~rest]).mean(), abs=1e-10)
    watched = atm.AnchorBoostedTM(base, 2.0, n_rounds=6, validation=[3], all_rows=False, n_iter_no_change=6)
    watched.fit(columns, y, anchors=SITE, offset=OFFSET)
    held = watched.nll(columns[~rest], y[~rest], offset=OFFSET[~rest]).mean()
    assert watched.loss_history_.held_out.min() == pytest.approx(held, abs=1e-10)
    search = atm.XiSearchCV(model, [0, 2], "worst", rule="smallest").fit(columns, y, anchors=SITE, offset=OFFSET)
    assert search.best_xi_ == table.groupby("xi").nll.max().idxmin()


def test_a_refit_moves_the_stratum_that_the_new_rows_have() -> None:
    _, columns, y = CASES["strata"]
    model = boosted("strata", n_rounds=10)
    own = np.flatnonzero(PART == "a")[:40]
    moved = model.refit(columns.iloc[own], y[own] + 1.5, offset=OFFSET[own], strength=2.0)
    assert moved.converged_
    assert moved.min_eigenvalue_ > 0.0
    before, after = (m.nll(columns.iloc[own], y[own] + 1.5, offset=OFFSET[own]).mean() for m in (model, moved))
    assert after < before - 0.1
    pairs = [(m.baseline_.reshape(3, -1)) for m in (model, moved)]
    change = np.abs(pairs[1] - pairs[0]).max(axis=1)
    assert change[0] > 10.0 * change[1:].max()
    with pytest.warns(AnchorTMWarning, match="the fit had an offset"):
        model.refit(columns[:20], y[:20], strength=5.0)


def test_predictions_need_strata() -> None:
    model = boosted("strata")
    with pytest.raises(InputError, match="strata not in X: part"):
        model.predict(X, offset=OFFSET)
    lonely = X.assign(part=np.where(SITE == 2, "c", np.where(PART == "c", "a", PART)))
    fresh = atm.AnchorBoostedTM(CASES["strata"][0], n_rounds=2)
    with pytest.warns(AnchorTMWarning, match="environment 2: not predicted: only this environment has stratum c"):
        nll = atm.leave_one_environment_out(fresh, lonely, Y, SITE, [1.0]).frame().nll
    assert np.flatnonzero(np.isnan(nll)).tolist() == [2]
    with pytest.raises(InputError, match="without environment 2: stratum 'c' has no rows"):
        fresh.set_params(validation=[2]).fit(lonely, Y, anchors=SITE)


def test_a_sparse_x_and_a_wide_factor_are_columns_of_trees(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    code, x = rng.integers(0, 120, 3000), rng.normal(size=3000)
    y = np.sin(2 * x) + 2.0 * (code == 7) + rng.normal(size=3000)
    dense = np.column_stack([x, np.eye(120)[code][:, 1:]])
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=4, min_samples_leaf=5)
    sparse = clone(model).fit(sp.csr_matrix(dense), y)
    np.testing.assert_array_equal(sparse.predict(sp.csr_matrix(dense)), clone(model).fit(dense, y).predict(dense))
    np.testing.assert_array_equal(sparse.predict(dense), sparse.predict(sp.csr_matrix(dense)))
    assert sparse.feature_importances_[7] > 0.0
    data = pd.DataFrame({"y": y, "x": x, "code": pd.Categorical([f"k{k:03d}" for k in code])})
    by_formula = atm.AnchorBoostedTM.from_formula(
        "y ~ x + code", data, model=model.model, n_rounds=4, min_samples_leaf=5
    )
    np.testing.assert_allclose(np.sort(by_formula.predict(data)), np.sort(sparse.predict(dense)), atol=1e-10)
    loaded = atm.load(atm.save(by_formula, tmp_path / "m.json"))
    np.testing.assert_array_equal(loaded.predict(data), by_formula.predict(data))
    with pytest.raises(InputError, match="columns of 1000000 rows as numbers, which is too many"):
        clone(model).fit(sp.csr_matrix((1_000_000, 100)), np.zeros(1_000_000) + np.arange(1_000_000) % 2)


FAMILIES: dict[str, Any] = {
    "poisson": np.random.default_rng(1).poisson(np.exp(0.4 * SHIFT / SHIFT.std())),
    "binomial": Y > 0.0,
    "trials": atm.Trials(COUNTS, COUNTS + 3),
    "gamma": 40.0 * np.exp(Y / 6),
    "gaussian": 100.0 * Y,
    "negative_binomial": COUNTS,
}


def glm(name: str, xi: float = 0.0, **options: Any) -> Any:
    family = "binomial" if name == "trials" else name
    known = {"dispersion": 0.5} if family in ("gamma", "gaussian") else {}
    return atm.AnchorGLM(xi, family=family, **known, **options)


@pytest.mark.parametrize("residual", ["score", "deviance"])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("xi", [0.0, 1.0])
def test_a_linear_learner_becomes_the_generalised_linear_model(name: str, xi: float, residual: Any) -> None:
    y, offset = FAMILIES[name], 0.1 * OFFSET
    model = atm.AnchorBoostedTM(glm(name, residual=residual), xi, learner="linear", learning_rate=0.7, n_rounds=40)
    model.fit(X, y, anchors=SITE, offset=offset)
    linear = glm(name, xi, residual=residual).fit(X, y, anchors=SITE, offset=offset)
    np.testing.assert_allclose(model.coef_, linear.coef_, atol=1e-8 * max(1.0, np.abs(linear.coef_).max()))
    assert model.loss_ == pytest.approx(linear.loss_, rel=1e-10)
    np.testing.assert_allclose(model.nll(X, y, offset=offset), linear.nll(X, y, offset=offset), rtol=1e-7)
    np.testing.assert_allclose(model.predict(X, offset=offset), linear.predict(X, offset=offset), rtol=1e-7)
    np.testing.assert_allclose(
        model.residuals(X, y, offset=offset), linear.residuals(X, y, offset=offset), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("residual", ["score", "deviance"])
@pytest.mark.parametrize("name", FAMILIES)
def test_pseudo_residuals_of_a_family_are_the_slope_of_the_loss(name: str, residual: Any) -> None:
    """The loss with f as an offset is that of AnchorGLM; its own sums are tested against statsmodels."""
    y, xi = FAMILIES[name], 1.0
    problem = glm(name, xi, residual=residual).problem(None, y, anchors=SITE)
    b = Booster(problem.spec, problem.data, type(problem))
    size = 100.0 if name == "gaussian" else 1.0
    b.put(0.3 * size * np.sin(np.arange(N)), b.solution.v)
    found, v, step = b.pseudo_residuals(), b.solution.v, 1e-5 * size

    def loss(f: np.ndarray) -> float:
        moved = np.zeros(N)
        moved[b.order] = f
        loglik, t = type(problem).on(problem.spec, problem.data._replace(offset=moved)).objective.sums(v)
        return float(-loglik + xi * t @ t)

    some = np.arange(0, N, 17)
    slopes = [-(loss(b.f + e) - loss(b.f - e)) / (2 * step) for e in step * np.eye(N)[some]]
    # in the unit of the family
    np.testing.assert_allclose(found[some], np.array(slopes) * b.objective.coordinates.unit, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_boosted_families_are_fitted_saved_and_staged(name: str, tmp_path: Path) -> None:
    y = FAMILIES[name]
    model = atm.AnchorBoostedTM(glm(name), 1.0, n_rounds=8).fit(X, y, anchors=SITE)
    history = model.loss_history_
    assert (np.diff(history.loss) < 1e-12).all()
    assert history.loss.iloc[-1] < history.loss.iloc[0]
    f = sum(tree.predict(X.to_numpy()) for tree in model.trees_)
    alone = glm(name, 1.0).fit(None, y, anchors=SITE, offset=f)
    assert model.loss_ == pytest.approx(alone.loss_, rel=1e-10)
    np.testing.assert_allclose(model.predict(X), alone.predict(None, offset=f), rtol=1e-7)
    loaded = atm.load(atm.save(model, tmp_path / "m.json"))
    short = atm.AnchorBoostedTM(glm(name), 1.0, n_rounds=3).fit(X, y, anchors=SITE)
    for other in (model, loaded):
        np.testing.assert_array_equal(other.nll(X, y), model.nll(X, y))
        staged = other.staged(3)
        np.testing.assert_array_equal(staged.nll(X, y), short.nll(X, y))
        assert staged.model_.deviance_ == short.model_.deviance_
    assert str(loaded.summary()) == str(model.summary())
    assert "intercept + f(x)" in model.summary().facts["model"]
    if name in ("binomial", "trials"):
        np.testing.assert_array_equal(model.predict_proba(X)[:, 1], model.predict(X))
    with pytest.raises(InputTypeError, match="refit is implemented for models with a baseline in y"):
        model.refit(X[:5], y[:5])


def test_boosted_families_leave_environments_out() -> None:
    model, y = atm.AnchorBoostedTM(atm.AnchorGLM(family="poisson"), n_rounds=4), FAMILIES["poisson"]
    table = atm.leave_one_environment_out(model, X, y, SITE, [1.0]).frame()
    rest = SITE != 2
    fit = clone(model).set_params(xi=1.0).fit(X[rest], y[rest], anchors=SITE[rest])
    assert table.nll[2] == pytest.approx(fit.nll(X[~rest], y[~rest]).mean(), abs=1e-10)
    watched = clone(model).set_params(xi=1.0, validation=[2], n_iter_no_change=4).fit(X, y, anchors=SITE)
    assert watched.loss_history_.held_out[4] == pytest.approx(table.nll[2], abs=1e-10)


@pytest.mark.slow
def test_the_bootstrap_fits_resampled_environments() -> None:
    base, columns, y = CASES["strata"]
    model = atm.AnchorBoostedTM(base, 1.0, n_rounds=4).fit(columns, y, anchors=SITE, offset=OFFSET)
    with pytest.warns(AnchorTMWarning, match="few"):
        refits = model.bootstrap(10, random_state=0, progress=False)
    assert refits.resampled == "environments (anchor)"
    assert (len(refits.models), refits.failed) == (10, 0)
    drawn = np.random.default_rng(0).multinomial(6, np.full(6, 1 / 6))
    rows = np.concatenate([np.repeat(np.flatnonzero(e == SITE), k) for e, k in enumerate(drawn)])
    given = clone(base).set_params(support=model.support_)
    same = atm.AnchorBoostedTM(given, 1.0, n_rounds=4, min_samples_leaf=1)
    # a leaf holds rows, not copies of rows: only leaves of any size make copies and weights the same
    with pytest.warns(AnchorTMWarning, match="few"):
        first = clone(same).fit(columns, y, anchors=SITE, offset=OFFSET).bootstrap(2, random_state=0).models[0]
    copied = clone(same).fit(columns.iloc[rows], y[rows], anchors=SITE[rows], offset=OFFSET[rows])
    np.testing.assert_allclose(first.nll(columns, y, offset=OFFSET), copied.nll(columns, y, offset=OFFSET), atol=1e-7)
    # a model of two rounds is resampled in two rounds, here by two processes
    short = model.staged(2).bootstrap(2, clusters=np.arange(N), random_state=3, n_jobs=2, progress=False)
    assert [m.n_rounds_ for m in short.models] == [2, 2]
    assert short.resampled == "clusters"
    points = [-2.0, 0.0, 2.0]
    band = model.confidence_band(columns[:5], points, uncertainty=refits, offset=OFFSET[:5], level=0.8)
    values = np.array([m.predict_distribution(columns[:5], offset=OFFSET[:5]).cdf(points) for m in refits.models])
    np.testing.assert_array_equal(band.lower, np.quantile(values, 0.1, axis=0, method="inverted_cdf"))
    np.testing.assert_array_equal(band.upper, np.quantile(values, 0.9, axis=0, method="inverted_cdf"))
    np.testing.assert_array_equal(band.estimate, model.predict_distribution(columns[:5], offset=OFFSET[:5]).cdf(points))
    wide = model.confidence_band(columns[:5], points, "sf", uncertainty=refits, offset=OFFSET[:5], simultaneous=True)
    assert (wide.lower <= wide.estimate).all()
    assert (wide.estimate <= wide.upper).all()
    assert ((wide.lower >= 0.0) & (wide.upper <= 1.0)).all()
    quantiles = model.confidence_band(columns[:5], [0.5], "ppf", uncertainty=refits, offset=OFFSET[:5])
    np.testing.assert_array_equal(quantiles.estimate[:, 0], model.predict(columns[:5], offset=OFFSET[:5]))
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        model.confidence_band(columns[:5], [1.5], "ppf", uncertainty=refits, offset=OFFSET[:5])
    with pytest.raises(InputTypeError, match="boosting cannot be combined with sandwich standard errors"):
        model.confidence_band(columns[:5], points, uncertainty="sandwich", offset=OFFSET[:5])
    with pytest.raises(InputTypeError, match="what bootstrap"):
        model.confidence_band(columns[:5], points, uncertainty=np.eye(3).tolist(), offset=OFFSET[:5])
    with pytest.raises(UnavailableError, match="needs the rows of the fit"):
        pickle.loads(pickle.dumps(model)).bootstrap(2)  # noqa: S301
    with pytest.raises(InputError, match="use the model before the refit"):
        model.refit(columns[:20], y[:20], offset=OFFSET[:20], strength=5.0).bootstrap(2)


@pytest.mark.slow
def test_bands_cover_the_truth_where_f_is_learnt() -> None:
    """40 environments, a step that one tree can fit: 90 % bands of the median cover it in most of 20 samples."""
    covered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        site, x = rng.integers(0, 40, 400), rng.integers(0, 2, 400).astype(float)
        y = 2.0 * x + 0.5 * rng.normal(size=40)[site] + rng.normal(size=400)
        model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3, learning_rate=1.0, l2_leaf=0.0)
        model.fit(x[:, None], y, anchors=site)
        refits = model.bootstrap(40, random_state=seed, progress=False)
        band = model.confidence_band([[0.0], [1.0]], [0.5], "ppf", level=0.9, uncertainty=refits)
        covered.append((band.lower[:, 0] <= [0.0, 2.0]) & (band.upper[:, 0] >= [0.0, 2.0]))
    assert 0.7 <= np.mean(covered) <= 1.0


def test_files_from_before_there_were_strata_are_read(tmp_path: Path) -> None:
    model = atm.AnchorBoostedTM(atm.ContinuousLogit(order=3), 1.0, n_rounds=3).fit(X, Y, anchors=SITE)
    path = atm.save(model, tmp_path / "m.json")
    record = json.loads(path.read_text())
    del record["boosted"]["covariates"]
    for stage in record["boosted"]["stages"]:
        del stage["own"]
    path.write_text(json.dumps(record | {"sha256": digest(record)}))
    old = atm.load(path)
    np.testing.assert_array_equal(old.nll(X, Y), model.nll(X, Y))
    np.testing.assert_array_equal(old.staged(1).nll(X, Y), model.staged(1).nll(X, Y))


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["boosted"].__setitem__("covariates", ["x", "w"]),
        lambda r: r["boosted"].__setitem__("covariates", ["w", "z", "x"]),
        lambda r: r["boosted"]["stages"][1].__setitem__("own", 3),
        lambda r: r["base"].__setitem__("varying", None),
        lambda r: r["base"].__setitem__("strata", None),
        lambda r: r["model"].__setitem__("corners", None),
        lambda r: r["boosted"]["features"].pop(),
    ],
)
def test_damaged_files_are_refused(change: Any, tmp_path: Path) -> None:
    path = atm.save(boosted("both", n_rounds=2), tmp_path / "m.json")
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record | {"sha256": digest(record)}))
    with pytest.raises(ModelFileError):
        atm.load(path)


@pytest.mark.parametrize("learner", ["tree", "linear"])
def test_penalties_need_a_linear_part(learner: str) -> None:
    table = pd.DataFrame({"y": RNG.normal(size=80), "x": RNG.normal(size=80), "site": np.arange(80) % 3})
    with pytest.raises(InputError, match="l2 shrinks coefficients of a linear part"):
        atm.AnchorBoostedTM(atm.NormalLinear(l2=0.1), learner=learner).fit(table[["x"]], table.y)
    with pytest.raises(InputError, match=r"write x instead of s\(x\)"):
        atm.AnchorBoostedTM.from_formula("y ~ s(x, 4) | site", table, model=atm.NormalLinear(), learner=learner)


def test_a_ridge_of_the_linear_part_is_that_of_the_model_without_trees() -> None:
    X, y = RNG.normal(size=(120, 3)), RNG.normal(size=120)
    ridge = atm.ContinuousProbit(order=3, l2=0.1).fit(X, y)
    bare = atm.AnchorBoostedTM(atm.ContinuousProbit(order=3, l2=0.1), learner="linear+tree", n_rounds=0).fit(X, y)
    np.testing.assert_allclose(bare.coef_, ridge.coef_, atol=1e-10)
    boosted = atm.AnchorBoostedTM(atm.ContinuousProbit(order=3, l2=0.1), learner="linear+tree", n_rounds=2).fit(X, y)
    assert boosted.loss_ < ridge.loss_
    with pytest.raises(InputError, match="a refit needs a linear part without l2"):
        boosted.refit(X[:20], y[:20], strength=1.0)
