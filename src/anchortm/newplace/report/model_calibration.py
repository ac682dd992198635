"""Calibration in the report on a model: coverage, ranks, and what was observed in place of what was predicted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, facts, table
from anchortm.newplace.report.values import gain, known, name, number, percent

__all__ = ["OBSERVED", "PREDICTED", "add_calibration"]

PREDICTED, OBSERVED = "c1", "c4"  # colours


def add_calibration(page: Page, record: dict[str, Any]) -> None:
    """Add coverage, ranks, the slope, and what was observed in place of what was predicted."""
    found = record["calibration"]
    if found is None:
        return
    every, slope = record["all"], found["slope"]
    limits = f"{gain(every['lower'])} to {gain(every['upper'])}" if known(every["lower"]) else None
    said = facts(
        {
            "rows with an outcome": found["n"],
            "mean negative log-likelihood": every["nll"],
            "mean distance from the prediction": every["mae"],
            "mean residual": gain(every["residual"]) if known(every["residual"]) else None,
            "its 95% interval": limits,
            "concordance": every["concordance"],
            "calibration slope (1 is right)": slope and slope["slope"],
            "interval of the slope": f"{number(slope['lower'])} to {number(slope['upper'])}" if slope else None,
        }
    )
    page.section(
        "Are predictions calibrated here?",
        said,
        _coverage(page, found["coverage"]),
        _pit(page, found["pit"]),
        _survival(page, found["survival"]),
        _classes(page, found["classes"]),
    )


def _coverage(page: Page, rows: list[dict[str, Any]] | None) -> str:
    if not rows:
        return ""
    columns = [
        Column("intervals", percent),
        Column("coverage", percent, about="share of the outcomes in them"),
        Column("lower", percent, about="lower limit of the 95% interval"),
        Column("upper", percent, about="upper limit of the 95% interval"),
    ]
    marks = [
        {
            "label": f"{percent(row['level'])} intervals",
            "marks": [
                {"v": row["coverage"], "lo": row["lower"], "hi": row["upper"], "c": PREDICTED, "name": "coverage"},
                {"v": row["level"], "c": OBSERVED, "hollow": True, "name": "promised"},
            ],
        }
        for row in rows
    ]
    key = [
        {"name": "share of outcomes inside, with 95% interval", "colour": PREDICTED},
        {"name": "promised", "colour": OBSERVED, "look": "hollow"},
    ]
    return page.chart(
        "rows",
        {"rows": marks, "domain": [0, 1], "format": "percent", "key": key, "x_label": "share of outcomes inside"},
        "How many outcomes lie in predicted intervals.",
        label="Coverage of predicted intervals.",
        numbers=table(
            "Coverage of predicted intervals",
            columns,
            [[row[key] for key in ("level", "coverage", "lower", "upper")] for row in rows],
        ),
    )


def _pit(page: Page, pit: dict[str, Any] | None) -> str:
    if not pit:
        return ""
    columns = [Column("PIT", numeric=False), Column("share of rows", percent)]
    labels = [f"{number(a)} to {number(b)}" for a, b in pairwise(pit["edges"])]
    return page.chart(
        "pit",
        {
            "edges": pit["edges"],
            "panels": [{"name": "all rows with an outcome", "c": PREDICTED, "share": pit["share"]}],
        },
        "Where outcomes fall in their predicted distributions (PIT). Flat is right; a U says that predictions are too "
        "narrow, a hump that they are too wide, a slope that they are too high or too low.",
        label="PIT histogram.",
        numbers=table("Shares of rows by PIT", columns, list(zip(labels, pit["share"], strict=True))),
    )


def _survival(page: Page, rows: list[dict[str, Any]] | None) -> str:
    if not rows:
        return ""

    def own(key: str) -> list[Any]:
        return [row[key] for row in rows]

    times = own("time")
    looks = {"x": times, "about": None}
    series = [
        {"name": "predicted", "c": PREDICTED, "mark": "circle", "line": "dashed", "v": own("predicted")} | looks,
        {"name": "observed", "c": OBSERVED, "mark": "square", "line": "solid", "v": own("observed")}
        | {"lo": own("lower"), "hi": own("upper")}
        | looks,
    ]
    columns = [Column("time", number), *(Column(one, percent) for one in ("predicted", "observed", "lower", "upper"))]
    spec = {
        "series": series,
        "x_label": "time",
        "y_label": "survival",
        "format": "percent",
    }
    return page.chart(
        "lines",
        spec,
        "Survival: predicted on average, and observed (Kaplan-Meier, with 95% intervals).",
        label="Predicted and observed survival.",
        numbers=table(
            "Survival",
            columns,
            [[row[key] for key in ("time", "predicted", "observed", "lower", "upper")] for row in rows],
        ),
    )


def _classes(page: Page, rows: list[dict[str, Any]] | None) -> str:
    if not rows:
        return ""
    marks = [
        {
            "label": name(row["class"], 80),
            "marks": [
                {"v": row["predicted"], "c": PREDICTED, "name": "predicted"},
                {"v": row["observed"], "c": OBSERVED, "hollow": True, "name": "observed"},
            ],
            "linked": True,
        }
        for row in rows
    ]
    key = [
        {"name": "predicted on average", "colour": PREDICTED},
        {"name": "observed", "colour": OBSERVED, "look": "hollow"},
    ]
    columns = [Column("class", numeric=False), Column("predicted", percent), Column("observed", percent)]
    return page.chart(
        "rows",
        {"rows": marks, "zero": 0, "format": "percent", "key": key, "x_label": "share of rows"},
        "Shares of classes, predicted and observed.",
        label="Shares of classes.",
        numbers=table(
            "Shares of classes", columns, [[row[key] for key in ("class", "predicted", "observed")] for row in rows]
        ),
    )
