"""Pictures of bootstrap draws: a histogram for each parameter, with its estimate and percentile interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError
from anchortm.plotting.results import Draws, Panels
from anchortm.plotting.style import COLOURS, pyplot

__all__ = ["draws"]

MOST_PANELS = 12
ACROSS = 4


def draws(
    result: Draws, axes: Panels = None, *, parameters: Sequence[str] | None = None, level: float = 0.95
) -> NDArray[np.object_]:
    """Draw a histogram of the draws of each parameter of a ``Bootstrap``, a panel for each; return the axes.

    A line marks the estimate, and the shaded range is the percentile interval. By default the coefficients are drawn,
    the first 12 of many; ``parameters`` names others.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact", data)
    >>> axes = atm.plotting.draws(model.bootstrap(50, random_state=0))  # the same as bootstrap.plot()
    >>> [ax.get_xlabel() for ax in axes]
    ['temp[T.warm]', 'contact[T.yes]']
    >>> plt.close(axes[0].figure)
    """
    table = result.frame(level)
    chosen = _chosen(result, parameters)
    panels = _panels(axes, len(chosen))
    for ax, j in zip(panels, chosen, strict=True):
        estimate, lower, upper = (float(table[name].iloc[j]) for name in ("estimate", "lower", "upper"))
        ax.axvspan(lower, upper, color=COLOURS[0], alpha=0.12, lw=0, label=f"{level:.0%} interval")
        ax.hist(result.draws[:, j], bins=_bins(result.draws[:, j]), color="0.75", edgecolor="0.45", linewidth=0.5)
        ax.axvline(estimate, color=COLOURS[1], linewidth=2, label="estimate")
        ax.set_xlabel(result.names[j])
        ax.yaxis.get_major_locator().set_params(integer=True)
    panels[0].set_ylabel("draws")
    if axes is not None:
        panels[0].legend(frameon=False, fontsize="small")
        return panels
    panels[0].figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    coefficients = len(result.names) - result.n_baseline
    if parameters is None and coefficients > len(chosen):
        panels[0].figure.supxlabel(f"the first {len(chosen)} of {coefficients} coefficients", fontsize="medium")
    return panels


def _chosen(result: Draws, parameters: Sequence[str] | None) -> list[int]:
    """Return the places of the parameters to draw."""
    names = list(result.names)
    if parameters is None:
        coefficients = list(range(result.n_baseline, len(names)))
        return (coefficients or list(range(len(names))))[:MOST_PANELS]
    wanted = [parameters] if isinstance(parameters, str) else list(parameters)
    unknown = [str(name) for name in wanted if name not in names]
    if unknown or not wanted:
        raise InputError(f"parameters must be some of {', '.join(names)}, not {', '.join(unknown) or 'none'}")
    return [names.index(name) for name in wanted]


def _bins(values: NDArray[np.float64]) -> int:
    """Return the number of bins; equal draws, of a parameter at its bound, have one."""
    spread = float(np.ptp(values))
    return max(5, min(30, math.ceil(1.2 * math.sqrt(values.size)))) if spread > 1e-12 * np.abs(values).max() else 1


def _panels(axes: Panels, n: int) -> NDArray[np.object_]:
    """Return one axes for each of n parameters."""
    if axes is None:
        across = min(n, ACROSS)
        down = math.ceil(n / across)
        size = (1.2 + 2.7 * across, 0.6 + 2.3 * down)
        grid = pyplot().subplots(down, across, layout="constrained", figsize=size, squeeze=False)[1].ravel()
        for ax in grid[n:]:
            ax.axis("off")
        return np.asarray(grid[:n], dtype=object)
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if panels.size != n:
        raise InputError(f"{panels.size} axes were given for {n} parameters: pass one for each")
    return panels
