"""One step: the minimiser of a quadratic model under bounds.

The model has the Hessian of the loss if that is positive definite on the free parameters, and else the absolute values
of its eigenvalues. A dense QP solver (daqp) finds the minimiser; its answer is checked.
"""

from __future__ import annotations

from contextlib import suppress

import daqp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import lsq_linear

from anchortm.engine.objective.protocol import FLAT

__all__ = [
    "bounded_minimum",
    "bounded_step",
    "cholesky",
    "convex_model",
    "inner_of",
    "qp_with_equalities",
    "solve_positive",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

QP_TOLERANCE = 1e-6  # largest slope at a solution of the QP, relative to the slope at its start
BIG = 1e30  # the QP solver takes this for infinity
LIFTS = (1e-8, 1e-6, 1e-4, 1e-2)  # added to a flat matrix, relative to its largest curvature


def cholesky(matrix: Array) -> Array | None:
    """Return the upper Cholesky factor, or None if the matrix is not safely positive definite."""
    factor, info = dpotrf(matrix)
    if info != 0:
        return None
    diagonal = factor.diagonal().tolist()  # for a few numbers Python is faster than NumPy
    safe = min(diagonal, default=1.0) > 1e-7 * max(diagonal, default=0.0)
    return np.asarray(factor) if safe else None


def _scaled_cholesky(matrix: Array) -> tuple[Array | None, Array]:
    """Return the Cholesky factor of the matrix with a diagonal of ones, or None, and the scales that make it so.

    Parameters of very different size make a regular matrix look singular.
    """
    diagonal = matrix.diagonal()
    if not (diagonal > 0.0).all():
        return None, np.ones(diagonal.size)
    scale = 1.0 / np.sqrt(diagonal)
    return cholesky(matrix * np.outer(scale, scale)), scale


def solve_positive(matrix: Array, right: Array) -> Array:
    """Return matrix^-1 right for a positive definite matrix; the shortest solution if it is nearly singular."""
    factor = cholesky(matrix)
    if factor is not None:
        return np.asarray(dpotrs(factor, right)[0])
    factor, scale = _scaled_cholesky(matrix)
    if factor is not None:
        return np.asarray(scale * dpotrs(factor, scale * right)[0])
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-12)[0])


def every(holds: Mask) -> bool:
    """Return whether a condition holds everywhere; several times faster than ``all`` for a few numbers."""
    return int(np.count_nonzero(holds)) == holds.size


def inner_of(matrix: Array, free: Mask) -> Array:
    """Return the rows and columns of the free parameters."""
    return matrix if every(free) else matrix[free][:, free]  # much faster than np.ix_ for a few parameters


def convex_model(hessian: Array, binding: Mask) -> tuple[Array, str]:
    """Return a matrix that is positive definite on the free parameters, and the name of the step that it gives.

    The Hessian itself, or, if it curves downwards, the matrix with the absolute values of its eigenvalues: a step then
    leads away from a saddle instead of towards it.
    """
    free = ~binding
    inner = inner_of(hessian, free)
    if not inner.size or cholesky(inner) is not None or _scaled_cholesky(inner)[0] is not None:
        return hessian, "newton"
    values, vectors = np.linalg.eigh(inner)
    name = "newton" if values[0] >= -FLAT * values[-1] else "saddle-free"
    H = hessian.copy()
    # turn downward curvature around, and lift flat directions
    lifted = np.maximum(np.abs(values), FLAT * max(values[-1], FLAT))
    H[np.ix_(free, free)] = (vectors * lifted) @ vectors.T
    return H, name


def bounded_step(gradient: Array, H: Array, binding: Mask, lower: Array, upper: Array, loss: float) -> Array:
    """Return the minimiser of the quadratic model under the bounds; ``loss`` sets the scale for rounding."""
    free = ~binding
    step = np.zeros_like(gradient)
    inner = inner_of(H, free)
    step[free] = solve_positive(inner, -gradient[free])
    if every((step >= lower) & (step <= upper)):
        return step
    try:
        if cholesky(H) is not None:
            step = bounded_minimum(H, gradient, lower, upper)
        else:  # positive definite on the free parameters only: leave the others where they are
            step[free] = bounded_minimum(inner, gradient[free], lower[free], upper[free])
    except ArithmeticError:
        # the QP solver can give up on extreme curvatures; this is a descent direction too
        step[free] = np.clip(-gradient[free] / np.diag(inner), lower[free], upper[free])
    if float(gradient @ step + 0.5 * step @ H @ step) > 1e-12 * (1.0 + abs(loss)):
        # worse than no step at all: H is so flat that the QP solver fails
        step = np.zeros_like(step)
        step[free] = _lifted_step(inner, gradient[free], lower[free], upper[free])
    return step


def _lifted_step(H: Array, g: Array, lower: Array, upper: Array) -> Array:
    """Return the minimiser under the bounds, of a model that has enough curvature for the QP solver."""
    for lift in LIFTS:
        with suppress(ArithmeticError):
            step = bounded_minimum(H + lift * np.diag(H).max() * np.eye(g.size), g, lower, upper)
            if float(g @ step + 0.5 * step @ H @ step) < 0.0:
                return step
    return np.asarray(np.clip(-g / np.diag(H), lower, upper))


def bounded_minimum(H: Array, g: Array, lower: Array, upper: Array) -> Array:
    """Return argmin x'Hx/2 + g'x under lower <= x <= upper, for positive definite H.

    If H is nearly singular the QP solver can be wrong without saying so; then least squares find the minimum.
    """
    x = qp_with_equalities(H, g, lower, upper, np.zeros((0, g.size)), np.zeros(0))[0]
    scale = 1.0 / np.sqrt(np.diag(H))
    slope = (H @ x + g) * scale
    small = QP_TOLERANCE * float(np.abs(g * scale).max(initial=0.0))
    if (((slope <= small) | (x <= lower)) & ((slope >= -small) | (x >= upper))).all():
        return x
    free = lower < upper
    root = cholesky((H * np.outer(scale, scale))[np.ix_(free, free)])
    if root is None:
        raise ArithmeticError("the matrix of the QP is singular to rounding")
    root = np.triu(root)
    target = -solve_triangular(root, (g * scale)[free], trans="T")
    x = np.clip(0.0, lower, upper)
    x[free] = scale[free] * lsq_linear(root, target, ((lower / scale)[free], (upper / scale)[free]), method="bvls").x
    return np.asarray(np.clip(x, lower, upper))


def qp_with_equalities(H: Array, g: Array, lower: Array, upper: Array, A: Array, b: Array) -> tuple[Array, Array]:
    """Return the minimiser under A x = b too, and the multipliers of A x = b."""
    scale = 1.0 / np.sqrt(np.diag(H))
    bounds = np.concatenate([np.clip(upper / scale, -BIG, BIG), b])
    floors = np.concatenate([np.clip(lower / scale, -BIG, BIG), b])
    sense = np.concatenate([np.zeros(g.size), np.full(b.size, 5)]).astype(np.int32)
    x, _, flag, info = daqp.solve(
        np.ascontiguousarray(H * np.outer(scale, scale)),
        np.ascontiguousarray(g * scale),
        np.ascontiguousarray(A * scale),
        bounds,
        floors,
        sense,
    )
    if flag < 1:
        raise ArithmeticError(f"the QP solver gave up (flag {flag})")
    held, dual = np.sign(info["lam"][: g.size]), np.asarray(info["lam"][g.size :])
    # exactly on the bounds that hold
    x = np.where(held < 0.0, lower, np.where(held > 0.0, upper, x * scale))
    return np.clip(x, lower, upper), dual
