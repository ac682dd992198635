"""A boosted model adapted to a few rows from the target: how far its parameters move."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.plain import build_objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.engine.solve.newton import Options, minimise
from anchortm.exceptions import InputError
from anchortm.inputs.response import Response
from anchortm.models.boosted.booster import Stage

__all__ = ["STRONGEST", "Target"]

Array = NDArray[np.float64]

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)  # that a refit chooses from
STRONGEST = 1e8  # beyond, rounding in the pull hides whether a minimum was found
FLATTEST = 0.2  # that a refit makes the baseline, of its slope before
FOLDS, ONE_ROW = 5, 30.0  # of the rows of a refit; its strength with one row, and of n rows the least is 1/n of it


class Target:
    """A few rows of the target, and how far the parameters move for them.

    The leaves of all trees are many columns; the rows see them through the left singular vectors, which are at most as
    many as rows, and the shortest move in leaf values follows from these.
    """

    def __init__(self, model: Any, X: Array, response: Response, weights: Array | None, offset: Array | None) -> None:
        self.model, self.response, self.weights = model, response, weights
        base = model.model_
        linear = X if model.learner == "linear+tree" else X[:, :0]
        U, S, self.back = np.linalg.svd(model._columns_of(X), full_matrices=False)
        keep = 1e-10 * S.max(initial=0.0) < S
        self.back = self.back[keep]
        self.X = np.hstack([linear, U[:, keep] * S[keep]])
        self.offset = model._f(X)
        if offset is not None:
            self.offset = self.offset + offset
        self.known = base.baseline_.size + base.coef_.size
        self.stiff = max(1, len(model.trees_))
        # the information of a row of the fit, in (theta, beta): v = J^+ (theta, beta)
        if base._information is None:
            raise InputError("the file of this model holds too little for a refit of it: refit, then save")
        J = np.linalg.pinv(base._jacobian)
        values, vectors = np.linalg.eigh(base._information / base.n_total_)
        self.root = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ J)

    def solve(self, strength: float, rows: Any = slice(None)) -> tuple[Stage, Array]:
        """Return the baseline and linear coefficients with their certificate, and the moves of the leaf values."""
        base = self.model.model_
        X = self.X[rows]
        # a column that is constant but for rounding would be blown up when it is standardised
        middle = X.mean(axis=0)
        X = np.where(np.abs(X - middle).max(axis=0) <= 1e-10 * np.abs(self.X).max(axis=0), middle, X)
        weights = None if self.weights is None else self.weights[rows]
        given = (base.link_, base.basis_, self.response[rows], X, None, weights, self.offset[rows], base._sign)
        objective = build_objective(*given)
        c = objective.coordinates
        level = c.scale <= 1e-10 * np.abs(c.mean)  # so are columns of the baseline where no outcome is
        if level.any():
            unit = np.where(level, 1.0 / c.scale, 1.0)
            objective = build_objective(
                *given, coordinates=replace(c, scale=c.scale * unit, lower=c.lower * unit, upper=c.upper * unit)
            )
            c = objective.coordinates
        v = c.join(base.baseline_, np.append(base.coef_, np.zeros(len(self.back))))
        # a few rows say nothing of the baseline where there are none: it becomes nowhere much flatter than it was
        objective.coordinates = replace(
            c, lower=np.where(np.isfinite(c.lower), np.maximum(c.lower, FLATTEST * v), c.lower)
        )
        J = objective.coordinates.jacobian
        own = self.root @ J[: self.known]
        pull = own.T @ own + self.stiff * (J[self.known :].T @ J[self.known :])
        shrunk = Pulled(objective, v, strength / objective.n_total * pull)
        found = minimise(shrunk, v, 0.0, Options(tol=base.tol, max_iter=base.max_iter))
        stage = Stage.of(base.basis_, shrunk, found, self.response.scale == "time")
        p, k = base.coef_.size, base.active_.size
        # the loss has the pull in it, the log-likelihood has not; what a row of the fit said is known as before
        return stage._replace(
            beta=stage.beta[:p],
            active=stage.active[:k],
            loglik=objective.sums(found.v).loglik,
            information=objective.n_total / base.n_total_ * base._information,
        ), stage.beta[p:] @ self.back

    def choose(self) -> float:
        """Return the strength that predicts folds of the rows best from the others; infinity is not to move."""
        n = len(self.response)
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
        base = self.model.model_
        theta, beta = (base.baseline_, base.coef_) if found is None else found[0][:2]
        own = np.zeros(len(self.back)) if found is None else self.back @ found[1]
        shift = base._sign * (self.X[rows] @ np.append(beta, own) + self.offset[rows])
        loglik = loglik_and_residuals(base.link_, build_terms(base.basis_, self.response[rows]), theta, shift)[0]
        return -(loglik if self.weights is None else self.weights[rows] * loglik)
