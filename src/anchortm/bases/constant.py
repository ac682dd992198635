"""The constant basis: an intercept, for models of the mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm.bases.contract import Basis, Increments

__all__ = ["ConstantBasis"]


@dataclass(frozen=True)
class ConstantBasis(Basis):
    """a(y) = 1: an intercept, for models of the mean, which do not transform y.

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
        """Refuse: there is no transformation to invert."""
        raise NotImplementedError("a model of the mean does not transform the outcome")
