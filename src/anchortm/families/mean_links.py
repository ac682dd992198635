"""Links of generalised linear models: the mean as a function of eta, with its derivatives and its range.

These are functions g with g(mean) = eta = intercept + x'beta + offset, not the reference distributions of the package
``links``, although each of those serves as a link of binomial models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from anchortm._typing import Array
from anchortm.links import Link

__all__ = ["FromDistribution", "Identity", "Inverse", "Log", "Mean", "MeanLink", "Root"]


class Mean(NamedTuple):
    """The mean as a function of eta, with its derivatives."""

    mu: Array
    d1: Array
    d2: Array
    d3: Array


class MeanLink(ABC):
    """A function g with g(mean) = eta.

    Means and outcomes are measured in a unit (see ``MeanOfEta``), eta in the unit that ``eta_unit`` says.
    """

    #: Whether the end of the range of eta has no mean itself.
    open_end: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name by which users choose the link."""

    @abstractmethod
    def mean(self, eta: Array, unit: float) -> Mean:
        """Return the mean and its derivatives in eta."""

    def mu(self, eta: Array, unit: float) -> Array:
        """Return the mean alone; override it if it is cheaper without derivatives."""
        return self.mean(eta, unit).mu

    @abstractmethod
    def eta(self, mu: float, unit: float) -> float:
        """Return the eta of a mean inside the range."""

    @abstractmethod
    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        """Return the range of eta for means between low and high."""

    def eta_unit(self, unit: float) -> float:
        """Return the unit of eta for outcomes in this unit."""
        return 1.0


@dataclass(frozen=True)
class Identity(MeanLink):
    """The mean is eta."""

    name: ClassVar[str] = "identity"

    def mean(self, eta: Array, unit: float) -> Mean:
        one = np.ones_like(eta)
        return Mean(eta, one, 0.0 * one, 0.0 * one)

    def eta(self, mu: float, unit: float) -> float:
        return mu

    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        return low, high

    def eta_unit(self, unit: float) -> float:
        return unit


@dataclass(frozen=True)
class Log(MeanLink):
    """The mean is exp(eta)."""

    name: ClassVar[str] = "log"

    def mean(self, eta: Array, unit: float) -> Mean:
        mu = np.exp(eta) / unit
        return Mean(mu, mu, mu, mu)

    def eta(self, mu: float, unit: float) -> float:
        return math.log(max(mu * unit, 1e-300))

    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        return -math.inf, math.log(high)


@dataclass(frozen=True)
class Root(MeanLink):
    """The mean is the square of eta, which is not negative."""

    name: ClassVar[str] = "sqrt"

    def mean(self, eta: Array, unit: float) -> Mean:
        one = np.ones_like(eta)
        return Mean(eta**2, 2.0 * eta, 2.0 * one, 0.0 * one)

    def eta(self, mu: float, unit: float) -> float:
        return math.sqrt(abs(mu))

    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, math.sqrt(high)


@dataclass(frozen=True)
class Inverse(MeanLink):
    """The mean is 1 / eta, with eta above 0."""

    name: ClassVar[str] = "inverse"
    open_end: ClassVar[bool] = True

    def mean(self, eta: Array, unit: float) -> Mean:
        return Mean(1.0 / eta, -1.0 / eta**2, 2.0 / eta**3, -6.0 / eta**4)

    def eta(self, mu: float, unit: float) -> float:
        return 1.0 / mu

    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, math.inf

    def eta_unit(self, unit: float) -> float:
        return 1.0 / unit


@dataclass(frozen=True)
class FromDistribution(MeanLink):
    """The mean is a probability F(eta), of any link of transformation models."""

    F: Link

    @property
    def name(self) -> str:
        return self.F.name

    def mean(self, eta: Array, unit: float) -> Mean:
        F = self.F
        mu, f, psi = np.exp(F.log_cdf(eta)), np.exp(F.log_density(eta)), F.psi(eta)
        return Mean(mu, f, f * psi, f * (F.dpsi(eta) + psi**2))

    def mu(self, eta: Array, unit: float) -> Array:
        return np.exp(self.F.log_cdf(eta))

    def eta(self, mu: float, unit: float) -> float:
        return float(self.F.quantile(mu))

    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        return -math.inf, math.inf
