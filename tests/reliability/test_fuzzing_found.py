"""Faults that differential fuzzing found, each fixed and kept from coming back."""

from __future__ import annotations

import numpy as np
import pytest

import anchortm as atm
from anchortm.bases import LinearBasis
from anchortm.inputs.empirical import empirical_distribution
from anchortm.links import get_link


@pytest.mark.bug(
    "differential fuzzing",
    "a trial step with infinite residuals under a factor and a numeric anchor warned of an invalid subtraction",
)
def test_a_hopeless_trial_step_is_silent() -> None:
    rng = np.random.default_rng(0)
    x, site, height = rng.normal(size=(40, 1)), rng.integers(0, 3, 40), rng.normal(size=40)
    y = x[:, 0] + rng.gumbel(size=40)
    y[0] = -9.0
    far = ([0.0, 90.0], [0.0])  # the residual of the first row is e^810
    arguments = {"xi": 1.0, "order": 1, "support": (0.0, 1.0)}
    model = atm.Lehmann(**arguments, start=far).fit(x, y, anchors=[site, height])
    wanted = atm.Lehmann(**arguments).fit(x, y, anchors=[site, height])
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-6)


@pytest.mark.bug(
    "differential fuzzing",
    "delayed entry with fractional weights could lift the Kaplan-Meier estimate above 1 by a rounding, and the start "
    "values warned",
)
def test_kaplan_meier_with_delayed_entry_stays_a_distribution() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        entry, weights = rng.normal(size=30), rng.uniform(0.1, 3.0, 30)
        y = entry + rng.exponential(size=30)
        cdf = empirical_distribution(atm.Interval(y, y, entry=entry), weights).cdf
        assert (np.diff(cdf) >= 0.0).all()
        assert cdf[-1] <= 1.0


@pytest.mark.bug(
    "differential fuzzing",
    "far out, the likelihood of truncated rows cancelled to zero, and xi = inf was said to have converged there",
)
def test_a_likelihood_of_which_no_digit_is_left_is_no_likelihood() -> None:
    rng = np.random.default_rng(1)
    entry, later = rng.uniform(0.0, 1.0, 30), np.full(30, np.inf)
    lower = entry + 1.0
    lower[0], later[0], entry[0] = -np.inf, 5.0, -np.inf
    y = atm.Interval(lower, later, entry=entry)
    data = atm.AnchorTM(basis="linear").problem(None, y).data
    objective = data.objective(get_link("cloglog"), LinearBasis(), 1.0)

    def loglik(level: float, slope: float) -> float:
        return objective.sums(objective.coordinates.join(np.array([level, slope]), np.zeros(0))).loglik

    assert loglik(0.0, 1e-3) == pytest.approx(np.log(-np.expm1(-1.005)) - 29e-3, rel=0.01)
    assert loglik(100.0, 1e-3) < -1e30
    assert loglik(100.0, 1e-30) == -np.inf  # e^100 - e^100
