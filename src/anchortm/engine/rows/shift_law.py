"""Averages over a random shift of h: log of the integral of exp(l(h - delta)) over the law of delta.

A new place shifts h by an unknown delta, a positive one towards larger outcomes. Its law is normal, or given by nodes
and weights, such as a posterior distribution. Integrals over a normal law are adaptive: each integrand has nodes of its
own around its largest value (Gauss and Legendre, on both sides of it), so that averages keep their digits in the tails.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from anchortm._typing import Array
from anchortm.exceptions import InputError

__all__ = ["Average", "NodeShift", "NormalShift", "ShiftLaw", "law_from_record"]

#: log-likelihood, its derivative in delta and minus the second one, at shifts of shape (integrals, nodes)
Values = Callable[[Array], tuple[Array, Array, Array]]

WIDE, WIDEST = 12.0, 6.0  # widest single panel, and widest of several: links change within a few units of h
DROP = 45.0  # integrands that have fallen by this much add nothing
EDGES = np.concatenate([[0.0], 0.5 ** np.arange(8.0, -1.0, -1.0)])  # panels of integrands with several peaks
#: nodes and weights on (0, 1): of one panel on each side of a peak (True), and of each of several
GAUSS = {
    alone: (0.5 * (1.0 + x), 0.5 * w)
    for alone, (x, w) in ((own, np.polynomial.legendre.leggauss(48 if own else 32)) for own in (True, False))
}
BLOCK = 128  # nodes in one pass
STEPS, CLOSE = 80, 0.02  # steps of the search for a peak, and when it ends, in widths of the peak
POSTERIOR_DROP = 60.0  # nodes of a posterior reach further, for averages of its tails


class Average(NamedTuple):
    """Averages of exp(l) over a shift.

    Attributes
    ----------
    log : array of shape (n,)
        The logarithms of the averages.
    points : array of shape (n, K)
        Nodes.
    log_shares : array of shape (n, K)
        Logarithms of how much each node contributes; the shares of an average add up to 1. They are the posterior
        distribution of the shift, given what exp(l) is the likelihood of.
    """

    log: Array
    points: Array
    log_shares: Array

    @property
    def shares(self) -> Array:
        """Return how much each node contributes."""
        return np.exp(self.log_shares)


class ShiftLaw(ABC):
    """The law of a random shift delta on the scale of h, where h becomes h - delta."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Return the mean of the shift."""

    @property
    @abstractmethod
    def sd(self) -> float:
        """Return the standard deviation of the shift."""

    @abstractmethod
    def log_moment(self, k: float) -> float:
        """Return log E[exp(k delta)]."""

    @abstractmethod
    def average(self, values: Values, n: int, concave: bool = True, steep: Array | None = None) -> Average:
        """Return n averages of exp(l), where ``values`` gives l at shifts.

        Parameters
        ----------
        values : callable
            Takes shifts of shape (n, K) and returns l, dl / d delta and -d2l / d delta^2 there.
        n : int
        concave : bool
            Whether every l is a concave function of the shift. The likelihood of delayed entries need not be.
        steep : array of shape (n, b), optional
            Shifts between which exp(l) is steep, as the distribution function of large counts is.
        """

    @abstractmethod
    def nodes(self, step: float) -> tuple[Array, Array]:
        """Return nodes and their weights for plain averages of functions that are smooth over ``step``."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the law as plain values."""


@dataclass(frozen=True)
class NormalShift(ShiftLaw):
    """A normal shift; a standard deviation of 0 means that the shift is its mean.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.engine.rows.shift_law import NormalShift
    >>> from anchortm.links import get_link
    >>> h = np.array([-1.0, 0.0, 1.0])
    >>> def values(delta):  # of rows known to lie at or below h
    ...     at = get_link("probit").left(h[:, None] - delta)
    ...     return at.l, at.r, at.dr
    >>> np.exp(NormalShift(0.0, 1.0).average(values, 3).log).round(4)  # Phi(h / sqrt(2))
    array([0.2398, 0.5   , 0.7602])
    """

    mean: float = 0.0
    sd: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0.0 <= self.sd < math.inf):
            raise InputError(
                f"a normal shift needs a finite mean and a finite standard deviation of at least 0, not {self.mean!r} "
                f"and {self.sd!r}"
            )

    def log_moment(self, k: float) -> float:
        return k * self.mean + 0.5 * (k * self.sd) ** 2

    def average(self, values: Values, n: int, concave: bool = True, steep: Array | None = None) -> Average:
        return self._average(values, n, concave, DROP, steep)

    def _average(self, values: Values, n: int, concave: bool, drop: float, steep: Array | None = None) -> Average:
        if self.sd == 0.0 or n == 0:
            points = np.full((n, 1), self.mean)
            return Average(values(points)[0][:, 0], points, np.zeros((n, 1)))
        with np.errstate(all="ignore"):
            peak, curvature = self._peaks(values, self._starts(values, n, concave))
            points, log_widths = self._rule(values, peak, curvature, concave, drop, steep)
            logs = self._logs(values, points) + log_widths
            total = special.logsumexp(logs, axis=1)
            shares = logs - np.where(np.isfinite(total), total, 0.0)[:, None]
        return Average(total, points, shares)

    def given(self, values: Values, concave: bool = True) -> NodeShift:
        """Return the posterior law of one shift, given rows with these values (for one integral)."""
        found = self._average(values, 1, concave, POSTERIOR_DROP)
        if not np.isfinite(found.log[0]):
            raise InputError("these rows are impossible at every shift: check their outcomes")
        return NodeShift(found.points[0], found.log_shares[0])

    def nodes(self, step: float) -> tuple[Array, Array]:
        if self.sd == 0.0:
            return np.array([self.mean]), np.ones(1)
        count = math.ceil(9.5 * self.sd / min(step, self.sd / 6.0))
        x = np.linspace(-9.5, 9.5, 2 * count + 1)
        w = np.exp(-0.5 * x**2)
        return self.mean + self.sd * x, w / w.sum()

    def record(self) -> dict[str, Any]:
        return {"mean": self.mean, "sd": self.sd}

    def _logs(self, values: Values, points: Array) -> Array:
        """Return the logarithms of the integrands, without that of the constant of the normal density."""
        prior = -0.5 * ((points - self.mean) / self.sd) ** 2
        parts = [values(points[:, k : k + BLOCK])[0] for k in range(0, points.shape[1], BLOCK)]
        found = np.hstack(parts) + prior
        return np.where(np.isnan(found), -np.inf, found) - math.log(self.sd) - 0.5 * math.log(2.0 * math.pi)

    def _starts(self, values: Values, n: int, concave: bool) -> Array:
        """Return where the search for the peaks begins: at the mean, or at the best of a few shifts."""
        if concave:
            return np.full(n, self.mean)
        grid = np.broadcast_to(self.mean + self.sd * np.linspace(-9.0, 9.0, 73), (n, 73))
        return np.asarray(grid[0][np.argmax(self._logs(values, grid), axis=1)])

    def _peaks(self, values: Values, start: Array) -> tuple[Array, Array]:
        """Return where the integrands are largest, roughly, and minus their second derivatives there.

        The slope of a concave function changes its sign once: steps that double find where, and Newton's method or
        halving narrow it down.
        """
        precision = self.sd**-2

        def at(delta: Array) -> tuple[Array, Array]:
            _, r, dr = (part[:, 0] for part in values(delta[:, None]))
            slope = np.nan_to_num(r, nan=0.0) - (delta - self.mean) * precision
            return slope, np.maximum(np.nan_to_num(dr, nan=0.0), 0.0) + precision

        peak = start
        slope, curvature = at(peak)
        way, step = np.sign(slope), np.full(peak.size, self.sd)
        inside, outside = peak.copy(), peak + way * step
        for _ in range(STEPS):
            there = at(outside)[0]
            on = there * way > 0.0
            if not on.any():
                break
            inside, step = np.where(on, outside, inside), np.where(on, 2.0 * step, step)
            outside = np.where(on, outside + way * step, outside)
        peak, done = inside, way == 0.0
        slope, curvature = at(peak)
        for _ in range(STEPS):
            newton = peak + slope / curvature
            low, high = np.minimum(inside, outside), np.maximum(inside, outside)
            good = (newton > low) & (newton < high)
            there = np.where(done, peak, np.where(good, newton, 0.5 * (low + high)))
            done = done | (np.abs(there - peak) * np.sqrt(curvature) <= CLOSE)  # then it does not depend on the others
            peak = there
            if done.all():
                break
            slope, now = at(peak)
            curvature = np.where(done, curvature, now)
            ahead = slope * way > 0.0  # the peak is further on
            inside, outside = np.where(ahead, peak, inside), np.where(ahead, outside, peak)
        return peak, curvature

    def _rule(
        self, values: Values, peak: Array, curvature: Array, concave: bool, drop: float, steep: Array | None
    ) -> tuple[Array, Array]:
        """Return nodes on both sides of the peaks, and the logarithms of their weights."""
        furthest = math.sqrt(2.0 * drop) * self.sd
        top = self._logs(values, peak[:, None])[:, 0]
        distances = [
            self._fallen(values, peak, curvature, top, way, drop)
            if concave
            else furthest + np.maximum(way * (self.mean - peak), 0.0)
            for way in (-1.0, 1.0)
        ]
        widest = float(np.max(distances))
        count = 1 if widest <= WIDE else math.ceil(widest / WIDEST)
        places = np.linspace(0.0, 1.0, count + 1) if concave else EDGES
        sides = [peak[:, None] + way * far[:, None] * places for way, far in zip((-1.0, 1.0), distances, strict=True)]
        edges = np.hstack([sides[0][:, :0:-1], sides[1]])
        if steep is not None:
            edges = np.sort(np.hstack([edges, np.clip(steep, edges[:, :1], edges[:, -1:])]), axis=1)
        x, w = GAUSS[edges.shape[1] == 3]
        widths = np.diff(edges, axis=1)[:, :, None]
        points = edges[:, :-1, None] + widths * x
        return points.reshape(peak.size, -1), (np.log(widths) + np.log(w)).reshape(peak.size, -1)

    def _fallen(self, values: Values, peak: Array, curvature: Array, top: Array, way: float, drop: float) -> Array:
        """Return how far from its peak a concave integrand has fallen by ``drop``, or a little more.

        The square root of the fall grows about linearly, and at least as fast as that of the normal density.
        """
        furthest = math.sqrt(2.0 * drop) * self.sd
        distance = np.minimum(np.sqrt(2.0 * drop / curvature), furthest)
        for _ in range(6):
            fall = top - self._logs(values, (peak + way * distance)[:, None])[:, 0]
            factor = np.sqrt((drop + 2.0) / np.maximum(fall, 1e-3))
            off = (fall < drop) | (fall > drop + 8.0)
            distance = np.minimum(np.where(off, distance * np.clip(factor, 0.1, 4.0), distance), furthest)
            if not (off & (distance < furthest)).any():
                break
        fall = top - self._logs(values, (peak + way * distance)[:, None])[:, 0]
        return np.where(fall < drop - 5.0, furthest, distance)


@dataclass(frozen=True, eq=False)
class NodeShift(ShiftLaw):
    """A shift that takes values ``points`` with these log weights, which are brought to add up to 1."""

    points: Array
    log_weights: Array

    def __post_init__(self) -> None:
        points, logs = (np.asarray(own, dtype=np.float64) for own in (self.points, self.log_weights))
        good = points.ndim == 1 and points.shape == logs.shape and points.size > 0 and np.isfinite(points).all()
        if not good or np.isnan(logs).any() or not -math.inf < logs.max() < math.inf:
            raise InputError("a shift needs finite points, and as many log weights, not all of them -inf")
        used = logs > -math.inf
        points, logs = points[used], logs[used]
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "log_weights", logs - special.logsumexp(logs))

    @property
    def weights(self) -> Array:
        """Return the weights of the points."""
        return np.exp(self.log_weights)

    @property
    def mean(self) -> float:
        return float(self.weights @ self.points)

    @property
    def sd(self) -> float:
        return math.sqrt(max(0.0, float(self.weights @ (self.points - self.mean) ** 2)))

    def log_moment(self, k: float) -> float:
        return float(special.logsumexp(self.log_weights + k * self.points))

    def average(self, values: Values, n: int, concave: bool = True, steep: Array | None = None) -> Average:
        points = np.broadcast_to(self.points, (n, self.points.size))
        with np.errstate(all="ignore"):
            found = values(points)[0] + self.log_weights
            logs = np.where(np.isnan(found), -np.inf, found)
            total = special.logsumexp(logs, axis=1)
            return Average(total, points, logs - np.where(np.isfinite(total), total, 0.0)[:, None])

    def nodes(self, step: float) -> tuple[Array, Array]:
        return self.points, self.weights

    def record(self) -> dict[str, Any]:
        return {"points": self.points.tolist(), "log_weights": self.log_weights.tolist()}


def law_from_record(record: dict[str, Any]) -> ShiftLaw:
    """Return the checked law from plain values."""
    try:
        if "points" in record:
            return NodeShift(*(np.array(record[name], dtype=np.float64) for name in ("points", "log_weights")))
        return NormalShift(float(record["mean"]), float(record["sd"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the law of the shift is invalid: {error}") from None
