"""The rows of all sites as the engine's problems take them: what is known of them, and the loss that asks about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.plain_values import plain
from anchortm.bases import Basis
from anchortm.engine.data import About
from anchortm.engine.environment_weights import NO_ENVIRONMENTS, Places, Weighing, Weighting
from anchortm.engine.objective.penalised import Known, Penalty
from anchortm.engine.rows.likelihood import layout
from anchortm.engine.rows.standardised import baseline_moments, coordinates_from_moments
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.federated.answers import plan_digest
from anchortm.federated.conversation import Conversation
from anchortm.federated.objective import FederatedObjective, RemoteLoss, Span
from anchortm.federated.plan import Plan
from anchortm.federated.shared_loss import SharedLoss
from anchortm.inputs.missing import Counts
from anchortm.inputs.response import Response
from anchortm.inputs.splines import Marks
from anchortm.links import LINKS

__all__ = ["SitesData"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SitesData:
    """The rows of the sites of one session."""

    plan: Plan
    conversation: Conversation
    made: dict[Any, FederatedObjective] = field(default_factory=dict)

    in_memory = False
    strata = clusters = mixture = weighting = environments = missing = None
    near: tuple[int, ...] = ()
    lost: tuple[Any, ...] = ()
    share = 1.0

    @property
    def scale(self) -> str:
        """Return how the outcome is read."""
        return self.conversation.scale

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the covariates."""
        return self.plan.names

    @property
    def marks(self) -> Marks:
        """Return that no covariate belongs to a smooth term."""
        return (None,) * len(self.plan.names)

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
        """Check the covariates for a model."""
        penalty = self.penalty(spec)
        own = penalty.free if spec.penalised(self.marks) else np.ones(len(self.names), dtype=bool)
        self.plan.check_covariates(own)

    def penalty(self, spec: Specification, added: tuple[tuple[str, ...], Marks] = ((), ())) -> Penalty:
        """Return the penalty on the coefficients of the covariates, and on what parts of the model ``added``."""
        known = Known(spec.sign * self.plan.mean, self.plan.deviation)
        return spec.penalty(self.names, self.marks, added=added, known=known)

    def fingerprint(self) -> Array:
        """Return an empty array: the rows are elsewhere."""
        return np.zeros(0)

    def about(self) -> About:
        """Return what a model keeps of these rows."""
        plan = self.plan
        return About(
            plan.names,
            self.marks,
            tuple(plan.formula.design_columns()),
            plan.kinds,
            plan.time,
            (),
            plan.dropped,
            plan.alphabetical,
            list(plan.binary),
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
        if type(link) not in {type(known) for known in LINKS.values()}:
            raise InputError(
                f"sites know the links {', '.join(LINKS)} by name, and {link!r} is another one: no code is sent to them"
            )
        fields = {"link": link.name, "basis": plain(basis.to_dict()), "sign": int(sign), "intercept": anchor_intercept}
        shared = self.plan.shared
        if shared is not None and not anchor_intercept:
            raise InputError("anchors that sites share have the constant in their span: set anchor_intercept=True")
        fields |= {"shared": None if shared is None else shared.record()}
        none = np.zeros(0)
        numbers = {"anchor_mean": none, "anchor_unit": none, "anchor_root": np.zeros((0, 0))}
        numbers |= {} if shared is None else shared.arrays()
        digest = plan_digest(fields, numbers)
        if digest not in self.made:
            self.made[digest] = self._made(link, basis, sign, (fields, numbers), digest)
        return self.made[digest]

    def _made(
        self, link: Any, basis: Basis, sign: float, model: tuple[dict[str, Any], dict[str, Array]], digest: str
    ) -> FederatedObjective:
        fields, numbers = model
        plan, conversation = self.plan, self.conversation
        size, total, squares = baseline_moments(basis, layout(basis, plan.response))
        units = np.sqrt(np.maximum(squares / size, 1e-30))
        units = np.where(total == 0.0, 1.0, 2.0 ** np.ceil(np.log2(units)))
        k = units.size
        found = conversation.ask("baseline", fields, {"units": units, **numbers}, 1 + 2 * k).total
        moments = (float(found[0]), units * found[1 : 1 + k], units**2 * found[1 + k :])
        coordinates = coordinates_from_moments(basis, moments, plan.mean, plan.deviation, sign)
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

        rows = (plan.n_rows, plan.n_total)
        d = coordinates.scale.size
        remote = RemoteLoss(ask, d) if plan.shared is None else SharedLoss(ask, d, plan.rank)
        return FederatedObjective(
            link, coordinates, self.anchors, plan.names, plan.row_kinds, rows, sign * plan.offset, remote
        )

    def scores(self, objective: FederatedObjective, v: Array, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return number of rows, their weight, events and log-likelihood of these sites, in clear text."""
        return dict(objective.remote.ask("score", {}, v[None, :], 0, names).fields)


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
