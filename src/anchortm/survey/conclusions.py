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
        ("For those who choose xi", [*_choosing(found), *_hard(found), *_predictors(found), *_alarm(found)]),
        ("What the tools promise", [*_advice(found), *_conformal(found)]),
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
    return f"loses ({span})" if ends[1] < 0.0 else f"neither gains nor loses by more than chance ({span})"


def _gains(found: Findings) -> list[str]:
    lines = []
    for design, where in WHERE.items():
        table = found.summary(design)
        own = table.loc[ANCHORED]
        text = (
            f"**{where}**, tuned anchoring {_verdict(own['mean'], own['interval'])}. It is better than maximum likelihood on "
            f"{own['better']} of {own['sets']} data sets and worse on {own['worse']}"
        )
        clear = f"; more than chance are {own['clearly better']} gains and {own['clearly worse']} losses"
        best = table.drop(index="scikit-learn's gradient boosting", errors="ignore")["mean"]
        row = table.loc[best.idxmax()]
        most = f" The largest mean gain has *{best.idxmax()}*, which {_verdict(row['mean'], row['interval'])}."
        lines.append(text + (clear if design == "like" else "") + "." + most)
    return lines


def _near_far(found: Findings) -> list[str]:
    table = found.near_far()
    parts = []
    for name in ("widened", "anchored", "anchored(3)", "random-intercept", "boosted"):
        row = table.loc[STRATEGIES[name]]
        low, high = row["interval"]
        sure = "more" if low > 0.0 else "less" if high < 0.0 else "neither more nor less, beyond chance,"
        parts.append(f"*{STRATEGIES[name]}* gains {sure} at far ones ({row['near']:+.3f} near, {row['far']:+.3f} far)")
    return [f"**Near and far environments**, of those left out one after another: {'; '.join(parts)}."]


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
            f"**Width.** {where}, wider predictions bring more than half of the gain on {share}. Against maximum likelihood "
            f"with a tuned width, tuned anchoring {_verdict(mean, ends)}."
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
            f"{m} outcomes gain {gain.mean():+.3f} on average (median {gain.median():+.3f}), more than the best strategy that needs "
            f"none on {int(more.sum())} of {len(own)} data sets and less on {int(less.sum())}"
        )
    return [f"**Outcomes of the new place.** {'; '.join(parts)}. The best strategy is picked after the fact here."]


def _choosing(found: Findings) -> list[str]:
    lines = []
    for design, where in WHERE.items():
        own = []
        for name in ("anchored, by the mean", "anchored(3)", "anchored+spread"):
            mean, ends = _paired(found, design, name, "anchored")
            own.append(f"*{STRATEGIES[name]}* {_verdict(mean, ends)}")
        lines.append(f"{where}, compared with xi chosen by the default rule: {'; '.join(own)}.")
    return lines


def _hard(found: Findings) -> list[str]:
    table = found.hard().set_index(["strategy", "measure"])
    parts = []
    for name in ("widened", "anchored", "anchored, by the mean"):
        row = table.loc[(STRATEGIES[name], "q90")]
        parts.append(
            f"*{STRATEGIES[name]}* {_verdict(row['mean'], row['interval'])}, better on {row['better']} and worse on {row['worse']}"
        )
    return [
        f"At the hard environments of each data set, by the 90 % quantile of the loss over environments left out: {'; '.join(parts)}."
    ]


def _predictors(found: Findings) -> list[str]:
    table = found.predictors()
    lines = []
    for design, where in WHERE.items():
        own = table[(table["design"] == design) & table["predicts"]]
        if own.empty:
            lines.append(f"{where}, nothing that we tried ranks data sets by what anchoring gains on them.")
            continue
        named = [f"{row['diagnostic']} ({row['rho']:+.2f})" for _, row in own.iterrows()]
        lines.append(f"{where}, the gain of anchoring goes with: {'; '.join(named)} (rank correlations).")
    return lines


def _alarm(found: Findings) -> list[str]:
    table = found.alarm()
    lines = []
    for design, where in WHERE.items():
        own = table[table["design"] == design].set_index("positive")
        yes, no = (own.loc[value] if value in own.index else None for value in (True, False))
        if yes is None or no is None:
            continue
        gap = f"{int(yes['better'])} of {int(yes['size'])} data sets, and on {int(no['better'])} of {int(no['size'])} otherwise"
        lines.append(
            f"Does the location diagnostic hold up on data it was not found on? {where}, anchoring gains where it is positive on {gap}; "
            f"mean gains {yes['mean']:+.3f} and {no['mean']:+.3f}."
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
        acted = f"It advises something else than maximum likelihood {len(other)} times of {len(own)}"
        if len(other):
            gains = other["gain"].dropna()
            acted += f"; this gains {int((gains > 0.0).sum())} times and {gains.mean():+.3f} per row on average"
        missed = own[(own["strategy"] == "ml") & (own["best"] > limit.GAIN)]
        kept = own[own["strategy"] == "ml"]
        few = own["recalibrated"].dropna()
        lines.append(
            f"`assess`, with places {where}: {acted}. Where it keeps maximum likelihood, some strategy would have gained more than "
            f"{limit.GAIN:g} {len(missed)} times of {len(kept)}, as seen afterwards ({_picked(kept)}). A few outcomes of the held-back places would "
            f"have gained {few.mean():+.3f} on average."
        )
    return lines


def _picked(kept: pd.DataFrame) -> str:
    """Return what always taking one strategy would have brought where maximum likelihood was kept."""
    names = ("widened", "anchored", "anchored+spread")
    return "always taking " + ", ".join(f"{STRATEGIES[name]} brings {kept[name].mean():+.3f}" for name in names)


def _conformal(found: Findings) -> list[str]:
    own = found.conformal()
    finite = own[own["infinite"] == 0.0]
    ends = interval(finite["coverage"])
    kept: Any = finite["coverage"].mean() >= LEVEL - limit.COVERED
    word = "keep their promise" if kept else "do not keep their promise"
    less = len(own) - len(finite)
    few = f" On {less} data sets there are too few environments, so that some sets are infinite." if less else ""
    return [
        f"Conformal sets {word}: they cover {percent(float(finite['coverage'].mean()))} of the rows of new environments on average over "
        f"{len(finite)} data sets ({limit.INTERVAL:.0%} interval {percent(ends[0])} to {percent(ends[1])}; promised {percent(LEVEL)}), the model's own "
        f"intervals {percent(float(finite['model'].mean()))}.{few}",
        f"The coverage of the sets is below {percent(LEVEL - 0.1)} on {int(np.sum(finite['coverage'] < LEVEL - 0.1))} data sets, that of the model's own "
        f"intervals on {int(np.sum(finite['model'] < LEVEL - 0.1))}.",
    ]
