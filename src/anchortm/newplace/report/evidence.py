"""What a recommendation rests on, in the report of an assessment: data, need, possibility, comparison, methods."""

from __future__ import annotations

from typing import Any

from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, bullets, code, facts, note, paragraphs, swatch, table, text
from anchortm.newplace.report.sites import NORMAL, few, places_of
from anchortm.newplace.report.values import colour_of, error, gain, known, number, p_value, percent, strength, whole

__all__ = ["add_comparison", "add_data", "add_methods", "add_need", "add_possibility", "add_stability"]

DESIGNS = {
    "like": "At a place like these: each site left out in turn",
    "further": "At a place further out: the outermost sites left out together",
}


def add_data(page: Page, record: dict[str, Any]) -> None:
    """Add what the data are: rows, events, covariates, what is missing."""
    about, data = record["about"], record.get("data") or {}
    covariates = data.get("covariates") or []
    made = ""
    if covariates:
        columns = [
            Column("covariate", numeric=False),
            Column("mean", number),
            Column("SD", number),
            Column("SD between sites", number, about="standard deviation between sites of their means"),
            Column("missing", whole),
        ]
        rows = [[row["name"], row["mean"], row["sd"], row["between"], row.get("missing")] for row in covariates]
        made = table(
            "Covariates", columns, rows, sortable=len(rows) > 1, search="Find a covariate" if len(rows) > 15 else None
        )
    page.section(
        "Data",
        facts(
            {
                "rows": about.get("n_rows"),
                "events": about.get("n_events"),
                "sites": about.get("n_environments"),
                f"sites with {few(record)}": about.get("n_small"),
                "rows with missing values": about.get("n_missing"),
                "model": about.get("model"),
                "outcome": about.get("outcome"),
                "link": about.get("link"),
                "formula": about.get("formula"),
            }
        ),
        bullets(data.get("remarks") or []),
        made,
    )


def add_need(page: Page, record: dict[str, Any]) -> None:
    """Add whether the sites differ beyond what the covariates explain."""
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
            "Mean score residual of maximum likelihood at each site. If covariates explained all differences, "
            "intervals would contain 0 at 95 % of the sites.",
            label="Mean residuals by site.",
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
    page.section("Do the sites differ?", test, chart, lead=(need or {}).get("sentence"))


def add_possibility(page: Page, record: dict[str, Any]) -> None:
    """Add whether anchoring can help: how much sites move the covariates, and whether the rest is location."""
    found = record.get("possibility")
    if not found:
        return
    stage, location = found.get("first_stage") or [], found.get("location")
    made = ""
    if stage:
        columns = [
            Column("covariate", numeric=False),
            Column("R\u00b2", percent, about="share of the variance of the covariate that is between sites"),
            Column("F", number),
            Column("partial R\u00b2", percent, about="the same, given the other covariates"),
        ]
        rows = [[row["covariate"], row["R2"], row["F"], row.get("partial_R2")] for row in stage]
        made = table("How much sites move each covariate", columns, rows, sortable=len(rows) > 1)
        marks = [
            {"label": row["covariate"], "marks": [{"v": row["R2"], "c": "c1"}]}
            for row in stage[:15]
            if known(row["R2"])
        ]
        spec = {"rows": marks, "bars": True, "zero": 0, "domain": [0, 1], "format": "percent", "step": 22}
        if marks:
            made = page.chart(
                "rows",
                spec | {"x_label": "share of variance between sites (R\u00b2)"},
                "How much the sites move each covariate. Anchoring can only use differences between sites.",
                label="Share of the variance of each covariate that is between sites.",
                numbers=made,
            )
    blocks = [made]
    if location:
        shown = {"R\u00b2 of location": location.get("r2"), "standard error": location.get("se")}
        if known(location.get("p")):
            shown["p-value"] = p_value(location["p"])
        blocks.append(f"<h3>Is it a matter of location?</h3>{paragraphs(location.get('sentence'))}{facts(shown)}")
    blocks.append(paragraphs(found.get("identification")))
    page.section("Can anchoring help?", bullets(found.get("sentences") or []), *blocks)


def add_comparison(page: Page, record: dict[str, Any]) -> None:
    """Add the tables of strategies for each design, and the folds of the verdict on a place further out."""
    found = record.get("comparison")
    if not found:
        return
    about = {one["name"]: one["about"] for one in found.get("strategies") or []}
    strategies = "".join(f"<li>{swatch(one, colour_of(one))}: {text(words)}</li>" for one, words in about.items())
    blocks = [f'<ul class="plain">{strategies}</ul>' if strategies else ""]
    for design, heading in DESIGNS.items():
        rows = found.get(design)
        if rows:
            blocks += [f"<h3>{heading}</h3>", _differences(page, rows), _strategies(heading, rows, design == "further")]
    folds = found.get("folds")
    if folds:
        blocks += ["<h3>Folds of the verdict on a place further out</h3>", _folds(page, folds)]
    page.section("Comparison of strategies", *blocks, bullets(found.get("remarks") or []))


def _differences(page: Page, rows: list[dict[str, Any]]) -> str:
    own = [row for row in rows if row["strategy"] != "ml" and known(row.get("difference"))]
    if not own:
        return ""
    marks = []
    for row in own:
        value, error = -row["difference"], row.get("se")
        ends = {"lo": value - NORMAL * error, "hi": value + NORMAL * error} if known(error) else {}
        marks.append(
            {"label": row["strategy"], "marks": [{"v": value, "c": colour_of(row["strategy"]), "r": 6.5, **ends}]}
        )
    return page.chart(
        "rows",
        {"rows": marks, "zero": 0, "format": "signed", "x_label": "mean gain per row over maximum likelihood"},
        "Mean gain over maximum likelihood; above 0 is better. Lines: 95 % intervals over sites.",
        label="Mean gain of each strategy.",
    )


def _strategies(heading: str, rows: list[dict[str, Any]], further: bool) -> str:
    columns = [
        Column("strategy", numeric=False),
        Column("mean", gain, about="nll minus that of the model without covariates; lower is better"),
        Column("90 % quantile", gain, about="of the same, over sites"),
        Column("worst", gain, about="the largest of the same"),
        Column("difference", gain, about="mean nll minus that of maximum likelihood; below 0 is better"),
        Column("standard error", error),
        Column("p-value", p_value, about="adjusted for the number of strategies"),
    ]
    keys = ["strategy", "mean", "q90", "worst", "difference", "se", "p"]
    if further and any(row.get("gained") is not None for row in rows):
        columns.append(Column("folds gained", lambda v: str(v) if known(v) else number(v)))
        keys.append("gained")
    return table(
        f"{heading} (negative log-likelihood, lower is better)",
        columns,
        [[row.get(key) for key in keys] for row in rows],
    )


def _folds(page: Page, folds: list[dict[str, Any]]) -> str:
    columns = [
        Column("side", numeric=False),
        Column("share left out", percent),
        Column("sites", whole),
        Column("distance", lambda v: number(v, 2), about="standard deviations between sites"),
        Column("xi", strength),
        Column("gain", gain, about="of anchoring at this xi"),
        Column("gain widened", gain, about="of maximum likelihood with another spread"),
    ]
    keys = ["side", "share", "environments", "distance", "xi", "gain", "gain_widened"]
    numbers = table(
        "Folds: the outermost sites left out together", columns, [[fold.get(key) for key in keys] for fold in folds]
    )
    rows = []
    for fold in folds:
        marks = [
            {"v": fold.get("gain"), "c": colour_of("anchored"), "name": "anchored"},
            {"v": fold.get("gain_widened"), "c": colour_of("widened"), "name": "widened"},
        ]
        about = f"{number(fold.get('environments'))} sites, {number(fold.get('distance'), 2)} SD out on average"
        rows.append(
            {"label": f"{fold['side']}, {percent(fold.get('share'))}", "about": about, "marks": marks, "linked": True}
        )
    spec = {
        "rows": rows,
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
        "Each row is a fold: the side and the share of the sites that were left out. The verdict asks if they agree.",
        label="Gains of anchoring and of a wider spread in each fold.",
        numbers=numbers,
    )


def add_stability(page: Page, record: dict[str, Any]) -> None:
    """Add how often the recommendation changes if other sites had been drawn."""
    found = record.get("stability")
    rows: list[dict[str, Any]] = [
        {
            "label": heading.partition(":")[0],
            "parts": [
                {"name": one, "c": colour_of(one), "share": share}
                for one, share in sorted(found[design].items(), key=lambda pair: -pair[1])
            ],
        }
        for design, heading in DESIGNS.items()
        if found and found.get(design)
    ]
    if not found or not rows:
        return
    numbers = table(
        "Recommendations over resampled sites",
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
            f"What the same rule recommends when losses of sites are resampled ({number(found.get('draws'))} draws, "
            "no refits).",
            label="Shares of recommendations over resampled sites.",
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
        bullets(found.get("notes") or []),
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
            "means that the predicted probability of what happened is about 1 % larger, on (geometric) average."
        ),
    )
