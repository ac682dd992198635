"""Rows behind the transformers of a pipeline, with the names that these give to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import scipy.sparse as sp

from anchortm._util.frames import is_frame, native
from anchortm.exceptions import InputError
from anchortm.inputs.design import to_design

__all__ = ["transformed", "with_names"]


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
