"""The transformations of n rows: h(y | x) = h_0(y) + moved, with h_0 shared by all rows or each row's own.

Tables are computed in chunks, so that memory beside the result stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.bases import Basis, OrdinalBasis, baseline_values
from anchortm.predict.protocol import check_shape

__all__ = ["CHUNK", "Transformation", "shared_rows"]

CHUNK = 200_000  # values in one pass
INVERSES = 300  # values of one baseline for which it is inverted apart from others


def shared_rows(theta: Array, least: int) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Return the rows of theta that fewer than ``least`` rows are equal to, and the groups of equal rows.

    Rows are compared by a weighted sum first, since sorting numbers is much faster than sorting rows.
    """
    n, key = theta.shape[0], np.zeros(theta.shape[0])
    for j, column in enumerate(theta.T):
        key += math.sqrt(j + 2.0) * column
    order = np.argsort(key, kind="stable")
    same = (theta[order[1:]] == theta[order[:-1]]).all(axis=1)
    groups = np.split(order, np.flatnonzero(~same) + 1) if n else []
    alone = [rows for rows in groups if rows.size < least]
    return np.sort(np.concatenate([*alone, np.zeros(0, dtype=np.intp)])), [r for r in groups if r.size >= least]


@dataclass(frozen=True, eq=False)
class Transformation:
    """The transformation h of each row, for outcomes as numbers (classes as their positions).

    Attributes
    ----------
    basis : Basis
    theta : array of shape (k,) or (n, k)
        Parameters of the baseline h_0, shared by all rows or one set for each row.
    moved : array of shape (n,)
        What each row adds to h_0: the gain times the shift.
    positive : bool
        Whether the outcome lies above 0.
    """

    basis: Basis
    theta: Array
    moved: Array
    positive: bool

    def theta_of(self, rows: Any) -> Array:
        """Return theta of these rows, or the one theta that all rows share."""
        return self.theta if self.theta.ndim == 1 else self.theta[rows]

    def baseline(self, y: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return h_0(y): -inf where there can be no mass, +inf at the last class.

        ``rows`` says which row each y belongs to; it is needed where rows have baselines of their own.
        """
        low = max(self.basis.lower_bound, 0.0 if self.positive else -math.inf)
        if self.basis.discrete:
            y = np.floor(y)
        h = np.full(y.shape, -np.inf)
        h[np.isposinf(y)] = np.inf
        inside = np.isfinite(y) & (y > low)
        if isinstance(self.basis, OrdinalBasis):
            last = y >= self.basis.n_parameters
            h[last] = np.inf
            inside &= ~last & (y >= 0)
        theta = self.theta if self.theta.ndim == 1 or rows is None else self.theta[rows[inside]]
        h[inside] = baseline_values(self.basis.rows(y[inside]), theta)
        h[np.isnan(y)] = np.nan
        return h

    def slopes(self, y: Array, rows: NDArray[np.intp]) -> Array:
        """Return the derivative h_0'(y) of these rows, 0 where there is no mass."""
        slope, inside = np.zeros(y.shape), np.isfinite(self.baseline(y, rows))
        if inside.any():
            slope[inside] = baseline_values(self.basis.derivative_rows(y[inside]), self.theta_of(rows[inside]))
        return slope

    def table(self, y: Array, work: Callable[[Array, Array], Array], slopes: bool = False) -> Array:
        """Return work(h, h_0') with y broadcast over the rows; h_0' is computed only if ``slopes``, else it is 0."""
        n = self.moved.size
        check_shape(y, n, "y")
        width = y.shape[1] if y.ndim == 2 else y.size
        out = np.empty((n, width))
        shared = y.ndim < 2 and self.theta.ndim == 1
        table = y.reshape(1, -1) if shared else np.broadcast_to(y if y.ndim == 2 else y.reshape(1, -1), (n, width))
        rows = max(1, CHUNK // max(1, width))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            if start == 0 or not shared:
                own = table if shared else table[part]
                at = np.repeat(np.arange(start, start + own.shape[0]), width)
                base = self.baseline(own.ravel(), at).reshape(own.shape)
                slope = self.slopes(own.ravel(), at).reshape(own.shape) if slopes else np.zeros(own.shape)
            out[part] = work(base + self.moved[part, None], slope)
        return out[:, 0] if y.ndim == 0 else out

    def _inverse_by_row(self, h: Array) -> Array:
        """Return y with h_0(y) = h of shape (n, k), for rows with baselines of their own or of their stratum."""
        out = np.empty(h.shape)
        alone, groups = shared_rows(self.theta, -(-INVERSES // max(1, h.shape[1])))
        for rows in groups:
            out[rows] = self.basis.inverse(self.theta[rows[0]], h[rows])
        size = max(1, CHUNK // 8 // max(1, h.shape[1]))
        for start in range(0, alone.size, size):
            rows = alone[start : start + size]
            theta = np.repeat(self.theta[rows], h.shape[1], axis=0)
            out[rows] = self.basis.inverse(theta, h[rows].ravel()).reshape(rows.size, -1)
        return out

    def inverse(self, h: Array) -> Array:
        """Return y with h_0(y) = h, for h of shape (n,) or (n, k), within the range of the outcome."""
        flat = h.ravel()
        if self.theta.ndim == 1:
            out = self.basis.inverse(self.theta, flat)
        else:
            out = self._inverse_by_row(h if h.ndim == 2 else h[:, None]).ravel()
        low = max(self.basis.lower_bound, 0.0) if self.positive else self.basis.lower_bound
        if self.basis.kind == "count":
            low = 0.0
        np.maximum(out, low, out=out)
        out[np.isnan(flat)] = np.nan
        return out.reshape(h.shape)
