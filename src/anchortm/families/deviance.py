"""Deviance residuals of counts and trials, smooth where the outcome is its mean.

Deviance residuals D = sign(y - mu) sqrt(2 (l_sat - l)) are 0 / 0 in their derivatives where y = mu. With
delta = mu - y and K(u) = 2 (u - log(1 + u)) / u^2 they are D = -delta sqrt(Q), where

    Q = K(delta / y) / y                                    Poisson
    Q = K(delta / y) / y + K(-delta / (m - y)) / (m - y)    binomial
    Q = K(delta / y) / y - K(delta / (y + k)) / (y + k)     negative binomial, k = 1 / alpha

and K is smooth, so nothing cancels. At the ends of the range, y = 0 or y = m, l_sat - l is -l itself. The gamma
family has a formula of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.families.numerics import excess, excess_alone
from anchortm.links import OneEnd, Penalised

__all__ = ["Apart", "Part"]


class Part(NamedTuple):
    """One summand sign * scale * K(u) of Q, where du/dmu = side * scale."""

    sign: float
    side: float
    scale: Array
    u: Array


class Apart(NamedTuple):
    """How far means are from their outcomes.

    Attributes
    ----------
    delta : array
        mu - y.
    slope, bend : array
        First and second derivative of mu in eta.
    parts : list of Part
        The summands of Q.
    lowest, highest : array of bool
        Where y is at the lower or the upper end of its range.
    """

    delta: Array
    slope: Array
    bend: Array
    parts: list[Part]
    lowest: NDArray[np.bool_]
    highest: NDArray[np.bool_] | None = None

    def deviances(self, loglik: Array) -> Array:
        """Return D^2; ``loglik`` is l without its constant, which is zero for a perfect fit at an end of the range."""
        with np.errstate(all="ignore"):
            Q = sum(sign * scale * excess_alone(u) for sign, _, scale, u in self.parts)
            edge = self.lowest if self.highest is None else self.lowest | self.highest
            return np.where(edge, np.maximum(-2.0 * loglik, 0.0), self.delta**2 * Q)

    def residuals(self, loglik: Array, terms: OneEnd) -> Penalised:
        """Return D and its derivatives in eta; ``loglik`` as for ``deviances``, ``terms`` are r and its derivatives."""
        delta, slope, bend, parts, lowest, highest = self
        with np.errstate(all="ignore"):
            Q, Q1, Q2 = (np.zeros(delta.shape) for _ in range(3))
            for sign, side, scale, u in parts:
                K, K1, K2 = excess(u)
                Q += sign * scale * K
                Q1 += sign * side * scale**2 * K1
                Q2 += sign * scale**3 * K2
            root = np.sqrt(Q)
            D = -delta * root
            D1 = -(root + delta * Q1 / (2.0 * root))
            D2 = -(Q1 / root + delta * (Q2 / (2.0 * root) - Q1**2 / (4.0 * Q * root)))
            values = [D, D1 * slope, D2 * slope**2 + D1 * bend]
            edge = lowest if highest is None else lowest | highest
            if edge.any():
                end = -1.0 if highest is None else np.where(highest, 1.0, -1.0)
                size = end * np.sqrt(np.maximum(-2.0 * loglik, 0.0))
                first = terms.r / size
                second = (terms.dr - first**2) / size
                flat = size == 0.0  # as far out as a double goes
                at_edge = (size, np.where(flat, 0.0, first), np.where(flat, 0.0, second))
                values = [np.where(edge, a, b) for a, b in zip(at_edge, values, strict=True)]
        return Penalised(*values)
