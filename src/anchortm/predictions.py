"""Tables of predictions: in memory, from Parquet files to a Parquet file batch by batch, or for each Dask partition."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm.backends.sources import Source, open_source
from anchortm.exceptions import InputError
from anchortm.files import write_whole
from anchortm.frames import is_batched, is_frame, known, native, select

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict_table"]


def predict_table(
    model: Any,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    quantiles: Sequence[float] = (),
    cdf: Sequence[Any] = (),
    sf: Sequence[Any] = (),
    keep: Sequence[str] = (),
    progress: bool | None = None,
) -> Any:
    """Return or write predictions for the rows of a table of any size.

    Parameters
    ----------
    model : fitted estimator
        Fitted by a formula, or to a frame with named columns.
    data : table
        A pandas, polars or pyarrow table; or a path or glob of Parquet files, a pyarrow dataset, a polars LazyFrame
        or a Dask DataFrame, which are read in batches.
    output : path, optional
        A Parquet file to write, whole or not at all (from Dask: a folder of files). Files and lazy frames need one:
        their predictions need not fit into memory.
    quantiles : numbers between 0 and 1
        Quantiles to predict, in columns such as ``q0.9``.
    cdf, sf : outcomes or classes
        Where P(Y <= y) or P(Y > y) are wanted, in columns such as ``cdf_30``.
    keep : column names
        Columns of the data to repeat.
    progress : bool, optional
        Show a progress bar; by default in a terminal only.

    Returns
    -------
    A pandas DataFrame with one row for each row of the data, a Dask DataFrame for one, or None where ``output``
    was written. Without quantiles, cdf or sf it has ``prediction``: the median, or the most probable class
    and with it the probabilities ``p_<class>``.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data)
    >>> atm.predict_table(model, data[:2], quantiles=[0.1, 0.5], sf=[300], keep=["id"]).columns.tolist()
    ['id', 'q0.1', 'q0.5', 'sf_300']
    """
    asked = _asked(model, quantiles, cdf, sf, keep)
    work = partial(_predict, model=model, asked=asked)
    if not is_batched(data):
        table = native(data)
        if not is_frame(table):
            raise InputError(f"data must be a table with named columns, not {type(data).__name__}")
        result = work(table)
        return result if output is None else _write(result, output)
    source = open_source(data, progress=progress)
    source.check(columns := _columns(model, keep, source.names))
    if type(data).__module__.startswith("dask"):
        lazy = data[columns].map_partitions(work, meta=_meta(data._meta, model, asked))
        return lazy if output is None else lazy.to_parquet(os.fspath(output), write_index=False)
    if output is None:
        raise InputError("name an output: predictions of rows that are read in batches are written to a Parquet file")
    return _stream(source, work, columns, output)


def _columns(model: Any, keep: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns of the data that are needed."""
    formula = getattr(model, "formula_", None)
    if formula is not None:
        wanted = [*formula.covariate_columns, *([formula.offset] if formula.offset else [])]
    elif hasattr(model, "feature_names_in_"):
        wanted = list(model.feature_names_in_)
    else:
        raise InputError("the model was fitted to columns without names: fit it by a formula, or to a frame")
    # a model without covariates still needs to know how many rows there are
    return list(dict.fromkeys([*wanted, *keep])) or list(names[:1])


def _asked(
    model: Any, quantiles: Sequence[float], cdf: Sequence[Any], sf: Sequence[Any], keep: Sequence[str]
) -> dict[str, tuple[str, Any]]:
    """Return the columns that are asked for, each with its kind and its argument."""
    asked: list[tuple[str, tuple[str, Any]]] = [(name, ("keep", name)) for name in keep]
    if not (quantiles or cdf or sf):
        asked.append(("prediction", ("prediction", None)))
    asked += [(f"q{q:.15g}", ("ppf", q)) for q in quantiles]
    for kind, points in (("cdf", cdf), ("sf", sf)):
        labels = [f"{point:.15g}" if isinstance(point, float) else str(point) for point in points]
        asked += [(f"{kind}_{label}", (kind, point)) for label, point in zip(labels, points, strict=True)]
    if hasattr(model, "classes_") and not quantiles:
        asked += [(f"p_{level}", ("p", k)) for k, level in enumerate(model.classes_)]
    names = [name for name, _ in asked]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"there would be two columns {twice[0]!r}: rename the one to keep, or ask once")
    return dict(asked)


def _predict(table: Any, model: Any, asked: dict[str, tuple[str, Any]]) -> pd.DataFrame:
    """Return the predictions of rows in memory."""
    import pandas as pd

    keep = [name for kind, name in asked.values() if kind == "keep"]
    known(keep, [str(name) for name in table.columns])
    kept = select(table, keep)
    X = table if hasattr(model, "formula_") else table[list(getattr(model, "feature_names_in_", table.columns))]
    distribution = model.predict_distribution(X)
    classes = model.predict_proba(X) if any(kind == "p" for kind, _ in asked.values()) else None

    def column(kind: str, argument: Any) -> Any:
        if kind == "keep":
            return kept[argument]
        if kind == "prediction":
            return model.predict(X)
        return classes[:, argument] if kind == "p" and classes is not None else getattr(distribution, kind)(argument)

    return pd.DataFrame({name: column(*what) for name, what in asked.items()})


def _meta(frame: Any, model: Any, asked: dict[str, tuple[str, Any]]) -> pd.DataFrame:
    """Return a table of predictions without rows, for Dask."""
    import pandas as pd

    classes = getattr(model, "classes_", np.zeros(0))
    kinds = {"prediction": pd.Series(classes[:0])}
    return pd.DataFrame(
        {
            name: frame[argument] if kind == "keep" else kinds.get(kind, pd.Series(dtype=np.float64))
            for name, (kind, argument) in asked.items()
        }
    )


def _write(table: pd.DataFrame, output: str | os.PathLike[str]) -> None:
    _parquet(output)
    write_whole(output, lambda file: table.to_parquet(file, index=False))


def _parquet(output: str | os.PathLike[str]) -> None:
    if Path(output).suffix.lower() != ".parquet":
        raise InputError(f"{os.fspath(output)} should end in .parquet")


def _stream(source: Source, work: Any, columns: list[str], output: str | os.PathLike[str]) -> None:
    """Write the predictions of one batch after the other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _parquet(output)

    def write(file: Path) -> None:
        writer: Any = None
        try:
            for table in source.each(lambda frame, _: work(frame), columns, "predictions"):
                rows = pa.Table.from_pandas(table, None if writer is None else writer.schema, preserve_index=False)
                writer = writer or pq.ParquetWriter(file, rows.schema)
                writer.write_table(rows)
            if writer is None:
                raise InputError("the table has no rows")
        finally:
            if writer is not None:
                writer.close()

    write_whole(output, write)
