"""Terms of covariates, and maximum-likelihood fits to sets of them.

A term is a column of X, or a term of a formula with all its columns: a factor or a spline is one term. All sets share
the checked rows, the basis and the standardised columns of the model with all covariates; a fit starts from the fit to
the set before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm.diagnostics.environment_columns import EnvironmentColumns
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import tell_alphabetical
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Options, Solution, is_strict, minimise
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.design import Design
from anchortm.inputs.formula import Formula
from anchortm.inputs.parts import refuse
from anchortm.models.base import check_model
from anchortm.models.given import given

__all__ = ["SetFits", "Setting", "Terms"]

Array = NDArray[np.float64]
Places = NDArray[np.intp]

TOLERANCE = 1e-10  # unconverged fits leave residuals that are correlated with the covariates


@dataclass(frozen=True)
class Terms:
    """The terms of the covariates by name, and the columns of the design that each has."""

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, design: Design, formula: Formula | None) -> Terms:
        """Return the terms of a design; those that the baseline contains (varying effects) have no columns here."""
        if formula is None:
            return cls(design.names, tuple((j,) for j in range(len(design.names))))
        place = {name: j for j, name in enumerate(design.names)}
        found = {
            term: tuple(place[name] for name in names)
            for term, names in formula.term_columns().items()
            if names and all(name in place for name in names)
        }
        return cls(tuple(found), tuple(found.values()))

    def places(self, names: Any, what: str) -> tuple[int, ...]:
        """Return the positions of terms by their exact names, in the order of the formula."""
        if isinstance(names, str):
            names = [names]
        if not isinstance(names, Iterable):
            raise InputTypeError(f"{what} must be names of covariates, not {names!r}")
        wanted = [str(name) for name in names]
        unknown = [name for name in wanted if name not in self.names]
        if unknown:
            listed = ", ".join(self.names) or "none"
            raise InputError(f"{what} has {', '.join(unknown)}, but the covariates are {listed}")
        return tuple(j for j, name in enumerate(self.names) if name in wanted)

    def columns_of(self, chosen: Iterable[int]) -> Places:
        """Return the columns of some terms, in the order of the design."""
        return np.array(sorted(j for term in chosen for j in self.columns[term]), dtype=np.intp)

    def named(self, chosen: Iterable[int]) -> tuple[str, ...]:
        """Return the names of some terms."""
        return tuple(self.names[j] for j in chosen)

    def keeping(self, chosen: Sequence[int]) -> Terms:
        """Return some of the terms, for a design that has no other columns."""
        kept = self.columns_of(chosen).tolist()
        return Terms(self.named(chosen), tuple(tuple(kept.index(column) for column in self.columns[j]) for j in chosen))


@dataclass(frozen=True, eq=False)
class Setting:
    """What all tests of one call share: the model with all covariates, its terms, and the environments."""

    model: str
    problem: Problem  # at xi = 0, and without anchors, so that rows keep their order
    environments: EnvironmentColumns
    terms: Terms

    @classmethod
    def of(
        cls,
        question: str,
        model: Any,
        X: Any,
        y: Any,
        environments: Any,
        sample_weight: Any,
        offset: Any,
        **changes: Any,
    ) -> Setting:
        """Return the setting of a question; ``changes`` are arguments of the model to set."""
        check_model(model, "invariance")
        plain: dict[str, Any] = {"xi": 0.0, "start": None, "anchor_intercept": True, "penalty_factor": None}
        plain |= {"anchor_weights": "rows", "tail": 1.0}  # these arguments shape a penalty, and here there is none
        null = clone(model).set_params(**plain, **changes)
        named = isinstance(X, str)
        own = {"sample_weight": sample_weight, "offset": offset, "environments": environments if named else None}
        rows = given(null, X, y, None if named else environments, **own)
        if rows.batched:
            refuse("invariance", "batches")
        rows = replace(rows, anchors=rows.environments) if named else rows
        rows, problem = rows.prepared()
        problem.at(l1=model.l1).refuse("invariance")
        data = problem.data.without_wide()
        if data.anchors is None:
            raise InputError(
                f"{question} needs environments: pass them after y, or name them after '|' in a formula (y ~ x | place)"
            )
        tell_alphabetical(data)
        own_names = named or hasattr(environments, "columns") or getattr(environments, "name", None) is not None
        columns = EnvironmentColumns.of(data.anchors, own_names or environments is None)
        terms = Terms.of(data.design, rows.formula)
        return cls(type(model).__name__, problem.with_data(data._replace(anchors=None)), columns, terms)

    @property
    def weights(self) -> Array | None:
        """Return the weights of the rows, None if all are 1."""
        weights: Array | None = self.problem.data.weights
        return weights

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows."""
        return float(len(self.problem.data.response) if self.weights is None else self.weights.sum())

    @property
    def anchored(self) -> Problem:
        """Return the problem with the environments as anchors."""
        return self.problem.with_data(self.problem.data._replace(anchors=self.environments.given))

    def covariates(self, columns: Places) -> Array:
        """Return what environments are regressed on: the columns of a set, and what every model has beside them.

        These are the indicators of strata, and columns with varying effects.
        """
        data = self.problem.data
        beside = np.zeros((len(data.response), 0))
        if data.mixture is not None:
            beside = data.mixture.levels
        elif data.strata is not None:
            beside = (data.strata.codes[:, None] == np.arange(1, len(data.strata.labels))).astype(np.float64)
        return np.hstack([beside, data.design.matrix[:, columns]])

    def part(self, columns: Places) -> Problem:
        """Return the problem of some columns alone, with the same basis."""
        return part_of(self.problem, columns)


def part_of(problem: Problem, columns: Places) -> Problem:
    """Return the problem of some columns alone, with the same basis, after checking them."""
    data, design = problem.data, problem.data.design
    names, marks = tuple(design.names[j] for j in columns), tuple(design.marks[j] for j in columns)
    own = problem.on_part(data._replace(design=Design(design.matrix[:, columns], names, design.named, marks)))
    found = own.spec.check_design(own.data)
    return own.with_data(own.data._replace(near=found.near, share=found.share))


class SetFits:
    """Maximum-likelihood fits to sets of columns, each started from the one before."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # a parameter that is estimated first, or columns that are turned, are different for each set
        self._apart = bool(problem.data.near) or bool(getattr(problem.spec, "estimates_alpha", False))
        self._near: Array | None = None

    def __call__(self, columns: Places) -> tuple[Objective, Solution]:
        """Return the loss and the solution of a set of columns; its residuals are scores."""
        whole = columns.size == len(self.problem.data.design.names)
        if self._apart and not whole:
            own = part_of(self.problem, columns)
            return own.objective.scored, self._solved(own, own.objective, None)
        objective = self.problem.objective if whole else self.problem.objective.restricted(columns)
        at = self.problem.objective.coordinates.places(columns)
        solution = self._solved(self.problem, objective, None if self._near is None else self._near[at])
        self._near = np.zeros(self.problem.objective.n_parameters)
        self._near[at] = solution.v
        return objective.scored, solution

    def residuals(self, columns: Places) -> Array:
        """Return the residuals of a set as ``model.residuals`` reports them.

        Those of generalised linear models are positive where y is above its mean, and in units of y.
        """
        objective, solution = self(columns)
        r = objective.residuals(solution.v)
        if self.problem.spec.likelihood != "mean":
            return r
        return np.asarray(-r * objective.link.loss_unit**2 / objective.link.eta_unit)

    def _solved(self, problem: Problem, objective: Objective, near: Array | None) -> Solution:
        """Return the maximum of the likelihood, from a start near it if there is one; refuse data without one."""
        options = Options(tol=min(problem.spec.tol, TOLERANCE), max_iter=problem.spec.max_iter)
        if near is not None and objective.closed_form is None and np.isfinite(objective.sums(near).loglik):
            found = minimise(objective, near, 0.0, options)
            if is_strict(objective, found):
                return found
        found = solve(objective, problem.start(objective), 0.0, options)
        if not found.converged and found.kkt > problem.spec.tol:
            raise InputError(f"the maximum-likelihood fit did not converge: {found.reason}")
        return found
