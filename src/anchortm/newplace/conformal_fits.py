"""Calibrate conformal sets: split the places, or leave each one out, and score the rows that a fit has not seen."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Seed
from anchortm._util.checks import generator
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError
from anchortm.newplace.conformal_rows import PlaceRows
from anchortm.newplace.conformal_scores import Promise, between_quantiles, ends_of, known_to_reach, scores_of
from anchortm.scores.outcomes import known_rows

__all__ = ["METHODS", "Calibration", "Scored", "calibrated", "split_sizes"]

Codes = NDArray[np.intp]

METHODS = ("split", "loeo", "full")
FEWEST_TO_FIT = 2  # places that the model is fitted to before calibration gets more than half of all
MOST_CELLS = 4_000_000  # most cells of a table of left-out ends


class Scored(NamedTuple):
    """Scores of rows: in both tails, in the lower one, and which rows the fit cannot predict."""

    both: Array
    lower: Array
    bad: NDArray[np.bool_]
    note: str = ""


class Fold(NamedTuple):
    """What a fit without one place says about it: the fit, or None if it failed, and the scores of the place's rows."""

    model: Any
    scored: Scored
    note: str = ""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Fits, and the scores of rows that they have not seen.

    Attributes
    ----------
    method : {"split", "loeo", "full"}
        How the places were used.
    model : estimator
        The model, fitted to some places ("split") or to all of them.
    left_out : tuple of estimators
        For "loeo", the fits without each place; None where a fit failed.
    training, places : arrays
        Names of the places of the fit, and of those that were scored.
    codes : array
        The place of each scored row.
    weights, both, lower : arrays
        How much each row counts, and its scores in both tails and in the lower one.
    censored : int
        Number of rows, of all places, whose outcome is not known exactly.
    scale, levels
        What the outcome is, and its classes.
    notes : tuple of str
        What went wrong in some rows or places.
    name : str or None
        What the places are called.
    """

    method: str
    model: Any
    left_out: tuple[Any, ...]
    training: NDArray[Any]
    places: NDArray[Any]
    codes: Codes
    weights: Array
    both: Array
    lower: Array
    censored: int
    scale: str
    levels: tuple[Hashable, ...] | None
    notes: tuple[str, ...] = ()
    name: str | None = None

    def scores(self, both: bool) -> Array:
        """Return the scores in both tails, or in the lower one."""
        return self.both if both else self.lower

    def threshold(self, promise: Promise, both: bool) -> float:
        """Return the largest score of outcomes that belong to the sets."""
        return promise.threshold(self.scores(both), self.codes, self.weights)

    def ends(self, promise: Promise, X: Any, both: bool, **options: Any) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return the ends of the sets of new rows, and which rows cannot be predicted.

        Classes are positions among ``levels``. Upper ends are those of the outcome if only lower ones are asked for.
        """
        threshold = self.threshold(promise, both)
        if self.method != "loeo" or math.isinf(threshold):
            law = self.model.predict_distribution(X, on_bad_rows="mark", **options)
            lower, upper = ends_of(law.good_rows, threshold, self.levels, both)
            return *_spread(law.bad, lower, upper), law.bad
        fits = [model for model in self.left_out if model is not None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)  # the fit to all places warns below
            laws = [model.predict_distribution(X, on_bad_rows="mark", **options) for model in fits]
        bad = np.all([law.bad for law in laws], axis=0)
        if promise.guarantee == "places":
            lower, upper = self._minmax(laws, threshold, both)
        else:
            lower, upper = self._plus(laws, promise, both)
        law = self.model.predict_distribution(X, on_bad_rows="mark", **options)
        first, last = _spread(law.bad, *ends_of(law.good_rows, math.inf, self.levels, True))
        lower, upper = np.fmax(lower, first), np.fmin(upper, last)  # all that the outcome can be
        lower[bad], upper[bad] = math.nan, math.nan
        return lower, upper, bad

    def _minmax(self, laws: list[Any], threshold: float, both: bool) -> tuple[Array, Array]:
        """Return the ends of the smallest intervals that hold the sets of all left-out fits."""
        lower, upper = np.full(len(laws[0]), math.inf), np.full(len(laws[0]), -math.inf)
        for law in laws:
            own = _spread(law.bad, *ends_of(law.good_rows, threshold, self.levels, both))
            lower, upper = np.fmin(lower, own[0]), np.fmax(upper, own[1])
        return lower, upper

    def _plus(self, laws: list[Any], promise: Promise, both: bool) -> tuple[Array, Array]:
        """Return the ends of jackknife+ intervals: quantiles of the ends that left-out fits and their scores give."""
        n_places, scores = self.places.size, self.scores(both)
        fitted = [e for e in range(n_places) if self.left_out[e] is not None]
        beyond = (1.0 - promise.level) * (n_places + 1) - 1.0
        shares = self.weights / np.bincount(self.codes, self.weights)[self.codes]
        rows = [np.flatnonzero(self.codes == e) for e in fitted]
        failed = np.flatnonzero(~np.isin(self.codes, fitted))  # these count as covered
        order = np.concatenate([*rows, failed])
        n, parts = len(laws[0]), []
        step = max(1, MOST_CELLS // scores.size)
        for first in range(0, n, step):
            take = np.arange(first, min(first + step, n))
            tables = [_of_fold(law[take], scores[own], self.levels, both) for law, own in zip(laws, rows, strict=True)]
            whole = np.full((take.size, failed.size), math.inf)
            lower = np.hstack([*(low for low, _ in tables), -whole])
            upper = np.hstack([*(high for _, high in tables), whole])
            parts.append(between_quantiles(lower, upper, shares[order], beyond))
        found = [np.concatenate(ends) if parts else np.zeros(0) for ends in zip(*parts, strict=True)]
        return (found[0], found[1]) if found else (np.zeros(0), np.zeros(0))


def _of_fold(law: Any, scores: Array, levels: Any, both: bool) -> tuple[Array, Array]:
    """Return the ends of the sets that one left-out fit gives at each score of its place; none where it cannot predict.

    Rows that it cannot predict have infinite scores, like the rows of the place that it could not predict.
    """
    lower, upper = ends_of(law.good_rows, scores, levels, both)
    empty = np.where(np.isinf(scores), -math.inf, math.inf)
    low, high = np.tile(empty, (len(law), 1)), np.tile(-empty, (len(law), 1))
    low[~law.bad] = lower
    high[~law.bad] = math.inf if upper is None else upper
    return low, high


def _spread(bad: NDArray[np.bool_], lower: Array, upper: Array | None) -> tuple[Array, Array]:
    """Return the ends of good rows among all rows, NaN for the others."""
    ends = np.full((2, bad.size), math.nan)
    ends[0, ~bad], ends[1, ~bad] = lower, math.inf if upper is None else upper
    return ends[0], ends[1]


def split_sizes(n_places: int, needed: int) -> int:
    """Return how many places to calibrate on: half, or as many as the promise needs if two are left to fit."""
    half = (n_places + 1) // 2
    return max(half, needed) if n_places - needed >= FEWEST_TO_FIT else half


def calibrated(
    rows: PlaceRows, method: str, promise: Promise, seed: Seed, n_jobs: int | None, progress: bool | None
) -> Calibration:
    """Return the fits to some of the places and the scores of the rows of the others."""
    if method == "split":
        return _by_split(rows, promise, seed)
    every = np.arange(rows.n_places)
    with Task("conformal sets", 2, progress) as whole, one_blas_thread():
        model = rows.fit(np.arange(rows.groups.size))
        whole.step()
        with Task("left-out places", every.size) as task:
            folds = task.map(partial(_left_out, rows, method == "loeo"), every.tolist(), n_jobs)
    failed = [fold.note for fold in folds if fold.note]
    if len(failed) == len(folds):
        raise InputError(f"no place can be left out: {failed[0]}")
    kept = tuple(fold.model for fold in folds) if method == "loeo" else ()
    return _calibration(rows, method, model, kept, every, [fold.scored for fold in folds], failed)


def _by_split(rows: PlaceRows, promise: Promise, seed: Seed) -> Calibration:
    order = generator(seed).permutation(rows.n_places)
    chosen = np.sort(order[: split_sizes(rows.n_places, promise.needed)])
    model = rows.fit(np.flatnonzero(~np.isin(rows.groups, chosen)))
    scored = [_scored(rows, model, rows.rows_in(e)) for e in chosen.tolist()]
    return _calibration(rows, "split", model, (), chosen, scored, [])


def _calibration(
    rows: PlaceRows, method: str, model: Any, left_out: Any, chosen: Codes, scored: list[Scored], failed: list[str]
) -> Calibration:
    """Return the calibration by the places ``chosen`` and the scores of their rows."""
    at = [rows.rows_in(e) for e in chosen.tolist()]
    sizes, order = [own.size for own in at], np.concatenate(at)
    trained = np.setdiff1d(np.arange(rows.n_places), chosen) if method == "split" else np.arange(rows.n_places)
    return Calibration(
        method,
        model,
        left_out,
        rows.labels[trained],
        rows.labels[chosen],
        np.repeat(np.arange(chosen.size), sizes),
        rows.weights[order],
        np.concatenate([one.both for one in scored]),
        np.concatenate([one.lower for one in scored]),
        int((~known_rows(rows.response)).sum()),
        rows.response.scale,
        rows.response.levels,
        (*_notes(scored), *failed),
        rows.name,
    )


def _notes(scored: list[Scored]) -> list[str]:
    """Return notes about rows that no fit could predict."""
    bad = sum(int(one.bad.sum()) for one in scored)
    if not bad:
        return []
    why = next(one.note for one in scored if one.bad.any())
    return [f"{bad} rows cannot be predicted by fits without their place ({why}): they count as not covered"]


def _scored(rows: PlaceRows, model: Any, own: Codes) -> Scored:
    """Return the scores of some rows; infinite for those that the fit cannot predict."""
    law, y = rows.predict(model, own), known_to_reach(rows.response[own])
    both, lower = np.full(own.size, math.inf), np.full(own.size, math.inf)
    both[~law.bad], lower[~law.bad] = scores_of(law.good_rows, y[~law.bad])
    why = next((reason for reason in law.reasons.tolist() if reason), "")
    return Scored(both, lower, law.bad, why)


def _left_out(rows: PlaceRows, kept: bool, e: int) -> Fold:
    """Return the fit without one place, if it is ``kept``, and the scores of the rows of the place."""
    own = rows.rows_in(e)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)  # the fit to all places has warned already
            model = rows.fit(np.flatnonzero(rows.groups != e))
        return Fold(_without_rows(model) if kept else None, _scored(rows, model, own))
    except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
        lost = Scored(np.full(own.size, math.inf), np.full(own.size, math.inf), np.zeros(own.size, dtype=bool))
        note = f"the fit without {rows.labels.tolist()[e]} failed ({error}): its rows count as not covered"
        return Fold(None, lost, note)


def _without_rows(model: Any) -> Any:
    """Return a copy of a fitted model without the rows of its fit, as pickles have it."""
    with suppress(pickle.PicklingError, AttributeError, TypeError):
        return pickle.loads(pickle.dumps(model))  # noqa: S301 - these are our own bytes
    return model
