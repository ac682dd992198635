"""Pictures of residuals, tests and covariates against the anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array, Axis, Labels, Numbers, Table
from anchortm._util.frames import aligned
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import anchor_columns
from anchortm.plotting.results import Model
from anchortm.plotting.style import COLOURS, STRATEGIES, name_levels, new_axes, outside_legend

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["chi_square", "invariance", "location_shift", "residuals", "shares"]


def residuals(
    values: ArrayLike | Model,
    anchors: Labels | Table,
    ax: Axis = None,
    *,
    label: int = 3,
    weights: Numbers | None = None,
) -> Axes:
    """Draw score residuals against one anchor.

    A factor shows the mean of each level with two standard errors, in ascending order; the ``label`` levels furthest
    from zero are named. A numeric anchor shows each row and the least-squares line. A model that was fitted by a
    formula with one anchor, and a table, can stand for residuals and anchor: ``residuals(model, data)``. Weights
    replicate rows.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression().fit("rating ~ temp + contact | judge", data)
    >>> ax = atm.plotting.residuals(model, data)  # the same as residuals(model.residuals(data), data.judge)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('judge', 'mean score residual, +- 2 standard errors')
    >>> plt.close(ax.figure)
    """
    shown, anchors = _of_table(values, anchors) if hasattr(values, "formula_") else (values, anchors)
    aligned(values=shown, anchors=anchors)
    r = np.asarray(shown, dtype=np.float64)
    columns = anchor_columns(anchors)
    if len(columns.factors) + len(columns.column_names) != 1 or len(columns) != r.size:
        raise InputError(f"draw residuals against one anchor at a time, with {r.size} rows")
    w = np.ones(r.size) if weights is None else np.asarray(weights, dtype=np.float64)
    ax = new_axes(ax)
    ax.axhline(0.0, color="0.6", linewidth=1)
    ax.set_ylabel("score residual")
    if columns.column_names:
        a = columns.columns[:, 0]
        ax.plot(a, r, ".", color="0.5", markersize=3, rasterized=r.size > 5000)
        ends = np.array([a.min(), a.max()])
        ax.plot(ends, np.polyval(np.polyfit(a, r, 1, w=np.sqrt(w)), ends), color="black", label="least squares")
        ax.set_xlabel(columns.column_names[0])
        ax.legend(frameon=False)
        return ax
    codes, levels = columns.factors[0], columns.levels[0]
    count = np.bincount(codes, w)
    mean = np.bincount(codes, w * r) / count
    square = np.bincount(codes, w * (r - mean[codes]) ** 2)
    error = np.sqrt(square / np.maximum(count - 1.0, 1.0) / count)
    order = np.argsort(mean)
    ax.errorbar(
        np.arange(mean.size), mean[order], 2.0 * error[order], fmt="o", color="black", ecolor="0.6", markersize=3
    )
    ax.set_ylabel("mean score residual, +- 2 standard errors")
    name_levels(ax, levels[order], mean[order], label, columns.factor_names[0])
    return ax


def _of_table(model: Any, data: Any) -> tuple[Any, Any]:
    """Return the residuals and the anchors of a table."""
    anchors = model.formula_.anchor_frame(data)
    if anchors is None:
        raise InputError(
            "the formula of the model has no anchors: pass residuals and an anchor, model.residuals(data), data['site']"
        )
    return model.residuals(data), anchors


def invariance(table: pd.DataFrame, ax: Axis = None, *, label: int = 3) -> Axes:
    """Draw the mean residual of each level before and after, from the frame of ``residual_invariance``.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> before, after = (atm.OrdinalRegression(xi).fit(formula, data) for xi in (0, 10))
    >>> result = atm.diagnostics.residual_invariance(before, after, data)
    >>> ax = atm.plotting.invariance(result.frame())  # the same as result.plot()
    >>> ax.get_ylabel()
    'mean score residual'
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    table = table[np.isfinite(table["mean_before"])].sort_values("mean_before")
    if table.empty:
        raise InputError("there is no factor among the anchors: plotting.residuals draws numeric ones")
    where = np.arange(len(table))
    before, after = table["mean_before"].to_numpy(), table["mean_after"].to_numpy()
    ax.axhline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.vlines(where, before, after, color="0.8", zorder=1)
    plain, anchored = STRATEGIES["maximum likelihood"][0], STRATEGIES["anchored"][0]
    ax.plot(where, before, "o", color=plain, mfc="white", markersize=5, label="before")
    ax.plot(where, after, "o", color=anchored, markersize=4, label="after")
    anchors = [name for name in dict.fromkeys(table["anchor"]) if name != "anchor"]
    name_levels(ax, table["level"].to_numpy(), before, label, ", ".join(anchors) or "environment")
    ax.set_ylabel("mean score residual")
    ax.legend(frameon=False)
    return ax


def chi_square(
    statistic: float, df: int, ax: Axis = None, *, level: float = 0.05, simulated: Sequence[float] | Array = ()
) -> Axes:
    """Draw a test statistic in its chi-square distribution, with the region of rejection shaded.

    If you pass ``simulated`` statistics, their histogram is drawn too, and their quantile bounds the rejection region.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> ax = atm.plotting.chi_square(12.5, df=4)
    >>> ax.get_legend().get_texts()[-1].get_text()
    'observed, 12.5'
    >>> plt.close(ax.figure)
    """
    from scipy import stats

    ax = new_axes(ax)
    largest, height = float(stats.chi2.isf(1e-4, df)), 0.0
    grid = np.linspace(1e-3, max(1.15 * statistic, largest), 600)
    density = stats.chi2.pdf(grid, df)
    ax.plot(grid, density, color="black", label=f"chi-square, {df} degrees of freedom")
    if len(simulated):
        label = f"{len(simulated)} draws from the fitted model"
        height = float(np.max(ax.hist(simulated, bins=15, density=True, color="0.85", label=label)[0]))
        critical = float(np.quantile(simulated, 1.0 - level))
    else:
        critical = float(stats.chi2.isf(level, df))
    beyond = grid >= critical
    ax.fill_between(grid[beyond], density[beyond], color="0.7", label=f"rejected at {level:.0%}")
    ax.axvline(statistic, color=COLOURS[1], linestyle="--", label=f"observed, {statistic:.4g}")
    ax.set(
        xlabel="score statistic",
        ylabel="density under invariance",
        ylim=(0.0, 1.1 * max(height, min(density.max(), 1.0))),
    )
    outside_legend(ax)
    return ax


def shares(table: pd.DataFrame, ax: Axis = None) -> Axes:
    """Draw R^2 and partial R^2 of each covariate on the anchors, from the frame of ``first_stage``.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> result = atm.diagnostics.first_stage(data[["nox", "rm", "lstat"]], data.town)
    >>> ax = atm.plotting.shares(result.frame())  # the same as result.plot()
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['nox', 'rm', 'lstat']
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax, figsize=(6.0, 1.2 + 0.35 * len(table)))
    where = np.arange(len(table))[::-1]
    ax.barh(where, table["R2"], color="0.8", height=0.7, label="R2")
    ax.barh(where, table["partial_R2"], color="black", height=0.3, label="partial R2")
    ax.set_yticks(where, [str(name) for name in table.index])
    ax.set(xlabel="share of the covariate's variance that the anchors explain", xlim=(0.0, 1.0))
    outside_legend(ax)
    return ax


def location_shift(table: pd.DataFrame, ax: Axis = None, *, label: int = 3) -> Axes:
    """Draw the mean residuals of environments against their predictions, from the frame of ``location_shift``.

    The area of a point shows the number of rows, its bar two standard errors. The ``label`` environments furthest from
    0 are named. Points lie along the diagonal if mean covariates predict the mean residuals.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> result = atm.diagnostics.location_shift(atm.CountRegression(), "TICKS ~ cHEIGHT | LOCATION", data)
    >>> ax = atm.plotting.location_shift(result.frame())  # the same as result.plot()
    >>> ax.get_xlabel()
    'mean residual predicted from the other environments'
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    x, y = table["predicted"].to_numpy(), table["residual"].to_numpy()
    size = 12.0 + 110.0 * table["n"].to_numpy() / table["n"].max()
    ax.axline((0.0, 0.0), slope=1.0, color="0.6", linewidth=1, zorder=0)
    ax.axhline(0.0, color="0.85", linewidth=1, zorder=0)
    ax.errorbar(x, y, 2.0 * table["se"].to_numpy(), fmt="none", ecolor="0.7", linewidth=1, zorder=1)
    ax.scatter(x, y, size, color="black", alpha=0.6, linewidth=0, zorder=2)
    furthest = np.argsort(-np.hypot(x, y))[:label]
    right = x > np.mean([x.min(), x.max()])
    for k in furthest:  # names stand towards the middle
        ax.annotate(
            str(table["environment"].iloc[k]),
            (x[k], y[k]),
            xytext=(-8 if right[k] else 8, 0),
            textcoords="offset points",
            ha="right" if right[k] else "left",
            va="center",
            fontsize="small",
            parse_math=False,
        )
    ax.set(
        xlabel="mean residual predicted from the other environments",
        ylabel="mean score residual, +- 2 standard errors",
    )
    return ax
