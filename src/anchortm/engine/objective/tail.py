"""The anchor loss of a tail: xi times the mean of the worst share of the squared mean residuals of environments.

    L(v) = -loglik(v) / n + xi CVaR_share(rbar_e(v)^2),      rbar_e the mean residual of environment e

With a share of 1 this is the anchor loss: the mean of rbar_e^2 over rows. With a small share it is the largest one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.decisive import Decisive
from anchortm.engine.objective.protocol import Convexity, Derivatives, Objective, Sums
from anchortm.engine.objective.wrapped import Wrapped
from anchortm.engine.solve.newton import Options, Solution
from anchortm.engine.solve.tail_risk import Expansion, TailRisk, minimise_risk, worst_share

__all__ = ["TailObjective"]

Array = NDArray[np.float64]


class AnchorTail(TailRisk):
    """The anchor loss of a tail at one xi."""

    def __init__(self, objective: Objective, xi: float, shares: Array, tail: float) -> None:
        self.objective, self.rho, self.coordinates = objective, xi, objective.coordinates
        self.caps = np.minimum(shares / tail, 1.0)
        # the squared mean residual is t_e^2 times this; an environment without a share has no residual here
        self.units = np.where(shares > 0.0, 1.0 / (objective.n_total * np.where(shares > 0.0, shares, 1.0)), 0.0)

    def values(self, v: Array) -> tuple[float, Array]:
        sums = self.objective.sums(v)
        return -sums.loglik / self.objective.n_total, sums.t**2 * self.units

    def expand(self, v: Array, weights: Array) -> Expansion:
        n, t = self.objective.n_total, self.objective.sums(v).t
        pulls = 2.0 * self.rho * n * weights * self.units
        d = self.objective.derivatives(v, pulls * t)
        loglik = self.objective.sums(v).loglik
        slopes = (2.0 * t * self.units)[:, None] * d.E
        hessian = (d.matrix + (d.E.T * pulls) @ d.E) / n
        return Expansion(-loglik / n, t**2 * self.units, d.gradient / n, slopes, hessian)


class TailObjective(Wrapped):
    """An anchor loss whose penalty counts the worst share of the environments only.

    Attributes
    ----------
    shares : array
        Share of each environment in the penalty; these sum to 1.
    tail : float
        The share that counts.
    """

    def __init__(self, inner: Objective, shares: Array, tail: float, names: tuple[Any, ...] = ()) -> None:
        super().__init__(inner)
        self.place_shares, self.tail, self.place_names = shares, tail, names

    def around(self, inner: Objective) -> Self:
        return type(self)(inner, self.place_shares, self.tail, self.place_names)

    @property
    def relaxed(self) -> Objective | None:
        return self.inner

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        return self.inner.sums(v, expected)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        return self.inner.derivatives(v, multiplier)

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        return "global" if self.inner.affine or xi == 0.0 else "none"

    def finished(self, solution: Solution, options: Options) -> Solution:
        risk = AnchorTail(self.inner, solution.xi, self.place_shares, self.tail)
        if not 0.0 < solution.xi < math.inf:  # no penalty, or none left: the worst share does not matter
            values = solution.sums.t**2 * risk.units
            weights = worst_share(values, risk.caps)[1]
            return replace(solution, decisive=self._decisive(weights, values))
        found = minimise_risk(risk, solution.v, options, solution.xi)
        made = found.solution(risk, solution.xi, self.inner.sums(found.v))
        decisive = self._decisive(found.weights, found.at.values)
        return replace(made, n_iter=solution.n_iter + made.n_iter, decisive=decisive, folds=solution.folds)

    def _decisive(self, weights: Array, values: Array) -> Decisive:
        rows = self.n_total * self.place_shares
        none = np.zeros(values.size)
        return Decisive("tail", self.tail, None, self.place_names, rows, weights, values, none, np.zeros(0))
