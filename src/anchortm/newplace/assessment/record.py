"""An assessment as plain values, for files and for the report; numbers that are not known are None."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm.newplace.assessment.advice import DESIGNS
from anchortm.newplace.assessment.calibration import BINS, LEVELS
from anchortm.newplace.assessment.stability import DRAWS
from anchortm.newplace.assessment.views import LEAST
from anchortm.newplace.strategies import STRATEGIES

if TYPE_CHECKING:
    from anchortm.newplace.assessment.assessment import Assessment

__all__ = ["FORMAT", "record_of"]

FORMAT = "anchortm assessment 1"
DIGITS = 6  # significant ones, of numbers in the record


def record_of(found: Assessment, rows: bool = False) -> dict[str, Any]:
    """Return an assessment as plain values.

    Without ``rows`` it has no value of fewer than five rows: smaller places do not appear one by one, nor does a new
    place that is as small. If all smaller places together have fewer than five rows, the next one is withheld as well:
    the difference between all places and those that are shown would tell the others.
    """
    sites = found.sites
    shown = list(range(len(sites.labels))) if rows else _shown(sites.counts)
    withheld = len(sites.labels) - len(shown)
    remarks = [*([f"{sites.gone}."] if sites.gone else []), *found.notes]
    if withheld:
        remarks.insert(0, _withheld(withheld, int((sites.counts < LEAST).sum())))
    hidden = not rows and found.held_back is not None and found.held_back.n < LEAST
    if hidden:
        remarks.append(f"What the new place then showed is left out: it has fewer than {LEAST} rows.")
    about = {
        "model": sites.model,
        "link": sites.link,
        "outcome": sites.outcome,
        "kind": sites.kind,
        "classes": sites.classes,
        "environment_name": sites.name,
        "formula": found.methods.formula,
        "n_rows": float(sites.n.sum()),
        "n_events": float(sites.events.sum()),
        "n_environments": len(sites.labels),
        "n_small": int(sites.small.sum()),
        "n_withheld": withheld,
        "n_missing": sites.n_missing,
        "min_rows": found.comparison.min_rows,
        "new_given": found.new is not None,
    }
    whole = {
        "format": FORMAT,
        "about": about,
        "recommendation": found.recommendation.to_dict(),
        "data": {"covariates": found.evidence.covariates, "remarks": remarks},
        "sites": _sites(found, shown),
        "rows": _rows(found) if rows else None,
        "need": _need(found),
        "possibility": _possibility(found),
        "new": _new(found, rows),
        "comparison": _comparison(found, rows),
        "path": {"xis": sites.xis, "loss": sites.gains[shown].tolist()},
        "calibration": _calibration(found),
        "conformal": _conformal(found),
        "labels": _labels(found),
        "stability": {"draws": DRAWS, **found.stability},
        "held_back": None if hidden else _held_back(found),
        "views": _views(found),
        "effects": None
        if found.effects is None
        else {name: getattr(found.effects, name) for name in ("unit", "xis", "rows")},
        "methods": found.methods.to_dict() | {"command": found.command, "notes": list(found.notes)},
    }
    plain: dict[str, Any] = _plain(whole)
    return plain


def _shown(counts: Any) -> list[int]:
    """Return the places that are shown one by one, so that no group of fewer than five rows can be told apart."""
    order = np.argsort(counts, kind="stable")
    together = np.cumsum(counts[order])
    hidden = int((counts < LEAST).sum())
    while 0 < hidden < order.size and together[hidden - 1] < LEAST:
        hidden += 1
    return sorted(order[hidden:].tolist())


def _withheld(n: int, small: int) -> str:
    """Return which places are not shown, in words."""
    are = "1 place with fewer than 5 rows is" if n == 1 else f"{n} places with fewer than 5 rows are"
    if n > small:
        are = f"{n} places, {small} of them with fewer than 5 rows, are"
    return f"{are} not shown one by one, so that no row can be read off; they count in all means."


def _plain(value: Any) -> Any:
    """Return numbers, words and lists of them; None for numbers that are not known, rounded to a few digits."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(own) for own in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        rounded = float(f"{value:.{DIGITS}g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _rows(found: Assessment) -> list[dict[str, Any]] | None:
    """Return what maximum likelihood predicts for each row, fitted without its place."""
    own = found.calibration
    return None if own is None else own.predictions(found.sites.labels)


def _sites(found: Assessment, shown: list[int]) -> list[dict[str, Any]]:
    sites, frame = found.sites, found.comparison.frame()
    like = frame[frame["design"] == "like"]
    gains, errors, skill = (
        like.pivot(index="environment", columns="strategy", values=name) for name in ("regret", "regret_se", "skill")
    )
    by_name = {str(label): label for label in gains.index}
    rows = []
    for e in shown:
        name = sites.labels[e]
        label = by_name.get(name)
        mean, lower, upper = found.evidence.residuals[e]
        row: dict[str, Any] = {
            "name": name,
            "n": sites.n[e],
            "events": sites.events[e],
            "small": sites.small[e],
            "residual": mean,
            "lower": lower,
            "upper": upper,
            "covariates": {covariate: values[e] for covariate, values in sites.means.items()},
        }
        others = [] if label is None else [one for one in gains.columns if one not in ("null", "ml")]
        row["skill"] = None if label is None else skill.loc[label, "ml"]
        row["gains"] = {one: -gains.loc[label, one] for one in others}
        row["gain_errors"] = {one: errors.loc[label, one] for one in others}
        own = found.calibration
        known = own is not None and 0.0 in own.transforms
        coverage = own.of_place(0.0, e) if own is not None and known else [None] * len(LEVELS)
        row["coverage"] = {f"{100 * level:.0f}": value for level, value in zip(LEVELS, coverage, strict=True)}
        rows.append(row)
    return rows


def _need(found: Assessment) -> dict[str, Any] | None:
    test = found.evidence.test
    if test is None:
        return None
    return {"statistic": test.statistic, "df": test.df, "p": test.pvalue, "sentence": found.need_sentence}


def _possibility(found: Assessment) -> dict[str, Any]:
    evidence = found.evidence
    stage, location = evidence.stage, evidence.location
    rows = None
    if stage is not None:
        rows = [
            {"covariate": str(name), "R2": row["R2"], "F": row["F"], "partial_R2": row["partial_R2"]}
            for name, row in stage.frame().iterrows()
        ]
    own = None
    if location is not None:
        own = {"r2": location.r2, "se": location.se, "p": location.pvalue, "sentence": evidence.location_sentence}
    return {
        "first_stage": rows,
        "location": own,
        "identification": found.identification,
        "sentences": [text for text in (found.identification, own and own["sentence"]) if text],
    }


def _new(found: Assessment, rows: bool) -> dict[str, Any] | None:
    new = found.new
    if new is None:
        return None
    names = ("n", "distance", "inside", "covariates", "beyond", "sentence")
    own = {name: getattr(new, name) for name in names}
    if rows or new.n >= LEAST:
        return own
    return own | {"covariates": [], "beyond": None, "distance": None, "sentence": new.short}


def _comparison(found: Assessment, rows: bool) -> dict[str, Any]:
    comparison, sites = found.comparison, found.sites
    table, frame = comparison.table(), comparison.frame()
    ranked = np.zeros_like(sites.small) if sites.small.all() else sites.small
    if not rows and (sites.counts[~ranked] < LEAST).any():
        table = table.assign(worst=math.nan)  # perhaps that of one row
    names = list(dict.fromkeys(frame["strategy"].tolist()))
    made: dict[str, Any] = {
        "strategies": [{"name": name, "about": STRATEGIES[name].about if name in STRATEGIES else ""} for name in names],
        "remarks": [line.replace(" environments: ", " places: ") for line in comparison.remarks],
    }
    for design, words in DESIGNS.items():
        made["remarks"] += [f"{words.capitalize()}: {said[0].lower()}{said[1:]}" for said in found.asides(design)]
        own = table[table["design"] == design].drop(columns="design")
        made[design] = None if own.empty else own.to_dict("records")
    further = comparison.verdict.further
    made["folds"] = None if further is None else further.folds.drop(columns="direction").to_dict("records")
    return made


def _calibration(found: Assessment) -> dict[str, Any] | None:
    own = found.calibration
    if own is None or not own.transforms:
        return None
    names = {xi: "ml" if xi == 0.0 else "anchored" for xi in own.transforms}
    rows = [{"strategy": names[xi], "xi": xi, "coverage": own.coverage(xi)} for xi in own.transforms]
    counts = [{"strategy": names[xi], "xi": xi, "share": own.histogram(xi)} for xi in own.transforms]
    return {"levels": LEVELS, "rows": rows, "pit": {"edges": np.linspace(0.0, 1.0, BINS + 1), "counts": counts}}


def _conformal(found: Assessment) -> dict[str, Any] | None:
    own = found.conformal
    if own is None:
        return None
    names = ("level", "nominal_level", "width", "model_width", "n_places", "needed", "sentence")
    return {name: getattr(own, name) for name in names}


def _labels(found: Assessment) -> dict[str, Any] | None:
    series = [
        {"design": design, "xi": curve.xi, "rows": curve.frame().to_dict("records")} for design, curve in found.curves
    ]
    series = [one for one in series if one["rows"]]
    return {"series": series, "sentence": found.labels_sentence} if series else None


def _held_back(found: Assessment) -> dict[str, Any] | None:
    own = found.held_back
    if own is None:
        return None
    return {"n": own.n, "rows": own.rows, "sentence": own.sentence, "agrees": own.agrees}


def _views(found: Assessment) -> dict[str, Any] | None:
    own = found.views
    if own is None:
        return None
    drawn = {"x": own.x, "xis": own.xis, "profiles": own.profiles, "bends": own.bends}
    return {"kind": own.kind, "x_label": own.label} | drawn
