"""Risk sets of a partial likelihood: who is at risk at each event time, and sums over them.

Both ways to treat ties are one sum over *pseudo-events* e. Breslow has one at each event time, with the weight of those
who die; Efron has one for each of the d who die together, the l-th with f = l / d:

    S_e[V] = sum_{at risk} weight_j w_j V_j - f_e sum_{dying} weight_j w_j V_j,      w = exp(eta)

All sums are running sums over sorted times: one sort, then O(n) for each column, or O(n + times log times) if rows
enter late.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.running_sums import Halves, make_halves, padded, spread

__all__ = ["Outcome", "RiskSets", "Ties", "risk_sets", "row_logliks"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Ties = Literal["efron", "breslow"]

MOST_RUNS = 1000  # strata whose sums run one after the other
FAR = 600.0  # exp(eta) that is further below the largest has few correct digits or none


@dataclass(frozen=True, eq=False)
class RiskSets:
    """Who is at risk when.

    Rows that are at risk at no event time are left out; the others are sorted by stratum and time.
    """

    order: Codes  # the rows
    dead: Codes  # positions in ``order`` of those who die
    dead_at: Codes  # their event times
    starts: Codes  # position of the first row whose last event time is this one
    first: Codes  # first event time of each row
    late: bool  # whether rows enter after an event time of their stratum
    times: Array
    stratum: Codes  # stratum of each event time
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
        """Return the event times of each stratum, for running sums; None if rows enter late or strata are many."""
        return None if self.late or self.times_of.size > MOST_RUNS else self._strata()

    @cached_property
    def _halves(self) -> list[Halves]:
        return make_halves(self.first, np.repeat(np.arange(self.times.size), self._counts))

    def stretched(self, values: Array) -> Array:
        """Return values of strata, repeated for each of their event times."""
        return np.repeat(values, np.diff(np.append(self.times_of, self.times.size)))

    def at_risk(self, values: Array) -> Array:
        """Return the sum over those at risk at each event time, of values or of each row of a matrix."""
        if self._running is not None:
            new = np.add.reduceat(values, self.starts, axis=-1)
            for own in self._running:
                new[..., own] = np.cumsum(new[..., own][..., ::-1], axis=-1)[..., ::-1]
            return np.asarray(new)
        if values.ndim > 1:
            return np.array([self.at_risk(row) for row in values])
        total = padded(np.zeros(0), self.times.size)
        for part in self._halves:
            total.reshape(-1, part.size)[part.blocks] += part.gathered(values[part.rows])
        return total[: self.times.size]

    def dying(self, values: Array) -> Array:
        """Return the sum over those who die at each event time, of values or of each row of a matrix."""
        return np.asarray(np.add.reduceat(values[..., self.dead], self._first_dead, axis=-1))

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
            result = spread(self._halves, jump, self.order.size)
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
        """Return the same if rows enter late: from the last event time back, with a heap."""
        ends = np.append(self.starts, values.size)
        top = np.empty(self.times.size, dtype=np.intp)
        for own in self._strata():
            queue: list[tuple[float, int]] = []
            for k in range(own.stop - 1, own.start - 1, -1):
                for i in range(ends[k], ends[k + 1]):
                    heapq.heappush(queue, (-values[i], i))
                while self.first[queue[0][1]] > k:  # it enters later
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
    """Return the number of event times up to each entry, those of earlier strata included."""
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
    """Rows that are at risk in (entry, time], and what their likelihood needs besides the covariates."""

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


def row_logliks(outcome: Outcome, eta: Array) -> Array:
    """Return the share of each row in the log-likelihood; rows that die together have equal shares."""
    result = np.zeros(eta.size)
    if not outcome.dead.any():
        return result
    sets = outcome.risk_sets()
    eta = sets.centred((eta if outcome.offset is None else eta + outcome.offset)[sets.order])
    weights = 1.0 if outcome.weights is None else outcome.weights[sets.order]
    result[sets.order[sets.dead]] = eta[sets.dead] - sets.mean_at_death(_log_sums(sets, eta, weights))
    return result


@np.errstate(all="ignore")  # some sums are computed and not used
def _log_sums(sets: RiskSets, eta: Array, weights: Array | float) -> Array:
    """Return log S_e[1], even if exp(eta) underflows for all who are at risk."""
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
