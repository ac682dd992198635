"""Methods of fitted models for inference: standard errors, intervals, bootstrap, AIC and BIC, summary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Labels, Numbers, Seed
from anchortm._util.html import EstimatorInNotebook
from anchortm.exceptions import UnavailableError
from anchortm.inference.bootstrap import Bootstrap, any_covariance, bootstrap
from anchortm.inference.covariance import coefficient_intervals, standard_errors
from anchortm.inference.effects import smooth_effects, varying_effects
from anchortm.inference.summary import Summary, summarise
from anchortm.models.times import Times

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Inference"]

Array = NDArray[np.float64]


class Inference(EstimatorInNotebook, Times):
    """The methods of a fitted model about its parameters."""

    def _check_criterion(self) -> None:
        result = self.result_
        if not result.unpenalised:
            raise UnavailableError(
                "AIC and BIC are for maximum-likelihood fits, with xi = 0 and without l1, l2 or smooth: compare "
                "penalised fits by left-out environments"
            )
        if result.reweighed:
            raise UnavailableError(
                "AIC and BIC need environment_weights='rows', because with other weights loglik_ is not that of the "
                "rows: compare fits by left-out environments"
            )
        if result.quasi:
            raise UnavailableError(
                f"AIC and BIC need a likelihood, and {result.link.family} models with a dispersion other than 1 do not "
                "have one: leave dispersion out, or use family='negative_binomial' for counts"
            )

    def _asked_covariance(self, kind: str | None, clusters: Any, options: dict[str, Any]) -> Array | None:
        """Return the bootstrap covariance; None for other kinds, which do not need the full matrix."""
        if kind not in (None, "hessian", "sandwich") or options:
            return any_covariance(self, kind, clusters, **options)
        return None

    @property
    def aic_(self) -> float:
        """Return Akaike's information criterion, -2 loglik + 2 n_parameters, of a maximum-likelihood fit."""
        self._check_criterion()
        return -2.0 * self.result_.largest_loglik + 2.0 * self.n_parameters_

    @property
    def bic_(self) -> float:
        """Return Schwarz's information criterion, -2 loglik + log(n) n_parameters, of a maximum-likelihood fit."""
        self._check_criterion()
        return -2.0 * self.result_.largest_loglik + math.log(self.result_.sample_size) * self.n_parameters_

    def covariance(self, kind: str | None = None, clusters: Labels | None = None, **options: Any) -> Array:
        """Return the covariance matrix of (baseline, coef).

        Parameters
        ----------
        kind : {"hessian", "sandwich", "bootstrap"}, optional
            "hessian" is the inverse of the observed information, as in R's tram; it needs xi = 0, and ignores that
            increments of the baseline may be at their bound. "sandwich" includes the penalty, works for any xi, and
            stays valid if the model is misspecified; increments at their bound are treated as known. "bootstrap"
            refits to resampled data. By default "hessian" at xi = 0 and "sandwich" otherwise.
        clusters : array, or name of an anchor, optional
            The cluster of each row. Rows of one cluster may be dependent; clusters are independent. By default the
            sandwich treats rows as independent and a weight of 2 as two rows (for sampling weights, make each row a
            cluster). The bootstrap by default resamples the levels of the largest anchor factor.
        **options
            For the bootstrap: ``n_bootstrap``, ``random_state``, ``n_jobs``, ``progress``.

        Returns
        -------
        array of shape (k, k)
            In the order of ``baseline_`` and then ``coef_``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_geyser()
        >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
        >>> model.covariance().shape, model.covariance("sandwich").shape  # 7 parameters of the baseline, 1 coefficient
        ((8, 8), (8, 8))
        """
        return any_covariance(self, kind, clusters, **options)

    def standard_errors(self, kind: str | None = None, clusters: Labels | None = None, **options: Any) -> Array:
        """Return the standard errors of ``coef_``.

        Parameters
        ----------
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        array of shape (p,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.standard_errors().round(3)
        array([0.357, 0.017])
        >>> model.standard_errors(clusters="center").round(3)
        array([0.212, 0.016])
        """
        return standard_errors(self, kind, clusters, self._asked_covariance(kind, clusters, options))

    def intervals(
        self, level: float = 0.95, kind: str | None = None, clusters: Labels | None = None, **options: Any
    ) -> pd.DataFrame:
        """Return ``coef_`` with standard errors and normal confidence intervals.

        For xi > 0 the intervals are for the coefficients that the same penalty gives in the whole population, not for
        those of maximum likelihood.

        Parameters
        ----------
        level : float
            Confidence level.
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        DataFrame
            One row for each coefficient: coef, std. error, lower and upper.

        See Also
        --------
        anchortm.marginal_effects : effects on the scale of the outcome

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.intervals(level=0.9).round(3)
                          coef  std. error  lower  upper
        covariate
        treat[T.rIFN-g] -1.074       0.357 -1.660 -0.487
        age             -0.029       0.017 -0.057 -0.001
        """
        return coefficient_intervals(self, level, kind, clusters, self._asked_covariance(kind, clusters, options))

    def bootstrap(
        self,
        n_bootstrap: int = 200,
        clusters: Labels | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> Bootstrap:
        """Return fits to resampled data.

        All fits use the basis of this fit. Parameters that a resampled data set does not identify are NaN in its draw,
        such as the coefficient of a level that occurs only at a place that was not drawn. Resampled data sets to which
        the model cannot be fitted at all are skipped with a warning; if they are more than a tenth, an error is raised.

        Parameters
        ----------
        n_bootstrap : int
            Number of resampled data sets.
        clusters : array, or name of an anchor, optional
            The cluster of each row; whole clusters are resampled. By default the levels of the largest anchor factor,
            or rows if there is none. For a table that is read in batches, the name of a column; all fits then share
            each read of the table, and single rows are not resampled.
        random_state : int or Generator, optional
            Seed.
        n_jobs : int, optional
            Number of processes; -1 uses all cores.
        progress : bool, optional
            Whether to show a progress bar. By default only in a terminal or notebook.

        Returns
        -------
        Bootstrap

        See Also
        --------
        anchortm.inference.Bootstrap : the fits, with standard errors and percentile intervals

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.bootstrap(20, random_state=0, progress=False).resampled
        'environments (center)'
        """
        return bootstrap(self, n_bootstrap, clusters, random_state, n_jobs, progress)

    def varying_effects(
        self, at: Numbers, level: float = 0.95, kind: str | None = None, clusters: Labels | None = None, **options: Any
    ) -> pd.DataFrame:
        """Return the varying effects at outcomes ``at``, with pointwise confidence intervals.

        The effect at y is the amount that one unit of the covariate adds to x'beta at y. It is on the scale of h, like
        ``coef_``.

        Parameters
        ----------
        at : number or vector
            Outcomes; for ordinal models, classes except the last.
        level : float
            Confidence level.
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        DataFrame
            One row for each covariate and outcome: effect, std. error, lower and upper.

        See Also
        --------
        anchortm.proportionality_test : tests whether effects vary

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, order=2, varying="treat")
        >>> model.varying_effects([100.0, 300.0]).round(2)
                 covariate      y  effect  std. error  lower  upper
        0  treat[T.rIFN-g]  100.0   -1.46        0.63  -2.70  -0.23
        1  treat[T.rIFN-g]  300.0   -1.07        0.33  -1.72  -0.42
        """
        return varying_effects(self, at, level, kind, clusters, **options)

    def smooth_effects(
        self,
        term: str | None = None,
        at: Numbers | None = None,
        level: float = 0.95,
        kind: str | None = None,
        clusters: Labels | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Return the curves of smooth terms, ``s(x)`` in a formula, with pointwise confidence intervals.

        The effect at x is the amount that the term adds to x'beta. It is on the scale of h, like ``coef_``, and its
        mean over the rows of the fit is 0. The intervals are for the smoothed curve in the whole population, not for
        the curve without smoothing.

        Parameters
        ----------
        term : str, optional
            A term such as ``"s(age)"``; by default all smooth terms.
        at : number or vector, optional
            Values of the variable inside s(...); by default 101 points over its training range. Outside this range
            the curves are straight lines.
        level : float
            Confidence level.
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        DataFrame
            One row for each term and x: effect, std. error, lower and upper.

        See Also
        --------
        anchortm.plotting.smooth_effects : draws the curves

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear.from_formula("cmedv ~ s(lstat) + rm | town", data, xi=1.0)
        >>> model.smooth_effects(at=[5.0, 15.0, 25.0]).round(2)
               term     x  effect  std. error  lower  upper
        0  s(lstat)   5.0    0.97        0.14   0.70   1.25
        1  s(lstat)  15.0   -0.34        0.08  -0.49  -0.19
        2  s(lstat)  25.0   -1.32        0.17  -1.66  -0.99
        """
        return smooth_effects(self, term, at, level, kind, clusters, **options)

    def _found(self) -> Summary | None:
        return None if self._result is None else summarise(self)

    def summary(
        self, level: float = 0.95, kind: str | None = None, clusters: Labels | None = None, **options: Any
    ) -> Summary:
        """Return a printable summary of the fit, with standard errors and confidence intervals.

        Parameters
        ----------
        level, kind, clusters, **options
            As for ``intervals``.

        Returns
        -------
        Summary

        See Also
        --------
        anchortm.inference.Summary : prints, and gives a table by ``frame()``

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
        >>> print(model.summary())
        OrdinalRegression: logit link, ordinal basis
          model           F(h(y) - x'beta)
          rows            72 (5 classes)
          xi              1, 9 anchor directions
          log-likelihood  -86.6989
          anchor loss     1.302284 = 1.204151 (mean negative log-likelihood) + 1 x 0.0981 (penalty)
          converged       yes, ...
          minimum         on the branch connected to xi = 0; the loss need not be convex
          std. errors     sandwich, for the coefficients that this xi aims at; rows independent
        <BLANKLINE>
        Coefficients
          covariate         coef  std. error  lower 95 %  upper 95 %  odds ratio   95 % of ratio
          temp[T.warm]    2.2815     0.56656       1.171      3.3919       9.791  3.225 to 29.72
          contact[T.yes]  1.4357     0.58122     0.29649      2.5748      4.2024  1.345 to 13.13
        <BLANKLINE>
        Baseline  1|2 -1.281, 2|3 1.16, 3|4 3.208, 4|5 4.622
        """
        return summarise(self, level, kind, clusters, **options)
