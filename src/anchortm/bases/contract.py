"""The contract of a basis a(y) of the baseline transformation h_0(y) = a(y)'theta.

A basis gives the rows a(y) and their derivatives a'(y). It says which theta make h_0 non-decreasing (as bounds on
increments), proposes start values, inverts h_0, and turns into a plain dictionary and back. Supports, orders and
levels are found before a basis is made: a basis is a frozen record that does not know the data.

Cost: O(n k) for n values and k parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm.exceptions import InputError, InputTypeError

__all__ = ["Basis", "Increments", "baseline_values", "monotone"]


@dataclass(frozen=True, eq=False)
class Increments:
    """The parameters theta = matrix @ delta for which h_0 does not decrease.

    They satisfy ``lower <= delta <= upper`` element by element, and ``equalities @ delta = 0``.

    Attributes
    ----------
    matrix : array of shape (k, k)
    lower, upper : array of shape (k,)
    equalities : array
        One row per equality constraint.

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

    A new basis is one new file with a frozen dataclass, whose fields are the arguments of the constructor. It gives
    the abstract members below, and overrides others where it can do better.

    Attributes
    ----------
    kind : str
        Name of the basis in saved models and in summaries.
    discrete : bool
        Whether outcomes are classes or counts, which are intervals on the scale of h.
    line_in : {"", "y", "log y"}
        What h_0 is a straight line in, if it is one. Coefficients can then be reported on that scale.

    Examples
    --------
    >>> from anchortm.bases import Basis, LinearBasis
    >>> record = LinearBasis().to_dict()
    >>> record, Basis.from_dict(record)
    ({'kind': 'linear'}, LinearBasis())
    """

    kind: ClassVar[str]
    discrete: ClassVar[bool] = False
    line_in: ClassVar[str] = ""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Return the length of theta."""

    @property
    def lower_bound(self) -> float:
        """Return the value at and below which h_0 is -inf."""
        return -math.inf

    @property
    def levels(self) -> tuple[Hashable, ...] | None:
        """Return the ordered classes of an ordinal basis, None for others."""
        return None

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
        """Return a(upper) - a(lower), accurate also where both ends nearly coincide."""
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
        """Return the smallest y with h_0(y) >= z; infinite where a flat end never reaches z.

        Pass one theta for all z, or one row of theta for each z of a vector.
        """

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        """Return the slopes of h_0 beyond the lower and the upper end; (inf, inf) for steps.

        A basis in log y gives slopes in log y.
        """
        return (math.inf, math.inf)

    def flat_ends(self, theta: ArrayLike) -> tuple[bool, bool]:
        """Return whether h_0 is constant below the lower and above the upper end.

        Beyond a flat end some probability is left over: quantiles there are infinite.
        """
        first, last = self.end_slopes(theta)
        return (first == 0.0, last == 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the basis as numbers, strings and lists."""
        arguments: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}
        return {"kind": self.kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in arguments.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the basis that ``to_dict`` described; its values are checked again."""
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


def baseline_values(rows: Array, theta: Array) -> Array:
    """Return a'theta for each row a, with one theta for all rows or one for each."""
    return rows @ theta if theta.ndim == 1 else np.asarray(np.einsum("ij,ij->i", rows, theta))


def monotone(n: int, equalities: Array | None = None) -> Increments:
    """Return the constraints theta_1 <= ... <= theta_n."""
    return Increments(
        np.tril(np.ones((n, n))),
        np.r_[-np.inf, np.zeros(n - 1)],
        np.full(n, np.inf),
        np.zeros((0, n)) if equalities is None else equalities,
    )
