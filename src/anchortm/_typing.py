"""Names for what users may pass, so that signatures say it in one word.

Each function checks its arguments at run time as well. The names help editors and readers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes
    from pyarrow.dataset import Dataset
    from scipy import sparse

__all__ = [
    "AnyTable",
    "Array",
    "Axis",
    "Batches",
    "Columns",
    "Covariates",
    "Labels",
    "Numbers",
    "Observed",
    "Outcome",
    "Place",
    "PlaceWeights",
    "Rows",
    "Seed",
    "Table",
]

Array: TypeAlias = NDArray[np.float64]


class Observed(Protocol):
    """What a ``Response`` has, which a later package defines: the ends of each row's interval."""

    @property
    def lower(self) -> Array:
        """Lower ends."""

    @property
    def upper(self) -> Array:
        """Upper ends."""

    def __len__(self) -> int: ...


class Batches(Protocol):
    """A source of rows of your own, which is read in batches; see ``anchortm.backends.sources.Source``."""

    @property
    def batched(self) -> bool:
        """Return True."""


# a table with named columns
Table: TypeAlias = Union["pd.DataFrame", "pl.DataFrame", "pl.LazyFrame", "pa.Table"]
# a table, or rows that are read in batches: a path or glob of Parquet files, a dataset, a Dask frame
AnyTable: TypeAlias = Union[Table, str, os.PathLike[str], "Dataset", "dd.DataFrame", Batches]
# X of fit: an array, a table, a sparse matrix, or None for a model without covariates
Covariates: TypeAlias = Union[ArrayLike, Table, "sparse.spmatrix", "sparse.sparray", None]
# y of fit: numbers, classes, or a Response made by Surv, Interval or Trials
Outcome: TypeAlias = Union[ArrayLike, "pd.Series", "pl.Series", "pd.Categorical", "Observed"]
# one label for each row: anchors, environments, clusters; several columns as a table or a list of columns
Labels: TypeAlias = Union[ArrayLike, Table, "pd.Series", "pl.Series", Sequence[object]]
# one number for each row: weights and offsets
Numbers: TypeAlias = Union[ArrayLike, "pd.Series", "pl.Series"]
# names, or positions, of columns
Columns: TypeAlias = str | int | Sequence[str | int]
# rows to take: one position, several, a mask or a slice
Rows: TypeAlias = int | slice | Sequence[int] | NDArray[np.integer[Any]] | NDArray[np.bool_]
# what random numbers start from
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
# whether predictions are for an average place, or for a new one that is shifted
Place: TypeAlias = Literal["average", "new"]
# how much each environment counts: a rule, or a weight for each by name
PlaceWeights: TypeAlias = Literal["rows", "equal", "shrunk"] | Mapping[Any, float]
# axes to draw into
Axis: TypeAlias = Union["Axes", None]
