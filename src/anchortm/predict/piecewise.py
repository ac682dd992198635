"""Distributions that are known at some points: F is a straight line between them, with exponential tails beyond.

Quantile regressors give such points, and so do survival curves of other software. Mass that several levels put on one
point is a jump of F.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Rows
from anchortm._util.checks import probabilities, real_numbers
from anchortm.bases import ConstantBasis
from anchortm.exceptions import InputError
from anchortm.predict.protocol import Distribution, as_rows, check_shape, labels_of
from anchortm.predict.restricted import check_times, horizon

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PiecewiseDistribution"]


@dataclass(frozen=True, eq=False)
class PiecewiseDistribution(Distribution):
    """Distributions of one outcome for n rows, each known at m points.

    F is a straight line between the points. Below the first point it is the exponential through the first two points;
    above the last one 1 - F is the exponential through the last two, so that the hazard is constant. Where points
    coincide, F jumps: this outcome has a probability of its own, and no density.

    Therefore ``logpdf`` takes the probability of a window of width ``resolution`` around y, divided by the width. It
    depends on the window and on the points; cdf, quantiles and CRPS do not use the window.

    Attributes
    ----------
    points : array of shape (n, m) or (m,)
        Where F is known, in increasing order; at least 2 points.
    cdf_values : array of shape (n, m) or (m,)
        F at the points.
    scales : array of shape (n, 2), optional
        Scale of the left and of the right tail, 1 over the rate of their decay.
    resolution : float
        Width of the window of the density; with 0 it is the slope of F.

    Examples
    --------
    >>> from anchortm.predict import PiecewiseDistribution
    >>> law = PiecewiseDistribution.from_quantiles([[0.0, 2.0, 3.0], [1.0, 1.0, 4.0]], [0.25, 0.5, 0.75])
    >>> law
    PiecewiseDistribution(2 rows, 3 points)
    >>> law.cdf([1.0, 2.5])
    array([[0.375, 0.625],
           [0.5  , 0.625]])
    >>> law.median()
    array([2., 1.])
    """

    points: Array
    cdf_values: Array
    scales: Array | None = None
    resolution: float = 0.0
    outcome_name: str | None = field(default=None, kw_only=True)
    labels: pd.Index | None = field(default=None, kw_only=True)

    basis: ClassVar[ConstantBasis] = ConstantBasis(False)

    def __post_init__(self) -> None:
        given = [np.atleast_2d(real_numbers(getattr(self, name), name)) for name in ("points", "cdf_values")]
        if not all(own.ndim == 2 for own in given) or given[0].shape[1] != given[1].shape[1]:
            raise InputError(f"points and cdf_values have shapes {given[0].shape} and {given[1].shape}: give m of both")
        points, p = np.broadcast_arrays(*given)
        if points.shape[1] < 2:
            raise InputError(f"give at least 2 points, not {points.shape[1]}")
        if not np.isfinite(points).all() or (np.diff(points, axis=1) < 0.0).any():
            raise InputError("points must be finite and in increasing order in each row: sort them")
        if not ((p >= 0.0) & (p <= 1.0)).all() or (np.diff(p, axis=1) < 0.0).any():
            raise InputError("cdf_values must lie between 0 and 1 and increase in each row: they are values of a cdf")
        if not 0.0 <= self.resolution < np.inf:
            raise InputError(f"resolution must be a finite width of at least 0, not {self.resolution!r}")
        scales = _tail_scales(points, p) if self.scales is None else np.asarray(self.scales, dtype=np.float64)
        if scales.shape != (len(points), 2) or not ((scales >= 0.0) & (scales < np.inf)).all():
            raise InputError(f"scales must be finite numbers of at least 0, of shape ({len(points)}, 2)")
        for name, values in (("points", points), ("cdf_values", p), ("scales", scales)):
            object.__setattr__(self, name, values)

    @classmethod
    def from_quantiles(cls, quantiles: ArrayLike, levels: ArrayLike, resolution: float = 0.0) -> Self:
        """Return the distributions with these quantiles; those that cross are sorted.

        A tail is at least half as wide as the exponential through the outermost quantile and the quartile: two
        outermost quantiles that nearly coincide say little about what lies beyond them.

        Parameters
        ----------
        quantiles : array of shape (n, m)
            A row of quantiles for each distribution.
        levels : array of shape (m,)
            Their levels, increasing, between 0 and 1.
        resolution : float
            Width of the window of the density; tails are at least as wide.
        """
        points, p = np.sort(np.atleast_2d(real_numbers(quantiles, "quantiles")), axis=1), real_numbers(levels, "levels")
        if p.ndim != 1 or p.size < 2 or not ((p > 0.0) & (p < 1.0)).all() or not (np.diff(p) > 0.0).all():
            raise InputError(f"levels must be at least two increasing numbers between 0 and 1, not {levels!r}")
        if points.shape[1:] != p.shape:
            raise InputError(f"quantiles have shape {points.shape}, but there are {p.size} levels: pass a row for each")
        if not np.isfinite(points).all():
            raise InputError("quantiles must be finite, but some are missing or infinite")
        rows, last = np.broadcast_to(p, points.shape), p.size - 1
        low = min(max(1, int(np.searchsorted(p, 0.25))), last)
        high = max(min(last - 1, int(np.searchsorted(p, 0.75, "right")) - 1), 0)
        wider = np.maximum(_tail_scales(points, rows), 0.5 * _tail_scales(points, rows, low, high))
        return cls(points, p, np.maximum(wider, resolution), resolution)

    @classmethod
    def from_survival(
        cls, times: ArrayLike, survival: ArrayLike, resolution: float = 0.0, least_hazard: float = 0.0
    ) -> Self:
        """Return the distributions of times with these survival curves.

        A curve starts at time 0 with 1. Where it stays flat between two steps it falls evenly instead, because events
        between the steps are possible. Beyond the last step the hazard is the mean hazard up to there.

        Parameters
        ----------
        times : array of shape (m,)
            Increasing times.
        survival : array of shape (n, m)
            P(Y > time) of each row.
        resolution : float
            Width of the window of the density.
        least_hazard : float
            Smallest hazard beyond the last step, for curves that hardly fall.
        """
        t, s = real_numbers(times, "times"), np.atleast_2d(real_numbers(survival, "survival"))
        shapes = t.ndim == 1 and s.ndim == 2 and s.shape[1:] == t.shape
        if not shapes or not np.isfinite(t).all() or (np.diff(t) <= 0.0).any():
            raise InputError(
                f"pass increasing times of shape (m,) and survival of shape (n, m), not {t.shape} and {s.shape}"
            )
        if (t < 0.0).any() or not ((s >= -1e-9) & (s <= 1.0 + 1e-9)).all():
            raise InputError("survival must be probabilities between 0 and 1 at times of at least 0")
        later = t > 0.0
        t = np.append(0.0, t[later])
        p = np.hstack([np.zeros((len(s), 1)), np.maximum.accumulate(1.0 - np.clip(s[:, later], 0.0, 1.0), axis=1)])
        points = np.tile(t, (len(s), 1))
        steps = np.diff(p, axis=1, prepend=-1.0) > 0.0
        for i, own in enumerate(steps):  # between steps evenly; the last one ends the curve
            points[i], p[i] = np.minimum(t, t[own][-1]), np.interp(t, t[own], p[i, own])
        last = points[:, -1]
        with np.errstate(divide="ignore", invalid="ignore"):
            hazard = np.where(last > 0.0, -np.log1p(-p[:, -1]) / last, 0.0)
            scale = np.where(p[:, -1] < 1.0, 1.0 / np.maximum(hazard, least_hazard), 0.0)
        if not np.isfinite(scale).all():
            raise InputError("a survival curve never falls: pass least_hazard, a hazard for such rows")
        return cls(points, p, np.column_stack([np.zeros(len(s)), scale]), resolution)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        taken: dict[str, Any] = {
            "points": self.points[rows],
            "cdf_values": self.cdf_values[rows],
            "scales": self._scales[rows],
        }
        return replace(self, **taken, labels=labels_of(self.labels, rows))

    def __repr__(self) -> str:
        return f"PiecewiseDistribution({len(self)} rows, {self.points.shape[1]} points)"

    @property
    def discrete(self) -> bool:
        """Return False: outcomes are numbers, though some may have a probability of their own."""
        return False

    @property
    def _scales(self) -> Array:
        """Return the scales of the tails, which are known once the object is made."""
        assert self.scales is not None  # noqa: S101
        return self.scales

    def _table(self, values: Array, what: str, work: Callable[[Array], Array]) -> Array:
        """Return work(values) with values broadcast over the rows."""
        n = len(self)
        check_shape(values, n, what)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = work(np.broadcast_to(values if values.ndim == 2 else values.reshape(1, -1), (n, _width(values))))
        return found[:, 0] if values.ndim == 0 else found

    def _before(self, grid: Array, values: Array, side: str) -> tuple[NDArray[np.intp], Callable[[Array, int], Array]]:
        """Return how many entries of the grid's rows lie below each value, and a function that takes entries there."""
        compare = np.less_equal if side == "right" else np.less
        columns = [compare(grid, column[:, None]).sum(axis=1) for column in values.T]
        place = np.stack(columns, axis=1) if columns else np.zeros(values.shape, dtype=np.intp)
        last = grid.shape[1] - 1

        def at(entries: Array, back: int) -> Array:
            return np.take_along_axis(entries, np.clip(place - back, 0, last), axis=1)

        return place, at

    def _logs(self, y: Array, upper: bool) -> Array:
        """Return log(1 - F) if ``upper``, else log F, at points of shape (n, k)."""
        points, p, (left, right) = self.points, self.cdf_values, self._scales.T[:, :, None]
        place, at = self._before(points, y, "right")
        a, b, low, high = at(points, 1), at(points, 0), at(p, 1), at(p, 0)
        inside = low + np.where(b > a, (y - a) / np.where(b > a, b - a, 1.0), 0.0) * (high - low)
        below = np.log(p[:, :1]) + np.minimum((y - points[:, :1]) / left, 0.0)
        above = np.log1p(-p[:, -1:]) - np.where(y > points[:, -1:], (y - points[:, -1:]) / right, 0.0)
        first, last = place == 0, place == points.shape[1]
        if upper:
            values = np.where(first, np.log1p(-np.exp(below)), np.where(last, above, np.log1p(-inside)))
        else:
            values = np.where(first, below, np.where(last, np.log1p(-np.exp(above)), np.log(inside)))
        return np.where(np.isnan(y), np.nan, values)

    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""
        return self._table(real_numbers(y, "y"), "y", lambda at: self._logs(at, upper=False))

    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""
        return self._table(real_numbers(y, "y"), "y", lambda at: self._logs(at, upper=True))

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log of P(window around y) / width, or of the slope of F if the resolution is 0."""
        return self._table(real_numbers(y, "y"), "y", self._log_window if self.resolution else self._log_slope)

    def _log_window(self, y: Array) -> Array:
        ends = y - 0.5 * self.resolution, y + 0.5 * self.resolution
        (low, high), (more, less) = ([self._logs(at, upper) for at in ends] for upper in (False, True))
        lower = high < np.log(0.5)  # differences of small numbers keep their digits
        big, small = np.where(lower, high, more), np.where(lower, low, less)
        values = np.where(big > small, big + np.log(-np.expm1(small - big)), -np.inf) - np.log(self.resolution)
        return np.where(np.isnan(y), np.nan, values)

    def _log_slope(self, y: Array) -> Array:
        points, p, (left, right) = self.points, self.cdf_values, self._scales.T[:, :, None]
        place, at = self._before(points, y, "right")
        inside = np.log((at(p, 0) - at(p, 1)) / (at(points, 0) - at(points, 1)))
        below = np.where(p[:, :1] > 0.0, np.log(p[:, :1] / left) + (y - points[:, :1]) / left, -np.inf)
        above = np.where(p[:, -1:] < 1.0, np.log((1.0 - p[:, -1:]) / right) - (y - points[:, -1:]) / right, -np.inf)
        values = np.where(place == 0, below, np.where(place == points.shape[1], above, inside))
        jumps = (np.diff(points) == 0.0) & (np.diff(p) > 0.0)
        atom = ((points[:, None, :-1] == y[:, :, None]) & jumps[:, None]).any(axis=2)
        return np.where(np.isnan(y), np.nan, np.where(atom, np.inf, values))

    def ppf(self, q: ArrayLike) -> Array:
        """Return the smallest y with P(Y <= y) >= q."""
        return self._table(probabilities(q), "q", lambda at: self._quantile(at, 1.0 - at))

    def isf(self, q: ArrayLike) -> Array:
        """Return the y with P(Y > y) = q, exact for tiny q."""
        return self._table(probabilities(q), "q", lambda at: self._quantile(1.0 - at, at))

    def _quantile(self, q: Array, rest: Array) -> Array:
        """Return the quantiles at levels q, whose tail beyond is ``rest``."""
        points, p, (left, right) = self.points, self.cdf_values, self._scales.T[:, :, None]
        place, at = self._before(p, q, "left")
        a, b, low, high = at(points, 1), at(points, 0), at(p, 1), at(p, 0)
        inside = a + np.where(high > low, (q - low) / np.where(high > low, high - low, 1.0), 0.0) * (b - a)
        first, last = p[:, :1], 1.0 - p[:, -1:]
        below = points[:, :1] + np.where((first > 0.0) & (left > 0.0), left * np.log(q / first), 0.0)
        above = points[:, -1:] - np.where((last > 0.0) & (right > 0.0), right * np.log(rest / last), 0.0)
        found = np.where(place == 0, below, np.where((place == points.shape[1]) | (rest < last), above, inside))
        return np.where(np.isnan(q), np.nan, found)

    def mean(self) -> Array:
        """Return the expectations, exactly."""
        points, p, (left, right) = self.points, self.cdf_values, self._scales.T
        inside = (np.diff(p) * 0.5 * (points[:, 1:] + points[:, :-1])).sum(axis=1)
        return np.asarray(inside + p[:, 0] * (points[:, 0] - left) + (1.0 - p[:, -1]) * (points[:, -1] + right))

    def restricted_mean(self, tau: float) -> Array:
        """Return E[min(Y, tau)], the mean time up to tau (RMST), exactly."""
        tau = horizon(tau)
        check_times(self)
        last, right = self.points[:, -1], self._scales[:, 1]
        a, b, low, high = self._cut(np.full((len(self), 1), tau))[0]
        inside = ((b - a) * (1.0 - 0.5 * (low + high))).sum(axis=1)
        tail = (1.0 - self.cdf_values[:, -1]) * right
        with np.errstate(divide="ignore", invalid="ignore"):
            gone = np.where(right > 0.0, -np.expm1(-np.maximum(tau - last, 0.0) / right), 0.0)
        return np.asarray(np.minimum(self.points[:, 0], tau) + inside + tail * gone)

    def _cut(self, y: Array) -> tuple[tuple[Array, Array, Array, Array], tuple[Array, Array, Array, Array]]:
        """Return the segments below y, of shape (n, 1), and those above it: both ends, and F at both ends."""
        a, b, low, high = self.points[:, :-1], self.points[:, 1:], self.cdf_values[:, :-1], self.cdf_values[:, 1:]
        c = np.clip(y, a, b)
        f = low + np.where(b > a, (c - a) / np.where(b > a, b - a, 1.0), 0.0) * (high - low)
        return (a, c, low, f), (c, b, f, high)

    def crps(self, y: Array) -> Array:
        """Return the continuous ranked probability score of one outcome for each row, exactly.

        It is the integral of F^2 below y and of (1 - F)^2 above it.
        """
        y = np.asarray(y, dtype=np.float64)[:, None]
        below, above = self._cut(y)
        above = (above[0], above[1], 1.0 - above[2], 1.0 - above[3])
        inside = sum(((b - a) * (f**2 + f * g + g**2) / 3.0).sum(axis=1) for a, b, f, g in (below, above))
        first, last = self.points[:, 0], self.points[:, -1]
        (left, right), mass = self._scales.T, (self.cdf_values[:, 0], 1.0 - self.cdf_values[:, -1])
        left_tail = _tail_crps(np.maximum(first - y[:, 0], 0.0), mass[0], left)
        return np.asarray(inside + left_tail + _tail_crps(np.maximum(y[:, 0] - last, 0.0), mass[1], right))


def _width(values: Array) -> int:
    return int(values.shape[1] if values.ndim == 2 else values.size)


def _tail_scales(points: Array, p: Array, low: int = 1, high: int = -2) -> Array:
    """Return the scales of both tails: those of exponentials through the outermost points and points inside."""
    with np.errstate(divide="ignore", invalid="ignore"):
        left = (points[:, low] - points[:, 0]) / np.log(p[:, low] / p[:, 0])
        right = (points[:, -1] - points[:, high]) / np.log((1.0 - p[:, high]) / (1.0 - p[:, -1]))
    for name, own, some in (("first", left, p[:, 0] > 0.0), ("last", right, p[:, -1] < 1.0)):
        if not np.isfinite(own[some]).all():
            raise InputError(f"cdf_values of the {name} two points are equal: give scales, or other points")
    return np.column_stack([np.where(p[:, 0] > 0.0, left, 0.0), np.where(p[:, -1] < 1.0, right, 0.0)])


def _tail_crps(distance: Array, mass: Array, scale: Array) -> Array:
    """Return the part of the CRPS in a tail of this mass, for an outcome at this distance outside the last point.

    With G = mass exp(-t / scale) at distance t, it is the integral of (1 - G)^2 up to the outcome and of G^2 beyond.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        there = np.where(scale > 0.0, mass * np.exp(-distance / np.where(scale > 0.0, scale, 1.0)), 0.0)
    near = distance - 2.0 * scale * (mass - there) + 0.5 * scale * (mass**2 - there**2)
    return np.asarray(near + 0.5 * scale * there**2)
