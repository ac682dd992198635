"""What conformal sets promise, in words, and why they may be infinite."""

from __future__ import annotations

import math

import numpy as np

from anchortm.newplace.conformal_fits import FEWEST_TO_FIT, Calibration
from anchortm.newplace.conformal_scores import Promise

__all__ = ["facts_of", "percent", "promised", "why_infinite"]

INSTEAD = {"average": "or lower level", "places": "or lower share"}


def percent(value: float) -> str:
    """Return a share as text, with enough digits that a share below 1 does not look like 1."""
    digits = next((d for d in range(3, 9) if value >= 1.0 or float(f"{100.0 * value:.{d}g}") < 100.0), 9)
    return f"{100.0 * value:.{digits}g} %"


def promised(promise: Promise, method: str) -> str:
    """Return what a method promises."""
    level, share = percent(promise.level), percent(promise.share)
    average = promise.guarantee == "average"
    text = (
        f"a row of a new place is covered with a probability of at least {level}"
        if average
        else f"in at least {share} of new places, at least {level} of the rows are covered"
    )
    if method == "full":
        return (
            f"approximate: {text.replace('at least', 'about')}; nothing is guaranteed, because fits without each place "
            "set the width, and the fit to all places predicts"
        )
    if method == "loeo" and average:
        sure = 2.0 * promise.level - 1.0
        proved = text.replace(level, percent(sure)) if sure > 0.0 else "nothing is guaranteed at this level"
        return f"{proved} (jackknife+); about {level} is usual"
    return text


def why_infinite(found: Calibration, promise: Promise, both: bool) -> str:
    """Return why sets are infinite, and what to do; an empty text if they are not."""
    if found.threshold(promise, both) < math.inf:
        return ""
    n, needed = found.places.size, promise.needed
    instead = INSTEAD[promise.guarantee]
    if n < needed:
        return (
            f"sets are infinite: the promise needs {needed} places to calibrate on, and there are {n}; pass at least "
            f"{needed + FEWEST_TO_FIT} places with method='split', {needed} with 'loeo' or 'full', {instead}"
        )
    lost = float(np.average(np.isinf(found.scores(both)), weights=found.weights))
    return (
        f"sets are infinite: {percent(lost)} of the rows to calibrate on cannot be predicted, or have outcomes of "
        f"probability 0, by fits without their place; use a model that allows for them, {instead}"
    )


def facts_of(found: Calibration, promise: Promise) -> dict[str, str]:
    """Return what there is to know about a fitted predictor, by name."""
    name, both = f" ({found.name})" if found.name else "", not found.censored
    n, used = np.union1d(found.training.astype(str), found.places.astype(str)).size, found.places.size
    places = (
        f"{n}{name}: {found.training.size} to fit, {used} to calibrate; {promise.needed} are needed"
        if found.method == "split"
        else f"{n}{name}, each left out once; {promise.needed} are needed"
    )
    share = percent(-math.expm1(-found.threshold(promise, both)))
    sets = f"the {'central' if both else 'upper'} {share} of each predicted distribution"
    if found.method == "loeo":
        sets = f"{'quantiles' if promise.guarantee == 'average' else 'union'} over all left-out fits, about {sets}"
    facts = {
        "promise": promised(promise, found.method),
        "if": "the new place and these are exchangeable, as if drawn from one population of places",
        "places": places,
        "sets": why_infinite(found, promise, both).removeprefix("sets are ") or sets,
    }
    return facts | {"note" if k == 0 else f"note {k + 1}": text for k, text in enumerate(found.notes)}
