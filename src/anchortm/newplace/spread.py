"""The spread of predictions for a new place, tuned on left-out environments."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from anchortm._typing import Array
from anchortm._util.checks import jobs
from anchortm.engine.widening import why_not_widened
from anchortm.exceptions import InputError
from anchortm.models.given import given
from anchortm.newplace.training import Tuning, places_of
from anchortm.selection.designs import like
from anchortm.selection.paired_choice import check_objective, objective_of

__all__ = ["best_factor", "calibrated"]

COARSE = np.linspace(0.1, 1.5, 57)  # 1 / factor
STEP = COARSE[1] - COARSE[0]
MIN_ROWS = 10


@overload
def best_factor(tuning: Tuning, at: int, level: float | None, ranked: NDArray[np.bool_]) -> float: ...
@overload
def best_factor(
    tuning: Tuning, at: int, level: float | None, ranked: NDArray[np.bool_], *, value: Literal[True]
) -> tuple[float, float]: ...
def best_factor(
    tuning: Tuning, at: int, level: float | None, ranked: NDArray[np.bool_], *, value: bool = False
) -> float | tuple[float, float]:
    """Return the factor of the spread with the smallest objective over left-out environments, and that objective.

    The mean and the worst loss are convex in 1 / factor. A quantile need not be: it is looked at on a grid first.
    """

    def objective(c: Any) -> Array:
        return objective_of(tuning.losses(at, 1.0 / np.asarray(c)), ranked, level)

    k = int(np.nanargmin(objective(COARSE)))
    fine = np.linspace(max(COARSE[k] - STEP, 0.01), COARSE[k] + STEP, 41)
    near = objective(fine)
    j, step = int(np.nanargmin(near)), fine[1] - fine[0]
    bounds = (fine[j] - step, fine[j] + step)
    found = minimize_scalar(lambda c: float(objective(c)), bounds=bounds, method="bounded", options={"xatol": 1e-7})
    c, best = (float(found.x), float(found.fun)) if found.fun < near[j] else (float(fine[j]), float(near[j]))
    return (1.0 / c, best) if value else 1.0 / c


def calibrated(
    model: Any,
    X: Any,
    y: Any,
    environments: Any,
    objective: Any,
    *,
    anchors: Any,
    sample_weight: Any,
    offset: Any,
    n_jobs: int | None,
    progress: bool | None,
) -> Any:
    """Return a fitted model with the spread that suits left-out environments; see ``calibrate_spread`` of models."""
    level, result = check_objective(objective), model.result_
    reason = why_not_widened(result)
    if reason is not None:
        raise InputError(f"the spread of this model cannot change: {reason}")
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    if rows.batched:
        raise InputError("calibrate_spread needs the rows in memory: read the table first")
    with rows.screened():
        rows, places = places_of(rows, list(dict.fromkeys([0.0, float(result.xi)])), None)
        folds = like(places)
        records = places.records([fold.out for fold in folds], jobs(n_jobs), "left-out environments", progress)
    failed = [f"{places.labels[min(out)]}: {record.note}" for out, record in records.items() if record.failed]
    if failed:
        raise InputError(f"the spread cannot be calibrated, because fits failed without {'; '.join(failed[:3])}")
    tuning = Tuning.of(places, frozenset(), folds, records)
    return model.widened(best_factor(tuning, len(places.xis) - 1, level, tuning.ranked(MIN_ROWS)))
