"""A single Newton step: on a sample of the rows, or as far as boosting goes in a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective, Sums
from anchortm.engine.solve.newton import State, binding_bounds, expand, line_search, shortened
from anchortm.engine.solve.quadratic_program import bounded_step, convex_model

__all__ = ["newton_step", "shrunken_step"]

Array = NDArray[np.float64]


def shrunken_step(objective: Objective, v: Array, xi: float, share: float, sums: Sums | None = None) -> Array | None:
    """Return the point after this fraction of a Newton step from v, at a lower loss; None if there is no descent.

    ``sums`` are those at v, if they are known.
    """
    if sums is None:
        sums = objective.sums(v, np.zeros(0) if xi == 0.0 else None)
    state = expand(objective, v, sums, xi)
    if not state.finite:
        return None
    found = line_search(objective, state, share * _one_step(objective, state), xi)
    return None if found is None else found[0]


def newton_step(objective: Objective, v: Array, xi: float) -> Array:
    """Return the point after a whole Newton step from v, whatever the loss there; v if derivatives overflow."""
    state = expand(objective, v, objective.sums(v, np.zeros(0) if xi == 0.0 else None), xi)
    if not state.finite:
        return v
    return np.clip(v + _one_step(objective, state), objective.coordinates.lower, objective.coordinates.upper)


def _one_step(objective: Objective, state: State) -> Array:
    """Return the Newton step from a state."""
    binding = binding_bounds(objective, state.v, state.gradient)
    H, _ = convex_model(state.hessian, binding)
    lower, upper = objective.coordinates.lower - state.v, objective.coordinates.upper - state.v
    return shortened(bounded_step(state.gradient, H, binding, lower, upper, state.loss), state.v)
