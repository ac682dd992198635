"""Left-out environments of a table that is read in batches: all fits share each read of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from anchortm.backends.grouped import Fit, GroupedStream, HeldOut, held_out_loss, unknown_outcomes
from anchortm.backends.streamed import Stream
from anchortm.engine.lost_columns import Shared, notes_of
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import tell_alphabetical
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError, InputTypeError
from anchortm.models.given import Given
from anchortm.selection.folds import Grid, row_of
from anchortm.selection.held import Held
from anchortm.selection.splits import bare_specification, fits_at

__all__ = ["LeftOut", "left_out_in_batches"]

T = TypeVar("T")
Full = dict[tuple[int, float], FitResult]


class LeftOut(NamedTuple):
    """The rows of the table of left-out environments; of batches also the fits to all rows, by problem and xi."""

    rows: list[dict[str, Any]]
    given: Given | None = None
    problems: Sequence[Problem] = ()
    full: Full | None = None
    n_passes: int | None = None
    n_missing: int = 0
    environment_name: str | None = None
    held: Mapping[Any, Held] = MappingProxyType({})  # predictions for the rows of each environment
    missing: Mapping[Any, int] = MappingProxyType({})  # left-out rows that were dropped behind transformers


def left_out_in_batches(
    rows: Given,
    grid: Grid | None,
    by: tuple[str, ...],
    xis: list[float],
    cut: int | None,
    n_jobs: int | None,
) -> LeftOut:
    """Return the left-out environments of a table at each xi, for the model or for a grid of penalties.

    The fits to all rows come first, at all xi side by side. Then all fits without one environment start from them. The
    number of passes is about that of two fits, whatever the number of environments and of xi.
    """
    if cut is not None:
        raise InputError("cut needs the rows in memory: write the groups into a column of the table, and name it")
    rows, problem = rows.prepared()
    stream: Stream = problem.data
    column = _environments(stream, rows.environments)
    if n_jobs is not None:
        stream.source.n_jobs = problem.spec.at(n_jobs=n_jobs).threads
    tell_alphabetical(problem.data)
    problem = problem.along(xis)
    problems = [problem] if grid is None else grid(problem, xis)
    places = list(product(range(len(problems)), xis))
    results = stream.together([problems[j].at(xi=xi, verbose=0, n_restarts=0).fit for j, xi in places])
    full = dict(zip(places, results, strict=True))
    grouped = GroupedStream(stream, column)
    names = grouped.labels
    if len(names) < 2:
        raise InputError("there is a single environment: no rows remain for the fit when it is left out")
    parts = stream.together([_named(names[e], partial(_fold, problem, grouped, e)) for e in range(len(names))])
    several = [_fits(fold, problems, full) for fold in parts]
    fits = stream.together([_named(names[e], call) for e, calls in enumerate(several) for call in calls])
    size = len(places) + 1
    by_environment = [fits[e * size : (e + 1) * size] for e in range(len(names))]
    losses = stream.together(
        [call for e, own in enumerate(by_environment) for call in _losses(grouped, e, parts[e], own)]
    )
    found, called = [], problem.names_of(stream)
    for e, fold in enumerate(parts):
        about = {"environment": names[e]} | _about(grouped, e, *losses[2 * e : 2 * e + 2]) | {"notes": fold.notes}
        for (j, xi), fit, nll in zip(places, by_environment[e][:-1], losses[2 * e].nll.tolist(), strict=True):
            beta = fold.shared.widen(fit.baseline, fit.others)[1]
            own = {"xi": xi, "nll": nll, "converged": fit.converged}
            found.append(own | about | row_of(problems[j].spec, called, beta, by))
    return LeftOut(found, rows, problems, full, stream.n_passes, stream.scan.missing.n_missing, _name(stream, column))


def _fits(fold: _Fold, problems: Sequence[Problem], full: Full) -> list[Callable[[], Fit]]:
    """Return the fits without one environment at each place, and last the one without covariates."""
    calls = [partial(_fit, fold.like(problems[j].at(xi=xi)), result, fold.shared) for (j, xi), result in full.items()]
    return [*calls, partial(_null_fit, fold.null)]


def _losses(grouped: GroupedStream, e: int, fold: _Fold, fits: list[Fit]) -> list[Callable[[], HeldOut]]:
    """Return what computes the losses of an environment under its fits, and under the last one, without covariates."""
    return [partial(_loss, grouped, e, fold, fits[:-1]), partial(_loss, grouped, e, fold, fits[-1:], True)]


def _about(grouped: GroupedStream, e: int, held: HeldOut, null: HeldOut) -> dict[str, float]:
    """Return the size of an environment, its events, and its loss without covariates."""
    scan = grouped.scans[e]
    n = scan.n_rows if grouped.whole.reader.weight is None else scan.n_total
    return {"n": n, "events": held.exact if scan.time else math.nan, "null": float(null.nll[0])}


def _environments(stream: Stream, given: Any) -> str | None:
    """Return the column of the environments; None if they are the only anchor."""
    if given is not None:
        if not isinstance(given, str):
            raise InputTypeError(
                f"environments must name a column when rows are read in batches, not {type(given).__name__}"
            )
        return given
    anchors = stream.anchors
    if anchors is None:
        raise InputError("name the environments: environments='site', or as anchors after '|' in the formula")
    if len(anchors.levels) != 1 or anchors.frame.column_names:
        raise InputError(
            "the anchors are not one column of groups: name the column of the environments, environments='site'"
        )
    return None


def _name(stream: Stream, column: str | None) -> str:
    """Return what the column of the environments is called."""
    return column or str(stream.reader.formula.anchor_columns[0])


@contextmanager
def _without(name: Any) -> Iterator[None]:
    """Add the name of the left-out environment to errors."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"without environment {name}: {error}") from None


def _named(name: Any, call: Callable[[], T]) -> Callable[[], T]:
    def run() -> T:
        with _without(name):
            return call()

    return run


class _Fold(NamedTuple):
    """The problem without one environment, and the classes and strata that only this environment has."""

    train: Problem
    shared: Shared
    unknown: list[str]
    null: Problem

    @property
    def notes(self) -> str:
        """Return what the table says about the environment."""
        return notes_of(self.train.data.lost, self.unknown)

    def like(self, problem: Problem) -> Problem:
        """Return the problem without the environment with the penalties of another."""
        return replace(self.train, spec=problem.spec.for_columns(problem.data.names, self.train.data.names))


def _fold(problem: Problem, grouped: GroupedStream, e: int) -> _Fold:
    """Return the problem without one environment, with the basis made from the other rows."""
    part = grouped.without(e)
    train = type(problem).on(problem.spec.for_columns(problem.data.names, part.names), part)
    null = replace(train, spec=bare_specification(train.spec), data=part.bare())
    return _Fold(train, Shared.of(problem, train), unknown_outcomes(grouped, e, part), null)


def _fit(problem: Problem, start: FitResult, shared: Shared) -> Fit:
    """Return the fit, started from the fit to all rows."""
    objective, xi = problem.objective, float(problem.spec.xi)
    (solution,) = fits_at(problem, objective, [xi], {xi: shared.narrow(start.baseline, start.others)})
    theta, beta = objective.coordinates.split(solution.v)
    link = problem.fitted_link(objective, solution.v)
    return Fit(problem.with_data(None), link, np.asarray(theta), np.asarray(beta), solution.converged)


def _null_fit(problem: Problem) -> Fit:
    """Return the fit without covariates."""
    objective, solution = problem.objective, problem.solve()[0]
    theta, beta = objective.coordinates.split(solution.v)
    link = problem.fitted_link(objective, solution.v)
    return Fit(problem.with_data(None), link, np.asarray(theta), np.asarray(beta), solution.converged)


def _loss(grouped: GroupedStream, e: int, fold: _Fold, fits: list[Fit], null: bool = False) -> HeldOut:
    """Return the loss of the left-out rows under each fit, NaN if they have unknown classes or strata."""
    if fold.unknown:
        return HeldOut(np.full(len(fits), np.nan), math.nan)
    return held_out_loss(grouped, e, (fold.null if null else fold.train).data, fits)
