"""The method that recalibrates fitted models at a new place with a few of its rows."""

from __future__ import annotations

from typing import Self

from anchortm._typing import Covariates, Numbers, Outcome
from anchortm.inference.covariance import keep_standard_errors
from anchortm.models.spread import Spread

__all__ = ["Recalibrated"]


class Recalibrated(Spread):
    """A fitted model that can be recalibrated."""

    def recalibrate(
        self,
        X: Covariates,
        y: Outcome | None = None,
        *,
        what: str = "auto",
        prior: str | float = "places",
        offset: Numbers | None = None,
        sample_weight: Numbers | None = None,
        strength: float = 20.0,
        floor: float = 0.2,
        scale_prior: float = 0.0625,
    ) -> Self:
        """Return the fitted model recalibrated at a new place, with a few rows from there with known outcomes.

        The new place shifts h by an unknown amount, whose prior distribution has mean 0 and variance ``prior``. The
        rows update it, and predictions are averaged over the posterior distribution. Without rows they are those for
        a place about which nothing is known; with many rows the shift is practically known.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates of rows from the new place. After ``from_formula``, a table with the columns of the formula. It
            may have no rows.
        y : array, Response or ordered categorical, optional
            Their outcomes, censored in any way. After ``from_formula`` they are taken from the table if y is not
            given.
        what : {"auto", "shift", "shift+scale", "baseline"}
            What differs at the new place. "shift": the level of h. "shift+scale": also how wide outcomes scatter.
            "baseline": the whole baseline, while coefficients stay. "auto" leaves out each place of the fit,
            recalibrates with as many of its rows, and chooses what predicts its other rows best: the shift, unless
            another is better by more than its standard error. Without the rows of the fit it takes the shift.
            Generalised linear models, ``CoxPH`` and models with random effects have the shift only.
        prior : "places" or float
            Variance of the shift between places, on the scale of h. "places" takes ``place_sd_`` of the fit, or the
            variance of its random intercepts if the fit has those and no anchors. If neither is known, it is a tenth
            of the variance of rows, with a warning.
        offset : array or column name, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        sample_weight : array or column name, optional
            A weight of 2 counts a row twice.
        strength : float
            For "baseline": how many rows of the fit the previous baseline counts for.
        floor : float
            Smallest slope of h as a share of its former slope, for "shift+scale" and "baseline". Without it, outcomes
            beyond those of the rows could have the density 0.
        scale_prior : float
            For "shift+scale": variance of the scale between places, around 1.

        Returns
        -------
        estimator
            A fitted model of the same class. ``recalibration_`` has the shift with its standard error, what was fitted
            and how. ``predict_distribution``, ``predict``, ``nll``, ``score`` and ``residuals`` are averages over the
            posterior distribution of the shift; the scale and the shape of a baseline count as known. Coefficients have
            the standard errors of the fit.

        See Also
        --------
        anchortm.newplace.recalibration.Recalibration : what was found
        anchortm.AnchorBoostedTM.recalibrate : for trees

        Notes
        -----
        All rows must come from one place, and it should be a place like those of the fit: the prior is only right if
        places are exchangeable. In ``CoxPH`` the shift is minus the log of a hazard ratio, and ``nll`` does not
        change, because a partial likelihood only orders rows.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> X, price, new = data[["rm", "lstat"]], data.cmedv, data.town == "Cambridge"
        >>> model = atm.ContinuousProbit().fit(X[~new], price[~new], anchors=data.town[~new])
        >>> there = model.recalibrate(X[new][:5], price[new][:5], what="shift", prior=0.5)
        >>> there.recalibration_
        Recalibration(shift 0.542 +- 0.38 from 5 rows, prior sd 0.707)
        >>> rest = X[new][5:], price[new][5:]
        >>> round(float(model.nll(*rest).mean()), 2), round(float(there.nll(*rest).mean()), 2)
        (2.92, 2.87)
        """
        from anchortm.newplace.recalibration import Asked, moved_to_place

        asked = Asked.of(what, prior, strength, floor, scale_prior)
        keep_standard_errors(self)  # the copy has no rows to compute them from
        return self._copy_with(moved_to_place(self, X, y, asked, offset, sample_weight))
