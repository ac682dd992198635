"""What a site answers to each question of the closed list, after its own checks."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.backends.reading import Batch
from anchortm.engine.objective.anchored import AnchoredObjective
from anchortm.engine.objective.separation import rows_against
from anchortm.engine.rows.block_sums import Influence
from anchortm.federated.ledger import LONGEST
from anchortm.federated.masks import LARGEST, Masks
from anchortm.federated.policy import DisclosureError
from anchortm.federated.recipe import Recipe
from anchortm.federated.shared_anchors import SharedAnchors
from anchortm.federated.site_model import SiteModel, of_rows
from anchortm.federated.site_rows import Design, SiteRows
from anchortm.federated.study import Study
from anchortm.federated.sums import WITHHELD, packed, packed_shared
from anchortm.federated.wire import Message, WireError, digest_of

__all__ = ["ANSWERS", "AT_POINTS", "Session"]

Array = NDArray[np.float64]
Answer = tuple[dict[str, Any], Array]  # fields in clear text, and numbers that masks hide

MOST_PLANS = 16
SPREAD = 8.0  # bits by which the limit of numbers behind masks varies from question to question
DIRECTIONS = 3  # in one question about separation: the flattest one, back, and on
AGAINST = 1e-3  # share of a row's largest number by which a direction must contradict it
SINGULAR = 1e-8  # smallest share of the information in a direction of the anchors
OWN_KINDS, SHARED_KINDS = ("sums", "influence", "steep", "need"), ("shared", "shared_influence", "shared_steep")
AT_POINTS = ("sums", "influence", "shared", "shared_influence", "need", "calibration", "fitted", "pearson")


class Session:
    """What a site knows of one run: who takes part, its masks, its rows as they are read, and models."""

    def __init__(
        self,
        study: Study,
        members: tuple[str, ...],
        masks: Masks | None,
        rows: SiteRows,
        content: bytes,
        own: tuple[str, bytes],
    ) -> None:
        self.study, self.members, self.masks, self.rows, self.content = study, members, masks, rows, content
        self.name, self.secret = own
        self.round = 0
        self.batch: Batch | None = None
        self.models: dict[str, SiteModel] = {}
        self.objectives: dict[str, AnchoredObjective] = {}

    @property
    def listed(self) -> str:
        """Return the members for the ledger; a digest of many."""
        names = ",".join(self.members)
        return names if len(names) <= LONGEST else f"{len(self.members)} sites, {digest_of(list(self.members))}"

    def can_send(self, values: Array, question: bytes) -> bool:
        """Return whether numbers are finite, and small enough for masks.

        The limit is a random one for each question. Otherwise somebody who changes the unit of a question until the
        site refuses would find the numbers that masks hide.
        """
        limit = np.inf
        if self.masks is not None:
            mark = hmac.new(self.secret, self.content + question, hashlib.sha256).digest()
            limit = LARGEST * 2.0 ** (-SPREAD * int.from_bytes(mark[:4]) / 2.0**32)
        return bool(np.isfinite(values).all()) and float(np.abs(values).max(initial=0.0)) <= limit

    def read(self) -> Batch:
        """Return the rows as all sites read them."""
        if self.batch is None:
            raise WireError("this question comes too early: the design of the study is not known yet")
        return self.batch

    def model(self, asked: Message) -> SiteModel:
        """Return the model that a question is about."""
        found = self.models.get(asked.fields["plan"])
        if found is None:
            raise WireError("the site does not know this model: send its baseline first")
        return found

    def objective(self, asked: Message) -> AnchoredObjective:
        """Return the share of the site in the loss of a model, which is made once."""
        model = self.model(asked)
        mean, scale = asked.arrays["mean"], asked.arrays["scale"]
        if mean.size != scale.size or not model.takes(scale.size) or not (scale > 0.0).all():
            raise WireError("the coordinates do not match the model")
        key = asked.fields["plan"] + hashlib.sha256(mean.tobytes() + scale.tobytes()).hexdigest()
        if key not in self.objectives:
            if len(self.objectives) >= MOST_PLANS:
                self.objectives.pop(next(iter(self.objectives)))
            self.objectives[key] = model.objective(mean, scale)
        found = self.objectives[key]
        if asked.arrays["points"].shape[1] != found.n_parameters:
            raise WireError("the points do not match the model")
        if asked.kind in (SHARED_KINDS if model.recipe.shared is None else OWN_KINDS):
            raise WireError("the question does not match the anchors of the model")
        return found


def _of_counts(session: Session, asked: Message) -> Answer:
    fields, edges = asked.fields, asked.arrays["edges"]
    numbers = session.rows.counts(fields["levels"], fields["classes"])
    outcome = np.zeros(0) if session.rows.scale == "ordinal" else edges
    counts = session.rows.histogram(outcome, dict.fromkeys(fields["numbers"], edges))
    return {}, np.concatenate([numbers, counts])


def _of_moments(session: Session, asked: Message) -> Answer:
    fields, arrays = asked.fields, asked.arrays
    alone = tuple((name, level) for name, level in fields["alone"])
    design = Design(fields["design"], tuple(fields["classes"]), alone, tuple(fields["strata"]))
    session.batch = session.rows.with_design(design)
    session.models.clear()
    session.objectives.clear()
    _check_units(session, arrays["units"])
    edges = dict(zip(fields["numbers"], arrays["number_edges"], strict=True))
    counts = session.rows.histogram(arrays["edges"], edges)
    return {}, np.concatenate([session.rows.moments(session.batch, arrays["units"]), counts])


def _of_gram(session: Session, asked: Message) -> Answer:
    batch, arrays = session.read(), asked.arrays
    _check_units(session, arrays["units"], arrays["mean"])
    counts = session.rows.histogram(arrays["edges"], {})
    return {}, np.concatenate([session.rows.gram(batch, arrays["units"], arrays["mean"]), counts])


def _check_units(session: Session, *vectors: Array) -> None:
    size = session.rows.columns(session.read()).shape[1]
    if any(v.size != size for v in vectors) or not (vectors[0] > 0.0).all():
        raise WireError("the units do not match the columns of the design")


def _of_baseline(session: Session, asked: Message) -> Answer:
    recipe = Recipe.of(asked.fields, asked.arrays)
    model = session.rows.model(recipe, session.read())
    if len(session.models) >= MOST_PLANS:
        session.models.pop(next(iter(session.models)))
    session.models[recipe.digest] = model
    return {}, model.baseline(asked.arrays["units"])


def _status(session: Session, asked: Message, objective: AnchoredObjective, v: Array, values: Array) -> str:
    """Return "ok", or why the sums at a point stay at the site."""
    fine = session.can_send(values, _mark(asked, v)) and not session.model(asked).singled_out(objective, v)
    return "ok" if fine else WITHHELD


def _mark(asked: Message, v: Array) -> bytes:
    """Return a mark of one point of a question. Units and multipliers are part of it, as they change the sums."""
    return b"".join([asked.fields["plan"].encode(), v.tobytes(), *(own.tobytes() for own in asked.arrays.values())])


def _of_sums(session: Session, asked: Message) -> Answer:
    objective = session.objective(asked)
    return _at_points(session, asked, [packed(objective, v) for v in asked.arrays["points"]])


def _at_points(session: Session, asked: Message, found: list[Array]) -> Answer:
    """Return the sums at the points of a question, with zeros at those where they stay at the site."""
    objective, points = session.objective(asked), asked.arrays["points"]
    statuses = [_status(session, asked, objective, v, own) for v, own in zip(points, found, strict=True)]
    sent = [own if status == "ok" else np.zeros(own.size) for own, status in zip(found, statuses, strict=True)]
    return {"statuses": statuses}, np.concatenate(sent)


def _one_point(session: Session, asked: Message) -> tuple[AnchoredObjective, Array]:
    objective, points = session.objective(asked), asked.arrays["points"]
    if points.shape[0] != 1:
        raise WireError("this question is about one point")
    v = points[0]
    if session.model(asked).singled_out(objective, v):
        raise DisclosureError("the parameters single out a few rows of the site")
    return objective, v


def _of_influence(session: Session, asked: Message) -> Answer:
    plain, v = _one_point(session, asked)
    strengths, d = asked.fields["strengths"], v.size
    if len(strengths) != len(plain.apart):
        raise WireError("the strengths do not match the kinds of residuals")
    objective, xi = plain.at_strengths(strengths)
    t, E = objective.sums(v).t, objective.derivatives(v).E
    gram = objective.unit_gram(objective.influence(v, 2.0 * xi * t, np.eye(d), 2.0 * xi * E))
    return {}, gram[np.triu_indices(d)]


def _of_steep(session: Session, asked: Message) -> Answer:
    objective, v = _one_point(session, asked)
    if objective.anchors is None:
        return {}, np.zeros(1)
    largest = of_rows(objective).blocks.largest_spread(
        objective.anchors, objective.anchors.coefficients(objective.sums(v).t)
    )
    return {}, np.array([float(2.0 * asked.fields["xi"] * largest > 1.0)])


def _of_against(session: Session, asked: Message) -> Answer:
    objective = session.objective(asked)
    if asked.arrays["points"].shape[0] > DIRECTIONS:
        raise WireError(f"this question is about up to {DIRECTIONS} directions")
    own = of_rows(objective)
    directions = asked.arrays["points"][:, : own.n_parameters]
    found = [rows_against(own.terms, own.coordinates, v, AGAINST, own.ways) for v in directions]
    least = session.rows.policy.least_cell
    counts = np.array(found, dtype=np.float64)
    # whether there is a cell of them, not how many: numbers that change at one row would show where it lies
    return {}, np.where(counts >= least, float(least), 0.0)


def _of_score(session: Session, asked: Message) -> Answer:
    objective, v = _one_point(session, asked)
    loglik = session.model(asked).loglik(objective, v, asked.fields["dispersion"])
    if not np.isfinite(loglik):
        raise DisclosureError("the log-likelihood is not finite")
    events = sum(term.rows.size for term in of_rows(objective).terms if term.kind == "exact")
    fields = {"n": objective.n_rows, "weight": objective.n_total, "loglik": loglik, "events": events}
    return fields, np.zeros(0)


def _of_fitted(session: Session, asked: Message) -> Answer:
    """Return the deviance, and the log-likelihood at a dispersion, of a model of means."""
    objective, v = _one_point(session, asked)
    return {}, session.model(asked).fitted(objective, v, asked.fields["dispersion"])


def _of_pearson(session: Session, asked: Message) -> Answer:
    """Return Pearson's chi-square of a model of means, unless few rows have most of it."""
    objective, v = _one_point(session, asked)
    found, few = session.model(asked).pearson(objective, v)
    fine = session.can_send(found, _mark(asked, v)) and not few
    return {"statuses": ["ok" if fine else WITHHELD]}, found if fine else np.zeros(1)


def _of_need(session: Session, asked: Message) -> Answer:
    """Return what the score test needs: rank, t'D^-1 t, E'D^-1 t and E'D^-1 E, where D is the information on t."""
    objective, v = _one_point(session, asked)
    if objective.anchors is None:
        raise WireError("the model has no anchors, which the score test is about")
    t, E = objective.sums(v).t, objective.derivatives(v).E
    values, vectors = np.linalg.eigh(objective.anchor_information(v))
    keep = values > SINGULAR * values.max(initial=0.0)
    root = vectors[:, keep].T / np.sqrt(values[keep])[:, None]
    t, E = root @ t, root @ E
    head = np.array([float(keep.sum()), float(t @ t)])
    found = np.concatenate([head, E.T @ t, (E.T @ E)[np.triu_indices(v.size)]])
    return {}, found


def _of_calibration(session: Session, asked: Message) -> Answer:
    objective, points = session.objective(asked), asked.arrays["points"]
    if points.shape[0] != len(session.members):
        raise WireError("this question is about one point for each site")
    place = session.members.index(session.name)
    v = points[place]
    if session.model(asked).singled_out(objective, v):
        raise DisclosureError("the parameters single out a few rows of the site")
    draws = np.random.default_rng([asked.fields["seed"], place])
    policy = session.rows.policy
    counts = session.model(asked).calibration(*objective.coordinates.split(v), draws)
    # the same question has the same answer, so that asking again does not average the rounding out
    mark = hmac.new(session.secret, session.content + v.tobytes(), hashlib.sha256).digest()
    rounding = np.random.default_rng(int.from_bytes(mark))
    return {"cell": policy.least_cell}, policy.rounded_at_random(counts, rounding)


def _of_anchors(session: Session, asked: Message) -> Answer:
    arrays = asked.arrays
    size = 1 + len(asked.fields["numbers"]) + sum(max(0, len(own) - 1) for own in asked.fields["factors"].values())
    shared = SharedAnchors.of(
        asked.fields, {"anchor_mean": arrays["mean"], "anchor_unit": arrays["unit"], "anchor_root": np.eye(size)}
    )
    session.rows.check_shared(shared)
    return {}, session.rows.anchor_gram(shared)


def _of_shared(session: Session, asked: Message) -> Answer:
    objective, points, multipliers = session.objective(asked), asked.arrays["points"], asked.arrays["multipliers"]
    if multipliers.shape != (points.shape[0], objective.n_sums):
        raise WireError("the multipliers do not match the anchors")
    found = [packed_shared(objective, v, own) for v, own in zip(points, multipliers, strict=True)]
    return _at_points(session, asked, found)


def _of_shared_influence(session: Session, asked: Message) -> Answer:
    objective, v = _one_point(session, asked)
    t, E, xi = asked.arrays["t"], asked.arrays["E"], asked.fields["xi"]
    if objective.anchors is None or t.size != objective.n_sums or E.shape != (t.size, v.size):
        raise WireError("the multipliers do not match the anchors")
    # coordinates in the span are coefficients of these anchors
    work = Influence(objective.link, v, objective.coordinates.n_baseline, np.eye(v.size), 2.0 * xi * t, 2.0 * xi * E, t)
    gram = of_rows(objective).blocks.total(work)[1][0]
    return {}, gram[np.triu_indices(v.size)]


def _of_shared_steep(session: Session, asked: Message) -> Answer:
    objective, _ = _one_point(session, asked)
    t = asked.arrays["t"]
    if objective.anchors is None or t.size != objective.n_sums:
        raise WireError("the multipliers do not match the anchors")
    largest = of_rows(objective).blocks.largest_spread(objective.anchors, objective.anchors.coefficients(t))
    return {}, np.array([float(2.0 * asked.fields["xi"] * largest > 1.0)])


ANSWERS: dict[str, Callable[[Session, Message], Answer]] = {
    name.removeprefix("_of_"): function for name, function in list(globals().items()) if name.startswith("_of_")
}
