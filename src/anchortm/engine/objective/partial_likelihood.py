"""Cox's partial likelihood as an objective: risk sets instead of a baseline.

    l(v) = sum_dead weight_i eta_i - sum_e m_e log S_e[1],      r_i = Lambda_i - dead_i

Both ways to treat ties are one sum over *pseudo-events* e. Breslow has one at each event time, with the weight of
those who die; Efron has one for each of the d who die together, the l-th with f = l / d:

    S_e[V] = sum_{at risk} weight_j w_j V_j - f_e sum_{dying} weight_j w_j V_j,      w = exp(eta)

Derivatives of log S_e are the cumulants of the covariates over the risk set, so that everything is a running sum over
sorted times: one sort, then O(n) for each column, or O(n + times log times) where rows enter late. There is no
baseline among the parameters and no constant: v are the coefficients of standardised covariates.

The residual r has the sign of the score residuals of ``ProportionalHazards``; the martingale residual is -r.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.anchored import AnchoredObjective, InfluenceInputs
from anchortm.engine.objective.protocol import Convexity, Derivatives, Point, Sums
from anchortm.engine.objective.separation import ordering
from anchortm.engine.rows.projections import Projection, projection
from anchortm.engine.rows.standardised import BLOCK_ROWS, Coordinates
from anchortm.exceptions import IdentificationError, SeparationError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.links import Link

__all__ = [
    "Hazard",
    "Outcome",
    "PartialObjective",
    "RiskSets",
    "Ties",
    "build_partial",
    "risk_sets",
    "row_logliks",
    "sums_between",
]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Ties = Literal["efron", "breslow"]

MOST_RUNS = 1000  # strata whose sums run one after the other
FAR = 600.0  # below the largest, exp(eta) has few digits or none


class _Halves(NamedTuple):
    """Rows whose first event time is in the left half of a block of event times and the last in the right half.

    From first to last is to the end of the left half, and on from the start of the right one. Sums of these only add,
    where differences of running sums cancel.
    """

    size: int  # of a block, a power of 2; of 1, first and last are the same
    blocks: Codes  # those that have rows
    rows: Codes
    first: Codes  # positions in these blocks
    last: Codes

    def gathered(self, values: Array) -> Array:
        """Return the sum of values over the rows at each event time of the blocks."""
        n = self.blocks.size * self.size
        if self.size == 1:
            return np.asarray(np.bincount(self.first, values, n)[:, None], dtype=np.float64)
        sums = np.asarray(np.bincount(self.first, values, n) + np.bincount(self.last, values, n), dtype=np.float64)
        left, right = self._split(sums)
        _run(left)
        _run(right[:, ::-1])
        return sums.reshape(-1, self.size)

    def spread(self, values: Array) -> Array:
        """Return for each row the sum of values of event times, which are overwritten, from its first to its last."""
        if self.size > 1:
            left, right = self._split(values)
            _run(left[:, ::-1])
            _run(right)
        values = values.ravel()
        return values[self.first] if self.size == 1 else values[self.first] + values[self.last]

    def _split(self, values: Array) -> Array:
        return values.reshape(-1, 2, self.size // 2).transpose(1, 0, 2)


def _halves(first: Codes, last: Codes) -> list[_Halves]:
    """Return rows by the size of the least block that holds their first and last event time."""
    level = np.frexp((first ^ last).astype(np.float64))[1]
    order = np.argsort(level, kind="stable")
    result = []
    for rows in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        k = int(level[rows[0]])
        blocks, place = np.unique(first[rows] >> k, return_inverse=True)
        moved = (place - blocks[place]) << k
        result.append(_Halves(1 << k, blocks, rows, first[rows] + moved, last[rows] + moved))
    return result


def _spread(halves: list[_Halves], values: Array, n: int) -> Array:
    """Return for each of n rows the sum of values of event times from its first to its last."""
    result, padded = np.zeros(n), _padded(values, values.size)
    for part in halves:
        result[part.rows] = part.spread(padded.reshape(-1, part.size)[part.blocks])
    return result


def sums_between(values: Array, first: Codes, last: Codes) -> Array:
    """Return the sum of values from first to last, both included, of each pair; 0 where last comes before first."""
    some = np.flatnonzero(first <= last)
    result = np.zeros(first.size)
    if some.size:
        result[some] = _spread(_halves(first[some], last[some]), values, some.size)
    return result


def _padded(values: Array, size: int) -> Array:
    """Return values with zeros up to a power of 2 that is ``size`` at least."""
    result = np.zeros(1 << (size - 1).bit_length())
    result[: values.size] = values
    return result


def _run(values: Array) -> None:
    """Make each row a running sum."""
    np.cumsum(values, axis=1, out=values)


@dataclass(frozen=True, eq=False)
class RiskSets:
    """Who is at risk when. Rows that never are at an event time are left out; the others stand by stratum and time."""

    order: Codes  # the rows
    dead: Codes  # positions in ``order`` of those who die
    dead_at: Codes  # their event times
    starts: Codes  # first position of the rows that each event time is the last of
    first: Codes  # first event time of each row
    late: bool  # whether rows enter after an event time of their stratum
    times: Array
    stratum: Codes  # of each event time
    rows_of: Codes  # first position of each stratum among the rows
    times_of: Codes  # first event time of each of these strata
    pseudo: Codes | None  # event time of each pseudo-event, None where each time has one
    share: Array  # f of each pseudo-event
    multiplicity: Array  # m of each pseudo-event

    @property
    def tied(self) -> bool:
        """Return whether those who die together are treated by Efron's formula."""
        return self.pseudo is not None

    @cached_property
    def _counts(self) -> Codes:
        return np.diff(np.append(self.starts, self.order.size))

    @cached_property
    def _first_dead(self) -> Codes:
        return np.searchsorted(self.dead_at, np.arange(self.times.size))

    @cached_property
    def _first_pseudo(self) -> Codes:
        return np.searchsorted(self.pseudo, np.arange(self.times.size)) if self.pseudo is not None else self.starts

    @cached_property
    def n_dead(self) -> Codes:
        """Return how many die at each event time."""
        return np.bincount(self.dead_at, minlength=self.times.size)

    @cached_property
    def _running(self) -> list[slice] | None:
        """Return the stretches of event times that sums run over, None where rows enter late or strata are many."""
        return None if self.late or self.times_of.size > MOST_RUNS else self._strata()

    @cached_property
    def _halves(self) -> list[_Halves]:
        return _halves(self.first, np.repeat(np.arange(self.times.size), self._counts))

    def stretched(self, values: Array) -> Array:
        """Return values of strata at their event times."""
        return np.repeat(values, np.diff(np.append(self.times_of, self.times.size)))

    def at_risk(self, values: Array) -> Array:
        """Return the sum over those at risk at each event time."""
        if self._running is not None:
            new = np.add.reduceat(values, self.starts)
            for own in self._running:
                new[own] = np.cumsum(new[own][::-1])[::-1]
            return np.asarray(new)
        total = _padded(np.zeros(0), self.times.size)
        for part in self._halves:
            total.reshape(-1, part.size)[part.blocks] += part.gathered(values[part.rows])
        return total[: self.times.size]

    def dying(self, values: Array) -> Array:
        """Return the sum over those who die at each event time."""
        return np.asarray(np.add.reduceat(values[self.dead], self._first_dead))

    def by_time(self, values: Array) -> Array:
        """Return the sum over the pseudo-events of each event time."""
        return values if self.pseudo is None else np.asarray(np.add.reduceat(values, self._first_pseudo))

    def pseudo_sum(self, values: Array) -> Array:
        """Return S_e[values], the weights in ``values``."""
        return self._at_pseudo(self.at_risk(values), self.dying(values) if self.tied else None)

    def _at_pseudo(self, risk: Array, dying: Array | None) -> Array:
        if self.pseudo is None or dying is None:
            return risk
        return risk[self.pseudo] - self.share * dying[self.pseudo]

    def over(self, jump: Array, tied: Array | None) -> Array:
        """Return for each row the sum of ``jump`` while it is at risk, less ``tied`` where it dies."""
        if self._running is not None:
            result = np.repeat(np.concatenate([np.cumsum(jump[own]) for own in self._running]), self._counts)
        else:
            result = _spread(self._halves, jump, self.order.size)
        if tied is not None:
            result[self.dead] -= tied[self.dead_at]
        return result

    def spread(self, values: Array) -> Array:
        """Return the sum of values of pseudo-events for each row, while it is at risk."""
        return self.over(self.by_time(values), self.by_time(self.share * values) if self.tied else None)

    def mean_at_death(self, values: Array) -> Array:
        """Return the mean of values of pseudo-events at each death."""
        mean = self.by_time(values)
        return (mean / self.n_dead if self.tied else mean)[self.dead_at]

    def largest(self, values: Array) -> Codes:
        """Return the row with the largest value of those at risk at each event time."""
        if self.late:
            return self._largest_of_those_there(values)
        most = np.maximum.reduceat(values, self.starts)
        row = np.flatnonzero(values == np.repeat(most, self._counts))
        row = row[np.searchsorted(row, self.starts)]
        top = np.empty(self.times.size, dtype=np.intp)
        for own in self._strata():
            running = np.maximum.accumulate(most[own][::-1])[::-1]
            # the next event time that is the last of a row with the largest value from there on
            at = np.where(most[own] == running, np.arange(running.size), running.size)
            top[own] = row[own][np.minimum.accumulate(at[::-1])[::-1]]
        return top

    def _largest_of_those_there(self, values: Array) -> Codes:
        """Return the same where rows enter late: from the last event time back, with a heap."""
        ends = np.append(self.starts, values.size)
        top = np.empty(self.times.size, dtype=np.intp)
        for own in self._strata():
            queue: list[tuple[float, int]] = []
            for k in range(own.stop - 1, own.start - 1, -1):
                for i in range(ends[k], ends[k + 1]):
                    heapq.heappush(queue, (-values[i], i))
                while self.first[queue[0][1]] > k:  # not yet there, nor at any earlier time
                    heapq.heappop(queue)
                top[k] = queue[0][1]
        return top

    def _strata(self) -> list[slice]:
        """Return the event times of each stratum."""
        return [slice(a, b) for a, b in pairwise(np.append(self.times_of, self.times.size).tolist())]

    def centred(self, eta: Array) -> Array:
        """Return eta less its maximum in each stratum."""
        top = np.maximum.reduceat(eta, self.rows_of)
        return np.asarray(eta - np.repeat(top, np.diff(np.append(self.rows_of, eta.size))))


def risk_sets(
    time: Array,
    dead: Mask,
    entry: Array | None = None,
    stratum: Codes | None = None,
    weights: Array | None = None,
    ties: Ties = "efron",
) -> RiskSets:
    """Return the risk sets of rows that are at risk in (entry, time]; one row at least must die."""
    order = np.argsort(time, kind="stable")
    if stratum is not None:
        order = order[np.argsort(stratum[order], kind="stable")]
    t, d = time[order], dead[order]
    s = np.zeros(t.size, dtype=np.intp) if stratum is None else stratum[order]
    new = np.append(True, (t[1:] != t[:-1]) | (s[1:] != s[:-1]))
    group = np.cumsum(new) - 1
    deadly = np.bincount(group, d) > 0.0
    times, of = t[new][deadly], s[new][deadly]
    last = (np.cumsum(deadly) - 1)[group]
    begin = np.searchsorted(of, s)
    low = begin if entry is None else np.maximum(begin, _events_up_to(times, of, entry[order], s))
    at_risk = last >= low
    order, last, low, begin, s, d = (a[at_risk] for a in (order, last, low, begin, s, d))
    died = np.flatnonzero(d)
    at, size = last[died], np.bincount(last[died], minlength=times.size)
    total: Array = np.bincount(at, None if weights is None else weights[order[died]], times.size).astype(np.float64)
    pseudo, share, multiplicity = None, np.zeros(times.size), total
    if ties == "efron" and size.max() > 1:
        pseudo = np.repeat(np.arange(times.size), size)
        first = np.cumsum(size) - size
        share = (np.arange(pseudo.size) - first[pseudo]) / size[pseudo]
        multiplicity = (total / size)[pseudo]
    rows_of = np.flatnonzero(np.append(True, s[1:] != s[:-1]))
    return RiskSets(
        order,
        died,
        at,
        np.searchsorted(last, np.arange(times.size)),
        low,
        bool((low > begin).any()),
        times,
        of,
        rows_of,
        begin[rows_of],
        pseudo,
        share,
        multiplicity,
    )


def _events_up_to(times: Array, of: Codes, entry: Array, stratum: Codes) -> Codes:
    """Return how many event times come up to each entry, those of earlier strata included."""
    if of[-1] == of[0] and stratum[-1] == stratum[0]:
        return np.searchsorted(times, entry, side="right")
    values, strata = np.concatenate([times, entry]), np.concatenate([of, stratum])
    is_entry = np.arange(values.size) >= times.size
    merged = np.lexsort((is_entry, values, strata))
    count = np.empty(values.size, dtype=np.intp)
    count[merged] = np.cumsum(~is_entry[merged])
    return count[times.size :]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Rows that are at risk in (entry, time], and what their likelihood needs beside the covariates."""

    time: Array
    dead: Mask
    entry: Array | None
    stratum: Codes | None
    weights: Array | None
    offset: Array | None
    ties: Ties

    def take(self, rows: Codes) -> Outcome:
        """Return a part of the rows."""
        entry, stratum, weights, offset = (
            None if a is None else a[rows] for a in (self.entry, self.stratum, self.weights, self.offset)
        )
        return Outcome(self.time[rows], self.dead[rows], entry, stratum, weights, offset, self.ties)  # type: ignore[arg-type]

    def risk_sets(self) -> RiskSets:
        """Return who is at risk when."""
        return risk_sets(self.time, self.dead, self.entry, self.stratum, self.weights, self.ties)


class Hazard(NamedTuple):
    """A cumulative baseline hazard with steps at event times, by stratum."""

    time: Array
    stratum: Codes
    jump: Array
    tied: Array  # what of a jump those who die there do not have


class ShiftCoordinates(Coordinates):
    """Coefficients alone: no baseline, and no constant to make up for the means."""

    def split(self, v: Array) -> tuple[Array, Array]:
        return np.zeros(0), v / self.scale

    def join(self, theta: Array, beta: Array) -> Array:
        return beta * self.scale

    @cached_property
    def jacobian(self) -> Array:
        """Return dbeta/dv."""
        return np.diag(1.0 / self.scale)


class _At(NamedTuple):
    """What all derivatives at one v need."""

    v: Array
    eta: Array
    w: Array
    weighted: Array  # w times weight
    S: Array
    hazard: Array  # of each row, without its w
    loglik: float


class PartialObjective(AnchoredObjective):
    """The anchor loss of a partial likelihood; see the module's docstring."""

    def __init__(
        self,
        link: Link,
        coordinates: Coordinates,
        anchors: Projection | None,
        outcome: Outcome,
        sets: RiskSets,
        X: Array,  # standardised, one row for each covariate, in the order of the risk sets
        names: tuple[str, ...],
    ) -> None:
        n = outcome.time.size
        total = float(n if outcome.weights is None else outcome.weights.sum())
        super().__init__(link, coordinates, anchors, names, n, total)
        self.outcome, self.sets, self.X = outcome, sets, X
        self._weights, self._offset = (None if a is None else a[sets.order] for a in (outcome.weights, outcome.offset))
        self._part = None if anchors is None else anchors.part(slice(None))
        self._here: _At | None = None

    def _at(self, v: Array) -> _At:
        if self._here is not None and np.array_equal(self._here.v, v):
            return self._here
        with np.errstate(all="ignore"):  # of a trial step
            eta = self.sets.centred(self._eta(v))
            w = np.exp(eta)
            weighted = self._times(w)
            S = self.sets.pseudo_sum(weighted)
            m, dead = self.sets.multiplicity, self.sets.dead
            loglik = float(self._times(eta)[dead].sum() - m @ np.log(S)) if S.min() > 0.0 else -math.inf
            self._here = _At(v.copy(), eta, w, weighted, S, self.sets.spread(m / S), loglik)
        return self._here

    def _eta(self, v: Array) -> Array:
        eta = v @ self.X
        return np.asarray(eta if self._offset is None else eta + self._offset)

    def _times(self, values: Array) -> Array:
        return values if self._weights is None else values * self._weights

    def _r(self, at: _At) -> Array:
        r = at.w * at.hazard
        r[self.sets.dead] -= 1.0
        return r

    def _all(self, values: Array) -> Array:
        """Return values of the rows of the risk sets for all rows; the others have 0."""
        result = np.zeros((self.n_rows, *values.shape[1:]))
        result[self.sets.order] = values
        return result

    def _anchor_sums(self, values: Array, sums: Array) -> None:
        assert self._part is not None  # noqa: S101
        self._part.add(sums, self._all(self._times(values)), None)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        at, s = self._at(v), np.zeros(self.n_sums)
        with np.errstate(all="ignore"):
            if self.anchors is not None:
                self._anchor_sums(self._r(at), s)
            return Sums(at.loglik, self._root(s))

    def slopes(self, v: Array, multiplier: Array | None = None) -> Array:
        """Return the derivatives of -loglik + multiplier't in the coefficients, of all columns at little cost."""
        sets, at = self.sets, self._at(v)
        pull = self._times(self._r(at))
        if multiplier is not None and self._part is not None:
            u = self._row_values(multiplier)
            mean = sets.pseudo_sum(at.weighted * u) / at.S
            pull += at.weighted * (at.hazard * u - sets.spread(sets.multiplicity / at.S * mean))
        return np.asarray(self.X @ pull)

    def restricted(self, columns: NDArray[np.intp]) -> PartialObjective:
        """Return the objective of some covariates alone, in the same coordinates: others have coefficient 0."""
        names = tuple(self.names[j] for j in columns)
        coordinates = self.coordinates.restricted(columns)
        return PartialObjective(self.link, coordinates, self.anchors, self.outcome, self.sets, self.X[columns], names)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of r along ``multiplier`` if given."""
        sets, at = self.sets, self._at(v)
        m, f, S = sets.multiplicity, sets.share, at.S
        p, G = self.n_parameters, np.zeros((self.n_parameters, self.n_sums))
        with np.errstate(all="ignore"):
            square = m / S**2
            b = [sets.by_time(square * f**q) for q in range(3)] if sets.tied else [square]
            u, a, curvature = None, b, at.hazard
            if multiplier is not None and self._part is not None:
                u = self._row_values(multiplier)
                mean = sets.pseudo_sum(at.weighted * u) / S
                a = [sets.by_time(square * (1.0 - 2.0 * mean) * f**q) for q in range(len(b))]
                curvature = (1.0 + u) * at.hazard - sets.spread(m * mean / S)
            H = _gram(self.X, at.weighted * curvature)
            risk, half = np.empty((2, p, sets.times.size))
            dying, other = np.empty((2, p if sets.tied else 0, sets.times.size))
            for j, x in enumerate(self.X):
                column = at.weighted * x
                risk[j] = sets.at_risk(column)
                if sets.tied:
                    dying[j] = sets.dying(column)
                if self.anchors is not None:
                    jump = b[0] * risk[j] - (b[1] * dying[j] if sets.tied else 0.0)
                    tied = b[1] * risk[j] - b[2] * dying[j] if sets.tied else None
                    self._anchor_sums(at.w * (x * at.hazard - sets.over(jump, tied)), G[j])
                half[j] = 0.5 * a[0] * risk[j]
                if sets.tied:
                    half[j] -= a[1] * dying[j]
                    other[j] = 0.5 * a[2] * dying[j]
                if u is not None:
                    column *= u
                    along = sets.at_risk(column)
                    half[j] += b[0] * along
                    if sets.tied:
                        died = sets.dying(column)
                        half[j] -= b[1] * died
                        other[j] += b[2] * died - b[1] * along
            product = risk @ half.T
            if sets.tied:
                product += dying @ other.T
            H -= product + product.T
            return Derivatives(self.X @ self._times(self._r(at)), H, self._root(np.ascontiguousarray(G.T)))

    def _row_values(self, t: Array) -> Array:
        """Return Q t in the rows of the risk sets."""
        assert self._part is not None  # noqa: S101
        return self._part.spread(self._spread(t))[self.sets.order]  # type: ignore[arg-type]

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        """Return what is known of a minimum.

        With u = 2 xi P r, the Hessian without the square of E is the sum over risk sets of
        E[(1 + u - mean u)(x - mean x)(x - mean x)'], so it is not negative where the range of u is at most 1.
        """
        if xi == 0.0:
            return "global"
        if self.anchors is None or not math.isfinite(xi):
            return "none"
        return "local" if 2.0 * xi * float(np.ptp(self._row_values(sums.t))) <= 1.0 else "none"

    def sample(self, size: int) -> PartialObjective:
        """Return the objective of about ``size`` rows of all times and strata, in the same coordinates."""
        order = self.sets.order
        step = max(1, order.size // size)
        first = np.arange(0, order.size, step)
        picks = np.minimum(first + np.random.default_rng(0).integers(0, step, first.size), order.size - 1)
        picks = picks[np.argsort(order[picks])]
        outcome = self.outcome.take(order[picks])
        if not outcome.dead.any():
            raise ArithmeticError("no event in the sample")
        anchors = None if self.anchors is None else self.anchors.subset(order[picks], outcome.weights)
        sets = outcome.risk_sets()
        X = self.X[:, picks[sets.order]]
        return PartialObjective(self.link, self.coordinates, anchors, outcome, sets, X, self.names)

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets."""
        return 0.0 if self._offset is None else float(self._offset.mean())

    def residuals(self, v: Array) -> Array:
        """Return Lambda - dead in the order of the objective's rows."""
        return self._all(self._r(self._at(v)))

    @property
    def weights(self) -> Array | None:
        """Return the weights of all rows."""
        return self.outcome.weights

    def residual_slopes(self, v: Array) -> Array:
        """Return Lambda, the derivative of each residual in its own shift while the baseline stays."""
        at = self._at(v)
        return self._all(at.w * at.hazard)

    def anchor_information(self, v: Array, slopes: Array) -> Array:
        """Return Q'W(dr/dshift)Q with what the baseline, which moves along, takes off."""
        assert self.anchors is not None  # noqa: S101
        at, sets = self._at(v), self.sets
        result = np.zeros((self.anchors.rank, self.n_sums))
        for unit, sums in zip(np.eye(self.anchors.rank), result, strict=True):
            q = self._row_values(unit)
            mean = sets.pseudo_sum(at.weighted * q) / at.S
            self._anchor_sums(at.w * (q * at.hazard - sets.spread(sets.multiplicity * mean / at.S)), sums)
        return self._root(result.T)

    def hazard(self, v: Array) -> Hazard:
        """Return the cumulative baseline hazard that goes with v, of rows with average covariates and no offset."""
        at, sets = self._at(v), self.sets
        top = np.maximum.reduceat(self._eta(v), sets.rows_of)
        jump = sets.multiplicity / at.S
        scale = np.exp(-sets.stretched(top))
        return Hazard(sets.times, sets.stratum, sets.by_time(jump) * scale, sets.by_time(sets.share * jump) * scale)

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield what each row's weight adds to the equations that v solves, times the bread."""
        at, sets = self._at(work.v), self.sets
        m, S, w = sets.multiplicity, at.S, at.w
        rows = np.zeros((sets.order.size, work.bread.shape[1]))

        def mean(values: Array) -> Array:
            return sets.pseudo_sum(at.weighted * values) / S

        def score(values: Array, centre: Array) -> Array:
            """Return the derivative of Dl[values] in the weights of rows."""
            result = -w * (values * at.hazard - sets.spread(m * centre / S))
            result[sets.dead] += values[sets.dead] - sets.mean_at_death(centre)
            return result

        u = None
        if self.anchors is not None and work.pull.any():
            u = self._row_values(work.pull)
            u_mean = mean(u)
            u_spread = sets.spread(m * u_mean / S)
        for x, bread in zip(self.X, work.bread, strict=True):
            x_mean = mean(x)
            own = -score(x, x_mean)
            if u is not None:
                covariance = mean(u * x) - u_mean * x_mean
                own[sets.dead] += sets.mean_at_death(covariance)
                own += w * (
                    u * (x * at.hazard - sets.spread(m * x_mean / S))
                    - x * u_spread
                    + sets.spread(m * (u_mean * x_mean - covariance) / S)
                )
            rows += own[:, None] * bread
        result = self._all(rows)
        if self.anchors is not None and self._part is not None:
            Pr = self._part.spread(self.anchors.coefficients(self.sums(work.v).t))
            for j, direction in enumerate(self._part.spread(self.anchors.coefficients(work.K)).T):
                along = direction[sets.order]
                result[:, j] -= self._all(score(along, mean(along))) + direction * Pr
        yield slice(0, self.n_rows), result if work.every is None else result + work.every

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> InfluenceInputs:
        """Return what ``shares`` needs."""
        return InfluenceInputs(v, pull, bread, K)

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if the likelihood is monotone in some direction."""
        found = ordering(self.gain, self.broken)
        if found is not None:
            what = f"a combination of {', '.join(found.names(0, self.names))}"
            raise SeparationError(
                f"monotone likelihood: {what} is largest, among all at risk, for whoever has the event, so that the "
                "partial likelihood grows without a maximum; leave a covariate out, or collect rows that overlap"
            )

    @cached_property
    def gain(self) -> Array:
        """Return the sum of x_i - x_j over all who die and all j at risk then."""
        sets = self.sets
        size, ones = sets.n_dead, np.ones(sets.order.size)
        at_risk = sets.at_risk(ones)
        return np.array([at_risk @ sets.dying(x) - size @ sets.at_risk(x) for x in self.X])

    def broken(self, direction: Array, tolerance: float) -> Array:
        """Return x_i - x_j for those who die with less of the direction than a j at risk has, for the largest j."""
        sets, value = self.sets, direction @ self.X
        best = sets.largest(value)[sets.dead_at]
        below = np.flatnonzero(value[sets.dead] < value[best] - tolerance)
        return np.asarray((self.X[:, sets.dead[below]] - self.X[:, best[below]]).T)


def row_logliks(outcome: Outcome, eta: Array) -> Array:
    """Return the share of each row in the log-likelihood: of those who die together, an equal one."""
    result = np.zeros(eta.size)
    if not outcome.dead.any():
        return result
    sets = outcome.risk_sets()
    eta = sets.centred((eta if outcome.offset is None else eta + outcome.offset)[sets.order])
    weights = 1.0 if outcome.weights is None else outcome.weights[sets.order]
    result[sets.order[sets.dead]] = eta[sets.dead] - sets.mean_at_death(_log_sums(sets, eta, weights))
    return result


@np.errstate(all="ignore")  # of sums that are not taken
def _log_sums(sets: RiskSets, eta: Array, weights: Array | float) -> Array:
    """Return log S_e[1], also of those at risk whose exp(eta) is too small for a number."""
    result = np.log(sets.pseudo_sum(weights * np.exp(eta)))
    left = ~(result > -FAR)
    if left.any():
        top = eta[sets.largest(eta)]
        top = top if sets.pseudo is None else top[sets.pseudo]
        while left.any():
            centre = top[left].max()
            here = left & (top > centre - FAR)
            result[here] = centre + np.log(sets.pseudo_sum(weights * np.exp(eta - centre)))[here]
            left &= ~here
    return np.asarray(result)


def _gram(X: Array, weights: Array) -> Array:
    """Return X diag(weights) X', a block of rows at a time."""
    result = np.zeros((X.shape[0], X.shape[0]))
    for start in range(0, weights.size, BLOCK_ROWS):
        part = X[:, start : start + BLOCK_ROWS]
        result += (part * weights[start : start + BLOCK_ROWS]) @ part.T
    return result


def build_partial(
    link: Link,
    outcome: Outcome,
    X: Array,
    anchors: AnchorColumns | None,
    anchor_intercept: bool,
    names: tuple[str, ...],
) -> PartialObjective:
    """Return the anchor loss of these rows; rows are ordered by the main anchor factor inside."""
    if not outcome.dead.any():
        raise IdentificationError("no row has an event: a partial likelihood has nothing to compare")
    order = None if anchors is None else anchors.order()
    if order is not None and anchors is not None:
        outcome, anchors = outcome.take(order), anchors.take(order)
    projected = None if anchors is None else projection(anchors, outcome.weights, anchor_intercept)
    sets = outcome.risk_sets()
    mean = X.mean(axis=0)
    scale = np.array([float(np.sqrt(np.mean((x - c) ** 2))) for x, c in zip(X.T, mean, strict=True)])
    if not scale.all():
        raise IdentificationError(f"constant covariates: {', '.join(np.array(names)[scale == 0.0])}; leave them out")
    rows = sets.order if order is None else order[sets.order]
    C = np.empty((X.shape[1], rows.size))
    for j in range(X.shape[1]):
        C[j] = (X[rows, j] - mean[j]) / scale[j]
    free = np.full(scale.size, np.inf)
    coordinates = ShiftCoordinates(np.zeros((0, 0)), mean, scale, -free, free)
    return PartialObjective(link, coordinates, projected, outcome, sets, C, names)
