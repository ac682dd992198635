"""Left-out environments of a table that is read in batches: all fits share each read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from anchortm._typing import Array
from anchortm.backends.grouped import Fit, GroupedStream, held_out_loss, unknown_outcomes
from anchortm.backends.streamed import Stream
from anchortm.engine.lost_columns import Shared, notes_of
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import tell_alphabetical
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError, InputTypeError
from anchortm.models.given import Given
from anchortm.selection.folds import Grid, row_of
from anchortm.selection.splits import fits_at

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
    fits = stream.together(
        [
            _named(names[e], partial(_fit, fold.like(problems[j].at(xi=xi)), full[j, xi], fold.shared))
            for e, fold in enumerate(parts)
            for j, xi in places
        ]
    )
    by_environment = [fits[e * len(places) : (e + 1) * len(places)] for e in range(len(names))]
    losses = stream.together([partial(_loss, grouped, e, parts[e], own) for e, own in enumerate(by_environment)])
    found, called = [], problem.names_of(stream)
    for e, name in enumerate(names):
        scan = grouped.scans[e]
        n = scan.n_rows if stream.reader.weight is None else scan.n_total
        for (j, xi), fit, nll in zip(places, by_environment[e], losses[e].tolist(), strict=True):
            own = {"environment": name, "xi": xi, "n": n, "nll": nll, "converged": fit.converged}
            beta = parts[e].shared.widen(fit.baseline, fit.others)[1]
            found.append(own | {"notes": parts[e].notes} | row_of(problems[j].spec, called, beta, by))
    return LeftOut(found, rows, problems, full, stream.n_passes, stream.scan.missing.n_missing, _name(stream, column))


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
    return _Fold(train, Shared.of(problem, train), unknown_outcomes(grouped, e, part))


def _fit(problem: Problem, start: FitResult, shared: Shared) -> Fit:
    """Return the fit, started from the fit to all rows."""
    objective, xi = problem.objective, float(problem.spec.xi)
    (solution,) = fits_at(problem, objective, [xi], {xi: shared.narrow(start.baseline, start.others)})
    theta, beta = objective.coordinates.split(solution.v)
    link = problem.fitted_link(objective, solution.v)
    return Fit(problem.with_data(None), link, np.asarray(theta), np.asarray(beta), solution.converged)


def _loss(grouped: GroupedStream, e: int, fold: _Fold, fits: list[Fit]) -> Array:
    """Return the loss of the left-out rows under each fit, NaN if they have unknown classes or strata."""
    return np.full(len(fits), np.nan) if fold.unknown else held_out_loss(grouped, e, fold.train.data, fits)
