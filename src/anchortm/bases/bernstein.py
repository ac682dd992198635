"""Bernstein polynomials, increasing where their coefficients increase."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from anchortm._typing import Array
from anchortm._util.checks import one_number
from anchortm.bases.contract import Basis, Increments, monotone
from anchortm.bases.numerics import invert_line, line_through, values_of
from anchortm.exceptions import InputError, InputTypeError

__all__ = ["BernsteinBasis", "check_support"]

MAX_ORDER = 50
ULPS = 4e-16  # rounding does not tell two places in [0, 1] apart that are closer than this


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
        values = _bernstein(self.order, np.clip(t, 0.0, 1.0), np.clip(s, 0.0, 1.0))
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
        inner = _bernstein(self.order - 1, np.clip(t, 0.0, 1.0), np.clip(s, 0.0, 1.0))
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
        x = low + (high - low) * _invert_bernstein(theta, flat)
        x = np.where(flat <= lowest, low + invert_line(lowest, first, flat), x)
        x = np.where(flat > highest, high + invert_line(highest, last, flat), x)
        if self.log_first:
            with np.errstate(over="ignore"):
                x = np.exp(x)
        return x.reshape(z.shape)

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        first, last = self._end_slopes(np.asarray(theta, dtype=np.float64))
        return (float(first), float(last))

    def _end_slopes(self, theta: Array) -> tuple[Array, Array]:
        low, high = self._ends
        step = self.order / (high - low) * np.diff(theta).T
        return step[0], step[-1]


def _invert_bernstein(theta: Array, z: Array) -> Array:
    """Return t in [0, 1] where the polynomial with increasing coefficients theta reaches z.

    Theta is one vector, or one for each z. A table gives a bracket; Newton steps are kept inside it, with bisection
    where they would leave it.
    """
    order = theta.shape[-1] - 1
    slopes = order * np.diff(theta)

    def value(coefficients: Array) -> Array:
        polynomials = _bernstein(coefficients.shape[-1] - 1, here, 1.0 - here)
        if coefficients.ndim == 1:
            return np.asarray(coefficients @ polynomials)
        return np.asarray(np.einsum("mk,km->m", coefficients[todo], polynomials))

    grid = np.linspace(0.0, 1.0, 8 * (order + 1) + 1)
    table = np.maximum.accumulate(theta @ _bernstein(order, grid, 1.0 - grid), axis=-1)
    place = np.searchsorted(table, z, side="left") if table.ndim == 1 else (table < z[:, None]).sum(axis=1)
    cell = np.clip(place, 1, grid.size - 1)
    low, high = grid[cell - 1], grid[cell]
    t = np.where(z > theta.T[0], 0.5 * (low + high), 0.0)
    todo = np.flatnonzero((z > theta.T[0]) & (z <= theta.T[-1]))
    for _ in range(60):
        if not todo.size:
            break
        here = t[todo]
        h = value(theta) - z[todo]
        low[todo], high[todo] = np.where(h < 0.0, here, low[todo]), np.where(h < 0.0, high[todo], here)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = here - h / value(slopes)
        inside = (step > low[todo]) & (step < high[todo])
        t[todo] = np.where(inside, step, 0.5 * (low[todo] + high[todo]))
        # a step as small as rounding may fall on the wrong side of its bracket
        done = (np.abs(step - here) <= ULPS) | (high[todo] - low[todo] <= ULPS)
        t[todo[done]] = np.where(inside, step, here)[done]
        todo = todo[~done]
    return t


def _bernstein(order: int, t: Array, s: Array) -> Array:
    """Return C(order, j) t^j s^(order-j) in row j = 0..order, for t + s = 1 in [0, 1].

    Products of non-negative numbers only: each entry is good to about ``order`` roundings.
    """
    values = np.empty((order + 1, t.size))
    values[0] = 1.0
    for j in range(1, order + 1):
        np.multiply(values[j - 1], t, out=values[j])
    power = np.ones_like(t)
    for j in range(order - 1, -1, -1):
        power *= s
        values[j] *= power
    values *= special.binom(order, np.arange(order + 1))[:, None]
    return values
