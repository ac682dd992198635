"""A family that the package does not know, in one new file, is fitted, reported and predicted like the others."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from families.toy_family import InverseGaussian
from scipy import integrate, stats
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError
from anchortm.families import get_family

LINKS = {"log": sm.families.links.Log(), "inverse_squared": sm.families.links.InverseSquared()}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    site = rng.integers(0, 4, 240)
    x = rng.uniform(-1, 1, 240) + 0.2 * site
    mu = np.exp(0.4 + 0.5 * x + 0.1 * site)
    y = stats.invgauss.rvs(0.2 * mu, scale=5.0, random_state=rng)
    return pd.DataFrame({"y": y, "x": x, "site": site.astype(str)})


@pytest.fixture(scope="module")
def fitted(data: pd.DataFrame) -> atm.AnchorGLM:
    return atm.AnchorGLM(family=InverseGaussian(), tol=1e-12).fit(data[["x"]], data.y)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("residual", ["score", "deviance"])
def test_values_of_rows(data: pd.DataFrame, link: str, residual: str) -> None:
    """The checks of the package's own families: derivatives by differences, l by scipy."""
    family, y, h = get_family(InverseGaussian(link), residual=residual), data.y.to_numpy(), 1e-5
    eta = np.linspace(0.3, 1.5, y.size)
    at, up, down = (family.terms(eta + side * h, family.outcome(y)) for side in (0.0, 1.0, -1.0))
    for computed, plus, minus in (
        (-at.r, up.l, down.l),
        (at.dr, up.r, down.r),
        (at.d2r, up.dr, down.dr),
        (at.penalised.dr, up.penalised.r, down.penalised.r),
        (at.penalised.d2r, up.penalised.dr, down.penalised.dr),
    ):
        np.testing.assert_allclose(computed, (plus - minus) / (2 * h), rtol=1e-5, atol=1e-5)
    law = family.law(family.mean(eta).mu, np.ones(y.size))
    np.testing.assert_allclose(at.l, law.logpdf(y), rtol=1e-9)
    wide = replace(family, dispersion=0.2)
    np.testing.assert_allclose(
        wide.loglik(eta, wide.outcome(y)), wide.law(family.mean(eta).mu, np.ones(y.size)).logpdf(y), rtol=1e-9
    )


@pytest.mark.parametrize("link", LINKS)
def test_the_fit_is_that_of_statsmodels(data: pd.DataFrame, link: str) -> None:
    model = atm.AnchorGLM(family=InverseGaussian(), link=link, tol=1e-12).fit(data[["x"]], data.y)
    fit = sm.GLM(data.y, sm.add_constant(data.x), family=sm.families.InverseGaussian(LINKS[link])).fit(tol=1e-14)
    np.testing.assert_allclose([model.intercept_, model.coef_[0]], fit.params, rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.diag(model.covariance())), fit.bse, rtol=1e-7)
    np.testing.assert_allclose(model.deviance_, fit.deviance, rtol=1e-8)
    np.testing.assert_allclose(model.dispersion_, fit.scale, rtol=1e-8)
    for kind, theirs in (("deviance", fit.resid_deviance), ("pearson", fit.resid_pearson)):
        np.testing.assert_allclose(model.residuals(data[["x"]], data.y, kind=kind), theirs, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.predict(data[["x"]]), fit.fittedvalues, rtol=1e-7)


def test_summary(fitted: atm.AnchorGLM) -> None:
    text = str(fitted.summary())
    assert "inverse gaussian family, log link" in text
    error = float(fitted.summary().frame()["std. error"].iloc[0])
    assert error == pytest.approx(float(np.sqrt(fitted.covariance()[1, 1])), rel=1e-12)


def test_predictions(data: pd.DataFrame, fitted: atm.AnchorGLM) -> None:
    new = data[["x"]][:4]
    distribution = fitted.predict_distribution(new)
    law = stats.invgauss(fitted.predict(new) * fitted.dispersion_, scale=1.0 / fitted.dispersion_)
    np.testing.assert_allclose(distribution.cdf(1.3), law.cdf(1.3), rtol=1e-12)
    np.testing.assert_allclose(distribution.mean(), law.mean(), rtol=1e-12)
    np.testing.assert_allclose(distribution.variance(), law.var(), rtol=1e-12)
    np.testing.assert_allclose(-fitted.nll(new, data.y[:4]), law.logpdf(data.y[:4]), rtol=1e-9)
    t = np.linspace(1e-6, 60.0, 400_001)
    y = data.y.to_numpy()[:4]
    squares = [(law.cdf(v) - (y <= v)) ** 2 for v in t[::200]]
    assert distribution.crps(y).mean() == pytest.approx(integrate.trapezoid(squares, t[::200], axis=0).mean(), rel=1e-2)


def test_anchors_and_copies(data: pd.DataFrame, fitted: atm.AnchorGLM) -> None:
    models = [
        clone(fitted).set_params(xi=xi, residual=residual).fit(data[["x"]], data.y, anchors=data.site)
        for residual in ("score", "deviance")
        for xi in (0.0, 2.0)
    ]
    assert all(model.converged_ for model in models)
    for free, anchored in (models[:2], models[2:]):
        assert anchored.penalty_ < free.penalty_
    assert models[0].coef_[0] == pytest.approx(fitted.coef_[0], rel=1e-7)


def test_it_cannot_be_saved(fitted: atm.AnchorGLM, tmp_path) -> None:
    """A file holds names of families, and this one is not among them."""
    with pytest.raises((InputError, InputTypeError), match="saved"):
        atm.save(fitted, tmp_path / "toy.json")
