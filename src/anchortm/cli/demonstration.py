"""The demonstration: in which towns of BostonHousing2 models fail, what a penalty changes, and a real question."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import anchortm as atm
from anchortm._util.files import make_folder, write_figure
from anchortm.reproduce import boston, boston_control
from anchortm.reproduce.boston_data import MODELS, read
from anchortm.reproduce.engine import Arrays, Options
from anchortm.reproduce.new_places import computers

__all__ = ["run"]


def run(folder: Path, say: Any = print) -> dict[str, Any]:
    """Leave out each of 92 towns, for the paper's four models and some values of xi, and assess a new place.

    The tables are printed by ``say``, and returned; figures and the report of the assessment are written to ``folder``,
    and their paths are returned too.
    """
    start = time.perf_counter()
    arrays = boston.compute(Options())
    seconds = time.perf_counter() - start
    tables = _tables(arrays)
    X, price, town = read()
    without = atm.leave_one_environment_out(atm.ContinuousProbit(), X[[]], price, town, [0]).summary()
    say("House prices in 92 Boston towns, each predicted by models fitted to the other 91.")
    for row in ("worst", "median"):
        shown = tables[row].round(3).rename(columns="xi = {:g}".format)
        say(f"\nMean negative log-likelihood of the {row} town\n{shown.to_string()}")
        say(f"without covariates {without[row].iloc[0]:.3f}")
    say("")
    say("How low does the worst town get, by the penalty, and by making all predictions wider by one factor?")
    say(tables["control"].round(2).to_string())
    n_fits = len(MODELS) * len({*boston.XIS, *boston_control.XIS}) * town.nunique()
    say(f"\n{n_fits} fits and their predictions in {seconds:.1f} s. What you see:")
    for line in _explain(arrays["nll"][0], tables["control"].iloc[0]):
        say(line)
    files = _draw(arrays, folder)
    if files:
        say(f"The figures are in {folder}: {', '.join(file.name for file in files)}.")
    else:
        say("Figures need matplotlib: pip install 'anchortm[plot]'.")
    page = _assess(folder, say)
    return {"report": str(page), **tables, "seconds": seconds, "figures": [str(file) for file in files]}


def _tables(arrays: Arrays) -> dict[str, Any]:
    """Return the worst and the median town of each model along xi, and the lowest worst town by xi and by width."""
    import pandas as pd

    nll = arrays["nll"]
    made = {
        name: pd.DataFrame(of(nll, axis=1), index=MODELS, columns=boston.XIS)
        for name, of in (("worst", np.max), ("median", np.median))
    }
    along = boston_control.tables(arrays)["boston_control"].set_index("model")
    parts = {}
    for way, heading in (("xi", "penalty"), ("factor", "width")):
        own = along[along["along"] == way]
        best = own[own["worst"] == own.groupby("model")["worst"].transform("min")]
        parts[heading] = best[["value", "worst", "median"]].rename(columns={"value": way})
    return made | {"control": pd.concat(parts, axis=1).loc[MODELS].rename_axis(None)}


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


def _explain(nll: Any, control: Any) -> list[str]:
    """Return what the numbers of the linear model show, by town and xi."""
    lines = []
    for xi in (1.0, 10.0):
        own = nll[:, boston.XIS.index(xi)]
        change = own - nll[:, 0]
        lines.append(
            f"- Lm, xi = {xi:g} instead of 0: the worst town goes from {nll[:, 0].max():.1f} to {own.max():.1f}; "
            f"{(change > 0).mean():.0%} of the towns get worse; the median change is {np.median(change):.2f}."
        )
    penalty, width = control["penalty"], control["width"]
    lines.append(
        f"- Most of this is width: maximum likelihood made {width['factor']:g} times as wide brings the worst town to "
        f"{width['worst']:.2f}, and xi = {penalty['xi']:g} to {penalty['worst']:.2f}."
    )
    lines.append("- At larger xi, predictions get so wide that all towns are predicted equally badly.")
    return lines


def _draw(arrays: Arrays, folder: Path) -> list[Path]:
    """Draw the paper's Figure 4 and its control, if matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return []
    make_folder(folder)
    drawn = (("boston_loeo.png", boston.figure_4(arrays)), ("boston_control.png", boston_control.figure(arrays)))
    return [write_figure(folder / name, figure, 110) for name, figure in drawn]
