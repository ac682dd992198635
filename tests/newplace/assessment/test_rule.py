"""The rule of the recommendation, on comparisons that are made up so that the answer is plain."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from anchortm.newplace.assessment.advice import Advice, Recommendation
from anchortm.newplace.assessment.labels import LabelCurve
from anchortm.newplace.assessment.rule import advice_further, advice_like, too_few, with_labels
from anchortm.newplace.assessment.stability import stability_like
from anchortm.newplace.comparison import Comparison, like_table
from anchortm.newplace.verdict import Verdict
from anchortm.selection.further import Further


class Final:
    """A fitted model, as far as the rule looks at it."""

    xi_, widened_ = 3.0, 1.0


def comparison(regret: dict[str, np.ndarray], further: Further | None = None) -> Comparison:
    """Return a comparison with these regrets at left-out environments."""
    n = len(next(iter(regret.values())))
    rows = []
    for name, values in {"null": np.full(n, 0.5), "ml": np.zeros(n), **regret}.items():
        for e, value in enumerate(values):
            own = {"design": "like", "direction": "", "side": "", "share": math.nan, "strategy": name}
            own |= {"environment": e, "n": 20.0, "events": math.nan, "nll": 1.0 + value, "skill": 0.5 - value}
            rows.append(own | {"regret": value, "regret_se": 0.1, "ranked": True, "note": ""})
    table = like_table(pd.DataFrame(rows))
    better = table[(table["p"] < 0.05) & (table["difference"] < 0.0)]
    best = "ml" if better.empty else str(better.sort_values("difference").iloc[0]["strategy"])
    return Comparison(rows, "NormalLinear", Verdict(best, further))


def extremes(confidence: str, gain: list[float], xi: float = 10.0) -> Further:
    """Return the graded rule's answer for four folds with these gains."""
    folds = {"direction": "new place", "side": ["same", "same", "other", "other"], "share": [0.15, 0.3] * 2}
    table = pd.DataFrame({**folds, "environments": 2, "distance": 2.0, "xi": xi, "gain": gain, "gain_widened": 0.0})
    anchored = confidence in ("confident", "tentative")
    return Further("anchored" if anchored else "ml", confidence, xi if anchored else 0.0, table, 3.0)


def curve(gains: dict[int, np.ndarray], xi: float = 0.0) -> LabelCurve:
    return LabelCurve(xi, gains, 0.5)


def test_a_clear_gain_is_recommended():
    rng = np.random.default_rng(0)
    found = comparison({"anchored": -0.2 + 0.05 * rng.normal(size=20), "equal": 0.1 + 0.05 * rng.normal(size=20)})
    stable = stability_like(found)
    advice = advice_like(found, {"anchored": Final()}, stable)
    assert (advice.strategy, advice.confidence, advice.xi) == ("anchored", "clear", 3.0)
    assert advice.gain == pytest.approx(0.2, abs=0.03)
    assert advice.interval[0] < advice.gain < advice.interval[1]
    assert advice.stability == stable["anchored"] == 1.0
    assert advice.headline == "Anchor with xi = 3"
    assert "20 of 20 left-out places" in advice.reasons[0]


def test_no_gain_keeps_maximum_likelihood():
    rng = np.random.default_rng(1)
    advice = advice_like(comparison({"anchored": 0.02 + 0.05 * rng.normal(size=20)}), {}, None)
    assert (advice.strategy, advice.confidence) == ("ml", "keep")
    assert math.isnan(advice.gain)
    assert advice.headline == "Keep maximum likelihood"


def test_folds_that_disagree_do_not_decide():
    rng = np.random.default_rng(2)
    values = -0.1 + rng.normal(size=20)
    advice = advice_like(comparison({"widened": values - values.mean() - 0.1}), {}, None)
    assert (advice.strategy, advice.confidence) == ("ml", "undecided")
    assert advice.headline.startswith("The data do not decide")
    assert f"{(values - values.mean() - 0.1 > 0).sum()} lose" in advice.reasons[0]


def test_few_places_do_not_decide():
    advice = advice_like(comparison({"anchored": np.full(5, -1.0) + 0.01 * np.arange(5)}), {}, None)
    assert (advice.strategy, advice.confidence) == ("ml", "undecided")
    assert "5 places" in advice.reasons[0]


@pytest.mark.parametrize(
    ("confidence", "strategy", "words"),
    [
        ("confident", "anchored", "All 4 folds"),
        ("tentative", "anchored", "Both folds on the side of the new place"),
        ("undecided", "ml", "disagree"),
        ("keep", "ml", "do not support anchoring"),
        ("inside", "ml", "counts as a place like these"),
        ("untried", "ml", "No strategy with an xi"),
    ],
)
def test_the_graded_rule_is_passed_on(confidence, strategy, words):
    gain = [0.3, 0.2, 0.1, 0.1] if confidence == "confident" else [0.3, 0.2, -0.1, -0.2]
    found = comparison({"anchored": np.zeros(20)}, extremes(confidence, gain))
    advice = advice_further(found, 20, {"anchored": 0.7, "ml": 0.3})
    assert (advice.strategy, advice.confidence) == (strategy, confidence)
    assert words in advice.reasons[0]
    assert advice.stability == {"anchored": 0.7, "ml": 0.3}[strategy]
    if confidence == "undecided":
        assert advice.headline == "The data do not decide, so keep maximum likelihood"


def test_too_few_places_for_a_place_further_out():
    advice = advice_further(comparison({"anchored": np.zeros(7)}), 7, None)
    assert advice == too_few(7)
    assert (advice.strategy, advice.confidence) == ("ml", "undecided")


def test_recalibration_is_recommended_where_outcomes_are_at_hand_and_help():
    advice = Advice("like")
    helps = curve({0: np.zeros(10), 10: np.full(10, 0.08), 20: np.linspace(0.05, 0.25, 10)})
    found = with_labels(advice, [helps], 20)
    assert (found.strategy, found.confidence, found.labels) == ("recalibrate", "clear", 20)
    assert found.gain == pytest.approx(0.15)
    assert found.headline == "Recalibrate the model with your 20 outcomes"
    assert with_labels(advice, [helps], 15).gain == pytest.approx(0.08)  # the most that was tried
    assert with_labels(advice, [], 20) is advice


@pytest.mark.parametrize(
    "gains",
    [np.full(10, 0.005), np.array([0.9, -0.6, 0.8, -0.7, 0.5, -0.4, 0.1, 0.0, -0.1, -0.2]), np.full(3, 0.5)],
    ids=["too little", "not clear", "too few places"],
)
def test_recalibration_is_not_recommended_without_a_clear_gain(gains):
    found = with_labels(Advice("like"), [curve({20: gains})], 20)
    assert found.strategy == "ml"
    assert "ecalibration with" in found.reasons[-1]
    collecting = with_labels(Advice("like"), [curve({20: gains})], None)
    assert collecting.collect is None


def test_a_strategy_that_gains_more_is_not_replaced():
    anchored = Advice("further", "anchored", 10.0, "confident", gain=0.5)
    labels = curve({20: np.linspace(0.1, 0.3, 10)})
    assert with_labels(anchored, [labels], 20).strategy == "anchored"
    assert with_labels(anchored, [labels], None).collect is None
    better = curve({20: np.linspace(0.7, 0.9, 10)}, xi=10.0)
    found = with_labels(anchored, [labels, better], 20)
    assert (found.strategy, found.xi) == ("recalibrate", 10.0)
    assert found.headline == "Anchor with xi = 10, then recalibrate with your 20 outcomes"


def test_as_few_outcomes_as_bring_most_of_the_gain():
    gains = {
        0: np.zeros(10),
        5: np.full(10, 0.1),
        10: np.full(10, 0.17),
        20: np.full(10, 0.2),
        50: np.r_[np.full(4, 0.9), np.full(6, np.nan)],
    }
    found = with_labels(Advice("like"), [curve(gains)], None)
    assert (found.strategy, found.collect) == ("ml", 10)  # 50 were tried at 4 places only
    assert found.headline == "Keep maximum likelihood, and collect about 10 outcomes at the new place"
    anchored = Advice("further", "anchored", 3.0, "confident", gain=0.01)
    found = with_labels(anchored, [curve(gains)], None)  # of maximum likelihood
    assert (found.collect_xi, found.headline) == (
        0.0,
        "Anchor with xi = 3, until you have about 10 outcomes of the new place",
    )
    found = with_labels(anchored, [curve(gains, xi=3.0)], None)
    assert (found.collect_xi, found.headline) == (
        3.0,
        "Anchor with xi = 3, and collect about 10 outcomes at the new place",
    )


def test_an_answer_of_few_draws_is_called_fragile():
    assert Advice("like", stability=0.37).stability_sentence.endswith("37% of the draws: it depends on a few places.")
    assert Advice("like", stability=0.5).stability_sentence.endswith("50% of the draws.")


def test_the_answer_is_that_for_the_kind_of_place():
    near, far = Advice("like"), Advice("further", "anchored", 10.0, "confident", gain=0.3, interval=(0.1, 0.5))
    assert Recommendation("further", near, far).strategy == "anchored"
    assert Recommendation("like", near, far).strategy == "ml"
    both = Recommendation("both", near, far)
    assert (both.strategy, both.xi) == ("ml", 0.0)
    assert both.sentence == (
        "At a place like these: keep maximum likelihood. At a place further out: anchor with xi = 10."
    )
    record = both.to_dict()
    assert record["like"]["gain"] != record["like"]["gain"]  # not a number: the page leaves it out
    assert record["further"]["interval"] == [0.1, 0.5]


@pytest.mark.bug(
    "new place", "a strategy that failed at one place was dropped without a word, or recommended without a gain"
)
def test_places_where_a_fit_failed_are_left_out():
    rng = np.random.default_rng(0)
    gains = -0.2 + 0.05 * rng.normal(size=20)
    gains[3] = math.nan
    advice = advice_like(comparison({"anchored": gains, "equal": np.full(20, 0.1)}), {"anchored": Final()}, None)
    assert advice.strategy == "anchored"
    assert advice.gain == pytest.approx(-np.nanmean(gains))
    assert "19 of 19 left-out places" in advice.reasons[0]
    nowhere = advice_like(comparison({"anchored": np.full(20, math.nan)}), {}, None)
    assert nowhere.confidence == "untried"


@pytest.mark.bug(
    "new place", "tuned on all places a strategy may be maximum likelihood, and it said: anchor with xi = 0"
)
def test_a_strategy_that_becomes_maximum_likelihood():
    class Plain:
        xi_, widened_ = 0.0, 1.0

    rng = np.random.default_rng(0)
    found = comparison({"anchored": -0.2 + 0.05 * rng.normal(size=20)})
    advice = advice_like(found, {"anchored": Plain()}, None)
    assert (advice.strategy, advice.headline) == ("ml", "Keep maximum likelihood")
    assert "tuned on all places, it is maximum likelihood itself" in advice.reasons[-1]
    wide = Advice("like", "anchored+spread", 0.0, "clear", factor=1.4)
    assert wide.headline == "Keep maximum likelihood, and make predictions 1.4 times as wide"


@pytest.mark.bug("new place", "no outcomes were collected if only more of them gain more than the strategy")
def test_as_many_outcomes_as_beat_the_strategy():
    anchored = Advice("further", "anchored", 10.0, "confident", gain=0.3)
    found = with_labels(anchored, [curve({10: np.full(10, 0.29), 20: np.full(10, 0.35)})], None)
    assert (found.collect, found.collect_gain) == (20, pytest.approx(0.35))


@pytest.mark.bug(
    "new place", "many outcomes were said to be worth collecting because large places gain more than others"
)
def test_numbers_of_outcomes_are_compared_at_the_same_places():
    small, large = np.full(6, 0.1), np.full(6, 0.5)  # the small places cannot try 50 outcomes
    gains = {10: np.r_[small, large], 50: np.r_[np.full(6, np.nan), large + 0.02]}
    found = with_labels(Advice("like"), [curve(gains)], None)
    assert found.collect == 10
    assert found.collect_gain == pytest.approx(0.3)


def test_the_fit_that_outcomes_recalibrate_is_named():
    plain, anchored = curve({10: np.full(8, 0.4)}), curve({10: np.full(8, 0.5)}, xi=10.0)
    assert "recalibrate the fit by maximum likelihood" in with_labels(Advice("like"), [plain], None).reasons[-1]
    assert "recalibrate the fit at xi = 10" in with_labels(Advice("like"), [plain, anchored], None).reasons[-1]


@pytest.mark.bug("new place", "one outcome was said to be '1 outcomes'")
def test_one_outcome():
    found = with_labels(Advice("like"), [curve({1: np.linspace(0.1, 0.2, 10)})], 1)
    assert found.headline == "Recalibrate the model with your 1 outcome"
