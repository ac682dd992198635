"""Scores of one strategy on the rows of left-out environments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.engine.widening import why_not_widened
from anchortm.exceptions import AnchorTMError
from anchortm.inputs.response import Kind, Response
from anchortm.predict.widths import LEVEL, width_of
from anchortm.scores.calibration import pit
from anchortm.scores.outcomes import known_rows, known_values
from anchortm.scores.survival import brier_rows, concordance
from anchortm.scores.table import crps_of_rows

__all__ = ["at_the_same_width", "concordance_or_nan", "nll_under", "scores_of_rows"]


def nll_under(distribution: Any, response: Response) -> Array:
    """Return the negative log-likelihood of rows under any predicted distribution, also of censored rows."""
    at: Any = response.upper
    if response.scale == "ordinal":  # distributions take classes by their names
        at = _as_classes(response)
    result, kinds = np.empty(len(response)), np.where(known_rows(response), Kind.EXACT, response.kind)

    def log_at(name: str, points: Any, rows: Any) -> Array:
        return np.asarray(getattr(distribution[rows], name)(points[rows][:, None]))[:, 0]

    with np.errstate(divide="ignore"):
        for kind, name, points in (
            (Kind.EXACT, "logpdf", at),
            (Kind.RIGHT, "logsf", response.lower),
            (Kind.LEFT, "logcdf", response.upper),
        ):
            rows = np.flatnonzero(kinds == kind)
            if rows.size:
                result[rows] = -log_at(name, points, rows)
        rows = np.flatnonzero(kinds == Kind.INTERVAL)
        if rows.size:
            result[rows] = -_log_between(distribution[rows], response.lower[rows], response.upper[rows])
        rows = np.flatnonzero(response.truncated)
        if rows.size:
            entry, end = response.entry, response.exit
            first = np.full(rows.size, -np.inf) if entry is None else entry[rows]
            last = np.full(rows.size, np.inf) if end is None else end[rows]
            result[rows] += _log_between(distribution[rows], first, last)
    return result


def _log_between(distribution: Any, first: Array, last: Array) -> Array:
    """Return log P(first < Y <= last), from the tail that keeps its digits."""
    (low, high), (more, less) = (
        [np.asarray(log(end[:, None]))[:, 0] for end in (first, last)]
        for log in (distribution.logcdf, distribution.logsf)
    )
    lower = high < np.log(0.5)
    big, small = np.where(lower, high, more), np.where(lower, low, less)
    return np.asarray(big + np.log(-np.expm1(np.minimum(small - big, 0.0))))


def _as_classes(response: Response) -> NDArray[Any]:
    """Return the outcomes of an ordinal response as classes, not as their positions."""
    found = np.empty(len(response), dtype=object)
    found[:] = [response.levels[code] for code in response.codes.tolist()]  # type: ignore[index]
    return found


def scores_of_rows(predictor: Any, rows: dict[str, Any], response: Response, times: Array, seed: Any) -> dict[str, Any]:
    """Return the scores of each row under a fitted predictor: nll, crps, coverage, width, mae and Brier scores.

    ``distribution`` holds the predictions themselves.
    """
    options = {} if rows["offset"] is None else {"offset": rows["offset"]}
    trials = {} if response.trials is None else {"trials": response.trials}
    distribution = predictor.predict_distribution(rows["X"], **options, **trials)
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
