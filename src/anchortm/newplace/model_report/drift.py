"""What a report says about covariates: which rows leave the training range, which levels are new, what has moved."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import plain
from anchortm._typing import Array
from anchortm._util.frames import column_names, is_frame, known, native, select
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.newplace.model_report.rows import LEAST, ReportedRows
from anchortm.predict.extrapolation import beyond_the_data, columns_and_ranges

__all__ = ["bad_rows", "drift_of", "extrapolation_of", "outside_of"]

FEW = f"fewer than {LEAST} rows each"


def outside_of(rows: ReportedRows) -> tuple[list[str], Array, Array] | None:
    """Return names, values and training ranges of the numeric covariates; None if the model does not know ranges."""
    new_rows = rows.model.new_rows_
    if rows.law is None or (new_rows.formula is None and new_rows.result.covariate_ranges is None):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        return columns_and_ranges(new_rows, rows.X)


def extrapolation_of(rows: ReportedRows, columns: tuple[list[str], Array, Array] | None, law: Any) -> dict[str, Any]:
    """Return which covariates and predictions leave the training range, and which rows cannot be predicted."""
    found: dict[str, Any] = {"rows": None, "share": None, "columns": None, "beyond_outcomes": None}
    found["bad"] = bad_rows(rows)
    if columns is not None:
        names, values, (low, high) = columns
        below, above = values < low, values > high
        outside = int((below | above).any(axis=1).sum())
        found |= {"rows": outside, "share": outside / len(values)}
        found["columns"] = [
            {
                "name": name,
                "low": float(low[j]),
                "high": float(high[j]),
                "below": int(below[:, j].sum()),
                "above": int(above[:, j].sum()),
            }
            for j, name in enumerate(names)
        ]
    if law is not None and rows.kind in ("number", "time", "count") and rows.good.size >= LEAST:
        result = rows.model.new_rows_.result
        if result.outcome_range is not None:
            medians = np.asarray(law.ppf(0.5), dtype=np.float64)
            found["beyond_outcomes"] = float(beyond_the_data(result, medians).mean())
    return found


def bad_rows(rows: ReportedRows) -> dict[str, Any]:
    """Return how many rows cannot be predicted, and why; entries of fewer than five rows are not repeated."""
    reasons = [reason for text in rows.reasons[rows.reasons != ""].tolist() for reason in text.split("; ")]
    names = _column_names(rows)
    harmless = {f"{name} is {what}" for name in names for what in ("missing", "infinite", "missing or infinite")}
    merged: Counter[str] = Counter()
    for reason, n in Counter(reasons).items():
        merged[reason if n >= LEAST or reason in harmless else _without_entry(names, reason)] += n
    return {"n": rows.n - rows.good.size, "reasons": [{"reason": text, "n": n} for text, n in merged.most_common()]}


def _without_entry(names: Sequence[str], reason: str) -> str:
    """Return a reason of few rows without the entry that it repeats."""
    for name in sorted(names, key=len, reverse=True):
        for end, words in ((" is unknown", "has unknown levels"), (" is not a number", "is not a number")):
            if reason.startswith(f"{name} ") and reason.endswith(end):
                return f"{name} {words} ({FEW})"
    return f"another reason ({FEW})"


def _column_names(rows: ReportedRows) -> list[str]:
    """Return the names that reasons begin with."""
    formula = rows.model.new_rows_.formula
    if formula is None:
        names = [*map(str, getattr(rows.model, "feature_names_in_", ())), *rows.model.new_rows_.result.covariate_names]
    else:
        names = [*formula.covariate_columns, *map(str, formula.strata), *([formula.offset] if formula.offset else [])]
    return [plain(name) for name in (*names, "offset")]


def drift_of(
    rows: ReportedRows, X: Any, columns: tuple[list[str], Array, Array] | None, training: Any
) -> dict[str, Any]:
    """Return how covariates of these rows differ from those of the fit.

    The model knows ranges of numbers and numbers of rows of each level. With the ``training`` rows, means and standard
    deviations are compared too.
    """
    before = None if training is None else _training(rows, training)
    found: dict[str, Any] = {
        "known": "rows of the fit" if training is not None else None if columns is None else "ranges",
        "columns": [],
        "levels": [],
    }
    if columns is not None and rows.good.size >= LEAST:
        names, values, ranges = columns
        missing = _missing(rows, X, names)
        for j, name in enumerate(names):
            own = None if before is None else before[1][:, j]
            found["columns"].append(_column(name, values[:, j], ranges[:, j], own, missing.get(name)))
    found["levels"] = _levels(rows)
    return found


def _training(rows: ReportedRows, training: Any) -> tuple[list[str], Array, Array]:
    """Return the covariates of the rows of the fit."""
    new_rows = rows.model.new_rows_
    if new_rows.formula is not None:
        known(new_rows.formula.covariate_columns, column_names(native(training)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        if new_rows.formula is None:
            new_rows.design(training)  # checks the columns
        found = columns_and_ranges(new_rows, training)
    if len(found[1]) < LEAST:
        raise InputError(f"training has {len(found[1])} rows: pass the rows of the fit, at least {LEAST}")
    return found


def _column(name: str, values: Array, ends: Array, before: Array | None, missing: int | None) -> dict[str, Any]:
    """Return mean and spread of a covariate in these rows, and where they lie in the training range."""
    low, high = ends.tolist()
    width = high - low if high > low else math.nan
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    found = {"name": name, "new": mean, "new_sd": sd, "low": low, "high": high, "missing": missing}
    found["position"] = (mean - low) / width if math.isfinite(width) else None
    found |= {"training": None, "training_sd": None, "shift": None}
    if before is not None:
        own = before[np.isfinite(before)]
        if own.size >= LEAST:
            spread = float(own.std(ddof=1))
            found |= {"training": float(own.mean()), "training_sd": spread}
            found["shift"] = (mean - float(own.mean())) / spread if spread > 0.0 else None
    return found


def _missing(rows: ReportedRows, X: Any, names: Sequence[str]) -> dict[str, int]:
    """Return the number of rows in which a column of the table has no value, of all rows."""
    table = native(X)
    if rows.model.new_rows_.formula is None or not is_frame(table):
        return {}
    there = [name for name in names if name in column_names(table)]
    return {name: int(select(table, [name])[name].isna().sum()) for name in there}


def _levels(rows: ReportedRows) -> list[dict[str, Any]]:
    """Return the shares of levels in the fit and in these rows; those of one to four rows are withheld."""
    formula = rows.model.new_rows_.formula
    if formula is None or rows.good.size < LEAST:
        return []
    state = formula.state()
    counts = state.get("counts") or {}
    found = []
    for name, levels in state["levels"].items():
        column = select(native(rows.X), [name])[name].astype(object)
        own = np.array([int((column == level).sum()) for level in levels])
        before = None if not counts.get(name) else np.asarray(counts[name])
        distance = None if before is None else float(0.5 * np.abs(own / own.sum() - before / before.sum()).sum())
        shares = zip(levels, _told(before, len(levels)), _told(own, len(levels)), strict=True)
        listed = [{"level": str(level), "training": old, "new": new} for level, old, new in shares]
        found.append({"name": name, "distance": distance, "levels": listed})
    return found


def _told(counts: NDArray[Any] | None, size: int) -> list[float | None]:
    """Return the shares of levels; None for those of one to four rows."""
    if counts is None:
        return [None] * size
    return [None if 0 < count < LEAST else float(count / counts.sum()) for count in counts]
