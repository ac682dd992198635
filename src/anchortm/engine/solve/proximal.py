"""Minimising a loss with an l1 penalty where gradients are cheap: proximal Newton steps with few Hessians.

A step goes to the minimum of a quadratic model plus the penalty (``net_model``), and a line search on the loss follows.
Each gradient covers all columns, so that every step checks the optimality conditions of all of them; the model has the
columns that may matter. Its Hessian can come from an earlier point, even from another strength of the penalty, as long
as steps with it reduce the KKT residual fast; near the solution it is computed once more, for the last steps and for
the certificate. The loss of a normal linear model is such a model itself, so that one step is enough.

If the loss curves down on the way, or no step helps, ``solve.faces`` finds the minimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.objective.penalised import Curvature, Net
from anchortm.engine.objective.protocol import Sums
from anchortm.engine.solve.active_solver import ActiveSolver
from anchortm.engine.solve.net_model import FIRST_COLUMNS, NetModel
from anchortm.engine.solve.newton import (
    ARMIJO,
    FAR,
    LAST_GAIN,
    NEGLIGIBLE,
    Options,
    Solution,
    binding_bounds,
    loss_of,
)
from anchortm.engine.solve.smallest_eigenvalue import smallest_eigenvalue

__all__ = ["minimise"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.intp]

SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)  # fractions of a step to try
NEARLY = 1e-6  # the last Hessian is computed where the KKT residual is below this
SLOW = 0.6  # a step with an old Hessian that reduces the KKT residual by less asks for a new one
LIKELY = 0.7  # columns whose slope is at least this fraction of the penalty are in the model
LANCZOS_FROM = 150  # parameters; with fewer all eigenvalues take less time
CHEAP = 1e8  # multiplications of a Hessian that is computed at the solution itself, for its smallest curvature
EXACT = 1e-14  # KKT residual that further steps do not improve
RESOLUTION = 1e-9  # expected gains below this, relative to the loss, are judged by the KKT residual instead


@dataclass(frozen=True, eq=False)
class _Here:
    """A point: the sums there, the loss, its gradient without that of the absolute values, and what holds there."""

    v: Array
    sums: Sums
    loss: float
    gradient: Array
    held: Mask  # by a bound, or at zero by the l1 penalty
    residual: Array  # residual of the optimality conditions for each parameter

    @property
    def kkt(self) -> float:
        """Return the KKT residual."""
        return float(self.residual.max(initial=0.0))


def minimise(net: Net, v: Array, xi: float, options: Options) -> Solution | None:
    """Return the minimum found from v; None if it must be found in another way."""
    if not _serves(net):
        return None
    model = _Model(net.curvatures.get(xi))
    here = _at(net, np.clip(v, net.coordinates.lower, net.coordinates.upper), xi, model.curvature)
    history: list[dict[str, Any]] = []
    while here is not None and len(history) <= options.max_iter:
        history.append(_row(here, xi, len(history), options.verbose))
        if model.near and here.kkt <= (EXACT if net.pooled else options.tol):
            return _solution(net, here, xi, model.curvature, history, options.tol)
        renewed = not model.serves(net, here)
        if renewed:
            model = _Model(_curvature(net, here, xi), here.kkt <= NEARLY)
            net.curvatures.clear()
            net.curvatures[xi] = model.curvature
            here = replace(here, residual=_residual(net, here, xi, model.curvature))
        there = _advance(net, here, xi, model.curvature, history[-1])
        if there is None and renewed:  # no step helps, even with the Hessian of this point
            done = model.near and here.kkt <= options.tol
            return _solution(net, here, xi, model.curvature, history, options.tol) if done else None
        model.slow = there is None or (there.kkt > SLOW * here.kkt and there.kkt > options.tol)
        here = here if there is None else there
    return None


def _serves(net: Net) -> bool:
    """Return whether this way serves for a loss: gradients are cheap, and all parameters are plain numbers."""
    plain = not net.coordinates.pieces and net.coordinates.wide is None and not net.extra_names
    return plain and net.first_order and not net.costly


@dataclass(eq=False)
class _Model:
    """The model of a minimisation, whether its Hessian is that of a point near the minimum, and whether steps fail."""

    curvature: Any = None
    near: bool = False
    slow: bool = False

    def serves(self, net: Net, here: _Here) -> bool:
        """Return whether the model serves for the next step, so that no new Hessian is needed."""
        if self.curvature is None or self.slow or net.pooled or (here.kkt <= NEARLY and not self.near):
            return False
        inside = np.zeros(here.v.size, dtype=bool)
        inside[self.curvature.at] = True
        # it has all columns that are not zero, and the one furthest from optimal
        outside = here.residual[~inside].max(initial=0.0)
        return not here.v[~inside].any() and outside <= here.residual[inside].max(initial=0.0)


def _row(here: _Here, xi: float, iteration: int, verbose: int) -> dict[str, Any]:
    """Return the row of the history for a point."""
    if verbose:
        print(f"xi {xi:.6g}  iteration {iteration}  loss {here.loss:.10g}  KKT {here.kkt:.1e}")
    return {"iteration": iteration, "xi": xi, "loss": here.loss, "kkt": here.kkt, "active": int(here.held.sum())}


def _at(net: Net, v: Array, xi: float, curvature: Curvature | None) -> _Here | None:
    """Return the point v, or None if the loss is not finite there."""
    sums, gradient = net.sums_and_gradient(v, xi)
    loss, gradient = loss_of(net, sums, xi), gradient / net.n_total
    if not (math.isfinite(loss) and np.isfinite(gradient).all()):
        return None
    net.tell(loss)
    zero = (v == 0.0) & (net.lasso > 0.0)
    held = (zero & (np.abs(gradient) <= net.lasso)) | (~zero & binding_bounds(net, v, gradient))
    here = _Here(v, sums, loss, gradient, held, gradient)
    return replace(here, residual=_residual(net, here, xi, curvature))


def _residual(net: Net, here: _Here, xi: float, curvature: Curvature | None) -> Array:
    """Return the components of the gradient that should vanish, relative to what cancels in them."""
    v, g = here.v, here.gradient
    slope = g + net.lasso * np.sign(v)
    parts, noise = np.abs(slope), np.zeros_like(v)
    if xi != 0.0 and curvature is not None:
        pull = np.zeros_like(v)
        pull[curvature.at] = curvature.E.T @ (2.0 * xi * here.sums.t) / net.n_total
        # each element of t is a sum of about sqrt(n) in absolute terms
        unit = 4.0 * np.finfo(float).eps * abs(xi) / math.sqrt(net.n_total)
        noise[curvature.at] = unit * np.abs(curvature.E).sum(axis=0)
        parts = np.abs(slope - pull) + np.abs(pull)
    size = np.maximum(1.0, np.abs(v) / FAR)
    free = size * np.maximum(np.abs(slope) - noise, 0.0) / (1.0 + parts)
    beyond = np.maximum(np.abs(g) - net.lasso, 0.0) / (1.0 + np.abs(g))
    return np.asarray(np.where(here.held, 0.0, np.where((v == 0.0) & (net.lasso > 0.0), beyond, free)))


def _curvature(net: Net, here: _Here, xi: float) -> Curvature:
    """Return the Hessian of the loss without the elastic net, in the columns that may matter."""
    k, n = net.coordinates.n_baseline, net.n_total
    if net.pooled and net.inner.closed_form is not None:
        known = net.curvatures.get(xi)
        return _of_moments(net, xi) if known is None else known
    lasso, slope = net.lasso[k:], np.abs(here.gradient[k:])
    working = (here.v[k:] != 0.0) | (lasso == 0.0)
    wanted = np.flatnonzero(~working & (slope >= LIKELY * lasso))
    size = k + int(working.sum())
    most = max(1, min(max(FIRST_COLUMNS, size), net.n_rows - size))
    working[wanted[np.argsort((lasso - slope)[wanted], kind="stable")[:most]]] = True
    part, at = net.part(working)
    d = part.derivatives(here.v[at], None if xi == 0.0 else 2.0 * xi * here.sums.t)
    hessian = d.penalised(2.0 * xi) / n if xi != 0.0 else d.hessian / n
    return Curvature(at, hessian, d.E)


def _of_moments(net: Net, xi: float) -> Curvature:
    """Return the quadratic part of the loss of a normal linear model: the rest is -log v_1."""
    assert net.inner.closed_form is not None  # noqa: S101
    (M, E), n, d = net.inner.closed_form, net.n_total, net.n_parameters
    hessian, linear = M[:d, :d] / n, M[:d, d] / n
    if xi != 0.0:
        inside = (2.0 * xi / n) * E[:, :d].T @ E
        hessian, linear = hessian + inside[:, :d], linear + inside[:, d]
    return Curvature(np.arange(d), hessian, E[:, :d], linear)


def _solver(net: Net, curvature: Curvature) -> ActiveSolver:
    """Return what solves with the Hessian of a model, the ridge included."""
    ridge = net.ridge[curvature.at]
    if curvature.ridge is None or not np.array_equal(curvature.ridge, ridge):
        H = curvature.hessian + np.diag(ridge) if ridge.any() else curvature.hessian
        curvature.ridge, curvature.solver = ridge, ActiveSolver(H)
    return curvature.solver  # type: ignore[no-any-return]


def _advance(net: Net, here: _Here, xi: float, curvature: Curvature, row: dict[str, Any]) -> _Here | None:
    """Return the point after a step towards the minimum of the model, or None if there is no descent."""
    target = _target(net, here, curvature)
    if target is None or np.array_equal(target, here.v):
        return None
    step = target - here.v
    gain = -float(here.gradient @ step + net.lasso @ (np.abs(target) - np.abs(here.v)))
    flat = gain <= RESOLUTION * (1.0 + abs(here.loss))
    for share in SHARES:
        v = target if share == 1.0 else here.v + share * step
        there = _at(net, v, xi, curvature)
        if there is not None and (
            there.loss <= here.loss - ARMIJO * share * gain or (flat and there.kkt <= 0.5 * here.kkt)
        ):
            row |= {"model": "newton", "step": share}
            return there
        if flat:
            break
    return None


def _target(net: Net, here: _Here, curvature: Curvature) -> Array | None:
    """Return the minimum of the model, None if the model is not convex."""
    at, solver = curvature.at, _solver(net, curvature)
    v, lower, upper = here.v[at], net.coordinates.lower[at], net.coordinates.upper[at]
    log = curvature.linear is not None
    b = curvature.linear if curvature.linear is not None else here.gradient[at] - solver.H @ v
    found = NetModel(solver, b, net.lasso[at], lower, upper, log).minimum(v, net.n_rows)
    if found is None:
        return None
    target = np.zeros_like(here.v)
    target[at] = found
    return target


def _polished(net: Net, here: _Here, xi: float, curvature: Curvature, tol: float) -> _Here:
    """Return the point after one more step that is so short that it needs no pass over the rows; see ``newton``."""
    target = None if net.pooled else _target(net, here, curvature)
    if target is None or not np.array_equal(np.sign(target), np.sign(here.v)):
        return here
    step, n = target - here.v, net.n_total
    pull = np.zeros_like(step)
    pull[curvature.at] = curvature.E.T @ (2.0 * xi * here.sums.t) / n
    slope = here.gradient - pull + net.lasso * np.sign(here.v)
    neglected = (1.0 + 2.0 * abs(xi)) * float(np.abs(step).max()) ** 2
    gain = abs(float((slope + pull) @ step))
    if not (neglected <= NEGLIGIBLE * tol and gain <= LAST_GAIN * (1.0 + abs(here.loss))):
        return here
    sums = Sums(here.sums.loglik - n * float(slope @ step), here.sums.t + curvature.E @ step[curvature.at])
    return replace(here, v=target, sums=sums, loss=loss_of(net, sums, xi))


def _solution(
    net: Net, here: _Here, xi: float, curvature: Curvature, history: list[dict[str, Any]], tol: float
) -> Solution | None:
    """Return the solution, with its smallest curvature and the tangent of the path in xi; None without curvature."""
    here = _polished(net, here, xi, curvature, tol)
    if not net.pooled and net.n_rows * curvature.at.size**2 <= CHEAP:
        curvature = _curvature(net, here, xi)
    v, at, n, k = here.v, curvature.at, net.n_total, net.coordinates.n_baseline
    fixed = net.coordinates.lower == net.coordinates.upper
    zero = (v == 0.0) & (net.lasso > 0.0)
    free = ~(here.held | zero | fixed)[at]
    if _solver(net, curvature).solve(free, np.zeros((at.size, 1))) is None:
        return None
    H, solve = _inverse(net, here, curvature, free)
    tangent = np.zeros_like(v)
    if net.anchors is not None and free.any():
        tangent[at[free]] = -solve((2.0 / n) * (curvature.E.T @ here.sums.t)[free])
    active = zero.copy()
    active[:k] = (here.held & ~fixed)[:k]
    size = int(free.sum())
    lowest = smallest_eigenvalue(size, solve) if size > LANCZOS_FROM else None
    if lowest is None:
        lowest = float(np.linalg.eigvalsh(H[np.ix_(free, free)])[0]) if size else math.inf
    return Solution(
        v,
        xi,
        here.sums,
        here.loss,
        here.kkt,
        lowest,
        active,
        True,
        "converged",
        len(history) - 1,
        tangent,
        _embedded(H, at, v.size),
        history=history,
    )


def _inverse(net: Net, here: _Here, curvature: Curvature, free: Mask) -> tuple[Array, Callable[[Array], Array]]:
    """Return the Hessian at a minimum, and the product with the inverse of its free part."""
    solver = _solver(net, curvature)

    def solve(right: Array) -> Array:
        whole = np.zeros((free.size, 1))
        whole[free, 0] = right
        found = solver.solve(free, whole)
        assert found is not None  # noqa: S101 - the matrix has a factor
        return np.asarray(found[free, 0])

    if curvature.linear is None:
        return solver.H, solve
    H, square, first = solver.H.copy(), here.v[1] ** 2, int(free[:1].sum())
    H[1, 1] += 1.0 / square
    u = solve(np.eye(1, int(free.sum()), first)[0])

    def with_logarithm(right: Array) -> Array:
        z = solve(right)
        return np.asarray(z - u * (z[first] / (square + u[first])))

    return H, with_logarithm


def _embedded(H: Array, at: Codes, size: int) -> Any:
    """Return a matrix of all parameters with this block, zero elsewhere."""
    if at.size == size:
        return H
    starts = np.zeros(size + 1, dtype=np.intp)
    starts[at + 1] = at.size
    return sp.csr_matrix((H.ravel(), np.tile(at, at.size), np.cumsum(starts)), shape=(size, size))
