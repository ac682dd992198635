"""What a fit must not depend on, what it certifies, and what it says when there is no answer."""

import math
import warnings

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from parameters import moved
from reference_fits import COVARIATES, boston_response, data
from sklearn.base import clone

import anchortm as atm
from anchortm.engine.objective.build import build_objective
from anchortm.engine.solve.newton import Options, minimise
from anchortm.exceptions import (
    AnchorTMWarning,
    ConvergenceWarning,
    IdentificationError,
    OverIdentifiedError,
    SeparationError,
)
from anchortm.inputs.anchors import anchor_columns
from anchortm.links import get_link

BOSTON = data("BostonHousing2")
X, TOWN = BOSTON[COVARIATES].to_numpy(), BOSTON.town.to_numpy()
RNG = np.random.default_rng(11)


def instrument(n: int = 400, seed: int = 3):
    """A hidden confounder H, and a binary anchor that moves the covariate."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 2, n)
    H = rng.normal(size=n)
    x = 0.8 * site + H + rng.normal(size=n)
    latent = 0.5 * x + 1.5 * H + rng.logistic(size=n)
    return x[:, None], latent, site


MODELS = {
    "NormalLinear": (atm.NormalLinear, lambda: boston_response("exact")),
    "ContinuousProbit": (atm.ContinuousProbit, lambda: boston_response("exact")),
    "ContinuousProbit mixed": (atm.ContinuousProbit, lambda: boston_response("mix")),
    "ContinuousLogit": (atm.ContinuousLogit, lambda: boston_response("rc")),
    "ContinuousLogit truncated": (atm.ContinuousLogit, lambda: boston_response("lt")),
    "ProportionalHazards": (atm.ProportionalHazards, lambda: boston_response("rc")),
    "Lehmann": (atm.Lehmann, lambda: boston_response("ic")),
    "ParametricSurvival": (atm.ParametricSurvival, lambda: boston_response("rc")),
    "OrdinalRegression": (atm.OrdinalRegression, lambda: boston_response("ord6")),
    "CountRegression": (atm.CountRegression, lambda: np.round(BOSTON.cmedv).to_numpy()),
}
models = pytest.mark.parametrize("name", MODELS)


def fit(name: str, X=X, y=None, anchors=TOWN, xi: float | None = None, **options):
    make, response = MODELS[name]
    # a branch of truncated data may end early: see test_the_end_of_a_branch_is_told
    xi = xi if xi is not None else 0.5 if "truncated" in name else 4.0
    data_keys = {k: options.pop(k) for k in ("sample_weight", "offset") if k in options}
    return make(xi=xi, **options).fit(X, response() if y is None else y, anchors=anchors, **data_keys)


@models
def test_units_of_covariates_do_not_matter(name: str) -> None:
    scale = np.array([1e6, 1e-6, 1.0, 1e3, 1e-3, 1.0, 10.0])
    shift = np.array([5.0, 0.0, 1e3, 0.0, -7.0, 0.0, 1.0])
    plain, scaled = fit(name), fit(name, X=X * scale + shift)
    assert scaled.loss_ == pytest.approx(plain.loss_, rel=1e-10)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-5, atol=1e-7)
    assert plain.converged_
    assert scaled.converged_
    assert scaled.kkt_ <= 1e-8


@models
def test_row_order_does_not_matter(name: str) -> None:
    rows = np.random.default_rng(0).permutation(len(X))
    _, response = MODELS[name]
    plain, shuffled = fit(name), fit(name, X=X[rows], y=response()[rows], anchors=TOWN[rows])
    assert shuffled.loss_ == pytest.approx(plain.loss_, rel=1e-11)
    np.testing.assert_allclose(shuffled.coef_, plain.coef_, rtol=1e-6, atol=1e-8)


@models
def test_labels_of_anchors_do_not_matter(name: str) -> None:
    codes = pd.factorize(TOWN)[0]
    assert fit(name, anchors=(codes * 7919) % 1009).loss_ == pytest.approx(fit(name).loss_, rel=1e-11)


@models
def test_weights_are_replication_and_zero_drops(name: str) -> None:
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), weights)
    make, response = MODELS[name]
    options = {} if "support" not in make().get_params() else {"support": (8.0, 40.0)}
    weighted = fit(name, sample_weight=weights, **options)
    repeated = fit(name, X=X[rows], y=response()[rows], anchors=TOWN[rows], **options)
    assert weighted.n_total_ == repeated.n_total_ == weights.sum()
    assert weighted.loss_ == pytest.approx(repeated.loss_, rel=1e-10)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-7)


@models
def test_an_offset_is_a_covariate_with_coefficient_one(name: str) -> None:
    plain = fit(name)
    offset = X @ plain.coef_
    # without the covariates, but with their contribution as offset, the loss can only reach the same value
    rest = fit(name, X=X[:, :1] * 0 + RNG.normal(size=(len(X), 1)), offset=offset)
    assert rest.loss_ <= plain.loss_ + 1e-9
    assert np.abs(rest.coef_[0]) < 0.3
    unit = fit(name, offset=0.5 * X[:, 4])
    np.testing.assert_allclose(unit.coef_[4] + 0.5, plain.coef_[4], rtol=1e-6, atol=1e-7)
    assert unit.loss_ == pytest.approx(plain.loss_, rel=1e-10)


@models
def test_the_stated_loss_has_no_descent(name: str) -> None:
    """loss_ = -loglik_/n + xi penalty_, recomputed from nll and residuals with a dense projection."""
    model = fit(name)
    _, response = MODELS[name]
    y = response()
    A = (TOWN[:, None] == np.unique(TOWN)[None, :]).astype(float)
    P = A @ np.linalg.solve(A.T @ A, A.T)

    def loss(theta, beta) -> float:
        there = moved(model, theta, beta)
        r = there.residuals(X, y)
        return float((there.nll(X, y).sum() + model.xi * r @ P @ r) / len(X))

    theta, beta = model.baseline_.copy(), model.coef_.copy()
    best = loss(theta, beta)
    assert best == pytest.approx(model.loss_, rel=1e-10)
    assert model.loss_ == pytest.approx(-model.loglik_ / len(X) + model.xi * model.penalty_, rel=1e-12)
    rng = np.random.default_rng(5)
    scale = np.concatenate([np.full(theta.size, 0.02), 0.02 / X.std(axis=0)])
    for size in (1.0, 1e-2):
        for _ in range(30):
            step = size * scale * rng.normal(size=scale.size)
            near = theta + step[: theta.size]
            if not model.basis_.increments.satisfied(near):
                near = np.maximum.accumulate(near) if model.basis_.kind != "linear" else theta
            assert loss(near, beta + step[theta.size :]) >= best - 1e-12


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_y_do_not_matter(factor: float) -> None:
    y = BOSTON.cmedv.to_numpy()
    for make in (atm.NormalLinear, atm.ContinuousProbit, atm.ContinuousLogit):
        plain = make(xi=2.0).fit(X, y, anchors=TOWN)
        scaled = make(xi=2.0).fit(X, factor * y, anchors=TOWN)
        assert scaled.loss_ == pytest.approx(plain.loss_ + math.log(factor), rel=1e-9)
        np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-6, atol=1e-8)


def test_grid_of_xi_does_not_matter() -> None:
    y = boston_response("rc")
    fine = atm.anchor_path(atm.ContinuousLogit(), X, y, TOWN, [0, 0.5, 1, 2, 5, 10, 30, 100])
    coarse = atm.anchor_path(atm.ContinuousLogit(), X, y, TOWN, [100])
    np.testing.assert_allclose(fine.coefs[-1], coarse.coefs[0], rtol=1e-7, atol=1e-9)


def test_warm_start_from_given_parameters() -> None:
    first = fit("ContinuousLogit", xi=0.0)
    again = fit("ContinuousLogit", xi=0.0, start=(first.baseline_, first.coef_))
    assert again.n_iter_ <= 2
    assert again.loss_ == pytest.approx(first.loss_, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "transform"),
    [
        (atm.OrdinalRegression, lambda z: np.digitize(z, [-3, -1, 0, 1, 3])),
        (atm.ContinuousLogit, lambda z: z),
        (atm.ContinuousProbit, lambda z: z),
        (atm.NormalLinear, lambda z: z),
        (atm.ProportionalHazards, lambda z: atm.Surv(np.exp(np.minimum(z, 2) / 3), z < 2)),
        (atm.ContinuousProbit, lambda z: atm.Interval(np.floor(z * 2) / 2, np.floor(z * 2) / 2 + 0.5)),
    ],
)
@pytest.mark.parametrize("numeric", [True, False])
def test_the_limit_is_the_end_of_the_path(make, transform, numeric: bool) -> None:
    x, latent, site = instrument()
    anchors = site.astype(float) if numeric else site
    path = atm.anchor_path(make(), x, transform(latent), anchors, [1e7, math.inf])
    far, limit = path.models
    assert limit.converged_
    assert limit.penalty_ <= 1e-15
    np.testing.assert_allclose(limit.coef_, far.coef_, rtol=2e-5)
    assert limit.loss_ == pytest.approx(-limit.loglik_ / len(x), rel=1e-12)
    assert limit.loss_ >= -far.loglik_ / len(x) - 1e-10
    # residuals and anchors are uncorrelated in the limit
    r = limit.residuals(x, transform(latent))
    assert abs(r[site == 1].mean() - r[site == 0].mean()) < 1e-6
    alone = make(xi=math.inf).fit(x, transform(latent), anchors=anchors)
    np.testing.assert_allclose(alone.coef_, limit.coef_, rtol=1e-6)


@pytest.mark.parametrize("name", ["NormalLinear", "ContinuousLogit", "OrdinalRegression"])
def test_an_over_identified_limit_is_an_error_of_its_own(name: str) -> None:
    with pytest.raises(OverIdentifiedError, match="over-identified: no values of the"):
        fit(name, xi=math.inf)


def test_the_limit_without_anchors_is_refused() -> None:
    with pytest.raises(ValueError, match="xi = inf needs anchors"):
        atm.NormalLinear(xi=math.inf).fit(X, BOSTON.cmedv)


def test_history_and_certificates() -> None:
    model = fit("ContinuousLogit")
    history = model.history_
    assert {"iteration", "xi", "loss", "kkt", "active"} <= set(history.columns)
    assert history.loss.iloc[-1] == pytest.approx(model.loss_)
    assert history.kkt.iloc[-1] == model.kkt_ <= 1e-8
    assert model.min_eigenvalue_ > 0
    assert model.n_iter_ >= 1


def test_convexity_is_told() -> None:
    assert fit("ContinuousLogit", xi=0.0).convexity_ == "global"
    assert fit("ContinuousProbit", xi=1e3).convexity_ == "global"
    assert fit("ContinuousLogit", xi=0.01).convexity_ == "local"
    assert fit("ContinuousLogit", xi=100.0).convexity_ == "none"
    assert fit("ContinuousLogit truncated", xi=0.0).convexity_ == "none"


def test_the_convexity_certificate_is_true() -> None:
    """Where it holds the full Hessian is positive semidefinite at random points nearby."""
    y = boston_response("rc")
    objective = build_objective(get_link("logit"), fit("ContinuousLogit").basis_, y, X, anchor_columns(TOWN))
    model = fit("ContinuousLogit", xi=0.2)
    v = objective.coordinates.join(model.baseline_, model.coef_)
    rng = np.random.default_rng(2)
    checked = 0
    for _ in range(60):
        w = np.maximum(v + 0.3 * rng.normal(size=v.size), objective.coordinates.lower + 1e-3)
        sums = objective.sums(w)
        if objective.convexity(sums, 0.2) == "local":
            d = objective.derivatives(w, 0.4 * sums.t)
            hessian = d.hessian + 0.4 * d.E.T @ d.E
            assert np.linalg.eigvalsh(hessian)[0] > -1e-8 * np.abs(hessian).max()
            checked += 1
    assert checked > 10


def test_not_converged_warns_and_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match=r"did not converge \(iteration limit\).*raise max_iter"):
        model = fit("ContinuousLogit", xi=0.0, max_iter=2)
    assert not model.converged_
    assert "NO" in str(model.summary())


def test_flat_directions_warn() -> None:
    """Integers in a narrow support: h between them is not determined."""
    z = np.random.default_rng(0).normal(size=300) * 2
    y = atm.Interval(np.floor(z), np.floor(z) + 1)
    with pytest.warns(AnchorTMWarning, match="flat direction"):
        model = atm.ContinuousProbit(support=(0.5, 3.0), order=12).fit(None, y)
    assert model.converged_


def test_separation_is_named() -> None:
    x = np.linspace(-1, 1, 60)
    other = np.random.default_rng(0).normal(size=60)
    frame = pd.DataFrame({"dose": x, "noise": other})
    with pytest.raises(SeparationError, match="separation: a combination of dose"):
        atm.OrdinalRegression().fit(frame, (x > 0).astype(int))
    with pytest.raises(SeparationError, match="separation"):
        atm.OrdinalRegression(xi=5.0).fit(frame, np.digitize(x, [-0.3, 0.4]), anchors=np.arange(60) % 5)
    overlapping = (np.sin(5 * x) + other > 0).astype(int)
    assert atm.OrdinalRegression().fit(frame, overlapping).converged_


def test_quasi_separation_is_named() -> None:
    x = np.r_[np.zeros(20), np.ones(20)]
    y = np.r_[np.arange(20) % 2, np.ones(20, dtype=int)]  # x = 1 is always class 1
    with pytest.raises(SeparationError, match="combination of x0"):
        atm.OrdinalRegression().fit(x[:, None], y)


@pytest.mark.parametrize("make", [atm.ContinuousLogit, atm.ProportionalHazards, atm.NormalLinear])
def test_all_rows_censored_on_one_side(make) -> None:
    x = RNG.normal(size=(30, 1))
    t = RNG.exponential(size=30) + 0.1
    with pytest.raises(IdentificationError, match="all 30 rows are right-censored"):
        make().fit(x, atm.Surv(t, np.zeros(30)))
    with pytest.raises(IdentificationError, match="all 30 rows are left-censored"):
        make().fit(x, atm.Interval(np.full(30, -np.inf), t))


def test_some_rows_censored_are_enough() -> None:
    x = RNG.normal(size=(30, 1))
    t = RNG.exponential(size=30) + 0.1
    assert atm.ParametricSurvival().fit(x, atm.Surv(t, np.arange(30) % 2)).converged_


def test_one_distinct_exact_value_is_unbounded() -> None:
    with pytest.raises(SeparationError, match="unbounded: the baseline transformation alone"):
        atm.ContinuousLogit(support=(0.0, 6.0)).fit(None, np.full(20, 3.0))


def test_the_end_of_a_branch_is_told() -> None:
    """With delayed entry the loss is not convex even at xi = 0; here the branch folds back near xi = 2.42."""
    y = boston_response("lt")
    with pytest.warns(ConvergenceWarning, match=r"branch connected to xi = 0 ends near xi = 2\.4"):
        model = atm.ProportionalHazards(xi=4.0).fit(X, y, anchors=TOWN)
    assert not model.converged_
    assert atm.ProportionalHazards(xi=2.3).fit(X, y, anchors=TOWN).min_eigenvalue_ < 0.02
    with pytest.warns(AnchorTMWarning, match="ends near xi = .*the next branch below"):
        dropped = atm.Lehmann(xi=4.0).fit(X, y, anchors=TOWN)
    assert dropped.converged_
    assert len(dropped.folds_) == 1
    assert "next branch below" in str(dropped.summary())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (lambda x: {"a": x, "one": 3.0}, "constant covariates: one"),
        (lambda x: {"a": x, "b": 2 * x + 1}, "collinear covariates: a, b"),
        (lambda x: {"a": x, "b": x**2, "c": 3 * x - x**2}, "collinear covariates: a, b, c"),
        (lambda x: {"a": x, "big": 1e9 + 0 * x}, "constant covariates: big"),
    ],
)
def test_rank_deficient_designs_are_named(columns, message: str) -> None:
    x = np.random.default_rng(4).normal(size=50)
    with pytest.raises(IdentificationError, match=message):
        atm.ContinuousLogit().fit(pd.DataFrame(columns(x), index=range(50)), x + np.arange(50) % 3)


def test_a_perfect_linear_fit_is_refused() -> None:
    x = np.random.default_rng(4).normal(size=50)
    with pytest.raises(IdentificationError):
        atm.NormalLinear().fit(x[:, None], 2 * x + 1)


def test_newton_escapes_a_saddle() -> None:
    """A start at a point of zero gradient that is no minimum does not count as converged."""
    x, latent, site = instrument(200)
    y = np.digitize(latent, [-1, 1])
    model = atm.OrdinalRegression()
    objective = model.problem(x, y, anchors=site).objective
    found = minimise(objective, objective.coordinates.join(np.array([-1.0, 1.0]), np.zeros(1)), 50.0, Options())
    assert found.converged
    assert found.min_eigenvalue > 0


def test_large_data_start_from_a_sample() -> None:
    rng = np.random.default_rng(8)
    n = 120_000
    site = rng.integers(0, 30, n)
    x = rng.normal(size=(n, 2)) + 0.1 * site[:, None]
    latent = x @ [0.7, -0.4] + 0.05 * site + rng.logistic(size=n)
    for make, y in ((atm.ContinuousLogit, latent), (atm.OrdinalRegression, np.digitize(latent, [-2, 0, 2]))):
        model = make(xi=10.0, n_jobs=2).fit(x, y, anchors=site)
        assert model.converged_
        assert model.kkt_ <= 1e-8
        assert model.n_iter_ <= 5  # passes over all rows
        small = make(xi=10.0, **({"support": model.support_} if hasattr(model, "support_") else {}))
        tail = small.fit(x[: n // 2], y[: n // 2], anchors=site[: n // 2])
        np.testing.assert_allclose(model.coef_, tail.coef_, atol=0.05)


def test_fits_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in MODELS:
            fit(name, xi=1.0)


# covariates that are nearly the same

NEAR_RNG = np.random.default_rng(5)
BASE, BESIDE, NOISE, ERROR = NEAR_RNG.normal(size=(4, 80))
PLACE = NEAR_RNG.integers(0, 4, 80)
NEAR_Y = BASE + 0.5 * BESIDE + 0.4 * PLACE + ERROR
LEVELS = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7]


def near(noise: float, centre: float = 0.0) -> np.ndarray:
    return np.column_stack([BASE + centre, BESIDE, BASE + centre + noise * NOISE])


def newton_of_many_digits(X: np.ndarray, y: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return coefficients of the logistic regression P(Y = 0) = expit(theta - x'beta), by Newton with 40 digits."""
    with mp.workdps(40):
        Z, b = mp.matrix(np.column_stack([np.ones(y.size), -X]).tolist()), mp.matrix(start.tolist())
        for _ in range(5):
            p = [1 / (1 + mp.exp(-h)) for h in Z * b]
            r = mp.matrix([int(k == 0) - q for k, q in zip(y, p, strict=True)])
            W = mp.diag([q * (1 - q) for q in p])
            b += mp.lu_solve(Z.T * W * Z, Z.T * r)
        return np.array([float(value) for value in b])


@pytest.mark.bug("other software", "covariates that differ by a part in 100 000 were refused as collinear")
@pytest.mark.parametrize("centre", [0.0, 100.0])
@pytest.mark.parametrize("noise", LEVELS)
@pytest.mark.filterwarnings("ignore:nearly collinear")
def test_nearly_collinear_covariates_against_many_digits(noise: float, centre: float) -> None:
    X = near(noise, centre)
    tight = max(1e-9, 1e-15 * (1.0 + centre) / noise)
    with mp.workdps(40):
        Z = mp.matrix(np.column_stack([np.ones(80), X]).tolist())
        wanted = np.array([float(b) for b in mp.lu_solve(Z.T * Z, Z.T * mp.matrix(NEAR_Y.tolist()))])
    linear = atm.NormalLinear().fit(X, NEAR_Y)
    np.testing.assert_allclose(linear.slope_, wanted[1:], rtol=50 * tight)
    assert linear.slope_[1] == pytest.approx(wanted[2], rel=tight)
    classes = (NEAR_Y > 0.5).astype(int)
    ordinal = atm.OrdinalRegression().fit(X, classes)
    wanted = newton_of_many_digits(X, classes, np.append(ordinal.baseline_, ordinal.coef_))
    np.testing.assert_allclose(ordinal.coef_, wanted[1:], rtol=50 * tight)


NEAR_MODELS = {
    "Lm": (atm.NormalLinear(xi=3.0), NEAR_Y),
    "Lm, xi < 0": (atm.NormalLinear(xi=-0.5), NEAR_Y),
    "c-logit": (atm.ContinuousLogit(xi=3.0, order=3), NEAR_Y),
    "Weibull": (atm.ParametricSurvival(xi=3.0), atm.Surv(np.exp(NEAR_Y), PLACE > 0)),
    "Cox": (atm.CoxPH(xi=3.0), atm.Surv(np.exp(NEAR_Y), PLACE > 0)),
    "Poisson": (atm.AnchorGLM(xi=3.0), np.floor(np.exp(0.5 * NEAR_Y))),
}


@pytest.mark.parametrize(("model", "y"), NEAR_MODELS.values(), ids=NEAR_MODELS)
@pytest.mark.parametrize("noise", [1e-4, 1e-6])
@pytest.mark.filterwarnings("ignore:nearly collinear")
def test_nearly_collinear_covariates_are_those_that_differ(model, y, noise: float) -> None:
    X = near(noise)
    apart = np.column_stack([BASE, BESIDE, (X[:, 2] - BASE) / noise])
    J = np.array([[1.0, 0.0, -1.0 / noise], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0 / noise]])
    found, wanted = (clone(model).fit(columns, y, anchors=PLACE) for columns in (X, apart))
    assert found.converged_
    np.testing.assert_allclose(found.coef_, J @ wanted.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.baseline_, wanted.baseline_, rtol=1e-6, atol=1e-8)
    assert found.loss_ == pytest.approx(wanted.loss_, abs=1e-9)
    V = J @ wanted.covariance()[-3:, -3:] @ J.T
    np.testing.assert_allclose(found.standard_errors(), np.sqrt(np.diag(V)), rtol=1e-6)
    np.testing.assert_allclose(found.nll(X, y), wanted.nll(apart, y), atol=1e-7)


def test_nearly_collinear_covariates_are_told_and_lost_ones_refused() -> None:
    atm.NormalLinear().fit(near(1e-3), NEAR_Y)  # without a warning
    for noise in (1e-5, 1e-6, 1e-7):
        with pytest.warns(AnchorTMWarning, match="nearly collinear covariates: x0, x2; .* leave one of them out"):
            model = atm.NormalLinear().fit(near(noise), NEAR_Y)
        assert "nearly collinear covariates: x0, x2" in model.warnings_[0]
    for noise in (1e-8, 1e-12, 0.0):
        with pytest.raises(IdentificationError, match="collinear covariates: x0, x2; leave one of them out"):
            atm.NormalLinear().fit(near(noise), NEAR_Y)
    single = near(1.0).astype(np.float32)
    with pytest.raises(IdentificationError, match="collinear covariates: x0, x1, x2"):
        atm.NormalLinear().fit(np.column_stack([single[:, :2], single[:, 0] + single[:, 1]]), NEAR_Y)
    with pytest.raises(IdentificationError, match="collinear covariates: x0, x2"):  # nothing is turned for these
        atm.NormalLinear(scale=[1]).fit(near(1e-6), NEAR_Y)


@pytest.mark.filterwarnings("ignore:nearly collinear")
def test_nearly_collinear_covariates_left_out_resampled_and_on_paths() -> None:
    X = near(1e-6)
    apart = np.column_stack([BASE, BESIDE, (X[:, 2] - BASE) * 1e6])
    model = atm.NormalLinear(xi=1.0)
    found, wanted = (atm.leave_one_environment_out(model, Z, NEAR_Y, PLACE, [0, 2]).frame() for Z in (X, apart))
    np.testing.assert_allclose(found.nll, wanted.nll, rtol=1e-7)
    found, wanted = (atm.anchor_path(model, Z, NEAR_Y, PLACE, [0, 2, 20]).coefs[:, 1] for Z in (X, apart))
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    options = {"clusters": np.arange(80), "random_state": 0, "progress": False}
    found, wanted = (model.fit(Z, NEAR_Y, anchors=PLACE).bootstrap(5, **options).draws for Z in (X, apart))
    np.testing.assert_allclose(found[:, -2], wanted[:, -2], rtol=1e-7)


def test_outliers_and_large_offsets() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1000, 1))
    t = rng.exponential(size=1000) * np.exp(-0.5 * x[:, 0])
    plain = atm.ProportionalHazards(support=(0.1, 2.0)).fit(x, t)
    moved = atm.ProportionalHazards(support=(0.1, 2.0)).fit(x, t, offset=np.full(1000, 800.0))
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-6)
    t[0] = 1e6
    assert atm.ProportionalHazards(support=(0.1, 2.0)).fit(x, t).converged_
