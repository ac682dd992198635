"""Smooth terms: their columns, the fit against other ways to it, curves, degrees of freedom and the search."""

import itertools
import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from parameters import moved
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import AnchorTMError, InputError, ModelFileError
from anchortm.inference.covariance import influence
from anchortm.inputs.splines import FEWEST, MOST

mpl.use("Agg")


def simulate(n: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 4, n)
    x = rng.gamma(3.0, size=n) + 0.5 * site
    z = rng.normal(size=n)
    y = np.sin(x) + 0.3 * x + 0.5 * z + 0.3 * site + 0.7 * rng.logistic(size=n)
    time = np.exp(0.5 * y)
    return pd.DataFrame(
        {
            "site": site.astype(str),
            "x": x,
            "z": z,
            "y": y,
            "time": np.minimum(time, 4.0),
            "event": time < 4.0,
            "grade": pd.Categorical(np.digitize(y, [0.0, 1.0, 2.0]), ordered=True),
            "count": rng.poisson(np.exp(0.3 * y)),
            "sex": np.where(rng.uniform(size=n) < 0.5, "f", "m"),
        }
    )


DATA = simulate()
N = len(DATA)
COVARIATES = "s(x, 7) + z | site"
MODELS = [
    (atm.NormalLinear(), "y"),
    (atm.ContinuousLogit(order=4), "Surv(time, event)"),
    (atm.ContinuousProbit(order=3), "Interval(y, y + 1)"),
    (atm.OrdinalRegression(), "grade"),
    (atm.CountRegression(order=3), "count"),
    (atm.ProportionalHazards(order=3), "Surv(time, event)"),
    (atm.ParametricSurvival(), "Surv(time, event)"),
    (atm.CoxPH(), "Surv(time, event)"),
    (atm.AnchorGLM(family="poisson"), "count"),
]


def named(pairs):
    return [pytest.param(*pair, id=type(pair[0]).__name__) for pair in pairs]


def fit(model: Any, outcome: str, data: pd.DataFrame = DATA, covariates: str = COVARIATES, **parameters: Any) -> Any:
    options = clone(model).set_params(**parameters).get_params()
    return type(model).from_formula(f"{outcome} ~ {covariates}", data, **options)


def columns(k: int = 7, data: pd.DataFrame = DATA) -> np.ndarray:
    return atm.Formula(f"y ~ s(x, {k})", data).X.to_numpy()


# the columns


@pytest.mark.parametrize("k", [3, 4, 10, 25])
def test_columns_span_cubic_splines_and_are_uncorrelated(k: int) -> None:
    S, B = columns(k), atm.Formula(f"y ~ bs(x, {k})", DATA).X.to_numpy()
    assert S.shape == B.shape == (N, k)
    Q = np.linalg.qr(np.column_stack([np.ones(N), B]))[0]
    np.testing.assert_allclose(Q @ (Q.T @ S), S, atol=1e-10)
    assert np.linalg.matrix_rank(S / S.std(axis=0)) == k
    np.testing.assert_allclose(S[:, 0], DATA.x - DATA.x.mean(), atol=1e-14)
    np.testing.assert_allclose(S.mean(axis=0), 0.0, atol=1e-13)
    correlation = np.corrcoef(S.T)
    np.testing.assert_allclose(correlation, np.eye(k), atol=1e-8)
    assert (np.diff(S[:, 1:].std(axis=0)) < 0.0).all()  # from the least rough


def curve(formula: Any, coef: np.ndarray, term: str = "s(x, 7)"):
    return lambda x: formula.smooth_columns(term, x)[1] @ coef


def test_squares_of_coefficients_are_the_roughness() -> None:
    """Against second differences of the curve, integrated piece by piece."""
    formula = atm.Formula("y ~ s(x, 7)", DATA)
    knots = formula._terms._spec.transform_state["s(x, 7)"]["knots"]
    width, coef = knots[-1] - knots[0], np.random.default_rng(1).normal(size=7)
    f, d = curve(formula, coef), 1e-3 * width

    def squared(x: float) -> float:
        low, mid, high = f([x - d, x, x + d])
        return ((low - 2.0 * mid + high) / d**2) ** 2

    # within a piece the second derivative is a line: two points determine it
    total = 0.0
    for a, b in itertools.pairwise(knots):
        at = np.array([a + 0.2 * (b - a), b - 0.2 * (b - a)])
        assert min(at - a) > d
        bend = np.sqrt([squared(x) for x in at]) * np.sign([f([x - d, x, x + d]) @ [1, -2, 1] for x in at])
        line = np.polynomial.Polynomial.fit(at, bend, 1)
        total += quad(lambda x, line=line: line(x) ** 2, a, b)[0]
    roughness = total * width**3 / (2.0 * math.pi) ** 4
    assert roughness == pytest.approx((coef[1:] ** 2).sum(), rel=1e-6)


def test_a_wave_has_half_its_squared_height() -> None:
    """The unit of smoothing: a wave of height 3 that goes once through the range, whatever its unit."""
    for unit in (1.0, 1000.0):
        x = np.linspace(0.0, unit, 2001)
        X = atm.Formula("y ~ s(x, 50)", pd.DataFrame({"x": x, "y": x})).X.to_numpy()
        wave = 3.0 * np.sin(2.0 * math.pi * x / unit)
        coef = np.linalg.lstsq(np.column_stack([np.ones(x.size), X]), wave, rcond=None)[0]
        assert (coef[2:] ** 2).sum() == pytest.approx(4.5, rel=1e-4)


def test_beyond_the_range_curves_are_lines() -> None:
    formula = atm.Formula("y ~ s(x, 7)", DATA)
    low, high, f = DATA.x.min(), DATA.x.max(), curve(formula, np.arange(1.0, 8.0))
    for end, way in ((low, -1.0), (high, 1.0)):
        outside = f(end + way * np.array([0.0, 1.0, 2.0, 30.0]))
        np.testing.assert_allclose(outside[2] - outside[1], outside[1] - outside[0], rtol=1e-10)
        np.testing.assert_allclose(outside[3] - outside[0], 30.0 * (outside[1] - outside[0]), rtol=1e-10)
        d = 1e-6  # with the value and the slope of the end
        slope = (f([end])[0] - f([end - way * d])[0]) / d
        assert slope == pytest.approx(outside[1] - outside[0], rel=1e-4)
    model = fit(atm.NormalLinear(), "y")
    far = DATA[:1].assign(x=high + 100.0)
    assert np.isfinite(model.predict(far)).all()
    assert model.extrapolation(far).covariates.tolist() == ["x"]


def test_new_rows_one_by_one_are_bitwise_the_same() -> None:
    formula = atm.Formula("y ~ s(x) + s(log(z + 10), k=5) + sex", DATA)
    whole = formula.design(DATA).to_numpy()
    assert (whole == formula.X.to_numpy()).all()
    for i in (0, 17, N - 1):
        assert (formula.design(DATA[i : i + 1]).to_numpy() == whole[i]).all()
    again = atm.Formula.from_state(json.loads(json.dumps(formula.state())), whole.shape[1])
    assert (again.design(DATA).to_numpy() == whole).all()
    assert again.columns_of("s(x)") == [[f"s(x)[{field}]" for field in ("linear", *range(1, 10))]]
    assert set(again.variables(DATA)) == {"x", "z", "sex"}


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("s(x):z", "must be a term of its own"),
        ("s(x) * sex", "must be a term of its own"),
        ("I(s(x))", "must be a term of its own"),
        ("bs(s(x), 4)", "must be a term of its own"),
        ("s()", "should be s"),
        (f"s(x, {FEWEST - 1})", "should be s"),
        (f"s(x, {MOST + 1})", "should be s"),
        ("s(x, 5.0)", "should be s"),
        ("s(x, True)", "should be s"),
        ("s(x, z)", "should be s"),
        ("s(x, 5, 6)", "should be s"),
        ("s(x, df=5)", "should be s"),
        ("s(grade2, 5)", "different values"),
        ("s(sex)", "cannot evaluate"),
        ("s(log(z), 5)", "needs finite numbers"),
        ("te(x, z)", "interactions of splines"),
    ],
)
def test_refused_terms(terms: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        atm.Formula(f"y ~ {terms}", DATA.assign(grade2=DATA.grade.astype(int)))


def test_a_column_may_be_called_s() -> None:
    table = DATA.rename(columns={"z": "s"})
    assert list(atm.Formula("y ~ x + s", table).X) == ["x", "s"]
    with pytest.raises(InputError, match="cannot be called s"):
        atm.Formula("y ~ s(x) + s", table)


def test_columns_that_formulaic_takes_for_one_are_refused() -> None:
    """Their terms would remember the knots of the first."""
    table = DATA.rename(columns={"x": "a b", "z": "a.b"})
    with pytest.raises(InputError, match="told apart: rename"):
        atm.Formula("y ~ s(`a b`) + s(`a.b`)", table)
    with pytest.raises(InputError, match="told apart: rename"):
        atm.Formula("y ~ scale(`a b`) + scale(`a.b`)", table)
    model = atm.NormalLinear.from_formula("y ~ s(`a b`, 5)", table)
    assert model.smooth_effects("s(`a b`, 5)", [2.0]).term.tolist() == ["s(`a b`, 5)"]


# the fit


def test_the_ends_are_the_line_and_the_unpenalised_spline() -> None:
    for model, outcome in MODELS:
        line = fit(model, outcome, covariates="x + z | site", xi=0.7, tol=1e-10)
        stiff = fit(model, outcome, xi=0.7, smooth=1e12, tol=1e-10)
        assert stiff.converged_
        assert stiff.loglik_ == pytest.approx(line.loglik_, rel=1e-8)
        np.testing.assert_allclose(stiff.coef_[[0, -1]], line.coef_, rtol=1e-6)
        spline = fit(model, outcome, covariates="bs(x, 7) + z | site", xi=0.7, tol=1e-10)
        loose = fit(model, outcome, xi=0.7, smooth=0.0, tol=1e-10)
        assert loose.loglik_ == pytest.approx(spline.loglik_, rel=1e-8)
        assert loose.loss_ == pytest.approx(spline.loss_, rel=1e-9)
        assert loose.edf_ == {"s(x, 7)": 7.0}
        assert loose.smooth_ == 0.0


def test_many_columns_at_any_strength() -> None:
    """The roughest of 50 curves are small columns with large coefficients."""
    for model, outcome in (MODELS[0], MODELS[3]):
        for smooth in (1e-6, 1.0, 1e6, 1e12):
            fitted = fit(model, outcome, covariates="s(x, 50) + z | site", smooth=smooth, xi=1.0)
            assert fitted.converged_
            assert 1.0 <= fitted.edf_["s(x, 50)"] < 50.0


@pytest.mark.parametrize("smooth", [1e-4, 0.01, 1.0])
def test_penalised_least_squares(smooth: float) -> None:
    """b minimises RSS / n + smooth |curves|^2, and sigma^2 is that minimum; xi > 0 transforms the rows."""
    S, y = np.column_stack([np.ones(N), columns(), DATA.z]), DATA.y.to_numpy()
    D = np.diag([0.0, 0.0, *[1.0] * 6, 0.0])
    A = np.eye(4)[DATA.site.astype(int)]
    for xi in (0.0, 2.0):
        turn = np.eye(N) + (math.sqrt(2.0 * xi + 1.0) - 1.0) * A @ np.linalg.pinv(A)
        X, t = turn @ S, turn @ y
        b = np.linalg.solve(X.T @ X / N + smooth * D, X.T @ t / N)
        variance = ((t - X @ b) ** 2).mean() + smooth * b @ D @ b
        model = fit(atm.NormalLinear(), "y", xi=xi, smooth=smooth, tol=1e-11)
        np.testing.assert_allclose(model.slope_, b[1:], atol=1e-9)
        assert 1.0 / model.baseline_[1] == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert model.converged_
        assert model.convexity_ == "global"


@pytest.mark.filterwarnings("ignore:.*scipy.integrate.simps:DeprecationWarning")  # which statsmodels 0.14.0 still uses
def test_equal_to_statsmodels() -> None:
    """GLMGam takes alpha times the integral of f''^2 in units of x, beside the log-likelihood with sigma = 1."""
    gam = pytest.importorskip("statsmodels.gam.api")
    x, alpha = DATA.x.to_numpy(), 3.0
    smoother = gam.BSplines(x[:, None], df=[11], degree=[3])
    other = gam.GLMGam(DATA.y, exog=np.ones((N, 1)), smoother=smoother, alpha=alpha).fit()
    smooth = 2.0 * alpha * (2.0 * math.pi) ** 4 / (np.ptp(x) ** 3 * N)
    model = fit(atm.NormalLinear(), "y", covariates="s(x, 10)", smooth=smooth, tol=1e-11)
    np.testing.assert_allclose(model.predict(DATA), other.fittedvalues, atol=1e-9)
    assert model.edf_["s(x, 10)"] == pytest.approx(float(other.edf.sum()) - 1.0, abs=1e-8)


@pytest.mark.parametrize(("model", "outcome"), named(MODELS))
def test_the_loss_and_its_optimum(model: Any, outcome: str) -> None:
    """The loss is that of its definition, and its slopes in all coefficients vanish."""
    xi, smooth = 1.5, 0.02
    fitted = fit(model, outcome, xi=xi, smooth=smooth, tol=1e-10)
    assert fitted.converged_
    assert fitted.min_eigenvalue_ > 0.0
    A = np.eye(4)[DATA.site.astype(int)]
    P = A @ np.linalg.pinv(A)
    places = np.arange(1, 7)

    def loss(coef: np.ndarray) -> float:
        other = moved(fitted, fitted.baseline_, coef)
        r = other.residuals(DATA)
        return float(other.nll(DATA).mean() + xi * r @ P @ r / N + 0.5 * smooth * (coef[places] ** 2).sum())

    if isinstance(model, atm.CoxPH):  # rows have no likelihood of their own there
        r = fitted.residuals(DATA)
        plain = -fitted.loglik_ / N + xi * r @ P @ r / N
        assert fitted.loss_ == pytest.approx(plain + 0.5 * smooth * (fitted.coef_[places] ** 2).sum(), rel=1e-8)
        return
    assert fitted.loss_ == pytest.approx(loss(fitted.coef_), rel=1e-10)
    slope = [
        (loss(fitted.coef_ + step) - loss(fitted.coef_ - step)) / (2.0 * step.max())
        for step in 1e-5 * np.eye(fitted.coef_.size)
    ]
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)
    assert np.abs(approx_fprime(fitted.coef_, loss, 1e-7)).max() < 1e-4


def test_beside_an_elastic_net() -> None:
    """l1 and l2 act as without smooth terms, on curves too unless their factor is 0."""
    table = atm.Formula("y ~ s(x, 5) + z", DATA)
    names = list(table.X)
    weights = {name: 0.0 for name in names if name.startswith("s(")}
    both = atm.NormalLinear(l2=0.5, smooth=0.1, penalty_factor=weights, tol=1e-11).fit(table.X, table.y)
    X, y = np.column_stack([np.ones(N), table.X]), DATA.y.to_numpy()
    D = np.diag([0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.5])
    b = np.linalg.solve(X.T @ X / N + D, X.T @ y / N)
    np.testing.assert_allclose(both.slope_, b[1:], atol=1e-9)
    lasso = atm.NormalLinear(l1=0.05, smooth=0.1).fit(table.X, table.y)
    assert lasso.converged_
    assert np.flatnonzero(lasso.coef_ == 0.0).tolist() == [2, 4]
    assert 1.0 <= lasso.edf_["s(x, 5)"] < 3.0
    grid = atm.elastic_net_path(atm.NormalLinear(smooth=0.1, tol=1e-11), table.X, table.y, DATA.site, [0], n_lambdas=3)
    alone = clone(grid.models[1][0]).fit(table.X, table.y, anchors=DATA.site)
    np.testing.assert_allclose(grid.coefs[1, 0], alone.coef_, atol=1e-8)
    free = atm.NormalLinear(smooth=0.1, penalty_factor=weights)
    assert atm.elastic_net_path(free, table.X, table.y, DATA.site, [0, 1], n_lambdas=2).models[0][0].coef_[-1] == 0.0


# degrees of freedom, errors, curves


@pytest.mark.parametrize(("model", "outcome"), named(MODELS))
def test_degrees_of_freedom_fall_with_the_strength(model: Any, outcome: str) -> None:
    found = [fit(model, outcome, xi=0.5, smooth=smooth).edf_["s(x, 7)"] for smooth in (1e-7, 1e-3, 0.1, 10.0, 1e6)]
    assert (np.diff(found) < 0.0).all()
    assert found[0] == pytest.approx(7.0, abs=1e-2)
    assert found[-1] == pytest.approx(1.0, abs=1e-3)


def test_the_sandwich_is_the_influence_of_refits() -> None:
    table = atm.Formula(f"grade ~ {COVARIATES}", DATA)
    model = atm.OrdinalRegression(xi=1.0, smooth=0.02, tol=1e-12).fit(table.X, table.y, anchors=table.anchors)
    shares = influence(model)
    for row in (3, 70):
        fits = []
        for d in (-1e-4, 1e-4):
            weights = np.ones(N)
            weights[row] += d
            fits.append(clone(model).fit(table.X, table.y, anchors=table.anchors, sample_weight=weights))
        slope = (fits[1].coef_ - fits[0].coef_) / 2e-4
        np.testing.assert_allclose(shares[row, model.baseline_.size :], slope, rtol=1e-4, atol=1e-7)


def test_curves_with_bands() -> None:
    model = fit(atm.ContinuousLogit(order=3), "y", covariates="s(x) + s(z, 4) + sex | site", xi=1.0)
    table = model.smooth_effects()
    assert list(table) == ["term", "x", "effect", "std. error", "lower", "upper"]
    assert table.term.value_counts().to_dict() == {"s(x)": 101, "s(z, 4)": 101}
    at = [1.0, 3.0, 40.0]
    own = model.smooth_effects("s(x)", at, level=0.9)
    design = model.formula_.design(DATA[:3].assign(x=at)).to_numpy()[:, :10]
    V = model.covariance()[model.baseline_.size :, model.baseline_.size :][:10, :10]
    np.testing.assert_allclose(own.effect, design @ model.coef_[:10], rtol=1e-12)
    errors = np.sqrt(np.diag(design @ V @ design.T))
    np.testing.assert_allclose(own["std. error"], errors, rtol=1e-9)
    np.testing.assert_allclose(own.upper - own.lower, 2.0 * 1.6448536269514722 * errors, rtol=1e-9)
    # the mean over the rows of the fit is zero
    assert model.smooth_effects("s(x)", DATA.x).effect.mean() == pytest.approx(0.0, abs=1e-12)
    clustered = model.smooth_effects("s(z, 4)", clusters=np.arange(N) % 30)
    assert (clustered["std. error"].to_numpy() != table[table.term == "s(z, 4)"]["std. error"].to_numpy()).any()
    axes = atm.plotting.smooth_effects({"one": table, "other": table})
    assert [ax.get_xlabel() for ax in axes] == ["x", "z"]
    assert axes[0].get_ylabel() == "effect, on the scale of h"
    mpl.pyplot.close(axes[0].figure)


def test_refused_curves() -> None:
    model = fit(atm.NormalLinear(), "y", covariates="s(x) + s(z) + sex")
    for term, at, message in (
        ("sex", None, "not a smooth term"),
        ("s(w)", None, "not among the terms"),
        (None, [1.0], "a single term"),
    ):
        with pytest.raises(InputError, match=message):
            model.smooth_effects(term, at)
    with pytest.raises(InputError, match="write s"):
        fit(atm.NormalLinear(), "y", covariates="x").smooth_effects()
    table = atm.Formula("y ~ s(x)", DATA)
    with pytest.raises(InputError, match="from_formula"):
        atm.NormalLinear().fit(table.X, table.y).smooth_effects()


def test_summary() -> None:
    model = fit(atm.OrdinalRegression(), "grade", xi=1.0)
    text = str(model.summary())
    assert re.search(r"smooth terms +smooth 0.01; degrees of freedom s\(x, 7\) \d\.\d\d of 7", text)
    assert "(smoothing)" in text
    assert "s(x, 7)[linear]" in text
    assert "s(x, 7)[1]" not in text
    assert "the curves of smooth terms: smooth_effects()" in text
    assert "s(x, 7)[1]" in model.summary().frame().index
    assert "s(x, 7)[1]" not in model.summary()._repr_html_()
    assert "this xi and smooth" in text
    for name in ("aic_", "bic_"):
        with pytest.raises(InputError, match="smooth"):
            getattr(model, name)
    with pytest.raises(InputError, match="smooth"):
        model.covariance("hessian")


# paths, left-out environments, files


@pytest.mark.parametrize(("model", "outcome"), named(MODELS[:4] + MODELS[-1:]))
def test_paths_and_left_out_environments(model: Any, outcome: str) -> None:
    table = atm.Formula(f"{outcome} ~ {COVARIATES}", DATA)
    model = clone(model).set_params(smooth=0.05, tol=1e-10)
    path = atm.anchor_path(model, table.X, table.y, table.anchors, [0.0, 2.0])
    alone = clone(model).set_params(xi=2.0).fit(table.X, table.y, anchors=table.anchors)
    np.testing.assert_allclose(path.coefs[1], alone.coef_, atol=1e-7)
    if isinstance(model, atm.CoxPH):
        return
    result = atm.leave_one_environment_out(model, table.X, table.y, DATA.site, [0.0, 2.0]).frame()
    away = (DATA.site != "2").to_numpy()
    own = clone(model).set_params(xi=2.0).fit(table.X[away], table.y[away], anchors=DATA.site[away])
    row = result[(result.environment == "2") & (result.xi == 2.0)].iloc[0]
    assert row.nll == pytest.approx(own.nll(table.X[~away], table.y[~away]).mean(), abs=1e-8)


@pytest.mark.parametrize("objective", ["worst", "mean", 0.5])
def test_search_is_brute_force(objective: Any) -> None:
    table = atm.Formula(f"y ~ {COVARIATES}", DATA)
    model, smooths, xis = atm.ContinuousProbit(order=3, tol=1e-10), [0.0, 1e-3, 0.1, 1.0], [0.0, 3.0]
    search = atm.SmoothSearchCV(model, xis, smooths, objective, rule="smallest").fit(
        table.X, table.y, anchors=DATA.site
    )
    best = {}
    for smooth in smooths:
        for xi in xis:
            nll = []
            for site in "0123":
                away = (DATA.site != site).to_numpy()
                own = clone(model).set_params(xi=xi, smooth=smooth)
                own.fit(table.X[away], table.y[away], anchors=DATA.site[away])
                nll.append(own.nll(table.X[~away], table.y[~away]).mean())
            best[smooth, xi] = {"worst": max, "mean": np.mean, 0.5: np.median}[objective](nll)
            assert search.results_.objective[smooth, xi] == pytest.approx(best[smooth, xi], abs=1e-7)
    chosen = min(best, key=best.get)  # type: ignore[arg-type]
    assert (search.best_smooth_, search.best_xi_) == chosen
    assert search.best_estimator_.smooth_ == chosen[0]
    ax = search.plot()
    assert ax.get_xlabel() == "strength of smoothing, smooth"
    mpl.pyplot.close(ax.figure)


def test_search_by_formula_and_one_standard_error() -> None:
    formula = f"y ~ {COVARIATES}"
    given = {"model": atm.NormalLinear(), "xis": [0.0, 1.0], "smooths": [1.0, 0.01, 1e-4], "objective": "mean"}
    plain = atm.SmoothSearchCV.from_formula(formula, DATA, **given)
    stiff = atm.SmoothSearchCV.from_formula(formula, DATA, **given, one_standard_error=True)
    assert stiff.best_smooth_ >= plain.best_smooth_
    nll = plain.loeo_.frame().pivot(index="environment", columns=["smooth", "xi"], values="nll")
    d = nll.sub(nll[plain.best_smooth_, plain.best_xi_], axis=0)
    near = [at for at in nll if d[at].mean() <= d[at].std(ddof=1) / np.sqrt(len(nll))]
    smoothest = max(at[0] for at in near)
    assert (stiff.best_smooth_, stiff.best_xi_) == (smoothest, min(at[1] for at in near if at[0] == smoothest))
    assert plain.predict(DATA[:3]).shape == (3,)
    assert len(plain.best_estimator_.smooth_effects()) == 101
    assert repr(plain).startswith("SmoothSearchCV(NormalLinear, mean): smooth = ")
    with pytest.raises(InputError, match="no smooth terms"):
        atm.SmoothSearchCV.from_formula("y ~ x | site", DATA, model=atm.NormalLinear())
    for smooths in ([], [-1.0], [math.inf], [math.nan]):
        with pytest.raises(InputError, match="smooths"):
            atm.SmoothSearchCV.from_formula(formula, DATA, model=atm.NormalLinear(), smooths=smooths)


@pytest.mark.parametrize(("model", "outcome"), named(MODELS))
def test_saved_models_are_the_same(model: Any, outcome: str, tmp_path: Path) -> None:
    fitted = fit(model, outcome, xi=0.5)
    same = atm.load(atm.save(fitted, tmp_path / "model.json"))
    assert (same.residuals(DATA) == fitted.residuals(DATA)).all()
    assert str(same.summary()) == str(fitted.summary())
    assert same.edf_ == fitted.edf_
    pd.testing.assert_frame_equal(same.smooth_effects(), fitted.smooth_effects())
    other = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert (other.residuals(DATA) == fitted.residuals(DATA)).all()


def tampered(record: dict[str, Any], how: str) -> None:
    if how in ("edf", "strength"):
        record["fit"] |= {"edf_": {"s(w)": 2.0}} if how == "edf" else {"smooth_": -1.0}
        return
    (_, state), *_ = record["formula"]["transforms"]["pairs"]
    parts = dict(state["pairs"])
    knots, values, bends = (parts[key]["array"] for key in ("knots", "values", "bends"))
    if how == "knots":
        knots[2] = knots[1]
    elif how == "outside":
        state["pairs"] = [[key, 1e9 if key == "centre" else value] for key, value in state["pairs"]]
    elif how == "values":
        values[3][1] += 0.01
    elif how == "bends":
        bends[3][1] *= 1.01
    elif how == "rougher":
        parts["bends"]["array"] = [[2.0 * b for b in row] for row in bends]
        parts["values"]["array"] = [[2.0 * v for v in row] for row in values]
    elif how == "fewer":
        knots.pop()
    elif how == "nan":
        bends[0][0] = "nan"


@pytest.mark.parametrize("how", ["knots", "outside", "values", "bends", "rougher", "fewer", "nan", "edf", "strength"])
def test_tampered_files_are_refused(how: str, tmp_path: Path) -> None:
    from anchortm.saving import digest

    path = atm.save(fit(atm.NormalLinear(), "y"), tmp_path / "model.json")
    record = json.loads(path.read_text())
    tampered(record, how)
    path.write_text(json.dumps(record | {"sha256": digest(record)}))
    with pytest.raises(ModelFileError):
        atm.load(path)


# what goes together, and what does not


def test_strata_weights_and_offsets() -> None:
    model = atm.ContinuousLogit.from_formula("y | sex ~ s(x, 5) + z | site", DATA, order=3, xi=1.0, tol=1e-10)
    assert model.converged_
    assert 1.0 < model.edf_["s(x, 5)"] < 5.0
    table = atm.Formula("y ~ s(x, 5) + z", DATA)
    twice = pd.concat([table.X, table.X[:50]])
    weights = np.where(np.arange(N) < 50, 2.0, 1.0)
    offset = 0.1 * DATA.z.to_numpy()
    heavy = atm.NormalLinear(tol=1e-11).fit(table.X, table.y, sample_weight=weights, offset=offset)
    copied = atm.NormalLinear(tol=1e-11).fit(
        twice, np.append(table.y, table.y[:50]), offset=np.append(offset, offset[:50])
    )
    np.testing.assert_allclose(heavy.coef_, copied.coef_, atol=1e-8)
    assert heavy.edf_["s(x, 5)"] == pytest.approx(copied.edf_["s(x, 5)"], abs=1e-8)


def test_wide_factors_become_columns() -> None:
    table = DATA.assign(place=[f"p{i % 110}" for i in range(N)])
    model = atm.NormalLinear.from_formula("y ~ s(x, 5) + place", table)
    assert model.converged_
    assert len(model.coef_) == 5 + 109


def test_tables_in_batches(tmp_path: Path) -> None:
    """The same fit as in memory; the sample that terms learn from is all of these rows."""
    DATA[["site", "x", "z", "y"]].to_parquet(tmp_path / "rows.parquet")
    formula = f"y ~ {COVARIATES}"
    streamed = atm.NormalLinear.from_formula(formula, str(tmp_path / "rows.parquet"), xi=1.0, tol=1e-10)
    whole = atm.NormalLinear.from_formula(formula, DATA, xi=1.0, tol=1e-10)
    np.testing.assert_allclose(streamed.coef_, whole.coef_, atol=1e-7)
    assert streamed.edf_["s(x, 7)"] == pytest.approx(whole.edf_["s(x, 7)"], abs=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"smooth": -1.0}, "smooth must be"),
        ({"smooth": math.inf}, "smooth must be"),
        ({"smooth": math.nan}, "smooth must be"),
        ({"smooth": "much"}, "smooth"),
        ({"varying": "s(x, 7)"}, "smooth terms cannot vary"),
    ],
)
def test_refusals(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(AnchorTMError, match=message):
        fit(atm.ContinuousLogit(order=3), "y", **parameters)


def test_no_score_tests_of_smoothed_fits() -> None:
    table = atm.Formula(f"y ~ {COVARIATES}", DATA)
    for test in (atm.diagnostics.score_test, atm.xi_by_score_test, atm.proportionality_test):
        with pytest.raises(InputError, match="score tests cannot be combined with smooth terms"):
            test(atm.ContinuousLogit(order=3), table.X, table.y, table.anchors)
    loose = atm.NormalLinear(smooth=0.0)
    assert atm.diagnostics.score_test(loose, table.X, table.y, table.anchors).df > 0
    line, curve = (fit(atm.NormalLinear(), "y", covariates=f"{t} + z", smooth=0.0) for t in ("x", "s(x, 7)"))
    assert atm.likelihood_ratio_test(line, curve).df == 6
    with pytest.raises(InputError, match="smooth"):
        atm.likelihood_ratio_test(line, fit(atm.NormalLinear(), "y", covariates="s(x, 7) + z"))


def test_without_smooth_terms_smooth_does_nothing() -> None:
    one, other = (fit(atm.ContinuousLogit(order=3), "y", covariates="x + z", smooth=s) for s in (0.0, 7.0))
    assert (one.coef_ == other.coef_).all()
    assert other.smooth_ == 0.0
    assert other.edf_ == {}
    assert math.isfinite(other.aic_)


@pytest.mark.parametrize("column", [False, True])
def test_rows_of_weight_zero_do_not_shape_terms(column: bool) -> None:
    weights = np.where(np.arange(N) % 5 == 0, 0.0, 1.5)
    odd = DATA.assign(w=weights, off=0.1 * DATA.z)
    odd.loc[weights == 0.0, "x"] = 1e3
    odd.loc[weights == 0.0, "sex"] = "unknown"
    kept = odd[weights > 0.0]
    formula = "y ~ s(x, 5) + bs(x, 4):z + scale(z) + sex | site"
    given = {"sample_weight": "w", "offset": "off"} if column else {"sample_weight": weights, "offset": odd.off}
    all_rows = atm.NormalLinear.from_formula(formula, odd, xi=1.0, **given)
    some = atm.NormalLinear.from_formula(formula, kept, xi=1.0, sample_weight="w", offset="off")
    assert all_rows.coef_names_ == some.coef_names_
    assert np.array_equal(all_rows.coef_, some.coef_)
    assert np.array_equal(all_rows.predict(DATA[:5], offset=np.zeros(5)), some.predict(DATA[:5], offset=np.zeros(5)))
    errors = all_rows.standard_errors("sandwich", clusters=odd.index // 10)
    assert np.array_equal(errors, some.standard_errors("sandwich", clusters=kept.index // 10))
    polars = pytest.importorskip("polars")
    if column:
        other = atm.NormalLinear.from_formula(formula, polars.from_pandas(odd), xi=1.0, **given)
        assert np.array_equal(other.coef_, some.coef_)


def test_degrees_of_freedom_with_strata() -> None:
    model = atm.NormalLinear.from_formula("y | site ~ s(x, 7) + z", DATA, smooth=0.1)
    X = model.formula_.design(DATA)[model.coef_names_].to_numpy(float)
    B = np.hstack([pd.get_dummies(DATA.site).to_numpy(float), X])  # of h of a normal model, whatever its slopes
    second = np.array([0.1 if re.search(r"\[\d+\]$", name) else 0.0 for name in model.coef_names_])
    H = B.T @ B / N
    own = np.diag(np.linalg.solve(H + np.diag(np.append(np.zeros(4), second)), H))[4:]
    curve = [name.startswith("s(") for name in model.coef_names_]
    assert model.edf_["s(x, 7)"] == pytest.approx(own[curve].sum(), rel=1e-6)


def test_summary_of_more_columns_than_rows_tells_of_smoothing() -> None:
    few = DATA[:12]
    model = atm.NormalLinear.from_formula("y ~ s(x, 10) + s(z, 10)", few, smooth=0.1)
    assert model.edf_ == {}
    assert "smooth 0.1; degrees of freedom not known" in str(model.summary())


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [
        (atm.LinearAnchorRegression, {}),
        (atm.AnchorBoosting, {}),
        (atm.AnchorBoostedTM, {"model": atm.NormalLinear()}),
        (atm.XiSearchCV, {"model": atm.LinearAnchorRegression(), "xis": [0.0, 1.0]}),
    ],
)
def test_models_that_do_not_smooth_take_no_smooth_terms(estimator: Any, parameters: dict[str, Any]) -> None:
    boosted = estimator is atm.AnchorBoostedTM
    message = r"write x instead of s\(x\)" if boosted else r"smooth terms such as s\(x\): write bs\(x, 4\)"
    with pytest.raises(AnchorTMError, match=message):
        estimator.from_formula("y ~ s(x) + z | site", DATA, **parameters)


def test_boosting_takes_no_random_effects() -> None:
    with pytest.raises(AnchorTMError, match="boosting cannot be combined with random effects"):
        atm.AnchorBoostedTM.from_formula("y ~ x + z + (1 | sex) | site", DATA, model=atm.NormalLinear())


@pytest.mark.bug("other software", "a column called s(b)[2] was shrunk as part of a curve")
def test_names_do_not_make_columns_smooth() -> None:
    plain, odd = DATA[["x", "z"]], DATA[["x", "z"]].set_axis(["x", "s(z)[2]"], axis=1)
    wanted, model = atm.NormalLinear(smooth=5.0).fit(plain, DATA.y), atm.NormalLinear(smooth=5.0).fit(odd, DATA.y)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    assert model.smooth_ == 0.0
    assert model.edf_ == {}
    assert "s(z)[2]" in str(model.summary())
    table = DATA.assign(**{"s(z)[2]": DATA.z})
    formula = atm.NormalLinear.from_formula("y ~ s(x, 5) + `s(z)[2]`", table, smooth=5.0)
    np.testing.assert_allclose(
        formula.coef_, atm.NormalLinear.from_formula("y ~ s(x, 5) + z", DATA, smooth=5.0).coef_, rtol=1e-10
    )
    assert list(formula.edf_) == ["s(x, 5)"]
    assert set(formula.smooth_effects().term) == {"s(x, 5)"}


def test_files_know_which_columns_are_smooth(tmp_path) -> None:
    table = DATA.assign(**{"s(z)[2]": DATA.z})
    made = atm.Formula("y ~ s(x, 5) + `s(z)[2]`", table)
    for model in (
        atm.NormalLinear.from_formula("y ~ s(x, 5) + `s(z)[2]`", table),
        atm.NormalLinear.from_formula("y ~ s(x, 5) + `s(z)[2]`", table, smooth=0.0),
        atm.NormalLinear().fit(made.X, made.y),
        atm.NormalLinear().fit(table[["s(z)[2]"]], table.y),
    ):
        again = atm.load(atm.save(model, tmp_path / "model.json"))
        assert again.result_.marks == model.result_.marks
        assert again.edf_ == model.edf_
        assert str(again.summary()) == str(model.summary())


@pytest.mark.parametrize("more", [{}, {"scale": "s(x, 5)"}, {"scale": "z"}, {"l1": 0.02, "l2": 0.05}])
def test_weights_replicate_rows_with_smooth_terms(more: dict[str, Any], tmp_path: Path) -> None:
    times = np.random.default_rng(5).integers(0, 4, N)
    table, text = DATA.assign(times=times), "y ~ s(x, 5) + z | site"
    copies = DATA.loc[np.repeat(DATA.index.to_numpy(), times)].reset_index(drop=True)
    options = {"xi": 0.5, "smooth": 0.1, "tol": 1e-10} | more
    weighted = atm.NormalLinear.from_formula(text, table, sample_weight="times", **options)
    copied = atm.NormalLinear.from_formula(text, copies, **options)
    assert weighted.loss_ == pytest.approx(copied.loss_, rel=1e-11)
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-8)
    table.to_parquet(tmp_path / "rows.parquet")
    streamed = atm.NormalLinear.from_formula(text, tmp_path / "rows.parquet", sample_weight="times", **options)
    np.testing.assert_allclose(streamed.coef_, weighted.coef_, atol=1e-8)
