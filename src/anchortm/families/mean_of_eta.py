"""How the mean of a family depends on eta: the link, the range of eta, and the units of outcomes and of eta."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.exceptions import InputError
from anchortm.families.mean_links import Mean, MeanLink

__all__ = ["MeanOfEta"]

EDGE = 1e-6  # relative distance from the end of its range at which eta counts as at the end


@dataclass(frozen=True)
class MeanOfEta(ABC):
    """The mean of a family as a function of eta, with units.

    Attributes
    ----------
    link : str
        One of ``links``, by default the first.
    unit : float
        The unit of outcomes, chosen so that tolerances mean the same for outcomes of any size.
    push : float
        Factor of the score residuals in the penalty, which makes up for the unit.
    """

    link: str = ""
    unit: float = 1.0
    push: float = 1.0
    family: ClassVar[str]
    links: ClassVar[Mapping[str, MeanLink]]
    mean_range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        if not self.link:
            object.__setattr__(self, "link", next(iter(self.links)))
        elif self.link not in self.links:
            raise InputError(f"the link of {self.family} must be one of {', '.join(self.links)}, not {self.link!r}")

    @property
    def name(self) -> str:
        """Return family and link as one word."""
        return f"{self.family}-{self.link}"

    @property
    def mean_link(self) -> MeanLink:
        """Return the link as an object."""
        return self.links[self.link]

    @property
    def eta_range(self) -> tuple[float, float]:
        """Return the ends of the range of eta."""
        return self.mean_link.eta_range(*self.mean_range)

    @property
    def positive(self) -> bool:
        """Return whether eta must be positive."""
        return self.eta_range[0] == 0.0

    def outside(self, eta: Array) -> NDArray[np.bool_]:
        """Return where eta lies outside the range of the link."""
        low, high = self.eta_range
        return np.asarray((eta <= low if self.mean_link.open_end else eta < low) | (eta > high))

    def near_edge(self, eta: Array) -> NDArray[np.bool_]:
        """Return where eta is, up to rounding, at an end of its range."""
        ends = [end for end in self.eta_range if math.isfinite(end)]
        near = [np.abs(eta - end) <= EDGE * np.abs(eta).max() for end in ends]
        return np.logical_or.reduce(near) if near else np.zeros(eta.shape, dtype=bool)

    def inside(self, eta: Array) -> Array:
        """Return eta, or the end of its range where it lies beyond."""
        return np.clip(eta, *self.eta_range)

    def mean(self, eta: Array) -> Mean:
        """Return the mean (of one trial) and its derivatives in eta."""
        return self.mean_link.mean(eta, self.unit)

    def mu(self, eta: Array) -> Array:
        """Return the mean (of one trial) alone."""
        return self.mean_link.mu(eta, self.unit)

    def eta(self, mu: float) -> float:
        """Return the eta of a mean inside the range."""
        return self.mean_link.eta(mu, self.unit)

    @property
    def eta_unit(self) -> float:
        """Return the unit of eta."""
        return self.mean_link.eta_unit(self.unit)

    @property
    def loss_unit(self) -> float:
        """Return the root of the unit of the loss."""
        return 1.0

    @property
    def lacking(self) -> float:
        """Return the constant omitted from each row's log-likelihood, times the unit of the loss."""
        return 0.0

    def push_in(self, unit: float) -> float:
        """Return the factor of the score residuals in the penalty for outcomes in this unit."""
        return 1.0

    def measured_in(self, unit: float) -> Self:
        """Return the family for outcomes in this unit: the same loss, divided by ``loss_unit`` squared."""
        return replace(self, unit=unit, push=self.push_in(unit))

    def in_typical_unit(self, y: Array, weights: Array | None) -> Self:
        """Return the family in a unit that is typical of y, if its numbers have units; else the family itself."""
        return self
