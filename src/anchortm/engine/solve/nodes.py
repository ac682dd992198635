"""How many quadrature nodes the integrals over random effects need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective, Sums
from anchortm.engine.rows.quadrature import NODES
from anchortm.engine.solve.faces import minimise
from anchortm.engine.solve.newton import Options, expand
from anchortm.engine.solve.start import startable

__all__ = ["quadrature_error", "with_enough_nodes"]

Array = NDArray[np.float64]

ENOUGH = 0.01  # largest error that nodes may leave in a gradient, relative to the tolerance


def with_enough_nodes(objective: Objective, v: Array, options: Options, given: bool) -> Objective:
    """Return the objective with so many nodes that more would change its gradient by much less than the tolerance.

    A number of nodes that was ``given`` stays. The gradient is judged at the minimum of the loss at xi = 0, where a fit
    then starts.
    """
    while True:
        inner: Any = objective.unpenalised
        here = minimise(objective, startable(objective, v), 0.0, options)
        more = next((n for n in NODES[inner.effects.size] if n > inner.n_nodes), None)
        finer = objective.with_nodes(inner.n_nodes + max(4, inner.n_nodes // 2) if given or more is None else more)
        inner.slack, v = quadrature_error(objective, finer, here.v, here.sums, 0.0), here.v
        if given or more is None or inner.slack <= ENOUGH * options.tol:
            objective.begin = v
            return objective
        finer.unpenalised.slack, objective = inner.slack, finer


def quadrature_error(objective: Objective, finer: Objective, v: Array, sums: Sums, xi: float) -> float:
    """Return how much the gradient of the loss changes with more nodes, on the scale of the KKT residual."""
    if math.isinf(xi):
        return _error_of_limit(objective, finer, v, sums)
    here, there = (expand(o, v, s, xi) for o, s in ((objective, sums), (finer, finer.sums(v))))
    return float((np.abs(there.gradient - here.gradient) / (1.0 + there.parts)).max())


def _error_of_limit(objective: Objective, finer: Objective, v: Array, sums: Sums) -> float:
    """Return the same for "least -loglik under t = 0": the change of the Lagrangian's gradient and of t."""
    n, here, there = objective.n_total, objective.derivatives(v), finer.derivatives(v)
    multiplier = np.linalg.lstsq(here.E.T, -here.gradient / n, rcond=1e-10)[0]
    change = (there.gradient - here.gradient) / n + (there.E - here.E).T @ multiplier
    moved = float(np.linalg.norm(finer.sums(v).t - sums.t)) / math.sqrt(n)
    return max(float((np.abs(change) / (1.0 + np.abs(there.gradient / n))).max()), moved)
