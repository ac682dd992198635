"""Rows with missing values: dropped, or all their columns listed in one error.

Whatever takes rows from a user (a fit, a search, a formula with its table) does its work inside ``whole_rows``. The
outermost one decides for all inputs at once, so that they stay aligned; those inside it see whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._util.checks import is_missing
from anchortm._util.frames import aligned, is_frame, native, take
from anchortm.exceptions import AnchorTMError, InputError, MissingValueError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.design import Design
from anchortm.inputs.response import Response

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LARGEST_WHOLE",
    "Counts",
    "Gaps",
    "How",
    "Missing",
    "check_left",
    "check_missing",
    "columns_of_inputs",
    "dropped_before",
    "explain",
    "listed",
    "rows_taken",
    "settled",
    "whole_inputs",
    "whole_rows",
]

How = Literal["error", "drop"]
Mask = NDArray[np.bool_]
Columns = Iterable[tuple[str, Any]]  # what a column is, for messages, and its values

MOST_LISTED = 100
LARGEST_WHOLE = 2.0**53  # up to here a double holds every whole number


def check_missing(how: Any) -> How:
    """Return what to do with missing values; refuse anything but "error" and "drop"."""
    if not isinstance(how, str) or how not in ("error", "drop"):
        raise InputError(f'missing must be "error" or "drop", not {how!r}')
    return how  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Counts:
    """How many rows have missing values, in all and by column; add two such records to join their rows."""

    n_rows: int = 0
    n_missing: int = 0
    columns: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, n_rows: int, columns: Columns) -> tuple[Counts, Mask]:
        """Return the counts, and which rows are whole."""
        whole, found = np.ones(n_rows, dtype=bool), []
        for name, values in columns:
            lost = _mask(values)
            if lost is not None and lost.shape == (n_rows,) and lost.any():
                whole &= ~lost
                found.append((name, int(lost.sum())))
        return cls(n_rows, n_rows - int(whole.sum()), tuple(found)), whole

    def __add__(self, other: Counts) -> Counts:
        mine, others = dict(self.columns), dict(other.columns)
        columns = {name: mine.get(name, 0) + others.get(name, 0) for name in mine | others}
        return Counts(self.n_rows + other.n_rows, self.n_missing + other.n_missing, tuple(columns.items()))


@dataclass(frozen=True)
class Gaps:
    """Whether a column of floats has missing values, and otherwise only whole numbers; add two to join their rows.

    Both are true of integers with gaps, which pandas reads as floats.
    """

    some: bool
    whole: bool

    @classmethod
    def of(cls, column: Any) -> Gaps:
        """Return the record of a column of any type; it is all false for what is neither floats nor integers."""
        kind = _kind(column)
        if kind in ("i", "u"):  # a batch without gaps
            return cls(False, True)
        column = column.ravel() if isinstance(column, np.ndarray) else column  # a matrix has one type for all columns
        lost = _mask(column) if kind == "f" else None
        if lost is None:
            return cls(False, False)
        numbers = np.asarray(take(column, np.flatnonzero(~lost)), dtype=np.float64)
        return cls(bool(lost.any()), bool(((numbers == np.round(numbers)) & (np.abs(numbers) <= LARGEST_WHOLE)).all()))

    def __add__(self, other: Gaps) -> Gaps:
        return Gaps(self.some or other.some, self.whole and other.whole)

    @property
    def integers(self) -> bool:
        """Return whether the column counts as whole numbers once the rows with gaps are dropped."""
        return self.some and self.whole


@dataclass(frozen=True, eq=False)
class Missing:
    """The rows that were dropped because values are missing.

    Attributes
    ----------
    counts : Counts
        How many rows, and in which columns.
    rows : array or None
        Positions of the rows that are used; None if the table is read in batches.
    """

    counts: Counts
    rows: NDArray[np.intp] | None = None

    def take(self, rows: Any) -> Missing:
        """Return the record for some of the rows that are used."""
        return replace(self, rows=None if self.rows is None else self.rows[rows])

    def then(self, later: Missing) -> Missing:
        """Return the record of both, if ``later`` is about the rows that are left here; else ``later`` itself."""
        if self.rows is None or later.rows is None or self.rows.size != later.counts.n_rows:
            return later
        counts = replace(self.counts + later.counts, n_rows=self.counts.n_rows)
        return Missing(counts, self.rows[later.rows])


_settled: ContextVar[tuple[Missing | None] | None] = ContextVar("settled", default=None)
_before: ContextVar[Missing | None] = ContextVar("before", default=None)


@contextmanager
def dropped_before(missing: Missing | None) -> Iterator[None]:
    """Let fits inside this context know which rows were dropped; they look for missing values among the others."""
    last = _before.set(missing)
    try:
        yield
    finally:
        _before.reset(last)


@contextmanager
def settled(missing: Missing | None) -> Iterator[None]:
    """Let no one inside this context look for missing values again."""
    before = _settled.set((missing,))
    try:
        yield
    finally:
        _settled.reset(before)


@contextmanager
def whole_rows(
    how: Any, columns: Callable[[], Columns], model: str, **inputs: Any
) -> Iterator[tuple[dict[str, Any], Missing | None]]:
    """Yield the inputs without rows that have missing values, and the record of these; or list them in an error.

    Parameters
    ----------
    how : {"error", "drop"} or None
        What to do; None leaves missing values to whoever finds them.
    columns : callable
        Returns all columns to look at, with their names. With "error" it is called only after something has failed.
    model : str
        Name of the model, for the error.
    **inputs
        What rows are taken from; None, text and single numbers stay as they are.
    """
    known = (None,) if how is None else _settled.get()
    if known is not None:
        yield inputs, known[0]
        return
    if check_missing(how) == "error":
        with _explained(columns, inputs, model), settled(None):
            yield dict(inputs), None
        return
    n, before = _n_rows(inputs), _before.get()
    counts, whole = (Counts(), np.zeros(0, dtype=bool)) if n is None else Counts.of(n, columns())
    rows = np.flatnonzero(whole)
    missing = Missing(counts, rows) if before is None else before.then(Missing(counts, rows))
    if not counts.n_missing:
        found = missing if missing.counts.n_missing else None
        with settled(found):
            yield inputs, found
        return
    check_left(counts)
    with settled(missing):
        yield {name: _take(name, values, rows) for name, values in inputs.items()}, missing


@contextmanager
def whole_inputs(spec: Any, **inputs: Any) -> Iterator[tuple[dict[str, Any], Missing | None]]:
    """Yield the aligned arguments of a fit without rows that have missing values, as ``whole_rows`` does.

    ``spec`` is the specification, which says what to do with such rows, and what the columns of X are.
    """
    aligned(**inputs)
    with whole_rows(spec.missing, lambda: columns_of_inputs(spec.roles, **inputs), spec.model, **inputs) as (
        found,
        missing,
    ):
        if missing is not None and "X" in found:  # which may hold the anchors
            found = found | {"X": _with_integers(native(inputs["X"]), found["X"])}
        yield found, missing


def check_left(counts: Counts) -> None:
    """Refuse a table that has no whole row."""
    if counts.n_missing == counts.n_rows:
        raise InputError(
            f"no rows are left: each of the {counts.n_rows} rows has a missing value, {listed(counts)}; leave such "
            "columns out, or impute them"
        )


def listed(counts: Counts) -> str:
    """Return all columns with missing values and their numbers of rows, for a message."""
    shown = [f"{name} ({_rows(n)})" for name, n in counts.columns[:MOST_LISTED]]
    more = len(counts.columns) - MOST_LISTED
    return ", ".join(shown) + (f", ... and {more} more" if more > 0 else "")


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def explain(error: MissingValueError, counts: Counts, model: str = "") -> MissingValueError:
    """Return an error about a missing value as one about all of them; if nothing is missing, the error itself.

    ``model`` is the name of the model, which has the argument that drops such rows.
    """
    drop = f'{model}(missing="drop")' if model else 'missing="drop", an argument of the model'
    if not counts.columns:
        return error
    if len(counts.columns) == 1:
        return type(error)(f"{error}, or fit with {drop}, which leaves out {_rows(counts.n_missing)}")
    return MissingValueError(
        f"missing values (NaN) in {len(counts.columns)} columns: {listed(counts)}; impute them, or fit with "
        f"{drop}, which leaves out {counts.n_missing} of {counts.n_rows} rows"
    )


@contextmanager
def _explained(columns: Callable[[], Columns], inputs: dict[str, Any], model: str) -> Iterator[None]:
    """Let an error about a missing value say where all of them are."""
    try:
        yield
    except MissingValueError as error:
        better = error
        with suppress(AnchorTMError):  # columns that cannot be read at all
            n = _n_rows(inputs)
            better = error if n is None else explain(error, Counts.of(n, columns())[0], model)
        if better is error:
            raise
        raise better from None


def columns_of_inputs(roles: dict[str, str], **inputs: Any) -> Iterator[tuple[str, Any]]:
    """Yield the columns of the arguments of a fit; ``roles`` are those of columns of X that are no covariates."""
    for argument, given in inputs.items():
        values = native(given)
        values = values.labels if isinstance(values, Design) else values  # a formula made the rest
        if _size(argument, values) is not None and not isinstance(values, (Response, AnchorColumns)):
            yield from _columns_of(argument, values, roles)


def _columns_of(argument: str, values: Any, roles: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the columns of one argument."""
    word = {"X": "covariate", "y": "outcome", "anchors": "anchor"}.get(argument, argument)
    if is_frame(values):
        for j, name in enumerate(values.columns):
            column = values.iloc[:, j] if hasattr(values, "iloc") else values[name]
            yield f"{roles.get(str(name), word)} {str(name)!r}", column
    elif _is_columns(argument, values):
        yield from ((f"{word} 'anchor{k}'", native(column)) for k, column in enumerate(values))
    elif sp.issparse(values) or getattr(values, "ndim", 1) == 2 or (argument == "X" and isinstance(values, list)):
        yield from _columns_of_matrix(values, word, roles)
    else:
        name = getattr(values, "name", None)
        yield word if not name or word in ("sample_weight", "offset") else f"{word} {str(name)!r}", values


def _columns_of_matrix(values: Any, word: str, roles: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a matrix without names."""
    letter = "x" if word == "covariate" else word
    if sp.issparse(values):
        found = values.tocsc()
        places = np.repeat(np.arange(found.shape[1]), np.diff(found.indptr))[np.isnan(found.data)]
        for j in np.unique(places).tolist():
            yield f"{roles.get(str(j), word)} '{letter}{j}'", found[:, [j]].toarray()[:, 0]
        return
    matrix = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    for j in range(matrix.shape[1] if matrix.ndim == 2 else 0):
        yield f"{roles.get(str(j), word)} '{letter}{j}'", matrix[:, j]


def _is_columns(argument: str, values: Any) -> bool:
    """Return whether an input is a list of columns, as anchors may be."""
    listed = argument in ("anchors", "environments") and isinstance(values, (list, tuple)) and len(values) > 0
    return listed and np.ndim(values[0]) == 1


def _mask(values: Any) -> Mask | None:
    """Return which entries of a column are missing; None if its type has no missing values."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuSU":
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np.isnan(values)
    if hasattr(values, "isna"):
        return np.asarray(values.isna(), dtype=bool)
    if hasattr(values, "is_null"):  # polars
        lost = values.is_nan().fill_null(True) if values.dtype.is_float() else values.is_null()
        return np.asarray(lost.to_numpy(), dtype=bool)
    return np.fromiter((is_missing(x) or x != x for x in values), dtype=bool, count=len(values))


def _n_rows(inputs: dict[str, Any]) -> int | None:
    """Return the number of rows of all inputs, None where they differ: that is refused elsewhere."""
    sizes = {size for name, values in inputs.items() if (size := _size(name, values)) is not None}
    return sizes.pop() if len(sizes) == 1 else None


def _size(argument: str, values: Any) -> int | None:
    """Return the number of rows of an input, None for what has no rows."""
    if values is None or isinstance(values, str):
        return None
    if isinstance(values, Design):
        return int(values.matrix.shape[0])
    if _is_columns(argument, values):
        return len(values[0])
    if hasattr(values, "shape"):
        return int(values.shape[0]) if values.shape else None
    return len(values) if hasattr(values, "__len__") else None


def rows_taken(argument: str, values: Any, n_rows: int, rows: NDArray[np.intp]) -> Any:
    """Return some rows of an input that has ``n_rows`` of them, and another one as it is.

    Columns of floats whose gaps are not among these rows become integers if that is what they were (``Gaps``), except
    in X.
    """
    return _take(argument, values, rows) if _size(argument, values) == n_rows else values


def _take(argument: str, values: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of an input."""
    if _size(argument, values) is None:
        return values
    if isinstance(values, Design):
        labels: pd.DataFrame | None = values.labels
        return values._replace(matrix=values.matrix[rows], labels=None if labels is None else labels.iloc[rows])
    if isinstance(values, AnchorColumns):
        return values.subset(rows)
    if _is_columns(argument, values):
        return [_take("", column, rows) for column in values]
    values = native(values)
    if sp.issparse(values):
        return values.tocsr()[rows]
    if isinstance(values, (list, tuple)):
        kept = [values[row] for row in rows.tolist()]
        if not all(x is None or isinstance(x, float) for x in values):
            return kept
        return _with_integers(*(np.array(x, dtype=np.float64) for x in (values, kept))).tolist()
    kept = take(values, rows)
    return kept if argument == "X" else _with_integers(values, kept)


def _with_integers(given: Any, kept: Any) -> Any:
    """Return rows of a table or a column; floats that were integers with gaps become integers if no gap is left."""
    if not is_frame(given):
        return _integers(kept) if _were_integers(given, kept) else kept
    if not hasattr(given, "iloc"):  # polars
        return kept.with_columns([_integers(kept[x]) for x in given.columns if _were_integers(given[x], kept[x])])
    places = [j for j in range(given.shape[1]) if _were_integers(given.iloc[:, j], kept.iloc[:, j])]
    kept = kept.copy() if places else kept
    for j in places:
        kept.isetitem(j, _integers(kept.iloc[:, j]))
    return kept


def _were_integers(given: Any, kept: Any) -> bool:
    """Return whether a column was integers with gaps, none of which is left."""
    lost = _mask(given) if _kind(given) == "f" else None
    return lost is not None and bool(lost.any()) and Gaps.of(given).integers and not Gaps.of(kept).some


def _integers(column: Any) -> Any:
    """Return a column of floats as integers."""
    if not hasattr(column, "cast"):
        return column.astype(np.int64)
    import polars as pl

    return column.cast(pl.Int64)


def _kind(column: Any) -> str:
    """Return NumPy's letter for the type of a column."""
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "is_float"):  # polars
        return "f" if dtype.is_float() else "i" if dtype.is_integer() else "O"
    return "O" if sp.issparse(column) else str(getattr(dtype, "kind", "O"))
