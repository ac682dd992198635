"""Distributions of GLMs averaged over a shift, against dense sums; and the CRPS of counts with long tails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import simpson

import anchortm as atm
from anchortm.engine.rows.shift_law import NodeShift, NormalShift
from anchortm.families import get_family
from anchortm.families.crps import continuous_crps, discrete_crps
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.shifted_family import shifted_family

X = np.linspace(-18.0, 18.0, 30_001)
W = np.exp(-0.5 * X**2) / np.exp(-0.5 * X**2).sum()
FAMILIES = {
    "poisson": (get_family("poisson"), [-1.0, 1.5, 6.0], [0.0, 3.0, 400.0], 1.0),
    "binomial": (get_family("binomial"), [-3.0, 0.2, 1.0], [0.0, 4.0, 9.0], 9.0),
    "cloglog": (get_family("binomial", link="cloglog"), [-3.0, 0.2, 1.0], [0.0, 1.0], 1.0),
    "negative binomial": (get_family("negative_binomial", alpha=0.5), [-1.0, 1.5, 4.0], [0.0, 3.0, 60.0], 1.0),
    "gamma": (replace(get_family("gamma", link="log"), dispersion=0.4), [-1.0, 0.3, 2.0], [0.1, 1.5, 20.0], 1.0),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("sd", [0.3, 1.5])
def test_probabilities_are_averages(name, sd):
    family, eta, y, trials = FAMILIES[name]
    eta, y, trials = np.array(eta), np.array(y), np.full(3, trials)
    own = shifted_family(family, eta, trials, eta, NormalShift(0.2, sd))
    mean = family.mean(eta[:, None] + 0.2 + sd * X).mu
    law = family.law(mean, trials[:, None])

    def average(values):
        return np.column_stack([values(at) @ W for at in y])

    np.testing.assert_allclose(own.cdf(y), average(law.cdf), rtol=1e-9)
    np.testing.assert_allclose(own.sf(y), average(law.sf), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(np.exp(own.logsf(y)), average(law.sf), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(own.pdf(y), average(law.pmf if family.discrete else law.pdf), rtol=1e-9, atol=1e-60)
    np.testing.assert_allclose(own.mean(), trials * (mean @ W), rtol=1e-10)
    spread = law.var() @ W + (trials[:, None] * mean) ** 2 @ W - (trials * (mean @ W)) ** 2
    np.testing.assert_allclose(own.variance(), spread, rtol=1e-9)
    q = np.array([0.03, 0.5, 0.96])
    found = own.ppf(q)
    if family.discrete:
        assert (own.cdf(found) >= q).all()
        assert (own.cdf(found - 1.0) < q).all()
    else:
        np.testing.assert_allclose(own.cdf(found), np.tile(q, (3, 1)), rtol=1e-11)
    np.testing.assert_allclose(own.isf(1.0 - q), found, rtol=1e-11)
    assert own.ppf([0.0]).ravel().tolist() == [0.0] * 3


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_crps(name):
    family, eta, _, trials = FAMILIES[name]
    own = shifted_family(family, np.array(eta[:2]), np.full(2, trials), np.zeros(2), NormalShift(0.0, 0.6))
    y = np.array([1.0, 7.0])
    if family.discrete:
        k = np.arange(600.0)
        wanted = ((own.cdf(k) - (k >= y[:, None])) ** 2).sum(axis=1)
    else:
        below, above = (np.linspace(a, b, 1201) for a, b in ((np.zeros(2), y), (y, np.full(2, 40.0))))
        wanted = [
            simpson(own.cdf(below.T)[k] ** 2, x=below.T[k]) + simpson(own.sf(above.T)[k] ** 2, x=above.T[k])
            for k in range(2)
        ]
    np.testing.assert_allclose(own.crps(y), wanted, rtol=1e-8 if family.discrete else 1e-6)


def test_a_normal_mean_in_closed_form():
    family = replace(get_family("gaussian"), dispersion=2.0)
    own = shifted_family(family, np.array([1.0, -2.0]), np.ones(2), np.zeros(2), NormalShift(0.5, 1.2))
    np.testing.assert_allclose(own.cdf([0.0, 3.0]), stats.norm.cdf([0.0, 3.0], [[1.5], [-1.5]], np.sqrt(2.0 + 1.44)))
    assert type(own) is FamilyDistribution
    nodes = NodeShift(np.array([-1.0, 2.0]), np.log([0.25, 0.75]))
    mixed = shifted_family(family, np.array([1.0]), np.ones(1), np.zeros(1), nodes)
    wanted = 0.25 * stats.norm.cdf(0.5, 0.0, np.sqrt(2.0)) + 0.75 * stats.norm.cdf(0.5, 3.0, np.sqrt(2.0))
    np.testing.assert_allclose(mixed.cdf(0.5), wanted, rtol=1e-13)


def test_random_intercepts_say_the_same():
    data = atm.datasets.load_grouseticks()
    model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT + (1 | BROOD)", data, family="poisson")
    average = model.predict_distribution(data[:3])
    eta = model.baseline_[0] + average.shift
    own = shifted_family(model.link_, eta, np.ones(3), average.shift, NormalShift(0.0, float(model.random_sd_.iloc[0])))
    np.testing.assert_allclose(own.cdf([0, 2, 9]), average.cdf([0, 2, 9]), rtol=1e-9)
    np.testing.assert_allclose(own.mean(), average.mean(), rtol=1e-10)


@pytest.mark.parametrize("mean", [300.0, 40_000.0])
def test_crps_of_long_tails(mean):
    """Sums over pieces of few terms are those over all terms."""
    for law in (stats.poisson(np.array([[mean]])), stats.nbinom(2.0, np.array([[2.0 / (2.0 + mean)]]))):
        for y in (0.5 * mean, mean, 1.7 * mean):
            first, last = float(law.ppf(1e-13)[0, 0]), float(law.isf(1e-13)[0, 0])
            k = np.arange(min(first, y), max(last, y) + 2.0)
            wanted = ((law.cdf(k)[0] - (k >= y)) ** 2).sum()
            levels = np.array([1e-8, 1e-5, 0.01, 0.2, 0.5, 0.8, 0.99, 1.0 - 1e-5, 1.0 - 1e-8])
            rough = law.ppf(levels[None, :])
            assert discrete_crps(law, np.array([y]), rough)[0] == pytest.approx(wanted, rel=1e-6)
            if last - first > 1000.0:
                assert discrete_crps(law, np.array([y]))[0] == pytest.approx(wanted, rel=1e-8)
    normal = stats.norm(np.array([[0.0]]), 1.0)
    assert continuous_crps(normal, np.array([0.7]))[0] == pytest.approx(
        get_family("gaussian").crps(0.7, 0.0, 1.0), rel=1e-6
    )
