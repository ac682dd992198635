"""Methods of fitted models that change the spread of their predictions, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

import numpy as np

from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome
from anchortm.engine.result import FitResult
from anchortm.engine.widening import check_factor, widened
from anchortm.exceptions import AnchorTMError
from anchortm.inference.covariance import default_kind
from anchortm.models.answers import Inference

__all__ = ["Spread"]


class Spread(Inference):
    """The methods of a fitted model that return a wider or narrower one."""

    def widened(self, factor: float) -> Self:
        """Return a copy of the fitted model whose predictions are wider, or narrower, by one factor.

        On the scale of h, h becomes m + (h - m) / factor, where m is the median of the link: a normal distribution has
        ``factor`` times its standard deviation. Medians and the order of predictions stay as they are. Coefficients
        are divided by the factor, as they are measured on the scale of h. The log-likelihood and the certificate of
        the copy are those of the fit.

        Parameters
        ----------
        factor : float
            How many times as wide; 1 changes nothing.

        Returns
        -------
        estimator
            A fitted model of the same class.

        See Also
        --------
        calibrate_spread : finds the factor by left-out environments

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear().fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> wider = model.widened(1.5)
        >>> new = data[["rm", "lstat"]][:1]
        >>> model.predict(new).round(2), wider.predict(new).round(2)
        (array([28.96]), array([28.96]))
        >>> model.predict_quantiles(new, [0.05, 0.95]).round(1), wider.predict_quantiles(new, [0.05, 0.95]).round(1)
        (array([[19.9, 38. ]]), array([[15.4, 42.5]]))
        """
        factor, result = check_factor(factor), self.result_
        if default_kind(result, None) == "sandwich" and result.computed.get("sandwich") is None and self.has_rows_:
            with suppress(AnchorTMError, np.linalg.LinAlgError):  # the copy has no rows to compute it from
                self.covariance("sandwich")
        return self._copy_with(widened(self.result_, factor))

    def _copy_with(self, result: FitResult) -> Self:
        """Return a copy of the fitted model that holds another result and no rows."""
        raise NotImplementedError

    def calibrate_spread(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        environments: Labels | None = None,
        objective: str | float = 0.9,
        *,
        anchors: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Return a copy of the fitted model with the spread that suits left-out places.

        Each environment is left out in turn, the model is fitted to the others, and the factor of the spread is chosen
        for the negative log-likelihood of the left-out environments, less that of a model without covariates.

        Parameters
        ----------
        X, y : covariates and outcome
            The rows of the fit; or a formula and a table.
        environments : array, or column name of a table
            The place of each row. With a formula, by default its anchors.
        objective : {"mean", "worst"} or float
            What the chosen factor minimises: the mean over left-out environments, the worst of them, or a
            quantile. Environments of fewer than 10 rows, or 5 events, count in the mean only.
        anchors, sample_weight, offset, n_jobs, progress
            As for ``leave_one_environment_out``.

        Returns
        -------
        estimator
            A fitted model of the same class; ``widened_`` is the factor.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> X, price, town = data[["rm", "lstat"]], data.cmedv, data.town
        >>> model = atm.NormalLinear().fit(X, price, anchors=town)
        >>> round(model.calibrate_spread(X, price, town).widened_, 2)
        0.95
        """
        from anchortm.newplace.spread import calibrated

        given: dict[str, Any] = {"anchors": anchors, "sample_weight": sample_weight, "offset": offset}
        found: Self = calibrated(self, X, y, environments, objective, n_jobs=n_jobs, progress=progress, **given)
        return found
