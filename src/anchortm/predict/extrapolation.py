"""Where a prediction leaves what the fit has seen: covariates outside their range, outcomes beyond the data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import real_numbers
from anchortm.bases import OrdinalBasis
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError
from anchortm.inputs.design import WideMatrix, to_design

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["beyond_the_data", "extrapolation"]

Array = NDArray[np.float64]

OUTCOMES = np.array(["", "beyond the support", "beyond the data"], dtype=object)


def extrapolation(model: Any, X: Any, y: Any = None) -> pd.DataFrame:
    """Return what leaves the range of the fit, one row for each row of X; see ``TransformationModel.extrapolation``."""
    import pandas as pd

    if not hasattr(model, "covariate_ranges_"):
        raise InputError("this model does not know the ranges of its covariates, as its file is older: fit it again")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)  # of what is told here
        design = model._design(X, None)  # new rows are checked as for a prediction
    if hasattr(model, "formula_"):
        known = {name: v for name, v in model.formula_.variables(X).items() if isinstance(v, tuple)}
        names, values = list(known), [v for v, _ in known.values()]
        columns = np.column_stack(values) if values else np.zeros((design.matrix.shape[0], 0))
        low, high = np.array([ends for _, ends in known.values()]).reshape(-1, 2).T
    else:
        names, columns = model.covariate_names_, to_design(model._split_new(X)[0], wide=True).matrix
        columns = columns.toarray() if isinstance(columns, WideMatrix) else columns
        low, high = model.covariate_ranges_
    width = np.where(high > low, high - low, 1.0)
    beyond = np.maximum(np.maximum(low - columns, columns - high), 0.0) / width
    outside = np.full(len(columns), "", dtype=object)
    for i in np.flatnonzero(beyond.any(axis=1)):
        outside[i] = ", ".join(names[j] for j in np.flatnonzero(beyond[i]))
    result = {"covariates": outside, "furthest": beyond.max(axis=1, initial=0.0)}
    if y is not None:
        result["outcome"] = OUTCOMES[_beyond(model, y, len(outside))]
    return pd.DataFrame(result, index=X.index if isinstance(X, pd.DataFrame) else None)


def _beyond(model: Any, y: Any, n: int) -> NDArray[np.intp]:
    """Return for each row 0, 1 if an outcome is beyond the support, 2 if one is beyond all outcomes of the fit."""
    if isinstance(model.basis_, OrdinalBasis):
        raise InputTypeError("classes are not extrapolated: leave y out")
    values = real_numbers(y, "y")
    if values.ndim > 2 or (values.ndim and values.shape[0] != n):
        raise InputError(f"y must be one number, or of {n} rows, not of shape {values.shape}")
    table = values if values.ndim == 2 else np.broadcast_to(values, n)[:, None]
    low, high = getattr(model, "support_", (-np.inf, np.inf))
    code = np.where(((table < low) | (table > high)).any(axis=1), 1, 0)
    return np.where(beyond_the_data(model, table).any(axis=1), 2, code)


def beyond_the_data(model: Any, y: Array) -> NDArray[np.bool_]:
    """Return which outcomes are below the smallest or above the largest that the fit has seen (or that are missing)."""
    low, high = model.outcome_range_
    return np.asarray(~((y >= low) & (y <= high)))
