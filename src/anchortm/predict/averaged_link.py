"""Links averaged over a random shift: F_G(h), the integral of F(h - delta) over the law G of delta.

A model whose places differ by a random shift is, for one row of a new place, a transformation model with this link. So
its predicted distributions need nothing of their own: quantiles, means and scores follow from the link.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm.engine.rows.shift_law import Average, NormalShift, ShiftLaw
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedRows
from anchortm.links import Link, OneEnd, TwoEnds, log1mexp
from anchortm.predict.along_shift import along_shift

__all__ = ["AveragedLink", "WidenedLink", "averaged_link", "row_averages"]

STEPS, CLOSE = 200, 1e-13  # iterations of the search for quantiles, and when it ends
NARROW = 1e-3  # intervals with a smaller share of the tail are integrated, others are differences


def averaged_link(link: Link, law: ShiftLaw) -> Link:
    """Return the link averaged over a shift, in closed form where there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.engine.rows.shift_law import NormalShift
    >>> from anchortm.links import get_link
    >>> from anchortm.predict.averaged_link import averaged_link
    >>> link = averaged_link(get_link("logit"), NormalShift(0.0, 2.0))
    >>> np.exp(link.log_cdf([-2.0, 0.0, 2.0])).round(4), link.quantile(0.75).round(4).item()
    (array([0.2248, 0.5   , 0.7752]), 1.7827)
    """
    if law.sd == 0.0:
        return link if law.mean == 0.0 else WidenedLink(link, law.mean, 1.0)
    if isinstance(law, NormalShift):
        size = link.widened_by_normal(np.array([law.sd]))
        if size is not None:
            return WidenedLink(link, law.mean, float(size[0]))
    return AveragedLink(link, law)


def row_averages(rows: ShiftedRows, law: ShiftLaw) -> Array:
    """Return the log of the average of exp(l) over the shift, row by row.

    Rows of a transformation model without delayed entry have their likelihood under the averaged link, which many rows
    interpolate.
    """
    if not isinstance(rows, ShiftedEnds) or not rows.concave:
        return rows.averages(law)[0]
    link, logs = averaged_link(rows.link, law), np.zeros(rows.n_rows)
    for part in rows.ends.parts:
        with np.errstate(divide="ignore"):
            match part.kind:
                case "exact":
                    logs[part.rows] = link.log_density(part.h) + np.log(part.other)
                case "left":
                    logs[part.rows] = link.log_cdf(part.h)
                case "right":
                    logs[part.rows] = link.log_sf(part.h)
                case "interval":
                    logs[part.rows] = link.log_mass(part.h - part.other, part.h, part.other)
    return logs


@dataclass(frozen=True, eq=False)
class WidenedLink(Link):
    """A link that is moved and widened: F((z - centre) / size).

    Attributes
    ----------
    link : Link
    centre : float
    size : float
    """

    link: Link
    centre: float
    size: float

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"averaged {self.link.name}"

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.link.symmetric and self.centre == 0.0

    @property
    def variance(self) -> float:
        return self.size**2 * self.link.variance

    @property
    def tail_rate(self) -> float:
        return self.link.tail_rate / self.size

    def log_moment(self, k: float) -> float:
        return k * self.centre + self.link.log_moment(k * self.size)

    def _at(self, z: ArrayLike) -> Array:
        return (np.asarray(z, dtype=np.float64) - self.centre) / self.size

    def log_density(self, z: ArrayLike) -> Array:
        return self.link.log_density(self._at(z)) - math.log(self.size)

    def psi(self, z: ArrayLike) -> Array:
        return self.link.psi(self._at(z)) / self.size

    def dpsi(self, z: ArrayLike) -> Array:
        return self.link.dpsi(self._at(z)) / self.size**2

    def d2psi(self, z: ArrayLike) -> Array:
        return self.link.d2psi(self._at(z)) / self.size**3

    def log_cdf(self, z: ArrayLike) -> Array:
        return self.link.log_cdf(self._at(z))

    def log_sf(self, z: ArrayLike) -> Array:
        return self.link.log_sf(self._at(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        return self.centre + self.size * self.link.quantile_from_log_cdf(log_p)

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return self.centre + self.size * self.link.quantile_from_log_sf(log_q)

    def left(self, u: ArrayLike) -> OneEnd:
        return self._scaled(self.link.left(self._at(u)))

    def right(self, v: ArrayLike) -> OneEnd:
        return self._scaled(self.link.right(self._at(v)))

    def _scaled(self, t: OneEnd) -> OneEnd:
        return OneEnd(t.l, t.r / self.size, t.dr / self.size**2, t.d2r / self.size**3)

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        t, s = self.link.interval(self._at(v), self._at(u), d / self.size), self.size
        first, second = (x / s for x in (t.p, t.q, t.r)), (x / s**2 for x in (t.r_u, t.r_v))
        return TwoEnds(t.l, *first, *second, *(x / s**3 for x in (t.r_uu, t.r_uv, t.r_vv)))


@dataclass(frozen=True, eq=False)
class AveragedLink(Link):
    """A link averaged over a shift: the distribution of Z + delta, where Z has the distribution of the link.

    Derivatives follow from the posterior distribution of the shift: that of an average of exp(l) is the mean of l',
    and the second one the mean of l'' plus the variance of l'.

    Attributes
    ----------
    link : Link
    law : ShiftLaw
    """

    link: Link
    law: ShiftLaw

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"averaged {self.link.name}"

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.link.symmetric and isinstance(self.law, NormalShift) and self.law.mean == 0.0

    @property
    def variance(self) -> float:
        return self.link.variance + self.law.sd**2

    @property
    def tail_rate(self) -> float:
        return self.link.tail_rate  # a normal shift has lighter tails than exp(-r z)

    def log_moment(self, k: float) -> float:
        return self.link.log_moment(k) + self.law.log_moment(k)

    def _average(self, kind: Callable[[ArrayLike], OneEnd], z: Array) -> Average:
        """Return the averages of rows of a kind, at a vector of finite z."""

        def values(delta: Array) -> tuple[Array, Array, Array]:
            at = kind(z[:, None] - delta)
            return at.l, at.r, at.dr

        return self.law.average(values, z.size)

    def _log(self, kind: Callable[[ArrayLike], OneEnd], z: ArrayLike) -> Array:
        """Return the log averages at z of any shape; those at infinity are limits."""
        z = np.asarray(z, dtype=np.float64)
        flat, out = z.ravel(), np.empty(z.size)
        finite = np.isfinite(flat)
        with np.errstate(all="ignore"):
            out[~finite] = kind(flat[~finite]).l
        out[finite] = along_shift(lambda at: self._average(kind, at).log, flat[finite])
        return out.reshape(z.shape)

    @property
    def _middle(self) -> float:
        return float(self.link.quantile(0.5)) + self.law.mean

    def _tails(self, z: ArrayLike, below: bool) -> Array:
        """Return log F_G or log(1 - F_G): the smaller of the two is integrated, the other one follows from it."""
        z = np.asarray(z, dtype=np.float64)
        flat = z.ravel()
        own = flat <= self._middle if below else flat > self._middle
        first, second = (self.link.left, self.link.right) if below else (self.link.right, self.link.left)
        out = np.full(flat.shape, np.nan)
        out[own] = np.minimum(self._log(first, flat[own]), 0.0)
        other = ~own & ~np.isnan(flat)
        out[other] = log1mexp(np.maximum(-self._log(second, flat[other]), 0.0))
        return out.reshape(z.shape)

    def log_density(self, z: ArrayLike) -> Array:
        return self._log(self.link.exact, z)

    def log_cdf(self, z: ArrayLike) -> Array:
        return self._tails(z, True)

    def log_sf(self, z: ArrayLike) -> Array:
        return self._tails(z, False)

    def psi(self, z: ArrayLike) -> Array:
        return -self.exact(z).r

    def dpsi(self, z: ArrayLike) -> Array:
        return -self.exact(z).dr

    def d2psi(self, z: ArrayLike) -> Array:
        return -self.exact(z).d2r

    def exact(self, z: ArrayLike) -> OneEnd:
        return self._one_end(self.link.exact, z)

    def left(self, u: ArrayLike) -> OneEnd:
        return self._one_end(self.link.left, u)._replace(l=self.log_cdf(u))

    def right(self, v: ArrayLike) -> OneEnd:
        return self._one_end(self.link.right, v)._replace(l=self.log_sf(v))

    def _one_end(self, kind: Callable[[ArrayLike], OneEnd], z: ArrayLike) -> OneEnd:
        z = np.asarray(z, dtype=np.float64)
        flat = z.ravel()
        with np.errstate(all="ignore"):
            found = self._average(kind, flat)
            t = kind(flat[:, None] - found.points)
            mean, covariance = partial(_mean, found.shares), partial(_covariance, found.shares)
            second = mean(t.dr) - covariance(t.r, t.r)
            third = mean(t.d2r) - 3.0 * covariance(t.r, t.dr) + _third(found.shares, t.r, t.r, t.r)
        return OneEnd(*(x.reshape(z.shape) for x in (found.log, mean(t.r), second, third)))

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        def at(delta: Array) -> TwoEnds:
            return self.link.interval(v[:, None] - delta, u[:, None] - delta, np.broadcast_to(d[:, None], delta.shape))

        def values(delta: Array) -> tuple[Array, Array, Array]:
            t = at(delta)
            return t.l, t.r, t.dr

        found = self.law.average(values, v.size)
        with np.errstate(all="ignore"):
            t = at(found.points)
            mean, cov = partial(_mean, found.shares), partial(_covariance, found.shares)
            third = partial(_third, found.shares, t.r)
            p, q = t.l_u, t.l_v
            return TwoEnds(
                found.log,
                mean(t.p),
                mean(t.q),
                mean(t.r),
                mean(t.r_u) + cov(t.r, p),
                mean(t.r_v) + cov(t.r, q),
                mean(t.r_uu) + 2.0 * cov(t.r_u, p) + cov(t.r, t.l_uu) + third(p, p),
                mean(t.r_uv) + cov(t.r_u, q) + cov(t.r_v, p) + cov(t.r, t.l_uv) + third(p, q),
                mean(t.r_vv) + 2.0 * cov(t.r_v, q) + cov(t.r, t.l_vv) + third(q, q),
            )

    def log_mass(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> Array:
        """Return log(F_G(u) - F_G(v)): a difference, or an integral where that would lose digits."""
        v, u = np.broadcast_arrays(np.asarray(v, dtype=np.float64), np.asarray(u, dtype=np.float64))
        with np.errstate(all="ignore"):
            upper = v > self._middle
            large = np.where(upper, self.log_sf(v), self.log_cdf(u))
            gap = large - np.where(upper, self.log_sf(u), self.log_cdf(v))
            possible = (u - v if width is None else np.broadcast_to(width, u.shape)) > 0.0
            out = np.where(possible, large + log1mexp(np.maximum(gap, 0.0)), -np.inf)
        narrow = possible & ~(gap > NARROW)
        if narrow.any():
            wide = None if width is None else np.broadcast_to(width, u.shape)[narrow]
            out[narrow] = self.interval(v[narrow], u[narrow], wide).l
        return np.where(np.isnan(v) | np.isnan(u), np.nan, out)

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        return self._quantile(np.asarray(log_p, dtype=np.float64), True)

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return self._quantile(np.asarray(log_q, dtype=np.float64), False)

    def _quantile(self, log_p: Array, below: bool) -> Array:
        """Return the z with this log probability below it, or above it; from the smaller of the two tails."""
        with np.errstate(all="ignore"):
            other = log1mexp(-log_p)
        in_own = log_p <= other
        smaller = np.where(in_own, log_p, other)
        lower = in_own if below else ~in_own
        out = np.empty(log_p.shape)
        for mask, is_below in ((lower, True), (~lower, False)):
            if mask.any():
                out[mask] = self._solve(smaller[mask], is_below)
        out[np.isnan(log_p)] = np.nan
        return out

    def _solve(self, target: Array, below: bool) -> Array:
        """Return where a tail has this log probability, by Newton's method; log tails are concave."""
        tail, sign = (self.log_cdf, 1.0) if below else (self.log_sf, -1.0)
        quantile: Any = self.link.quantile_from_log_cdf if below else self.link.quantile_from_log_sf
        values, rows = np.unique(target, return_inverse=True)
        found = np.asarray(quantile(values), dtype=np.float64)  # infinite where the probability is 0
        open_ = np.flatnonzero(np.isfinite(found))
        z, goal = found[open_] + self.law.mean, values[open_]
        low, high, done = np.full(z.size, -np.inf), np.full(z.size, np.inf), np.zeros(z.size, dtype=bool)
        for _ in range(STEPS):
            with np.errstate(all="ignore"):
                log = tail(z)
                gap = sign * (log - goal)  # positive above the quantile
                low, high = np.where(gap <= 0.0, z, low), np.where(gap >= 0.0, z, high)
                newton = z - gap * np.exp(log - self.log_density(z))
                there = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
                there = np.where(np.isfinite(there), there, z - np.sign(gap) * (1.0 + np.abs(z)))
                there = np.where(done, z, there)
                done = ~(np.abs(there - z) > CLOSE * (1.0 + np.abs(z)))
            z = there
            if done.all():
                break
        found[open_] = z
        return found[rows].reshape(target.shape)


def _mean(shares: Array, values: Array) -> Array:
    """Return the means of values at nodes with these shares; nodes without a share do not count."""
    return np.asarray(np.where(shares > 0.0, shares * values, 0.0).sum(axis=1))


def _away(shares: Array, values: Array) -> Array:
    return values - _mean(shares, values)[:, None]


def _covariance(shares: Array, a: Array, b: Array) -> Array:
    return _mean(shares, _away(shares, a) * _away(shares, b))


def _third(shares: Array, a: Array, b: Array, c: Array) -> Array:
    """Return the third joint cumulants."""
    return _mean(shares, _away(shares, a) * _away(shares, b) * _away(shares, c))
