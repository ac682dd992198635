"""The path of solutions in xi, from maximum likelihood to the limit.

The loss is convex for xi = 0 (without truncation) and, for any xi, for exact rows under the normal link. Otherwise
several minima are possible: the estimate is the one on the branch that is connected to xi = 0, which is followed with
step control. A branch can end in a fold, where its smallest curvature reaches zero; the solution then says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anchortm._util.progress import Task
from anchortm.engine.objective.protocol import Objective, Point, Sums
from anchortm.engine.solve.ends_of_path import linear_solution, over_identified
from anchortm.engine.solve.faces import limit, minimise
from anchortm.engine.solve.newton import (
    Options,
    Solution,
    binding_bounds,
    expand,
    is_strict,
    kkt_residual,
    loss_of,
    solution_at,
)
from anchortm.engine.solve.one_step import newton_step
from anchortm.engine.solve.start import startable
from anchortm.exceptions import InputError, OverIdentifiedError

__all__ = ["first_solution", "follow", "restarts", "solve", "solve_near", "solve_path"]

Array = NDArray[np.float64]

FIRST_STEP, SHORTEST_STEP = 0.5, 1e-3  # steps of the path, in log(1 + xi)
ROUGH = 1e-3  # KKT residual of points on the branch that rounding or quadrature keep from convergence
MOST_ROUGH = {False: 12, True: 2}  # number of such points before they are accepted; the second for integrals
MOST_FAILED = 5  # steps before the path stops
SLOW = 20  # more Newton steps than this from a predictor count as a failure: derivatives are inexact there
MOST_CORRECTIONS = 25  # Newton steps from a predictor, if a shorter step of the path is possible
LONGEST_PATH, MOST_WASTED = 15, 2  # most Newton steps on a path and in its rejected steps, relative to max_iter
KINK_POINTS = 11  # places along a step where a kink may be
RUNAWAY = 1e6  # growth of the largest standardised parameter from xi = 0 on
NO_MINIMUM = "the branch connected to xi = 0 ends near xi = {:.3g}, and no other minimum was found"
SUBSAMPLE_FROM = 100_000
LARGER = 8  # one row in so many is in a second sample, if that is at least twice the first
NET_STEPS = 30  # first limit of Newton steps with a penalty; an easy fit takes about ten
STRONGER = tuple(2.0**k for k in range(7, 0, -1))  # factors of penalties on the way to a weak one
WIDE_STEPS = 10  # Newton steps from the solution of some levels to that of all


def follow(
    objective: Objective, start: Solution, target: float, options: Options, first: Solution | None = None
) -> Solution:
    """Return the solution at ``target`` on the branch through ``start``; ``first`` is where the branch began.

    Predictor: along dv/ds with s = log(1 + xi). Corrector: Newton. A step is accepted if the corrector stays near the
    predictor and meets positive curvature on its way; else it is halved. If no step is short enough the branch folds
    back: the path drops into the minimum below and goes on from there, whatever the targets on the way.
    """
    if objective.affine:  # convex: one minimum, whatever the way
        return _correct(objective, start, target, options)
    here, step, history = start, max(FIRST_STEP, math.log1p(start.xi)), list(start.history)
    control, tracked = _Control(objective.n_nodes is not None, options), here.converged
    while here.xi < target and tracked:
        left = math.log1p(target) - math.log1p(here.xi)
        xi = target if step >= left else math.expm1(math.log1p(here.xi) + step)
        there = _correct(objective, here, xi, control.limits(step))
        move, miss = _distances(objective, here, there, xi)
        tracked, accepted = control.judge(there, miss <= 0.5 * move + 1e-6)
        if control.exhausted and not (accepted and xi == target):
            here = replace(here, converged=False, reason="the path needs too many Newton steps")
            break
        if not accepted and step > SHORTEST_STEP:
            step, tracked = 0.5 * min(step, left), True
            continue
        folds = here.folds
        if not accepted:
            folds, tracked, miss = _folds(objective, here, there), there.converged, move
            if not tracked:  # return the end of the branch, not the point where the search for another minimum ended
                here = replace(here, converged=False, reason=NO_MINIMUM.format(here.xi), folds=folds)
                break
        history += there.history
        here = replace(there, folds=folds)
        lost = _run_away(objective, first or start, here)
        if lost:
            here, tracked = replace(here, converged=False, reason=lost), False
        step *= 2.0 if miss <= 0.1 * move else 1.25
    return _ended(objective, replace(here, n_iter=start.n_iter + control.n_iter, history=history), target)


@dataclass(eq=False)
class _Control:
    """What a path has cost so far, and which of its steps count; ``integrals`` are computed by quadrature."""

    integrals: bool
    options: Options
    n_iter: int = 0
    n_wasted: int = 0
    n_rough: int = 0
    n_failed: int = 0

    def limits(self, step: float) -> Options:
        """Return the options of a corrector: few Newton steps if the step of the path can be shortened."""
        if step <= SHORTEST_STEP:
            return self.options
        return replace(self.options, max_iter=min(self.options.max_iter, MOST_CORRECTIONS))

    def judge(self, there: Solution, close: bool) -> tuple[bool, bool]:
        """Count a step; return whether the path can go on from its end, and whether the step is accepted.

        A point that is nearly optimal counts in the end: shorter steps do not make quadrature or rounding finer.
        """
        near = close and _smooth(there)
        rough = near and not there.converged and there.kkt <= ROUGH
        self.n_iter += there.n_iter
        self.n_rough += rough
        self.n_failed += (self.integrals and not there.converged) or (near and there.n_iter > SLOW)
        tracked = there.converged or (rough and self.n_rough > MOST_ROUGH[self.integrals])
        self.n_wasted += 0 if near and tracked else there.n_iter
        return tracked, near and tracked

    @property
    def exhausted(self) -> bool:
        """Return whether the path has taken too many Newton steps."""
        most = self.options.max_iter
        long = self.n_iter > LONGEST_PATH * most or self.n_wasted > MOST_WASTED * most
        return long or self.n_failed > MOST_FAILED


def _folds(objective: Objective, here: Solution, there: Solution) -> tuple[float, ...]:
    """Return the folds up to a step that no shorter one could replace: a new one here, unless the path has a kink."""
    if _is_kink(objective, here, there):
        return here.folds
    # an earlier step was too long near the same fold: keep the later one
    earlier = (xi for xi in here.folds if math.log1p(here.xi) - math.log1p(xi) > 2.0 * SHORTEST_STEP)
    return (*earlier, here.xi)


def _is_kink(objective: Objective, here: Solution, there: Solution) -> bool:
    """Return whether the path turns because a coefficient leaves zero or reaches it.

    If so, the step is no longer than the tangents on both sides say, and the loss rises as along any branch.
    """
    if not (objective.penalised and there.converged and there.loss >= here.loss):
        return False
    ends = ((here, there), (there, here))
    expected = max(_length(objective, there, _predict(a, b.xi), a.v) for a, b in ends)
    return _length(objective, there, there.v, here.v) <= 1.5 * expected + 1e-6


def _smooth(solution: Solution) -> bool:
    """Return whether the way to a solution met no downward curvature."""
    return all(row.get("model", "newton") == "newton" for row in solution.history)


def _ended(objective: Objective, here: Solution, target: float) -> Solution:
    """Return the point where the path ended; if that is too early, with the loss at the xi that it should reach."""
    if here.xi == target:
        return here
    own = here.reason.startswith(("the branch", "the parameters"))
    reason = here.reason if own else f"{here.reason} at xi = {here.xi:.3g}"
    reason = f"{reason}, on the way to {target:.3g}"
    if objective.penalised:
        found = minimise(objective, here.v, target, Options(max_iter=0))
        return replace(
            found, converged=False, reason=reason, history=here.history, n_iter=here.n_iter, folds=here.folds
        )
    state = expand(objective, here.v, here.sums, target)
    binding = binding_bounds(objective, here.v, state.gradient)
    kkt = kkt_residual(state, binding)
    found = solution_at(objective, state, target, binding, kkt, False, reason, here.history)
    return replace(found, n_iter=here.n_iter, folds=here.folds)


def _correct(objective: Objective, here: Solution, xi: float, options: Options) -> Solution:
    """Return the minimum at xi from a predicted start, or from here if the prediction is worse."""
    predicted = np.clip(_predict(here, xi), objective.coordinates.lower, objective.coordinates.upper)
    sums = objective.sums(predicted)
    if not (math.isfinite(sums.loglik) and loss_of(objective, sums, xi) <= loss_of(objective, here.sums, xi)):
        predicted, sums = here.v, here.sums
    return minimise(objective, predicted, xi, options, sums)


def _predict(here: Solution, xi: float) -> Array:
    """Return the prediction along the tangent in s = log(1 + xi): dv/ds = (1 + xi) dv/dxi."""
    return here.v + here.tangent * (1.0 + here.xi) * (math.log1p(xi) - math.log1p(here.xi))


def _distances(objective: Objective, here: Solution, there: Solution, xi: float) -> tuple[float, float]:
    """Return the length of the step and its distance from the predictor, in the metric of the loss.

    There are two predictors, from here and back from there, and the worse counts: beyond a fold another branch can be
    near the first one, but the second one does not lead here. If a bound takes hold or lets go in between, the path has
    a kink: it follows the first predictor up to the kink and the second beyond.
    """
    ahead, back = _predict(here, xi), _predict(there, here.xi)
    miss = max(_length(objective, there, there.v, ahead), _length(objective, there, here.v, back))
    if _turns(here, there):
        shares = np.linspace(0.0, 1.0, KINK_POINTS)
        kinks = [(1.0 - s) * ahead + s * (here.v + there.v - back) for s in shares]
        miss = min(miss, 2.0 * min(_length(objective, there, there.v, v) for v in kinks))
    return _length(objective, there, there.v, here.v), miss


def _turns(here: Solution, there: Solution) -> bool:
    """Return whether a bound takes hold or lets go between two solutions."""
    return not np.array_equal(here.active, there.active)


def _length(objective: Objective, solution: Solution, v: Array, w: Array) -> float:
    """Return the distance of two points in the metric of the loss at a solution."""
    step = objective.coordinates.apart(v, w)
    return math.sqrt(max(float(step @ solution.hessian @ step), 0.0))


def solve_path(
    objective: Objective, v: Array, xis: Sequence[float], options: Options, near: bool = False
) -> list[Solution]:
    """Return the solutions at these xi (any order, inf allowed), each on the branch from xi = 0.

    ``near`` says that v is the solution of a similar loss of the same rows, and needs no better start.
    """
    own = _own_solutions(objective, v, xis, options, near)
    if own is not None:
        return own
    if min(xis) < 0.0:
        raise InputError("a negative xi needs NormalLinear with exact rows: it partials the anchors out")
    finite = sorted({xi for xi in xis if not math.isinf(xi)})
    found: dict[float, Solution] = {}
    first = finite[0] if finite and objective.affine else 0.0  # convex: any xi will do
    with Task("values of xi", len(finite) + 1, shown=False) as task:
        here = first_solution(objective, v, options, first, near)
        found[here.xi] = here
        for xi in finite:
            task.step()
            if xi > here.xi:
                here = found[xi] = follow(objective, here, xi, options, found[first])
    if any(math.isinf(xi) for xi in xis):
        found[math.inf] = solve_limit(objective, here, options)
    return [found[xi] for xi in xis]


def _own_solutions(
    objective: Objective, v: Array, xis: Sequence[float], options: Options, near: bool
) -> list[Solution] | None:
    """Return the solutions of a loss that is not followed along xi: with kinks, a closed form, or rays; else None."""
    if objective.relaxed is not None:
        return [objective.finished(s, options) for s in solve_path(objective.relaxed, v, xis, options, near)]
    if objective.closed_form is not None:
        return [linear_solution(objective, xi, options) for xi in xis]
    if objective.ray(xis[0])[0] is not objective:
        return [_on_ray(objective, v, xi, options) for xi in xis]  # each has a ray of its own
    return None


def _run_away(objective: Objective, first: Solution, here: Solution) -> str:
    """Return a message if parameters have diverged from where a branch began, else an empty one.

    Some losses fall without end, or have minima far from any data: the deviance residuals of gamma and negative
    binomial rows become equal as means go to infinity, at a cost of no more than the logarithm of the means.
    """
    (before, what), (now, _) = (objective.extent(s.v) for s in (first, here))
    if now <= RUNAWAY * (1.0 + before):
        return ""
    return f"the parameters diverge: the largest {what} is about {now:.1e}, and was {before:.1e} at xi = {first.xi:g}"


def _on_ray(objective: Objective, v: Array, xi: float, options: Options) -> Solution:
    """Return the solution at (xi, xi_scale), on the branch along the ray from (0, 0)."""
    along, tau = objective.ray(xi)
    return replace(solve(along, v, tau, options), xi=xi)


def first_solution(objective: Objective, v: Array, options: Options, xi: float = 0.0, near: bool = False) -> Solution:
    """Return the solution that a path starts from; large data start from the optimum of a sample of rows."""
    sums = None
    if not near:
        sampled = _from_sample(objective, v, xi, options)
        v, sums = (_start(objective, v, options), None) if sampled is None else sampled
    if not objective.penalised:
        return _checked(objective, minimise(objective, v, xi, options, sums))
    found = minimise(objective, v, xi, replace(options, max_iter=min(options.max_iter, NET_STEPS)))
    if not found.converged:  # from stronger penalties, which leave fewer coefficients
        for factor in STRONGER:
            v = minimise(objective.scaled(factor), v, xi, options).v
        found = minimise(objective, v, xi, options)
    return _checked(objective, found)


def _start(objective: Objective, v: Array, options: Options) -> Array:
    """Return the start of a minimisation: v, or the optimum of a simpler loss."""
    if objective.begin is not None and np.array_equal(v, objective.begin):
        return v  # a minimum that is known already
    if objective.simpler is None:
        return startable(objective, v)
    return _checked(objective.simpler, minimise(objective.simpler, startable(objective, v), 0.0, options)).v


def _checked(objective: Objective, solution: Solution) -> Solution:
    """Return the solution, or raise if the data have none."""
    if not is_strict(objective, solution):
        objective.check_maximum(Point(solution.v, solution.hessian, solution.converged))
    return solution


def _from_sample(objective: Objective, v: Array, xi: float, options: Options) -> tuple[Array, Sums] | None:
    """Return the solution of a sample of the rows of large data and the sums there, or None if it is not a good start.

    The sample is a hint: if it lacks an event, a class or a branch, that says nothing about all rows.
    """
    quick = objective.n_rows < SUBSAMPLE_FROM or (objective.pooled and objective.kinked)
    if quick and not objective.costly:
        return None
    sample = objective.sample(objective.sample_rows)
    if sample is objective:
        return None
    try:
        near = minimise(sample, _start(sample, sample.from_whole(objective, v), options), 0.0, options)
        if xi > 0.0 and near.converged:
            near = follow(sample, near, xi, options)
    except (ArithmeticError, InputError):
        return None
    if not is_strict(sample, near) or near.folds:
        return None
    v = _nearer(objective, sample.to_whole(objective, near.v), xi)
    sums = objective.sums(v, np.zeros(0) if xi == 0.0 else None)
    return (v, sums) if math.isfinite(sums.loglik) else None


def _nearer(objective: Objective, v: Array, xi: float) -> Array:
    """Return v after one Newton step on a larger sample of very many rows, which saves a step on all of them."""
    size = objective.n_rows // LARGER
    wide = objective.costly or objective.penalised or objective.coordinates.wide is not None
    if wide or size < 2 * objective.sample_rows:
        return v
    larger = objective.sample(size)
    return v if larger is objective else newton_step(larger, v, xi)


def solve(objective: Objective, v: Array, xi: float, options: Options) -> Solution:
    """Return the solution at xi (``math.inf`` allowed) on the branch connected to xi = 0.

    Large data follow the branch on a sample of their rows and finish from there.
    """
    if objective.relaxed is not None:
        return objective.finished(solve(objective.relaxed, v, xi, options), options)  # type: ignore[no-any-return]
    if objective.ray(xi)[0] is not objective:
        return _on_ray(objective, v, xi, options)
    enough = objective.anchors is None or 5 * objective.anchors.rank <= objective.sample_rows
    if 0.0 < xi < math.inf and enough and not objective.affine:
        near = _from_sample(objective, v, xi, options)
        if near is not None:
            v_near, sums = near
            if objective.coordinates.wide is None:
                return _checked(objective, minimise(objective, v_near, xi, options, sums))
            # levels that the sample lacks have poor start values: the branch is the same if the way is short and smooth
            found = minimise(objective, v_near, xi, replace(options, max_iter=min(options.max_iter, WIDE_STEPS)), sums)
            if found.converged and _smooth(found):
                return _checked(objective, found)
    return solve_path(objective, v, [xi], options)[0]


def solve_near(
    objective: Objective, theta: Array, beta: Array, cold: Callable[[], Array], xi: float, options: Options
) -> Solution:
    """Return the solution at xi near (theta, beta), the fit to similar rows.

    If that fails, it is found along the path from the start values that ``cold`` computes.
    """
    if objective.relaxed is not None:
        return objective.finished(solve_near(objective.relaxed, theta, beta, cold, xi, options), options)  # type: ignore[no-any-return]
    if math.isfinite(xi) and theta.size == objective.coordinates.matrix.shape[0]:
        along, tau = objective.ray(xi)
        v = objective.coordinates.join(theta, beta)
        sums = objective.sums(np.clip(v, objective.coordinates.lower, objective.coordinates.upper))
        if math.isfinite(sums.loglik):
            near = minimise(along, v, tau, options)
            if is_strict(objective, near):
                return replace(near, xi=xi)
    return solve_path(objective, cold(), [xi], options)[0]


def solve_limit(objective: Objective, start: Solution, options: Options) -> Solution:
    """Return the limit of the path, by sequential quadratic programming from a large xi.

    It exists if the penalty falls like 1 / xi^2; with over-identified anchors h flattens and the penalty falls like
    1 / xi only.
    """
    if objective.anchors is None:
        raise OverIdentifiedError("xi = inf needs anchors")
    here = start if start.xi >= 1.0 else follow(objective, start, 1.0, options)
    E = objective.derivatives(here.v).E
    rest = here.sums.t - E @ np.linalg.lstsq(E, here.sums.t, rcond=1e-10)[0]
    if np.linalg.norm(rest) > 1e-6 * np.linalg.norm(here.sums.t):
        raise over_identified(objective)
    before, found = here, limit(objective, here, options)
    for xi in [xi for xi in (1e2, 1e4, 1e6) if xi > here.xi] or [100.0 * here.xi]:
        if found.converged:
            return found
        before, here = here, follow(objective, here, xi, options)
        if not here.converged:
            return replace(here, xi=math.inf, loss=-here.sums.loglik / objective.n_total)
        found = limit(objective, here, options)
    if not found.converged:
        fall = math.log10(before.penalty_sum / here.penalty_sum) / math.log10(here.xi / before.xi)
        if fall < 1.5:
            raise over_identified(objective)
    return found


def restarts(
    objective: Objective, solution: Solution, n_restarts: int, options: Options, rng: np.random.Generator
) -> list[Solution]:
    """Return the distinct minima found from random starts, lowest loss first."""
    found, (objective, xi) = [solution], objective.ray(solution.xi)
    for _ in range(n_restarts):
        step = rng.normal(size=solution.v.size) * rng.choice([0.3, 1.0, 3.0])
        if objective.lasso is not None:
            step[(objective.lasso > 0.0) & (solution.v == 0.0)] = 0.0  # coefficients that are zero stay so
        v = solution.v + step
        bounded = np.isfinite(objective.coordinates.lower)
        v[bounded] = objective.coordinates.lower[bounded] + np.abs(v[bounded]) + 0.01
        sums = objective.sums(v)
        if not loss_of(objective, sums, xi) < 1e8 * (1.0 + abs(solution.loss)):
            continue  # hopeless, or not a number
        other = minimise(objective, v, xi, options, sums)
        if other.converged and all(abs(other.loss - s.loss) > 1e-7 * (1.0 + abs(s.loss)) for s in found):
            found.append(other)
    return sorted(found, key=lambda s: s.loss)
