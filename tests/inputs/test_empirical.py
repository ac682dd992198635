"""Empirical, Kaplan-Meier and Turnbull estimates on cases that can be done by hand."""

import numpy as np
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm import Interval, Surv
from anchortm.exceptions import InputError
from anchortm.inputs.empirical import default_support, empirical_distribution
from anchortm.inputs.response import as_response

inf = np.inf


def test_exact_rows_give_the_empirical_distribution() -> None:
    points, cdf = empirical_distribution(as_response([3.0, 1.0, 3.0, 2.0]))
    assert points.tolist() == [1.0, 2.0, 3.0]
    assert cdf.tolist() == [0.25, 0.5, 1.0]


def test_kaplan_meier_by_hand() -> None:
    points, cdf = empirical_distribution(Surv([1, 2, 2, 3, 4], [1, 1, 0, 1, 0]))
    assert points.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(1 - cdf, [4 / 5, 4 / 5 * 3 / 4, 4 / 5 * 3 / 4 * 1 / 2])


def test_kaplan_meier_with_delayed_entry() -> None:
    # at risk at 2: rows with entry < 2 <= time, i.e. rows 0 and 1
    points, cdf = empirical_distribution(Surv([2, 3, 4], [1, 1, 1], entry=[0, 1, 2]))
    assert points.tolist() == [2.0, 3.0, 4.0]
    np.testing.assert_allclose(1 - cdf, [1 / 2, 1 / 4, 0], atol=1e-15)


def test_weights_replicate_rows() -> None:
    weights = np.array([2.0, 1.0, 3.0, 1.0])
    rows = np.repeat(np.arange(4), weights.astype(int))
    low, high = np.array([1.0, -inf, 2.0, 4.0]), np.array([3.0, 2.5, inf, 4.0])
    for y in (as_response(high[[0, 1, 3, 0]]), Surv([1, 2, 2, 5], [1, 0, 1, 1]), Interval(low, high)):
        once, repeated = empirical_distribution(y, weights), empirical_distribution(y[rows])
        np.testing.assert_allclose(once.points, repeated.points)
        np.testing.assert_allclose(once.cdf, repeated.cdf, atol=1e-5)
        np.testing.assert_allclose(default_support(y, weights), default_support(y[rows]))


def test_turnbull_agrees_with_the_empirical_and_kaplan_meier_estimates() -> None:
    rng = np.random.default_rng(5)
    times, event = np.round(rng.exponential(size=60), 2) + 0.01, rng.random(60) < 0.7
    km = empirical_distribution(Surv(times, event))
    # one interval that contains everything adds no information but takes Turnbull's way
    both = Interval(np.r_[times, -inf], np.r_[np.where(event, times, inf), 1e9])
    turnbull = empirical_distribution(both)
    for point, value in zip(km.points, km.cdf, strict=True):
        assert turnbull.cdf[turnbull.points <= point].max() == pytest.approx(value, abs=1e-3)


def test_turnbull_by_hand() -> None:
    # (0, 2] and (1, 3] share (1, 2]; (3, 4] stands alone
    points, cdf = empirical_distribution(Interval([0.0, 1.0, 3.0], [2.0, 3.0, 4.0]))
    assert points.tolist() == [1.5, 3.5]
    np.testing.assert_allclose(cdf, [2 / 3, 1.0])


def test_turnbull_keeps_an_exact_row_inside_intervals_that_end_there() -> None:
    # y = 2 lies in (1, 2] and not in (2, 3]
    points, cdf = empirical_distribution(Interval([2.0, 1.0, 2.0], [2.0, 2.0, 3.0]))
    assert points.tolist() == [2.0, 2.5]
    np.testing.assert_allclose(cdf, [2 / 3, 1.0])


def test_default_supports() -> None:
    y = np.arange(11.0)
    assert default_support(as_response(y)) == (1.0, 9.0)
    # the 90 % quantile does not exist: the last event time
    assert default_support(Surv([1, 2, 3, 4, 5], [1, 1, 0, 0, 0])) == (1.0, 2.0)
    assert default_support(as_response([0, 0, 1, 2, 5, 9], "count")) == (0.0, 9.0)
    # quantiles that coincide give way to the range
    assert default_support(as_response([3.0] * 30 + [1.0, 7.0])) == (1.0, 7.0)
    assert default_support(as_response([0] * 30 + [4], "count")) == (0.0, 4.0)


def test_all_rows_censored_have_an_empty_distribution() -> None:
    points, cdf = empirical_distribution(Surv([1.0, 2.0], [0, 0]))
    assert points.tolist() == [1.0, 2.0]
    assert cdf.tolist() == [0.0, 0.0]


def test_the_scale_of_weights_does_not_matter() -> None:
    plain = atm.ContinuousLogit(xi=1.0).fit(FOUR.X, FOUR.y, anchors=FOUR.site)
    for scale in (0.01, 1 / FOUR.n, 1e-4, 2.0):
        scaled = atm.ContinuousLogit(xi=1.0).fit(
            FOUR.X, FOUR.y, anchors=FOUR.site, sample_weight=np.full(FOUR.n, scale)
        )
        np.testing.assert_allclose(scaled.support_, plain.support_, rtol=0.02)
        np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=0.02)


def test_a_support_beside_the_data() -> None:
    with pytest.raises(InputError, match=r"support \(100, 200\) does not overlap y"):
        atm.ContinuousLogit(support=(100, 200)).fit(FOUR.X, FOUR.y)


def test_an_entry_that_is_none_changes_nothing() -> None:
    a = atm.ContinuousLogit().fit(FOUR.X, atm.Interval(FOUR.y, FOUR.y, entry=np.full(FOUR.n, -np.inf)))
    assert a.support_ == atm.ContinuousLogit().fit(FOUR.X, FOUR.y).support_
