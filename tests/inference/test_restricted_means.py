"""Restricted means: against closed forms, fine integrals, Kaplan-Meier, derivatives and the bootstrap."""

import pickle
from copy import copy

import lifelines
import lifelines.utils
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import special, stats

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, UnavailableError

CGD = atm.datasets.load_cgd()
FORMULA = "Surv(tstop, status) ~ treat + age | center"
Y = atm.Surv(CGD.tstop, CGD.status)
TAU = 300.0
MODELS = {
    "smooth": atm.ProportionalHazards(order=4),
    "logs": atm.ProportionalHazards(xi=1.0, log_first=True, order=4),
    "odds": atm.ContinuousLogit(order=3, log_first=True),
    "Weibull": atm.ParametricSurvival(),
    "Cox": atm.CoxPH(),
    "anchored Cox": atm.CoxPH(1.0),
}
SMOOTH = [name for name in MODELS if "Cox" not in name]


def fitted(model, formula: str = FORMULA):
    return type(model).from_formula(formula, CGD, **model.get_params(deep=False))


@pytest.fixture(scope="module")
def fits() -> dict:
    return {name: fitted(model) for name, model in MODELS.items()}


def area(distribution, tau: float = TAU, n: int = 400_001) -> np.ndarray:
    """Return the area under 1 - cdf by the rule of midpoints."""
    at = (np.arange(n) + 0.5) * tau / n
    return (1.0 - distribution.cdf(at)).mean(axis=1) * tau


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_area_under_the_curve(fits: dict, name: str) -> None:
    distribution = fits[name].predict_distribution(CGD[:3])
    smooth = name in SMOOTH
    np.testing.assert_allclose(distribution.restricted_mean(TAU), area(distribution), rtol=1e-8 if smooth else 1e-5)
    later = distribution.given(after=[0.0, 120.0, 1000.0])
    np.testing.assert_allclose(later.restricted_mean(TAU), area(later), rtol=1e-8 if smooth else 1e-5)
    assert later.restricted_mean(TAU)[2] == pytest.approx(TAU, abs=1e-11)


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.0, 40.0])
def test_closed_form_of_weibull_times(shape: float) -> None:
    """E[min(T, tau)] = scale Gamma(1 + 1/k) P(1/k + 1, x) + tau exp(-x) at x = (tau / scale)^k."""
    model = atm.ParametricSurvival().fit(None, atm.Surv([1.0, 2.0, 3.0], [1, 1, 1]))
    w = np.array([-shape * np.log(5.0), shape])
    weibull = moved(model, w).predict_distribution()
    for tau in (0.5, 4.0, 50.0, 1e5):
        x = (tau / 5.0) ** shape
        wanted = 5.0 * special.gamma(1 + 1 / shape) * special.gammainc(1 + 1 / shape, x) + tau * np.exp(-x)
        assert weibull.restricted_mean(tau)[0] == pytest.approx(wanted, rel=1e-10)


def test_up_to_a_far_horizon_it_is_the_mean(fits: dict) -> None:
    distribution = fits["smooth"].predict_distribution(CGD[:4])
    np.testing.assert_allclose(distribution.restricted_mean(1e5), distribution.mean(), rtol=1e-9)


def test_lifelines_has_the_same_of_a_weibull_fit() -> None:
    model = atm.ParametricSurvival(tol=1e-12).fit(None, Y)
    other = lifelines.WeibullFitter().fit(CGD.tstop, CGD.status)
    wanted = lifelines.utils.restricted_mean_survival_time(other, t=TAU)
    assert model.restricted_mean(None, TAU).estimate[0] == pytest.approx(wanted, rel=1e-5)


def test_without_covariates_it_is_that_of_the_hazard_estimate() -> None:
    """Under Breslow's formula the curve of CoxPH is Nelson and Aalen's, exp(-sum d / n): its area by hand."""
    model = atm.CoxPH(ties="breslow").fit(None, Y)
    times = np.unique(CGD.tstop[CGD.status == 1])
    died = np.array([((CGD.tstop == t) & (CGD.status == 1)).sum() for t in times])
    at_risk = np.array([(CGD.tstop >= t).sum() for t in times])
    before = times < TAU
    edges, curve = np.array([0.0, *times[before], TAU]), np.exp(-np.cumsum(died / at_risk))[before]
    found = model.restricted_mean(None, TAU)
    assert found.estimate[0] == pytest.approx(np.diff(edges) @ [1.0, *curve], rel=1e-12)
    # its variance: the sum over events of (area beyond)^2 d / n^2
    pieces = np.diff(edges)[1:] * curve
    beyond = np.cumsum(pieces[::-1])[::-1]
    assert found.standard_errors[0] == pytest.approx(
        np.sqrt((beyond**2 * (died / at_risk**2)[before]).sum()), rel=1e-10
    )
    # and close to that of Kaplan and Meier
    kaplan_meier = lifelines.KaplanMeierFitter().fit(CGD.tstop, CGD.status)
    mean = lifelines.utils.restricted_mean_survival_time(kaplan_meier, t=TAU)
    assert found.estimate[0] == pytest.approx(mean, rel=5e-3)


def test_means_are_those_of_survfit() -> None:
    """summary(survfit(coxph(Surv(tstop, status) ~ treat + age, cgd), cgd[1:3, ]), rmean = 300) of R."""
    model = atm.CoxPH.from_formula(FORMULA, CGD, tol=1e-12)
    np.testing.assert_allclose(model.restricted_mean(CGD[:3], TAU).estimate, [272.0153, 227.4908, 276.7771], atol=5e-5)


@pytest.mark.parametrize("name", SMOOTH)
def test_standard_errors_by_the_derivative_of_h(fits: dict, name: str) -> None:
    """The derivative in w of the area is the area under -f(h) dh/dw, with dh/dw = (a(y), +-x)."""
    model, rows = fits[name], CGD[:3]
    found = model.restricted_mean(rows, TAU)
    distribution, result = model.predict_distribution(rows), model.result_
    at = (np.arange(40_000) + 0.5) * TAU / 40_000
    slope = np.exp(result.link.log_density(distribution.trafo(at)))
    X = model.new_rows_.matrix(rows)
    a = result.basis.rows(at)
    J = -TAU / at.size * np.hstack([slope @ a, result.sign * slope.sum(axis=1)[:, None] * X])
    known = model.covariance("hessian" if result.xi == 0.0 else "sandwich")
    given = model.restricted_mean(rows, TAU, uncertainty=known)
    np.testing.assert_allclose(given.covariance(), J @ known @ J.T, rtol=1e-5)
    assert np.all(found.standard_errors > 0.0)


@pytest.mark.parametrize("name", ["Cox", "anchored Cox"])
@pytest.mark.parametrize("strata", [False, True])
def test_standard_errors_of_steps_by_the_joint_covariance(name: str, strata: bool) -> None:
    """The band has variances of log Lambda at pairs of times; simultaneous ones are refused, so use the pieces."""
    from anchortm.inference.step_bands import _joint

    formula = FORMULA.replace("status) ~", "status) | sex ~") if strata else FORMULA
    model, rows = fitted(MODELS[name], formula), CGD.iloc[[0, 3, 5, 9]]
    distribution, X = model.predict_distribution(rows), model.new_rows_.matrix(rows)
    known = _joint(model, "hessian" if model.xi_ == 0.0 else "sandwich")
    found = model.restricted_mean(rows, TAU)
    for i in range(len(rows)):
        code = distribution.stratum[i]
        curve = distribution.curves[code]
        start, size = np.searchsorted(known.steps.sets.stratum, code), np.searchsorted(curve.time, TAU)
        V, cross = known.at(start + np.arange(size))
        x = X[i] - known.mean
        whole = V + (x @ cross)[:, None] + x @ cross + x @ known.coef @ x
        lam = curve.total[:size] * np.exp(distribution.shift[i] - distribution.centre)
        g = -np.exp(-lam) * lam * np.diff([*curve.time[:size], TAU])
        assert found.standard_errors[i] == pytest.approx(np.sqrt(g @ whole @ g), rel=1e-9)


@pytest.mark.parametrize("name", ["smooth", "Cox"])
def test_standard_errors_are_about_those_of_the_bootstrap(fits: dict, name: str) -> None:
    model = type(MODELS[name]).from_formula(FORMULA.split("|")[0], CGD, **MODELS[name].get_params(deep=False))
    refits = model.bootstrap(100, random_state=1, progress=False)
    by = CGD.treat
    delta, boot = (model.restricted_mean(CGD, TAU, by=by, uncertainty=u) for u in ("sandwich", refits))
    np.testing.assert_allclose(boot.standard_errors, delta.standard_errors, rtol=0.25)
    np.testing.assert_allclose(boot.differences()["std. error"], delta.differences()["std. error"], rtol=0.25)
    assert boot.method == "bootstrap of 100"
    np.testing.assert_allclose(np.diag(boot.covariance()), boot.standard_errors**2)


@pytest.mark.parametrize("name", ["smooth", "Cox", "anchored Cox"])
def test_groups_are_averages_of_rows(fits: dict, name: str) -> None:
    model = fits[name]
    rows, groups = model.restricted_mean(CGD[:30], TAU), model.restricted_mean(CGD[:30], TAU, by=CGD.treat[:30])
    A = np.array([(CGD.treat[:30] == level).to_numpy() for level in groups.names], dtype=float)
    A /= A.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(groups.estimate, A @ rows.estimate, rtol=1e-12)
    np.testing.assert_allclose(groups.covariance(), A @ rows.covariance() @ A.T, rtol=1e-9)
    c = np.array([-1.0, 1.0])
    table = groups.differences().iloc[0]
    assert table["difference"] == pytest.approx(c @ groups.estimate)
    assert table["std. error"] == pytest.approx(np.sqrt(c @ groups.covariance() @ c))
    assert table["upper"] - table["difference"] == pytest.approx(stats.norm.ppf(0.975) * table["std. error"])
    assert list(groups.frame().index) == ["placebo", "rIFN-g"]
    assert groups.frame().index.name == "treat"


def moved(model, w: np.ndarray):
    """Return the model with other parameters."""
    other = copy(model)
    other._result = model.result_.at(w)
    return other


PARTS = {
    "strata": lambda: atm.ParametricSurvival.from_formula("Surv(tstop, status) | sex ~ treat + age", CGD),
    "scale": lambda: atm.ParametricSurvival.from_formula("Surv(tstop, status) ~ treat + age", CGD, scale=["age"]),
    "random": lambda: atm.ParametricSurvival.from_formula("Surv(tstop, status) ~ treat + age + (1 | center)", CGD),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_models(part: str) -> None:
    """Derivatives in the parameters that each part adds: moved by hand, one at a time."""
    model, rows = PARTS[part](), CGD[:2]
    w = model.result_.parameters
    J = []
    for unit in np.eye(w.size):
        up, down = (area(moved(model, w + side * 1e-4 * unit).predict_distribution(rows), n=20_000) for side in (1, -1))
        J.append((up - down) / 2e-4)
    found = model.restricted_mean(rows, TAU, uncertainty=np.eye(w.size) * 1e-2)
    np.testing.assert_allclose(found.standard_errors, 0.1 * np.sqrt((np.array(J) ** 2).sum(axis=0)), rtol=1e-4)


def test_a_boosted_model_has_them_by_refits() -> None:
    model = atm.AnchorBoostedTM.from_formula(FORMULA, CGD, model=atm.ParametricSurvival(), n_rounds=3)
    refits = model.bootstrap(5, random_state=0, progress=False)
    found = model.restricted_mean(CGD[:4], TAU, uncertainty=refits)
    draws = np.array([each.predict_distribution(CGD[:4]).restricted_mean(TAU) for each in refits.models])
    np.testing.assert_allclose(found.estimate, model.predict_distribution(CGD[:4]).restricted_mean(TAU))
    np.testing.assert_allclose(found.standard_errors, draws.std(axis=0, ddof=1))


def test_many_rows_are_those_one_by_one(fits: dict) -> None:
    rows = pd.concat([CGD] * 5, ignore_index=True)
    every = fits["smooth"].restricted_mean(rows, TAU)
    one = fits["smooth"].restricted_mean(rows[600:601], TAU)
    assert every.estimate[600] == pytest.approx(one.estimate[0], rel=1e-12)
    assert every.standard_errors[600] == pytest.approx(one.standard_errors[0], rel=1e-9)


def test_groups_of_a_categorical_keep_its_order(fits: dict) -> None:
    by = pd.Series(pd.Categorical(CGD.treat[:20], ["rIFN-g", "placebo", "none"]))
    assert list(fits["Cox"].restricted_mean(CGD[:20], TAU, by=by).names) == ["rIFN-g", "placebo"]
    assert list(fits["Cox"].restricted_mean(CGD[:3], TAU, by=["b", "a", "b"]).names) == ["a", "b"]


def test_groups_of_tables_of_any_kind(fits: dict) -> None:
    wanted = fits["smooth"].restricted_mean(CGD, TAU, by=CGD.treat.tolist()).frame()
    table = pl.from_pandas(CGD)
    for X, by in ((CGD, "treat"), (table, "treat"), (table, table["treat"]), (CGD, CGD.treat.to_numpy())):
        np.testing.assert_array_equal(fits["smooth"].restricted_mean(X, TAU, by=by).frame(), wanted)
    with pytest.raises(InputError, match="there is no column 'treatment'"):
        fits["smooth"].restricted_mean(CGD, TAU, by="treatment")
    with pytest.raises(InputError, match="by has shape"):
        fits["smooth"].restricted_mean(CGD, TAU, by=CGD[["treat", "sex"]])
    for name in ("smooth", "Cox"):
        assert fits[name].restricted_mean(CGD[:0], TAU).frame().empty


def test_an_event_at_the_start_counts() -> None:
    y = atm.Surv([0.0, 2.0, 4.0], [1, 1, 0])
    found = atm.CoxPH(ties="breslow").fit(None, y).restricted_mean(None, 3.0)
    assert found.estimate[0] == pytest.approx(2.0 * np.exp(-1 / 3) + np.exp(-1 / 3 - 1 / 2))


def test_limits_stay_between_0_and_tau_and_pictures_are_drawn(fits: dict) -> None:
    found = fits["smooth"].restricted_mean(CGD[:3], 5.0, level=0.999)
    assert (found.frame().upper <= 5.0).all()
    ax = found.plot(unit="days")
    assert ax.get_xlabel() == "days"
    assert "Mean up to 5, 100% intervals, delta method" in repr(found)
    plt.close(ax.figure)


def test_what_is_refused(fits: dict) -> None:
    model = fits["Cox"]
    for tau in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="tau must be a finite time above 0"):
            model.restricted_mean(CGD[:2], tau)
    with pytest.raises(InputTypeError, match="tau must be a number"):
        model.restricted_mean(CGD[:2], "365")
    with pytest.raises(InputError, match="by has 3 labels for 2 rows"):
        model.restricted_mean(CGD[:2], TAU, by=[1, 2, 3])
    with pytest.raises(InputError, match="missing label at row 1"):
        model.restricted_mean(CGD[:2], TAU, by=["a", None])
    with pytest.raises(InputError, match="uncertainty must be one of"):
        model.restricted_mean(CGD[:2], TAU, uncertainty=np.eye(2))
    with pytest.warns(AnchorTMWarning, match="beyond the last follow-up"):
        model.restricted_mean(CGD[:2], 1000.0)
    with pytest.raises(UnavailableError, match="rows of the fit"):
        pickle.loads(pickle.dumps(model)).restricted_mean(CGD[:2], TAU)  # noqa: S301
    ages = atm.NormalLinear().fit(CGD[["height"]], CGD.age - CGD.age.mean())
    with pytest.raises(InputError, match="not negative"):
        ages.restricted_mean(CGD[["height"]], 10.0)
    counts = atm.CountRegression(order=2).fit(CGD[["height"]], CGD.age)
    with pytest.raises(InputTypeError, match="not for counts"):
        counts.restricted_mean(CGD[["height"]], 10.0)
