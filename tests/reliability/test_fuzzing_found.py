"""Faults that differential fuzzing found, each fixed and kept from coming back."""

from __future__ import annotations

import numpy as np
import pytest

import anchortm as atm
from anchortm.empirical import empirical_distribution


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
