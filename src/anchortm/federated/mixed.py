"""Random effects of clusters that lie inside sites: the loss of the rows of all sites, with the effects integrated out.

A site integrates over the effects of its own clusters and sends the same sums as for other models, so that neither
names nor sizes nor effects of clusters leave it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.with_effects import START, with_covariance
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.quadrature import NODES
from anchortm.engine.solve.newton import Solution
from anchortm.engine.solve.nodes import quadrature_error
from anchortm.exceptions import InputError
from anchortm.federated.objective import Asked, FederatedObjective
from anchortm.inputs.clusters import Effects

__all__ = ["FederatedMixed", "SiteClusters"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SiteClusters:
    """What is known of the clusters of all sites: their effects, how many nodes integrals take, how many there are."""

    effects: Effects
    number: int
    weight: float  # of clusters
    n_nodes: int | None = None
    slack: float | None = None

    def _replace(self, **changes: Any) -> SiteClusters:
        return replace(self, **changes)

    def found(self, objective: FederatedMixed, solution: Solution, tau: Array) -> RandomEffects:
        """Return the random effects of a solution, without those of single clusters."""
        n_nodes, error = objective.n_nodes or 1, 0.0
        if objective.n_nodes is not None:
            finer = objective.with_nodes(n_nodes + max(4, n_nodes // 2))
            error = quadrature_error(objective, finer, solution.v, objective.sums(solution.v), solution.xi)
        none = np.zeros(0, dtype=np.intp)
        return RandomEffects(self.effects, np.array(tau), (), none, n_nodes, error, None, None, self.number)


class FederatedMixed(FederatedObjective):
    """The anchor loss of the rows of all sites with random effects; ``fixed`` is the loss without them."""

    def __init__(
        self, fixed: FederatedObjective, clusters: SiteClusters, closed: bool, other: Callable[[int], FederatedMixed]
    ) -> None:
        effects = clusters.effects
        self.__dict__ |= fixed.__dict__
        self.fixed, self.clusters, self.effects, self._other = fixed, clusters, effects, other
        self.coordinates = with_covariance(fixed.coordinates, effects)
        self.remote = fixed.remote.sized(self.coordinates.scale.size)
        self.affine = self._concave = self._bounded = False
        self.n_nodes = None if closed else clusters.n_nodes or NODES[effects.size][0]
        self.slack = 0.0
        self.start = np.where(effects.squared, START, 0.0)
        self.extra_names = tuple(effects.parameter_names())

    @property
    def n_units(self) -> float:
        return self.clusters.weight

    @property
    def row_coordinates(self) -> Coordinates:
        return self.fixed.coordinates

    @property
    def estimated(self) -> NDArray[np.bool_]:
        first = self.n_parameters - self.effects.n_parameters
        return np.asarray(super().estimated & (np.arange(self.n_parameters) < first))

    def influence_gram(self, work: Asked) -> Array:
        if work.every is not None:
            raise InputError(
                "standard errors with a ridge and random effects need the sizes of clusters, which stay at their "
                "sites: leave one of them out"
            )
        return super().influence_gram(work)

    def with_nodes(self, n_nodes: int) -> Objective:
        made = self._other(n_nodes)
        if self.places is None:
            return made
        k = self.coordinates.n_baseline
        return made.restricted(self.places[k:] - k)

    def restricted(self, columns: NDArray[np.intp]) -> FederatedMixed:
        """Return the loss of some coefficients alone, with all parameters of the covariance."""
        extra = self.effects.n_parameters
        first = self.coordinates.n_coefs - extra
        kept = np.concatenate([columns[columns < first], first + np.arange(extra)])
        result, places = copy(self), self.coordinates.places(kept)
        result.coordinates = self.coordinates.restricted(kept)
        result.names = tuple(self.names[j] for j in columns[columns < first])
        result.places = places if self.places is None else self.places[places]
        return result
