"""Pictures: results in, matplotlib axes out.

Every function takes ``ax`` (a new one by default) and returns it; nothing global is changed, nothing
is saved or shown. Lines differ in style as well as in colour, so that they can be told apart in grey.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from anchortm._util.frames import aligned
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.anchors import anchor_columns

__all__ = [
    "band",
    "calibration",
    "chi_square",
    "coefficient_path",
    "distributions",
    "flattening",
    "graph",
    "intervals",
    "invariance",
    "left_out",
    "net_path",
    "net_search",
    "nll_quantiles",
    "pit",
    "residuals",
    "rounds",
    "rule",
    "shares",
    "smooth_effects",
    "transport",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Array = NDArray[np.float64]

COLOURS = ("#08306b", "#d95f02", "#1b9e77", "#7570b3", "#666666", "#e7298a", "#a6761d", "#56b4e9")
STYLES = ("-", "--", "-.", ":")
XI = "strength of the anchor penalty, xi"
MANY = 30  # levels beyond which they are not named on an axis


def _axes(ax: Any, **options: Any) -> Any:
    """Return ``ax``, or new axes of their own figure."""
    return _pyplot().subplots(layout="constrained", **options)[1] if ax is None else ax


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise InputError("figures need matplotlib: pip install matplotlib") from None
    return plt


def _looks() -> Any:
    """Return colours and line styles, no two alike for a long time."""
    return ((COLOURS[k % 8], STYLES[(k + k // 8) % 4]) for k in count())


def _outside_legend(ax: Any) -> None:
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _lambda_axis(ax: Any, xlabel: str = "strength of the elastic net, lambda") -> None:
    ax.set(xscale="log", xlabel=xlabel)
    ax.xaxis.set_major_locator(_pyplot().matplotlib.ticker.LogLocator(subs=(1.0, 3.0)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(lambda *_: "")
    ax.invert_xaxis()


def _xi_axis(ax: Any, xis: Array) -> None:
    """Make the axis of xi logarithmic from its smallest positive value, with room for 0."""
    shown = np.asarray(xis)[np.isfinite(xis)]
    if (shown > 0).any():
        smallest = float(shown[shown > 0].min())
        ax.set_xscale("symlog", linthresh=smallest)
        ax.set_xlim(float(shown.min()) - 0.2 * smallest, 1.5 * float(shown.max()))
    ax.set_xlabel(XI)


def _row_labels(labels: Sequence[Any] | None, n: int) -> list[str]:
    if labels is None:
        return [f"row {i}" for i in range(n)]
    if len(labels) != n:
        raise InputError(f"labels has {len(labels)} names for {n} rows")
    return [str(label) for label in labels]


def transport(model: Any, y: ArrayLike | None = None, axes: Any = None, *, unit: str = "y") -> Any:
    """Draw how h carries the density of Y to that of Z: h above right, the densities below and beside it.

    Parameters
    ----------
    model : PredictedDistribution of one row, or fitted model without covariates
        Of a model with covariates, whose h differs from row to row, ``model.predict_distribution(X[:1])``.
    y : array, optional
        Observed outcomes, drawn as a histogram.
    axes : 2 x 2 array of axes, optional
    unit : str
        Label of the outcome's axis.

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
        _, axes = _pyplot().subplots(2, 2, figsize=(7, 6), sharex="col", sharey="row", **options)
    ends = distribution.interval(0.998)
    low, high = float(ends[0][0]), float(ends[1][0])
    if y is not None:
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
    below.set(xlabel=unit, ylabel="density of Y")
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
    fitted = getattr(model, "best_estimator_", model)
    needed = list(getattr(fitted, "covariate_names_", fitted.coef_names_))
    needed += [] if getattr(fitted, "strata", None) is None else ["the strata"]
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
    ax: Any = None,
    *,
    of: str | None = None,
    labels: Sequence[Any] | None = None,
    unit: str = "y",
) -> Any:
    """Draw the density, cdf, survivor function or hazard of each row of a predicted distribution.

    ``of`` is "pdf", "cdf", "sf", "hazard" or "cumhazard"; by default the density, and of curves with steps, which have
    none, the survivor function. Classes and counts are drawn as points joined by thin lines. Without ``grid`` the
    middle 99 % are shown, of curves with steps all of them.

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
    names = {
        "pdf": "probability" if distribution.basis.discrete else "density",
        "cdf": "P(Y <= y)",
        "sf": "P(Y > y)",
        "hazard": "hazard",
        "cumhazard": "cumulative hazard",
    }
    ordinal, steps = distribution.basis.kind == "ordinal", distribution.basis.kind == "step"
    of = ("sf" if steps else "pdf") if of is None else of
    if of not in names:
        raise InputError(f"of must be one of {', '.join(names)}, not {of!r}")
    if grid is None:
        if ordinal:
            grid = np.array([*distribution.basis.levels], dtype=object)
        elif steps:
            grid = distribution.times()
        else:
            low, high = (np.asarray(end) for end in distribution.interval(0.99))
            ends = float(low.min()), float(high[np.isfinite(high)].max(initial=0.0))
            grid = np.arange(ends[0], ends[1] + 1) if distribution.basis.discrete else np.linspace(*ends, 400)
    grid = np.asarray(grid)
    values = getattr(distribution, of)(grid)
    ax = _axes(ax)
    where = np.arange(grid.size) if ordinal else grid
    marker = "o" if distribution.basis.discrete and grid.size <= 60 else None
    rows = _row_labels(labels, len(distribution))
    for row, label, (colour, style) in zip(values, rows, _looks(), strict=False):
        width = 0.8 if marker else 1.8
        ax.plot(
            where,
            row,
            style,
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=width,
            label=label,
            drawstyle="steps-post" if steps else "default",
        )
    if ordinal:
        ax.set_xticks(where, [str(level) for level in grid])
    ax.set(xlabel=unit, ylabel=names[of])
    ax.set_ylim(bottom=0.0)
    if len(distribution) > 1 or labels is not None:
        _outside_legend(ax)
    return ax


def band(result: Any, ax: Any = None, labels: Sequence[Any] | None = None, *, unit: str = "y") -> Any:
    """Draw a confidence band: the estimate of each row as a line in its band.

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
    ax = _axes(ax)
    quantiles = result.of == "ppf"
    ordinal = not quantiles and result.at.dtype == object
    where = np.arange(result.at.size) if ordinal else result.at
    rows = _row_labels(labels, result.estimate.shape[0])
    for i, (label, (colour, style)) in enumerate(zip(rows, _looks(), strict=False)):
        ax.plot(where, result.estimate[i], style, color=colour, label=label, marker="o" if ordinal else None)
        ax.fill_between(where, result.lower[i], result.upper[i], color=colour, alpha=0.2, lw=0)
    if ordinal:
        ax.set_xticks(where, [str(level) for level in result.at])
    words = {"cdf": "P(Y <= y)", "sf": "P(Y > y)", "ppf": f"quantile of {unit}"}
    ax.set(xlabel="probability" if quantiles else unit, ylabel=words[result.of])
    kind = "simultaneous" if result.simultaneous else "pointwise"
    ax.set_title(f"{kind} {result.level:.0%} bands", fontsize="medium")
    if len(rows) > 1 or labels is not None:
        _outside_legend(ax)
    return ax


def smooth_effects(table: Any, axes: Any = None, *, level: str = "pointwise 95% bands") -> Any:
    """Draw what ``smooth_effects`` of models gives, a panel for each term, and return the axes.

    Parameters
    ----------
    table : DataFrame, or dict of them by name
        Of one model, or of several to compare.
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
        axes = _pyplot().subplots(1, len(terms), figsize=(4.2 * len(terms), 3.8), squeeze=False, sharey=True)[1][0]
    for ax, term in zip(np.atleast_1d(axes), terms, strict=True):
        for (name, own), (colour, style) in zip(tables.items(), _looks(), strict=False):
            rows = own[own.term == term]
            ax.plot(rows.x, rows.effect, style, color=colour, label=name)
            ax.fill_between(rows.x, rows.lower, rows.upper, color=colour, alpha=0.2, lw=0)
        ax.axhline(0.0, color="grey", lw=0.6)
        ax.set_xlabel(re.sub(r"^s\((.*?)(, (k=)?\d+)?\)$", r"\1", term))
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("effect, on the scale of h")
    first.set_title(level, fontsize="medium", loc="left")
    if len(tables) > 1:
        np.atleast_1d(axes)[-1].legend(frameon=False)
    return axes


def coefficient_path(path: Any, ax: Any = None) -> Any:
    """Draw the coefficients of an ``AnchorPath`` against xi; dotted verticals mark known lower minima.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> path = atm.anchor_path(atm.OrdinalRegression(), frame.X, frame.y, data.judge, [0, 1, 10])
    >>> ax = atm.plotting.coefficient_path(path)  # the same as path.plot()
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['temp[T.warm]', 'contact[T.yes]']
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax)
    finite = np.isfinite(path.xis)
    for coef, name, (colour, style) in zip(path.coefs[finite].T, path.coef_names, _looks(), strict=False):
        ax.plot(path.xis[finite], coef, style, color=colour, marker="o", markersize=3, label=name)
    marked = [xi for xi, m in zip(path.xis, path.models, strict=True) if m.lower_minima_ and np.isfinite(xi)]
    for k, xi in enumerate(marked):
        ax.axvline(xi, color="0.4", linestyle=":", linewidth=1, label="lower minimum known" if k == 0 else None)
    _xi_axis(ax, path.xis)
    ax.axhline(0.0, color="0.8", linewidth=1, zorder=0)
    ax.set_ylabel("coefficient on the scale of h")
    if path.coef_names:
        _outside_legend(ax)
    return ax


def net_path(path: Any, axes: Any = None, label: int = 8) -> Any:
    """Draw the coefficients of an ``ElasticNetPath`` against lambda, a panel for each xi; return the axes.

    The ``label`` coefficients that go furthest from zero have names and colours of their own, the same in all panels.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> path = atm.elastic_net_path(atm.OrdinalRegression(), frame.X, frame.y, data.judge, [0, 1], n_lambdas=5)
    >>> axes = atm.plotting.net_path(path)  # the same as path.plot()
    >>> [ax.get_title() for ax in axes]
    ['xi = 0', 'xi = 1']
    >>> plt.close(axes[0].figure)
    """
    if axes is None:
        size = (1.5 + 3.2 * path.xis.size, 4.0)
        axes = _pyplot().subplots(1, path.xis.size, sharey=True, layout="constrained", figsize=size, squeeze=False)[1]
    axes = np.atleast_1d(axes).ravel()
    if axes.size != path.xis.size:
        raise InputError(f"a panel for each xi: there are {path.xis.size} of them and {axes.size} axes")
    furthest = np.abs(path.coefs).max(axis=(0, 1))
    ever = np.flatnonzero(furthest)
    named = sorted(ever[np.argsort(-furthest[ever], kind="stable")][:label].tolist())
    others = sorted(set(ever.tolist()) - set(named))
    for ax, xi, coefs in zip(axes, path.xis, path.coefs.transpose(1, 2, 0), strict=True):
        for k, j in enumerate(others):
            text = f"{len(others)} others" if k == 0 else None
            ax.plot(path.lambdas, coefs[j], color="0.75", linewidth=0.7, zorder=1, label=text)
        for j, (colour, style) in zip(named, _looks(), strict=False):
            ax.plot(path.lambdas, coefs[j], style, color=colour, zorder=2, label=path.coef_names[j])
        ax.axhline(0.0, color="0.8", linewidth=1, zorder=0)
        ax.set_title(f"xi = {xi:g}")
        _lambda_axis(ax)
    axes[0].set_ylabel("coefficient on the scale of h")
    if ever.size:
        _outside_legend(axes[-1])
    return axes


def net_search(search: Any, ax: Any = None) -> Any:
    """Draw the objective of an ``ElasticNetCV`` against lambda, a line for each xi; a circle marks the choice.

    A ``SmoothSearchCV`` is drawn against smooth, no smoothing a decade below the least.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> search = atm.ElasticNetCV(atm.OrdinalRegression(), [0, 3], n_lambdas=5)
    >>> search = search.fit(frame.X, frame.y, anchors=data.judge)
    >>> ax = atm.plotting.net_search(search)  # the same as search.plot()
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['xi = 0', 'xi = 3', 'chosen']
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax)
    table = search.results_.objective.unstack("xi")
    smooth = search.results_.index.names[0] == "smooth"
    at = np.asarray(table.index, dtype=np.float64)
    shown = np.where(at > 0.0, at, 0.1 * at[at > 0.0].min(initial=max(1.0, at.max())))
    for xi, (colour, style) in zip(table.columns, _looks(), strict=False):
        ax.plot(shown, table[xi], style, color=colour, marker="o", markersize=3, label=f"xi = {xi:g}")
    best = (search.best_smooth_ if smooth else search.best_lambda_, search.best_xi_)
    place = shown[at == best[0]]
    ax.plot(place, table.loc[best], "o", color="black", fillstyle="none", markersize=10, label="chosen")
    if smooth:
        _lambda_axis(ax, "strength of smoothing, smooth")
        ax.xaxis.set_major_locator(_pyplot().matplotlib.ticker.FixedLocator(shown))
        ax.xaxis.set_major_formatter(lambda value, _: f"{at[np.abs(shown - value).argmin()]:g}")
    else:
        _lambda_axis(ax)
    what = search.objective if isinstance(search.objective, str) else f"{search.objective:g} quantile of the"
    ax.set_ylabel(f"{what} nll of left-out environments")
    _outside_legend(ax)
    return ax


def left_out(result: Any, ax: Any = None, label: int = 3, legend: bool = True) -> Any:
    """Draw the nll of each left-out environment against xi, naming the ``label`` hardest at the first xi.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), frame.X, frame.y, data.judge, [0, 3])
    >>> ax = atm.plotting.left_out(result, label=1)  # the same as result.plot(label=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['worst', 'others', '7', 'median']
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax, figsize=(7.5, 4.5))
    table = result.frame().pivot(index="xi", columns="environment", values="nll")
    table = table[np.isfinite(table.index)]
    hardest = sorted(table.iloc[0].nlargest(label).index, key=str)
    others = table.drop(columns=hardest)
    ax.plot(table.index, table.max(axis=1), color="tab:red", linewidth=6, alpha=0.3, zorder=2, label="worst")
    for k, name in enumerate(others.columns):
        ax.plot(table.index, others[name], color="0.7", linewidth=0.7, zorder=1, label="others" if k == 0 else None)
    for k, name in enumerate(hardest):
        ax.plot(table.index, table[name], STYLES[k % 4], color="black", zorder=3, label=str(name))
    ax.plot(table.index, table.median(axis=1), color="tab:blue", linewidth=2.5, zorder=4, label="median")
    _xi_axis(ax, table.index.to_numpy(dtype=np.float64))
    ax.set_ylabel("mean negative log-likelihood\nof the left-out environment")
    if legend:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def nll_quantiles(curves: Mapping[str, ArrayLike], ax: Any = None, *, alpha: ArrayLike | None = None) -> Any:
    """Draw the quantile function of the rows' negative log-likelihood for each model.

    A model that holds up under shifts has a low curve on the right, where the rows it predicts worst are.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> fits = {f"xi = {xi}": atm.OrdinalRegression(xi).fit(frame.X, frame.y, anchors=data.judge) for xi in (0, 3)}
    >>> ax = atm.plotting.nll_quantiles({name: fit.nll(frame.X, frame.y) for name, fit in fits.items()})
    >>> len(ax.lines), ax.get_xlabel()
    (2, 'share of rows')
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax)
    levels = np.linspace(0.0, 1.0, 501) if alpha is None else np.asarray(alpha, dtype=np.float64)
    for (name, values), (colour, style) in zip(curves.items(), _looks(), strict=False):
        quantiles = np.quantile(np.asarray(values, dtype=np.float64), levels)
        ax.plot(levels, quantiles, style, color=colour, linewidth=1.8, label=name)
    ax.set(xlabel="share of rows", ylabel="negative log-likelihood of a row, at most")
    ax.legend(loc="upper left", frameon=False)
    return ax


def residuals(values: ArrayLike, anchors: Any, ax: Any = None, *, label: int = 3) -> Any:
    """Draw score residuals against one anchor.

    Of a factor: the mean of each level with two standard errors, ordered, and the ``label`` furthest
    named. Of a number: each row, and the line of least squares.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> model = atm.OrdinalRegression().fit(frame.X, frame.y)
    >>> ax = atm.plotting.residuals(model.residuals(frame.X, frame.y), data.judge)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('judge', 'mean score residual, +- 2 standard errors')
    >>> plt.close(ax.figure)
    """
    aligned(values=values, anchors=anchors)
    r = np.asarray(values, dtype=np.float64)
    columns = anchor_columns(anchors)
    if len(columns.factors) + len(columns.column_names) != 1 or len(columns) != r.size:
        raise InputError(f"draw residuals against one anchor at a time, with {r.size} rows")
    ax = _axes(ax)
    ax.axhline(0.0, color="0.6", linewidth=1)
    ax.set_ylabel("score residual")
    if columns.column_names:
        a = columns.columns[:, 0]
        ax.plot(a, r, ".", color="0.5", markersize=3, rasterized=r.size > 5000)
        ends = np.array([a.min(), a.max()])
        ax.plot(ends, np.polyval(np.polyfit(a, r, 1), ends), color="black", label="least squares")
        ax.set_xlabel(columns.column_names[0])
        ax.legend(frameon=False)
        return ax
    codes, levels = columns.factors[0], columns.levels[0]
    count = np.bincount(codes)
    mean = np.bincount(codes, r) / count
    square = np.bincount(codes, (r - mean[codes]) ** 2)
    error = np.sqrt(square / np.maximum(count - 1, 1) / count)
    order = np.argsort(mean)
    ax.errorbar(
        np.arange(mean.size), mean[order], 2.0 * error[order], fmt="o", color="black", ecolor="0.6", markersize=3
    )
    ax.set_ylabel("mean score residual, +- 2 standard errors")
    _name_levels(ax, levels[order], mean[order], label, columns.factor_names[0])
    return ax


def _name_levels(ax: Any, levels: NDArray[Any], height: Array, label: int, title: str) -> None:
    """Name the levels below the axis where they are few, else the ``label`` furthest from 0 beside their points."""
    if levels.size <= MANY:
        ax.set_xticks(np.arange(levels.size), [str(level) for level in levels], rotation=90 if levels.size > 6 else 0)
    else:
        ax.set_xticks([])
        span = float(np.ptp(height)) or 1.0
        for side in (True, False):  # names stand towards the middle; near ones below each other
            furthest = np.argsort(-np.abs(height))[:label]
            own = sorted((k for k in furthest if (k < levels.size / 2) == side), key=lambda k: -height[k])
            last, drop = np.inf, 0
            for k in own:
                drop = drop + 1 if last - height[k] < 0.04 * span else 0
                last = height[k]
                ax.annotate(
                    str(levels[k]),
                    (k, height[k]),
                    xytext=(8 if side else -8, -12 * drop),
                    textcoords="offset points",
                    ha="left" if side else "right",
                    va="center",
                    fontsize="small",
                )
        title = f"{title} ({levels.size} levels, by height)"
    ax.set_xlabel(title)


def invariance(table: Any, ax: Any = None, *, label: int = 3) -> Any:
    """Draw the mean residual of each level before and after, from the frame of ``residual_invariance``.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> before, after = (atm.OrdinalRegression(xi).fit(frame.X, frame.y, anchors=data.judge) for xi in (0, 10))
    >>> result = atm.diagnostics.residual_invariance(before, after, frame.X, frame.y, data.judge)
    >>> ax = atm.plotting.invariance(result.frame())  # the same as result.plot()
    >>> ax.get_ylabel()
    'mean score residual'
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax)
    table = table[np.isfinite(table["mean_before"])].sort_values("mean_before")
    if table.empty:
        raise InputError("there is no factor among the anchors: plotting.residuals draws numeric ones")
    where = np.arange(len(table))
    before, after = table["mean_before"].to_numpy(), table["mean_after"].to_numpy()
    ax.axhline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.vlines(where, before, after, color="0.8", zorder=1)
    ax.plot(where, before, "o", mfc="white", mec="black", markersize=5, label="before")
    ax.plot(where, after, "o", color="black", markersize=4, label="after")
    _name_levels(ax, table["level"].to_numpy(), before, label, "environment")
    ax.set_ylabel("mean score residual")
    ax.legend(frameon=False)
    return ax


def pit(values: ArrayLike, ax: Any = None, *, bins: int = 10) -> Any:
    """Draw the histogram of probability integral transforms, with what chance allows if they are uniform (95 %).

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
    ax = _axes(ax)
    low, high = (stats.binom.ppf(q, u.size, 1.0 / bins) * bins / u.size for q in (0.025, 0.975))
    ax.hist(u, bins=bins, range=(0.0, 1.0), density=True, color="0.75", edgecolor="white")
    ax.axhspan(low, high, color="tab:blue", alpha=0.2, lw=0, label="95 % of bars, if calibrated")
    ax.axhline(1.0, color="tab:blue", linewidth=1)
    ax.set(xlabel="probability integral transform", ylabel="density", xlim=(0.0, 1.0))
    ax.set_ylim(0.0, 1.25 * max(ax.get_ylim()[1], high))  # room for the legend
    ax.legend(loc="upper center", frameon=False)
    return ax


def calibration(rows: Any, ax: Any = None, *, label: int = 3) -> Any:
    """Draw the distribution of the transforms (columns environment, pit) by environment, the furthest ones named.

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
    ax = _axes(ax, figsize=(6.5, 4.2))
    u = np.linspace(0.0, 1.0, 201)
    curves = {
        name: np.searchsorted(np.sort(part["pit"]), u, "right") / len(part)
        for name, part in rows.groupby("environment")
    }
    sizes = rows.groupby("environment").size()
    away = {name: np.sqrt(sizes[name]) * np.abs(curve - u).max() for name, curve in curves.items()}
    hardest = sorted(away, key=lambda name: -away[name])[:label]
    for name in (name for name in curves if name not in hardest):
        ax.plot(u, curves[name], color="0.75", linewidth=0.8)
    for name, (colour, style) in zip(hardest, _looks(), strict=False):
        ax.plot(u, curves[name], style, color=colour, label=str(name))
    ax.plot(u, u, color="black", linewidth=1, label="calibrated")
    ax.set(xlabel="predicted probability", ylabel="share of outcomes below", xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def intervals(table: Any, ax: Any = None, *, value: str, unit: str, title: str = "") -> Any:
    """Draw one point for each row of a table with columns ``value``, lower and upper, its index as names.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> model = atm.OrdinalRegression(xi=1.0).fit(frame.X, frame.y, anchors=data.judge)
    >>> ax = atm.plotting.intervals(model.intervals(), value="coef", unit="log odds ratio")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['temp[T.warm]', 'contact[T.yes]']
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax, figsize=(6.0, 1.2 + 0.35 * len(table)))
    where = np.arange(len(table))[::-1]
    estimate = table[value].to_numpy()
    ends = np.abs(np.vstack([table["lower"], table["upper"]]) - estimate)
    ax.axvline(0.0, color="0.6", linewidth=1)
    ax.errorbar(estimate, where, xerr=ends, fmt="o", color="black", ecolor="0.5", markersize=4, capsize=2)
    ax.set_yticks(where, [str(name) for name in table.index])
    ax.set_xlabel(unit)
    if title:
        ax.set_title(title, fontsize="medium")
    return ax


def chi_square(statistic: float, df: int, ax: Any = None, *, level: float = 0.05, simulated: Any = ()) -> Any:
    """Draw a test statistic in its chi-square distribution, with the region of rejection shaded.

    If ``simulated`` statistics are given, their histogram is drawn too, and their quantile says what is rejected.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> ax = atm.plotting.chi_square(12.5, df=4)
    >>> ax.get_legend().get_texts()[-1].get_text()
    'observed, 12.5'
    >>> plt.close(ax.figure)
    """
    from scipy import stats

    ax = _axes(ax)
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
    ax.axvline(statistic, color="tab:red", linestyle="--", label=f"observed, {statistic:.4g}")
    ax.set(
        xlabel="score statistic",
        ylabel="density under invariance",
        ylim=(0.0, 1.1 * max(height, min(density.max(), 1.0))),
    )
    _outside_legend(ax)
    return ax


def shares(table: Any, ax: Any = None) -> Any:
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
    ax = _axes(ax, figsize=(6.0, 1.2 + 0.35 * len(table)))
    where = np.arange(len(table))[::-1]
    ax.barh(where, table["R2"], color="0.8", height=0.7, label="R2")
    ax.barh(where, table["partial_R2"], color="black", height=0.3, label="partial R2")
    ax.set_yticks(where, [str(name) for name in table.index])
    ax.set(xlabel="share of the covariate's variance that the anchors explain", xlim=(0.0, 1.0))
    _outside_legend(ax)
    return ax


def flattening(table: Any, ax: Any = None) -> Any:
    """Draw the size of the coefficients on both scales and the spread, relative to the first xi.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> path = atm.anchor_path(atm.NormalLinear(), data[["rm", "lstat"]], data.cmedv, data.town, [0, 1, 10, 100])
    >>> result = atm.diagnostics.over_identification(path, data[["rm", "lstat"]])
    >>> ax = atm.plotting.flattening(result.frame())  # the same as result.plot()
    >>> len(ax.lines), ax.get_ylabel()
    (3, 'relative to xi = 0')
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax)
    names = {
        "coef_norm": "coefficients, scale of h",
        "spread": "spread of predictions",
        "effect_norm": "coefficients, scale of y",
    }
    table = table[np.isfinite(table["xi"])]
    for (column, name), (colour, style) in zip(names.items(), _looks(), strict=False):
        if np.isfinite(table[column]).all():
            relative = table[column] / table[column].iloc[0]
            ax.plot(table["xi"], relative, style, color=colour, marker="o", markersize=3, label=name)
    _xi_axis(ax, table["xi"].to_numpy())
    ax.set_yscale("log")
    ax.set_ylabel(f"relative to xi = {table['xi'].iloc[0]:g}")
    ax.legend(frameon=False)
    return ax


def rule(table: Any, level: float, chosen: float | None, ax: Any = None) -> Any:
    """Draw the p-values of the score test along xi, the level, and the xi chosen.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> rule = atm.xi_by_score_test(atm.OrdinalRegression(), frame.X, frame.y, data.judge)
    >>> ax = atm.plotting.rule(rule.frame(), rule.level, rule.xi)  # the same as rule.plot()
    >>> ax.get_legend().get_texts()[0].get_text()
    'level 0.05'
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax)
    shown = np.maximum(table["pvalue"], 1e-12)
    smallest = " (1e-12 or less at the bottom)" if (table["pvalue"] < 1e-12).any() else ""
    ax.plot(table["xi"], shown, "-", color="black", marker="o", markersize=3)
    ax.axhline(level, color="tab:red", linestyle="--", label=f"level {level:g}")
    if chosen is not None:
        ax.axvline(chosen, color="tab:blue", linestyle=":", label=f"chosen, xi = {chosen:.3g}")
    _xi_axis(ax, table["xi"].to_numpy())
    ax.set_yscale("log")
    ax.set_ylabel(f"p-value of the score test{smallest}")
    ax.legend(frameon=False)
    return ax


def graph(edges: Sequence[tuple[str, str]], ax: Any = None) -> Any:
    """Draw a graph of anchors A, hidden H, covariates X and outcome Y as the paper draws it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> ax = atm.plotting.graph([("A", "X"), ("H", "X"), ("H", "Y"), ("X", "Y")])
    >>> [text.get_text() for text in ax.texts if text.get_text()]
    ['A', 'H', 'X', 'Y']
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax, figsize=(3.6, 3.0))
    places = {"A": (0.0, 1.0), "H": (1.0, 1.0), "X": (0.0, 0.0), "Y": (1.0, 0.0)}
    for name, (x, y) in places.items():
        look = {"boxstyle": "circle,pad=0.4", "fc": "white", "ec": "black", "ls": "--" if name == "H" else "-"}
        ax.text(x, y, name, ha="center", va="center", fontsize="x-large", bbox=look)
    for start, end in edges:
        arrow = {"arrowstyle": "-|>", "color": "black", "shrinkA": 18, "shrinkB": 18}
        ax.annotate("", places[end], places[start], arrowprops=arrow)
    ax.set(xlim=(-0.4, 1.4), ylim=(-0.4, 1.4), aspect="equal")
    ax.set_axis_off()
    return ax


def rounds(model: Any, ax: Any = None) -> Any:
    """Draw the loss of a boosted model after each round, its parts, and what held-out environments say.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.AnchorBoostedTM(atm.ContinuousProbit(), xi=1.0, n_rounds=20)
    >>> ax = atm.plotting.rounds(model.fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town))  # model.plot()
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['anchor loss', 'negative log-likelihood']
    >>> plt.close(ax.figure)
    """
    ax = _axes(ax, figsize=(6.5, 4))
    table = model.loss_history_
    names = {"loss": "anchor loss", "nll": "negative log-likelihood", "held_out": "held-out environments"}
    for (name, label), (colour, style) in zip(names.items(), _looks(), strict=False):
        if name in table:
            ax.plot(table.index, table[name], style, color=colour, label=label)
    if "held_out" in table:
        best = int(table.held_out.argmin())
        ax.plot(best, table.held_out[best], "o", color=COLOURS[2])
        ax.annotate(f"round {best}", (best, table.held_out[best]), (0, 8), textcoords="offset points", ha="center")
    ax.set(xlabel="rounds", ylabel="mean over rows")
    ax.legend(frameon=False)
    return ax
