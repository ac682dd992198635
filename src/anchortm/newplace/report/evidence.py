"""What a recommendation rests on, in the report of an assessment: data, need, possibility, comparison, methods."""

from __future__ import annotations

from typing import Any

from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, bullets, code, facts, note, paragraphs, present, swatch, table, text
from anchortm.newplace.report.sites import NORMAL, few, places_of
from anchortm.newplace.report.values import (
    colour_of,
    covariate,
    error,
    gain,
    known,
    label_of,
    number,
    p_value,
    percent,
    strength,
    whole,
)

__all__ = ["add_comparison", "add_data", "add_methods", "add_need", "add_possibility", "add_stability"]

LEAST_SHARE = 0.005  # of variance between places that is worth a plot
DESIGNS = {
    "like": "At a place like these: each place left out in turn",
    "further": "At a place further out: the outermost places left out together",
}


def add_data(page: Page, record: dict[str, Any]) -> None:
    """Add what the data are: rows, events, covariates, what is missing."""
    about, data = record["about"], record.get("data") or {}
    covariates = data.get("covariates") or []
    made = ""
    if covariates:
        columns = [
            Column("covariate", covariate, numeric=False),
            Column("mean", number),
            Column("SD", number),
            Column("SD between places", number, about="standard deviation between places of their means"),
            Column("missing", whole),
        ]
        rows = [[row["name"], row["mean"], row["sd"], row["between"], row.get("missing")] for row in covariates]
        made = table(
            "Covariates",
            *present(columns, rows),
            sortable=len(rows) > 1,
            search="Find a covariate" if len(rows) > 15 else None,
        )
    page.section(
        "Data",
        facts(
            {
                "rows": about.get("n_rows"),
                "events": about.get("n_events"),
                "places": about.get("n_environments"),
                f"places with {few(record)}": about.get("n_small") or None,
                "rows with missing values": about.get("n_missing"),
                "model": about.get("model"),
                "outcome": about.get("outcome"),
                "link": str(about["link"]).removesuffix("()") if about.get("link") else None,
                "formula": about.get("formula"),
            }
        ),
        bullets([one for one in data.get("remarks") or [] if one not in _notes(record)]),
        made,
    )


def _notes(record: dict[str, Any]) -> list[str]:
    return (record.get("methods") or {}).get("notes") or []


def add_need(page: Page, record: dict[str, Any]) -> None:
    """Add whether the places differ beyond what the covariates explain."""
    need, sites = record.get("need"), record["sites"]
    chart = ""
    if any(known(site.get("residual")) for site in sites):
        series = {"name": "residual", "about": "", "c": "c0"}
        keys = {"v": "residual", "lo": "lower", "hi": "upper"}
        values = {short: [site.get(key) for site in sites] for short, key in keys.items()}
        spec = places_of(record) | {
            "series": [series | values],
            "x_label": "mean score residual",
            "value": "mean residual",
            "order": "from the largest residual to the smallest",
        }
        chart = page.chart(
            "dots",
            spec,
            "Mean score residual of maximum likelihood at each place. If covariates explained all differences, "
            "intervals would contain 0 at 95% of the places.",
            label="Mean residuals by place.",
        )
    test = ""
    if need:
        test = facts(
            {
                "score statistic": need.get("statistic"),
                "degrees of freedom": need.get("df"),
                "p-value": p_value(need.get("p")),
            }
        )
    page.section("Do the places differ?", test, chart, lead=(need or {}).get("sentence"))


def add_possibility(page: Page, record: dict[str, Any]) -> None:
    """Add whether anchoring can help: how much places move the covariates, and whether this predicts errors."""
    found = record.get("possibility")
    if not found:
        return
    location = found.get("location") or {}
    told = (found.get("identification"), location.get("sentence"))
    page.section(
        "Can anchoring help?",
        bullets([sentence for sentence in found.get("sentences") or [] if sentence not in told]),
        _stage(page, found.get("first_stage") or []),
        _location(location),
        note(found.get("identification")),
    )


def _stage(page: Page, stage: list[dict[str, Any]]) -> str:
    """Return how much places move each covariate, as a plot and a table."""
    if not stage:
        return ""
    columns = [
        Column("covariate", covariate, numeric=False),
        Column("R\u00b2", percent, about="share of the variance of the covariate that is between places"),
        Column("F", number),
        Column("partial R\u00b2", percent, about="the same, given the other covariates"),
    ]
    rows = [[row["covariate"], row["R2"], row["F"], row.get("partial_R2")] for row in stage]
    made = table("How much places move each covariate", columns, rows, sortable=len(rows) > 1)
    ordered = sorted((row for row in stage if known(row["R2"])), key=lambda row: -row["R2"])[:15]
    if not ordered or ordered[0]["R2"] < LEAST_SHARE:
        return made
    marks = [{"label": covariate(row["covariate"]), "marks": [{"v": row["R2"], "c": "c1"}]} for row in ordered]
    spec = {"rows": marks, "bars": True, "zero": 0, "format": "percent", "step": 22}
    spec["domain"] = [0, min(1.0, max(1.15 * ordered[0]["R2"], 0.1))]
    return page.chart(
        "rows",
        spec | {"x_label": "share of variance between places (R\u00b2)"},
        "How much of the variance of each covariate lies between places. Anchoring can only use differences between "
        "places.",
        label="Share of the variance of each covariate that is between places.",
        numbers=made,
    )


def _location(location: dict[str, Any]) -> str:
    """Return whether mean covariates predict where the fit errs."""
    if not location:
        return ""
    shown = {"left-out R\u00b2": _fixed(location.get("r2")), "standard error": _fixed(location.get("se"))}
    if known(location.get("p")):
        shown["p-value"] = p_value(location["p"])
    moved = known(location.get("se")) and location["se"] > 0  # else there is no direction to predict from
    heading = "Do mean covariates predict where the fit errs?"
    return f"<h3>{heading}</h3>{paragraphs(location.get('sentence'))}{facts(shown) if moved else ''}"


def _fixed(value: Any) -> str | None:
    return error(value) if known(value) else None


def add_comparison(page: Page, record: dict[str, Any]) -> None:
    """Add the tables of strategies for each design, and the folds of the verdict on a place further out."""
    found = record.get("comparison")
    if not found:
        return
    about = {one["name"]: one["about"] for one in found.get("strategies") or []}
    strategies = "".join(f"<li>{_swatch(one, words)}</li>" for one, words in about.items())
    blocks = [f'<ul class="plain">{strategies}</ul>' if strategies else ""]
    for design, heading in DESIGNS.items():
        rows = found.get(design)
        if rows:
            blocks += [
                f"<h3>{heading}</h3>",
                _differences(page, rows),
                _strategies(heading, rows, record["recommendation"].get(design)),
            ]
    folds = found.get("folds")
    if folds:
        blocks += ["<h3>Do the folds agree on a place further out?</h3>", _folds(page, folds)]
    page.section("Comparison of strategies", *blocks, bullets(found.get("remarks") or []))


def _swatch(strategy: str, about: str) -> str:
    label = label_of(strategy)
    shown = swatch(label, colour_of(strategy))
    return shown if label == about or not about else f"{shown}: {text(about)}"


def _differences(page: Page, rows: list[dict[str, Any]]) -> str:
    own = [row for row in rows if row["strategy"] not in ("ml", "null") and known(row.get("difference"))]
    if not own:
        return ""
    marks, said = [], "Mean gain over maximum likelihood; above 0 is better."
    if any(known(row.get("se")) for row in own):
        said += " Lines: 95% intervals over places."
    for row in own:
        value, error = -row["difference"], row.get("se")
        ends = {"lo": value - NORMAL * error, "hi": value + NORMAL * error} if known(error) else {}
        marks.append(
            {
                "label": label_of(row["strategy"]),
                "marks": [{"v": value, "c": colour_of(row["strategy"]), "r": 6.5, **ends}],
            }
        )
    return page.chart(
        "rows",
        {"rows": marks, "zero": 0, "format": "signed", "x_label": "mean gain per row over maximum likelihood"},
        said,
        label="Mean gain of each strategy.",
    )


def _strategies(heading: str, rows: list[dict[str, Any]], advice: dict[str, Any] | None) -> str:
    columns = [
        Column("strategy", label_of, numeric=False),
        Column("skill", gain, about="mean over places"),
        Column("hard places", gain, about="nine in ten places have more skill"),
        Column("worst place", gain, about="the smallest skill"),
        Column("gain", gain, about="over maximum likelihood, mean over places"),
        Column("standard error", error, about="of the gain"),
        Column("p-value", p_value, about="adjusted for the number of strategies"),
        Column("folds gained", lambda v: str(v) if known(v) else number(v)),
    ]
    keys = ["mean", "q90", "worst", "difference", "se", "p", "gained"]
    cells = [[row["strategy"], *(row.get(key) if row.get(key) != "" else None for key in keys)] for row in rows]
    for cell in cells:  # losses become scores
        cell[1:5] = [0.0 - loss if known(loss) else None for loss in cell[1:5]]
    chosen = None if advice is None else advice["strategy"]
    return table(
        f"{heading}. Skill is the log-likelihood per row above that of a model without covariates, gain that above "
        "maximum likelihood: higher is better",
        *present(columns, cells),
        chosen=[k for k, row in enumerate(rows) if row["strategy"] == chosen],
    )


def _folds(page: Page, folds: list[dict[str, Any]]) -> str:
    columns = [
        Column("side", numeric=False),
        Column("share left out", percent),
        Column("places", whole),
        Column("distance", lambda v: number(v, 2), about="standard deviations between places"),
        Column("xi", strength),
        Column("gain", gain, about="of anchoring at this xi"),
        Column("gain widened", gain, about="of maximum likelihood with another spread"),
    ]
    keys = ["side", "share", "environments", "distance", "xi", "gain", "gain_widened"]
    numbers = table(
        "Folds: the outermost places left out together", columns, [[fold.get(key) for key in keys] for fold in folds]
    )
    rows = []
    for fold in folds:
        marks = [
            {"v": fold.get("gain"), "c": colour_of("anchored"), "name": "anchored"},
            {"v": fold.get("gain_widened"), "c": colour_of("widened"), "name": "widened"},
        ]
        about = f"{number(fold.get('environments'))} places, {number(fold.get('distance'), 2)} SD out on average"
        rows.append(
            {
                "label": f"{fold['side']} side, {percent(fold.get('share'))}",
                "about": about,
                "marks": marks,
            }
        )
    spec = {
        "rows": rows,
        "spread": True,
        "zero": 0,
        "format": "signed",
        "x_label": "gain per row over maximum likelihood",
        "key": [
            {"name": "anchored", "colour": colour_of("anchored")},
            {"name": "widened", "colour": colour_of("widened")},
        ],
    }
    return page.chart(
        "rows",
        spec,
        "Each row is a fold: the side and the share of the places that were left out. Do they agree?",
        label="Gains of anchoring and of a wider spread in each fold.",
        numbers=numbers,
    )


def add_stability(page: Page, record: dict[str, Any]) -> None:
    """Add how often the recommendation changes if other places had been drawn."""
    found = record.get("stability")
    rows: list[dict[str, Any]] = [
        {
            "label": heading.partition(":")[0],
            "parts": [
                {"name": label_of(one), "c": colour_of(one), "share": share}
                for one, share in sorted(found[design].items(), key=lambda pair: -pair[1])
            ],
        }
        for design, heading in DESIGNS.items()
        if found and found.get(design)
    ]
    if not found or not rows:
        return
    numbers = table(
        "Recommendations over resampled places",
        [
            Column("kind of place", numeric=False),
            Column("recommendation", numeric=False),
            Column("share of draws", percent),
        ],
        [[row["label"], part["name"], part["share"]] for row in rows for part in row["parts"]],
    )
    page.section(
        "How stable is the recommendation?",
        page.chart(
            "stack",
            {"rows": rows},
            "What the same rule recommends when the losses of places are resampled "
            f"({number(found.get('draws'))} draws, no refits).",
            label="Shares of recommendations over resampled places.",
            numbers=numbers,
        ),
    )


def add_methods(page: Page, record: dict[str, Any]) -> None:
    """Add how it was made: methods, versions, fingerprint, seed, and the commands that reproduce it."""
    found = record.get("methods")
    if not found:
        return
    packages = ", ".join(f"{one} {version}" for one, version in (found.get("packages") or {}).items())
    page.section(
        "Methods, and how to reproduce this page",
        _not_computed(_notes(record)),
        facts(
            {
                "anchortm": found.get("version"),
                "Python": found.get("python"),
                "packages": packages or None,
                "fingerprint of the data": found.get("fingerprint"),
                "seed": None if found.get("seed") is None else str(found["seed"]),
            }
        ),
        code(found["code"], "In Python") if found.get("code") else "",
        code(found["command"], "In the shell") if found.get("command") else "",
        note(
            "This page holds only aggregates, loads nothing from the network and works without it. A gain of 0.01 "
            "means that the predicted probability of what happened is about 1% larger, on (geometric) average."
        ),
    )


def _not_computed(notes: list[str]) -> str:
    return f"<h3>Not computed</h3>{bullets(notes)}" if notes else ""
