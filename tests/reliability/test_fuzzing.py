"""Random models on random legal data, each against a slow fit that is written from the definition alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz_cases import CHOICES, make_case
from fuzz_checks import check_case
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy import stats
from slow_fit import LINKS, Baseline

SEEDS = st.integers(0, 2**31 - 1)
CASES = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in CHOICES.items()})
BOUNDED = settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # a failing case is short enough as it is
    suppress_health_check=list(HealthCheck),
)


def test_the_slow_links_are_those_of_scipy() -> None:
    z = np.linspace(-8.0, 5.0, 40)
    known = {"probit": stats.norm, "logit": stats.logistic, "cloglog": stats.gumbel_l, "loglog": stats.gumbel_r}
    for name, link in LINKS.items():
        np.testing.assert_allclose(link.log_cdf(z), known[name].logcdf(z), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(link.log_sf(z), known[name].logsf(z), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(link.log_pdf(z), known[name].logpdf(z), rtol=1e-9)
        step = (link.log_pdf(z + 1e-30j) - link.log_pdf(z)).imag / 1e-30
        np.testing.assert_allclose(link.score(z), step, rtol=1e-9, atol=1e-12)


def test_the_slow_links_have_derivatives_far_out() -> None:
    """Far in a tail an extreme value link is exponential, the normal link has Mills' ratio z + 1/z - 2/z^3."""
    z = np.array([40.0, 200.0, 532.0, 700.0])
    mills = z + 1.0 / z - 2.0 / z**3
    one = np.ones(4)
    tails = {"probit": (mills, mills), "logit": (one, one), "cloglog": (one, np.exp(z)), "loglog": (np.exp(z), one)}
    for name, (below, above) in tails.items():
        np.testing.assert_allclose(LINKS[name].log_cdf(-z + 1e-100j).imag / 1e-100, below, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(LINKS[name].log_sf(z + 1e-100j).imag / 1e-100, -above, rtol=1e-6, err_msg=name)


def test_the_slow_baseline_is_smooth_at_the_ends_of_its_support() -> None:
    for log_first in (False, True):
        baseline = Baseline("bernstein", 4, (1.0, 3.0), log_first)
        y = np.array([0.5, 1.0, 1.7, 3.0, 4.0])
        step = (baseline.rows(y + 1e-6) - baseline.rows(y - 1e-6)) / 2e-6
        np.testing.assert_allclose(baseline.slopes(y), step, atol=1e-4)
        np.testing.assert_allclose(baseline.rows(y).sum(axis=1), 1.0)


@settings(BOUNDED, max_examples=40)
@given(seed=SEEDS, choices=CASES)
def test_a_random_model_is_what_a_slow_fit_says(tally: Callable[..., None], seed: int, choices: dict[str, Any]) -> None:
    check_case(make_case(seed, **choices), tally)


@pytest.mark.slow
@settings(BOUNDED, max_examples=120)
@given(seed=SEEDS, choices=CASES)
def test_more_random_models_are_what_a_slow_fit_says(
    tally: Callable[..., None], seed: int, choices: dict[str, Any]
) -> None:
    check_case(make_case(seed, **choices), tally)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
@settings(BOUNDED, max_examples=400)
@given(seed=SEEDS, choices=CASES)
def test_thousands_of_random_models_are_what_a_slow_fit_says(
    tally: Callable[..., None], part: int, seed: int, choices: dict[str, Any]
) -> None:
    check_case(make_case(seed + part * 2**31, **choices), tally)
