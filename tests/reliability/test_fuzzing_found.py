"""Faults that differential fuzzing found, each fixed and kept from coming back."""

from __future__ import annotations

import numpy as np
import pytest

import anchortm as atm


@pytest.mark.bug(
    "differential fuzzing",
    "a trial step with infinite residuals under a factor and a numeric anchor warned of an invalid subtraction",
)
def test_a_hopeless_trial_step_is_silent() -> None:
    rng = np.random.default_rng(0)
    x, site, height = rng.normal(size=(40, 1)), rng.integers(0, 3, 40), rng.normal(size=40)
    y = x[:, 0] + rng.gumbel(size=40)
    far = ([-800.0, -790.0, -780.0], [0.0])  # residuals of e^800
    model = atm.Lehmann(xi=1.0, order=2, start=far).fit(x, y, anchors=[site, height])
    wanted = atm.Lehmann(xi=1.0, order=2).fit(x, y, anchors=[site, height])
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-6)
