"""Pipelines and searches of scikit-learn: the model inside them, for functions that take a fitted model."""

from __future__ import annotations

from typing import Any

__all__ = ["is_pipeline", "model_of"]


def is_pipeline(model: Any) -> bool:
    """Return whether this is a pipeline of scikit-learn, or one of ours."""
    return isinstance(getattr(model, "steps", None), list)


def model_of(model: Any) -> Any:
    """Return the model of this package inside pipelines and searches, for the rows that they take.

    It is the last step, or the chosen model of a search, and shares all that the fit has found. Its ``transformers_``
    are the steps before it, which new rows pass first. Whatever has no model of this package inside is returned as it
    is.
    """
    last, transformers = model, []
    while (inner := _inside(last)) is not None:
        if is_pipeline(last):
            transformers += [step for _, step in last.steps[:-1] if step not in (None, "passthrough")]
        last = inner
    if not transformers or not hasattr(type(last), "new_rows_"):
        return last if hasattr(type(last), "new_rows_") else model
    made = object.__new__(type(last))
    made.__dict__ |= last.__dict__ | {"transformers_": tuple(transformers)}
    return made


def _inside(model: Any) -> Any:
    """Return the last step of a pipeline, or the model of a search; None for other estimators."""
    if is_pipeline(model):
        return model.steps[-1][1] if model.steps else None
    if hasattr(model, "best_estimator_"):
        return model.best_estimator_
    return model.model if hasattr(model, "xis") and hasattr(model, "model") else None
