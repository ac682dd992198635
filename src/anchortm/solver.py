"""The path of solutions in xi, from maximum likelihood to the limit.

The loss is convex for xi = 0 (without truncation) and, for any xi, for exact rows under
the normal link. Otherwise several minima are possible: the estimate is the one on the
branch that is connected to xi = 0, which is followed with step control. A branch can end
in a fold, where its smallest curvature reaches zero; the solution says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import OverIdentifiedError
from anchortm.identification import check_separation
from anchortm.limit import fixed_parameters, linear_solution, over_identified, sqp
from anchortm.newton import Options, Solution, loss_of, minimise
from anchortm.objective import NormalObjective, Objective

__all__ = ["first_solution", "solve", "solve_path"]

Array = NDArray[np.float64]

STRICT = 1e-5  # a curvature above this, in standardised parameters, rules separation out
FIRST_STEP, SHORTEST_STEP = 0.5, 1e-3  # of the path, in log(1 + xi)
NO_MINIMUM = "the branch connected to xi = 0 ends near xi = {:.3g}, and no other minimum was found"
SUBSAMPLE_FROM = 100_000
SUBSAMPLE_ROWS = 20_000


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
    large = objective.n_rows >= SUBSAMPLE_FROM and enough and not isinstance(objective, NormalObjective)
    if not (large and 0.0 < xi < math.inf):
        return solve_path(objective, v, [xi], options)[0]
    near = solve_path(objective.every(objective.n_rows // SUBSAMPLE_ROWS), v, [xi], options)[0]
    found = minimise(objective, near.v, xi, options)
    if not (found.converged and found.min_eigenvalue > STRICT):
        check_separation(objective)
    return replace(found, folds=near.folds)


def solve_limit(objective: Objective, start: Solution, options: Options) -> Solution:
    """Return the limit of the path, by sequential quadratic programming from a large xi."""
    if objective.anchors is None:
        raise OverIdentifiedError("xi = inf needs anchors")
    here = start if start.xi >= 1.0 else _follow(objective, start, 1.0, options)
    free = ~fixed_parameters(objective, here)
    E = objective.derivatives(here.v).E
    if np.linalg.matrix_rank(E[:, free], tol=1e-7 * max(np.abs(E).max(), 1e-300)) >= int(free.sum()):
        raise over_identified(objective)
    for xi in (1e3, 1e5, 1e7):
        here = _follow(objective, here, max(xi, here.xi), options)
        found = sqp(objective, here, options)
        if found.converged:
            return found
    return found
