"""Fitted models with parameters other than their own, to look at the loss around an optimum."""

from dataclasses import replace
from typing import Any

import numpy as np


def moved(model: Any, baseline: np.ndarray, coef: np.ndarray, scale: np.ndarray | None = None) -> Any:
    """Return a model with these parameters, all else as it was fitted."""
    own = {"baseline": baseline, "coef": coef}
    if scale is not None:
        own["scale"] = replace(model.result_.scale, coef=scale)
    result = model.with_result(None, replace(model.result_, **own))
    if hasattr(model, "formula_"):
        result.formula_ = model.formula_
    return result
