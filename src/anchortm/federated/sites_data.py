"""The rows of all sites as the engine's problems take them: what is known of them, and the loss that asks about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.engine.baseline_rules import Bernstein
from anchortm.engine.data import About
from anchortm.engine.environment_weights import NO_ENVIRONMENTS, Places, Weighing, Weighting
from anchortm.engine.objective.build import layout_of
from anchortm.engine.objective.penalised import Known, Penalty
from anchortm.engine.rows.quadrature import NODES
from anchortm.engine.rows.standardised import baseline_moments, coordinates_from_moments
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.federated.conversation import Conversation
from anchortm.federated.means import FederatedMeans
from anchortm.federated.mixed import FederatedMixed, SiteClusters
from anchortm.federated.objective import FederatedObjective, RemoteLoss, Span
from anchortm.federated.plan import Plan
from anchortm.federated.recipe import Recipe
from anchortm.federated.shared_loss import SharedLoss
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.clusters import INTERCEPT, Effects
from anchortm.inputs.missing import Counts
from anchortm.inputs.response import Response
from anchortm.inputs.splines import Marks

__all__ = ["SitesData"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SitesData:
    """The rows of the sites of one session."""

    plan: Plan
    conversation: Conversation
    made: dict[Any, FederatedObjective] = field(default_factory=dict)
    mixture: Mixture | None = None  # the corners of a model, with the weights of an average row
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of parts that change the loss of rows
    clusters: SiteClusters | None = None  # with random effects
    effects: bool = False  # whether sites integrate over them in the loss that is made next
    again: tuple[tuple[int, ...], float, tuple[str, ...]] | None = None  # columns that come twice, factor, names of all

    in_memory = False
    afar = True
    strata = weighting = environments = missing = None
    near: tuple[int, ...] = ()
    lost: tuple[Any, ...] = ()
    share = 1.0

    @property
    def scale(self) -> str:
        """Return how the outcome is read."""
        return self.conversation.scale

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the covariates that shift h."""
        return tuple(self.plan.names[j] for j in self.kept) if self.again is None else self.again[2]

    @property
    def _moments(self) -> tuple[Array, Array]:
        """Return means and deviations of the columns."""
        mean, deviation = self.plan.mean[self.kept], self.plan.deviation[self.kept]
        if self.again is None:
            return mean, deviation
        columns, factor = list(self.again[0]), self.again[1]
        return np.append(mean, factor * mean[columns]), np.append(deviation, deviation[columns])

    def repeated(self, columns: Sequence[int], factor: float, names: tuple[str, ...]) -> SitesData:
        """Return the rows with some covariates once more, times a factor, after the others."""
        return replace(self, again=(tuple(columns), factor, names))

    def asking(self, **arguments: Any) -> SitesData:
        """Return the rows for a loss that sites make with these arguments of its specification."""
        return replace(self, arguments={**self.arguments, **arguments})

    @property
    def kept(self) -> list[int]:
        """Return the places of the covariates that shift h: all but those whose effects vary."""
        varying = [] if self.mixture is None else self.mixture.corners.varying_names
        return [j for j, name in enumerate(self.plan.names) if name not in varying]

    @property
    def marks(self) -> Marks:
        """Return that no covariate belongs to a smooth term."""
        return (None,) * len(self.kept)

    @property
    def support(self) -> tuple[float, float] | None:
        """Return the default support."""
        return self.plan.support

    @property
    def response(self) -> Response:
        """Return a made-up outcome with about the distribution of all rows."""
        return self.plan.response

    @property
    def weights(self) -> Array:
        """Return the weights of ``response``."""
        return self.plan.weights

    @property
    def typical(self) -> tuple[Response, Array | None]:
        """Return outcomes and weights for start values."""
        return self.plan.response, self.plan.weights

    @property
    def anchors(self) -> Span | None:
        """Return what is known of the anchors, if the formula has any."""
        shared = self.plan.shared
        dropped = () if shared is None else tuple(name for name in shared.projection.dropped if name in shared.numbers)
        return Span(self.plan.rank, dropped) if self.plan.anchored else None

    @property
    def weighing(self) -> Weighing:
        """Return what weights of environments mean here: the table of parts refuses them."""
        return _Unweighted(self)

    @property
    def alphabetical(self) -> bool:
        """Return whether classes are words that were sorted."""
        return self.plan.alphabetical

    def without_wide(self) -> SitesData:
        """Return the same rows: all covariates are columns of numbers."""
        return self

    def learn(self, spec: Specification) -> None:
        """Check the covariates for a model, and that there is a support if it needs one."""
        if isinstance(spec.rule, Bernstein) and spec.rule.support is None and self.support is None:
            raise InputError("the outcome has nearly the same value in most rows: give the support in the study")
        penalty = self.penalty(spec)
        own = np.ones(len(self.plan.names), dtype=bool)
        if spec.penalised(self.marks):
            own[self.kept] = penalty.free
        self.plan.check_covariates(own)

    def _replace(self, **changes: Any) -> SitesData:
        return replace(self, **changes)

    def clustered(self) -> SitesData:
        """Return the rows for the loss in which sites integrate over the effects of their clusters."""
        return replace(self, effects=True)

    def penalty(self, spec: Specification, added: tuple[tuple[str, ...], Marks] = ((), ())) -> Penalty:
        """Return the penalty on the coefficients of the covariates, and on what parts of the model ``added``."""
        known = Known(spec.sign * self.plan.mean[self.kept], self.plan.deviation[self.kept])
        return spec.penalty(self.names, self.marks, added=added, known=known)

    def fingerprint(self) -> Array:
        """Return an empty array: the rows are elsewhere."""
        return np.zeros(0)

    def about(self) -> About:
        """Return what a model keeps of these rows."""
        plan = self.plan
        return About(
            self.names,
            self.marks,
            (*plan.formula.design_columns(), *plan.formula.strata, *plan.formula.clusters),
            plan.kinds,
            plan.time,
            (),
            plan.dropped,
            plan.alphabetical,
            [plan.binary[j] for j in self.kept],
            self.conversation.study.offset is not None,
            self.fingerprint(),
            plan.ranges,
            plan.outcome_range,
            Counts(),
            plan.formula.outcome_name,
        )

    def objective(
        self, link: Any, basis: Basis, sign: float, anchor_intercept: bool = True, n_jobs: int | None = None
    ) -> FederatedObjective:
        """Return the anchor loss of all rows, which is made once for a model."""
        shared = self.plan.shared
        if shared is not None and not anchor_intercept:
            raise InputError("anchors that sites share have the constant in their span: set anchor_intercept=True")
        if shared is not None and (self.arguments or self.effects):
            raise InputError(
                "scale or random effects and anchors that sites share are not implemented together: use site"
            )
        corners = None if self.mixture is None else self.mixture.corners
        recipe = Recipe(link, basis, sign, anchor_intercept, shared, corners, self.arguments, *_integrals(self, link))
        digest = recipe.digest
        if digest not in self.made:
            self.made[digest] = self._made(recipe, digest)
        found = self.made[digest].called(link)
        if recipe.effects is None or self.clusters is None:
            return found
        clusters = self.clusters

        def other(n_nodes: int) -> FederatedMixed:
            made = replace(self, clusters=clusters._replace(n_nodes=n_nodes))
            again = made.objective(link, basis, sign, anchor_intercept)
            assert isinstance(again, FederatedMixed)  # noqa: S101
            return again

        return FederatedMixed(found, clusters, recipe.n_nodes is None, other)

    def _made(self, recipe: Recipe, digest: str) -> FederatedObjective:
        link, basis, sign = recipe.link, recipe.basis, recipe.sign
        plan, conversation, family = self.plan, self.conversation, recipe.family
        size, total, squares = baseline_moments(basis, layout_of(link, basis, plan.response))
        units = np.sqrt(np.maximum(squares / size, 1e-30))
        units = np.where(total == 0.0, 1.0, 2.0 ** np.ceil(np.log2(units)))
        if recipe.corners is not None:  # a constant, its differences, and the increments of each corner
            levels = recipe.corners.others.size
            units = np.concatenate([np.ones(1 + levels), np.tile(units[1:], recipe.corners.size)])
        k = units.size
        arrays = {"units": units, **recipe.arrays()}
        n = 1 + 2 * k + 2 * (family is not None)
        found = conversation.ask("baseline", recipe.record(), arrays, n).total
        moments = (float(found[0]), units * found[1 : 1 + k], units**2 * found[1 + k : 1 + 2 * k])
        coordinates = coordinates_from_moments(basis, moments, *self._moments, sign, recipe.corners)
        coordinates = coordinates if family is None else replace(coordinates, unit=family.eta_unit)
        arrays = {"mean": coordinates.mean, "scale": coordinates.scale}

        def ask(
            kind: str,
            more: dict[str, Any],
            points: Array,
            size: int,
            to: Sequence[str] | None = None,
            beside: dict[str, Array] | None = None,
            each: bool = True,
        ) -> Any:
            own = {"plan": digest, **more}
            sent = {"points": points, **arrays, **(beside or {})}
            return conversation.ask(kind, own, sent, size * (points.shape[0] if each else 1), to)

        d = coordinates.scale.size
        remote = RemoteLoss(ask, d) if plan.shared is None else SharedLoss(ask, d, plan.rank)
        facts = (self.names, plan.row_kinds, (plan.n_rows, plan.n_total), sign * plan.offset, remote)
        if family is None:
            return FederatedObjective(link, coordinates, self.anchors, *facts)
        outcomes, trials = (found[1 + 2 * k :] / plan.n_total).tolist()

        def other(link: Any) -> FederatedObjective:
            return self.objective(link, basis, sign, recipe.intercept)

        return FederatedMeans(family, coordinates, self.anchors, *facts, (outcomes, trials), other)

    def scores(
        self, objective: FederatedObjective, v: Array, names: Sequence[str], dispersion: float = 1.0
    ) -> dict[str, dict[str, Any]]:
        """Return number of rows, their weight, events and log-likelihood of these sites, in clear text."""
        return dict(objective.remote.ask("score", {"dispersion": dispersion}, v[None, :], 0, names).fields)


def _integrals(data: SitesData, link: Any) -> tuple[Effects | None, int | None]:
    """Return the random effects, and the nodes of their integrals; none for exact rows under the normal link."""
    if not data.effects or data.clusters is None:
        return None, None
    effects, closed = data.clusters.effects, link.quadratic and data.plan.row_kinds == {("exact", 1)}
    places = (name if name == INTERCEPT else f"x{data.names.index(name)}" for name in effects.names)
    nodes = None if closed else data.clusters.n_nodes or NODES[effects.size][0]
    return replace(effects, names=tuple(places)), nodes


@dataclass(frozen=True, eq=False)
class _Unweighted(Weighing):
    """Every row counts alike."""

    data: Any

    def put(self, rules: Weighting | None) -> Any:
        """Return the same rows."""
        if rules is not None:
            raise InputError(NO_ENVIRONMENTS)
        return self.data

    def places(self, name: str) -> Places | None:
        """Return None: each row counts alike."""
        return None

    def totals(self, places: Places) -> Array:
        """Return nothing."""
        return np.zeros(0)
