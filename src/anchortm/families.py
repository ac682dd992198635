"""Families of generalised linear models: what a row with outcome y says about its linear predictor eta.

A row is one number eta and its outcome, so that its terms are those of a row with one end
(``links.OneEnd``): l, the score residual r = -dl/deta and its derivatives, at dispersion 1. Binary rows
are a mixture of left- and right-censored ones, y log F(eta) + (m - y) log(1 - F(eta)), and so are negative
binomial ones with a log link (F logistic at eta + log alpha, m - y replaced by 1 / alpha): they come
from ``links``, right far out in both tails.

Deviance residuals D = sign(y - mu) sqrt(2 (l_sat - l)) are 0 / 0 in their derivatives where y = mu. With
delta = mu - y and K(u) = 2 (u - log(1 + u)) / u^2 all families have D = -delta sqrt(Q), where

    Q = K(delta / y) / y                                    Poisson
    Q = K(delta / y) / y + K(-delta / (m - y)) / (m - y)    binomial
    Q = K(delta / y) / y - K(delta / (y + k)) / (y + k)     negative binomial, k = 1 / alpha
    Q = K(-delta / mu) / mu^2                               gamma

and K is smooth, so nothing cancels. At the ends of the range, y = 0 or y = m, l_sat - l is -l itself.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from anchortm.exceptions import InputError, InputTypeError
from anchortm.links import LINKS, LOG_SQRT_2PI, Link, OneEnd, OtherPenalised, Penalised, log1mexp

__all__ = ["FAMILIES", "Family", "Mean", "excess", "get_family", "likeliest_shape"]

Array = NDArray[np.float64]

FAMILIES: dict[str, tuple[str, ...]] = {  # links, the default first
    "poisson": ("log", "identity", "sqrt"),
    "binomial": ("logit", "probit", "cloglog", "loglog", "log"),
    "gamma": ("log", "inverse", "identity"),
    "negative_binomial": ("log", "identity", "sqrt"),
    "gaussian": ("identity", "log"),
}
CANONICAL = {"poisson": "log", "binomial": "logit", "gamma": "inverse", "gaussian": "identity"}
NOT_CONCAVE = {("gamma", "identity"), ("negative_binomial", "identity"), ("negative_binomial", "sqrt")} | {
    ("gaussian", "log")
}
CERTIFIED = {("poisson", "log"), ("binomial", "logit"), ("gamma", "log"), ("negative_binomial", "log")}
SERIES = 0.2  # K is summed below this
TERMS = 24
NEAR_ONE = 1e-3
EDGE = 1e-6


class Mean(NamedTuple):
    """The mean as a function of eta, with its derivatives."""

    mu: Array
    d1: Array
    d2: Array
    d3: Array


def excess(u: Array) -> tuple[Array, Array, Array]:
    """Return K(u) = 2 (u - log(1 + u)) / u^2 for u > -1, and its first and second derivative."""
    small = np.abs(u) < SERIES
    x = np.where(small, 1.0, u)
    K = 2.0 * (x - np.log1p(x)) / x**2
    K1 = (2.0 / (1.0 + x) - 2.0 * K) / x
    K2 = (-2.0 / (1.0 + x) ** 2 - 3.0 * K1) / x
    if small.any():
        s = u[small]
        a0, a1, a2 = (np.zeros(s.size) for _ in range(3))
        for j in range(TERMS, -1, -1):  # Horner's scheme, with derivatives
            a2 = a2 * s + 2.0 * a1
            a1 = a1 * s + a0
            a0 = a0 * s + 2.0 * (-1.0) ** j / (j + 2)
        K[small], K1[small], K2[small] = a0, a1, a2
    return K, K1, K2


@dataclass(frozen=True)
class Family:
    """A family with its link, and how its rows enter the penalty.

    Attributes
    ----------
    family, link : str
    alpha : float or None
        Of the negative binomial: the variance is mu + alpha mu^2. None: still to be estimated.
    residual : {"score", "deviance"}
        Which residuals the penalty takes.
    dispersion : float
        The variance is dispersion times the variance function; not part of the terms.
    estimate : {"pearson", "ml"}, float or None
        How the dispersion is found, or its value; None: as the family has it by default.
    unit : float
        Unit that outcomes are measured in, so that tolerances mean the same for outcomes of any size.
    push : float
        Factor of the score residuals in the penalty, which makes up for the unit.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.families import get_family
    >>> poisson = get_family("poisson")
    >>> terms = poisson.terms(np.log([2.0, 2.0]), poisson.outcome(np.array([3.0, 0.0])))
    >>> (-terms.r).round(2)  # y - mu
    array([ 1., -2.])
    """

    family: str
    link: str
    alpha: float | None = None
    residual: str = "score"
    dispersion: float = 1.0
    estimate: Any = None
    unit: float = 1.0
    push: float = 1.0

    def measured_in(self, unit: float) -> Family:
        """Return the family for outcomes in this unit: the same loss, divided by ``loss_unit`` squared."""
        push = {"gaussian-log": unit, "gamma-inverse": unit, "gamma-identity": 1.0 / unit}.get(self.name, 1.0)
        return replace(self, unit=unit, push=push)

    @property
    def eta_unit(self) -> float:
        """Return the unit that eta is measured in."""
        return {"identity": self.unit, "inverse": 1.0 / self.unit}.get(self.link, 1.0)

    @property
    def loss_unit(self) -> float:
        """Return the root of the unit of the loss."""
        return self.unit if self.family == "gaussian" else 1.0

    @property
    def name(self) -> str:
        """Return family and link as one word."""
        return f"{self.family}-{self.link}"

    @property
    def lacking(self) -> float:
        """Return what l of a row has less than it should, times the unit of the loss."""
        return LOG_SQRT_2PI if self.family == "gaussian" and self.unit != 1.0 else 0.0

    @property
    def discrete(self) -> bool:
        """Return whether outcomes are whole numbers."""
        return self.family in ("poisson", "binomial", "negative_binomial")

    @property
    def free_dispersion(self) -> bool:
        """Return whether the dispersion is estimated."""
        return not self.discrete if self.estimate is None else isinstance(self.estimate, str)

    @property
    def affine(self) -> bool:
        """Return whether residuals are linear in eta."""
        return self.family == "gaussian" and self.link == "identity"

    @property
    def concave(self) -> bool:
        """Return whether the log-likelihood is concave in eta."""
        return (self.family, self.link) not in NOT_CONCAVE

    @property
    def certified(self) -> bool:
        """Return whether -l'' >= |r''|, so that the loss is convex where 2 xi |P r| <= 1."""
        return self.residual == "score" and (self.family, self.link) in CERTIFIED

    @property
    def positive(self) -> bool:
        """Return whether eta must be positive."""
        return self.link in ("inverse", "sqrt") or (self.link == "identity" and self.family != "gaussian")

    def outside(self, eta: Array) -> NDArray[np.bool_]:
        """Return where eta is that of no mean."""
        if self.positive:
            return eta <= 0.0 if self.link == "inverse" else eta < 0.0
        return eta > 0.0 if self.name == "binomial-log" else np.zeros(eta.shape, dtype=bool)

    def near_edge(self, eta: Array) -> NDArray[np.bool_]:
        """Return where eta is, to rounding, at the end of its range."""
        if not self.positive and self.name != "binomial-log":
            return np.zeros(eta.shape, dtype=bool)
        return np.asarray(np.abs(eta) <= EDGE * np.abs(eta).max())

    def inside(self, eta: Array) -> Array:
        """Return eta, or the end of its range where it goes beyond."""
        if self.positive:
            return np.maximum(eta, 0.0)
        return np.minimum(eta, 0.0) if self.name == "binomial-log" else eta

    @property
    def _k(self) -> float:
        assert self.alpha is not None  # noqa: S101
        return 1.0 / self.alpha

    @property
    def _F(self) -> Link | None:  # noqa: N802 - a distribution function
        return LINKS.get(self.link)

    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        """Return what rows keep of their outcome: y, of binomial rows the trials, and the constant in l."""
        with np.errstate(invalid="ignore"):
            if self.family == "binomial":
                m = np.ones_like(y) if trials is None else trials
                constant = special.gammaln(m + 1.0) - special.gammaln(y + 1.0) - special.gammaln(m - y + 1.0)
                return np.column_stack([y, m, np.where(m == 1.0, 0.0, constant)])
            if self.family == "poisson":
                return np.column_stack([y, -special.gammaln(y + 1.0)])
            if self.family == "negative_binomial":
                k = self._k
                constant = special.gammaln(y + k) - special.gammaln(k) - special.gammaln(y + 1.0)
                return np.column_stack([y, constant])
        # in another unit the constant of the gaussian could be so large that nothing is left of l: ``lacking``
        constant = self.lacking - LOG_SQRT_2PI if self.family == "gaussian" else -math.log(self.unit)
        return np.column_stack([y / self.unit, np.full(y.size, constant)])

    @staticmethod
    def trials(outcome: Array) -> Any:
        """Return the trials of binomial rows, 1 of others."""
        return outcome[:, 1] if outcome.shape[1] == 3 else 1.0

    def mean(self, eta: Array) -> Mean:
        """Return the mean (of one trial) and its derivatives in eta."""
        F = self._F
        if F is not None:
            mu, f, psi = np.exp(F.log_cdf(eta)), np.exp(F.log_density(eta)), F.psi(eta)
            return Mean(mu, f, f * psi, f * (F.dpsi(eta) + psi**2))
        one = np.ones_like(eta)
        if self.link == "identity":
            return Mean(eta, one, 0.0 * one, 0.0 * one)
        if self.link == "log":
            mu = np.exp(eta) / self.unit
            return Mean(mu, mu, mu, mu)
        if self.link == "sqrt":
            return Mean(eta**2, 2.0 * eta, 2.0 * one, 0.0 * one)
        return Mean(1.0 / eta, -1.0 / eta**2, 2.0 / eta**3, -6.0 / eta**4)

    def eta(self, mu: float) -> float:
        """Return the eta of a mean inside the range."""
        if self._F is not None:
            return float(self._F.quantile(mu))
        return {"identity": mu, "log": math.log(max(mu * self.unit, 1e-300)), "sqrt": math.sqrt(abs(mu))}.get(
            self.link, 1.0 / mu
        )

    def variance(self, mu: Array) -> Array:
        """Return the variance function (of one trial)."""
        match self.family:
            case "poisson":
                return mu
            case "binomial":
                return mu * (1.0 - mu)
            case "gamma":
                return mu**2
            case "negative_binomial":
                assert self.alpha is not None  # noqa: S101
                return mu + self.alpha * mu**2
        return np.ones_like(mu)

    def terms(self, eta: Array, outcome: Array) -> OneEnd:
        """Return the terms of rows at h = eta; l is -inf where the mean leaves its range."""
        found = self._score_terms(eta, outcome)
        if self.residual == "deviance":
            found = OtherPenalised.of(found, self.deviance_residuals(eta, outcome, found))
        elif self.push != 1.0:
            pushed = Penalised(self.push * found.r, self.push * found.dr, self.push * found.d2r)
            found = OtherPenalised.of(found, pushed)
        return found

    def _score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        y, constant = outcome[:, 0], outcome[:, -1]
        if self.family == "binomial":
            return self._mixture(eta, y, outcome[:, 1] - y, constant)
        if (self.family, self.link) == ("negative_binomial", "log"):
            assert self.alpha is not None  # noqa: S101
            return self._mixture(eta + math.log(self.alpha), y, np.full(y.size, self._k), constant)
        if (self.family, self.link) == ("poisson", "log"):
            mu = np.exp(eta)
            return OneEnd(y * eta - mu + constant, mu - y, mu, mu)
        if (self.family, self.link) == ("gamma", "log"):
            z = y * np.exp(-eta)
            return OneEnd(constant - z - eta, 1.0 - z, z, -z)
        if (self.family, self.link) == ("gamma", "inverse"):
            with np.errstate(all="ignore"):
                l = np.where(eta > 0.0, constant - y * eta + np.log(eta), -np.inf)  # noqa: E741
                return OneEnd(l, y - 1.0 / eta, 1.0 / eta**2, -2.0 / eta**3)
        mean = self.mean(eta)
        l, l1, l2, l3 = self._in_mean(mean.mu, y)  # noqa: E741
        terms = OneEnd(
            l + constant,
            -l1 * mean.d1,
            -(l2 * mean.d1**2 + l1 * mean.d2),
            -(l3 * mean.d1**3 + 3.0 * l2 * mean.d1 * mean.d2 + l1 * mean.d3),
        )
        if self.positive:
            terms = terms._replace(l=np.where(eta > 0.0, terms.l, -np.inf))
        return terms

    def _mixture(self, eta: Array, y: Array, rest: Array, constant: Array) -> OneEnd:
        """Return y log F + rest log(1 - F)."""
        F = self._F or LINKS["logit"]
        if self.family == "binomial" and self.link == "log":
            one, zero = np.ones_like(eta), np.zeros_like(eta)
            q = 1.0 / np.expm1(-eta)
            up = OneEnd(eta, -one, zero, zero)
            down = OneEnd(log1mexp(-eta), q, q * (1.0 + q), q * (1.0 + q) * (1.0 + 2.0 * q))
        else:
            up, down = F.left(eta), F.right(eta)
        # a row without successes has no use for log F, be it -inf
        parts = [
            np.where(y > 0.0, y * a, 0.0) + np.where(rest > 0.0, rest * b, 0.0)
            for a, b in zip(up[:4], down[:4], strict=True)
        ]
        parts[0] = parts[0] + constant
        if self.link == "log" and self.family == "binomial":
            parts[0] = np.where(eta < 0.0, parts[0], -np.inf)
        return OneEnd(parts[0], parts[1], parts[2], parts[3])

    def _in_mean(self, mu: Array, y: Array) -> tuple[Array, Array, Array, Array]:
        """Return l and its derivatives in the mean."""
        if self.family == "poisson":
            return y * np.log(mu) - mu, y / mu - 1.0, -y / mu**2, 2.0 * y / mu**3
        if self.family == "gamma":
            z = y / mu
            return -z - np.log(mu), (z - 1.0) / mu, (1.0 - 2.0 * z) / mu**2, (6.0 * z - 2.0) / mu**3
        if self.family == "negative_binomial":
            k = self._k
            a = 1.0 / k
            b = 1.0 / (mu + k)
            l = special.xlogy(y, mu) + special.xlogy(y, a) - (y + k) * np.log1p(a * mu)  # noqa: E741
            return (
                l,
                y / mu - (y + k) * b,
                -y / mu**2 + (y + k) * b**2,
                2.0 * y / mu**3 - 2.0 * (y + k) * b**3,
            )
        one = np.ones_like(mu)
        return -0.5 * (y - mu) ** 2, y - mu, -one, 0.0 * one

    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        """Return D and its derivatives in eta, right where y = mu too."""
        if self.family == "gamma":
            return self._gamma_deviance_residuals(eta, outcome[:, 0])
        y, m, mean = outcome[:, 0], self.trials(outcome), self.mean(eta)
        mu, d1, d2 = m * mean.mu, m * mean.d1, m * mean.d2
        if self.family == "gaussian":
            return Penalised(y - mu, -d1, -d2)
        delta = mu - y
        lowest, highest = (y == 0.0) & self.discrete, np.zeros(y.shape, dtype=bool)
        safe = np.where(lowest, 1.0, y)
        if self.family == "binomial":
            highest = y == m
            rest = np.where(highest, 1.0, m - y)
            upper = m * (np.exp(self._F.log_sf(eta)) if self._F is not None else -np.expm1(eta))
            delta = np.where(upper < mu, rest - upper, delta)  # the smaller one has the digits
            parts = [(1.0, 1.0 / safe, mu / safe - 1.0), (-1.0, 1.0 / rest, upper / rest - 1.0)]
        elif self.family == "negative_binomial":
            own = 1.0 / (y + self._k)
            parts = [(1.0, 1.0 / safe, delta / safe), (1.0, own, delta * own)]
        else:
            parts = [(1.0, 1.0 / safe, delta / safe)]
        with np.errstate(all="ignore"):
            Q, Q1, Q2 = (np.zeros(y.shape) for _ in range(3))
            for j, (side, scale, u) in enumerate(parts):
                sign = -1.0 if self.family == "negative_binomial" and j == 1 else 1.0
                K, K1, K2 = excess(u)
                Q += sign * scale * K
                Q1 += sign * side * scale**2 * K1
                Q2 += sign * scale**3 * K2
            root = np.sqrt(Q)
            D = -delta * root
            D1 = -(root + delta * Q1 / (2.0 * root))
            D2 = -(Q1 / root + delta * (Q2 / (2.0 * root) - Q1**2 / (4.0 * Q * root)))
            values = [D, D1 * d1, D2 * d1**2 + D1 * d2]
            edge = lowest | highest
            if edge.any():
                l = terms.l - outcome[:, -1]  # noqa: E741 - of the saturated model 0
                size = np.where(highest, 1.0, -1.0) * np.sqrt(np.maximum(-2.0 * l, 0.0))
                slope = terms.r / size
                curve = (terms.dr - slope**2) / size
                flat = size == 0.0  # as far out as a double goes
                at_edge = (size, np.where(flat, 0.0, slope), np.where(flat, 0.0, curve))
                values = [np.where(edge, a, b) for a, b in zip(at_edge, values, strict=True)]
        return Penalised(*values)

    def _gamma_deviance_residuals(self, eta: Array, y: Array) -> Penalised:
        """Return D and its derivatives, functions of u = y / mu - 1 and of the derivatives of log(mu) in eta.

        Nothing else is as small or as large as a power of mu, which a trial step can take to the end of doubles.
        """
        with np.errstate(all="ignore"):
            if self.link == "log":
                ratio, slope, bend = y * self.unit * np.exp(-eta), np.ones_like(eta), np.zeros_like(eta)
            elif self.link == "inverse":
                ratio, slope, bend = y * eta, -1.0 / eta, 1.0 / eta**2
            else:
                ratio, slope, bend = y / eta, 1.0 / eta, -1.0 / eta**2
            u = ratio - 1.0
            K, K1, K2 = excess(u)
            root = np.sqrt(K)
            D = u * root
            # in u, with D^2 = u^2 K; then d/dlog(mu) = -ratio d/du
            first = root + 0.5 * u * K1 / root
            second = K1 / root + u * (0.5 * K2 / root - 0.25 * K1**2 / (K * root))
            D1, D2 = -ratio * first, ratio * (first + ratio * second)
            far = (ratio < NEAR_ONE) | (ratio > 1.0 / NEAR_ONE)  # the ratio itself has the digits
            direct = np.sign(u) * np.sqrt(2.0 * (ratio - 1.0 - np.log(ratio)))
            D, D1 = np.where(far, direct, D), np.where(far, -u / direct, D1)
            D2 = np.where(far, (ratio - D1**2) / direct, D2)
            return Penalised(D, D1 * slope, D2 * slope**2 + D1 * bend)

    def pearson(self, eta: Array, outcome: Array) -> Array:
        """Return (y - mu) / sqrt(variance), at dispersion 1, in the unit of the family."""
        m, mu = self.trials(outcome), self.mean(eta).mu
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((outcome[:, 0] - m * mu) / np.sqrt(m * self.variance(mu)))

    def response_residuals(self, eta: Array, outcome: Array) -> Array:
        """Return y - mu, of binomial rows times the trials, in the unit of the family."""
        return np.asarray(outcome[:, 0] - self.trials(outcome) * self.mean(eta).mu)

    def information(self, eta: Array, outcome: Array) -> Array:
        """Return the expected -l'' of each row."""
        mean = self.mean(eta)
        if self._F is not None:  # f^2 / (F (1 - F)) in logs
            log = 2.0 * self._F.log_density(eta) - self._F.log_cdf(eta) - self._F.log_sf(eta)
            return np.asarray(self.trials(outcome) * np.exp(log))
        return np.asarray(self.trials(outcome) * mean.d1**2 / self.variance(mean.mu))

    def ways(self, outcome: Array) -> NDArray[np.int8]:
        """Return which way eta can go for ever without a loss of likelihood: 1 up, -1 down, 0 neither."""
        y = outcome[:, 0]
        result = np.zeros(y.size, dtype=np.int8)
        if self.family == "binomial":
            result[y == 0.0] = -1
            if self.link != "log":
                result[y == outcome[:, 1]] = 1
        elif self.discrete and self.link == "log":
            result[y == 0.0] = -1
        return result

    def expected(self) -> Expected:
        """Return the family with the expected instead of the observed information."""
        return Expected(**{name: getattr(self, name) for name in self.__dataclass_fields__})

    def loglik(self, eta: Array, outcome: Array) -> Array:
        """Return the log-likelihood of rows, dispersion included where the family has one."""
        if self.family == "gaussian":
            variance = self.dispersion / self.unit**2
            z = self.response_residuals(eta, outcome)
            return -0.5 * z**2 / variance - LOG_SQRT_2PI - 0.5 * math.log(self.dispersion)
        if self.family == "gamma":
            shape, y, mu = 1.0 / self.dispersion, outcome[:, 0], self.mean(eta).mu
            z = y * shape / mu
            values = np.asarray(special.xlogy(shape, z) - z - np.log(y * self.unit) - special.gammaln(shape))
            return np.where(mu > 0.0, values, -np.inf)
        return replace(self, residual="score").terms(eta, outcome).l


def likeliest_shape(half_deviance: float) -> float:
    """Return the shape k of gamma rows by maximum likelihood: log k - digamma(k) is half their mean deviance."""
    if half_deviance < 1e-4:  # log k - digamma(k) = 1 / (2 k) + 1 / (12 k^2) - ..., which cancels nothing
        return (1.0 + math.sqrt(1.0 + 4.0 * half_deviance / 3.0)) / (4.0 * half_deviance)
    ends = -math.log(2.0 * half_deviance), -math.log(half_deviance)  # it is between 1 / (2 k) and 1 / k
    return math.exp(optimize.brentq(lambda s: s - special.digamma(math.exp(s)) - half_deviance, *ends, xtol=1e-14))


@dataclass(frozen=True)
class Expected(Family):
    """A family whose rows have the expected information for -l''."""

    def terms(self, eta: Array, outcome: Array) -> OneEnd:
        """Return the terms of score residuals with the expected -l''."""
        found = self._score_terms(eta, outcome)
        return found._replace(dr=self.information(eta, outcome))


def get_family(family: Any, link: Any = None, alpha: Any = 1.0, residual: str = "score") -> Family:
    """Return a family by its name, with its default link or the one that is named.

    Examples
    --------
    >>> from anchortm.families import get_family
    >>> get_family("gamma").link, get_family("gamma", "inverse").name
    ('log', 'gamma-inverse')
    """
    if not isinstance(family, str):
        raise InputTypeError(f"family must be one of {', '.join(FAMILIES)}, not {family!r}")
    if family not in FAMILIES:
        raise InputError(f"family must be one of {', '.join(FAMILIES)}, not {family!r}")
    links = FAMILIES[family]
    if link is not None and link not in links:
        raise InputError(f"the link of {family} must be one of {', '.join(links)}, not {link!r}")
    if residual not in ("score", "deviance"):
        raise InputError(f"residual must be 'score' or 'deviance', not {residual!r}")
    likeliest = isinstance(alpha, str) and alpha == "ml"
    good = isinstance(alpha, (int, float, np.integer, np.floating)) and not isinstance(alpha, bool)
    if not likeliest and not (good and 0.0 < alpha <= sys.float_info.max):
        raise InputError(f"alpha must be a positive number or 'ml', not {alpha!r}")
    own = float(alpha) if family == "negative_binomial" and not likeliest else None
    return Family(family, links[0] if link is None else link, own, residual)
