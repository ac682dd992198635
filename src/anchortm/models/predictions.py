"""Methods of fitted models for rows: predictions, likelihoods, residuals, confidence bands."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Covariates, Numbers, Place
from anchortm._util.checks import flag
from anchortm.engine.objective.scale_effects import scale_columns
from anchortm.inference.bands import ConfidenceBand, Of, band_of_averages, confidence_band
from anchortm.inference.bootstrap import Bootstrap, at_row, resolve
from anchortm.inputs import parts
from anchortm.inputs.design import to_design
from anchortm.inputs.judgement import OnBadRows, Unknown
from anchortm.models.likelihoods import Likelihoods
from anchortm.models.quantiles import Quantiles
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.extrapolation import extrapolation
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.marked import MarkedDistribution
from anchortm.predict.names import named

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Predictions"]

Array = NDArray[np.float64]


class Predictions(Quantiles, Likelihoods):
    """The methods of a fitted model that take rows."""

    def predict(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Any:
        """Return the conditional median of each row.

        It is infinite where the predicted distribution function levels off before it reaches 1/2.

        Parameters
        ----------
        X, offset, n_rows, on_bad_rows, unknown, place
            As for ``predict_distribution``.

        Returns
        -------
        array of shape (n,)
            NaN in bad rows if these are marked.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict(data[:2]).round(0)
        array([420., 303.])
        """
        policy: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unknown": unknown, "place": place}
        return self.predict_distribution(X, offset=offset, n_rows=n_rows, **policy).median()

    @overload
    def predict_distribution(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        conditional: bool = False,
        on_bad_rows: Literal["error"] = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> PredictedDistribution: ...

    @overload
    def predict_distribution(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        conditional: bool = False,
        on_bad_rows: Literal["mark"],
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> MarkedDistribution: ...

    @named
    def predict_distribution(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        conditional: bool = False,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Any:
        """Return the predicted distribution of each row.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates. After ``from_formula``, a table with the columns of the formula.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset; after ``from_formula`` it is by default
            the column of the same name.
        n_rows : int, optional
            Number of rows to predict for ``X=None``; by default 1.
        conditional : bool
            For models with random effects. By default the distribution is that of a row from a new cluster: it is
            averaged over the normal distribution of the random effects. If True, rows from clusters of the fit are
            averaged over the posterior distribution of their cluster's effects instead.
        on_bad_rows : {"error", "mark"}
            What to do if rows cannot be predicted, because values are missing or infinite, or levels or strata are
            unknown to the fit: raise an error, or predict the others and mark these.
        unknown : {"error", "baseline", "rare"}
            How to treat levels of covariates that the fit has not seen: as an error, as the reference level of their
            coding, or as the level that was rarest in the fit. A warning counts the rows.
        place : {"average", "new"}
            Whether rows come from an average place of the fit, or from a new place whose h is shifted by an unknown
            amount. "new" averages over normal shifts with the standard deviation ``place_sd_rowwise_``; each row on
            its own, though rows of one place share their shift.

        Returns
        -------
        PredictedDistribution
            An ``AveragedDistribution`` if there are random effects. With ``on_bad_rows="mark"`` a
            ``MarkedDistribution`` of one of these, also if no row is bad.

        See Also
        --------
        anchortm.predict.PredictedDistribution : cdf, quantiles, intervals and more
        anchortm.predict.AveragedDistribution : the same, with random effects
        anchortm.predict.MarkedDistribution : the same, with bad rows marked

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict_distribution(data[:2]).cdf([100.0, 300.0]).round(2)
        array([[0.05, 0.21],
               [0.14, 0.49]])

        Of a town that is not among those of the fit:

        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear.from_formula("cmedv ~ rm + lstat | town", data)
        >>> model.predict_distribution(data[:1], place="new").ppf([0.05, 0.95]).round(1)
        array([[18.8, 39.1]])
        >>> model.predict_distribution(data[:1]).ppf([0.05, 0.95]).round(1)
        array([[19.9, 38. ]])
        """
        work = partial(self._predicted, conditional=conditional, place=place)
        return self.new_rows_.answer(work, X, n_rows, on_bad_rows, unknown, conditional, offset=offset)

    def _predicted(
        self,
        X: Covariates,
        n_rows: int | None,
        *,
        offset: Numbers | None,
        conditional: bool = False,
        place: Place = "average",
    ) -> PredictedDistribution:
        """Return the predicted distribution of each row."""
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        result, rows = self.result_, self._rows_at(place)
        theta, moved = rows.parts(X, n_rows, offset)
        shift, random, sign = result.sign * moved, rows.result.random, result.sign
        if conditional and flag(conditional, "conditional"):
            return self._averaged(theta, shift, *rows.effect_nodes(X, shift.size, True))
        if random is None:
            return PredictedDistribution(rows.link, result.basis, theta, shift, result.time, gain=sign)
        Z = rows.effect_columns(X, n_rows or shift.size)
        size = result.link.widened_by_normal(random.deviations(Z))
        if size is not None:  # noise plus random effects has the distribution of the link, only wider
            theta = theta / size[0] if np.unique(size).size == 1 else theta / size[:, None]
            return PredictedDistribution(result.link, result.basis, theta, shift, result.time, gain=sign / size)
        return self._averaged(theta, shift, *random.marginal(Z))

    def _averaged(self, theta: Array, shift: Array, added: Array, weights: Array) -> AveragedDistribution:
        """Return the distributions averaged over random effects."""
        result = self.result_
        return AveragedDistribution(
            result.link, result.basis, theta, shift, result.time, None, result.sign, added, np.asarray(weights)
        )

    def extrapolation(self, X: Covariates, y: Numbers | None = None) -> pd.DataFrame:
        """Return which rows of X, and which outcomes, lie outside the training range.

        Parameters
        ----------
        X : array or frame
            New rows.
        y : number, or array of n rows, optional
            Outcomes to check, such as predicted quantiles of shape (n, k).

        Returns
        -------
        DataFrame
            For each row ``covariates``, the names of the covariates outside their training range (after
            ``from_formula``, the columns of the table), and ``furthest``, the largest distance from a range, in widths
            of that range. With y also ``outcome``: "beyond the support", where the baseline continues as a straight
            line, or "beyond the data", below the smallest or above the largest outcome or censoring limit.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> older = data[:2].assign(age=[30, 88])
        >>> model.extrapolation(older, model.predict_distribution(older).ppf([0.1, 0.9])).covariates.tolist()
        ['', 'age']
        """
        return extrapolation(self, X, y)

    def _band_of_averages(
        self,
        X: Covariates,
        at: Numbers,
        of: Of,
        level: float,
        simultaneous: bool,
        uncertainty: str | Array | Bootstrap | None,
        offset: Numbers | None,
    ) -> ConfidenceBand:
        """Return the band of averages over random effects, for rows of new clusters."""
        known, at_parameters = resolve(self, uncertainty), self._predictions_at(X, offset)
        return band_of_averages(at_parameters, self.result_.parameters, at, of, level, simultaneous, known)

    def _predictions_at(self, X: Covariates, offset: Numbers | None) -> Callable[[Array], Any]:
        """Return the function from parameters to predicted distributions."""

        def at_parameters(w: Array) -> Any:
            moved = copy(self)
            moved._result = self.result_.at(w)
            return moved.predict_distribution(X, offset=offset)

        return at_parameters

    @named
    def confidence_band(
        self,
        X: Covariates,
        at: Numbers,
        of: Of = "cdf",
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        uncertainty: str | Array | Bootstrap | None = None,
        offset: Numbers | None = None,
    ) -> ConfidenceBand:
        """Return confidence bands of predicted probabilities or quantiles for each row of X.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates.
        at : number or vector
            Outcomes y for ``of="cdf"`` and ``"sf"``; probabilities for ``of="ppf"``.
        of : {"cdf", "sf", "ppf"}
            P(Y <= y), P(Y > y) or quantiles.
        level : float
            Confidence level.
        simultaneous : bool
            Whether the band of a row covers all points in ``at`` at once, instead of each one separately.
        uncertainty : {"hessian", "sandwich", "bootstrap"}, matrix or Bootstrap, optional
            For the delta method, the covariance matrix of (baseline, coef), by name or as ``covariance`` returns it.
            For percentiles, a bootstrap. By default the sandwich; at xi = 0 the inverse information, with increments
            of the baseline at their bound treated as known. With random effects, bands are those of new clusters, and
            the covariance includes the variances of the effects.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.

        Returns
        -------
        ConfidenceBand

        See Also
        --------
        anchortm.inference.ConfidenceBand : estimates and limits, as a table or a plot

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.confidence_band(data[:1], [100.0, 300.0], of="sf").frame().round(2)
           row      y  estimate  lower  upper
        0    0  100.0      0.95   0.90   0.97
        1    0  300.0      0.79   0.67   0.87
        """
        result, rows = self.result_, self.new_rows_
        parts.refuse("bands", *self.new_rows_.spec.asked())
        n_rows = 1 if X is None and offset is None else None
        offset = rows.offset(X, offset)
        if result.random is not None:
            return self._band_of_averages(X, at, of, level, simultaneous, uncertainty, offset)
        design, mixture = rows.take_apart(X, n_rows if offset is None else np.size(offset))
        matrix = to_design(design).matrix
        distribution = self.predict_distribution(X, offset=offset, n_rows=n_rows)
        known = resolve(self, uncertainty)
        fixed = result.sign * (distribution.shift - matrix @ result.coef)
        shares = None if mixture is None else mixture.corners.shares(mixture.weights)
        if result.scale is None:
            return confidence_band(distribution, matrix, result.sign, fixed, at, of, level, simultaneous, known, shares)
        columns, bands = scale_columns(result.scale.names, result.coef_names), []
        for i, theta in enumerate(distribution.theta):  # a row is a model without scale effects that has its own theta
            own, row = replace(distribution[[i]], theta=theta), slice(i, i + 1)
            mix = np.ones(1) if shares is None else shares[i]
            there = at_row(known, result.baseline, mix, matrix[i, columns], result.scale.coef)
            bands.append(confidence_band(own, matrix[row], result.sign, fixed[row], at, of, level, simultaneous, there))
        estimate, lower, upper = (
            np.vstack(part) for part in zip(*((b.estimate, b.lower, b.upper) for b in bands), strict=True)
        )
        return replace(bands[0], estimate=estimate, lower=lower, upper=upper)
