"""Observed outcomes on the scale of the predicted distributions, and checks of what is scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.frames import is_frame, native
from anchortm._util.pipelines import model_of
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.response import Kind, Response, as_response
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.marked import MarkedDistribution
from anchortm.predict.observed import reads_tables
from anchortm.predict.piecewise import PiecewiseDistribution
from anchortm.predict.protocol import Distribution
from anchortm.predict.survival_steps import StepDistribution

__all__ = [
    "check_predicted",
    "exact_values",
    "is_prediction",
    "known_rows",
    "known_values",
    "model_and_table",
    "outcomes_of",
    "predicted",
]


def check_predicted(distribution: Any, steps: bool = False) -> None:
    """Refuse anything but predicted distributions; ``steps`` allows the survival curves of CoxPH."""
    if isinstance(distribution, StepDistribution):
        if steps:
            return
        raise InputTypeError(
            "survival curves of CoxPH are steps that end at the last event time: score them by brier and concordance, "
            "or use ProportionalHazards, whose full distributions have all scores"
        )
    if isinstance(distribution, MarkedDistribution):
        raise InputTypeError(
            f"{int(distribution.bad.sum())} of the {len(distribution)} rows are marked as bad: score the others, "
            "distribution.good_rows with y[~distribution.bad]"
        )
    if not isinstance(distribution, (PredictedDistribution, FamilyDistribution, PiecewiseDistribution)):
        raise InputTypeError(
            f"pass predicted distributions, model.predict_distribution(X), not {type(distribution).__name__}; "
            "score_table takes a model"
        )


def model_and_table(model: Any, data: Any) -> bool:
    """Return whether these are a model that was fitted by a formula, and a table."""
    return reads_tables(model) and hasattr(model_of(model), "new_rows_") and is_frame(native(data))


def predicted(distribution: Any, y: Any) -> tuple[Any, Any]:
    """Return predictions and outcomes; a model that was fitted by a formula makes both of a table."""
    if not model_and_table(distribution, y):
        return distribution, y
    model = model_of(distribution)
    response = model.new_rows_.response(y, None)
    trials = {} if response.trials is None else {"trials": response.trials}
    return model.predict_distribution(y, **trials), response


def is_prediction(values: Any) -> bool:
    """Return whether values are predicted distributions or a model, which NumPy would turn into an object array."""
    return hasattr(values, "predict") or isinstance(values, Distribution)


def outcomes_of(distribution: Any, y: Any) -> Response:
    """Return the observed outcomes on the scale of the distributions, one row for each distribution."""
    basis = distribution.basis
    levels = basis.levels
    response = as_response(y, "ordinal" if levels is not None else "count" if basis.discrete else "continuous", levels)
    if len(response) != len(distribution):
        raise InputError(
            f"y has {len(response)} rows, but there are {len(distribution)} predicted distributions: pass one value "
            f"for each of the {len(distribution)} rows"
        )
    return response


def known_rows(response: Response) -> NDArray[np.bool_]:
    """Return which rows have a known outcome: an exact number, a single class or a single count."""
    if response.scale == "ordinal":
        return np.ones(len(response), dtype=bool)
    if response.scale == "count":
        return np.asarray(response.upper - np.maximum(response.lower, -1.0) == 1.0)
    return np.asarray(response.kind == Kind.EXACT)


def known_values(response: Response) -> Array:
    """Return the outcomes of known rows as numbers, classes as their positions."""
    return np.asarray(response.codes if response.scale == "ordinal" else response.upper, dtype=np.float64)


def exact_values(distribution: Any, y: Any, score: str) -> Array:
    """Return the outcomes as numbers; refuse censored and truncated rows, which ``score`` cannot use."""
    response = outcomes_of(distribution, y)
    censored = int((~known_rows(response)).sum())
    if censored:
        raise InputError(
            f"{score} needs known outcomes, but {censored} of the {len(response)} rows are censored: score the others "
            "only, or use score_table, whose nll and pit take all rows"
        )
    if response.truncated.any():
        raise InputError(
            f"{score} does not support truncation, but {int(response.truncated.sum())} rows are truncated: with "
            "delayed entry pass distribution.given(after=entry) and the plain times, or use score_table"
        )
    return known_values(response)
