"""Does the likelihood have a maximum? A linear programme over its directions of recession.

Albert and Anderson's separation, for every kind of row: along a direction d the likelihood never falls if

    left-censored c_u'd >= 0,  right-censored c_v'd <= 0,  interval both,
    exact c'd = 0 and c'(y)'d >= 0,  increments d_j >= 0

If some inequality is strict, the likelihood grows without bound along d and has no maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.optimize import linprog

from anchortm.engine.rows.blocks import Blocks
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.standardised import Rows

__all__ = ["Recession", "Ways", "ordering", "recession", "rows_against", "separated"]

Array = NDArray[np.float64]
Ways = Callable[[Array], NDArray[np.int8]]  # where eta can go without a loss of likelihood: 1 up, -1 down, 0 neither

RANK_TOLERANCE = 1e-10
SLACK_TOLERANCE = 1e-7
GAIN_TOLERANCE = 1e-9
LP_ROWS = 20_000
FIRST_ROWS = 500  # a few hundred rows nearly always settle the question, in a tenth of the time
MOST_ROUNDS = 20


class Recession(NamedTuple):
    """A direction along which the likelihood never falls and somewhere grows."""

    direction: Array
    unbounded: bool = False  # the density at exact rows grows without limit

    def names(self, n_baseline: int, names: tuple[str, ...]) -> list[str]:
        """Return the names of the coefficients that move."""
        size = np.abs(self.direction)
        return [names[j] for j in np.flatnonzero(size[n_baseline:] > 1e-6 * size.max())]


def separated(names: list[str], found: Recession) -> str:
    """Return the message about a likelihood that grows without limit along these coefficients."""
    what = f"a combination of {', '.join(names)}" if names else "the baseline transformation alone"
    if found.unbounded:
        reason = (
            "the covariates explain y without error (is y, or a variable that it was computed from, among them?): "
            "leave them out"
            if names
            else "there are too few distinct exact rows for the basis: lower the order or widen the support"
        )
        return f"the likelihood is unbounded: {what} can make the density at the exact rows arbitrarily large; {reason}"
    remedy = (
        "leave a covariate out, merge classes"
        if names
        else "lower the order, use OrdinalRegression for a few different counts"
    )
    return (
        f"complete or quasi-complete separation: {what} orders the rows without error, so that the likelihood "
        f"grows without a maximum; {remedy}, or collect rows that overlap"
    )


def recession(blocks: Blocks, coordinates: Coordinates, ways: Ways | None = None) -> Recession | None:
    """Return a direction of recession, or None if there is none.

    A direction that the rows in memory allow is checked against all others. For outcomes of a family, ``ways`` says
    which way eta can go in each row without a loss of likelihood.
    """
    lower, upper = coordinates.lower, coordinates.upper
    fixed = lower == upper
    low = np.where(fixed, 0.0, np.where(np.isfinite(lower), 0.0, -1.0))
    high = np.where(fixed, 0.0, 1.0)
    known = Conditions.of(blocks.at_hand, coordinates, ways)
    everywhere = blocks.elsewhere(lambda terms: Conditions.of(terms, coordinates).sums())
    if everywhere is not None:
        known = replace(known, gram=everywhere.gram, gain=everywhere.gain)
    for _ in range(MOST_ROUNDS):
        equal = known.equal()
        basis = la.null_space(equal, rcond=1e-10) if equal.shape[0] else np.eye(lower.size)
        if basis.shape[1] == 0 or known.slack.shape[0] == 0:
            return None
        direction = _maximise(known.slack, known.gain, basis, low, high)
        if direction is None:
            return None
        more = blocks.elsewhere(lambda terms: known.broken_by(terms, direction))  # noqa: B023
        if more is None:
            return Recession(direction, bool((known.slack[known.gains] @ direction > SLACK_TOLERANCE).any()))
        known = known + more
    return None


def rows_against(
    terms: Iterable[Rows], coordinates: Coordinates, direction: Array, tolerance: float, ways: Ways | None = None
) -> int:
    """Return how many of these rows lose likelihood along a direction, by more than a share of their largest number."""
    against = 0
    for term in terms:
        if ways is not None and term.outcome is not None:
            way, along, limit = ways(term.outcome), term.C @ direction, tolerance * _sizes(term.C)
            against += int(np.where(way == 0, np.abs(along) > limit, way * along < -limit).sum())
            continue
        found = Conditions.of([term], coordinates)
        size = term.rows.size
        slack = (found.slack @ direction < -tolerance * _sizes(found.slack)).reshape(-1, size).any(axis=0)
        if term.kind == "exact":
            slack |= np.abs(term.C @ direction) > tolerance * _sizes(term.C)
        against += int(slack.sum())
    return against


def ordering(gain: Array, broken: Callable[[Array, float], Array]) -> Recession | None:
    """Return a direction in which whoever has the event is never below anyone at risk and sometimes above, or None.

    ``gain`` is the sum of x_i - x_j over all events i and all j at risk, ``broken`` gives those differences that
    contradict a direction by more than a tolerance. Pairs of rows are too many for one programme, so those that
    contradict a direction are added until none does.
    """
    p = gain.size
    if p == 0:
        return None
    starts = np.vstack([gain, np.eye(p), -np.eye(p)])
    slack = np.vstack([broken(start, 0.0)[: LP_ROWS // starts.shape[0]] for start in starts])
    for _ in range(MOST_ROUNDS):
        ones = np.ones(p)
        direction = _maximise(slack, gain, np.eye(p), -ones, ones) if slack.size else gain
        if direction is None or not direction.any():
            return None
        against = broken(direction, SLACK_TOLERANCE)
        if against.shape[0] == 0:
            return Recession(direction)
        slack = np.vstack([slack, against[: LP_ROWS // 4]])
    return None


@dataclass(frozen=True, eq=False)
class Conditions:
    """What rows ask of a direction of recession: some products are zero, others not negative."""

    coordinates: Coordinates
    gram: Array  # Gram matrix of the rows whose products must be zero
    gain: Array  # sum of the rows whose products must not be negative, each in units of its largest number
    slack: Array  # these rows, or those of them that are in memory
    gains: NDArray[np.bool_]  # which of them are exact

    @classmethod
    def of(cls, terms: Iterable[Rows], coordinates: Coordinates, ways: Ways | None = None) -> Conditions:
        """Return the conditions of these rows."""
        k, d = coordinates.n_baseline, coordinates.scale.size
        gram = np.zeros((d, d))
        slack, gains = [np.zeros((0, d))], [np.zeros(0, dtype=bool)]

        def add(rows: Array, exact: bool = False) -> None:
            slack.append(rows)
            gains.append(np.full(rows.shape[0], exact))

        def whole(term: Rows, rows: Array) -> Array:
            """Return rows with the columns of a wide design."""
            if term.wide is None:
                return rows
            levels = [] if term.wide.codes is None else [term.wide.dummies().toarray()]
            return coordinates.fold(np.hstack([rows, term.wide.sparse.toarray(), *levels]))

        for term in terms:
            side = float(term.sign)
            if term.kind == "exact" and term.slope is not None:
                C = whole(term, term.C)
                gram += C.T @ C
                add(np.hstack([term.slope, np.zeros((term.slope.shape[0], d - k))]), exact=True)
            elif ways is not None and term.outcome is not None:
                C, way = whole(term, term.C), ways(term.outcome)
                gram += C[way == 0].T @ C[way == 0]
                add(C[way == 1])
                add(-C[way == -1])
            elif term.ends is not None:
                lower, difference = term.ends.dense()
                add(side * whole(term, np.hstack([lower + difference, term.C])))
                add(-side * whole(term, np.hstack([lower, term.C])))
            else:
                add((side if term.kind == "left" else -side) * whole(term, term.C))
        rows = np.concatenate(slack)
        return cls(coordinates, gram, (rows / _sizes(rows)[:, None]).sum(axis=0), rows, np.concatenate(gains))

    def sums(self) -> Conditions:
        """Return the conditions without their rows, the sums alone."""
        return replace(self, slack=self.slack[:0], gains=self.gains[:0])

    def equal(self) -> Array:
        """Return rows that span those whose products must be zero."""
        if not self.gram.any():
            return np.zeros((0, self.gram.shape[0]))
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray(vectors[:, values > RANK_TOLERANCE * values[-1]].T)

    def broken_by(self, terms: Iterable[Rows], direction: Array) -> Conditions | None:
        """Return the first rows whose conditions a direction violates, None if it violates none."""
        found = Conditions.of(terms, self.coordinates)
        broken = np.flatnonzero(found.slack @ direction < -SLACK_TOLERANCE * _sizes(found.slack))[: LP_ROWS // 4]
        if broken.size == 0:
            return None
        none = np.zeros_like(found.gram)
        return Conditions(self.coordinates, none, none[0], found.slack[broken], found.gains[broken])

    def __add__(self, other: Conditions) -> Conditions:
        return Conditions(
            self.coordinates,
            self.gram + other.gram,
            self.gain + other.gain,
            np.vstack([self.slack, other.slack]),
            np.concatenate([self.gains, other.gains]),
        )


def _sizes(rows: Array) -> Array:
    return np.asarray(np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300))


def _maximise(slack: Array, gain: Array, basis: Array, low: Array, high: Array) -> Array | None:
    """Return the direction with the largest gain, the sum of the slacks of all rows, or None if that is zero.

    The programme starts from a sample of the rows and adds the rows that its solution violates, the worst first.
    """
    inside = slack @ basis
    norms = np.abs(inside).max(axis=1)
    inside = inside[norms > 1e-12] / norms[norms > 1e-12, None]
    if inside.shape[0] == 0:
        return None
    use = _sample(inside, FIRST_ROWS)
    objective = gain @ basis
    objective /= max(float(np.abs(objective).max()), 1e-300)
    bounds = np.vstack([basis, -basis])
    limits = np.concatenate([high, -low])
    for k in range(MOST_ROUNDS):
        if k == MOST_ROUNDS // 2:  # adding what is violated does not settle it soon
            use = np.union1d(use, _sample(inside, LP_ROWS))
        rows = inside[use]
        result = linprog(
            -objective,
            A_ub=np.vstack([-rows, bounds]),
            b_ub=np.concatenate([np.zeros(rows.shape[0]), limits]),
            bounds=(None, None),
            method="highs",
        )
        # a direction that gains reaches the box; without one, rounding may leave a short step
        if result.status != 0 or -result.fun <= GAIN_TOLERANCE or np.abs(basis @ result.x).max() < 1e-3:
            return None
        slacks = inside @ result.x
        broken = np.flatnonzero(slacks < -SLACK_TOLERANCE)
        if broken.size == 0:
            return np.asarray(basis @ result.x)
        worst = broken[np.argsort(slacks[broken], kind="stable")]
        use = np.union1d(use, worst[: min(use.size, LP_ROWS // 4)])
    return None


def _sample(rows: Array, most: int) -> NDArray[np.int64]:
    """Return evenly spaced positions of rows, about as many as asked for."""
    return np.arange(0, rows.shape[0], max(1, rows.shape[0] // most))
