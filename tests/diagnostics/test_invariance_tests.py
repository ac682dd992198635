"""The test that residuals do not depend on environments: against reference numbers, slow formulas and public fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from invariance_reference import PROBLEMS, reference_model, reference_rows
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.diagnostics.environment_columns import EnvironmentColumns
from anchortm.diagnostics.environment_regressions import regression_of
from anchortm.exceptions import InputError, InputTypeError, SeparationError
from anchortm.inputs.anchors import anchor_columns

SETS = [(name, own) for name, problem in PROBLEMS.items() for own in problem["sets"]]


@pytest.mark.parametrize(("name", "own"), SETS)
def test_the_reference(name: str, own: str) -> None:
    problem = PROBLEMS[name]
    rows, covariates = reference_rows(problem), [] if own == "Empty" else own.split("+")
    wanted = problem["sets"][own]["linear_mle"]
    test = atm.invariance_test(reference_model(problem), *rows, covariates=covariates)
    assert test.df == wanted["df"]
    assert test.statistic == pytest.approx(wanted["statistic"], rel=1e-8)
    assert test.p_value == pytest.approx(wanted["p_value"], rel=1e-8)


def simulated(seed: int = 1, n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 4, n)
    data = pd.DataFrame({"X1": rng.normal(size=n) + 0.5 * site, "E": np.array(["p", "q", "r", "s"])[site]})
    data["AGE"] = rng.normal(size=n) - 0.3 * site
    data["y"] = data.X1 + rng.logistic(size=n)
    data["X11"] = data.y + rng.normal(size=n) + 0.5 * site
    data["word"] = rng.choice(["a", "b", "c"], n)
    data["time"] = np.exp(0.5 * data.y)
    limit = np.exp(rng.normal(size=n) + 0.5)
    data["event"] = (data.time <= limit).astype(int)
    data["time"] = np.minimum(data.time, limit)
    data["entry"] = np.where(rng.random(n) < 0.3, 0.5 * data.time, 0.0)
    data["low"], data["high"] = np.floor(data.y), np.floor(data.y) + 1.0
    data["grade"] = np.digitize(data.y, [-1.0, 1.0, 2.0])
    data["count"] = rng.poisson(np.exp(0.3 * data.X1))
    data["w"], data["o"] = rng.integers(1, 4, n).astype(float), 0.3 * rng.normal(size=n)
    data["part"] = rng.choice(["u", "v"], n)
    return data


DATA = simulated()
LOGIT = atm.ContinuousLogit(order=3, support=(-3.0, 5.0))


def slow_measure(r: np.ndarray, A: np.ndarray, X: np.ndarray, w: np.ndarray | None = None) -> float:
    """Return the statistic as it is defined, by a loop over rows."""
    w = np.ones(len(r)) if w is None else w
    Z, n = np.column_stack([np.ones(len(r)), X]), w.sum()
    xi = A - Z @ np.linalg.lstsq(np.sqrt(w)[:, None] * Z, np.sqrt(w)[:, None] * A, rcond=None)[0]
    mean = sum(w[i] * r[i] * xi[i] for i in range(len(r))) / n
    sigma = sum(w[i] * np.outer(r[i] * xi[i], r[i] * xi[i]) for i in range(len(r))) / n - np.outer(mean, mean)
    return float(n * mean @ np.linalg.solve(sigma, mean))


def indicators(values: pd.Series) -> np.ndarray:
    return (values.to_numpy()[:, None] == np.unique(values)[1:]).astype(float)


MODELS = {
    "censored": (atm.ContinuousLogit(order=3, support=(0.3, 5.0)), "Surv(time, event)"),
    "delayed entry": (atm.ParametricSurvival(), "Surv(time, event, entry)"),
    "interval": (LOGIT, "Interval(low, high)"),
    "ordinal": (atm.OrdinalRegression(), "grade"),
    "count": (atm.CountRegression(order=3, support=(0.0, 8.0)), "count"),
    "poisson": (atm.AnchorGLM(family="poisson"), "count"),
    "gaussian": (atm.AnchorGLM(family="gaussian"), "y"),
    "gamma": (atm.AnchorGLM(family="gamma"), "time"),
    "cox": (atm.CoxPH(), "Surv(time, event, entry)"),
    "lehmann": (atm.Lehmann(order=3, support=(-3.0, 5.0)), "y"),
}


@pytest.mark.parametrize("name", MODELS)
def test_sets_have_the_residuals_of_their_own_fits(name: str) -> None:
    """A censored outcome stays censored: residuals are those of the public fit to the same outcome."""
    model, outcome = MODELS[name]
    test = atm.invariance_test(model, f"{outcome} ~ X1 + X11 + word | E", DATA, covariates=["X1", "word"])
    fit = type(model).from_formula(f"{outcome} ~ X1 + word", DATA, **model.get_params(deep=False))
    r = fit.residuals(DATA)
    np.testing.assert_allclose(test.residuals, r, rtol=1e-6, atol=1e-7)
    X = np.column_stack([DATA.X1, indicators(DATA.word)])
    assert test.statistic == pytest.approx(slow_measure(r, indicators(DATA.E), X), rel=1e-6)
    assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, 3))
    assert test.covariates == ("X1", "word")
    frame = test.residual_frame()
    assert frame.columns.tolist() == ["residual", "E"]
    assert frame.E.tolist() == DATA.E.tolist()


def test_xi_of_the_model_is_ignored() -> None:
    one, two = (atm.invariance_test(atm.NormalLinear(xi=xi), "y ~ X1 | E", DATA) for xi in (0.0, 5.0))
    assert one.statistic == two.statistic


def test_names_that_contain_each_other_are_kept_apart() -> None:
    formula, names = "y ~ X1 + X11 + AGE | E", ("X1", "X11", "AGE")
    found = {name: atm.invariance_test(LOGIT, formula, DATA, covariates=[name]) for name in names}
    for name, test in found.items():
        alone = atm.invariance_test(LOGIT, DATA[[name]], DATA.y, DATA.E)
        assert test.statistic == pytest.approx(alone.statistic, rel=1e-9)
    assert found["X1"].p_value > 0.05 > found["X11"].p_value


@pytest.mark.parametrize("method", ["gcm", "score", "wald"])
def test_codes_and_units_do_not_matter(method: str) -> None:
    plain = atm.invariance_test(atm.ParametricSurvival(), "Surv(time, event) ~ X1 + AGE | E", DATA, method=method)
    moved = DATA.assign(
        E=DATA.E.map({"p": 7, "q": 3, "r": 9, "s": 1}), X1=1000.0 * DATA.X1 + 5.0, time=365.25 * DATA.time
    ).sample(frac=1.0, random_state=0)
    other = atm.invariance_test(atm.ParametricSurvival(), "Surv(time, event) ~ X1 + AGE | E", moved, method=method)
    assert other.df == plain.df
    assert other.statistic == pytest.approx(plain.statistic, rel=1e-7)
    columns = indicators(DATA.E) @ np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 0.0, 1.0]]) + 4.0
    y = atm.Surv(DATA.time, DATA.event)
    numbers = atm.invariance_test(atm.ParametricSurvival(), DATA[["X1", "AGE"]], y, columns, method=method)
    assert numbers.statistic == pytest.approx(plain.statistic, rel=1e-7)


@pytest.mark.parametrize("method", ["gcm", "wald", "score"])
def test_weights_replicate_rows(method: str) -> None:
    copied = DATA.loc[np.repeat(DATA.index, DATA.w.astype(int))].reset_index(drop=True)
    formula = "y ~ X1 + AGE | E"
    one = atm.invariance_test(LOGIT, formula, DATA, sample_weight="w", method=method)
    two = atm.invariance_test(LOGIT, formula, copied, method=method)
    assert one.df == two.df
    assert one.statistic == pytest.approx(two.statistic, rel=1e-7)
    assert one.rows == two.rows


def test_offsets_join_the_fit() -> None:
    test = atm.invariance_test(LOGIT, "y ~ X1 + AGE | E", DATA, covariates="X1", offset="o")
    fit = LOGIT.__class__(**LOGIT.get_params()).fit(DATA[["X1"]], DATA.y, offset=DATA.o)
    np.testing.assert_allclose(test.residuals, fit.residuals(DATA[["X1"]], DATA.y, offset=DATA.o), atol=1e-7)


def test_several_environments_and_numbers_stand_side_by_side() -> None:
    year = np.linspace(0.0, 1.0, len(DATA)) ** 2
    test = atm.invariance_test(atm.NormalLinear(), "y ~ X1 | E + year", DATA.assign(year=year))
    r = atm.NormalLinear().fit(DATA[["X1"]], DATA.y).residuals(DATA[["X1"]], DATA.y)
    A = np.column_stack([year, indicators(DATA.E)])
    assert test.df == 4
    assert test.statistic == pytest.approx(slow_measure(r, A, DATA[["X1"]].to_numpy()), rel=1e-8)


def test_columns_that_add_nothing_are_named() -> None:
    coarse = DATA.assign(half=DATA.E.isin(["p", "q"]).map({True: "a", False: "b"}))
    test = atm.invariance_test(LOGIT, "y ~ X1 | E + half", coarse)
    assert test.df == 3
    assert len(test.left_out) == 1
    assert test.statistic == pytest.approx(atm.invariance_test(LOGIT, "y ~ X1 | E", DATA).statistic, rel=1e-9)
    assert f"left out, as they add nothing to the other columns: {test.left_out[0]}" in str(test)
    inside = atm.invariance_test(LOGIT, "y ~ X1 + half | E", coarse)  # a covariate that is a function of E
    assert inside.df == 2
    with pytest.raises(InputError, match="determine the environment"):
        atm.invariance_test(LOGIT, "y ~ C(E) | E", DATA)


def test_the_score_method_is_the_score_test() -> None:
    test = atm.invariance_test(LOGIT, "y ~ X1 + X11 | E", DATA, covariates=["X11"], method="score")
    other = atm.diagnostics.score_test(LOGIT, "y ~ X11 | E", DATA, method="observed")
    assert test.df == other.df
    assert test.statistic == pytest.approx(other.statistic, rel=1e-7)


def test_the_wald_method_is_walds_test() -> None:
    test = atm.invariance_test(LOGIT, "y ~ X1 + X11 | E", DATA, covariates=["X11"], method="wald")
    fit = atm.ContinuousLogit.from_formula("y ~ X11 * C(E)", DATA, order=3, support=(-3.0, 5.0))
    at = [j for j, name in enumerate(fit.coef_names_) if name != "X11"]
    covariance = fit.covariance("hessian")[-len(fit.coef_names_) :, -len(fit.coef_names_) :][np.ix_(at, at)]
    b = fit.coef_[at]
    assert test.df == 6
    assert test.statistic == pytest.approx(b @ np.linalg.solve(covariance, b), rel=1e-6)


def test_simulated_statistics_have_the_distribution_of_the_statistic() -> None:
    test = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, method="simulate", n_draws=99)
    plain = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA)
    assert test.statistic == plain.statistic
    assert test.p_value == (1 + np.sum(test.simulated >= test.statistic)) / 100
    assert stats.kstest(test.simulated, stats.chi2(3).cdf).pvalue > 1e-3
    again = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, method="simulate", n_draws=99)
    np.testing.assert_array_equal(test.simulated, again.simulated)
    rejected = atm.invariance_test(LOGIT, "y ~ X11 | E", DATA, method="simulate", n_draws=19)
    assert rejected.p_value == 0.05
    heavy = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, method="simulate", n_draws=5, sample_weight="w")
    assert heavy.simulated.size == 5
    with pytest.raises(InputError, match="weights that are not whole numbers"):
        atm.invariance_test(LOGIT, "y ~ X1 | E", DATA.assign(w=0.5), method="simulate", sample_weight="w")


def test_few_rows_are_said() -> None:
    few = atm.invariance_test(atm.NormalLinear(), "y ~ X1 | E", DATA[:40])
    assert few.rows == pytest.approx(40 / 3)
    assert "rejects too often; use method='simulate'" in str(few)
    assert "rejects too often" in few._repr_html_()


def test_regressors_never_predict_their_own_rows() -> None:
    """A nearest neighbour reproduces its own training rows, which would leave nothing of the environment."""
    X, A = DATA[["X1"]].to_numpy(), EnvironmentColumns.of(anchor_columns(DATA.E))
    nearest = KNeighborsRegressor(1)
    xi = regression_of(nearest, 3)(A, X, None)
    slow = np.empty_like(xi)
    for train, test in KFold(5, shuffle=True, random_state=3).split(X):
        for j in range(3):
            slow[test, j] = A.matrix[test, j] - nearest.fit(X[train], A.matrix[train, j]).predict(X[test])
    np.testing.assert_array_equal(xi, slow)
    assert (np.abs(xi).mean(axis=0) > 0.2).all()
    forest = regression_of("forest", 1)(A, X, None)
    np.testing.assert_array_equal(forest, regression_of("forest", 1)(A, X, None))
    assert 0.1 < np.mean(forest**2) < 0.25  # that of its own rows is about a third


def test_any_regressor_will_do() -> None:
    plain = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA)
    ridge = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, regression=Ridge(1e-6))
    assert ridge.regression == "Ridge"
    assert ridge.statistic == pytest.approx(plain.statistic, rel=0.1)
    weighted = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, regression=Ridge(1e-6), sample_weight="w")
    assert weighted.statistic > 0.0
    forest = atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, regression="forest", covariates=())
    assert forest.statistic == atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, covariates=()).statistic
    numeric = atm.invariance_test(LOGIT, "y ~ X1 | AGE", DATA, regression="logistic")
    assert numeric.statistic == pytest.approx(atm.invariance_test(LOGIT, "y ~ X1 | AGE", DATA).statistic)


def test_rows_with_missing_values_or_weight_zero_are_left_out() -> None:
    holes = DATA.assign(X1=DATA.X1.where(DATA.index != 5), E=DATA.E.where(DATA.index != 9), w=(DATA.index > 2) * 1.0)
    model = atm.NormalLinear(missing="drop")
    wanted = atm.invariance_test(model, "y ~ X1 | E", DATA.drop(index=[0, 1, 2, 5, 9]))
    found = atm.invariance_test(model, "y ~ X1 | E", holes, sample_weight="w")
    columns = atm.invariance_test(model, holes[["X1"]], holes.y, holes.E, sample_weight=holes.w)
    assert found.statistic == columns.statistic == pytest.approx(wanted.statistic, rel=1e-10)
    assert found.residuals.size == len(found.residual_frame()) == len(DATA) - 5


def test_environments_may_be_columns_of_the_covariates() -> None:
    model = atm.NormalLinear(anchor_names=["AGE"])
    found = atm.invariance_test(model, DATA[["X1", "AGE"]], DATA.y)
    assert found.covariates == ("X1",)
    assert found.statistic == pytest.approx(atm.invariance_test(atm.NormalLinear(), "y ~ X1 | AGE", DATA).statistic)


def test_strata_are_in_every_set() -> None:
    for model, outcome in ((LOGIT, "y"), (atm.CoxPH(), "Surv(time, event)")):
        test = atm.invariance_test(model, f"{outcome} | part ~ X1 | E", DATA)
        X = np.column_stack([DATA.X1, DATA.part == "v"])
        assert test.statistic == pytest.approx(slow_measure(test.residuals, indicators(DATA.E), X), rel=1e-8)


def test_alpha_is_estimated_for_each_set() -> None:
    rng = np.random.default_rng(5)
    data = DATA.assign(count=rng.negative_binomial(2, 1.0 / (1.0 + np.exp(0.3 * DATA.X1) / 2)))
    model = atm.AnchorGLM(family="negative_binomial", alpha="ml")
    test = atm.invariance_test(model, "count ~ X1 + AGE | E", data, covariates=["X1"])
    fit = atm.AnchorGLM.from_formula("count ~ X1", data, family="negative_binomial", alpha="ml")
    np.testing.assert_allclose(test.residuals, fit.residuals(data), rtol=1e-5, atol=1e-6)


def test_nearly_collinear_covariates_are_fitted() -> None:
    data = DATA.assign(twin=DATA.X1 + 1e-7 * DATA.AGE)
    test = atm.invariance_test(LOGIT, "y ~ X1 + twin + X11 | E", data, covariates=["X11"])
    assert test.statistic == pytest.approx(atm.invariance_test(LOGIT, "y ~ X11 | E", DATA).statistic, rel=1e-7)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"method": "permute"}, InputError, "method must be 'gcm'"),
        ({"regression": "lasso"}, InputError, "regression must be 'linear'"),
        ({"regression": LogisticRegression()}, InputTypeError, "a regressor of scikit-learn"),
        ({"covariates": ["X"]}, InputError, "covariates has X, but the covariates are X1, AGE"),
        ({"covariates": 3}, InputTypeError, "covariates must be names"),
        ({"n_draws": 0}, InputError, "n_draws"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        atm.invariance_test(LOGIT, "y ~ X1 + AGE | E", DATA, **given)


def test_what_cannot_be_tested_says_why() -> None:
    with pytest.raises(InputError, match="needs environments"):
        atm.invariance_test(LOGIT, "y ~ X1", DATA)
    with pytest.raises(InputError, match="a single environment"):
        atm.invariance_test(LOGIT, DATA[["X1"]], DATA.y, np.zeros(len(DATA), dtype=int))
    with pytest.raises(SeparationError):
        atm.invariance_test(atm.OrdinalRegression(), DATA[["y"]], DATA.grade, DATA.E)
    with pytest.raises(InputTypeError, match="the model alone"):
        atm.invariance_test(make_pipeline(StandardScaler(), LOGIT), DATA[["X1"]], DATA.y, DATA.E)
    with pytest.raises(InputError, match="invariance tests cannot be combined with an l2 penalty"):
        atm.invariance_test(atm.NormalLinear(l2=1.0), "y ~ X1 | E", DATA)
    assert atm.invariance_test(LOGIT, "y ~ X1", DATA, "E").df == 3
    assert atm.invariance_test(LOGIT, "y ~ X1 | E", DATA, "part").df == 1
