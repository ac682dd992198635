"""Boosted models without an environment: its likelihood, and its shift."""

from __future__ import annotations

import math
from typing import Any, Self

from sklearn.base import clone

from anchortm.engine.data import Data
from anchortm.engine.lost_columns import Lost, identified, lost_strata, notes_of
from anchortm.engine.place_variance import PlaceVariance
from anchortm.engine.rows.shifted_rows import ShiftedRows
from anchortm.engine.specification import Specification
from anchortm.models.boosted.rows import Watched, check_identified
from anchortm.models.boosted.uncertainty import Resampled
from anchortm.models.boosted.validation import Groups, without

__all__ = ["LeftOut"]


class LeftOut(Resampled):
    """Methods of boosted models that fit all environments but one."""

    validation: Any
    n_rounds: int

    def check(self) -> Specification:
        """Return the specification of the boosted model; raise an error if an argument is out of range."""
        raise NotImplementedError

    def _fit(self, spec: Specification, data: Data, groups: Groups | None = None) -> Self:
        raise NotImplementedError

    def _fit_without(self, data: Data, groups: Groups, gone: Any) -> Data:
        """Fit to the rows of all environments but one; return them without the columns that they do not identify."""
        self.validation = without(self.validation, gone, self.n_rounds)
        asked, whole = self.check(), data
        data, spec = identified(data, lambda rows: check_identified(self.learner, asked, rows, whole.names))
        self._fit(spec, data, groups)
        return data

    def _held(self, held: Data, lost: tuple[Lost, ...]) -> Watched:
        """Return left-out rows with their f."""
        held = held.without([one.name for one in lost])
        rows = Watched(self.model_.problem_, self.learner, held, [len(held.response)])
        rows.f += self.boosted_.shape.f(rows.X)
        return rows

    def left_out(
        self, data: Data, held: Data | None, groups: Groups, gone: Any
    ) -> tuple[float, tuple[Lost, ...], Self]:
        """Fit to ``data``; return the mean negative log-likelihood of the left-out rows, and the fitted model.

        This is for ``leave_one_environment_out``. Columns that ``data`` does not identify are left out. The
        log-likelihood is NaN if there are strata among them.

        Parameters
        ----------
        data, held : Data
            The rows to fit to, and the left-out rows; None if these cannot be predicted.
        groups : tuple
            The environment of each row of ``data``, and the names of the environments.
        gone : label
            Name of the left-out environment.

        Returns
        -------
        tuple of (float, tuple of Lost, estimator)
        """
        mixture = data.mixture
        lost = self._fit_without(data, groups, gone).lost
        inner, problem = self.model_.result_, self.model_.problem_
        if held is None or lost_strata(lost, mixture):
            return math.nan, lost, self
        nll = self._held(held, lost).mean_nll(problem, inner.link, inner.baseline, inner.coef)
        return nll, lost, self

    def left_out_shifts(self, data: Data, held: Data, groups: Groups, gone: Any) -> tuple[ShiftedRows | None, str]:
        """Return left-out rows as functions of a shift of their place, or why they are not; see ``left_out``."""
        model = clone(self)
        lost = model._fit_without(data, groups, gone).lost
        strata = lost_strata(lost, data.mixture)
        if strata:
            return None, notes_of(lost, strata)
        inner, rows = model.model_.result_, model._held(held, lost)
        own = rows.rows._replace(offset=rows.f)
        return model.model_.problem_.shifted(inner.link, inner.baseline, inner.coef, own), ""

    @property
    def place_variance_(self) -> PlaceVariance:  # noqa: D102 - as in the base class
        return self._measured_places()

    def _measured_places(self) -> PlaceVariance:
        from anchortm.newplace.place_variance import boosted_place_variance

        self._fitted()
        computed = self.model_.result_.computed
        if "places" not in computed:
            computed["places"] = boosted_place_variance(self, self._data)
        found: PlaceVariance = computed["places"]
        return found
