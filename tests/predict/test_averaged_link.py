"""Links averaged over a shift: their own contract, and distributions that use them against slow averages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import anchortm as atm
from anchortm.engine.rows.shift_law import NodeShift, NormalShift
from anchortm.links import LINKS, Link
from anchortm.predict.averaged_link import AveragedLink, WidenedLink, averaged_link

NODES = NodeShift(np.linspace(-1.5, 2.0, 9), -0.4 * np.linspace(-2.0, 2.0, 9) ** 2)
EPS = 1e-5
every = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def slow(values, sd=0.8):
    """Return the average of values(delta) over N(0, sd^2), by the trapezoidal rule."""
    x = np.linspace(-9.0, 9.0, 301)
    weights = np.exp(-0.5 * x**2)
    found = np.array([values(sd * own) for own in x])
    return np.tensordot(weights / weights.sum(), found, 1)


@every
@pytest.mark.parametrize("law", [NormalShift(0.3, 0.9), NODES], ids=["normal", "nodes"])
def test_derivatives_are_those_of_the_values(link, law):
    own, z = AveragedLink(link, law), np.linspace(-6.0, 6.0, 13)
    width = np.linspace(0.3, 3.0, 13)

    def change(f, up=EPS, low=0.0):
        return (f(z + low, z + width + up) - f(z - low, z + width - up)) / (2.0 * EPS)

    for kind in (own.exact, own.left, own.right):
        t = kind(z)
        for name, derivative, sign in (("l", "r", -1.0), ("r", "dr", 1.0), ("dr", "d2r", 1.0)):
            slope = (getattr(kind(z + EPS), name) - getattr(kind(z - EPS), name)) / (2.0 * EPS)
            np.testing.assert_allclose(getattr(t, derivative), sign * slope, rtol=1e-6, atol=1e-8)
    t = own.interval(z, z + width)
    for name, derivative, up in (
        ("r", "r_u", 1),
        ("r", "r_v", 0),
        ("r_u", "r_uu", 1),
        ("r_u", "r_uv", 0),
        ("r_v", "r_vv", 0),
    ):
        slope = change(lambda v, u, name=name: getattr(own.interval(v, u), name), up * EPS, (1 - up) * EPS)
        np.testing.assert_allclose(getattr(t, derivative), slope, rtol=2e-6, atol=1e-8)
    np.testing.assert_allclose(t.p, change(lambda v, u: own.interval(v, u).l), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(-t.q, change(lambda v, u: own.interval(v, u).l, 0.0, EPS), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.exp(own.log_cdf(z)) + np.exp(own.log_sf(z)), 1.0, rtol=1e-14)
    assert own.log_cdf([-np.inf, np.inf]).tolist() == [-np.inf, 0.0]


@every
def test_facts_follow_from_the_sum_of_two_variables(link):
    """Z + delta has the sum of the variances, and the product of the moments of exp."""
    law = NormalShift(0.3, 0.9)
    own = AveragedLink(link, law)
    assert own.variance == pytest.approx(Link.variance.fget(own), rel=1e-10)
    assert own.log_moment(0.4) == pytest.approx(Link.log_moment(own, 0.4), rel=1e-10)
    assert own.tail_rate == link.tail_rate
    assert averaged_link(link, NormalShift()) is link
    moved = averaged_link(link, NormalShift(0.7))
    z = np.array([0.0, 1.0])
    np.testing.assert_allclose(moved.log_cdf(z), link.log_cdf(z - 0.7), rtol=1e-15)


@every
@pytest.mark.parametrize("law", [NormalShift(0.3, 0.9), NormalShift(0.0, 4.0), NODES], ids=["one", "wide", "nodes"])
def test_quantiles_invert(link, law):
    own, q = averaged_link(link, law), np.array([1e-300, 1e-9, 0.02, 0.5, 0.9])
    np.testing.assert_allclose(own.log_cdf(own.quantile_from_log_cdf(np.log(q))), np.log(q), rtol=1e-12)
    np.testing.assert_allclose(own.log_sf(own.quantile_from_log_sf(np.log(q))), np.log(q), rtol=1e-12)
    np.testing.assert_array_equal(own.quantile([0.0, 1.0]), [-np.inf, np.inf])


def test_probit_is_widened():
    """The closed form agrees with the integral, and with widening: c = (1 + tau^2)^-1/2."""
    law = NormalShift(0.2, 1.3)
    closed, integral, z = (
        averaged_link(LINKS["probit"], law),
        AveragedLink(LINKS["probit"], law),
        np.linspace(-9, 9, 31),
    )
    assert isinstance(closed, WidenedLink)
    for name in ("log_cdf", "log_sf", "log_density", "psi", "dpsi", "d2psi"):
        np.testing.assert_allclose(getattr(closed, name)(z), getattr(integral, name)(z), rtol=1e-11, atol=1e-12)
    pairs = zip(closed.interval(z, z + 1.0), integral.interval(z, z + 1.0), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    data = atm.datasets.load_geyser()
    model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    average = model.predict_distribution(data[["duration"]][:5])
    wide = model.widened(np.sqrt(1.0 + 0.9**2)).predict_distribution(data[["duration"]][:5])
    shifted = replace(average, link=averaged_link(average.link, NormalShift(0.0, 0.9)))
    np.testing.assert_allclose(shifted.cdf([50.0, 70.0]), wide.cdf([50.0, 70.0]), rtol=1e-13)
    np.testing.assert_allclose(shifted.ppf([0.1, 0.9]), wide.ppf([0.1, 0.9]), rtol=1e-12)
    np.testing.assert_allclose(shifted.mean(), wide.mean(), rtol=1e-11)
    np.testing.assert_allclose(atm.scores.crps(shifted, data.waiting[:5]), atm.scores.crps(wide, data.waiting[:5]))


def test_symmetric_links_keep_their_median():
    law = NormalShift(0.0, 1.5)
    for name, moves in (("probit", False), ("logit", False), ("cloglog", True), ("loglog", True)):
        link = LINKS[name]
        assert (abs(averaged_link(link, law).quantile(0.5) - link.quantile(0.5)) > 0.01) == moves


def cases():
    cgd, wine, owls = atm.datasets.load_cgd(), atm.datasets.load_wine(), atm.datasets.load_grouseticks()
    times = atm.ProportionalHazards.from_formula(
        "Surv(tstop, status) ~ treat + age | center", cgd, log_first=True, order=3
    )
    classes = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", wine)
    counts = atm.CountRegression.from_formula("TICKS ~ cHEIGHT | LOCATION", owls, order=3, link="loglog")
    strata = atm.ContinuousLogit.from_formula("Surv(tstop, status) | sex ~ age", cgd, log_first=True, order=3)
    return {
        "times": (times, cgd[:3], [60.0, 250.0]),
        "strata": (strata, cgd[:6:2], [60.0, 250.0]),
        "classes": (classes, wine[:3], [1, 3, 4]),
        "counts": (counts, owls[:3], [0.0, 2.0, 9.0]),
    }


@pytest.mark.parametrize("name", ["times", "strata", "classes", "counts"])
def test_distributions_are_averages(name):
    """Every method of a shifted distribution against averages of shifted plain distributions."""
    model, rows, y = cases()[name]
    plain = model.predict_distribution(rows)
    own = replace(plain, link=averaged_link(plain.link, NormalShift(0.0, 0.8)))

    def at(delta):
        return replace(plain, shift=plain.shift - delta / plain.gain)

    for method in ("cdf", "sf", "pdf"):
        np.testing.assert_allclose(getattr(own, method)(y), slow(lambda d, m=method: getattr(at(d), m)(y)), rtol=1e-10)
    np.testing.assert_allclose(
        own.hazard(y), own.pdf(y) / (own.sf(y) + (own.pdf(y) if own.discrete else 0.0)), rtol=1e-9
    )
    np.testing.assert_allclose(own.cumhazard(y), -np.log(own.sf(y)), rtol=1e-9)
    np.testing.assert_allclose(own.odds(y), own.cdf(y) / own.sf(y), rtol=1e-9)
    low = own.interval(0.8)[0]
    assert (own.codes(low) <= own.codes(plain.interval(0.8)[1])).all()
    assert own.codes(own.median()).shape == (3,)
    if name == "classes":
        np.testing.assert_allclose(own.probabilities(), slow(lambda d: at(d).probabilities()), rtol=1e-10)
        return
    np.testing.assert_allclose(own.mean(), slow(lambda d: at(d).mean()), rtol=1e-6 if own.discrete else 1e-9)
    if not own.discrete:
        quantiles = own.ppf([0.1, 0.5, 0.9])
        there = np.isfinite(quantiles)  # a baseline may end flat
        assert there[:, 0].all()
        np.testing.assert_allclose(own.cdf(quantiles)[there], np.tile([0.1, 0.5, 0.9], (3, 1))[there], rtol=1e-11)
        np.testing.assert_allclose(own.restricted_mean(200.0), slow(lambda d: at(d).restricted_mean(200.0)), rtol=1e-8)
    else:
        k = np.arange(20_000.0)
        squares = (own.cdf(k) - (k >= 2.0)) ** 2
        np.testing.assert_allclose(atm.scores.crps(own, np.full(3, 2)), squares.sum(axis=1), rtol=1e-5)
    draws = own[:1].rvs(4000, random_state=1)[0]
    if name == "times":
        assert stats.kstest(own[:1].cdf(draws)[0], "uniform").pvalue > 0.01


def test_random_intercepts_say_the_same():
    """A random intercept of a new cluster is a normal shift; the two are averaged by different code."""
    wine = atm.datasets.load_wine()
    mixed = atm.OrdinalRegression.from_formula("rating ~ temp + contact + (1 | judge)", wine)
    average = mixed.predict_distribution(wine[:4])
    link = averaged_link(mixed.link_, NormalShift(0.0, float(mixed.random_sd_.iloc[0])))
    plain = atm.predict.PredictedDistribution(link, mixed.basis_, mixed.baseline_, average.shift, gain=-1.0)
    np.testing.assert_allclose(plain.probabilities(), average.probabilities(), rtol=1e-11)
    both = replace(average, link=link)  # and both together
    twice = averaged_link(mixed.link_, NormalShift(0.0, float(np.sqrt(2.0) * mixed.random_sd_.iloc[0])))
    np.testing.assert_allclose(both.probabilities(), replace(plain, link=twice).probabilities(), rtol=1e-10)


def test_many_values_are_interpolated_to_all_digits():
    own, z = averaged_link(LINKS["cloglog"], NormalShift(0.0, 0.7)), np.random.default_rng(0).normal(size=3000) * 2.0
    for method in (own.log_cdf, own.log_sf, own.log_density):
        some = np.arange(0, 3000, 300)
        np.testing.assert_allclose(method(z)[some], [method(own_z) for own_z in z[some]], rtol=2e-12)
