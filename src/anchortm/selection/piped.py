"""Left-out environments of pipelines: transformers and model are fitted again without each of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._util.checks import check_weights
from anchortm._util.pipelines import model_of
from anchortm.engine.lost_columns import notes_of
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.inputs.missing import Counts, columns_of_inputs, rows_taken
from anchortm.inputs.response import Response, as_response
from anchortm.inputs.transformed import transformed
from anchortm.models.given import ROWS, Given
from anchortm.models.pipeline import fit_arguments, with_parameters
from anchortm.selection.folds import Found
from anchortm.selection.held import Held, HeldRows
from anchortm.selection.splits import NullModel, unknown_classes

__all__ = ["folds_of_pipeline"]


def folds_of_pipeline(
    rows: Given, groups: NDArray[np.intp], labels: NDArray[Any], xis: list[float]
) -> tuple[Callable[[int], Found], NDArray[Any]]:
    """Return the function that computes the rows of one left-out environment, and the environments that have weight."""
    weights = check_weights(rows.sample_weight, groups.size)
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        rows = replace(rows, **{what: rows_taken(what, getattr(rows, what), groups.size, kept) for what in ROWS})
        found, groups = np.unique(groups[kept], return_inverse=True)
        labels = labels[found]
    given = {"sample_weight": rows.sample_weight, "offset": rows.offset}
    null = NullModel.of(_bare(model_of(rows.model)).problem(None, rows.y, **given))
    return partial(_one, rows, null, groups, labels, xis), labels


def _bare(model: Any) -> Any:
    """Return the model without arguments that need covariates; of a boosted model the one inside."""
    model = clone(getattr(model, "model", model))
    roles = dict.fromkeys(("anchor_names", "strata", "varying", "random", "scale", "penalty_factor", "start"))
    return model.set_params(xi=0.0, **{name: roles[name] for name in roles if name in model.get_params(deep=False)})


def _one(
    rows: Given, null: NullModel, groups: NDArray[np.intp], labels: NDArray[Any], xis: list[float], e: int
) -> Found:
    """Return the rows of one left-out environment, one for each xi."""
    name, out = labels.tolist()[e], groups == e
    train, held = (
        {what: rows_taken(what, getattr(rows, what), groups.size, np.flatnonzero(part)) for what in ROWS}
        for part in (~out, out)
    )
    train["environments"] = labels[groups[~out]]
    y, found, distributions, last = _outcome(rows), [], {}, None
    for xi in xis:
        pipeline = with_parameters(rows.model, xi=xi, place_variance=False)  # the fold need not have enough places
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AnchorTMWarning)  # whether a fit converged is in its row
                fitted = pipeline.fit(train["X"], train["y"], **fit_arguments(pipeline, train)).model_
            kept = _whole(fitted, held["X"], int(out.sum()))
            own = {what: rows_taken(what, values, int(out.sum()), kept) for what, values in held.items()}
            weights, nll = own["sample_weight"], math.nan
            unknown = unknown_classes(y[~out][fitted.rows_used_], y[out][kept])
            if kept.size and not unknown:
                nll = np.average(fitted.nll(own["X"], own["y"], offset=own["offset"]), weights=weights)
                last = HeldRows(np.flatnonzero(out)[kept], own["X"], y[out][kept], weights, own["offset"])
                distributions[xi] = last.distribution(fitted)
        except InputError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        row = {"environment": name, "xi": xi, "n": kept.size if weights is None else float(np.sum(weights))}
        about = {"events": math.nan, "null": math.nan}
        if kept.size:
            about = null.about(np.flatnonzero(~out)[fitted.rows_used_], np.flatnonzero(out)[kept])
        row |= about | {"nll": float(nll), "converged": fitted.converged_, "missing": int(out.sum()) - kept.size}
        row["notes"] = notes_of((), unknown) if kept.size else "not predicted: each of its rows has a missing value"
        found.append(row | {f"coef_{k}": b for k, b in zip(fitted.coef_names_, fitted.coef_.tolist(), strict=True)})
    return Found(found, None if last is None else Held(last, distributions))


def _whole(fitted: Any, X: Any, n_rows: int) -> NDArray[np.intp]:
    """Return the left-out rows that have no missing values behind the transformers, if the model drops such rows."""
    if fitted.specification().missing != "drop":
        return np.arange(n_rows)
    made = transformed(X, getattr(fitted, "transformers_", ()), named=False)
    return np.flatnonzero(Counts.of(n_rows, columns_of_inputs({}, X=made))[1])


def _outcome(rows: Given) -> Response:
    """Return the checked outcome of all rows."""
    spec = rows.model.specification()
    return as_response(rows.y, spec.outcome, spec.levels)
