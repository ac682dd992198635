"""Questions about times: means up to a horizon, and the median survival with confidence limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from anchortm._typing import Array, Covariates, Labels, Numbers
from anchortm._util.checks import level_between
from anchortm._util.frames import is_frame, native, take
from anchortm.inference.bands import ConfidenceBand
from anchortm.inference.bootstrap import Bootstrap, resolve
from anchortm.inference.inverted_bands import inverted_band
from anchortm.inference.restricted_means import Groups, RestrictedMeans, checked_horizon, smooth_means
from anchortm.inputs import parts
from anchortm.models.predictions import Predictions
from anchortm.predict.names import named

__all__ = ["Times"]


class Times(Predictions):
    """The methods of a fitted model that are about times, with their uncertainty."""

    def restricted_mean(
        self,
        X: Covariates,
        tau: float,
        *,
        by: Labels | None = None,
        level: float = 0.95,
        uncertainty: str | Array | Bootstrap | None = None,
        offset: Numbers | None = None,
    ) -> RestrictedMeans:
        """Return the mean time up to tau, E[min(Y, tau)], of each row or group, with its standard error.

        This is the restricted mean survival time (RMST): the area under the predicted survivor function from 0 to tau.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates.
        tau : number
            The horizon, not beyond the last follow-up.
        by : array or name of a column of X, optional
            A label for each row. Means are averaged over the rows of each group, which are taken as given. To compare
            two treatments of the same people, pass their rows twice.
        level : float
            Confidence level.
        uncertainty : optional
            As for ``confidence_band``.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.

        Returns
        -------
        RestrictedMeans
            ``frame()`` has the means, ``differences()`` those between rows or groups.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.restricted_mean(data, 365, by=data.treat).frame().round(1)
                 restricted mean  std. error  lower  upper
        treat
        placebo            253.8        15.5  223.3  284.2
        rIFN-g             321.9        11.1  300.3  343.6
        """
        parts.refuse("bands", *self.new_rows_.spec.asked())
        offset = self.new_rows_.offset(X, offset)
        distribution = self.predict_distribution(X, offset=offset)
        groups = Groups.of(by, X, len(distribution), level_between(level))
        tau = checked_horizon(tau, distribution, self.result_.outcome_range)
        return self._restricted_means(X, distribution, tau, groups, uncertainty, offset)

    def _restricted_means(
        self, X: Covariates, distribution: Any, tau: float, groups: Groups, uncertainty: Any, offset: Numbers | None
    ) -> RestrictedMeans:
        """Return the means of these distributions with their uncertainty."""
        known, at_parameters = resolve(self, uncertainty), self._predictions_at(X, offset)
        return smooth_means(at_parameters, self.result_.parameters, tau, groups, known)

    @named
    def survival_quantiles(
        self,
        X: Covariates,
        q: Numbers = 0.5,
        *,
        level: float = 0.95,
        uncertainty: str | Array | Bootstrap | None = None,
        offset: Numbers | None = None,
    ) -> ConfidenceBand:
        """Return quantiles, by default the median survival, with limits where the confidence band crosses.

        A limit of the quantile is the time at which a limit of P(Y <= y) comes to q, next to the estimate: the rule of
        R's ``survfit``. It is infinite if that never happens. ``confidence_band(X, q, of="ppf")`` gives limits by the
        delta method instead, which are symmetric (in log y, for times).

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates.
        q : number or vector
            Probabilities.
        level, uncertainty, offset
            As for ``confidence_band``.

        Returns
        -------
        ConfidenceBand

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.survival_quantiles(data[:2]).frame().round(1)
           row    q  estimate  lower  upper
        0    0  0.5     420.2  365.6  566.8
        1    1  0.5     302.7  240.8  361.6
        """
        parts.refuse("bands", *self.new_rows_.spec.asked())
        offset, known = self.new_rows_.offset(X, offset), resolve(self, uncertainty)
        table = native(X) if X is None or is_frame(X) or hasattr(X, "shape") else np.asarray(X)

        def band(i: int, points: Array) -> ConfidenceBand:
            row = None if table is None else take(table, np.array([i]))
            own = None if offset is None else np.asarray(offset)[[i]]
            return self.confidence_band(row, points, level=level, uncertainty=known, offset=own)

        return inverted_band(self.predict_distribution(X, offset=offset), band, np.asarray(q), level)
