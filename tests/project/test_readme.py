"""Numbers on the front page are those of the survey and of the pages that it links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = " ".join((ROOT / "README.md").read_text().split())


def test_the_numbers_of_the_survey() -> None:
    pytest.importorskip("matplotlib")
    from anchortm.survey.findings import STRATEGIES, Findings
    from anchortm.survey.page import load

    found = Findings(load(ROOT / "docs" / "evidence" / "survey.jsonl"))
    like, further = (found.summary(design).loc[STRATEGIES["anchored"]] for design in ("like", "further"))
    few = found.labels()[["best without", "20 outcomes"]].dropna()
    more = int((few["20 outcomes"] - few["best without"] > 0.01).sum())
    assert f"survey of {len(found.measured)} published data sets" in README
    assert f"On {like['sets']} published data sets that we had not seen before" in README
    assert f"better than maximum likelihood on {like['better']}, worse on {like['worse']} and about as well" in README
    assert f"{further['better']} better and {further['worse']} worse on {further['sets']} data sets" in README
    assert more > max(like["better"], further["better"])  # outcomes help more often


def test_the_numbers_of_the_lead_picture() -> None:
    """They are printed, and tested, on the page about choosing xi."""
    page = (ROOT / "docs" / "choosing_xi.md").read_text()
    for name, words in (
        ("maximum likelihood", "602 dollars off on average, and 90 % intervals hold 47 %"),
        ("anchored, xi = 10", "340 dollars off, and they hold 87 %"),
        ("month as a covariate", "194 dollars, 92 %"),
    ):
        (error, share) = re.search(rf"{name} +error (\d+) dollars.*intervals hold (\d+)%", page).groups()  # type: ignore[union-attr]
        assert f"{error} dollars" in words
        assert f"{share} %" in words
        assert words in README


def test_what_choosing_xi_and_assess_say_of_the_survey() -> None:
    pytest.importorskip("matplotlib")
    from anchortm.survey.findings import STRATEGIES, Findings
    from anchortm.survey.page import load

    found = Findings(load(ROOT / "docs" / "evidence" / "survey.jsonl"))
    text = " ".join((ROOT / "docs" / "choosing_xi.md").read_text().split())
    like, hard = found.summary("like"), found.hard().set_index(["strategy", "measure"])
    assert f"cost {-like.loc[STRATEGIES['anchored'], 'mean']:.3f} in log-likelihood per row" in text
    assert abs(like.loc[STRATEGIES["anchored, by the mean"], "mean"]) < 5e-4
    widened, anchored = (hard.loc[(STRATEGIES[name], "q90")] for name in ("widened", "anchored"))
    assert f"`calibrate_spread` gained {widened['mean']:.3f} per row, beyond chance" in text
    assert widened["interval"][0] > 0.0 > anchored["interval"][0]
    assert f"anchoring with the default rule {anchored['mean']:.3f}, which may be chance" in text
    advice = found.advice()
    far, some = (advice[advice["held back"] == which] for which in ("further", "like"))
    acted, kept = far[far["strategy"] != "ml"], far[far["strategy"] == "ml"]
    assert (len(far), len(acted), int((acted["gain"] > 0.0).sum())) == (47, 2, 2)
    assert f"of {len(far)} times, it did so twice, and both gained" in text
    assert (some["strategy"] == "ml").all()
    assert some["anchored"].mean() < 0.0 > some["widened"].mean()
    text = " ".join((ROOT / "docs" / "guide" / "assess.md").read_text().split())
    missed = int((kept["best"] > 0.01).sum())
    assert f"more than 0.01 in {missed} of the other {len(kept)}" in text
