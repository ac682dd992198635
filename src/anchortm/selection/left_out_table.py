"""The table of left-out environments, wherever the rows are and whatever the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.checks import jobs, several_xi
from anchortm._util.frames import name_of
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.remarks import tell_alphabetical
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.inputs import parts
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.inputs.response import as_response
from anchortm.models.base import check_model
from anchortm.models.given import Given
from anchortm.selection.batches import LeftOut, left_out_in_batches
from anchortm.selection.folds import Found, Grid, folds
from anchortm.selection.piped import folds_of_pipeline

__all__ = ["MOST_TOLD", "left_out"]

MOST_TOLD = 5  # environments with a warning of their own


def left_out(
    rows: Given,
    grid: Grid | None,
    by: tuple[str, ...],
    xis: Sequence[float],
    cut: int | None,
    n_jobs: int | None,
    progress: bool | None,
) -> LeftOut:
    """Return one row for each environment, xi and problem; other arguments as for ``leave_one_environment_out``.

    Parameters
    ----------
    rows : Given
        The model, and the rows with their environments.
    grid : callable or None
        Makes the problems of a grid of penalties; None fits the model itself.
    by : tuple of str
        Names of the penalties that differ between the fits.
    """
    model = rows.model
    inner = model_of(model) if by == ("xi",) else model
    check_model(inner, {"lambda": "l1", "smooth": "smooth"}.get(by[0], "left_out"))
    asked, n_jobs, spec = several_xi(xis), jobs(n_jobs), model.specification()
    parts.refuse("left_out", *spec.asked())
    values = asked if by != ("xi",) or 0.0 in asked else [0.0, *asked]  # regret is measured from xi = 0
    for xi in values:
        spec.at(xi=xi).check_xi()
    if rows.batched:
        with Task("left-out environments", shown=progress):
            return _told(_completed(left_out_in_batches(rows, grid, by, values, cut, n_jobs), by, asked))
    rows, groups, labels = _coded(rows, cut)
    name = name_of(rows.environments)
    # many small fits are faster without BLAS threads
    with Task("left-out environments", labels.size, progress) as task, one_blas_thread():
        fold, labels, n_missing = _folds(rows, grid, groups, labels, values, by)
        task.total = labels.size
        results = task.map(fold, range(labels.size), n_jobs)
    gone = {one.rows[0]["environment"]: max([row.pop("missing", 0) for row in one.rows]) for one in results}
    found = [row for one in results for row in one.rows]
    held = {one.rows[0]["environment"]: one.held for one in results if one.held is not None}
    counted = n_missing + sum(gone.values())
    result = LeftOut(found, n_missing=counted, environment_name=name, held=held, missing=gone)
    return _told(_completed(result, by, asked))


def _coded(rows: Given, cut: int | None) -> tuple[Given, NDArray[np.intp], NDArray[Any]]:
    """Return the rows with anchors (by default the environments), and their environments as codes with labels."""
    if rows.environments is None:
        raise InputError(
            "pass the environments to leave out, one for each row, or name them after '|' in a formula (y ~ x | place)"
        )
    groups, labels = group_codes(rows.environments, cut)
    spec = rows.model.specification()
    n = len(as_response(rows.y, spec.outcome, spec.levels))
    if groups.size != n:
        raise InputError(f"environments has {groups.size} rows, but y has {n}: pass the same rows of both")
    if rows.anchors is None and rows.model.anchor_names is None:
        rows = replace(rows, anchors=AnchorColumns((groups,), (labels,), np.zeros((n, 0)), ("environment",), ()))
    return rows, groups, labels


def _folds(
    rows: Given,
    grid: Grid | None,
    groups: NDArray[np.intp],
    labels: NDArray[Any],
    values: list[float],
    by: tuple[str, ...],
) -> tuple[Callable[[int], Found], NDArray[Any], int]:
    """Return the function that computes one left-out environment, the environments, and how many rows were dropped."""
    if is_pipeline(rows.model):
        dropped = 0 if rows.missing is None else rows.missing.counts.n_missing
        return *folds_of_pipeline(rows, groups, labels, values), dropped
    rows, problem = rows.prepared()
    tell_alphabetical(problem.data)
    if problem.data.kept is not None:  # rows of weight 0 were dropped, and perhaps whole environments with them
        seen, groups = np.unique(groups[problem.data.kept], return_inverse=True)
        labels = labels[seen]
    missing = problem.data.missing
    n_missing = 0 if missing is None else missing.counts.n_missing
    # a copy of the problem, so that the objective of all rows is freed before parts of them are fitted
    return folds(rows, replace(problem), grid, groups, labels, values, by), labels, n_missing


def _completed(found: LeftOut, by: tuple[str, ...], asked: list[float]) -> LeftOut:
    """Return the results with skill, regret (if xi alone differs) and columns in their order, at the xi asked for."""
    events = () if all(math.isnan(row["events"]) for row in found.rows) else ("events",)
    regret = ("regret",) if by == ("xi",) else ()
    first = ("environment", "xi", "n", *events, "nll", "skill", *regret)
    at_zero = {row["environment"]: row["nll"] for row in found.rows if row["xi"] == 0.0}
    rows = []
    for row in found.rows:
        skill, regret_here = row["null"] - row["nll"], row["nll"] - at_zero.get(row["environment"], math.nan)
        whole = row | {"skill": skill, "regret": regret_here}
        others = {name: value for name, value in row.items() if name not in (*first, "events", "null")}
        if row["xi"] in asked:
            rows.append({name: whole[name] for name in first} | others)
    return found._replace(rows=rows)


def _told(found: LeftOut) -> LeftOut:
    """Return the results; warn about environments that were predicted without some columns, or not at all."""
    notes = {row["environment"]: row["notes"] for row in found.rows if row["notes"]}
    if all(math.isnan(row["nll"]) for row in found.rows):
        name, text = next(iter(notes.items()))
        raise InputError(
            f"no environment can be predicted by the others; environment {name}: {text}. Merge classes or strata, or "
            "leave strata out"
        )
    n = len({row["environment"] for row in found.rows})
    if len(notes) == n > 1 and all(part.startswith("without ") for text in notes.values() for part in text.split("; ")):
        name, text = next(iter(notes.items()))
        warn(
            f"each of the {n} environments is predicted without covariates that the others do not identify, such as "
            f"environment {name} {text.partition(', which')[0]}: a covariate that tells the places apart says nothing "
            "about another place",
            AnchorTMWarning,
        )
        return found
    for name, text in list(notes.items())[:MOST_TOLD]:
        warn(f"environment {name}: {text}", AnchorTMWarning)
    if len(notes) > MOST_TOLD:
        more = len(notes) - MOST_TOLD
        warn(f"{more} more environments have notes: see the column notes of frame()", AnchorTMWarning)
    return found
