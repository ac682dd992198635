"""Anchors in outline and the sums over rows that make their projection, for rows in memory and elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns

__all__ = ["AnchorFrame", "AnchorMoments", "group_weights", "mixed_moments"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_OTHER_LEVELS = 5000


def group_weights(codes: Codes, n_levels: int, weights: Array | None) -> Array:
    """Return the total weight of each level of a factor."""
    return np.bincount(codes, weights, n_levels).astype(np.float64)


@dataclass(frozen=True, eq=False)
class AnchorFrame:
    """The anchors of all rows in outline: the leading factor, numbers of levels, centre and range of the columns."""

    main: int | None
    sizes: tuple[int, ...]
    column_names: tuple[str, ...]
    mean: Array
    spread: Array  # largest distance from the mean
    intercept: bool

    @property
    def _constant(self) -> NDArray[np.bool_]:
        limit = 1e-12 * np.maximum(np.abs(self.mean), 1e-300)
        return (self.spread <= limit) & self.intercept

    @property
    def constant_names(self) -> tuple[str, ...]:
        """Return the names of the columns that do not vary."""
        return tuple(name for name, gone in zip(self.column_names, self._constant, strict=True) if gone)

    @property
    def dense_names(self) -> list[str]:
        """Return the names of ``dense``."""
        kept = [name for name, gone in zip(self.column_names, self._constant, strict=True) if not gone]
        return ["(constant)", *kept] if self.intercept else kept

    def dense(self, anchors: AnchorColumns) -> Array:
        """Return the numeric columns; if the constant is in the span, it comes first and the columns are centred."""
        if not self.intercept:
            return anchors.columns
        return np.column_stack([np.ones(len(anchors)), (anchors.columns - self.mean)[:, ~self._constant]])

    @property
    def other_names(self) -> list[str]:
        """Return the names of ``others``, empty for levels of factors."""
        width = sum(size for j, size in enumerate(self.sizes) if j != self.main)
        return [""] * width + list(self.column_names)

    def others(self, anchors: AnchorColumns) -> sp.csr_matrix:
        """Return all but the leading factor: levels as 0 and 1, then centred columns."""
        n = len(anchors)
        pieces = [
            sp.csr_matrix((np.ones(n), (np.arange(n), codes)), shape=(n, size))
            for j, (codes, size) in enumerate(zip(anchors.factors, self.sizes, strict=True))
            if j != self.main
        ]
        if anchors.columns.shape[1]:
            pieces.append(sp.csr_matrix(anchors.columns - self.mean))
        return sp.hstack(pieces, format="csr")

    def moments(self, anchors: AnchorColumns, weights: Array | None) -> AnchorMoments:
        """Return the sums over these rows that make the projection."""
        if self.main is None:
            A = self.dense(anchors)
            R = la.qr(A if weights is None else A * np.sqrt(weights)[:, None], mode="r")[0]
            return AnchorMoments(root=R[: A.shape[1]].copy())
        codes, size = anchors.factors[self.main], self.sizes[self.main]
        if not self.other_names:
            return AnchorMoments(total=group_weights(codes, size, weights))
        if len(self.other_names) > MAX_OTHER_LEVELS:
            raise InputError(
                f"besides the largest factor the anchors have {len(self.other_names)} levels and columns, more than "
                f"{MAX_OTHER_LEVELS}; leave one factor out, or merge levels"
            )
        return mixed_moments(codes, size, self.others(anchors), weights)


@dataclass(frozen=True, eq=False)
class AnchorMoments:
    """Sums over rows, A_1 the leading factor and B all others: A_1'W1, B'WA_1, B'WB; or R with R'R = A'WA."""

    total: Array = field(default_factory=lambda: np.zeros(0))
    cross: sp.csr_matrix = field(default_factory=lambda: sp.csr_matrix((0, 0)))
    gram: Array = field(default_factory=lambda: np.zeros((0, 0)))
    root: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __add__(self, other: AnchorMoments) -> AnchorMoments:
        root = (
            la.qr(np.vstack([self.root, other.root]), mode="r")[0][: self.root.shape[1]]
            if self.root.size
            else self.root
        )
        return AnchorMoments(self.total + other.total, self.cross + other.cross, self.gram + other.gram, root)


def mixed_moments(codes: Codes, n_levels: int, B: sp.csr_matrix, weights: Array | None) -> AnchorMoments:
    """Return the sums of a leading factor and of all other anchor columns B."""
    WB = B if weights is None else B.multiply(weights[:, None]).tocsr()
    groups = sp.csr_matrix((np.ones(codes.size), (codes, np.arange(codes.size))), shape=(n_levels, codes.size))
    cross = (groups @ WB).T.tocsr()
    return AnchorMoments(group_weights(codes, n_levels, weights), cross, np.asarray((B.T @ WB).todense()))
