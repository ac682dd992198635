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
from anchortm.engine.recalibration.shift import Law, fit_shift, law_around
from anchortm.engine.recalibration.totals import Total, TotalOfRows
from anchortm.engine.result import FitResult, atom_at_zero
from anchortm.engine.rows.ends import Ends
from anchortm.engine.rows.likelihood import build_terms
from anchortm.engine.rows.quadrature import MovedRows
from anchortm.engine.solve.newton import Options
from anchortm.engine.widening import level_of, shifted, why_not_widened, widened

__all__ = ["Plan", "by_shift", "recalibrated", "total_of", "why_not"]


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
    """

    what: str
    prior: float
    prior_from: str = "given"
    scale_prior: float = 0.25**2
    strength: float = 20.0
    floor: float = 0.2


def why_not(result: FitResult, what: str) -> str | None:
    """Return why a result cannot be recalibrated in this way; None if it can."""
    if result.recalibration is not None:
        return "it is recalibrated already; recalibrate the model before, with all rows of the place"
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


def total_of(result: FitResult, rows: PlaceRows) -> TotalOfRows:
    """Return the log-likelihood of rows of a transformation model as a function of one shift."""
    terms = build_terms(result.basis, rows.response)
    values = MovedRows(result.link, terms, rows.theta, rows.shift)
    return TotalOfRows(values, rows.weights, len(rows.response))


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
    n = len(rows.response)
    weight = float(n) if rows.weights is None else float(rows.weights.sum())
    if plan.what == "shift":
        return by_shift(result, total_of(result, rows), n, weight, plan)
    if plan.what == "shift+scale":
        return _by_scale(result, rows, n, weight, plan)
    assert curvature is not None  # noqa: S101
    return _by_baseline(result, rows, n, weight, plan, options, curvature)


def by_shift(result: FitResult, total: Total, n_rows: int, weight: float, plan: Plan) -> FitResult:
    """Return any kind of result with the most likely shift, and the distribution of the shift around it."""
    found: dict[str, Any] = {"rows": n_rows, "weight": weight, "prior": plan.prior, "prior_from": plan.prior_from}
    if not (n_rows and plan.prior):  # nothing is known but the prior
        sd = math.sqrt(plan.prior)
        return replace(result, recalibration=Recalibration(plan.what, **found, shift=0.0, std_error=sd, law=Law(sd)))
    fit = fit_shift(total, 1.0 / plan.prior)
    law = law_around(total, fit, 1.0 / plan.prior) if fit.converged else Law(math.sqrt(plan.prior))
    told = Recalibration(
        plan.what,
        **found,
        shift=fit.shift,
        std_error=fit.std_error,
        score=fit.score,
        converged=fit.converged,
        history=fit.history,
        law=law,
    )
    return replace(shifted(result, fit.shift), recalibration=told)


def _by_scale(result: FitResult, rows: PlaceRows, n: int, weight: float, plan: Plan) -> FitResult:
    """Return the result with the most likely shift and scale; predictions know the scale, but not the shift."""
    if not (n and plan.prior):
        return by_shift(result, total_of(result, rows), n, weight, plan)
    ends = Ends.of(build_terms(result.basis, rows.response), rows.theta, rows.shift)
    fit = fit_shift_and_scale(result.link, ends, rows.weights, 1.0 / plan.prior, 1.0 / plan.scale_prior, plan.floor)
    c, m = fit.scale, float(result.link.quantile(0.5))
    constant = level_of(result)[0]
    moved = replace(rows, theta=c * rows.theta + (1.0 - c) * m * constant, shift=c * rows.shift)
    given = by_shift(result, total_of(result, moved), n, weight, plan).recalibration  # the shift, given the scale
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


def _by_baseline(
    result: FitResult, rows: PlaceRows, n: int, weight: float, plan: Plan, options: Options, R: Array
) -> FitResult:
    """Return the result with the most likely baseline; predictions know its shape, but not its level."""
    constant, level = level_of(result)
    precision = plan.strength * float(level @ R @ level)
    theta, history, kkt, converged = result.baseline, list[dict[str, Any]](), 0.0, True
    if n:
        theta, found = fit_baseline(result, rows, R, plan.strength, plan.floor, options)
        history, kkt, converged = found.history, found.kkt, found.converged
    # how far the level has moved, in the metric of the fit; the prior pulls it back to where it was
    centre = float(level @ R @ (theta - result.baseline)) / float(level @ R @ level)
    own = theta if rows.mixture is None else rows.mixture.thetas(theta)
    total = total_of(result, replace(rows, theta=own))
    law, error = Law(precision**-0.5), precision**-0.5
    if n:
        fit = fit_shift(total, precision, centre)
        law, error = law_around(total, fit, precision, centre), fit.std_error
    told = Recalibration(
        "baseline",
        n,
        weight,
        1.0 / precision,
        "strength",
        -centre,
        error,
        strength=plan.strength,
        floor=plan.floor,
        score=kkt,
        converged=converged,
        history=history,
        law=law,
    )
    average = result.typical
    if n:
        average = theta if rows.mixture is None else rows.mixture.typical(theta)
    atom = result.atom
    if atom and n:
        atom = atom_at_zero(result.link, result.basis, average, float(np.mean(rows.shift)))
    return replace(result, baseline=theta, typical=average, atom=atom, recalibration=told)
