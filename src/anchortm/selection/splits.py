"""The rows of a problem without some environments, and the rows of these: what all left-out fits share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.engine.data import Data
from anchortm.engine.lost_columns import Shared, lost_strata, notes_of
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.ends import Ends
from anchortm.engine.solve.continuation import solve_path
from anchortm.engine.solve.newton import Solution
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.design import Design
from anchortm.inputs.response import Kind, Response

__all__ = [
    "Codes",
    "NullModel",
    "Split",
    "bare",
    "bare_specification",
    "events_by",
    "fits_at",
    "unknown_classes",
    "with_all_columns",
    "without_covariates",
]

Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Split:
    """A problem without some environments, and the rows of these.

    Attributes
    ----------
    train : Problem
        The problem of the other rows.
    held : Data or None
        The left-out rows, with the columns of the fit; None if they cannot be predicted.
    unknown : list of str
        Classes and strata that only the left-out rows have, so that these cannot be predicted.
    shared : Shared
        Which parameters the fit has in common with the fit to all rows.
    """

    train: Problem
    held: Data | None
    unknown: list[str]
    shared: Shared

    @classmethod
    def of(cls, problem: Problem, inside: Codes, outside: Codes) -> Split:
        """Return the problem of some rows, and the others as rows to predict."""
        train, left = problem.subset(inside), problem.data.take(outside)
        unknown = unknown_classes(train.data.response, left.response)
        unknown += lost_strata(train.data.lost, problem.data.mixture)
        held = None if unknown else train.held_out(left)
        return cls(train, held, unknown, Shared.of(problem, train))

    @property
    def notes(self) -> str:
        """Return what a table says about the left-out rows."""
        return notes_of(self.train.data.lost, self.unknown)

    def predicted(self, problem: Problem, objective: Objective, solution: Solution) -> tuple[Array, Ends | None]:
        """Return the log-likelihood of each left-out row under a solution, and h at its ends if h is known."""
        assert self.held is not None  # noqa: S101
        theta, beta = objective.coordinates.split(solution.v)
        link, ends = problem.fitted_link(objective, solution.v), problem.ends(theta, beta, self.held)
        return problem.logliks(link, theta, beta, self.held) if ends is None else ends.logliks(link), ends


def fits_at(
    problem: Problem, objective: Objective, xis: list[float], starts: dict[float, tuple[Array, Array]]
) -> list[Solution]:
    """Return the solution at each xi, started from the fit to all rows."""
    if objective.closed_form is not None:
        return solve_path(objective, problem.start(objective), xis, problem.spec.quiet)
    return [problem.near(objective, starts[xi], xi) for xi in xis]


def unknown_classes(train: Response, left: Response) -> list[str]:
    """Return the classes of left-out rows that no other row has."""
    known, own = _seen(train), _seen(left)
    return [f"class {level}" for level in own if level not in known]


def _seen(response: Response) -> list[Any]:
    """Return the classes that rows have; none if the outcome has no classes."""
    if response.levels is None:
        return []
    return [response.levels[k] for k in np.unique(response.codes).tolist()]


def events_by(response: Response, weights: Array | None, groups: Codes, n_groups: int) -> Array:
    """Return the number of events (exact times) of each group, as often as weights count them; NaN without times."""
    if response.scale != "time":
        return np.full(n_groups, np.nan)
    exact = (response.kind == Kind.EXACT).astype(np.float64)
    return np.asarray(np.bincount(groups, exact if weights is None else exact * weights, minlength=n_groups))


def bare(data: Data) -> Data:
    """Return rows without their covariates, strata and clusters."""
    design = Design(np.zeros((len(data.response), 0)), (), data.design.named)
    return data._replace(
        design=design,
        mixture=None,
        strata=None,
        clusters=None,
        anchors=None,
        near=(),
        covariate_ranges=None,
        weighting=None,
    )


def bare_specification(spec: Specification) -> Specification:
    """Return the specification of the same outcome and kind of baseline, without anything that needs covariates."""
    nothing: dict[str, Any] = dict.fromkeys(
        (
            "anchor_names",
            "strata",
            "varying",
            "random",
            "scale",
            "xi_scale",
            "penalty_factor",
            "start",
            "target",
            "proxies",
        )
    )
    plain = {"tail": 1.0, "worst": None, "environment_weights": "rows", "anchor_weights": "rows"}
    return spec.at(xi=0.0, l1=0.0, l2=0.0, **plain, **nothing)


def without_covariates(problem: Problem) -> Problem:
    """Return the maximum-likelihood problem of the same rows and kind of baseline, without any covariate."""
    return replace(problem, spec=bare_specification(problem.spec), data=bare(problem.data))


def with_all_columns(whole: Problem, part: Problem, result: FitResult) -> FitResult:
    """Return a fit to some of the rows; columns that they do not identify have the coefficient 0."""
    lost = part.data.lost
    if not lost or not part.data.names:
        return result
    names = whole.data.names
    if lost_strata(lost, whole.data.mixture) or {one.name for one in lost} - set(names):
        raise InputError(notes_of(lost, ()))
    known = dict(zip(result.coef_names, result.coef.tolist(), strict=True))
    coef = np.array([known.get(name, 0.0) for name in names])
    return replace(
        result,
        coef=coef,
        coef_names=list(names),
        marks=whole.data.marks,
        n_features_in=result.n_features_in + len(lost),
        information=None,
        jacobian=None,
    )


@dataclass(frozen=True, eq=False)
class NullModel:
    """The model without covariates, from which skill is measured: fits to the same training rows.

    Attributes
    ----------
    problem : Problem
        The problem of all rows without covariates.
    start : tuple of arrays
        Its parameters, from which fits to some of the rows start.
    """

    problem: Problem
    start: tuple[Array, Array]

    @classmethod
    def of(cls, problem: Problem) -> NullModel:
        """Return the model without covariates of the rows of a problem."""
        problem = without_covariates(problem)
        solution = problem.solve()[0]
        return cls(replace(problem), problem.objective.coordinates.split(solution.v))

    def logliks(self, inside: Codes, outside: Codes) -> tuple[Array, str]:
        """Return the log-likelihood of each of the rows outside under the fit to those inside; or NaN, and why."""
        try:
            split = Split.of(self.problem, inside, outside)
            if split.held is None:
                return np.full(outside.size, np.nan), split.notes
            objective = split.train.objective
            (solution,) = fits_at(split.train, objective, [0.0], {0.0: self.start})
            return split.predicted(split.train, objective, solution)[0], ""
        except (IdentificationError, ArithmeticError, np.linalg.LinAlgError) as error:
            return np.full(outside.size, np.nan), f"without covariates: {error}"

    def about(self, inside: Codes, outside: Codes) -> dict[str, float]:
        """Return the number of events of the rows outside, and their mean loss under the fit to those inside."""
        data = self.problem.data
        weights = None if data.weights is None else data.weights[outside]
        (events,) = events_by(data.response[outside], weights, np.zeros(outside.size, dtype=np.intp), 1)
        logliks = self.logliks(inside, outside)[0]
        return {"events": float(events), "null": float(-np.average(logliks, weights=weights))}
