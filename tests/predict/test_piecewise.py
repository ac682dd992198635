"""Distributions known at some points: against scipy for known laws, and against numerical integration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import anchortm as atm
from anchortm.predict import PiecewiseDistribution

rng = np.random.default_rng(3)
LEVELS = np.array([0.05, 0.1, 0.2, 0.4, 0.5, 0.7, 0.9, 0.95])
QUANTILES = np.sort(rng.normal(size=(5, LEVELS.size)), axis=1) * [[1.0], [0.2], [5.0], [1.0], [1.0]] + 2.0
LAW = PiecewiseDistribution.from_quantiles(QUANTILES, LEVELS)
ATOMS = PiecewiseDistribution.from_quantiles(
    [[0.0, 0.0, 1.0, 2.0], [0.0, 1.0, 1.0, 3.0], [0.0, 1.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]],
    [0.2, 0.4, 0.6, 0.9],
    resolution=0.1,
)
TIMES = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 8.0])
SURVIVAL = np.array([[1.0, 0.9, 0.9, 0.7, 0.4, 0.4], [1.0, 1.0, 0.8, 0.8, 0.3, 0.1], [1.0, 0.5, 0.25, 0.1, 0.0, 0.0]])
CURVES = PiecewiseDistribution.from_survival(TIMES, SURVIVAL)
KINDS = {"quantiles": LAW, "atoms": ATOMS, "curves": CURVES}


def cuts(law: PiecewiseDistribution, i: int, *more: float) -> list[float]:
    """Return places between which F of a row is smooth, far into both tails."""
    left, right = law.scales[i]
    ends = law.points[i, 0] - np.array([40.0, 8.0, 1.0]) * left, law.points[i, -1] + np.array([1.0, 8.0, 40.0]) * right
    return sorted({*ends[0], *law.points[i], *ends[1], *more})


def integral(work, edges) -> float:
    return sum(quad(work, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("name", KINDS)
def test_crps_is_the_integral_of_the_squared_difference(name):
    law = KINDS[name]
    for y in (-3.0, 0.0, 0.7, 2.0, 2.5, 9.0, 30.0):
        found = law.crps(np.full(len(law), y))
        for i in range(len(law)):
            one = law[i]
            edges = cuts(one, 0, y)
            expected = integral(lambda t, one=one, y=y: (one.cdf(t)[0] - (y <= t)) ** 2, edges)
            assert found[i] == pytest.approx(expected, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_the_mean_is_that_of_the_cdf(name):
    law = KINDS[name]
    for i in range(len(law)):
        one = law[i]
        edges = cuts(one, 0, 0.0)
        above = integral(lambda t, one=one: one.sf(t)[0] if t > 0 else 0.0, edges)
        below = integral(lambda t, one=one: one.cdf(t)[0] if t < 0 else 0.0, edges)
        assert law.mean()[i] == pytest.approx(above - below, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("name", ["quantiles", "curves"])
def test_the_density_is_the_slope_of_the_cdf_and_has_mass_one(name):
    law = KINDS[name]
    for i in range(len(law)):
        one = law[i]
        assert integral(lambda t, one=one: one.pdf(t)[0], cuts(one, 0)) == pytest.approx(1.0, abs=1e-9)
        y = one.ppf([0.01, 0.15, 0.33, 0.62])[0] if name == "curves" else one.ppf([0.01, 0.15, 0.33, 0.62, 0.99])[0]
        slope = (one.cdf(y + 1e-6) - one.cdf(y - 1e-6)) / 2e-6
        np.testing.assert_allclose(one.pdf(y), slope, rtol=1e-5)


def test_with_a_resolution_the_density_is_that_of_a_window():
    wide = PiecewiseDistribution.from_quantiles(QUANTILES, LEVELS, resolution=0.3)
    y = np.linspace(-30.0, 30.0, 101)
    with np.errstate(divide="ignore"):
        expected = np.log((wide.cdf(y + 0.15) - wide.cdf(y - 0.15)) / 0.3)
    safe = expected > -20
    np.testing.assert_allclose(wide.logpdf(y)[safe], expected[safe], rtol=1e-8)
    assert np.isfinite(wide.logpdf(y)).all()
    for i in range(len(ATOMS)):
        one = ATOMS[i]
        edges = sorted({*(t + s * 0.05 for t in cuts(one, 0) for s in (-1.0, 1.0))})
        assert integral(lambda t, one=one: one.pdf(t)[0], edges) == pytest.approx(1.0, abs=1e-8)


def test_an_atom_has_its_probability_in_a_window():
    assert ATOMS.cdf(5.0)[3] - ATOMS.cdf(np.nextafter(5.0, 0.0))[3] == pytest.approx(0.7)
    assert ATOMS.pdf(5.0)[3] == pytest.approx((ATOMS.cdf(5.05)[3] - ATOMS.cdf(4.95)[3]) / 0.1)
    bare = PiecewiseDistribution([5.0, 5.0, 6.0], [0.2, 0.6, 1.0])
    assert bare.logpdf(5.0)[0] == np.inf
    assert bare.logpdf(5.5)[0] == pytest.approx(np.log(0.4))


@pytest.mark.parametrize("name", KINDS)
def test_quantiles_invert_the_cdf(name):
    law = KINDS[name]
    q = np.array([1e-6, 0.05, 0.2, 0.3, 0.4, 0.5, 0.77, 0.9, 0.999])
    y = law.ppf(q)
    assert (np.diff(y, axis=1) >= 0.0).all()
    assert (law.cdf(y) >= q - 1e-12).all()
    assert (law.cdf(np.nextafter(y, -np.inf)) <= q + 1e-12).all()
    np.testing.assert_allclose(law.isf(1.0 - q), y, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(law.median(), law.ppf(0.5))
    assert law.rvs(7, random_state=0).shape == (len(law), 7)


def test_tiny_tail_probabilities_keep_their_digits():
    far = LAW.isf(1e-200)
    np.testing.assert_allclose(LAW.logsf(far[:, None])[:, 0], np.log(1e-200), rtol=1e-12)
    assert np.isfinite(LAW.logpdf(far[:, None])).all()
    np.testing.assert_array_equal(LAW.ppf([0.0, 1.0]), np.tile([-np.inf, np.inf], (5, 1)))


def test_an_exponential_law_is_exact_beyond_its_points():
    law = stats.expon(scale=3.0)
    t = law.ppf([0.2, 0.8, 0.9])
    one = PiecewiseDistribution(np.append(0.0, t), np.append(0.0, law.cdf(t)))
    y = np.array([t[-1], 10.0, 40.0])
    np.testing.assert_allclose(one.logsf(y)[0], law.logsf(y), rtol=1e-12)
    np.testing.assert_allclose(one.logpdf(y)[0], law.logpdf(y), rtol=1e-12)
    mirrored = PiecewiseDistribution(np.append(-t[::-1], 0.0), np.append(law.sf(t)[::-1], 1.0))
    np.testing.assert_allclose(mirrored.logcdf(-y)[0], law.logsf(y), rtol=1e-12)


@pytest.mark.parametrize("law", [stats.norm(2.0, 3.0), stats.gamma(2.0), stats.logistic()])
def test_many_points_give_the_law_of_scipy(law):
    levels = np.linspace(0.0005, 0.9995, 2001)
    one = PiecewiseDistribution.from_quantiles(law.ppf(levels)[None], levels)
    y = law.ppf([0.01, 0.2, 0.5, 0.9, 0.99])
    np.testing.assert_allclose(one.cdf(y)[0], law.cdf(y), atol=1e-5)
    np.testing.assert_allclose(one.logpdf(y)[0], law.logpdf(y), atol=5e-2)
    assert one.mean()[0] == pytest.approx(law.mean(), abs=2e-3)
    expected = quad(lambda t: law.cdf(t) ** 2, -np.inf, y[3])[0] + quad(lambda t: law.sf(t) ** 2, y[3], np.inf)[0]
    assert one.crps(y[3:4])[0] == pytest.approx(expected, abs=1e-4)


def test_few_points_score_a_normal_outcome_nearly_as_its_law_does():
    law, levels = stats.norm(), np.array([0.05, *np.arange(0.1, 0.95, 0.1), 0.95])
    y = law.rvs(4000, random_state=1)
    few = PiecewiseDistribution.from_quantiles(np.tile(law.ppf(levels), (y.size, 1)), levels, 0.01)
    true = atm.NormalLinear().fit(None, y).predict_distribution(None, n_rows=y.size)
    assert few.crps(y).mean() == pytest.approx(atm.scores.crps(true, y).mean(), rel=0.005)
    assert -few.logpdf(y[:, None]).mean() == pytest.approx(-law.logpdf(y).mean(), abs=0.02)
    assert atm.scores.coverage(few, y).mean() == pytest.approx(0.9, abs=0.02)


def test_crossing_quantiles_are_sorted():
    crossed = PiecewiseDistribution.from_quantiles(QUANTILES[:, ::-1], LEVELS)
    np.testing.assert_array_equal(crossed.points, LAW.points)


def test_tails_do_not_vanish_where_the_outermost_quantiles_coincide():
    levels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    one = PiecewiseDistribution.from_quantiles([[0.0, 0.0, 2.0, 3.0, 4.0, 6.0, 6.0]], levels, 0.01)
    np.testing.assert_allclose(one.scales[0], 0.5 * 2.0 / np.log(5.0))
    law = stats.norm.ppf(levels)
    plain = PiecewiseDistribution.from_quantiles(law[None], levels)  # no wider than through the outermost two
    np.testing.assert_allclose(plain.scales[0], (law[1] - law[0]) / np.log(2.0))
    two = PiecewiseDistribution.from_quantiles([[0.0, 1.0]], [0.4, 0.6])
    np.testing.assert_allclose(two.scales[0], 1.0 / np.log(1.5))


def test_survival_curves_start_at_zero_and_fall_evenly_between_their_steps():
    np.testing.assert_allclose(CURVES.sf([1.0, 3.0, 5.0])[0], [0.9, 0.7, 0.4])
    assert CURVES.sf(2.0)[0] == pytest.approx(0.8)  # flat from 1 to 3
    assert CURVES.cdf(0.0).tolist() == [0.0, 0.0, 0.0]
    hazard = -np.log(0.4) / 5.0  # the mean up to the last step at 5
    np.testing.assert_allclose(CURVES.logsf([8.0, 20.0])[0], np.log(0.4) - hazard * np.array([3.0, 15.0]))
    assert CURVES.sf(5.0)[2] == 0.0
    assert np.isfinite(CURVES[:2].logpdf([0.5, 4.0, 7.0, 50.0])).all()


def test_a_curve_that_never_falls_has_the_least_hazard():
    flat = PiecewiseDistribution.from_survival([1.0, 2.0], [[1.0, 1.0]], least_hazard=0.01)
    np.testing.assert_allclose(flat.logsf([1.0, 5.0])[0], [-0.01, -0.05])
    with pytest.raises(ValueError, match="never falls: pass least_hazard"):
        PiecewiseDistribution.from_survival([1.0, 2.0], [[1.0, 1.0]])


@pytest.mark.parametrize("tau", [0.5, 3.0, 4.0, 30.0])
def test_restricted_means_are_areas_under_the_curve(tau):
    for i in range(len(CURVES)):
        one = CURVES[i]
        edges = sorted({*(min(t, tau) for t in cuts(one, 0, 0.0) if t >= 0.0), tau})
        assert CURVES.restricted_mean(tau)[i] == pytest.approx(integral(lambda t, one=one: one.sf(t)[0], edges))
    with pytest.raises(ValueError, match="restricted means are for times"):
        LAW.restricted_mean(tau)


def test_rows_and_shapes_are_those_of_the_protocol():
    assert len(LAW[1:3]) == 2
    assert len(LAW[4]) == 1
    np.testing.assert_array_equal(LAW[[3, 1]].cdf([0.0, 2.0]), LAW.cdf([0.0, 2.0])[[3, 1]])
    assert LAW.cdf(1.0).shape == (5,)
    assert LAW.cdf([1.0, 2.0]).shape == (5, 2)
    assert LAW.cdf(QUANTILES).shape == QUANTILES.shape
    np.testing.assert_allclose(LAW.cdf(QUANTILES), np.tile(LEVELS, (5, 1)))
    assert not LAW.discrete


def test_transforms_of_outcomes_on_an_atom_are_drawn_from_its_share():
    one = PiecewiseDistribution.from_quantiles(np.tile([5.0, 5.0, 6.0], (4000, 1)), [0.1, 0.8, 0.9])
    u = atm.scores.pit(one, np.full(4000, 5.0), random_state=0)
    low, high = one.cdf(np.nextafter(5.0, 0.0))[0], one.cdf(5.0)[0]
    assert (u >= low).all()
    assert (u <= high).all()
    assert u.mean() == pytest.approx(0.5 * (low + high), abs=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PiecewiseDistribution([1.0], [0.5]), "at least 2 points"),
        (lambda: PiecewiseDistribution([2.0, 1.0], [0.1, 0.5]), "points must be finite and in increasing order"),
        (lambda: PiecewiseDistribution([1.0, np.inf], [0.1, 0.5]), "points must be finite"),
        (lambda: PiecewiseDistribution([1.0, 2.0], [0.5, 0.1]), "cdf_values must lie between 0 and 1 and increase"),
        (lambda: PiecewiseDistribution([1.0, 2.0], [0.5, 1.1]), "cdf_values must lie between 0 and 1"),
        (lambda: PiecewiseDistribution([1.0, 2.0], [0.5, 0.5]), "first two points are equal: give scales"),
        (lambda: PiecewiseDistribution([1.0, 2.0], [0.1, 0.5], np.ones((2, 2))), r"scales .* shape \(1, 2\)"),
        (lambda: PiecewiseDistribution([1.0, 2.0], [0.1, 0.5], resolution=-1.0), "resolution must be a finite width"),
        (lambda: PiecewiseDistribution.from_quantiles([[1.0, 2.0]], [0.5, 0.1]), "increasing numbers between 0 and 1"),
        (lambda: PiecewiseDistribution.from_quantiles([[1.0, 2.0]], [0.1, 0.5, 0.9]), "there are 3 levels"),
        (lambda: PiecewiseDistribution.from_quantiles([[1.0, np.nan]], [0.1, 0.5]), "some are missing"),
        (lambda: PiecewiseDistribution.from_survival([1.0, 1.0], [[0.9, 0.8]]), "increasing times"),
        (lambda: PiecewiseDistribution.from_survival([1.0, 2.0], [[0.9, 1.8]]), "between 0 and 1"),
        (lambda: LAW.cdf(np.zeros((2, 2))), "y must be a number, a vector or of shape"),
        (lambda: LAW.ppf(1.5), "probabilities must lie"),
        (lambda: PiecewiseDistribution([1.0, 2.0], [0.1, 0.5, 0.7]), "points and cdf_values have shapes"),
        (lambda: PiecewiseDistribution(["a", "b"], [0.1, 0.5]), "points must be numbers, not 'a'"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
