"""Effective degrees of freedom of smooth terms."""

from __future__ import annotations

import numpy as np

from anchortm.engine.objective.protocol import Objective
from anchortm.engine.solve.newton import Solution
from anchortm.inputs.splines import Marks, smooth_terms

__all__ = ["effective_degrees"]


def effective_degrees(objective: Objective, solution: Solution, marks: Marks) -> dict[str, float]:
    """Return the effective degrees of freedom of each smooth term: the trace of its part of (H + S)^-1 H.

    H is the Hessian of the anchor loss at the estimate, in the coefficients and the constant of each baseline (its
    shape counts as given), and S the penalty. For the linear model at xi = 0 this is the trace of the smoother.
    """
    terms = smooth_terms(marks)
    k, d = objective.coordinates.n_baseline, solution.v.size
    if not terms or d != k + len(marks) + len(objective.extra_names):  # turned columns mix the terms
        return {}
    own = np.ones(d)
    if objective.ridge is not None:
        hessian = solution.hessian
        hessian = hessian.toarray() if hasattr(hessian, "toarray") else hessian
        free = ~solution.active & (objective.coordinates.lower < objective.coordinates.upper)
        free[:k] &= np.isneginf(objective.coordinates.lower[:k])
        own[k:] = 0.0
        own[free] = 1.0 - np.diag(np.linalg.pinv(hessian[np.ix_(free, free)])) * objective.ridge[free]
    return {term: float(own[k:][places].sum()) for term, places in terms.items()}
