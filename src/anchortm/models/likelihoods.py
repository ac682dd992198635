"""Methods of fitted models for rows with outcomes: likelihoods and residuals."""

from __future__ import annotations

import numpy as np

from anchortm._typing import Array, Covariates, Numbers, Outcome, Place
from anchortm._util.checks import check_weights
from anchortm._util.frames import aligned
from anchortm.exceptions import InputError
from anchortm.inputs.formula import Formula
from anchortm.models.new_places import NewPlaces

__all__ = ["Likelihoods"]


class Likelihoods(NewPlaces):
    """The methods of a fitted model that take rows with their outcomes."""

    def nll(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, place: Place = "average"
    ) -> Array:
        """Return the negative log-likelihood of each row.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates. After ``from_formula``, a table with the columns of the formula.
        y : array, Response or ordered categorical, optional
            Outcomes. After ``from_formula`` they are taken from the table if y is not given.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        place : {"average", "new"}
            As for ``predict_distribution``. With "new" each row is averaged over the shift of its place on its own.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.nll(data[:3]).round(2)
        array([7.19, 7.45, 0.38])
        """
        return -self._logliks(X, y, offset, place)

    def _logliks(self, X: Covariates, y: Outcome | None, offset: Numbers | None, place: Place) -> Array:
        """Return the log-likelihood of each row."""
        loglik: Array = self._rows_at(place).loglik(X, y, offset)
        return loglik

    def residuals(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, which: str = "shift"
    ) -> Array:
        """Return the score residual of each row.

        Parameters
        ----------
        X, y, offset
            As for ``nll``.
        which : {"shift", "scale"}
            "shift" is the derivative of the log-likelihood of F(h - alpha) with respect to alpha at 0. "scale" is
            -dl/dzeta at zeta = 0 for h = e^zeta a(y)'theta + ...: it is positive where a larger spread would make the
            row more likely. Models without scale effects have it too.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.residuals(data[:3]).round(2)
        array([-0.86, -0.96,  0.38])
        """
        if which not in ("shift", "scale"):
            raise InputError(f"which must be 'shift' or 'scale', not {which!r}")
        return self.new_rows_.logliks(X, y, offset, which)[1]

    def score(
        self,
        X: Covariates,
        y: Outcome | None = None,
        sample_weight: Numbers | None = None,
        *,
        offset: Numbers | None = None,
        place: Place = "average",
    ) -> float:
        """Return the mean log-likelihood of the rows.

        Parameters
        ----------
        X, y, offset, place
            As for ``nll``.
        sample_weight : array or column name, optional
            Weights of the rows in the mean.

        Returns
        -------
        float

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> round(model.score(data), 3)
        -2.585
        """
        sample_weight = Formula.new_column(X, sample_weight)
        aligned(X=X, y=y, sample_weight=sample_weight)
        loglik = self._logliks(X, y, offset, place)
        weights = check_weights(sample_weight, loglik.size)
        return float(np.average(loglik, weights=weights))
