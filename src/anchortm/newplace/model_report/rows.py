"""The rows of a report on a model: which the model can predict, which have an outcome, and where they come from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.frames import aligned, column_names, is_frame, known, name_of, native, select
from anchortm.bases import OrdinalBasis
from anchortm.exceptions import InputError
from anchortm.families import Family
from anchortm.inputs.anchors import groups_of
from anchortm.inputs.missing import rows_taken
from anchortm.inputs.response import Response, as_response
from anchortm.predict.observed import environments_of, reads_tables

__all__ = ["ALL", "LEAST", "ReportedRows", "kind_of", "read_rows"]

ALL = "(all)"
MISSING = "(missing)"
LEAST = 5  # rows behind every number of a report


@dataclass(frozen=True, eq=False)
class ReportedRows:
    """The rows of a report.

    Attributes
    ----------
    model : fitted model
        Without the pipeline or search around it.
    kind : {"number", "time", "class", "count", "mean"}
        What is predicted: a mean by GLMs, else the outcome itself.
    X, offset
        The rows that can be predicted.
    law : Distribution or None
        Their predictions; None if no row can be predicted.
    reasons : array of str
        Why a row cannot be predicted, of all rows.
    good : array of int
        Positions of the rows that can be predicted, among all rows.
    codes, places, name
        The place of each of all rows, the places, and what they are called.
    scored : array of int
        Positions of the rows with an outcome, among those that can be predicted.
    response : Response or None
        Their outcomes.
    no_outcome : str
        Why there are no outcomes; empty if there are some.
    unknown_classes : int
        Number of rows whose outcome is a class that the fit has not seen.
    options : dict
        More arguments of predictions, such as ``place``.
    """

    model: Any
    kind: str
    X: Any
    offset: Any
    law: Any
    reasons: NDArray[np.object_]
    good: NDArray[np.intp]
    codes: NDArray[np.intp]
    places: list[Any]
    name: str | None
    scored: NDArray[np.intp]
    response: Response | None
    no_outcome: str
    unknown_classes: int
    options: dict[str, Any]

    @property
    def n(self) -> int:
        """Number of all rows."""
        return self.reasons.size

    @property
    def has_places(self) -> bool:
        """Whether the rows come with the names of their places."""
        return self.places != [ALL]

    def part(self, rows: NDArray[np.intp]) -> tuple[Any, Any]:
        """Return covariates and offset of some of the rows that can be predicted."""
        n = self.good.size
        return rows_taken("X", self.X, n, rows), rows_taken("offset", self.offset, n, rows)

    def fingerprint(self) -> str:
        """Return a checksum of predictions, outcomes and places: other rows have another one."""
        found = hashlib.sha256(self.codes.astype(np.int64).tobytes())
        numbers = [self.good.astype(np.float64), self.scored.astype(np.float64)]
        if self.law is not None:
            quantiles = self.law.codes(self.law.ppf(0.5)) if hasattr(self.law, "codes") else self.law.ppf(0.5)
            numbers.append(np.asarray(quantiles, dtype=np.float64).round(6))
        if self.response is not None:
            numbers += [self.response.lower, self.response.upper]
        for values in numbers:
            found.update(np.asarray(values, dtype=np.float64).tobytes())
        return found.hexdigest()[:16]


def kind_of(model: Any) -> str:
    """Return what a fitted model predicts."""
    result = model.new_rows_.result
    if isinstance(result.link, Family):
        return "mean"
    if isinstance(result.basis, OrdinalBasis):
        return "class"
    if result.basis.discrete:
        return "count"
    return "time" if result.time else "number"


def read_rows(
    model: Any, X: Any, y: Any, environments: Any, offset: Any, n_rows: int, options: dict[str, Any]
) -> ReportedRows:
    """Return the rows of a report, judged one by one; rows that cannot be predicted are marked, not refused."""
    aligned(X=X, y=y, environments=environments, offset=offset)
    codes, places, name = _places(model, X, y, environments, n_rows)
    law = model.predict_distribution(X, offset=offset, on_bad_rows="mark", **options)
    if len(law) != n_rows:
        raise InputError(f"X has {n_rows} rows, but there are {len(law)} predictions")
    good = np.flatnonzero(~law.bad)
    own = {what: rows_taken(what, values, n_rows, good) for what, values in (("X", X), ("offset", offset))}
    scored, response, no_outcome, unknown = _outcomes(model, X, y, n_rows, good)
    return ReportedRows(
        model,
        kind_of(model),
        _as_numbers(model, own["X"]),
        own["offset"],
        law.good_rows if good.size else None,
        np.asarray(law.reasons, dtype=object),
        good,
        codes,
        places,
        name,
        scored,
        response,
        no_outcome,
        unknown,
        options,
    )


def _as_numbers(model: Any, X: Any) -> Any:
    """Return good rows with numbers in columns of numbers that have other entries in bad rows."""
    import pandas as pd

    new_rows, table = model.new_rows_, native(X)
    if new_rows.transformers or not is_frame(table):
        return X
    names = column_names(table)
    wanted = new_rows.result.columns or () if new_rows.formula is None else new_rows.formula.state()["ranges"]
    wanted = [name for name in wanted if name in names]
    texts = [name for name, column in select(table, wanted).items() if column.dtype.kind not in "biuf"]
    if not texts:
        return X
    frame = select(table, names)
    return frame.assign(**{name: pd.to_numeric(frame[name]) for name in texts})


def _places(
    model: Any, X: Any, y: Any, environments: Any, n_rows: int
) -> tuple[NDArray[np.intp], list[Any], str | None]:
    """Return the place of each row, the places and their name; rows without a label have a place of their own."""
    name = environments if isinstance(environments, str) else None
    if environments is None and y is None and reads_tables(model):
        name = _only_anchor(model, X)
    labels = None
    if environments is not None or name is not None:
        environments = _with_missing(X, name, environments) if name is not None else environments
        labels = environments_of(model, X, y, environments)
    if labels is None:
        return np.zeros(n_rows, dtype=np.intp), [ALL], None
    codes, found = groups_of(labels)
    if codes.size != n_rows:
        raise InputError(f"environments has {codes.size} rows, but X has {n_rows}")
    return np.asarray(codes, dtype=np.intp), found.tolist(), name_of(labels) or name


def _only_anchor(model: Any, X: Any) -> str | None:
    """Return the column of the only anchor of the formula, None if the table does not have it."""
    table, names = native(X), model.formula_.anchor_columns
    return names[0] if len(names) == 1 and is_frame(table) and names[0] in column_names(table) else None


def _with_missing(X: Any, name: str, environments: Any) -> Any:
    """Return a column of places in which missing labels are a place; None leaves the column to the formula."""
    table = native(X)
    known([name], column_names(table))
    column = select(table, [name])[name]
    lost = column.isna()
    if not lost.any():
        return environments
    return column.astype(object).where(~lost, MISSING).astype(str)


def _outcomes(
    model: Any, X: Any, y: Any, n_rows: int, good: NDArray[np.intp]
) -> tuple[NDArray[np.intp], Response | None, str, int]:
    """Return which of the good rows have an outcome, the outcomes, why there are none, and how many are unknown."""
    import pandas as pd

    nothing = np.zeros(0, dtype=np.intp)
    missing, why = _missing_outcomes(model, X, y, n_rows)
    if why:
        return nothing, None, why, 0
    rows = good[~missing[good]]
    if rows.size == 0:
        why = "all outcomes are missing" if missing.all() else "no row with an outcome can be predicted"
        return nothing, None, why, 0
    part = rows_taken("X", X, n_rows, rows)
    levels, unknown = model.new_rows_.result.basis.levels, 0
    values = rows_taken("y", y, n_rows, rows) if y is not None else _classes(model, part) if levels else None
    if values is None:
        values = model.formula_.outcome(part)
    if levels is not None and not isinstance(values, Response):
        seen = pd.Series(np.asarray(values, dtype=object)).isin(list(levels)).to_numpy()
        unknown = int((~seen).sum())
        if not seen.any():
            return nothing, None, "no outcome is a class that the fit has seen", unknown
        values = rows_taken("y", values, rows.size, np.flatnonzero(seen))
        rows = rows[seen]
        values = as_response(np.asarray(values, dtype=object) if unknown else values, "ordinal", levels)
    part = rows_taken("X", X, n_rows, rows)
    response = model.new_rows_.response(part, values)
    return np.searchsorted(good, rows), response, "", unknown


def _classes(model: Any, table: Any) -> Any:
    """Return the only column of the outcome if it holds classes as they are, so that unknown ones can be left out."""
    columns = model.formula_.outcome_columns(column_names(native(table)))
    values = select(native(table), columns)[columns[0]] if len(columns) == 1 else None
    levels = list(model.new_rows_.result.basis.levels)
    return values if values is not None and values.isin(levels).any() else None


def _missing_outcomes(model: Any, X: Any, y: Any, n_rows: int) -> tuple[NDArray[np.bool_], str]:
    """Return which rows have no outcome, and why none has one."""
    import pandas as pd

    if y is None:
        if not reads_tables(model):
            return np.ones(n_rows, dtype=bool), "no outcomes were given"
        table = native(X)
        names = column_names(table)
        wanted = model.formula_.outcome_columns(names)
        absent = [name for name in wanted if name not in names]
        if absent:
            columns = "columns" if len(absent) > 1 else "column"
            return np.ones(n_rows, dtype=bool), f"the table has no {columns} {', '.join(map(repr, absent))}"
        return select(table, wanted).isna().any(axis=1).to_numpy(), ""
    if isinstance(y, Response) or getattr(getattr(y, "dtype", None), "names", None):
        return np.zeros(n_rows, dtype=bool), ""
    values = native(y)
    lost: NDArray[np.bool_] = np.asarray(pd.isna(values if hasattr(values, "iloc") else np.asarray(values)))
    return np.asarray(lost.any(axis=1)) if lost.ndim == 2 else lost, ""
