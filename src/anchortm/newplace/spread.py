"""The spread of predictions for a new place, tuned on left-out environments."""

from __future__ import annotations

from typing import Any

from anchortm._util.checks import jobs
from anchortm.engine.widening import why_not_widened
from anchortm.exceptions import InputError
from anchortm.models.given import given
from anchortm.selection.designs import like
from anchortm.selection.paired_choice import check_objective
from anchortm.selection.places import places_of
from anchortm.selection.tuning import Tuning, best_factor

__all__ = ["calibrated"]

MIN_ROWS = 10


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
