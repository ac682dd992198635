"""Rows as functions of a shift of their place: h becomes h - delta, and a linear predictor of a mean eta + delta.

A positive shift means larger outcomes, in every model. Rows have averages over the law of a shift, each on its own or
all rows of a place together. A row with delayed entry has the likelihood given that it entered, at every shift.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.engine.rows.ends import End, Ends
from anchortm.engine.rows.shift_law import ShiftLaw, Values
from anchortm.links import Link, OneEnd, TwoEnds

__all__ = ["ShiftedEnds", "ShiftedHazards", "ShiftedMeans", "ShiftedRows"]

ROWS = 2000  # rows in one pass


class ShiftedRows(ABC):
    """The log-likelihoods of rows as functions of a shift."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def concave(self) -> bool:
        """Return whether every log-likelihood is a concave function of the shift."""

    @property
    def unit(self) -> float:
        """Return the scale of the shift: 1, unless it is in units of the outcome."""
        return 1.0

    @abstractmethod
    def __call__(self, delta: Array) -> tuple[Array, Array, Array]:
        """Return l, its derivative in delta and minus the second one, at shifts of shape (rows, K)."""

    @abstractmethod
    def part(self, rows: NDArray[np.intp]) -> ShiftedRows:
        """Return some of the rows."""

    @classmethod
    @abstractmethod
    def joined(cls, several: Sequence[Any]) -> ShiftedRows:
        """Return several sets of rows as one."""

    def pieces(self) -> list[tuple[NDArray[np.intp], ShiftedRows]]:
        """Return the rows in pieces of bounded size, with their positions."""
        if self.n_rows <= ROWS:
            return [(np.arange(self.n_rows), self)]
        rows = np.arange(self.n_rows)
        return [(rows[k : k + ROWS], self.part(rows[k : k + ROWS])) for k in range(0, self.n_rows, ROWS)]

    def averages(self, law: ShiftLaw) -> tuple[Array, Array]:
        """Return the log of the average of exp(l) over the shift, row by row, and the mean score residual of each.

        The residual is the mean over the posterior distribution of the shift given the row: the derivative of the log
        average in a common shift.
        """
        logs, residuals = np.empty(self.n_rows), np.empty(self.n_rows)
        for rows, part in self.pieces():
            found = law.average(part, rows.size, self.concave)
            logs[rows] = found.log
            with np.errstate(all="ignore"):
                r = part(found.points)[1]
                residuals[rows] = np.where(found.log_shares > -np.inf, found.shares * r, 0.0).sum(axis=1)
        return logs, residuals

    def by_place(self, place: NDArray[np.intp], n_places: int, weights: Array | None = None) -> Values:
        """Return the log-likelihoods of places as functions of their shifts: sums over rows, by weight."""
        weights = np.ones(self.n_rows) if weights is None else weights
        shape = (n_places, self.n_rows)
        of = sp.csr_array((weights, (place, np.arange(self.n_rows))), shape=shape)
        pieces = [(rows, part, of[:, rows]) for rows, part in self.pieces()]

        def values(delta: Array) -> tuple[Array, Array, Array]:
            total = np.zeros((3, n_places, delta.shape[1]))
            for rows, part, adder in pieces:
                for k, found in enumerate(part(delta[place[rows]])):
                    total[k] += adder @ found
            return total[0], total[1], total[2]

        return values

    def together(self, weights: Array | None = None) -> Values:
        """Return the log-likelihood of all rows as that of one place."""
        return self.by_place(np.zeros(self.n_rows, dtype=np.intp), 1, weights)


@dataclass(frozen=True, eq=False)
class ShiftedEnds(ShiftedRows):
    """Rows of a transformation model, by h at their ends."""

    link: Link
    ends: Ends

    @property
    def n_rows(self) -> int:
        return self.ends.n_rows

    @property
    def concave(self) -> bool:
        return all(part.sign == 1 for part in self.ends.parts)  # log-concave links

    def __call__(self, delta: Array) -> tuple[Array, Array, Array]:
        found = np.zeros((3, *delta.shape))
        with np.errstate(all="ignore"):
            for part in self.ends.parts:
                t = _values(self.link, part, part.h[:, None] - delta[part.rows])
                l = t.l + np.log(part.other)[:, None] if part.kind == "exact" else t.l  # noqa: E741
                for total, value in zip(found, (l, t.r, t.dr), strict=True):
                    total[part.rows] += part.sign * value
        return found[0], found[1], found[2]

    def part(self, rows: NDArray[np.intp]) -> ShiftedEnds:
        mask = np.zeros(self.n_rows, dtype=np.bool_)
        mask[rows] = True
        return ShiftedEnds(self.link, self.ends.take(mask))

    @classmethod
    def joined(cls, several: Sequence[ShiftedEnds]) -> ShiftedEnds:
        """Return several sets of rows as one; they have the same link."""
        return cls(several[0].link, Ends.joined([own.ends for own in several]))


def _values(link: Link, part: End, h: Array) -> OneEnd | TwoEnds:
    match part.kind:
        case "exact":
            return link.exact(h)
        case "left":
            return link.left(h)
        case "right":
            return link.right(h)
    width = np.broadcast_to(part.other[:, None], h.shape)
    return link.interval(h - width, h, width)


@dataclass(frozen=True, eq=False)
class ShiftedHazards(ShiftedRows):
    """Rows under a baseline of steps: l = -event delta - expected exp(-delta), up to a constant.

    ``expected`` is the cumulative hazard of a row between entry and exit, with a constant hazard between the times of
    the steps, so that an event between two of them is possible. The constant, the log hazard at the time of an event,
    is left out.
    """

    event: Array
    expected: Array

    @classmethod
    def under(cls, curves: Sequence[Any], stratum: NDArray[np.intp], shift: Array, response: Any) -> ShiftedHazards:
        """Return rows with these outcomes, by the cumulative hazards of the strata and the log hazard ratios."""
        event = response.lower == response.upper
        time, total = np.where(event, response.upper, response.lower), np.zeros(shift.size)
        for code, curve in enumerate(curves):
            own = stratum == code
            places, values = np.append(0.0, curve.time), np.append(0.0, curve.total)
            start = 0.0 if response.entry is None else np.interp(response.entry[own], places, values)
            total[own] = np.interp(time[own], places, values) - start
        with np.errstate(over="ignore"):
            return cls(event.astype(np.float64), total * np.exp(shift))

    @property
    def n_rows(self) -> int:
        return self.event.size

    @property
    def concave(self) -> bool:
        return True

    def __call__(self, delta: Array) -> tuple[Array, Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            expected = np.where(self.expected[:, None] > 0.0, self.expected[:, None] * np.exp(-delta), 0.0)
        return -self.event[:, None] * delta - expected, expected - self.event[:, None], expected

    def part(self, rows: NDArray[np.intp]) -> ShiftedHazards:
        return ShiftedHazards(self.event[rows], self.expected[rows])

    @classmethod
    def joined(cls, several: Sequence[ShiftedHazards]) -> ShiftedHazards:
        """Return several sets of rows as one."""
        return cls(*(np.concatenate([getattr(own, name) for own in several]) for name in ("event", "expected")))


@dataclass(frozen=True, eq=False)
class ShiftedMeans(ShiftedRows):
    """Rows of a generalised linear model, by their linear predictors and outcomes; each has its family."""

    families: tuple[Any, ...]  # families of sets of rows, one after the other
    sizes: tuple[int, ...]  # sizes of these sets
    eta: Array
    outcome: Array

    @classmethod
    def of(cls, family: Any, eta: Array, outcome: Array) -> ShiftedMeans:
        """Return rows of one family."""
        return cls((family,), (eta.size,), eta, outcome)

    @property
    def n_rows(self) -> int:
        return self.eta.size

    @property
    def concave(self) -> bool:
        return all(family.concave for family in self.families)

    @property
    def unit(self) -> float:
        families = [family for family in self.families if family.affine]
        return float(np.mean([math.sqrt(family.dispersion) for family in families])) if families else 1.0

    def __call__(self, delta: Array) -> tuple[Array, Array, Array]:
        eta, found, first = self.eta[:, None] + delta, np.empty((3, *delta.shape)), 0
        with np.errstate(all="ignore"):
            for family, size in zip(self.families, self.sizes, strict=True):
                own = slice(first, first + size)
                at, y = eta[own].ravel(), np.repeat(self.outcome[own], delta.shape[1], axis=0)
                t = family.score_terms(at, y)
                l = t.l if family.discrete else family.loglik(at, y)  # noqa: E741
                values = (l, -t.r / family.dispersion, t.dr / family.dispersion)
                for total, value in zip(found, values, strict=True):
                    total[own] = np.reshape(value, (size, delta.shape[1]))
                first += size
        return found[0], found[1], found[2]

    def part(self, rows: NDArray[np.intp]) -> ShiftedMeans:
        ends = np.cumsum(self.sizes)
        counts = np.bincount(np.searchsorted(ends, rows, side="right"), minlength=len(self.sizes))
        return ShiftedMeans(self.families, tuple(counts.tolist()), self.eta[rows], self.outcome[rows])

    @classmethod
    def joined(cls, several: Sequence[ShiftedMeans]) -> ShiftedMeans:
        """Return several sets of rows as one."""
        families = tuple(family for own in several for family in own.families)
        sizes = tuple(size for own in several for size in own.sizes)
        if len(set(families)) == 1:
            families, sizes = families[:1], (sum(sizes),)
        eta, outcome = (np.concatenate([getattr(own, name) for own in several]) for name in ("eta", "outcome"))
        return cls(families, sizes, eta, outcome)
