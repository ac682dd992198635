"""What a report on a model says, and what it cannot say, as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anchortm._messages import plain

__all__ = ["conclusions_of", "count_of", "listed", "name_in_text", "percent"]

LISTED = 4  # names in a sentence
LONGEST = 40  # letters of a name in text
WIDE = 0.2  # width of an interval of coverage that says too little
MANY, MOVED = 0.2, 0.5  # distance of levels and shift in SD that sentences mention
EVEN = 0.05  # share of places whose interval does not contain 0 if all is well


def name_in_text(name: Any) -> str:
    """Return a name on one line, cut short."""
    text = plain(str(name))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def listed(names: Sequence[Any], most: int = LISTED) -> str:
    """Return names for a sentence, and how many more there are."""
    shown = [name_in_text(name) for name in names[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    if more or len(shown) < 2:
        return ", ".join(shown) + more
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def count_of(n: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def percent(share: float) -> str:
    """Return a share in per cent; one that is not 0 or 1 is not rounded to it."""
    text = f"{100 * share:.0f}"
    if text in ("0", "100") and share not in (0.0, 1.0):
        text = "less than 1" if share < 0.5 else "more than 99"
    return f"{text} %"


def conclusions_of(record: Mapping[str, Any]) -> list[str]:
    """Return what a report says, and what it cannot say."""
    return [
        *_on_the_fit(record),
        *_on_the_table(record),
        *_on_the_same_rows(record),
        *_on_coverage(record),
        *_on_residuals(record),
        *_on_the_range(record),
        *_on_drift(record),
        *_on_small_places(record),
    ]


def _on_the_fit(record: Mapping[str, Any]) -> list[str]:
    if record["about"]["converged"]:
        return []
    return ["The fit did not converge: do not rely on its predictions."]


def _on_the_table(record: Mapping[str, Any]) -> list[str]:
    table = record["table"]
    n, bad = table["n"], table["bad"]
    found = []
    if bad == n:
        found.append(f"None of the {count_of(n, 'row')} can be predicted: {_reasons(record)}.")
    elif bad:
        found.append(f"{bad} of {count_of(n, 'row')} cannot be predicted and are left out: {_reasons(record)}.")
    if table["unknown_classes"]:
        found.append(
            f"{count_of(table['unknown_classes'], 'outcome')} {_is(table['unknown_classes'])} of a class that the fit "
            "has not seen. The model gives such classes no probability; these rows are left out of the scores."
        )
    return found


def _on_small_places(record: Mapping[str, Any]) -> list[str]:
    table = record["table"]
    n = table["n_small"]
    if not n:
        return []
    has, told = ("has", "is") if n == 1 else ("have", "are")
    return [
        f"{n} of {count_of(table['n_environments'], 'place')} {has} fewer than {table['min_rows']} rows that can be "
        f"predicted, and {told} listed without numbers."
    ]


def _is(n: int) -> str:
    return "is" if n == 1 else "are"


def _reasons(record: Mapping[str, Any]) -> str:
    reasons = record["extrapolation"]["bad"]["reasons"]
    texts = [f"{plain(row['reason'])} ({count_of(row['n'], 'row')})" for row in reasons[:LISTED]]
    more = f", and {count_of(len(reasons) - LISTED, 'other reason')}" if len(reasons) > LISTED else ""
    return ", ".join(texts) + more


def _on_coverage(record: Mapping[str, Any]) -> list[str]:
    calibration, table = record["calibration"], record["table"]
    if calibration is None:
        why = table["no_outcome"] or f"only {count_of(table['outcomes'], 'row')} with an outcome can be predicted"
        return [f"Calibration cannot be judged: {plain(why)}."]
    if calibration["coverage"] is None:
        return ["Calibration of the whole distribution cannot be judged: see the notes on methods."]
    row = calibration["coverage"][-1]
    share, low, high = row["coverage"], row["lower"], row["upper"]
    said = f"{percent(row['level'])} intervals cover {percent(share)} of {calibration['n']} outcomes"
    limits = f"95 % interval {percent(low)} to {percent(high)}"
    if high < row["level"]:
        return [f"{said} ({limits}): predictions are too narrow here, or shifted."]
    if low > row["level"]:
        return [f"{said} ({limits}): predictions are too wide here."]
    if high - low > WIDE:
        return [f"{said} ({limits}): these are too few rows or places to say whether predictions are calibrated."]
    return [f"{said} ({limits}): this agrees with the promised {percent(row['level'])}."]


def _on_the_same_rows(record: Mapping[str, Any]) -> list[str]:
    if not record["calibration"] or not record["calibration"]["rows_of_the_fit"]:
        return []
    return [
        "These look like the rows of the fit: their log-likelihood is the same. Outcomes that the model has seen show "
        "its calibration look better than it is, so use rows of other places."
    ]


def _on_residuals(record: Mapping[str, Any]) -> list[str]:
    sites = [site for site in record["sites"] if site["lower"] is not None]
    if record["calibration"] is None:
        return []
    if not sites:
        return ["Places cannot be compared: none has enough outcomes for an interval of its mean residual."]
    if record["table"]["n_environments"] is None or len(sites) == 1:
        return [_on_one(_called(record, sites[0]), sites[0], record["table"]["n_environments"] is None)]
    above = [site for site in sites if site["lower"] > 0.0]
    below = [site for site in sites if site["upper"] < 0.0]
    n, away = len(sites), len(above) + len(below)
    found = [
        f"At {away} of {n} places with enough outcomes the mean residual differs from 0 (95 % intervals); about "
        f"{max(1, round(EVEN * n))} would by chance."
    ]
    for part, word in ((above, "larger"), (below, "smaller")):
        if part:
            names = [_called(record, site) for site in sorted(part, key=lambda site: -abs(site["residual"]))]
            found.append(f"Outcomes are {word} than predicted at {listed(names)}.")
    return found


def _called(record: Mapping[str, Any], site: Mapping[str, Any]) -> str:
    """Return the name of a place; what it is stands before a number."""
    if isinstance(site["name"], str):
        return site["name"]
    return f"{name_in_text(record['about']['environment_name'] or 'place')} {site['name']}"


def _on_one(name: str, site: Mapping[str, Any], all_rows: bool) -> str:
    where = "on average" if all_rows else f"at {name_in_text(name)}"
    limits = f"mean residual {site['residual']:.3g}, 95 % interval {site['lower']:.3g} to {site['upper']:.3g}"
    alone = "" if all_rows else " One place does not show how places differ."
    if site["lower"] <= 0.0 <= site["upper"]:
        return f"Outcomes are neither larger nor smaller than predicted {where} ({limits}).{alone}"
    word = "larger" if site["lower"] > 0.0 else "smaller"
    return f"Outcomes are {word} than predicted {where} ({limits}).{alone}"


def _on_the_range(record: Mapping[str, Any]) -> list[str]:
    found, table = record["extrapolation"], record["table"]
    if table["bad"] == table["n"]:
        return []
    if found["columns"] is None:
        return ["Extrapolation cannot be judged: the model does not know the ranges of its covariates."]
    if not found["columns"]:
        return []
    if not found["rows"]:
        return ["All rows that can be predicted lie inside the training range of each covariate."]
    outside = {row["name"]: row["below"] + row["above"] for row in found["columns"]}
    names = [name for name, n in sorted(outside.items(), key=lambda item: -item[1]) if n]
    return [
        f"{found['rows']} of {table['n'] - table['bad']} rows ({percent(found['share'])}) leave the training range, "
        f"in {listed(names)}: their predictions are extrapolated."
    ]


def _on_drift(record: Mapping[str, Any]) -> list[str]:
    drift = record["drift"]
    found = _on_means(drift["columns"], drift["known"] == "rows of the fit")
    texts = [
        f"{name_in_text(row['name'])} ({percent(row['distance'])} of the rows)"
        for row in drift["levels"]
        if row["distance"] is not None and row["distance"] > MANY
    ]
    if texts:
        found.append(f"Shares of levels differ from those of the fit: {listed(texts)}.")
    if drift["known"] == "ranges" and drift["columns"]:
        found.append(
            "Whether means have moved inside the training range cannot be said: the model keeps the range of each "
            "covariate, not its mean. To compare means, give the rows of the fit too (training)."
        )
    return found


def _on_means(columns: Sequence[Mapping[str, Any]], compared: bool) -> list[str]:
    """Return which means have moved, as far as that is known."""
    found = []
    moved = [row for row in columns if row["shift"] is not None and abs(row["shift"]) > MOVED]
    moved.sort(key=lambda row: -abs(row["shift"]))
    if moved:
        texts = [f"{name_in_text(row['name'])} ({row['shift']:+.2g} SD)" for row in moved]
        found.append(f"Means differ from those of the fit by more than {MOVED:g} SD in {listed(texts)}.")
    elif compared and columns:
        found.append(f"No covariate has moved by more than {MOVED:g} SD of the rows of the fit.")
    out = [row["name"] for row in columns if row["position"] is not None and not 0.0 <= row["position"] <= 1.0]
    if out:
        found.append(f"The mean of {listed(out)} lies outside the training range.")
    return found
