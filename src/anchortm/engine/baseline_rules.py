"""Rules that make the basis of the baseline from the outcomes of a fit.

A model specifies a rule; a fit uses the basis. Fits to other rows, such as left-out fits, apply the rule again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis, BernsteinBasis, CountBasis, OrdinalBasis
from anchortm.engine.rows.likelihood import no_logarithm
from anchortm.inputs.empirical import check_overlap, default_support
from anchortm.inputs.response import Response

__all__ = ["BaselineRule", "Bernstein", "Classes", "Given"]

Array = NDArray[np.float64]


class BaselineRule(Protocol):
    """A rule that makes a basis from outcomes."""

    def __call__(self, response: Response, weights: Array | None) -> Basis:
        """Return the basis for these outcomes."""
        ...

    def with_support(self, support: tuple[float, float]) -> BaselineRule:
        """Return the rule with this default support."""
        ...


@dataclass(frozen=True)
class Given:
    """A basis that does not depend on the data."""

    basis: Basis

    def __call__(self, response: Response, weights: Array | None) -> Basis:
        """Return the basis."""
        return self.basis

    def with_support(self, support: tuple[float, float]) -> Given:
        """Return the rule itself: its basis has no default support."""
        return self


@dataclass(frozen=True)
class Classes:
    """Thresholds between the classes of the outcome."""

    def __call__(self, response: Response, weights: Array | None) -> Basis:
        """Return the basis for these classes."""
        return OrdinalBasis(response.levels or ())

    def with_support(self, support: tuple[float, float]) -> Classes:
        """Return the rule itself: classes have no support."""
        return self


@dataclass(frozen=True)
class Bernstein:
    """Bernstein polynomials for numbers or counts, by default between the 10 % and 90 % quantiles of the outcome."""

    order: int
    support: tuple[float, float] | None
    log_first: bool
    extrapolate: Literal["linear", "natural"]
    counts: bool = False

    def __call__(self, response: Response, weights: Array | None) -> Basis:
        """Return the polynomials on the support of these outcomes."""
        support = self.support
        if support is None:
            support = default_support(response, weights)
            if self.log_first is True and not self.counts and support[0] <= 0.0:
                raise no_logarithm(support[0], "or less in many rows")
        else:
            check_overlap(support, response)
        kind = CountBasis if self.counts else BernsteinBasis
        return kind(self.order, support, self.log_first, self.extrapolate)

    def with_support(self, support: tuple[float, float]) -> Bernstein:
        """Return the rule with this support, unless the user gave one."""
        return replace(self, support=support) if self.support is None else self
