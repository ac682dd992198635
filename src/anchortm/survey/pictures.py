"""The pictures of the survey."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from anchortm.plotting.style import STRATEGIES as LOOKS
from anchortm.plotting.style import pyplot
from anchortm.survey import thresholds as limit
from anchortm.survey.findings import STRATEGIES, Findings
from anchortm.survey.measuring import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURES"]

DESIGNS = {"like": "one environment left out", "further": "the outermost left out"}
EDGE = 1.0  # gains beyond are drawn at the edge
GREY, MEDIAN = "#666666", "black"
GAIN = "gain over maximum likelihood,\nlog-likelihood per row"


def by_strategy(found: Findings) -> Figure:
    """Draw the gain of each strategy on each data set, in both designs."""
    figure, axes = pyplot().subplots(1, 2, figsize=(9.5, 4.6), sharey=True, layout="constrained")
    names = [name for name in STRATEGIES if name in found.table("like") and name != "gradient boosting"]
    rng = np.random.default_rng(0)
    for ax, (design, title) in zip(axes, DESIGNS.items(), strict=True):
        gains = found.table(design)
        for k, name in enumerate(reversed(names)):
            own = gains[name].dropna()
            own_y = k + rng.uniform(-0.18, 0.18, len(own))
            ax.scatter(own.clip(-EDGE, EDGE), own_y, 14, color=_colour(name), alpha=0.5, linewidths=0)
            ax.plot([own.median()] * 2, [k - 0.33, k + 0.33], color=MEDIAN, linewidth=2)
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xscale("symlog", linthresh=limit.GAIN)
        ax.set(xlim=(-1.25 * EDGE, 1.25 * EDGE), title=f"{title} ({len(gains)} data sets)", xlabel=GAIN)
        _plain(ax)
    axes[0].set_yticks(range(len(names)), [STRATEGIES[name] for name in reversed(names)])
    return cast("Figure", figure)


def near_far(found: Findings) -> Figure:
    """Draw the mean gains at near and at far environments."""
    table = found.near_far().drop(index=STRATEGIES["gradient boosting"], errors="ignore").iloc[::-1]
    figure, ax = pyplot().subplots(figsize=(8.0, 4.6), layout="constrained")
    y = np.arange(len(table))
    ax.hlines(y, table["near"], table["far"], color="0.75", linewidth=1.5, zorder=1)
    colours = [_colour(name) for title in table.index for name, own in STRATEGIES.items() if own == title]
    ax.scatter(table["near"], y, 45, facecolors="white", edgecolors=colours, linewidths=1.5, zorder=2)
    ax.scatter(table["far"], y, 45, color=colours, zorder=2)
    ax.scatter(
        [], [], 45, facecolors="white", edgecolors=GREY, linewidths=1.5, label="the two thirds nearest to all rows"
    )
    ax.scatter([], [], 45, color=GREY, label="the third furthest away")
    ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(y, table.index)
    ax.set_xlabel(f"mean {GAIN}")
    figure.legend(title="environments, by their mean covariates", frameon=False, loc="outside lower center", ncols=2)
    return cast("Figure", figure)


def width(found: Findings) -> Figure:
    """Draw what anchoring gains against what the same width gains at the location of maximum likelihood."""
    figure, axes = pyplot().subplots(1, 2, figsize=(9.0, 4.4), layout="constrained", sharex=True, sharey=True)
    for ax, (design, title) in zip(axes, DESIGNS.items(), strict=True):
        gain, own = found.table(design)["anchored"], found.table(design, "width_gain")["anchored"]
        ax.plot([-EDGE, EDGE], [-EDGE, EDGE], color="0.6", linewidth=0.8, zorder=0)
        ax.scatter(
            gain.clip(-EDGE, EDGE), own.clip(-EDGE, EDGE), 22, color=LOOKS["anchored"][0], alpha=0.6, linewidths=0
        )
        for name in gain.abs().nlargest(3).index:
            _name(ax, name, gain[name], own[name])
        for scale in (ax.set_xscale, ax.set_yscale):
            scale("symlog", linthresh=limit.GAIN)
        ax.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), title=title, xlabel=f"anchored: {GAIN}")
        _plain(ax)
        _plain(ax, "y")
    axes[0].set_ylabel("gain from the same width,\nlocation of maximum likelihood")
    return cast("Figure", figure)


def labels(found: Findings) -> Figure:
    """Draw what a few outcomes of the new place gain, beside the best strategy that needs none."""
    table = found.labels()
    columns = ["best without", *(f"{m} outcomes" for m in LABELS)]
    titles = ["best strategy without,\nchosen afterwards", *(f"recalibrated with\n{m} outcomes" for m in LABELS)]
    figure, ax = pyplot().subplots(figsize=(7.5, 4.2), layout="constrained")
    rng = np.random.default_rng(0)
    for k, column in enumerate(columns):
        own = table[column].dropna().clip(-EDGE, EDGE)
        colour = GREY if k == 0 else LOOKS["recalibrated"][0]
        ax.scatter(k + rng.uniform(-0.2, 0.2, len(own)), own, 16, color=colour, alpha=0.45, linewidths=0)
        ax.plot([k - 0.33, k + 0.33], [own.median()] * 2, color=MEDIAN, linewidth=2)
        ax.text(k, 1.25 * EDGE, f"{len(own)} data sets", ha="center", va="bottom", fontsize="small")
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yscale("symlog", linthresh=limit.GAIN)
    ax.set_ylim(-1.2 * EDGE, 1.2 * EDGE)
    _plain(ax, "y")
    ax.set_xticks(range(len(columns)), titles)
    ax.set_ylabel(GAIN)
    return cast("Figure", figure)


def _plain(ax: Any, axis: str = "x") -> None:
    """Write plain numbers on a symmetric logarithmic axis."""
    ticks = [-1.0, -0.1, -0.01, 0.0, 0.01, 0.1, 1.0]
    own = ax.xaxis if axis == "x" else ax.yaxis
    own.set_ticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    own.set_tick_params(which="minor", length=0)


def _name(ax: Any, name: str, x: float, y: float) -> None:
    if pd.isna(x) or pd.isna(y):
        return
    right = x < 0.0
    at = (float(np.clip(x, -EDGE, EDGE)), float(np.clip(y, -EDGE, EDGE)))
    move, side, height = ((6, 0), "left", "center") if right else ((0, -5), "right", "top")
    ax.annotate(name, at, move, textcoords="offset points", ha=side, va=height, fontsize="small")


def _colour(name: str) -> str:
    """Return the colour of a strategy; grey for those without one of their own."""
    own = "anchored" if name.startswith("anchored") else name
    return LOOKS[own][0] if own in LOOKS else GREY


PICTURES: dict[str, Callable[[Findings], Figure]] = {
    "survey_strategies": by_strategy,
    "survey_near_far": near_far,
    "survey_width": width,
    "survey_labels": labels,
}
