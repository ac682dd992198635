"""Reference distributions F_Z and what one row of data contributes under each.

A transformation model says P(Y <= y | x) = F(h(y | x)). Everything a likelihood needs
from F is here, on the scale of h, in log space and without differences of rounded
numbers, so that it is right far out in both tails:

* ``log_density`` and its derivatives ``psi``, ``dpsi``, ``d2psi``; ``log_cdf``, ``log_sf``;
* three quantile functions (of p, log p and log(1 - p));
* the *row terms*: the log-likelihood ``l`` of an exact, left-, right- or interval-censored
  row, its score residual ``r`` (the derivative of ``l`` in alpha at F(h - alpha)), and
  their derivatives in the ends.

Letters: z is h at an exact response, u and v are h at the upper and lower end of an
interval, d = u - v, Delta = F(u) - F(v), p = f(u) / Delta, q = f(v) / Delta and
psi = (log f)'. A row with one end is a function of one number, and r = -l', so ``OneEnd``
is complete with four arrays. For an interval r = -(l_u + l_v) = q - p, and

    -l_uu = r_u + p q,    -l_vv = r_v + p q,    l_uv = p q

so ``TwoEnds`` stores nine arrays, and the three second derivatives of l are sums of
non-negative terms.

All methods are pure and work element by element on float64 arrays. An infinite end
means that there is none. An impossible row (u <= v, or an exact response of density
zero) has l = -inf.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from anchortm.exceptions import InputError

__all__ = [
    "LINKS",
    "Link",
    "Logistic",
    "MaxExtremeValue",
    "MinExtremeValue",
    "Normal",
    "OneEnd",
    "TwoEnds",
    "get_link",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Array = NDArray[np.float64]

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
NOTHING = 45.0  # e^-45 of a largest value counts for nothing
PANELS = 50  # of a moment


class Penalised(NamedTuple):
    """Residuals of the penalty with their derivatives, where they are not the score residuals."""

    r: Array
    dr: Array
    d2r: Array


class OneEnd(NamedTuple):
    """Terms of rows that depend on one number: exact, left- and right-censored.

    ``l`` is the log-likelihood (of an exact row without the term log h'(y)), ``r`` the
    score residual -l', ``dr`` and ``d2r`` its first and second derivative.

    Examples
    --------
    >>> from anchortm.links import get_link
    >>> terms = get_link("logit").right([0.0, 2.0])
    >>> terms.l.round(3), terms.r.round(3)
    (array([-0.693, -2.127]), array([0.5  , 0.881]))
    """

    l: Array  # noqa: E741 - the letter of the paper
    r: Array
    dr: Array
    d2r: Array

    @property
    def penalised(self) -> OneEnd | Penalised:
        """Return what holds the residuals of the penalty as r, dr and d2r: these, unless said otherwise."""
        return self


class OtherPenalised(OneEnd):
    """Terms of rows whose penalty takes other residuals."""

    _other: Penalised

    @classmethod
    def of(cls, terms: OneEnd, other: Penalised) -> OtherPenalised:
        """Return the terms with residuals of their own for the penalty."""
        result = cls(*terms)
        result._other = other
        return result

    @property
    def penalised(self) -> Penalised:
        """Return the residuals of the penalty."""
        return self._other


class TwoEnds(NamedTuple):
    """Terms of interval-censored rows, functions of the upper end u and the lower end v.

    Examples
    --------
    >>> from anchortm.links import get_link
    >>> terms = get_link("logit").interval(-1.0, 1.0)
    >>> float(terms.l.round(3)), float(terms.p.round(3)), float(terms.q.round(3))
    (-0.772, 0.425, 0.425)
    """

    l: Array  # noqa: E741
    p: Array
    q: Array
    r: Array
    r_u: Array
    r_v: Array
    r_uu: Array
    r_uv: Array
    r_vv: Array

    @property
    def l_u(self) -> Array:
        """Return the derivative of l in the upper end, p."""
        return self.p

    @property
    def l_v(self) -> Array:
        """Return the derivative of l in the lower end, -q."""
        return -self.q

    @property
    def l_uu(self) -> Array:
        """Return the second derivative of l in the upper end."""
        return -(self.r_u + self.p * self.q)

    @property
    def l_uv(self) -> Array:
        """Return the mixed derivative of l."""
        return self.p * self.q

    @property
    def l_vv(self) -> Array:
        """Return the second derivative of l in the lower end."""
        return -(self.r_v + self.p * self.q)


def _quiet() -> np.errstate:
    """Let exp reach 0 and inf silently; an invalid operation still speaks up."""
    return np.errstate(over="ignore", under="ignore", divide="ignore")


def _array(x: ArrayLike) -> Array:
    return np.asarray(x, dtype=np.float64)


def log1mexp(x: ArrayLike) -> Array:
    """Return log(1 - exp(-x)) for x >= 0 without cancellation."""
    x = _array(x)
    with _quiet():
        return np.where(x < math.log(2.0), np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def _reflect_one(t: OneEnd) -> OneEnd:
    """Return the terms of z for the distribution of -Z, given those of -z for Z."""
    return OneEnd(t.l, -t.r, t.dr, -t.d2r)


def _reflect_two(t: TwoEnds) -> TwoEnds:
    """Return the terms of (v, u) for the distribution of -Z, given those of (-u, -v) for Z."""
    return TwoEnds(t.l, t.q, t.p, -t.r, t.r_v, t.r_u, -t.r_vv, -t.r_uv, -t.r_uu)


class Link(ABC):
    """A reference distribution with a log-concave density on the real line.

    A new link defines the abstract methods; the contract test in ``tests/links/test_links.py``
    then checks every public quantity against 50-digit arithmetic.

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
        """Return the terms of rows known to lie at or below u: l = log F(u)."""

    @abstractmethod
    def right(self, v: ArrayLike) -> OneEnd:
        """Return the terms of rows known to lie above v: l = log(1 - F(v))."""

    @abstractmethod
    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        """Return the terms of (v, u] for finite one-dimensional ends with d = u - v > 0."""

    def quantile(self, p: ArrayLike) -> Array:
        """Return the z with F(z) = p."""
        p = _array(p)
        with _quiet():
            return np.where(
                p < 0.5,
                self.quantile_from_log_cdf(np.log(p)),
                self.quantile_from_log_sf(np.log1p(-p)),
            )

    @property
    def tail_rate(self) -> float:
        """Return the r of a density that falls like exp(-r z) far out, infinity if it falls faster.

        exp(z / s) has a mean only if r s > 1. Unless a link says better, from psi at survival of e^-1e5 and e^-1e6.
        """
        with _quiet():
            near, far = -self.psi(self.quantile_from_log_sf(np.array([-1e5, -1e6])))
        return float(far) if far < 1.01 * near else math.inf

    def log_moment(self, k: float) -> float:
        """Return log E[exp(k Z)] for k > 0, unless a link says better by Gauss and Legendre."""
        if self.tail_rate <= k:
            return math.inf

        def g(z: Array) -> Array:
            return np.asarray(self.log_density(z) + k * z)

        with _quiet():
            first = self.quantile_from_log_cdf(np.array([-50.0]))
            peak = _last(lambda z: self.psi(z) + k > 0.0, first)
            top = float(g(peak)[0])
            low = -_last(lambda z: g(-z) > top - NOTHING, -peak)
            high = _last(lambda z: g(z) > top - NOTHING, peak)
            away = np.linspace(0.0, 1.0, PANELS + 1) ** 3  # tails are long where k is nearly too large
            edges = np.concatenate([peak + (low - peak) * away[:0:-1], peak + (high - peak) * away])
            nodes, weights = np.polynomial.legendre.leggauss(20)
            half = 0.5 * np.diff(edges)
            z = edges[:-1] + half + half * nodes[:, None]
            return top + math.log(float(weights @ np.exp(g(z) - top) @ half))

    def reach(self, low: Array, slope: float) -> Array:
        """Return for each z >= low the end of the integral of f(z) exp(z / slope), beyond which nothing counts.

        The exponent g = log f + z / slope is concave. It has its maximum where psi = -1 / slope, and what counts
        ends where g is NOTHING below its value there, or at low if that is further out.
        """
        starts, rows = np.unique(low, return_inverse=True)
        with _quiet():
            peak = _last(lambda z: self.psi(z) + 1.0 / slope > 0.0, starts)
            least = self.log_density(peak) + peak / slope - NOTHING
            return _last(lambda z: self.log_density(z) + z / slope > least, peak)[rows]

    def exact(self, z: ArrayLike) -> OneEnd:
        """Return the terms of exactly observed rows: l = log f(z)."""
        return OneEnd(self.log_density(z), -self.psi(z), -self.dpsi(z), -self.d2psi(z))

    def interval(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> TwoEnds:
        """Return the terms of rows known to lie in (v, u]: l = log(F(u) - F(v)).

        An infinite end gives the terms of ``left`` or ``right``; two of them cost nothing.
        ``width`` is u - v where the caller knows it better than the difference of rounded ends.
        """
        v, u = np.broadcast_arrays(_array(v), _array(u))
        shape = v.shape
        v, u = v.ravel(), u.ravel()
        with _quiet(), np.errstate(invalid="ignore"):
            d = u - v if width is None else np.broadcast_to(_array(width), shape).ravel()
        possible = d > 0.0
        finite = np.isfinite(v) & np.isfinite(u)
        with _quiet():
            if finite.all() and possible.all():
                terms = self._interval(v, u, d)
            else:
                terms = TwoEnds(*np.zeros((9, v.size)))
                only_left, only_right = np.isneginf(v) & ~finite, np.isposinf(u) & ~finite
                nothing = only_left & only_right
                _put_left(terms, only_left & ~only_right, self.left(u))
                _put_right(terms, only_right & ~only_left, self.right(v))
                both = finite & possible
                _put(terms, both, self._interval(v[both], u[both], d[both]))
                terms.l[~(possible | nothing | only_left | only_right) | (v == u)] = -np.inf
        return TwoEnds(*(x.reshape(shape) for x in terms))


def _last(holds: Callable[[Array], NDArray[np.bool_]], start: Array) -> Array:
    """Return where something stops to hold on the way up from start, to a relative error of 1e-3, or start."""
    step = np.ones_like(start)
    for _ in range(60):
        on = holds(start + step)
        if not on.any():
            break
        step = np.where(on, 2.0 * step, step)
    inside, outside = np.zeros_like(start), step
    for _ in range(12):
        middle = 0.5 * (inside + outside)
        on = holds(start + middle)
        inside, outside = np.where(on, middle, inside), np.where(on, outside, middle)
    return np.asarray(start + outside)


def _put(into: TwoEnds, mask: NDArray[np.bool_], terms: TwoEnds) -> None:
    for target, value in zip(into, terms, strict=True):
        target[mask] = value


def _put_left(into: TwoEnds, mask: NDArray[np.bool_], t: OneEnd) -> None:
    for target, value in zip((into.l, into.p, into.r, into.r_u, into.r_uu), (t.l, -t.r, t.r, t.dr, t.d2r), strict=True):
        target[mask] = value[mask]


def _put_right(into: TwoEnds, mask: NDArray[np.bool_], t: OneEnd) -> None:
    for target, value in zip((into.l, into.q, into.r, into.r_v, into.r_vv), (t.l, t.r, t.r, t.dr, t.d2r), strict=True):
        target[mask] = value[mask]


@dataclass(frozen=True, slots=True)
class Logistic(Link):
    """The standard logistic distribution, F(z) = 1 / (1 + exp(-z)); effects are log odds ratios.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import Logistic
    >>> np.exp(Logistic().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.269, 0.5  , 0.731])
    """

    name: ClassVar[str] = "logit"

    @property
    def tail_rate(self) -> float:
        return 1.0

    def log_moment(self, k: float) -> float:
        return float(special.gammaln(1.0 + k) + special.gammaln(1.0 - k)) if k < 1.0 else math.inf

    def reach(self, low: Array, slope: float) -> Array:
        return np.asarray(low + NOTHING / (1.0 - 1.0 / slope))

    @staticmethod
    def _parts(z: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Return z, F(z), 1 - F(z) and log(1 + exp(-|z|)) from one exponential."""
        z = _array(z)
        e = np.exp(-np.abs(z))
        large, small = 1.0 / (1.0 + e), e / (1.0 + e)
        return z, np.where(z >= 0, large, small), np.where(z >= 0, small, large), np.log1p(e)

    def log_density(self, z: ArrayLike) -> Array:
        z = np.abs(_array(z))
        with _quiet():
            return -z - 2.0 * np.log1p(np.exp(-z))

    def psi(self, z: ArrayLike) -> Array:
        return -np.tanh(0.5 * _array(z))

    def dpsi(self, z: ArrayLike) -> Array:
        with _quiet():
            _, F, S, _ = self._parts(z)
            return -2.0 * F * S

    def d2psi(self, z: ArrayLike) -> Array:
        return self.dpsi(z) * self.psi(z)

    def log_cdf(self, z: ArrayLike) -> Array:
        return self.log_sf(-_array(z))

    def log_sf(self, z: ArrayLike) -> Array:
        with _quiet():
            return -np.logaddexp(0.0, z)

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        log_p = _array(log_p)
        with _quiet():
            return log_p - log1mexp(-log_p)

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return -self.quantile_from_log_cdf(log_q)

    def exact(self, z: ArrayLike) -> OneEnd:
        with _quiet():
            z, F, S, log1pe = self._parts(z)
            r = np.tanh(0.5 * z)
            dr = 2.0 * F * S
            return OneEnd(-np.abs(z) - 2.0 * log1pe, r, dr, -dr * r)

    def left(self, u: ArrayLike) -> OneEnd:
        return _reflect_one(self.right(-_array(u)))

    def right(self, v: ArrayLike) -> OneEnd:
        with _quiet():
            v, F, S, log1pe = self._parts(v)
            f = F * S
            return OneEnd(-np.maximum(v, 0.0) - log1pe, F, f, -f * np.tanh(0.5 * v))

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        # Delta = F(u) (1 - F(v)) (1 - e^-d), a product: its log is a sum of three
        # non-positive terms. Hence p = f(u) / Delta = 1 - F(u) + 1 / (e^d - 1) and
        # q = F(v) + 1 / (e^d - 1), sums of non-negative terms; r_u = f(u), r_v = f(v).
        _, F_u, S_u, log1pe_u = self._parts(u)
        _, F_v, S_v, log1pe_v = self._parts(v)
        fade, rest = np.exp(-d), -np.expm1(-d)
        inside = fade / rest
        log_rest = np.where(d < math.log(2.0), np.log(rest), np.log1p(-fade))
        # r = F(v) - (1 - F(u)), which cancels near u = -v; as a product it does not.
        s = u + v
        r = np.where(s >= 0, F_u * F_v, -S_u * S_v) * -np.expm1(-np.abs(s))
        f_u, f_v = F_u * S_u, F_v * S_v
        return TwoEnds(
            log_rest + np.minimum(u, 0.0) - log1pe_u - np.maximum(v, 0.0) - log1pe_v,
            S_u + inside,
            F_v + inside,
            r,
            f_u,
            f_v,
            f_u * (S_u - F_u),
            np.zeros_like(r),
            f_v * (S_v - F_v),
        )


_MILLS_SERIES_FROM = 10.0
_DOUBLE_FACTORIALS = np.cumprod(2.0 * np.arange(1, 25) - 1.0)  # (2k - 1)!!, k = 1, 2, ...
_NEAR_TERMS = 22


def _horner(coefficients: Array, t: Array) -> Array:
    """Return the polynomial with these coefficients, constant first."""
    value = np.full_like(t, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * t + c
    return value


class _Mills(NamedTuple):
    """The upper tail of the normal distribution at x, relative to its density there."""

    ratio: Array  # (1 - Phi(x)) / phi(x)
    q: Array  # its inverse, E[Z | Z > x]
    excess: Array  # q - x, without the subtraction
    dq: Array
    d2q: Array


def _mills(x: Array) -> _Mills:
    # q' = q (q - x) and q'' = q ((q - x)(2q - x) - 1). For large x, q - x ~ 1/x and
    # q'' ~ 2/x^3: both would drown in rounding. With t = 1/x^2 and x * ratio = 1 - delta,
    #   delta = t a,   a = sum_k (-1)^(k+1) (2k-1)!! t^(k-1)
    #   q - x = a / (x (1 - delta)),   q' = a / (1 - delta)^2
    #   q'' = (c - a (a + b)) / (x (1 - delta))^3,   with
    #   b = sum_k (-1)^(k+1) (2k+1)!! t^(k-1),   c = sum_k (-1)^(k+1) 2k (2k+1)!! t^(k-1)
    # Below -40 the density is zero in double precision, and so is everything but the ratio.
    ratio = math.sqrt(math.pi / 2.0) * special.erfcx(np.maximum(x, -40.0) / math.sqrt(2.0))
    q = 1.0 / ratio
    excess = q - np.clip(x, -40.0, _MILLS_SERIES_FROM)
    dq, d2q = q * excess, q * (excess * (q + excess) - 1.0)
    far = x > _MILLS_SERIES_FROM
    if far.any():
        big = x[far]
        t = big**-2.0
        odd = _DOUBLE_FACTORIALS
        k = np.arange(1, odd.size)
        sign = np.where(k % 2 == 1, 1.0, -1.0)
        a = _horner(sign * odd[:-1], t)
        b = _horner(sign * odd[1:], t)
        c = _horner(sign * 2.0 * k * odd[1:], t)
        rest = 1.0 - t * a
        q[far] = big / rest
        excess[far] = a / (big * rest)
        dq[far] = a / rest**2
        d2q[far] = (c - a * (a + b)) / (big * rest) ** 3
    return _Mills(ratio, q, excess, dq, d2q)


@dataclass(frozen=True, slots=True)
class Normal(Link):
    """The standard normal distribution; effects are shifts on a latent normal scale.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import Normal
    >>> np.exp(Normal().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.159, 0.5  , 0.841])
    >>> Normal().log_sf(40.0).round(2).item()
    -804.61
    """

    name: ClassVar[str] = "probit"

    @property
    def tail_rate(self) -> float:
        return math.inf

    def log_moment(self, k: float) -> float:
        return 0.5 * k * k

    def reach(self, low: Array, slope: float) -> Array:
        return np.full_like(low, 1.0 / slope + 9.5)

    def log_density(self, z: ArrayLike) -> Array:
        with _quiet():
            return -0.5 * np.square(_array(z)) - LOG_SQRT_2PI

    def psi(self, z: ArrayLike) -> Array:
        return -_array(z)

    def dpsi(self, z: ArrayLike) -> Array:
        return np.full_like(_array(z), -1.0)

    def d2psi(self, z: ArrayLike) -> Array:
        return np.zeros_like(_array(z))

    def log_cdf(self, z: ArrayLike) -> Array:
        return np.asarray(special.log_ndtr(_array(z)))

    def log_sf(self, z: ArrayLike) -> Array:
        return self.log_cdf(-_array(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        return np.asarray(special.ndtri_exp(_array(log_p)))

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return -self.quantile_from_log_cdf(log_q)

    def left(self, u: ArrayLike) -> OneEnd:
        return _reflect_one(self.right(-_array(u)))

    def right(self, v: ArrayLike) -> OneEnd:
        v = _array(v)
        with _quiet():
            tail = _mills(v.ravel())
        q, dq, d2q = (x.reshape(v.shape) for x in (tail.q, tail.dq, tail.d2q))
        return OneEnd(self.log_sf(v), q, dq, d2q)

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        # By symmetry let the midpoint be >= 0; then treat narrow intervals, intervals in
        # the upper tail and intervals around zero by the formulas that suit them.
        flip = u < -v
        v, u = np.where(flip, -u, v), np.where(flip, -v, u)
        near = (d < 1.0) & (0.5 * (u + v) * d < 1.0)
        tail = ~near & (v >= 0)
        terms = TwoEnds(*np.empty((9, v.size)))
        for mask, formula in ((near, self._near), (tail, self._tail), (~near & ~tail, self._around_zero)):
            if mask.any():
                _put(terms, mask, formula(v[mask], u[mask], d[mask]))
        return TwoEnds(*(np.where(flip, turned, x) for x, turned in zip(terms, _reflect_two(terms), strict=True)))

    @staticmethod
    def _near(v: Array, u: Array, d: Array) -> TwoEnds:
        # With m the midpoint, D = d/2 and t = Z - m, the density of t in (-D, D) is
        # proportional to exp(-m t - t^2/2) = sum_n He_n(m) (-t)^n / n!. Its moments
        # M_k = E[(t/D)^k] (unnormalised) are sums of b_n = He_n(m) D^n / n! over n + k + 1;
        # even terms b_n and odd terms c_n = b_n / D follow from He_(n+1) = m He_n - n He_(n-1).
        D, m = 0.5 * d, 0.5 * (u + v)
        DD = D * D
        even, odd = np.ones_like(D), m.copy()
        M0, M2 = even.copy(), even / 3.0
        T1, T3 = -odd / 3.0, -odd / 5.0
        for n in range(2, _NEAR_TERMS, 2):
            even = DD * (m * odd - even) / n
            odd = (m * even - DD * odd) / (n + 1)
            M0 += even / (n + 1)
            M2 += even / (n + 3)
            T1 -= odd / (n + 3)
            T3 -= odd / (n + 5)
        M2, T1, T3 = M2 / M0, T1 / M0, T3 / M0
        # E[t] = D^2 T1, Var t = D^2 V, third central moment D^4 K; p d and q d stay finite.
        tilt = D * T1
        V = M2 - tilt**2
        K = T3 - 3.0 * T1 * M2 + 2.0 * DD * T1**3
        pd, qd = np.exp(-D * (m + 0.5 * D)) / M0, np.exp(D * (m - 0.5 * D)) / M0
        r_uv = -0.5 * pd * qd * T1
        # d/dm twice gives r_uu + 2 r_uv + r_vv = E[(t - E t)^3]; d/dD of 1 - Var t gives
        # r_uu - r_vv. Neither cancels, however narrow the interval.
        total = DD**2 * K - 2.0 * r_uv
        difference = -0.5 * D * (pd * ((1.0 - tilt) ** 2 - V) + qd * ((1.0 + tilt) ** 2 - V))
        return TwoEnds(
            -0.5 * m**2 - LOG_SQRT_2PI + np.log(2.0 * D * M0),
            pd / (2.0 * D),
            qd / (2.0 * D),
            m + DD * T1,
            0.5 * pd * (1.0 - tilt),
            0.5 * qd * (1.0 + tilt),
            0.5 * (total + difference),
            r_uv,
            0.5 * (total - difference),
        )

    @staticmethod
    def _tail(v: Array, u: Array, d: Array) -> TwoEnds:
        # Delta = phi(v) B with B = M(v) - e^-s M(u), M the Mills ratio, s = (u^2 - v^2)/2 >= 1/2.
        # r - v = E[Z - v] = (M(v) e(v) - e^-s M(u) (e(u) + d)) / B, e the Mills excess.
        s = 0.5 * d * (u + v)
        lower, upper = _mills(v), _mills(u)
        fade = np.exp(-s)
        B = lower.ratio - fade * upper.ratio
        q = 1.0 / B
        above = (lower.ratio * lower.excess - fade * upper.ratio * (upper.excess + d)) * q
        terms = Normal._from_distances(v, u, -0.5 * v**2 - LOG_SQRT_2PI + np.log(B), q, above, d - above)
        # Where the upper end no longer counts, the right-censored form has no cancellation.
        return terms._replace(r_vv=np.where(s > 45.0, lower.d2q, terms.r_vv))

    @staticmethod
    def _around_zero(v: Array, u: Array, d: Array) -> TwoEnds:
        # v < 0 < u: Delta is a sum of two positive numbers, and 1 - Delta another one.
        inside = 0.5 * (special.erf(u / math.sqrt(2.0)) + special.erf(-v / math.sqrt(2.0)))
        outside = special.ndtr(v) + special.ndtr(-u)
        log_delta = np.where(inside < 0.5, np.log(inside), np.log1p(-outside))
        q = np.exp(-0.5 * v**2 - LOG_SQRT_2PI) / inside
        r = -q * np.expm1(-0.5 * d * (u + v))
        return Normal._from_distances(v, u, log_delta, q, r - v, u - r)

    @staticmethod
    def _from_distances(v: Array, u: Array, log_delta: Array, q: Array, above: Array, below: Array) -> TwoEnds:
        """Return the terms from log Delta, q and the distances above = r - v, below = u - r."""
        s = 0.5 * (u - v) * (u + v)
        p = q * np.exp(-s)
        return TwoEnds(
            log_delta,
            p,
            q,
            -q * np.expm1(-s),
            p * below,
            q * above,
            p * (1.0 - below * (u + 2.0 * p)),
            p * q * (below - above),
            q * (above * (2.0 * q - v) - 1.0),
        )


# k(w) = w / (e^w - 1) = 1 - w/2 + sum_n c_n w^2n, c_n = B_2n / (2n)!
_N = np.arange(1, 14)
_BERNOULLI = np.where(_N % 2 == 1, 2.0, -2.0) * special.zeta(2.0 * _N) / (2.0 * np.pi) ** (2 * _N)


def _k(w: Array) -> tuple[Array, Array, Array]:
    """Return k(w) = w / (e^w - 1) and its first two derivatives, for finite w >= 0."""
    e = np.exp(-w)
    rest = -np.expm1(-w)
    small = w < 1.0
    x = np.where(small, w, 0.0)
    y = np.where(small, 1.0, w)  # keeps the closed forms away from 0 / 0
    ey, resty = np.where(small, 0.5, e), np.where(small, 0.5, rest)
    k0 = np.where(w > 0, w * e / np.where(w > 0, rest, 1.0), 1.0)
    k1 = np.where(
        small,
        -0.5 + x * _horner(2.0 * _N * _BERNOULLI, x * x),
        ey * (resty - y) / resty**2,
    )
    k2 = np.where(
        small,
        _horner(2.0 * _N * (2.0 * _N - 1.0) * _BERNOULLI, x * x),
        ey * (y * (1.0 + ey) - 2.0 * resty) / resty**3,
    )
    return k0, k1, k2


@dataclass(frozen=True, slots=True)
class MinExtremeValue(Link):
    """The minimum extreme value (Gompertz) distribution, F(z) = 1 - exp(-exp(z)).

    Effects are log hazard ratios: exp(h) is the cumulative hazard.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import MinExtremeValue
    >>> np.exp(MinExtremeValue().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.308, 0.632, 0.934])
    """

    name: ClassVar[str] = "cloglog"

    @property
    def tail_rate(self) -> float:
        return math.inf

    def log_moment(self, k: float) -> float:
        return float(special.gammaln(1.0 + k))

    def reach(self, low: Array, slope: float) -> Array:
        return np.full_like(low, math.log(2.0 / slope + 60.0))

    def log_density(self, z: ArrayLike) -> Array:
        z = _array(z)
        with _quiet():
            return np.where(np.isposinf(z), -np.inf, np.where(np.isposinf(z), 0.0, z) - np.exp(z))

    def psi(self, z: ArrayLike) -> Array:
        with _quiet():
            return -np.expm1(_array(z))

    def dpsi(self, z: ArrayLike) -> Array:
        with _quiet():
            return -np.exp(_array(z))

    def d2psi(self, z: ArrayLike) -> Array:
        return self.dpsi(z)

    def log_cdf(self, z: ArrayLike) -> Array:
        z = _array(z)
        with _quiet():
            w = np.exp(z)
            # log(1 - e^-w) = log w - w/2 + O(w^2), also where w itself underflows
            return np.where(w < 1e-8, z - 0.5 * np.minimum(w, 1.0), log1mexp(w))

    def log_sf(self, z: ArrayLike) -> Array:
        with _quiet():
            return -np.exp(_array(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        log_p = _array(log_p)
        with _quiet():
            # log(-log(1 - p)) = log p + p/2 + O(p^2)
            return np.where(log_p < -37.0, log_p, np.log(-log1mexp(-log_p)))

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        with _quiet():
            return np.log(-_array(log_q))

    def exact(self, z: ArrayLike) -> OneEnd:
        z = _array(z)
        with _quiet():
            w = np.exp(z)
            return OneEnd(np.where(np.isinf(w), -np.inf, z - w), np.expm1(z), w, w)

    def left(self, u: ArrayLike) -> OneEnd:
        u = _array(u)
        with _quiet():
            w = np.exp(np.minimum(u, 700.0))  # e^-w is zero long before
            k0, k1, k2 = _k(w)
            return OneEnd(self.log_cdf(u), -k0, -k1 * w, -(k2 * w + k1) * w)

    def right(self, v: ArrayLike) -> OneEnd:
        with _quiet():
            w = np.exp(_array(v))
            return OneEnd(-w, w, w, w)

    def interval(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> TwoEnds:
        u = _array(u)
        return Link.interval(self, v, np.where(u > 700.0, np.inf, u), width)  # 1 - F(u) is zero there

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        # Delta = exp(-e^v) (1 - e^-w) with w = e^u - e^v; everything follows from k(w).
        ev, eu = np.exp(v), np.exp(u)
        share = -np.expm1(-d)  # w / e^u
        w = eu * share
        k0, k1, k2 = _k(w)
        log_rest = np.where(w < 1e-8, u + log1mexp(d) - 0.5 * w, log1mexp(w))
        grow = k2 * eu
        return TwoEnds(
            log_rest - ev,
            k0 / share,
            np.where(w < 1.0, (k0 + w) / np.expm1(d), ev / np.where(w < 1.0, 1.0, -np.expm1(-w))),
            ev - k0,
            -k1 * eu,
            ev * (1.0 + k1),
            -(grow + k1) * eu,
            grow * ev,
            ev * (1.0 + k1 - k2 * ev),
        )


@dataclass(frozen=True, slots=True)
class MaxExtremeValue(Link):
    """The maximum extreme value (Gumbel) distribution, F(z) = exp(-exp(-z)).

    The mirror image of ``MinExtremeValue``; effects are log ratios of reverse-time hazards.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import MaxExtremeValue
    >>> np.exp(MaxExtremeValue().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.066, 0.368, 0.692])
    """

    name: ClassVar[str] = "loglog"

    @property
    def tail_rate(self) -> float:
        return 1.0

    def log_moment(self, k: float) -> float:
        return float(special.gammaln(1.0 - k)) if k < 1.0 else math.inf

    def reach(self, low: Array, slope: float) -> Array:
        return np.asarray(low + NOTHING / (1.0 - 1.0 / slope))

    def log_density(self, z: ArrayLike) -> Array:
        return _MIRROR.log_density(-_array(z))

    def psi(self, z: ArrayLike) -> Array:
        return -_MIRROR.psi(-_array(z))

    def dpsi(self, z: ArrayLike) -> Array:
        return _MIRROR.dpsi(-_array(z))

    def d2psi(self, z: ArrayLike) -> Array:
        return -_MIRROR.d2psi(-_array(z))

    def log_cdf(self, z: ArrayLike) -> Array:
        return _MIRROR.log_sf(-_array(z))

    def log_sf(self, z: ArrayLike) -> Array:
        return _MIRROR.log_cdf(-_array(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        return -_MIRROR.quantile_from_log_sf(log_p)

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return -_MIRROR.quantile_from_log_cdf(log_q)

    def exact(self, z: ArrayLike) -> OneEnd:
        return _reflect_one(_MIRROR.exact(-_array(z)))

    def left(self, u: ArrayLike) -> OneEnd:
        return _reflect_one(_MIRROR.right(-_array(u)))

    def right(self, v: ArrayLike) -> OneEnd:
        return _reflect_one(_MIRROR.left(-_array(v)))

    def interval(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> TwoEnds:
        return _reflect_two(_MIRROR.interval(-_array(u), -_array(v), width))

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        return _reflect_two(_MIRROR._interval(-u, -v, d))


_MIRROR = MinExtremeValue()

#: The four links by name: ``probit``, ``logit``, ``cloglog`` and ``loglog``.
LINKS: dict[str, Link] = {link.name: link for link in (Normal(), Logistic(), MinExtremeValue(), MaxExtremeValue())}


def get_link(link: str | Link) -> Link:
    """Return the link of this name; a link is returned as it is.

    Examples
    --------
    >>> from anchortm.links import get_link
    >>> get_link("cloglog")
    MinExtremeValue()
    """
    if isinstance(link, Link):
        return link
    try:
        return LINKS[link]
    except (KeyError, TypeError):
        raise InputError(f"unknown link {link!r}; choose one of {', '.join(LINKS)}, or pass a Link") from None
