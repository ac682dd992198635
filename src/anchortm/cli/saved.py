"""What a saved model needs of new rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anchortm._util.frames import known
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm.cli.columns import hint_at_dates
from anchortm.exceptions import AnchorTMError, InputError

__all__ = [
    "check_columns",
    "columns_needed",
    "columns_scored",
    "load_model",
    "model_alone",
    "numbers_needed",
    "rows_perhaps_scored",
    "rows_scored",
]

MOST_LEVELS = 8
TABLES = (".csv", ".parquet", ".xlsx", ".tsv", ".txt")


def load_model(path: str, table: str | None = None) -> Any:
    """Return a saved model; if the file is a table, say so, and whether the two files are swapped."""
    from anchortm.saving import load

    try:
        return load(path)
    except AnchorTMError:
        if Path(path).suffix.lower() not in TABLES or not Path(path).is_file():
            raise
        swapped = table is not None and table.lower().endswith(".json")
        what = f"swap it with {table}" if swapped else "name a file that anchortm fit --save has written"
        raise InputError(f"{path} is not a model file but a table: {what}") from None


def model_alone(loaded: Any) -> Any:
    """Return the model of a predictor of sets; another model as it is."""
    return loaded.model_ if hasattr(type(loaded), "predict_interval") else loaded


def columns_scored(model: Any, names: list[str]) -> list[str]:
    """Return the columns of a table that scores need in each row; transformers take missing covariates themselves."""
    formula = getattr(model, "formula_", None)
    if formula is None:
        outcome = _outcome(model)
        return [*([] if is_pipeline(model) else _features(model, names)), outcome]
    own = [formula.offset] if formula.offset else []
    return [*formula.covariate_columns, *formula.outcome_columns(names), *formula.strata, *own]


def rows_scored(model: Any, data: Any) -> tuple[Any, Any]:
    """Return the covariates and the outcome of a table, as the fit had them; refuse a model that does not know them."""
    formula = getattr(model, "formula_", None)
    if formula is not None:
        return data, formula.outcome(data)
    names, outcome = [str(name) for name in data.columns], _outcome(model)
    known([outcome], names)
    return data[_features(model, names)], data[outcome]


def rows_perhaps_scored(model: Any, data: Any) -> tuple[Any, Any]:
    """Return the covariates of a table, and its outcome if it has one; after a fit by a formula the table alone."""
    if getattr(model, "formula_", None) is not None:
        return data, None
    names, outcome = [str(name) for name in data.columns], _outcome(model)
    return data[_features(model, names)], data[outcome] if outcome in names else None


def _outcome(model: Any) -> str:
    """Return the column of the outcome of a model that was fitted without a formula."""
    outcome = getattr(model_of(model), "outcome_name_", None)
    if outcome is None or not hasattr(model, "feature_names_in_"):
        raise InputError(
            "the model was fitted in Python without a formula, and its file does not name the columns: fit it to "
            "columns of a table, as in fit(data[['age', 'dose']], data['weight']), or with anchortm fit, which takes "
            "outcomes of several columns too"
        )
    return str(outcome)


def _features(model: Any, names: list[str]) -> list[str]:
    """Return the columns of a table that the model or its transformers know; they tell which ones they miss."""
    return [str(name) for name in model.feature_names_in_ if name in names]


def check_columns(model: Any, data: Any, options: Any, more: Sequence[str] = ()) -> None:
    """Refuse a table that lacks columns which new rows need, or ``more`` columns, with all of their names."""
    names = [str(name) for name in data.columns]
    with hint_at_dates(options, data):
        known([*(row["column"] for row in columns_needed(model)), *more], names)


def numbers_needed(model: Any, data: Any) -> list[str]:
    """Return the columns of a table that must be numbers, as far as the model knows."""
    formula = getattr(model, "formula_", None)
    if formula is None:
        return []
    return [name for name in formula.state()["ranges"] if name in data]


def columns_needed(model: Any) -> list[dict[str, str]]:
    """Return the columns that new rows need, each with its range or its levels."""
    formula = getattr(model, "formula_", None)
    if formula is None:
        return [{"column": str(name), "values": ""} for name in getattr(model, "feature_names_in_", ())]
    state = formula.state()
    ranges, levels = dict(state["ranges"]), dict(state["levels"])
    rows = []
    for name in formula.covariate_columns:
        if name in ranges:
            low, high = ranges[name]
            values = f"numbers, {low:g} to {high:g} in the fit"
        else:
            found = [str(level) for level in levels.get(name, ())]
            more = f", ... ({len(found)} levels)" if len(found) > MOST_LEVELS else ""
            values = ", ".join(found[:MOST_LEVELS]) + more
        rows.append({"column": name, "values": values})
    rows += [{"column": name, "values": "stratum"} for name in formula.strata]
    if formula.offset:
        rows.append({"column": formula.offset, "values": "numbers (offset)"})
    return rows
