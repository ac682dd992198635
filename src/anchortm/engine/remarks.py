"""Warnings about a fit: dropped anchors, doubtful minima, flat directions and others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from anchortm._messages import warn
from anchortm.engine.data import Data
from anchortm.engine.problem import Problem
from anchortm.engine.result import FLAT_CURVATURE, FitResult
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.solve.identification import HARDLY, anchors_explained
from anchortm.engine.specification import Specification
from anchortm.exceptions import AnchorTMWarning, AnchorWarning, ConvergenceWarning

__all__ = ["alphabetical", "remarked", "tell_alphabetical", "with_remarks"]

MANY_CLASSES = 30
NO_PENALTY = 1e-20
IDLE = 1e-10  # a smaller penalty may be zero up to rounding
SMALLEST_ATOM = 1e-3  # a larger probability at time 0 is reported
NAMED = 8  # largest number of parameters listed by name

Remark = tuple[str, type[Warning] | None]  # None: recorded in warnings_, but not shown as a warning


def remarked(problem: Problem, result: FitResult) -> FitResult:
    """Return the result with warnings about the data and the solution, and show them."""
    return with_remarks(problem.spec, problem.data, result)


def with_remarks(spec: Specification, data: Any, result: FitResult, quiet: bool = False) -> FitResult:
    """Return the result with its warnings, and show them unless ``quiet``; ``data`` is None if rows are unknown."""
    found = list(_remarks(spec, data, result))
    for text, category in found:
        if category is not None and not quiet:
            warn(text, category)
    return replace(result, warnings=[text for text, _ in found])


def _remarks(spec: Specification, data: Any, result: FitResult) -> Iterator[Remark]:
    if result.random is not None:
        yield from result.random.remarks(data, result.xi, spec.tol)
    if result.decisive is not None:
        yield from ((text, AnchorTMWarning) for text in result.decisive.remarks())
    yield from _of_anchors(spec, data, result)
    yield from _of_data(spec, data, result)
    yield from _of_optimum(result)
    yield from _of_baseline(result)


def _of_anchors(spec: Specification, data: Any, result: FitResult) -> Iterator[Remark]:
    if result.dropped_anchors:
        yield f"anchor columns dropped as constant or collinear: {', '.join(result.dropped_anchors)}", AnchorWarning
    if result.float_codes:
        yield (
            f"anchors with a few whole numbers as floats are taken as numeric: {', '.join(result.float_codes)}; "
            "if they are codes of places, use astype(int) or astype(str)",
            AnchorWarning,
        )
    if 2 * result.n_anchors > result.n_rows and not result.unpenalised and spec.worst is None:
        yield (
            f"{result.n_anchors} anchor directions for {result.n_rows} rows: nearly every row is an environment, so "
            "the penalty shrinks all residuals; use anchors with fewer levels",
            AnchorWarning,
        )
    classes = len(result.basis.levels or ())
    if MANY_CLASSES < classes > result.n_rows / 5:
        yield (
            f"{classes} classes in {result.n_rows} rows: if the outcome is a number or a time, use a model for these",
            AnchorTMWarning,
        )
    if result.n_anchors == 1 and spec.anchor_intercept:
        what = "they cannot regularise" if spec.worst is None else "the fit is that of maximum likelihood"
        yield f"the anchors have a single environment: {what}", AnchorWarning
    if result.xi > 0.0 and result.penalty < IDLE and _explained(spec, data, result):
        yield (
            "the covariates explain the anchors exactly, so score residuals are already uncorrelated with them at "
            "maximum likelihood: the penalty is zero and xi has no effect; leave the anchors out of the covariates, "
            "or use other anchors",
            AnchorWarning,
        )


def _explained(spec: Specification, data: Any, result: FitResult) -> bool:
    """Return whether all anchors are linear combinations of the covariates (False if rows are not in memory)."""
    if data is None or not data.in_memory or data.anchors is None or result.n_anchors <= spec.anchor_intercept:
        return False
    return anchors_explained(data.anchors, data.design.matrix)


def _of_data(spec: Specification, data: Any, result: FitResult) -> Iterator[Remark]:
    if data is not None and data.share < HARDLY:
        near = [data.design.names[j] for j in data.near]
        listed = ", ".join(near[:NAMED]) + (", ..." if len(near) > NAMED else "")
        yield (
            f"nearly collinear covariates: {listed}; the others leave only a fraction of {data.share:.1e} of the "
            "standard deviation of one of them unexplained, so coefficients are hardly determined, though predictions "
            "may be: leave one of them out",
            AnchorTMWarning,
        )
    if result.far_from_zero:
        yield (
            f"covariates that are never near 0: {', '.join(result.far_from_zero)}; with scale effects the fit depends "
            "on where 0 is: subtract a typical value",
            AnchorTMWarning,
        )
    if spec.strata is not None and 0.0 < result.xi < math.inf and result.penalty < NO_PENALTY:
        yield (
            "the strata explain all differences between anchors, so the penalty is zero and xi has no effect",
            AnchorWarning,
        )
    if result.alphabetical:
        yield alphabetical(result.classes), AnchorTMWarning
    if result.dropped_classes:
        yield f"classes without rows dropped: {', '.join(map(str, result.dropped_classes))}", AnchorTMWarning


def _of_optimum(result: FitResult) -> Iterator[Remark]:
    if not result.converged:
        yield (
            f"the fit did not converge ({result.reason}): scaled KKT residual {result.kkt:.1e} "
            f"after {result.n_iter} iterations; {result.remedy()}",
            ConvergenceWarning,
        )
        return
    if result.folds:
        yield (
            f"the branch connected to xi = 0 ends near xi = {', '.join(f'{xi:.3g}' for xi in result.folds)}; "
            "the estimate is on the next branch below: use a smaller xi, or look at others with n_restarts",
            AnchorTMWarning,
        )
    if result.min_eigenvalue < FLAT_CURVATURE:
        among = ", ".join(_flat_names(result))
        yield (
            f"flat direction: the smallest curvature is {result.min_eigenvalue:.1e}, so some parameters are hardly "
            f"determined{f' ({among})' if among else ''}, though their predictions may be; lower the order, or "
            "leave covariates out",
            AnchorTMWarning,
        )


def _flat_names(result: FitResult) -> list[str]:
    """Return the names of the parameters that move along flat directions."""
    if result.information is None or result.fixed is None or isinstance(result.information, Arrow):
        return []
    free = np.flatnonzero(~(result.active | result.fixed))
    values, vectors = np.linalg.eigh(result.information[np.ix_(free, free)] / result.n_total)
    moves = np.zeros(result.active.size)
    moves[free] = (vectors[:, values < FLAT_CURVATURE] ** 2).sum(axis=1)
    others = result.other_names
    k = moves.size - len(others)
    names = [name for name, share in zip(others, moves[k:], strict=True) if share > 0.01]
    listed = [*names[:NAMED], f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else names
    return listed + (["the baseline"] if moves[:k].max(initial=0.0) > 0.01 else [])


def _of_baseline(result: FitResult) -> Iterator[Remark]:
    if result.atom > SMALLEST_ATOM:
        remedy = "log_first=True" if result.basis.kind == "bernstein" else "a baseline in log y"
        yield (
            f"the baseline in y leaves a probability of {result.atom:.2g} at time 0 (for average covariates): "
            f"{remedy} leaves none",
            None,
        )
    corners = result.corners
    blocks = result.baseline[None] if corners is None else result.baseline.reshape(corners.n_blocks, -1)
    baselines = blocks[: 1 if corners is None else corners.n_baselines]
    ends = np.array([result.basis.flat_ends(theta) for theta in baselines])
    for k, side in enumerate(("lower", "upper")):
        if ends[:, k].any():
            yield f"h is flat beyond the {side} end of the support: outcomes there have no density", None


def alphabetical(classes: Any) -> str:
    """Return the warning about classes in alphabetical order."""
    listed = " < ".join(map(str, classes))
    return (
        f"classes are taken in alphabetical order, {listed}; for another order pass an ordered categorical, "
        "or write ordered(column, 'first', 'second', ...) in a formula"
    )


def tell_alphabetical(data: Data) -> None:
    """Warn if classes are words in alphabetical order, for functions that do not return a fitted model."""
    if data.alphabetical and data.response.levels is not None:
        warn(alphabetical(data.response.levels), AnchorTMWarning)
