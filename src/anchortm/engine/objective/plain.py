"""The anchor loss of a transformation model, as sums over blocks of rows.

    L(v) = -(1/n) sum_i weight_i l_i(v) + (xi/n) |t(v)|^2,      t = Q'W r(v)

with Q an orthonormal basis of the span of the anchors. Only sums cross rows: the log-likelihood, its gradient and
Hessian, and the anchors' sums A'Wr and A'WJ (J = dr/dv).

The parameters are the internal ones of ``standardised``: h = c'v with standardised columns c.

Second derivatives of r enter through a *multiplier* mu in the coordinates of t: the sum of weight_i (Q mu)_i D2 r_i. It
is 2 xi t for a finite xi and n lambda for xi = inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Convexity, Derivatives, Loss, Point, Sums
from anchortm.engine.objective.separation import Ways, recession, separated
from anchortm.engine.objective.single_rows import SingleRows
from anchortm.engine.rows.block_sums import (
    AnchorInformation,
    FirstOrder,
    Influence,
    LogLikelihood,
    SecondOrder,
    Together,
)
from anchortm.engine.rows.blocks import Blocks, MemoryBlocks, Work
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.rows.levels import some_levels
from anchortm.engine.rows.projections import Projection
from anchortm.engine.rows.standardised import Rows
from anchortm.engine.rows.wide_sums import WideSecondOrder
from anchortm.exceptions import SeparationError
from anchortm.inputs.design import MAX_DENSE

__all__ = ["NEAR", "RowObjective", "convex_facts"]

Array = NDArray[np.float64]

NEAR = 0.01  # largest relative error of a multiplier for which derivatives are used again


def _same(v: Array, w: Array) -> bool:
    """Return whether two vectors of parameters are equal."""
    return v.size == w.size and int(np.count_nonzero(v != w)) == 0


class _Latest(NamedTuple):
    """Sums and derivatives of one pass over the rows, the derivatives for about this multiplier."""

    v: Array
    sums: Sums
    multiplier: Array | None
    derivatives: Derivatives
    near: float  # relative error that the multiplier may have

    def serves(self, v: Array, multiplier: Array | None) -> bool:
        """Return whether these are the derivatives at v for this multiplier, or nearly so."""
        if not _same(self.v, v) or (multiplier is None) != (self.multiplier is None):
            return False
        if multiplier is None or self.multiplier is None:
            return True
        # with an error as small as the step before, Newton's method still squares its error from step to step
        return bool(np.linalg.norm(multiplier - self.multiplier) <= self.near * np.linalg.norm(multiplier))


def _one_pass(objective: RowObjective, v: Array, multiplier: Array | None) -> _Latest:
    """Return sums and derivatives at v."""
    first, second = objective._first_order(v), objective._second_order(v, multiplier)
    work = second if isinstance(second, SecondOrder) else Together(first, second)
    loglik, arrays = objective.blocks.total(work)
    cut, before = len(first.shapes), objective._latest
    sums, derivatives = Sums(loglik, objective._t(arrays[:cut])), objective._derivatives(arrays[cut:])
    near = NEAR if before is None else min(NEAR, float(np.abs(v - before.v).max(initial=0.0)))
    return _Latest(v.copy(), sums, multiplier, derivatives, near)


def _or_none(multiplier: Array | None) -> Array | None:
    """Return a multiplier, or None if it is zero."""
    return multiplier if multiplier is not None and np.count_nonzero(multiplier) else None


def convex_facts(link: Any, found: frozenset[tuple[str, int]]) -> tuple[bool, bool, bool]:
    """Return whether r is linear in v, whether -loglik is convex, and whether so is the loss if 2 xi |P r| <= 1.

    The last holds if -D2 l >= |D2 r| row by row, as it does for the logistic link. ``found`` are the kinds of rows.
    """
    kinds, truncated = {kind for kind, _ in found}, any(sign < 0 for _, sign in found)
    affine = link.quadratic and found == {("exact", 1)}
    return affine, not truncated, not truncated and kinds <= link.convex_kinds


class RowObjective(SingleRows):
    """The anchor loss of a transformation model, wherever its rows are: sums and derivatives at any v."""

    blocks: Blocks
    first_order = True
    levels: NDArray[np.intp] | None = None  # the levels of a wide factor that a sample contains
    ways: Ways | None = None  # where eta can go without a loss of likelihood, for outcomes of a family
    _separation = staticmethod(separated)
    _convex_facts = staticmethod(convex_facts)

    def __init__(
        self,
        link: Any,
        coordinates: Coordinates,
        anchors: Projection | None,
        blocks: Blocks,
        names: tuple[str, ...] = (),
    ) -> None:
        super().__init__(link, coordinates, anchors, names, blocks.n_rows, blocks.n_total)
        self.blocks, self.costly, self.sample_rows = blocks, blocks.costly, blocks.sample_rows
        self.affine, self._concave, self._bounded = self._convex_facts(link, blocks.kinds)
        self._latest: _Latest | None = None
        self._seen: tuple[Array, Sums] | None = None  # parameters and sums of the latest gradient

    @property
    def memory(self) -> MemoryBlocks:
        """Return the blocks of rows in memory."""
        assert isinstance(self.blocks, MemoryBlocks)  # noqa: S101
        return self.blocks

    @property
    def terms(self) -> list[Rows]:
        """Return the rows in memory, by kind."""
        return self.memory.terms

    @property
    def weights(self) -> Array | None:
        """Return the weights of the rows in memory."""
        return self.memory.weights

    def tell(self, loss: float) -> None:
        self.blocks.tell(loss)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        seen, latest = self._seen, self._latest  # once: another thread may replace them
        if seen is not None and _same(seen[0], v):
            return seen[1]
        if latest is not None and _same(latest.v, v):
            return latest.sums
        if expected is None and not self.costly:
            loglik, arrays = self.blocks.total(self._first_order(v))
            return Sums(loglik, self._t(arrays))
        self._latest = latest = _one_pass(self, v, _or_none(expected))
        return latest.sums

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        multiplier, latest = _or_none(multiplier), self._latest
        if latest is None or not latest.serves(v, multiplier):
            self._latest = latest = _one_pass(self, v, multiplier)
        return latest.derivatives

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        if self.coordinates.wide is not None:
            return super().gradient(v, multiplier)
        work = FirstOrder(self.link, v, self.coordinates.n_baseline, self.n_sums, self._spread(multiplier))
        loglik, (sums, gradient) = self.blocks.total(work)
        self._seen = v.copy(), Sums(loglik, self._t([sums]))
        return gradient

    def restricted(self, columns: NDArray[np.intp]) -> Self:
        blocks = self.blocks.restricted(columns, self.coordinates.n_baseline, self.anchors)
        names = tuple(self.names[j] for j in columns)
        return type(self)(self.link, self.coordinates.restricted(columns), self.anchors, blocks, names)

    def _first_order(self, v: Array) -> Work:
        return LogLikelihood(self.link, self.coordinates.unfold(v), self.coordinates.n_baseline, self.n_sums)

    def _t(self, arrays: list[Array]) -> Array:
        """Return t, or dt/dv, from the anchors' sums."""
        return self._root(arrays[0])

    def _second_order(self, v: Array, multiplier: Array | None) -> Work:
        k, spread, wide = self.coordinates.n_baseline, self._spread(multiplier), self.coordinates.wide
        if wide is None:
            return SecondOrder(self.link, v, k, self.n_sums, spread)
        return WideSecondOrder(self.link, self.coordinates.unfold(v), k, self.n_sums, spread, wide.share.size)

    def _derivatives(self, arrays: list[Array]) -> Derivatives:
        gradient, hessian, G, *levels = arrays
        coordinates = self.coordinates
        if coordinates.wide is None:
            return Derivatives(gradient, hessian + self.n_total * coordinates.faint, self._root(G))
        across, diagonal, F = levels
        hessian = hessian + self.n_total * coordinates.faint_rest
        E = self._root(np.hstack([G, F]))
        if diagonal.size:
            H: Any = Arrow(coordinates, hessian, across, diagonal, E)
        else:
            H = coordinates.fold(coordinates.fold(hessian).T)
        return Derivatives(coordinates.fold(gradient), H, coordinates.fold(E))

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Influence:
        t = None if self.anchors is None else self.anchors.projection_of(self.sums(v).t)
        return Influence(self.link, v, self.coordinates.n_baseline, bread, self._spread(pull), self._spread(K), t)

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        for block in self.memory.blocks:
            yield block.rows, work.shares(block)[0]

    def influence_gram(self, work: Any) -> Array:
        return self.blocks.total(work)[1][0]

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        if self.affine or (xi == 0.0 and self._concave):
            return "global"
        if self.anchors is None or not math.isfinite(xi) or not self._bounded:
            return "none"
        largest = self.blocks.largest_spread(self.anchors, self.anchors.coefficients(sums.t))
        return "local" if 2.0 * xi * largest <= 1.0 else "none"

    def sample(self, size: int) -> RowObjective:
        """Return the loss of a sample; for a wide factor all rows of some levels, in coordinates of their own."""
        wide = self.coordinates.wide
        if wide is None or not wide.share.size:
            blocks, anchors = self.blocks.sample(size, self.anchors)
            return type(self)(self.link, self.coordinates, anchors, blocks, self.names)
        levels, count, blocks, anchors = some_levels(*self.blocks.whole_rows(self.anchors), size, wide.share.size)
        result = type(self)(self.link, self.coordinates.some_levels(count), anchors, blocks, self.names)
        result.levels = levels
        return result

    def from_whole(self, whole: Loss, v: Array) -> Array:
        if self.levels is None:
            return v
        u, constant = whole.coordinates.levels(v)
        return self.coordinates.from_levels(u, constant[self.levels])

    def to_whole(self, whole: Loss, v: Array) -> Array:
        """Return the parameters of all rows; levels that the sample lacks get the mean of those it has."""
        if self.levels is None or whole.coordinates.wide is None:
            return v
        u, own = self.coordinates.levels(v)
        constant = np.full(whole.coordinates.wide.share.size, own.mean())
        constant[self.levels] = own
        return whole.coordinates.from_levels(u, constant)

    @property
    def mean_offset(self) -> float:
        values = [term.offset.mean() for term in self.blocks.at_hand if term.offset is not None]
        return float(np.mean(values)) if values else 0.0

    def anchor_information(self, v: Array) -> Array:
        assert self.anchors is not None  # noqa: S101
        if isinstance(self.blocks, MemoryBlocks):
            slopes = self.residual_slopes(v)
            return self.anchors.gram(slopes if self.weights is None else self.weights * slopes)
        work = AnchorInformation(self._first_order(v), self.n_sums)
        return self._root(self._root(self.blocks.total(work)[1][0]).T)

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if the likelihood has no maximum.

        With a wide factor and many rows the programme is too large, and the question stays open.
        """
        if self.coordinates.wide is not None and self.n_rows * self.n_parameters > MAX_DENSE:
            return
        found = recession(self.blocks, self.coordinates, self.ways)
        if found is not None:
            raise SeparationError(self._separation(found.names(self.coordinates.n_baseline, self.names), found))
