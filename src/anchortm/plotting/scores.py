"""Pictures of scores: quantiles of the negative log-likelihood, and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Axis
from anchortm.plotting.style import COLOURS, crowd, level_label, looks, named_looks, new_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["calibration", "nll_quantiles", "pit"]


def nll_quantiles(curves: Mapping[str, ArrayLike], ax: Axis = None, *, alpha: ArrayLike | None = None) -> Axes:
    """Draw the quantile function of the rows' negative log-likelihood for each model.

    A model that holds up under shifts has a low curve on the right, where its worst-predicted rows are.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> fits = {f"xi = {xi}": atm.OrdinalRegression(xi).fit(formula, data) for xi in (0, 3)}
    >>> ax = atm.plotting.nll_quantiles({name: fit.nll(data) for name, fit in fits.items()})
    >>> len(ax.lines), ax.get_xlabel()
    (2, 'share of rows')
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    levels = np.linspace(0.0, 1.0, 501) if alpha is None else np.asarray(alpha, dtype=np.float64)
    for (name, values), (colour, style) in zip(curves.items(), named_looks(list(curves)), strict=True):
        quantiles = np.quantile(np.asarray(values, dtype=np.float64), levels)
        ax.plot(levels, quantiles, color=colour, linestyle=style, linewidth=1.8, label=name)
    ax.set(xlabel="share of rows", ylabel="negative log-likelihood of a row, at most")
    ax.legend(loc="upper left", frameon=False)
    return ax


def pit(values: ArrayLike, ax: Axis = None, *, bins: int = 10) -> Axes:
    """Draw the histogram of probability integral transforms, with the 95 % range of bars if they are uniform.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> scores = atm.scores.score_table(model, data[["duration"]], data.waiting)
    >>> ax = atm.plotting.pit(scores.rows.pit, bins=10)
    >>> ax.get_xlabel()
    'probability integral transform'
    >>> plt.close(ax.figure)
    """
    from scipy import stats

    u = np.asarray(values, dtype=np.float64)
    ax = new_axes(ax)
    low, high = (stats.binom.ppf(q, u.size, 1.0 / bins) * bins / u.size for q in (0.025, 0.975))
    ax.hist(u, bins=bins, range=(0.0, 1.0), density=True, color="0.75", edgecolor="white")
    ax.axhspan(low, high, color=COLOURS[0], alpha=0.2, lw=0, label="95 % of bars, if calibrated")
    ax.axhline(1.0, color=COLOURS[0], linewidth=1)
    ax.set(xlabel="probability integral transform", ylabel="density", xlim=(0.0, 1.0))
    ax.set_ylim(0.0, 1.25 * max(ax.get_ylim()[1], high))  # room for the legend
    ax.legend(loc="upper center", frameon=False)
    return ax


def calibration(rows: pd.DataFrame, ax: Axis = None, *, label: int = 3, name: str | None = None) -> Axes:
    """Draw the distribution of the transforms (column pit) by environment; name those furthest from uniform.

    ``name`` is what the environments are called, such as "hospital".

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.NormalLinear().fit(data[["rm", "lstat"]], data.cmedv)
    >>> result = atm.diagnostics.calibration(model, data[["rm", "lstat"]], data.cmedv, data.town)
    >>> ax = atm.plotting.calibration(result.rows, label=2)  # the same as result.plot(label=2)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('predicted probability', 'share of outcomes below')
    >>> plt.close(ax.figure)
    """
    import pandas as pd

    ax = new_axes(ax, figsize=(6.5, 4.2))
    u = np.linspace(0.0, 1.0, 201)
    curves = {
        one: np.searchsorted(np.sort(part["pit"]), u, "right") / len(part) for one, part in rows.groupby("environment")
    }
    sizes = rows.groupby("environment").size()
    away = {one: np.sqrt(sizes[one]) * np.abs(curve - u).max() for one, curve in curves.items()}
    hardest = sorted(away, key=lambda one: -away[one])[:label]
    others = pd.DataFrame({one: curve for one, curve in curves.items() if one not in hardest}, index=u)
    crowd(ax, u, others, None, f"{others.shape[1]} others")
    for one, (colour, style) in zip(hardest, looks(), strict=False):
        ax.plot(u, curves[one], style, color=colour, label=level_label(name, one))
    ax.plot(u, u, color="black", linewidth=1, label="calibrated")
    ax.set(xlabel="predicted probability", ylabel="share of outcomes below", xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax
