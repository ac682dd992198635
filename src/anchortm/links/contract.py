"""The contract of a link: a reference distribution F_Z and everything that depends on it.

A transformation model says P(Y <= y | x) = F(h(y | x)). A link gives, on the scale of h, in log space and without
differences of rounded numbers, so that it is right far out in both tails:

* ``log_density`` and its derivatives ``psi``, ``dpsi``, ``d2psi``; ``log_cdf``, ``log_sf``;
* three quantile functions (of p, log p and log(1 - p));
* the values of rows (see ``terms``): log-likelihood, score residual and derivatives of exact, left-, right- or
  interval-censored rows;
* facts about F that the rest of the package asks for: how fast the upper tail falls, moments, the variance, for which
  rows the anchor loss is convex near its minimum, and what exp(coefficient) is called.

All methods are pure and work element by element on float64 arrays. An infinite end means that there is none. An
impossible row (u <= v, or an exact response of density zero) has l = -inf.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array
from anchortm.links.numerics import NEGLIGIBLE, as_array, last_where, panels, quiet
from anchortm.links.terms import OneEnd, TwoEnds, put, put_left, put_right

__all__ = ["Link"]

PANELS = 50  # on each side of the largest value of an integrand
FAR_OUT = -50.0  # log probability of the tails that the variance leaves out


class Link(ABC):
    """A reference distribution with a log-concave density on the real line.

    A new link is one new file: define the abstract methods, and override what has a closed form. The contract test
    in ``tests/links/test_links.py`` then checks every public quantity against 80-digit arithmetic.

    Examples
    --------
    >>> from anchortm.links import LINKS, Link
    >>> all(isinstance(link, Link) for link in LINKS.values())
    True
    >>> [round(float(link.quantile(0.75)), 3) for link in LINKS.values()]
    [0.674, 1.099, 0.327, 1.246]
    """

    __slots__ = ()
    name: ClassVar[str]
    #: Kinds of rows ("exact", "left", "right", "interval") with ``-l'' >= |r''|``, so that the loss is convex where
    #: ``2 xi |P r| <= 1``. Leave it empty if you do not know.
    convex_kinds: ClassVar[frozenset[str]] = frozenset()
    #: Whether log f(z) = -z^2 / 2 - log sqrt(2 pi): residuals of exact rows are z itself, and the loss is quadratic.
    quadratic: ClassVar[bool] = False
    #: Whether f(-z) = f(z).
    symmetric: ClassVar[bool] = False

    @abstractmethod
    def log_density(self, z: ArrayLike) -> Array:
        """Return log f(z)."""

    @abstractmethod
    def psi(self, z: ArrayLike) -> Array:
        """Return the first derivative of log f."""

    @abstractmethod
    def dpsi(self, z: ArrayLike) -> Array:
        """Return the second derivative of log f."""

    @abstractmethod
    def d2psi(self, z: ArrayLike) -> Array:
        """Return the third derivative of log f."""

    @abstractmethod
    def log_cdf(self, z: ArrayLike) -> Array:
        """Return log F(z)."""

    @abstractmethod
    def log_sf(self, z: ArrayLike) -> Array:
        """Return log(1 - F(z))."""

    @abstractmethod
    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        """Return the z with log F(z) = log_p."""

    @abstractmethod
    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        """Return the z with log(1 - F(z)) = log_q."""

    @abstractmethod
    def left(self, u: ArrayLike) -> OneEnd:
        """Return the values of rows known to lie at or below u: l = log F(u)."""

    @abstractmethod
    def right(self, v: ArrayLike) -> OneEnd:
        """Return the values of rows known to lie above v: l = log(1 - F(v))."""

    @abstractmethod
    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        """Return the values of (v, u] for finite one-dimensional ends with d = u - v > 0."""

    def effect_name(self, sign: float) -> str:
        """Return what exp(coefficient) is called in a model with h = h_0 + sign x'beta; "" if it has no name.

        Examples
        --------
        >>> from anchortm.links import LINKS
        >>> [link.effect_name(1.0) for link in LINKS.values()]
        ['', 'odds ratio', 'hazard ratio', '']
        """
        return ""

    def widened_by_normal(self, sd: Array) -> Array | None:
        """Return by how much a normal effect of this standard deviation widens F, or None if it changes its shape.

        If Z + sd N is distributed as s Z, averaging F(h + b) over normal effects b gives F(h / s), and s is returned.
        """
        return None

    @property
    def variance(self) -> float:
        """Return the variance of F; by default it is integrated numerically.

        Examples
        --------
        >>> from anchortm.links import LINKS
        >>> {name: round(link.variance, 3) for name, link in LINKS.items()}
        {'probit': 1.0, 'logit': 3.29, 'cloglog': 1.645, 'loglog': 1.645}
        """
        with quiet():
            ends = self.quantile_from_log_cdf(FAR_OUT), self.quantile_from_log_sf(FAR_OUT)
            z, weights, half = panels(np.linspace(float(ends[0]), float(ends[1]), 2 * PANELS + 1))
            density = np.exp(self.log_density(z))
        mean = float(weights @ (z * density) @ half)
        return float(weights @ ((z - mean) ** 2 * density) @ half)

    @property
    def tail_rate(self) -> float:
        """Return the r of a density that falls like exp(-r z) far out; infinity if it falls faster.

        exp(z / s) has a mean only if r s > 1. By default r is read from psi at survival probabilities of e^-1e5 and
        e^-1e6.
        """
        with quiet():
            near, far = -self.psi(self.quantile_from_log_sf(np.array([-1e5, -1e6])))
        return float(far) if far < 1.01 * near else math.inf

    def log_moment(self, k: float) -> float:
        """Return log E[exp(k Z)] for k > 0; by default it is integrated numerically (Gauss and Legendre)."""
        if self.tail_rate <= k:
            return math.inf

        def g(z: Array) -> Array:
            return np.asarray(self.log_density(z) + k * z)

        with quiet():
            first = self.quantile_from_log_cdf(np.array([-50.0]))
            peak = last_where(lambda z: self.psi(z) + k > 0.0, first)
            top = float(g(peak)[0])
            low = -last_where(lambda z: g(-z) > top - NEGLIGIBLE, -peak)
            high = last_where(lambda z: g(z) > top - NEGLIGIBLE, peak)
            away = np.linspace(0.0, 1.0, PANELS + 1) ** 3  # tails are long where k is nearly too large
            z, weights, half = panels(np.concatenate([peak + (low - peak) * away[:0:-1], peak + (high - peak) * away]))
            return top + math.log(float(weights @ np.exp(g(z) - top) @ half))

    def reach(self, low: Array, slope: float) -> Array:
        """Return, for each z >= low, where the integral of f(z) exp(z / slope) may stop: the rest adds nothing.

        The exponent g = log f + z / slope is concave, with its maximum where psi = -1 / slope. The integral stops
        where g has fallen by ``NEGLIGIBLE``, or at low if that is further out.
        """
        starts, rows = np.unique(low, return_inverse=True)
        with quiet():
            peak = last_where(lambda z: self.psi(z) + 1.0 / slope > 0.0, starts)
            least = self.log_density(peak) + peak / slope - NEGLIGIBLE
            return last_where(lambda z: self.log_density(z) + z / slope > least, peak)[rows]

    def quantile(self, p: ArrayLike) -> Array:
        """Return the z with F(z) = p."""
        p = as_array(p)
        with quiet():
            return np.where(
                p < 0.5,
                self.quantile_from_log_cdf(np.log(p)),
                self.quantile_from_log_sf(np.log1p(-p)),
            )

    def exact(self, z: ArrayLike) -> OneEnd:
        """Return the values of exactly observed rows: l = log f(z)."""
        return OneEnd(self.log_density(z), -self.psi(z), -self.dpsi(z), -self.d2psi(z))

    def either(self, h: Array, below: NDArray[np.bool_]) -> OneEnd:
        """Return the values of rows known to lie at or below h where ``below`` is True, and above h elsewhere."""
        if not self.symmetric:
            return OneEnd(*(np.where(below, a, b) for a, b in zip(self.left(h), self.right(h), strict=True)))
        sign = np.where(below, -1.0, 1.0)
        t = self.right(sign * h)
        return OneEnd(t.l, sign * t.r, t.dr, sign * t.d2r)

    def log_mass(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> Array:
        """Return log(F(u) - F(v)), the log probability of (v, u]; -inf where u <= v. ``width`` as for ``interval``."""
        return self.interval(v, u, width).l

    def interval(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> TwoEnds:
        """Return the values of rows known to lie in (v, u]: l = log(F(u) - F(v)).

        An infinite end gives the values of ``left`` or ``right``; two infinite ends give zeros. ``width`` is u - v
        where the caller knows it better than the difference of rounded ends.
        """
        v, u = np.broadcast_arrays(as_array(v), as_array(u))
        shape = v.shape
        v, u = v.ravel(), u.ravel()
        with quiet(), np.errstate(invalid="ignore"):
            d = u - v if width is None else np.broadcast_to(as_array(width), shape).ravel()
        possible = d > 0.0
        finite = np.isfinite(v) & np.isfinite(u)
        with quiet():
            if finite.all() and possible.all():
                terms = self._interval(v, u, d)
            else:
                terms = TwoEnds(*np.zeros((9, v.size)))
                only_left, only_right = np.isneginf(v) & ~finite, np.isposinf(u) & ~finite
                nothing = only_left & only_right
                put_left(terms, only_left & ~only_right, self.left(u))
                put_right(terms, only_right & ~only_left, self.right(v))
                both = finite & possible
                put(terms, both, self._interval(v[both], u[both], d[both]))
                terms.l[~(possible | nothing | only_left | only_right) | (v == u)] = -np.inf
        return TwoEnds(*(x.reshape(shape) for x in terms))
