"""An assessment as a page of text: the answer first, then what it rests on."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anchortm.newplace.assessment.advice import DESIGNS
from anchortm.newplace.assessment.calibration import LEVELS
from anchortm.newplace.assessment.words import place_name

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.newplace.assessment.assessment import Assessment

__all__ = ["NOT_COMPUTED", "Part", "lines_of", "page", "page_of_text"]

WIDTH = 100
NOT_COMPUTED = "Not computed"
UPWARDS = {"mean": "skill", "q90": "hard places", "worst": "worst place", "difference": "gain"}
LEFT_OUT = {"like": "places left out in turn", "further": "the outermost places, left out together"}
NONE_YET = "With 0 outcomes, predictions are averaged over the shifts between places."
MOST_NAMES = 4
SIDES = {"same": "on its side", "other": "on the other side", "low": "at the low end", "high": "at the high end"}
SCORES = {
    design: f"Log-likelihood per row at {which}; higher is better. Gain: over maximum likelihood. Skill: over a model "
    "without covariates; nine in ten places have more skill than what stands under hard places."
    for design, which in LEFT_OUT.items()
}


class Part(NamedTuple):
    """A heading, sentences, and perhaps a table."""

    title: str
    lines: list[str]
    table: pd.DataFrame | None = None


def lines_of(found: Assessment) -> list[Part]:
    """Return the parts of the page, the answer first."""
    parts = [Part("Does it help at a new place?", _answer(found))]
    if found.held_back is not None:
        frame = found.held_back.frame().set_index("strategy")
        parts.append(Part("What the new place then showed", [found.held_back.sentence], frame))
    parts += [Part("Data", _data(found)), Part("Need and possibility", _need(found))]
    for design, words in DESIGNS.items():
        table = found.comparison.table()
        own = table[table["design"] == design].drop(columns="design").dropna(axis=1, how="all")
        if not own.empty:
            first = [_outermost(found)] if design == "further" else []
            lines = [*first, SCORES[design], *found.asides(design)]
            parts.append(Part(f"Strategies {words}", lines, _upwards(own.set_index("strategy"))))
    if (calibrated := _calibration(found)) is not None:
        parts.append(Part("Intervals for left-out places", *calibrated))
    if found.curves:
        frames = [curve.frame().assign(place=design, xi=curve.xi) for design, curve in found.curves]
        parts.append(Part("Outcomes of the new place", [found.labels_sentence, NONE_YET], _stacked(frames)))
    if found.notes:
        parts.append(Part(NOT_COMPUTED, list(found.notes)))
    return parts


def _outermost(found: Assessment) -> str:
    """Return which places are the outermost, in words: a place further out lies beyond them."""
    frame = found.comparison.frame()
    own = frame[frame["design"] == "further"]
    own = own[own["share"] == own["share"].max()]
    ends = []
    for side in SIDES:
        labels = dict.fromkeys(own.loc[own["side"] == side, "environment"])
        names = [place_name(label, found.sites.name) for label in labels]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        ends += [f"{', '.join(names[:MOST_NAMES])}{more} {SIDES[side]}"] if names else []
    along = "the shift of the new place" if found.new is not None else "their mean linear predictor"
    return f"The outermost places along {along} are {'; '.join(ends)}."


def _upwards(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of a comparison so that more is better in each of its scores."""
    losses = [name for name in UPWARDS if name in table.columns]
    table = table.assign(**{name: 0.0 - table[name] for name in losses})  # not -0
    return table.rename(columns=UPWARDS)


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    made = pd.concat(frames)[["place", "xi", "m", "gain", "se", "sites"]]
    return made.rename(columns={"m": "outcomes", "sites": "places"}).set_index("place")


def _answer(found: Assessment) -> list[str]:
    lines = []
    for advice in found.recommendation.given:
        lines += advice.lines
    return lines if found.new is None else [found.new.sentence, *lines]


def _data(found: Assessment) -> list[str]:
    sites = found.sites
    name = f" ({sites.name})" if sites.name else ""
    events = "" if np.isnan(sites.events).all() else f", {sites.events.sum():g} events"
    lines = [f"{sites.n.sum():g} rows{events} in {len(sites.labels)} places{name}, {sites.model}."]
    if sites.small.any():
        least = f"{found.comparison.min_rows} rows" + (" or 5 events" if events else "")
        n = int(sites.small.sum())
        lines.append(f"{n} place{'s have' if n > 1 else ' has'} fewer than {least}: shown, but not ranked one by one.")
    if sites.n_missing:
        lines.append(f"{sites.n_missing} rows with missing values were left out.")
    lines += [f"{sites.gone}."] if sites.gone else []
    return lines


def _need(found: Assessment) -> list[str]:
    said = [found.need_sentence, found.identification or "", found.evidence.location_sentence]
    return [text for text in said if text]


def _calibration(found: Assessment) -> tuple[list[str], pd.DataFrame | None] | None:
    import pandas as pd

    lines = [] if found.conformal is None else [found.conformal.sentence]
    own = found.calibration
    if own is None or not own.transforms:
        return (lines, None) if lines else None
    names = ["ml" if xi == 0.0 else f"xi = {xi:g}" for xi in own.transforms]
    columns = [f"{level:.0%} intervals" for level in LEVELS]
    table = pd.DataFrame([own.coverage(xi) for xi in own.transforms], index=names, columns=columns)
    return ["Share of rows inside, averaged over places.", *lines], table.rename_axis("coverage")


def page_of_text(found: Assessment) -> str:
    """Return the page."""
    return page(lines_of(found))


def page(parts: list[Part]) -> str:
    """Return parts as text, each below its heading."""
    made = []
    for part in parts:
        made += [part.title, *("  " + line for text in part.lines for line in textwrap.wrap(text, WIDTH - 2))]
        if part.table is not None:
            table = part.table.to_string(float_format=lambda value: f"{value:.3g}", na_rep="")
            made += ["  " + line for line in table.split("\n")]
        made.append("")
    return "\n".join(made[:-1])
