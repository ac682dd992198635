"""New rows that were read one by one: the good ones as covariates, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._util.frames import column_names, is_frame, known, native, select
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError, MissingValueError
from anchortm.inputs.design import Design, to_design
from anchortm.inputs.judgement import DROP_LEVELS, Judgement
from anchortm.inputs.missing import Counts, listed
from anchortm.predict.marked import MarkedDistribution, spread
from anchortm.predict.protocol import Distribution

__all__ = ["ReadRows", "entries", "entries_of", "judged_design", "remedies", "row_count"]

MARK = 'predict with on_bad_rows="mark"'
LEVELS = 'predict with unknown="baseline" (or "rare") or on_bad_rows="mark"'


@contextmanager
def remedies(columns: Callable[[], Iterable[tuple[str, Any]]], n_rows: Callable[[], int]) -> Iterator[None]:
    """Let errors about missing values list all columns that have some, and say how the other rows are predicted.

    ``columns`` returns all columns to look at, with their names; it is called only after something has failed.
    """
    try:
        yield
    except MissingValueError as error:
        text = f"{error}, or {MARK}"
        with suppress(AnchorTMError):  # columns that cannot be read at all
            counts, _ = Counts.of(n_rows(), columns())
            if len(counts.columns) > 1:
                text = (
                    f"missing values (NaN) in {len(counts.columns)} columns: {listed(counts)}; impute or drop these "
                    f"{counts.n_missing} of {counts.n_rows} rows, or {MARK}"
                )
        raise MissingValueError(text) from None
    except InputError as error:
        if not str(error).endswith(DROP_LEVELS):
            raise
        raise InputError(f"{error}, or {LEVELS}") from None


@dataclass(frozen=True, eq=False)
class ReadRows:
    """New rows, judged one by one.

    Attributes
    ----------
    X : Design or None
        The covariates of the good rows, with their strata.
    numbers : dict
        Other arguments with a number for each row, good or bad.
    judgement : Judgement
        What is wrong with which rows.
    """

    X: Design | None
    numbers: dict[str, Any]
    judgement: Judgement

    @property
    def taken(self) -> dict[str, Any]:
        """The numbers of the good rows."""
        n, good = self.judgement.n_rows, self.judgement.good
        return {
            name: values[good] if isinstance(values, np.ndarray) and values.shape == (n,) else values
            for name, values in self.numbers.items()
        }

    def ask(self, work: Callable[..., Any]) -> Any:
        """Return ``work(X, n_rows, **numbers)`` of the good rows."""
        return work(self.X, self.judgement.n_good if self.X is None else None, **self.taken)

    def marked(self, found: Any) -> Any:
        """Return what was found for the good rows with bad rows marked: a distribution, or an array."""
        if isinstance(found, Distribution):
            return MarkedDistribution(found, self.judgement.bad, self.judgement.reasons())
        return spread(np.asarray(found), self.judgement.bad)

    def without(self, wrong: NDArray[np.bool_], reason: str) -> ReadRows:
        """Return the rows after some of the good ones have turned out to be bad."""
        self.judgement.refuse_among_good(wrong, reason)
        if self.X is None or not wrong.any():
            return self
        labels = None if self.X.labels is None else self.X.labels.iloc[~wrong]
        return replace(self, X=self.X._replace(matrix=self.X.matrix[~wrong], labels=labels))


def row_count(X: Any, numbers: dict[str, Any], n_rows: int | None) -> int:
    """Return the number of rows that a prediction is asked for."""
    if isinstance(X, Design):
        return int(X.matrix.shape[0])
    if X is not None:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)
    sizes = [np.size(values) for values in numbers.values() if np.ndim(values) == 1]
    return sizes[0] if sizes and n_rows is None else 1 if n_rows is None else n_rows


def entries_of(X: Any, values: Any) -> Any:
    """Return the entries of a column of a table by its name, missing or not, and anything else as it is."""
    if not isinstance(values, str):
        return values
    table = native(X)
    known([values], column_names(table))
    return select(table, [values])[values].to_numpy()


def entries(X: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and the columns of a frame or an array; columns without a name are x0, x1, ..."""
    if not is_frame(X):
        yield from ((f"x{j}", column) for j, column in enumerate(np.asarray(X).T))
        return
    for j, name in enumerate(X.columns):
        yield str(name), native(X.iloc[:, j] if hasattr(X, "iloc") else X[name])


def judged_design(X: Any, judgement: Judgement) -> Design:
    """Return the covariates of the good rows of a frame, an array or a sparse matrix, after judging all columns."""
    if sp.issparse(X):
        rows = sp.csr_matrix(X)
        wrong = ~np.isfinite(rows.data)
        places = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[wrong]
        for j in np.unique(rows.indices[wrong]).tolist():
            judgement.refuse(np.unique(places[rows.indices[wrong] == j]), f"x{j} is missing or infinite")
        return to_design(rows[judgement.good], wide=True)
    if not is_frame(X):
        array = np.asarray(X)
        if array.ndim != 2:
            return to_design(X)  # raises an error
        if array.dtype.kind in "biuf" and np.isfinite(array).all():
            names = tuple(f"x{j}" for j in range(array.shape[1]))
            return Design(np.ascontiguousarray(array, dtype=np.float64)[judgement.good], names, False)
    columns = {}
    for name, column in entries(X):
        if hasattr(column, "cat") and hasattr(column.cat, "codes"):
            raise InputTypeError(f"covariate {name!r} is a category: code it as numbers, as it was in the fit")
        columns[name] = judgement.numbers(name, np.asarray(column))
    made = np.column_stack(list(columns.values())) if columns else np.zeros((judgement.n_rows, 0))
    named = is_frame(X) and all(isinstance(name, str) for name in X.columns)
    return Design(np.asarray(made, dtype=np.float64)[judgement.good], tuple(columns), named)
