"""Left-out environments of rows in memory: one fold after another, each at several xi."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._typing import Array
from anchortm._util.progress import Task
from anchortm.engine.lost_columns import lost_strata, notes_of
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.rows.ends import Ends
from anchortm.engine.solve.continuation import solve_path
from anchortm.engine.solve.newton import Solution
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.models.given import Given
from anchortm.selection.held import Held, HeldRows, RowsOf
from anchortm.selection.splits import NullModel, Split, fits_at, unknown_classes

__all__ = ["Found", "Grid", "folds", "full_paths", "row_of"]

Grid = Callable[[Problem, list[float]], list[Problem]]  # makes the problems of a grid of penalties, for all rows


class Found(NamedTuple):
    """The rows of the table for one left-out environment, and the predictions for the environment's rows."""

    rows: list[dict[str, Any]]
    held: Held | None = None


def folds(
    rows: Given,
    problem: Problem,
    grid: Grid | None,
    groups: NDArray[np.intp],
    labels: NDArray[Any],
    xis: list[float],
    by: tuple[str, ...],
) -> Callable[[int], Found]:
    """Return the function that computes the rows of one left-out environment, given its number."""
    null, given = NullModel.of(problem), RowsOf(rows, replace(problem))
    if hasattr(rows.model, "left_out"):
        return partial(_refitted, given, null, groups, labels, xis)
    problem = problem.along(xis)
    problems = [problem] if grid is None else grid(problem, xis)
    starts = [
        {s.xi: objective.coordinates.split(s.v) for s in solutions}
        for objective, solutions in full_paths(problems, xis)
    ]
    kept = [replace(one) for one in problems]  # copies without objectives; other processes build them again
    return partial(_one, kept, given, null, groups, labels.tolist(), xis, starts, by)


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
    given: RowsOf,
    null: NullModel,
    groups: NDArray[np.intp],
    names: list[Any],
    xis: list[float],
    starts: list[dict[float, tuple[Array, Array]]],
    by: tuple[str, ...],
    e: int,
) -> Found:
    """Return the rows of one left-out environment; rows of a grid hold its strength instead of coefficients."""
    data, inside, outside, name = problems[0].data, np.flatnonzero(groups != e), np.flatnonzero(groups == e), names[e]
    try:
        split = Split.of(problems[0], inside, outside)
    except InputError as error:
        raise type(error)(f"without environment {name}: {error}") from None
    train, shared = split.train, split.shared
    weights = None if data.weights is None else data.weights[outside]
    about = {"n": outside.size if weights is None else float(weights.sum())} | null.about(inside, outside)
    called, rows = problems[0].names_of(data), []
    inner = [replace(train, spec=one.spec.for_columns(data.names, train.data.names)) for one in problems]
    objectives = _objectives(inner)
    held = _Predictions(given, split, given.held(outside) if by == ("xi",) and split.held is not None else None)
    for problem, start in zip(inner, starts, strict=True):
        try:
            objective = next(objectives)
            solutions = fits_at(problem, objective, xis, {xi: shared.narrow(*start[xi]) for xi in xis})
        except IdentificationError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        for xi, solution in zip(xis, solutions, strict=True):
            nll = held.mean_nll(problem, objective, solution, weights)
            beta = shared.widen(*objective.coordinates.split(solution.v))[1]
            row = {"environment": name, "xi": xi, "nll": nll, "converged": solution.converged} | about
            rows.append(row | {"notes": split.notes} | row_of(problem.spec, called, beta, by))
    return Found(rows, held.kept())


class _Predictions:
    """The predictions of one left-out environment, collected xi by xi; no distributions are kept without ``rows``."""

    def __init__(self, given: RowsOf, split: Split, rows: HeldRows | None) -> None:
        self.given, self.split, self.rows = given, split, rows
        self.found: dict[float, Any] = {}
        self.ends: Ends | None = None
        self.link: Any = None

    def mean_nll(self, problem: Problem, objective: Objective, solution: Solution, weights: Array | None) -> float:
        """Return the mean loss of the rows under a solution, NaN if they cannot be predicted; keep its predictions."""
        if self.split.held is None:
            return math.nan
        logliks, ends = self.split.predicted(problem, objective, solution)
        if self.rows is not None:
            distribution = self.given.predicted(self.rows, problem, objective, solution)
            if distribution is not None:
                self.found[solution.xi] = distribution
            if solution.xi == 0.0:
                self.ends, self.link = ends, problem.fitted_link(objective, solution.v)
        return float(-np.average(logliks, weights=weights))

    def kept(self) -> Held | None:
        """Return the predictions, if there are any."""
        return Held(self.rows, self.found, self.ends, self.link) if self.rows is not None and self.found else None


def _refitted(
    given: RowsOf,
    null: NullModel,
    groups: NDArray[np.intp],
    labels: NDArray[Any],
    xis: list[float],
    e: int,
) -> Found:
    """Return the rows of one left-out environment for a model that is refitted for each xi."""
    model, data = given.given.model, given.whole.data
    inside, outside, name = np.flatnonzero(groups != e), np.flatnonzero(groups == e), labels.tolist()[e]
    others = np.arange(labels.size) != e
    remaining = (np.cumsum(others) - 1)[groups[inside]], labels[others]
    train, held = data.subset(inside), data.take(outside)
    about = {"n": outside.size if held.weights is None else float(held.weights.sum())} | null.about(inside, outside)
    rows, unknown = [], unknown_classes(train.response, held.response)
    kept, found = given.held(outside), {}
    with Task("left-out environment", len(xis), shown=False) as task:
        for xi in xis:
            try:
                own = clone(model).set_params(xi=xi)
                nll, lost, fitted = own.left_out(train, None if unknown else held, remaining, name)
            except InputError as error:
                raise type(error)(f"without environment {name}: {error}") from None
            notes = notes_of(lost, [*unknown, *lost_strata(lost, data.mixture)])
            if not math.isnan(nll) and not lost:
                found[xi] = kept.distribution(fitted)
            facts = {"converged": fitted.model_.converged_, "rounds": fitted.n_rounds_}
            rows.append({"environment": name, "xi": xi, "nll": nll} | about | facts | {"notes": notes})
            task.step()
    return Found(rows, Held(kept, found) if found else None)


def row_of(spec: Specification, names: Sequence[str], beta: Array, by: tuple[str, ...]) -> dict[str, float]:
    """Return what a row says about its fit: the coefficients; in a grid (they may be thousands) its strength."""
    if by == ("xi",):
        return {f"coef_{name}": b for name, b in zip(names, beta.tolist(), strict=True)}
    if by[0] == "smooth":
        return {"smooth": spec.smooth}
    return {"lambda": spec.l1 + spec.l2, "nonzero": int(np.count_nonzero(np.nan_to_num(beta)))}
