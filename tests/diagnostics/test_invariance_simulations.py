"""Levels and power of invariance tests, and the guarantee of causal parents, in data from known graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import anchortm as atm

pytestmark = pytest.mark.slow

N_SAMPLES = 1000
MODELS = {
    "normal": atm.NormalLinear(),
    "c-logit": atm.ContinuousLogit(),
    "censored weibull": atm.ParametricSurvival(),
    "ordinal": atm.OrdinalRegression(),
    "binary": atm.AnchorGLM(family="binomial"),
}


def sampled(kind: str, seed: int, n: int = 500) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return rows in which x0 and x1 act on y, y acts on x2, and three environments shift all of them but y."""
    rng = np.random.default_rng([seed, list(MODELS).index(kind)])
    e = rng.integers(0, 3, n)
    x0, x1 = rng.normal(size=n) + e, rng.normal(size=n) + 1.5 * (e == 1)
    eta = x0 - x1
    y: Any
    if kind == "normal":
        y = latent = eta + rng.normal(size=n)
    elif kind == "censored weibull":
        latent = eta + np.log(rng.exponential(size=n))
        time, limit = np.exp(latent / 1.5), np.exp(rng.normal(1.0, 1.0, size=n))
        y = atm.Surv(np.minimum(time, limit), time <= limit)
    elif kind == "binary":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        latent = 2.0 * y
    else:
        latent = eta + rng.logistic(size=n)
        y = np.exp(latent / 3.0) if kind == "c-logit" else np.digitize(latent, [-1.0, 0.5, 2.0])
    x2 = latent + rng.normal(size=n) + e
    return np.column_stack([x0, x1, x2]), y, e


@pytest.mark.parametrize("kind", MODELS)
def test_parents_are_rejected_at_the_level_and_other_sets_almost_always(kind: str) -> None:
    rejected: dict[tuple[str, ...], int] = {}
    inside = found_both = 0
    for seed in range(N_SAMPLES):
        found = atm.causal_parents(MODELS[kind], *sampled(kind, seed))
        inside += set(found.parents) <= {"x0", "x1"}
        found_both += found.parents == ("x0", "x1")
        for own, accepted in zip(found.sets.set, found.sets.accepted, strict=True):
            rejected[own] = rejected.get(own, 0) + (not accepted)
    print(kind, {own: count / N_SAMPLES for own, count in rejected.items()}, inside / N_SAMPLES)
    assert 0.025 <= rejected.pop(("x0", "x1")) / N_SAMPLES <= 0.07
    assert min(rejected.values()) / N_SAMPLES >= 0.9
    assert inside / N_SAMPLES >= 0.95
    assert found_both / N_SAMPLES >= 0.9


def test_simulated_tests_hold_their_level_where_places_are_small() -> None:
    """Ten places of four rows: the chi-square distribution rejects a true set four times as often as it should."""
    low = by_chi_square = 0
    for seed in range(300):
        rng = np.random.default_rng([7, seed])
        place = np.repeat(np.arange(10), 4)
        x = rng.normal(size=40) + 0.3 * place
        y = x + rng.logistic(size=40)
        found = atm.invariance_test(
            atm.ContinuousLogit(order=2), x[:, None], y, place, method="simulate", n_draws=39, random_state=seed
        )
        low += found.p_value <= 0.05
        by_chi_square += stats.chi2.sf(found.statistic, found.df) <= 0.05
    print("simulated", low / 300, "chi-square", by_chi_square / 300)
    assert by_chi_square / 300 > 0.12
    assert 0.02 <= low / 300 <= 0.09
