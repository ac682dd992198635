"""Sums over blocks of rows of a wide design, with sparse columns and the levels of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.block_sums import SecondOrder, reliable_sum, weighted
from anchortm.engine.rows.blocks import Block, Piece, Shape
from anchortm.links import RowValues

__all__ = ["WideSecondOrder"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WideSecondOrder(SecondOrder):
    """The same sums for a wide design, in the parameters that ``Coordinates.unfold`` gives.

    The Hessian of the levels is diagonal. Besides the Hessian of the other parameters there are the sums across (a row
    for each level), the diagonal, and the anchors' sums of the levels. No matrix is rows by levels or levels by levels.
    """

    n_levels: int = 0

    @property
    def shapes(self) -> list[Shape]:
        levels, rest = self.n_levels, self.v.size - self.n_levels
        dense = [(self.n_sums,), (self.v.size,), (rest, rest), (self.n_sums, rest)]
        return [*dense, (levels, rest), (levels,), (self.n_sums, levels)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        sums, gradient, hessian, G = arrays[:4]
        parts = []
        for piece in block.pieces:
            bend = None if self.spread is None or piece.part is None else piece.part.spread(self.spread)
            c = piece.data.n_dense(self.n_baseline)
            part, values = self._add(piece, bend, sums, gradient[:c], hessian[:c, :c], G[:, :c])
            self._add_wide(piece, values, bend, *arrays[1:])
            parts.append(part)
        return reliable_sum(parts)

    def _add_wide(
        self,
        piece: Piece,
        t: RowValues,
        bend: Array | None,
        gradient: Array,
        hessian: Array,
        G: Array,
        across: Array,
        diagonal: Array,
        F: Array,
    ) -> None:
        data, wide, k = piece.data, piece.data.wide, self.n_baseline
        assert wide is not None  # noqa: S101
        c, b, S = data.n_dense(k), hessian.shape[0], wide.sparse

        def w(values: Array) -> Array:
            return weighted(data.weights, data.sign, values)

        r, dr, cross = w(t.r), w(t.dr), np.zeros(0)
        both = dr if bend is None else dr + w(t.penalised.d2r * bend)
        if data.ends is not None:
            cross = w(t.r_d if bend is None else t.r_d + t.r_hd * bend)
        dr = dr if t.penalised is t else w(t.penalised.dr)

        def beside(M: sp.csr_matrix, scaled: Any) -> Array:
            """Return M' times the rows c with the weights ``both``; ``scaled`` is M' with these weights."""
            sums = scaled @ data.C
            return np.asarray(sums if data.ends is None else np.hstack([data.ends.cross(both, cross, M).T, sums]))

        scaled = S.multiply(both[:, None]).tocsr() if b > c else S
        if b > c:
            gradient[c:b] += S.T @ r
            sums = beside(S, scaled.T)
            hessian[c:b, :c] += sums
            hessian[:c, c:b] += sums.T
            _add_sparse(hessian[c:b, c:b], S.T @ scaled)
            if piece.part is not None:
                piece.part.add_sparse(G[:, c:b], dr, S)
        if wide.codes is not None:
            levels, dummies = self.n_levels, wide.dummies()
            gradient[b:] += np.bincount(wide.codes, r, levels)
            diagonal += np.bincount(wide.codes, both, levels)
            m = both.size
            by_level = sp.csc_matrix((both, wide.codes, np.arange(m + 1)), shape=(levels, m))
            across[:, :c] += beside(dummies, by_level)
            if b > c:
                _add_sparse(across[:, c:], dummies.T @ scaled)
            if piece.part is not None:
                piece.part.add_sparse(F, dr, dummies)


def _add_sparse(target: Array, matrix: Any) -> None:
    entries = matrix.tocoo()
    target[entries.row, entries.col] += entries.data
