"""What a fitted model says about new rows: predictions, likelihoods, residuals, confidence bands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Covariates, Numbers, Outcome
from anchortm._util.checks import check_weights, flag
from anchortm._util.frames import aligned
from anchortm.engine.objective.scale_effects import scale_columns
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inference.bands import ConfidenceBand, Of, confidence_band
from anchortm.inference.bootstrap import Bootstrap, at_row, resolve
from anchortm.inputs.design import to_design
from anchortm.models.attributes import FittedAttributes
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.extrapolation import extrapolation
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.new_rows import NewRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Predictions"]

Array = NDArray[np.float64]


class Predictions(FittedAttributes):
    """The answers of a fitted model about rows."""

    @property
    def new_rows_(self) -> NewRows:
        """Return what turns new rows into the numbers that the model needs."""
        raise NotImplementedError

    def nll(self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None) -> Array:
        """Return the negative log-likelihood of each row; after ``from_formula`` X may hold the outcome too.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.nll(data[:3]).round(2)
        array([7.19, 7.45, 0.38])
        """
        return -self.new_rows_.logliks(X, y, offset)[0]

    def residuals(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, which: str = "shift"
    ) -> Array:
        """Return the score residual of each row: the derivative of its log-likelihood in alpha at F(h - alpha).

        With ``which="scale"`` that of the scale, -dl/dzeta at h = e^zeta a(y)'theta + ..., of a model with scale
        effects or without: above 0 where a row would be likelier with a larger spread.

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
    ) -> float:
        """Return the mean log-likelihood of the rows.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> round(model.score(data), 3)
        -2.585
        """
        aligned(X=X, y=y, sample_weight=sample_weight)
        loglik = self.new_rows_.logliks(X, y, offset)[0]
        weights = check_weights(sample_weight, loglik.size)
        return float(np.average(loglik, weights=weights))

    def predict(self, X: Covariates = None, *, offset: Numbers | None = None, n_rows: int | None = None) -> Any:
        """Return the conditional median (infinite where a flat end never reaches it).

        An unconditional model takes ``X=None`` and ``n_rows``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict(data[:2]).round(0)
        array([420., 303.])
        """
        return self.predict_distribution(X, offset=offset, n_rows=n_rows).median()

    def predict_distribution(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        conditional: bool = False,
    ) -> PredictedDistribution:
        """Return the predicted distribution of each row.

        An unconditional model takes ``X=None`` and ``n_rows`` (by default one row). A model that was fitted with an
        offset needs one here: after ``from_formula`` the column of that name is taken.

        With random effects the distribution is that of rows of new clusters, averaged over the effects that clusters
        may have. If ``conditional``, rows of clusters that the fit knew are averaged over what is known of theirs.

        See Also
        --------
        anchortm.predict.PredictedDistribution : what is returned
        anchortm.predict.AveragedDistribution : with random effects

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict_distribution(data[:2]).cdf([100.0, 300.0]).round(2)
        array([[0.05, 0.21],
               [0.14, 0.49]])
        """
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        result, rows = self.result_, self.new_rows_
        theta, moved = rows.parts(X, n_rows, offset)
        shift, random, sign = result.sign * moved, result.random, result.sign
        if conditional and flag(conditional, "conditional"):
            clusters, effects = rows.clusters(X), self._effects()
            labels = [clusters.labels[code] for code in clusters.codes]
            return self._averaged(theta, shift, *effects.conditional(clusters.Z, labels))
        if random is None:
            return PredictedDistribution(result.link, result.basis, theta, shift, result.time, gain=sign)
        Z = random.effects.columns(result.coef_names, rows.matrix(X, n_rows or shift.size))
        size = result.link.widened_by_normal(random.deviations(Z))
        if size is not None:  # the sum of both variables has the distribution of the link
            theta = theta / size[0] if np.unique(size).size == 1 else theta / size[:, None]
            return PredictedDistribution(result.link, result.basis, theta, shift, result.time, gain=sign / size)
        return self._averaged(theta, shift, *random.marginal(Z))

    def _averaged(self, theta: Array, shift: Array, added: Array, weights: Array) -> AveragedDistribution:
        """Return distributions that are averaged over random effects."""
        result = self.result_
        return AveragedDistribution(
            result.link, result.basis, theta, shift, result.time, None, result.sign, added, np.asarray(weights)
        )

    def extrapolation(self, X: Covariates, y: Numbers | None = None) -> pd.DataFrame:
        """Return where predictions for X leave what the fit has seen.

        Parameters
        ----------
        X : array or frame
            New rows.
        y : number, or array of n rows, optional
            Outcomes that are asked about, such as predicted quantiles of shape (n, k).

        Returns
        -------
        DataFrame
            For each row ``covariates``, the names of those outside their range in the fit (after ``from_formula`` of
            the columns as given), and ``furthest``, how far the worst of them is outside, in widths of its range.
            With y also ``outcome``: "beyond the support", where the baseline goes on as a line, or "beyond the data",
            below the smallest or above the largest outcome or limit of censoring.

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
        at : number or vector
            Outcomes at which the cdf or sf is wanted, or probabilities of the quantiles.
        of : {"cdf", "sf", "ppf"}
            P(Y <= y), P(Y > y) or quantiles.
        level : float
            Confidence.
        simultaneous : bool
            Whether a row's band is to hold at all its points at once, or at each.
        uncertainty : {"hessian", "sandwich", "bootstrap"}, matrix or Bootstrap, optional
            A covariance of (baseline, coef) for the delta method, by name or as given by ``covariance``, or a
            bootstrap, whose percentiles are taken. By default the sandwich, and at xi = 0 the inverse of
            the information with increments at their bound taken as known.

        See Also
        --------
        anchortm.inference.ConfidenceBand : what is returned

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
        if result.random is not None:
            raise InputTypeError(
                "models with random effects have no confidence bands: an average over clusters has no single h; fit "
                "to resampled clusters and compare predict_distribution"
            )
        n_rows = 1 if X is None and offset is None else None
        offset = rows.offset(X, offset)
        design, mixture = rows.take_apart(X, n_rows if offset is None else np.size(offset))
        matrix = to_design(design).matrix
        distribution = self.predict_distribution(X, offset=offset, n_rows=n_rows)
        known = resolve(self, uncertainty)
        fixed = result.sign * (distribution.shift - matrix @ result.coef)
        if result.scale is None:
            shares = None if mixture is None else mixture.corners.shares(mixture.weights)
            return confidence_band(distribution, matrix, result.sign, fixed, at, of, level, simultaneous, known, shares)
        columns, bands = scale_columns(result.scale.names, result.coef_names), []
        for i, theta in enumerate(distribution.theta):  # each row is a model without scale effects, with its own theta
            own, row = replace(distribution[[i]], theta=theta), slice(i, i + 1)
            there = at_row(known, result.baseline, matrix[i, columns], result.scale.coef)
            bands.append(confidence_band(own, matrix[row], result.sign, fixed[row], at, of, level, simultaneous, there))
        estimate, lower, upper = (
            np.vstack(part) for part in zip(*((b.estimate, b.lower, b.upper) for b in bands), strict=True)
        )
        return replace(bands[0], estimate=estimate, lower=lower, upper=upper)
