"""Choose what differs at a new place, by leaving out the places of the fit in turn.

Each place is left out, a few of its rows are drawn as if they were those of the new place, the fit to the others is
recalibrated by them in every way, and its other rows are predicted. So the choice is one for as many rows as there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.problem import Problem
from anchortm.engine.recalibration.baseline import PlaceRows, curvature_of_rows
from anchortm.engine.recalibration.fits import Plan, recalibrated, why_not
from anchortm.engine.recalibration.record import WAYS
from anchortm.engine.result import FitResult
from anchortm.exceptions import AnchorTMError, UnavailableError
from anchortm.selection.splits import Split, fits_at

__all__ = ["Choice", "choose", "emulated"]

DRAWS = 6  # draws of the few rows of a place
REST = 5  # rows of a place that must be left to predict
FEWEST, MOST = 3, 40  # places that the choice needs, and that it takes

Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Choice:
    """What to fit, why, and the mean negative log-likelihood of left-out places by way."""

    what: str
    reason: str = ""
    emulated: dict[str, float] = field(default_factory=dict)


def choose(model: Any, plan: Plan, m: int, offset: Any) -> Choice:
    """Return what to fit to m rows of a new place; a shift, unless the places of the fit clearly support another."""
    result: FitResult = model.result_
    ways = [what for what in WAYS if why_not(result, what) is None]
    ways = [what for what in ways if what != "shift+scale" or offset is None]
    if len(ways) == 1 or m == 0:
        return Choice("shift", "there are no rows" if m == 0 else "the only way for this model")
    try:
        problem: Problem = model.problem_
    except UnavailableError:
        return Choice("shift", "the rows of the fit, needed to try other ways, are not available")
    if not problem.data.in_memory or problem.data.places is None:
        return Choice("shift", "the fit has no places to try other ways on")
    groups = problem.data.places.codes
    sizes = np.bincount(groups)
    sites = np.flatnonzero(sizes >= m + REST)
    if sites.size < FEWEST:
        return Choice(
            "shift", f"fewer than {FEWEST} places of the fit have the {m + REST} rows needed to try other ways"
        )
    if sites.size > MOST:
        sites = np.sort(np.random.default_rng(0).choice(sites, MOST, replace=False))
    table = emulated(problem, result, groups, sites.tolist(), plan, m, ways)
    table = table[~np.isnan(table).any(axis=1)]
    if len(table) < FEWEST:
        return Choice("shift", f"the fit succeeds without fewer than {FEWEST} of its places")
    return _chosen(table, ways, m)


def _chosen(table: Array, ways: Sequence[str], m: int) -> Choice:
    """Return the way with the smallest mean, if it beats the shift by more than its standard error."""
    means = table.mean(axis=0)
    best = int(np.argmin(means))
    gain = table[:, 0] - table[:, best]
    error = gain.std(ddof=1) / math.sqrt(len(gain)) if np.isfinite(gain).all() else math.inf
    clear = best > 0 and gain.mean() > error
    listed = ", ".join(f"{what} {mean:.4g}" for what, mean in zip(ways, means, strict=True))
    rows = "1 row" if m == 1 else f"{m} rows"
    reason = f"mean NLL of {len(table)} left-out places after {rows} of each: {listed}"
    return Choice(ways[best] if clear else "shift", reason, dict(zip(ways, means.tolist(), strict=True)))


def emulated(
    problem: Problem,
    result: FitResult,
    groups: Codes,
    sites: Sequence[int],
    plan: Plan,
    m: int,
    ways: Sequence[str],
) -> Array:
    """Return the mean negative log-likelihood of left-out places after m of their rows, a row for each place.

    Columns are the ways to recalibrate. A row is NaN if the fit without this place fails.
    """
    work = partial(_one, replace(problem), result, groups, plan, m, tuple(ways))
    with Task("left-out places", len(sites)) as task, one_blas_thread():
        return np.array([work(site) for site in task.each(sites)]).reshape(len(sites), len(ways))


def _one(
    problem: Problem, result: FitResult, groups: Codes, plan: Plan, m: int, ways: tuple[str, ...], site: int
) -> list[float]:
    """Return the losses of one place."""
    try:
        split = Split.of(problem, np.flatnonzero(groups != site), np.flatnonzero(groups == site))
        train, held = split.train, split.held
        if held is None:
            return [math.nan] * len(ways)
        starts = {result.xi: split.shared.narrow(result.baseline, result.others)}
        objective = train.objective
        (solution,) = fits_at(train, objective, [result.xi], starts)
        fit = train.result(objective, solution, [solution])
        rows = _place(train, fit, held)
        R = curvature_of_rows(fit, _place(train, fit, train.data)) if "baseline" in ways else None
        n, options = len(held.response), train.spec.quiet
        rng = np.random.default_rng([0, site])
        draws = [rng.permutation(n) for _ in range(DRAWS)]
        losses = []
        for what in ways:
            own = replace(plan, what=what)
            losses.append(
                np.mean(
                    [_loss(train, held, recalibrated(fit, rows.take(d[:m]), own, options, R), d[m:]) for d in draws]
                )
            )
        return [float(loss) for loss in losses]
    except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError):
        return [math.nan] * len(ways)


def _place(problem: Problem, result: FitResult, data: Any) -> PlaceRows:
    """Return rows of a fit as rows of a place."""
    theta, shift = problem.moved(result.baseline, result.others, data)
    return PlaceRows(data.response, theta, shift, data.weights, data.mixture)


def _loss(problem: Problem, data: Any, moved: FitResult, rest: Codes) -> float:
    """Return the mean negative log-likelihood of the other rows of a place."""
    shifted = problem.shifted(moved.link, moved.baseline, moved.others, data)
    assert shifted is not None  # noqa: S101
    assert moved.recalibration is not None  # noqa: S101
    rest = np.sort(rest)
    loglik = shifted.part(rest).averages(moved.recalibration.law)[0]
    return -float(np.average(loglik, weights=None if data.weights is None else data.weights[rest]))
