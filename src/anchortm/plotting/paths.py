"""Pictures along xi, lambda and boosting rounds: coefficients, left-out environments and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Axis
from anchortm.exceptions import InputError
from anchortm.plotting.results import Boosted, LeftOut, NetPath, NetSearch, Panels, Path, XiSearch
from anchortm.plotting.style import (
    COLOURS,
    STYLES,
    crowd,
    lambda_axis,
    level_label,
    looks,
    named_looks,
    new_axes,
    outside_legend,
    pyplot,
    xi_axis,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["coefficient_path", "flattening", "left_out", "net_path", "net_search", "rounds", "rule", "xi_search"]


SCORES = {
    "nll": "mean negative log-likelihood",
    "skill": "skill (higher is better)",
    "regret": "change of the negative log-likelihood from xi = 0",
}


def coefficient_path(path: Path, ax: Axis = None) -> Axes:
    """Draw the coefficients of an ``AnchorPath`` against xi; dotted lines mark fits with a known lower minimum.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> path = atm.anchor_path(atm.OrdinalRegression(), formula, data, xis=[0, 1, 10])
    >>> ax = atm.plotting.coefficient_path(path)  # the same as path.plot()
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['temp[T.warm]', 'contact[T.yes]']
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    finite = np.isfinite(path.xis)
    for coef, name, (colour, style) in zip(path.coefs[finite].T, path.coef_names, looks(), strict=False):
        ax.plot(path.xis[finite], coef, style, color=colour, marker="o", markersize=3, label=name)
    marked = [xi for xi, m in zip(path.xis, path.models, strict=True) if m.lower_minima_ and np.isfinite(xi)]
    for k, xi in enumerate(marked):
        ax.axvline(xi, color="0.4", linestyle=":", linewidth=1, label="lower minimum known" if k == 0 else None)
    xi_axis(ax, path.xis)
    ax.axhline(0.0, color="0.8", linewidth=1, zorder=0)
    ax.set_ylabel("coefficient on the scale of h")
    if path.coef_names:
        outside_legend(ax)
    return ax


def net_path(path: NetPath, axes: Panels = None, label: int = 8) -> NDArray[np.object_]:
    """Draw the coefficients of an ``ElasticNetPath`` against lambda, a panel for each xi; return the axes.

    The ``label`` coefficients that move furthest from zero are named and coloured, the same in all panels.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> path = atm.elastic_net_path(atm.OrdinalRegression(), formula, data, xis=[0, 1], n_lambdas=5)
    >>> axes = atm.plotting.net_path(path)  # the same as path.plot()
    >>> [ax.get_title() for ax in axes]
    ['xi = 0', 'xi = 1']
    >>> plt.close(axes[0].figure)
    """
    if axes is None:
        size = (1.5 + 3.2 * path.xis.size, 4.0)
        axes = pyplot().subplots(1, path.xis.size, sharey=True, layout="constrained", figsize=size, squeeze=False)[1]
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if panels.size != path.xis.size:
        raise InputError(f"{panels.size} axes were given for {path.xis.size} values of xi: pass one for each xi")
    furthest = np.abs(path.coefs).max(axis=(0, 1))
    ever = np.flatnonzero(furthest)
    named = sorted(ever[np.argsort(-furthest[ever], kind="stable")][:label].tolist())
    others = sorted(set(ever.tolist()) - set(named))
    for ax, xi, coefs in zip(panels, path.xis, path.coefs.transpose(1, 2, 0), strict=True):
        for k, j in enumerate(others):
            text = f"{len(others)} others" if k == 0 else None
            ax.plot(path.lambdas, coefs[j], color="0.75", linewidth=0.7, zorder=1, label=text)
        for j, (colour, style) in zip(named, looks(), strict=False):
            ax.plot(path.lambdas, coefs[j], style, color=colour, zorder=2, label=path.coef_names[j])
        ax.axhline(0.0, color="0.8", linewidth=1, zorder=0)
        ax.set_title(f"xi = {xi:g}")
        lambda_axis(ax)
    panels[0].set_ylabel("coefficient on the scale of h")
    if ever.size:
        outside_legend(panels[-1])
    return panels


def net_search(search: NetSearch, ax: Axis = None) -> Axes:
    """Draw the objective of an ``ElasticNetCV`` against lambda, a line for each xi; a circle marks the choice.

    A ``SmoothSearchCV`` is drawn against smooth, with zero a decade below the smallest positive value.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> search = atm.ElasticNetCV(atm.OrdinalRegression(), [0, 3], n_lambdas=5)
    >>> search = search.fit(formula, data)
    >>> ax = atm.plotting.net_search(search)  # the same as search.plot()
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['xi = 0', 'xi = 3', 'chosen']
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    table = search.results_.objective.unstack("xi")
    smooth = search.results_.index.names[0] == "smooth"
    at = np.asarray(table.index, dtype=np.float64)
    shown = np.where(at > 0.0, at, 0.1 * at[at > 0.0].min(initial=max(1.0, at.max())))
    labels = [f"xi = {xi:g}" for xi in table.columns]
    for xi, (colour, style) in zip(table.columns, named_looks(labels), strict=True):
        line = {"color": colour, "linestyle": style, "marker": "o", "markersize": 3}
        ax.plot(shown, table[xi], label=f"xi = {xi:g}", **line)
    best = (getattr(search, "best_smooth_" if smooth else "best_lambda_"), search.best_xi_)
    place = shown[at == best[0]]
    ax.plot(place, table.loc[best], "o", color="black", fillstyle="none", markersize=10, label="chosen")
    if smooth:
        lambda_axis(ax, "strength of smoothing, smooth")
        ax.xaxis.set_major_locator(pyplot().matplotlib.ticker.FixedLocator(shown))
        ax.xaxis.set_major_formatter(lambda value, _: f"{at[np.abs(shown - value).argmin()]:g}")
    else:
        lambda_axis(ax)
    name = search.loeo_.environment_name
    ax.set_ylabel(f"{_loss(search)} of left-out environments{f' ({name})' if name else ''}, {_objective(search)}")
    outside_legend(ax)
    return ax


def xi_search(search: XiSearch, ax: Axis = None) -> Axes:
    """Draw the objective of a ``XiSearchCV`` against xi; a circle marks the choice.

    Bars are plus and minus one standard error of the difference from the xi that others are compared with. Thin lines
    are the left-out environments, or the folds if the outermost environments were left out.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> search = atm.XiSearchCV.from_formula(formula, data, model=atm.OrdinalRegression(), xis=[0, 3, 10])
    >>> ax = atm.plotting.xi_search(search)  # the same as search.plot()
    >>> ax.get_title()
    'chosen: xi = 3'
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    table = search.results_[np.isfinite(search.results_.index)]
    at = table.index.to_numpy(dtype=np.float64)
    lines, what = _lines(search, table)
    for k, name in enumerate(lines.columns):
        if search.design == "further":
            ax.plot(at, lines[name], STYLES[k % 4], color="0.5", linewidth=1, zorder=1, label=f"fold: {name}")
    if search.design != "further":
        crowd(ax, at, lines, f"left-out {what}", f"{lines.shape[1]} left-out levels of {what}")
    if "standard_error" in table:
        bars: dict[str, Any] = {"fmt": "none", "ecolor": COLOURS[0], "capsize": 3, "label": "one standard error"}
        ax.errorbar(at, table.objective, yerr=table.standard_error.where(np.isfinite(table.standard_error)), **bars)
    ax.plot(at, table.objective, "-", color=COLOURS[0], marker="o", markersize=4, zorder=3, label=_objective(search))
    if np.isfinite(search.best_xi_):
        there = search.best_xi_, table.objective[search.best_xi_]
        ax.plot(*there, "o", color="black", fillstyle="none", markersize=11, zorder=4, label="chosen")
    xi_axis(ax, at)
    ax.set_ylabel(f"{_loss(search)}\nof the left-out {what}")
    ax.set_title(f"chosen: xi = {search.best_xi_:g}", fontsize="medium")
    outside_legend(ax)
    return ax


def _lines(search: XiSearch, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the losses of what was left out against xi, and what that is."""
    if search.design == "further":
        return table.drop(columns=["objective", "difference"]), "outermost environments"
    losses = search.loeo_.frame().pivot(index="xi", columns="environment", values=_score(search)).loc[table.index]
    return losses if search.rule == "smallest" else -losses, search.loeo_.environment_name or "environment"


def _score(search: XiSearch | NetSearch) -> str:
    return "nll" if search.rule == "smallest" else "skill"


def _loss(search: XiSearch | NetSearch) -> str:
    """Return a name for the losses that a search compares."""
    return "mean negative log-likelihood" if search.rule == "smallest" else "minus skill"


def _objective(search: XiSearch | NetSearch) -> str:
    """Return a name for what a search minimises."""
    if getattr(search, "design", "like") == "further":
        return "mean over folds"
    return search.objective if isinstance(search.objective, str) else f"{search.objective:g} quantile"


def left_out(result: LeftOut, ax: Axis = None, label: int = 3, legend: bool = True, *, of: str = "nll") -> Axes:
    """Draw a score of each left-out environment against xi.

    ``of`` is "nll", "skill" or "regret". The ``label`` hardest environments at the first xi are named; of regret, those
    with the largest gains and losses at the last xi.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), formula, data, xis=[0, 3])
    >>> ax = atm.plotting.left_out(result, label=1)  # the same as result.plot(label=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['worst', 'others', 'judge 7', 'median']
    >>> plt.close(ax.figure)
    """
    if of not in SCORES:
        raise InputError(f"of must be one of {', '.join(SCORES)}, not {of!r}")
    ax = new_axes(ax, figsize=(7.5, 4.5))
    table = result.frame().dropna(subset=[of]).pivot(index="xi", columns="environment", values=of)
    table = table[np.isfinite(table.index)]
    if of == "regret":
        last = table.iloc[-1]
        chosen = [*last.nsmallest(label).index, *last.nlargest(label).index]
        ax.axhline(0.0, color="black", linewidth=1, zorder=2)
    else:
        chosen = list((table.iloc[0].nlargest if of == "nll" else table.iloc[0].nsmallest)(label).index)
        worst = table.max(axis=1) if of == "nll" else table.min(axis=1)
        ax.plot(table.index, worst, color=COLOURS[3], linewidth=6, alpha=0.4, zorder=2, label="worst")
    named = sorted(dict.fromkeys(chosen), key=str)
    others = table.drop(columns=named)
    crowd(ax, table.index.to_numpy(dtype=np.float64), others, "others", f"{others.shape[1]} others")
    for k, name in enumerate(named):
        own = level_label(result.environment_name, name)
        ax.plot(table.index, table[name], STYLES[k % 4], color="black" if k < 4 else "0.45", zorder=3, label=own)
    ax.plot(table.index, table.median(axis=1), color=COLOURS[0], linewidth=2.5, zorder=4, label="median")
    xi_axis(ax, table.index.to_numpy(dtype=np.float64))
    ax.set_ylabel(f"{SCORES[of]}\nof the left-out {result.environment_name or 'environment'}")
    if legend:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def flattening(table: pd.DataFrame, ax: Axis = None, *, unit: str = "y") -> Axes:
    """Draw the size of the coefficients on both scales and the spread, relative to the first xi.

    ``unit`` is the name of the outcome.

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
    ax = new_axes(ax)
    names = {
        "coef_norm": "coefficients, scale of h",
        "spread": "spread of predictions",
        "effect_norm": f"coefficients, scale of {unit}",
    }
    table = table[np.isfinite(table["xi"])]
    for (column, name), (colour, style) in zip(names.items(), looks(), strict=False):
        if np.isfinite(table[column]).all():
            relative = table[column] / table[column].iloc[0]
            ax.plot(table["xi"], relative, style, color=colour, marker="o", markersize=3, label=name)
    xi_axis(ax, table["xi"].to_numpy())
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_ylabel(f"relative to xi = {table['xi'].iloc[0]:g}")
    ax.legend(frameon=False)
    return ax


def rule(table: pd.DataFrame, level: float, chosen: float | None, ax: Axis = None) -> Axes:
    """Draw the p-values of the score test along xi, the level, and the xi chosen.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> data["half"] = data.judge > 4
    >>> rule = atm.xi_by_score_test(atm.OrdinalRegression(), "rating ~ temp + contact | half", data)
    >>> ax = atm.plotting.rule(rule.frame(), rule.level, rule.xi)  # the same as rule.plot()
    >>> ax.get_legend().get_texts()[0].get_text()
    'level 0.05'
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax)
    shown = np.maximum(table["pvalue"], 1e-12)
    smallest = " (1e-12 or less at the bottom)" if (table["pvalue"] < 1e-12).any() else ""
    ax.plot(table["xi"], shown, "-", color="black", marker="o", markersize=3)
    ax.axhline(level, color=COLOURS[1], linestyle="--", label=f"level {level:g}")
    if chosen is not None:
        ax.axvline(chosen, color=COLOURS[0], linestyle=":", label=f"chosen, xi = {chosen:.3g}")
    xi_axis(ax, table["xi"].to_numpy())
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_ylabel(f"p-value of the score test{smallest}")
    ax.legend(frameon=False)
    return ax


def rounds(model: Boosted, ax: Axis = None) -> Axes:
    """Draw the loss of a boosted model after each round, its parts, and the nll of held-out environments.

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
    ax = new_axes(ax, figsize=(6.5, 4))
    table = model.loss_history_
    names = {"loss": "anchor loss", "nll": "negative log-likelihood", "held_out": "held-out environments"}
    for (name, label), (colour, style) in zip(names.items(), looks(), strict=False):
        if name in table:
            ax.plot(table.index, table[name], style, color=colour, label=label)
    if "held_out" in table:
        best = int(table.held_out.argmin())
        ax.plot(best, table.held_out[best], "o", color=COLOURS[2])
        ax.annotate(f"round {best}", (best, table.held_out[best]), (0, 8), textcoords="offset points", ha="center")
    ax.set(xlabel="rounds", ylabel="mean over rows")
    ax.legend(frameon=False)
    return ax
