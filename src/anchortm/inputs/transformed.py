"""Rows behind the transformers of a pipeline, with the names that these give to columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._util.frames import is_frame, native
from anchortm.exceptions import InputError
from anchortm.inputs.design import to_design
from anchortm.inputs.missing import rows_taken

__all__ = ["refused_rows", "transformed", "with_names"]

MOST_TRIALS = 4000  # parts of a table that are tried, to find the rows that transformers refuse


def transformed(X: Any, transformers: Sequence[Any], named: bool) -> Any:
    """Return what fitted transformers make of rows; ``named`` says whether the model knows names of columns."""
    if X is None:
        raise InputError("X is None: pass the rows, which the pipeline transforms first")
    found = X
    for transformer in transformers:
        try:
            found = transformer.transform(found)
        except Exception as error:  # about the columns or values of these rows; a transformer may be anyone's
            raise InputError(f"{type(transformer).__name__} of the pipeline cannot transform X: {error}") from error
    return with_names(found, X, transformers) if named else found


def refused_rows(
    error: InputError, X: Any, n_rows: int, transformers: Sequence[Any], rows: NDArray[np.intp]
) -> dict[str, NDArray[np.intp]]:
    """Return which of these rows the transformers refuse, by reason, after their error about all of them together.

    The table is halved until single rows are left. An error about its columns, or about too many rows, is raised.
    """
    _check_columns(error, native(X), transformers)
    reasons: dict[str, list[int]] = {}
    parts, n_trials = [rows], 0
    while parts:
        part, n_trials = parts.pop(), n_trials + 1
        refusal = _refusal(rows_taken("X", X, n_rows, part), transformers)
        if refusal is None:
            continue
        if n_trials > MOST_TRIALS:
            raise InputError(
                f"too many rows are refused to find them one by one, at least {sum(map(len, reasons.values()))}: "
                f"{error}; repair such rows; for unknown levels set handle_unknown of the encoder"
            ) from error
        if part.size > 1:
            parts += [part[part.size // 2 :], part[: part.size // 2]]
        else:
            reasons.setdefault(str(refusal).split("\n")[0], []).append(int(part[0]))
    return {reason: np.array(places, dtype=np.intp) for reason, places in reasons.items()}


def _refusal(X: Any, transformers: Sequence[Any]) -> InputError | None:
    """Return the error of the transformers about some rows, None if there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the good rows are transformed once more, and their warnings are shown
            transformed(X, transformers, named=False)
    except InputError as error:
        return error
    return None


def _check_columns(error: InputError, X: Any, transformers: Sequence[Any]) -> None:
    """Raise the error of the transformers if it is about columns, and not about values."""
    names = getattr(transformers[0], "feature_names_in_", None)
    if not is_frame(X) or names is None:
        width = np.shape(X)[1:]
        if width and width != (getattr(transformers[0], "n_features_in_", width[0]),):
            raise error
    elif list(X.columns) != list(names):
        known = set(names) <= set(X.columns)
        if not known or str(_refusal(X[list(names)], transformers)) != str(error):
            raise error


def with_names(found: Any, X: Any, transformers: Sequence[Any]) -> Any:
    """Return an array or a sparse matrix with the names that the transformers give to its columns, if they can."""
    if is_frame(native(found)) or not transformers:
        return found
    names: Any = None
    try:
        for transformer in transformers:
            names = transformer.get_feature_names_out(names)
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return found
    if sp.issparse(found):
        return to_design(found, wide=True)._replace(names=tuple(map(str, names)), named=True)
    import pandas as pd

    index = X.index if isinstance(X, pd.DataFrame) and len(X) == len(found) else None
    return pd.DataFrame(found, columns=names, index=index)
