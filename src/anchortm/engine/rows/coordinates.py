"""Coordinates: the map between internal parameters v and the parameters that users see, with the bounds on v.

Standardised columns make the problem independent of units: the baseline's increments and the covariates become columns
with mean 0 and deviation 1, the first column is the constant, and the monotonicity constraints are bounds on v.

In a wide design the sparse columns and the levels of the factor are scaled but not centred in the rows, which keeps
their zeros; v are the parameters of centred columns all the same, and ``unfold`` and ``fold`` convert between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Coordinates", "Places"]

Array = NDArray[np.float64]

FAINT = 1e-6  # curvature that does not count
NO_SPARE = 1e-9  # increments below this, relative to the largest, count as zero


class Places(NamedTuple):
    """The places of the parameters of a wide design among v.

    ``rest`` are all but those of the levels: of the baseline, of the numeric columns, of the sparse columns.
    """

    rest: NDArray[np.intp]
    sparse: NDArray[np.intp]
    levels: slice
    share: Array  # share of the rows in each level, the reference first
    sign: float


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The linear map between internal parameters v and (theta, beta), and the bounds on v.

    With standardised columns c_j = (column_j - mean_j) / scale_j for j >= 1 and c_0 = 1,
    delta_j = v_j / scale_j and delta_0 = v_0 - sum_j mean_j delta_j; theta = matrix @ delta.
    """

    matrix: Array
    mean: Array
    scale: Array
    lower: Array
    upper: Array
    wide: Places | None = None
    pieces: tuple[NDArray[np.intp], ...] = ()  # increments by group, if they can be shared out among groups
    unit: float = 1.0  # factor from internal to reported theta and beta

    @property
    def n_baseline(self) -> int:
        """Return the number of internal baseline parameters."""
        return int(self.matrix.shape[1])

    @property
    def n_coefs(self) -> int:
        """Return the number of coefficients."""
        return self.scale.size - self.n_baseline

    def places(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places of the parameters of the baseline and of some covariates."""
        k = self.n_baseline
        return np.concatenate([np.arange(k), k + columns])

    def restricted(self, columns: NDArray[np.intp]) -> Self:
        """Return the coordinates of the baseline and of some covariates."""
        at = self.places(columns)
        return replace(self, mean=self.mean[at], scale=self.scale[at], lower=self.lower[at], upper=self.upper[at])

    def split(self, v: Array) -> tuple[Array, Array]:
        """Return theta and beta."""
        raw = self.unit * v / self.scale
        raw[0] -= self.mean @ raw
        return self.matrix @ raw[: self.n_baseline], raw[self.n_baseline :]

    def unfold(self, v: Array) -> Array:
        """Return the parameters that rows are multiplied with: v itself, or those of a wide design."""
        if self.wide is None:
            return v
        rest, sparse, levels, share, sign = self.wide
        raw = v / self.scale
        w = np.concatenate([v[rest], np.zeros(min(1, share.size)), sign * raw[levels]])
        w[0] -= self.mean[sparse] @ raw[sparse] + self.mean[levels] @ raw[levels]
        return w

    def fold(self, gradient: Array) -> Array:
        """Return derivatives in v (the last axis) from those in ``unfold(v)``."""
        if self.wide is None:
            return gradient
        rest, sparse, levels, _, sign = self.wide
        result = np.empty((*gradient.shape[:-1], self.scale.size))
        first = gradient[..., :1]
        result[..., rest] = gradient[..., : rest.size]
        result[..., sparse] -= first * (self.mean / self.scale)[sparse]
        result[..., levels] = (sign * gradient[..., rest.size + 1 :] - first * self.mean[levels]) / self.scale[levels]
        return result

    def levels(self, v: Array) -> tuple[Array, Array]:
        """Return the parameters without the constant and the levels, and the constant of h in each level."""
        assert self.wide is not None  # noqa: S101
        w, b = self.unfold(v), self.wide.rest.size
        return w[1:b], w[0] + w[b:]

    def from_levels(self, u: Array, constant: Array) -> Array:
        """Return v from the two results of ``levels``."""
        assert self.wide is not None  # noqa: S101
        rest, sparse, levels, _, sign = self.wide
        v = np.zeros(self.scale.size)
        v[rest[1:]] = u
        raw = sign * (constant[1:] - constant[0])
        v[levels] = raw * self.scale[levels]
        v[0] = constant[0] + self.mean[levels] @ raw + (self.mean / self.scale)[sparse] @ v[sparse]
        return v

    def some_levels(self, count: NDArray[Any]) -> Coordinates:
        """Return the coordinates for levels with these numbers of rows; the first is the reference."""
        assert self.wide is not None  # noqa: S101
        rest, sparse, levels, _, sign = self.wide
        share = count / count.sum()
        stop = levels.start + share.size - 1

        def cut(values: Array, own: Array) -> Array:
            return np.concatenate([values[: levels.start], own, values[levels.stop :]])

        free = np.full(share.size - 1, np.inf)
        moved = [np.where(at < levels.start, at, at - levels.stop + stop) for at in (rest, sparse)]
        return replace(
            self,
            mean=cut(self.mean, sign * share[1:]),
            scale=cut(self.scale, np.sqrt(share[1:] * (1.0 - share[1:]))),
            lower=cut(self.lower, -free),
            upper=cut(self.upper, free),
            wide=Places(moved[0], moved[1], slice(levels.start, stop), share, sign),
        )

    def join(self, theta: Array, beta: Array) -> Array:
        """Return v for a theta that satisfies the equality constraints."""
        delta: Array = np.linalg.lstsq(self.matrix, theta, rcond=None)[0].astype(np.float64)
        self._share_out(delta)
        raw = np.concatenate([delta, beta])
        raw[0] += self.mean @ raw
        return raw * self.scale / self.unit

    def shared_out(self, v: Array) -> Array:
        """Return v with increments shared out evenly among groups: the same h, at no bound without need."""
        if not self.pieces:
            return v
        raw = v / self.scale
        self._share_out(raw)
        return raw * self.scale

    def _share_out(self, delta: Array) -> None:
        """Share increments out among groups in place, so that none is negative if possible."""
        if not self.pieces:
            return
        first = self.pieces[0][0]
        fixed = self.lower[first] == self.upper[first]
        least = [delta[piece].min(axis=0) for piece in self.pieces]
        spare = np.sum(least, axis=0)
        for k, (piece, own) in enumerate(zip(self.pieces, least, strict=True)):
            delta[piece] += np.where(fixed, spare if k == 0 else 0.0, spare / len(self.pieces)) - own

    @cached_property
    def _moves(self) -> Array:
        """Return directions in v along which h stays: a part of an increment moves to another group."""
        first, *others = self.pieces
        moves = np.zeros((first.shape[1], len(others), self.scale.size))
        for j, piece in enumerate(others):
            for k in range(first.shape[1]):
                moves[k, j, first[:, k]], moves[k, j, piece[:, k]] = 1.0, -1.0
        moves *= self.scale
        return np.linalg.qr(moves.transpose(0, 2, 1))[0]

    def apart(self, v: Array, w: Array) -> Array:
        """Return v - w without the directions along which h stays."""
        step = v - w
        if self.pieces:
            step -= np.einsum("kdj,kej,e->d", self._moves, self._moves, step)
        return step

    @cached_property
    def faint(self) -> Array | float:
        """Return a tiny curvature in directions where the loss has none by construction, so that Hessians are regular.

        More would change the solution as soon as bounds are reached.
        """
        if not self.pieces:
            return 0.0
        return np.asarray(FAINT * np.einsum("kdj,kej->de", self._moves, self._moves))

    @property
    def faint_rest(self) -> Array | float:
        """Return the same for the parameters of a wide design beside those of the levels."""
        if not self.pieces or self.wide is None:
            return 0.0
        return np.asarray(self.faint)[np.ix_(self.wide.rest, self.wide.rest)]

    def lift(self, v: Array) -> Array | float:
        """Return curvature in those of these directions that no bound at v blocks."""
        if not self.pieces:
            return 0.0
        raw = v / self.scale
        spare = np.sum([raw[piece].min(axis=0) for piece in self.pieces], axis=0)
        size = np.max([raw[piece].max(axis=0) for piece in self.pieces], axis=0)
        weight = (spare > NO_SPARE * size).astype(np.float64)
        return np.asarray(np.einsum("k,kdj,kej->de", weight, self._moves, self._moves))

    @cached_property
    def jacobian(self) -> Array:
        """Return d(theta, beta)/dv."""
        raw = np.diag(self.unit / self.scale)
        raw[0] -= self.unit * self.mean / self.scale
        k = self.n_baseline
        return np.vstack([self.matrix @ raw[:k], raw[k:]])

    def jacobian_at(self, v: Array) -> Array:
        """Return d(theta, beta)/dv at v, which is the same everywhere for a linear map."""
        return self.jacobian
