"""Log-likelihood, residuals, bases and default supports against R (tram, mlt, cotram)."""

import numpy as np
import pytest
from reference_fits import NAMES, UNSTRATIFIED, Fit, data, load, record

from anchortm.bases import BernsteinBasis
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.inputs.empirical import default_support
from anchortm.inputs.response import as_response
from anchortm.links import Logistic

fits = pytest.mark.parametrize("fit", [load(name) for name in UNSTRATIFIED], ids=UNSTRATIFIED)


def assert_agrees(loglik: np.ndarray, residuals: np.ndarray, weights: np.ndarray, polished: dict) -> None:
    np.testing.assert_allclose(loglik, polished["loglik_i"], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(residuals, polished["residuals"], rtol=1e-8, atol=1e-8)
    assert weights @ loglik == pytest.approx(polished["logLik"], rel=1e-10)


@fits
def test_loglik_and_residuals(fit: Fit) -> None:
    terms = build_terms(fit.basis, fit.response)
    loglik, residuals = loglik_and_residuals(fit.link, terms, fit.theta, fit.shift)
    assert_agrees(loglik, residuals, fit.weights, fit.reference["polished"])


def test_strata_are_separate_baselines() -> None:
    """The one stratified fit: two baselines, one for each value of chas, and common effects."""
    (name,) = set(NAMES) - set(UNSTRATIFIED)
    reference, boston = record(name), data("BostonHousing2")
    coef, is_shift = np.array(reference["polished"]["coef"]), np.array(reference["is_shift"])
    baselines = coef[~is_shift].reshape(2, -1)
    shift = boston[reference["coef_names"][-7:]].to_numpy() @ coef[is_shift]
    basis = BernsteinBasis(reference["order"], tuple(reference["support"]))
    terms = build_terms(basis, as_response(boston.cmedv))
    river = data("BostonHousing2_constructed").chas.to_numpy() == 1
    without, along = (loglik_and_residuals(Logistic(), terms, theta, shift) for theta in baselines)
    loglik, residuals = np.where(river, along, without)
    assert_agrees(loglik, residuals, np.ones(river.size), reference["polished"])


@pytest.mark.parametrize("name", [name for name in UNSTRATIFIED if "basis" in record(name)])
def test_basis_rows(name: str) -> None:
    fit = load(name)
    grid, wanted = fit.reference["pred"]["ygrid"], fit.reference["basis"]
    np.testing.assert_allclose(fit.basis.rows(grid), wanted["B"], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(fit.basis.derivative_rows(grid), wanted["dB"], rtol=1e-10, atol=1e-11)


@fits
def test_predicted_transformation(fit: Fit) -> None:
    """h on the grid, inside and outside the support, and the distribution function of it."""
    if fit.basis.kind == "ordinal":
        grid = np.arange(fit.basis.n_parameters)
    else:
        grid = np.array(fit.reference["pred"]["ygrid"], dtype=float)
    rows = np.array(fit.reference["pred"]["rows_1based"]) - 1
    h = (fit.basis.rows(grid) @ fit.theta)[:, None] + (fit.shift - fit.offset)[rows]
    for key, computed in (("trafo", h), ("distribution", np.exp(fit.link.log_cdf(h)))):
        wanted = np.array(fit.reference["pred"][key], dtype=float)[: len(grid)]
        np.testing.assert_allclose(computed, wanted, rtol=1e-8, atol=1e-10, err_msg=key)
    if not fit.basis.discrete:
        density = np.exp(fit.link.log_density(h)) * (fit.basis.derivative_rows(grid) @ fit.theta)[:, None]
        np.testing.assert_allclose(density, fit.reference["pred"]["density"], rtol=1e-8, atol=1e-12)


@fits
def test_polished_parameters_satisfy_our_constraints(fit: Fit) -> None:
    assert fit.basis.increments.satisfied(fit.theta, tolerance=1e-10)


DEFAULTS = [
    name
    for name in UNSTRATIFIED
    if record(name)["support"] and not any(part in name for part in ("supp", "vis", "weights"))
]


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_support(name: str) -> None:
    """R's default support: sample, Kaplan-Meier or Turnbull quantiles. (R ignores weights, we do not.)"""
    fit = load(name)
    shift = fit.reference["log_first"] if fit.reference["model_class"] == "cotram" else 0
    np.testing.assert_allclose(default_support(fit.response), np.array(fit.reference["support"]) - shift, rtol=1e-12)
