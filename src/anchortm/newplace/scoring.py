"""Scores of one strategy on the rows of left-out environments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.engine.widening import why_not_widened
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError
from anchortm.inputs.response import Kind, Response
from anchortm.predict.widths import LEVEL, width_of
from anchortm.scores.calibration import pit
from anchortm.scores.outcomes import check_predicted, known_rows, known_values
from anchortm.scores.survival import brier_rows, concordance
from anchortm.scores.table import crps_of_rows

__all__ = [
    "SCORES",
    "at_the_same_width",
    "check_scores",
    "concordance_or_nan",
    "listed",
    "nll_under",
    "scores_of_rows",
]


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


class _Predicted(NamedTuple):
    """Left-out rows with their predicted distributions; ``times`` are those of Brier scores."""

    distribution: Any
    response: Response
    times: Array
    seed: Any

    @property
    def median(self) -> Array:
        """Return the medians; of classes, their positions."""
        codes = getattr(self.distribution, "codes", lambda y: np.asarray(y, dtype=np.float64))
        return np.asarray(codes(self.distribution.ppf(0.5)))

    @property
    def has_times(self) -> bool:
        """Return whether the outcomes are exact and right-censored times."""
        kinds = set(self.response.kind.tolist())
        return bool(self.times.size) and not self.response.truncated.any() and kinds <= {Kind.EXACT, Kind.RIGHT}


def _crps(rows: _Predicted) -> Array:
    check_predicted(rows.distribution)
    return crps_of_rows(rows.distribution, rows.response)


def _coverage(rows: _Predicted) -> Array:
    u = pit(rows.distribution, rows.response, rows.seed)
    return (np.abs(u - 0.5) <= 0.5 * LEVEL).astype(np.float64)


def _absolute_error(rows: _Predicted) -> Array:
    with np.errstate(invalid="ignore"):
        error = np.abs(known_values(rows.response) - rows.median)
    return np.where(known_rows(rows.response), error, math.nan)


def _brier(rows: _Predicted) -> Array | None:
    if not rows.has_times:
        return None
    event = rows.response.kind == Kind.EXACT
    seen = np.where(event, rows.response.upper, rows.response.lower), event
    return np.asarray(brier_rows(rows.distribution.sf(rows.times), *seen, rows.times, *seen))[:, 0]


def _risk(rows: _Predicted) -> Array | None:
    """Return a risk for each row, higher where events come sooner; the concordance is that of an environment."""
    if not rows.has_times:
        return None
    if hasattr(rows.distribution, "transformation"):
        return np.asarray(rows.distribution.transformation.moved)
    return -rows.median


OF_ROWS: dict[str, Callable[[_Predicted], Array | None]] = {  # scores of rows, from which those of environments follow
    "crps": _crps,
    "coverage": _coverage,
    "width": lambda rows: width_of(rows.distribution),
    "mae": _absolute_error,
    "brier": _brier,
    "concordance": _risk,
}
ALWAYS = ("nll", "skill", "regret")
SCORES = (*ALWAYS, "spread", *OF_ROWS)


def listed(wanted: Any, name: str, known: Sequence[str]) -> list[Any]:
    """Return what was asked for as a list; a name alone is a list of one."""
    if isinstance(wanted, str):
        return [wanted]
    if not isinstance(wanted, Iterable):
        raise InputTypeError(f"{name} must be a list, such as [{known[-1]!r}], not {wanted!r}")
    return list(wanted)


def check_scores(wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the scores to compute, in their usual order; by default all of them."""
    if wanted is None:
        return SCORES
    names = listed(wanted, "scores", SCORES)
    unknown = [name for name in names if name not in SCORES]
    if unknown:
        raise InputError(f"scores must be some of {', '.join(SCORES)}, not {unknown[0]!r}")
    return tuple(name for name in SCORES if name in ALWAYS or name in names)


def scores_of_rows(
    predictor: Any, rows: dict[str, Any], response: Response, times: Array, seed: Any, wanted: Sequence[str] = SCORES
) -> dict[str, Any]:
    """Return the scores of each row under a fitted predictor: nll, and those that are wanted.

    ``distribution`` holds the predictions themselves, ``concordance`` the risks of rows. Scores that these outcomes or
    distributions do not have are left out.
    """
    if not hasattr(predictor, "predict_distribution"):
        raise InputTypeError(f"fit of the strategy must return a model with predict_distribution, not {predictor!r}")
    options = {} if rows["offset"] is None else {"offset": rows["offset"]}
    about: dict[str, Any] = {} if response.trials is None else {"trials": response.trials}
    about |= {"n_rows": len(response)} if rows["X"] is None else {}
    distribution = predictor.predict_distribution(rows["X"], **options, **about)
    own = hasattr(predictor, "nll")
    nll = predictor.nll(rows["X"], rows["y"], **options) if own else nll_under(distribution, response)
    predicted = _Predicted(distribution, response, times, seed)
    found: dict[str, Any] = {"distribution": distribution, "nll": np.asarray(nll, dtype=np.float64)}
    for name in (name for name in OF_ROWS if name in wanted):
        with suppress(AnchorTMError):  # counts of 4096 and more have no CRPS with random effects
            values = OF_ROWS[name](predicted)
            found |= {} if values is None else {name: values}
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
