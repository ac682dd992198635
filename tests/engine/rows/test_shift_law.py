"""Averages over a shift, against integrals in many digits and on dense grids."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from anchortm.engine.rows.ends import End, Ends
from anchortm.engine.rows.shift_law import NodeShift, NormalShift, law_from_record
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedHazards, ShiftedMeans
from anchortm.exceptions import InputError
from anchortm.families import get_family
from anchortm.links import LINKS

mp.mp.dps = 25
TAILS = {
    "probit": (lambda z: mp.erfc(-z / mp.sqrt(2)) / 2, lambda z: mp.erfc(z / mp.sqrt(2)) / 2),
    "logit": (lambda z: 1 / (1 + mp.exp(-z)), lambda z: 1 / (1 + mp.exp(z))),
    "cloglog": (lambda z: -mp.expm1(-mp.exp(z)), lambda z: mp.exp(-mp.exp(z))),
    "loglog": (lambda z: mp.exp(-mp.exp(-z)), lambda z: -mp.expm1(-mp.exp(-z))),
}


def averages(kind, h, law):
    def values(delta):
        at = kind(h[:, None] - delta)
        return at.l, at.r, at.dr

    return law.average(values, h.size)


def on_a_grid(log, mean, sd, reach=14.0, size=200_001):
    """Return log of the integral of exp(log(delta)) over a normal density, by the trapezoidal rule."""
    x = np.linspace(-reach, reach, size)
    logs = log(mean + sd * x) - 0.5 * x**2
    return special.logsumexp(logs) + np.log(x[1] - x[0]) - 0.5 * np.log(2.0 * np.pi)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("sd", [0.3, 2.0])
def test_tails_have_all_digits(name, sd):
    """Fixed nodes fail here: 41 of Gauss and Hermite err by 2e-3 for the extreme value links at sd = 2."""
    link, mean, h = LINKS[name], 0.25, np.array([-7.0, 0.5, 4.0])
    for kind, tail in zip((link.left, link.right), TAILS[name], strict=True):
        found = averages(kind, h, NormalShift(mean, sd))
        for k, z in enumerate(h):
            peak = float(found.points[k] @ found.shares[k])
            width = float(np.sqrt(found.shares[k] @ (found.points[k] - peak) ** 2))
            edges = [peak + width * j for j in range(-20, 21)]
            edges = [min(edges[0], mean - 12 * sd), *edges, max(edges[-1], mean + 12 * sd)]
            wanted = mp.quad(lambda d, z=z, tail=tail: tail(mp.mpf(z) - d) * mp.npdf(d, mean, sd), edges)
            assert found.log[k] == pytest.approx(float(mp.log(wanted)), abs=2e-12, rel=1e-12)


def test_far_tails():
    """At h = 20 the integrand peaks at a shift of 15, 49 standard deviations out."""
    found = averages(LINKS["cloglog"].right, np.array([20.0]), NormalShift(0.0, 0.3))
    wanted = on_a_grid(lambda d: -np.exp(20.0 - d), 0.0, 0.3, reach=80.0, size=2_000_001)
    assert found.log[0] == pytest.approx(wanted, rel=1e-10)
    assert np.isfinite(averages(LINKS["cloglog"].exact, np.array([900.0]), NormalShift(0.0, 0.3)).log).all()


def test_probit_in_closed_form():
    h, law = np.linspace(-30.0, 30.0, 41), NormalShift(0.4, 1.7)
    found = averages(LINKS["probit"].left, h, law)
    np.testing.assert_allclose(found.log, special.log_ndtr((h - 0.4) / np.sqrt(1.0 + 1.7**2)), rtol=1e-12, atol=1e-14)


def test_a_shift_without_spread_is_its_mean():
    h = np.array([-1.0, 2.0])
    np.testing.assert_array_equal(
        averages(LINKS["logit"].left, h, NormalShift(0.5)).log, LINKS["logit"].log_cdf(h - 0.5)
    )


def test_a_row_does_not_depend_on_the_others():
    h = np.array([-40.0, -3.0, 0.1, 9.0, 25.0])
    for link in LINKS.values():
        together = averages(link.exact, h, NormalShift(0.0, 1.1)).log
        alone = [averages(link.exact, h[[k]], NormalShift(0.0, 1.1)).log[0] for k in range(h.size)]
        np.testing.assert_allclose(together, alone, rtol=1e-15)


def rows_of(link, truncated=False):
    """Return rows of all kinds, some of them with delayed entry."""
    rng = np.random.default_rng(3)
    parts = [
        End("exact", 1, np.arange(3), rng.normal(size=3), rng.uniform(0.5, 2.0, 3)),
        End("left", 1, np.array([3, 4]), rng.normal(size=2), np.zeros(0)),
        End("right", 1, np.array([5]), rng.normal(size=1), np.zeros(0)),
        End("interval", 1, np.array([6, 7]), rng.normal(size=2), np.array([1e-9, 0.7])),
    ]
    if truncated:
        parts.append(End("right", -1, np.array([0, 2, 6]), np.array([-2.0, -1.0, -3.0]), np.zeros(0)))
    return ShiftedEnds(link, Ends(8, tuple(parts)))


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("truncated", [False, True])
def test_rows_and_places(name, truncated):
    """Rows alone and rows of a place together, with delayed entry, whose likelihood need not be concave."""
    rows, law = rows_of(LINKS[name], truncated), NormalShift(0.2, 1.5)
    assert rows.concave is not truncated
    grid = lambda d: rows(np.broadcast_to(d, (8, d.size)))[0]  # noqa: E731
    logs, residuals = rows.averages(law)
    for k in range(8):
        assert logs[k] == pytest.approx(on_a_grid(lambda d, k=k: grid(d)[k], 0.2, 1.5, size=40_001), abs=1e-10)
    moved = [rows.averages(NormalShift(0.2 + step, 1.5))[0] for step in (-1e-5, 1e-5)]
    np.testing.assert_allclose(residuals, (moved[1] - moved[0]) / 2e-5, rtol=1e-6, atol=1e-8)
    place, weights = np.array([0, 1, 1, 0, 1, 0, 1, 1]), np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 2.0])
    found = law.average(rows.by_place(place, 2, weights), 2, rows.concave).log
    for e in range(2):
        own = lambda d, e=e: (weights * (place == e)) @ grid(d)  # noqa: E731
        assert found[e] == pytest.approx(on_a_grid(own, 0.2, 1.5, size=40_001), abs=1e-10)


def test_many_rows_are_those_of_pieces():
    rng, n = np.random.default_rng(0), 4500
    h = rng.normal(size=n)
    rows = ShiftedEnds(LINKS["logit"], Ends(n, (End("right", 1, np.arange(n), h, np.zeros(0)),)))
    law = NormalShift(0.0, 0.6)
    np.testing.assert_allclose(
        rows.averages(law)[0][::500], rows.part(np.arange(0, n, 500)).averages(law)[0], rtol=1e-14
    )
    place = rng.integers(0, 3, n)
    found = law.average(rows.by_place(place, 3), 3).log
    wanted = on_a_grid(lambda d: LINKS["logit"].log_sf(h[place == 1][:, None] - d).sum(axis=0), 0.0, 0.6, 12.0, 4001)
    assert found[1] == pytest.approx(wanted, abs=1e-9)


def test_hazards_and_means():
    hazards = ShiftedHazards(np.array([1.0, 0.0]), np.array([0.4, 2.0]))
    law = NormalShift(0.1, 0.8)
    wanted = [on_a_grid(lambda d: -d - 0.4 * np.exp(-d), 0.1, 0.8), on_a_grid(lambda d: -2.0 * np.exp(-d), 0.1, 0.8)]
    np.testing.assert_allclose(hazards.averages(law)[0], wanted, atol=1e-11)
    family, eta = get_family("poisson"), np.array([0.3, 6.0])
    means = ShiftedMeans.of(family, eta, family.outcome(np.array([2.0, 500.0])))
    own = [on_a_grid(lambda d, k=k: means(np.vstack([d, d]))[0][k], 0.1, 0.8) for k in range(2)]
    np.testing.assert_allclose(means.averages(law)[0], own, atol=1e-10)
    joined = ShiftedMeans.joined(
        [means, ShiftedMeans.of(get_family("poisson"), eta, family.outcome(np.array([0.0, 1.0])))]
    )
    assert joined.families == (family,)
    np.testing.assert_array_equal(joined.part(np.array([1])).averages(law)[0], means.averages(law)[0][1:])


def test_posterior():
    """The exact posterior of a shift: normal in closed form, and its predictive average that of both kinds of rows."""
    z = np.array([0.4, 1.9, -0.2])
    rows = ShiftedEnds(LINKS["probit"], Ends(3, (End("exact", 1, np.arange(3), z, np.ones(3)),)))
    law = NormalShift(0.0, 0.5).given(rows.together())
    precision = 3.0 + 0.5**-2
    assert law.mean == pytest.approx(z.sum() / precision, abs=1e-12)
    assert law.sd == pytest.approx(precision**-0.5, abs=1e-12)
    h = np.array([-2.0, 0.0, 4.0])
    wanted = special.log_ndtr((h - z.sum() / precision) / np.sqrt(1.0 + 1.0 / precision))
    np.testing.assert_allclose(averages(LINKS["probit"].left, h, law).log, wanted, rtol=1e-10)
    assert law.log_moment(0.7) == pytest.approx(0.7 * law.mean + 0.5 * (0.7 * law.sd) ** 2, abs=1e-11)
    impossible = ShiftedEnds(LINKS["probit"], Ends(1, (End("exact", 1, np.arange(1), z[:1], np.zeros(1)),)))
    with pytest.raises(InputError, match="impossible at every shift"):
        NormalShift(0.0, 0.5).given(impossible.together())


def test_no_rows_leave_the_law_as_it_is():
    none = ShiftedEnds(LINKS["logit"], Ends(0, ()))
    law = NormalShift(0.0, 0.8).given(none.together())
    assert law.mean == pytest.approx(0.0, abs=1e-12)
    assert law.sd == pytest.approx(0.8, rel=1e-12)


def test_records():
    for law in (NormalShift(0.1, 0.7), NodeShift(np.array([-1.0, 2.0]), np.array([0.3, -np.inf]))):
        again = law_from_record(law.record())
        assert (again.mean, again.sd) == (law.mean, law.sd)
    for bad in (
        {"mean": 0.0},
        {"mean": 0.0, "sd": -1.0},
        {"points": [0.0], "log_weights": ["x"]},
        {"mean": None, "sd": 1},
    ):
        with pytest.raises(InputError):
            law_from_record(bad)
    with pytest.raises(InputError, match="as many log weights"):
        NodeShift(np.zeros(2), np.full(2, -np.inf))


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("sd", [0.05, 1.2, 6.0])
def test_other_spreads(name, sd):
    test_tails_have_all_digits(name, sd)
