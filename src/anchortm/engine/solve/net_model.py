"""The minimum of a quadratic function with absolute values under bounds, by an active set.

    w'Hw / 2 + b'w + sum_j lasso_j |w_j| - log w_1,      lower <= w <= upper

The logarithm is optional: with it this is the loss of a normal linear model. If it is known which w are at zero or at a
bound, and the signs of the others, the minimum has a closed form: one Cholesky factor. A step goes there; parameters
that would change their sign stop at zero, and those at zero whose slope exceeds the penalty join. The function falls
with each step, and the last one satisfies the optimality conditions up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.solve.active_solver import ActiveSolver

__all__ = ["NetModel"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_STEPS = 100
SHORTER = (1.0, 0.5, 0.25)  # fractions of a step that are tried if parameters change their sign
ROUNDING = 8.0 * np.finfo(float).eps
FIRST_COLUMNS = 50  # join at once, or as many as are free already


@dataclass(frozen=True, eq=False)
class NetModel:
    """The function to minimise; ``log`` says whether it contains - log w_1."""

    solver: ActiveSolver  # solves with H
    b: Array
    lasso: Array
    lower: Array
    upper: Array
    log: bool = False

    def minimum(self, w: Array, room: int) -> Array | None:
        """Return the minimum found from w, with at most ``room`` free parameters; None if H is singular there."""
        slope, exact = self._slope(w), np.zeros(w.size, dtype=bool)
        for _ in range(MOST_STEPS):
            free, sign = self._free(w, slope, room)
            if not free.any() or np.array_equal(free, exact):
                return w
            target = self._solved(w, slope, free, sign)
            there, whole = (None, False) if target is None else self._towards(w, target, free, sign)
            while target is not None and there is None:  # parameters that join in the wrong direction do not join
                free = free & ~((w == 0.0) & (self.lasso > 0.0) & (target * sign <= 0.0))
                target = self._solved(w, slope, free, sign)
                there, whole = (None, False) if target is None else self._towards(w, target, free, sign)
            if there is None:
                return None
            w, exact = there, free if whole else np.zeros(w.size, dtype=bool)
            slope = self._slope(w)
        return None

    def _slope(self, w: Array) -> Array:
        """Return the gradient without that of the absolute values."""
        slope = self.solver.H @ w + self.b
        if self.log:
            slope[1] -= 1.0 / w[1]
        return np.asarray(slope)

    def _value(self, w: Array) -> float:
        if self.log and not w[1] > 0.0:
            return math.inf
        value = float(w @ (0.5 * (self.solver.H @ w) + self.b) + self.lasso @ np.abs(w))
        return value - math.log(w[1]) if self.log else value

    def _free(self, w: Array, slope: Array, room: int) -> tuple[Mask, Array]:
        """Return which parameters can move, and the signs of those with an absolute value."""
        kinked = self.lasso > 0.0
        zero = kinked & (w == 0.0)
        held = (self.lower == self.upper) | ((w <= self.lower) & (slope >= 0.0)) | ((w >= self.upper) & (slope <= 0.0))
        error = ROUNDING * (np.abs(self.b) + np.abs(slope) + self.lasso)
        beyond = np.where(zero, np.abs(slope) - self.lasso - error, 0.0)
        free = ~held & ~zero
        size = int(free.sum())
        most = max(1, min(max(FIRST_COLUMNS, size), room - size))
        joining = np.flatnonzero(beyond > 0.0)
        free[joining[np.argsort(-beyond[joining], kind="stable")[:most]]] = True
        sign = np.where(kinked, np.where(zero, -np.sign(slope), np.sign(w)), 0.0)
        return free, sign

    def _solved(self, w: Array, slope: Array, free: Mask, sign: Array) -> Array | None:
        """Return the minimum if the free parameters keep their signs and the others stay."""
        right = np.zeros((w.size, 2 if self.log else 1))
        right[:, 0] = slope + self.lasso * sign
        if self.log:
            right[1] += 1.0 / w[1], 1.0
        found = self.solver.solve(free, right)
        if found is None:
            return None
        target = np.asarray(w - found[:, 0])
        if self.log:  # w = target + u / w_1 with u = H^-1 e_1, so w_1^2 - target_1 w_1 = u_1
            u, b = found[:, 1], float(target[1])
            root = math.sqrt(b * b + 4.0 * float(u[1]))
            target += u / (0.5 * (b + root) if b > 0.0 else 2.0 * float(u[1]) / (root - b))
        return target

    def _towards(self, w: Array, target: Array, free: Mask, sign: Array) -> tuple[Array | None, bool]:
        """Return a point with a lower value on the way to the target, and whether it is the target.

        None if the only way down leaves out parameters that would join.
        """
        if not self._outside(target, sign).any():
            return target, True
        before = self._value(w)
        for share in SHORTER:
            point = w + share * (target - w)
            point = np.clip(np.where(sign * point < 0.0, 0.0, point), self.lower, self.upper)
            if self._value(point) < before:
                return point, False
        turned = self._outside(target, sign)
        if (turned & (w == 0.0) & (self.lasso > 0.0)).any():
            return None, False
        # up to the first change of a sign the function falls
        ends = np.where(self.lasso > 0.0, 0.0, np.where(target < w, self.lower, self.upper))
        shares = np.full(w.size, math.inf)
        shares[turned] = (ends[turned] - w[turned]) / (target[turned] - w[turned])
        first = int(np.argmin(shares))
        point = w + float(shares[first]) * (target - w)
        point[first] = ends[first]
        return np.clip(np.where(sign * point < 0.0, 0.0, point), self.lower, self.upper), False

    def _outside(self, w: Array, sign: Array) -> Mask:
        """Return which parameters have the wrong sign or are beyond their bounds."""
        return np.asarray((sign * w < 0.0) | (w < self.lower) | (w > self.upper))
