"""Tables of predictions: in memory, from Parquet files to a Parquet file batch by batch, or for each Dask partition."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anchortm._typing import AnyTable, Array, Place
from anchortm._util.frames import is_batched, is_frame, known, native, select, take
from anchortm._util.pipelines import model_of
from anchortm._util.progress import Task
from anchortm.backends.sources import open_source
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.judgement import OnBadRows, Unknown, check_policy, warn_of_mapped
from anchortm.predict.extrapolation import beyond_the_data, outside_range
from anchortm.predict.marked import spread
from anchortm.predict.placed_rows import check_place
from anchortm.predict.protocol import Distribution
from anchortm.predict.reading import ReadRows
from anchortm.predict.written import write_batches, write_folder, write_table

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
    on_bad_rows: OnBadRows = "error",
    unknown: Unknown = "error",
    place: Place = "average",
    progress: bool | None = None,
) -> Any:
    """Return or write predictions for the rows of a table of any size.

    Parameters
    ----------
    model : fitted estimator
        Fitted by a formula, or to a frame with named columns. A ``ConformalPredictor`` adds the ends of its sets,
        ``lower`` and ``upper`` (``lower`` alone if outcomes are censored), to the predictions of its model.
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
    on_bad_rows : {"error", "mark"}
        What to do if rows cannot be predicted, because values are missing or infinite, or levels or strata are unknown
        to the fit: raise an error, or predict the others. "mark" adds ``reason``, such as "age is missing; stage 'V'
        is unknown", which is empty for rows with a prediction; predictions of the others are missing.
    unknown : {"error", "baseline", "rare"}
        How to treat levels of covariates that the fit has not seen: as an error, as the reference level of their
        coding, or as the level that was rarest in the fit. The last two add ``mapped``, such as "stage 'V' read as
        'I'", which is empty for rows without such levels; a warning counts the rows (with Dask, those of each
        partition).
    place : {"average", "new"}
        Whether rows come from an average place of the fit or from a new one, as for ``predict_distribution``.
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

    A table with a missing value and an unknown level:

    >>> new = data[["treat", "age"]][:3].assign(age=[12.0, None, 30.0], treat=["placebo", "rIFN-g", "other"])
    >>> atm.predict_table(model, new, sf=[300], on_bad_rows="mark").round(2)
       sf_300                    reason
    0    0.47
    1     NaN            age is missing
    2     NaN  treat 'other' is unknown
    """
    check_is_fitted(model)
    sets = model if hasattr(type(model), "predict_interval") else None
    model = model_of(model if sets is None else sets.model_)
    keep = [keep] if isinstance(keep, str) else list(keep)
    asked = _asked(model, np.atleast_1d(quantiles).tolist(), list(cdf), list(sf), keep, extrapolation)
    if sets is not None:
        asked = _with_columns(asked, dict.fromkeys(sets.end_names_, ("end", None)))
        sets.warn_if_infinite()
    policy = _Policy(on_bad_rows, unknown) if check_policy(on_bad_rows, unknown) else None
    asked = asked if policy is None else _with_words(asked, policy)
    mapped: list[Counter[Any]] = []
    at = _at_place(model, place)
    work = partial(_predict, model=model, asked=asked, policy=policy, mapped=mapped, at=at, sets=sets)
    if not is_batched(data):
        table = native(data)
        if not is_frame(table):
            raise InputError(f"data must be a table with named columns, not {type(data).__name__}")
        result = work(table)
        warn_of_mapped(sum(mapped, Counter()))
        return result if output is None else write_table(result, output)
    source = open_source(data)
    source.check(columns := _columns(model, keep, source.names))
    if type(data).__module__.startswith("dask"):
        frame: Any = data
        alone = partial(_predict, model=model, asked=asked, policy=policy, at=at, sets=sets)
        lazy = frame[columns].map_partitions(alone, meta=_meta(frame._meta, model, asked, policy))
        return lazy if output is None else write_folder(lazy, os.fspath(output))
    if output is None:
        raise InputError("name an output, a Parquet file: predictions of rows read in batches are written to it")
    if source.holds(output):
        raise InputError(f"{os.fspath(output)} would be among the files that are read: choose another folder")
    with Task("predict_table", 1, progress):
        write_batches(source, work, columns, output, asked)
    warn_of_mapped(sum(mapped, Counter()))
    return None


def _at_place(model: Any, place: Place) -> dict[str, Any]:
    """Return the argument of predictions for rows of a new place; refuse a model that does not know places."""
    if not check_place(place):
        return {}
    if not hasattr(model, "predict_distribution"):
        raise InputTypeError(f'{type(model).__name__} does not predict distributions: leave place="new" out')
    if hasattr(type(model), "place_sd_rowwise_"):
        model.place_sd_rowwise_  # noqa: B018 - raises an error before rows are read, or is computed once for all
    return {"place": place}


class _Policy(NamedTuple):
    """What to do with bad rows and with unknown levels, if that is not an error."""

    on_bad_rows: OnBadRows
    unknown: Unknown

    @property
    def marks(self) -> bool:
        """Whether bad rows are marked."""
        return self.on_bad_rows == "mark"


def _with_words(asked: dict[str, tuple[str, Any]], policy: _Policy) -> dict[str, tuple[str, Any]]:
    """Return the columns that are asked for, with those that say what happened to a row."""
    words = (["reason"] if policy.marks else []) + (["mapped"] if policy.unknown != "error" else [])
    return _with_columns(asked, {name: (name, None) for name in words})


def _with_columns(asked: dict[str, tuple[str, Any]], more: dict[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Return the columns that are asked for, with more of them."""
    _check_names([*asked, *more])
    return asked | more


def _columns(model: Any, keep: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns of the data that are needed."""
    formula = getattr(model, "formula_", None)
    if formula is not None:
        wanted = [*formula.covariate_columns, *formula.strata, *([formula.offset] if formula.offset else [])]
    elif hasattr(_first(model), "feature_names_in_"):
        wanted = _features(model, names)
    else:
        raise InputError("the model was fitted to columns without names: fit it by a formula, or to a table with names")
    # a model without covariates still needs to know how many rows there are
    return list(dict.fromkeys([*wanted, *keep])) or list(names[:1])


def _features(model: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that a model fitted to a frame needs; its anchors may be missing."""
    first = _first(model)
    if first is not model:  # the transformers tell which columns they miss
        return [name for name in getattr(first, "feature_names_in_", names) if name in names]
    named = getattr(model, "anchor_names", None)
    anchors = [named] if isinstance(named, str) else list(named or ())
    return [name for name in model.feature_names_in_ if name in names or name not in anchors]


def _first(model: Any) -> Any:
    """Return what takes new rows first: the first transformer of a pipeline, or the model."""
    return next(iter(getattr(model, "transformers_", ())), model)


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
        raise InputTypeError(f"{type(model).__name__} does not predict distributions: leave quantiles, cdf and sf out")
    asked: list[tuple[str, tuple[str, Any]]] = [(name, ("keep", name)) for name in keep]
    asked += points or [("prediction", ("prediction", None))]
    if hasattr(model, "classes_") and not quantiles:
        asked += [(f"p_{level}", ("p", k)) for k, level in enumerate(model.classes_)]
    if extrapolation:
        asked.append(("outside", ("outside", None)))
        if not hasattr(model, "classes_") and (quantiles or not points):
            asked.append(("beyond_data", ("beyond", None)))
    _check_names([name for name, _ in asked])
    return dict(asked)


def _check_names(names: Sequence[str]) -> None:
    """Refuse a table with two columns of the same name."""
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"there would be two columns {name!r}: rename the one to keep, or ask once")


def _at(kind: str, points: Sequence[Any]) -> list[tuple[str, tuple[str, Any]]]:
    """Return a column for each outcome at which the cdf or sf is asked for."""
    labels = [f"{point:.15g}" if isinstance(point, float) else str(point) for point in points]
    return [(f"{kind}_{label}", (kind, point)) for label, point in zip(labels, points, strict=True)]


def _predict(
    table: Any,
    model: Any,
    asked: dict[str, tuple[str, Any]],
    policy: _Policy | None = None,
    mapped: list[Counter[Any]] | None = None,
    at: Mapping[str, Any] = MappingProxyType({}),
    sets: Any = None,
) -> pd.DataFrame:
    """Return the predictions of rows in memory; what levels were read as others goes to ``mapped``, or is warned of.

    ``at`` are more arguments of the predictions.
    """
    import pandas as pd

    names = [str(name) for name in table.columns]
    keep = [name for kind, name in asked.values() if kind == "keep"]
    known(keep, names)
    X = table if hasattr(model, "formula_") else table[_features(model, names)]
    kept = select(table, keep)
    column = _Columns(model, X, kept, **at) if policy is None else _MarkedColumns(model, X, kept, policy, **at)
    result = pd.DataFrame({name: column(*what) for name, what in asked.items() if what[0] not in ("beyond", "end")})
    if sets is not None:
        result = result.assign(**_ends(sets, model, X, policy))
    if "beyond_data" in asked:
        predicted = [name for name, (kind, _) in asked.items() if kind in ("ppf", "prediction")]
        result["beyond_data"] = column.beyond(result[predicted].to_numpy(dtype=np.float64))
    if isinstance(column, _MarkedColumns):
        found = column.read.judgement.mapped
        warn_of_mapped(found) if mapped is None else mapped.append(found)
    result = result[list(asked)]
    return result.set_index(table.index) if isinstance(table, pd.DataFrame) else result


def _ends(sets: Any, model: Any, X: Any, policy: _Policy | None) -> dict[str, Any]:
    """Return the ends of sets by their names."""
    if policy is None:
        return dict(sets.end_columns(X))
    kind = _class_type(model) if policy.marks else None
    return {name: _nullable(values, kind) for name, values in sets.end_columns(X, **policy._asdict()).items()}


class _Columns:
    """The columns of a table of predictions, by kind; what several columns need is computed once."""

    def __init__(self, model: Any, X: Any, kept: pd.DataFrame, **options: Any) -> None:
        self.model, self.X, self.kept, self.options = model, X, kept, options

    @cached_property
    def _distribution(self) -> Distribution:
        distribution: Distribution = self.model.predict_distribution(self.X, **self.options)
        return distribution

    @cached_property
    def _classes(self) -> Any:
        return self.model.predict_proba(self.X, **self.options)

    def __call__(self, kind: str, argument: Any) -> Any:
        match kind:
            case "keep":
                return self.kept[argument]
            case "prediction":
                return self.model.predict(self.X, **self.options)
            case "outside":
                return self.model.extrapolation(self.X).covariates.to_numpy()
            case "p":
                return self._classes[:, argument]
        return getattr(self._distribution, kind)(argument)

    def beyond(self, predicted: Array) -> Any:
        """Return whether one of the predictions of a row lies beyond all outcomes of the fit."""
        return beyond_the_data(self.model.new_rows_.result, predicted).any(axis=1)


class _MarkedColumns(_Columns):
    """The same for rows some of which are bad: those of the good rows, spread over all."""

    def __init__(self, model: Any, X: Any, kept: pd.DataFrame, policy: _Policy, **at: Any) -> None:
        rows = getattr(model, "new_rows_", None)
        if rows is None:
            raise InputTypeError(f"{type(model).__name__} cannot mark rows or map levels: repair or drop such rows")
        self.rows, self.table, self.marks = rows, X, policy.marks
        self.read: ReadRows = rows.read(X, None, policy.unknown)
        if not policy.marks:
            self.read.judgement.check()
        numbers = {name: values for name, values in self.read.taken.items() if values is not None}
        super().__init__(model, self.read.X, kept, **numbers, **at)

    def __call__(self, kind: str, argument: Any) -> Any:
        judgement = self.read.judgement
        match kind:
            case "keep":
                return super().__call__(kind, argument)
            case "reason":
                return judgement.reasons()
            case "mapped":
                return judgement.mappings()
            case "outside":
                rows = np.arange(judgement.n_rows)[judgement.good]
                table = self.X if self.rows.formula is None else take(self.table, rows)
                return spread(outside_range(self.rows, table)[0], judgement.bad)
        values = np.asarray(super().__call__(kind, argument))
        if not self.marks:
            return values
        found = spread(values, judgement.bad)
        return _nullable(found, _class_type(self.model) if kind in ("prediction", "ppf") else None)

    def beyond(self, predicted: Array) -> Any:
        found = np.asarray(beyond_the_data(self.rows.result, predicted).any(axis=1), dtype=object)
        if not self.marks:
            return found.astype(bool)
        found[self.read.judgement.bad] = None
        return _nullable(found, "boolean")


def _nullable(values: Any, dtype: str | None) -> Any:
    """Return values as a column of a type that has missing values; None leaves them as they are."""
    import pandas as pd

    return values if dtype is None else pd.array(values, dtype=dtype)


def _class_type(model: Any) -> str | None:
    """Return the nullable type of the classes of a model; None if it has none, or if they are text."""
    kind = getattr(model, "classes_", np.zeros(0)).dtype.kind
    return {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(kind)


def _meta(frame: Any, model: Any, asked: dict[str, tuple[str, Any]], policy: _Policy | None) -> pd.DataFrame:
    """Return a table of predictions without rows, for Dask."""
    import pandas as pd

    classes = getattr(model, "classes_", np.zeros(0))
    marks = policy is not None and policy.marks
    text = pd.Series(dtype=object)
    own = {"outside": text, "reason": text, "mapped": text, "beyond": pd.Series(dtype="boolean" if marks else bool)}
    label = pd.Series(classes[:0], dtype=_class_type(model) if marks else None)
    kinds = {"prediction": label, "ppf": label, "end": label} | own
    return pd.DataFrame(
        {
            name: frame[argument] if kind == "keep" else kinds.get(kind, pd.Series(dtype=np.float64))
            for name, (kind, argument) in asked.items()
        }
    )
