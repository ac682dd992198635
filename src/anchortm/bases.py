"""Bases a(y) of the baseline transformation h_0(y) = a(y)'theta.

Each basis gives the rows a(y) and their derivatives a'(y), says which theta make h_0
non-decreasing (as bounds on increments), proposes start values, and turns into a plain
dictionary and back. Supports, orders and levels are resolved before a basis is made: a
basis is a frozen record that knows nothing of the data.

Cost: O(n k) for n values and k parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from anchortm._util.checks import one_number
from anchortm.exceptions import InputError, InputTypeError

__all__ = [
    "Basis",
    "BernsteinBasis",
    "ConstantBasis",
    "CountBasis",
    "Increments",
    "LinearBasis",
    "LogLinearBasis",
    "OrdinalBasis",
]

Array = NDArray[np.float64]

MAX_ORDER = 50
ULPS = 4e-16  # two places in [0, 1] that rounding does not tell apart


@dataclass(frozen=True, eq=False)
class Increments:
    """The parameters theta = matrix @ delta for which h_0 does not decrease.

    ``lower <= delta <= upper`` element by element, and ``equalities @ delta = 0``.

    Attributes
    ----------
    matrix : array of shape (k, k)
    lower, upper : array of shape (k,)
    equalities : array
        One row for each equality.

    Examples
    --------
    >>> from anchortm.bases import LinearBasis
    >>> LinearBasis().increments.satisfied([0.0, 1.0]), LinearBasis().increments.satisfied([0.0, -1.0])
    (True, False)
    """

    matrix: Array
    lower: Array
    upper: Array
    equalities: Array

    def satisfied(self, theta: ArrayLike, tolerance: float = 0.0) -> bool:
        """Return whether theta obeys the bounds and equalities up to ``tolerance``."""
        delta = np.linalg.solve(self.matrix, np.asarray(theta, dtype=np.float64))
        inside = (delta >= self.lower - tolerance) & (delta <= self.upper + tolerance)
        return bool(inside.all() and (np.abs(self.equalities @ delta) <= tolerance).all())


class Basis(ABC):
    """A basis in the response. ``rows`` and ``derivative_rows`` take finite values only.

    Examples
    --------
    >>> from anchortm.bases import Basis, LinearBasis
    >>> record = LinearBasis().to_dict()
    >>> record, Basis.from_dict(record)
    ({'kind': 'linear'}, LinearBasis())
    """

    kind: ClassVar[str]
    discrete: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Return the length of theta."""

    @property
    def lower_bound(self) -> float:
        """Return the value at and below which h_0 is -inf."""
        return -math.inf

    @property
    @abstractmethod
    def parameter_names(self) -> list[str]:
        """Return one name for each element of theta."""

    @abstractmethod
    def rows(self, y: ArrayLike) -> Array:
        """Return a(y), one row for each value."""

    @abstractmethod
    def derivative_rows(self, y: ArrayLike) -> Array:
        """Return a'(y), one row for each value."""

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        """Return a(upper) - a(lower), also where the two are closer than rounding would allow."""
        return self.rows(upper) - self.rows(lower)

    @property
    @abstractmethod
    def increments(self) -> Increments:
        """Return the constraints on theta."""

    @abstractmethod
    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        """Return a feasible theta with h_0(points) near z, both non-decreasing."""

    @abstractmethod
    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        """Return the smallest y with h_0(y) >= z; infinite where a flat end never gets there.

        One theta for all z, or a row of theta for each z of a vector.
        """

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        """Return h_0' beyond the lower and the upper end (in log y of a basis in log y); of steps (inf, inf)."""
        return (math.inf, math.inf)

    def flat_ends(self, theta: ArrayLike) -> tuple[bool, bool]:
        """Return whether h_0 is constant below the lower and above the upper end.

        The mass beyond a flat end cannot be placed: quantiles there are infinite.
        """
        first, last = self.end_slopes(theta)
        return (first == 0.0, last == 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the basis as numbers, strings and lists."""
        return {"kind": self.kind, **self._arguments()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the basis that ``to_dict`` described, its values checked again."""
        arguments = dict(record)
        kind = arguments.pop("kind", None)
        known = {basis.kind: basis for basis in (cls, *cls.__subclasses__()) if hasattr(basis, "kind")}
        if kind not in known:
            raise InputError(f"unknown kind of basis {kind!r}; known are {', '.join(known)}")
        try:
            return known[kind](**arguments)
        except InputTypeError:
            raise
        except TypeError as error:
            raise InputTypeError(f"a basis of kind {kind!r} cannot be made from {arguments}: {error}") from error

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""


def baseline_values(rows: Array, theta: Array) -> Array:
    """Return a'theta for each row a, with one theta or one for each row."""
    return rows @ theta if theta.ndim == 1 else np.asarray(np.einsum("ij,ij->i", rows, theta))


def _values(y: ArrayLike) -> Array:
    return np.asarray(y, dtype=np.float64).ravel()


def _monotone(n: int, equalities: Array | None = None) -> Increments:
    """Return the constraints theta_1 <= ... <= theta_n."""
    return Increments(
        np.tril(np.ones((n, n))),
        np.r_[-np.inf, np.zeros(n - 1)],
        np.full(n, np.inf),
        np.zeros((0, n)) if equalities is None else equalities,
    )


def _line(x: Array, z: Array) -> tuple[float, float]:
    """Return intercept and positive slope of z on x by least squares."""
    x, z = x[np.isfinite(z)], z[np.isfinite(z)]
    if x.size == 0:
        return 0.0, 1.0
    centred = x - x.mean()
    spread = np.abs(centred).max()
    if not spread > 0.0:
        return float(z.mean() - x.mean()), 1.0
    unit = centred / spread
    slope = float(unit @ (z - z.mean()) / (unit @ unit)) / float(spread)
    slope = slope if slope > 0.0 else 1.0 / float(spread)
    return float(z.mean() - slope * x.mean()), slope


def _invert_line(intercept: Array, slope: Array, z: Array) -> Array:
    """Return the x with intercept + slope x = z; of a flat line -inf below and +inf above it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        flat = np.where(z > intercept, np.inf, -np.inf)
        return np.where(np.greater(slope, 0.0), (z - intercept) / slope, flat)


@dataclass(frozen=True)
class ConstantBasis(Basis):
    """a(y) = 1: an intercept, for models of the mean, where y is not transformed.

    Examples
    --------
    >>> from anchortm.bases import ConstantBasis
    >>> ConstantBasis().rows([0.5, 2.0]).tolist()
    [[1.0], [1.0]]
    """

    whole: bool = False  # whether outcomes are whole numbers
    kind: ClassVar[str] = "constant"

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Return whether outcomes are whole numbers."""
        return self.whole

    @property
    def n_parameters(self) -> int:
        return 1

    @property
    def parameter_names(self) -> list[str]:
        return ["(Intercept)"]

    def rows(self, y: ArrayLike) -> Array:
        return np.ones((np.size(y), 1))

    def derivative_rows(self, y: ArrayLike) -> Array:
        return np.zeros((np.size(y), 1))

    @cached_property
    def increments(self) -> Increments:
        return Increments(np.eye(1), np.full(1, -np.inf), np.full(1, np.inf), np.zeros((0, 1)))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        return np.zeros(1)

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        """Refuse: there is no transformation to be inverted."""
        raise NotImplementedError("a model of the mean does not transform the outcome")

    def _arguments(self) -> dict[str, Any]:
        return {"whole": self.whole}


@dataclass(frozen=True)
class LinearBasis(Basis):
    """a(y) = (1, y): a linear transformation with slope theta_2 >= 0.

    Examples
    --------
    >>> from anchortm.bases import LinearBasis
    >>> LinearBasis().rows([0.5, 2.0])
    array([[1. , 0.5],
           [1. , 2. ]])
    """

    kind: ClassVar[str] = "linear"

    @property
    def n_parameters(self) -> int:
        return 2

    @property
    def parameter_names(self) -> list[str]:
        return ["(Intercept)", "y"]

    def rows(self, y: ArrayLike) -> Array:
        y = _values(y)
        return np.column_stack([np.ones_like(y), y])

    def derivative_rows(self, y: ArrayLike) -> Array:
        y = _values(y)
        return np.column_stack([np.zeros_like(y), np.ones_like(y)])

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        width = _values(upper) - _values(lower)
        return np.column_stack([np.zeros_like(width), width])

    @cached_property
    def increments(self) -> Increments:
        return Increments(np.eye(2), np.array([-np.inf, 0.0]), np.full(2, np.inf), np.zeros((0, 2)))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        return np.array(_line(_values(points), _values(z)))

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        intercept, slope = np.asarray(theta, dtype=np.float64).T
        return _invert_line(intercept, slope, np.asarray(z, dtype=np.float64))

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        slope = float(np.asarray(theta)[1])
        return (slope, slope)

    def _arguments(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class LogLinearBasis(Basis):
    """a(y) = (1, log y) for y > 0, with slope theta_2 >= 0, or fixed to ``slope``.

    Examples
    --------
    >>> from anchortm.bases import LogLinearBasis
    >>> LogLinearBasis().rows([1.0, 2.0]).round(3)
    array([[1.   , 0.   ],
           [1.   , 0.693]])
    """

    slope: float | None = None
    kind: ClassVar[str] = "log-linear"

    def __post_init__(self) -> None:
        if self.slope is not None and not (0.0 < one_number(self.slope, "slope") < math.inf):
            raise InputError(f"slope must be a positive number or None, not {self.slope!r}")

    @property
    def n_parameters(self) -> int:
        return 2

    @property
    def lower_bound(self) -> float:
        return 0.0

    @property
    def parameter_names(self) -> list[str]:
        return ["(Intercept)", "log(y)"]

    def rows(self, y: ArrayLike) -> Array:
        y = _values(y)
        return np.column_stack([np.ones_like(y), np.log(y)])

    def derivative_rows(self, y: ArrayLike) -> Array:
        y = _values(y)
        return np.column_stack([np.zeros_like(y), 1.0 / y])

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        lower, upper = _values(lower), _values(upper)
        return np.column_stack([np.zeros_like(lower), np.log1p((upper - lower) / lower)])

    @cached_property
    def increments(self) -> Increments:
        low, high = (0.0, np.inf) if self.slope is None else (self.slope, self.slope)
        return Increments(np.eye(2), np.array([-np.inf, low]), np.array([np.inf, high]), np.zeros((0, 2)))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        points, z = _values(points), _values(z)
        x, z = np.log(points[points > 0]), z[points > 0]
        if self.slope is None:
            return np.array(_line(x, z))
        finite = np.isfinite(z)
        return np.array([float(np.mean(z[finite] - self.slope * x[finite])), self.slope])

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        intercept, slope = np.asarray(theta, dtype=np.float64).T
        with np.errstate(over="ignore"):
            return np.exp(_invert_line(intercept, slope, np.asarray(z, dtype=np.float64)))

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        slope = float(np.asarray(theta)[1])
        return (slope, slope)

    def _arguments(self) -> dict[str, Any]:
        return {"slope": self.slope}


def _check_order(order: object) -> int:
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)):
        raise InputTypeError(f"order must be a whole number from 1 to {MAX_ORDER}, not {order!r}")
    if not 1 <= order <= MAX_ORDER:
        raise InputError(f"order must be from 1 to {MAX_ORDER}, not {order}; 6 is the usual choice")
    return int(order)


def _check_support(support: object, positive: bool) -> tuple[float, float]:
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
        object.__setattr__(self, "support", _check_support(self.support, self.log_first))

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
        y = _values(y)
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
            inner /= _values(y)
        values = np.empty((self.order + 1, t.size))
        values[0] = -inner[0]
        np.subtract(inner[:-1], inner[1:], out=values[1:-1])
        values[-1] = inner[-1]
        return values.T

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        lower, upper = _values(lower), _values(upper)
        width, middle = upper - lower, 0.5 * (lower + upper)
        scale = self.support[1] - self.support[0]
        narrow = width < 1e-5 * (np.minimum(scale, middle) if self.log_first else scale)
        rows = self.rows(upper) - self.rows(lower)
        # the derivative in the middle is off by (width / scale)^2 only
        rows[narrow] = width[narrow, None] * self.derivative_rows(middle[narrow])
        return rows

    @cached_property
    def increments(self) -> Increments:
        n = self.n_parameters
        if self.extrapolate == "linear" or self.order == 1:
            return _monotone(n)
        # second derivative at an end is proportional to the difference of its two last increments
        rows = np.zeros((2, n))
        rows[0, 1:3] = (-1.0, 1.0)
        rows[1, -2:] = (-1.0, 1.0)
        return _monotone(n, np.unique(rows, axis=0))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        points, z = _values(points), _values(z)
        usable = np.isfinite(z) & (points > self.lower_bound)
        points, z = points[usable], z[usable]
        low, high = self._ends
        x = np.log(points) if self.log_first else points
        intercept, slope = _line(x, z)
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
        x = np.where(flat <= lowest, low + _invert_line(lowest, first, flat), x)
        x = np.where(flat > highest, high + _invert_line(highest, last, flat), x)
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

    def _arguments(self) -> dict[str, Any]:
        return {
            "order": self.order,
            "support": list(self.support),
            "log_first": self.log_first,
            "extrapolate": self.extrapolate,
        }


def _invert_bernstein(theta: Array, z: Array) -> Array:
    """Return t in [0, 1] where the polynomial with increasing coefficients theta reaches z.

    Theta is one vector, or one for each z. A bracket from a table, then Newton steps kept inside it and bisection
    where they leave it.
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
        # a step that rounding does not tell from none may fall on the wrong side of its bracket
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


@dataclass(frozen=True)
class OrdinalBasis(Basis):
    """Steps: h_0 at class k (counted from 0) is the threshold theta_k, k = 0, ..., K - 2.

    Examples
    --------
    >>> from anchortm.bases import OrdinalBasis
    >>> basis = OrdinalBasis(("low", "mid", "high"))
    >>> basis.parameter_names, basis.inverse([-1.0, 1.0], 0.0).item()
    (['low|mid', 'mid|high'], 1.0)
    """

    levels: tuple[Hashable, ...] = field(default=(0, 1))
    kind: ClassVar[str] = "ordinal"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        levels: object = self.levels
        if isinstance(levels, str) or not isinstance(levels, Iterable):
            raise InputTypeError(f"levels must be a sequence of classes, not {levels!r}")
        levels = tuple(levels)
        if len(levels) < 2:
            raise InputError(f"an ordinal response needs at least two classes, not {list(levels)}")
        if len(set(levels)) < len(levels):
            raise InputError(f"classes must differ from each other: {list(levels)}")
        object.__setattr__(self, "levels", levels)

    def labels(self) -> NDArray[Any]:
        """Return the levels as an array, of objects where their types differ."""
        alike = len({type(level) for level in self.levels}) == 1
        array = np.array(self.levels) if alike else np.empty(len(self.levels), dtype=object)
        if not alike or array.ndim != 1:
            array = np.empty(len(self.levels), dtype=object)
            array[:] = self.levels
        return array

    @property
    def n_parameters(self) -> int:
        return len(self.levels) - 1

    @property
    def parameter_names(self) -> list[str]:
        return [f"{low}|{high}" for low, high in zip(self.levels, self.levels[1:], strict=False)]

    def rows(self, y: ArrayLike) -> Array:
        codes = _values(y)
        if codes.size and not (codes.min() >= 0 and codes.max() <= self.n_parameters - 1):
            raise InputError(f"thresholds are counted from 0 to {self.n_parameters - 1}")
        rows = np.zeros((codes.size, self.n_parameters))
        rows[np.arange(codes.size), codes.astype(np.intp)] = 1.0
        return rows

    def derivative_rows(self, y: ArrayLike) -> Array:
        raise InputTypeError("an ordinal basis has no derivative: ordinal rows are intervals of classes")

    @cached_property
    def increments(self) -> Increments:
        return _monotone(self.n_parameters)

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        points, z = _values(points), _values(z)
        usable = np.isfinite(z)
        theta = np.interp(np.arange(self.n_parameters), points[usable], z[usable])
        # classes without rows would start with a probability of exactly zero
        return theta + 1e-3 * np.arange(self.n_parameters)

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        theta, z = np.asarray(theta, dtype=np.float64), np.asarray(z, dtype=np.float64)
        if theta.ndim == 2:
            return np.asarray((theta < z[:, None]).sum(axis=1), dtype=np.float64)
        return np.searchsorted(theta, z, side="left").astype(np.float64)

    def _arguments(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}


@dataclass(frozen=True)
class CountBasis(Basis):
    """Bernstein polynomials for counts, in log(1 + y) (``log_first``) or y; support in counts.

    Examples
    --------
    >>> from anchortm.bases import CountBasis
    >>> CountBasis(2, (0.0, 3.0)).rows([0.0, 1.0, 3.0]).round(3)
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.5 , 0.25],
           [0.  , 0.  , 1.  ]])
    """

    order: int = 6
    support: tuple[float, float] = (0.0, 1.0)
    log_first: bool = True
    extrapolate: Literal["linear", "natural"] = "linear"
    kind: ClassVar[str] = "count"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        low, high = _check_support(self.support, positive=False)
        if low < 0.0:
            raise InputError(f"the support of counts starts at 0 or above, not at {low:g}")
        object.__setattr__(self, "support", (low, high))
        _ = self.bernstein  # refuses what a Bernstein basis refuses
        object.__setattr__(self, "order", int(self.order))

    @cached_property
    def bernstein(self) -> BernsteinBasis:
        """Return the basis in y, or in 1 + y with ``log_first``."""
        low, high = self.support
        shift = float(self._shift)
        return BernsteinBasis(self.order, (low + shift, high + shift), self.log_first, self.extrapolate)

    @property
    def _shift(self) -> bool:
        return self.log_first

    @property
    def n_parameters(self) -> int:
        return self.bernstein.n_parameters

    @property
    def lower_bound(self) -> float:
        return -1.0

    @property
    def parameter_names(self) -> list[str]:
        return self.bernstein.parameter_names

    def rows(self, y: ArrayLike) -> Array:
        return self.bernstein.rows(_values(y) + self._shift)

    def derivative_rows(self, y: ArrayLike) -> Array:
        return self.bernstein.derivative_rows(_values(y) + self._shift)

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        return self.bernstein.difference_rows(_values(lower) + self._shift, _values(upper) + self._shift)

    @property
    def increments(self) -> Increments:
        return self.bernstein.increments

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        return self.bernstein.start(_values(points) + self._shift, z)

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=np.float64)
        k = np.ceil(np.maximum(self.bernstein.inverse(theta, z) - self._shift, 0.0))
        # the ceiling of a rounded number may be one too high: P(Y <= k - 1) decides
        finite = np.isfinite(k) & (k >= 1.0)
        before = baseline_values(self.rows(np.where(finite, k - 1.0, 0.0)), np.asarray(theta, dtype=np.float64))
        return np.where(finite & (before.reshape(z.shape) >= z), k - 1.0, k)

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        return self.bernstein.end_slopes(theta)

    def _arguments(self) -> dict[str, Any]:
        return {
            "order": self.order,
            "support": list(self.support),
            "log_first": self.log_first,
            "extrapolate": self.extrapolate,
        }
