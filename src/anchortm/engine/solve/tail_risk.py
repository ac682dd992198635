"""Minimise a smooth loss plus the tail risk of several values, one for each place, with a certificate.

    L(v) = f(v) + rho CVaR(g(v)),     CVaR(g) = max { lam'g : 0 <= lam_e <= cap_e, sum lam = 1 }

CVaR is the mean of the largest values, which take a share of 1 in all; with caps of 1 it is the largest value. A step
minimises a quadratic model of f + rho lam'g whose values g are linear in the step, under the bounds: a quadratic
programme, whose multipliers are the next lam. Near the minimum such steps are Newton's method on the optimality
conditions, which certify it: the gradient of f + rho lam'g is 0 where no bound holds, and lam'g = CVaR(g).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import daqp
import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Sums
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.solve.newton import EPSILON, Options, Solution, shortened
from anchortm.engine.solve.quadratic_program import BIG, convex_model, inner_of

__all__ = ["Expansion", "TailRisk", "minimise_risk", "worst_share"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ARMIJO = 1e-4
PROXIMAL = 1e-4  # curvature that the QP solver gives to variables without any, and takes away again
PRIMAL = 1e-9  # largest violation of a bound by the QP solver
SHORTEST = 1e-10  # fraction of a step below which a line search gives up
NEAR = 1e-4  # expected gains below this, relative to the loss, are also judged by the optimality conditions
ALL = 1e-9  # caps whose sum exceeds 1 by less leave no choice of weights; also rounding in sets of bounds and places
CHANGES = 20  # most changes of these sets; after them the QP solver's answer stays
FEW = 60  # values that the quadratic programme starts with


def worst_share(values: Array, caps: Array) -> tuple[float, Array]:
    """Return the mean of the largest values, each with a weight up to its cap, and these weights."""
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(caps[order]) - caps[order]
    weights = np.zeros(values.size)
    weights[order] = np.clip(1.0 - before, 0.0, caps[order])
    used = weights > 0.0
    return float(weights[used] @ values[used]), weights


class Expansion(NamedTuple):
    """The loss at v to second order: f, g, their gradients, and the Hessian of f + rho lam'g."""

    smooth: float
    values: Array
    slope: Array
    slopes: Array  # one row for each place
    hessian: Array


class TailRisk(ABC):
    """A smooth loss f plus rho times the tail risk of values g.

    Attributes
    ----------
    coordinates : Coordinates
        The bounds on v.
    rho : float
        The factor of the risk.
    caps : array
        Largest weight of each value.
    """

    coordinates: Coordinates
    rho: float
    caps: Array

    @abstractmethod
    def values(self, v: Array) -> tuple[float, Array]:
        """Return f and g at v; not finite where the loss is not defined."""

    @abstractmethod
    def expand(self, v: Array, weights: Array) -> Expansion:
        """Return the loss at v to second order, with the curvature of g along these weights."""

    def loss(self, smooth: float, values: Array) -> float:
        """Return the loss from f and g."""
        return smooth + self.rho * worst_share(values, self.caps)[0]


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search ended: parameters, weights of the places, and the certificate."""

    v: Array
    at: Expansion
    weights: Array
    loss: float
    kkt: float
    binding: Mask
    converged: bool
    reason: str
    history: list[dict[str, Any]]

    def solution(self, risk: TailRisk, xi: float, sums: Sums) -> Solution:
        """Return the solution of a fit; its curvature is that within the surface on which tied values stay equal."""
        tied = (self.weights > 0.0) & (self.weights < risk.caps)
        return Solution(
            self.v,
            xi,
            sums,
            self.loss,
            self.kkt,
            _lowest(self.at.hessian, ~self.binding, self.at.slopes[tied]),
            self.binding & (risk.coordinates.lower < risk.coordinates.upper),
            self.converged,
            self.reason,
            len(self.history) - 1,
            np.zeros_like(self.v),
            self.at.hessian,
            history=self.history,
        )


def _lowest(hessian: Array, free: Mask, slopes: Array) -> float:
    """Return the smallest curvature in the free directions along which tied values stay equal; infinite at a corner."""
    inner, away = inner_of(hessian, free), slopes[1:][:, free] - slopes[:1][:, free]
    if away.size:
        _, sizes, turned = np.linalg.svd(away)
        rank = int((sizes > ALL * sizes.max(initial=0.0)).sum())
        inner = turned[rank:] @ inner @ turned[rank:].T
    return float(np.linalg.eigvalsh(inner)[0]) if inner.size else math.inf


class _Point(NamedTuple):
    """A point of the search with the weights found for it."""

    v: Array
    weights: Array
    at: Expansion
    loss: float


def minimise_risk(risk: TailRisk, v: Array, options: Options, xi: float = 0.0) -> Found:
    """Return the minimum of the loss that is found from v."""
    lower, upper = risk.coordinates.lower, risk.coordinates.upper
    v = np.clip(v, lower, upper)
    smooth, values = risk.values(v)
    if not (math.isfinite(smooth) and np.isfinite(values).all()):
        raise ArithmeticError("the log-likelihood is not finite at the start values")
    weights = worst_share(values, risk.caps)[1]
    here = _Point(v, weights, risk.expand(v, weights), risk.loss(smooth, values))
    history: list[dict[str, Any]] = []
    reason, converged, best, kkt = "iteration limit", False, math.inf, math.inf
    for iteration in range(options.max_iter + 1):
        step, weights = _step(risk, here)
        kkt, binding = _residual(risk, here, weights)
        history.append({"iteration": iteration, "xi": xi, "loss": here.loss, "kkt": kkt, "active": int(binding.sum())})
        if options.verbose:
            print(f"places {int((weights > 0).sum())}  iteration {iteration}  loss {here.loss:.10g}  KKT {kkt:.1e}")
        # beyond the tolerance a step costs one pass and squares the error: go on until rounding ends it
        if kkt <= options.tol and (kkt <= 4.0 * EPSILON or kkt >= 0.1 * best):
            reason, converged = "converged", True
            break
        best = min(best, kkt)
        if iteration == options.max_iter:
            break
        there = _advance(risk, here, step, weights, kkt)
        if there is None:
            converged = kkt <= options.tol
            reason = "converged" if converged else "no descent along the step"
            break
        here = there
    return Found(here.v, here.at, weights, here.loss, kkt, binding, converged, reason, history)


def _residual(risk: TailRisk, here: _Point, weights: Array) -> tuple[float, Mask]:
    """Return how far the optimality conditions are from holding with these weights, and which bounds hold."""
    lower, upper = risk.coordinates.lower, risk.coordinates.upper
    pulls = risk.rho * (weights[:, None] * here.at.slopes)
    gradient = here.at.slope + pulls.sum(axis=0)
    binding: Mask = ((here.v <= lower) & (gradient > 0.0)) | ((here.v >= upper) & (gradient < 0.0)) | (lower == upper)
    size = 1.0 + np.abs(here.at.slope) + np.abs(pulls).sum(axis=0)
    stationary = float((np.abs(gradient) / size)[~binding].max(initial=0.0))
    slack = here.loss - here.at.smooth - risk.rho * float(weights @ here.at.values)
    return max(stationary, abs(slack) / (1.0 + abs(here.loss))), binding


def _step(risk: TailRisk, here: _Point) -> tuple[Array, Array]:
    """Return the step that the quadratic programme asks for, and the weights of the places there."""
    lower, upper = risk.coordinates.lower - here.v, risk.coordinates.upper - here.v
    fixed = lower == upper
    model = convex_model(here.at.hessian, fixed)[0]
    tail = np.flatnonzero(here.weights)
    order = np.argsort(-here.at.values, kind="stable")
    chosen = np.zeros(order.size, dtype=bool)
    chosen[order[: max(FEW, 2 * tail.size)]] = True
    while True:
        step, weights, full, level = _programme(risk, here.at, model, lower, upper, np.flatnonzero(chosen))
        missed = (here.at.values + here.at.slopes @ step > level) & ~chosen
        if not missed.any():
            return _sharpened(risk, here.at, model, lower, upper, step, weights, full)
        chosen |= missed


def _programme(
    risk: TailRisk, at: Expansion, model: Array, lower: Array, upper: Array, chosen: NDArray[np.intp]
) -> tuple[Array, Array, Mask, float]:
    """Return step, weights, which of these are full, and the smallest value of the tail, with the chosen values alone.

    The variables are the step, the level t of the tail and the excesses z_e >= rho (g_e + slope_e'step) - t, z_e >= 0.
    """
    d, m = at.slope.size, chosen.size
    unit = 1.0 / np.sqrt(np.diag(model))
    values = risk.rho * at.values[chosen]
    middle = float(values.max())
    H = np.zeros((d + 1 + m, d + 1 + m))
    H[:d, :d] = model * np.outer(unit, unit)
    f = np.concatenate([at.slope * unit, [1.0], risk.caps[chosen]])
    A = np.hstack([risk.rho * at.slopes[chosen] * unit, -np.ones((m, 1)), -np.eye(m)])
    top = np.concatenate([np.clip(upper / unit, -BIG, BIG), np.full(1 + m, BIG), middle - values])
    bottom = np.concatenate([np.clip(lower / unit, -BIG, BIG), [-BIG], np.zeros(m), np.full(m, -BIG)])
    settings = {"eps_prox": PROXIMAL, "primal_tol": PRIMAL * min(1.0, risk.rho)}
    x, _, flag, info = daqp.solve(H, f, A, top, bottom, np.zeros(top.size, dtype=np.int32), **settings)
    if flag < 1:
        raise ArithmeticError(f"the QP solver gave up (flag {flag})")
    lam = np.asarray(info["lam"])
    weights, full = np.zeros(at.values.size), np.zeros(at.values.size, dtype=bool)
    weights[chosen] = np.clip(lam[d + 1 + m :], 0.0, risk.caps[chosen])
    full[chosen] = (lam[d + 1 + m :] > 0.0) & (lam[d + 1 : d + 1 + m] == 0.0)  # places beyond the level of the tail
    held = np.sign(lam[:d])  # put the step exactly on the bounds that hold
    step = np.where(held < 0.0, lower, np.where(held > 0.0, upper, x[:d] * unit))
    return np.clip(step, lower, upper), weights, full, (float(x[d]) + middle) / risk.rho


def _sharpened(
    risk: TailRisk, at: Expansion, model: Array, lower: Array, upper: Array, step: Array, weights: Array, full: Mask
) -> tuple[Array, Array]:
    """Return the step and the weights to rounding, given which bounds hold and which places are in the tail.

    The QP solver stops at its own tolerance. With these sets known, the optimality conditions are linear. A member of a
    set that their solution contradicts by more than rounding changes sides; if that does not end, the answer of the QP
    solver stays.
    """
    if risk.caps.sum() <= 1.0 + ALL:  # all values count, whatever they are
        full = np.ones(full.size, dtype=bool)
    tied, held = (weights > 0.0) & ~full, (step <= lower) | (step >= upper)
    ends = np.where(step <= lower, lower, np.where(step >= upper, upper, 0.0))
    for _ in range(CHANGES):
        sharp, own, slope, level = _stationary(risk, at, model, np.where(held, ends, 0.0), held, full, tied)
        low, high = (sharp < lower - ALL) & ~held, (sharp > upper + ALL) & ~held
        ends = np.where(low, lower, np.where(high, upper, ends))
        wrong = held & (lower < upper) & np.where(ends == lower, slope < -ALL, slope > ALL)
        above, below = tied & (own > risk.caps * (1.0 + ALL)), tied & (own < -ALL * risk.caps)
        if not (low.any() or high.any() or wrong.any() or above.any() or below.any()):
            values = at.values + at.slopes @ sharp
            beyond = np.where(full, level - values, np.where(tied, 0.0, values - level)).max()
            if beyond > ALL * (1.0 + np.abs(values).max()) and tied.any():  # another place is in the tail
                break
            return np.clip(sharp, lower, upper), np.clip(own, 0.0, risk.caps)
        held = (held | low | high) & ~wrong
        full, tied = full | above, tied & ~above & ~below
    return step, weights


def _stationary(
    risk: TailRisk, at: Expansion, model: Array, fixed: Array, held: Mask, full: Mask, tied: Mask
) -> tuple[Array, Array, Array, float]:
    """Return step, weights, slope and level of the tail if tied values are equal and held parameters fixed."""
    free = ~held
    a, m = int(free.sum()), int(tied.sum())
    rows = risk.rho * at.slopes[tied][:, free]
    matrix = np.zeros((a + m + 1, a + m + 1))
    matrix[:a, :a] = inner_of(model, free)
    matrix[:a, a:-1] = rows.T
    matrix[a:-1, :a] = rows
    matrix[a:-1, -1] = matrix[-1, a:-1] = -1.0
    pulled = at.slope + model @ fixed + risk.rho * (risk.caps[full] @ at.slopes[full])
    equal = -risk.rho * (at.values + at.slopes @ fixed)[tied]
    found = np.linalg.lstsq(matrix, np.concatenate([-pulled[free], equal, [risk.caps[full].sum() - 1.0]]), rcond=1e-13)[
        0
    ]
    step, weights = fixed.copy(), np.where(full, risk.caps, 0.0)
    step[free], weights[tied] = found[:a], found[a:-1]
    return step, weights, at.slope + model @ step + risk.rho * (weights @ at.slopes), float(found[-1]) / risk.rho


def _advance(risk: TailRisk, here: _Point, step: Array, weights: Array, kkt: float) -> _Point | None:
    """Return the point along the step with a lower loss; near the minimum, one that is closer to optimal."""
    step = shortened(step, here.v)
    linear = here.at.smooth + float(here.at.slope @ step)
    expected = here.loss - linear - risk.rho * worst_share(here.at.values + here.at.slopes @ step, risk.caps)[0]
    near = abs(expected) <= NEAR * (1.0 + abs(here.loss))
    length = 1.0
    while length >= SHORTEST:
        v = _moved(risk, here.v, step, length)
        if (v == here.v).all():
            return None
        smooth, values = risk.values(v)
        loss = risk.loss(smooth, values) if math.isfinite(smooth) and np.isfinite(values).all() else math.inf
        lower = here.loss - loss >= ARMIJO * length * max(expected, 0.0) and loss < here.loss
        if math.isfinite(loss) and (lower or (near and length == 1.0)):
            there = _Point(v, weights, risk.expand(v, weights), loss)
            if lower or _residual(risk, there, weights)[0] <= 0.5 * kkt:
                return there
        length *= 0.5
    return None


def _moved(risk: TailRisk, v: Array, step: Array, length: float) -> Array:
    """Return the point at this fraction of a step, exactly on the bounds that it reaches."""
    lower, upper = risk.coordinates.lower, risk.coordinates.upper
    moved = np.clip(v + length * step, lower, upper)
    if length < 1.0:
        return moved
    return np.where(step == lower - v, lower, np.where(step == upper - v, upper, moved))
