"""Quantiles of predicted distributions, as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Covariates, Numbers, Place
from anchortm.inputs.judgement import OnBadRows, Unknown

__all__ = ["Quantiles"]


class Quantiles:
    """A model that predicts distributions, and so their quantiles."""

    predict_distribution: Any

    def predict_quantiles(
        self,
        X: Covariates = None,
        quantiles: Numbers = (0.1, 0.5, 0.9),
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> NDArray[Any]:
        """Return quantiles of the predicted distribution of each row.

        Parameters
        ----------
        X, offset, n_rows, on_bad_rows, unknown, place
            As for ``predict_distribution``.
        quantiles : number or vector
            Probabilities between 0 and 1.

        Returns
        -------
        array of shape (n, k)
            A row for each row of X, a column for each probability; NaN in bad rows if these are marked.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict_quantiles(data[:2], [0.1, 0.5]).round(0)
        array([[173., 420.],
               [ 71., 303.]])
        """
        policy: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unknown": unknown, "place": place}
        found = self.predict_distribution(X, offset=offset, n_rows=n_rows, **policy)
        return np.asarray(found.ppf(np.atleast_1d(quantiles)))
