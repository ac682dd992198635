"""The style of the paper's figures: thin lines for runs, a thick line for their median, panels side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.plotting.style import COLOURS, STYLES
from anchortm.reproduce.engine import ALPHAS

__all__ = ["boxes", "curves", "panels"]

Array = NDArray[np.float64]
MOST_LINES = 100  # number of thin lines


def panels(rows: int = 1, columns: int = 2, width: float = 4.6, height: float = 3.8, **options: Any) -> tuple[Any, Any]:
    """Return a figure that is not registered with pyplot, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def curves(ax: Any, values: Array, labels: list[str], ylabel: str, *, log: bool = False) -> None:
    """Draw pointwise medians of quantile curves (runs, labels, alphas); with one or two models, all runs as well."""
    for k, label in enumerate(labels):
        colour, style = COLOURS[k % len(COLOURS)], STYLES[k % len(STYLES)]
        if len(labels) <= 2:  # with more models, the runs would hide the medians
            ax.plot(ALPHAS, values[:MOST_LINES, k].T, color=colour, alpha=0.08, linewidth=0.6)
        ax.plot(ALPHAS, np.median(values[:, k], axis=0), style, color=colour, linewidth=2.2, label=label)
    ax.set(xlabel="alpha", ylabel=ylabel)
    if log:
        ax.set_yscale("log")
    ax.legend(frameon=False, loc="upper left", fontsize="small")


def boxes(ax: Any, values: Array, labels: list[str], xlabel: str, ylabel: str, truth: float | None = None) -> None:
    """Draw a box for each column of ``values`` (runs, labels)."""
    ax.boxplot(values, widths=0.6, medianprops={"color": "black"}, flierprops={"markersize": 2})
    ax.set_xticks(range(1, len(labels) + 1), labels)  # the argument of boxplot has been renamed by matplotlib
    if truth is not None:
        ax.axhline(truth, color="0.3", linestyle="--", linewidth=1)
    ax.set(xlabel=xlabel, ylabel=ylabel)
