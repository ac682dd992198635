"""Covariates: a frame or an array in, a float64 matrix and column names out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._typing import Array, Covariates, Rows
from anchortm._util.checks import as_floats, is_missing
from anchortm._util.frames import is_frame, native
from anchortm.exceptions import InputError, InputTypeError, MissingValueError
from anchortm.inputs.splines import Marks

__all__ = [
    "SMOOTH",
    "WIDE",
    "Design",
    "Matrix",
    "WideMatrix",
    "check_columns",
    "columns_of",
    "joined",
    "split_columns",
    "to_design",
    "without_anchors",
]

SMOOTH = "smooth terms of anchortm"  # key in the attrs of a frame, for the marks of its columns
WIDE = 100  # a factor with more levels is held as codes, not as columns
MAX_SPARSE = 3000  # sparse columns beside the factor
MAX_DENSE = 50_000_000  # entries of a wide matrix that may be filled in where a method needs them all
REMEDY = "code it as numbers, for example with pd.get_dummies, or give it as an anchor"
FULL = 0.1  # a sparse column with a larger share of entries is held as a dense one


@dataclass(frozen=True, eq=False)
class WideMatrix:
    """Covariates that are mostly zeros: columns of numbers, sparse columns, and the levels of one factor as codes.

    Code 0 is the reference, the level without a column; the others' columns stand at ``levels``.
    """

    dense: Array
    dense_at: NDArray[np.intp]
    sparse: sp.csr_matrix
    sparse_at: NDArray[np.intp]
    codes: NDArray[np.int32] | None
    levels: slice
    factor: str = ""
    reference: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return self.dense.shape[0], self.dense_at.size + self.sparse_at.size + self.levels.stop - self.levels.start

    @property
    def n_levels(self) -> int:
        """Return the number of levels, the reference included."""
        return 0 if self.codes is None else self.levels.stop - self.levels.start + 1

    def __getitem__(self, rows: Rows) -> WideMatrix:
        codes = None if self.codes is None else self.codes[rows]
        return replace(self, dense=self.dense[rows], sparse=self.sparse[rows], codes=codes)

    def __matmul__(self, coef: Array) -> Array:
        result = self.dense @ coef[self.dense_at] + self.sparse @ coef[self.sparse_at]
        if self.codes is not None:
            result += np.append(0.0, coef[self.levels])[self.codes]
        return np.asarray(result)

    def columns(self, places: Sequence[int]) -> Array:
        """Return some columns as numbers."""
        found = np.zeros((self.shape[0], len(places)))
        dense, sparse = ({int(at): j for j, at in enumerate(own)} for own in (self.dense_at, self.sparse_at))
        for k, place in enumerate(places):
            if place in dense:
                found[:, k] = self.dense[:, dense[place]]
            elif place in sparse:
                found[:, k] = self.sparse[:, [sparse[place]]].toarray()[:, 0]
            else:
                found[:, k] = self.codes == place - self.levels.start + 1
        return found

    def without(self, places: Sequence[int]) -> WideMatrix:
        """Return the other columns; without its column a level of the factor becomes the reference."""
        gone, codes = np.array(sorted(places), dtype=np.intp), self.codes
        if codes is not None:
            kept = ~np.isin(np.arange(self.levels.start, self.levels.stop), gone)
            codes = np.append(0, np.where(kept, np.cumsum(kept), 0)).astype(np.int32)[codes]
        dense, sparse = (~np.isin(own, gone) for own in (self.dense_at, self.sparse_at))
        moved = [own - np.searchsorted(gone, own) for own in (self.dense_at[dense], self.sparse_at[sparse])]
        start, stop = (int(end - np.searchsorted(gone, end)) for end in (self.levels.start, self.levels.stop))
        columns = {"dense": self.dense[:, dense], "sparse": self.sparse[:, np.flatnonzero(sparse)]}
        levels = slice(start, stop)
        return replace(self, **columns, dense_at=moved[0], sparse_at=moved[1], levels=levels, codes=codes)

    def refuse_levels(self, places: Sequence[int]) -> None:
        """Refuse levels of the factor among columns whose effects vary."""
        if any(self.levels.start <= place < self.levels.stop for place in places):
            raise InputError(f"the levels of {self.factor} are too many for effects that vary: merge levels")

    def joined(self, columns: Array) -> WideMatrix:
        """Return the matrix with more columns of numbers at its end."""
        places = self.shape[1] + np.arange(columns.shape[1])
        return replace(self, dense=np.hstack([self.dense, columns]), dense_at=np.append(self.dense_at, places))

    def toarray(self) -> Array:
        """Return all columns as numbers; refuse too many."""
        n, p = self.shape
        if n * p > MAX_DENSE:
            raise InputError(
                f"this needs all {p} columns of {n} rows as numbers, which is too many: use fewer rows, or merge levels"
            )
        result = np.zeros((n, p))
        result[:, self.dense_at] = self.dense
        result[:, self.sparse_at] = self.sparse.toarray()
        if self.codes is not None:
            own = np.flatnonzero(self.codes)
            result[own, self.levels.start + self.codes[own] - 1] = 1.0
        return result


Matrix = Array | WideMatrix


def columns_of(matrix: Matrix, places: Sequence[int]) -> Array:
    """Return some columns of covariates as numbers."""
    return matrix.columns(places) if isinstance(matrix, WideMatrix) else matrix[:, list(places)]


def joined(matrix: Matrix, columns: Array) -> Matrix:
    """Return covariates with more columns of numbers at their end."""
    return matrix.joined(columns) if isinstance(matrix, WideMatrix) else np.hstack([matrix, columns])


class Design(NamedTuple):
    """A matrix of covariates and their names; ``named`` says whether the user named them."""

    matrix: Any  # a Matrix; Any, as most code takes arrays only and to_design(wide=False) gives one
    names: tuple[str, ...]
    named: bool
    smooth: Marks | None = None  # which columns belong to smooth terms, None if no column does
    labels: Any = None  # a frame of the strata and clusters of the rows, if a formula has them

    @property
    def marks(self) -> Marks:
        """Return which smooth term each column belongs to, if any."""
        return (None,) * len(self.names) if self.smooth is None else self.smooth

    def without(self, columns: Sequence[int]) -> Design:
        """Return the design without these columns."""
        if not columns:
            return self
        kept = [j for j in range(len(self.names)) if j not in set(columns)]
        names, marks = tuple(self.names[j] for j in kept), tuple(self.marks[j] for j in kept)
        wide = isinstance(self.matrix, WideMatrix)
        matrix = self.matrix.without(columns) if wide else np.delete(self.matrix, columns, axis=1)
        return Design(matrix, names, self.named, marks)


def to_design(X: Covariates | Design, n_rows: int | None = None, wide: bool = False) -> Design:
    """Return the covariates as numbers; ``None`` is a design without columns.

    With ``wide``, sparse and wide covariates stay as they are.
    """
    given: Any = X
    if sp.issparse(given):
        if not wide:
            raise InputTypeError("sparse X is not supported here: pass a dense array, X.toarray()")
        given = _from_sparse(given)
    if isinstance(given, Design):
        return given if wide or isinstance(given.matrix, np.ndarray) else given._replace(matrix=given.matrix.toarray())
    given = native(given)
    if X is None:
        if n_rows is None:
            raise InputError("X is None: the number of rows is not known")
        return Design(np.zeros((n_rows, 0)), (), False)
    if is_frame(given):
        names = tuple(given.columns)
        columns = [_numeric(given[name], str(name)) for name in names]
        matrix = np.column_stack(columns) if columns else np.zeros((given.shape[0], 0))
        _unique(names)
        marks = getattr(given, "attrs", {}).get(SMOOTH, {})
        smooth = tuple(marks.get(name) for name in names) if marks else None
        return Design(matrix, tuple(map(str, names)), all(isinstance(name, str) for name in names), smooth)
    matrix = _matrix(given)
    names = tuple(f"x{j}" for j in range(matrix.shape[1]))
    _finite(matrix, names)
    return Design(matrix, names, False)


def _unique(names: Sequence[object]) -> None:
    """Refuse names that occur more than once."""
    doubled = sorted({str(name) for name in names if list(names).count(name) > 1})
    if doubled:
        raise InputError(f"column names occur more than once: {', '.join(doubled)}; rename them")


def _matrix(X: Any) -> Array:
    """Return an array of numbers with rows and columns."""
    array = np.asarray(native(X))
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {array.ndim}D array instead: X must have rows and columns. "
            "Reshape your data with X.reshape(-1, 1) if it is one covariate"
        )
    return np.ascontiguousarray(_floats(array, "X"))


def _from_sparse(X: Any) -> Design:
    """Return a sparse matrix as a wide one; adjacent dummies that never occur together become a factor."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputTypeError(f"sparse X must be a matrix of real numbers, not of {X.dtype} with {X.ndim} dimensions")
    columns = sp.csc_matrix(X, dtype=np.float64)
    columns.sum_duplicates()
    n, p = columns.shape
    names = tuple(f"x{j}" for j in range(p))
    wrong = np.flatnonzero(~np.isfinite(columns.data))
    if wrong.size:
        name = names[int(np.searchsorted(columns.indptr, wrong[0], side="right")) - 1]
        kind = MissingValueError if np.isnan(columns.data).any() else InputError
        raise kind(f"X contains NaN or infinity in {name}, at row {columns.indices[wrong[0]]}; drop such rows")
    full = np.diff(columns.indptr) > FULL * n
    levels = _longest_factor(columns, full)
    codes, own = None, np.zeros(p, dtype=bool)
    if levels.stop - levels.start >= WIDE:
        own[levels] = True
        codes = np.zeros(n, dtype=np.int32)
        inside = slice(columns.indptr[levels.start], columns.indptr[levels.stop])
        sizes = np.diff(columns.indptr[levels.start : levels.stop + 1])
        codes[columns.indices[inside]] = np.repeat(np.arange(1, sizes.size + 1, dtype=np.int32), sizes)
    else:
        levels = slice(0, 0)
    factor = f"columns {names[levels.start]} to {names[levels.stop - 1]}" if codes is not None else ""
    dense_at, sparse_at = np.flatnonzero(full), np.flatnonzero(~full & ~own)
    if sparse_at.size > MAX_SPARSE:
        raise InputError(
            f"X has {sparse_at.size} sparse columns besides the dummies of its largest factor, more than {MAX_SPARSE}; "
            "put the dummies of one factor side by side, or merge levels"
        )
    matrix = WideMatrix(
        columns[:, dense_at].toarray(), dense_at, columns[:, sparse_at].tocsr(), sparse_at, codes, levels, factor, "0"
    )
    return Design(matrix, names, False)


def _longest_factor(columns: sp.csc_matrix, skip: NDArray[np.bool_]) -> slice:
    """Return the longest run of columns of ones in which no row has two."""
    last = np.full(columns.shape[0], -1)
    best, first = slice(0, 0), 0
    for j in range(columns.shape[1]):
        entries = slice(columns.indptr[j], columns.indptr[j + 1])
        rows = columns.indices[entries]
        if skip[j] or rows.size == 0 or not (columns.data[entries] == 1.0).all():
            first = j + 1
            continue
        first = max(first, int(last[rows].max()) + 1)
        last[rows] = j
        if j + 1 - first > best.stop - best.start:
            best = slice(first, j + 1)
    return best


def _floats(values: NDArray[Any], what: str) -> Array:
    """Return covariates as doubles, missing ones as NaN."""
    if values.dtype.kind == "O":
        flat = np.empty(values.size, dtype=object)
        flat[:] = [math.nan if is_missing(x) else x for x in values.ravel()]
        values = flat.reshape(values.shape)
    return as_floats(
        values,
        what,
        REMEDY,
        "is not numeric: an argument must be a number, not a string or a date, but here is {entry}",
    )


def _numeric(column: Any, name: str) -> Array:
    """Return a column of a frame as finite numbers."""
    if hasattr(column, "cat") and hasattr(column.cat, "codes"):
        raise InputTypeError(f"covariate {name!r} is a category: code it as numbers, for example with pd.get_dummies")
    values = native(column).to_numpy()
    if values.ndim != 1:
        raise InputError(f"column names occur more than once: {name}; rename them")
    numbers = _floats(values, f"covariate {name!r}")
    _finite(numbers[:, None], (name,))
    return numbers


def _finite(matrix: Array, names: Sequence[str]) -> None:
    """Refuse missing and infinite values, and name their columns."""
    if np.isfinite(matrix).all():
        return
    lost = np.isnan(matrix)
    what, wrong = ("NaN: missing values", lost) if lost.any() else ("infinity", np.isinf(matrix))
    columns, row = np.flatnonzero(wrong.sum(axis=0)).tolist(), int(np.flatnonzero(wrong.sum(axis=1))[0])
    listed = ", ".join(names[j] for j in columns)
    kind = MissingValueError if lost.any() else InputError
    raise kind(f"X contains {what} in {listed}, first at row {row}; drop or impute such rows")


def check_columns(design: Design, names: Sequence[str], named: bool, model: str) -> None:
    """Refuse a design whose columns are not those of the fit."""
    if design.matrix.shape[1] != len(names):
        raise InputError(
            f"X has {design.matrix.shape[1]} features, but {model} is expecting {len(names)} features as input: "
            f"{', '.join(names) or 'none'}"
        )
    if named and design.named and tuple(design.names) != tuple(names):
        raise InputError(
            "The feature names should match those that were passed during fit: "
            f"expected {', '.join(names)}; got {', '.join(design.names)}; select them by name, in this order"
        )


def split_columns(X: Covariates | Design, names: Sequence[Any], what: str = "anchor_names") -> tuple[Any, Any]:
    """Return X without the anchor columns (or strata), and these columns; ``what`` is the argument that names them."""
    if X is None:
        raise InputError(f"{what} are columns of X, but X is None")
    given: Any = native(X)
    if isinstance(given, Design):
        if given.labels is None or any(name not in given.labels for name in names):
            raise InputTypeError(f"{what} are columns of a frame or an array")
        return given._replace(labels=given.labels.drop(columns=list(names))), given.labels[list(names)]
    return _split_frame(given, names, what) if is_frame(given) else _split_matrix(given, names, what)


def _split_frame(given: Any, names: Sequence[Any], what: str) -> tuple[Any, Any]:
    unknown = [str(name) for name in names if name not in list(given.columns)]
    if unknown:
        listed = ", ".join(map(str, given.columns))
        raise InputError(f"{what} not in X: {', '.join(unknown)}; its columns are {listed}")
    rest = [name for name in given.columns if name not in list(names)]
    return given[rest], given[list(names)]


def _split_matrix(given: Any, names: Sequence[Any], what: str) -> tuple[Any, Any]:
    matrix = given.tocsc() if sp.issparse(given) else np.asarray(given)
    if not all(isinstance(name, (int, np.integer)) and 0 <= name < matrix.shape[1] for name in names):
        raise InputError(f"{what} must be column positions from 0 to {matrix.shape[1] - 1} when X is an array")
    taken: Any = matrix[:, list(names)]
    return _other_columns(matrix, names), taken.toarray() if sp.issparse(taken) else taken


def _other_columns(matrix: Any, names: Sequence[Any]) -> Any:
    """Return an array or a sparse matrix without some columns."""
    return matrix[:, np.setdiff1d(np.arange(matrix.shape[1]), list(names))]


def without_anchors(X: Covariates | Design, names: Sequence[Any], n_columns: int) -> Any:
    """Return the covariates of X for a prediction; a new place may lack the anchors."""
    given: Any = native(X)
    if is_frame(given):
        kept = [name for name in given.columns if name not in list(names)]
        return given[kept]
    if isinstance(given, Design):
        return given
    matrix = given.tocsc() if sp.issparse(given) else np.asarray(given)
    if matrix.ndim == 2 and matrix.shape[1] == n_columns:
        return _other_columns(matrix, names)
    return matrix  # without anchors already, or refused where columns are checked
