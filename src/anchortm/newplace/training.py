"""The training environments of one fold: what a strategy may see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.engine.problem import Problem
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.clusters import INTERCEPT, make_clusters
from anchortm.inputs.missing import rows_taken
from anchortm.models.given import Given
from anchortm.selection.designs import FEWEST, Fold, direction_of, further, like
from anchortm.selection.places import Out, Places
from anchortm.selection.splits import Codes, with_all_columns, without_covariates
from anchortm.selection.tuning import Tuning

__all__ = ["Training", "inner_folds"]


def inner_folds(places: Places, fold: Fold, slope: Array, new: Array | None) -> list[Fold]:
    """Return the folds inside the training environments of a fold: of the same design if there are enough of them."""
    if fold.design == "further" and len(places.inside(fold.out)) >= FEWEST:
        return further(places, direction_of(places, slope, fold.out, new), fold.out)
    return like(places, fold.out)


@dataclass(frozen=True, eq=False)
class Training:
    """The rows of the training environments, and the fits to them that strategies share.

    Attributes
    ----------
    given : Given
        The model, unfitted, and all rows: X, y, anchors, sample_weight, offset and environments.
    places : Places
        The rows by their environments.
    out : set of int
        The environments that are left out.
    tuning : Tuning or str
        Losses of environments that were left out inside the training environments, or why there are none.
    min_rows : int
        Environments with fewer rows do not count in quantiles.
    """

    given: Given
    places: Places
    out: Out
    tuning: Tuning | str = "nothing was left out"
    min_rows: int = 10

    @cached_property
    def rows(self) -> Codes:
        """Return the positions of the training rows."""
        return self.places.rows_in(self.places.inside(self.out))

    @cached_property
    def environments(self) -> NDArray[Any]:
        """Return the environment of each training row."""
        return np.asarray(self.places.labels[self.places.groups[self.rows]])

    @cached_property
    def problem(self) -> Problem:
        """Return the problem of the training rows; that of all rows knows the ranges of covariates as well."""
        whole: Problem = self.places.problem
        return whole.subset(self.rows) if self.out else replace(whole)

    def raw(self, rows: Codes) -> dict[str, Any]:
        """Return some rows as they were given: X, y, anchors, sample_weight and offset."""
        n_rows, used = self.places.data.at_given(rows)
        names = ("X", "y", "anchors", "sample_weight", "offset")
        return {name: rows_taken(name, getattr(self.given, name), n_rows, used) for name in names}

    @cached_property
    def given_rows(self) -> dict[str, Any]:
        """Return the training rows as they were given."""
        return self.raw(self.rows)

    def fit(self, xi: float = 0.0, *, equal: bool = False, covariates: bool = True) -> Any:
        """Return the model fitted to the training rows.

        Parameters
        ----------
        xi : float
            Strength of the anchor penalty.
        equal : bool
            Whether all environments have the same weight, whatever their size.
        covariates : bool
            Whether to use the covariates.
        """
        key = (float(xi), equal, covariates)
        if key not in self._fitted:
            self._fitted[key] = self._fit(*key)
        return self._fitted[key]

    @cached_property
    def _fitted(self) -> dict[tuple[float, bool, bool], Any]:
        return {}

    def _fit(self, xi: float, equal: bool, covariates: bool) -> Any:
        problem = self.problem.at(xi=xi)
        if not covariates:
            problem = without_covariates(problem)
        if equal:
            groups = self.places.groups[self.rows]
            weights = self.places.weights[self.rows]
            total = np.bincount(groups, weights, minlength=self.places.n)[groups]
            n = weights.sum()
            kept = problem.data._replace(weights=weights * n / (np.unique(groups).size * total))
            problem = problem.on(problem.spec.at(environment_weights="rows"), kept)
        return self._model(problem, problem, xi)

    def fit_random_intercept(self) -> Any:
        """Return the model with a random intercept for each environment, fitted by maximum likelihood."""
        if self.places.problem.spec.cluster:
            raise InputError("the model has random effects of its own: a random intercept is not added to them")
        problem = self.problem
        plain = problem.spec.at(xi=0.0, environment_weights="rows", anchor_weights="rows", tail=1.0, proxies=None)
        data = problem.data.without_wide()
        spec = plain.at(random="environment").check()
        clusters = make_clusters(self.environments.tolist(), "environment", [INTERCEPT], data.names, data.design.matrix)
        clusters.check(spec.single_rows_show_effects(data.response))
        problem = problem.on(spec, data._replace(anchors=None, clusters=clusters))
        return self._model(problem, replace(problem, spec=plain), 0.0)  # new rows have no column of clusters

    def fit_worst(self, worst: Any) -> Any:
        """Return the model whose worst training environment is as good as possible.

        Parameters
        ----------
        worst : WorstEnvironment
            The estimator around the model.
        """
        problem = self.problem
        labels, codes = np.unique(self.places.groups[self.rows], return_inverse=True)
        names = self.places.labels[labels]
        places = AnchorColumns((codes,), (names,), np.zeros((codes.size, 0)), ("environment",), ())
        plain = problem.spec.at(xi=0.0, tail=1.0, environment_weights="rows", anchor_weights="rows")
        problem = problem.on(plain.at(worst=worst.case()).check(), problem.data._replace(anchors=places))
        result = with_all_columns(self.places.problem, problem, problem.fit())
        return worst.with_result(None if problem.data.lost else problem, result)

    def _model(self, problem: Problem, kept: Problem, xi: float) -> Any:
        """Return the fitted model; where columns are lost, it has no rows, because theirs lack these columns."""
        result = with_all_columns(self.places.problem, problem, problem.fit())
        return self.given.model.with_result(None if problem.data.lost else kept, result, xi=xi)
