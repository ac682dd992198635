"""A fitted result moved to a new place, by what its rows say about a shift, a scale or the baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.engine.recalibration.baseline import PlaceRows, fit_baseline
from anchortm.engine.recalibration.record import Recalibration
from anchortm.engine.recalibration.scale import fit_shift_and_scale
from anchortm.engine.recalibration.shift import fit_shift, law_around
from anchortm.engine.result import FitResult, atom_at_zero
from anchortm.engine.rows.ends import Ends
from anchortm.engine.rows.likelihood import build_terms
from anchortm.engine.rows.shift_law import NormalShift, ShiftLaw
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedRows
from anchortm.engine.solve.newton import Options
from anchortm.engine.widening import level_of, shifted, why_not_widened, widened

__all__ = ["Plan", "by_shift", "recalibrated", "why_not"]


@dataclass(frozen=True)
class Plan:
    """What is fitted to the rows of a new place, and how far it may move.

    Attributes
    ----------
    what : {"shift", "shift+scale", "baseline"}
    prior : float
        Variance of the shift between places.
    prior_from : str
        Where it comes from, see ``Recalibration``.
    scale_prior : float
        Variance of the scale between places.
    strength : float
        How many rows the fit counts for, if its baseline moves.
    floor : float
        Smallest share of the slopes of the fit.
    cluster : str
        If the place is a new cluster of a model with random effects: the name of the clusters.
    """

    what: str
    prior: float
    prior_from: str = "given"
    scale_prior: float = 0.25**2
    strength: float = 20.0
    floor: float = 0.2
    cluster: str = ""


def why_not(result: FitResult, what: str) -> str | None:
    """Return why a result cannot be recalibrated in this way; None if it can."""
    if result.basis.kind == "constant" and np.isfinite(result.link.eta_range).any():
        return f"the {result.link.link} link bounds the linear predictor, which a shift may leave; use another link"
    if what == "shift":
        return None
    if what == "shift+scale":
        return why_not_widened(result)
    if result.basis.kind == "constant":
        return "a generalised linear model has no baseline in y; use what='shift'"
    if result.basis.kind == "step":
        return "the steps of a partial likelihood are not parameters; use what='shift', or ProportionalHazards"
    if result.random is not None or result.scale is not None:
        return "random effects and scale effects do not let a baseline move alone; use what='shift'"
    return None


def _shifted(result: FitResult, rows: PlaceRows) -> ShiftedEnds:
    """Return rows of a transformation model as functions of one shift."""
    terms = build_terms(result.basis, rows.response)
    return ShiftedEnds(result.link, Ends.of(terms, rows.theta, rows.shift))


def recalibrated(
    result: FitResult, rows: PlaceRows, plan: Plan, options: Options, curvature: Array | None = None
) -> FitResult:
    """Return the result of a transformation model that suits these rows.

    Parameters
    ----------
    result : FitResult
        The fit.
    rows : PlaceRows
        Rows of the new place.
    plan : Plan
        What to fit.
    options : Options
        Tolerance and number of iterations for a baseline.
    curvature : array, optional
        Curvature of the fit in its baseline, which a baseline needs.
    """
    if plan.what == "shift":
        return by_shift(result, _shifted(result, rows), rows.weights, plan)
    if plan.what == "shift+scale":
        return _by_scale(result, rows, plan)
    assert curvature is not None  # noqa: S101
    return _by_baseline(result, rows, plan, options, curvature)


def _size(n: int, weights: Array | None) -> dict[str, Any]:
    return {"rows": n, "weight": float(n) if weights is None else float(weights.sum())}


def by_shift(result: FitResult, rows: ShiftedRows, weights: Array | None, plan: Plan) -> FitResult:
    """Return any kind of result with the most likely shift, and the distribution of the shift around it."""
    found = _size(rows.n_rows, weights)
    found |= {"prior": plan.prior, "prior_from": plan.prior_from, "cluster": plan.cluster}
    if not (rows.n_rows and plan.prior):  # nothing is known but the prior
        sd = math.sqrt(plan.prior)
        told = Recalibration(plan.what, **found, shift=0.0, std_error=sd, law=NormalShift(0.0, sd))
        return replace(result, recalibration=told)
    fit = fit_shift(rows.together(weights), 1.0 / plan.prior)
    told = Recalibration(
        plan.what,
        **found,
        shift=fit.shift,
        std_error=fit.std_error,
        score=fit.score,
        converged=fit.converged,
        history=fit.history,
        law=law_around(rows, weights, fit, 1.0 / plan.prior, 0.0),
    )
    return replace(shifted(result, fit.shift), recalibration=told)


def _by_scale(result: FitResult, rows: PlaceRows, plan: Plan) -> FitResult:
    """Return the result with the most likely shift and scale; predictions know the scale, but not the shift."""
    before = _shifted(result, rows)
    if not (before.n_rows and plan.prior):
        return by_shift(result, before, rows.weights, plan)
    fit = fit_shift_and_scale(
        result.link, before.ends, rows.weights, 1.0 / plan.prior, 1.0 / plan.scale_prior, plan.floor
    )
    c, m = fit.scale, float(result.link.quantile(0.5))
    constant = level_of(result)[0]
    moved = replace(rows, theta=c * rows.theta + (1.0 - c) * m * constant, shift=c * rows.shift)
    given = by_shift(result, _shifted(result, moved), rows.weights, plan).recalibration  # the shift, given the scale
    assert given is not None  # noqa: S101
    shift_error, scale_error = fit.std_errors
    told = replace(
        given,
        shift=fit.shift,
        std_error=shift_error,
        scale=c,
        scale_error=scale_error,
        score=fit.score,
        converged=fit.converged and given.converged,
        history=fit.history,
    )
    wider = replace(widened(result, 1.0 / c), widened=result.widened)
    return replace(shifted(wider, fit.shift), recalibration=told)


def _by_baseline(result: FitResult, rows: PlaceRows, plan: Plan, options: Options, R: Array) -> FitResult:
    """Return the result with the most likely baseline; predictions know its shape, but not its level."""
    level = level_of(result)[1]
    precision = plan.strength * float(level @ R @ level)
    law: ShiftLaw = NormalShift(0.0, precision**-0.5)
    plain: dict[str, Any] = {"strength": plan.strength, "floor": plan.floor, "prior_from": "strength"}
    plain |= {"prior": 1.0 / precision} | _size(len(rows.response), rows.weights)
    told = Recalibration("baseline", **plain, shift=0.0, std_error=law.sd)
    if not len(rows.response):
        return replace(result, recalibration=replace(told, law=law))
    theta, found = fit_baseline(result, rows, R, plan.strength, plan.floor, options)
    # how far the level has moved, in the metric of the fit; the prior pulls it back to where it was
    centre = float(level @ R @ (theta - result.baseline)) / float(level @ R @ level)
    own = theta if rows.mixture is None else rows.mixture.thetas(theta)
    moved = _shifted(result, replace(rows, theta=own))
    fit = fit_shift(moved.together(rows.weights), precision, centre)
    told = replace(
        told,
        shift=-centre,
        std_error=fit.std_error,
        score=found.kkt,
        converged=found.converged,
        history=found.history,
        law=law_around(moved, rows.weights, fit, precision, centre),
    )
    average = theta if rows.mixture is None else rows.mixture.typical(theta)
    atom = result.atom
    if atom:
        atom = atom_at_zero(result.link, result.basis, average, float(np.mean(rows.shift)))
    return replace(result, baseline=theta, typical=average, atom=atom, recalibration=told)
