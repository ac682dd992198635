"""Do the data determine the parameters? Named answers instead of a run to the iteration limit.

Cheap checks come first: rows of one kind only, constant or collinear covariates. Whether
the likelihood has a maximiser at all is a linear programme over its directions of
recession (Albert and Anderson's separation, for every kind of row):

    left-censored c_u'd >= 0,  right-censored c_v'd <= 0,  interval both,
    exact c'd = 0 and c'(y)'d >= 0,  increments d_j >= 0

A direction with some strict inequality means that the likelihood grows for ever along it.
The programme is solved only where a strict optimum has not been certified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from anchortm.engine.objective.partial_likelihood import PartialObjective
from anchortm.engine.objective.plain import Objective
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.engine.rows.standardised import BLOCK_ROWS, Coordinates, Rows
from anchortm.exceptions import IdentificationError, SeparationError
from anchortm.families import Family
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.design import MAX_DENSE, Matrix, WideMatrix
from anchortm.inputs.response import Response

__all__ = [
    "HARDLY",
    "Checked",
    "CovariateSums",
    "anchors_explained",
    "check_counts",
    "check_covariates",
    "check_kinds",
    "check_levels",
    "check_separation",
    "check_size",
    "recession_direction",
]

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-10
NEARLY = 1e-6  # eigenvalue of the correlations below which columns are turned for the solver
SUMS_TELL = 1e-11  # the least that it may be where only sums are known, in batches and with wide factors
EPSILON = float(np.finfo(float).eps)
RESOLVED = 5e-8  # of a column that others must not explain: less is lost in single precision, and R drops it too
UNTURNED = 1e-5  # the same where the solver works with the columns as they are
HARDLY = 1e-4  # less of it is worth a warning
SLACK_TOLERANCE = 1e-7
GAIN_TOLERANCE = 1e-9
LP_ROWS = 20_000
SOME_ROWS, MOST_EXPLAINING = 1000, 500  # rows for a first look at the anchors, covariates for a look at all
MOST_ROUNDS = 20


def check_kinds(response: Response) -> None:
    """Refuse a response whose rows are all censored on one side, or have no ends at all."""
    if not (np.isfinite(response.lower) | np.isfinite(response.upper)).any():
        raise IdentificationError(
            f"no row says anything about the outcome: all {len(response)} are (-inf, inf), or times censored at 0; "
            "are the ends of Interval, or time and event of Surv, the right columns?"
        )
    if response.scale not in ("ordinal", "count"):
        check_counts(response.counts())


def check_counts(counts: dict[str, int]) -> None:
    """Refuse numbers of exact, left-, right- and interval-censored rows that are all censored on one side."""
    found = [kind for kind, number in counts.items() if number]
    if found in (["left"], ["right"]):
        side = found[0]
        where = "below" if side == "left" else "above"
        raise IdentificationError(
            f"all {counts[side]} rows are {side}-censored: every distribution {where} them is equally likely; "
            "at least one row must say something about the other side"
        )


def check_levels(response: Response, X: Matrix, names: Sequence[str]) -> None:
    """Refuse levels of a wide factor whose rows are all at one end, so that their effect has no finite estimate."""
    if not isinstance(X, WideMatrix) or X.codes is None:
        return
    lowest, highest = {"ordinal": ("in the lowest class", "in the highest class"), "count": ("0", "the highest")}.get(
        response.scale, ("left-censored", "right-censored")
    )
    for inner, what in ((np.isfinite(response.lower), lowest), (np.isfinite(response.upper), highest)):
        bare = np.flatnonzero(np.bincount(X.codes, inner, X.n_levels) == 0.0)
        if bare.size:
            raise SeparationError(
                f"separation: all rows of {_listed(bare, X, names)} are {what}, so that the likelihood grows without a "
                "maximum; leave these rows out, or merge the levels with others"
            )


def _listed(levels: NDArray[np.intp], X: WideMatrix, names: Sequence[str]) -> str:
    called = [names[X.levels.start + j - 1] if j else f"{X.factor}, {X.reference}" for j in levels[:8].tolist()]
    return ", ".join(called) + (f" and {levels.size - 8} more levels" if levels.size > 8 else "")


def check_size(p: int, n: int) -> None:
    """Refuse more covariates than rows can identify."""
    if p and p + 1 >= n:
        raise IdentificationError(
            f"{p} covariates for {n} rows: more parameters than the rows can identify; leave covariates out"
        )


class Checked(NamedTuple):
    """The smallest and largest value of each covariate, and which of them are nearly collinear.

    ``share`` is the root of the share of their variance that the other covariates do not explain.
    """

    ranges: Array
    near: tuple[int, ...] = ()
    share: float = 1.0


def check_covariates(
    X: Matrix, names: Sequence[str], penalised: NDArray[np.bool_] | None = None, turned: int | None = 0
) -> Checked:
    """Refuse constant, duplicated or collinear covariates, by name.

    Coefficients that a penalty determines may belong to any columns: of these only the values are returned. The solver
    turns the first ``turned`` columns where they are nearly collinear (None: all of them), and tells more apart then.
    """
    n, p = X.shape
    if p == 0:
        return Checked(np.zeros((2, 0)))
    if penalised is not None and isinstance(X, np.ndarray):
        own = np.flatnonzero(~penalised).tolist()
        check_covariates(X[:, own], [names[j] for j in own])
        return Checked(np.array([X.min(axis=0), X.max(axis=0)]))
    check_size(p, n)
    if isinstance(X, WideMatrix):
        _check_wide(X, names)
        return Checked(_wide_ranges(X))
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]
    centre = X[:: max(1, n // 1000)].mean(axis=0)
    low = np.min([X[block].min(axis=0) for block in blocks], axis=0)
    high = np.max([X[block].max(axis=0) for block in blocks], axis=0)
    spread = np.maximum(high - centre, centre - low)
    unit = np.where(spread > 0.0, spread, 1.0)
    sums = [CovariateSums.of(X[block], centre, unit) for block in blocks]
    correlation = sum(sums[1:], sums[0]).correlation(names, spread)
    ranges = np.array([low, high])
    if np.linalg.eigvalsh(correlation)[0] > NEARLY:
        return Checked(ranges)
    # correlations have lost half of the digits that a look at the columns themselves has
    R = np.linalg.qr((X - X.mean(axis=0)) / unit, mode="r")
    R /= np.linalg.norm(R, axis=0)
    _, sizes, directions = np.linalg.svd(R)
    near = tuple(np.flatnonzero(np.abs(directions[-1]) > 1e-3).tolist())
    if sizes[-1] <= EPSILON:
        _refuse_collinear(near, names)
    share = float(1.0 / np.linalg.norm(la.solve_triangular(R, np.eye(p)), axis=1).max())
    if share < (RESOLVED if turned is None or max(near) < turned else UNTURNED):
        _refuse_collinear(near, names)
    return Checked(ranges, near, share)


@dataclass(frozen=True, eq=False)
class CovariateSums:
    """Sums of the covariates around a centre near their means, in units of about their spread."""

    n: int
    centre: Array
    unit: Array
    total: Array
    gram: Array

    @classmethod
    def of(cls, X: Array, centre: Array, unit: Array) -> CovariateSums:
        """Return the sums over these rows."""
        Z = (X - centre) / unit
        return cls(X.shape[0], centre, unit, Z.sum(axis=0), Z.T @ Z)

    def __add__(self, other: CovariateSums) -> CovariateSums:
        return CovariateSums(self.n + other.n, self.centre, self.unit, self.total + other.total, self.gram + other.gram)

    def check(self, names: Sequence[str], spread: Array) -> None:
        """Refuse constant or collinear columns, by name; ``spread`` is how far they go from the centre."""
        _check_correlation(self.correlation(names, spread), names)

    def correlation(self, names: Sequence[str], spread: Array) -> Array:
        """Return the correlations of the columns; refuse constant ones."""
        constant = spread <= 1e-12 * np.maximum(np.abs(self.centre), np.finfo(float).tiny)
        if constant.any():
            listed = ", ".join(names[j] for j in np.flatnonzero(constant).tolist())
            raise IdentificationError(
                f"constant covariates: {listed}; leave them out (the baseline has its own intercept)"
            )
        gram = self.gram - np.outer(self.total, self.total) / self.n
        scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        return np.asarray(gram * np.outer(scale, scale))


def _check_correlation(correlation: Array, names: Sequence[str]) -> None:
    """Refuse columns that are collinear as far as their correlations can tell."""
    values, vectors = np.linalg.eigh(correlation)
    if values.size and values[0] <= SUMS_TELL:
        _refuse_collinear(np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3).tolist(), names)


def _refuse_collinear(involved: Sequence[int], names: Sequence[str]) -> NoReturn:
    listed = ", ".join(names[j] for j in involved[:8]) + (", ..." if len(involved) > 8 else "")
    splines = any(names[j].startswith(("cr(", "cs(", "cc(")) for j in involved)
    hint = ", or give the spline constraints='center'" if splines else ""
    raise IdentificationError(f"collinear covariates: {listed}; leave one of them out{hint}")


def anchors_explained(anchors: AnchorColumns, X: Matrix) -> bool:
    """Return whether all anchors are combinations of the covariates and a constant.

    Score residuals of a maximum-likelihood fit are orthogonal to those, so that the penalty is zero there. Some rows
    tell nearly always; designs that are too large for a look at all rows count as not explaining anything.
    """
    n, p = X.shape
    if isinstance(X, WideMatrix):
        return X.codes is not None and all(
            _constant_within(X.codes, column) for column in (*anchors.factors, *anchors.columns.T)
        )
    directions = anchors.columns.shape[1] + sum(levels.size - 1 for levels in anchors.levels)
    if not 0 < directions <= p or p > MOST_EXPLAINING:
        return False
    step = max(1, n // max(SOME_ROWS, 4 * p))
    centre, size = X[::step].mean(axis=0), np.abs(X[::step] - X[::step].mean(axis=0)).max(axis=0)
    unit = np.where(size > 0.0, size, 1.0)

    def both(rows: slice) -> tuple[Array, Array]:
        own = anchors.take(rows)
        dummies = [np.eye(levels.size)[codes] for codes, levels in zip(own.factors, own.levels, strict=True)]
        return np.insert((X[rows] - centre) / unit, 0, 1.0, axis=1), np.hstack([*dummies, own.columns])

    Z, A = both(slice(None, None, step))
    coef, _, rank, _ = np.linalg.lstsq(Z, A, rcond=None)
    if rank < p + 1:  # these rows lack something: all rows are asked
        Z, A = both(slice(None))
        coef = np.linalg.lstsq(Z, A, rcond=None)[0]
    limit = 1e-9 * np.abs(A - A.mean(axis=0)).max(axis=0)
    parts = [slice(None, None, step), *(slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS))]
    return all(bool((np.abs(A - Z @ coef).max(axis=0) <= limit).all()) for Z, A in map(both, parts))


def _constant_within(codes: NDArray[np.int32], values: NDArray[Any]) -> bool:
    """Return whether values are those of the level that a row belongs to."""
    own = np.zeros(int(codes.max()) + 1, dtype=values.dtype)
    own[codes] = values
    return bool((own[codes] == values).all())


def _wide_ranges(X: WideMatrix) -> Array:
    low, high = np.zeros(X.shape[1]), np.ones(X.shape[1])
    low[X.dense_at], high[X.dense_at] = X.dense.min(axis=0), X.dense.max(axis=0)
    if X.sparse_at.size:
        low[X.sparse_at] = X.sparse.min(axis=0).toarray().ravel()
        high[X.sparse_at] = X.sparse.max(axis=0).toarray().ravel()
    return np.array([low, high])


def _check_wide(X: WideMatrix, names: Sequence[str]) -> None:
    """Refuse levels without rows, and columns that are collinear given the levels."""
    n, _ = X.shape
    own = [names[j] for j in (*X.dense_at.tolist(), *X.sparse_at.tolist())]
    codes = np.zeros(n, dtype=np.int32) if X.codes is None else X.codes
    count = np.bincount(codes, minlength=max(1, X.n_levels))
    if not count.all():
        empty = np.flatnonzero(count == 0)
        raise IdentificationError(
            f"no row has {_listed(empty, X, names)}: leave such levels out"
            if empty[0]
            else f"the {X.factor} add up to 1 in every row, as the baseline's intercept does: leave one of them out"
        )
    # numbers in units of their spread; what is left of them within levels is orthogonal to the levels
    numbers = X.dense - X.dense.mean(axis=0)
    size = np.abs(numbers).max(axis=0, initial=0.0)
    numbers /= np.where(size > 0.0, size, 1.0)
    spread = np.einsum("ij,ij->j", numbers, numbers)
    groups = sp.csr_matrix((np.ones(n), codes, np.arange(n + 1)), shape=(n, count.size)).T
    numbers -= ((groups @ numbers) / count[:, None])[codes]
    sums = (groups @ X.sparse).toarray()
    inner = (X.sparse.T @ X.sparse).toarray()
    spread = np.append(spread, np.diag(inner) - sums.sum(axis=0) ** 2 / n)
    still = size <= 1e-12 * np.abs(X.dense).max(axis=0, initial=0.0)
    constant = np.append(still, spread[size.size :] <= 1e-12 * np.diag(inner))
    if constant.any():
        listed = ", ".join(own[j] for j in np.flatnonzero(constant).tolist())
        raise IdentificationError(f"constant covariates: {listed}; leave them out (the baseline has its own intercept)")
    across = np.asarray(X.sparse.T @ numbers)
    within = np.block([[numbers.T @ numbers, across.T], [across, inner - sums.T @ (sums / count[:, None])]])
    fixed = np.diag(within) <= RANK_TOLERANCE * spread
    if fixed.any():
        listed = ", ".join(own[j] for j in np.flatnonzero(fixed).tolist())
        raise IdentificationError(
            f"constant within every level of {X.factor}: {listed}; such effects cannot be told from those of the "
            "levels: leave these covariates out, or the factor"
        )
    if own:
        scale = 1.0 / np.sqrt(np.diag(within))
        _check_correlation(within * np.outer(scale, scale), own)


def check_separation(objective: Objective) -> None:
    """Raise ``SeparationError`` if the likelihood has no maximiser.

    With a wide factor and many rows the programme is too large, and the question stays open.
    """
    if isinstance(objective, MixedObjective):  # what separates rows does so whatever the effects of clusters
        objective = objective.fixed
    if objective.coordinates.wide is not None and objective.n_rows * objective.n_parameters > MAX_DENSE:
        return
    found = recession_direction(objective)
    if found is None:
        return
    direction, exact = found
    k = objective.coordinates.n_baseline
    size = np.abs(direction)
    names = [objective.names[j] for j in np.flatnonzero(size[k:] > 1e-6 * size.max())]
    what = f"a combination of {', '.join(names)}" if names else "the baseline transformation alone"
    remedy = (
        "leave a covariate out, merge classes"
        if names
        else "lower the order, take OrdinalRegression for a few different counts"
    )
    if isinstance(objective, PartialObjective):
        raise SeparationError(
            f"monotone likelihood: {what} is largest, among all at risk, for whoever has the event, so that the "
            "partial likelihood grows without a maximum; leave a covariate out, or collect rows that overlap"
        )
    if isinstance(objective.link, Family):
        raise SeparationError(
            f"separation: along {what if names else 'the intercept alone'} the mean can go to the end of its range for "
            "rows that are all there (counts of 0, trials without a success or a failure) and stay for all others, so "
            "that the likelihood grows without a maximum; leave a covariate out, merge levels, or collect rows that "
            "overlap"
        )
    if exact:
        raise SeparationError(
            f"the likelihood is unbounded: {what} can make the density at the exact rows as large as one likes; "
            + (
                "the covariates explain y without error (is y, or what it was made of, among them?): leave them out"
                if names
                else "there are too few distinct exact rows for the basis: lower the order or widen the support"
            )
        )
    raise SeparationError(
        f"complete or quasi-complete separation: {what} orders the rows without error, so that the likelihood grows "
        f"without a maximum; {remedy}, or collect rows that overlap"
    )


def recession_direction(objective: Objective) -> tuple[Array, bool] | None:
    """Return a direction along which the likelihood never falls and somewhere grows, or None.

    The second value says whether exact rows gain (the likelihood is unbounded). Rows that are elsewhere are asked
    for what contradicts a direction that those at hand allow.
    """
    if isinstance(objective, PartialObjective):
        direction = _ordering(objective)
        return None if direction is None else (direction, False)
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    fixed = lower == upper
    low = np.where(fixed, 0.0, np.where(np.isfinite(lower), 0.0, -1.0))
    high = np.where(fixed, 0.0, 1.0)
    coordinates = objective.coordinates
    family = objective.link if isinstance(objective.link, Family) else None
    known = Conditions.of(objective.blocks.at_hand, coordinates, family)
    everywhere = objective.blocks.elsewhere(lambda terms: Conditions.of(terms, coordinates).sums())
    if everywhere is not None:
        known = replace(known, gram=everywhere.gram, gain=everywhere.gain)
    for _ in range(MOST_ROUNDS):
        equal = known.equal()
        basis = la.null_space(equal, rcond=1e-10) if equal.shape[0] else np.eye(objective.n_parameters)
        if basis.shape[1] == 0 or known.slack.shape[0] == 0:
            return None
        direction = _maximise(known.slack, known.gain, basis, low, high)
        if direction is None:
            return None
        more = objective.blocks.elsewhere(lambda terms: known.broken_by(terms, direction))  # noqa: B023
        if more is None:
            return direction, bool((known.slack[known.gains] @ direction > SLACK_TOLERANCE).any())
        known = known + more
    return None


def _ordering(objective: PartialObjective) -> Array | None:
    """Return a direction in which whoever dies is never below anyone at risk and sometimes above, or None.

    Pairs of rows are too many: those that contradict a direction are added to the programme until none does.
    """
    p = objective.n_parameters
    if p == 0:
        return None
    starts = np.vstack([objective.gain, np.eye(p), -np.eye(p)])
    slack = np.vstack([objective.broken(start, 0.0)[: LP_ROWS // starts.shape[0]] for start in starts])
    for _ in range(MOST_ROUNDS):
        ones = np.ones(p)
        direction = _maximise(slack, objective.gain, np.eye(p), -ones, ones) if slack.size else objective.gain
        if direction is None or not direction.any():
            return None
        broken = objective.broken(direction, SLACK_TOLERANCE)
        if broken.shape[0] == 0:
            return direction
        slack = np.vstack([slack, broken[: LP_ROWS // 4]])
    return None


@dataclass(frozen=True, eq=False)
class Conditions:
    """What rows ask of a direction of recession: some products zero, others not negative."""

    coordinates: Coordinates
    gram: Array  # of the rows whose products must be zero
    gain: Array  # sum of the rows whose products must not be negative, each in units of its largest number
    slack: Array  # these rows, or those of them that are known
    gains: NDArray[np.bool_]  # which of them are exact

    @classmethod
    def of(cls, terms: Iterable[Rows], coordinates: Coordinates, family: Family | None = None) -> Conditions:
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
            elif family is not None and term.outcome is not None:
                C, way = whole(term, term.C), family.ways(term.outcome)
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
        """Return the sums alone."""
        return replace(self, slack=self.slack[:0], gains=self.gains[:0])

    def equal(self) -> Array:
        """Return rows that span those whose products must be zero."""
        if not self.gram.any():
            return np.zeros((0, self.gram.shape[0]))
        values, vectors = np.linalg.eigh(self.gram)
        return np.asarray(vectors[:, values > RANK_TOLERANCE * values[-1]].T)

    def broken_by(self, terms: Iterable[Rows], direction: Array) -> Conditions | None:
        """Return the rows that a direction breaks, or the first of them; their sums are known."""
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

    With many rows the programme starts from a sample and adds the rows that it violates.
    """
    inside = slack @ basis
    norms = np.abs(inside).max(axis=1)
    inside = inside[norms > 1e-12] / norms[norms > 1e-12, None]
    if inside.shape[0] == 0:
        return None
    use = np.arange(0, inside.shape[0], max(1, inside.shape[0] // LP_ROWS))
    objective = gain @ basis
    objective /= max(float(np.abs(objective).max()), 1e-300)
    bounds = np.vstack([basis, -basis])
    limits = np.concatenate([high, -low])
    for _ in range(MOST_ROUNDS):
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
        broken = np.flatnonzero(inside @ result.x < -SLACK_TOLERANCE)
        if broken.size == 0:
            return np.asarray(basis @ result.x)
        use = np.union1d(use, broken[: LP_ROWS // 4])
    return None
