"""The report on a model at the places of a table: its record as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anchortm.newplace.report.model_calibration import PREDICTED, add_calibration
from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, bullets, code, facts, note, paragraphs, table
from anchortm.newplace.report.values import error, gain, known, name, number, percent, whole

__all__ = ["model_page"]

TITLE = "Does this model fit these places?"
MOST = 40  # places in a plot with a line for each
KINDS = {
    "number": "outcome",
    "time": "time",
    "count": "count",
    "class": "class",
    "mean": "mean",
}


def model_page(record: dict[str, Any]) -> str:
    """Return what ``ModelReport.to_dict()`` returned as one HTML file, which loads nothing and opens from disk.

    Parts of the record that are None leave their section out. Numbers that are None are shown as unknown.
    """
    page = Page(TITLE, _lead(record))
    page.section("What this report says", bullets(record["conclusions"]), _size(record["table"]))
    _add_model(page, record["about"])
    _add_predictions(page, record)
    _add_residuals(page, record)
    add_calibration(page, record)
    _add_extrapolation(page, record["extrapolation"])
    _add_drift(page, record["drift"])
    _add_places(page, record)
    _add_methods(page, record["methods"])
    return page.html()


def _lead(record: dict[str, Any]) -> str:
    """Return one line that says what is reported on."""
    about, rows = record["about"], record["table"]
    outcome = f" for {name(about['outcome'], 80)}" if about["outcome"] else ""
    places = "" if rows["n_environments"] is None else f" at {number(rows['n_environments'])} places"
    return f"{about['model']}{outcome}, on {number(rows['n'])} rows{places}"


def _size(rows: dict[str, Any]) -> str:
    return facts(
        {
            "rows": rows["n"],
            "rows that cannot be predicted": rows["bad"],
            "rows with an outcome": rows["outcomes"],
            "places": rows["n_environments"],
            f"places with fewer than {rows['min_rows']} rows": rows["n_small"],
        }
    )


def _add_model(page: Page, about: dict[str, Any]) -> None:
    """Add what the model is, and what it knows of its fit."""
    known_places = "not kept" if about["n_environments"] is None else str(about["n_environments"])
    found = dict(about["source"]) | {
        "model": about["title"],
        "formula": about["formula"],
        "transformers": ", ".join(about["transformers"]) or None,
        "anchors": ", ".join(name(one, 80) for one in about["anchors"]) or None,
        "anchor directions": about["n_anchors"],
        "names of the training places": known_places,
    }
    fit = dict(about["facts"])
    found["form"] = fit.pop("model", None)
    page.section("The model", facts(found | fit), bullets(about["warnings"]))


def _numbered(record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the places for which a number is known."""
    return [site for site in record["sites"] if known(site.get(key))]


def _add_predictions(page: Page, record: dict[str, Any]) -> None:
    """Add what the model predicts at each place."""
    key = "median" if _numbered(record, "median") else "mean"
    sites = _numbered(record, key)
    outcome = name(record["about"]["outcome"] or KINDS[record["about"]["kind"]], 80)
    if not sites:
        page.section("What it predicts at each place", _probabilities(page, record))
        return
    large = sorted(sites, key=lambda site: -site["n"])[:MOST]
    rows = [
        {
            "label": name(site["name"], 80),
            "about": f"{number(site['n'])} rows",
            "marks": [{"v": site[key], "lo": site.get("q10"), "hi": site.get("q90"), "c": PREDICTED}],
        }
        for site in sorted(large, key=lambda site: -site[key])
    ]
    word = "medians" if key == "median" else "means"
    lines = " Lines: means of the 10 % and 90 % quantiles." if known(sites[0].get("q10")) else ""
    chart = page.chart(
        "rows",
        {"rows": rows, "x_label": f"predicted {outcome}", "step": 22},
        f"Mean of the predicted {word} of the rows of each place.{lines}",
        label=f"Predicted {word} by place.",
    )
    remark = f"The plot shows the {MOST} largest of {len(sites)} places." if len(sites) > MOST else ""
    page.section(
        "What it predicts at each place", chart, note(f"{remark} All numbers are in the table of places below.")
    )


def _probabilities(page: Page, record: dict[str, Any]) -> str:
    """Return the predicted shares of classes, or survival, by place."""
    classes, sites = record["about"]["classes"], _numbered(record, "probabilities")
    if not classes or not sites:
        return ""
    rows = [
        {
            "label": name(site["name"], 80),
            "parts": [
                {"name": name(label, 80), "c": f"c{k % 8}", "share": share}
                for k, (label, share) in enumerate(zip(classes, site["probabilities"], strict=True))
            ],
        }
        for site in sorted(sites, key=lambda site: -site["n"])[:MOST]
    ]
    columns = [Column("place", numeric=False), *(Column(name(label, 80), percent) for label in classes)]
    numbers = table(
        "Mean probabilities of classes", columns, [[site["name"], *site["probabilities"]] for site in sites]
    )
    return page.chart(
        "stack",
        {"rows": rows, "of": "probability"},
        "Mean predicted probability of each class at each place.",
        label="Predicted classes by place.",
        numbers=numbers,
    )


def _add_residuals(page: Page, record: dict[str, Any]) -> None:
    """Add whether outcomes are larger or smaller than predicted at each place."""
    sites = _numbered(record, "residual")
    if not sites or record["table"]["n_environments"] is None:
        return
    keys = {"v": "residual", "lo": "lower", "hi": "upper"}
    values = {short: [site[key] for site in sites] for short, key in keys.items()}
    spec = {
        "names": [name(site["name"]) for site in sites],
        "n": [site["n"] for site in sites],
        "events": [site["events"] for site in sites],
        "small": [False for _ in sites],
        "places": "places",
        "large": "place; its area shows the number of rows",
        "hollow": "too few rows",
        "series": [{"name": "residual", "about": "", "c": PREDICTED} | values],
        "x_label": "mean score residual",
        "value": "mean residual",
        "order": "from the largest residual to the smallest",
    }
    chart = page.chart(
        "dots",
        spec,
        "Mean score residual at each place: above 0, outcomes are larger than predicted. If the model held "
        "everywhere, intervals would contain 0 at 95 % of the places.",
        label="Mean residuals by place.",
    )
    page.section("Do outcomes agree with predictions at each place?", chart)


def _add_extrapolation(page: Page, found: dict[str, Any]) -> None:
    """Add which covariates leave the training range, and which rows cannot be predicted."""
    columns = [
        Column("covariate", numeric=False),
        Column("training low", number),
        Column("training high", number),
        Column("rows below", whole),
        Column("rows above", whole),
    ]
    keys = ("name", "low", "high", "below", "above")
    rows = [[row[key] for key in keys] for row in found["columns"] or []]
    ranges = table("Covariates and their training range", columns, rows, sortable=len(rows) > 1) if rows else ""
    reasons = [[row["reason"], row["n"]] for row in found["bad"]["reasons"]]
    share = percent(found["share"]) if known(found["share"]) else None
    bad = [Column("reason", numeric=False), Column("rows", whole)]
    page.section(
        "What leaves the training range?",
        facts({"rows outside": found["rows"], "share of rows": share}),
        ranges,
        paragraphs(_beyond(found["beyond_outcomes"])),
        table("Rows that cannot be predicted", bad, reasons) if reasons else "",
    )


def _beyond(share: float | None) -> str | None:
    if not known(share):
        return None
    return f"The predicted median lies beyond all outcomes of the fit in {percent(share)} of the rows."


def _add_drift(page: Page, drift: dict[str, Any]) -> None:
    """Add how covariates differ from those of the fit."""
    blocks = [_positions(page, drift["columns"]), _moved(drift["columns"])]
    for one in drift["levels"]:
        columns = [Column("level", numeric=False), Column("in the fit", percent), Column("here", percent)]
        rows = [[row[key] for key in ("level", "training", "new")] for row in one["levels"]]
        blocks.append(table(f"Shares of the levels of {name(one['name'], 80)}", columns, rows, sortable=len(rows) > 5))
    hidden = any(not known(row[key]) for one in drift["levels"] for row in one["levels"] for key in ("training", "new"))
    blocks.append(note("Shares of one to four rows are not told." if hidden else None))
    page.section("Have covariates moved since the fit?", *blocks)


def _positions(page: Page, columns: Sequence[dict[str, Any]]) -> str:
    """Return where means and spreads lie in the training range."""
    rows: list[dict[str, Any]] = []
    for row in columns:
        if not known(row["position"]):
            continue
        half = row["new_sd"] / (row["high"] - row["low"])
        mark = {"v": row["position"], "lo": row["position"] - half, "hi": row["position"] + half, "c": PREDICTED}
        about = f"mean {number(row['new'])}, SD {number(row['new_sd'])}"
        rows.append({"label": name(row["name"], 80), "about": about, "marks": [mark]})
    if not rows:
        return ""
    ends = [end for row in rows[:MOST] for end in (row["marks"][0]["lo"], row["marks"][0]["hi"])]
    domain = [min(-0.05, *ends), max(1.05, *ends)]
    return page.chart(
        "rows",
        {
            "rows": rows[:MOST],
            "zones": [[0, 1]],
            "domain": domain,
            "x_label": "position in the training range (0 to 1)",
            "step": 24,
        },
        "Mean of each covariate here, give or take one standard deviation, in its training range (shaded).",
        label="Covariates in their training ranges.",
    )


def _moved(found: Sequence[dict[str, Any]]) -> str:
    columns: list[tuple[str, str, Callable[[Any], str], str]] = [
        ("mean here", "new", number, ""),
        ("SD here", "new_sd", number, ""),
        ("missing", "missing", whole, "rows without a value, of all rows of the table"),
        ("position", "position", error, "where the mean lies in the training range"),
        ("mean in the fit", "training", number, ""),
        ("SD in the fit", "training_sd", number, ""),
        ("shift", "shift", gain, "difference of the means in standard deviations of the fit"),
    ]
    kept = [one for one in columns if any(known(row[one[1]]) for row in found)]
    if not kept:
        return ""
    heads = [Column("covariate", numeric=False)] + [Column(head, show, about=about) for head, _, show, about in kept]
    rows = [[row["name"], *(row[key] for _, key, _, _ in kept)] for row in found]
    return table("Numeric covariates", heads, rows, sortable=len(rows) > 1)


def _add_places(page: Page, record: dict[str, Any]) -> None:
    """Add the table of places, which readers can sort and search."""
    sites = record["sites"] if record["table"]["n_environments"] is not None else [record["all"]]
    kept = [(column, values) for column, values in _columns(record["about"], sites) if any(map(known, values))]
    made = table(
        "Places",
        [column for column, _ in kept],
        list(zip(*(values for _, values in kept), strict=True)),
        sortable=True,
        search="Find a place" if len(sites) > 1 else None,
        classes="wide sites",
    )
    remark = f"Places with fewer than {record['table']['min_rows']} rows that can be predicted have no numbers."
    page.section("All places", made, note(remark if record["table"]["n_small"] else None))


PREDICTIONS = (  # heading, key, how it is shown, what it means
    ("events", "events", whole, ""),
    ("mean", "mean", number, "mean of the predicted means"),
    ("10 %", "q10", number, "mean of the predicted 10 % quantiles"),
    ("median", "median", number, "mean of the predicted medians"),
    ("90 %", "q90", number, "mean of the predicted 90 % quantiles"),
)
SCORES = (
    ("outside", "beyond", percent, "share of rows outside the training range"),
    ("nll", "nll", number, "mean negative log-likelihood, lower is better"),
    ("residual", "residual", gain, "mean score residual, above 0 where outcomes are larger"),
    ("from", "lower", gain, "lower limit of its 95 % interval"),
    ("to", "upper", gain, "upper limit of its 95 % interval"),
    ("distance", "mae", number, "mean distance of outcomes from their prediction"),
    ("concordance", "concordance", number, "share of pairs in the right order"),
)


def _columns(about: dict[str, Any], sites: Sequence[dict[str, Any]]) -> Iterator[tuple[Column, list[Any]]]:
    """Yield the columns of the table of places with their values."""

    def own(key: str) -> list[Any]:
        return [site.get(key) for site in sites]

    def within(key: str, at: str | int) -> list[Any]:
        return [None if value is None else value[at] for value in own(key)]

    yield Column(str(about["environment_name"] or "place"), numeric=False), own("name")
    yield Column("rows", whole), own("n")
    for heading, key in (("cannot be predicted", "bad"), ("with outcome", "outcomes")):
        yield Column(heading, whole), own(key) if any(own(key)) else []
    yield from ((Column(heading, show, about=told), own(key)) for heading, key, show, told in PREDICTIONS)
    for k, label in enumerate(about["classes"] or []):
        yield Column(f"P {name(label, 80)}", percent), within("probabilities", k)
    for k, time in enumerate(about["times"]):
        yield Column(f"survival at {time:g}", percent), within("survival", k)
    yield from ((Column(heading, show, about=told), own(key)) for heading, key, show, told in SCORES)
    for level in ("50", "80", "90"):
        yield Column(f"in {level} %", percent, about=f"in {level} % intervals"), within("coverage", level)


def _add_methods(page: Page, found: dict[str, Any]) -> None:
    """Add how the page was made, and how to make it again."""
    packages = ", ".join(f"{one} {version}" for one, version in found["packages"].items())
    page.section(
        "Methods, and how to reproduce this page",
        bullets(found["notes"]),
        facts(
            {
                "anchortm": found["version"],
                "Python": found["python"],
                "packages": packages or None,
                "fingerprint of the data": found["fingerprint"],
                "seed": None if found["seed"] is None else str(found["seed"]),
                "predictions are for": {"average": "an average place of the fit", "new": "a new place"}[found["place"]],
            }
        ),
        code(found["code"], "In Python"),
        code(found["command"], "In the shell") if found["command"] else "",
        note(
            "This page holds only numbers of at least five rows, loads nothing from the network and works without it. "
            "Intervals of mean residuals are by Student's t for independent rows. Intervals of coverage are those of "
            "Clopper and Pearson, widened where places differ more than independent rows would."
        ),
    )
