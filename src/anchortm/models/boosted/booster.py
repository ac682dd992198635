"""Boosting the anchor loss: rounds of shrunken Newton steps in the leaf values, jointly with the baseline.

The model is h = a(y)'theta + sign (x'beta + f(x) + offset). Here f is a sum of trees, or a linear function that grows
in steps; x'beta is present only if there is a linear part beside trees. The steepest descent of the loss
L = -(1/n) sum w l + (xi/n) |P r|^2 in f is the pseudo-residual

    -n dL/df_i = -sign w_i (r_i + 2 xi r'_i (P r)_i),

on which a tree is grown. Let the columns of Z indicate its leaves. The Hessian of L in the leaf values is

    Z'[W diag(r' + 2 xi (P r) r'') + 2 xi diag(r') W P diag(r')]Z / n.

The objective with covariates Z and offset f provides this Hessian, together with the blocks of theta and beta. A Newton
step in all parameters follows, multiplied by the learning rate. Then theta and beta are refitted, given f.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis, OrdinalBasis
from anchortm.engine.data import Data
from anchortm.engine.objective.build import objective_type
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import remarked
from anchortm.engine.result import FitResult, atom_at_zero
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.likelihood import Term, build_terms, evaluate, loglik_and_residuals
from anchortm.engine.rows.standardised import Rows
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Solution, minimise, shrunken_step
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.inputs.response import as_response
from anchortm.links import Link, OneEnd

__all__ = ["Booster", "Stage", "Watched"]

Array = NDArray[np.float64]


class RowDerivatives(NamedTuple):
    """The score residual of each row, and its derivative with respect to h."""

    r: Array
    dr: Array


def row_derivatives(link: Link, terms: tuple[Term, ...], theta: Array, shift: Array) -> RowDerivatives:
    """Return r and r' = r_u + r_v for each row of the response."""
    found = RowDerivatives(*np.zeros((2, shift.size)))
    for term in terms:
        t = evaluate(link, term, theta, shift).values
        for total, values in zip(found, (t.r, t.dr if isinstance(t, OneEnd) else t.r_u + t.r_v), strict=True):
            total[term.rows] += term.sign * values
    return found


class Stage(NamedTuple):
    """The fit after a round: the optimal baseline and coefficients given f, the loss, and the certificate."""

    theta: Array
    beta: Array
    loss: float
    loglik: float
    penalty: float
    kkt: float
    min_eigenvalue: float
    converged: bool
    n_iter: int
    convexity: str
    folds: tuple[float, ...]
    active: NDArray[np.bool_]
    atom: float  # probability at time 0 for average covariates
    reason: str
    history: list[dict[str, Any]]
    information: Array | None  # None if it was too large for a file

    @classmethod
    def of(cls, basis: Basis, objective: Objective, s: Solution, time: bool) -> Stage:
        """Return the stage of a solution."""
        theta, beta = objective.coordinates.split(s.v)
        n, shift = objective.n_total, objective.average_shift(s.v)
        return cls(
            theta,
            beta,
            s.loss,
            s.sums.loglik,
            s.penalty_sum / n,
            s.kkt,
            s.min_eigenvalue,
            s.converged,
            max(1, s.n_iter),
            objective.convexity(s.sums, s.xi),
            s.folds,
            s.active,
            atom_at_zero(objective.link, basis, theta, shift) if time else 0.0,
            s.reason,
            s.history,
            n * np.asarray(s.hessian),
        )

    def put(self, result: FitResult) -> FitResult:
        """Return the result with the fields of this stage."""
        own = self._asdict()
        theta, beta = own.pop("theta"), own.pop("beta")
        return replace(result, baseline=theta, typical=theta, coef=beta, computed={}, **own)


class Booster:
    """The rows of a fit, the current f, and the optimal theta and beta given f.

    Rows are sorted by the main anchor factor; ``order`` holds their original positions.
    """

    def __init__(self, spec: Specification, data: Data) -> None:
        order = None if data.anchors is None else data.anchors.order()
        n = len(data.response)
        self.order = np.arange(n) if order is None else order
        self.data = data = data if order is None else _reordered(data, order)
        self.problem = problem = Problem.on(spec, data)
        self.xi, self.sign, self.options = float(spec.xi), spec.sign, spec.quiet
        self.link, self.basis = problem.link, problem.basis
        self.objective: Objective = problem.objective
        self.terms = build_terms(self.basis, data.response)
        self.offset = np.zeros(n) if data.offset is None else data.offset
        self.f = np.zeros(n)
        self.solution: Solution = solve(self.objective, problem.start(self.objective), self.xi, self.options)

    def result(self) -> tuple[Problem, FitResult]:
        """Return the problem of theta and beta given f, and its result."""
        problem = self.problem.with_data(self.data._replace(offset=self.offset + self.f))
        return problem, remarked(problem, problem.result(self.objective, self.solution, [self.solution]))

    @property
    def parameters(self) -> tuple[Array, Array]:
        """Return theta and beta."""
        return self.objective.coordinates.split(self.solution.v)

    def stage(self) -> Stage:
        """Return the fit after the rounds so far."""
        return Stage.of(self.basis, self.objective, self.solution, self.data.response.scale == "time")

    def shift(self) -> Array:
        """Return the shift of each row, which is added to its baseline."""
        return np.asarray(self.sign * (self.data.design.matrix @ self.parameters[1] + self.offset + self.f))

    def project(self, values: Array) -> Array:
        """Return P v, or zeros without anchors."""
        P = self.objective.anchors
        return np.zeros_like(values) if P is None else P(values, self.data.weights)

    def pseudo_residuals(self) -> Array:
        """Return -n dL/df for each row."""
        rows = row_derivatives(self.link, self.terms, self.parameters[0], self.shift())
        pull = rows.r if self.xi == 0.0 else rows.r + 2.0 * self.xi * rows.dr * self.project(rows.r)
        return np.asarray(-self.sign * (pull if self.data.weights is None else self.data.weights * pull))

    def with_columns(self, Z: Array) -> Objective:
        """Return the objective with f as offset and additional covariates Z."""
        c, objective = self.objective.coordinates, self.objective
        assert isinstance(objective, RowObjective)  # noqa: S101
        p = Z.shape[1]
        mean, scale = Z.mean(axis=0), Z.std(axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        wider = Coordinates(
            c.matrix,
            np.concatenate([c.mean, self.sign * mean]),
            np.concatenate([c.scale, scale]),
            np.concatenate([c.lower, np.full(p, -np.inf)]),
            np.concatenate([c.upper, np.full(p, np.inf)]),
            None,
            c.pieces,
        )
        own, offset = self.sign * (Z - mean) / scale, self.sign * (self.offset + self.f)

        def change(rows: Rows) -> Rows:
            C = np.hstack([rows.C, own[rows.rows]]) if p else rows.C
            return replace(rows, C=C, offset=offset[rows.rows])

        blocks = objective.memory.changed(change, objective.anchors)
        return objective_type(self.link, blocks)(
            self.link, wider, objective.anchors, blocks, (*objective.names, *(f"z{j}" for j in range(p)))
        )

    def step(self, Z: Array, share: float, l2: float) -> Array | None:
        """Take a fraction of a Newton step in the coefficients of Z, theta and beta; return the coefficients of Z.

        Afterwards theta and beta are refitted for the new f. Return None if no step improves the loss.

        Parameters
        ----------
        Z : array of shape (n, k)
            Indicators of leaves, or covariates.
        share : float
            Learning rate: the fraction of the Newton step.
        l2 : float
            Ridge on the coefficients of Z, as a number of rows.
        """
        objective = self.with_columns(Z)
        k = self.solution.v.size
        v = np.append(self.solution.v, np.zeros(Z.shape[1]))
        scale = objective.coordinates.scale[k:]
        ridge = np.diag(np.append(np.zeros(k), l2 / objective.n_total / scale**2))
        there = shrunken_step(Pulled(objective, v, ridge), v, self.xi, share)
        if there is None:
            return None
        theta, beta = objective.coordinates.split(there)
        own = beta[beta.size - Z.shape[1] :]
        self.f = self.f + Z @ own
        self._solve(theta, beta[: beta.size - Z.shape[1]])
        return own

    def _solve(self, theta: Array, beta: Array) -> None:
        """Refit theta and beta for the current f, from these start values."""
        self.objective = self.with_columns(np.zeros((self.f.size, 0)))
        self.solution = minimise(self.objective, self.objective.coordinates.join(theta, beta), self.xi, self.options)


def _reordered(data: Data, order: NDArray[np.intp]) -> Data:
    """Return the data with its rows in another order."""
    part = data.take(order)
    return data._replace(
        response=part.response,
        design=part.design,
        anchors=None if data.anchors is None else data.anchors.take(order),
        weights=part.weights,
        offset=part.offset,
    )


class Watched:
    """The rows of a held-out environment, and the current f of each."""

    def __init__(self, basis: Basis, rows: Data, linear: bool) -> None:
        response = rows.response
        if isinstance(basis, OrdinalBasis):
            try:
                response = as_response(response, "ordinal", basis.levels)
            except InputError as error:
                raise InputError(f"a held-out environment has a class that no other environment has: {error}") from None
        self.terms, self.X, self.weights = build_terms(basis, response), rows.design.matrix, rows.weights
        self.linear = self.X if linear else self.X[:, :0]
        self.f = np.zeros(len(response)) if rows.offset is None else rows.offset.copy()

    def nll(self, link: Link, sign: float, theta: Array, beta: Array) -> float:
        """Return the mean negative log-likelihood."""
        loglik = loglik_and_residuals(link, self.terms, theta, sign * (self.linear @ beta + self.f))[0]
        return float(-np.average(loglik, weights=self.weights))

    def at(self, booster: Booster) -> float:
        """Return the mean negative log-likelihood at the current parameters of a booster."""
        return self.nll(booster.link, booster.sign, *booster.parameters)
