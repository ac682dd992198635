"""What the survey concludes from results with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from survey.made_up import record

from anchortm.survey import conclusions, thresholds
from anchortm.survey.findings import STRATEGIES, Findings, interval, rank_correlation
from anchortm.survey.page import load, save, write

ANCHORED = STRATEGIES["anchored"]


def many() -> Findings:
    """Ten data sets on which anchoring gains 0.1 by location, ten on which it loses 0.02, one that was seen."""
    good = [
        record(f"good {k}", {"anchored": 0.1, "widened": 0.001}, p=0.01, width=0.2, r2=0.9, few=(0.0, 0.05, 0.5))
        for k in range(10)
    ]
    bad = [record(f"bad {k}", {"anchored": -0.02, "widened": 0.03}, width=0.9) for k in range(10)]
    return Findings([*good, *bad, record("seen", {"anchored": 9.0}, seen=True), {"name": "x", "left_out": "too small"}])


def test_the_summary_counts_data_sets_and_leaves_seen_ones_out() -> None:
    own = many().summary("like").loc[ANCHORED]
    assert (own["sets"], own["better"], own["worse"]) == (20, 10, 10)
    assert (own["clearly better"], own["clearly worse"]) == (10, 0)
    assert own["mean"] == pytest.approx(0.04)
    assert own["crps"] == pytest.approx(-0.4)  # the median of -1 and 0.2 percent
    assert own["worst"].startswith("bad")
    assert many().summary("further").loc[ANCHORED, "mean"] == pytest.approx(0.08)


def test_location_and_width() -> None:
    own = many().width().set_index(["strategy", "design"])
    assert own.loc[(ANCHORED, "like"), ["gains on", "mostly width"]].tolist() == [10, 0]
    assert own.loc[(STRATEGIES["widened"], "like"), ["gains on", "mostly width"]].tolist() == [10, 10]


def test_labels_against_the_best_strategy() -> None:
    own = many().labels()
    assert own.loc["good 0"].tolist() == [0.1, 0.0, 0.05, 0.5]
    assert own.loc["bad 0", "best without"] == 0.03


def test_near_and_far() -> None:
    own = many().near_far().loc[ANCHORED]
    assert own["far"] == pytest.approx(0.12)
    assert own["difference"] == pytest.approx(0.12)


def test_hard_environments() -> None:
    own = many().hard().set_index(["strategy", "measure"])
    assert own.loc[(ANCHORED, "q90"), ["sets", "better", "worse"]].tolist() == [20, 10, 10]
    assert own.loc[(ANCHORED, "q90"), "mean"] == pytest.approx(0.04)
    assert own.loc[(STRATEGIES["widened"], "worst"), ["better", "worse"]].tolist() == [0, 0]


def test_what_predicts_gains() -> None:
    own = many().predictors().set_index(["design", "diagnostic"])["predicts"]
    assert own.groupby("design").sum().to_dict() == {"like": 2, "further": 2}  # R2 and its p-value, which differ
    alarm = many().alarm().set_index(["design", "positive"])
    assert alarm.loc[("like", True), ["size", "better", "worse"]].tolist() == [10, 10, 0]
    assert alarm.loc[("like", False), ["size", "better", "worse"]].tolist() == [10, 0, 10]


def test_advice() -> None:
    found = Findings([record("a", {"anchored": 0.2}, advice="anchored"), record("b", {"widened": 0.3})])
    own = found.advice().set_index("data")
    assert own["gain"].tolist() == [0.2, 0.0]
    assert own["best"].tolist() == [0.2, 0.3]


def test_intervals_are_bootstrap_intervals() -> None:
    x = np.random.default_rng(1).normal(size=200)
    low, high = interval(x)
    error = x.std(ddof=1) / np.sqrt(200)
    assert low == pytest.approx(x.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(x.mean() + 1.96 * error, abs=0.15 * error)
    assert all(np.isnan(interval(x[:5])))


def test_rank_correlations() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 8, 60).astype(float)  # with ties
    y = x + 3.0 * rng.normal(size=60)
    rho, low, high, n = rank_correlation([*x, np.nan], [*y, 1.0])
    assert rho == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    assert low < rho < high
    assert n == 60


def test_conclusions_follow_the_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(conclusions.conclusions(many()))
    assert "tuned anchoring gains (+0.0400 per row" in text
    assert "better than maximum likelihood on 10 of 20 data sets and worse on 10" in text
    monkeypatch.setattr(thresholds, "GAIN", 0.05)
    assert "better than maximum likelihood on 10 of 20 data sets and worse on 0" in str(conclusions.conclusions(many()))


def test_the_page_has_everything(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    found = many()
    kept = load(save(found.records, tmp_path / "survey.jsonl"))
    assert kept == found.records
    text = write(kept, tmp_path / "page.md", tmp_path, "pictures/")
    assert (tmp_path / "page.md").read_text() == text
    assert text.count(".png)") == len(list(tmp_path.glob("*.png"))) == 4
    assert "on 21 published data sets" in text
    assert "- x: too small" in text
    assert "nan" not in text
