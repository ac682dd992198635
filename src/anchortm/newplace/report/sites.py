"""Places in an assessment's report: who gains, what xi does, rows of the new place, calibration, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from anchortm.newplace.assessment.words import place_name
from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, facts, note, paragraphs, table
from anchortm.newplace.report.values import (
    colour_of,
    error,
    gain,
    known,
    label_of,
    name,
    number,
    percent,
    strength,
    whole,
)

__all__ = ["add_calibration", "add_explorer", "add_gains", "add_labels", "add_rows", "add_table"]

NORMAL = 1.96  # half the width of a 95% interval, in standard errors
FEWEST_TRIED = 3  # places at which a number of labelled rows must have been tried before it is drawn
MOST_ROWS = 5000  # in the table of rows
LEAST = 0.0005  # smaller gains are shown as 0
DESIGNS = {"like": "a place like these", "further": "a place further out"}
STYLES = [
    ("c0", "circle", "solid"),
    ("c2", "square", "dashed"),
    ("c1", "triangle", "dotted"),
    ("c3", "diamond", "solid"),
]


def about_of(record: dict[str, Any]) -> dict[str, str]:
    """Return what each strategy does, by its name."""
    strategies = (record.get("comparison") or {}).get("strategies") or []
    return {one["name"]: one["about"] for one in strategies}


def strategies_of(record: dict[str, Any]) -> list[str]:
    """Return the strategies with gains by place, the recommended one first, and last those that change nothing."""
    found = dict.fromkeys(one for site in record["sites"] for one in site.get("gains") or {} if one != "ml")
    chosen = record["recommendation"].get("strategy")

    def changes(one: str) -> bool:
        return any(abs(value) >= LEAST for value in by_site(record, "gains", one) if known(value))

    return sorted(found, key=lambda one: (not changes(one), one != chosen))


def few(record: dict[str, Any]) -> str:
    """Return how small places are named in keys."""
    about = record["about"]
    least, events = about.get("min_rows"), " or 5 events" if known(about.get("n_events")) else ""
    return f"fewer than {number(least)} rows{events}" if known(least) else "small"


def places_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return what all plots of places know of them."""
    sites, kind = record["sites"], record["about"].get("environment_name")
    return {
        "names": [name(place_name(site["name"], kind)) for site in sites],
        "n": [site["n"] for site in sites],
        "events": [site.get("events") for site in sites],
        "small": [bool(site.get("small")) for site in sites],
        "places": "places",
        "large": "place; its area shows the number of rows",
        "hollow": few(record),
    }


def around(values: Sequence[Any], errors: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the ends of 95% intervals; None where a value or its standard error is not known."""
    pairs = list(zip(values, errors, strict=True))
    lower = [v - NORMAL * se if known(v) and known(se) else None for v, se in pairs]
    upper = [v + NORMAL * se if known(v) and known(se) else None for v, se in pairs]
    return {"lo": lower, "hi": upper}


def by_site(record: dict[str, Any], part: str, key: str) -> list[Any]:
    """Return a value of all places from a part of them, such as the gains of a strategy."""
    return [(site.get(part) or {}).get(key) for site in record["sites"]]


def add_gains(page: Page, record: dict[str, Any]) -> None:
    """Add the gain or loss by place, with intervals."""
    about, series = about_of(record), []
    for one in strategies_of(record):
        values, said = by_site(record, "gains", one), about.get(one) or one
        shown = {"name": label_of(one), "about": said[:1].upper() + said[1:], "c": colour_of(one), "v": values}
        series.append(shown | around(values, by_site(record, "gain_errors", one)))
    if not series:
        return
    further = ""
    if (record.get("comparison") or {}).get("further"):
        further = " This is about a place like these; places further out are in the comparison of strategies below."
    page.section(
        "Who gains and who loses?",
        page.chart(
            "dots",
            places_of(record) | {"series": series, "x_label": "gain per row over maximum likelihood"},
            "Each place was left out in turn and predicted from the others. Above 0: better than maximum likelihood."
            + further,
            label="Gain of a strategy over maximum likelihood at each left-out place.",
        ),
        note("All numbers are in the table of places below."),
    )


def add_explorer(page: Page, record: dict[str, Any]) -> None:
    """Add what depends on xi: predictions of profiles, gains by place, effects of covariates."""
    views, effects = record.get("views"), record.get("effects")
    path = record.get("path") if (record.get("path") or {}).get("loss") else None
    if not (views or effects or path):
        return
    start = record["recommendation"].get("xi")
    start = start if known(start) and start > 0 else None
    xis = next(part["xis"] for part in (views, path, effects) if part)
    spec = places_of(record) | {
        "views": views,
        "path": path,
        "effects": effects,
        "one": "place",
        "beyond": " Your new place lies further out than these."
        if record["recommendation"].get("kind") == "further"
        else "",
        "recommended": start,
        "start": xis[len(xis) // 2] if start is None else start,
    }
    chart = page.chart(
        "explorer",
        spec,
        "Move the slider to see how predictions, gains and effects of covariates change with xi. "
        "Maximum likelihood stays as the reference.",
        label="What changes with xi.",
        numbers=_medians(views) + _gains_by_xi(path) + _effects(effects),
    )
    page.section("What does anchoring change?", chart, note(_about_bends(views)))


def _about_bends(views: dict[str, Any] | None) -> str | None:
    """Return why densities bend at the ends of the support, if that is seen."""
    bends = (views or {}).get("bends")
    if not bends:
        return None
    return (
        f"Densities may bend sharply at {' and '.join(map(number, bends))}. That is the model, not the data: h is a "
        "polynomial within its support, by default between the 10% and 90% quantiles of the outcome, and a straight "
        "line beyond."
    )


def _medians(views: dict[str, Any] | None) -> str:
    if not views or not any(profile.get("median") for profile in views["profiles"]):
        return ""
    columns = [Column("profile", numeric=False), Column("rows", whole)]
    columns += [Column(f"xi = {strength(xi)}", number) for xi in views["xis"]]
    rows = [
        [profile["name"], profile.get("n"), *profile["median"]]
        for profile in views["profiles"]
        if profile.get("median")
    ]
    return table("Predicted median of each profile", columns, rows)


def _gains_by_xi(path: dict[str, Any] | None) -> str:
    if not path:
        return ""
    columns = [Column("left-out places", numeric=False)] + [Column(f"xi = {strength(xi)}", gain) for xi in path["xis"]]
    by_xi = [sorted(row[k] for row in path["loss"] if known(row[k])) for k in range(len(path["xis"]))]
    shares = {"smallest gain": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75, "largest gain": 1.0}
    rows = [
        [label, *(own[round(share * (len(own) - 1))] if own else None for own in by_xi)]
        for label, share in shares.items()
    ]
    return table("Gain over xi = 0 at left-out places", columns, rows)


def _effects(effects: dict[str, Any] | None) -> str:
    if not effects:
        return ""
    columns = [Column("covariate", numeric=False), Column("per", numeric=False)]
    columns += [Column(f"xi = {strength(xi)}", number) for xi in effects["xis"]]
    rows = [[row["name"], row.get("per"), *row["values"]] for row in effects["rows"]]
    return table(f"Average effects of covariates: {effects['unit']}", columns, rows)


def add_labels(page: Page, record: dict[str, Any]) -> None:
    """Add the gain against the number of labelled rows of a new place: a line for each kind of place and strength."""
    found = record.get("labels")
    whole_series = [one for one in (found or {}).get("series") or [] if one["rows"]]
    if not found or not whole_series:
        return
    drawn = [_curve(one, k) for k, one in enumerate(whole_series)]
    drawn = [one for one in drawn if len(one["x"]) > 1]
    numbers = _curve_numbers(whole_series)
    chart = ""
    if drawn:
        spec = {
            "scale": "sqrt",
            "x_label": "labelled rows from the new place",
            "y_label": "gain per row over maximum likelihood",
            "unit": "labelled rows",
            "zero": 0,
            "series": drawn,
        }
        chart = page.chart(
            "lines",
            spec,
            "Rows were drawn from each left-out place to recalibrate the model; the gain is that at its other rows. "
            f"Bars: 95% intervals over places. Numbers of rows that fewer than {FEWEST_TRIED} places can spare are not "
            "drawn.",
            label="Gain against the number of labelled rows.",
            numbers=numbers,
        )
    said = paragraphs(found.get("sentence"), kind="lead")
    page.section("How much would outcomes from the new place help?", said, chart or numbers)


def _curve_numbers(series: list[dict[str, Any]]) -> str:
    """Return the gains as a table; nothing if no number of rows could be tried."""
    if not any(row["m"] for one in series for row in one["rows"]):
        return ""
    return table(
        "Gain by number of labelled rows",
        [
            Column("kind of place", numeric=False),
            Column("labelled rows", whole, numeric=True),
            Column("gain", gain, about="per row over maximum likelihood without labelled rows"),
            Column("standard error", error),
            Column("places", whole, about="left-out places with enough rows"),
        ],
        [
            [_curve_name(one), row["m"], row["gain"], row.get("se"), row.get("sites")]
            for one in series
            for row in one["rows"]
        ],
    )


def _curve_name(series: dict[str, Any]) -> str:
    xi = series.get("xi")
    return DESIGNS[series["design"]] + (f", anchored with xi = {strength(xi)}" if known(xi) and xi > 0 else "")


def _curve(series: dict[str, Any], position: int) -> dict[str, Any]:
    """Return a series as the plot draws it, with a line and marks of its own."""
    rows = [row for row in series["rows"] if known(row["gain"]) and (row.get("sites") or 0) >= FEWEST_TRIED]
    colour, mark, line = STYLES[position % len(STYLES)]
    gains = [row["gain"] for row in rows]
    made: dict[str, Any] = {"name": _curve_name(series), "c": colour, "mark": mark, "line": line}
    made |= {"x": [row["m"] for row in rows], "v": gains} | around(gains, [row.get("se") for row in rows])
    return made | {"about": [f"{number(row.get('sites'))} places" for row in rows]}


def add_calibration(page: Page, record: dict[str, Any]) -> None:
    """Add the coverage of intervals, PIT histograms and the width of conformal intervals."""
    found = record.get("calibration")
    blocks = [_coverage(page, record), _pit(page, found.get("pit"))] if found and found.get("rows") else []
    page.section(
        "Are predictions calibrated at places that the fit has not seen?", *blocks, _conformal(record.get("conformal"))
    )


def _coverage(page: Page, record: dict[str, Any]) -> str:
    levels, rows = record["calibration"]["levels"], record["calibration"]["rows"]
    columns = [by_site(record, "coverage", f"{100 * level:.0f}") for level in levels]
    spec = places_of(record) | {
        "levels": levels,
        "strategies": [{"name": _titled(row), "c": colour_of(row["strategy"]), "v": row["coverage"]} for row in rows],
        "sites": [list(own) for own in zip(*columns, strict=True)] if any(any(map(known, c)) for c in columns) else [],
    }
    numbers = table(
        "Coverage of predicted intervals at left-out places, averaged over places",
        [Column("strategy", numeric=False), *(Column(f"{percent(level)} intervals", percent) for level in levels)],
        [[_titled(row), *row["coverage"]] for row in rows],
    )
    return page.chart(
        "coverage",
        spec,
        "How many rows of each left-out place fall into its predicted intervals. Below the nominal level, predictions "
        "are too narrow. Small places vary by chance, as far as the grey band.",
        label="Coverage of predicted intervals at left-out places.",
        numbers=numbers,
    )


def _titled(row: dict[str, Any]) -> str:
    return label_of(row["strategy"], row.get("xi"))


def _pit(page: Page, pit: dict[str, Any] | None) -> str:
    if not pit or not pit.get("counts"):
        return ""
    edges = pit["edges"]
    columns = [Column("strategy", numeric=False)]
    columns += [Column(f"{number(a)} to {number(b)}", percent) for a, b in pairwise(edges)]
    return page.chart(
        "pit",
        {
            "edges": edges,
            "panels": [
                {"name": _titled(row), "c": colour_of(row["strategy"]), "share": row["share"]} for row in pit["counts"]
            ],
        },
        "Where outcomes fall in their predicted distributions (PIT). Flat is right; a U says that predictions are too "
        "narrow, a hump that they are too wide, a slope that they are too high or too low.",
        label="PIT histogram at left-out places.",
        numbers=table("Shares of rows by PIT", columns, [[_titled(row), *row["share"]] for row in pit["counts"]]),
    )


def _conformal(found: dict[str, Any] | None) -> str:
    if not found:
        return ""
    said = facts(
        {
            "median width of conformal intervals": found.get("width"),
            "median width of the model's own": found.get("model_width"),
            "places to calibrate on": found.get("n_places"),
            "places needed": found.get("needed"),
        }
    )
    heading = "Intervals that promise coverage at a new place"
    return f'<div class="keep"><h3>{heading}</h3>{paragraphs(found.get("sentence"))}{said}</div>'


def add_table(page: Page, record: dict[str, Any]) -> None:
    """Add the table of places, which readers can sort and search."""
    sites = record["sites"]
    if not sites:
        return

    def own(key: str) -> list[Any]:
        return [site.get(key) for site in sites]

    better = "gain per row over maximum likelihood, of "
    columns = [
        (Column(str(record["about"].get("environment_name") or "place"), numeric=False), own("name")),
        (Column("rows", whole), own("n")),
        (Column("events", whole), own("events")),
        *(
            (Column(f"gain {label_of(s)}", gain, about=better + label_of(s)), by_site(record, "gains", s))
            for s in strategies_of(record)
        ),
        (Column("residual", gain, about="mean score residual of maximum likelihood"), own("residual")),
        (Column("skill", error, about="nll without covariates minus nll of maximum likelihood"), own("skill")),
        *(
            (
                Column(f"in {k}%", percent, about=f"share of rows in {k}% intervals"),
                by_site(record, "coverage", k),
            )
            for k in ("50", "80", "90")
        ),
    ]
    kept = [(column, values) for column, values in columns if any(map(known, values))]
    made = table(
        "Places, each left out in turn",
        [column for column, _ in kept],
        zip(*(values for _, values in kept), strict=True),
        sortable=True,
        search=f"Find a {name(record['about'].get('environment_name') or 'place')}",
        classes="wide sites",
    )
    remark = "Gain: log-likelihood per row over maximum likelihood, above 0 is better. Coverage is that of maximum "
    page.section("All places", made, note(f"{remark}likelihood. Select a heading to sort."))


def add_rows(page: Page, record: dict[str, Any]) -> None:
    """Add what maximum likelihood predicts for each row, if rows were asked for."""
    rows = record.get("rows")
    if not rows:
        return
    columns = [
        Column("row", whole),
        Column("place", numeric=False),
        *(Column(heading, number) for heading in ("lower", "median", "upper")),
    ]
    cells = [[row[key] for key in ("row", "place", "lower", "median", "upper")] for row in rows[:MOST_ROWS]]
    more = f" These are the first {MOST_ROWS} of {len(rows)} rows." if len(rows) > MOST_ROWS else ""
    page.section(
        "Predictions of rows",
        table(
            "Predicted median and 90% interval of each row", columns, cells, sortable=True, search="Find a row or place"
        ),
        lead="Each row is predicted by maximum likelihood fitted to the other places. Rows are counted from 0." + more,
    )
