"""The page of the survey: its conclusions, tables and pictures, computed from the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchortm._util.files import read_bytes, write_figure, write_whole
from anchortm.exceptions import InputError
from anchortm.plotting.style import pyplot
from anchortm.survey import thresholds as limit
from anchortm.survey.conclusions import conclusions, percent
from anchortm.survey.findings import Findings
from anchortm.survey.measuring import Record
from anchortm.survey.pictures import PICTURES

__all__ = ["load", "save", "write"]

MOST_BYTES = 2**26
DESIGNS = {
    "like": "At a place like these: environments left out one at a time",
    "further": "At a place further out: the outermost environments left out together",
}
CAPTIONS = {
    "survey_strategies": "Each point is a data set, and the black bar is the median. Gains of less than 0.01, inside the first ticks, count as no gain.",
    "survey_near_far": "Environments left out one at a time: mean gain over data sets at environments near to all rows and far from them.",
    "survey_width": "Each point is a data set. On the diagonal, wider predictions at the location of maximum likelihood bring the whole gain of anchoring.",
    "survey_labels": "Each point is a data set, and the black bar is the median. In the first column, the best strategy is chosen after seeing the outcomes.",
}
ALTS = {
    "survey_strategies": "Gains of eleven strategies on all data sets in two panels: medians lie close to zero, with long tails to both sides",
    "survey_near_far": "The mean gain of each strategy at near and at far environments, joined by a line",
    "survey_width": "The gain of anchoring plotted against the gain from the same width, in two panels",
    "survey_labels": "Gains on all data sets from the best strategy and from 0, 5 and 20 outcomes of the new place",
}
HEAD = """# Does it help? A survey of {sets} data sets

When does anchoring improve predictions at a place without training data? One example cannot answer this. So we measured it on {sets} published data sets with
{least} to {most} environments each: schools, hospitals, countries, years. [The rules](survey_rules.md), the list of data sets and the thresholds were fixed before any result
was computed. We had looked at {seen} of the data sets while writing the package. They are in the tables, but the conclusions rest on the other {judged}.

"""
READING = """
*How to read it.* A gain is the mean log-likelihood per row minus that of maximum likelihood, averaged over left-out environments: 0.01 is hardly visible, 0.1 is a
lot. `better / worse` counts the data sets with a gain above {gain:g} or below -{gain:g}. `clearly` counts those of them where the gain or loss is also more than chance over
environments (p < {clear:g}, simultaneous over strategies). `crps` is the median change of the CRPS in percent. Gradient boosting has no other entry, because it predicts
quantiles and so has no comparable log-likelihood.
"""
HARD = """
Environments are left out one at a time. The loss is minus the skill, and small environments do not count. We added this part after the first results: the default rule
for xi minimises the 90 % quantile, so it should be judged by this quantile too.
"""


def load(path: Path) -> list[Record]:
    """Return the results from a file that ``save`` wrote: one line for each data set."""
    lines = read_bytes(path, MOST_BYTES).decode().splitlines()
    found = [json.loads(line) for line in lines if line.strip()]
    if not found or not all(isinstance(one, dict) and "name" in one for one in found):
        raise InputError(f"{path} has no results of the survey")
    return found


def save(records: Iterable[Record], path: Path) -> Path:
    """Write the results to a file, one line for each data set, without the time they took."""
    lines = [json.dumps({name: own for name, own in one.items() if name != "seconds"}) for one in records]
    return write_whole(path, lambda temporary: temporary.write_text("\n".join(lines) + "\n", encoding="utf-8"))


def write(records: Sequence[Record], page: Path, pictures: Path, link: str = "") -> str:
    """Write the page and its pictures, and return the text; ``link`` is where the page finds the pictures."""
    found = Findings(records)
    for name, draw in PICTURES.items():
        figure = draw(found)
        write_figure(pictures / f"{name}.png", figure, 150)
        pyplot().close(figure)
    text = _text(found, link)
    write_whole(page, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return text


def _text(found: Findings, link: str) -> str:
    facts = [record["facts"] for record in found.measured]
    places = [own["places"] for own in facts]
    parts = [
        HEAD.format(
            sets=len(found.measured),
            least=min(places),
            most=max(places),
            seen=len(found.measured) - len(found.judged),
            judged=len(found.judged),
        )
    ]
    parts += [
        f"## {title}\n\n" + "\n".join(f"- {text}" for text in lines) + "\n" for title, lines in conclusions(found)
    ]
    for design, title in DESIGNS.items():
        parts.append(f"## {title}\n\n" + markdown(_summary(found, design)))
        if design == "like":
            parts.append(READING.format(gain=limit.GAIN, clear=limit.CLEAR))
    parts += [_picture(name, link) for name in ("survey_strategies", "survey_near_far")]
    parts.append("## Hard environments\n\n" + markdown(_hard(found)) + HARD)
    parts.append("## How much of the gain is width?\n\n" + markdown(_width(found)) + _picture("survey_width", link))
    parts.append("## Outcomes of the new place\n\n" + _picture("survey_labels", link))
    parts.append("## What predicts a gain from anchoring?\n\n" + markdown(_predictors(found)))
    parts.append("\n" + markdown(_alarm(found)))
    parts.append("## The advice of `assess`, checked on held-back places\n\n" + markdown(_advice(found)))
    parts.append("## Where each strategy loses most\n\n" + markdown(_losses(found)))
    parts.append("## All data sets\n\n" + markdown(_all(found)))
    left = [record for record in found.records if "left_out" in record]
    if left:
        lines = [f"- {record['name']}: {record['left_out']}" for record in left]
        parts.append("Left out by the rules:\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _picture(name: str, link: str) -> str:
    return f"\n![{ALTS[name]}]({link}{name}.png)\n\n*{CAPTIONS[name]}*\n"


def markdown(table: pd.DataFrame) -> str:
    """Return a table of words as Markdown."""
    head = "| " + " | ".join(map(str, table.columns)) + " |\n|" + "---|" * len(table.columns) + "\n"
    return head + "".join("| " + " | ".join(map(str, row)) + " |\n" for row in table.itertuples(index=False))


def number(value: Any, digits: int = 3) -> str:
    """Return a number with its sign and this many decimals; empty if it is not known."""
    return "" if pd.isna(value) else f"{round(value, digits) + 0.0:+.{digits}f}"


def between(pair: tuple[float, float], digits: int = 3) -> str:
    """Return the ends of an interval."""
    return "" if pd.isna(pair[0]) else f"{number(pair[0], digits)} to {number(pair[1], digits)}"


def _summary(found: Findings, design: str) -> pd.DataFrame:
    own = found.summary(design)
    rows = []
    for name, row in own.iterrows():
        quantiles = name == "scikit-learn's gradient boosting"
        gain = (
            ["", "", ""]
            if quantiles
            else [number(row["mean"], 4), between(row["interval"], 4), number(row["median"], 4)]
        )
        counts = ["", ""] if quantiles else [f"{row['better']} / {row['worse']}"]
        counts = ["", ""] if quantiles else [*counts, f"{row['clearly better']} / {row['clearly worse']}"]
        rows.append([name, row["sets"], *gain, *counts, number(row["crps"], 1)])
    columns = ["strategy", "data sets", "mean gain", "95 % interval", "median", "better / worse", "clearly", "crps, %"]
    table = pd.DataFrame(rows, columns=columns)
    return table.drop(columns="clearly") if design == "further" else table


def _hard(found: Findings) -> pd.DataFrame:
    words = {"q90": "90 % quantile", "worst": "worst environment"}
    rows = [
        [
            row["strategy"],
            words[row["measure"]],
            row["sets"],
            number(row["mean"]),
            between(row["interval"]),
            f"{row['better']} / {row['worse']}",
        ]
        for _, row in found.hard().iterrows()
    ]
    columns = ["strategy", "loss over environments", "data sets", "mean gain", "95 % interval", "better / worse"]
    return pd.DataFrame(rows, columns=columns)


def _width(found: Findings) -> pd.DataFrame:
    own = found.width()
    words = {"like": "one left out", "further": "outermost left out"}
    rows = [
        [row["strategy"], words[row["design"]], row["gains on"], row["mostly width"], percent(row["share"])]
        for _, row in own.iterrows()
    ]
    return pd.DataFrame(
        rows, columns=["strategy", "design", "gains on (data sets)", "mostly by width", "median share of width"]
    )


def _predictors(found: Findings) -> pd.DataFrame:
    rows = [
        [row["diagnostic"], row["design"], number(row["rho"], 2), between(row["interval"], 2), row["sets"]]
        for _, row in found.predictors().sort_values(["diagnostic", "design"], ascending=[True, False]).iterrows()
    ]
    columns = ["known in advance", "design", "rank correlation with the gain", "95 % interval", "data sets"]
    return pd.DataFrame(rows, columns=columns)


def _alarm(found: Findings) -> pd.DataFrame:
    words = {True: f"p < {limit.CLEAR:g} and R2 > 0", False: "otherwise"}
    rows = [
        [words[row["positive"]], row["design"], row["size"], row["better"], row["worse"], number(row["mean"])]
        for _, row in found.alarm().iterrows()
    ]
    return pd.DataFrame(rows, columns=["`location_shift`", "design", "data sets", "better", "worse", "mean gain"])


def _advice(found: Findings) -> pd.DataFrame:
    rows = []
    for (held, strategy, sure), own in found.advice().groupby(["held back", "strategy", "confidence"], sort=True):
        gains = own["gain"].dropna()
        rows.append(
            [
                "at random" if held == "like" else "the furthest",
                strategy,
                sure,
                len(own),
                number(gains.mean()),
                f"{int((gains > limit.GAIN).sum())} / {int((gains < -limit.GAIN).sum())}",
                number(own["anchored"].mean()),
                number(own["widened"].mean()),
                number(own["recalibrated"].mean()),
            ]
        )
    columns = [
        "held back",
        "advice",
        "confidence",
        "cases",
        "mean gain",
        "better / worse",
        "anchored",
        "widened",
        "few outcomes",
    ]
    return pd.DataFrame(rows, columns=columns)


def _losses(found: Findings) -> pd.DataFrame:
    rows = []
    for name, row in found.summary("like").iterrows():
        if name != "scikit-learn's gradient boosting":
            out = found.summary("further").loc[name]
            rows.append([name, row["worst"], number(row["lost"], 2), out["worst"], number(out["lost"], 2)])
    return pd.DataFrame(rows, columns=["strategy", "one left out", "gain", "outermost left out", "gain "])


def _all(found: Findings) -> pd.DataFrame:
    gains = {design: found.rows[found.rows["design"] == design] for design in DESIGNS}
    wide = {design: own.pivot(index="data", columns="strategy", values="gain") for design, own in gains.items()}
    rows = []
    for record in found.measured:
        facts, name = record["facts"], record["name"]
        few = {own["labels"]: own["gain"] for own in record["labels"] or []}
        own = [
            number(wide[design][strategy].get(name), 2)
            for design in DESIGNS
            for strategy in ("widened", "anchored", "anchored+spread")
        ]
        what = f"{name}{' (seen)' if facts['seen'] else ''}"
        about = [
            what,
            f"`{facts['table']}`",
            facts["kind"],
            f"{facts['places']} {facts['environments']}",
            facts["rows"],
        ]
        rows.append([*about, *own, number(few.get(20), 2)])
    columns = ["data", "table", "outcome", "environments", "rows", "widened", "anchored", "+ spread"]
    further = ["widened, further", "anchored, further", "+ spread, further", "20 outcomes"]
    return pd.DataFrame(rows, columns=[*columns, *further])
