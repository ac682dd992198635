"""Random effects: intercepts and slopes that differ between clusters of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.model_parts.contract import MakeLoss, Part
from anchortm.engine.objective.laplace import LaplaceObjective
from anchortm.engine.objective.normal import NormalObjective
from anchortm.engine.objective.normal_mixed import NormalMixedObjective
from anchortm.engine.objective.normal_two_terms import NormalTwoTermsObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.engine.objective.with_effects import EffectsObjective
from anchortm.engine.solve.nodes import with_enough_nodes
from anchortm.engine.two_effects import TwoEffects
from anchortm.inputs.two_terms import TwoTerms

if TYPE_CHECKING:
    from anchortm.engine.formulation import Formulation
    from anchortm.engine.solve.newton import Solution
    from anchortm.engine.specification import Specification

__all__ = ["RandomPart", "mixed"]

Array = NDArray[np.float64]


def mixed(objective: Any, data: Any, sign: float, n_nodes: int | None) -> EffectsObjective:
    """Return the loss of rows with the effects of their clusters integrated out.

    Exact rows under the normal link have a closed form; other rows need quadrature.
    """
    order = None if data.anchors is None else data.anchors.order()
    clusters = data.clusters if order is None else data.clusters.take(order)
    clusters = clusters._replace(Z=sign * clusters.Z, n_nodes=n_nodes)
    if isinstance(objective, NormalObjective):
        two = isinstance(clusters, TwoTerms)
        return NormalTwoTermsObjective(objective, clusters) if two else NormalMixedObjective(objective, clusters)
    if isinstance(clusters, TwoTerms):
        return LaplaceObjective(objective, clusters)
    return MixedObjective(objective, clusters)


class RandomPart(Part):
    """Normal effects of clusters, integrated out in closed form or by quadrature; of two groupings by Laplace."""

    key = "random"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether rows have clusters."""
        return data.clusters is not None

    def names(self, spec: Specification, data: Any) -> tuple[str, ...]:
        """Return the names of the entries of the covariance's root."""
        return tuple(data.clusters.effects.parameter_names())

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the marginal loss."""
        return lambda data: mixed(make(data), data, formulation.spec.sign, data.clusters.n_nodes)

    def afar(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the marginal loss of rows elsewhere, which integrate there."""
        return lambda data: make(data.clustered())

    def settle(self, objective: Objective, formulation: Formulation, data: Any) -> Objective:
        """Return the loss with enough nodes for its integrals, unless there are none or their number is known."""
        clusters = data.clusters
        if clusters.slack is not None or objective.n_nodes is None:
            return objective
        start = formulation.start(objective, data)
        return with_enough_nodes(objective, start, formulation.spec.quiet, clusters.n_nodes is not None)

    def found(self, formulation: Formulation, objective: Objective, solution: Solution, own: Array) -> dict[str, Any]:
        """Return the covariance of the effects, and the effects of the clusters given the data."""
        inner, clusters = objective.unpenalised, formulation.data.clusters
        if formulation.data.afar:
            return {"random": clusters.found(inner, solution, own)}
        if isinstance(inner, LaplaceObjective):
            return {"random": TwoEffects.of(inner, clusters, solution, own)}
        assert isinstance(inner, (MixedObjective, NormalMixedObjective))  # noqa: S101
        return {"random": RandomEffects.of(inner, clusters, solution, own)}
