"""The demonstration: in which towns of BostonHousing2 models fail, what a penalty changes, and a real question."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anchortm as atm
from anchortm._util.files import make_folder, write_figure
from anchortm._util.progress import Task
from anchortm.reproduce.new_places import computers

__all__ = ["COVARIATES", "XIS", "run"]

COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
XIS = [0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0]


def run(folder: Path, say: Any = print) -> dict[str, Any]:
    """Leave out each of 92 towns, for the paper's four models and six values of xi, and assess a new place.

    The tables are printed by ``say``, and returned; figures and the report of the assessment are written to ``folder``,
    and their paths are returned too.
    """
    import pandas as pd

    data = atm.datasets.load_boston_housing2()
    X, price, town = data[COVARIATES], data.cmedv, data.town
    support = (12.9, 34.65)  # 10 % and 90 % quantiles of the price
    models = {
        "Lm": (atm.NormalLinear(), price),
        "c-probit": (atm.ContinuousProbit(), price),
        "c-logit": (atm.ContinuousLogit(support=support), price),
        "c-logit (censored)": (atm.ContinuousLogit(support=support), atm.Surv(price, price != 50)),
    }
    start = time.perf_counter()
    results = {}
    with Task("demo", len(models)) as task:
        for name, (model, y) in models.items():
            task.label = f"demo, {name}"
            results[name] = atm.leave_one_environment_out(model, X, y, town, XIS)
            task.step()
    seconds = time.perf_counter() - start
    without = atm.leave_one_environment_out(atm.ContinuousProbit(), X[[]], price, town, [0]).summary()
    path = atm.anchor_path(atm.NormalLinear(), X / X.std(), price, town, XIS)
    tables = {}
    say("House prices in 92 Boston towns, each predicted by models fitted to the other 91.")
    for row in ("worst", "median"):
        table = pd.DataFrame({name: result.summary()[row] for name, result in results.items()}).T
        tables[row] = table
        shown = table.round(3).rename(columns="xi = {:g}".format)
        say(f"\nMean negative log-likelihood of the {row} town\n{shown.to_string()}")
        say(f"without covariates {without[row].iloc[0]:.3f}")
    say(f"\n{len(models) * len(XIS) * town.nunique()} fits in {seconds:.1f} s. What you see:")
    for line in _explain(results["Lm"].frame()):
        say(line)
    files = _draw(results, path, folder)
    if files:
        say(f"The figures are in {folder}: {', '.join(file.name for file in files)}.")
    else:
        say("Figures need matplotlib: pip install 'anchortm[plot]'.")
    page = _assess(folder, say)
    return {
        "report": str(page),
        "worst": tables["worst"],
        "median": tables["median"],
        "seconds": seconds,
        "figures": [str(f) for f in files],
    }


def _assess(folder: Path, say: Any) -> Path:
    """Assess new months of computer prices from earlier ones, write the report, and return its path."""
    case = computers()
    say("")
    say(
        f"Prices of {len(case.known)} personal computers in months 1 to 24. What should you do to predict later "
        "months, of which you know the computers but not the prices?"
    )
    names = [name for name in case.new.columns if name != "price"]
    found = atm.assess(case.model, case.formula, case.known, new=case.new[names], strategies=["widened", "anchored"])
    advice = found.recommendation.main
    for line in (found.new.sentence if found.new else "", *advice.lines):
        say(f"- {line}")
    found = found.with_outcomes(case.new)
    assert found.held_back is not None  # noqa: S101
    say(f"Now look at the prices of months 25 to 35. {found.held_back.sentence}")
    make_folder(folder)
    page = found.report(folder / "new_months.html")
    say(f"The whole answer, with interactive plots, is in {page}: open it in a browser.")
    return page


def _explain(frame: Any) -> list[str]:
    table = frame.pivot(index="environment", columns="xi", values="nll")
    lines = []
    for xi in (1.0, 10.0):
        change = table[xi] - table[0.0]
        lines.append(
            f"- Lm, xi = {xi:g} instead of 0: the worst town goes from {table[0.0].max():.1f} to "
            f"{table[xi].max():.1f}; {(change > 0).mean():.0%} of the towns get worse; the median change "
            f"is {change.median():.2f}."
        )
    lines.append("- A larger xi only widens the predictions: all towns end up as badly predicted as the worst one.")
    return lines


def _draw(results: dict[str, Any], path: Any, folder: Path) -> list[Path]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    make_folder(folder)
    left_out = Figure(figsize=(10.5, 6.5), layout="constrained")
    axes = left_out.subplots(2, 2, sharex=True, sharey=True)
    for ax, (name, result) in zip(axes.flat, results.items(), strict=True):
        result.plot(ax, legend=False)
        ax.set_title(name)
        ax.set(xlabel="", ylabel="")
    left_out.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    left_out.supxlabel("strength of the anchor penalty, xi")
    left_out.supylabel("mean negative log-likelihood of the left-out town")
    coefficients = Figure(layout="constrained")
    path.plot(coefficients.subplots()).set_title("Lm: coefficients per standard deviation, all towns")
    return [
        write_figure(folder / name, figure, 110)
        for name, figure in (("boston_loeo.png", left_out), ("boston_path.png", coefficients))
    ]
