"""How many quadrature nodes the integrals over random effects need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective, Sums
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.engine.rows.quadrature import NODES
from anchortm.engine.solve.newton import Options, expand, minimise
from anchortm.engine.solve.start import startable

__all__ = ["quadrature_error", "with_enough_nodes"]

Array = NDArray[np.float64]

ENOUGH = 0.01  # largest error that nodes may leave in a gradient, relative to the tolerance


def with_enough_nodes(
    objective: Any, v: Array, make: Callable[[int], Any], options: Options, given: bool
) -> MixedObjective:
    """Return the objective with so many nodes that more would change its gradient by much less than the tolerance.

    ``make`` makes it with another number of nodes; a number that was ``given`` stays. The gradient is judged at the
    maximum of the likelihood, where a fit then starts.
    """
    known = NODES[objective.effects.size]
    while True:
        here = minimise(objective, startable(objective, v), 0.0, options)
        more = next((n for n in known if n > objective.n_nodes), None)
        finer = make(objective.n_nodes + max(4, objective.n_nodes // 2) if given or more is None else more)
        objective.slack, v = quadrature_error(objective, finer, here.v, here.sums, 0.0), here.v
        if given or more is None or objective.slack <= ENOUGH * options.tol:
            objective.begin = v
            return objective  # type: ignore[no-any-return]
        finer.slack, objective = objective.slack, finer


def quadrature_error(objective: Objective, finer: Objective, v: Array, sums: Sums, xi: float) -> float:
    """Return how much the gradient of the loss changes with more nodes, on the scale of the KKT residual."""
    here, there = (expand(o, v, s, xi) for o, s in ((objective, sums), (finer, finer.sums(v))))
    return float((np.abs(there.gradient - here.gradient) / (1.0 + there.parts)).max())
