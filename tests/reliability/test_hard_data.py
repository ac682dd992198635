"""Hard but legal data: a certified optimum, or the exact reason why there is none."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from checks import no_lower_place_nearby

import anchortm as atm
from anchortm.engine.solve.quadratic_program import bounded_minimum
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, IdentificationError, SeparationError

N = 400
rng = np.random.default_rng(1)
SITE = rng.integers(0, 5, N)
X = rng.normal(size=(N, 2)) + 0.3 * SITE[:, None]
LATENT = X @ [1.0, 0.5] + rng.logistic(size=N)
LOW, HIGH = np.quantile(LATENT, [0.1, 0.95])
WILD = 10.0 ** rng.uniform(-8, 8, N)
WIDE = np.array([0.0, 1e-9, 1e9])[np.arange(N) % 3]
HUGE_SPAN = 10.0 ** np.clip(60 * LATENT, -300, 300)
BERNSTEIN = [atm.ContinuousProbit, atm.ContinuousLogit, atm.ProportionalHazards, atm.Lehmann]
CONTINUOUS = [atm.NormalLinear, *BERNSTEIN]
DISTS = ["weibull", "lognormal", "loglogistic", "exponential", "rayleigh"]
LINKS = ["logit", "probit", "cloglog", "loglog"]


def all_of(makes: list, xi: float = 1.0, **options) -> list:
    return [make(xi=xi, **options) for make in makes]


TIMES = [atm.ParametricSurvival(xi=1.0, dist=dist) for dist in DISTS]
ORDINAL = [atm.OrdinalRegression(xi=1.0, link=link) for link in LINKS]
COUNTS = [atm.CountRegression(xi=1.0, link=link) for link in LINKS]


def right_censored() -> tuple:
    x = rng.normal(size=(4000, 2))
    t = np.exp(x[:, 0] / 2 + rng.logistic(size=4000) / 2)
    end = np.quantile(t, 0.01)
    return x, atm.Surv(np.minimum(t, end), t <= end), np.arange(4000) % 5


def left_censored() -> tuple:
    x = rng.normal(size=(4000, 2))
    y = x[:, 0] / 2 + rng.logistic(size=4000) / 2
    end = np.quantile(y, 0.99)
    return x, atm.Interval(np.where(y <= end, -np.inf, y), np.maximum(y, end)), np.arange(4000) % 5


def classes_in_order(n: int, k: int) -> tuple:
    x = rng.normal(size=(n, 2))
    return x, (np.argsort(np.argsort(x[:, 0] + rng.logistic(size=n))) * k) // n, np.arange(n) % 7


def nearly_separated() -> tuple:
    """Two rows on the wrong side of each threshold."""
    x = np.sort(rng.normal(size=(500, 1)), axis=0)
    classes = np.digitize(x[:, 0], [0.0, 1.0])
    for at in (0.0, 1.0):
        i = int(np.searchsorted(x[:, 0], at))
        classes[[i - 1, i]] = classes[[i, i - 1]]
    return x, classes, np.arange(500) % 7


def anchors_of_many_levels() -> tuple:
    x = rng.normal(size=(250_000, 2))
    return x, x[:, 0] + rng.logistic(size=250_000), rng.integers(0, 100_000, 250_000)


def many_covariates() -> tuple:
    x = np.random.default_rng(3).normal(size=(100, 95))
    return x, x[:, 0] + np.random.default_rng(4).normal(size=100), np.arange(100) % 5


UNITS = 10.0 ** np.linspace(-12, 12, 7)
SEVEN = rng.normal(size=(N, 7))
SUM = SEVEN.sum(axis=1) + rng.logistic(size=N)
POISSON = rng.poisson(30, N)

# name -> models, data (X, y, anchors and perhaps weights)
CASES: dict[str, tuple[list, tuple]] = {
    "one row per environment": ([c(xi=xi) for c in CONTINUOUS for xi in (1.0, 100.0)], (X, LATENT, np.arange(N))),
    "p close to n": (all_of(CONTINUOUS[:3]), many_covariates()),
    "columns in units from 1e-12 to 1e12": (all_of(CONTINUOUS, xi=2.0), (SEVEN * UNITS, SUM, SITE)),
    "such columns far from 0": (all_of(CONTINUOUS, xi=2.0), ((SEVEN + 1e5) * UNITS, SUM, SITE)),
    "ties": (all_of(CONTINUOUS), (X, np.round(LATENT), SITE)),
    "coarse ties": (all_of(CONTINUOUS), (X, 4 * np.round(LATENT / 4), SITE)),
    "two distinct values": (all_of(CONTINUOUS), (X, np.where(LATENT > 0, 1.0, 0.0), SITE)),
    "two distinct times": (TIMES, (X, 1.0 + (LATENT > 0), SITE)),
    "y around 1e-300": (all_of(CONTINUOUS), (X, 1e-300 * np.exp(LATENT), SITE)),
    "times around 1e-300": (TIMES, (X, 1e-300 * np.exp(LATENT), SITE)),
    "y around 1e300": (all_of(CONTINUOUS), (X, 1e300 * np.exp(LATENT - 9), SITE)),
    "y from 1e-300 to 1e300, linear": ([atm.NormalLinear(xi=1.0)], (X, HUGE_SPAN, SITE)),
    "y from 1e-300 to 1e300, in log y": (all_of(BERNSTEIN, log_first=True), (X, HUGE_SPAN, SITE)),
    "times from 1e-300 to 1e300": (TIMES, (X, HUGE_SPAN, SITE)),
    "y far from 0": (all_of(CONTINUOUS), (X, 1e8 + LATENT, SITE)),
    "heavy tails": (all_of(CONTINUOUS), (X, X[:, 0] + rng.standard_cauchy(N) ** 3, SITE)),
    "90 % at the upper end": (all_of(CONTINUOUS), (X, np.minimum(LATENT, LOW), SITE)),
    "95 % at the lower end": (all_of(CONTINUOUS), (X, np.maximum(LATENT, HIGH), SITE)),
    "99 % right-censored": (all_of(CONTINUOUS), right_censored()),
    "99 % left-censored": (all_of(CONTINUOUS), left_censored()),
    "widths 0, 1e-9 and 1e9": (all_of(CONTINUOUS), (X, atm.Interval(LATENT - WIDE / 2, LATENT + WIDE / 2), SITE)),
    "weights from 1e-8 to 1e8": (all_of(CONTINUOUS), (X, LATENT, SITE, WILD)),
    "times with such weights": (TIMES, (X, np.exp(LATENT), SITE, WILD)),
    "counts with such weights": (COUNTS, (X, POISSON, SITE, WILD)),
    "2 classes": (ORDINAL, (X, (LATENT > 1).astype(int), SITE)),
    "200 classes": (ORDINAL, classes_in_order(5000, 200)),
    "200 classes of two rows each": (ORDINAL, classes_in_order(400, 200)),
    "nearly separated classes": (ORDINAL, nearly_separated()),
    "counts with 1e6": (COUNTS, (X, np.where(np.arange(N) % 50 == 0, 1_000_000, rng.poisson(3, N)), SITE)),
    "counts around 1e6": (COUNTS, (X, rng.poisson(1e6 * np.exp(LATENT / 5)), SITE)),
    "98 % zeros": (COUNTS, (X, np.where(np.arange(N) % 50 == 0, 1 + rng.poisson(3, N), 0), SITE)),
    "order 1 and 30": ([c(xi=1.0, order=o) for c in BERNSTEIN for o in (1, 30)], (X, LATENT, SITE)),
    "counts, order 1 and 30": (
        [atm.CountRegression(xi=1.0, link=k, order=o) for k in LINKS for o in (1, 30)],
        (X, POISSON, SITE),
    ),
    "1e5 anchor levels": ([atm.NormalLinear(xi=1.0), atm.ContinuousLogit(xi=1.0)], anchors_of_many_levels()),
}
EXPECTED = ".*(nearly every row is an environment|classes in 400 rows|flat direction)"


@pytest.mark.parametrize("name", CASES)
def test_hard_data_end_with_a_true_certificate(name: str, tally) -> None:
    models, (x, y, anchors, *weights) = CASES[name]
    options = {"anchors": anchors} | ({"sample_weight": weights[0]} if weights else {})
    for model in models:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", EXPECTED, AnchorTMWarning)
            model.fit(x, y, **options)
        assert model.converged_, model.result_.reason
        assert model.kkt_ <= model.tol
        assert model.min_eigenvalue_ > 0.0
        tally("hard data", "fits with a certificate")
        tried = no_lower_place_nearby(model, x, y, **options, tries=max(3, min(20, 20_000 // len(y))))
        tally("hard data", "places around an optimum found no better", tried)
        quantiles = (
            model.predict_distribution(x[:5]).ppf([0.1, 0.5, 0.9])
            if model.specification().outcome != "ordinal"
            else None
        )
        assert quantiles is None or (np.diff(quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize("make", BERNSTEIN)
def test_a_span_that_no_baseline_in_y_resolves_is_told(make, tally) -> None:
    with pytest.raises(
        IdentificationError, match=r"from 1e-300 to 1e\+300, too far beyond the support .* log_first=True"
    ):
        make(xi=1.0).fit(X, HUGE_SPAN, anchors=SITE)
    tally("hard data", "refused with the reason")


@pytest.mark.parametrize("link", LINKS)
def test_counts_of_two_values_have_no_baseline(link: str, tally) -> None:
    """P(Y <= 1) = 1 is fitted best, by an h(1) that is infinite: true of any order."""
    for order in (1, 6):
        with pytest.raises(SeparationError, match="use OrdinalRegression for a few different counts"):
            atm.CountRegression(xi=1.0, link=link, order=order).fit(X, (LATENT > 1).astype(int), anchors=SITE)
        tally("hard data", "refused with the reason")


def test_environments_of_one_row_can_be_left_out_and_predicted(tally) -> None:
    few = slice(0, 40)
    for model in (atm.NormalLinear(), atm.ContinuousLogit(order=3)):
        loeo = atm.leave_one_environment_out(model, X[few], LATENT[few], np.arange(40), [0.0, 1.0]).frame()
        assert (loeo.n == 1).all()
        assert np.isfinite(loeo.nll).all()
        for i in (0, 17):
            others = np.arange(40) != i
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", EXPECTED, AnchorTMWarning)
                alone = type(model)(**model.get_params() | {"xi": 1.0}).fit(
                    X[few][others], LATENT[few][others], anchors=np.arange(39)
                )
            wanted = alone.nll(X[[i]], LATENT[[i]])[0]
            found = loeo.nll[(loeo.environment == i) & (loeo.xi == 1.0)].item()
            assert found == pytest.approx(wanted, rel=1e-6)
        tally("hard data", "fits with a certificate", 80)


@pytest.mark.bug(
    "hard data", "intervals of width 1e9 set the scale of the baseline: a fit stopped short and called itself converged"
)
@pytest.mark.parametrize("make", CONTINUOUS)
def test_wide_intervals_do_not_set_the_scale(make) -> None:
    """Rows that say nothing change nothing but the weight of the penalty, which is none at xi = 0."""
    support = {} if make is atm.NormalLinear else {"support": (-2.0, 4.0)}
    informative = WIDE < 1.0
    y = atm.Interval(LATENT - WIDE / 2, LATENT + WIDE / 2)
    whole = make(**support).fit(X, y)
    part = make(**support).fit(X[informative], y[informative])
    np.testing.assert_allclose(whole.coef_, part.coef_, rtol=1e-5)
    assert whole.loglik_ == pytest.approx(part.loglik_, rel=1e-9)


@pytest.mark.bug("hard data", "y around 1e300 ended in an error of the linear algebra library")
@pytest.mark.parametrize("make", BERNSTEIN)
def test_units_of_y_at_the_ends_of_the_range_of_doubles(make) -> None:
    y = np.exp(LATENT)
    wanted = make(xi=1.0).fit(X, y, anchors=SITE)
    for unit in (1e-300, 1e295):
        model = make(xi=1.0).fit(X, unit * y, anchors=SITE)
        np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-6)
        assert model.loss_ == pytest.approx(wanted.loss_ + math.log(unit), rel=1e-9)


@pytest.mark.bug("hard data", "times over 600 orders of magnitude ended in an error of the linear algebra library")
def test_an_exponential_model_of_any_span() -> None:
    """The rate of an unconditional exponential model is 1 / mean."""
    model = atm.ParametricSurvival(dist="exponential").fit(None, HUGE_SPAN)
    assert model.converged_
    assert model.baseline_[0] == pytest.approx(-math.log(HUGE_SPAN.mean()), rel=1e-10)


@pytest.mark.bug("hard data", "a row 1e6 times further out than others left proportional hazards without start values")
def test_far_outliers_leave_a_start() -> None:
    y = LATENT.copy()
    y[0] = 1e8
    model = atm.ProportionalHazards(xi=1.0).fit(X, y, anchors=SITE)
    assert model.converged_
    no_lower_place_nearby(model, X, y, anchors=SITE)


@pytest.mark.bug("hard data", "where the QP solver erred on a nearly singular matrix a fit ended without descent")
def test_steps_of_nearly_singular_problems() -> None:
    """The conditions of optimality, whatever the solver says."""
    generator = np.random.default_rng(0)
    for size in (5, 10, 20):
        for _ in range(20):
            root = generator.normal(size=(size, size)) * 10.0 ** np.linspace(0.0, -6.0, size)
            H, g = root.T @ root + 1e-14 * np.eye(size), generator.normal(size=size) @ root
            lower = np.where(generator.random(size) < 0.5, -np.abs(generator.normal(size=size)), -np.inf)
            x = bounded_minimum(H, g, lower, np.full(size, np.inf))
            slope = (H @ x + g) / np.sqrt(np.diag(H))
            small = 1e-5 * np.abs(g / np.sqrt(np.diag(H))).max()
            assert (x >= lower).all()
            assert (slope >= -small).all()
            assert (slope[x > lower] <= small).all()


def test_every_refusal_of_hard_data_is_ours(tally) -> None:
    """Random subsets, some far too small: an estimate or an error of ours, never another."""
    makes = [*CONTINUOUS, atm.ParametricSurvival, atm.OrdinalRegression, atm.CountRegression]
    for seed in range(120):
        generator = np.random.default_rng(seed)
        rows = generator.integers(0, N, generator.integers(2, 30))
        make = makes[seed % len(makes)]
        y = np.exp(LATENT[rows]) if make in (atm.ParametricSurvival, *BERNSTEIN) else np.round(np.abs(LATENT[rows]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AnchorTMWarning)
                model = make(xi=float(seed % 3)).fit(X[rows], y, anchors=SITE[rows])
        except AnchorTMError:
            tally("hard data", "refused with the reason")
        else:
            assert np.isfinite(model.loss_)
            assert model.converged_ == (model.kkt_ <= model.tol), model.result_.reason
            tally("hard data", "fits with a certificate" if model.converged_ else "fits that say they did not converge")
