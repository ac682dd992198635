"""The baseline near that of a fit: a ridge worth some rows of the fit, and slopes that keep a part of theirs.

The loss of the new rows is -l(theta) + (strength / 2) (theta - theta_0)'R(theta - theta_0), where R is the curvature of
the negative log-likelihood of the fit in theta, for each of its rows. Boosted models refit their leaves with it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.result import FitResult
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.solve.newton import Options, Solution, minimise
from anchortm.exceptions import UnavailableError
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.response import Response

__all__ = ["PlaceRows", "baseline_curvature", "curvature_of_rows", "fit_baseline", "keep_curvature", "near_fit"]

MOST_KEPT = 500  # parameters of the baselines whose curvature is kept
LEVEL = 1e-10  # a column that varies less, relative to its mean, is constant up to rounding


@dataclass(frozen=True, eq=False)
class PlaceRows:
    """Rows under a fitted model.

    Attributes
    ----------
    response : Response
    theta : array
        The baseline, of all rows or one for each.
    shift : array
        The linear predictor of each row with its sign and the offset.
    weights : array or None
    mixture : Mixture or None
        Shares of rows in several baselines.
    """

    response: Response
    theta: Array
    shift: Array
    weights: Array | None = None
    mixture: Mixture | None = None

    def take(self, rows: Any) -> PlaceRows:
        """Return some of the rows."""
        return PlaceRows(
            self.response[rows],
            self.theta if self.theta.ndim == 1 else self.theta[rows],
            self.shift[rows],
            None if self.weights is None else self.weights[rows],
            None if self.mixture is None else self.mixture.take(rows),
        )


def _builder(result: FitResult, rows: PlaceRows) -> Callable[..., RowObjective]:
    """Return the function that makes the loss of rows in the baseline alone, with other parameters as they are."""
    nothing = np.zeros((len(rows.response), 0))
    given = (result.link, result.basis, rows.response, nothing, None, rows.weights, result.sign * rows.shift)
    return partial(build_objective, *given, result.sign, mixture=rows.mixture)


def near_fit(
    build: Callable[..., RowObjective], theta: Array, beta: Array, floor: float
) -> tuple[RowObjective, Array, Array | float]:
    """Return the loss of a few rows whose slopes are bounded by those of a fit, the fit in its parameters, and a ridge.

    Parameters
    ----------
    build : callable
        Makes the loss of the rows; it takes ``coordinates``.
    theta, beta : arrays
        The fit.
    floor : float
        Smallest slope of the baseline, as a share of its slope in the fit. Between a few rows nothing else determines
        the baseline.

    Returns
    -------
    tuple
        The loss, the parameters of the fit, and a faint ridge by which groups share increments as before.
    """
    objective = build()
    c = objective.coordinates
    level = c.scale <= LEVEL * np.abs(c.mean)  # columns of the baseline where there are no outcomes
    if level.any():
        unit = np.where(level, 1.0 / c.scale, 1.0)
        objective = build(coordinates=replace(c, scale=c.scale * unit, lower=c.lower * unit, upper=c.upper * unit))
        c = objective.coordinates
    v = c.join(theta, beta)
    lower = np.where(np.isfinite(c.lower), np.maximum(c.lower, floor * v), c.lower)
    objective.coordinates = replace(c, lower=lower, pieces=())
    return objective, v, c.faint


def fit_baseline(
    result: FitResult, rows: PlaceRows, R: Array, strength: float, floor: float, options: Options
) -> tuple[Array, Solution]:
    """Return the parameters of the baseline that suit these rows, and the solution with its certificate.

    Parameters
    ----------
    result : FitResult
        The fit; its coefficients stay as they are.
    rows : PlaceRows
        Rows of the new place.
    R : array
        Curvature of the fit for each of its rows, see ``baseline_curvature``.
    strength : float
        How many rows the fit counts for.
    floor : float
        Smallest slope, as a share of that of the fit.
    options : Options
        Tolerance and number of iterations.
    """
    objective, v, faint = near_fit(_builder(result, rows), result.baseline, np.zeros(0), floor)
    J = objective.coordinates.jacobian
    pull = strength * (J.T @ R @ J) + faint
    found = minimise(Pulled(objective, v, pull / objective.n_total), v, 0.0, options)
    return objective.coordinates.split(found.v)[0], found


def curvature_of_rows(result: FitResult, rows: PlaceRows) -> Array:
    """Return the second derivative of the mean negative log-likelihood of rows in the parameters of the baseline."""
    objective = _builder(result, rows)()
    c = objective.coordinates
    back = np.linalg.pinv(c.jacobian)
    hessian = objective.derivatives(c.join(result.baseline, np.zeros(0))).matrix
    return np.asarray(back.T @ hessian @ back) / objective.n_total


def baseline_curvature(result: FitResult) -> Array:
    """Return the curvature of a fit in the parameters of its baseline for each row, without the rows.

    It is part of the information of a fit without penalties; other fits keep it when they are saved.
    """
    kept = result.computed.get("baseline")
    if kept is not None:
        return np.asarray(kept)
    information, jacobian = result.information, result.jacobian
    if isinstance(information, Arrow):
        jacobian, information = information.coordinates.jacobian, information.toarray()
    if information is None or jacobian is None or not result.unpenalised:
        raise UnavailableError(
            "the curvature of the baseline is not known: it needs the rows of the fit in memory, or a file that was "
            "saved while they were; fit the model again, or use what='shift'"
        )
    back = np.linalg.pinv(jacobian)[:, : result.baseline.size]
    return np.asarray(back.T @ information @ back) / result.n_total


def keep_curvature(problem: Any, result: FitResult) -> None:
    """Compute the curvature of the baseline if this needs the rows of the fit, so that files and pickles keep it."""
    known = result.unpenalised or result.computed.get("baseline") is not None
    moves = result.basis.kind not in ("constant", "step") and result.random is None and result.scale is None
    if known or not moves or not problem.data.in_memory or result.baseline.size > MOST_KEPT:
        return
    data = problem.data
    theta, shift = problem.moved(result.baseline, result.others, data)
    rows = PlaceRows(data.response, theta, shift, data.weights, data.mixture)
    result.computed["baseline"] = curvature_of_rows(result, rows)
