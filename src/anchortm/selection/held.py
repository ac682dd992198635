"""The rows of one left-out environment with what the fits to the others predict for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anchortm._typing import Array
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.rows.ends import Ends
from anchortm.engine.solve.newton import Solution
from anchortm.inputs.missing import rows_taken
from anchortm.inputs.response import Response
from anchortm.models.given import Given
from anchortm.selection.splits import Codes, with_all_columns

__all__ = ["Held", "HeldRows", "RowsOf"]


class HeldRows(NamedTuple):
    """Rows as they were given, with their checked outcomes."""

    positions: Codes  # among the rows that were given
    X: Any
    y: Response
    weights: Array | None
    offset: Any

    def distribution(self, model: Any) -> Any:
        """Return what a fitted model predicts for these rows."""
        options = {} if self.offset is None else {"offset": self.offset}
        trials = {} if self.y.trials is None else {"trials": self.y.trials}
        return model.predict_distribution(self.X, **options, **trials)


class Held(NamedTuple):
    """Predictions for the rows of a left-out environment, at each xi.

    Attributes
    ----------
    rows : HeldRows
        The rows.
    distributions : mapping
        What the fit without the environment predicts for them, by xi.
    ends : Ends or None
        h at the ends of these rows at xi = 0; None if h is not known.
    link : Link or None
        The link of that fit.
    """

    rows: HeldRows
    distributions: Mapping[float, Any]
    ends: Ends | None = None
    link: Any = None

    def nll_at_width(self, factor: float) -> float:
        """Return the mean loss at xi = 0 if predictions were ``factor`` times as wide; NaN if h is not known."""
        if self.ends is None or not 0.0 < factor < math.inf:
            return math.nan
        return float(-np.average(self.ends.logliks(self.link, factor), weights=self.rows.weights))


@dataclass(frozen=True, eq=False)
class RowsOf:
    """All rows as they were given, and how fitted models that read them are made."""

    given: Given
    whole: Problem

    def held(self, rows: Codes) -> HeldRows:
        """Return some rows, by their positions among those that are used."""
        data = self.whole.data
        n_rows, at = data.at_given(rows)
        X, offset = (rows_taken(name, getattr(self.given, name), n_rows, at) for name in ("X", "offset"))
        weights = None if data.weights is None else data.weights[rows]
        return HeldRows(data.rows_used[rows], X, data.response[rows], weights, offset)

    def predicted(self, rows: HeldRows, problem: Problem, objective: Objective, solution: Solution) -> Any:
        """Return what a solution for some of the rows predicts for others; None if it lacks a baseline that they need.

        Strata and varying effects that only the other rows have leave a model that cannot read them.
        """
        own = problem.at(xi=solution.xi)
        if {one.name for one in own.data.lost} - set(self.whole.data.names):
            return None
        result = with_all_columns(self.whole, own, own.result(objective, solution, [solution]))
        return rows.distribution(self.given.model.with_result(replace(own), result, xi=solution.xi))
