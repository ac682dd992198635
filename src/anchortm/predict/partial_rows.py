"""New rows under a partial likelihood: their strata, martingale residuals and survival curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.engine.data import Strata
from anchortm.engine.partial_problem import PartialResult, PartialSpecification, check_rows
from anchortm.engine.rows.risk_sets import row_logliks
from anchortm.engine.rows.running_sums import sums_between
from anchortm.engine.rows.shifted_rows import ShiftedHazards
from anchortm.exceptions import InputError
from anchortm.inputs.baselines import stratum_codes
from anchortm.inputs.response import Kind, Response
from anchortm.predict.new_rows import NewRows
from anchortm.predict.survival_steps import StepDistribution

__all__ = ["PartialRows"]


@dataclass(frozen=True, eq=False)
class PartialRows(NewRows):
    """New rows under a partial likelihood; their strata may be those of the fit or new."""

    spec: PartialSpecification
    result: PartialResult

    @property
    def strata(self) -> Sequence[Any]:
        """The strata that the fit knows."""
        return self.result.strata

    def own_strata(self, X: Any) -> Strata | None:
        """Return the strata that occur in the new rows, with the stratum of each row."""
        labels = None if X is None else self.split(X)[1]
        return None if labels is None else Strata.of(labels)

    def strata_of_fit(self, X: Any, n: int) -> NDArray[np.intp]:
        """Return the number that each new row's stratum has in the fit."""
        labels = None if X is None else self.split(X)[1]
        return np.zeros(n, dtype=np.intp) if labels is None else stratum_codes(labels, self.result.strata)

    def response(self, X: Any, y: Any) -> Response:
        """Return the outcomes; raise an error if a partial likelihood cannot use them."""
        response = super().response(X, y)
        check_rows(response)
        return response

    def logliks(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        """Return the partial log-likelihood and the negative martingale residual of each row."""
        if which != "shift":
            raise InputError("CoxPH has only which='shift' residuals: for which='scale' use ProportionalHazards")
        response, _, shift = self.outcome_and_parts(X, y, offset)
        strata = self.own_strata(X)
        loglik = row_logliks(self.spec.outcome_of(response, None, None, strata), shift)
        if strata is not None and not set(strata.labels) <= set(self.result.strata):
            return loglik, np.full(len(response), np.nan)
        return loglik, self._martingale(response, shift, self.strata_of_fit(X, len(response)))

    def loglik(self, X: Any, y: Any, offset: Any) -> Array:
        """Return the partial log-likelihood of each row, in which the shift of their place cancels."""
        return self.logliks(X, y, offset)[0]

    def _martingale(self, response: Response, shift: Array, stratum: NDArray[np.intp]) -> Array:
        """Return Lambda - event of each row."""
        event, hazard, steps = response.kind == Kind.EXACT, np.zeros(len(response)), self.result.hazard
        for code in np.unique(stratum):
            own, here = np.flatnonzero(stratum == code), steps.stratum == code
            time, jump, tied = (a[here] for a in (steps.time, steps.jump, steps.tied))
            last = np.searchsorted(time, response.lower[own], side="right")
            first = 0 if response.entry is None else np.searchsorted(time, response.entry[own], side="right")
            hazard[own] = sums_between(jump, np.broadcast_to(first, last.shape), last - 1)
            # Efron's formula: rows with events at the same time share the jump
            place = np.searchsorted(time, response.lower[own])
            there = event[own] & (np.append(time, np.nan)[place] == response.lower[own])
            hazard[own] -= np.where(there, np.append(tied, 0.0)[place], 0.0)
        return np.asarray(np.exp(shift - self.result.centre) * hazard - event)

    def predicted(self, X: Any, n_rows: int | None, *, offset: Any) -> StepDistribution:
        """Return the predicted survival curve of each row."""
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        result, shift = self.result, self.parts(X, n_rows, offset)[1]
        link = None if self.law is None else self.link
        stratum = self.strata_of_fit(X, shift.size)
        return StepDistribution(result.curves, stratum, shift, centre=result.centre, link=link)

    def shifted(self, X: Any, y: Any, offset: Any) -> ShiftedHazards:
        """Return the rows as functions of a shift of their log hazards."""
        response, _, shift = self.outcome_and_parts(X, y, offset)
        stratum = self.strata_of_fit(X, len(response))
        return ShiftedHazards.under(self.result.curves, stratum, shift - self.result.centre, response)
