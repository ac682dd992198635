"""A link that the package does not know, in one new file, is fitted, reported and predicted like the others."""

import numpy as np
import pandas as pd
import pytest
from links.toy_link import Secant
from scipy import optimize, stats

import anchortm as atm
from anchortm.links import Link

LINK = Secant()


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    site = rng.integers(0, 4, 250)
    x = rng.normal(size=250) + 0.5 * site
    y = 1.0 + 0.8 * x + 0.3 * site + 0.7 * stats.hypsecant.rvs(size=250, random_state=rng) * 2.0 / np.pi
    return pd.DataFrame({"y": y, "x": x, "site": site.astype(str)})


@pytest.fixture(scope="module")
def fitted(data: pd.DataFrame) -> atm.AnchorTM:
    return atm.AnchorTM(link=LINK, basis="linear", tol=1e-10).fit(data[["x"]], data.y, anchors=data.site)


def test_the_toy_is_the_distribution_of_scipy() -> None:
    law, z = stats.hypsecant(scale=2.0 / np.pi), np.linspace(-6, 6, 25)
    np.testing.assert_allclose(LINK.log_density(z), law.logpdf(z), rtol=1e-12)
    np.testing.assert_allclose(np.exp(LINK.log_cdf(z)), law.cdf(z), rtol=1e-12)
    np.testing.assert_allclose(LINK.quantile(law.cdf(z)), z, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["exact", "left", "right", "interval"])
def test_values_of_rows_are_derivatives(kind: str) -> None:
    """Residuals and slopes by differences of l, as in the contract test of the package's links."""
    z, step = np.linspace(-4, 4, 17), 1e-5
    terms = {
        "interval": lambda h: LINK.interval(h, h + 0.8),
    }.get(kind, lambda h: getattr(LINK, kind)(h))
    at, up, down = terms(z), terms(z + step), terms(z - step)
    np.testing.assert_allclose(at.r, -(up.l - down.l) / (2 * step), atol=1e-8)
    np.testing.assert_allclose(at.dr, (up.r - down.r) / (2 * step), atol=1e-8)
    np.testing.assert_allclose(at.d2r, (up.dr - down.dr) / (2 * step), atol=1e-8)


def test_facts_follow_from_the_contract() -> None:
    assert LINK.variance == pytest.approx(1.0, rel=1e-10)
    assert LINK.tail_rate == pytest.approx(np.pi / 2, rel=1e-6)
    assert LINK.log_moment(0.7) == pytest.approx(-np.log(np.cos(0.7)), rel=1e-9)  # E exp(k Z) = sec k
    assert LINK.log_moment(2.0) == np.inf
    assert LINK.convex_kinds == frozenset()
    assert LINK.effect_name(-1.0) == ""
    assert LINK.widened_by_normal(np.ones(1)) is None
    assert isinstance(LINK, Link)


def test_the_fit_is_the_maximum_of_the_stated_likelihood(data: pd.DataFrame, fitted: atm.AnchorTM) -> None:
    """Independent: scipy's density of a location-scale family, maximised by BFGS."""
    law = stats.hypsecant(scale=2.0 / np.pi)

    def nll(p: np.ndarray) -> float:
        return -float((law.logpdf(p[0] + np.exp(p[1]) * data.y - p[2] * data.x) + p[1]).sum())

    best = optimize.minimize(nll, [0.0, 0.0, 0.0], options={"gtol": 1e-9}).x
    found = [fitted.baseline_[0], np.log(fitted.baseline_[1]), fitted.coef_[0]]
    np.testing.assert_allclose(found, best, rtol=1e-5)
    assert fitted.loglik_ == pytest.approx(-nll(best), rel=1e-10)


def test_standard_errors_and_summary(data: pd.DataFrame, fitted: atm.AnchorTM) -> None:
    """The inverse Hessian by differences of the log-likelihood, in the parameters of the fit."""
    law, step = stats.hypsecant(scale=2.0 / np.pi), 1e-4
    at = np.array([*fitted.baseline_, fitted.coef_[0]])

    def nll(p: np.ndarray) -> float:
        return -float((law.logpdf(p[0] + p[1] * data.y - p[2] * data.x) + np.log(p[1])).sum())

    E = step * np.eye(3)
    H = [[nll(at + a + b) - nll(at + a - b) - nll(at - a + b) + nll(at - a - b) for a in E] for b in E]
    expected = np.sqrt(np.diag(np.linalg.inv(np.array(H) / (4 * step**2))))
    np.testing.assert_allclose(np.sqrt(np.diag(fitted.covariance())), expected, rtol=1e-4)
    frame = fitted.summary().frame()
    assert frame.loc["x", "std. error"] == pytest.approx(expected[2], rel=1e-4)
    assert "secant link" in str(fitted.summary())


def test_predictions(data: pd.DataFrame, fitted: atm.AnchorTM) -> None:
    law, (a, b) = stats.hypsecant(scale=2.0 / np.pi), fitted.baseline_
    new = data[["x"]][:5]
    h = a + b * 0.5 - fitted.coef_[0] * new.x.to_numpy()
    distribution = fitted.predict_distribution(new)
    np.testing.assert_allclose(distribution.cdf(0.5), law.cdf(h), rtol=1e-10)
    np.testing.assert_allclose(distribution.pdf(0.5), b * law.pdf(h), rtol=1e-10)
    np.testing.assert_allclose(distribution.cdf(fitted.predict(new)[:, None])[:, 0], 0.5, rtol=1e-10)
    np.testing.assert_allclose(distribution.mean(), (fitted.coef_[0] * new.x - a) / b, rtol=1e-6)


def test_anchors_censoring_and_random_effects(data: pd.DataFrame) -> None:
    """Everything that asks a link for more than its density."""
    censored = atm.Interval(np.floor(data.y), np.floor(data.y) + 1.0)
    path = [
        atm.AnchorTM(link=LINK, order=3, xi=xi).fit(data[["x"]], censored, anchors=data.site)
        for xi in (0.0, 1.0, 100.0)
    ]
    assert all(model.converged_ for model in path)
    penalties = [model.penalty_ for model in path]
    assert penalties[0] > penalties[1] > penalties[2]
    mixed = atm.AnchorTM.from_formula("y ~ x + (1 | site)", data, link=LINK, basis="linear")
    assert "share of the variance" in str(mixed.summary())  # which needs link.variance
    assert 0.0 < float(mixed.predict_distribution(data[:1]).cdf(1.0)[0]) < 1.0
