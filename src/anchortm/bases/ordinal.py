"""The basis of ordered classes: one threshold between each two neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array
from anchortm.bases.contract import Basis, Increments, monotone
from anchortm.bases.numerics import values_of
from anchortm.exceptions import InputError, InputTypeError

__all__ = ["OrdinalBasis"]


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

    levels: tuple[Hashable, ...] = (0, 1)
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
        """Return the levels as an array, with dtype object where their types differ."""
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
        codes = values_of(y)
        if codes.size and not (codes.min() >= 0 and codes.max() <= self.n_parameters - 1):
            raise InputError(f"thresholds are counted from 0 to {self.n_parameters - 1}")
        rows = np.zeros((codes.size, self.n_parameters))
        rows[np.arange(codes.size), codes.astype(np.intp)] = 1.0
        return rows

    def derivative_rows(self, y: ArrayLike) -> Array:
        raise InputTypeError("an ordinal basis has no derivative: ordinal rows are intervals of classes")

    @cached_property
    def increments(self) -> Increments:
        return monotone(self.n_parameters)

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        points, z = values_of(points), values_of(z)
        usable = np.isfinite(z)
        theta = np.interp(np.arange(self.n_parameters), points[usable], z[usable])
        # classes without rows would start with a probability of exactly zero
        return theta + 1e-3 * np.arange(self.n_parameters)

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        theta, z = np.asarray(theta, dtype=np.float64), np.asarray(z, dtype=np.float64)
        if theta.ndim == 2:
            return np.asarray((theta < z[:, None]).sum(axis=1), dtype=np.float64)
        return np.searchsorted(theta, z, side="left").astype(np.float64)
