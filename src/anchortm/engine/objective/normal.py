"""Exact rows under the normal link: the residuals are linear in the parameters.

    r = c'v,      loglik = -|W^(1/2) C v|^2 / 2 + sum_i weight_i log h'(y_i) + constant

One pass over the rows gives C'WC and E for every xi; after that only the derivative rows (the terms log h') are needed,
and not even these if the slope h' is the same in all rows.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Derivatives, Sums
from anchortm.engine.rows.exact_sums import Groups, LogSlopes, Moments, OffsetMoments, SlopeDerivatives, WithinMoments

__all__ = ["NormalObjective"]

Array = NDArray[np.float64]

FEW = 500  # moments of so many columns are always affordable


class NormalObjective(RowObjective):
    """The anchor loss of exact rows under the normal link."""

    _moments: tuple[Array, Array] | None = None
    _slopes: tuple[Array, float, list[Array]] | None = None  # the terms log h' of the latest pass

    @property
    def moments(self) -> tuple[Array, Array]:
        """Return M = [C o]'W[C o] and E = Q'W[C o], o the offset; the rows are read once."""
        if self._moments is None:  # cached_property would hold a lock of the class while rows are read (Python 3.11)
            self._moments = self._moments_of(Moments(self.n_parameters, self.n_sums))
        return self._moments

    def _moments_of(self, work: Moments) -> tuple[Array, Array]:
        _, (M, G) = self.blocks.total(work)
        return M, self._root(G)

    def moments_within(self, groups: Groups) -> tuple[Array, Array]:
        """Return the moments of the rows within groups."""
        return self._moments_of(WithinMoments(self.n_parameters, self.n_sums, groups))

    def with_moments(self, moments: tuple[Array, Array]) -> NormalObjective:
        """Return the loss of rows with other moments and the same slopes of the baseline."""
        result = copy.copy(self)
        result._seen = None
        result._moments = moments
        return result

    def shifted(self, added: Array) -> Self:
        """Return the loss of the same rows with other offsets; sums of the columns alone are not computed again."""
        made = super().shifted(added)
        M, E = (moments.copy() for moments in self.moments)
        _, (cross, G) = made.blocks.total(OffsetMoments(self.n_parameters, self.n_sums))
        M[-1] = M[:, -1] = cross
        E[:, -1] = self._root(G)
        made._moments = M, E
        made.__dict__["_one_slope"] = self._one_slope
        return made

    @property
    def pooled(self) -> bool:  # type: ignore[override]
        """Return whether the moments are known, or take no more memory than the rows."""
        few = self._moments is not None or self.n_parameters <= max(self.n_rows, FEW)
        return few and self.coordinates.wide is None

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        if not self.pooled:
            return super().gradient(v, multiplier)
        M, E = self.moments
        d, k = self.n_parameters, self.coordinates.n_baseline
        gradient = M[:d] @ np.append(v, 1.0)
        if self._one_slope is None:
            gradient[:k] += self._slope_pass(v[:k])[2][0]
        else:
            gradient[:k] -= self.n_total * self._one_slope / float(self._one_slope @ v[:k])
        return np.asarray(gradient if multiplier is None else gradient + multiplier @ E[:, :d])

    def restricted(self, columns: NDArray[np.intp]) -> Self:
        result = super().restricted(columns)
        if self._moments is not None:
            at = np.append(self.coordinates.places(columns), self.n_parameters)  # the offset is the last
            result._moments = self._moments[0][np.ix_(at, at)], self._moments[1][:, at]
        return result

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        if self._seen is not None and np.array_equal(self._seen[0], v):
            return self._seen[1]
        M, E = self.moments
        extended = np.append(v, 1.0)
        quadratic = -0.5 * float(extended @ M @ extended) - self.n_total * 0.5 * math.log(2.0 * math.pi)
        return Sums(quadratic + self._log_slopes(v, expected is not None or self.costly), E @ extended)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        M, E = self.moments
        d = self.n_parameters
        gradient, hessian = M[:d] @ np.append(v, 1.0), M[:d, :d].copy()
        k = self.coordinates.n_baseline
        if self._one_slope is None:
            g, H = self._slope_pass(v[:k])[2]
        else:
            D = self._one_slope / float(self._one_slope @ v[:k])
            g, H = -self.n_total * D, self.n_total * np.outer(D, D)
        gradient[:k] += g
        hessian[:k, :k] += H
        return Derivatives(gradient, hessian + self.n_total * self.coordinates.faint, E[:, :d])

    def _slope_pass(self, v: Array) -> tuple[Array, float, list[Array]]:
        """Return v, the sum of log h' there, and the derivatives of minus that sum."""
        found = self._slopes  # once: another thread may replace it
        if found is None or not np.array_equal(found[0], v):
            self._slopes = found = (v.copy(), *self.blocks.total(SlopeDerivatives(v)))
        return found

    @cached_property
    def _one_slope(self) -> Array | None:
        """Return the derivative row if all rows share one (a linear basis)."""
        return self.blocks.one_slope() if self.coordinates.n_baseline == 2 else None

    @property
    def closed_form(self) -> tuple[Array, Array] | None:
        return None if self._one_slope is None else self.moments

    @property
    def linear(self) -> bool:
        """Return whether the transformation is linear in y, so that the minimum has a closed form."""
        return self._one_slope is not None

    def _log_slopes(self, v: Array, derivatives: bool) -> float:
        k = self.coordinates.n_baseline
        if self._one_slope is None and derivatives:
            return self._slope_pass(v[:k])[1]
        if self._one_slope is None:
            return self.blocks.total(LogSlopes(v[:k]))[0]
        slope = float(self._one_slope @ v[:k])
        return self.n_total * math.log(slope) if slope > 0.0 else -math.inf
