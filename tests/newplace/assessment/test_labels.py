"""The curve of the gain against the number of outcomes, against models that are recalibrated by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

import anchortm as atm
from anchortm.models.given import given
from anchortm.newplace.assessment import labels
from anchortm.newplace.assessment.labels import curve_further, curve_like
from anchortm.selection.designs import Fold
from anchortm.selection.places import places_of


def world(places: int, rows: int, sd: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    e = np.repeat(np.arange(places), rows)
    x = rng.normal(size=e.size)
    return pd.DataFrame({"x": x, "y": x + sd * rng.normal(size=places)[e] + rng.normal(size=e.size), "place": e})


def places(model, formula, data, xis=(0.0,)):
    rows = given(model, formula, data)
    return places_of(rows, list(xis), None)[1]


def by_hand(model, formula: str, data: pd.DataFrame, e: int, m: int, prior: float) -> float:
    """Return the gain at one place: the fit without it, recalibrated by m of its rows, on the others."""
    inside, own = data[data.place != e], data[data.place == e].reset_index(drop=True)
    fit = model.from_formula(formula, inside)
    gains = []
    rng = np.random.default_rng([0, e])
    for draw in [rng.permutation(len(own)) for _ in range(labels.DRAWS)]:
        moved = fit.recalibrate(own.iloc[np.sort(draw[:m])], what="shift", prior=prior)
        rest = own.iloc[np.sort(draw[m:])]
        gains.append(fit.nll(rest).mean() - moved.nll(rest).mean())
    return float(np.mean(gains))


@pytest.mark.parametrize("model", [atm.NormalLinear, atm.ContinuousLogit, atm.ProportionalHazards])
def test_gains_are_those_of_models_that_are_recalibrated_by_hand(model):
    data = world(7, 25, 0.8, 1)
    if model is atm.ProportionalHazards:
        data["y"] = np.exp(0.5 * data.y)
    found = curve_like(places(model(), "y ~ x | place", data), (5, 10))
    joint = model.from_formula("y ~ x | place", data).place_sd_
    assert found.sd == pytest.approx(joint, abs=1e-4)
    for m in (5, 10):
        expected = []
        for e in range(7):
            others = data[data.place != e]
            # the variance of shifts without this place, by the fits that leave one place out of all of them
            prior = _sd_without(model, data, e) ** 2
            assert others.place.nunique() == 6
            expected.append(by_hand(model, "y ~ x | place", data, e, m, prior))
        np.testing.assert_allclose(found.gains[m], expected, atol=2e-4)
        assert found.at(m)[0] == pytest.approx(np.mean(found.gains[m]))
        assert found.at(m)[1] == pytest.approx(stats.sem(found.gains[m]))


def _sd_without(model, data, e):
    """Return the standard deviation of shifts with the largest likelihood of all places but one, on a fine grid."""
    curves = []
    for f in range(7):
        if f == e:
            continue
        fit, own = model.from_formula("y ~ x", data[data.place != f]), data[data.place == f]
        grid = np.linspace(-8.0, 8.0, 3201)
        shifted = [fit.nll(own, offset=np.full(len(own), d)).sum() for d in grid[::40]]  # symmetric under the prior
        curves.append(-CubicSpline(grid[::40], shifted)(grid))
    grid = np.linspace(-8.0, 8.0, 3201)

    def loss(sd):
        prior = stats.norm.logpdf(grid, scale=sd)
        total = 0.0
        for own in curves:
            top = own.max()
            total += top + np.log(trapezoid(np.exp(own - top + prior), grid))
        return -total

    return minimize_scalar(loss, bounds=(0.02, 6.0), method="bounded", options={"xatol": 1e-6}).x


def test_places_without_enough_rows_are_not_tried():
    data = world(8, 12, 0.8, 2)
    data = data[(data.place > 2) | (data.groupby("place").cumcount() < 6)]
    found = curve_like(places(atm.NormalLinear(), "y ~ x | place", data), (0, 5, 10))
    assert [found.sites(m) for m in (0, 5, 10)] == [8, 5, 0]
    assert np.isnan(found.at(10)).all()
    assert found.frame().m.tolist() == [0, 5]


def test_outermost_places_are_left_out_together():
    """Nothing of a fold's places is in the fit that is recalibrated there, nor in its prior."""
    data = world(10, 20, 0.8, 3)
    found = places(atm.NormalLinear(), "y ~ x | place", data, (0.0, 3.0))
    folds = [Fold(frozenset({0, 1})), Fold(frozenset({8, 9}))]
    curve = curve_further(found, folds, 0.0, (0, 5))
    changed = data.assign(y=np.where(data.place == 0, data.y + 5.0, data.y))
    other = curve_further(places(atm.NormalLinear(), "y ~ x | place", changed, (0.0, 3.0)), folds, 0.0, (0, 5))
    inside = data[data.place > 1]
    prior = atm.NormalLinear.from_formula("y ~ x | place", inside).place_sd_ ** 2
    fit = atm.NormalLinear.from_formula("y ~ x | place", inside)
    own = data[data.place == 1]
    moved = fit.recalibrate(own[:0], what="shift", prior=prior)
    assert curve.gains[0][1] == pytest.approx(fit.nll(own).mean() - moved.nll(own).mean(), abs=1e-5)
    assert curve.gains[0][1] == pytest.approx(other.gains[0][1], abs=1e-9)
    assert curve.gains[5].size == 4
    anchored = curve_further(found, folds, 3.0, (0,))
    fit3 = atm.NormalLinear.from_formula("y ~ x | place", inside, xi=3.0)
    prior3 = fit3.place_sd_**2
    moved = fit3.recalibrate(own[:0], what="shift", prior=prior3)
    assert anchored.gains[0][1] == pytest.approx(fit.nll(own).mean() - moved.nll(own).mean(), abs=1e-5)


def test_places_that_do_not_differ_gain_nothing():
    gains = [
        curve_like(places(atm.NormalLinear(), "y ~ x | place", world(12, 30, 0.0, s)), (20,)).at(20)[0]
        for s in range(4)
    ]
    assert abs(np.mean(gains)) < 0.005
