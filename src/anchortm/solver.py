"""Constrained Newton for the anchor loss, its path in xi, and certificates.

The minimum is sought in the standardised parameters v of the objective, under bounds on
the increments of the baseline. A Newton step minimises the quadratic model under the
bounds (a small QP), with the full Hessian where it is positive definite and the absolute
values of its eigenvalues otherwise, and a line search on the true loss. xi = inf is the
problem "least negative log-likelihood with t = 0", solved by sequential quadratic programming.

The loss is convex for xi = 0 (without truncation) and, for any xi, for exact rows under
the normal link. Otherwise several minima are possible: the estimate is the one on the
branch that is connected to xi = 0, which is followed with step control. A branch can end
in a fold, where its smallest curvature reaches zero; the solution says so.
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
from scipy.linalg.lapack import dpotrf, dpotrs

from anchortm.exceptions import IdentificationError, OverIdentifiedError
from anchortm.identification import check_separation
from anchortm.objective import NormalObjective, Objective, Sums

__all__ = ["Options", "Solution", "first_solution", "minimise", "restarts", "solve", "solve_path"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ARMIJO = 1e-4
BIG = 1e30  # what the QP solver takes for infinity
FLAT = 1e-8  # a curvature below this, relative to the largest, is a flat direction
STRICT = 1e-5  # a curvature above this, in standardised parameters, rules separation out
FIRST_STEP, SHORTEST_STEP = 0.5, 1e-3  # of the path, in log(1 + xi)
NO_MINIMUM = "the branch connected to xi = 0 ends near xi = {:.3g}, and no other minimum was found"
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
    hessian: Array  # of the loss, in v
    folds: tuple[float, ...] = ()  # where the branch from xi = 0 ended and dropped into another minimum
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def penalty_sum(self) -> float:
        """Return |t|^2 = r'WPr."""
        return float(self.sums.t @ self.sums.t)


def loss_of(objective: Objective, sums: Sums, xi: float) -> float:
    """Return the anchor loss; at xi = inf the negative mean log-likelihood."""
    if xi == 0.0 or math.isinf(xi):
        return -sums.loglik / objective.n_total
    with np.errstate(over="ignore"):
        return (xi * float(sums.t @ sums.t) - sums.loglik) / objective.n_total


@dataclass(eq=False)
class _State:
    """What changes from step to step."""

    v: Array
    sums: Sums
    loss: float
    gradient: Array
    parts: Array  # size of the two parts of the gradient, for the scale of the KKT residual
    hessian: Array
    E: Array


def _expand(objective: Objective, v: Array, sums: Sums, xi: float) -> _State:
    n = objective.n_total
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
        d.E,
    )


def _binding(objective: Objective, v: Array, gradient: Array) -> Mask:
    """Return the bounds that hold the minimum back: reached, and the loss falls beyond."""
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    held: Mask = ((v <= lower) & (gradient > 0.0)) | ((v >= upper) & (gradient < 0.0)) | (lower == upper)
    return held


def _kkt(state: _State, binding: Mask) -> float:
    """Return the largest free component of the gradient, relative to what cancels in it."""
    free = np.abs(state.gradient[~binding]) / (1.0 + state.parts[~binding])
    return float(free.max(initial=0.0))


def _cholesky(matrix: Array) -> Array | None:
    """Return the upper Cholesky factor, or None if the matrix is not safely positive definite."""
    factor, info = dpotrf(matrix)
    if info != 0:
        return None
    diagonal = factor.diagonal()
    safe = diagonal.min(initial=1.0) > 1e-7 * diagonal.max(initial=0.0)
    return np.asarray(factor) if safe else None


def _solve(matrix: Array, right: Array) -> Array:
    """Return matrix^-1 right for a positive definite matrix; the shortest solution where it is nearly singular."""
    factor = _cholesky(matrix)
    if factor is None:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-12)[0])
    return np.asarray(dpotrs(factor, right)[0])


def _model(state: _State, binding: Mask) -> tuple[Array, str]:
    """Return a matrix that is positive definite on the free parameters, and which one it is.

    The Hessian itself, or where it curves downwards the matrix with the absolute values of its
    eigenvalues: a step then runs from a saddle instead of towards it.
    """
    free = ~binding
    if not free.any() or _cholesky(state.hessian[np.ix_(free, free)]) is not None:
        return state.hessian, "newton"
    inner = state.hessian[np.ix_(free, free)]
    values, vectors = np.linalg.eigh(inner)
    name = "newton" if values[0] >= -FLAT * values[-1] else "saddle-free"
    H = state.hessian.copy()
    # turn downward curvature around, and lift what is flat
    lifted = np.maximum(np.abs(values), FLAT * max(values[-1], FLAT))
    H[np.ix_(free, free)] = (vectors * lifted) @ vectors.T
    return H, name


def _step(objective: Objective, state: _State, H: Array, binding: Mask) -> Array:
    """Return the minimiser of the quadratic model under the bounds."""
    lower, upper = objective.coordinates.lower - state.v, objective.coordinates.upper - state.v
    free = ~binding
    step = np.zeros_like(state.v)
    inner = H[np.ix_(free, free)]
    step[free] = _solve(inner, -state.gradient[free])
    if (step >= lower).all() and (step <= upper).all():
        return step
    try:
        if _cholesky(H) is not None:
            return _qp(H, state.gradient, lower, upper)
        # positive definite on the free parameters only: leave the others where they are
        step[free] = _qp(inner, state.gradient[free], lower[free], upper[free])
    except ArithmeticError:
        # the QP solver can give up on extreme curvatures; this is a descent direction all the same
        step[free] = np.clip(-state.gradient[free] / np.diag(inner), lower[free], upper[free])
    return step


def _qp(H: Array, g: Array, lower: Array, upper: Array) -> Array:
    """Return argmin x'Hx/2 + g'x under lower <= x <= upper, for positive definite H."""
    return _qp_with_equalities(H, g, lower, upper, np.zeros((0, g.size)), np.zeros(0))[0]


def _qp_with_equalities(H: Array, g: Array, lower: Array, upper: Array, A: Array, b: Array) -> tuple[Array, Array]:
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
    # on a bound that holds, be exactly on it
    x = np.where(held < 0.0, lower, np.where(held > 0.0, upper, x * scale))
    return np.clip(x, lower, upper), dual


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
        if options.verbose:
            print(f"xi {xi:.6g}  iteration {iteration}  loss {state.loss:.10g}  KKT {kkt:.1e}")
        if kkt <= options.tol and _is_minimum(state, binding):
            reason, converged = "converged", True
            break
        if iteration == options.max_iter:
            break
        H, model = _model(state, binding)
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
    noise = 1e-14 * (1.0 + abs(state.sums.loglik) / objective.n_total + abs(state.loss))
    length = 1.0
    while length > 1e-12:
        v = np.clip(state.v + length * step, lower, upper)
        if length == 1.0:  # v + (bound - v) may miss the bound by a rounding
            v = np.where(step == lower - state.v, lower, np.where(step == upper - state.v, upper, v))
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
    eigenvalues = np.linalg.eigvalsh(inner) if free.size else np.array([math.inf])
    lowest = float(eigenvalues[0])
    tangent = np.zeros_like(state.v)
    if free.size and objective.anchors is not None and lowest > -FLAT * eigenvalues[-1]:
        pull = (2.0 / objective.n_total) * (state.E.T @ state.sums.t)
        tangent[free] = -_solve(inner, pull[free])
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
        state.hessian,
        history=history,
    )


def _follow(objective: Objective, start: Solution, target: float, options: Options) -> Solution:
    """Return the solution at ``target`` on the branch through ``start``.

    Predictor: along dv/ds with s = log(1 + xi). Corrector: Newton. A step is taken if the
    corrector stays near the predictor and meets positive curvature on its way; else it is halved.
    Where no step is short enough the branch folds back: the path drops into the minimum below
    and goes on from there, which does not depend on where it was asked for.
    """
    if isinstance(objective, NormalObjective):  # convex: one minimum, whatever the way
        return _correct(objective, start, target, options)
    here, step = start, max(FIRST_STEP, math.log1p(start.xi))
    n_iter, history = 0, list(start.history)
    while here.xi < target and here.converged:
        left = math.log1p(target) - math.log1p(here.xi)
        xi = target if step >= left else math.expm1(math.log1p(here.xi) + step)
        there = _correct(objective, here, xi, options)
        n_iter += there.n_iter
        move, miss = _distances(here, there, xi)
        smooth = all(row.get("model", "newton") == "newton" for row in there.history)
        folds = here.folds
        if not (smooth and miss <= 0.5 * move + 1e-6 and there.converged):
            if step > SHORTEST_STEP:
                step = 0.5 * min(step, left)
                continue
            folds, miss = (*folds, here.xi), move
            there = replace(there, reason=there.reason if there.converged else NO_MINIMUM.format(here.xi))
        history += there.history
        here = replace(there, folds=folds)
        step *= 2.0 if miss <= 0.1 * move else 1.25
    return replace(here, n_iter=n_iter, history=history)


def _correct(objective: Objective, here: Solution, xi: float, options: Options) -> Solution:
    """Return the minimum at xi from a predicted start, or from here where that is worse."""
    predicted = np.clip(_predict(here, xi), objective.coordinates.lower, objective.coordinates.upper)
    sums = objective.sums(predicted)
    if not (math.isfinite(sums.loglik) and loss_of(objective, sums, xi) <= loss_of(objective, here.sums, xi)):
        predicted, sums = here.v, here.sums
    return minimise(objective, predicted, xi, options, sums)


def _predict(here: Solution, xi: float) -> Array:
    """Return the tangent in log(1 + xi): dv/ds = (1 + xi) dv/dxi."""
    return here.v + here.tangent * (1.0 + here.xi) * (math.log1p(xi) - math.log1p(here.xi))


def _distances(here: Solution, there: Solution, xi: float) -> tuple[float, float]:
    """Return how far the step went and how far from the predictor it ended, in the metric of the loss."""

    def length(step: Array) -> float:
        return math.sqrt(max(float(step @ there.hessian @ step), 0.0))

    return length(there.v - here.v), length(there.v - _predict(here, xi))


def solve_path(
    objective: Objective, v: Array, xis: Sequence[float], options: Options, warm: bool = False
) -> list[Solution]:
    """Return the solutions at these xi (any order, inf allowed), each on the branch from xi = 0.

    With ``warm``, v is taken to be near the solution at the smallest xi already.
    """
    if isinstance(objective, NormalObjective) and objective.linear:
        return [linear_solution(objective, xi) for xi in xis]
    finite = sorted({xi for xi in xis if not math.isinf(xi)})
    found: dict[float, Solution] = {}
    first = finite[0] if finite and isinstance(objective, NormalObjective) else 0.0  # convex: any xi will do
    here = (
        minimise(objective, v, finite[0], options) if warm and finite else first_solution(objective, v, options, first)
    )
    found[here.xi] = here
    for xi in finite:
        if xi > here.xi:
            here = found[xi] = _follow(objective, here, xi, options)
    if any(math.isinf(xi) for xi in xis):
        found[math.inf] = solve_limit(objective, here, options)
    return [found[xi] for xi in xis]


def first_solution(objective: Objective, v: Array, options: Options, xi: float = 0.0) -> Solution:
    """Return the solution that a path starts from; large data begin with the optimum of a sample of their rows."""
    if objective.n_rows >= SUBSAMPLE_FROM:
        sample = objective.every(objective.n_rows // SUBSAMPLE_ROWS)
        v = minimise(sample, _flattened(sample, v), xi, options).v
    else:
        v = _flattened(objective, v)
    solution = minimise(objective, v, xi, options)
    if not (solution.converged and solution.min_eigenvalue > STRICT):
        check_separation(objective)
    return solution


def _flattened(objective: Objective, v: Array) -> Array:
    """Return v, or a flatter baseline where that is likelier: rows far out can make a steep one hopeless."""
    coordinates = objective.coordinates
    middle = np.zeros_like(v)
    middle[0] = v[0]
    middle = np.clip(middle, coordinates.lower, coordinates.upper)
    starts = [middle + share * (v - middle) for share in (1.0, 0.3, 0.1, 0.03, 0.01)]
    return max(starts, key=lambda start: objective.sums(start).loglik)


def solve(objective: Objective, v: Array, xi: float, options: Options) -> Solution:
    """Return the solution at xi (``math.inf`` allowed) on the branch connected to xi = 0.

    Large data follow the branch on a sample of their rows and finish from there.
    """
    enough = objective.anchors is None or 5 * objective.anchors.rank <= SUBSAMPLE_ROWS
    if objective.n_rows >= SUBSAMPLE_FROM and math.isfinite(xi) and xi > 0.0 and enough:
        sample = objective.every(objective.n_rows // SUBSAMPLE_ROWS)
        if not isinstance(objective, NormalObjective):
            near = solve_path(sample, v, [xi], options)[0]
            found = minimise(objective, near.v, xi, options)
            if not (found.converged and found.min_eigenvalue > STRICT):
                check_separation(objective)
            return found
    return solve_path(objective, v, [xi], options)[0]


def linear_solution(objective: NormalObjective, xi: float) -> Solution:
    """Return the normal linear model in closed form, for xi in [-1/2, inf].

    With Q = C'WC + 2 xi E'E the loss is (v'Qv/2 + q'v) / n - log v_1 + constant (q from an
    offset), so v = Q^-1 (n e_1 / v_1 - q) and v_1 solves v_1^2 + b v_1 = n a.
    """
    M, E = objective.moments
    d, n = objective.n_parameters, objective.n_total
    inside, cross = E[:, :d].T @ E[:, :d], E[:, :d].T @ E[:, d]
    gram, linear = M[:d, :d], M[:d, d]
    directions = np.eye(d)
    if math.isinf(xi):
        basis = directions = _null_space(inside, gram)
        if basis.shape[1] == 0 or not np.abs(basis[1]).max() > 1e-9:
            raise _over_identified(objective, linear=True)
        particular = -np.linalg.pinv(inside, rcond=1e-12) @ cross
        if np.abs(inside @ particular + cross).max() > 1e-8 * (1.0 + np.abs(cross).max()):
            raise _over_identified(objective, linear=True)
        reduced = basis @ np.linalg.solve(basis.T @ gram @ basis, basis.T)
        v = _slope_root(reduced, linear + gram @ particular, n, particular)
    elif xi == -0.5:
        # the limit gamma -> 0: what the rows within anchors leave open is settled by the anchors' part
        within = gram - inside
        null = _null_space(within, gram)
        directions = la.null_space(null.T) if null.shape[1] else directions
        if null.shape[1] and np.abs(null[1]).max() > 1e-9:
            raise OverIdentifiedError("at xi = -1/2 the covariates and anchors explain y without error")
        v = _slope_root(np.linalg.pinv(within, rcond=1e-12, hermitian=True), linear - cross, n)
        if null.shape[1]:
            v = v - null @ np.linalg.solve(null.T @ inside @ null, null.T @ (inside @ v + cross))
    else:
        total = gram + 2.0 * xi * inside
        if _cholesky(total) is None:
            check_separation(objective)
            raise IdentificationError(
                "the covariates explain y without error, or there are too few rows: sigma is zero"
            )
        v = _slope_root(np.linalg.inv(total), linear + 2.0 * xi * cross, n)
    return _linear_certificate(objective, v, xi, directions)


def _linear_certificate(objective: NormalObjective, v: Array, xi: float, directions: Array) -> Solution:
    """Return the closed-form solution, checked along the directions that xi leaves open."""
    state = _expand(objective, v, objective.sums(v), 0.0 if math.isinf(xi) else xi)
    gradient = directions.T @ state.gradient
    kkt = float((np.abs(gradient) / (1.0 + np.abs(directions.T) @ state.parts)).max(initial=0.0))
    inner = directions.T @ state.hessian @ directions
    free = np.zeros(v.size, dtype=bool)
    history = [{"iteration": 0, "xi": xi, "loss": state.loss, "kkt": kkt, "active": 0, "model": "closed form"}]
    solution = _solution(objective, state, xi, free, kkt, kkt < 1e-6, "closed form", history)
    return replace(solution, min_eigenvalue=float(np.linalg.eigvalsh(inner)[0]))


def _slope_root(inverse: NDArray[Any], linear: Array, n: float, particular: Array | None = None) -> Array:
    """Return inverse @ (n e_1 / v_1 - linear) + particular with the v_1 > 0 that this implies."""
    base = -inverse @ linear + (0.0 if particular is None else particular)
    a, b = n * inverse[1, 1], base[1]
    slope = 0.5 * (b + math.sqrt(b * b + 4.0 * a))
    return np.asarray(base + inverse[:, 1] * (n / slope))


def _null_space(matrix: Array, scale: Array) -> Array:
    """Return the null space of a positive semidefinite matrix, judged relative to ``scale``."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, values <= 1e-10 * np.abs(np.diag(scale)).max()]


def _over_identified(objective: Objective, linear: bool = False) -> OverIdentifiedError:
    rank = 0 if objective.anchors is None else objective.anchors.rank
    hint = "LinearAnchorRegression(gamma=inf), whose coefficients on the scale of y exist" if linear else "a large xi"
    return OverIdentifiedError(
        f"at xi = inf {rank} anchor directions over-identify {objective.n_parameters} parameters: no residual can be "
        f"uncorrelated with all of them, and h flattens without a finite limit; use a finite xi, or {hint}"
    )


def solve_limit(objective: Objective, start: Solution, options: Options) -> Solution:
    """Return the least negative log-likelihood with t(v) = 0, the limit of the path.

    Sequential quadratic programming from a large xi, where lambda = 2 xi t / n is close.
    """
    if objective.anchors is None:
        raise OverIdentifiedError("xi = inf needs anchors")
    here = start if start.xi >= 1.0 else _follow(objective, start, 1.0, options)
    free = ~_fixed(objective, here)
    E = objective.derivatives(here.v).E
    if np.linalg.matrix_rank(E[:, free], tol=1e-7 * max(np.abs(E).max(), 1e-300)) >= int(free.sum()):
        raise _over_identified(objective)
    for xi in (1e3, 1e5, 1e7):
        here = _follow(objective, here, max(xi, here.xi), options)
        found = _sqp(objective, here, options)
        if found.converged:
            return found
    return found


def _fixed(objective: Objective, solution: Solution) -> Mask:
    fixed: Mask = solution.active | (objective.coordinates.lower == objective.coordinates.upper)
    return fixed


def _sqp(objective: Objective, start: Solution, options: Options) -> Solution:
    n = objective.n_total
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    v, sums, history = start.v, start.sums, list(start.history)
    multiplier = 2.0 * start.xi * sums.t / n
    reason, converged, residual = "iteration limit", False, math.inf
    for iteration in range(min(options.max_iter, 50)):
        d = objective.derivatives(v, n * multiplier)
        U, size, Vt = np.linalg.svd(d.E, full_matrices=False)
        keep = size > 1e-9 * size.max(initial=1e-300)
        U, size, Vt = U[:, keep], size[keep], Vt[keep]
        gradient = d.gradient / n
        reduced = U.T @ multiplier  # the multiplier of size * Vt @ step = -U't
        lagrangian = gradient + Vt.T @ (size * reduced)
        binding = _binding(objective, v, lagrangian)
        stationarity = float(np.abs(lagrangian[~binding] / (1.0 + np.abs(gradient[~binding]))).max(initial=0.0))
        feasibility = float(np.linalg.norm(sums.t)) / math.sqrt(n)
        residual = max(stationarity, feasibility)
        row = {"iteration": iteration, "xi": math.inf, "loss": -sums.loglik / n, "kkt": residual}
        history.append(row | {"active": int(binding.sum()), "model": "sqp"})
        if residual <= options.tol and iteration > 0:
            reason, converged = "converged", True
            break
        # adding a multiple of E'E does not change the solution of the QP but makes it convex
        H = d.hessian / n
        lift = _lift(H, Vt)
        if _cholesky(H + lift * (Vt.T @ Vt)) is None:
            H = objective.derivatives(v).hessian / n
            H = H + FLAT * np.diag(H).max() * np.eye(H.shape[0])
        target = -(U.T @ sums.t) / size
        try:
            step, dual = _qp_with_equalities(H + lift * (Vt.T @ Vt), gradient, lower - v, upper - v, Vt, target)
        except ArithmeticError as error:
            reason = str(error)
            break
        v = np.clip(v + step, lower, upper)
        sums = objective.sums(v)
        if not math.isfinite(sums.loglik):
            reason = "a step left the domain"
            break
        multiplier = U @ ((dual + lift * target) / size)
    loss = -sums.loglik / n
    lowest = _reduced_curvature(d.hessian / n, Vt, binding)
    active = binding & (lower < upper)
    zero = np.zeros_like(v)
    return Solution(
        v,
        math.inf,
        sums,
        loss,
        residual,
        lowest,
        active,
        converged,
        reason,
        start.n_iter + iteration,
        zero,
        d.hessian / n,
        start.folds,
        history,
    )


def _lift(H: Array, Vt: Array) -> float:
    return 2.0 * float(np.abs(H).sum(axis=0).max()) if Vt.shape[0] else 0.0


def _reduced_curvature(H: Array, Vt: Array, binding: Mask) -> float:
    """Return the least curvature in free directions that keep t = 0."""
    free = ~binding
    rows = Vt[:, free]
    basis = la.null_space(rows) if rows.shape[0] else np.eye(int(free.sum()))
    inner = basis.T @ H[np.ix_(free, free)] @ basis
    return float(np.linalg.eigvalsh(inner)[0]) if inner.size else math.inf


def restarts(
    objective: Objective, solution: Solution, n_restarts: int, options: Options, rng: np.random.Generator
) -> list[Solution]:
    """Return the distinct minima found from random starts, lowest loss first."""
    found = [solution]
    for _ in range(n_restarts):
        v = solution.v + rng.normal(size=solution.v.size) * rng.choice([0.3, 1.0, 3.0])
        bounded = np.isfinite(objective.coordinates.lower)
        v[bounded] = objective.coordinates.lower[bounded] + np.abs(v[bounded]) + 0.01
        sums = objective.sums(v)
        if not loss_of(objective, sums, solution.xi) < 1e8 * (1.0 + abs(solution.loss)):
            continue  # hopeless, or not a number
        other = minimise(objective, v, solution.xi, options, sums)
        if other.converged and all(abs(other.loss - s.loss) > 1e-7 * (1.0 + abs(s.loss)) for s in found):
            found.append(other)
    return sorted(found, key=lambda s: s.loss)
