"""Pictures of causal parents: p-values of sets of covariates, and of the covariates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Axis
from anchortm.plotting.style import COLOURS, new_axes, shortened

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["covariate_sets", "parents"]

SMALLEST = 1e-6  # smaller p-values are drawn at this one
TICKS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
NAMES = {1e-6: "1e-6", 1e-5: "1e-5", 1e-4: "1e-4"}
SIZE = "number of covariates in the set"
MOST_LETTERS = 36  # of a name on an axis or beside a point
REJECTED = "every set is rejected: no conclusion about parents"


def covariate_sets(sets: pd.DataFrame, level: float, ax: Axis = None, *, label: int = 3) -> Axes:
    """Draw the p-values of all sets of covariates by the size of the sets, with the accepted ones marked.

    P-values below 1e-6 are drawn at 1e-6. Sets that could not be tested, which count as accepted, are crosses at 1.

    Parameters
    ----------
    sets : DataFrame
        As ``CausalParents.sets``.
    level : float
        Level of the tests: sets with larger p-values are accepted.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    label : int
        How many accepted sets to name: the smallest, and of these the ones with the largest p-values.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> found = atm.causal_parents(atm.CoxPH(), "Surv(tstop, status) ~ treat + age + sex | inherit", data)
    >>> ax = atm.plotting.covariate_sets(found.sets, found.level)  # the same as found.plot(of="sets")
    >>> ax.get_xlabel().splitlines()[0], ax.get_ylabel()
    ('number of covariates in the set', 'p-value of the set')
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax, figsize=(7.0, 4.5))
    sets = sets.reset_index(drop=True)
    tested, accepted = sets["p_value"].notna().to_numpy(), sets["accepted"].to_numpy().astype(bool)
    p = np.maximum(sets["p_value"].fillna(1.0).to_numpy(), SMALLEST)
    x = _spread(sets["size"].to_numpy(), p)
    area = float(np.clip(2000.0 / len(sets), 7.0, 36.0))
    kinds: list[tuple[str, NDArray[np.bool_], dict[str, Any]]] = [
        ("rejected", tested & ~accepted, {"facecolors": "none", "edgecolors": "0.55", "linewidths": 0.8}),
        ("accepted", tested & accepted, {"color": COLOURS[0], "zorder": 3}),
        ("not tested, counts as accepted", ~tested, {"color": COLOURS[1], "marker": "x", "linewidths": 1.0}),
    ]
    _level_line(ax.axhline, level)
    for name, own, style in kinds:
        if own.any():
            ax.scatter(x[own], p[own], area, label=f"{name} ({int(own.sum())})", **style)
    _p_axis(ax.yaxis, ax.set_ylim, p)
    ax.set_ylabel("p-value of the set")
    ax.set_xticks(sorted(set(sets["size"].tolist())))
    _name_sets(ax, sets[tested & accepted], x, p, label)
    _legend(ax, "" if accepted.any() else REJECTED)
    return ax


def parents(table: pd.DataFrame, level: float, ax: Axis = None, *, rejected: bool = False) -> Axes:
    """Draw the p-value of each covariate, with those in every accepted set marked.

    The p-value of a covariate is the largest of the sets without it. P-values below 1e-6 are drawn at 1e-6.

    Parameters
    ----------
    table : DataFrame
        As ``CausalParents.frame`` returns it.
    level : float
        Level of the tests: covariates with p-values of at most this are in every accepted set.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    rejected : bool
        Whether every set is rejected, so that small p-values say nothing about parents.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> found = atm.causal_parents(atm.CoxPH(), "Surv(tstop, status) ~ treat + age + sex | inherit", data)
    >>> ax = atm.plotting.parents(found.frame(), found.level)  # the same as found.plot()
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['treat', 'age', 'sex']
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax, figsize=(7.0, max(2.2, min(9.0, 0.28 * len(table) + 1.3))))
    where, p = np.arange(len(table))[::-1], np.maximum(table["p_value"].to_numpy(), SMALLEST)
    found = table["parent"].to_numpy().astype(bool)
    _level_line(ax.axvline, level)
    ax.hlines(where, 0.1 * SMALLEST, p, color="0.85", linewidth=1, zorder=1)
    for own, name, style in (
        (found, "in every accepted set", {"color": COLOURS[0]}),
        (
            ~found,
            "no conclusion" if rejected else "not in every accepted set",
            {"facecolors": "w", "edgecolors": "0.4"},
        ),
    ):
        if own.any():
            looks: dict[str, Any] = style
            ax.scatter(p[own], where[own], 40, label=name, zorder=3, **looks)
    _p_axis(ax.xaxis, ax.set_xlim, p)
    names = [shortened(str(name), MOST_LETTERS) for name in table.index]
    ax.set_yticks(where, names, parse_math=False, fontsize="small" if len(names) > 12 else "medium")
    ax.set(xlabel="p-value of the covariate: the largest of the sets without it", ylim=(-0.7, len(table) - 0.3))
    _legend(ax, REJECTED if rejected else "")
    return ax


def _level_line(line: Any, level: float) -> None:
    line(level, color="black", linewidth=1, linestyle="--", label=f"level {level:g}", zorder=2)


def _p_axis(axis: Any, limits: Any, p: Array) -> None:
    """Make an axis of p-values logarithmic down to the smallest, with plain numbers."""
    lowest = float(min(p.min(initial=1.0), 1e-2))
    ends = [tick for tick in TICKS if tick >= lowest]
    if ends[0] > lowest:
        ends = [TICKS[len(TICKS) - len(ends) - 1], *ends]
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    limits(0.6 * ends[0], 1.6)
    axis.set_ticks(ends, [f"{'<= ' if tick == SMALLEST else ''}{NAMES.get(tick, f'{tick:g}')}" for tick in ends])
    axis.set_minor_locator(_no_ticks())


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _legend(ax: Any, title: str) -> None:
    ax.legend(
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=4,
        borderaxespad=0.2,
        handletextpad=0.4,
        title=title or None,
        alignment="right",
        fontsize="small",
        columnspacing=1.2,
    )


def _spread(size: NDArray[Any], p: Array) -> Array:
    """Return where points stand beside their size: points of similar p-values side by side, widest where many are."""
    x = size.astype(np.float64)
    bins = np.floor(12.0 * np.log10(p)).astype(np.int64)
    groups: dict[tuple[int, int], list[int]] = {}
    for k in np.lexsort((p, size)):
        groups.setdefault((int(size[k]), int(bins[k])), []).append(int(k))
    for own in groups.values():
        x[own] += min(0.06, 0.8 / len(own)) * (np.arange(len(own)) - (len(own) - 1) / 2.0)
    return x


def _name_sets(ax: Any, accepted: pd.DataFrame, x: Array, p: Array, label: int) -> None:
    """Circle the smallest accepted sets, and name them below the axis, where no point is."""
    order = np.lexsort((-accepted["p_value"].to_numpy(), accepted["size"].to_numpy()))[:label]
    chosen = accepted.index.to_numpy()[order]
    ax.scatter(x[chosen], p[chosen], 90.0, facecolors="none", edgecolors=COLOURS[1], linewidths=1.2, zorder=4)
    lines = [f"{shortened(set_name(accepted.at[k, 'set']), 2 * MOST_LETTERS)} (p = {p[k]:.2g})" for k in chosen]
    heading = "the smallest accepted sets (circled):" if len(accepted) > len(chosen) else "the accepted sets (circled):"
    text = "\n".join([SIZE, *([heading, *lines] if lines else [])])
    ax.set_xlabel(text, parse_math=False, linespacing=1.3)


def set_name(names: Sequence[str]) -> str:
    """Return a set as one reads it."""
    return ", ".join(names) or "no covariates"
