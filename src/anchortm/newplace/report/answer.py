"""The top of an assessment's report: what to do, what the new place then showed, how far out the new place is."""

from __future__ import annotations

import math
from typing import Any

from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, badge, bullets, facts, note, paragraphs, table, text
from anchortm.newplace.report.values import colour_of, covariate, gain, known, label_of, number, percent

__all__ = ["add_held_back", "add_new_place", "add_recommendation"]

PLACES = {"like": "For a place like these", "further": "For a place further out"}
CONFIDENCE = {
    "clear": "clear",
    "confident": "confident",
    "tentative": "tentative",
    "keep": "no strategy does better",
    "undecided": "the data do not decide",
    "inside": "inside the range of the known places",
    "untried": "not tried",
}
STRONG = ("clear", "confident")
MOST_COVARIATES = 15
TELLING = (0.1, 3.0)  # gains between them are also told as a factor of the density


def add_recommendation(page: Page, record: dict[str, Any]) -> None:
    """Add what to do, for the new place or for each kind of place."""
    own = record["recommendation"]
    kinds = {kind: own[kind] for kind in PLACES if own.get(kind)}
    decided = kinds.get(own.get("kind", "both"))
    if decided is not None:
        others = [_article(page, record, advice, "") for kind, advice in kinds.items() if kind != own["kind"]]
        headline = decided["headline"]
        sentence = _adding(own.get("sentence") or decided.get("sentence"), headline)
        first = _answer(decided, headline, _badges(decided), sentence)
        first += _gain(page, record, decided) + _reasons(decided)
        # what does not apply to the new rows stays below: the same model may meet other places
        rest = f'<div class="advice">{"".join(others)}</div>' if others else ""
    else:
        headline, same = _common(list(kinds.values()))
        first = _answer(same, headline, "", "")
        rest = "".join(_article(page, record, advice, headline) for advice in kinds.values())
        rest = f'<div class="advice">{rest}</div>'
    page.section("Recommendation", first, rest)


def _common(kinds: list[dict[str, Any]]) -> tuple[str, dict[str, Any] | None]:
    """Return the headline for all kinds of place, and the advice that stands for all if they say the same."""
    if not kinds:
        return "No recommendation", None
    same = len({(one["strategy"], one.get("xi"), one.get("collect")) for one in kinds}) == 1
    first = min(kinds, key=lambda one: len(one["headline"]))
    return (first["headline"], first) if same else ("It depends on the new place", None)


def _adding(sentence: str | None, headline: str) -> str:
    """Return a sentence if it says more than the headline."""
    if not sentence:
        return ""
    told = sentence.partition(": ")[2] or sentence
    return "" if told.rstrip(".").casefold() == headline.rstrip(".").casefold() else sentence


def _answer(advice: dict[str, Any] | None, headline: str, badges: str, sentence: str) -> str:
    colour = "c4" if advice is None else colour_of(advice["strategy"])
    return (
        f'<div class="answer {colour}">{badges}<p class="headline">{text(headline)}</p>'
        f"{paragraphs(sentence, kind='sentence')}</div>"
    )


def _article(page: Page, record: dict[str, Any], advice: dict[str, Any], above: str) -> str:
    """Return the advice for one kind of place; its headline only if it differs from the one above."""
    headline = "" if advice["headline"] == above else f'<p class="headline">{text(advice["headline"])}</p>'
    return (
        f'<article class="{colour_of(advice["strategy"])}"><h3>{PLACES[advice["design"]]}</h3>{headline}'
        f"{_badges(advice, place=False)}{paragraphs(_adding(advice.get('sentence'), advice['headline']))}"
        f"{_gain(page, record, advice)}{_reasons(advice)}</article>"
    )


def _badges(advice: dict[str, Any], place: bool = True) -> str:
    """Return the kind of place and how sure the advice is, unless its headline says so."""
    confidence = advice.get("confidence") or ""
    words = CONFIDENCE.get(confidence, confidence)
    first = badge(PLACES[advice["design"]]) if place else ""
    if not words or words.casefold() in advice["headline"].casefold():
        return first
    return first + badge(words, "strong" if confidence in STRONG else "")


def _gain(page: Page, record: dict[str, Any], advice: dict[str, Any]) -> str:
    """Return the expected gain as numbers and as a plot."""
    value, interval = advice.get("gain"), advice.get("interval")
    if not known(value):
        return ""
    start, plainly = (
        f"Expected gain over maximum likelihood: {gain(value)} in log-likelihood per row",
        _plainly(record, value),
    )
    if not (interval and all(map(known, interval))):
        return paragraphs(f"{start}.{plainly}")
    ends = f"{gain(interval[0])} to {gain(interval[1])}"
    what = advice.get("interval_is") or "interval"
    said = paragraphs(f"{start} ({what}: {ends}).{plainly}")
    label = label_of(advice["strategy"], advice.get("xi"))
    mark = {"v": value, "lo": interval[0], "hi": interval[1], "c": colour_of(advice["strategy"]), "r": 6.5}
    rows = [{"label": label, "marks": [mark | {"tip": [label, f"gain {gain(value)}", ends]}]}]
    if known(advice.get("collect")) and known(advice.get("collect_gain")):
        label = f"with {number(advice['collect'])} outcomes"
        mark = {"v": advice["collect_gain"], "c": colour_of("recalibrate"), "r": 6.5}
        rows.append({"label": label, "marks": [mark | {"tip": [label, f"gain {gain(mark['v'])}"]}]})
    points = [0.0, *interval, *(row["marks"][0]["v"] for row in rows)]
    room = 0.08 * (max(points) - min(points) or 1.0)
    return said + page.chart(
        "rows",
        {
            "rows": rows,
            "x_label": "gain per row over maximum likelihood",
            "zero": 0,
            "domain": [min(points) - room, max(points) + room],
            "format": "signed",
            "step": 28,
        },
        f"Expected gain in log-likelihood; above 0 is better. Line: {what}.",
        label=f"Expected gain {gain(value)}, {what} {ends}.",
    )


def _plainly(record: dict[str, Any], value: float) -> str:
    """Return a gain in words; empty if it is small, or too large to mean a factor to anyone."""
    about = record["about"]
    if about.get("model") == "CoxPH" or not TELLING[0] <= value <= TELLING[1]:
        return ""
    what = "probability" if about.get("kind") in ("class", "count") else "density"
    return (
        f" In other words, outcomes at such a place are predicted with {math.exp(value):.2g} times the {what}, on "
        "(geometric) average."
    )


def _reasons(advice: dict[str, Any]) -> str:
    return bullets(advice.get("reasons") or [])


def add_held_back(page: Page, record: dict[str, Any]) -> None:
    """Add what the new place showed, which the recommendation never saw."""
    found = record.get("held_back")
    if not found:
        return
    said = {True: "agrees", False: "does not agree"}.get(found.get("agrees"), "neither confirms nor contradicts")
    chosen, rows = record["recommendation"].get("strategy"), _by_strength(found["rows"])
    columns = [
        Column("strategy", numeric=False),
        Column("nll", lambda v: number(v, 4), about="mean negative log-likelihood per row; lower is better"),
        Column("gain", gain, about="nll of maximum likelihood minus this nll; above 0 is better"),
        Column("mean absolute error", number, about="of predicted medians"),
        Column("in 90% intervals", percent, about="share of rows in predicted 90% intervals"),
    ]
    keys = [None, "nll", "gain", "mae", "coverage"]
    kept = [k for k, key in enumerate(keys) if key is None or any(known(row.get(key)) for row in rows)]
    cells = [[_titled(row), *(row.get(key) for key in keys[1:])] for row in rows]
    made = table(
        f"Strategies at the {number(found['n'])} rows of the new place",
        [columns[k] for k in kept],
        [[row[k] for k in kept] for row in cells],
        chosen=[k for k, row in enumerate(rows) if row["strategy"] == chosen],
    )
    others = [row for row in rows if row["strategy"] != "ml" and known(row["gain"])]
    chart = ""
    if others:
        chart = page.chart(
            "rows",
            {
                "rows": [
                    {"label": _titled(row), "marks": [{"v": row["gain"], "c": colour_of(row["strategy"]), "r": 6.5}]}
                    for row in others
                ],
                "bars": True,
                "zero": 0,
                "format": "signed",
                "x_label": "gain per row over maximum likelihood",
            },
            "Gain over maximum likelihood at the new place; above 0 is better.",
            label="Gains of the strategies at the new place.",
        )
    page.section(
        "What the new place then showed",
        f'<div class="verdict">{badge(said)}{paragraphs(found.get("sentence"))}</div>',
        chart,
        made,
        note("The recommendation was made without these outcomes. The row of the recommended strategy is bold."),
    )


def _titled(row: dict[str, Any]) -> str:
    return label_of(row["strategy"], row.get("xi")) + (" (tuned)" if row["strategy"] == "anchored" else "")


def _by_strength(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return other strategies, and then anchored ones by strength; the tuned one is not repeated."""
    tuned = {row["xi"] for row in rows if row["strategy"] == "anchored"}

    def fixed(row: dict[str, Any]) -> bool:
        return str(row["strategy"]).startswith("anchored(")

    kept = [row for row in rows if not (fixed(row) and row["xi"] in tuned)]
    anchored = [row for row in kept if row["strategy"] == "anchored" or fixed(row)]
    others = [row for row in kept if row not in anchored]
    return others + sorted(anchored, key=lambda row: row["xi"] if known(row["xi"]) else math.inf)


def add_new_place(page: Page, record: dict[str, Any]) -> None:
    """Add how far out the new place is, and in which covariates."""
    found = record.get("new")
    if not found:
        return
    page.section(
        "How far out is the new place?",
        facts(
            {
                "rows": found.get("n"),
                "distance (SD between places)": found.get("distance"),
                "like the known places": {True: "yes", False: "no"}.get(found.get("inside")),
                "rows outside the training range": percent(found["beyond"]) if known(found.get("beyond")) else None,
            }
        ),
        _shifts(page, found.get("covariates") or []),
        lead=found.get("sentence"),
    )


def _shifts(page: Page, covariates: list[dict[str, Any]]) -> str:
    """Return how far the new place lies out in each covariate, that with the largest effect first."""
    rows = sorted(covariates, key=lambda row: -abs(row["effect"]) if known(row.get("effect")) else 0.0)
    if not rows:
        return ""
    numbers = table(
        "Covariates of the new place, by the effect of their shift on predictions",
        [
            Column("covariate", covariate, numeric=False),
            Column("mean of known places", number),
            Column("mean of the new place", number),
            Column("shift (SD)", lambda v: number(v, 2), about="in standard deviations between places"),
            Column("effect", gain, about="of the shift on the linear predictor of maximum likelihood"),
        ],
        [[row["name"], row["training"], row["new"], row["shift"], row.get("effect")] for row in rows],
        search="Find a covariate" if len(rows) > MOST_COVARIATES else None,
    )
    drawn = [row for row in rows[:MOST_COVARIATES] if known(row["shift"])]
    spec = {
        "rows": [{"label": covariate(row["name"]), "marks": [_shift(row)]} for row in drawn],
        "bars": True,
        "zero": 0,
        "zones": [[-1, 1]],
        "format": "number",
        "x_label": "shift of the mean, in SD between places",
    }
    first = f" The first {MOST_COVARIATES}." if len(rows) > len(drawn) else ""
    return page.chart(
        "rows",
        spec,
        "How far the mean of each covariate lies from that of the known places; what moves predictions most comes "
        f"first. Grey zone: within one standard deviation between places.{first}",
        label="Shifts of the covariates of the new place.",
        numbers=numbers,
    )


def _shift(row: dict[str, Any]) -> dict[str, Any]:
    tip = [
        covariate(row["name"]),
        f"shift {number(row['shift'])} SD between places",
        f"mean {number(row['training'])} in known places, {number(row['new'])} here",
        f"effect on the linear predictor {gain(row.get('effect'))}",
    ]
    return {"v": row["shift"], "c": "c1" if abs(row["shift"]) > 1 else "c4", "tip": tip}
