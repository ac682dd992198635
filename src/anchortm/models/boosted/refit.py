"""Adapt a boosted model to a few rows from the target site."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.recalibration.baseline import near_fit
from anchortm.engine.result import FitResult, atom_at_zero, certificate
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.engine.solve.newton import minimise
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.response import Response
from anchortm.models.boosted.booster import Stage
from anchortm.models.boosted.shape import Shape

__all__ = ["FLATTEST", "STRONGEST", "Base", "Rows", "Target"]

Array = NDArray[np.float64]

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, math.inf)  # a refit chooses one of these
STRONGEST = 1e8  # above this, rounding errors in the ridge hide whether a minimum was found
FLATTEST = 0.2  # smallest slope of the refitted baseline, as a fraction of its slope before
FOLDS, ONE_ROW = 5, 30.0  # folds of the refit's rows; strength with one row (n rows: at least ONE_ROW / n)


class Base(NamedTuple):
    """The model under the trees: its specification and its result."""

    spec: Specification
    result: FitResult


class Rows(NamedTuple):
    """A few rows from the target site."""

    X: Array
    response: Response
    weights: Array | None
    offset: Array | None
    mixture: Mixture | None = None

    def take(self, rows: Any) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.X[rows],
            self.response[rows],
            None if self.weights is None else self.weights[rows],
            None if self.offset is None else self.offset[rows],
            None if self.mixture is None else self.mixture.take(rows),
        )


class Target:
    """A few rows from the target site, and the change of the parameters that fits them.

    The leaves of all trees are many columns. Only their left singular vectors matter for these rows, and there are at
    most as many of them as rows. The shortest change of the leaf values follows from them.
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
        if result.ridged:
            raise InputError("a refit needs a linear part without l2 and smooth terms: fit the model without them")
        if result.information is None or result.jacobian is None:
            raise InputError("the file of this model does not hold the information for a refit: refit first, then save")
        J = np.linalg.pinv(result.jacobian)
        values, vectors = np.linalg.eigh(result.information / result.n_total)
        self.root = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ J)

    def solve(self, strength: float, rows: Any = slice(None)) -> tuple[Stage, Array]:
        """Return the refitted baseline and linear coefficients as a stage, and the changes of the leaf values."""
        base, spec = self.base.result, self.base.spec
        response, weights = self.rows.response, self.rows.weights
        X = self.X[rows]
        # standardising a column that is constant up to rounding would only amplify the rounding errors
        middle = X.mean(axis=0)
        X = np.where(np.abs(X - middle).max(axis=0) <= 1e-10 * np.abs(self.X).max(axis=0), middle, X)
        weights = None if weights is None else weights[rows]
        mixture = None if self.rows.mixture is None else self.rows.mixture.take(rows)
        build = partial(
            build_objective,
            *(base.link, base.basis, response[rows], X, None, weights, self.offset[rows], base.sign),
            mixture=mixture,
        )
        start = np.append(base.coef, np.zeros(len(self.back)))
        objective, v, faint = near_fit(build, base.baseline, start, FLATTEST)
        J = objective.coordinates.jacobian
        own = self.root @ J[: self.known]
        pull = own.T @ own + self.stiff * (J[self.known :].T @ J[self.known :])
        pull += faint
        shrunk = Pulled(objective, v, strength / objective.n_total * pull)
        found = minimise(shrunk, v, 0.0, spec.quiet)
        p, k = base.coef.size, base.active.size
        theta, beta = shrunk.coordinates.split(found.v)
        typical = theta if mixture is None else mixture.typical(theta)
        shift = shrunk.average_shift(found.v)
        # the loss includes the ridge, the log-likelihood does not; the information per row stays that of the fit
        fields = certificate(shrunk, found, []) | {
            "baseline": theta,
            "coef": beta[:p],
            "active": found.active[:k],
            "loglik": objective.sums(found.v).loglik,
            "penalty": 0.0,
            "convexity": shrunk.convexity(found.sums, found.xi),
            "atom": atom_at_zero(base.link, base.basis, typical, shift) if response.scale == "time" else 0.0,
            "information": objective.n_total / base.n_total * base.information,
        }
        return Stage.of(replace(base, **fields)), beta[p:] @ self.back

    def choose(self) -> float:
        """Return the strength chosen by cross-validation over the rows; infinity means that nothing changes."""
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
        # the strongest whose loss is within one standard error of the best
        worse = table - best
        close = worse.sum(axis=1) <= math.sqrt(n) * worse.std(axis=1)
        return strengths[int(np.flatnonzero(close)[-1])]

    def _nll(self, found: tuple[Stage, Array] | None, rows: Any) -> Array:
        """Return the weighted negative log-likelihood of each row."""
        base, weights = self.base.result, self.rows.weights
        theta, beta = (base.baseline, base.coef) if found is None else found[0][:2]
        own = np.zeros(len(self.back)) if found is None else self.back @ found[1]
        shift = base.sign * (self.X[rows] @ np.append(beta, own) + self.offset[rows])
        theta = theta if self.rows.mixture is None else self.rows.mixture.take(rows).thetas(theta)
        terms = build_terms(base.basis, self.rows.response[rows])
        loglik = loglik_and_residuals(base.link, terms, theta, shift)[0]
        return -(loglik if weights is None else weights[rows] * loglik)
