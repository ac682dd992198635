"""Tables of predictions: in memory, from Parquet files to a Parquet file batch by batch, or for each Dask partition."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anchortm._typing import AnyTable
from anchortm._util.files import beside, remove_folder, write_whole
from anchortm._util.frames import is_batched, is_frame, known, native, select
from anchortm._util.progress import Task
from anchortm.backends.sources import Source, open_source
from anchortm.exceptions import InputError, InputTypeError
from anchortm.predict.extrapolation import beyond_the_data
from anchortm.predict.protocol import Distribution

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict_table"]


def predict_table(
    model: Any,
    data: AnyTable,
    output: str | os.PathLike[str] | None = None,
    *,
    quantiles: Sequence[float] = (),
    cdf: Sequence[Any] = (),
    sf: Sequence[Any] = (),
    keep: Sequence[str] = (),
    extrapolation: bool = False,
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
        A Parquet file to write, whole or not at all (for Dask: a folder of files). Files and lazy frames need one,
        because their predictions may not fit into memory.
    quantiles : numbers between 0 and 1
        Quantiles to predict, in columns such as ``q0.9``.
    cdf, sf : outcomes or classes
        Outcomes y at which to predict P(Y <= y) or P(Y > y), in columns such as ``cdf_30``.
    keep : column names
        Columns of the data to copy into the result.
    extrapolation : bool
        Add ``outside``, the names of covariates outside their training range, and for numbers and times
        ``beyond_data``, whether a predicted quantile lies beyond all outcomes of the fit.
    progress : bool, optional
        Show a progress bar; by default in a terminal or notebook only.

    Returns
    -------
    A pandas DataFrame with one row for each row of the data, a Dask DataFrame if the data are one, or None if
    ``output`` was written. Without quantiles, cdf or sf it has ``prediction``: the median, or the most probable class
    together with the probabilities ``p_<class>``.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data)
    >>> atm.predict_table(model, data[:2], quantiles=[0.1, 0.5], sf=[300], keep=["id"]).columns.tolist()
    ['id', 'q0.1', 'q0.5', 'sf_300']
    """
    check_is_fitted(model)
    keep = [keep] if isinstance(keep, str) else list(keep)
    asked = _asked(model, np.atleast_1d(quantiles).tolist(), list(cdf), list(sf), keep, extrapolation)
    work = partial(_predict, model=model, asked=asked)
    if not is_batched(data):
        table = native(data)
        if not is_frame(table):
            raise InputError(f"data must be a table with named columns, not {type(data).__name__}")
        result = work(table)
        return result if output is None else _write(result, output)
    source = open_source(data)
    source.check(columns := _columns(model, keep, source.names))
    if type(data).__module__.startswith("dask"):
        frame: Any = data
        lazy = frame[columns].map_partitions(work, meta=_meta(frame._meta, model, asked))
        return lazy if output is None else _write_folder(lazy, os.fspath(output))
    if output is None:
        raise InputError("name an output, a Parquet file: predictions of rows read in batches are written to it")
    if source.holds(output):
        raise InputError(f"{os.fspath(output)} would be among the files that are read: choose another folder")
    with Task("predict_table", 1, progress):
        return _stream(source, work, columns, output, asked)


def _columns(model: Any, keep: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns of the data that are needed."""
    formula = getattr(model, "formula_", None)
    if formula is not None:
        wanted = [*formula.covariate_columns, *formula.strata, *([formula.offset] if formula.offset else [])]
    elif hasattr(model, "feature_names_in_"):
        wanted = _features(model, names)
    else:
        raise InputError("the model was fitted to columns without names: fit it by a formula, or to a table with names")
    # a model without covariates still needs to know how many rows there are
    return list(dict.fromkeys([*wanted, *keep])) or list(names[:1])


def _features(model: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that a model fitted to a frame needs; its anchors may be missing."""
    named = getattr(model, "anchor_names", None)
    anchors = [named] if isinstance(named, str) else list(named or ())
    return [name for name in model.feature_names_in_ if name in names or name not in anchors]


def _asked(
    model: Any,
    quantiles: Sequence[float],
    cdf: Sequence[Any],
    sf: Sequence[Any],
    keep: Sequence[str],
    extrapolation: bool = False,
) -> dict[str, tuple[str, Any]]:
    """Return the columns that are asked for, each with its kind and its argument."""
    points = [(f"q{q:.15g}", ("ppf", q)) for q in quantiles] + _at("cdf", cdf) + _at("sf", sf)
    if points and not hasattr(model, "predict_distribution"):
        raise InputTypeError(f"{type(model).__name__} predicts no distribution: ask for no quantiles, cdf or sf")
    asked: list[tuple[str, tuple[str, Any]]] = [(name, ("keep", name)) for name in keep]
    asked += points or [("prediction", ("prediction", None))]
    if hasattr(model, "classes_") and not quantiles:
        asked += [(f"p_{level}", ("p", k)) for k, level in enumerate(model.classes_)]
    if extrapolation:
        asked.append(("outside", ("outside", None)))
        if not hasattr(model, "classes_") and (quantiles or not points):
            asked.append(("beyond_data", ("beyond", None)))
    name, times = Counter(name for name, _ in asked).most_common(1)[0]
    if times > 1:
        raise InputError(f"there would be two columns {name!r}: rename the one to keep, or ask once")
    return dict(asked)


def _at(kind: str, points: Sequence[Any]) -> list[tuple[str, tuple[str, Any]]]:
    """Return a column for each outcome at which the cdf or sf is asked for."""
    labels = [f"{point:.15g}" if isinstance(point, float) else str(point) for point in points]
    return [(f"{kind}_{label}", (kind, point)) for label, point in zip(labels, points, strict=True)]


def _predict(table: Any, model: Any, asked: dict[str, tuple[str, Any]]) -> pd.DataFrame:
    """Return the predictions of rows in memory."""
    import pandas as pd

    names = [str(name) for name in table.columns]
    keep = [name for kind, name in asked.values() if kind == "keep"]
    known(keep, names)
    X = table if hasattr(model, "formula_") else table[_features(model, names)]
    kinds = {kind for kind, _ in asked.values()}
    column = _Columns(model, X, select(table, keep))
    result = pd.DataFrame({name: column(*what) for name, what in asked.items() if what[0] != "beyond"})
    if "beyond" in kinds:
        predicted = [name for name, (kind, _) in asked.items() if kind in ("ppf", "prediction")]
        result["beyond_data"] = beyond_the_data(
            model.new_rows_.result, result[predicted].to_numpy(dtype=np.float64)
        ).any(axis=1)
    return result.set_index(table.index) if isinstance(table, pd.DataFrame) else result


class _Columns:
    """The columns of a table of predictions, by kind; what several columns need is computed once."""

    def __init__(self, model: Any, X: Any, kept: pd.DataFrame) -> None:
        self.model, self.X, self.kept = model, X, kept

    @cached_property
    def _distribution(self) -> Distribution:
        distribution: Distribution = self.model.predict_distribution(self.X)
        return distribution

    @cached_property
    def _classes(self) -> Any:
        return self.model.predict_proba(self.X)

    def __call__(self, kind: str, argument: Any) -> Any:
        match kind:
            case "keep":
                return self.kept[argument]
            case "prediction":
                return self.model.predict(self.X)
            case "outside":
                return self.model.extrapolation(self.X).covariates.to_numpy()
            case "p":
                return self._classes[:, argument]
        return getattr(self._distribution, kind)(argument)


def _meta(frame: Any, model: Any, asked: dict[str, tuple[str, Any]]) -> pd.DataFrame:
    """Return a table of predictions without rows, for Dask."""
    import pandas as pd

    classes = getattr(model, "classes_", np.zeros(0))
    own = {"outside": pd.Series(dtype=object), "beyond": pd.Series(dtype=bool)}
    kinds = {"prediction": pd.Series(classes[:0]), "ppf": pd.Series(classes[:0])} | own
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


def _write_folder(lazy: Any, folder: str) -> None:
    """Write one file for each partition to a new folder; a local one whole or not at all."""
    if "://" in folder:
        lazy.to_parquet(folder, write_index=False)
        return
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder} exists already: name a new folder")
    temporary = beside(target)
    try:
        lazy.to_parquet(str(temporary), write_index=False)
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        remove_folder(temporary)


def _stream(
    source: Source, work: Any, columns: list[str], output: str | os.PathLike[str], asked: dict[str, tuple[str, Any]]
) -> None:
    """Write the predictions batch by batch; columns that are kept have the types of the source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _parquet(output)

    def write(file: Path) -> None:
        writer: Any = None
        try:
            with closing(source.each(lambda frame, _: work(frame), columns, "predictions")) as tables:
                for table in tables:
                    if writer is None:
                        kept = {name: source.arrow_type(name) for name, (kind, _) in asked.items() if kind == "keep"}
                        found = pa.Schema.from_pandas(table, preserve_index=False)
                        fields = [pa.field(field.name, kept.get(field.name, field.type)) for field in found]
                        writer = pq.ParquetWriter(file, pa.schema(fields))
                    writer.write_table(pa.Table.from_pandas(table, writer.schema, preserve_index=False))
            if writer is None:
                raise InputError("the table has no rows")
        finally:
            if writer is not None:
                writer.close()

    write_whole(output, write)
