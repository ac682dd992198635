"""What a saved model needs of new rows."""

from __future__ import annotations

from typing import Any

from anchortm.exceptions import InputError

__all__ = ["columns_needed", "formula_of", "numbers_needed"]

MOST_LEVELS = 8


def formula_of(model: Any) -> Any:
    """Return the formula of a model; refuse a model that was fitted without one."""
    formula = getattr(model, "formula_", None)
    if formula is None:
        raise InputError("the model was fitted in Python without a formula: fit it with anchortm fit")
    return formula


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
