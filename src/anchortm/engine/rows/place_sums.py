"""Sums over the rows of each place: log-likelihoods, their gradients, and what a shift of a place changes.

The anchors of the rows are one factor, the places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.block_sums import SecondOrder, evaluate_rows, weighted
from anchortm.engine.rows.blocks import Block, Piece, Shape, Work
from anchortm.engine.rows.standardised import Rows
from anchortm.links import RowValues, TwoEnds

__all__ = ["PlaceDerivatives", "PlaceLogLikelihoods", "PlaceShifts", "RowCounts"]

Array = NDArray[np.float64]


def logliks(data: Rows, values: RowValues, slope: Array | None) -> Array:
    """Return the log-likelihood of each row, with its weight and sign; ``slope`` is h' of exact rows."""
    own = values.l if slope is None else np.where(slope > 0.0, values.l + np.log(slope), -np.inf)
    return weighted(data.weights, data.sign, own)


@dataclass(frozen=True, eq=False)
class RowCounts(Work):
    """The total weight of each place, and that of its exact, left- and right-censored rows."""

    label: ClassVar[str] = "places"
    n_places: int

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_places,)] * 4

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        kinds = dict(zip(("exact", "left", "right"), arrays[1:], strict=True))
        for piece in block.pieces:
            data, part = piece.data, piece.part
            if data.sign < 0 or part is None:  # late entries are terms of rows that are counted already
                continue
            ones = np.ones(data.rows.size) if data.weights is None else data.weights
            part.add(arrays[0], ones, None)
            if data.kind in kinds:
                part.add(kinds[data.kind], ones, None)
        return 0.0


@dataclass(frozen=True, eq=False)
class PlaceLogLikelihoods(Work):
    """The log-likelihood of each place."""

    label: ClassVar[str] = "log-likelihood"
    link: Any
    v: Array
    n_baseline: int
    n_places: int

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_places,)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            values, slope = evaluate_rows(self.link, piece.data, self.v, self.n_baseline)
            assert piece.part is not None  # noqa: S101
            piece.part.add(arrays[0], logliks(piece.data, values, slope), None)
        return 0.0


@dataclass(frozen=True, eq=False)
class PlaceDerivatives(PlaceLogLikelihoods):
    """The log-likelihood of each place, the gradient of minus that, and a Hessian.

    That is the Hessian of -sum_e weights_e loglik_e. Rows of places without weight are not part of it.
    """

    label: ClassVar[str] = "derivatives"
    weights: Array

    @property
    def shapes(self) -> list[Shape]:
        d = self.v.size
        return [(self.n_places,), (self.n_places, d), (d,), (d, d)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        totals, gradients, gradient, hessian = arrays
        second, k, pieces = SecondOrder(self.link, self.v, self.n_baseline, 0), self.n_baseline, []
        for piece in block.pieces:
            data, part = piece.data, piece.part
            assert part is not None  # noqa: S101
            values, slope = evaluate_rows(self.link, data, self.v, k)
            part.add(totals, logliks(data, values, slope), None)
            r = weighted(data.weights, data.sign, values.r)
            if data.ends is None:
                part.add(gradients, r, data.C)
                if slope is not None and data.slope is not None:
                    part.add(gradients[:, :k], weighted(data.weights, -data.sign, 1.0 / slope), data.slope)
            else:
                width = weighted(data.weights, -data.sign, cast("TwoEnds", values).l_d)
                data.ends.add_to(part, gradients[:, :k], r, width)
                part.add(gradients[:, k:], r, data.C)
            own = part.spread(self.weights)
            among = np.flatnonzero(own)
            if among.size:
                some = data.take(among, data.rows[among])
                own = own[among] if some.weights is None else own[among] * some.weights
                pieces.append(Piece(replace(some, weights=own), None))
        second(
            Block(block.start, block.size, pieces, None), [np.zeros(0), gradient, hessian, np.zeros((0, self.v.size))]
        )
        return 0.0


@dataclass(frozen=True, eq=False)
class PlaceShifts(PlaceLogLikelihoods):
    """The log-likelihood of each place if its h is moved up by a shift, and minus its two derivatives."""

    label: ClassVar[str] = "shifts of places"
    shifts: Array

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_places,)] * 3

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            part = piece.part
            assert part is not None  # noqa: S101
            moved = part.spread(self.shifts)
            before = piece.data.offset
            data = replace(piece.data, offset=moved if before is None else before + moved)
            values, slope = evaluate_rows(self.link, data, self.v, self.n_baseline)
            part.add(arrays[0], logliks(data, values, slope), None)
            part.add(arrays[1], weighted(data.weights, data.sign, values.r), None)
            part.add(arrays[2], weighted(data.weights, data.sign, values.dr), None)
        return 0.0
