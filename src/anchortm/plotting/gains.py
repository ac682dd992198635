"""Pictures of what strategies gain or lose at left-out environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._typing import Axis
from anchortm.exceptions import InputError
from anchortm.plotting.style import look_of, new_axes, plain_symlog

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["gains"]

MOST_NAMED = 40  # environments that are all named on the axis
EXTREME = 8.0  # gains so many times as large as most make the axis logarithmic


def gains(
    frame: pd.DataFrame,
    ax: Axis = None,
    *,
    strategies: Sequence[str] | None = None,
    design: str | None = None,
    label: int = 3,
) -> Axes:
    """Draw what each left-out environment gains over maximum likelihood (xi = 0), in order.

    A gain is the difference of the log-likelihood per row; points right of 0 are better. Bars reach two standard
    errors, over the rows of an environment, to each side; the area of a point grows with the rows of its environment.
    Environments that are too small to be ranked are hollow. The axis is logarithmic beyond 9 in 10 of the gains if a
    few are much larger.

    Parameters
    ----------
    frame : DataFrame
        As ``Comparison.frame`` returns it.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    strategies : sequence of str, optional
        Which to draw; by default "widened" and "anchored", as far as they are there.
    design : {"like", "further"}, optional
        Which left-out environments to draw; by default "like", if both are there. Folds of "further" overlap: the mean
        over the folds of an environment is drawn.
    label : int
        How many environments to name if they are many: so many with the largest gains, and so many with the largest
        losses.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model, formula = atm.OrdinalRegression(), "rating ~ temp + contact | judge"
    >>> found = atm.compare_strategies(model, formula, data, design="like", strategies=["widened", "anchored"])
    >>> ax = atm.plotting.gains(found.frame())  # the same as found.plot()
    >>> ax.get_xlabel()
    'gain over maximum likelihood, log-likelihood per row (right: better)'
    >>> plt.close(ax.figure)
    """
    names = _chosen(frame, strategies)
    part = _of_design(frame[frame["strategy"].isin(names)], design)
    part = part.assign(gain=-part["regret"])
    wide = part.pivot(index="environment", columns="strategy", values="gain")
    decisive = wide.abs().sum().idxmax()  # the strategy that changes most
    order = wide[decisive].sort_values(kind="stable").index
    place = {environment: k for k, environment in enumerate(order)}
    ax = new_axes(ax, figsize=(7.0, max(3.2, min(7.5, 0.2 * len(order) + 1.2))))
    ax.axvline(0.0, color="black", linewidth=1, zorder=1)
    offsets = np.linspace(-0.18, 0.18, len(names)) if len(names) > 1 else [0.0]
    for k, (name, offset) in enumerate(zip(names, offsets, strict=True)):
        _points(ax, part[part["strategy"] == name], place, float(offset), name, *look_of(name, k))
    _axis(ax, wide.to_numpy())
    ax.set(
        xlabel="gain over maximum likelihood, log-likelihood per row (right: better)",
        ylabel="left-out environment (rows)",
        ylim=(-0.8, len(order) - 0.2),
    )
    _names(ax, part, order, label)
    if not part["ranked"].all():
        ax.scatter([], [], facecolors="none", edgecolors="black", marker="o", label="too small to be ranked")
    ax.legend(
        frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(len(names) + 1, 4), borderaxespad=0.2
    )
    return ax


def _axis(ax: Any, values: Any) -> None:
    """Make the axis logarithmic far from 0 if a few gains are much larger than the others."""
    sizes = np.abs(values[np.isfinite(values)])
    usual = float(np.quantile(sizes, 0.9)) if sizes.size else 0.0
    if usual > 0.0 and sizes.max() > EXTREME * usual:
        plain_symlog(ax, usual)


def _chosen(frame: pd.DataFrame, strategies: Sequence[str] | None) -> list[str]:
    """Return the strategies to draw."""
    known = [name for name in dict.fromkeys(frame["strategy"]) if name not in ("null", "ml")]
    usual = [name for name in ("widened", "anchored") if name in known] or known[:2]
    if not known:
        raise InputError("there is nothing to draw: compare a strategy besides maximum likelihood")
    names = usual if strategies is None else list(strategies)
    if not names or any(name not in known for name in names):
        raise InputError(f"strategies must be some of {', '.join(known)}, not {strategies!r}")
    return names


def _of_design(frame: pd.DataFrame, design: str | None) -> pd.DataFrame:
    """Return the rows of one design; of "further" the means over the folds of each strategy and environment."""
    designs = list(dict.fromkeys(frame["design"]))
    chosen = designs[0] if design is None else design
    if chosen not in designs:
        raise InputError(f"design must be one of {', '.join(designs)}, not {design!r}")
    frame = frame[frame["design"] == chosen]
    if chosen == "like":
        return frame
    grouped = frame.groupby(["strategy", "environment"], sort=False)
    return grouped[["regret", "regret_se", "n", "ranked"]].mean().reset_index()


def _points(
    ax: Any, part: pd.DataFrame, place: dict[Any, int], offset: float, name: str, colour: str, marker: str
) -> None:
    y = np.array([place[environment] for environment in part["environment"]]) + offset
    x, error = part["gain"].to_numpy(), 2.0 * part["regret_se"].fillna(0.0).to_numpy()
    ax.hlines(y, x - error, x + error, color=colour, linewidth=0.8, alpha=0.6, zorder=2)
    largest = 90.0 if len(place) <= MOST_NAMED else 45.0
    size = 10.0 + largest * part["n"].to_numpy() / float(part["n"].max())
    ranked = part["ranked"].to_numpy().astype(bool)
    for filled in (True, False):
        some = ranked == filled
        if some.any():
            look = {"facecolors": colour if filled else "white", "edgecolors": colour, "marker": marker, "alpha": 0.85}
            text = name if filled or not ranked.any() else None
            ax.scatter(x[some], y[some], size[some], linewidths=1, zorder=3, label=text, **look)


def _names(ax: Any, part: pd.DataFrame, order: Any, label: int) -> None:
    """Name the environments: all if they are few, else those with the largest gains or losses."""
    sizes = part.drop_duplicates("environment").set_index("environment")["n"]
    words = [f"{environment} ({sizes[environment]:g})" for environment in order]
    if len(order) <= MOST_NAMED:
        ax.set_yticks(range(len(order)), words, fontsize="small", parse_math=False)
        return
    gain = part.groupby("environment")["gain"]
    place = {environment: k for k, environment in enumerate(order)}
    largest = {place[own] for own in (*gain.max().nlargest(label).index, *gain.min().nsmallest(label).index)}
    apart, beside = 0.027 * len(order), ax.get_yaxis_transform()
    ax.set_yticks([])
    ax.set_ylabel(f"{len(order)} left-out environments (rows)", labelpad=14 + 5.2 * max(len(words[k]) for k in largest))
    for upper in (True, False):  # names stand beside their rows, pushed apart towards the middle
        own = sorted((k for k in largest if (k >= len(order) / 2) == upper), reverse=upper)
        last = np.inf if upper else -np.inf
        for k in own:
            last = min(float(k), last - apart) if upper else max(float(k), last + apart)
            ax.annotate(
                words[k],
                (0.0, k),
                xytext=(-0.03, last),
                xycoords=beside,
                textcoords=beside,
                ha="right",
                va="center",
                fontsize="small",
                parse_math=False,
                arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0},
            )
