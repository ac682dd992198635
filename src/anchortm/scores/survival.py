"""Scores of survival predictions: concordance, and the Brier score with censored rows weighted (IPCW)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Table
from anchortm._util.checks import real_numbers
from anchortm._util.frames import aligned
from anchortm._util.pipelines import model_of
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.empirical import censoring_distribution
from anchortm.inputs.response import Kind, Response, as_response
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.fitted import HasRows
from anchortm.predict.piecewise import PiecewiseDistribution
from anchortm.predict.survival_steps import StepDistribution
from anchortm.scores.outcomes import check_predicted, is_prediction, model_and_table, predicted

__all__ = ["brier", "brier_rows", "concordance"]


def concordance(risk: ArrayLike | HasRows, y: ArrayLike | Response | Table) -> float:
    """Return Harrell's concordance index: how often the row with the higher risk fails first.

    Parameters
    ----------
    risk : array
        Any score that is higher for earlier events, such as ``-model.predict(X)``, one number for each row. Or a model
        that was fitted by a formula, and a table in the place of y: the risk is then x'beta plus the offset, with the
        sign of h.
    y : Surv, structured survival array or array
        Observed times; plain numbers are times of events.

    Notes
    -----
    A pair counts if the earlier time is an event; equal risks count one half. Left- and interval-censored rows enter
    by their lower end, as if right-censored there.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> risk = model.predict_distribution(data).cdf(300.0)
    >>> print(round(atm.scores.concordance(risk, atm.Surv(data.tstop, data.status)), 2))
    0.66
    >>> print(round(atm.scores.concordance(model, data), 2))  # the order of rows is the same at all times
    0.66
    """
    if model_and_table(risk, y):
        risk, y = _risk_and_outcome(risk, y)
    if is_prediction(risk):
        raise InputTypeError(
            f"risk must be one number for each row, higher for earlier events, not {type(risk).__name__}: pass for "
            "example -model.predict(X), or distribution.cdf(t) at a time of interest"
        )
    aligned(risk=risk, y=y)
    score = real_numbers(risk, "risk")
    times, event = _times(y, "y")
    if score.shape != times.shape:
        raise InputError(f"risk has shape {score.shape}, but y has {times.size} rows: pass one number for each row")
    if np.isnan(score).any():
        row = int(np.flatnonzero(np.isnan(score))[0])
        raise InputError(f"risk is missing at row {row}: drop such rows, or predict them")
    order = np.lexsort((event, -times))  # latest first; among equal times censored rows before events
    ranks = np.unique(score, return_inverse=True)[1]
    tree = _Counter(int(ranks.max()) + 1)
    agree = pairs = 0.0
    start = 0
    while start < order.size:  # rows of one time are compared with later rows only, censored ones of this time included
        stop = start
        while stop < order.size and times[order[stop]] == times[order[start]]:
            stop += 1
        same = order[start:stop]
        for i in same[~event[same]]:
            tree.add(int(ranks[i]))
        for i in same[event[same]]:
            below, equal = tree.below(int(ranks[i])), tree.count(int(ranks[i]))
            agree += below + 0.5 * equal
            pairs += tree.size
        for i in same[event[same]]:
            tree.add(int(ranks[i]))
        start = stop
    if pairs == 0.0:
        raise InputError("no pair of rows can be compared: there is no event before another row's time")
    return agree / pairs


def _risk_and_outcome(model: Any, data: Any) -> tuple[Array, Response]:
    """Return the signed shift of each row of a table, and its outcome."""
    rows = model_of(model).new_rows_
    return rows.parts(data, None, None)[1], rows.response(data, None)


class _Counter:
    """Counts of ranks, with the number below a rank in logarithmic time (a Fenwick tree)."""

    def __init__(self, n: int) -> None:
        self._tree, self._counts, self.size = [0] * (n + 1), [0] * n, 0

    def add(self, rank: int) -> None:
        self._counts[rank] += 1
        self.size += 1
        k = rank + 1
        while k < len(self._tree):
            self._tree[k] += 1
            k += k & -k

    def below(self, rank: int) -> int:
        total, k = 0, rank
        while k > 0:
            total += self._tree[k]
            k -= k & -k
        return total

    def count(self, rank: int) -> int:
        return self._counts[rank]


def brier(
    distribution: PredictedDistribution
    | FamilyDistribution
    | PiecewiseDistribution
    | StepDistribution
    | HasRows
    | ArrayLike,
    y: ArrayLike | Response | Table,
    times: ArrayLike,
    train: ArrayLike | Response | Table | None = None,
) -> Array:
    """Return the Brier score of survival at given times, with censored rows weighted (Graf et al., 1999).

    Parameters
    ----------
    distribution : predicted distributions, or array of shape (n, number of times)
        ``model.predict_distribution(X)``, or the survival probabilities P(Y > t) that any software predicts: one row
        for each row of y and one column for each time (a vector if there is one time). If you have probabilities of
        an event by t, pass ``1 - p``. Or a model that was fitted by a formula, and a table in the place of y.
    y : Surv, structured survival array or array
        Observed times, exact or right-censored; plain numbers are times of events.
    times : number or vector
    train : as y, optional
        Rows from which the censoring distribution is estimated; a table where y is one.

    Notes
    -----
    Weights are inverse Kaplan-Meier probabilities of being uncensored, from ``train`` (by default y). At tied times
    events come before censorings: a row with an event at t counts with 1 / P(C >= t), a row beyond t with 1 / P(C > t).
    Times at which nobody is left uncensored are refused. Delayed entry is not taken into account.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> y = atm.Surv(data.tstop, data.status)
    >>> distribution = model.predict_distribution(data)
    >>> atm.scores.brier(distribution, y, [100.0, 300.0]).round(3)
    array([0.097, 0.203])
    >>> atm.scores.brier(distribution.sf([100.0, 300.0]), y, [100.0, 300.0]).round(3)  # from numbers
    array([0.097, 0.203])
    """
    if train is not None and model_and_table(distribution, train):
        train = _risk_and_outcome(distribution, train)[1]
    distribution, y = predicted(distribution, y)
    grid = np.atleast_1d(real_numbers(times, "times"))
    if grid.ndim != 1 or np.isnan(grid).any():
        raise InputError(f"times must be a number or a vector of numbers, not {times!r}")
    observed = _survival_times(y, "y")
    source = observed if train is None else _survival_times(train, "train")
    parts = brier_rows(_survival(distribution, observed[0].size, grid), *observed, grid, *source)
    lost = np.isnan(parts).any(axis=0)
    if lost.any():
        raise InputError(
            f"the Brier score at time {grid[lost][0]:g} cannot be computed: by then all rows of "
            f"{'y' if train is None else 'train'} without an event are censored (the last time is "
            f"{source[0].max():g}); ask for earlier times"
        )
    return np.asarray(parts.mean(axis=0))


def _times(y: Any, name: str) -> tuple[Array, NDArray[np.bool_]]:
    """Return the times of rows, and which of them are times of events."""
    if isinstance(y, Response) and y.scale in ("ordinal", "count"):
        raise InputTypeError(f"{name} must be times, Surv(time, event) or numbers, not {y!r}")
    rows = as_response(y)
    event = rows.kind == Kind.EXACT
    return np.where(event, rows.upper, rows.lower), event


def _survival_times(y: Any, name: str) -> tuple[Array, NDArray[np.bool_]]:
    """Return times and events of rows that are exact or right-censored."""
    times, event = _times(y, name)
    if isinstance(y, Response):
        other = int(np.isin(y.kind, (Kind.LEFT, Kind.INTERVAL)).sum())
        if other:
            raise InputError(
                f"the Brier score takes exact and right-censored rows, but {other} rows of {name} are left- or "
                "interval-censored: leave these rows out, or use the nll"
            )
    return times, event


def _survival(distribution: Any, n: int, grid: Array) -> Array:
    """Return P(Y > t) of n rows at each time, from predicted distributions or as given."""
    if is_prediction(distribution):
        check_predicted(distribution, steps=True)
        survival = np.asarray(distribution.sf(grid))
    else:
        survival = real_numbers(distribution, "survival probabilities")
        survival = survival[:, None] if survival.ndim == 1 and grid.size == 1 else survival
        if not ((survival >= 0.0) & (survival <= 1.0)).all():
            odd = survival[~((survival >= 0.0) & (survival <= 1.0))][0]
            raise InputError(f"survival probabilities P(Y > t) must lie between 0 and 1, not {odd:g}")
    if survival.shape != (n, grid.size):
        turned = "; transpose them" if survival.shape == (grid.size, n) else ""
        raise InputError(
            f"predictions have shape {survival.shape}, but y has {n} rows and there are {grid.size} times: pass "
            f"P(Y > t) with one row for each row of y and one column for each time{turned}"
        )
    return survival


def brier_rows(
    survival: Array,
    observed: Array,
    event: NDArray[np.bool_],
    grid: Array,
    train: Array,
    train_event: NDArray[np.bool_],
) -> Array:
    """Return each row's weighted term of the Brier score at each time, nan where nobody is left uncensored."""
    censoring = censoring_distribution(train, train_event)

    def uncensored(t: Array, before: bool) -> Array:
        place = np.searchsorted(censoring.points, t, side="left" if before else "right")
        return np.concatenate([[1.0], 1.0 - censoring.cdf])[place]

    at_event, at_time = uncensored(observed, before=True), uncensored(grid, before=False)
    parts = np.empty(survival.shape)
    for k, t in enumerate(grid):
        failed, later = (observed <= t) & event, observed > t
        if at_time[k] <= 0.0:
            parts[:, k] = np.nan
            continue
        parts[:, k] = np.where(later, (1.0 - survival[:, k]) ** 2 / at_time[k], 0.0)
        parts[failed, k] = survival[failed, k] ** 2 / at_event[failed]
    return parts
