"""The rows of a boosted model: those of the model beside f, and those of held-out environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.data import Data
from anchortm.engine.problem import Problem
from anchortm.engine.solve.identification import check_kinds, check_levels
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.design import Design

__all__ = ["Watched", "beside", "check_covariates", "check_identified", "checked", "covariate_ranges"]

Array = NDArray[np.float64]


def check_covariates(learner: str, spec: Specification, design: Design) -> None:
    """Raise an error if there are no covariates, or if they have penalties that act on coefficients only."""
    if spec.l2 and learner != "linear+tree":
        raise InputError(
            f"l2 shrinks coefficients of a linear part that is solved for in each round, and learner={learner!r} has "
            "no such part: use learner='linear+tree', or l2_leaf for the values of leaves"
        )
    if learner != "linear+tree" and spec.smoothed(design.marks):
        raise InputError(
            f"smooth terms need a linear part that is solved for in each round, and learner={learner!r} has no such "
            "part: write x instead of s(x), or use learner='linear+tree'"
        )
    if not design.names:
        raise InputError(f"X has 0 feature(s) (shape={design.matrix.shape}) while a minimum of 1 is required.")


def check_identified(
    learner: str, spec: Specification, data: Data, names: Sequence[str] | None = None
) -> Specification:
    """Return the specification; raise an error if the rows do not identify the model. Trees take any columns.

    ``names`` are the columns of the specification, if the data have lost some.
    """
    spec = spec if names is None else spec.for_columns(names, data.names)
    check_kinds(data.response)
    spec.check_response(data.response)
    if data.mixture is not None:
        data.mixture.corners.check(data.mixture.weights)
    if learner != "tree":
        spec.check_design(data)
        check_levels(data.response, data.design.matrix, data.design.names)
    return spec


def checked(learner: str, spec: Specification, data: Data, gone: Iterable[Any] = ()) -> Data:
    """Return the data; raise an error, which names the left-out environments, if it does not identify the model."""
    try:
        check_identified(learner, spec, data)
    except IdentificationError as error:
        listed = ", ".join(map(str, gone))
        raise IdentificationError(f"without environment {listed}: {error}" if listed else str(error)) from None
    return data


def beside(learner: str, data: Data) -> Data:
    """Return the inputs of the model beside f: its covariates are those of the linear part, if there is one."""
    some = slice(None) if learner == "linear+tree" else slice(0)
    design = Design(data.design.matrix[:, some], data.design.names[some], data.design.named, data.design.marks[some])
    mixture = data.mixture
    if mixture is not None:
        own = {*design.names, *mixture.corners.varying_names}
        left = tuple(name for name in mixture.corners.covariates if name in own)
        mixture = mixture._replace(corners=replace(mixture.corners, covariates=left))
    made = data._replace(design=design, mixture=mixture)
    return made._replace(covariate_ranges=covariate_ranges(made))


def covariate_ranges(data: Data) -> Array:
    """Return the smallest and largest value of each covariate; of a varying effect, the range over which it varies."""
    X = data.design.matrix
    known = dict(zip(data.design.names, np.column_stack([X.min(axis=0), X.max(axis=0)]), strict=True))
    if data.mixture is None:
        return np.array(list(known.values())).reshape(-1, 2).T
    corners = data.mixture.corners
    known |= {name: np.array([group.low, group.high]) for group in corners.varying for name in group.names}
    return np.array([known[name] for name in corners.covariates]).reshape(-1, 2).T


class Watched:
    """The rows of held-out environments, and the current f of each; ``sizes`` are the numbers of rows of each."""

    def __init__(self, problem: Problem, learner: str, rows: Data, sizes: Sequence[int]) -> None:
        try:
            self.rows = problem.held_out(beside(learner, rows))
        except InputError as error:
            raise InputError(f"a held-out environment has a class that no other environment has: {error}") from None
        self.X, self.environment = rows.design.matrix, np.repeat(np.arange(len(sizes)), sizes)
        self.f = np.zeros(self.X.shape[0]) if rows.offset is None else rows.offset.copy()

    def mean_nll(self, problem: Problem, link: Any, theta: Array, beta: Array) -> float:
        """Return the mean negative log-likelihood of each environment, averaged over environments."""
        rows = self.rows._replace(offset=self.f)
        nll = -problem.logliks(link, theta, beta, rows)
        total = np.bincount(self.environment, nll if rows.weights is None else rows.weights * nll)
        return float(np.mean(total / np.bincount(self.environment, rows.weights)))
