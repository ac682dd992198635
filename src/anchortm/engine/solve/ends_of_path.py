"""The ends of the path: the linear model in closed form, and xi = inf.

xi = inf is the problem "least negative log-likelihood under t = 0", solved by sequential quadratic programming. If no
parameters satisfy t = 0, the path has no finite limit, and ``OverIdentifiedError`` says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import FLAT, Objective, Sums
from anchortm.engine.solve.newton import Options, Solution, binding_bounds, expand, solution_at
from anchortm.engine.solve.quadratic_program import cholesky, qp_with_equalities
from anchortm.exceptions import IdentificationError, OverIdentifiedError

__all__ = ["linear_solution", "multiplier_at", "over_identified", "sqp"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def linear_solution(objective: Objective, xi: float, options: Options) -> Solution:
    """Return the normal linear model in closed form, for xi in [-1/2, inf].

    With Q = C'WC + 2 xi E'E the loss is (v'Qv/2 + q'v) / n - log v_1 + constant (q from an
    offset), so v = Q^-1 (n e_1 / v_1 - q) and v_1 solves v_1^2 + b v_1 = n a.
    """
    assert objective.closed_form is not None  # noqa: S101
    M, E = objective.closed_form
    d, n = objective.n_parameters, objective.n_total
    inside, cross = E[:, :d].T @ E[:, :d], E[:, :d].T @ E[:, d]
    gram, linear = M[:d, :d], M[:d, d]
    directions = np.eye(d)
    if math.isinf(xi):
        basis = directions = _null_space(inside, gram)
        if basis.shape[1] == 0 or not np.abs(basis[1]).max() > 1e-9:
            raise over_identified(objective, linear=True)
        particular = -np.linalg.pinv(inside, rcond=1e-12) @ cross
        if np.abs(inside @ particular + cross).max() > 1e-8 * (1.0 + np.abs(cross).max()):
            raise over_identified(objective, linear=True)
        reduced = basis @ np.linalg.solve(basis.T @ gram @ basis, basis.T)
        v = _slope_root(reduced, linear + gram @ particular, n, particular)
    elif xi == -0.5:
        # the limit gamma -> 0: directions that rows within anchors leave open are settled by the anchors' part
        within = gram - inside
        null = _null_space(within, gram)
        directions = la.null_space(null.T) if null.shape[1] else directions
        if null.shape[1] and np.abs(null[1]).max() > 1e-9:
            raise OverIdentifiedError("at xi = -1/2 the covariates and anchors explain y without error")
        v = _slope_root(np.linalg.pinv(within, rcond=1e-12, hermitian=True), linear - cross, n)
        if null.shape[1]:
            v = v - null @ np.linalg.solve(null.T @ inside @ null, null.T @ (inside @ v + cross))
    else:
        v = _slope_root(_shrunken_inverse(objective, gram, E[:, :d], 2.0 * xi), linear + 2.0 * xi * cross, n)
    return _linear_certificate(objective, v, xi, directions, options.tol)


def _shrunken_inverse(objective: Objective, gram: Array, E: Array, weight: float) -> Array:
    """Return (gram + weight * E'E)^-1 for any weight, from the singular values of E relative to gram.

    Eigenvalues of E'E would not do, because a large weight amplifies the rounding errors of those that are zero.
    """
    factor = cholesky(gram)
    if factor is None:
        objective.check_maximum()
        raise IdentificationError("the covariates explain y without error, or there are too few rows: sigma is zero")
    root = la.solve_triangular(np.triu(factor), np.eye(gram.shape[0]))  # gram^-1 = root root'
    _, singular, vectors = np.linalg.svd(np.linalg.qr(E, mode="r") @ root)
    values = np.zeros(gram.shape[0])
    largest = 1.0 if objective.anchors is None or objective.anchors.contracts else math.inf  # but for rounding errors
    values[: singular.size] = np.minimum(singular, largest) ** 2
    turned = root @ vectors.T
    return np.asarray((turned / (1.0 + weight * values)) @ turned.T)


def _linear_certificate(objective: Objective, v: Array, xi: float, directions: Array, tol: float) -> Solution:
    """Return the closed-form solution with its certificate, along the directions that xi leaves free."""
    state = expand(objective, v, objective.sums(v), 0.0 if math.isinf(xi) else xi)
    gradient = directions.T @ state.gradient
    noise = np.abs(directions.T) @ state.noise
    kkt = float(
        (np.maximum(np.abs(gradient) - noise, 0.0) / (1.0 + np.abs(directions.T) @ state.parts)).max(initial=0.0)
    )
    inner = directions.T @ state.hessian @ directions
    free = np.zeros(v.size, dtype=bool)
    history = [{"iteration": 0, "xi": xi, "loss": state.loss, "kkt": kkt, "active": 0, "model": "closed form"}]
    solution = solution_at(objective, state, xi, free, kkt, kkt <= tol, "closed form", history)
    return replace(solution, min_eigenvalue=float(np.linalg.eigvalsh(inner)[0]))


def _slope_root(inverse: NDArray[Any], linear: Array, n: float, particular: Array | None = None) -> Array:
    """Return v = inverse @ (n e_1 / v_1 - linear) + particular, with the v_1 > 0 that solves it."""
    base = -inverse @ linear + (0.0 if particular is None else particular)
    a, b = n * inverse[1, 1], base[1]
    slope = 0.5 * (b + math.sqrt(b * b + 4.0 * a))
    return np.asarray(base + inverse[:, 1] * (n / slope))


def _null_space(matrix: Array, scale: Array) -> Array:
    """Return the null space of a positive semidefinite matrix, judged relative to ``scale``."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, values <= 1e-10 * np.abs(np.diag(scale)).max()]


def over_identified(objective: Objective, linear: bool = False) -> OverIdentifiedError:
    """Return the error for a path without a finite limit."""
    rank = 0 if objective.anchors is None else objective.anchors.rank
    free = int((objective.coordinates.lower < objective.coordinates.upper).sum())
    other = (
        ", or linear anchor regression with gamma = inf, whose coefficients on the scale of y exist" if linear else ""
    )
    where = "" if linear else " that the path from xi = 0 leads to"
    return OverIdentifiedError(
        f"xi = inf is over-identified: no values of the {free} parameters (within their bounds){where} make the "
        f"residuals uncorrelated with all {rank} anchor directions, and the path has no finite limit; "
        f"use a large finite xi{other}"
    )


def sqp(objective: Objective, start: Solution, options: Options) -> Solution:
    """Return the minimum under t = 0 near a solution at a large xi, where lambda = 2 xi t / n is close."""
    n = objective.n_total
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    v, sums = start.v, start.sums
    multiplier, history = 2.0 * start.xi * sums.t / n, list(start.history)
    point = _lagrangian(objective, v, sums, multiplier)
    reason, converged, iteration = "iteration limit", False, 0
    for iteration in range(1, min(options.max_iter, 50) + 1):
        try:
            step, dual = _sqp_step(objective, point, lower - v, upper - v)
        except ArithmeticError as error:
            reason = str(error)
            break
        found = None
        for length in (1.0, 0.5, 0.25, 0.1, 0.03):
            trial = np.clip(v + length * step, lower, upper)
            moved = multiplier + length * (dual - multiplier)
            trial_sums = objective.sums(trial, n * moved)
            if math.isfinite(trial_sums.loglik):
                new = _lagrangian(objective, trial, trial_sums, moved)
                if new.residual <= max((1.0 - 0.1 * length) * point.residual, options.tol):
                    found = new
                    break
        if found is None:
            reason = "no step reduces the residual of the limit's equations"
            break
        v, sums, multiplier, point = found.v, found.sums, found.multiplier, found
        row = {"iteration": iteration, "xi": math.inf, "loss": -sums.loglik / n, "kkt": point.residual}
        history.append(row | {"active": int(point.binding.sum()), "model": "sqp"})
        if point.residual <= options.tol:
            reason, converged = "converged", True
            break
    H = point.hessian + objective.coordinates.lift(v)
    return Solution(
        v,
        math.inf,
        sums,
        -sums.loglik / n,
        point.residual,
        _reduced_curvature(H, point.Vt, point.binding),
        point.binding & (lower < upper),
        converged,
        reason,
        start.n_iter + iteration,
        np.zeros_like(v),
        H,
        start.folds,
        history,
    )


def multiplier_at(objective: Objective, solution: Solution) -> Array:
    """Return the multiplier of t at a minimum under t = 0, n times lambda."""
    d = objective.derivatives(solution.v)
    free = ~solution.active & (objective.coordinates.lower < objective.coordinates.upper)
    return np.asarray(-np.linalg.lstsq(d.E[:, free].T, d.gradient[free], rcond=1e-9)[0])


class _Point(NamedTuple):
    """The Lagrangian of "least -loglik under t = 0" at one point; E = U diag(size) Vt."""

    v: Array
    sums: Sums
    multiplier: Array
    gradient: Array
    hessian: Array
    U: Array
    size: Array
    Vt: Array
    binding: Mask
    residual: float


def _lagrangian(objective: Objective, v: Array, sums: Sums, multiplier: Array) -> _Point:
    """Return the Lagrangian at v, and the residual of the optimality conditions."""
    n = objective.n_total
    d = objective.derivatives(v, n * multiplier)
    far = not np.isfinite(d.E).all()  # risks overflow far out, where residuals still do not
    U, size, Vt = np.linalg.svd(np.zeros_like(d.E) if far else d.E, full_matrices=False)
    keep = size > 1e-9 * size.max(initial=1e-300)
    gradient, hessian = d.gradient / n, d.hessian / n
    slope = gradient + d.E.T @ multiplier
    binding = binding_bounds(objective, v, slope)
    stationarity = np.abs(slope[~binding]) / (1.0 + np.abs(gradient[~binding]))
    with np.errstate(over="ignore"):  # an infinite residual rejects a trial step
        residual = max(float(stationarity.max(initial=0.0)), float(np.linalg.norm(sums.t)) / math.sqrt(n))
    residual = math.inf if far else residual
    return _Point(v, sums, multiplier, gradient, hessian, U[:, keep], size[keep], Vt[keep], binding, residual)


def _sqp_step(objective: Objective, point: _Point, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the step of the QP and the multiplier there."""
    Vt, H = point.Vt, point.hessian
    # a multiple of E'E makes the QP convex and does not change its solution
    lift = 2.0 * float(np.abs(H).sum(axis=0).max()) if Vt.shape[0] else 0.0
    use = np.ones(H.shape[0], dtype=bool)
    if cholesky(H + lift * (Vt.T @ Vt)) is None:
        # if it is convex on the free parameters at least, leave the others where they are
        use = ~point.binding
        sizes = np.linalg.svd(Vt[:, use], compute_uv=False)
        lift /= max(float(sizes[-1]) ** 2, 1e-8) if sizes.size else 1.0
        if cholesky((H + lift * (Vt.T @ Vt))[np.ix_(use, use)]) is None:
            use = np.ones(H.shape[0], dtype=bool)
            H = objective.derivatives(point.v).hessian / objective.n_total
            H = _lifted(H + FLAT * np.diag(H).max() * np.eye(H.shape[0]))
    target = -(point.U.T @ point.sums.t) / point.size
    step = np.zeros(H.shape[0])
    model = (H + lift * (Vt.T @ Vt))[np.ix_(use, use)]
    step[use], dual = qp_with_equalities(model, point.gradient[use], lower[use], upper[use], Vt[:, use], target)
    return step, point.U @ ((dual + lift * target) / point.size)


def _lifted(H: Array) -> Array:
    """Return H, with negative curvatures turned positive: likelihoods with random effects need not be concave."""
    if cholesky(H) is not None:
        return H
    values, vectors = np.linalg.eigh(H)
    size = np.maximum(np.abs(values), FLAT * np.abs(values).max())
    return np.asarray((vectors * size) @ vectors.T)


def _reduced_curvature(H: Array, Vt: Array, binding: Mask) -> float:
    """Return the least curvature in free directions that keep t = 0 (infinite if there is none)."""
    free = ~binding
    rows = Vt[:, free]
    basis = la.null_space(rows) if rows.shape[0] else np.eye(int(free.sum()))
    inner = basis.T @ H[np.ix_(free, free)] @ basis
    return float(np.linalg.eigvalsh(inner)[0]) if inner.size else math.inf
