"""Constrained Newton for the anchor loss, its path in xi, and certificates.

The minimum is sought in the standardised parameters v of the objective, under bounds on
the increments of the baseline. A Newton step minimises the quadratic model under the
bounds (a small QP), with the full Hessian where it is positive definite and Gauss-Newton
otherwise, and a line search on the true loss. xi = inf is the problem "least negative
log-likelihood with t = 0", solved by sequential quadratic programming.

The loss is convex for xi = 0 (without truncation) and, for any xi, for exact rows under
the normal link. Otherwise several minima are possible: the estimate is the one on the
branch that is connected to xi = 0, which is followed with step control.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import daqp
import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from anchortm.exceptions import OverIdentifiedError
from anchortm.objective import Derivatives, NormalObjective, Objective, Sums

__all__ = ["Options", "Solution", "minimise", "restarts", "solve", "solve_path"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ARMIJO = 1e-4
BIG = 1e30  # what the QP solver takes for infinity
FLAT = 1e-9  # a curvature below this, in standardised parameters, is a flat direction
FIRST_STEP = 0.5  # of the path, in log(1 + xi)
SUBSAMPLE_FROM = 100_000
SUBSAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class Options:
    """Tolerance on the scaled KKT residual, and the iteration limit of one minimisation."""

    tol: float = 1e-8
    max_iter: int = 200
    verbose: int = 0


@dataclass(frozen=True, eq=False)
class Solution:
    """A point that satisfies the optimality conditions, or the best reached, with its certificate."""

    v: Array
    xi: float
    sums: Sums
    loss: float
    kkt: float
    min_eigenvalue: float
    active: Mask
    converged: bool
    reason: str
    n_iter: int
    tangent: Array  # dv / dxi along the path
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def penalty_sum(self) -> float:
        """Return |t|^2 = r'WPr."""
        return float(self.sums.t @ self.sums.t)


def loss_of(objective: Objective, sums: Sums, xi: float) -> float:
    """Return the anchor loss; at xi = inf the negative mean log-likelihood."""
    penalty = 0.0 if xi == 0.0 or math.isinf(xi) else xi * float(sums.t @ sums.t)
    return (penalty - sums.loglik) / objective.n_total


@dataclass(eq=False)
class _State:
    """What changes from step to step."""

    v: Array
    sums: Sums
    loss: float
    gradient: Array
    parts: Array  # size of the two parts of the gradient, for the scale of the KKT residual
    hessian: Array
    gauss_newton: Array | None
    E: Array


def _expand(objective: Objective, v: Array, sums: Sums, xi: float) -> _State:
    n, d = objective.n_total, None
    pull = 2.0 * xi * sums.t
    d = objective.derivatives(v, pull if xi != 0.0 else None)
    penalty_gradient = d.E.T @ pull / n
    hessian = (d.hessian + 2.0 * xi * (d.E.T @ d.E)) / n
    return _State(
        v,
        sums,
        loss_of(objective, sums, xi),
        d.gradient / n + penalty_gradient,
        np.abs(d.gradient / n) + np.abs(penalty_gradient),
        hessian,
        None,
        d.E,
    )


def _binding(objective: Objective, v: Array, gradient: Array) -> Mask:
    """Return the bounds that hold the minimum back: reached, and the loss falls beyond."""
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    return ((v <= lower) & (gradient > 0.0)) | ((v >= upper) & (gradient < 0.0)) | (lower == upper)


def _kkt(state: _State, binding: Mask) -> float:
    """Return the largest free component of the gradient, relative to what cancels in it."""
    free = np.abs(state.gradient[~binding]) / (1.0 + state.parts[~binding])
    return float(free.max(initial=0.0))


def _cholesky(matrix: Array) -> Array | None:
    """Return the upper Cholesky factor, or None if the matrix is not safely positive definite."""
    try:
        factor = la.cholesky(matrix, check_finite=False)
    except la.LinAlgError:
        return None
    diagonal = np.diag(factor)
    return factor if diagonal.min(initial=1.0) > 1e-7 * diagonal.max(initial=0.0) else None


def _model(objective: Objective, state: _State, xi: float, binding: Mask) -> tuple[Array, str]:
    """Return a matrix that is positive definite on the free parameters, and which one it is."""
    free = ~binding
    if not free.any() or _cholesky(state.hessian[np.ix_(free, free)]) is not None:
        return state.hessian, "newton"
    H, name = state.hessian, "damped"
    if xi != 0.0 and not isinstance(objective, NormalObjective):
        d = objective.derivatives(state.v)
        H, name = (d.hessian + 2.0 * xi * (d.E.T @ d.E)) / objective.n_total, "gauss-newton"
        if _cholesky(H[np.ix_(free, free)]) is not None:
            return H, name
    # lift the spectrum just enough
    lowest = float(np.linalg.eigvalsh(H[np.ix_(free, free)])[0])
    top = float(np.abs(np.diag(H)).max())
    return H + (max(0.0, -2.0 * lowest) + 1e-8 * max(top, 1e-8)) * np.eye(H.shape[0]), name + "+ridge"


def _step(objective: Objective, state: _State, H: Array, binding: Mask) -> Array:
    """Return the minimiser of the quadratic model under the bounds."""
    lower, upper = objective.coordinates.lower - state.v, objective.coordinates.upper - state.v
    free = ~binding
    step = np.zeros_like(state.v)
    inner = H[np.ix_(free, free)]
    step[free] = la.solve(inner, -state.gradient[free], assume_a="pos", check_finite=False)
    if (step >= lower).all() and (step <= upper).all():
        return step
    if _cholesky(H) is None:  # positive definite on the free parameters only: leave the others where they are
        step[free] = _qp(inner, state.gradient[free], lower[free], upper[free])
        return step
    return _qp(H, state.gradient, lower, upper)


def _qp(H: Array, g: Array, lower: Array, upper: Array, A: Array | None = None, b: Array | None = None) -> Array:
    """Return argmin x'Hx/2 + g'x under lower <= x <= upper and A x = b, for positive definite H."""
    rows = np.zeros((0, g.size)) if A is None else A
    target = np.zeros(0) if b is None else b
    scale = 1.0 / np.sqrt(np.diag(H))
    bounds = np.concatenate([np.clip(upper / scale, -BIG, BIG), target])
    floors = np.concatenate([np.clip(lower / scale, -BIG, BIG), target])
    sense = np.concatenate([np.zeros(g.size), np.full(target.size, 5)]).astype(np.int32)
    x, _, flag, _ = daqp.solve(
        np.ascontiguousarray(H * np.outer(scale, scale)),
        np.ascontiguousarray(g * scale),
        np.ascontiguousarray(rows * scale),
        bounds,
        floors,
        sense,
    )
    if flag < 1:
        raise ArithmeticError(f"the QP solver gave up (flag {flag})")
    return np.clip(x * scale, lower, upper)


def minimise(objective: Objective, v: Array, xi: float, options: Options, sums: Sums | None = None) -> Solution:
    """Return the minimum of the anchor loss at a finite xi that Newton's method finds from v."""
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    v = np.clip(v, lower, upper)
    sums = objective.sums(v) if sums is None else sums
    if not math.isfinite(sums.loglik):
        raise ArithmeticError("the log-likelihood is not finite at the start values")
    history: list[dict[str, Any]] = []
    reason, converged, kkt = "iteration limit", False, math.inf
    state = _expand(objective, v, sums, xi)
    binding = _binding(objective, state.v, state.gradient)
    for iteration in range(options.max_iter + 1):
        binding = _binding(objective, state.v, state.gradient)
        kkt = _kkt(state, binding)
        history.append({"iteration": iteration, "xi": xi, "loss": state.loss, "kkt": kkt, "active": int(binding.sum())})
        if kkt <= options.tol and _is_minimum(state, binding):
            reason, converged = "converged", True
            break
        if iteration == options.max_iter:
            break
        H, model = _model(objective, state, xi, binding)
        step = _step(objective, state, H, binding) if kkt > options.tol else _escape(state, binding)
        found = _line_search(objective, state, step, xi)
        history[-1] |= {"model": model, "step": 0.0 if found is None else found[2]}
        if found is None:
            # nothing below in this direction but rounding
            converged = kkt <= math.sqrt(options.tol) * 1e-2 and _is_minimum(state, binding)
            reason = "converged" if converged else "no descent along the step"
            break
        state = _expand(objective, found[0], found[1], xi)
    return _solution(objective, state, xi, binding, kkt, converged, reason, history)


def _is_minimum(state: _State, binding: Mask) -> bool:
    """Return whether no free direction curves down."""
    free = ~binding
    if not free.any():
        return True
    eigenvalues = np.linalg.eigvalsh(state.hessian[np.ix_(free, free)])
    return bool(eigenvalues[0] >= -1e-8 * max(1.0, eigenvalues[-1]))


def _escape(state: _State, binding: Mask) -> Array:
    """Return a step away from a saddle, along the direction that curves down most."""
    free = np.flatnonzero(~binding)
    _, vectors = np.linalg.eigh(state.hessian[np.ix_(free, free)])
    step = np.zeros_like(state.v)
    step[free] = 0.1 * vectors[:, 0]
    return -step if state.gradient @ step > 0 else step


def _line_search(objective: Objective, state: _State, step: Array, xi: float) -> tuple[Array, Sums, float] | None:
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    slope = float(state.gradient @ step)
    noise = 1e-14 * (1.0 + abs(state.loss) + xi * float(state.sums.t @ state.sums.t) / objective.n_total)
    length = 1.0
    while length > 1e-12:
        v = np.clip(state.v + length * step, lower, upper)
        sums = objective.sums(v)
        if math.isfinite(sums.loglik):
            gain = state.loss - loss_of(objective, sums, xi)
            if gain >= -ARMIJO * length * slope or (gain >= -noise and abs(slope) <= 1e4 * noise):
                return (v, sums, length) if np.any(v != state.v) else None
        length *= 0.5
    return None


def _solution(
    objective: Objective,
    state: _State,
    xi: float,
    binding: Mask,
    kkt: float,
    converged: bool,
    reason: str,
    history: list[dict[str, Any]],
) -> Solution:
    free = np.flatnonzero(~binding)
    inner = state.hessian[np.ix_(free, free)]
    lowest = float(np.linalg.eigvalsh(inner)[0]) if free.size else math.inf
    tangent = np.zeros_like(state.v)
    if free.size and objective.anchors is not None and lowest > 0.0:
        pull = (2.0 / objective.n_total) * (state.E.T @ state.sums.t)
        tangent[free] = -la.solve(inner, pull[free], assume_a="pos")
    return Solution(
        state.v,
        xi,
        state.sums,
        state.loss,
        kkt,
        lowest,
        binding & (objective.coordinates.lower < objective.coordinates.upper),
        converged,
        reason,
        len(history) - 1,
        tangent,
        history,
    )


def _follow(objective: Objective, start: Solution, target: float, options: Options) -> Solution:
    """Return the solution at ``target`` on the branch through ``start``.

    Predictor: along dv/ds with s = log(1 + xi). Corrector: Newton. A step is taken if the
    corrector stays near the predictor and meets positive curvature on its way; else it is halved.
    """
    if isinstance(objective, NormalObjective):  # convex: one minimum, whatever the way
        return _correct(objective, start, target, options)
    here, step = start, max(FIRST_STEP, math.log1p(start.xi))
    n_iter, history = 0, list(start.history)
    while here.xi < target:
        left = math.log1p(target) - math.log1p(here.xi)
        xi = target if step >= left else math.expm1(math.log1p(here.xi) + step)
        there = _correct(objective, here, xi, options)
        n_iter += there.n_iter
        move, miss = _distances(objective, here, there, xi)
        smooth = all(row.get("model", "newton") == "newton" for row in there.history)
        near = miss <= 0.5 * move + 1e-6
        if (smooth and near and there.converged) or step <= 1e-3:
            history += there.history
            here = there
            step *= 2.0 if miss <= 0.1 * move else 1.25
        else:
            step = 0.5 * min(step, left)
    return replace(here, n_iter=n_iter, history=history)


def _correct(objective: Objective, here: Solution, xi: float, options: Options) -> Solution:
    """Return the minimum at xi from a predicted start, or from here where that is worse."""
    predicted = np.clip(
        _predict(here, xi), objective.coordinates.lower, objective.coordinates.upper
    )
    sums = objective.sums(predicted)
    if not (math.isfinite(sums.loglik) and loss_of(objective, sums, xi) <= loss_of(objective, here.sums, xi)):
        predicted, sums = here.v, here.sums
    return minimise(objective, predicted, xi, options, sums)


def _predict(here: Solution, xi: float) -> Array:
    """Return the tangent in log(1 + xi): dv/ds = (1 + xi) dv/dxi."""
    return here.v + here.tangent * (1.0 + here.xi) * (math.log1p(xi) - math.log1p(here.xi))


def _distances(objective: Objective, here: Solution, there: Solution, xi: float) -> tuple[float, float]:
    """Return how far the step went, and how far from the predictor it ended."""
    move = float(np.linalg.norm(there.v - here.v))
    return move, float(np.linalg.norm(there.v - _predict(here, xi)))


def solve_path(objective: Objective, v: Array, xis: Sequence[float], options: Options) -> list[Solution]:
    """Return the solutions at these finite xi (any order), each on the branch from xi = 0."""
    here = _first(objective, v, options)
    found: dict[float, Solution] = {0.0: here}
    for xi in sorted(set(xis)):
        if xi > 0.0:
            here = _follow(objective, here, xi, options)
            found[xi] = here
    return [found[xi] for xi in xis]


def _first(objective: Objective, v: Array, options: Options) -> Solution:
    return minimise(objective, v, 0.0, options)


def solve(objective: Objective, v: Array, xi: float, options: Options) -> Solution:
    """Return the solution at xi (``math.inf`` allowed) on the branch connected to xi = 0."""
    if math.isinf(xi):
        return solve_limit(objective, v, options)
    return solve_path(objective, v, [xi], options)[0]


def solve_limit(objective: Objective, v: Array, options: Options) -> Solution:
    """Return the least negative log-likelihood with t(v) = 0, the limit of the path."""
    raise OverIdentifiedError("not yet")


def restarts(
    objective: Objective, solution: Solution, n_restarts: int, options: Options, rng: np.random.Generator
) -> list[Solution]:
    """Return the distinct minima found from random starts, lowest loss first."""
    found = [solution]
    for _ in range(n_restarts):
        v = solution.v + rng.normal(size=solution.v.size) * rng.choice([0.3, 1.0, 3.0])
        bounded = np.isfinite(objective.coordinates.lower)
        v[bounded] = objective.coordinates.lower[bounded] + np.abs(v[bounded]) + 0.01
        if not math.isfinite(objective.sums(v).loglik):
            continue
        other = minimise(objective, v, solution.xi, options)
        if other.converged and all(abs(other.loss - s.loss) > 1e-7 * (1.0 + abs(s.loss)) for s in found):
            found.append(other)
    return sorted(found, key=lambda s: s.loss)
