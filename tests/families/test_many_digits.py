"""Values of rows, deviance residuals and scores of families against many digits, near y = mu and far out."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from anchortm.families import FAMILIES, get_family
from anchortm.families.numerics import half_mean_difference
from anchortm.predict.family import FamilyDistribution

COMBINATIONS = [(family, link) for family, links in FAMILIES.items() for link in links]


def half_deviance(family, y, mu, m, alpha=0.7):
    """Return l_sat - l in 60 digits."""
    y, mu, m = (mpmath.mpf(float(v)) if not isinstance(v, mpmath.mpf) else v for v in (y, mu, m))

    def part(a, b):
        return a * mpmath.log(a / b) if a else mpmath.mpf(0)

    if family == "poisson":
        return part(y, mu) - (y - mu)
    if family == "binomial":
        return part(y, m * mu) + part(m - y, m * (1 - mu))
    if family == "gamma":
        return (y - mu) / mu - mpmath.log(y / mu)
    if family == "negative_binomial":
        k = 1 / mpmath.mpf(alpha)
        return part(y, mu) - (y + k) * mpmath.log((y + k) / (mu + k))
    return (y - mu) ** 2 / 2


def mp_mean(link, eta):
    return {
        "identity": lambda: eta,
        "log": lambda: mpmath.exp(eta),
        "sqrt": lambda: eta**2,
        "inverse": lambda: 1 / eta,
        "logit": lambda: 1 / (1 + mpmath.exp(-eta)),
        "probit": lambda: mpmath.ncdf(eta),
        "cloglog": lambda: -mpmath.expm1(-mpmath.exp(eta)),
        "loglog": lambda: mpmath.exp(-mpmath.exp(-eta)),
    }[link]()


@pytest.mark.parametrize(("family", "link"), COMBINATIONS)
def test_terms_against_many_digits(family, link):
    """l up to a constant, r, r', r'' and D, D', D'' against mpmath, next to y = mu too."""
    model = get_family(family, link, alpha=0.7, residual="deviance")
    etas = {"binomial-log": (-1.2, -0.3)}.get(model.name, (0.4, 1.1))
    m = 6.0 if family == "binomial" else 1.0
    with mpmath.workdps(110):
        for base in etas[: 1 if family == "negative_binomial" else 2]:
            mean = float(m * mp_mean(link, mpmath.mpf(base)))
            whole = {0.0, 1.0, 4.0} | ({6.0} if family == "binomial" else {9.0})
            outcomes = whole if model.discrete else {0.3, mean, 5.0}
            for y in sorted(outcomes):
                etas_near = [base]
                if 0.0 < y < (m if family == "binomial" else math.inf):  # the eta where y = mu, and next to it
                    root = model.eta(y / m)
                    etas_near += [root + gap for gap in (0.0, 1e-9, -1e-5, 1e-3)]
                for eta in etas_near:
                    if (model.positive and eta <= 0) or (model.name == "binomial-log" and eta >= 0):
                        continue

                    def d(e, y=y):
                        return half_deviance(family, y, mp_mean(link, e), m)

                    def root_of(e, y=y):
                        value = d(e, y)
                        return mpmath.sign(y - m * mp_mean(link, e)) * mpmath.sqrt(2 * abs(value))

                    terms = model.terms(np.array([eta]), model.outcome(np.array([y]), np.array([m])))
                    exact = mpmath.mpf(eta)
                    for order, ours in enumerate((terms.r, terms.dr, terms.d2r), start=1):
                        theirs = mpmath.diff(d, exact, order, h=mpmath.mpf(10) ** -15)
                        assert float(ours[0]) == pytest.approx(float(theirs), rel=1e-11, abs=1e-11 * (1 + m * y))
                    # D by differences from a distance, as it is smooth across y = mu
                    h = mpmath.mpf(10) ** -14
                    shifted = exact + mpmath.mpf(10) ** -25  # off the zero of a root
                    values = [root_of(shifted + j * h) for j in (-1, 0, 1)]
                    assert float(terms.penalised.r[0]) == pytest.approx(float(root_of(exact)), rel=1e-9, abs=3e-15)
                    assert float(terms.penalised.dr[0]) == pytest.approx(
                        float((values[2] - values[0]) / (2 * h)), rel=1e-10
                    )
                    curve = float((values[2] - 2 * values[1] + values[0]) / h**2)
                    assert float(terms.penalised.d2r[0]) == pytest.approx(curve, rel=1e-8, abs=1e-9)


def test_limits_where_the_outcome_is_its_mean():
    """D' = -sqrt(-l''), D'' = l''' / (3 sqrt(-l'')), with l''' = -r''."""
    for family, link in COMBINATIONS:
        model = get_family(family, link, alpha=0.7, residual="deviance")
        m = 8.0 if family == "binomial" else 1.0
        y = 4.0
        eta = np.array([model.eta(y / m)])
        terms = model.terms(eta, model.outcome(np.array([y]), np.array([m])))
        root = math.sqrt(terms.dr[0])
        side = -1.0 if link == "inverse" else 1.0  # where the mean falls with eta
        assert terms.penalised.dr[0] == pytest.approx(-side * root, rel=1e-9)
        assert terms.penalised.d2r[0] == pytest.approx(-side * terms.d2r[0] / (3 * root), rel=1e-8, abs=1e-9)


def test_deviance_residuals_are_not_zero_on_average():
    """Poisson(2): -.147, and about -1 / (6 sqrt(mu)) for large means: why they are centred."""
    for mu, expected in ((2.0, -0.147), (100.0, -1 / 60)):
        k = np.arange(0, 400.0)
        model = get_family("poisson", residual="deviance")
        D = model.terms(np.full(k.size, math.log(mu)), model.outcome(k)).penalised.r
        assert stats.poisson.pmf(k, mu) @ D == pytest.approx(expected, abs=6e-4)


@pytest.mark.bug("other software", "deviance residuals of gamma rows overflowed on the way to a large xi")
@pytest.mark.parametrize("link", FAMILIES["gamma"])
def test_gamma_deviance_residuals_far_out(link):
    """No power of the mean is taken, so that none overflows: means up to 1e100 against 50 digits."""
    eta = {"log": [-200.0, -1e-9, 230.0], "inverse": [1e-100, 1.0, 1e60], "identity": [1e100, 1.0, 1e-60]}[link]
    eta, family = np.array(eta), get_family("gamma", link, residual="deviance")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = family.terms(eta, family.outcome(np.full(3, 1.7))).penalised
    mean = {"log": mpmath.exp, "inverse": lambda e: 1 / e, "identity": lambda e: e}[link]

    def residual(e):
        ratio = mpmath.mpf(1.7) / mean(e)
        return mpmath.sign(ratio - 1) * mpmath.sqrt(2 * (ratio - 1 - mpmath.log(ratio)))

    with mpmath.workdps(50):
        for k, values in enumerate((found.r, found.dr, found.d2r)):
            theirs = [mpmath.diff(lambda u, e=e: residual(u * e), 1, k) / mpmath.mpf(e) ** k for e in eta.tolist()]
            np.testing.assert_allclose(values, np.array(theirs, dtype=float), rtol=1e-9)


def scored(mu, y, alpha=None):
    family = get_family("poisson") if alpha is None else get_family("negative_binomial", alpha=alpha)
    return float(FamilyDistribution(family, np.array([mu]), np.ones(1), np.zeros(1)).crps([y])[0])


@pytest.mark.parametrize("mu", [0.3, 5.0, 300.0, 3000.0])
@pytest.mark.parametrize("alpha", [1e-6, 1e-4, 1e-3, 1e-2, 1.0])
def test_crps_of_nearly_poisson_counts(mu, alpha):
    """The closed form is not finite for small alpha; the sum over all outcomes is."""
    y, size = round(1.2 * mu), 1 / alpha
    grid = np.arange(0, y + 100 + (60 * math.sqrt(mu + alpha * mu**2)))
    F = stats.nbinom.cdf(grid, size, size / (size + mu))
    assert scored(mu, y, alpha) == pytest.approx(np.sum((F - (y <= grid)) ** 2), rel=1e-7)


def test_crps_of_huge_counts():
    """As large as no Bessel function goes: next to the normal distribution's, and what the integral gives below."""
    for mu in (1e9, 1e12, 1e15):
        z, y = 1.0, round(mu + math.sqrt(mu))
        normal = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi)
        assert scored(mu, y) / math.sqrt(mu) == pytest.approx(normal, rel=1e-4)
        assert math.isfinite(scored(mu, y, 1e-3))
    mu = np.array([1e-3, 0.5, 7.0, 400.0, 1e5])
    lost = np.full(mu.size, np.nan)
    closed = mu * (special.ive(0, 2 * mu) + special.ive(1, 2 * mu))
    np.testing.assert_allclose(half_mean_difference(lost, mu, 0.0), closed, rtol=1e-12)
    p, k = 1 / (1 + 0.5 * mu[:4]), 2.0
    closed = mu[:4] / p * special.hyp2f1(k + 1, 0.5, 2, -2 * mu[:4] / p)
    np.testing.assert_allclose(half_mean_difference(lost[:4], mu[:4], 0.5), closed, rtol=1e-11)
