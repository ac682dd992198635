"""How certain a fitted model is: standard errors, intervals, the bootstrap, criteria, the summary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import estimator_html_repr

from anchortm._typing import Labels, Numbers, Seed
from anchortm.exceptions import InputError, UnavailableError
from anchortm.inference.bootstrap import Bootstrap, any_covariance, bootstrap
from anchortm.inference.covariance import coefficient_intervals, standard_errors
from anchortm.inference.effects import smooth_effects, varying_effects
from anchortm.inference.summary import Summary, summarise
from anchortm.models.predictions import Predictions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Inference"]

Array = NDArray[np.float64]


class Inference(Predictions):
    """The answers of a fitted model about its own parameters."""

    def _check_criterion(self) -> None:
        result = self.result_
        if not result.unpenalised:
            raise UnavailableError(
                "AIC and BIC are for maximum-likelihood fits, with xi = 0 and no l1, l2 or smooth: compare penalised "
                "fits by left-out places"
            )
        if result.quasi:
            raise InputError(
                f"with a dispersion other than 1 {result.link.family} outcomes have no likelihood, and so no AIC or "
                "BIC: leave dispersion out, or use family='negative_binomial' for counts"
            )

    def _asked_covariance(self, kind: str | None, clusters: Any, options: dict[str, Any]) -> Array | None:
        """Return the covariance by the bootstrap; None for other kinds, which need not be computed as a whole."""
        if kind not in (None, "hessian", "sandwich") or options:
            return any_covariance(self, kind, clusters, **options)
        return None

    @property
    def aic_(self) -> float:
        """Return Akaike's criterion, -2 loglik + 2 parameters, of a maximum-likelihood fit."""
        self._check_criterion()
        return -2.0 * self.result_.largest_loglik + 2.0 * self.n_parameters_

    @property
    def bic_(self) -> float:
        """Return Schwarz's criterion, -2 loglik + log(n) parameters, of a maximum-likelihood fit."""
        self._check_criterion()
        return -2.0 * self.result_.largest_loglik + math.log(self.result_.sample_size) * self.n_parameters_

    def covariance(self, kind: str | None = None, clusters: Labels | None = None, **options: Any) -> Array:
        """Return the covariance matrix of (baseline, coef).

        Parameters
        ----------
        kind : {"hessian", "sandwich", "bootstrap"}, optional
            The inverse of the observed information, for xi = 0 only and as R's tram gives it (that
            increments of the baseline may be held at their bound is not taken into account); the
            sandwich with the full influence of the penalty, for any xi, right even if the model is
            not (increments at their bound count as known); or the bootstrap. By default the Hessian
            at xi = 0 and the sandwich otherwise.
        clusters : array, optional
            Rows of a cluster may depend on each other; clusters do not. By default rows are independent
            for the sandwich (with weights as copies of rows: for sampling weights give each row a cluster of its
            own), and the bootstrap resamples the levels of the largest anchor factor.
        **options
            For the bootstrap: ``n_bootstrap``, ``random_state``, ``n_jobs``, ``progress``.

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
        """Return the standard errors of ``coef_``; arguments as for ``covariance``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.standard_errors().round(3)
        array([0.357, 0.017])
        >>> model.standard_errors(clusters=data.center).round(3)
        array([0.212, 0.016])
        """
        return standard_errors(self, kind, clusters, self._asked_covariance(kind, clusters, options))

    def intervals(
        self, level: float = 0.95, kind: str | None = None, clusters: Labels | None = None, **options: Any
    ) -> pd.DataFrame:
        """Return ``coef_`` with standard errors and normal confidence intervals; arguments as for ``covariance``.

        For xi > 0 they are intervals for what the same penalty would give with all rows of the
        population, not for the coefficients of maximum likelihood.

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
        """Return fits to resampled data: the levels of the largest anchor factor, clusters, or else rows.

        The basis stays that of the fit. Resampled data sets that do not determine the model are left
        out with a warning; more than a tenth of them is an error.

        See Also
        --------
        anchortm.inference.Bootstrap : what is returned

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
        """Return the effects that vary along the response at outcomes ``at``, with pointwise intervals.

        An effect at y is what a unit of the covariate adds there to x'beta: on the scale of h, as ``coef_``.

        Parameters
        ----------
        at : number or vector
            Outcomes, or classes but the last.
        level : float
            Confidence.
        kind, clusters, **options
            As for ``covariance``.

        See Also
        --------
        anchortm.proportionality_test : does an effect vary at all?

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
        """Return the curves of smooth terms, ``s(x)`` of a formula, with pointwise intervals.

        An effect is what the term adds to x'beta, on the scale of h as ``coef_``; its mean over the rows of the fit
        is zero. Intervals are for the curve that this much smoothing aims at, not for one without.

        Parameters
        ----------
        term : str, optional
            Such as ``"s(age)"``; by default all smooth terms.
        at : number or vector, optional
            Values of what stands inside s(...); by default 101 over its range in the fit. Beyond it curves are lines.
        level : float
            Confidence.
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        DataFrame
            One row for each term and x: effect, std. error, lower and upper.

        See Also
        --------
        anchortm.plotting.smooth_effects : draws them

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

    def _repr_html_(self) -> str:
        """Return the summary of a fitted model, for notebooks, and scikit-learn's picture of any other."""
        return summarise(self)._repr_html_() if self._result is not None else str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def summary(
        self, level: float = 0.95, kind: str | None = None, clusters: Labels | None = None, **options: Any
    ) -> Summary:
        """Return a table of the fit that prints, with standard errors and intervals as ``intervals`` gives them.

        See Also
        --------
        anchortm.inference.Summary : what is returned

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
