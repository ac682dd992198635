"""How good predicted distributions are: proper scores, calibration and, for times, discrimination.

Every function takes the predictions and what was observed, and gives one value a row, or one number
where that is all there is. Outcomes are given as to ``fit``: numbers or classes in an array, list or
series, ``Surv``, ``Interval`` or a structured survival array. ``brier`` and ``concordance`` score plain
predictions of any software. ``score_table`` puts the scores together, by environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown
from anchortm._util.checks import generator, level_between, real_numbers
from anchortm._util.frames import aligned, native, take
from anchortm.bases import OrdinalBasis
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.anchors import groups_of
from anchortm.inputs.empirical import censoring_distribution
from anchortm.inputs.response import Kind, Response, as_response
from anchortm.predict.distribution import NODES, WEIGHTS, PredictedDistribution
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.survival_steps import StepDistribution

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ScoreTable",
    "brier",
    "concordance",
    "coverage",
    "crps",
    "nll_quantiles",
    "pit",
    "score_table",
    "transforms",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Array = NDArray[np.float64]

CRPS_PANELS = 64  # of probabilities
CRPS_STEP = 0.5  # of h, for panels in y
CRPS_TAIL = 1e-10  # beyond which F^2 and (1 - F)^2 count for nothing
FIRST_COUNTS, FEW_COUNTS = 4096, 64  # counts that a CRPS sums over one by one: the first, and in a panel
LARGEST_COUNT = 1e150
CRPS_ROWS = 500
CRPS_VALUES = 1_000_000  # in one pass


def nll_quantiles(nll: ArrayLike, alpha: ArrayLike) -> Array:
    """Return quantiles of the negative log-likelihood of rows, the paper's way to look at shifts.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.scores.nll_quantiles(model.nll(data), [0.5, 0.9, 1.0]).round(2)
    array([1.09, 1.63, 2.78])
    """
    return np.asarray(np.quantile(np.asarray(nll, dtype=np.float64), np.asarray(alpha, dtype=np.float64)))


def crps(distribution: PredictedDistribution | FamilyDistribution, y: ArrayLike | Response) -> Array:
    """Return the continuous ranked probability score of exact outcomes, one value a row.

    The integral of (F(t) - 1{y <= t})^2 over t, by Gauss-Legendre to a relative error of about 1e-8.
    Classes score on their positions. ``y`` is given as to ``fit``; censored rows are refused.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> distribution = model.predict_distribution(data[["duration"]])
    >>> print(atm.scores.crps(distribution, data.waiting).mean().round(2))
    5.78
    """
    _predicted(distribution)
    return _crps(distribution, _exact(distribution, y, "the CRPS"))


def _predicted(distribution: Any, steps: bool = False) -> None:
    if isinstance(distribution, StepDistribution):
        if steps:
            return
        raise InputTypeError(
            "survival curves of CoxPH are steps that end at the last event time: they are scored by brier and "
            "concordance, and the full distributions of ProportionalHazards by all scores"
        )
    if not isinstance(distribution, (PredictedDistribution, FamilyDistribution)):
        raise InputTypeError(
            f"pass predicted distributions, model.predict_distribution(X), not {type(distribution).__name__}; "
            "score_table takes a model"
        )


def _outcomes(distribution: Any, y: Any) -> Response:
    """Return what was observed on the scale of the distributions, one row for each of them."""
    basis = distribution.basis
    levels = basis.levels if isinstance(basis, OrdinalBasis) else None
    response = as_response(y, "ordinal" if levels is not None else "count" if basis.discrete else "continuous", levels)
    if len(response) != len(distribution):
        raise InputError(
            f"y has {len(response)} rows, but there are {len(distribution)} predicted distributions: pass one value "
            f"for each of the {len(distribution)} rows"
        )
    return response


def _known(response: Response) -> NDArray[np.bool_]:
    """Return which rows tell their outcome: exact numbers, single classes, counts known to one."""
    if response.scale == "ordinal":
        return np.ones(len(response), dtype=bool)
    if response.scale == "count":
        return np.asarray(response.upper - np.maximum(response.lower, -1.0) == 1.0)
    return np.asarray(response.kind == Kind.EXACT)


def _values(response: Response) -> Array:
    """Return the outcomes of known rows as numbers, classes as their positions."""
    return np.asarray(response.codes if response.scale == "ordinal" else response.upper, dtype=np.float64)


def _exact(distribution: Any, y: Any, score: str) -> Array:
    """Return outcomes that must be known in all rows."""
    response = _outcomes(distribution, y)
    censored = int((~_known(response)).sum())
    if censored:
        raise InputError(
            f"{score} needs known outcomes, but {censored} of the {len(response)} rows are censored: score the others "
            "only, or take score_table, whose nll and pit take all rows"
        )
    if response.truncated.any():
        raise InputError(
            f"{score} does not know of truncation, and {int(response.truncated.sum())} rows have some: with delayed "
            "entry pass distribution.given(after=entry) and the plain times, or take score_table"
        )
    return _values(response)


def _crps(distribution: Any, codes: Array) -> Array:
    if isinstance(distribution, FamilyDistribution):
        return distribution.crps(codes)
    if distribution.theta.ndim == 2:
        scores = np.empty(codes.size)
        for rows, part in distribution.by_baseline():
            scores[rows] = _crps(part, codes[rows])
        return scores
    n = len(distribution)
    if distribution.basis.discrete:
        work: Callable[[PredictedDistribution, Array], Array] = _discrete_crps
    elif (
        isinstance(distribution, AveragedDistribution)
        or distribution.after is not None
        or any(distribution.basis.flat_ends(distribution.theta))
    ):
        work = _crps_by_quantiles
    else:
        return _crps_on_panels(distribution, codes)
    parts = [slice(start, start + CRPS_ROWS) for start in range(0, n, CRPS_ROWS)]
    return np.concatenate([work(distribution[part], codes[part]) for part in parts]) if parts else np.zeros(0)


def _crps_on_panels(distribution: PredictedDistribution, codes: Array) -> Array:
    """Integrate F^2 below y and (1 - F)^2 above it over panels in y that all rows share.

    The panels are equal steps of h_0, so that F is smooth on each; the one that holds y is cut there.
    """
    basis, theta, link, shift = distribution.basis, distribution.theta, distribution.link, distribution._moved
    low, high = link.quantile(np.array([CRPS_TAIL]))[0], link.quantile_from_log_sf(np.log([CRPS_TAIL]))[0]
    steps = max(2, int(np.ceil((high - low + np.ptp(shift)) / CRPS_STEP)))
    h = np.linspace(low - shift.max(), high - shift.min(), steps + 1)
    edges = np.concatenate([basis.inverse(theta, h), [codes.min(), codes.max()], getattr(basis, "support", ())])
    floor = max(basis.lower_bound, 0.0) if distribution.positive else basis.lower_bound
    edges = np.unique(np.maximum(edges, floor))
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * NODES
    base = distribution._baseline(nodes.ravel())
    panel = np.clip(np.searchsorted(edges, codes, side="right") - 1, 0, half.size - 1)
    total = np.empty(codes.size)
    rows = max(1, CRPS_VALUES // base.size)
    for start in range(0, codes.size, rows):
        part = slice(start, start + rows)
        z = base[None, :] + shift[part, None]
        below, above = panel[part, None] > np.arange(half.size), panel[part, None] < np.arange(half.size)
        squares = [
            np.exp(2.0 * log(z)).reshape(-1, half.size, NODES.size) @ WEIGHTS for log in (link.log_cdf, link.log_sf)
        ]
        total[part] = (half * (below * squares[0] + above * squares[1])).sum(axis=1)
        for first, last, log in (
            (edges[panel[part]], codes[part], link.log_cdf),
            (codes[part], edges[panel[part] + 1], link.log_sf),
        ):
            own = 0.5 * np.maximum(last - first, 0.0)
            points = (first + own)[:, None] + own[:, None] * NODES
            z = distribution._baseline(points.ravel()).reshape(points.shape) + shift[part, None]
            total[part] += own * (np.exp(2.0 * log(z)) @ WEIGHTS)
    return total


def _crps_by_quantiles(distribution: PredictedDistribution, codes: Array) -> Array:
    """Integrate the quantile loss over probabilities, twice, on panels that split at F(y)."""
    at = distribution.cdf(codes[:, None])[:, 0]
    unit = 0.5 * (1.0 - np.cos(np.pi * np.arange(CRPS_PANELS // 2 + 1) / (CRPS_PANELS // 2)))  # dense at both ends
    total = np.zeros(codes.size)
    for low, high, above in ((np.zeros_like(at), at, False), (at, np.ones_like(at), True)):
        edges = low[:, None] + (high - low)[:, None] * unit
        half = 0.5 * np.diff(edges, axis=1)
        q = ((edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES).reshape(codes.size, -1)
        weights = (half[:, :, None] * WEIGHTS).reshape(codes.size, -1)
        gap = distribution.ppf(np.clip(q, 0.0, 1.0)) - codes[:, None]
        # quantile loss: (1{y <= x_q} - q)(x_q - y)
        total += (weights * np.where(above, 1.0 - q, -q) * gap).sum(axis=1)
    return 2.0 * total


def _discrete_crps(distribution: PredictedDistribution, codes: Array) -> Array:
    if isinstance(distribution.basis, OrdinalBasis):
        grid = np.array([*distribution.basis.levels], dtype=object)
        below = distribution.cdf(grid)[:, :-1]
        return np.asarray(((below - (codes[:, None] <= np.arange(below.shape[1]))) ** 2).sum(axis=1))
    furthest = max(float(np.max(distribution.isf(1e-9))), float(codes.max()))
    first = int(min(FIRST_COUNTS, furthest + 1.0))
    k = np.arange(first, dtype=np.float64)
    total = np.asarray(((distribution.cdf(k) - (codes[:, None] <= k)) ** 2).sum(axis=1))
    if first < FIRST_COUNTS:
        return total
    if isinstance(distribution, AveragedDistribution):
        raise InputTypeError(f"counts of {FIRST_COUNTS} and more have no CRPS with random effects: take the nll")
    start, never = np.full(codes.size, float(first)), np.full(codes.size, np.inf)
    low = distribution.link.quantile(np.array([CRPS_TAIL]))[0] - distribution._moved
    with np.errstate(over="ignore"):
        begin = np.floor(distribution.basis.inverse(distribution.theta, low))  # F is nothing below
    below, above = np.clip(begin, start, np.maximum(codes, start)), np.maximum(start, codes)
    jump = np.where(np.isfinite(begin), np.maximum(begin, above), above)  # 1 - F is 1 up to here
    total += _sum_of_squares(distribution, distribution.link.log_cdf, below, codes) + (jump - above)
    return total + _sum_of_squares(distribution, distribution.link.log_sf, jump, never)


def _sum_of_squares(
    distribution: PredictedDistribution, log: Callable[[Array], Array], low: Array, high: Array
) -> Array:
    """Return the sums of squared probabilities over the counts low <= k < high, panel by panel.

    A panel goes as far as h is smooth on it. Few counts are summed; many lie dense, and their sum is the integral from
    half a count before to half a count before the end, with the first term of Euler and Maclaurin. Without an end, a
    sum is infinite that has not come to rest at the largest of numbers.
    """
    theta, basis = distribution.theta, distribution.basis

    def square(k: Array, rows: NDArray[np.intp]) -> Array:
        h = (basis.rows(k.ravel()) @ theta).reshape(k.shape)
        return np.asarray(np.exp(2.0 * log(h + distribution._moved[rows, None])))

    total, low, high = np.zeros(low.size), low.copy(), high.copy()
    while (rows := np.flatnonzero(high > low)).size:
        a = low[rows]
        with np.errstate(over="ignore"):
            risen = basis.inverse(theta, basis.rows(a) @ theta + CRPS_STEP)
        b = np.maximum(np.floor(np.minimum(1.3 * a, risen)), np.maximum(a + FEW_COUNTS, (1.0 + 1e-9) * a))
        b = np.minimum(b, high[rows])
        part, few = np.empty(a.size), b - a <= FEW_COUNTS
        k = a[few, None] + np.arange(FEW_COUNTS)
        part[few] = np.where(k < b[few, None], square(k, rows[few]), 0.0).sum(axis=1)
        c, d, many = a[~few], b[~few], rows[~few]
        half = 0.5 * (d - c)
        ends = square(np.stack([c - 1.0, c, d - 1.0, d], axis=1), many) @ [1.0, -1.0, -1.0, 1.0]
        inside = square((c + half - 0.5)[:, None] + half[:, None] * NODES, many) @ WEIGHTS
        part[~few] = half * inside - ends / 24.0
        total[rows] += part
        low[rows] = b
        resting = rows[np.isinf(high[rows]) & (part <= 1e-14 * total[rows])]
        high[resting] = low[resting]
        if low.max() > LARGEST_COUNT:
            return np.where(high > low, np.inf, total)
    return total


def pit(
    distribution: PredictedDistribution | FamilyDistribution, y: ArrayLike | Response, random_state: Any = None
) -> Array:
    """Return the probability integral transforms, uniform if the predictions are calibrated.

    Exact rows give F(y); censored and discrete rows a random number between F at their two ends. ``y`` is given as to
    ``fit``: numbers, classes, counts, ``Surv`` or ``Interval``.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age", data, order=3)
    >>> u = atm.scores.pit(model.predict_distribution(data), atm.Surv(data.tstop, data.status), random_state=0)
    >>> u.shape, bool((u >= 0).all() and (u <= 1).all())
    ((128,), True)
    """
    _predicted(distribution)
    rows = _outcomes(distribution, y)
    low, high = (_cdf_at(distribution, end) for end in (rows.lower, rows.upper))
    if rows.entry is not None or rows.exit is not None:
        nothing = np.full(len(rows), np.inf)
        first = _cdf_at(distribution, -nothing if rows.entry is None else rows.entry)
        last = _cdf_at(distribution, nothing if rows.exit is None else rows.exit)
        low, high = ((end - first) / (last - first) for end in (low, high))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    draw = generator(random_state).random(len(rows))
    return np.where(rows.kind == Kind.EXACT, high, low + draw * (high - low))


def _cdf_at(distribution: PredictedDistribution | FamilyDistribution, codes: Array) -> Array:
    if isinstance(distribution, FamilyDistribution):
        return distribution.cdf(codes[:, None])[:, 0]
    if isinstance(distribution, AveragedDistribution):
        parts = [np.exp(log_weight) * _cdf_at(part, codes) for log_weight, part in distribution.parts()]
        return np.asarray(np.sum(parts, axis=0))
    h = distribution._baseline(codes, np.arange(codes.size)) + distribution._moved
    return np.exp(distribution.link.log_cdf(h))


def coverage(
    distribution: PredictedDistribution | FamilyDistribution | StepDistribution,
    y: ArrayLike | Response,
    level: float = 0.9,
) -> Array:
    """Return which known outcomes lie in the central interval of probability ``level``.

    Classes lie in it if they are neither below nor above its two classes. ``y`` is given as to ``fit``; censored rows
    are refused.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> distribution = model.predict_distribution(data[["duration"]])
    >>> print(atm.scores.coverage(distribution, data.waiting, level=0.9).mean().round(2))
    0.91
    """
    _predicted(distribution, steps=True)
    values = _exact(distribution, y, "coverage")
    low, high = distribution.interval(level)
    if isinstance(distribution, PredictedDistribution):  # classes become their positions
        low, high = distribution._codes(low), distribution._codes(high)
    return np.asarray((values >= low) & (values <= high))


def concordance(risk: ArrayLike, y: ArrayLike | Response) -> float:
    """Return Harrell's concordance index: how often the row with the higher risk fails first.

    Parameters
    ----------
    risk : array
        Any score that is higher for earlier events, such as ``-model.predict(X)``, one number for each row.
    y : Surv, structured survival array or array
        What was observed; plain numbers are times of events.

    Notes
    -----
    A pair counts if the earlier time is an event; equal risks count one half. Of rows censored otherwise than on the
    right only their lower end is used.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> risk = model.predict_distribution(data).cdf(300.0)
    >>> print(round(atm.scores.concordance(risk, atm.Surv(data.tstop, data.status)), 2))
    0.66
    """
    if _is_prediction(risk):
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


def _is_prediction(values: Any) -> bool:
    """Return whether values are predicted distributions or a model, which NumPy would make an odd array of."""
    return hasattr(values, "predict") or isinstance(
        values, (PredictedDistribution, FamilyDistribution, StepDistribution)
    )


def _times(y: Any, name: str) -> tuple[Array, NDArray[np.bool_]]:
    """Return the times of rows, and which of them are times of events."""
    if isinstance(y, Response) and y.scale in ("ordinal", "count"):
        raise InputTypeError(f"{name} must be times, Surv(time, event) or numbers, not {y!r}")
    rows = as_response(y)
    event = rows.kind == Kind.EXACT
    return np.where(event, rows.upper, rows.lower), event


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
    distribution: PredictedDistribution | FamilyDistribution | StepDistribution | ArrayLike,
    y: ArrayLike | Response,
    times: ArrayLike,
    train: ArrayLike | Response | None = None,
) -> Array:
    """Return the Brier score of survival at given times, with censored rows weighted (Graf et al., 1999).

    Parameters
    ----------
    distribution : predicted distributions, or array of shape (n, number of times)
        ``model.predict_distribution(X)``, or the survival probabilities P(Y > t) that any software predicts: one row
        for each row of y and one column for each time (at one time a vector will do). Of probabilities of an
        event by t pass ``1 - p``.
    y : Surv, structured survival array or array
        What was observed, exact or right-censored; plain numbers are times of events.
    times : number or vector
    train : as y, optional
        Rows that the censoring is learnt from.

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
    grid = np.atleast_1d(real_numbers(times, "times"))
    if grid.ndim != 1 or np.isnan(grid).any():
        raise InputError(f"times must be a number or a vector of numbers, not {times!r}")
    observed = _survival_times(y, "y")
    source = observed if train is None else _survival_times(train, "train")
    parts = _brier_rows(_survival(distribution, observed[0].size, grid), *observed, grid, *source)
    lost = np.isnan(parts).any(axis=0)
    if lost.any():
        raise InputError(
            f"the Brier score at time {grid[lost][0]:g} is not known: by then all rows of "
            f"{'y' if train is None else 'train'} without an event are censored (the last time is "
            f"{source[0].max():g}); ask for earlier times"
        )
    return np.asarray(parts.mean(axis=0))


def _survival_times(y: Any, name: str) -> tuple[Array, NDArray[np.bool_]]:
    """Return times and events of rows that are exact or right-censored."""
    times, event = _times(y, name)
    if isinstance(y, Response):
        other = int(np.isin(y.kind, (Kind.LEFT, Kind.INTERVAL)).sum())
        if other:
            raise InputError(
                f"the Brier score takes exact and right-censored rows, but {other} rows of {name} are left- or "
                "interval-censored: leave these rows out, or take the nll"
            )
    return times, event


def _survival(distribution: Any, n: int, grid: Array) -> Array:
    """Return P(Y > t) of n rows at each time, from predicted distributions or as given."""
    if _is_prediction(distribution):
        _predicted(distribution, steps=True)
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


def _brier_rows(
    survival: Array,
    observed: Array,
    event: NDArray[np.bool_],
    grid: Array,
    train: Array,
    train_event: NDArray[np.bool_],
) -> Array:
    """Return each row's weighted share in the Brier score at each time, nan where nobody is left uncensored."""
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


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of predicted distributions, of all rows and by environment.

    Attributes
    ----------
    table : DataFrame
        What ``frame`` returns.
    rows : DataFrame
        Environment and scores of each row.
    level : float
        Probability of the intervals whose coverage is counted.

    See Also
    --------
    anchortm.scores.score_table : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> scores = atm.scores.score_table(model, data, data.rating, data.temp)
    >>> scores.frame()[["environment", "n", "nll", "crps"]].round(3)
      environment   n    nll   crps
    0       (all)  72  1.204  0.439
    1        cold  36  1.132  0.389
    2        warm  36  1.276  0.490
    >>> scores.quantiles([0.5, 1.0]).head(2).round(3)
      environment  alpha    nll
    0       (all)    0.5  1.089
    1       (all)    1.0  2.780
    """

    table: Any
    rows: Any
    level: float

    def frame(self) -> pd.DataFrame:
        """Return one row for all rows together and one for each environment."""
        return self.table

    def quantiles(self, alpha: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)) -> pd.DataFrame:
        """Return quantiles of the rows' nll: one row for each environment (and all) and each alpha."""
        import pandas as pd

        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        found = [(ALL, self.rows["nll"]), *self.rows.groupby("environment")["nll"]]
        return pd.DataFrame(
            [
                {"environment": name, "alpha": a, "nll": value}
                for name, nll in found
                for a, value in zip(levels.tolist(), nll_quantiles(nll, levels).tolist(), strict=True)
            ]
        )

    def plot(self, ax: Any = None, label: int = 3) -> Any:
        """Draw the distribution of the probability integral transforms by environment and return the axes."""
        return plotting.calibration(self.rows, ax, label=label)

    @shown
    def __repr__(self) -> str:
        head = f"Scores, coverage of {self.level:.0%} intervals"
        return f"{head}\n{self.table.to_string(index=False, float_format=lambda v: f'{v:.4g}')}"


ALL = "(all)"


def score_table(
    model: Any,
    X: Any,
    y: Any,
    environments: Any = None,
    *,
    offset: Any = None,
    level: float = 0.9,
    times: Sequence[float] | None = None,
    random_state: Any = 0,
) -> ScoreTable:
    """Return the scores of a fitted model on these rows, together and by environment.

    Columns: n; ``nll``, the mean negative log-likelihood; ``crps`` (where all rows are exact);
    ``coverage`` of the central intervals with probability ``level`` and ``pit``, the mean probability
    integral transform (1/2 if calibrated), both from transforms that are drawn at random in censored
    and discrete rows, so that calibrated predictions reach their level. For times also ``concordance``
    and ``brier_<t>`` at ``times``, by default the median of the events, with the censoring of all rows. Rows
    with delayed entry are scored given that they entered; concordance and Brier score then are not known. With random
    effects rows of a cluster that lie in several environments count as clusters of each, also in the row of all.

    See Also
    --------
    anchortm.scores.ScoreTable : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.scores.score_table(model, data, data.rating, data.temp)
    Scores, coverage of 90% intervals
    environment  n   nll   crps  coverage    pit
          (all) 72 1.204 0.4394    0.9722 0.4984
           cold 36 1.132 0.3889    0.9722 0.4925
           warm 36 1.276 0.4899    0.9722 0.5042
    """
    import pandas as pd

    level_between(level)
    response, distribution, codes, names = _observed(model, X, y, environments, offset)
    n = len(response)
    u = pit(distribution, response, random_state)
    rows = pd.DataFrame({"environment": names[codes], "nll": _nll(model, X, response, offset, codes)})
    rows["crps"], rows["pit"], rows["coverage"] = _known_crps(distribution, response), u, np.abs(u - 0.5) <= 0.5 * level
    survival = response.scale == "time" and set(response.kind.tolist()) <= {Kind.EXACT, Kind.RIGHT}
    brier_names: list[str] = []
    if survival:
        event = response.kind == Kind.EXACT
        if times is None:
            times = [float(np.median(response.upper[event]))] if event.any() else []
        brier_names = [f"brier_{t:g}" for t in times]
        known = not response.truncated.any()  # neither score knows delayed entry
        grid, seen = np.asarray(times, dtype=np.float64), (np.where(event, response.upper, response.lower), event)
        rows[brier_names] = _brier_rows(distribution.sf(grid), *seen, grid, *seen) if known else math.nan
    columns = ["nll", "crps", "coverage", "pit", *brier_names]
    groups = [(ALL, np.arange(n))]
    if environments is not None:
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(names.size + 1))
        groups += [(name, order[a:b]) for name, a, b in zip(names.tolist(), ends[:-1], ends[1:], strict=True)]
    values = rows[columns].to_numpy(dtype=np.float64)
    table = pd.DataFrame([values[part].mean(axis=0) for _, part in groups], columns=columns)
    table.insert(0, "environment", [name for name, _ in groups])
    table.insert(1, "n", [part.size for _, part in groups])
    if survival:
        table.insert(
            6,
            "concordance",
            [
                _concordance_or_nan(distribution._moved[part], response[part]) if known else math.nan
                for _, part in groups
            ],
        )
    return ScoreTable(table, rows, level)


def _nll(model: Any, X: Any, response: Response, offset: Any, codes: NDArray[np.intp]) -> Array:
    """Return the negative log-likelihood of each row; clusters share theirs within each environment."""
    if getattr(model, "_random", None) is None:
        return np.asarray(model.nll(X, response, offset=offset))
    X, result = native(X), np.empty(len(response))
    for code in np.unique(codes):
        part = np.flatnonzero(codes == code)
        own = offset if np.ndim(offset) == 0 else np.asarray(offset)[part]
        result[part] = model.nll(take(X, part), response[part], offset=own)
    return result


def _observed(
    model: Any, X: Any, y: Any, environments: Any, offset: Any
) -> tuple[Response, PredictedDistribution, NDArray[np.intp], NDArray[Any]]:
    """Return outcome, predictions, and codes and names of the environments (one for all if None)."""
    check_is_fitted(model, "coef_")
    aligned(X=X, y=y, environments=environments, offset=offset)
    levels = model.basis_.levels if isinstance(model.basis_, OrdinalBasis) else None
    response = as_response(np.ravel(y) if isinstance(y, np.ndarray) and y.ndim == 2 else y, model._scale, levels)
    n = len(response)
    codes, names = (np.zeros(n, dtype=np.intp), np.array([ALL])) if environments is None else groups_of(environments)
    if codes.size != n:
        raise InputError(f"environments has {codes.size} rows, but y has {n}")
    trials = {} if response.trials is None else {"trials": response.trials}
    distribution = model.predict_distribution(X, offset=offset, n_rows=n if X is None else None, **trials)
    _predicted(distribution)
    if len(distribution) != n:
        raise InputError(f"X has {len(distribution)} rows, but y has {n}")
    return response, distribution, codes, names


def _known_crps(distribution: PredictedDistribution, response: Response) -> Array:
    """Return the score of exact rows, given that they lie beyond their entry, and nan for others."""
    values = np.full(len(response), math.nan)
    known = _known(response)
    if response.exit is not None:
        known &= ~np.isfinite(response.exit)
    late = np.zeros(len(response), dtype=bool) if response.entry is None else response.entry > -np.inf
    if distribution.basis.discrete:
        known &= ~late
    outcome = _values(response)
    for chosen in (known & ~late, known & late):
        if chosen.any():
            part = distribution[np.flatnonzero(chosen)]
            if response.entry is not None and late[chosen].all():
                part = part.given(after=response.entry[chosen])
            values[chosen] = _crps(part, outcome[chosen])
    return values


def transforms(model: Any, X: Any, y: Any, environments: Any, offset: Any, random_state: Any) -> pd.DataFrame:
    """Return environment and probability integral transform of each row.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.scores.transforms(model, data, data.rating, data.judge, None, 0).columns.tolist()
    ['environment', 'pit']
    """
    import pandas as pd

    response, distribution, codes, names = _observed(model, X, y, environments, offset)
    return pd.DataFrame({"environment": names[codes], "pit": pit(distribution, response, random_state)})


def _concordance_or_nan(risk: Array, y: Response) -> float:
    try:
        return concordance(risk, y)
    except InputError:  # no pair can be compared
        return math.nan
