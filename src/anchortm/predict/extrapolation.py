"""Where predictions leave the training range: covariates outside their range, outcomes beyond the data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import real_numbers
from anchortm._util.frames import native
from anchortm.bases import OrdinalBasis
from anchortm.engine.result import FitResult
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError
from anchortm.inputs.design import WideMatrix, to_design
from anchortm.predict.fitted import HasRows
from anchortm.predict.new_rows import NewRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["beyond_the_data", "columns_and_ranges", "extrapolation", "outside_range"]

Array = NDArray[np.float64]

OUTCOMES = np.array(["", "beyond the support", "beyond the data"], dtype=object)


def extrapolation(model: HasRows, X: Any, y: Any = None) -> pd.DataFrame:
    """Return what leaves the training range, one row for each row of X; see ``extrapolation`` of models."""
    import pandas as pd

    rows = model.new_rows_
    _ranges(rows.result)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)  # the table reports the same
        rows.design(X)  # new rows are checked as for a prediction
    outside, furthest = outside_range(rows, X)
    table = {"covariates": outside, "furthest": furthest}
    if y is not None:
        table["outcome"] = OUTCOMES[_beyond(rows.result, y, len(outside))]
    return pd.DataFrame(table, index=X.index if isinstance(X, pd.DataFrame) else None)


def outside_range(rows: NewRows, X: Any) -> tuple[NDArray[np.object_], Array]:
    """Return the names of the covariates outside their training range, and the largest distance from a range."""
    names, columns, (low, high) = columns_and_ranges(rows, X)
    width = np.where(high > low, high - low, 1.0)
    beyond = np.maximum(np.maximum(low - columns, columns - high), 0.0) / width
    outside = np.full(len(columns), "", dtype=object)
    for i in np.flatnonzero(beyond.any(axis=1)):
        outside[i] = ", ".join(names[j] for j in np.flatnonzero(beyond[i]))
    return outside, beyond.max(axis=1, initial=0.0)


def columns_and_ranges(rows: NewRows, X: Any) -> tuple[list[str], Array, Array]:
    """Return the names of the numeric covariates, their values in these rows, and the two ends of each in the fit.

    After a fit by a formula they are columns of the table, otherwise those of the design.
    """
    if rows.formula is None:
        ranges, matrix = _ranges(rows.result), to_design(rows.split(X)[0], wide=True).matrix
        values = matrix.toarray() if isinstance(matrix, WideMatrix) else matrix
        return list(rows.result.covariate_names), values, ranges
    known = {name: v for name, v in rows.formula.variables(X).items() if isinstance(v, tuple)}
    numbers = [v for v, _ in known.values()]
    columns = np.column_stack(numbers) if numbers else np.zeros((native(X).shape[0], 0))
    return list(known), columns, np.array([ends for _, ends in known.values()], dtype=np.float64).reshape(-1, 2).T


def _ranges(result: FitResult) -> Array:
    """Return the ranges of the covariates; raise an error if the model does not know them."""
    if result.covariate_ranges is None:
        raise InputError("this model does not know the ranges of its covariates, as its file is older: fit it again")
    return result.covariate_ranges


def _beyond(result: FitResult, y: Any, n: int) -> NDArray[np.intp]:
    """Return for each row 0, 1 if an outcome is beyond the support, 2 if one is beyond all outcomes of the fit."""
    if isinstance(result.basis, OrdinalBasis):
        raise InputTypeError("classes are not extrapolated: leave y out")
    values = real_numbers(y, "y")
    if values.ndim > 2 or (values.ndim and values.shape[0] != n):
        raise InputError(f"y must be one number, or of {n} rows, not of shape {values.shape}")
    table = values if values.ndim == 2 else np.broadcast_to(values, n)[:, None]
    low, high = result.support or (-np.inf, np.inf)
    code = np.where(((table < low) | (table > high)).any(axis=1), 1, 0)
    return np.where(beyond_the_data(result, table).any(axis=1), 2, code)


def beyond_the_data(result: FitResult, y: Array) -> NDArray[np.bool_]:
    """Return which outcomes are below the smallest or above the largest that the fit has seen (or that are missing)."""
    low, high = result.outcome_range or (-np.inf, np.inf)
    return np.asarray(~((y >= low) & (y <= high)))
