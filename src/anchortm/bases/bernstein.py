"""Bernstein polynomials, increasing where their coefficients increase."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm._util.checks import one_number
from anchortm.bases.contract import Basis, Increments, monotone
from anchortm.bases.inversion import invert_bernstein
from anchortm.bases.numerics import BLOCK, bernstein, invert_line, line_through, values_of
from anchortm.exceptions import InputError, InputTypeError

__all__ = ["BernsteinBasis", "check_support"]

MAX_ORDER = 50


def _check_order(order: object) -> int:
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)):
        raise InputTypeError(f"order must be a whole number from 1 to {MAX_ORDER}, not {order!r}")
    if not 1 <= order <= MAX_ORDER:
        raise InputError(f"order must be from 1 to {MAX_ORDER}, not {order}; 6 is the usual choice")
    return int(order)


def check_support(support: object, positive: bool) -> tuple[float, float]:
    """Return a support as a pair of finite numbers that increase, and are above 0 if ``positive``."""
    if not isinstance(support, Iterable) or len(pair := tuple(support)) != 2:
        raise InputTypeError(f"support must be a pair (low, high), not {support!r}")
    low, high = one_number(pair[0], "support"), one_number(pair[1], "support")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"support must be a finite pair with low < high, not ({low:g}, {high:g})")
    if not 0.0 < high - low < math.inf:
        raise InputError(f"support ({low:g}, {high:g}) is too wide for a double; rescale the response")
    if positive and low <= 0.0:
        raise InputError(f"support must be positive with log_first=True, not ({low:g}, {high:g}); use log_first=False")
    return low, high


@dataclass(frozen=True)
class BernsteinBasis(Basis):
    """Bernstein polynomials of a given order on ``support``, continued linearly outside.

    Parameters
    ----------
    order : int
        Degree of the polynomials, from 1 to 50; theta has order + 1 elements.
    support : pair of float
        Interval (a, b) of the polynomials. Outside it h_0 is the tangent at the end.
    log_first : bool
        Take the basis in log y instead of y. The support stays in units of y.
    extrapolate : {"linear", "natural"}
        "natural" adds the constraint that the second derivative is zero at both ends.

    Examples
    --------
    >>> from anchortm.bases import BernsteinBasis
    >>> BernsteinBasis(2, (0.0, 1.0)).rows([0.5, 2.0])
    array([[ 0.25,  0.5 ,  0.25],
           [ 0.  , -2.  ,  3.  ]])
    """

    order: int = 6
    support: tuple[float, float] = (0.0, 1.0)
    log_first: bool = False
    extrapolate: Literal["linear", "natural"] = "linear"
    kind: ClassVar[str] = "bernstein"

    def __post_init__(self) -> None:
        if not isinstance(self.log_first, bool):
            raise InputTypeError(f"log_first must be True or False, not {self.log_first!r}")
        if self.extrapolate not in ("linear", "natural"):
            raise InputError(f"extrapolate must be 'linear' or 'natural', not {self.extrapolate!r}")
        object.__setattr__(self, "order", _check_order(self.order))
        object.__setattr__(self, "support", check_support(self.support, self.log_first))

    @property
    def n_parameters(self) -> int:
        return self.order + 1

    @property
    def lower_bound(self) -> float:
        return 0.0 if self.log_first else -math.inf

    @property
    def parameter_names(self) -> list[str]:
        return [f"Bs{j}" for j in range(1, self.order + 2)]

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self.support
        return (math.log(low), math.log(high)) if self.log_first else (low, high)

    def _place(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return t and 1 - t, each as its own quotient so that neither end loses digits."""
        low, high = self._ends
        y = values_of(y)
        x = np.log(y) if self.log_first else y
        return (x - low) / (high - low), (high - x) / (high - low)

    def rows(self, y: ArrayLike) -> Array:
        t, s = self._place(y)
        values = bernstein(self.order, np.clip(t, 0.0, 1.0), np.clip(s, 0.0, 1.0))
        # B_0' = -order and B_1' = order at t = 0, all others 0; mirrored at t = 1
        below, above = self.order * np.minimum(t, 0.0), self.order * np.minimum(s, 0.0)
        values[0] -= below
        values[1] += below
        values[-1] -= above
        values[-2] += above
        return values.T

    def derivative_rows(self, y: ArrayLike) -> Array:
        t, s = self._place(y)
        low, high = self._ends
        inner = bernstein(self.order - 1, np.clip(t, 0.0, 1.0), np.clip(s, 0.0, 1.0))
        inner *= self.order / (high - low)
        if self.log_first:
            inner /= values_of(y)
        values = np.empty((self.order + 1, t.size))
        values[0] = -inner[0]
        np.subtract(inner[:-1], inner[1:], out=values[1:-1])
        values[-1] = inner[-1]
        return values.T

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        lower, upper = values_of(lower), values_of(upper)
        width, middle = upper - lower, 0.5 * (lower + upper)
        scale = self.support[1] - self.support[0]
        narrow = width < 1e-5 * (np.minimum(scale, middle) if self.log_first else scale)
        rows = self.rows(upper) - self.rows(lower)
        # the derivative in the middle has a relative error of only (width / scale)^2
        rows[narrow] = width[narrow, None] * self.derivative_rows(middle[narrow])
        return rows

    @cached_property
    def increments(self) -> Increments:
        n = self.n_parameters
        if self.extrapolate == "linear" or self.order == 1:
            return monotone(n)
        # second derivative at an end is proportional to the difference of its two last increments
        rows = np.zeros((2, n))
        rows[0, 1:3] = (-1.0, 1.0)
        rows[1, -2:] = (-1.0, 1.0)
        return monotone(n, np.unique(rows, axis=0))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        points, z = values_of(points), values_of(z)
        usable = np.isfinite(z) & (points > self.lower_bound)
        points, z = points[usable], z[usable]
        low, high = self._ends
        x = np.log(points) if self.log_first else points
        intercept, slope = line_through(x, z)
        line = intercept + slope * np.linspace(low, high, self.n_parameters)
        if self.extrapolate == "natural" or x.size < 2:
            return line
        # A Bernstein polynomial whose coefficients are values of a function at equally spaced
        # nodes approximates that function; a share of the straight line keeps every slope positive.
        nodes = np.interp(np.linspace(low, high, self.n_parameters), x, z)
        return 0.9 * nodes + 0.1 * line

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        theta, z = np.asarray(theta, dtype=np.float64), np.asarray(z, dtype=np.float64)
        low, high = self._ends
        (first, last), lowest, highest = self._end_slopes(theta), theta.T[0], theta.T[-1]
        flat = z.ravel()
        x = invert_bernstein(theta, flat)
        for start in range(0, flat.size, BLOCK):
            part = slice(start, start + BLOCK)
            here, at = x[part], flat[part]
            here *= high - low
            here += low
            for end, level, slope, beyond in ((low, lowest, first, np.less_equal), (high, highest, last, np.greater)):
                level, slope = (a if a.ndim == 0 else a[part] for a in (level, slope))
                outside = np.flatnonzero(beyond(at, level))
                level, slope = (a if a.ndim == 0 else a[outside] for a in (level, slope))
                here[outside] = end + invert_line(level, slope, at[outside])
            if self.log_first:
                with np.errstate(over="ignore"):
                    np.exp(here, out=here)
        return x.reshape(z.shape)

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        first, last = self._end_slopes(np.asarray(theta, dtype=np.float64))
        return (float(first), float(last))

    def _end_slopes(self, theta: Array) -> tuple[Array, Array]:
        low, high = self._ends
        step = self.order / (high - low) * np.diff(theta).T
        return step[0], step[-1]
