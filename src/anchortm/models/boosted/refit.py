"""A boosted model adapted to a few rows from the target: how far its parameters move."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.result import FitResult
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.engine.solve.newton import minimise
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.inputs.response import Response
from anchortm.models.boosted.booster import Stage
from anchortm.models.boosted.shape import Shape

__all__ = ["STRONGEST", "Base", "Rows", "Target"]

Array = NDArray[np.float64]

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)  # that a refit chooses from
STRONGEST = 1e8  # beyond, rounding in the pull hides whether a minimum was found
FLATTEST = 0.2  # least slope that a refit leaves the baseline, as a share of its slope before
FOLDS, ONE_ROW = 5, 30.0  # of the rows of a refit; its strength with one row, and of n rows the least is 1/n of it


class Base(NamedTuple):
    """The model under the trees: what it asks for, and its result."""

    spec: Specification
    result: FitResult


class Rows(NamedTuple):
    """A few rows of the target."""

    X: Array
    response: Response
    weights: Array | None
    offset: Array | None


class Target:
    """A few rows of the target, and how far the parameters move for them.

    The leaves of all trees are many columns; the rows see them through the left singular vectors, which are at most as
    many as rows, and the shortest move in leaf values follows from these.
    """

    def __init__(self, shape: Shape, base: Base, rows: Rows) -> None:
        self.base, self.rows = base, rows
        linear = rows.X if shape.linear else rows.X[:, :0]
        U, S, self.back = np.linalg.svd(shape.columns(rows.X), full_matrices=False)
        keep = 1e-10 * S.max(initial=0.0) < S
        self.back = self.back[keep]
        self.X = np.hstack([linear, U[:, keep] * S[keep]])
        self.offset = shape.f(rows.X)
        if rows.offset is not None:
            self.offset = self.offset + rows.offset
        result = base.result
        self.known = result.baseline.size + result.coef.size
        self.stiff = max(1, len(shape.trees))
        # the information of a row of the fit, in (theta, beta): v = J^+ (theta, beta)
        if result.information is None or result.jacobian is None:
            raise InputError("the file of this model holds too little for a refit of it: refit, then save")
        J = np.linalg.pinv(result.jacobian)
        values, vectors = np.linalg.eigh(result.information / result.n_total)
        self.root = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ J)

    def solve(self, strength: float, rows: Any = slice(None)) -> tuple[Stage, Array]:
        """Return the baseline and linear coefficients with their certificate, and the moves of the leaf values."""
        base, spec = self.base.result, self.base.spec
        response, weights = self.rows.response, self.rows.weights
        X = self.X[rows]
        # a column that is constant but for rounding would be blown up when it is standardised
        middle = X.mean(axis=0)
        X = np.where(np.abs(X - middle).max(axis=0) <= 1e-10 * np.abs(self.X).max(axis=0), middle, X)
        weights = None if weights is None else weights[rows]
        given = (base.link, base.basis, response[rows], X, None, weights, self.offset[rows], base.sign)
        objective = build_objective(*given)
        c = objective.coordinates
        level = c.scale <= 1e-10 * np.abs(c.mean)  # so are columns of the baseline where no outcome is
        if level.any():
            unit = np.where(level, 1.0 / c.scale, 1.0)
            objective = build_objective(
                *given, coordinates=replace(c, scale=c.scale * unit, lower=c.lower * unit, upper=c.upper * unit)
            )
            c = objective.coordinates
        v = c.join(base.baseline, np.append(base.coef, np.zeros(len(self.back))))
        # a few rows say nothing of the baseline where there are none: it becomes nowhere much flatter than it was
        objective.coordinates = replace(
            c, lower=np.where(np.isfinite(c.lower), np.maximum(c.lower, FLATTEST * v), c.lower)
        )
        J = objective.coordinates.jacobian
        own = self.root @ J[: self.known]
        pull = own.T @ own + self.stiff * (J[self.known :].T @ J[self.known :])
        shrunk = Pulled(objective, v, strength / objective.n_total * pull)
        found = minimise(shrunk, v, 0.0, spec.quiet)
        stage = Stage.of(base.basis, shrunk, found, response.scale == "time")
        p, k = base.coef.size, base.active.size
        # the loss has the pull in it, the log-likelihood has not; what a row of the fit said is known as before
        return stage._replace(
            beta=stage.beta[:p],
            active=stage.active[:k],
            loglik=objective.sums(found.v).loglik,
            information=objective.n_total / base.n_total * base.information,
        ), stage.beta[p:] @ self.back

    def choose(self) -> float:
        """Return the strength that predicts folds of the rows best from the others; infinity is not to move."""
        n = len(self.rows.response)
        if n < 2:
            return ONE_ROW
        fold = np.random.default_rng(0).permutation(np.arange(n) % min(FOLDS, n))
        folds = [fold == k for k in range(fold.max() + 1)]
        strengths = [strength for strength in STRENGTHS if strength * n >= ONE_ROW]
        table = np.array(
            [
                np.concatenate([self._nll(self.solve(strength, ~own), own) for own in folds])
                if strength < math.inf
                else np.concatenate([self._nll(None, own) for own in folds])
                for strength in strengths
            ]
        )
        best = table[np.argmin(table.sum(axis=1))]
        # the strongest that is not clearly worse: by more than a standard error
        worse = table - best
        close = worse.sum(axis=1) <= math.sqrt(n) * worse.std(axis=1)
        return strengths[int(np.flatnonzero(close)[-1])]

    def _nll(self, found: tuple[Stage, Array] | None, rows: Any) -> Array:
        """Return the negative log-likelihood of rows, times their weights."""
        base, weights = self.base.result, self.rows.weights
        theta, beta = (base.baseline, base.coef) if found is None else found[0][:2]
        own = np.zeros(len(self.back)) if found is None else self.back @ found[1]
        shift = base.sign * (self.X[rows] @ np.append(beta, own) + self.offset[rows])
        terms = build_terms(base.basis, self.rows.response[rows])
        loglik = loglik_and_residuals(base.link, terms, theta, shift)[0]
        return -(loglik if weights is None else weights[rows] * loglik)
