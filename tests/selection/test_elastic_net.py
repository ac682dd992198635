"""The elastic net: against other solvers, the stated optimum, other ways to the same fit, and refusals."""

import json
import math
import resource
import time
import warnings
from typing import Any

import cvxpy as cp
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from parameters import moved
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge

import anchortm as atm
from anchortm.bases import BernsteinBasis
from anchortm.engine.objective import penalised as penalty
from anchortm.engine.solve import continuation as solver
from anchortm.engine.solve import faces
from anchortm.exceptions import (
    AnchorTMWarning,
    IdentificationError,
    InputError,
    InputTypeError,
    ModelFileError,
    SeparationError,
)
from anchortm.inference.covariance import influence
from anchortm.saving import digest

mpl.use("Agg")


def simulate(n: int = 250, p: int = 20, levels: int = 4, seed: int = 0):
    """Few covariates matter; the first half is shifted between sites; columns have different units."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, levels, n)
    X = rng.normal(size=(n, p))
    X[:, : p // 2] += rng.normal(size=(levels, p // 2))[site]
    X *= np.exp(rng.uniform(-0.5, 0.5, p))
    y = X[:, 0] - X[:, 1] + 0.5 * X[:, p - 1] + 0.3 * site + rng.logistic(size=n)
    return X, y, site


X, Y, SITE = simulate()
N, P = X.shape
A = np.eye(SITE.max() + 1)[SITE]
ORDINAL = np.digitize(Y, [-1.5, 0.0, 2.0])
COUNTS = np.random.default_rng(1).poisson(np.exp(0.25 * Y))
TIMES = atm.Surv(np.minimum(np.exp(0.3 * Y), 2.0), np.exp(0.3 * Y) < 2.0)
INTERVALS = atm.Interval(np.floor(Y), np.floor(Y) + 1.0)
MODELS = [
    (atm.ContinuousLogit(order=4), Y),
    (atm.ContinuousProbit(order=4), INTERVALS),
    (atm.OrdinalRegression(), ORDINAL),
    (atm.CountRegression(order=4), COUNTS),
    (atm.ProportionalHazards(order=4), TIMES),
    (atm.ParametricSurvival(), TIMES),
    (atm.NormalLinear(), Y),
]


def named(pairs):
    return [pytest.param(*pair, id=type(pair[0]).__name__) for pair in pairs]


def stated_loss(model, theta, beta, y, xi: float) -> float:
    """Return the anchor loss without the elastic net, from what the model says of rows."""
    at = moved(model, theta, beta)
    r = at.residuals(X, y)
    projected = A @ np.linalg.lstsq(A, r, rcond=None)[0]
    return float(np.mean(at.nll(X, y)) + xi * (r @ projected) / len(r))


# other software ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("l1", "l2"), [(0.05, 0.0), (0.03, 0.1), (0.0, 0.2)])
def test_linear_model_against_cvxpy(l1: float, l2: float) -> None:
    ours = atm.NormalLinear(l1=l1, l2=l2, tol=1e-10).fit(X, Y)
    rho, a, phi = cp.Variable(), cp.Variable(), cp.Variable(P)
    z = rho * Y - a - X @ phi
    loss = cp.sum_squares(z) / (2 * N) - cp.log(rho) + l1 * cp.norm1(phi) + l2 / 2 * cp.sum_squares(phi)
    problem = cp.Problem(cp.Minimize(loss))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    np.testing.assert_allclose(ours.coef_, phi.value, atol=1e-6)
    assert ours.loss_ == pytest.approx(problem.value + 0.5 * math.log(2 * math.pi), abs=1e-9)


def test_smooth_baseline_against_cvxpy() -> None:
    ours = atm.ContinuousLogit(order=4, l1=0.04, l2=0.05, tol=1e-10).fit(X, Y)
    basis = BernsteinBasis(4, ours.support_)
    theta, beta = cp.Variable(5), cp.Variable(P)
    h = basis.rows(Y) @ theta - X @ beta
    loss = cp.sum(h + 2 * cp.logistic(-h)) / N - cp.sum(cp.log(basis.derivative_rows(Y) @ theta)) / N
    loss += 0.04 * cp.norm1(beta) + 0.025 * cp.sum_squares(beta)
    problem = cp.Problem(cp.Minimize(loss), [cp.diff(theta) >= 0])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    np.testing.assert_allclose(ours.coef_, beta.value, atol=2e-6)
    assert ours.loss_ == pytest.approx(problem.value, abs=1e-8)
    assert (ours.coef_ == 0.0).sum() == (np.abs(beta.value) < 1e-5).sum() > 0


@pytest.mark.parametrize(("l1", "l2"), [(0.03, 0.0), (0.02, 0.05), (0.0, 0.1)])
def test_two_classes_against_scikit_learn(l1: float, l2: float) -> None:
    two = (Y > 0.5).astype(int)
    ours = atm.OrdinalRegression(l1=l1, l2=l2, tol=1e-11).fit(X, two)
    strength = N * (l1 + l2)
    peer = LogisticRegression(
        penalty="elasticnet", solver="saga", C=1 / strength, l1_ratio=l1 / (l1 + l2), tol=1e-12, max_iter=100_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 2026-11-16: the peer's own warnings of arguments, not ours
        peer.fit(X, two)
    np.testing.assert_allclose(ours.coef_, peer.coef_[0], atol=1e-7)
    assert ((ours.coef_ == 0.0) == (peer.coef_[0] == 0.0)).all()
    assert ours.baseline_[0] == pytest.approx(-peer.intercept_[0], abs=1e-7)


@pytest.mark.parametrize("xi", [0.0, 0.7, 25.0])
@pytest.mark.parametrize(("l1", "l2"), [(0.05, 0.0), (0.03, 0.1), (0.0, 0.2)])
def test_transformed_data_against_scikit_learn(xi: float, l1: float, l2: float) -> None:
    """MATHS: (1/2n) |W(y - a - Xb)|^2 + sigma l1 |b|_1 + l2/2 |b|^2, sigma that of the solution.

    The constant is in the span of the anchors, so that W 1 = sqrt(gamma) 1 is projected off.
    """
    ours = atm.NormalLinear(xi=xi, l1=l1, l2=l2, tol=1e-11).fit(X, Y, anchors=SITE)
    sigma = 1.0 / ours.baseline_[1]
    projection = A @ np.linalg.pinv(A)
    W = np.eye(N) + (math.sqrt(2.0 * xi + 1.0) - 1.0) * projection
    WX, Wy = (part - part.mean(axis=0) for part in (W @ X, W @ Y))
    if l1:
        strength = sigma * l1 + l2
        peer = ElasticNet(
            alpha=strength, l1_ratio=sigma * l1 / strength, fit_intercept=False, tol=1e-14, max_iter=10**6
        )
    else:
        peer = Ridge(alpha=N * l2, fit_intercept=False, tol=1e-14)
    np.testing.assert_allclose(ours.slope_, peer.fit(WX, Wy).coef_, atol=1e-8)
    e = Wy - WX @ peer.coef_
    # d/d rho of rho^2 |e|^2 / 2n - log rho + l1 rho |b| + l2 rho^2 |b|^2 / 2 is zero
    b = peer.coef_
    slope = (e @ e / N + l2 * b @ b) / sigma + l1 * np.abs(b).sum() - sigma
    assert abs(slope) < 1e-7


# the stated optimum --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "y"), named(MODELS))
@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_conditions_of_the_optimum(model, y, xi: float) -> None:
    l1, l2, factor = 0.04, 0.03, np.linspace(0.0, 2.0, P)
    fit = clone(model).set_params(xi=xi, l1=l1, l2=l2, penalty_factor=factor, tol=1e-10).fit(X, y, anchors=SITE)
    assert fit.converged_
    assert fit.kkt_ <= 1e-10
    assert fit.min_eigenvalue_ > 0.0
    theta, beta = fit.baseline_, fit.coef_
    zero = beta == 0.0
    assert 0 < zero.sum() < P
    assert not zero[0]  # no penalty on the first
    step = 1e-5 / X.std(axis=0)
    slope = np.array(
        [
            (stated_loss(fit, theta, beta + d, y, xi) - stated_loss(fit, theta, beta - d, y, xi)) / (2.0 * d[j])
            for j, d in enumerate(np.diag(step))
        ]
    )
    slope += l2 * factor * beta
    np.testing.assert_allclose(slope[~zero], -(l1 * factor * np.sign(beta))[~zero], atol=2e-8)
    assert (np.abs(slope[zero]) <= (l1 * factor)[zero] + 2e-8).all()
    net = l1 * factor @ np.abs(beta) + l2 / 2 * factor @ beta**2
    assert fit.loss_ == pytest.approx(stated_loss(fit, theta, beta, y, xi) + net, abs=1e-10)
    assert fit.loglik_ == pytest.approx(-fit.nll(X, y).sum(), rel=1e-12)


def test_units_of_the_covariates() -> None:
    """With penalties on standardised coefficients a covariate's unit does not matter, and factors follow it."""
    units = np.exp(np.linspace(-3, 3, P))
    model = atm.ContinuousLogit(order=4, xi=1.0, l1=0.03, l2=0.02, penalty_factor="deviation", tol=1e-11)
    fits = [clone(model).fit(columns, Y, anchors=SITE) for columns in (X, X * units)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_ * units, atol=1e-9)
    # by hand: coefficients of columns with deviation 1
    by_hand = clone(model).set_params(penalty_factor=None).fit(X / X.std(axis=0), Y, anchors=SITE)
    np.testing.assert_allclose(fits[0].coef_ * X.std(axis=0), by_hand.coef_, atol=1e-9)


def test_weights_are_copies() -> None:
    copies = np.random.default_rng(3).integers(0, 3, N)
    rows = np.repeat(np.arange(N), copies)
    model = atm.OrdinalRegression(xi=1.0, l1=0.02, l2=0.01, penalty_factor="deviation", tol=1e-11)
    one = clone(model).fit(X, ORDINAL, anchors=SITE, sample_weight=copies)
    other = clone(model).fit(X[rows], ORDINAL[rows], anchors=SITE[rows])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-9)


def test_no_penalty_is_no_change() -> None:
    plain = atm.ContinuousLogit(xi=3.0).fit(X, Y, anchors=SITE)
    named_only = atm.ContinuousLogit(xi=3.0, penalty_factor="deviation").fit(X, Y, anchors=SITE)
    assert (plain.coef_ == named_only.coef_).all()
    # factors of 0 are the same problem, solved as one with a penalty
    free = atm.ContinuousLogit(xi=3.0, l1=0.1, l2=0.1, penalty_factor=np.zeros(P)).fit(X, Y, anchors=SITE)
    np.testing.assert_allclose(free.coef_, plain.coef_, rtol=1e-6)
    assert free.loglik_ == pytest.approx(plain.loglik_, abs=1e-9)
    # a tiny one is continuous
    near = atm.ContinuousLogit(xi=3.0, l1=1e-9, l2=1e-9).fit(X, Y, anchors=SITE)
    np.testing.assert_allclose(near.coef_, plain.coef_, atol=1e-6)


# other ways to the same fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "y"), named(MODELS[:1] + MODELS[2:3] + MODELS[-1:]))
def test_working_columns_are_all_columns(model, y, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    for columns in (1, P):
        monkeypatch.setattr(faces, "FIRST_COLUMNS", columns)
        fits.append(clone(model).set_params(xi=2.0, l1=0.02, l2=0.01, tol=1e-11).fit(X, y, anchors=SITE))
    everything = penalty.Net.__init__

    def direct(self, *args) -> None:
        everything(self, *args)
        self.working[:] = True

    monkeypatch.setattr(penalty.Net, "__init__", direct)
    fits.append(clone(model).set_params(xi=2.0, l1=0.02, l2=0.01, tol=1e-11).fit(X, y, anchors=SITE))
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=1e-10)
        assert ((fit.coef_ == 0.0) == (fits[0].coef_ == 0.0)).all()


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_more_columns_than_rows(xi: float) -> None:
    """A turned ridge is the ridge: its own solution by the dual, and its stated optimum."""
    x, y, site = simulate(n=60, p=150, seed=5)
    dummies = np.eye(4)[site]
    factor = np.linspace(0.5, 2.0, 150)
    factor[:2] = 0.0
    fit = atm.NormalLinear(xi=xi, l2=0.3, penalty_factor=factor, tol=1e-11).fit(x, y, anchors=site)
    W = np.eye(60) + (math.sqrt(2.0 * xi + 1.0) - 1.0) * dummies @ np.linalg.pinv(dummies)
    WX, Wy = (part - part.mean(axis=0) for part in (W @ x, W @ y))
    direct = np.linalg.solve(WX.T @ WX + 60 * 0.3 * np.diag(factor), WX.T @ Wy)
    np.testing.assert_allclose(fit.slope_, direct, atol=1e-8)
    ordinal = np.digitize(y, [-1.0, 1.0])
    turned = atm.OrdinalRegression(xi=xi, l2=0.1, tol=1e-11).fit(x, ordinal, anchors=site)
    # the same through Newton's method in all columns, which a hint of l1 takes
    hint = atm.OrdinalRegression(xi=xi, l1=1e-13, l2=0.1, tol=1e-11).fit(x, ordinal, anchors=site)
    np.testing.assert_allclose(turned.coef_, hint.coef_, atol=1e-8)
    assert turned.predict_proba(x).shape == (60, 3)
    assert turned.active_.size == 2 + 150
    assert turned.standard_errors().shape == (150,)


def wide_problem(n: int, p: int):
    rng = np.random.default_rng(0)
    site = rng.integers(0, 8, n)
    x = rng.normal(size=(n, p))
    x[:, :20] += 0.5 * site[:, None]
    beta = np.zeros(p)
    beta[:30] = rng.normal(size=30)
    return x, x @ beta + rng.normal(size=n), site


def check_wide(x, y, site, model, l1: float, l2: float) -> None:
    fit = clone(model).set_params(l1=l1, l2=l2).fit(x, y, anchors=site)
    assert fit.converged_
    # the conditions of all columns, from residuals of rows and their derivative by differences
    r = fit.residuals(x, y)
    n = len(r)
    step = 1e-6
    dr = (fit.residuals(x, y, offset=np.full(n, -step)) - fit.residuals(x, y, offset=np.full(n, step))) / (2.0 * step)
    dummies = np.eye(site.max() + 1)[site]
    pull = r + 2.0 * fit.xi * dr * (dummies @ np.linalg.lstsq(dummies, r, rcond=None)[0])
    slope = -(x.T @ pull) / n + l2 * fit.coef_
    zero = fit.coef_ == 0.0
    assert (np.abs(slope[zero]) <= l1 + 1e-7).all()
    np.testing.assert_allclose(slope[~zero], -l1 * np.sign(fit.coef_[~zero]), atol=1e-7)
    assert (zero.sum() > 0) == (l1 > 0.0)


@pytest.mark.parametrize(("l1", "l2"), [(0.05, 0.0), (0.03, 0.02), (0.0, 0.1)])
@pytest.mark.parametrize("name", ["NormalLinear", "OrdinalRegression"])
def test_conditions_of_all_columns(name: str, l1: float, l2: float) -> None:
    x, y, site = wide_problem(200, 1000)
    y = y if name == "NormalLinear" else np.digitize(y, [-3, 0, 3])
    check_wide(x, y, site, getattr(atm, name)(xi=5.0), l1, l2)


@pytest.mark.slow
@pytest.mark.parametrize(("l1", "l2"), [(0.05, 0.0), (0.03, 0.02), (0.0, 0.1)])
@pytest.mark.parametrize("name", ["NormalLinear", "ContinuousLogit", "OrdinalRegression"])
def test_ten_thousand_columns(name: str, l1: float, l2: float) -> None:
    x, y, site = wide_problem(1000, 10_000)
    y = np.digitize(y, [-3, 0, 3]) if name == "OrdinalRegression" else y
    before = time.perf_counter()
    check_wide(x, y, site, getattr(atm, name)(xi=5.0), l1, l2)
    assert time.perf_counter() - before < 60.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2e6  # kB; a square of the columns alone is 8e5


@pytest.mark.parametrize(("model", "y"), named(MODELS[:1] + MODELS[2:3] + MODELS[-1:]))
@pytest.mark.parametrize("l1_ratio", [1.0, 0.3, 0.0])
def test_the_grid_is_separate_fits(model, y, l1_ratio: float) -> None:
    model = clone(model).set_params(penalty_factor={"x3": 0.0, "x4": 2.0}, tol=1e-11)
    path = atm.elastic_net_path(model, X, y, SITE, [3.0, 0.0], l1_ratio=l1_ratio, n_lambdas=4)
    assert path.coefs.shape == (4, 2, P)
    assert path.frame().converged.all()
    for i, strength in enumerate(path.lambdas):
        for j, xi in enumerate(path.xis):
            own = clone(model).set_params(xi=xi, l1=strength * l1_ratio, l2=strength * (1 - l1_ratio))
            own.fit(X, y, anchors=SITE)
            np.testing.assert_allclose(path.coefs[i, j], own.coef_, atol=2e-9)
            assert ((path.coefs[i, j] == 0.0) == (own.coef_ == 0.0)).all()
            assert path.models[i][j].loss_ == pytest.approx(own.loss_, abs=1e-12)
            assert path.models[i][j].xi == xi
    assert path.models[-1][0].l1 + path.models[-1][0].l2 == path.lambdas[-1]


def test_the_largest_lambda() -> None:
    model = atm.ContinuousLogit(order=4, penalty_factor={"x3": 0.0, "x4": 2.0}, tol=1e-11)
    for xi in (0.0, 4.0):
        for ratio in (1.0, 0.5):
            largest = atm.elastic_net_path(model, X, Y, SITE, [xi], n_lambdas=2, l1_ratio=ratio).lambdas[0]
            for share, chosen in ((1.0 + 1e-6, 1), (1.0 - 1e-3, 2)):
                own = clone(model).set_params(xi=xi, l1=share * largest * ratio, l2=share * largest * (1 - ratio))
                assert np.count_nonzero(own.fit(X, Y, anchors=SITE).coef_) == chosen


def test_a_path_in_xi() -> None:
    """anchor_path, leave_one_environment_out and XiSearchCV take a model with a penalty as any other."""
    model = atm.OrdinalRegression(l1=0.03, l2=0.01, tol=1e-11)
    path = atm.anchor_path(model, X, ORDINAL, SITE, [0, 1, 10, 100])
    for xi, coef, m in zip(path.xis, path.coefs, path.models, strict=True):
        own = clone(model).set_params(xi=float(xi)).fit(X, ORDINAL, anchors=SITE)
        np.testing.assert_allclose(coef, own.coef_, atol=1e-9)
        assert m.converged_
        assert not m.folds_
    loeo = atm.leave_one_environment_out(model, X, ORDINAL, SITE, [0, 3]).frame()
    row = loeo[(loeo.environment == 2) & (loeo.xi == 3.0)].iloc[0]
    away = SITE != 2
    own = clone(model).set_params(xi=3.0).fit(X[away], ORDINAL[away], anchors=SITE[away])
    assert row.nll == pytest.approx(own.nll(X[~away], ORDINAL[~away]).mean(), abs=1e-9)
    search = atm.XiSearchCV(model, [0, 3]).fit(X, ORDINAL, anchors=SITE)
    assert search.best_estimator_.l1 == 0.03


@pytest.mark.parametrize("objective", ["worst", "mean", 0.5])
def test_search_is_brute_force(objective) -> None:
    model = atm.NormalLinear(penalty_factor="deviation", tol=1e-11)
    lambdas, xis = [0.3, 0.1, 0.03, 0.01], [0.0, 2.0]
    search = atm.ElasticNetCV(model, xis, lambdas, objective, l1_ratio=0.8, rule="smallest").fit(X, Y, anchors=SITE)
    table = {}
    for strength in lambdas:
        for xi in xis:
            nll = []
            for site in range(4):
                away = site != SITE
                own = clone(model).set_params(xi=xi, l1=0.8 * strength, l2=strength * (1 - 0.8))
                nll.append(own.fit(X[away], Y[away], anchors=SITE[away]).nll(X[~away], Y[~away]).mean())
            table[strength, xi] = {"worst": max, "mean": np.mean, 0.5: np.median}[objective](nll)
    for at, value in table.items():
        assert search.results_.objective[at] == pytest.approx(value, abs=1e-9)
    best = min(table, key=table.get)
    assert (search.best_lambda_, search.best_xi_) == best
    assert search.best_estimator_.get_params()["l1"] == pytest.approx(0.8 * best[0])
    assert set(search.loeo_.frame()) == {
        *("environment", "xi", "n", "nll", "skill", "converged", "notes", "lambda", "nonzero")
    }
    assert len(search.loeo_.summary()) == 8
    assert f"lambda = {best[0]:g}, xi = {best[1]:g}" in repr(search)
    assert np.isfinite(search.nll(X, Y)).all()


def test_one_standard_error() -> None:
    model = atm.NormalLinear(penalty_factor="deviation")
    plain = atm.ElasticNetCV(model, [0.0, 1.0], objective="mean", n_lambdas=8).fit(X, Y, anchors=SITE)
    sparse = atm.ElasticNetCV(model, [0.0, 1.0], objective="mean", n_lambdas=8, one_standard_error=True)
    sparse.fit(X, Y, anchors=SITE)
    nll = plain.loeo_.frame().pivot(index="environment", columns=["lambda", "xi"], values="nll")
    d = nll.sub(nll[plain.best_lambda_, plain.best_xi_], axis=0)
    near = [at for at in nll if d[at].mean() <= d[at].std(ddof=1) / np.sqrt(len(nll))]
    largest = max(at[0] for at in near)
    assert (sparse.best_lambda_, sparse.best_xi_) == (largest, min(at[1] for at in near if at[0] == largest))
    assert sparse.best_lambda_ >= plain.best_lambda_
    assert plain.plot().get_xlabel().endswith("lambda")
    with pytest.raises(InputError, match="differ in xi alone, not in lambda and xi"):
        plain.loeo_.plot()


# how sure ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_sandwich_of_a_ridge_is_the_jackknife(xi: float) -> None:
    n = 100
    x, y, site = X[:n, :3], ORDINAL[:n], SITE[:n]
    model = atm.OrdinalRegression(xi=xi, l2=0.1, tol=1e-11)
    fit = clone(model).fit(x, y, anchors=site)
    inside = []
    for row in range(n):
        weights = np.ones(n)
        weights[row] -= 1e-4
        near = clone(model).fit(x, y, anchors=site, sample_weight=weights)
        inside.append((np.append(fit.baseline_, fit.coef_) - np.append(near.baseline_, near.coef_)) / 1e-4)
    jackknife = np.array(inside)
    np.testing.assert_allclose(fit.covariance(), jackknife.T @ jackknife * n / (n - 1), rtol=1e-3, atol=1e-7)
    with pytest.raises(InputError, match="without l2"):
        fit.covariance("hessian")
    assert "p-value" not in fit.summary().frame()


def test_standard_errors_of_a_lasso_are_refused() -> None:
    fit = atm.OrdinalRegression(l1=0.05).fit(X, ORDINAL, anchors=SITE)
    for kind in (None, "hessian", "sandwich"):
        with pytest.raises(InputError, match="bootstrap"):
            fit.standard_errors(kind)
    draws = fit.bootstrap(5, clusters=np.arange(N), random_state=0, progress=False)
    assert (draws.draws == 0.0).any()
    assert np.isfinite(draws.covariance()).all()
    for name in ("aic_", "bic_"):
        with pytest.raises(InputError, match="without l1, l2 or smooth"):
            getattr(fit, name)
    assert fit.n_parameters_ == 3 + np.count_nonzero(fit.coef_)
    with pytest.raises(InputError, match="no l1, l2 or smooth"):
        atm.likelihood_ratio_test(fit, fit)


# what it is given ----------------------------------------------------------------------------------------------------


def test_collinear_and_constant_columns() -> None:
    x = np.column_stack([X[:, :5], X[:, 0], np.ones(N)])
    with pytest.raises(IdentificationError, match="constant"):
        atm.NormalLinear().fit(x, Y)
    lasso = atm.OrdinalRegression(l1=0.02, l2=0.02).fit(x, ORDINAL)
    assert lasso.converged_
    assert lasso.coef_[0] == pytest.approx(lasso.coef_[5], abs=1e-7)  # a ridge shares among equals
    assert lasso.coef_[6] == 0.0
    with pytest.raises(IdentificationError, match="constant covariates: x6"):
        atm.OrdinalRegression(l1=0.02, penalty_factor={"x6": 0.0}).fit(x, ORDINAL)


def test_separation() -> None:
    x = np.column_stack([ORDINAL + 0.1 * np.arange(N) / N, X[:, 0]])
    with pytest.raises(SeparationError):
        atm.OrdinalRegression().fit(x, ORDINAL)
    for strengths in ({"l1": 0.01}, {"l2": 0.01}):
        fit = atm.OrdinalRegression(**strengths, tol=1e-9).fit(x, ORDINAL)
        assert fit.converged_
        with pytest.raises(SeparationError, match="x0"):
            atm.OrdinalRegression(**strengths, penalty_factor={"x0": 0.0}).fit(x, ORDINAL)


def test_tables_sparse_matrices_and_formulas() -> None:
    sparse = np.where(np.abs(X) > 1.0, X, 0.0)
    one = atm.ContinuousLogit(xi=1.0, l1=0.05).fit(sparse, Y, anchors=SITE)
    other = atm.ContinuousLogit(xi=1.0, l1=0.05).fit(sp.csr_matrix(sparse), Y, anchors=SITE)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-9)
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(y=Y, site=SITE)
    fit = atm.NormalLinear.from_formula("y ~ a + b + c + d | site", frame, xi=1.0, l1=0.1, penalty_factor={"c": 0.0})
    direct = atm.NormalLinear(xi=1.0, l1=0.1, penalty_factor=[1, 1, 0, 1]).fit(X[:, :4], Y, anchors=SITE)
    np.testing.assert_allclose(fit.coef_, direct.coef_, atol=1e-12)
    wide = pd.DataFrame({"y": Y, "level": [f"l{k}" for k in np.arange(N) % 120]})
    ridge = atm.ContinuousProbit.from_formula("y ~ level", wide, l2=0.05)
    dummies = pd.get_dummies(wide.level, drop_first=False).iloc[:, 1:].astype(float)
    np.testing.assert_allclose(ridge.coef_, atm.ContinuousProbit(l2=0.05).fit(dummies, Y).coef_, atol=1e-9)


def test_rows_on_disk(tmp_path) -> None:
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(y=Y, site=SITE)
    frame.to_parquet(tmp_path / "rows.parquet")
    formula = "y ~ a + b + c + d | site"
    ours = atm.NormalLinear.from_formula(formula, str(tmp_path / "rows.parquet"), xi=1.0, l2=0.1, tol=1e-10)
    memory = atm.NormalLinear.from_formula(formula, frame, xi=1.0, l2=0.1, tol=1e-10)
    np.testing.assert_allclose(ours.coef_, memory.coef_, atol=1e-9)
    np.testing.assert_allclose(ours.standard_errors(), memory.standard_errors(), rtol=1e-6)
    for net in ({"l1": 0.1}, {"l2": 0.1, "penalty_factor": "deviation"}):
        ours = atm.NormalLinear.from_formula(formula, str(tmp_path / "rows.parquet"), tol=1e-10, **net)
        np.testing.assert_allclose(ours.coef_, atm.NormalLinear.from_formula(formula, frame, **net).coef_, atol=1e-7)


@pytest.mark.parametrize(
    "parameters",
    [
        {"l1": 0.05, "penalty_factor": {"x3": 0.0, "number": 1.0}},
        {"l2": 0.05, "penalty_factor": np.linspace(0, 1, P)},
        {"l1": 0.05, "l2": 0.1, "penalty_factor": "deviation"},
    ],
)
def test_saved_models(parameters, tmp_path) -> None:
    columns = pd.DataFrame(X, columns=[f"x{j}" for j in range(P - 1)] + ["number"])
    fit = atm.ContinuousLogit(xi=2.0, **parameters).fit(columns, Y, anchors=SITE)
    same = atm.load(atm.save(fit, tmp_path / "model.json"))
    assert (same.nll(columns, Y) == fit.nll(columns, Y)).all()
    assert str(same.summary()) == str(fit.summary())
    again = clone(same).fit(columns, Y, anchors=SITE)
    np.testing.assert_array_equal(again.coef_, fit.coef_)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("fit", {"l1_": 0.2}, "l1_ and l2_"),
        ("fit", {"l2_": 0.0}, "l1_ and l2_"),
        ("fit", {"l2_": {"number": "inf"}}, "l2_"),
        ("fit", {"penalty_": {"number": "inf"}}, "penalty_"),
        ("parameters", {"l1": {"number": "inf"}}, "l1 must be"),
        ("parameters", {"penalty_factor": "standard"}, "penalty_factor"),
        ("parameters", {"penalty_factor": [1.0, 2.0]}, "penalty_factor has shape"),
        ("parameters", {"penalty_factor": {"mapping": [["x3", -1.0]]}}, "x3 is -1"),
    ],
)
def test_files_that_do_not_hold_together(part: str, change, message: str, tmp_path) -> None:
    fit = atm.NormalLinear(l1=0.1, l2=0.1, penalty_factor={"x3": 2.0}).fit(X, Y)
    assert atm.load(atm.save(fit, tmp_path / "net.json")).penalty_factor == {"x3": 2.0}
    record = json.loads((tmp_path / "net.json").read_text())
    record[part] |= change
    (tmp_path / "net.json").write_text(json.dumps(record | {"sha256": digest(record)}))
    with pytest.raises(ModelFileError, match=message):
        atm.load(tmp_path / "net.json")


def test_files_keep_positions(tmp_path) -> None:
    fit = atm.NormalLinear(varying={0: (-9, 9), np.int64(1): None}).fit(X[:, :3], Y)
    same = atm.load(atm.save(fit, tmp_path / "varying.json"))
    assert same.varying == {0: [-9, 9], 1: None}
    np.testing.assert_array_equal(clone(same).fit(X[:, :3], Y).baseline_, fit.baseline_)
    fit.varying = {2.5: None}
    with pytest.raises(InputTypeError, match="varying"):
        atm.save(fit, tmp_path / "varying.json")


def test_summary() -> None:
    x, y, site = wide_problem(120, 300)
    fit = atm.NormalLinear(l1=0.05, xi=1.0).fit(x, y, anchors=site)
    text = str(fit.summary())
    chosen = np.count_nonzero(fit.coef_)
    assert f"l1 0.05, l2 0; {chosen} of 300 coefficients are not zero" in text
    assert f"... and {chosen - 30} more that are not zero" in text
    assert "AIC" not in text
    assert len(fit.summary().frame()) == 300
    lines = text[text.index("Coefficients") :].splitlines()
    assert lines[2].split()[0] == f"x{np.flatnonzero(fit.coef_)[0]}"


def test_results_of_a_grid_print_and_draw() -> None:
    path = atm.elastic_net_path(atm.NormalLinear(), X, Y, SITE, [0.0, 5.0], n_lambdas=5)
    assert (
        repr(path) == "ElasticNetPath(NormalLinear, 5 values of lambda, 2 of xi, 20 coefficients, 10 of 10 converged)"
    )
    assert "<table" in path._repr_html_()
    table = path.coefficients()
    assert len(table) == path.frame().nonzero.sum()
    some = table.iloc[-1]
    assert some.coef == path.coefs[-1, -1, path.coef_names.index(some.covariate)]
    axes = path.plot(label=3)
    assert len(axes) == 2
    assert len(axes[1].get_legend().get_texts()) == 4
    with pytest.raises(InputError, match="pass one for each xi"):
        path.plot(axes[:1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"l1": -1.0}, "l1 must be a finite number, 0 or more"),
        ({"l2": math.inf}, "l2 must be a finite number, 0 or more"),
        ({"l1": 0.1, "penalty_factor": "standard"}, "'deviation'"),
        ({"penalty_factor": "standard"}, "'deviation'"),
        ({"penalty_factor": [1.0, 2.0]}, "20 coefficients"),
        ({"penalty_factor": {"nox": 1.0}}, "nox"),
        ({"l1": 0.1, "penalty_factor": [1.0, 2.0]}, "20 coefficients"),
        ({"l1": 0.1, "penalty_factor": {"nox": 1.0}}, "nox"),
        ({"l1": 0.1, "penalty_factor": {"x3": -1.0}}, "x3 is -1"),
        ({"l2": 0.1, "xi": -0.2}, "set xi to 0 or more"),
    ],
)
def test_refusals_of_a_fit(parameters, message: str) -> None:
    with pytest.raises(InputError, match=message):
        atm.NormalLinear(**parameters).fit(X, Y, anchors=SITE)


def test_factors_of_no_penalty_change_nothing(tmp_path) -> None:
    plain = atm.NormalLinear().fit(X, Y).coef_
    for factor in ("deviation", {"x3": 2.0}, np.ones(P)):
        np.testing.assert_array_equal(atm.NormalLinear(penalty_factor=factor).fit(X, Y).coef_, plain)
    pd.DataFrame({"y": Y, "x": X[:, 0]}).to_parquet(tmp_path / "rows.parquet")
    atm.NormalLinear.from_formula("y ~ x", tmp_path / "rows.parquet", penalty_factor="deviation")
    with pytest.raises(InputError, match="'deviation'"):
        atm.NormalLinear.from_formula("y ~ x", tmp_path / "rows.parquet", penalty_factor="standard")


def test_refusals_of_a_grid() -> None:
    model = atm.NormalLinear()
    for options, message in (
        ({"lambdas": [0.0, 1.0]}, "positive"),
        ({"lambdas": []}, "positive"),
        ({"l1_ratio": 1.5}, "between 0 and 1"),
        ({"n_lambdas": 0}, "n_lambdas"),
        ({"smallest": 1.0}, "smallest"),
    ):
        with pytest.raises(InputError, match=message):
            atm.elastic_net_path(model, X, Y, SITE, **options)
    with pytest.raises(InputError, match="needs anchors"):
        atm.elastic_net_path(model, X, Y, None, [1.0])
    with pytest.raises(InputError, match="strata cannot be combined with AnchorGLM"):
        atm.elastic_net_path(atm.AnchorGLM(strata="x0"), X, Y, SITE, [0.0])
    with pytest.raises(InputError, match="penalty_factor is 0 for all coefficients"):
        atm.elastic_net_path(atm.NormalLinear(penalty_factor=np.zeros(P)), X, Y, SITE)
    with pytest.raises(InputError, match=r"score tests cannot be combined with an l. penalty"):
        atm.xi_by_score_test(atm.NormalLinear(l1=0.1), X, Y, SITE)
    with pytest.raises(InputError, match=r"score tests cannot be combined with an l. penalty"):
        atm.diagnostics.score_test(atm.NormalLinear(l2=0.1), X, Y, SITE)


def test_a_turn_of_the_path_is_no_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a coefficient leaves zero the path turns; loss and coefficients are continuous, and the loss rises."""
    model = atm.OrdinalRegression(l1=2.0, xi=30.0)
    turning = clone(model).fit(X, ORDINAL, anchors=SITE)
    assert turning.converged_
    assert not turning.folds_
    for name in ("_is_kink", "_turns"):
        monkeypatch.setattr(solver, name, lambda *_: False)
    with pytest.warns(AnchorTMWarning, match="ends near"):  # what it would be taken for
        turns = clone(model).fit(X, ORDINAL, anchors=SITE).folds_
    assert len(turns) == 2
    monkeypatch.undo()
    for turn in turns:
        fits = [clone(model).set_params(xi=turn + d).fit(X, ORDINAL, anchors=SITE) for d in (-0.02, -0.01, 0.01, 0.02)]
        assert np.count_nonzero(fits[0].coef_) != np.count_nonzero(fits[-1].coef_)
        assert (np.diff([fit.loss_ for fit in fits]) > 0.0).all()
        # no jump: far from the turn coefficients move by about 0.1 for each unit of xi, and here is 0.04 of one
        assert np.ptp([fit.coef_ for fit in fits], axis=0).max() < 0.005


def survival(n: int, p: int) -> tuple[np.ndarray, Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X, beta = rng.normal(size=(n, p)), np.zeros(p)
    beta[:3] = 1.0, -1.0, 0.5
    time, limit = rng.exponential(np.exp(-X @ beta)), rng.exponential(2.0, n)
    return X, atm.Surv(np.minimum(time, limit), time <= limit), rng.integers(0, 5, n)


def test_the_partial_likelihood_takes_a_lasso() -> None:
    """At xi = 0 against scikit-survival's Coxnet, whose own tolerance is the coarser."""
    linear_model = pytest.importorskip("sksurv.linear_model")
    X, y, site = survival(200, 30)
    model = atm.CoxPH(ties="breslow", l1=0.05, tol=1e-11).fit(X, y)
    other = linear_model.CoxnetSurvivalAnalysis(alphas=[0.05], l1_ratio=1.0, tol=1e-14, max_iter=10**6)
    outcome = np.array(list(zip(y.kind == 0, y.lower, strict=True)), dtype=[("event", bool), ("time", float)])
    np.testing.assert_allclose(model.coef_, other.fit(X, outcome).coef_[:, 0], atol=1e-5)
    assert (model.coef_ == 0.0).sum() == 20
    far = atm.CoxPH(2.0, l1=0.05, l2=0.02, tol=1e-11).fit(X, y, anchors=site)
    slopes = numerical_slopes(far, X, y, site)
    zero = far.coef_ == 0.0
    assert (np.abs(slopes[zero]) <= 0.05 + 1e-6).all()
    np.testing.assert_allclose(slopes[~zero], (-0.05 * np.sign(far.coef_) - 0.02 * far.coef_)[~zero], atol=1e-6)


def numerical_slopes(model: Any, X: Any, y: Any, site: np.ndarray) -> np.ndarray:
    """Return the slopes of the anchor loss without an elastic net in the coefficients, by differences."""
    problem = model.problem(X, y, anchors=site)
    objective = problem.plain_objective(model.link_, problem.data)

    def loss(beta: np.ndarray) -> float:
        sums = objective.sums(objective.coordinates.join(model.baseline_, beta))
        return (model.xi * float(sums.t @ sums.t) - sums.loglik) / objective.n_total

    steps = 1e-5 * np.eye(model.coef_.size)
    return np.array([(loss(model.coef_ + e) - loss(model.coef_ - e)) / 2e-5 for e in steps])


def test_a_ridge_on_more_columns_than_events() -> None:
    X, y, site = survival(60, 150)
    model = atm.CoxPH(1.0, l2=0.1, tol=1e-11).fit(X, y, anchors=site)
    np.testing.assert_allclose(numerical_slopes(model, X, y, site), -0.1 * model.coef_, atol=1e-7)
    again = -model.nll(X, y).sum()
    assert model.loglik_ == pytest.approx(again, abs=1e-8)
    assert abs(model.residuals(X, y).sum()) < 1e-8


def test_nets_and_baselines_of_their_own() -> None:
    X, y, site = survival(300, 12)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(where=np.arange(300) % 2)
    model = atm.ContinuousLogit(1.0, l1=0.03, strata="where", varying=["x0", "x1"], order=3, tol=1e-10)
    model.fit(frame, y, anchors=site)
    slopes, zero = numerical_slopes(model, frame, y, site), model.coef_ == 0.0
    assert 0 < zero.sum() < 10
    assert (np.abs(slopes[zero]) <= 0.03 + 1e-6).all()
    np.testing.assert_allclose(slopes[~zero], -0.03 * np.sign(model.coef_[~zero]), atol=1e-6)
    assert model.converged_


def test_the_sandwich_of_a_ridge_on_a_partial_likelihood() -> None:
    X, y, site = survival(80, 3)
    make = atm.CoxPH(1.0, ties="breslow", l2=0.2, tol=1e-12)
    found = influence(clone(make).fit(X, y, anchors=site))
    for row in (3, 40):
        ends = []
        for step in (-1e-4, 1e-4):
            weights = np.ones(80)
            weights[row] += step
            ends.append(clone(make).fit(X, y, anchors=site, sample_weight=weights).coef_)
        np.testing.assert_allclose(found[row], (ends[1] - ends[0]) / 2e-4, rtol=1e-4, atol=1e-9)


def test_a_grid_of_a_partial_likelihood() -> None:
    path = atm.elastic_net_path(atm.CoxPH(), X, TIMES, SITE, [0, 1], n_lambdas=3)
    assert path.frame().converged.all()
    assert not path.coefs[0].any()
    alone = atm.CoxPH(l1=path.lambdas[1], xi=1.0).fit(X, TIMES, anchors=SITE)
    np.testing.assert_allclose(path.coefs[1, 1], alone.coef_, atol=1e-6)
    search = atm.ElasticNetCV(atm.CoxPH(), [0, 1], n_lambdas=3).fit(X, TIMES, anchors=SITE)
    assert search.best_lambda_ in path.lambdas


def test_a_penalty_rules_a_monotone_partial_likelihood_out() -> None:
    late = np.ceil(np.random.default_rng(0).exponential(50.0, N))
    outcome, both = atm.Surv(late, np.ones(N)), np.column_stack([X[:, 0], -late])
    with pytest.raises(SeparationError, match="x1"):
        atm.CoxPH().fit(both, outcome)
    with pytest.raises(SeparationError, match="x1"):
        atm.CoxPH(l2=0.1, penalty_factor={"x1": 0.0}).fit(both, outcome)
    assert atm.CoxPH(l2=1.0).fit(both, outcome).converged_
    with warnings.catch_warnings():  # hazards that differ by more than 1e300 are beyond its numbers, and no separation
        warnings.simplefilter("ignore", AnchorTMWarning)
        assert np.isfinite(atm.CoxPH(l2=1e-4).fit(both, outcome).coef_).all()


@pytest.mark.parametrize("seed", [18, 19, 25])
def test_the_largest_lambda_leaves_exact_zeros(seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 4, 150)
    own = rng.normal(size=(150, 8)) + rng.normal(size=(4, 8))[site]
    y = np.digitize(own[:, 0] + site + rng.logistic(size=150), [0.0, 2.0])
    path = atm.elastic_net_path(atm.OrdinalRegression(), own, y, site, [0, 1, 10], n_lambdas=2, smallest=0.5)
    assert not path.coefs[0].any()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("model", "y"), named([(atm.NormalLinear(), Y), (atm.CoxPH(), TIMES)]))
def test_influence_where_factors_are_deviations_of_the_rows(model, y, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    x, given = rng.exponential(size=(N, 3)) ** 2 * [1.0, 0.3, 2.0], rng.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    make = clone(model).set_params(xi=1.0, l2=0.3, penalty_factor="deviation", tol=1e-12)
    found = influence(clone(make).fit(x, y, anchors=SITE, sample_weight=given))[:, -3:]
    for row in np.argsort(-((x - x.mean(axis=0)) ** 2).max(axis=1))[:3]:
        ends = []
        for step in (-1e-4, 1e-4):
            weights = given.copy()
            weights[row] += step
            ends.append(clone(make).fit(x, y, anchors=SITE, sample_weight=weights).coef_)
        np.testing.assert_allclose(found[row], (ends[1] - ends[0]) / 2e-4, rtol=1e-6, atol=1e-10)


def test_no_sandwich_of_deviations_of_fewer_rows_than_columns() -> None:
    x, y = np.random.default_rng(0).normal(size=(30, 40)), Y[:30]
    fit = atm.NormalLinear(l2=0.1, penalty_factor="deviation").fit(x, y)
    with pytest.raises(InputError, match="bootstrap"):
        fit.standard_errors()
    assert "p-value" not in fit.summary().frame()
    assert np.isfinite(atm.NormalLinear(l2=0.1, penalty_factor=x.std(axis=0)).fit(x, y).standard_errors()).all()
