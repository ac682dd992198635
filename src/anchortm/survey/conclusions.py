"""The conclusions of the survey in words, each computed from the results by the stated thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from anchortm.survey import thresholds as limit
from anchortm.survey.findings import STRATEGIES, Findings, interval
from anchortm.survey.measuring import LABELS, LEVEL

__all__ = ["conclusions", "percent"]

WHERE = {"like": "At a place like these", "further": "At a place further out"}
ANCHORED = STRATEGIES["anchored"]


def conclusions(found: Findings) -> list[tuple[str, list[str]]]:
    """Return the conclusions: pairs of a heading and its sentences."""
    return [
        ("The short answer", [*_gains(found), *_near_far(found), *_width(found), *_labels(found)]),
        ("If you choose xi", [*_choosing(found), *_hard(found), *_predictors(found), *_alarm(found)]),
        ("Do `assess` and conformal sets work?", [*_advice(found), *_conformal(found)]),
    ]


def percent(share: float) -> str:
    """Return a share in percent; empty if it is not known."""
    return "" if pd.isna(share) else f"{100.0 * share:.0f} %"


def _verdict(mean: float, ends: tuple[float, float]) -> str:
    """Return what a mean with its interval says."""
    low, middle, high = (f"{round(value, 4) + 0.0:+.4f}" for value in (ends[0], mean, ends[1]))
    span = f"{middle} per row on average, {limit.INTERVAL:.0%} interval {low} to {high}"
    if ends[0] > 0.0:
        return f"gains ({span})"
    return f"loses ({span})" if ends[1] < 0.0 else f"neither clearly gains nor loses ({span})"


def _gains(found: Findings) -> list[str]:
    lines = []
    for design, where in WHERE.items():
        table = found.summary(design)
        own = table.loc[ANCHORED]
        text = (
            f"**{where}**, tuned anchoring {_verdict(own['mean'], own['interval'])}. It is better than maximum likelihood on "
            f"{own['better']} of {own['sets']} data sets and worse on {own['worse']}"
        )
        clear = (
            f"; {own['clearly better']} of these gains and {own['clearly worse']} of these losses are more than chance"
        )
        best = table.drop(index="scikit-learn's gradient boosting", errors="ignore")["mean"]
        row = table.loc[best.idxmax()]
        most = (
            f" *{best.idxmax().capitalize()}* has the largest mean gain; it {_verdict(row['mean'], row['interval'])}."
        )
        lines.append(text + (clear if design == "like" else "") + "." + most)
    return lines


def _near_far(found: Findings) -> list[str]:
    table = found.near_far()
    parts = []
    for name in ("widened", "anchored", "anchored(3)", "random-intercept", "boosted"):
        row = table.loc[STRATEGIES[name]]
        low, high = row["interval"]
        more = "gains more at far environments"
        less = "gains less at far environments"
        sure = more if low > 0.0 else less if high < 0.0 else "shows no clear difference"
        parts.append(f"*{STRATEGIES[name]}* {sure} ({row['near']:+.3f} near, {row['far']:+.3f} far)")
    return [f"**Near and far environments**, left out one at a time: {'; '.join(parts)}."]


def _paired(found: Findings, design: str, first: str, second: str) -> tuple[float, tuple[float, float]]:
    """Return the mean difference of the gains of two strategies over data sets, with its interval."""
    table = found.table(design)
    difference = (table[first] - table[second]).dropna()
    return float(difference.mean()), interval(difference)


def _width(found: Findings) -> list[str]:
    table = found.width()
    lines = []
    for design, where in WHERE.items():
        own = table[(table["design"] == design) & (table["strategy"] == ANCHORED)].iloc[0]
        mean, ends = _paired(found, design, "anchored", "widened")
        share = f"{own['mostly width']} of the {own['gains on']} data sets on which anchoring gains"
        lines.append(
            f"**Width.** {where}, wider predictions alone bring more than half of the gain on {share}. Compared with maximum "
            f"likelihood with a tuned width, tuned anchoring {_verdict(mean, ends)}."
        )
    return lines


def _labels(found: Findings) -> list[str]:
    table = found.labels()
    parts = []
    for m in LABELS[1:]:
        own = table[["best without", f"{m} outcomes"]].dropna()
        more = own[f"{m} outcomes"] > own["best without"] + limit.GAIN
        less = own[f"{m} outcomes"] < own["best without"] - limit.GAIN
        gain = own[f"{m} outcomes"]
        parts.append(
            f"{m} outcomes gain {gain.mean():+.3f} on average (median {gain.median():+.3f}). They gain more than the best strategy "
            f"without outcomes on {int(more.sum())} of {len(own)} data sets, and less on {int(less.sum())}."
        )
    return [f"**Outcomes of the new place.** {' '.join(parts)} Here the best strategy is picked after the fact."]


def _choosing(found: Findings) -> list[str]:
    lines = []
    for design, where in WHERE.items():
        own = []
        for name in ("anchored, by the mean", "anchored(3)", "anchored+spread"):
            mean, ends = _paired(found, design, name, "anchored")
            own.append(f"*{STRATEGIES[name]}* {_verdict(mean, ends)}")
        lines.append(f"{where}, compared with anchoring at the xi of the default rule: {'; '.join(own)}.")
    return lines


def _hard(found: Findings) -> list[str]:
    table = found.hard().set_index(["strategy", "measure"])
    parts = []
    for name in ("widened", "anchored", "anchored, by the mean"):
        row = table.loc[(STRATEGIES[name], "q90")]
        parts.append(
            f"*{STRATEGIES[name]}* {_verdict(row['mean'], row['interval'])}, and is better on {row['better']} and worse on {row['worse']} of "
            "the data sets"
        )
    return [
        f"At hard environments, measured by the 90 % quantile of the loss over the left-out environments: {'; '.join(parts)}."
    ]


def _predictors(found: Findings) -> list[str]:
    table = found.predictors()
    lines = []
    for design, where in WHERE.items():
        own = table[(table["design"] == design) & table["predicts"]]
        if own.empty:
            lines.append(f"{where}, nothing that we tried predicts on which data sets anchoring gains.")
            continue
        named = [f"{row['diagnostic']} ({row['rho']:+.2f})" for _, row in own.iterrows()]
        lines.append(f"{where}, the gain of anchoring is correlated with: {'; '.join(named)} (rank correlations).")
    return lines


def _alarm(found: Findings) -> list[str]:
    table = found.alarm()
    lines = []
    for design, where in WHERE.items():
        own = table[table["design"] == design].set_index("positive")
        yes, no = (own.loc[value] if value in own.index else None for value in (True, False))
        if yes is None or no is None:
            continue
        lines.append(
            f"Does the location diagnostic work on data that we did not develop it on? {where}, anchoring gains on {int(yes['better'])} of "
            f"{int(yes['size'])} data sets where the diagnostic is positive (mean gain {yes['mean']:+.3f}), and on {int(no['better'])} of "
            f"{int(no['size'])} data sets where it is not ({no['mean']:+.3f})."
        )
    return lines


def _advice(found: Findings) -> list[str]:
    table = found.advice()
    lines = []
    for held, where in (("like", "held back at random"), ("further", "held back because they are furthest")):
        own = table[table["held back"] == held]
        if own.empty:
            continue
        other = own[own["strategy"] != "ml"]
        acted = f"In {len(other)} of {len(own)} cases it advises something other than maximum likelihood"
        if len(other):
            gains = other["gain"].dropna()
            much = int((gains > limit.GAIN).sum())
            acted += (
                f"; this gains more than {limit.GAIN:g} in {much} of them, and {gains.mean():+.3f} per row on average"
            )
        missed = own[(own["strategy"] == "ml") & (own["best"] > limit.GAIN)]
        kept = own[own["strategy"] == "ml"]
        few = own["recalibrated"].dropna()
        lines.append(
            f"**Advice of `assess`, for places {where}.** {acted}. In {len(missed)} of the {len(kept)} cases in which it keeps maximum likelihood, "
            f"some strategy would have gained more than {limit.GAIN:g}, as we know afterwards ({_picked(kept)}). A few outcomes of the held-back "
            f"places would have gained {few.mean():+.3f} on average."
        )
    return lines


def _picked(kept: pd.DataFrame) -> str:
    """Return what always taking one strategy would have brought where maximum likelihood was kept."""
    names = ("widened", "anchored", "anchored+spread")
    return "using one strategy every time would bring: " + ", ".join(
        f"*{STRATEGIES[name]}* {kept[name].mean():+.3f}" for name in names
    )


def _conformal(found: Findings) -> list[str]:
    own = found.conformal()
    finite = own[own["infinite"] == 0.0]
    ends = interval(finite["coverage"])
    kept: Any = finite["coverage"].mean() >= LEVEL - limit.COVERED
    word = "keep their promise" if kept else "do not keep their promise"
    less = len(own) - len(finite)
    few = f" On {less} more data sets there are too few environments, so some sets are infinite." if less else ""
    return [
        f"**Conformal sets** {word}: they cover {percent(float(finite['coverage'].mean()))} of the rows of new environments on average over "
        f"{len(finite)} data sets ({limit.INTERVAL:.0%} interval {percent(ends[0])} to {percent(ends[1])}; promised {percent(LEVEL)}). The model's own "
        f"intervals cover {percent(float(finite['model'].mean()))}.{few}",
        f"Coverage is below {percent(LEVEL - 0.1)} on {int(np.sum(finite['coverage'] < LEVEL - 0.1))} data sets for the conformal sets, and on "
        f"{int(np.sum(finite['model'] < LEVEL - 0.1))} for the model's own intervals.",
    ]
