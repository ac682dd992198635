"""Log-likelihood and score residuals of mixtures of rows; the closed forms of the paper."""

import math

import mpmath as mp
import numpy as np
import pytest
from high_precision import DISTRIBUTIONS
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from simulated import FOUR

import anchortm as atm
from anchortm import Interval, Surv
from anchortm.bases import BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.engine.rows.likelihood import build_terms, evaluate, loglik_and_residuals, start_values
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.response import as_response
from anchortm.links import LINKS, Link, Logistic, MinExtremeValue, Normal

inf = np.inf
links = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS.keys())

BASIS = BernsteinBasis(4, (1.0, 5.0))
THETA = np.array([-2.0, -0.6, 0.1, 1.0, 2.4])
shifts = arrays(float, 6, elements=st.floats(-3, 3))
MIXED = Interval(
    [2.0, -inf, 3.0, 1.5, 2.5, 4.0],
    [2.0, 3.0, inf, 4.5, 2.6, 4.0],
    entry=[1.0, 0.5, 2.0, 1.0, -inf, -inf],
    exit=[6.0, inf, inf, 6.0, 6.0, inf],
)


def row_by_definition(link: Link, row: int, shift: float, alpha: mp.mpf) -> mp.mpf:
    """The textbook log-likelihood of one row of MIXED at F(h - alpha), in 60 digits."""
    F = DISTRIBUTIONS[link.name]

    def probability(low: float, high: float) -> mp.mpf:
        v, u = (mp.mpf(BASIS.rows([y])[0] @ THETA + shift) - alpha if np.isfinite(y) else y for y in (low, high))
        if np.isinf(low):
            return mp.mpf(1) if np.isinf(high) else F.cdf(u)
        return F.sf(v) - (0 if np.isinf(high) else F.sf(u))

    low, high = MIXED.lower[row], MIXED.upper[row]
    if low == high:
        observed = F.density(mp.mpf(BASIS.rows([low])[0] @ THETA + shift) - alpha) * mp.mpf(
            BASIS.derivative_rows([low])[0] @ THETA
        )
    else:
        observed = probability(low, high)
    return mp.log(observed) - mp.log(probability(MIXED.entry[row], MIXED.exit[row]))


@links
@settings(max_examples=25)
@given(shift=shifts)
def test_mixture_of_all_kinds_by_definition(link: Link, shift: np.ndarray) -> None:
    """l is the textbook log-likelihood and r its derivative in alpha at F(h - alpha), for every kind of row."""
    loglik, residuals = loglik_and_residuals(link, build_terms(BASIS, MIXED), THETA, shift)
    with mp.workdps(60):
        for row in range(len(MIXED)):
            wanted = row_by_definition(link, row, shift[row], mp.mpf(0))
            assert loglik[row] == pytest.approx(float(wanted), rel=1e-10, abs=1e-10)
            slope = mp.diff(lambda alpha, row=row: row_by_definition(link, row, shift[row], alpha), 0)
            assert residuals[row] == pytest.approx(float(slope), rel=1e-10, abs=1e-10)


@links
@given(shift=shifts)
def test_derivatives_in_the_parameters(link: Link, shift: np.ndarray) -> None:
    """The chain rule with a term's quantities, as the objective will use it, against differences."""
    terms = build_terms(BASIS, MIXED)
    n, k = len(MIXED), BASIS.n_parameters
    dl, dr = np.zeros((n, k + 1)), np.zeros((n, k + 1))  # in theta and in the shift
    for term in terms:
        value, slope = evaluate(link, term, THETA, shift)
        one = np.ones((term.rows.size, 1))
        if term.kind == "interval":
            upper, lower = np.hstack([term.upper, one]), np.hstack([term.lower, one])
            l_w = value.l_u[:, None] * upper + value.l_v[:, None] * lower
            r_w = value.r_u[:, None] * upper + value.r_v[:, None] * lower
        else:
            c = np.hstack([term.upper if term.upper is not None else term.lower, one])
            l_w, r_w = -value.r[:, None] * c, value.dr[:, None] * c
        if slope is not None:
            l_w[:, :-1] += term.slope / slope[:, None]
        dl[term.rows] += term.sign * l_w
        dr[term.rows] += term.sign * r_w
    step = 1e-5
    for j in range(k + 1):
        move = np.zeros(k + 1)
        move[j] = step
        ahead = loglik_and_residuals(link, terms, THETA + move[:-1], shift + move[-1])
        behind = loglik_and_residuals(link, terms, THETA - move[:-1], shift - move[-1])
        for computed, plus, minus in zip((dl, dr), ahead, behind, strict=True):
            difference = (plus - minus) / (2 * step)
            np.testing.assert_allclose(computed[:, j], difference, rtol=2e-6, atol=2e-6 * (1 + np.abs(plus).max()))


@links
@given(theta=arrays(float, 5, elements=st.floats(-6, 6), unique=True), shift=st.floats(-5, 5))
def test_probabilities_of_classes_sum_to_one(link: Link, theta: np.ndarray, shift: float) -> None:
    y = as_response(np.arange(6), "ordinal")
    loglik, _ = loglik_and_residuals(link, build_terms(OrdinalBasis(y.levels), y), np.sort(theta), np.full(6, shift))
    assert np.exp(loglik).sum() == pytest.approx(1.0, abs=1e-12)


@links
@given(steps=arrays(float, 4, elements=st.floats(0.05, 3)), shift=st.floats(-5, 5), log_first=st.booleans())
def test_probabilities_of_counts_sum_to_one(link: Link, steps: np.ndarray, shift: float, log_first: bool) -> None:
    basis = CountBasis(4, (0, 30), log_first)
    theta = np.cumsum(np.r_[-2.0, steps])
    y = as_response(np.arange(200), "count")
    loglik, _ = loglik_and_residuals(link, build_terms(basis, y), theta, np.full(200, shift))
    beyond = np.exp(link.log_sf(basis.rows([199])[0] @ theta + shift))
    assert np.exp(loglik).sum() + beyond == pytest.approx(1.0, abs=1e-12)


@links
def test_rows_that_say_nothing_cost_nothing(link: Link) -> None:
    y = Interval([-inf, 2.0], [inf, 2.0])
    loglik, residuals = loglik_and_residuals(link, build_terms(BASIS, y), THETA, np.zeros(2))
    assert loglik[0] == residuals[0] == 0.0
    assert loglik[1] < 0.0


@links
def test_log_concavity_along_lines(link: Link) -> None:
    """Without truncation the log-likelihood is concave in (theta, shift)."""
    rng = np.random.default_rng(0)
    y = Interval(MIXED.lower, np.where(np.isinf(MIXED.upper), inf, MIXED.upper))
    terms = build_terms(BASIS, y)
    for _ in range(50):
        ends = [(np.cumsum(np.r_[rng.normal(), rng.exponential(size=4)]), rng.normal(size=6)) for _ in range(2)]
        middle = [0.5 * (a + b) for a, b in zip(*ends, strict=True)]
        low = sum(loglik_and_residuals(link, terms, *end)[0] for end in ends) / 2
        assert (loglik_and_residuals(link, terms, *middle)[0] >= low - 1e-12).all()


def test_linear_model_residual_is_the_scaled_least_squares_residual() -> None:
    """Claim A4: r = (y - b0 - x'b) / sigma; A1: theta = (-b0, 1) / sigma and beta = b / sigma."""
    rng = np.random.default_rng(1)
    x, b0, b, sigma = rng.normal(size=50), 0.7, 1.3, 2.5
    y = b0 + b * x + sigma * rng.normal(size=50)
    terms = build_terms(LinearBasis(), as_response(y))
    loglik, r = loglik_and_residuals(Normal(), terms, np.array([-b0, 1.0]) / sigma, -x * b / sigma)
    np.testing.assert_allclose(r, (y - b0 - b * x) / sigma, atol=1e-13)
    np.testing.assert_allclose(loglik, stats.norm.logpdf(y, b0 + b * x, sigma), rtol=1e-12)


def test_cox_residual_is_minus_the_martingale_residual() -> None:
    """Claim A10: with F = 1 - exp(-exp), r = Lambda - delta."""
    rng = np.random.default_rng(2)
    time, event = rng.uniform(0.5, 6, 40), rng.integers(0, 2, 40)
    eta = rng.normal(size=40)
    _, r = loglik_and_residuals(MinExtremeValue(), build_terms(BASIS, Surv(time, event)), THETA, eta)
    cumulative_hazard = np.exp(BASIS.rows(time) @ THETA + eta)
    np.testing.assert_allclose(r, cumulative_hazard - event, atol=1e-13)
    assert (-r <= 1.0).all()
    # delayed entry takes away the hazard up to the entry
    entry = 0.5 * time
    _, late = loglik_and_residuals(MinExtremeValue(), build_terms(BASIS, Surv(time, event, entry)), THETA, eta)
    np.testing.assert_allclose(late, cumulative_hazard - np.exp(BASIS.rows(entry) @ THETA + eta) - event, atol=1e-13)


def test_probit_residual_is_the_transformed_response() -> None:
    """Claim A11."""
    y, shift = np.linspace(0.2, 7, 9), np.linspace(-1, 1, 9)
    _, r = loglik_and_residuals(Normal(), build_terms(BASIS, as_response(y)), THETA, shift)
    np.testing.assert_array_equal(r, BASIS.rows(y) @ THETA + shift)


def test_logit_residuals_are_probabilities() -> None:
    """Claim A12: exact 2F - 1, right-censored P(Y <= y), left-censored -P(Y > y); counts F(y) + F(y-1) - 1."""
    y = np.linspace(0.2, 7, 9)
    h = BASIS.rows(y) @ THETA
    F = stats.logistic.cdf(h)
    full = np.full(9, inf)
    for response, wanted in (
        (as_response(y), 2 * F - 1),
        (Interval(y, full), F),
        (Interval(-full, y), -(1 - F)),
    ):
        _, r = loglik_and_residuals(Logistic(), build_terms(BASIS, response), THETA, np.zeros(9))
        np.testing.assert_allclose(r, wanted, atol=1e-14)
    basis, k = CountBasis(4, (0, 9)), np.arange(10)
    _, r = loglik_and_residuals(Logistic(), build_terms(basis, as_response(k, "count")), THETA, np.zeros(10))
    F = stats.logistic.cdf(basis.rows(k) @ THETA)
    np.testing.assert_allclose(r, F + np.r_[0.0, F[:-1]] - 1, atol=1e-14)


def test_an_entry_below_a_log_basis_is_no_truncation() -> None:
    basis = BernsteinBasis(3, (1.0, 5.0), log_first=True)
    y = Interval([2.0, -inf], [2.0, 3.0], entry=[-1.0, 0.0])
    assert all(term.sign == 1 for term in build_terms(basis, y))


def test_a_lower_end_of_zero_under_a_log_basis_is_none() -> None:
    theta = np.array([-1.0, 0.8])
    for lower in (0.0, -inf):
        (term,) = build_terms(LogLinearBasis(), Interval([lower], [3.0]))
        assert term.kind == "left"
        assert evaluate(Normal(), term, theta, np.zeros(1)).loglik == stats.norm.logcdf(-1.0 + 0.8 * np.log(3.0))


def test_a_decreasing_transformation_is_impossible() -> None:
    loglik, _ = loglik_and_residuals(
        Normal(), build_terms(LinearBasis(), as_response([1.0])), np.array([0, -1.0]), np.zeros(1)
    )
    assert loglik[0] == -inf


def test_refusals() -> None:
    day = r"y is 0 at row 1, but a baseline in log y .* Interval\(0, 1\), or add half a unit to all times, time \+ 0\.5"
    with pytest.raises(InputError, match=day):
        build_terms(LogLinearBasis(), as_response([1.0, 0.0]))
    with pytest.raises(InputError, match="y is -1 at row 1, but a baseline in log y needs values above 0; take a base"):
        build_terms(LogLinearBasis(), as_response([1.0, -1.0]))
    with pytest.raises(InputTypeError, match="not the exact number 2 at row 0"):
        build_terms(CountBasis(3, (0, 4)), as_response([2.0]))


@links
@pytest.mark.parametrize(
    ("basis", "response"),
    [
        (BASIS, MIXED),
        (LinearBasis(), as_response([1.0, 2.0, 5.0])),
        (LogLinearBasis(), Surv([1.0, 2.0, 5.0], [1, 0, 1])),
        (OrdinalBasis((0, 1, 2, 3)), as_response([0, 3, 3, 1], "ordinal", levels=[0, 1, 2, 3])),
        (CountBasis(4, (0, 7)), as_response([0, 1, 1, 2, 7], "count")),
    ],
    ids=["mixed", "linear", "log-linear", "ordinal", "count"],
)
def test_start_values_have_a_finite_likelihood(link: Link, basis, response) -> None:
    theta = start_values(link, basis, response)
    assert basis.increments.satisfied(theta, 1e-12)
    loglik, _ = loglik_and_residuals(link, build_terms(basis, response), theta, np.zeros(len(response)))
    assert np.isfinite(loglik).all()


@pytest.mark.parametrize("width", [1e-5, 1e-7, 1e-9, 1e-11])
@pytest.mark.parametrize("make", [atm.ContinuousLogit, atm.ContinuousProbit, atm.Lehmann])
def test_narrow_intervals_are_nearly_exact_rows(make, width: float) -> None:
    exact = make(xi=2.0, support=(-2.0, 3.0)).fit(FOUR.X, FOUR.y, anchors=FOUR.site)
    narrow = make(xi=2.0, support=(-2.0, 3.0)).fit(
        FOUR.X, atm.Interval(FOUR.y - width / 2, FOUR.y + width / 2), anchors=FOUR.site
    )
    assert narrow.converged_
    np.testing.assert_allclose(narrow.coef_, exact.coef_, rtol=1e-4)
    assert narrow.min_eigenvalue_ == pytest.approx(exact.min_eigenvalue_, rel=1e-2)
    assert narrow.loglik_ - FOUR.n * math.log(width) == pytest.approx(exact.loglik_, rel=1e-4)


def test_exit_truncation() -> None:
    """Rows seen only below a limit: the truncated fit recovers what the plain one misses."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(20_000, 1))
    y = x[:, 0] + rng.normal(size=20_000)
    seen = y <= 1.0
    x, y = x[seen], y[seen]
    model = atm.NormalLinear().fit(x, atm.Interval(y, y, exit=np.ones(y.size)))
    assert model.slope_[0] == pytest.approx(1.0, abs=0.04)
    assert atm.NormalLinear().fit(x, y).slope_[0] < 0.8
