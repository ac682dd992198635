"""Tables of any kind: pandas and polars as they are, others (pyarrow, modin, ...) by way of pandas."""

from __future__ import annotations

import difflib
import keyword
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError, InputTypeError, MissingValueError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "aligned",
    "column_names",
    "each_once",
    "grouped",
    "in_formulas",
    "is_batched",
    "is_frame",
    "known",
    "name_of",
    "native",
    "read_csv",
    "refuse_missing",
    "refuse_swapped",
    "row_index",
    "select",
    "take",
]

NUMBERS = "biuf"  # kinds of NumPy's types of truth values and numbers


def native(values: Any) -> Any:
    """Return arrays, pandas and polars data as they are, other tables and columns as pandas.

    Masked entries of NumPy arrays become None. Polars integers of 128 bits become ones of 64, the most that NumPy has.
    """
    module = type(values).__module__.split(".")[0]
    if isinstance(values, np.ma.MaskedArray):
        return np.array(values.tolist(), dtype=object) if np.ma.is_masked(values) else np.asarray(values)
    if module in ("numpy", "pandas", "builtins", "anchortm"):
        return values
    if module == "pyarrow" and hasattr(values, "to_pandas"):
        return values.to_pandas()  # arrays too, which narwhals does not take
    wrapped = nw.from_native(values, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.LazyFrame):
        raise InputTypeError(
            f"{type(values).__name__} is lazy: fit it by a formula, from_formula(formula, data), predict with "
            "predict_table, or call collect() or compute() on it first"
        )
    if not isinstance(wrapped, (nw.DataFrame, nw.Series)):
        return values
    return _without_128_bits(values) if wrapped.implementation.is_polars() else wrapped.to_pandas()


def _without_128_bits(values: Any) -> Any:
    """Return a polars column of 128-bit integers as one of 64 bits, anything else as it is."""
    import polars as pl

    if str(getattr(values, "dtype", "")) not in ("Int128", "UInt128"):  # columns of a table are converted one by one
        return values
    try:
        return values.cast(pl.Int64)
    except pl.exceptions.InvalidOperationError:
        raise InputError(
            f"column {values.name!r} has whole numbers beyond 64 bits: cast it to Float64, or to String for names"
        ) from None


def aligned(**inputs: Any) -> Any:
    """Return the pandas index of these inputs, None if there is none; refuse inputs whose rows do not match.

    Indexes must be equal. Where one is 0, ..., n - 1, the default of pandas, the other may have any labels except the
    same numbers in another order. Inputs of different lengths are refused elsewhere.
    """
    found = [named for name, values in inputs.items() for named in _indexed(name, values)]
    for k, (b, second) in enumerate(found):
        for a, first in found[:k]:
            if len(first.index) == len(second.index) and not first.index.equals(second.index):
                _check_rows(a, first.index, b, second)
    return found[0][1].index if found else None


def _indexed(name: str, values: Any) -> Iterator[tuple[str, Any]]:
    """Yield an input that has an index, or the columns of a list that have one, with a name for messages."""
    if isinstance(values, (list, tuple)) and values and type(values[0]).__module__.startswith("pandas"):
        for k, column in enumerate(values):
            yield from _indexed(f"{name}[{k}]", column)
    elif type(getattr(values, "index", None)).__module__.startswith("pandas"):
        yield name, values


def _check_rows(a: str, first: Any, b: str, values: Any) -> None:
    """Refuse two different indexes of the same length, unless one of them only numbers the rows."""
    import pandas as pd

    second = values.index
    permuted = bool(first.isin(second).all() and second.isin(first).all())
    if not permuted and any(pd.RangeIndex(len(index)).equals(index) for index in (first, second)):
        return
    if not hasattr(values, "loc"):  # a Response
        remedy = f"make {b} from columns of the same table, or from their .to_numpy()"
    elif permuted and first.is_unique and second.is_unique:
        remedy = f"pass {b}.loc[{a}.index], or {b}.to_numpy()"
    else:
        remedy = f"pass columns of one table, or {b}.to_numpy()"
    remedy += " if the rows do match as they stand"
    if permuted:
        raise InputError(f"{b} has the rows of {a} in another order, by the labels of their indexes: {remedy}")
    row = int(np.flatnonzero(np.asarray(first != second))[0])
    raise InputError(
        f"the rows of {a} and {b} differ by the labels of their indexes, first at row {row}, {first[row]!r} and "
        f"{second[row]!r}: {remedy}"
    )


def name_of(column: Any) -> str | None:
    """Return the name of a column, or of the only column of a table; None if it has none."""
    column = native(column)
    if is_frame(column):
        return str(column.columns[0]) if len(column.columns) == 1 else None
    name = getattr(column, "name", None)
    return name if isinstance(name, str) and name else None


def in_formulas(name: str) -> str:
    """Return a column as formulas write it: in backticks unless it is a plain word."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"


def row_index(X: Any) -> Any:
    """Return the pandas index of rows; None if there is none, or if it only numbers the rows from 0."""
    index: Any = getattr(X, "index", None)
    if not type(index).__module__.startswith("pandas"):
        return None
    import pandas as pd

    return None if pd.RangeIndex(len(index)).equals(index) else index


def is_batched(data: Any) -> bool:
    """Return whether data are read in batches: a path, a lazy table, or a source of your own (``batched``)."""
    if isinstance(data, (str, os.PathLike)) or getattr(data, "batched", False) is True:
        return True
    module, name = type(data).__module__.split(".")[0], type(data).__name__
    if module == "pyarrow":
        return "Dataset" in name
    return (module == "polars" and name == "LazyFrame") or (module.startswith("dask") and name == "DataFrame")


def refuse_swapped(table: Any, order: str) -> None:
    """Refuse a formula in the place of a table; ``order`` says what comes first, with {} for the formula."""
    if isinstance(table, str) and "~" in table:
        raise InputTypeError(f"the formula {table!r} comes where the table should be: {order.format(repr(table))}")


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas or polars frame."""
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def column_names(data: Any) -> list[str]:
    """Return the names of a table's columns, each once."""
    if not is_frame(data):
        raise InputTypeError(f"data must be a table with named columns (pandas, polars, pyarrow), not {type(data)}")
    names = [str(name) for name in data.columns]
    each_once(names)
    return names


def each_once(names: Sequence[str]) -> None:
    """Refuse names that occur more than once."""
    doubled = [name for name, times in Counter(names).items() if times > 1]
    if doubled:
        raise InputError(f"column names occur more than once: {_listed(sorted(doubled))}; rename them")


def _listed(names: Sequence[str]) -> str:
    """Return names for a message, long names and long lists cut short."""
    shown = [name if len(name) <= 80 else f"{name[:80]}..." for name in names[:100]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > 100 else "")


def known(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that a table with these names does not have."""
    absent = [name for name in dict.fromkeys(wanted) if name not in names]
    if not absent:
        return
    near = dict.fromkeys(each for name in absent for each in difflib.get_close_matches(name, names, 1))
    hint = f"did you mean {_listed([repr(name) for name in near])}? " if near else ""
    there = "there is no column" if len(absent) == 1 else "there are no columns"
    quoted = _listed([repr(name) for name in absent])
    raise InputError(f"{there} {quoted} in the data; {hint}its columns are {_listed(names)}")


def take(data: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows of a pandas or polars frame, or of an array."""
    return data.iloc[rows] if hasattr(data, "iloc") else data[rows]


def grouped(by: Any, n: int, table: Any = None) -> tuple[pd.Index, NDArray[np.intp]]:
    """Return the groups of n rows, levels of a categorical in its order and others sorted, and the group of each row.

    ``by`` has the labels of the rows, or is the name of a column of the table.
    """
    import pandas as pd

    by, table = native(by), native(table)
    if isinstance(by, str):
        names = column_names(table)
        known([by], names)
        by = table[by]
    if np.ndim(by) != 1 or len(by) != n:
        what = f"{len(by)} labels" if np.ndim(by) == 1 else f"shape {np.shape(by)}"
        raise InputError(f"by has {what} for {n} rows: pass one label for each row")
    categorical = isinstance(by, (pd.Series, pd.Categorical, pd.Index))
    labels = pd.Series(by) if categorical else pd.Series(list(by), name=getattr(by, "name", None))
    if labels.isna().any():
        row = int(np.flatnonzero(labels.isna())[0])
        raise InputError(f"by has a missing label at row {row}: drop or name such rows")
    codes, names = pd.factorize(labels, sort=True)
    return pd.Index(list(names), name="group" if labels.name is None else labels.name), codes.astype(np.intp)


def select(data: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return columns of a pandas or polars frame as a pandas frame of plain types, rows numbered from 0."""
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        columns = {name: _from_polars(data[name]) for name in names}
    else:
        own = {str(name): name for name in data.columns}
        columns = {name: _plain(data[own[name]]) for name in names}
    for name, values in columns.items():
        _refuse_nested(name, values)
    try:
        return pd.DataFrame(columns, range(data.shape[0]), copy=False)
    except OverflowError:  # pandas looks into objects
        large = [name for name, values in columns.items() if values.dtype == object and _has_huge(values)]
        raise InputError(
            f"columns with whole numbers beyond 1.8e308, too large for a double: {_listed(large)}; rescale them"
        ) from None


def _refuse_nested(name: str, values: Any) -> None:
    """Refuse a column of complex numbers, lists or tables."""
    if getattr(values.dtype, "kind", "") == "c":
        raise InputError(
            f"Complex data not supported: column {name!r} must be real; take the real part or the absolute value"
        )
    if len(values) and isinstance(values[0], (list, tuple, dict, set, np.ndarray)):
        raise InputTypeError(f"column {name!r} holds lists or tables, not numbers or text: split it into columns")


def _has_huge(values: Any) -> bool:
    return any(isinstance(x, int) and abs(x) > sys.float_info.max for x in values)


def refuse_missing(frame: pd.DataFrame, what: str) -> None:
    """Refuse columns with missing values; ``what`` is their role in the message."""
    for name in frame:
        column = frame[name]
        dtype = getattr(column, "dtype", None)  # a name that occurs twice gives a frame
        kind = dtype.kind if isinstance(dtype, np.dtype) else "O"
        if kind in "biu":
            continue
        missing = np.isnan(column.to_numpy()) if kind == "f" else column.isna().to_numpy()
        if missing.any():
            first, count = int(np.flatnonzero(missing)[0]), int(missing.sum())
            rows = "1 row" if count == 1 else f"{count} rows"
            raise MissingValueError(
                f"{what} {name!r} is missing in {rows}, first at row {first}; drop or impute such rows"
            )


def _plain(column: pd.Series) -> Any:
    """Return a pandas column without its index, nullable types as NumPy's where nothing is missing."""
    import pandas as pd

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in NUMBERS:
        return column.to_numpy()
    values = column.array
    if isinstance(column.dtype, pd.CategoricalDtype) or isinstance(values, np.ndarray) or column.isna().any():
        return values
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(column.dtype):
        own = np.dtype(getattr(column.dtype, "numpy_dtype", column.dtype))
        return column.to_numpy(dtype=np.float64 if own.kind == "O" else own)  # Arrow's decimals are objects
    return np.array(column.tolist(), dtype=object) if pd.api.types.is_string_dtype(column.dtype) else values


def _from_polars(column: Any) -> Any:
    """Return a polars column as a pandas column (polars itself would need pyarrow for that)."""
    import pandas as pd

    column = native(column)
    kind = str(column.dtype)
    if kind.startswith(("Enum", "Categorical")):
        enum = kind.startswith("Enum")  # ordered as declared; a polars Categorical has no order
        levels = column.dtype.categories.to_list() if enum else sorted(column.drop_nulls().unique().to_list())
        return pd.Categorical(column.to_list(), levels, ordered=enum)
    numeric = column.dtype.is_numeric() and not kind.startswith("Decimal")
    return column.to_numpy() if numeric or kind == "Boolean" else pd.Series(column.to_list())


def read_csv(file: Any, **dialect: Any) -> pd.DataFrame:
    """Return a CSV file with every number exact, every column of one type, and no column taken for an index.

    ``dialect`` holds arguments of pandas on how the file is written, such as ``sep``.
    """
    import pandas as pd

    options: dict[str, Any] = {"index_col": False, "low_memory": False} | dialect
    if [int(part) for part in pd.__version__.split(".")[:2]] < [3, 1]:  # then exact unasked, with a warning if asked
        options["float_precision"] = "round_trip"
    return pd.read_csv(file, **options)
