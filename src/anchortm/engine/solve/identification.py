"""Do the data determine the parameters? Cheap checks before a fit, with answers that name rows and columns.

Rows of one kind only, constant covariates, collinear covariates. Whether the likelihood has a maximum is asked after a
fit, if it found no strict one; see ``objective.separation``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.standardised import BLOCK_ROWS, column_ends, column_sums, scale_columns
from anchortm.exceptions import IdentificationError, SeparationError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.inputs.response import Response
from anchortm.kernels import rows as compiled

__all__ = [
    "HARDLY",
    "Checked",
    "CovariateSums",
    "WideSums",
    "anchors_explained",
    "check_counts",
    "check_covariates",
    "check_kinds",
    "check_level_ends",
    "check_levels",
    "check_size",
    "covariate_ranges",
    "level_ends",
    "still",
]

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-10
NEARLY = 1e-6  # with a smaller eigenvalue of the correlations, columns are turned for the solver
SUMS_TELL = 1e-11  # smallest such eigenvalue if only sums are known: rows in batches, wide factors
EPSILON = float(np.finfo(float).eps)
RESOLVED = 5e-8  # least share of a column that others may leave unexplained; R drops columns with less too
UNTURNED = 1e-5  # the same if the solver does not turn the columns
HARDLY = 1e-4  # a smaller share is worth a warning
CHECKED_ROWS = 4096  # rows of a block that stays in the cache
SQUARED = (1e-120, 1e120)  # sums of squares of numbers of these sizes are doubles
SOME_ROWS, MOST_EXPLAINING = 1000, 500  # rows for a first look at the anchors, most covariates for a full look


def check_kinds(response: Response) -> None:
    """Refuse a response whose rows are all censored on the same side, or carry no information."""
    if not (np.isfinite(response.lower) | np.isfinite(response.upper)).any():
        raise IdentificationError(
            f"no row says anything about the outcome: all {len(response)} are (-inf, inf), or times censored at 0; "
            "are the ends of Interval, or time and event of Surv, the right columns?"
        )
    if response.scale not in ("ordinal", "count"):
        check_counts(response.counts())


def check_counts(counts: dict[str, int]) -> None:
    """Refuse rows, counted by kind, that are all censored on the same side."""
    found = [kind for kind, number in counts.items() if number]
    if found in (["left"], ["right"]):
        side = found[0]
        where = "below" if side == "left" else "above"
        raise IdentificationError(
            f"all {counts[side]} rows are {side}-censored: every distribution {where} them is equally likely; "
            "at least one row must say something about the other side"
        )


def level_ends(response: Response, X: Matrix) -> Array:
    """Return for each level of a wide factor the numbers of rows with a finite lower and with a finite upper end."""
    if not isinstance(X, WideMatrix) or X.codes is None:
        return np.zeros((2, 0))
    ends = (response.lower, response.upper)
    return np.array([np.bincount(X.codes, np.isfinite(end), X.n_levels) for end in ends])


def check_levels(response: Response, X: Matrix, names: Sequence[str]) -> None:
    """Refuse levels of a wide factor whose rows are all at one end, so that their effect has no finite estimate."""
    check_level_ends(response.scale, level_ends(response, X), X, names)


def check_level_ends(scale: str, ends: Array, X: Matrix, names: Sequence[str]) -> None:
    """Refuse the same levels by the counts that ``level_ends`` gives."""
    if not isinstance(X, WideMatrix):
        return
    lowest, highest = {"ordinal": ("in the lowest class", "in the highest class"), "count": ("0", "the highest")}.get(
        scale, ("left-censored", "right-censored")
    )
    for inner, what in zip(ends, (lowest, highest), strict=True):
        bare = np.flatnonzero(inner == 0.0)
        if bare.size:
            raise SeparationError(
                f"separation: all rows of {_listed(bare, X, names)} are {what}, so that the likelihood grows without a "
                "maximum; leave these rows out, or merge the levels with others"
            )


def _listed(levels: NDArray[np.intp], X: WideMatrix, names: Sequence[str]) -> str:
    called = [names[X.levels.start + j - 1] if j else f"{X.factor}, {X.reference}" for j in levels[:8].tolist()]
    return ", ".join(called) + (f" and {levels.size - 8} more levels" if levels.size > 8 else "")


def check_size(p: int, n: int, constant: Callable[[], Sequence[str]] = tuple) -> None:
    """Refuse more covariates than rows can identify; ``constant`` gives the names of those that are constant."""
    if p and p + 1 >= n:
        raise IdentificationError(
            f"{p} covariates for {n} rows: more parameters than the rows can identify; leave covariates out",
            constant(),
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

    Columns with a penalty are not checked, because the penalty determines their coefficients. If columns are nearly
    collinear the solver turns the first ``turned`` of them (None: all), and can then tell more of them apart.
    """
    n, p = X.shape
    if p == 0:
        return Checked(np.zeros((2, 0)))
    if penalised is not None and isinstance(X, np.ndarray):
        own = np.flatnonzero(~penalised).tolist()
        check_covariates(X[:, own], [names[j] for j in own])
        return Checked(covariate_ranges(X))
    check_size(p, n, lambda: [name for name, low, high in zip(names, *covariate_ranges(X), strict=True) if low == high])
    if isinstance(X, WideMatrix):
        _check_wide(X, names)
        return Checked(covariate_ranges(X))
    low, high, centre, unit, sums = _sums_of(X)
    correlation = sums.correlation(names, still(low, high, centre))
    ranges = np.array([low, high])
    if np.linalg.eigvalsh(correlation)[0] > NEARLY:
        return Checked(ranges)
    # a QR decomposition of the columns has twice as many correct digits as their correlations
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


def _centred(X: Array, centre: Array, low: Array, high: Array) -> Array:
    """Return X - centre, and extend the ends ``low`` and ``high`` of the columns."""
    found = compiled.centred(X, centre, low, high)
    if found is not None:
        return found
    lowest, highest = column_ends(X)
    np.minimum(low, lowest, out=low)
    np.maximum(high, highest, out=high)
    Z = np.array(X, order="C")
    scale_columns(Z, None, centre)
    return Z


def _sums_of(X: Array) -> tuple[Array, Array, Array, Array, CovariateSums]:
    """Return ends, centres and units of the columns, and their sums in these units, from one pass over the rows."""
    n, p = X.shape
    blocks = [slice(start, start + CHECKED_ROWS) for start in range(0, n, CHECKED_ROWS)]
    centre = X[:: max(1, n // 1000)].mean(axis=0)
    low, high, total, gram = np.full(p, np.inf), np.full(p, -np.inf), np.zeros(p), np.zeros((p, p))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in blocks:
            Z = _centred(X[block], centre, low, high)
            ones = np.ones(Z.shape[0])
            if not compiled.add_gram(Z, ones, ones, total, gram):
                total += column_sums(Z)
                gram += Z.T @ Z
    spread = np.maximum(high - centre, centre - low)
    unit = np.where(spread > 0.0, spread, 1.0)
    if unit.min() > SQUARED[0] and unit.max() < SQUARED[1]:
        return low, high, centre, unit, CovariateSums(n, total / unit, gram / np.outer(unit, unit))
    parts = [CovariateSums.of((X[block] - centre) / unit) for block in blocks]
    return low, high, centre, unit, sum(parts[1:], parts[0])


@dataclass(frozen=True, eq=False)
class CovariateSums:
    """Sums of covariates that were centred near their means and divided by about their spread."""

    n: int
    total: Array
    gram: Array

    @classmethod
    def of(cls, Z: Array) -> CovariateSums:
        """Return the sums over these rows."""
        return cls(Z.shape[0], Z.sum(axis=0), Z.T @ Z)

    def __add__(self, other: CovariateSums) -> CovariateSums:
        return CovariateSums(self.n + other.n, self.total + other.total, self.gram + other.gram)

    def check(self, names: Sequence[str], constant: NDArray[np.bool_], own: NDArray[np.bool_]) -> None:
        """Refuse constant or collinear columns among those that are ``own``, by name."""
        at = np.flatnonzero(own)
        part = CovariateSums(self.n, self.total[at], self.gram[np.ix_(at, at)])
        named = [names[j] for j in at.tolist()]
        _check_correlation(part.correlation(named, constant[at]), named)

    def correlation(self, names: Sequence[str], constant: NDArray[np.bool_]) -> Array:
        """Return the correlations of the columns; refuse constant ones."""
        _refuse_constant(constant, names)
        gram = self.gram - np.outer(self.total, self.total) / self.n
        scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        return np.asarray(gram * np.outer(scale, scale))


@dataclass(frozen=True, eq=False)
class WideSums:
    """Sums of the columns of a wide design but for the levels of its factor: of all rows, and of those of each level.

    Columns of numbers come first, centred near their means and divided by about their spread; then the sparse ones.
    """

    count: Array  # rows of each level
    total: Array  # a row for each level
    gram: Array

    @classmethod
    def of(cls, X: WideMatrix, numbers: Array) -> WideSums:
        """Return the sums over these rows; ``numbers`` are the columns of numbers."""
        groups, count = _groups(X)
        return cls(count, np.hstack([groups @ numbers, (groups @ X.sparse).toarray()]), _gram(X, numbers))

    def __add__(self, other: WideSums) -> WideSums:
        return WideSums(self.count + other.count, self.total + other.total, self.gram + other.gram)

    def check(self, X: WideMatrix, names: Sequence[str], own: Sequence[str], constant: NDArray[np.bool_]) -> None:
        """Refuse levels without rows, and columns that are collinear given the levels.

        ``own`` are the names of these columns, ``names`` those of all, ``constant`` tells of the columns of numbers.
        """
        _refuse_empty(self.count, X, names)
        spread = np.diag(self.gram) - self.total.sum(axis=0) ** 2 / self.count.sum()
        within = self.gram - self.total.T @ (self.total / self.count[:, None])
        _check_within(X, own, constant, np.diag(self.gram), spread, within)


def _check_correlation(correlation: Array, names: Sequence[str]) -> None:
    """Refuse columns whose correlations show that they are collinear."""
    values, vectors = np.linalg.eigh(correlation)
    if values.size and values[0] <= SUMS_TELL:
        _refuse_collinear(np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3).tolist(), names)


def _refuse_collinear(involved: Sequence[int], names: Sequence[str]) -> NoReturn:
    listed = ", ".join(names[j] for j in involved[:8]) + (", ..." if len(involved) > 8 else "")
    splines = any(names[j].startswith(("cr(", "cs(", "cc(")) for j in involved)
    hint = ", or give the spline constraints='center'" if splines else ""
    raise IdentificationError(
        f"collinear covariates: {listed}; leave one of them out{hint}", [names[j] for j in involved], collinear=True
    )


def anchors_explained(anchors: AnchorColumns, X: Matrix) -> bool:
    """Return whether all anchors are combinations of the covariates and a constant.

    Score residuals of a maximum-likelihood fit are orthogonal to these, so that the penalty is zero. A few rows are
    usually enough to decide; for designs that are too large for a look at all rows the answer is False.
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
    if rank < p + 1:  # these rows are not enough: take all
        Z, A = both(slice(None))
        coef = np.linalg.lstsq(Z, A, rcond=None)[0]
    limit = 1e-9 * np.abs(A - A.mean(axis=0)).max(axis=0)
    parts = [slice(None, None, step), *(slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS))]
    return all(bool((np.abs(A - Z @ coef).max(axis=0) <= limit).all()) for Z, A in map(both, parts))


def _constant_within(codes: NDArray[np.int32], values: NDArray[Any]) -> bool:
    """Return whether values are constant within each level."""
    own = np.zeros(int(codes.max()) + 1, dtype=values.dtype)
    own[codes] = values
    return bool((own[codes] == values).all())


def covariate_ranges(X: Matrix) -> Array:
    """Return the smallest and largest value of each covariate."""
    if not isinstance(X, WideMatrix):
        return np.array(column_ends(X)) if X.shape[0] else np.array([[np.inf], [-np.inf]]) * np.ones(X.shape[1])
    low, high = np.zeros(X.shape[1]), np.ones(X.shape[1])
    low[X.dense_at], high[X.dense_at] = X.dense.min(axis=0), X.dense.max(axis=0)
    if X.sparse_at.size:
        low[X.sparse_at] = X.sparse.min(axis=0).toarray().ravel()
        high[X.sparse_at] = X.sparse.max(axis=0).toarray().ravel()
    return np.array([low, high])


def still(low: Array, high: Array, centre: Array) -> NDArray[np.bool_]:
    """Return which columns with these ends are constant but for rounding."""
    spread = np.maximum(high - centre, centre - low)
    return np.asarray(spread <= 1e-12 * np.maximum(np.abs(centre), np.finfo(float).tiny))


def _groups(X: WideMatrix) -> tuple[sp.csr_matrix, Array]:
    """Return the levels as a sparse matrix of ones with a row for each, and their numbers of rows."""
    n = X.shape[0]
    codes = np.zeros(n, dtype=np.int32) if X.codes is None else X.codes
    count = np.bincount(codes, minlength=max(1, X.n_levels))
    return sp.csr_matrix((np.ones(n), codes, np.arange(n + 1)), shape=(n, count.size)).T, count.astype(np.float64)


def _gram(X: WideMatrix, numbers: Array) -> Array:
    across = np.asarray(X.sparse.T @ numbers)
    return np.block([[numbers.T @ numbers, across.T], [across, (X.sparse.T @ X.sparse).toarray()]])


def _check_wide(X: WideMatrix, names: Sequence[str]) -> None:
    """Refuse levels without rows, and columns that are collinear given the levels."""
    own = [names[j] for j in (*X.dense_at.tolist(), *X.sparse_at.tolist())]
    groups, count = _groups(X)
    _refuse_empty(count, X, names)
    # numeric columns in units of their spread; their deviations within levels are orthogonal to the levels
    centre = X.dense.mean(axis=0)
    numbers = X.dense - centre
    size = np.abs(numbers).max(axis=0, initial=0.0)
    numbers /= np.where(size > 0.0, size, 1.0)
    spread = np.einsum("ij,ij->j", numbers, numbers)
    numbers -= (groups.T @ ((groups @ numbers) / count[:, None])).reshape(numbers.shape)
    sums = (groups @ X.sparse).toarray()
    within = _gram(X, numbers)
    d = size.size
    squares = np.diag(within).copy()
    spread = np.append(spread, squares[d:] - sums.sum(axis=0) ** 2 / X.shape[0])
    within[d:, d:] -= sums.T @ (sums / count[:, None])
    low, high = covariate_ranges(X)[:, X.dense_at]
    constant = still(low, high, centre)
    _check_within(X, own, constant, squares, spread, within)


def _check_within(
    X: WideMatrix, own: Sequence[str], constant: NDArray[np.bool_], squares: Array, spread: Array, within: Array
) -> None:
    """Refuse columns that are constant, constant within levels, or collinear given the levels.

    ``squares`` and ``spread`` are their sums of squares around 0 and around their means, ``within`` their products
    around the means of their levels.
    """
    d = constant.size
    _refuse_constant(np.append(constant, spread[d:] <= 1e-12 * squares[d:]), own)
    fixed = np.diag(within) <= RANK_TOLERANCE * spread
    if fixed.any():
        named = [own[j] for j in np.flatnonzero(fixed).tolist()]
        raise IdentificationError(
            f"constant within every level of {X.factor}: {', '.join(named)}; such effects cannot be separated from "
            "those of the levels: leave these covariates out, or the factor",
            named,
        )
    if len(own):
        scale = 1.0 / np.sqrt(np.diag(within))
        _check_correlation(within * np.outer(scale, scale), own)


def _refuse_empty(count: Array, X: WideMatrix, names: Sequence[str]) -> None:
    """Refuse levels without rows."""
    empty = np.flatnonzero(count == 0.0)
    if empty.size:
        raise IdentificationError(
            f"no row has {_listed(empty, X, names)}: leave such levels out"
            if empty[0]
            else f"the {X.factor} add up to 1 in every row, as the baseline's intercept does: leave one of them out",
            [names[X.levels.start + j - 1] for j in empty.tolist() if j] or names[X.levels],
            collinear=empty.size == 1 and not empty[0],
        )


def _refuse_constant(constant: NDArray[np.bool_], names: Sequence[str]) -> None:
    """Refuse constant columns, by name."""
    if constant.any():
        named = [names[j] for j in np.flatnonzero(constant).tolist()]
        listed = ", ".join(named)
        raise IdentificationError(
            f"constant covariates: {listed}; leave them out (the baseline has its own intercept)", named
        )
