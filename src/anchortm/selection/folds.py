"""Left-out environments of rows in memory: one fold after another, each at several xi."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._typing import Array
from anchortm._util.progress import Task
from anchortm.engine.data import Data
from anchortm.engine.lost_columns import Shared, lost_strata, notes_of
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.solve.continuation import solve_path
from anchortm.engine.solve.newton import Solution
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.response import Response

__all__ = ["Grid", "fits_at", "folds", "full_paths", "row_of", "unknown_classes"]

Grid = Callable[[Problem, list[float]], list[Problem]]  # makes the problems of a grid of penalties, for all rows


def folds(
    model: Any,
    problem: Problem,
    grid: Grid | None,
    groups: NDArray[np.intp],
    labels: NDArray[Any],
    xis: list[float],
    by: tuple[str, ...],
) -> Callable[[int], list[dict[str, Any]]]:
    """Return the function that computes the rows of one left-out environment, given its number."""
    if hasattr(model, "left_out"):
        return partial(_refitted, model, problem.data, groups, labels, xis)
    problem = problem.along(xis)
    problems = [problem] if grid is None else grid(problem, xis)
    starts = [
        {s.xi: objective.coordinates.split(s.v) for s in solutions}
        for objective, solutions in full_paths(problems, xis)
    ]
    kept = [replace(one) for one in problems]  # copies without objectives; other processes build them again
    return partial(_one, kept, groups, labels.tolist(), xis, starts, by)


def full_paths(problems: list[Problem], xis: list[float]) -> Iterator[tuple[Objective, list[Solution]]]:
    """Yield the objective and the path in xi of each problem, each path started from the one before."""
    options = problems[0].spec.quiet
    at, v = None, np.zeros(0)
    for objective in _objectives(problems):
        if at is None:
            v = problems[0].start(objective)
        elif objective.coordinates is not at:
            v = objective.coordinates.join(*at.split(v))
        solutions = solve_path(objective, v, xis, options, near=at is not None)
        at, v = objective.coordinates, solutions[int(np.argmin(xis))].v
        yield objective, solutions


def _objectives(problems: list[Problem]) -> Iterator[Objective]:
    """Yield the objective of each problem; the problems differ only in the strength of a penalty."""
    first = problems[0]
    marks = first.data.design.marks
    if any(problem.spec.smoothed(marks) for problem in problems):  # smoothing and net do not share one factor
        for problem in problems:
            yield problem.objective
        return
    strength = first.spec.l1 + first.spec.l2
    for problem in problems:
        own = problem.spec.l1 + problem.spec.l2
        yield first.objective.scaled(own / strength) if strength else first.objective


def _one(
    problems: list[Problem],
    groups: NDArray[np.intp],
    names: list[Any],
    xis: list[float],
    starts: list[dict[float, tuple[Array, Array]]],
    by: tuple[str, ...],
    e: int,
) -> list[dict[str, Any]]:
    """Return the rows of one left-out environment; rows of a grid hold its strength instead of coefficients."""
    data, inside, name = problems[0].data, groups != e, names[e]
    try:
        train = problems[0].subset(np.flatnonzero(inside))
    except InputError as error:
        raise type(error)(f"without environment {name}: {error}") from None
    left = data.take(np.flatnonzero(~inside))
    unknown = [*unknown_classes(train.data.response, left.response), *lost_strata(train.data.lost, data.mixture)]
    held = None if unknown else train.held_out(left)
    n = len(left.response) if left.weights is None else float(left.weights.sum())
    notes, shared = notes_of(train.data.lost, unknown), Shared.of(problems[0], train)
    called, rows = problems[0].names_of(data), []
    inner = [replace(train, spec=one.spec.for_columns(data.names, train.data.names)) for one in problems]
    objectives = _objectives(inner)
    for problem, start in zip(inner, starts, strict=True):
        try:
            objective = next(objectives)
            solutions = fits_at(problem, objective, xis, {xi: shared.narrow(*start[xi]) for xi in xis})
        except IdentificationError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        for xi, solution in zip(xis, solutions, strict=True):
            theta, beta = objective.coordinates.split(solution.v)
            nll = math.nan
            if held is not None:
                loglik = problem.logliks(problem.fitted_link(objective, solution.v), theta, beta, held)
                nll = float(-np.average(loglik, weights=held.weights))
            row = {"environment": name, "xi": xi, "n": n, "nll": nll, "converged": solution.converged, "notes": notes}
            rows.append(row | row_of(problem.spec, called, shared.widen(theta, beta)[1], by))
    return rows


def unknown_classes(train: Response, left: Response) -> list[str]:
    """Return the classes of left-out rows that no other row has."""
    known, own = _seen(train), _seen(left)
    return [f"class {level}" for level in own if level not in known]


def _seen(response: Response) -> list[Any]:
    """Return the classes that rows have; none if the outcome has no classes."""
    if response.levels is None:
        return []
    return [response.levels[k] for k in np.unique(response.codes).tolist()]


def _refitted(
    model: Any, data: Data, groups: NDArray[np.intp], labels: NDArray[Any], xis: list[float], e: int
) -> list[dict[str, Any]]:
    """Return the rows of one left-out environment for a model that is refitted for each xi."""
    inside, name = groups != e, labels.tolist()[e]
    others = np.arange(labels.size) != e
    remaining = (np.cumsum(others) - 1)[groups[inside]], labels[others]
    train, held = data.subset(np.flatnonzero(inside)), data.take(np.flatnonzero(~inside))
    n = len(held.response) if held.weights is None else float(held.weights.sum())
    rows, unknown = [], unknown_classes(train.response, held.response)
    with Task("left-out environment", len(xis), shown=False) as task:
        for xi in xis:
            try:
                own = clone(model).set_params(xi=xi)
                nll, lost, facts = own.left_out(train, None if unknown else held, remaining, name)
            except InputError as error:
                raise type(error)(f"without environment {name}: {error}") from None
            notes = notes_of(lost, [*unknown, *lost_strata(lost, data.mixture)])
            rows.append({"environment": name, "xi": xi, "n": n, "nll": nll} | facts | {"notes": notes})
            task.step()
    return rows


def row_of(spec: Specification, names: Sequence[str], beta: Array, by: tuple[str, ...]) -> dict[str, float]:
    """Return what a row says of its fit: the coefficients; in a grid (they may be thousands) its strength."""
    if by == ("xi",):
        return {f"coef_{name}": b for name, b in zip(names, beta.tolist(), strict=True)}
    if by[0] == "smooth":
        return {"smooth": spec.smooth}
    return {"lambda": spec.l1 + spec.l2, "nonzero": int(np.count_nonzero(np.nan_to_num(beta)))}


def fits_at(
    problem: Problem, objective: Objective, xis: list[float], starts: dict[float, tuple[Array, Array]]
) -> list[Solution]:
    """Return the solution at each xi, started from the fit to all rows."""
    if objective.closed_form is not None:
        return solve_path(objective, problem.start(objective), xis, problem.spec.quiet)
    return [problem.near(objective, starts[xi], xi) for xi in xis]
