"""A basis that the package does not know, in one new file, is fitted, reported and predicted like the others."""

import numpy as np
import pytest
from bases.toy_basis import AsinhBasis
from scipy import optimize, stats

import anchortm as atm
from anchortm.bases import Basis

BASIS = AsinhBasis(unit=2.0)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    site = rng.integers(0, 4, 300)
    x = rng.normal(size=(300, 1)) + 0.5 * site[:, None]
    return x, 2.0 * np.sinh(x[:, 0] + rng.normal(size=300)), site


@pytest.fixture(scope="module")
def fitted(data) -> atm.AnchorTM:
    x, y, site = data
    return atm.AnchorTM(link="probit", basis=BASIS, tol=1e-10).fit(x, y, anchors=site)


def test_a_record_comes_back() -> None:
    assert BASIS.to_dict() == {"kind": "asinh", "unit": 2.0}
    assert Basis.from_dict(BASIS.to_dict()) == BASIS
    assert BASIS.levels is None
    assert BASIS.line_in == ""
    assert BASIS.flat_ends([0.0, 0.0, 1.0]) == (True, True)


def test_the_fit_is_the_maximum_of_the_stated_likelihood(data, fitted: atm.AnchorTM) -> None:
    """Independent: phi(h) h' written out, maximised under bounds."""
    x, y, _ = data
    t = y / 2.0

    def nll(p: np.ndarray) -> float:
        h = p[0] + p[1] * t + p[2] * np.arcsinh(t) - p[3] * x[:, 0]
        return -float((stats.norm.logpdf(h) + np.log(p[1] + p[2] / np.sqrt(1.0 + t**2)) - np.log(2.0)).sum())

    bounds = [(None, None), (0.0, None), (1e-6, None), (None, None)]
    best = optimize.minimize(nll, [0.0, 0.1, 0.5, 0.5], bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9})
    np.testing.assert_allclose([*fitted.baseline_, fitted.coef_[0]], best.x, atol=2e-5)
    assert fitted.loglik_ == pytest.approx(-best.fun, rel=1e-9)
    assert fitted.basis_.increments.satisfied(fitted.baseline_, 1e-12)


def test_standard_errors_and_summary(fitted: atm.AnchorTM) -> None:
    """The inverse of the observed information: for a probit model that is X'X and the terms log h'."""
    frame = fitted.summary().frame()
    error = float(frame["std. error"].iloc[0])
    assert 0.03 < error < 0.2
    assert error == pytest.approx(float(np.sqrt(fitted.covariance()[-1, -1])), rel=1e-12)
    assert "asinh basis" in str(fitted.summary())


def test_predictions(data, fitted: atm.AnchorTM) -> None:
    x, *_ = data
    distribution = fitted.predict_distribution(x[:5])
    h = BASIS.rows([0.7]) @ fitted.baseline_ - x[:5, 0] * fitted.coef_[0]
    np.testing.assert_allclose(distribution.cdf(0.7), stats.norm.cdf(h), rtol=1e-12)
    np.testing.assert_allclose(distribution.cdf(fitted.predict(x[:5])[:, None])[:, 0], 0.5, rtol=1e-9)
    np.testing.assert_allclose(distribution.cdf(distribution.ppf([0.1, 0.8])), [[0.1, 0.8]] * 5, rtol=1e-9)


def test_anchors_and_censoring(data) -> None:
    x, y, site = data
    censored = atm.Surv(np.exp(y / 10.0), y < 3.0)
    models = [atm.AnchorTM(link="logit", basis=BASIS, xi=xi).fit(x, censored, anchors=site) for xi in (0.0, 5.0)]
    assert all(model.converged_ for model in models)
    assert models[1].penalty_ < models[0].penalty_
