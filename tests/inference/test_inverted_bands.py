"""Limits of quantiles by inverting the band: the band at a limit is at the probability."""

import numpy as np
import pytest

import anchortm as atm
from anchortm.exceptions import InputError

CGD = atm.datasets.load_cgd()
FORMULA = "Surv(tstop, status) ~ treat + age"
Q = np.array([0.1, 0.25, 0.5])
MODELS = {
    "smooth": lambda: atm.ProportionalHazards.from_formula(FORMULA + " | center", CGD, order=4, log_first=True, xi=1.0),
    "Weibull": lambda: atm.ParametricSurvival.from_formula(FORMULA, CGD),
    "scale": lambda: atm.ParametricSurvival.from_formula(FORMULA, CGD, scale=["age"]),
    "strata": lambda: atm.ParametricSurvival.from_formula(FORMULA.replace(" ~", " | sex ~"), CGD),
    "random": lambda: atm.ParametricSurvival.from_formula(FORMULA + " + (1 | center)", CGD),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_band_of_the_curve_crosses_at_the_limits(name: str) -> None:
    model, rows = MODELS[name](), CGD[:2]
    found = model.survival_quantiles(rows, Q)
    np.testing.assert_array_equal(found.estimate, model.predict_distribution(rows).ppf(Q))
    for i in range(2):
        for limit, side in ((found.lower[i], "upper"), (found.upper[i], "lower")):
            assert np.isfinite(limit).all()
            there = getattr(model.confidence_band(rows[i : i + 1], limit, "cdf"), side)
            np.testing.assert_allclose(there[0], Q, rtol=1e-7)
    assert (found.lower < found.estimate).all()
    assert (found.estimate < found.upper).all()
    assert found.method == "inverted band, delta method"
    assert found.of == "ppf"


def test_they_are_close_to_those_of_the_delta_method_with_many_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 1))
    y = atm.Surv(np.exp(0.3 * x[:, 0]) * rng.weibull(1.5, 5000), np.ones(5000))
    model = atm.ParametricSurvival().fit(x, y)
    one, other = model.survival_quantiles(x[:3].tolist()), model.confidence_band(x[:3], 0.5, "ppf")
    np.testing.assert_allclose(one.lower, other.lower, rtol=2e-3)
    np.testing.assert_allclose(one.upper, other.upper, rtol=2e-3)


def test_the_upper_limit_is_infinite_where_the_band_stays_away() -> None:
    """A slope of h that may be 0: the curve may never come down."""
    y = atm.Surv([1.0, 5.0, 6.0, 7.0, 8.0], [1, 0, 0, 1, 0])
    model = atm.ParametricSurvival().fit(None, y)
    found = model.survival_quantiles(None, 0.9)
    assert np.isfinite(found.lower[0, 0])
    assert found.upper[0, 0] == np.inf
    far = model.confidence_band(None, np.geomspace(found.estimate[0, 0], 1e6, 50), "cdf")
    assert (far.lower < 0.9).all()


def test_a_bootstrap_and_an_offset() -> None:
    y, offset = atm.Surv(CGD.tstop, CGD.status), np.linspace(-1.0, 1.0, len(CGD))
    model = atm.ParametricSurvival().fit(CGD[["age"]], y, offset=offset)
    draws = model.bootstrap(30, random_state=0, progress=False)
    found = model.survival_quantiles(CGD[["age"]][3:5], 0.25, uncertainty=draws, offset=[0.0, 1.0])
    at = found.lower[1, 0]
    band = model.confidence_band(CGD[["age"]][4:5], at, "cdf", uncertainty=draws, offset=[1.0])
    assert band.upper[0, 0] == pytest.approx(0.25, rel=1e-6)
    assert found.method == "inverted band, bootstrap of 30"


def test_curves_with_steps_have_those_of_the_band() -> None:
    model = atm.CoxPH.from_formula(FORMULA, CGD)
    one, other = model.survival_quantiles(CGD[:3]), model.confidence_band(CGD[:3], 0.5, "ppf")
    np.testing.assert_array_equal(one.upper, other.upper)
    times = np.unique(CGD.tstop[CGD.status == 1])
    band = model.confidence_band(CGD[:3], times, "sf")
    for i in range(3):  # the first time at which a limit of the curve is at or below 1/2, as in survfit
        for limit, curve in ((one.lower, band.lower), (one.upper, band.upper)):
            reached = times[curve[i] <= 0.5]
            assert limit[i, 0] == (reached[0] if reached.size else np.inf)


def test_what_is_refused() -> None:
    model = MODELS["Weibull"]()
    with pytest.raises(InputError, match="between 0 and 1"):
        model.survival_quantiles(CGD[:2], 1.0)
    with pytest.raises(InputError, match="level must be"):
        model.survival_quantiles(CGD[:2], level=2.0)
    counts = atm.CountRegression(order=2).fit(CGD[["height"]], CGD.age)
    with pytest.raises(InputError, match="classes and counts"):
        counts.survival_quantiles(CGD[["height"]][:2])
