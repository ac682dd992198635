"""Pictures of predicted distributions, confidence bands, smooth effects and estimates with their intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from anchortm._typing import Array, Axis, Table
from anchortm._util.checks import real_numbers
from anchortm._util.frames import is_frame, native
from anchortm._util.pipelines import model_of
from anchortm.exceptions import InputError, InputTypeError
from anchortm.plotting.results import Band, Panels
from anchortm.plotting.style import looks, named_looks, new_axes, outcome_label, outside_legend, pyplot, row_labels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["band", "distributions", "intervals", "smooth_effects", "transport"]

CURVE: dict[str, Any] = {"linewidth": 1.8}
STEPS: dict[str, Any] = CURVE | {"drawstyle": "steps-post"}
BEYOND: dict[str, Any] = {"linewidth": 1.0, "linestyle": (0, (4, 3))}  # what no data support
MARKS = ("o", "s", "^", "D", "v", "P", "X")  # one fewer than colours, so that pairs of them differ
POINTS: dict[str, Any] = {"linewidth": 0.8, "marker": "o", "markersize": 5}
# functions of y that can be drawn, with the label of their axis
CURVES = {
    "pdf": "density",
    "cdf": "P(Y <= y)",
    "sf": "P(Y > y)",
    "hazard": "hazard",
    "cumhazard": "cumulative hazard",
}


def transport(
    model: Any, y: ArrayLike | Table | None = None, axes: NDArray[np.object_] | None = None, *, unit: str | None = None
) -> NDArray[np.object_]:
    """Draw how h maps the density of Y to that of Z: h at the upper right, the densities below and beside it.

    Parameters
    ----------
    model : PredictedDistribution of one row, or fitted model without covariates
        h of a model with covariates differs from row to row: pass ``model.predict_distribution(X[:1])``.
    y : array, optional
        Observed outcomes, drawn as a histogram; the table of a model that was fitted by a formula.
    axes : 2 x 2 array of axes, optional
    unit : str, optional
        Label of the outcome's axis; by default the name of the outcome.

    Returns
    -------
    The 2 x 2 array of axes; the lower left one is empty.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(None, data.waiting)
    >>> axes = atm.plotting.transport(model, data.waiting, unit="waiting time, minutes")
    >>> axes[1, 1].get_xlabel(), axes[0, 1].get_ylabel()
    ('waiting time, minutes', 'h(y)')
    >>> plt.close(axes[0, 0].figure)
    """
    distribution = _only_distribution(model) if hasattr(model, "predict_distribution") else model
    if not hasattr(distribution, "trafo"):
        raise InputTypeError(
            f"the transport picture shows h, and {type(distribution).__name__} has none: pass a transformation model "
            "or its model.predict_distribution(X[:1]); plotting.distributions draws other predicted distributions"
        )
    if len(distribution) != 1 or distribution.basis.discrete:
        raise InputError(
            f"the transport picture shows one continuous distribution, not {distribution!r}: pass one row, such as "
            "model.predict_distribution(X[:1]), of a continuous outcome"
        )
    if axes is None:
        options: dict[str, Any] = {"width_ratios": (1, 2), "height_ratios": (2, 1), "layout": "constrained"}
        _, axes = pyplot().subplots(2, 2, figsize=(7, 6), sharex="col", sharey="row", **options)
    ends = distribution.interval(0.998)
    low, high = float(ends[0][0]), float(ends[1][0])
    if y is not None:
        y = model.formula_.outcome(y) if is_frame(native(y)) and hasattr(model, "formula_") else y
        y = np.asarray(y, dtype=np.float64)
        low, high = min(low, float(y.min())), max(high, float(y.max()))
    grid = np.linspace(low, high, 800)
    h, density = distribution.trafo(grid)[0], distribution.pdf(grid)[0]
    inside = np.isfinite(h)
    grid, h, density = grid[inside], h[inside], density[inside]
    z = np.linspace(h.min(), h.max(), 800)
    reference = np.exp(distribution.link.log_density(z))
    (side, above), (empty, below) = axes
    above.plot(grid, h, color="black")
    above.set_ylabel("h(y)")
    side.plot(reference, z, color="black")
    side.invert_xaxis()
    side.set(xlabel="density of Z", ylabel="z")
    side.tick_params(labelbottom=True)
    for panel in (above, below):
        panel.tick_params(labelleft=True, labelbottom=True)
    if y is not None:
        below.hist(y, bins=40, density=True, color="0.85")
    below.plot(grid, density, color="black")
    below.set(xlabel=outcome_label(distribution, unit), ylabel="density of Y")
    empty.axis("off")
    cuts = np.interp(distribution.link.quantile([0.0, 0.25, 0.5, 0.75, 1.0]), h, grid)
    for first, last, shade in zip(cuts[:-1], cuts[1:], ("#08519c", "#3182bd", "#6baed6", "#bdd7e7"), strict=True):
        part = (grid >= first) & (grid <= last)
        below.fill_between(grid[part], density[part], color=shade, alpha=0.6, lw=0)
        above.fill_between(grid[part], h.min(), h[part], color=shade, alpha=0.15, lw=0)
        strip = (z >= np.interp(first, grid, h)) & (z <= np.interp(last, grid, h))
        side.fill_betweenx(z[strip], reference[strip], color=shade, alpha=0.6, lw=0)
    return axes


def _only_distribution(model: Any) -> Any:
    """Return the one distribution of a model without covariates."""
    check_is_fitted(model)
    fitted = model_of(model)
    needed = list(getattr(fitted, "covariate_names_", fitted.coef_names_))
    needed += [] if fitted.new_rows_.spec.strata is None else ["the strata"]
    if needed:
        shown = ", ".join(needed[:5]) + (", ..." if len(needed) > 5 else "")
        raise InputError(
            f"the transport picture shows one distribution, but that of this {type(model).__name__} depends on "
            f"{shown}: choose a row and pass model.predict_distribution(X[:1])"
        )
    return fitted.predict_distribution()


def distributions(
    distribution: Any,
    grid: ArrayLike | None = None,
    ax: Axis = None,
    *,
    of: str | None = None,
    labels: Sequence[object] | None = None,
    unit: str | None = None,
    until: ArrayLike | None = None,
) -> Axes:
    """Draw the density, cdf, survivor function or hazard of each row of a predicted distribution.

    ``of`` is "pdf", "cdf", "sf", "hazard" or "cumhazard". The default is the density, or the survivor function of
    curves with steps, which have no density. Classes and counts are drawn as points joined by thin lines. Without
    ``grid`` the picture shows the middle 99 % of each distribution, or all steps of a curve. Curves are thin and dashed
    beyond ``until``, one number or one for each row, such as the last follow-up. The axis has the name of the outcome
    and curves the labels of their rows (the index of the table that was predicted), unless you pass ``unit`` and
    ``labels``.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> distribution = model.predict_distribution(data[["duration"]][:2])
    >>> ax = atm.plotting.distributions(distribution, of="sf", labels=["first", "second"], unit="minutes")
    >>> len(ax.lines), ax.get_ylabel()
    (2, 'P(Y > y)')
    >>> plt.close(ax.figure)
    """
    discrete, kind = distribution.basis.discrete, distribution.basis.kind
    ordinal, steps = kind == "ordinal", kind == "step"
    of = ("sf" if steps else "pdf") if of is None else of
    if of not in CURVES:
        raise InputError(f"of must be one of {', '.join(CURVES)}, not {of!r}")
    names = CURVES | {"pdf": "probability"} if discrete else CURVES
    points = np.asarray(_points(distribution) if grid is None else grid)
    ax = new_axes(ax)
    where = np.arange(points.size) if ordinal else points
    look = POINTS if discrete and points.size <= 60 else STEPS if steps else CURVE
    rows = row_labels(labels, len(distribution), getattr(distribution, "labels", None))
    curves(ax, where, getattr(distribution, of)(points), rows, look, until)
    if ordinal:
        ax.set_xticks(where, [str(level) for level in points])
    ax.set(xlabel=outcome_label(distribution, unit), ylabel=names[of])
    ax.set_ylim(bottom=0.0)
    if len(distribution) > 1 or labels is not None:
        outside_legend(ax)
    return ax


def curves(
    ax: Axes,
    x: NDArray[Any],
    values: Array,
    labels: Sequence[str],
    look: dict[str, Any],
    until: ArrayLike | None = None,
) -> list[str]:
    """Draw a curve for each row of values, thin and dashed beyond ``until``; return the colours.

    Dashes then say what is beyond, so that curves differ in their marks instead of their line styles.
    """
    given = np.asarray(np.inf) if until is None else real_numbers(until, "until")
    if given.shape not in ((), (1,), (len(values),)):
        raise InputError(f"until must be one number or one for each of the {len(values)} rows, not {given.shape}")
    ends = np.broadcast_to(given, (len(values),))
    used = list(islice(looks(), len(values)))
    for i, (row, label, end, (colour, style)) in enumerate(zip(values, labels, ends, used, strict=True)):
        if until is None:
            ax.plot(x, row, style, color=colour, label=label, **look)
            continue
        steps, inside = look.get("drawstyle") == "steps-post", x <= end
        last = row[inside][-1:] if steps else [np.interp(end, x, row)]
        mark = {"marker": MARKS[i % len(MARKS)], "markevery": (0.05 + 0.02 * (i % 4), 0.12), "markersize": 5}
        if not inside.all() and inside.any():
            ax.plot([*x[inside], end], [*row[inside], *last], color=colour, label=label, **look | mark)
            ax.plot([end, *x[~inside]], [*last, *row[~inside]], color=colour, **look | BEYOND)
        else:
            ax.plot(x, row, color=colour, label=label, **look | (mark if inside.any() else BEYOND))
    return [colour for colour, _ in used]


def _points(distribution: Any) -> NDArray[Any]:
    """Return where to draw: all classes, all steps, or the middle 99 % of all rows."""
    if distribution.basis.kind == "ordinal":
        return np.array([*distribution.basis.levels], dtype=object)
    if distribution.basis.kind == "step":
        return np.asarray(distribution.times())
    low, high = (np.asarray(end) for end in distribution.interval(0.99))
    low, high = low[np.isfinite(low)], high[np.isfinite(high)]
    first = float(low.min()) if low.size else 0.0
    ends = first, float(high.max(initial=first))
    return np.arange(ends[0], ends[1] + 1) if distribution.basis.discrete else np.linspace(*ends, 400)


def band(
    result: Band,
    ax: Axis = None,
    labels: Sequence[object] | None = None,
    *,
    unit: str | None = None,
    until: ArrayLike | None = None,
) -> Axes:
    """Draw a confidence band: the estimate of each row as a line in its band.

    Lines are thin and dashed beyond ``until``, as in ``distributions``.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> band = model.confidence_band(data[["duration"]][:1], range(50, 100, 10))
    >>> ax = atm.plotting.band(band, unit="minutes")
    >>> ax.get_title()
    'pointwise 95% bands'
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    quantiles = result.of == "ppf"
    ordinal = not quantiles and result.at.dtype == object
    where = np.arange(result.at.size) if ordinal else result.at
    unit, rows = outcome_label(result, unit), row_labels(labels, result.estimate.shape[0], result.labels)
    look: dict[str, Any] = {"marker": "o"} if ordinal else {"drawstyle": "steps-post"} if result.steps else {}
    filled: dict[str, Any] = {"step": "post"} if result.steps else {}
    for colour, lower, upper in zip(
        curves(ax, where, result.estimate, rows, look, until), result.lower, result.upper, strict=True
    ):
        ax.fill_between(where, lower, upper, color=colour, alpha=0.2, lw=0, **filled)
    if ordinal:
        ax.set_xticks(where, [str(level) for level in result.at])
    words = {"cdf": "P(Y <= y)", "sf": "P(Y > y)", "ppf": f"quantile of {unit}"}
    ax.set(xlabel="probability" if quantiles else unit, ylabel=words[result.of])
    kind = "simultaneous" if result.simultaneous else "pointwise"
    ax.set_title(f"{kind} {result.level:.0%} bands", fontsize="medium")
    if len(rows) > 1 or labels is not None:
        outside_legend(ax)
    return ax


def smooth_effects(
    table: pd.DataFrame | Mapping[str, pd.DataFrame], axes: Panels = None, *, level: str = "pointwise 95% bands"
) -> Any:
    """Draw the ``smooth_effects`` of one or several models, a panel for each term, and return the axes.

    Parameters
    ----------
    table : DataFrame, or dict of them by name
        The table of one model, or the tables of several models to compare.
    axes : array of axes, optional
        One for each term.
    level : str
        What to call the bands.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.NormalLinear.from_formula("cmedv ~ s(lstat) + s(rm) | town", data, xi=1.0)
    >>> axes = atm.plotting.smooth_effects(model.smooth_effects())
    >>> [ax.get_xlabel() for ax in axes]
    ['lstat', 'rm']
    >>> plt.close(axes[0].figure)
    """
    tables = dict(table) if isinstance(table, Mapping) else {"": table}
    terms = list(dict.fromkeys(term for own in tables.values() for term in own.term))
    if axes is None:
        axes = pyplot().subplots(1, len(terms), figsize=(4.2 * len(terms), 3.8), squeeze=False, sharey=True)[1][0]
    panels = np.atleast_1d(np.asarray(axes, dtype=object))
    for ax, term in zip(panels, terms, strict=True):
        for (name, own), (colour, style) in zip(tables.items(), named_looks(list(tables)), strict=True):
            rows = own[own.term == term]
            ax.plot(rows.x, rows.effect, color=colour, linestyle=style, label=name)
            ax.fill_between(rows.x, rows.lower, rows.upper, color=colour, alpha=0.2, lw=0)
        ax.axhline(0.0, color="grey", lw=0.6)
        ax.set_xlabel(re.sub(r"^s\((.*?)(, (k=)?\d+)?\)$", r"\1", term))
    panels[0].set_ylabel("effect, on the scale of h")
    panels[0].set_title(level, fontsize="medium", loc="left")
    if len(tables) > 1:
        panels[-1].legend(frameon=False)
    return axes


def intervals(
    table: pd.DataFrame, ax: Axis = None, *, value: str, unit: str, title: str = "", zero: bool = True
) -> Axes:
    """Draw one point for each row of a table with columns ``value``, lower and upper, its index as names.

    ``zero`` says whether to draw a line at 0.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> model = atm.OrdinalRegression(xi=1.0).fit(formula, data)
    >>> ax = atm.plotting.intervals(model.intervals(), value="coef", unit="log odds ratio")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['temp[T.warm]', 'contact[T.yes]']
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax, figsize=(6.0, 1.2 + 0.35 * len(table)))
    where = np.arange(len(table))[::-1]
    estimate = table[value].to_numpy()
    ends = np.abs(np.vstack([table["lower"], table["upper"]]) - estimate)
    if zero:
        ax.axvline(0.0, color="0.6", linewidth=1)
    ax.errorbar(estimate, where, xerr=ends, fmt="o", color="black", ecolor="0.5", markersize=4, capsize=2)
    ax.set_yticks(where, [str(name) for name in table.index])
    ax.set_xlabel(unit)
    if title:
        ax.set_title(title, fontsize="medium")
    return ax
