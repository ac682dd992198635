"""Rows with their outcomes for a fitted model: X and y, or the table alone if a formula says what its columns are."""

from __future__ import annotations

from typing import Any

from anchortm._util.frames import column_names, is_frame, native
from anchortm.exceptions import InputError
from anchortm.inputs.formula import Formula
from anchortm.predict.new_rows import NO_OUTCOME

__all__ = ["anchors_of", "environments_of", "reads_tables", "rows_of_table"]


def reads_tables(model: Any) -> bool:
    """Return whether a model was fitted by a formula, so that it reads outcomes and anchors from tables."""
    return getattr(model, "formula_", None) is not None


def rows_of_table(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y of rows for a fitted model; where it was fitted by a formula, y may be None, or X the formula."""
    if isinstance(X, str):
        return _table_of(model, X, y), None
    if y is None and not reads_tables(model):
        raise InputError(NO_OUTCOME)
    return X, y


def _table_of(model: Any, formula: str, data: Any) -> Any:
    """Return the table; refuse a formula by which the model was not fitted."""
    if data is None:
        raise InputError("a formula needs a table: pass it after the formula")
    if not reads_tables(model):
        raise InputError(
            f"this {type(model).__name__} was not fitted by a formula: pass X and y, or fit it by the formula, "
            "fit(formula, data), and pass the table alone"
        )
    if "".join(formula.split()) != "".join(model.formula_.text.split()):
        raise InputError(
            f"this {type(model).__name__} was fitted by {model.formula_.text!r}, not by {formula!r}: pass the table "
            "alone"
        )
    return data


def anchors_of(model: Any, X: Any, anchors: Any) -> Any:
    """Return the anchors of rows: as given, a column of the table, or those that the formula names."""
    if anchors is None and reads_tables(model):
        anchors = model.formula_.anchor_frame(X)
    if anchors is None:
        raise InputError("anchors are missing: pass them after y, or fit by a formula that names them after '|'")
    return Formula.new_column(X, anchors)


def environments_of(model: Any, X: Any, y: Any, environments: Any, needed: bool = False) -> Any:
    """Return the environments of rows: as given, a column of the table, or the anchor of the formula if it is a factor.

    The anchor counts where y comes from the table too. Without environments return None, unless they are ``needed``.
    """
    if environments is None and y is None:
        environments = _anchor(model.formula_, X)
    if environments is None and needed:
        raise InputError(
            "environments are missing: pass one label for each row, or fit by a formula whose only anchor, after '|', "
            "is a column of names in this table"
        )
    return Formula.new_column(X, environments)


def _anchor(formula: Formula, data: Any) -> Any:
    """Return the only anchor of a formula as the environments of a table, None if there is no such column."""
    table, names = native(data), formula.anchor_columns
    if len(names) != 1 or not is_frame(table) or names[0] not in column_names(table):
        return None
    frame = formula.anchor_frame(table)
    assert frame is not None  # noqa: S101
    column = frame.iloc[:, 0]
    return None if column.dtype.kind == "f" else column
