"""Survival curves by group that end at the last follow-up, with the numbers at risk under the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Axis, Labels, Outcome, Table
from anchortm._util.checks import real_numbers
from anchortm._util.frames import grouped, is_frame, native
from anchortm.exceptions import InputError
from anchortm.inputs.response import Response, as_response
from anchortm.plotting.predictions import CURVE, STEPS, band, curves
from anchortm.plotting.results import Band, Model, Predicted
from anchortm.plotting.style import new_axes, outcome_label, outside_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["survival"]

POINTS = 300  # of a smooth curve
VALUES = 1_000_000  # of curves that are in memory at once
FIRST, LINE, ASIDE = 44.0, 13.0, -20.0  # places of the numbers below and of the names beside the axis, in points
MANY = 4  # groups beyond which the legend stands beside the picture


def survival(
    result: Predicted | Band | Model,
    y: Outcome | Table,
    by: Labels | None = None,
    ax: Axis = None,
    *,
    grid: ArrayLike | None = None,
    unit: str | None = None,
    at_risk: bool = True,
) -> Axes:
    """Draw predicted survival by group, dashed beyond its last follow-up, with the numbers at risk under the axis.

    Parameters
    ----------
    result : predicted distributions or ConfidenceBand of "sf"
        With a row for each row of ``y``, the curve of a group is the average over its rows. With a row for each group,
        in the order of the groups, curves are drawn as they are; a band must be of this kind. Or a model that was
        fitted by a formula, and its table in the place of y: ``survival(model, data, by="treat")``.
    y : Response
        The times of the data, from ``Surv``.
    by : array, or name of a column of the table, optional
        The group of each row of ``y``: levels of a categorical in its order, others sorted.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    grid : array, optional
        Times to draw predicted distributions at; by default up to the last follow-up of all groups.
    unit : str, optional
        Label of the axis of time; by default the name of the outcome.
    at_risk : bool
        Whether to write under the axis how many rows are at risk: under observation, and not known to have had an
        event before.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
    >>> ax = atm.plotting.survival(model, data, by="treat", unit="days")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('days', 'P(Y > y)')
    >>> plt.close(ax.figure)
    """
    table = y if is_frame(native(y)) else None
    result, times = (result, y) if table is None else _of_table(result, table)
    response = as_response(times)
    if response.scale not in ("time", "continuous") or len(response) == 0:
        raise InputError("y must be the times of the data, with at least one row: make it by Surv(time, event)")
    groups, codes = grouped(["all"] * len(response) if by is None else by, len(response), table)
    unit = outcome_label(result, unit, "time")
    names = [str(name) for name in groups]
    last = np.array([response[codes == k].reach()[1] for k in range(len(names))])
    ax = new_axes(ax, figsize=(6.4, 4.2 + (0.3 + LINE / 72.0 * len(names)) * at_risk))
    draw = _draw_band if hasattr(result, "of") else _draw_distributions
    end = draw(ax, result, grid, codes, names, last, unit)
    ax.set(xlim=(0.0, end), ylim=(0.0, 1.02))
    if by is None:
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
    else:
        outside_legend(ax) if len(names) > MANY else ax.legend(frameon=False)
    if at_risk:
        _write_numbers(ax, response, codes, names)
    return ax


def _of_table(model: Any, table: Any) -> tuple[Any, Any]:
    """Return the predicted distributions of a table and its outcome."""
    if not hasattr(model, "formula_"):
        raise InputError("y is a table: pass the model that was fitted by a formula with it, or y as Surv(time, event)")
    return model.predict_distribution(table), model.formula_.outcome(table)


def _draw_band(
    ax: Axes, result: Any, grid: Any, codes: NDArray[np.intp], names: list[str], last: Array, unit: str
) -> float:
    """Draw a band with a row for each group, and return the last time."""
    if result.of != "sf":
        raise InputError(f"survival draws bands of 'sf', not of {result.of!r}: use confidence_band(..., of='sf')")
    if grid is not None:
        raise InputError("grid is for predicted distributions, and a band has its own times: leave it out")
    if len(result.estimate) != len(names):
        raise InputError(f"the band has {len(result.estimate)} rows for {len(names)} groups: pass one row for each")
    band(result, ax, names, unit=unit, until=last)
    return float(result.at.max())


def _draw_distributions(
    ax: Axes, result: Any, grid: Any, codes: NDArray[np.intp], names: list[str], last: Array, unit: str
) -> float:
    """Draw the survival of each group, and return the last time."""
    steps = result.basis.kind == "step"
    x = _times(result, float(last.max()), steps) if grid is None else np.sort(np.atleast_1d(real_numbers(grid, "grid")))
    curves(ax, x, _by_group(result, x, codes, len(names)), names, STEPS if steps else CURVE, last)
    ax.set(xlabel=unit, ylabel="P(Y > y)")
    return float(x[-1])


def _times(distribution: Any, last: float, steps: bool) -> Array:
    """Return where to draw: the steps, or many times up to the last follow-up."""
    if steps:
        times = distribution.times()
        return np.unique([0.0, *times[(times >= 0.0) & (times < last)], last])
    return np.linspace(0.0, last, POINTS)


def _by_group(distribution: Any, x: Array, codes: NDArray[np.intp], n: int) -> Array:
    """Return the survival of each group, averaged over its rows unless there is one row for each group."""
    if len(distribution) == n:
        return np.asarray(distribution.sf(x))
    if len(distribution) != codes.size:
        raise InputError(
            f"the distribution has {len(distribution)} rows: pass one for each of the {codes.size} rows of y, or for "
            f"each of the {n} groups"
        )
    total, step = np.zeros((n, x.size)), max(1, VALUES // x.size)
    for start in range(0, codes.size, step):
        part = slice(start, start + step)
        np.add.at(total, codes[part], distribution[part].sf(x))
    return np.asarray(total / np.bincount(codes)[:, None])


def _write_numbers(ax: Axes, response: Response, codes: NDArray[np.intp], names: Sequence[str]) -> None:
    """Write how many rows of each group are at risk at each tick of the axis."""
    low, high = ax.get_xlim()
    ticks = [float(tick) for tick in ax.get_xticks() if low <= tick <= high]
    ax.set_xticks(ticks)
    ax.set_xlim(low, high)
    small: dict[str, Any] = {"fontsize": "small", "va": "center", "textcoords": "offset points"}
    ax.annotate("at risk", (0.0, 0.0), (ASIDE, -FIRST), xycoords="axes fraction", ha="right", style="italic", **small)
    for k, name in enumerate(names):
        below = -FIRST - LINE * (k + (len(names) > 1))
        if len(names) > 1:
            ax.annotate(name, (0.0, 0.0), (ASIDE, below), xycoords="axes fraction", ha="right", **small)
        for tick, number in zip(ticks, numbers_at_risk(response[codes == k], ticks), strict=True):
            ax.annotate(
                str(number), (tick, 0.0), (0.0, below), xycoords=("data", "axes fraction"), ha="center", **small
            )


def numbers_at_risk(response: Response, times: Sequence[float]) -> list[int]:
    """Return how many rows are under observation just before each time and not known to have had an event."""
    entered = np.full(len(response), -np.inf) if response.entry is None else response.entry
    return [int(((response.lower >= t) & ((entered < t) | (entered <= 0.0))).sum()) for t in times]
