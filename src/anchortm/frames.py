"""Tables of any kind: pandas and polars as they are, others (pyarrow, modin, ...) by way of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np

from anchortm.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["column_names", "is_frame", "native", "select"]


def native(values: Any) -> Any:
    """Return arrays, pandas and polars data as they are, other tables and columns as pandas."""
    module = type(values).__module__.split(".")[0]
    if module in ("numpy", "pandas", "builtins", "anchortm"):
        return values
    if module == "pyarrow" and hasattr(values, "to_pandas"):
        return values.to_pandas()  # arrays too, which narwhals does not take
    wrapped = nw.from_native(values, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.LazyFrame):
        raise InputTypeError(f"{type(values).__name__} is lazy: call collect() or compute() on it first")
    if not isinstance(wrapped, (nw.DataFrame, nw.Series)) or wrapped.implementation.is_polars():
        return values
    return wrapped.to_pandas()


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas or polars frame."""
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def column_names(data: Any) -> list[str]:
    """Return the names of a table's columns, each once."""
    if not is_frame(data):
        raise InputTypeError(f"data must be a table with named columns (pandas, polars, pyarrow), not {type(data)}")
    names = [str(name) for name in data.columns]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"column names occur more than once: {', '.join(doubled)}; rename them")
    return names


def select(data: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return columns of a pandas or polars frame as a pandas frame with rows numbered from 0."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        part = data[list(names)].reset_index(drop=True)
        return part.set_axis([str(name) for name in part.columns], axis=1)
    return pd.DataFrame({name: _from_polars(data[name]) for name in names}, index=range(data.shape[0]))


def _from_polars(column: Any) -> Any:
    """Return a polars column as a pandas column (polars itself would need pyarrow for that)."""
    import pandas as pd

    kind = str(column.dtype)
    if kind.startswith(("Enum", "Categorical")):
        levels = column.cat.get_categories().to_list()
        return pd.Categorical(column.to_list(), levels, ordered=kind.startswith("Enum"))
    numeric = column.dtype.is_numeric() and not kind.startswith("Decimal")
    return column.to_numpy() if numeric or kind == "Boolean" else pd.Series(column.to_list())
