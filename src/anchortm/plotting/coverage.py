"""Pictures of how many rows of each place lie in their sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._typing import Axis
from anchortm.plotting.style import COLOURS, new_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["coverage"]

MOST_NAMED = 40  # places that are all named on the axis


def coverage(frame: pd.DataFrame, level: float, ax: Axis = None, *, label: int = 3, sets: str = "intervals") -> Axes:
    """Draw the share of rows of each place that lies in conformal sets and in the model's own intervals.

    The area of a point is that of its place in rows. Places are ordered by the coverage of the model alone. If they are
    many, those whose rows are all covered by both are left out; the axis says how many these are.

    Parameters
    ----------
    frame : DataFrame
        As ``PlaceCoverage.frame`` returns it.
    level : float
        Share of rows that the sets are to cover.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    label : int
        How many places to name if they are many: those with the least coverage.
    sets : str
        What the sets are called.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> predictor = atm.ConformalPredictor(atm.ContinuousProbit()).fit("cmedv ~ rm + lstat | town", data)
    >>> found = predictor.coverage_by_place()
    >>> ax = atm.plotting.coverage(found.frame(), 0.9)  # the same as found.plot()
    >>> ax.get_xlabel()
    'share of rows in 90 % intervals'
    >>> plt.close(ax.figure)
    """
    largest, n_places = float(frame["n"].max()), len(frame)
    frame = frame.sort_values(["model", "coverage"], ascending=False, kind="stable")
    if n_places > MOST_NAMED and (frame[["model", "coverage"]].min(axis=1) < 1.0).any():
        frame = frame[frame[["model", "coverage"]].min(axis=1) < 1.0]
    frame = frame.reset_index(drop=True)
    ax = new_axes(ax, figsize=(6.5, max(3.2, min(7.5, 0.2 * len(frame) + 1.2))))
    y, sizes = np.arange(len(frame)), 12.0 + 90.0 * frame["n"].to_numpy() / largest
    ax.axvline(level, color="black", linewidth=1)
    ax.hlines(y, frame["model"], frame["coverage"], color="0.75", linewidth=1, zorder=1)
    points: dict[str, Any] = {"edgecolors": COLOURS[1], "facecolors": "none", "marker": "D", "linewidths": 1.2}
    ax.scatter(frame["model"], y, sizes, label="the model alone", zorder=2, **points)
    ax.scatter(frame["coverage"], y, sizes, color=COLOURS[0], label=f"conformal {sets}", zorder=3)
    _names(ax, frame, label)
    ax.set(
        xlabel=f"share of rows in {100 * level:g} % {sets}",
        ylabel="place (rows)" + (f"; {n_places - len(frame)} more: all covered" if n_places > len(frame) else ""),
        xlim=(-0.03, 1.03),
        ylim=(-0.8, len(frame) - 0.2),
    )
    legend: Any = ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)
    for handle in legend.legend_handles:
        handle.set_sizes([40.0])  # whatever the first place has
    return ax


def _names(ax: Any, frame: pd.DataFrame, label: int) -> None:
    """Name the places: all if they are few, else those with the least coverage, by the sets or by the model."""
    words = [f"{place} ({n:g})" for place, n in zip(frame["environment"], frame["n"], strict=True)]
    if len(frame) <= MOST_NAMED:
        ax.set_yticks(range(len(frame)), words, fontsize="small")
        return
    hardest = [*frame["coverage"].nsmallest(label).index, *frame["model"].nsmallest(label).index]
    at: list[int] = []
    for k in dict.fromkeys(hardest):  # names must not overlap
        if all(abs(k - other) > 0.025 * len(frame) for other in at):
            at.append(k)
    ax.set_yticks(at, [words[k] for k in at], fontsize="small")
