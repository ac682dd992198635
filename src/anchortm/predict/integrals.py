"""Integrals over y of powers of F(h_0(y) + moved) and of 1 - F: what means and the CRPS are made of.

Gauss-Legendre quadrature on panels in y (in log y for a basis in log y). Edges of panels are equal steps of h_0, so
that F is smooth on each, places where h_0 changes from polynomial to line, and a few places between. Rows that share a
baseline share their panels, others have their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.bases import Basis, baseline_values
from anchortm.links import Link
from anchortm.predict.along_shift import along_shift
from anchortm.predict.transformation import shared_rows

if TYPE_CHECKING:
    from anchortm.predict.distribution import PredictedDistribution

__all__ = ["Panels", "Tails", "lowest", "means_by_panels", "rows_alike", "rows_by_baseline"]

D = TypeVar("D", bound="PredictedDistribution")

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
STEP = 2.0  # width of a panel in h
LOG_STEP = 8.0  # and in log y, for a basis in log y
FLAT_STEPS = 6  # panels of that width below a flat lower end: what is below them adds nothing
MOST_STEPS = 300  # edges at equal steps of h
TAIL = 1e-18  # probability beyond which F or 1 - F are negligible
NEGLIGIBLE = 1e-20  # nodes with smaller weights do not move a probability
GROUP = 4.0  # rows whose h differs by less than this share panels
VALUES = 400_000  # values of F in one pass
ROWS_OF_THEIR_OWN = 64  # rows with a baseline each in one pass


@dataclass(frozen=True, eq=False)
class Tails:
    """F(z) and 1 - F(z) of each row: those of the link, or averaged over random effects.

    Attributes
    ----------
    link : Link
    nodes : pair of arrays of shape (n, K) or (1, K), or None
        What the random effects add to h at K nodes, and the weights of these, for each row or for all.
    """

    link: Link
    nodes: tuple[Array, Array] | None = None

    def of(self, rows: NDArray[np.intp]) -> Tails:
        """Return those of some rows."""
        if self.nodes is None or self.alike:
            return self
        return Tails(self.link, (self.nodes[0][rows], self.nodes[1][rows]))

    @property
    def alike(self) -> bool:
        """Whether all rows have the same."""
        return self.nodes is None or len(self.nodes[0]) == 1

    def both(self, z: Array) -> tuple[Array, Array]:
        """Return F and 1 - F at z of shape (n, m)."""
        logs = self.link.log_cdf, self.link.log_sf
        if self.nodes is None:
            F, S = (np.exp(log(z)) for log in logs)
        elif not self.alike:
            F, S = (_average(log, self.nodes, z) for log in logs)
        else:
            each = (partial(_average, log, self.nodes) for log in logs)
            F, S = (along_shift(function, z.ravel(), signed=True).reshape(z.shape) for function in each)
        return F, S

    def ends(self, power: int, slope: float, start: float) -> tuple[float, float]:
        """Return between which z integrals of these powers change, where y grows like exp(z / slope).

        ``start`` is the largest z at which outcomes of a row start.
        """
        link = self.link
        low = float(link.quantile(TAIL))
        high = float(link.quantile_from_log_sf(math.log(TAIL) + min(0.0, float(link.log_sf(start)))))
        if math.isfinite(slope):
            high = max(high, float(link.reach(np.array([max(start, 0.0)]), power * slope)[0]))
        if self.nodes is None:
            return low, high
        added, weights = self.nodes
        used = added[weights > 0.0]
        return low - float(used.max()), high - float(used.min())


def _average(log: Callable[[Array], Array], nodes: tuple[Array, Array], z: Array) -> Array:
    """Return the average of exp(log(z)) at z of shape (n, m), or (m,) where all rows have the same nodes."""
    total = np.zeros(z.shape)
    for added, weight in zip(nodes[0].T, nodes[1].T, strict=True):
        if weight.max() > NEGLIGIBLE:
            shape = (1,) if z.ndim == 1 else (-1, 1)
            total += weight.reshape(shape) * np.exp(log(z + added.reshape(shape)))
    return total


@dataclass(frozen=True, eq=False)
class Panels:
    """Panels that cover the outcomes of some rows; the first axis of arrays is the row, of length 1 if they share.

    Attributes
    ----------
    basis : Basis
    theta : array of shape (k,) or (n, k)
    tails : Tails
    power : {1, 2}
    edges : array of shape (1, E) or (n, E)
        Edges of the panels in y, or in log y. In log y the first panel goes on to y = 0, with F as at its edge.
    in_logs : bool
    """

    basis: Basis
    theta: Array
    tails: Tails
    power: int
    edges: Array
    in_logs: bool

    @classmethod
    def cover(
        cls, distribution: PredictedDistribution, moved: Array, tails: Tails, power: int, low: float
    ) -> Panels | None:
        """Return panels for rows, or None if they would be too many or leave the range of doubles."""
        basis, theta = distribution.basis, distribution.theta
        in_logs = basis.lower_bound == 0.0
        slopes = np.array([basis.end_slopes(own) for own in np.atleast_2d(theta)]) if in_logs else np.zeros((0, 2))
        start = max(_start(basis, own, low) for own in np.atleast_2d(theta)) + float(moved.max())
        h = _equal_steps(moved, theta.ndim == 1, slopes, *tails.ends(power, slopes[:, 1].min(initial=math.inf), start))
        if h is None:
            return None
        repeated = theta if theta.ndim == 1 else np.repeat(theta, h.shape[1], axis=0)
        y = np.maximum(basis.inverse(repeated, h.ravel()).reshape(h.shape), low)
        with np.errstate(divide="ignore"):
            x = np.maximum(np.log(y), -700.0) if in_logs else y
        if not np.isfinite(x).all():
            return None
        inner = _places(basis, in_logs)
        if (slopes[:, 0] == 0.0).any():  # F is constant below, down to 0
            inner = np.concatenate([inner[0] - LOG_STEP * np.arange(FLAT_STEPS, 0.0, -1.0), inner])
            x = np.maximum(x, inner[0])
        x = np.sort(np.hstack([x, np.clip(inner, x[:, :1], x[:, -1:])]), axis=1)
        x = np.unique(x)[None, :] if len(x) == 1 else x
        if x.shape[1] < 2 or (in_logs and np.diff(x, axis=1).max() > 2.0 * LOG_STEP):
            return None
        return cls(basis, theta, tails, power, x, in_logs)

    @property
    def y(self) -> Array:
        """Return the edges in y."""
        if not self.in_logs:
            return self.edges
        y = np.exp(self.edges)
        y[:, 0] = 0.0
        return y

    def baseline(self, x: Array) -> Array:
        """Return h_0 at places x of shape (1, m) or (n, m)."""
        rows = self.basis.rows((np.exp(x) if self.in_logs else x).ravel())
        theta = self.theta if self.theta.ndim == 1 else np.repeat(self.theta, x.shape[1], axis=0)
        return baseline_values(rows, theta).reshape(x.shape)

    def sums(self) -> Callable[[Array], tuple[Array, Array]]:
        """Return a function of ``moved`` that gives the integrals over each panel of F^power and of (1 - F)^power."""
        half = 0.5 * np.diff(self.edges, axis=1)
        nodes = (self.edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES
        weights = half[:, :, None] * WEIGHTS
        if self.in_logs:
            weights = weights * np.exp(nodes)
            weights[:, 0, 0] += np.exp(self.edges[:, 0])
        base = self.baseline(nodes.reshape(len(nodes), -1))

        def integrals(moved: Array) -> tuple[Array, Array]:
            found = np.empty((2, moved.size, half.shape[1]))
            rows = max(1, VALUES // base.shape[1])
            for start in range(0, moved.size, rows):
                part = slice(start, start + rows)
                own = part if len(base) > 1 else slice(None)
                tails = self.tails.of(np.arange(moved.size)[part])
                for k, values in enumerate(tails.both(base[own] + moved[part, None])):
                    powers = values if self.power == 1 else values * values
                    powers = powers.reshape(-1, *weights.shape[1:])
                    found[k, part] = np.einsum("npk,npk->np", powers, np.broadcast_to(weights[own], powers.shape))
            return found[0], found[1]

        return integrals

    def means(self, bounded: bool, centre: Array) -> Callable[[Array], Array]:
        """Return a function of ``moved`` that gives E[Y] = c + (integral of 1 - F above c) - (that of F below).

        c is the lower end of outcomes that have one, else a place near the medians, where h_0 is near ``-centre``.
        """
        integrals, y = self.sums(), self.y
        place = np.zeros(len(y), dtype=np.intp)
        if not bounded:
            place = np.argmin(np.abs(self.baseline(self.edges) + centre[:, None]), axis=1)
        start = y[np.arange(len(y)), place]
        above = np.arange(y.shape[1] - 1) >= place[:, None]

        def means(moved: Array) -> Array:
            F, S = integrals(moved)
            return np.asarray(start + np.where(above, S, -F).sum(axis=1))

        return means

    def scores(self) -> Callable[[Array], Array]:
        """Return a function of ``moved`` that gives the CRPS of outcomes at each edge, of shape (n, E)."""
        integrals = self.sums()

        def scores(moved: Array) -> Array:
            F, S = integrals(moved)
            zero = np.zeros((moved.size, 1))
            below = np.hstack([zero, np.cumsum(F, axis=1)])
            return below + np.hstack([np.cumsum(S[:, ::-1], axis=1)[:, ::-1], zero])

        return scores

    def from_edge(self, moved: Array, y: Array, place: NDArray[np.intp]) -> Array:
        """Return the integral of 2 F - 1 from an edge to y, which lies in the panel above it.

        It is how much the CRPS changes, since F^2 - (1 - F)^2 = 2 F - 1.
        """
        out = np.empty(y.size)
        rows = max(1, VALUES // NODES.size // 4)
        for start in range(0, y.size, rows):
            part = slice(start, start + rows)
            each = np.arange(y.size)[part]
            begin = self.edges[each if len(self.edges) > 1 else 0, place[part]]
            end = y[part]
            if self.in_logs:
                end = np.log(np.maximum(end, np.exp(begin)))
            half = 0.5 * (end - begin)[:, None]
            x = begin[:, None] + half * (1.0 + NODES)
            panels = self if self.theta.ndim == 1 else replace(self, theta=self.theta[part])
            F, S = self.tails.of(each).both(panels.baseline(x) + moved[part, None])
            values = (F - S) * (np.exp(x) if self.in_logs else 1.0)
            out[part] = (half * values) @ WEIGHTS
            if self.in_logs:
                out[part] += np.where(place[part] == 0, np.minimum(y[part], np.exp(begin)) * (F - S)[:, 0], 0.0)
        return out


def _equal_steps(moved: Array, shared: bool, slopes: Array, least: float, most: float) -> Array | None:
    """Return equal steps of h_0 between which z = h_0 + moved goes from ``least`` to ``most``, of all rows or of each.

    Return None if they are too many: a flat basis in log y needs small steps.
    """
    first, last = (np.floor(moved.min(keepdims=True)), np.ceil(moved.max(keepdims=True))) if shared else (moved, moved)
    width = most - least + (last - first)
    steps = width.max() * max(1.0 / STEP, 1.0 / slopes[slopes > 0.0].min(initial=math.inf) / LOG_STEP)
    if not steps < MOST_STEPS:
        return None
    return np.asarray((least - last)[:, None] + width[:, None] * np.linspace(0.0, 1.0, math.ceil(steps) + 1))


def _start(basis: Basis, theta: Array, low: float) -> float:
    """Return h_0 at the lower end of outcomes, which is higher than -inf if there is an atom."""
    if basis.lower_bound == 0.0:
        return float(theta[0]) if basis.end_slopes(theta)[0] == 0.0 else -math.inf
    return float(basis.rows([low])[0] @ theta) if low > -math.inf else -math.inf


def _places(basis: Basis, in_logs: bool) -> Array:
    """Return places in y (or log y) where panels end in any case: those of a polynomial lie in its support."""
    support: tuple[float, float] | tuple[()] = getattr(basis, "support", ())
    if not support:
        return np.zeros(0)
    low, high = (math.log(end) for end in support) if in_logs else support
    return low + (high - low) * np.linspace(0.0, 1.0, 2 * basis.n_parameters + 1)


def rows_alike(distribution: PredictedDistribution, alike: bool = True) -> Iterator[NDArray[np.intp]]:
    """Yield rows that share panels, as their h differ little; in blocks where rows are not alike otherwise."""
    n, parts = len(distribution), [np.arange(len(distribution))]
    if distribution.theta.ndim == 1:
        group = np.floor(distribution.transformation.moved / GROUP)
        if n and group.min() != group.max():
            order = np.argsort(group, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    for part in parts:
        size = max(1, n) if alike and distribution.theta.ndim == 1 else ROWS_OF_THEIR_OWN
        yield from (part[start : start + size] for start in range(0, part.size, size))


def rows_by_baseline(distribution: D, least: int) -> Iterator[tuple[Any, D]]:
    """Yield the rows that share a baseline, and their distributions with the one theta that they have.

    Baselines of fewer than ``least`` rows come together, as distributions with a theta for each row.
    """
    if distribution.theta.ndim == 1:
        yield slice(None), distribution
        return
    alone, groups = shared_rows(distribution.theta, least)
    if alone.size:
        yield alone, distribution[alone]
    for rows in groups:
        yield rows, replace(distribution[rows], theta=distribution.theta[rows[0]])


def lowest(distribution: PredictedDistribution) -> float:
    """Return the lower end of the outcomes."""
    return max(distribution.basis.lower_bound, 0.0 if distribution.positive else -math.inf)


def means_by_panels(distribution: PredictedDistribution, otherwise: Callable[[PredictedDistribution], Array]) -> Array:
    """Return the means of continuous outcomes; those of rows that panels do not cover are computed ``otherwise``."""
    moved, low = distribution.transformation.moved, lowest(distribution)
    tails, out = Tails(distribution.link), np.empty(len(distribution))
    for rows in rows_alike(distribution):
        part, at = distribution[rows], moved[rows]
        panels = Panels.cover(part, at, tails, 1, low)
        if panels is None:
            out[rows] = otherwise(part)
            continue
        shared = part.theta.ndim == 1
        centre = 0.5 * (at.min(keepdims=True) + at.max(keepdims=True)) if shared else at
        means = panels.means(low > -math.inf, centre)
        out[rows] = along_shift(means, at, signed=not low > -math.inf) if shared else means(at)
    return out
