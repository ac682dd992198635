"""Scores of one strategy on the rows of left-out environments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.engine.widening import why_not_widened
from anchortm.exceptions import AnchorTMError
from anchortm.inputs.response import Kind, Response
from anchortm.scores.calibration import pit
from anchortm.scores.outcomes import known_rows, known_values
from anchortm.scores.survival import brier_rows, concordance
from anchortm.scores.table import crps_of_rows

__all__ = ["LEVEL", "at_the_same_width", "concordance_or_nan", "nll_under", "scores_of_rows", "width_ratio"]

LEVEL = 0.9  # probability of the intervals whose coverage and width are reported


def nll_under(distribution: Any, response: Response) -> Array:
    """Return the negative log-likelihood of rows under any predicted distribution, also of censored rows."""
    result, rows = np.empty(len(response)), np.arange(len(response))

    def log_at(name: str, at: Array, kind: Any) -> Array:
        part = rows[kind]
        return np.asarray(getattr(distribution[part], name)(at[kind][:, None]))[:, 0]

    kinds = response.kind
    with np.errstate(divide="ignore"):
        for kind, name, at in (
            (kinds == Kind.EXACT, "logpdf", response.upper),
            (kinds == Kind.RIGHT, "logsf", response.lower),
            (kinds == Kind.LEFT, "logcdf", response.upper),
        ):
            if kind.any():
                result[kind] = -log_at(name, at, kind)
        between = kinds == Kind.INTERVAL
        if between.any():
            cdf = [np.exp(log_at("logcdf", at, between)) for at in (response.upper, response.lower)]
            result[between] = -np.log(cdf[0] - cdf[1])
    return result


def width_of(distribution: Any) -> Array:
    """Return the width of the central interval of each row; of classes, the number of steps between its ends."""
    lower, upper = (distribution.ppf(0.5 + sign * LEVEL / 2.0) for sign in (-1.0, 1.0))
    codes = getattr(distribution, "codes", lambda y: np.asarray(y, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        return np.asarray(codes(upper) - codes(lower))


def width_ratio(distribution: Any, reference: Any) -> Array:
    """Return how many times as wide the distribution of each row is as a reference.

    Where both have a transformation, h of the reference is compared between two of its quantiles (or between the first
    and the last class), so that a change of the spread alone gives its factor. Otherwise intervals are compared.
    """
    if not (hasattr(distribution, "trafo") and hasattr(reference, "trafo")):
        return np.asarray(width_of(distribution) / width_of(reference))
    levels = reference.basis.levels
    if levels is not None and len(levels) < 3:
        return np.full(len(reference), math.nan)
    ends = reference.ppf([0.05, 0.95]) if levels is None else np.array([levels[0], levels[-2]], dtype=object)
    own, other = (np.diff(one.trafo(ends), axis=1)[:, 0] for one in (distribution, reference))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(other / own)


def scores_of_rows(predictor: Any, rows: dict[str, Any], response: Response, times: Array, seed: Any) -> dict[str, Any]:
    """Return the scores of each row under a fitted predictor: nll, crps, coverage, width, mae and Brier scores.

    ``distribution`` holds the predictions themselves.
    """
    options = {} if rows["offset"] is None else {"offset": rows["offset"]}
    distribution = predictor.predict_distribution(rows["X"], **options)
    own = hasattr(predictor, "nll")
    nll = predictor.nll(rows["X"], rows["y"], **options) if own else nll_under(distribution, response)
    found: dict[str, Any] = {"distribution": distribution, "width": width_of(distribution)}
    found["nll"] = np.asarray(nll, dtype=np.float64)
    u = pit(distribution, response, seed)
    found["coverage"] = (np.abs(u - 0.5) <= 0.5 * LEVEL).astype(np.float64)
    found["crps"] = crps_of_rows(distribution, response)
    known = known_rows(response)
    codes = getattr(distribution, "codes", lambda y: np.asarray(y, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        error = np.abs(known_values(response) - codes(distribution.ppf(0.5)))
    found["mae"] = np.where(known, error, math.nan)
    if times.size and not response.truncated.any() and set(response.kind.tolist()) <= {Kind.EXACT, Kind.RIGHT}:
        event = response.kind == Kind.EXACT
        seen = np.where(event, response.upper, response.lower), event
        found["brier"] = np.asarray(brier_rows(distribution.sf(times), *seen, times, *seen))[:, 0]
        found["risk"] = -np.asarray(distribution.ppf(0.5), dtype=np.float64)
        if hasattr(distribution, "transformation"):
            found["risk"] = distribution.transformation.moved
    return found


def concordance_or_nan(risk: Array, response: Response) -> float:
    """Return the concordance of risks with times; NaN if no pair can be compared."""
    try:
        return concordance(risk, response)
    except AnchorTMError:
        return math.nan


def at_the_same_width(ml: Any, rows: dict[str, Any], ratio: float) -> Array | None:
    """Return the negative log-likelihood of rows under a fit whose spread alone is changed, by this ratio."""
    result = getattr(ml, "result_", None)
    if result is None or why_not_widened(result) is not None or not 0.0 < ratio < math.inf:
        return None
    options = {} if rows["offset"] is None else {"offset": rows["offset"]}
    return np.asarray(ml.widened(ratio).nll(rows["X"], rows["y"], **options))
