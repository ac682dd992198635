"""A control for Figure 4: what wider predictions alone do for left-out towns, beside what xi does.

Each town is left out as in the figure. The maximum-likelihood fit to the others is then made wider by one factor, the
same for all towns; its medians stay where they are. The factors are judged by the same towns as the values of xi.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from anchortm.plotting.style import STRATEGIES
from anchortm.reproduce.boston_data import MODELS, model_of, outcome, read, towns
from anchortm.reproduce.engine import Array, Arrays, Claim

__all__ = ["FACTORS", "FAILS", "HOLDS", "XIS", "figure", "findings", "lead", "measured", "tables"]

XIS = [0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
FACTORS = np.round(
    [*np.arange(1.0, 2.0, 0.05), *np.arange(2.0, 4.0, 0.1), *np.arange(4.0, 6.0, 0.25), *np.arange(6.0, 12.5)], 2
)
AT = XIS.index(10.0)  # the xi of Figure 5, whose differences from xi = 0 are split
ENOUGH = 10  # tracts; smaller towns decide nothing where they are set aside
HOLDS, FAILS = "holds", "does not hold"
PLAIN, ANCHORED, WIDENED = (STRATEGIES[name][0] for name in ("maximum likelihood", "anchored", "widened"))


class Way(NamedTuple):
    """A curve of the figure."""

    key: str
    values: Any
    named: tuple[float, ...]
    sign: str
    label: str
    colour: str
    style: str
    marker: str
    side: int  # where labels are: 1 above and to the right, -1 below and to the left


WAYS = (
    Way("control_xi", XIS, (1.0, 3.0, 10.0, 30.0), "xi ", "along xi", ANCHORED, "-", "o", 1),
    Way(
        "control_factor",
        FACTORS,
        (1.5, 2.0, 3.0, 5.0),
        "\u00d7",
        "maximum likelihood, wider",
        WIDENED,
        "--",
        "s",
        -1,
    ),
)


def measured(name: str, result: Any) -> Arrays:
    """Return what one model predicts for each left-out town, along xi and along the factor.

    Parameters
    ----------
    name : str
        The model.
    result : LeaveOneEnvironmentOut
        Its left-out fits, for ``XIS`` at least.

    Returns
    -------
    dict
        By town: ``control_xi`` and ``control_factor``, the mean NLL; ``control_spread``, the part of its change from
        xi = 0 that the width explains, and ``control_width``, how many times as wide predictions are; the mean
        ``control_squared_error`` of medians. ``control_order`` is the change at the hardest town at xi = 10 if medians
        move first and the width changes afterwards.
    """
    price = read()[1].to_numpy()
    places = towns()
    split = result.split()
    split = split[split.xi.isin(XIS)]

    def by_town(column: str) -> Array:
        return np.asarray(split.pivot(index="environment", columns="xi", values=column).to_numpy())

    nll = result.frame().pivot(index="environment", columns="xi", values="nll")[XIS].to_numpy()
    errors = []
    for xi in XIS:
        found = result.predictions(xi)
        errors.append([_squared_error(found[place], price) for place in places])
    hardest = int(nll[:, 0].argmax())
    return {
        "control_xi": nll,
        "control_factor": np.array([[result.held[place].nll_at_width(f) for f in FACTORS] for place in places]),
        "control_spread": by_town("spread"),
        "control_width": by_town("factor"),
        "control_squared_error": np.array(errors).T,
        "control_order": np.array(_medians_first(name, places[hardest], by_town("factor")[hardest, AT])),
    }


def _squared_error(predicted: Any, price: Array) -> float:
    """Return the mean squared error of the medians that were predicted for a town; prices as recorded."""
    return float(np.mean((predicted.distribution.median() - price[predicted.rows]) ** 2))


def _medians_first(name: str, place: str, factor: float) -> float:
    """Return the change in NLL of a left-out town from xi = 0 to 10 while predictions stay as wide as at xi = 0."""
    X, price, town = read()
    y, out = outcome(name, price), (town == place).to_numpy()
    plain, anchored = (
        model_of(name).set_params(xi=xi).fit(X[~out], y[~out], anchors=town[~out]) for xi in (0.0, XIS[AT])
    )
    narrow = anchored.widened(1.0 / factor)
    return float(np.mean(narrow.nll(X[out], y[out])) - np.mean(plain.nll(X[out], y[out])))


def tables(arrays: Arrays) -> dict[str, pd.DataFrame]:
    """Return the worst, median and mean town along xi and along the factor, each town along xi, and the findings."""
    return {
        "boston_control": _along(arrays),
        "boston_control_towns": _by_town(arrays),
        "boston_findings": pd.DataFrame([vars(one) for one in findings(arrays)]).drop(columns="reason"),
    }


def _along(arrays: Arrays) -> pd.DataFrame:
    places, sizes, rows = np.array(towns()), _sizes(), []
    for k, model in enumerate(MODELS):
        error = arrays["control_squared_error"][k]
        for along, values, nll in (
            ("xi", XIS, arrays["control_xi"][k]),
            ("factor", FACTORS, arrays["control_factor"][k]),
        ):
            hardest = nll.argmax(axis=0)
            errors = error if along == "xi" else error[:, :1]  # a factor moves no median
            rows.append(
                pd.DataFrame(
                    {
                        "model": model,
                        "along": along,
                        "value": values,
                        "worst": nll.max(axis=0),
                        "median": np.median(nll, axis=0),
                        "mean": nll.mean(axis=0),
                        "hardest": places[hardest],
                        "tracts": sizes[hardest],
                        "squared_error_worst": np.broadcast_to(errors.max(axis=0), len(values)),
                        "squared_error_mean": np.broadcast_to(errors.mean(axis=0), len(values)),
                    }
                )
            )
    return pd.concat(rows, ignore_index=True)


def _by_town(arrays: Arrays) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([MODELS, towns(), XIS], names=["model", "town", "xi"])
    nll, spread = arrays["control_xi"], arrays["control_spread"]
    columns = {
        "tracts": np.broadcast_to(_sizes()[None, :, None], nll.shape),
        "nll": nll,
        "width": arrays["control_width"],
        "spread": spread,
        "location": _location(arrays),
        "squared_error": arrays["control_squared_error"],
    }
    return pd.DataFrame({key: np.ravel(value) for key, value in columns.items()}, index=index).reset_index()


def _location(arrays: Arrays) -> Array:
    """Return the part of each change in NLL from xi = 0 that the width does not explain."""
    nll = arrays["control_xi"]
    return np.asarray(nll - nll[:, :, :1] - arrays["control_spread"])


def _sizes() -> Array:
    counts = read()[2].value_counts()
    return np.array([counts[place] for place in towns()])


def findings(arrays: Arrays) -> list[Claim]:
    """Return what the control shows, each with its numbers and whether they bear it out."""
    return [
        _worst_by_width(arrays),
        _hardest_by_width(arrays),
        _at_equal_medians(arrays),
        _medians(arrays),
        _small_towns(arrays),
    ]


def _listed(text: Callable[[int], str]) -> str:
    return "; ".join(f"{name}: {text(k)}" for k, name in enumerate(MODELS))


def _gain(arrays: Arrays) -> Array:
    """Return by how much the best xi lowers the worst town."""
    worst = arrays["control_xi"].max(axis=1)
    return np.asarray(worst[:, 0] - worst.min(axis=1))


def _worst_by_width(arrays: Arrays) -> Claim:
    ways = []
    for key, values in (("control_xi", XIS), ("control_factor", FACTORS)):
        worst, median = arrays[key].max(axis=1), np.median(arrays[key], axis=1)
        best = worst.argmin(axis=1)
        ways.append([(w[b], m[b], values[b]) for w, m, b in zip(worst, median, best, strict=True)])
    start = arrays["control_xi"].max(axis=1)[:, 0]
    share = (start - [way[0] for way in ways[1]]) / _gain(arrays)

    def text(k: int) -> str:
        (worst, median, xi), (wide, wide_median, factor) = ways[0][k], ways[1][k]
        return (
            f"{start[k]:.2f} at xi = 0, {worst:.2f} at xi = {xi:g} (median town {median:.2f}), {wide:.2f} with "
            f"{factor:g} times the width ({wide_median:.2f})"
        )

    return Claim(
        "W1",
        "wider maximum-likelihood predictions alone bring at least nine tenths of what the best xi gains at the worst town",
        _listed(text),
        _verdict(share >= 0.9),
        "",
    )


def _hardest_by_width(arrays: Arrays) -> Claim:
    places, models = towns(), np.arange(len(MODELS))
    hardest = arrays["control_xi"][:, :, 0].argmax(axis=1)
    change = arrays["control_xi"][models, hardest, AT] - arrays["control_xi"][models, hardest, 0]
    before = arrays["control_spread"][models, hardest, AT]
    after = change - arrays["control_order"]
    return Claim(
        "W2",
        "at xi = 10 more than half of the change at the hardest town is width, whether it is counted before the medians "
        "move or afterwards",
        _listed(
            lambda k: (
                f"{places[hardest[k]]} {change[k]:+.2f}, width {before[k]:+.2f} if counted first, "
                f"{after[k]:+.2f} if counted last"
            )
        ),
        _verdict(np.minimum(before / change, after / change) > 0.5),
        "",
    )


def _at_equal_medians(arrays: Arrays) -> Claim:
    best = arrays["control_xi"].max(axis=1).argmin(axis=1)
    ahead = [own[:last] for own, last in zip(lead(arrays), best, strict=True)]
    most = np.array([own.max() for own in ahead])
    return Claim(
        "W3",
        "at the same median town, no xi up to the best one is ahead of width at the worst town by a tenth of that gain "
        "(measured: worst town of width minus that of xi)",
        _listed(
            lambda k: ", ".join(f"{value:+.2f} at xi = {xi:g}" for value, xi in zip(ahead[k], XIS[1:], strict=False))
        ),
        _verdict(most < 0.1 * _gain(arrays)),
        "",
    )


def lead(arrays: Arrays) -> Array:
    """Return for each model and xi > 0 how far its worst town is below that of a factor with the same median town.

    Positive numbers are in favour of xi. Between the factors of the grid, both towns are interpolated.
    """
    fine = np.geomspace(FACTORS[0], FACTORS[-1], 5000)
    found = []
    for along_xi, along_factor in zip(arrays["control_xi"], arrays["control_factor"], strict=True):
        worst, median = (
            np.interp(fine, FACTORS, values) for values in (along_factor.max(axis=0), np.median(along_factor, axis=0))
        )
        limits = np.maximum(np.median(along_xi, axis=0)[1:], median[0])
        found.append([worst[median <= limit].min() for limit in limits] - along_xi.max(axis=0)[1:])
    return np.array(found)


def _medians(arrays: Arrays) -> Claim:
    error = arrays["control_squared_error"][:, :, [0, AT]]
    (worst, worst_then), (mean, mean_then) = error.max(axis=1).T, error.mean(axis=1).T
    at_worst, on_average = worst_then / worst - 1.0, mean_then / mean - 1.0
    return Claim(
        "W4",
        "at xi = 10 the squared error of medians falls at the worst town, by more than on average",
        _listed(lambda k: f"{100 * at_worst[k]:+.1f} % at the worst town, {100 * on_average[k]:+.1f} % on average"),
        _verdict((at_worst < 0.0) & (at_worst < on_average)),
        "",
    )


def _small_towns(arrays: Arrays) -> Claim:
    places, sizes, nll = towns(), _sizes(), arrays["control_xi"]
    hardest, large = nll[:, :, 0].argmax(axis=1), sizes >= ENOUGH
    low = nll[:, large].max(axis=1)
    small = (low[:, 0] - low.min(axis=1) < 0.1 * _gain(arrays)) & (sizes[hardest] < ENOUGH)
    return Claim(
        "W5",
        f"the hardest town has few tracts; at the worst of the {large.sum()} towns with at least {ENOUGH} tracts the best xi "
        "gains less than a tenth as much",
        _listed(
            lambda k: (
                f"{places[hardest[k]]} with {sizes[hardest[k]]} tracts, worst of the larger towns {low[k, 0]:.2f} at "
                f"xi = 0, {low[k].min():.2f} at xi = {XIS[int(low[k].argmin())]:g}"
            )
        ),
        _verdict(small),
        "",
    )


def _verdict(by_model: Any) -> str:
    """Return the verdict on a sentence about all models."""
    return HOLDS if np.all(by_model) else FAILS


def figure(arrays: Arrays) -> Any:
    """Return the worst against the median town, along xi and along the width, and what changed at single towns."""
    from matplotlib.figure import Figure

    drawing: Any = Figure(figsize=(13.2, 7.4), layout="constrained")
    left, right = drawing.subfigures(1, 2, width_ratios=(2.0, 1.2), wspace=0.03)
    axes = left.subplots(2, 2, sharex=True, sharey=True)
    for k, model in enumerate(MODELS):
        _trade(axes.flat[k], arrays, k)
        axes.flat[k].set_title(model, fontsize="medium")
    axes[0, 0].set(xlim=(2.5, 5.1), ylim=(4.0, 17.0), yscale="log")
    axes[0, 0].set_yticks([4, 5, 6, 8, 10, 15], ["4", "5", "6", "8", "10", "15"])
    axes[0, 0].minorticks_off()
    left.suptitle("a   Left-out NLL: the worst town against the median town", fontsize="large")
    for ax in axes[-1]:
        ax.set_xlabel("mean NLL of the median town")
    for ax in axes[:, 0]:
        ax.set_ylabel("mean NLL of the worst town")
    _legend_below(left, axes[0, 0], (2, 0, 1))
    ax = right.subplots()
    _parts(ax, arrays, 0)
    right.suptitle(f"b   {MODELS[0]}: what changes from xi = 0 to xi = {XIS[AT]:g}", fontsize="large")
    _legend_below(right, ax, (1, 2, 0))
    return drawing


def _legend_below(part: Any, ax: Any, order: tuple[int, ...]) -> None:
    lines, labels = ax.get_legend_handles_labels()
    part.legend(
        [lines[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=len(order),
        frameon=False,
    )


def _trade(ax: Any, arrays: Arrays, k: int) -> None:
    """Draw the worst against the median town of a model, along xi and along the factor."""
    for way in WAYS:
        nll = arrays[way.key][k]
        worst, median = nll.max(axis=0), np.median(nll, axis=0)
        marked = np.isin(way.values, way.named)
        ax.plot(median, worst, way.style, color=way.colour, marker=way.marker, markevery=marked, label=way.label)
        for j in np.flatnonzero(marked):
            ax.annotate(
                f"{way.sign}{way.values[j]:g}",
                (median[j], worst[j]),
                xytext=(4 * way.side, 6 * way.side),
                textcoords="offset points",
                ha="left" if way.side > 0 else "right",
                va="bottom" if way.side > 0 else "top",
                color=way.colour,
                fontsize="small",
            )
    start = arrays["control_xi"][k][:, 0]
    ax.plot(np.median(start), start.max(), "*", color=PLAIN, markersize=11, label="maximum likelihood")


def _parts(ax: Any, arrays: Arrays, k: int) -> None:
    """Draw the parts of the change at each town that gains, and their means over the others."""
    spread, location = arrays["control_spread"][k, :, AT], _location(arrays)[k, :, AT]
    total = spread + location
    gains = np.argsort(total)[: int((total < 0.0).sum())]
    others = total >= 0.0
    places, sizes = towns(), _sizes()
    names = [f"{places[i]} ({sizes[i]})" for i in gains] + [f"{others.sum()} other towns (mean)"]
    rows = np.arange(len(names))
    for values, colour, label, shift in (
        (spread, WIDENED, "width", -0.18),
        (location, ANCHORED, "medians and shape", 0.18),
    ):
        bars = [*values[gains], values[others].mean()]
        ax.barh(rows + shift, bars, height=0.34, color=colour, label=label)
    ax.plot([*total[gains], total[others].mean()], rows, "D", color="black", markersize=5, label="whole change")
    ax.axvline(0.0, color="0.4", linewidth=1)
    ax.locator_params(axis="x", integer=True)
    ax.set_yticks(rows, names)
    ax.invert_yaxis()
    ax.set(xlabel="change in mean NLL (below 0: better)", ylabel="left-out town (number of tracts)")
