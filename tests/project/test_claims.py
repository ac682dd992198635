"""The identities that the paper states or implies (claims A1-A19 of the reproduction)."""

import math

import numpy as np
import pytest
from reference_fits import COVARIATES, boston_response, data
from scipy import stats

import anchortm as atm

BOSTON = data("BostonHousing2")
X, Y, TOWN = BOSTON[COVARIATES].to_numpy(), BOSTON.cmedv.to_numpy(), BOSTON.town.to_numpy()


def projection(A: np.ndarray) -> np.ndarray:
    return A @ np.linalg.pinv(A)


def with_constant(A: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(A)), A])


def linear_sem(n: int, seed: int, shift: float = 1.0):
    """A continuous anchor, a hidden confounder, a linear response."""
    rng = np.random.default_rng(seed)
    A, H = shift * rng.normal(size=(n, 2)), rng.normal(size=n)
    x = np.column_stack([A @ [1.0, 0.5] + H, A @ [-0.5, 1.0] + 0.5 * H]) + rng.normal(size=(n, 2))
    y = x @ [1.0, -0.5] + 2.0 * H - A[:, 0] + 0.3 * rng.normal(size=n)
    return x, y, A


def test_a1_linear_model_is_ordinary_least_squares() -> None:
    model = atm.NormalLinear().fit(X, Y)
    b, *_ = np.linalg.lstsq(with_constant(X), Y, rcond=None)
    sigma = np.sqrt(np.mean((Y - with_constant(X) @ b) ** 2))
    np.testing.assert_allclose(model.baseline_, [-b[0] / sigma, 1 / sigma], rtol=1e-8)
    np.testing.assert_allclose(model.coef_, b[1:] / sigma, rtol=1e-8, atol=1e-12)
    assert model.intercept_ == pytest.approx(b[0], rel=1e-8)
    assert model.sigma_ == pytest.approx(sigma, rel=1e-10)
    np.testing.assert_allclose(model.slope_, b[1:], rtol=1e-8, atol=1e-10)


def test_a5_anchor_loss_decomposition() -> None:
    rng = np.random.default_rng(0)
    A, e, gamma = rng.normal(size=(50, 3)), rng.normal(size=50), 7.3
    P = projection(A)
    inside, outside = np.sum((P @ e) ** 2), np.sum((e - P @ e) ** 2)
    assert outside + gamma * inside == pytest.approx(e @ e + (gamma - 1) * inside)


@pytest.mark.parametrize("xi", [-0.4, 0.0, 0.5, 6.0, 1e3])
@pytest.mark.parametrize("intercept", [True, False])
def test_a6_xi_is_half_of_gamma_minus_one(xi: float, intercept: bool) -> None:
    x, y, A = linear_sem(300, 1)
    gamma = atm.gamma_from_xi(xi)
    P = projection(with_constant(A) if intercept else A)
    W = np.eye(300) - (1 - math.sqrt(gamma)) * P
    b, *_ = np.linalg.lstsq(W @ with_constant(x), W @ y, rcond=None)
    model = atm.NormalLinear(xi=xi, anchor_intercept=intercept).fit(x, y, anchors=A)
    np.testing.assert_allclose(model.slope_, b[1:], rtol=1e-8)
    assert model.intercept_ == pytest.approx(b[0], rel=1e-7, abs=1e-9)
    assert atm.xi_from_gamma(gamma) == pytest.approx(xi)


def test_a7_ols_two_stage_least_squares_and_partialling_out() -> None:
    x, y, A = linear_sem(400, 2)
    P = projection(with_constant(A))
    D = with_constant(x)
    tsls = np.linalg.solve(D.T @ P @ D, D.T @ P @ y)
    far = atm.NormalLinear(xi=1e8).fit(x, y, anchors=A)
    limit = atm.NormalLinear(xi=math.inf).fit(x, y, anchors=A)
    np.testing.assert_allclose(far.slope_, tsls[1:], rtol=1e-6)
    np.testing.assert_allclose(limit.slope_, tsls[1:], rtol=1e-9)
    both, *_ = np.linalg.lstsq(np.column_stack([D, A]), y, rcond=None)
    for intercept in (True, False):
        out = atm.NormalLinear(xi=-0.5, anchor_intercept=intercept).fit(x, y, anchors=A)
        np.testing.assert_allclose(out.slope_, both[1:3], rtol=1e-9)
        assert out.converged_
    # with the constant in A the limit has residuals that sum to zero
    r = atm.NormalLinear(xi=-0.5).fit(x, y, anchors=A).residuals(x, y)
    assert abs(r.mean()) < 1e-10


@pytest.mark.bug("honesty", "the linear model at xi = 1e8 could say that it had not converged")
def test_a7_rounding_does_not_grow_with_xi() -> None:
    for seed in range(8):
        x, y, A = linear_sem(400, seed)
        assert atm.NormalLinear(xi=1e10).fit(x, y, anchors=A).kkt_ < 1e-12


def test_a7_partialling_out_a_factor() -> None:
    rng = np.random.default_rng(5)
    site = rng.integers(0, 6, 200)
    x = rng.normal(size=(200, 2)) + site[:, None]
    y = x @ [1.0, 2.0] + 3.0 * site + rng.normal(size=200)
    dummies = np.eye(6)[site]
    both, *_ = np.linalg.lstsq(np.column_stack([x, dummies]), y, rcond=None)
    model = atm.NormalLinear(xi=-0.5).fit(x, y, anchors=site)
    np.testing.assert_allclose(model.slope_, both[:2], rtol=1e-9)
    assert model.converged_


def test_a8_worst_case_duality() -> None:
    """E[e^2] under anchors scaled by sqrt(gamma) is the anchor risk at gamma, for any b."""
    n, gamma = 400_000, 7.0
    x, y, A = linear_sem(n, 3)
    b = np.array([0.8, -0.2])
    e = y - x @ b
    inside = A @ np.linalg.lstsq(A, e, rcond=None)[0]
    risk = np.mean((e - inside) ** 2) + gamma * np.mean(inside**2)
    x2, y2, _ = linear_sem(n, 4, shift=math.sqrt(gamma))
    assert np.mean((y2 - x2 @ b) ** 2) == pytest.approx(risk, rel=0.01)


def test_a9_gamma_is_a_chi_square_quantile() -> None:
    assert stats.chi2.cdf(7, 1) == pytest.approx(0.99185, abs=1e-5)
    assert atm.gamma_from_quantile(0.99185) == pytest.approx(7.0, abs=0.01)
    assert atm.gamma_from_quantile(0.99969) == pytest.approx(13.0, abs=0.05)
    rng = np.random.default_rng(6)
    A = rng.normal(size=200_000)
    risk_given_anchor = 2.0 + 1.5 * A**2  # E[e^2 | A] with one anchor
    gamma = atm.gamma_from_quantile(0.9)
    assert np.quantile(risk_given_anchor, 0.9) == pytest.approx(2.0 + gamma * 1.5, rel=0.02)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (atm.NormalLinear, "exact"),
        (atm.ContinuousProbit, "mix"),
        (atm.ContinuousLogit, "rc"),
        (atm.ProportionalHazards, "ic"),
        (atm.Lehmann, "lc"),
        (atm.ParametricSurvival, "rc"),
        (atm.OrdinalRegression, "ord6"),
    ],
)
def test_a14_residuals_sum_to_zero_at_the_maximum_likelihood(make, kind: str) -> None:
    y = boston_response(kind)
    assert abs(make().fit(X, y).residuals(X, y).sum()) < 1e-6


def test_a15_variance_is_the_empirical_worst_case() -> None:
    A = (TOWN[:, None] == np.unique(TOWN)).astype(float)
    P = projection(A)
    previous = 0.0
    for xi in (0.0, 1.0, 10.0, 1e3):
        model = atm.NormalLinear(xi=xi).fit(X, Y, anchors=TOWN)
        e = Y - model.intercept_ - X @ model.slope_
        anchor_risk = (np.sum((e - P @ e) ** 2) + (2 * xi + 1) * np.sum((P @ e) ** 2)) / len(Y)
        assert model.sigma_**2 == pytest.approx(anchor_risk, rel=1e-9)
        # the loss is that of linear anchor regression up to sigma and a constant
        assert model.loss_ == pytest.approx(0.5 + math.log(model.sigma_) + 0.5 * math.log(2 * math.pi), rel=1e-9)
        assert model.sigma_ >= previous
        previous = model.sigma_


def iv2(n: int, seed: int, strength: float = 1.0):
    """Scenario iv2 with a three-valued anchor."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-1, 2, n)
    H = rng.normal(0, 0.75, n)
    x = strength * A + H + rng.normal(0, 0.75, n)
    K = 10
    thresholds = np.log(np.arange(1, K) / (K - np.arange(1, K)))
    latent = 0.5 * x + 1.5 * H + rng.logistic(size=n)
    return x[:, None], np.digitize(latent, thresholds), A


def test_a16_group_means_of_residuals_become_equal() -> None:
    x, y, A = iv2(1000, 0, strength=2.0)

    def group_means(xi: float) -> np.ndarray:
        r = atm.OrdinalRegression(xi=xi).fit(x, y, anchors=A).residuals(x, y)
        return np.array([r[a == A].mean() for a in (-1, 0, 1)])

    assert np.ptp(group_means(0.0)) > 0.1
    assert np.abs(group_means(1e6)).max() < 1e-5
    np.testing.assert_allclose(10 * group_means(1e6), group_means(1e5), rtol=0.1)  # like 1 / xi
    assert np.abs(group_means(math.inf)).max() < 1e-8  # the tolerance of the fit


def test_a16_mean_residual_is_flat_under_interventions() -> None:
    rng = np.random.default_rng(8)

    def sample(n, a=None):
        A, H = (rng.normal(size=n) if a is None else np.full(n, float(a))), rng.normal(size=n)
        x = A + H + rng.normal(size=n)
        return x[:, None], x + 2.0 * H + 0.5 * rng.normal(size=n), A

    x, y, A = sample(400_000)
    plain = atm.NormalLinear(xi=0.0).fit(x, y, anchors=A)
    anchored = atm.NormalLinear(xi=1e8).fit(x, y, anchors=A)
    for a in (-5, -2, 0, 2, 5):
        x_do, y_do, _ = sample(20_000, a)
        assert abs(anchored.residuals(x_do, y_do).mean()) < 0.06
        if abs(a) == 5:
            assert abs(plain.residuals(x_do, y_do).mean()) > 0.5


def test_a17_correlation_of_anchors_and_residuals_vanishes_like_one_over_xi() -> None:
    x, y, A = iv2(1000, 1)
    correlations = []
    for xi in (1e2, 1e3, 1e4):
        model = atm.OrdinalRegression(xi=xi).fit(x, y, anchors=A.astype(float))
        correlations.append(abs(np.corrcoef(A, model.residuals(x, y))[0, 1]))
    assert correlations[-1] <= 3e-4
    assert correlations[0] / correlations[1] == pytest.approx(10, rel=0.2)
    assert correlations[1] / correlations[2] == pytest.approx(10, rel=0.2)


def test_a18_one_optimum_where_the_problem_is_convex() -> None:
    for xi in (0.0, 10.0, 1e4):
        model = atm.ContinuousProbit(xi=xi, n_restarts=10, random_state=0).fit(X, Y, anchors=TOWN)
        assert model.convexity_ == "global"
        assert model.lower_minima_ == []
        assert model.min_eigenvalue_ > 0


def test_a19_the_models_of_table_one() -> None:
    assert atm.NormalLinear().fit(X, Y).baseline_[1] > 0
    for make in (atm.ContinuousProbit, atm.ContinuousLogit):
        assert (np.diff(make().fit(X, Y).baseline_) >= 0).all()
    ordinal = atm.OrdinalRegression().fit(X, boston_response("ord6"))
    assert (np.diff(ordinal.baseline_) > 0).all()
    assert ordinal.baseline_.size == 5  # theta_K is +inf: the last class has the rest
    np.testing.assert_allclose(ordinal.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)


def test_d29_the_constant_belongs_to_the_anchors() -> None:
    """For exact normal rows, a constant in P equals centring the anchors; raw anchors are another model."""
    x, y, A = linear_sem(300, 9)
    A = A + 1.5
    inside = atm.NormalLinear(xi=5.0).fit(x, y, anchors=A)
    centred = atm.NormalLinear(xi=5.0, anchor_intercept=False).fit(x, y, anchors=A - A.mean(axis=0))
    raw = atm.NormalLinear(xi=5.0, anchor_intercept=False).fit(x, y, anchors=A)
    np.testing.assert_allclose(inside.slope_, centred.slope_, rtol=1e-9)
    assert np.abs(raw.slope_ - inside.slope_).max() > 1e-3


def test_d37_a_convex_residual_is_not_enough() -> None:
    """Exact rows, minimum extreme value: r = exp(h) - 1 is convex, but its projected square is not."""
    a = np.array([1.0, -1.0])

    def penalty(h: np.ndarray) -> float:
        r = np.exp(h) - 1.0
        return float(a @ r) ** 2 / 2.0

    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(2000, 2, 2))
    excess = [penalty(p.mean(axis=0)) - 0.5 * (penalty(p[0]) + penalty(p[1])) for p in pairs]
    assert max(excess) > 0.05
