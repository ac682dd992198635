"""The baseline columns at the two ends of interval rows: c_v at the lower end, D = c_u - c_v.

There are two ways to store them. In general each row has columns of its own. Rows of classes and counts share a few
*cells*: then a table with one row for each cell is enough, and sums over rows become sums over cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.projections import Part

__all__ = ["CellEnds", "Ends", "RowEnds"]

Array = NDArray[np.float64]


class Ends(ABC):
    """Baseline columns of both ends, and sums over rows with them."""

    @abstractmethod
    def take(self, rows: Any) -> Ends:
        """Return the ends of these rows."""

    @abstractmethod
    def dense(self) -> tuple[Array, Array]:
        """Return c_v and D, one row for each row."""

    @abstractmethod
    def values(self, v: Array) -> tuple[Array, Array]:
        """Return c_v'v and D'v of each row."""

    @abstractmethod
    def gradient(self, r: Array, p: Array) -> Array:
        """Return the sum of r c_v - p D."""

    @abstractmethod
    def add_to(self, part: Part, G: Array, dr: Array, r_u: Array) -> None:
        """Add the anchors' sums of dr c_v + r_u D to G."""

    @abstractmethod
    def gram(self, both: Array, cross: Array, own: Array) -> Array:
        """Return the sum of both c_v c_v' + cross (c_v D' + D c_v') + own D D'."""

    @abstractmethod
    def cross(self, both: Array, cross: Array, X: Array) -> Array:
        """Return the sum of (both c_v + cross D) x'."""


@dataclass(frozen=True, eq=False)
class RowEnds(Ends):
    """Ends with columns of their own in every row."""

    V: Array
    D: Array

    def take(self, rows: Any) -> RowEnds:
        return RowEnds(self.V[rows], self.D[rows])

    def dense(self) -> tuple[Array, Array]:
        return self.V, self.D

    def values(self, v: Array) -> tuple[Array, Array]:
        return np.dot(self.V, v), np.dot(self.D, v)  # np.dot, unlike @, lets other threads work

    def gradient(self, r: Array, p: Array) -> Array:
        return np.asarray(np.dot(self.V.T, r) - np.dot(self.D.T, p))

    def add_to(self, part: Part, G: Array, dr: Array, r_u: Array) -> None:
        part.add(G, dr, self.V)
        part.add(G, r_u, self.D)

    def gram(self, both: Array, cross: Array, own: Array) -> Array:
        first = self.V * both[:, None] + self.D * cross[:, None]
        second = self.V * cross[:, None] + self.D * own[:, None]
        return np.asarray(np.dot(first.T, self.V) + np.dot(second.T, self.D))

    def cross(self, both: Array, cross: Array, X: Array) -> Array:
        return np.asarray((self.V * both[:, None] + self.D * cross[:, None]).T @ X)


@dataclass(frozen=True, eq=False)
class CellEnds(Ends):
    """Ends that depend only on the cell of a row."""

    V: Array  # one row for each cell
    D: Array
    cell: NDArray[np.intp]

    def take(self, rows: Any) -> CellEnds:
        return CellEnds(self.V, self.D, self.cell[rows])

    def dense(self) -> tuple[Array, Array]:
        return self.V[self.cell], self.D[self.cell]

    def values(self, v: Array) -> tuple[Array, Array]:
        return (self.V @ v)[self.cell], (self.D @ v)[self.cell]

    def _sum(self, values: Array) -> Array:
        return np.bincount(self.cell, values, self.V.shape[0]).astype(np.float64)

    def gradient(self, r: Array, p: Array) -> Array:
        return np.asarray(self.V.T @ self._sum(r) - self.D.T @ self._sum(p))

    def add_to(self, part: Part, G: Array, dr: Array, r_u: Array) -> None:
        part.add_cells(G, dr, self.cell, self.V)
        part.add_cells(G, r_u, self.cell, self.D)

    def gram(self, both: Array, cross: Array, own: Array) -> Array:
        b, c, o = (self._sum(values)[:, None] for values in (both, cross, own))
        mixed = self.V.T @ (c * self.D)
        return np.asarray(self.V.T @ (b * self.V) + mixed + mixed.T + self.D.T @ (o * self.D))

    def cross(self, both: Array, cross: Array, X: Array) -> Array:
        m = self.cell.size
        pick = sp.csc_matrix((both, self.cell, np.arange(m + 1)), shape=(self.V.shape[0], m))
        by_cell = pick @ X
        pick.data = cross
        return np.asarray(self.V.T @ by_cell + self.D.T @ (pick @ X))
