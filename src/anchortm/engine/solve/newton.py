"""Constrained Newton for the anchor loss at one xi, with a certificate.

The solver works in the standardised parameters v of the objective, under bounds on the increments of the baseline. A
step minimises a quadratic model under the bounds (``quadratic_program``); a line search on the true loss follows. The
certificate is the KKT residual: the largest free component of the gradient, relative to what cancels in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import FLAT, STRICT, Objective, Sums
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.solve.quadratic_program import (
    bounded_step,
    cholesky,
    convex_model,
    every,
    inner_of,
    solve_positive,
)
from anchortm.exceptions import IdentificationError

__all__ = ["FLAT", "Options", "Solution", "State", "is_strict", "line_search", "loss_of", "minimise", "shortened"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

EPSILON = float(np.finfo(float).eps)
ARMIJO = 1e-4
NEGLIGIBLE, LAST_GAIN = 1e-3, 1e-15  # errors that a step without a pass over the rows may leave, of tol and the loss
# With as many rows the last step needs no pass, from a gradient of this times tol: the step is below 1e-6, and what
# depends on second derivatives (standard errors) has an error of about the step, relative to its size.
MANY, ALMOST = 100_000, 100.0
LAST_STEP = 1e-9  # relative to the largest parameter: a search that stops at so short a step has converged
LONGEST = 1e3  # longest step, relative to the largest parameter
FAR = 100.0  # gradients in standardised parameters beyond this are relative to the parameter
RESOLUTION = 1e-6  # expected gains below this, relative to the loss, may be judged by the gradient instead
LEAST_GAIN = 1e-12  # shortest step of a line search: its expected gain, relative to the loss
STALLS, NO_GAIN = 10, 1e-13  # steps without a gain, relative to the loss, or a smaller gradient before the search stops
OVERFLOW = (
    "the derivatives of the loss overflow: look for outliers in y, X or offset, or take a baseline in log y for "
    "positive outcomes of many orders of magnitude"
)


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
    hessian: Array | Arrow  # Hessian of the loss, in v
    folds: tuple[float, ...] = ()  # where the branch from xi = 0 ended and dropped into another minimum
    history: list[dict[str, Any]] = field(default_factory=list)
    decisive: Any = None  # which places decide, if the loss is a tail risk over places

    @property
    def penalty_sum(self) -> float:
        """Return |t|^2 = r'WPr."""
        return float(self.sums.t @ self.sums.t)


def is_strict(objective: Objective, solution: Solution) -> bool:
    """Return whether the solution is a minimum with enough curvature to rule out separation.

    With a wide factor, curvature is judged within levels, because the smallest curvature falls with the share of the
    smallest level.
    """
    if not solution.converged or solution.min_eigenvalue > STRICT or not isinstance(solution.hessian, Arrow):
        return solution.converged and solution.min_eigenvalue > STRICT
    return solution.hessian.curves(
        solution.active | (objective.coordinates.lower == objective.coordinates.upper), STRICT
    )


def loss_of(objective: Objective, sums: Sums, xi: float) -> float:
    """Return the anchor loss; at xi = inf the negative mean log-likelihood."""
    if xi == 0.0 or math.isinf(xi):
        return -sums.loglik / objective.n_total
    with np.errstate(over="ignore"):
        return (xi * float(sums.t @ sums.t) - sums.loglik) / objective.n_total


@dataclass(eq=False)
class State:
    """What changes from step to step."""

    v: Array
    sums: Sums
    loss: float
    gradient: Array
    parts: Array  # size of the two parts of the gradient, for the scale of the KKT residual
    noise: Array  # rounding error in the gradient of the penalty
    hessian: Any  # an array, or an Arrow if the levels of a wide factor are among the parameters
    E: Array
    likelihood: Array  # gradient of the mean negative log-likelihood alone

    @property
    def sizes(self) -> Array:
        """Return the units of parameters in which gradient and curvature are judged.

        Far out a loss can fall without end while its gradient vanishes, as log(v) does. A large parameter is therefore
        measured relative to its own size.
        """
        return np.maximum(1.0, np.abs(self.v) / FAR)

    @property
    def finite(self) -> bool:
        """Return whether loss and derivatives are numbers."""
        H = self.hessian.schur if isinstance(self.hessian, Arrow) else self.hessian
        return math.isfinite(self.loss) and every(np.isfinite(self.gradient)) and every(np.isfinite(H))

    def small(self, objective: Objective, binding: Mask) -> tuple[State, Mask, Array, Array]:
        """Return the state, the parameters held and the bounds on a step; without the levels of a wide factor."""
        lower, upper = objective.coordinates.lower - self.v, objective.coordinates.upper - self.v
        H = self.hessian
        if not isinstance(H, Arrow):
            return self, binding, lower, upper
        return (
            replace(self, gradient=H.reduce(self.gradient), hessian=H.schur),
            ~H.free(binding),
            *H.bounds(lower, upper),
        )

    def whole(self, step: Array, gradient: bool = True) -> Array:
        """Return the step of all parameters from that of all but the levels of a wide factor."""
        if not isinstance(self.hessian, Arrow):
            return step
        return self.hessian.recover(step, self.gradient if gradient else None)


def expand(objective: Objective, v: Array, sums: Sums, xi: float) -> State:
    """Return the loss and its derivatives at v, where the sums are known."""
    n = objective.n_total
    pull = 2.0 * xi * sums.t
    loss = loss_of(objective, sums, xi)
    objective.tell(loss)
    d = objective.derivatives(v, pull if xi != 0.0 else None)
    penalty_gradient = d.E.T @ pull / n
    hessian = (1.0 / n) * d.penalised(2.0 * xi)
    return State(
        v,
        sums,
        loss,
        d.gradient / n + penalty_gradient,
        np.abs(d.gradient / n) + np.abs(penalty_gradient),
        # each element of t is a sum of about sqrt(n) in absolute terms
        4.0 * EPSILON * abs(xi) / math.sqrt(n) * np.abs(d.E).sum(axis=0),
        hessian,
        d.E,
        d.gradient / n,
    )


def binding_bounds(objective: Objective, v: Array, gradient: Array) -> Mask:
    """Return which parameters are held by a bound: it is reached, and the loss falls beyond it."""
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    held: Mask = ((v <= lower) & (gradient > 0.0)) | ((v >= upper) & (gradient < 0.0)) | (lower == upper)
    return held


def kkt_residual(state: State, binding: Mask) -> float:
    """Return the largest free component of the gradient, relative to what cancels in it."""
    beyond_rounding = np.maximum(np.abs(state.gradient) - state.noise, 0.0)
    return float((state.sizes * beyond_rounding / (1.0 + state.parts))[~binding].max(initial=0.0))


def minimise(objective: Objective, v: Array, xi: float, options: Options, sums: Sums | None = None) -> Solution:
    """Return the minimum of the anchor loss at a finite xi that Newton's method finds from v."""
    history: list[dict[str, Any]] = []
    reason, converged, kkt, stalls = "iteration limit", False, math.inf, 0
    state = _first_state(objective, v, xi, sums)
    for iteration in range(options.max_iter + 1):
        state.v = objective.coordinates.shared_out(state.v)
        binding = binding_bounds(objective, state.v, state.gradient)
        kkt = kkt_residual(state, binding)
        history.append(
            {"iteration": iteration, "xi": xi, "loss": state.loss, "kkt": kkt, "active": int(np.count_nonzero(binding))}
        )
        if options.verbose:
            print(f"xi {xi:.6g}  iteration {iteration}  loss {state.loss:.10g}  KKT {kkt:.1e}")
        small, held, lowest, highest = state.small(objective, binding)
        last = _last(objective, state, small, held, binding, kkt, xi, options.tol)
        if last is not None:
            reason, converged, (state, kkt) = "converged", True, last
            break
        if iteration == options.max_iter:
            break
        H, model = convex_model(small.hessian, held)
        if kkt > options.tol:
            step = state.whole(bounded_step(small.gradient, H, held, lowest, highest, small.loss))
        else:
            step = _escape(objective, state, small, held, xi)
        step = shortened(step, state.v)
        there, length = _advance(objective, state, step, xi, kkt if model == "newton" else 0.0)
        history[-1] |= {"model": model, "step": length}
        if there is None:
            converged = model == "newton" and _at_rounding(state, step)
            reason = "converged to rounding" if converged else "no descent along the step"
            break
        stalls = stalls + 1 if length < 1.0 and state.loss - there.loss <= NO_GAIN * (1.0 + abs(state.loss)) else 0
        if stalls > STALLS:
            reason = "no progress beyond rounding"
            break
        state = there
    return solution_at(objective, state, xi, binding, kkt, converged, reason, history)


def _first_state(objective: Objective, v: Array, xi: float, sums: Sums | None) -> State:
    """Return the state at the start values, within their bounds; refuse those where the loss is not finite."""
    v = np.clip(v, objective.coordinates.lower, objective.coordinates.upper)
    if sums is None:
        sums = objective.sums(v, np.zeros(0) if xi == 0.0 else None)
    if not math.isfinite(sums.loglik):
        raise ArithmeticError("the log-likelihood is not finite at the start values")
    state = expand(objective, v, sums, xi)
    if not state.finite:
        raise IdentificationError(f"{OVERFLOW} at the start values")
    return state


def _at_rounding(state: State, step: Array) -> bool:
    """Return whether a Newton step would change the parameters very little, and the loss not at all."""
    gain = -float(state.gradient @ step)
    short = float(np.abs(step).max()) <= LAST_STEP * (1.0 + float(np.abs(state.v).max()))
    return short and gain <= LAST_GAIN * (1.0 + abs(state.loss))


def shortened(step: Array, v: Array) -> Array:
    """Return the step, shortened if a flat region makes it longer than standardised parameters ever need."""
    longest = LONGEST * (1.0 + float(np.abs(v).max()))
    size = float(np.abs(step).max())
    return step if size <= longest else step * (longest / size)


def _last(
    objective: Objective, state: State, small: State, held: Mask, binding: Mask, kkt: float, xi: float, tol: float
) -> tuple[State, float] | None:
    """Return the state to end with and its KKT residual, or None if the search must go on."""
    almost = ALMOST if objective.n_rows >= MANY else 1.0
    if not (kkt <= almost * tol and _is_minimum(small, held)):
        return None
    polished = _polished(objective, state, small, held, binding, xi, tol)
    if kkt > tol and polished is not state:
        kkt = max(kkt_residual(polished, binding), NEGLIGIBLE * tol)  # at least the error that was neglected
    return (polished, kkt) if kkt <= tol else None


def _polished(
    objective: Objective, state: State, small: State, held: Mask, binding: Mask, xi: float, tol: float
) -> State:
    """Return the state after one more Newton step that is so short that it needs no pass over the rows.

    The derivatives are known, so the step squares the remaining error. It is taken if it changes the loss by rounding
    only; its sums and gradient then follow from the derivatives, up to rounding.
    """
    free = ~held
    inner = inner_of(small.hessian, free)
    if not free.any() or cholesky(inner) is None:
        return state
    step = np.zeros_like(small.gradient)
    step[free] = solve_positive(inner, -small.gradient[free])
    step = state.whole(step)
    v = state.v + step
    inside = (v > objective.coordinates.lower) & (v < objective.coordinates.upper)
    # neglected: in the gradient about step^2, times xi for the penalty; in the loss half the gain
    neglected = (1.0 + 2.0 * abs(xi)) * float(np.abs(step).max()) ** 2
    gain = abs(float(state.gradient @ step))
    rounding = EPSILON * float(np.abs(np.diag(small.hessian)).max() * np.abs(v).sum())
    if rounding > 10.0 * NEGLIGIBLE * tol:  # v itself is not exact enough for a better gradient
        return state
    if not (neglected <= NEGLIGIBLE * tol and gain <= LAST_GAIN * (1.0 + abs(state.loss)) and inside[~binding].all()):
        return state
    loglik = state.sums.loglik - objective.n_total * float(state.likelihood @ step)
    sums = Sums(loglik, state.sums.t + state.E @ step)
    return replace(
        state, v=v, sums=sums, loss=loss_of(objective, sums, xi), gradient=state.gradient + state.hessian @ step
    )


def _is_minimum(state: State, binding: Mask) -> bool:
    """Return whether no free direction curves down."""
    free = ~binding
    inner = inner_of(state.hessian, free)
    if not inner.size or cholesky(inner) is not None:
        return True
    eigenvalues = np.linalg.eigvalsh(inner)
    return bool(eigenvalues[0] >= -1e-8 * max(1.0, eigenvalues[-1]))


def _escape(objective: Objective, state: State, small: State, binding: Mask, xi: float) -> Array:
    """Return a step away from a saddle, along the direction that curves down most, to the side with the lower loss.

    The gradient is zero up to rounding, so it does not tell which side that is.
    """
    free = np.flatnonzero(~binding)
    _, vectors = np.linalg.eigh(small.hessian[np.ix_(free, free)])
    step = np.zeros_like(small.gradient)
    step[free] = 0.1 * vectors[:, 0]
    step = state.whole(step, gradient=False)
    losses = []
    for side in (step, -step):
        _, sums = _sums_along(objective, state, side, 1.0, xi)
        losses.append(loss_of(objective, sums, xi) if math.isfinite(sums.loglik) else math.inf)
    return -step if losses[1] < losses[0] else step


def _advance(objective: Objective, state: State, step: Array, xi: float, kkt: float) -> tuple[State | None, float]:
    """Return the state along the step, before derivatives overflow, and the fraction of the step taken."""
    if -float(state.gradient @ step) <= RESOLUTION * (1.0 + abs(state.loss)):
        there = _by_gradient(objective, state, step, xi, kkt)
        if there is not None:
            return there, 1.0
    share = 1.0
    while (found := line_search(objective, state, share * step, xi)) is not None:
        there = expand(objective, found[0], found[1], xi)
        if there.finite:
            return there, share * found[2]
        share *= 0.1 * found[2]
    return None, 0.0


def _by_gradient(objective: Objective, state: State, step: Array, xi: float, kkt: float) -> State | None:
    """Return the state after the whole step if it halves the gradient and hardly changes the loss, else None.

    Near a minimum the loss itself is too inaccurate: it is a difference of large numbers, or comes from quadrature.
    """
    v, sums = _sums_along(objective, state, step, 1.0, xi)
    if not math.isfinite(sums.loglik) or every(v == state.v):
        return None
    if abs(loss_of(objective, sums, xi) - state.loss) > RESOLUTION * (1.0 + abs(state.loss)):
        return None
    there = expand(objective, v, sums, xi)
    binding = binding_bounds(objective, v, there.gradient)
    return there if there.finite and kkt_residual(there, binding) <= 0.5 * kkt else None


def _sums_along(objective: Objective, state: State, step: Array, length: float, xi: float) -> tuple[Array, Sums]:
    """Return the point at this fraction of a step, and the sums there."""
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    v = np.clip(state.v + length * step, lower, upper)
    if length == 1.0:  # v + (bound - v) can differ from the bound by rounding
        v = np.where(step == lower - state.v, lower, np.where(step == upper - state.v, upper, v))
    if length < 1.0 and not objective.costly:  # a trial, whose derivatives may not be needed
        return v, objective.sums(v)
    return v, objective.sums(v, 2.0 * xi * (state.sums.t + state.E @ (v - state.v)))  # t there, to first order


def line_search(objective: Objective, state: State, step: Array, xi: float) -> tuple[Array, Sums, float] | None:
    """Return the point, the sums there and the fraction of the step, after enough descent; None if there is none."""
    slope = float(state.gradient @ step)
    noise = 1e-14 * (1.0 + abs(state.sums.loglik) / objective.n_total + abs(state.loss))
    noise += 2.0 * objective.slack * float(np.abs(step).sum())
    least = min(1.0, LEAST_GAIN * (1.0 + abs(state.loss)) / max(abs(slope), 1e-300))
    length = 1.0
    while length >= least:
        v, sums = _sums_along(objective, state, step, length, xi)
        if math.isfinite(sums.loglik):
            gain = state.loss - loss_of(objective, sums, xi)
            if gain >= -ARMIJO * length * slope or (gain >= -noise and abs(slope) <= 1e4 * noise):
                return None if every(v == state.v) else (v, sums, length)
        length *= 0.5
    return None


def solution_at(
    objective: Objective,
    state: State,
    xi: float,
    binding: Mask,
    kkt: float,
    converged: bool,
    reason: str,
    history: list[dict[str, Any]],
) -> Solution:
    """Return the solution that a search ends with: the state, its curvature, and the tangent of the path."""
    free = np.flatnonzero(~binding)
    pull = (2.0 / objective.n_total) * (state.E.T @ state.sums.t)
    tangent = np.zeros_like(state.v)
    H = state.hessian if isinstance(state.hessian, Arrow) else state.hessian + objective.coordinates.lift(state.v)
    if isinstance(H, Arrow):
        lowest, inside = H.smallest_eigenvalue(binding), H.free(binding)
        if objective.anchors is not None and lowest > -FLAT:
            small = np.zeros(inside.size)
            small[inside] = -solve_positive(H.schur[np.ix_(inside, inside)], H.reduce(pull)[inside])
            tangent = H.recover(small, pull)
    else:
        inner = H[np.ix_(free, free)]
        eigenvalues = np.linalg.eigvalsh(inner) if free.size else np.array([math.inf])
        lowest = float(eigenvalues[0])
        if free.size and objective.anchors is not None and lowest > -FLAT * eigenvalues[-1]:
            tangent[free] = -solve_positive(inner, pull[free])
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
        H,
        history=history,
    )
