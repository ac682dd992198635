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

import dataclasses
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.data import Data
from anchortm.engine.objective.leaves import LeafObjective
from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Solution, minimise
from anchortm.engine.solve.one_step import shrunken_step
from anchortm.engine.specification import Specification
from anchortm.models.boosted.rows import Watched

__all__ = ["Booster", "Stage"]

Array = NDArray[np.float64]


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
    own: dict[str, Any] = {}  # noqa: RUF012 - fields that only this kind of model has; never changed

    @classmethod
    def of(cls, result: FitResult) -> Stage:
        """Return the stage of a result."""
        fields = {name: getattr(result, name) for name in cls._fields[2:-1]}
        return cls(result.baseline, result.coef, **fields, own=result.own_record())

    def put(self, spec: Specification, result: FitResult) -> FitResult:
        """Return the result with the fields of this stage."""
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(FitResult)}
        stage = self._asdict()
        theta, beta, own = (stage.pop(name) for name in ("theta", "beta", "own"))
        fields |= stage | {"baseline": theta, "typical": theta, "coef": beta, "computed": {}}
        return result.from_own_record(own, spec, fields)


class Booster:
    """The rows of a fit, the current f, and the optimal theta and beta given f.

    Rows are sorted by the main anchor factor; ``order`` holds their original positions.
    """

    def __init__(self, spec: Specification, data: Data, kind: type[Problem] = Problem) -> None:
        order = None if data.anchors is None else data.anchors.order()
        n = len(data.response)
        self.order = np.arange(n) if order is None else order
        self.data = data = data if order is None else _reordered(data, order)
        self.problem = problem = kind.on(spec, data)
        self.data = problem.data
        self.xi, self.sign, self.options = float(spec.xi), spec.sign, spec.quiet
        self.link, self.basis = problem.link, problem.basis
        self.objective: Objective = problem.objective
        self.offset = np.zeros(n) if data.offset is None else data.offset
        self.f = np.zeros(n)
        self._part = None if self.objective.anchors is None else self.objective.anchors.part(slice(None))
        self.solution: Solution = solve(self.objective, problem.start(self.objective), self.xi, self.options)

    def result(self) -> tuple[Problem, FitResult]:
        """Return the problem of theta and beta given f, and its result."""
        problem = self.problem.with_data(self.data._replace(offset=self.offset + self.f))
        return problem, problem.result(self.objective, self.solution, [self.solution])

    @property
    def parameters(self) -> tuple[Array, Array]:
        """Return theta and beta."""
        return self.objective.coordinates.split(self.solution.v)

    def nll(self, rows: Watched) -> float:
        """Return the mean negative log-likelihood of held-out environments."""
        return rows.mean_nll(self.problem, self.problem.fitted_link(self.objective, self.solution.v), *self.parameters)

    def stage(self) -> Stage:
        """Return the fit after the rounds so far."""
        return Stage.of(self.problem.result(self.objective, self.solution, [self.solution]))

    def project(self, values: Array) -> Array:
        """Return P v, or zeros without anchors."""
        P = self.objective.anchors
        if P is None or self._part is None:
            return np.zeros_like(values)
        sums = np.zeros(P.n_sums)
        self._part.add(sums, values if self.weights is None else values * self.weights, None)
        return self._part.spread(P.coefficients(P.root(sums)))

    def pseudo_residuals(self) -> Array:
        """Return -n dL/df for each row (of a family with units, in its unit)."""
        rows = self.rows
        values = rows.values(self.solution.v)
        pull = rows.of_rows([t.r for t in values])
        if self.xi != 0.0:
            r, dr = (rows.of_rows([getattr(t.penalised, name) for t in values]) for name in ("r", "dr"))
            pull = pull + 2.0 * self.xi * dr * self.project(r)
        return np.asarray(-self.sign * (pull if self.weights is None else self.weights * pull))

    @property
    def weights(self) -> Array | None:
        """Return the weights of rows in the likelihood."""
        return self.rows.weights

    @property
    def rows(self) -> RowObjective:
        """Return the objective without a penalty on the linear part: a sum over rows in memory."""
        rows = self.objective.unpenalised
        assert isinstance(rows, RowObjective)  # noqa: S101
        return rows

    def with_columns(self, Z: Array) -> Objective:
        """Return the objective with f as offset and additional covariates Z."""
        objective, c, p = self.rows, self.objective.coordinates, Z.shape[1]
        mean = Z.mean(axis=0)
        own = Z - mean
        scale = np.sqrt(np.einsum("ij,ij->j", own, own) / Z.shape[0])
        scale = np.where(scale > 0.0, scale, 1.0)
        own *= self.sign / scale
        wider = replace(
            c,
            mean=np.concatenate([c.mean, self.sign * mean]),
            scale=np.concatenate([c.scale, scale]),
            lower=np.concatenate([c.lower, np.full(p, -np.inf)]),
            upper=np.concatenate([c.upper, np.full(p, np.inf)]),
        )
        blocks = objective.memory.changed(lambda rows: replace(rows, C=np.hstack([rows.C, own[rows.rows]])))
        names = (*objective.names, *(f"z{j}" for j in range(p)))
        return self._penalised(type(objective)(objective.link, wider, objective.anchors, blocks, names))

    def with_leaves(self, leaf: NDArray[np.intp], n_leaves: int) -> LeafObjective:
        """Return the objective with f as offset and a value for each leaf, without penalties on the linear part."""
        return LeafObjective(self.rows, leaf, n_leaves, self.sign)

    def _penalised(self, objective: Objective) -> Objective:
        """Return the objective with the penalties on the linear part; it may have more parameters, which come last."""
        lasso, ridge = self.objective.lasso, self.objective.ridge
        more = (0, objective.n_parameters - self.objective.n_parameters)
        return objective if lasso is None or ridge is None else Net(objective, np.pad(lasso, more), np.pad(ridge, more))

    def step(self, Z: Array, share: float) -> Array | None:
        """Take a fraction of a Newton step in the coefficients of covariates Z, theta and beta.

        Afterwards theta and beta are refitted for the new f. Return the coefficients, or None if no step improves the
        loss.
        """
        wider = self.with_columns(Z)
        there = self._newton_step(wider, share)
        if there is None:
            return None
        theta, beta = wider.coordinates.split(there)
        old = beta.size - Z.shape[1]
        self.put(self.f + Z @ beta[old:], self.objective.coordinates.join(theta, beta[:old]))
        return beta[old:]

    def put(self, f: Array, v: Array) -> None:
        """Set f, and refit theta and beta from the start values v."""
        added = self.sign * (f - self.f) / self.objective.coordinates.unit
        self.f = f
        self._refit(self.rows.shifted(added), v)

    def leaf_step(self, leaf: NDArray[np.intp], n_leaves: int, share: float, l2: float) -> Array | None:
        """Take a fraction of a Newton step in the values of leaves, theta and beta, and refit theta and beta.

        Parameters
        ----------
        leaf : array of shape (n,)
            The leaf of each row.
        n_leaves : int
            Number of leaves.
        share : float
            Learning rate: the fraction of the Newton step.
        l2 : float
            Ridge on the leaf values, as a number of rows.

        Returns
        -------
        array of shape (n_leaves,) or None
            What the leaves add to f; None if no step improves the loss.
        """
        wider = self.with_leaves(leaf, n_leaves)
        there = self._newton_step(self._penalised(wider), share, l2)
        if there is None:
            return None
        values = wider.coordinates.split(there)[1][-n_leaves:]
        self.f = self.f + values[leaf]
        self._refit(*wider.moved(there))
        return values

    def _newton_step(self, objective: Objective, share: float, l2: float = 0.0) -> Array | None:
        """Return the parameters after a fraction of a Newton step; those that the objective adds start at 0."""
        k = self.solution.v.size
        v = np.append(self.solution.v, np.zeros(objective.n_parameters - k))
        ridge = np.zeros(v.size)
        ridge[k:] = l2 / objective.n_total / objective.coordinates.scale[k:] ** 2
        return shrunken_step(Pulled(objective, v, np.diag(ridge)), v, self.xi, share, self.solution.sums)

    def _refit(self, rows: RowObjective, v: Array) -> None:
        """Refit theta and beta to the rows with the new f as offset, from the start values v."""
        self.objective = self._penalised(rows)
        self.solution = minimise(self.objective, v, self.xi, self.options)


def _reordered(data: Data, order: NDArray[np.intp]) -> Data:
    """Return the data with its rows in another order."""
    part = data.take(order)
    return data._replace(
        response=part.response,
        design=part.design,
        anchors=None if data.anchors is None else data.anchors.take(order),
        weights=part.weights,
        offset=part.offset,
        mixture=part.mixture,
        environments=part.environments,
    )
