"""A fitted model recalibrated at a new place, by a few of its rows with known outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._typing import Array
from anchortm._util.checks import check_weights, one_number
from anchortm._util.frames import aligned, native
from anchortm.engine.recalibration.baseline import PlaceRows, baseline_curvature, keep_curvature
from anchortm.engine.recalibration.fits import Plan, by_shift, recalibrated, why_not
from anchortm.engine.recalibration.record import WAYS, Recalibration
from anchortm.engine.result import FitResult
from anchortm.engine.rows.ends import Ends
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedMeans, ShiftedRows
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, ConvergenceWarning, InputError, InputTypeError
from anchortm.families import Family
from anchortm.inputs.clusters import INTERCEPT
from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Response
from anchortm.newplace.emulation import Choice, choose

__all__ = ["Asked", "Recalibration", "default_prior", "moved_to_place"]

SHARE = 0.1  # default prior variance of a shift, as a share of the variance of rows


@dataclass(frozen=True)
class Asked:
    """The arguments of ``recalibrate``, checked."""

    what: str
    prior: Any
    strength: float
    floor: float
    scale_prior: float

    @classmethod
    def of(
        cls, what: Any, prior: Any, strength: Any, floor: Any, scale_prior: Any, ways: tuple[str, ...] = WAYS
    ) -> Asked:
        """Return the arguments; refuse those that make no sense."""
        if what not in ("auto", *ways):
            raise InputError(f"what must be one of {', '.join(map(repr, ('auto', *ways)))}, not {what!r}")
        if isinstance(prior, str):
            if prior != "places":
                raise InputError(f"prior must be 'places' or the variance of shifts between places, not {prior!r}")
        elif not 0.0 <= one_number(prior, "prior") < math.inf:
            raise InputError(f"prior, the variance of shifts between places, must be at least 0, not {prior!r}")
        if not 0.0 < one_number(strength, "strength") < math.inf:
            raise InputError(f"strength, how many rows the fit counts for, must be a positive number, not {strength!r}")
        if not 0.0 <= one_number(floor, "floor") < 1.0:
            raise InputError(f"floor, the smallest share of a slope, must be at least 0 and below 1, not {floor!r}")
        if not 0.0 < one_number(scale_prior, "scale_prior") < math.inf:
            raise InputError(f"scale_prior, the variance of the scale, must be a positive number, not {scale_prior!r}")
        return cls(what, prior, float(strength), float(floor), float(scale_prior))

    def plan(self, prior: float, prior_from: str, cluster: str) -> Plan:
        """Return the plan of the fits."""
        return Plan(self.what, prior, prior_from, self.scale_prior, self.strength, self.floor, cluster)


@dataclass(frozen=True, eq=False)
class Place:
    """The rows of the new place under a fitted model.

    Attributes
    ----------
    shifted : ShiftedRows
        Their likelihoods as functions of one shift.
    rows : PlaceRows or None
        The rows of a transformation model.
    weights : array or None
        Weights of the rows.
    total : float
        Sum of the weights that were given.
    """

    shifted: ShiftedRows
    rows: PlaceRows | None
    weights: Array | None
    total: float

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return self.shifted.n_rows

    def moved(self, model: Any, result: FitResult, plan: Plan) -> FitResult:
        """Return the result that suits these rows."""
        if plan.what == "shift" or self.rows is None:
            return by_shift(result, self.shifted, self.weights, plan)
        R = None
        if plan.what == "baseline":
            if model.has_rows_:
                keep_curvature(model.problem_, result)
            R = baseline_curvature(result)
        return recalibrated(result, self.rows, plan, model.new_rows_.spec.quiet, R)


def moved_to_place(
    model: Any, X: Any, y: Any, asked: Asked, offset: Any, sample_weight: Any, trees: Any = None
) -> FitResult:
    """Return the result of a fitted model, recalibrated by these rows; see ``recalibrate`` of models.

    ``trees`` is the boosted model that ``model`` is the inner model of, if there is one.
    """
    result = model.result_
    check_way(result, asked.what, offset)
    n = n_given(X, y)
    cluster = new_cluster(model, result, X, n)
    place = read_place(model, X, y, n, offset, sample_weight)
    prior, source = 0.0, "strength"
    if asked.what != "baseline":
        prior, source = prior_of(model if trees is None else trees, result, asked.prior)
    plan, choice = asked.plan(prior, source, cluster), Choice(asked.what)
    if asked.what == "auto":
        only = Choice("shift", "trees would have to be grown again without each place to try other ways")
        choice = choose(model, plan, place.n_rows, offset) if trees is None else only
        plan = replace(plan, what=choice.what)
    moved = place.moved(model, result, plan)
    told = moved.recalibration
    assert told is not None  # noqa: S101
    told = replace(told, weight=place.total, chosen=choice.reason, emulated=choice.emulated)
    moved = replace(moved, recalibration=told, computed=dict(moved.computed))
    if not told.converged:
        text = f"the recalibration did not converge: score {told.score:.1e}; look at recalibration_.log"
        warn(text, ConvergenceWarning)
        return replace(moved, warnings=[*moved.warnings, text])
    return moved


def check_way(result: FitResult, what: str, offset: Any) -> None:
    """Raise an error if a fit cannot be recalibrated in this way."""
    if result.recalibration is not None:
        raise InputError("this model is recalibrated already: recalibrate the model before, with all rows of the place")
    reason = why_not(result, "shift" if what == "auto" else what)
    if reason is None and what == "shift+scale" and offset is not None:
        reason = "the offset has coefficient 1 and no scale; give it as a covariate"
    if reason is not None:
        raise InputError(f"this model cannot be recalibrated by what={what!r}: {reason}")


def new_cluster(model: Any, result: FitResult, X: Any, n: int) -> str:
    """Return the name of the clusters if the model has random effects; the new place is one of them then."""
    if result.random is None:
        return ""
    names = list(result.random.effects.names)
    if len(model.new_rows_.spec.cluster) > 1 or names != [INTERCEPT]:
        raise InputError(
            "a model with random slopes, or with two random terms, cannot be recalibrated by a shift: a new place has "
            "several effects; leave all but one random intercept out"
        )
    cluster = str(result.random.effects.cluster)
    try:
        found = len(model.new_rows_.clusters(X).labels) if n else 1
    except InputError:  # X has no column of clusters: the rows are those of one
        found = 1
    if found > 1:
        raise InputError(
            f"the rows belong to {found} clusters of {cluster}, but with random effects a new place is one cluster, "
            "whose effect comes from its rows: pass the rows of one, or recalibrate a model without random effects"
        )
    return cluster


def default_prior(result: FitResult) -> float:
    """Return the prior variance of a shift if nothing is known about places: a tenth of the variance of rows.

    That of rows is the variance of the link on the scale of h. Of a generalised linear model it is the dispersion of
    normal outcomes, the variance of the latent variable of a binary outcome, and 1 for others, whose linear predictor
    is usually a logarithm.
    """
    link = result.link
    if not isinstance(link, Family):
        return SHARE * float(link.variance)
    if link.family == "gaussian" and link.link == "identity":
        return SHARE * float(link.dispersion)
    latent = {"logit": math.pi**2 / 3.0, "cloglog": math.pi**2 / 6.0, "loglog": math.pi**2 / 6.0}
    return SHARE * (latent.get(link.link, 1.0) if link.family == "binomial" else 1.0)


def prior_of(model: Any, result: FitResult, asked: Any) -> tuple[float, str]:
    """Return the prior variance of the shift, and where it comes from."""
    if not isinstance(asked, str):
        return float(asked), "given"
    if result.random is not None:
        return float(result.random.covariance[0, 0]), "clusters"
    try:
        return float(model.place_sd_) ** 2, "places"
    except (AnchorTMError, AttributeError) as error:
        found = default_prior(result)
        warn(
            f"{error}. So the prior of the shift has standard deviation {math.sqrt(found):.3g}, whose square is a "
            "tenth of the variance of rows; you can pass the variance of shifts between places as prior",
            AnchorTMWarning,
        )
        return found, "default"


def n_given(X: Any, y: Any) -> int:
    """Return the number of rows that were given."""
    table = native(y if X is None else X)
    if table is None:
        raise InputError("there are no rows: pass those of the new place; a table may have none, such as data[:0]")
    if isinstance(table, str) or not (hasattr(table, "shape") or hasattr(table, "__len__")):
        raise InputTypeError(
            f"X must hold the rows of the new place, not {table!r}; a model that was fitted by a formula takes the "
            "table alone"
        )
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)


def read_place(model: Any, X: Any, y: Any, n: int, offset: Any, sample_weight: Any) -> Place:
    """Return the rows of the new place, checked, without those of weight zero."""
    result = model.result_
    new = replace(model.new_rows_, result=replace(result, random=None))  # the effect of their cluster is the shift
    sample_weight = Formula.new_column(X, sample_weight)
    aligned(X=X, y=y, sample_weight=sample_weight)
    if n == 0:
        nothing = np.zeros(0)
        none = PlaceRows(Response(nothing, nothing), result.baseline, nothing)
        return Place(ShiftedEnds(result.link, Ends(0, ())), none, None, 0.0)
    weights = check_weights(sample_weight, n)
    kept = np.arange(n) if weights is None else np.flatnonzero(weights)
    shifted, rows = new.shifted(X, y, offset), None
    check_possible(shifted, kept)
    own = None if weights is None else weights[kept]
    total = float(n) if own is None else float(own.sum())
    if result.basis.kind not in ("constant", "step"):
        response, theta, shift = new.outcome_and_parts(X, y, offset)
        rows = PlaceRows(response, theta, shift, weights, new.take_apart(X, n)[1]).take(kept)
    elif result.quasi:  # overdispersed rows carry less information than their family says
        shifted = ShiftedMeans.of(replace(result.link, dispersion=1.0), *new.eta_and_outcome(X, y, offset))
        own = (np.ones(kept.size) if own is None else own) / result.link.dispersion
    return Place(shifted.part(kept), rows, own, total)


def check_possible(rows: ShiftedRows, kept: NDArray[np.intp]) -> None:
    """Raise an error if rows have no likelihood before the shift."""
    with np.errstate(all="ignore"):
        impossible = kept[~np.isfinite(rows(np.zeros((rows.n_rows, 1)))[0][kept, 0])]
    if impossible.size:
        raise InputError(
            f"the outcome of row {impossible[0]} has the likelihood 0 under the model: its baseline is flat there, or "
            "the outcome is too far out; leave such rows out"
        )
