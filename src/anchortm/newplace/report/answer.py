"""The top of an assessment's report: what to do, what the held-back places showed, how far out the new place is."""

from __future__ import annotations

import math
from typing import Any

from anchortm.newplace.report.page import Page
from anchortm.newplace.report.parts import Column, badge, bullets, facts, note, paragraphs, table, text
from anchortm.newplace.report.values import colour_of, gain, known, name, number, percent, strength

__all__ = ["add_held_back", "add_new_place", "add_recommendation"]

PLACES = {"like": "For a place like these", "further": "For a place further out"}
CONFIDENCE = {
    "clear": "clear",
    "confident": "confident",
    "tentative": "tentative",
    "keep": "no change needed",
    "undecided": "the data do not decide",
    "inside": "inside the range of the training places",
    "untried": "not tried",
}
STRONG = ("clear", "confident")
MOST_COVARIATES = 15


def add_recommendation(page: Page, record: dict[str, Any]) -> None:
    """Add what to do, for the new place or for each kind of place."""
    own = record["recommendation"]
    kinds = {kind: own[kind] for kind in PLACES if own.get(kind)}
    decided = kinds.get(own.get("kind", "both"))
    likely = record["about"].get("model") != "CoxPH"
    if decided is not None:
        others = [_article(page, advice, likely) for kind, advice in kinds.items() if kind != own["kind"]]
        first = _answer(decided, own.get("sentence"), likely) + _interval(page, decided) + _reasons(decided)
        # what does not apply to the new rows stays below: the same model may meet other places
        rest = f'<div class="advice">{"".join(others)}</div>' if others else ""
    else:
        headlines = list(dict.fromkeys(advice["headline"] for advice in kinds.values()))
        several = "It depends on the new place" if headlines else "No recommendation"
        headline = headlines[0] if len(headlines) == 1 else several
        colours = {colour_of(advice["strategy"]) for advice in kinds.values()}
        colour = colours.pop() if len(colours) == 1 else "c4"
        first = f'<div class="answer {colour}"><p class="headline">{text(headline)}</p>'
        first += f'<p class="sentence">{text(own.get("sentence") or "")}</p></div>'
        rest = f'<div class="advice">{"".join(_article(page, advice, likely) for advice in kinds.values())}</div>'
    page.section("Recommendation", first, rest)


def _answer(advice: dict[str, Any], sentence: str | None, likely: bool) -> str:
    return (
        f'<div class="answer {colour_of(advice["strategy"])}">{_badges(advice)}'
        f'<p class="headline">{text(advice["headline"])}</p>'
        f'<p class="sentence">{text(sentence or advice.get("sentence") or "")}</p></div>{_facts(advice, likely)}'
    )


def _article(page: Page, advice: dict[str, Any], likely: bool) -> str:
    return (
        f'<article class="{colour_of(advice["strategy"])}"><h3>{PLACES[advice["design"]]}</h3>'
        f'<p class="headline">{text(advice["headline"])}</p>{_badges(advice, place=False)}'
        f"{paragraphs(advice.get('sentence'))}{_facts(advice, likely)}{_interval(page, advice)}{_reasons(advice)}"
        "</article>"
    )


def _badges(advice: dict[str, Any], place: bool = True) -> str:
    confidence = advice.get("confidence") or ""
    first = badge(PLACES[advice["design"]]) if place else ""
    return first + badge(CONFIDENCE.get(confidence, confidence), "strong" if confidence in STRONG else "")


def _facts(advice: dict[str, Any], likely: bool) -> str:
    interval = advice.get("interval")
    found: dict[str, Any] = {}
    if known(advice.get("gain")):
        found["expected gain per row"] = gain(advice["gain"])
        if interval and all(map(known, interval)):
            found["interval"] = f"{gain(interval[0])} to {gain(interval[1])}"
        if likely and 0.0005 < abs(advice["gain"]) < 3:
            found["mean change of the probability of outcomes"] = _change(advice["gain"])
    if known(advice.get("xi")) and advice["xi"] > 0:
        found["strength xi"] = strength(advice["xi"])
    if known(advice.get("stability")):
        found["same answer in resampled sites"] = percent(advice["stability"])
    if known(advice.get("collect")):
        found["outcomes worth collecting"] = number(advice["collect"])
        if known(advice.get("collect_gain")):
            found["gain with these outcomes"] = gain(advice["collect_gain"])
    return facts(found)


def _change(value: float) -> str:
    """Return a gain as change of the density at the outcomes (their geometric mean)."""
    change = 100 * math.expm1(value)
    shown = f"{change:+.1f}" if abs(change) < 10 else f"{change:+.0f}"
    return shown.replace("-", "\u2212") + "\u202f%"


def _interval(page: Page, advice: dict[str, Any]) -> str:
    """Return the expected gain as a plot, if it has an interval."""
    interval = advice.get("interval")
    if not (known(advice.get("gain")) and interval and all(map(known, interval))):
        return ""
    mark = {"v": advice["gain"], "lo": interval[0], "hi": interval[1], "c": colour_of(advice["strategy"]), "r": 6.5}
    mark["tip"] = [advice["strategy"], f"gain {gain(advice['gain'])}", f"{gain(interval[0])} to {gain(interval[1])}"]
    ends = [0.0, advice["gain"], *interval]
    room = 0.08 * (max(ends) - min(ends) or 1.0)
    return page.chart(
        "rows",
        {
            "rows": [{"label": "", "marks": [mark]}],
            "x_label": "gain per row in log-likelihood",
            "zero": 0,
            "domain": [min(ends) - room, max(ends) + room],
            "format": "signed",
            "step": 30,
        },
        f"Expected gain over maximum likelihood; above 0 is better. Line: {advice.get('interval_is') or 'interval'}.",
        label=f"Expected gain {gain(advice['gain'])}, interval {gain(interval[0])} to {gain(interval[1])}.",
    )


def _reasons(advice: dict[str, Any]) -> str:
    return bullets(advice.get("reasons") or [])


def add_held_back(page: Page, record: dict[str, Any]) -> None:
    """Add what the places showed that the recommendation never saw."""
    found = record.get("held_back")
    if not found:
        return
    agrees = found.get("agrees")
    verdict = {True: "They agree with the recommendation.", False: "They do not agree with the recommendation."}
    said = verdict.get(agrees, "They neither confirm nor contradict the recommendation.")
    rows = found["rows"]
    chosen = record["recommendation"].get("strategy")
    columns = [
        Column("strategy", numeric=False),
        Column("xi", strength),
        Column("nll", lambda v: number(v, 4), about="mean negative log-likelihood per row; lower is better"),
        Column("gain", gain, about="nll of maximum likelihood minus this nll; above 0 is better"),
        Column("mean absolute error", number),
        Column("in 80 % intervals", percent),
    ]
    made = table(
        f"Strategies at the {number(found['n'])} held-back rows",
        columns,
        [
            [row["strategy"], row["xi"] if known(row["xi"]) else 0.0, row["nll"], row["gain"], row["mae"], _share(row)]
            for row in rows
        ],
        chosen=[k for k, row in enumerate(rows) if row["strategy"] == chosen],
    )
    others = [row for row in rows if row["strategy"] != "ml" and known(row["gain"])]
    chart = ""
    if others:
        chart = page.chart(
            "rows",
            {
                "rows": [
                    {"label": row["strategy"], "marks": [{"v": row["gain"], "c": colour_of(row["strategy"]), "r": 6.5}]}
                    for row in others
                ],
                "bars": True,
                "zero": 0,
                "format": "signed",
                "x_label": "gain per row over maximum likelihood",
            },
            "Gain over maximum likelihood at the held-back places; above 0 is better.",
            label="Gains of the strategies at the held-back places.",
        )
    page.section(
        "What the held-back places then showed",
        f'<div class="verdict"><p>{text(said)}</p></div>',
        paragraphs(found.get("sentence")),
        chart,
        made,
        note("The recommendation above was made without these rows. The row of the recommended strategy is bold."),
    )


def _share(row: dict[str, Any]) -> Any:
    """Return the coverage of a row: a share, or that of the middle level."""
    found = row.get("coverage")
    return found[1] if isinstance(found, list) and len(found) > 1 else found


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
                "distance (SD between sites)": found.get("distance"),
                "inside the range of the sites": {True: "yes", False: "no"}.get(found.get("inside")),
                "rows outside the training range": percent(found["beyond"]) if known(found.get("beyond")) else None,
            }
        ),
        _shifts(page, found.get("covariates") or []),
        lead=found.get("sentence"),
    )


def _shifts(page: Page, covariates: list[dict[str, Any]]) -> str:
    """Return how far the new place lies out in each covariate."""
    rows = sorted(covariates, key=lambda row: -abs(row["shift"]) if known(row["shift"]) else 0.0)
    if not rows:
        return ""
    numbers = table(
        "Covariates of the new place, by the size of the shift",
        [
            Column("covariate", numeric=False),
            Column("training mean", number),
            Column("new mean", number),
            Column("shift (SD)", lambda v: number(v, 2), about="in standard deviations between sites"),
            Column("effect", gain, about="of the shift on the linear predictor of maximum likelihood"),
        ],
        [[row["name"], row["training"], row["new"], row["shift"], row.get("effect")] for row in rows],
        search="Find a covariate" if len(rows) > MOST_COVARIATES else None,
    )
    drawn = [row for row in rows[:MOST_COVARIATES] if known(row["shift"])]
    spec = {
        "rows": [{"label": name(row["name"]), "marks": [_shift(row)]} for row in drawn],
        "bars": True,
        "zero": 0,
        "zones": [[-1, 1]],
        "format": "number",
        "x_label": "shift of the mean, in SD between sites",
    }
    first = f" The {MOST_COVARIATES} largest shifts." if len(rows) > len(drawn) else ""
    return page.chart(
        "rows",
        spec,
        "How far the mean of each covariate lies from the training mean. Grey zone: within one standard deviation "
        f"between sites.{first}",
        label="Shifts of the covariates of the new place.",
        numbers=numbers,
    )


def _shift(row: dict[str, Any]) -> dict[str, Any]:
    tip = [
        row["name"],
        f"shift {number(row['shift'])} SD between sites",
        f"mean {number(row['training'])} in training, {number(row['new'])} here",
        f"effect on the linear predictor {gain(row.get('effect'))}",
    ]
    return {"v": row["shift"], "c": "c1" if abs(row["shift"]) > 1 else "c4", "tip": tip}
