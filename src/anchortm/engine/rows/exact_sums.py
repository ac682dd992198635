"""Sums over blocks of exact rows under the normal link: moments of the columns, and the terms log h'."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.block_sums import add_log_slopes
from anchortm.engine.rows.blocks import Block, Shape, Work
from anchortm.engine.rows.standardised import Rows
from anchortm.kernels.rows import log_slopes

__all__ = ["Groups", "LogSlopes", "Moments", "OffsetMoments", "SlopeDerivatives", "WithinMoments"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments(Work):
    """[C o]'W[C o] and the anchors' sums of [C o], o the offset, for exact rows."""

    label: ClassVar[str] = "moments"
    n_parameters: int
    n_sums: int

    @property
    def shapes(self) -> list[Shape]:
        d = self.n_parameters + 1
        return [(d, d), (self.n_sums, d)]

    def columns(self, data: Rows) -> Array:
        """Return the columns of rows, the offset last if there is one."""
        return data.C if data.offset is None else np.column_stack([data.C, data.offset])

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            data = piece.data
            C = self.columns(data)
            ones = np.ones(C.shape[0]) if data.weights is None else data.weights
            columns = slice(None, C.shape[1])
            arrays[0][columns, columns] += np.dot((C if data.weights is None else C * ones[:, None]).T, C)
            if piece.part is not None:
                piece.part.add(arrays[1][:, columns], ones, C)
        return 0.0


class Groups(Protocol):
    """Sums over groups of rows that remove what the groups have in common."""

    def remove(self, rows: NDArray[np.intp], C: Array) -> Array:
        """Return the columns C of these rows without what their groups have in common."""


@dataclass(frozen=True, eq=False)
class WithinMoments(Moments):
    """The moments of rows within groups."""

    groups: Groups

    def columns(self, data: Rows) -> Array:
        """Return the columns of rows within groups, the offset last if there is one."""
        return self.groups.remove(data.rows, super().columns(data))


@dataclass(frozen=True, eq=False)
class OffsetMoments(Work):
    """[C o]'Wo and the anchors' sums of the offset o: what another offset changes in ``Moments``."""

    label: ClassVar[str] = "moments"
    n_parameters: int
    n_sums: int

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_parameters + 1,), (self.n_sums,)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            data = piece.data
            assert data.offset is not None  # noqa: S101
            o = data.offset if data.weights is None else data.weights * data.offset
            arrays[0][:-1] += np.dot(data.C.T, o)
            arrays[0][-1] += np.dot(data.offset, o)
            if piece.part is not None:
                piece.part.add(arrays[1], o, None)
        return 0.0


@dataclass(frozen=True, eq=False)
class LogSlopes(Work):
    """The sum of log h' of exact rows, at these parameters of the baseline."""

    label: ClassVar[str] = "log-likelihood"
    v: Array

    @property
    def shapes(self) -> list[Shape]:
        return []

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        return sum(_log_slopes(piece.data, self.v, None) for piece in block.pieces)


def _log_slopes(data: Rows, v: Array, derivatives: tuple[Array, Array] | None) -> float:
    """Return the sum of log h' of rows, and add the derivatives of minus that."""
    assert data.slope is not None  # noqa: S101
    total = log_slopes(data.slope, data.weights, data.sign, v, derivatives)
    if total is not None:
        return total
    slope = np.dot(data.slope, v)
    if not slope.min() > 0.0:
        return -math.inf
    if derivatives is not None:
        add_log_slopes(data, slope, *derivatives)
    logs = np.log(slope)
    return float(logs.sum() if data.weights is None else data.weights @ logs)


@dataclass(frozen=True, eq=False)
class SlopeDerivatives(Work):
    """The sum of log h' of exact rows, and gradient and Hessian of minus that sum."""

    label: ClassVar[str] = "derivatives"
    v: Array

    @property
    def shapes(self) -> list[Shape]:
        k = self.v.size
        return [(k,), (k, k)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        gradient, hessian = arrays
        return sum(_log_slopes(piece.data, self.v, (gradient, hessian)) for piece in block.pieces)
