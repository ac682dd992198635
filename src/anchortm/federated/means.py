"""The loss of rows at several sites whose mean is modelled by a family: what it has beside that of other models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.mean import MeanLoss
from anchortm.federated.objective import FederatedObjective, RemoteLoss
from anchortm.federated.policy import DisclosureError

__all__ = ["FederatedMeans"]

Array = NDArray[np.float64]


class _Fitted:
    """Sums over the rows of all sites at some parameters, as ``FittedRows`` has them."""

    spread = 1.0  # of outcomes in their typical unit
    at_edge = 0  # not asked for: the number of rows would be small

    def __init__(self, remote: RemoteLoss, v: Array) -> None:
        self.remote, self.v = remote, v

    @cached_property
    def deviance(self) -> float:
        """Return the deviance."""
        return self.remote.fitted(self.v, 1.0)[0]

    @cached_property
    def pearson(self) -> float:
        """Return Pearson's chi-square; NaN if a site withholds its part."""
        return self.remote.pearson(self.v)

    @property
    def left(self) -> float:
        """Return how much the covariates leave unexplained: 0 if nothing."""
        return self.deviance

    def loglik(self, dispersion: float) -> float:
        """Return the log-likelihood at a dispersion, which is in the units of y."""
        return self.remote.fitted(self.v, dispersion)[1]


class FederatedMeans(MeanLoss, FederatedObjective):
    """The anchor loss of the rows of all sites, whose mean is modelled by a family.

    ``outcomes`` are the means of outcomes and of trials, ``other`` makes the loss under another member of the family.
    """

    def __init__(self, *facts: Any) -> None:
        *rest, outcomes, other = facts
        super().__init__(*rest)
        self._outcomes: tuple[float, float] = outcomes
        self._other: Callable[[Any], FederatedObjective] = other

    @property
    def known_dispersion(self) -> bool:  # type: ignore[override]
        return self.link.estimate is not None and not self.link.free_dispersion

    @property
    def scored(self) -> FederatedMeans:
        return self if self.link.push == 1.0 else self.with_link(replace(self.link, push=1.0))

    def with_link(self, link: Any) -> FederatedMeans:
        made = self._other(link)
        if self.places is not None:
            k = self.coordinates.n_baseline
            made = made.restricted(self.places[k:] - k)
        assert isinstance(made, FederatedMeans)  # noqa: S101
        return made

    def dispersion(self, v: Array, rows: Any = None) -> float:
        found = super().dispersion(v, rows)
        if math.isnan(found):
            raise DisclosureError(
                "a site withholds Pearson's chi-square, because a few of its rows, with outcomes far from their means, "
                "make up most of it: give dispersion a number, or 'ml' where the family has it"
            )
        return found

    def middle(self) -> tuple[float, float]:
        return self._outcomes

    def fitted(self, v: Array, added: Array | None = None) -> _Fitted:
        return _Fitted(self.remote, self.whole(v))
