"""The uncertainty of boosted models: fits to resampled environments, and bands of predictions from them."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm import plotting
from anchortm._typing import Axis, Covariates, Labels, Numbers, Seed
from anchortm._util.checks import level_between
from anchortm._util.estimators import CopiedWithRows
from anchortm.engine.baseline_rules import Given
from anchortm.engine.data import Data
from anchortm.engine.specification import Specification
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError, InputTypeError, UnavailableError
from anchortm.inference.bands import ConfidenceBand, Of, band_of_refits
from anchortm.inference.bootstrap import BoostedBootstrap, refuse_recalibrated
from anchortm.inference.resampling import resampled
from anchortm.inference.restricted_means import Groups, RestrictedMeans, checked_horizon, means_of_refits
from anchortm.inputs import parts
from anchortm.models.attributes import FRONT
from anchortm.models.boosted.adapted import Adapted
from anchortm.predict.fitted import NOT_AT_HAND
from anchortm.predict.names import named

__all__ = ["Resampled"]

Array = NDArray[np.float64]


class Resampled(CopiedWithRows, Adapted):
    """Methods of boosted models that fit resampled data: ``bootstrap`` and what follows from it."""

    _rows_in: ClassVar[str] = "_data"
    _data: Data | None = None  # the rows of the fit

    @property
    def rows_used_(self) -> NDArray[np.intp]:
        """Return the positions of the rows of the fit among those that were passed, counted from 0."""
        self._fitted()
        if self._data is None:
            raise UnavailableError(NOT_AT_HAND)
        return self._data.rows_used

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name != "_data"}  # pickles do not carry the rows

    def _keep(self, **found: Any) -> Self:
        """Store the results in one assignment, so that an interrupted or failed fit leaves the model unchanged."""
        state = {name: value for name, value in self.__dict__.items() if name not in FRONT}
        self.__dict__ = state | found
        return self

    def specification(self) -> Specification:
        """Return the specification of the boosted model."""
        raise NotImplementedError

    def _fit_data(self, spec: Specification, data: Data) -> Self:
        """Fit to checked rows."""
        raise NotImplementedError

    def bootstrap(
        self,
        n_bootstrap: int = 200,
        clusters: Labels | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> BoostedBootstrap:
        """Return fits to resampled data, each with the basis and the number of rounds of this fit.

        Trees are grown anew for each resampled data set. Data sets that do not identify the model are skipped with a
        warning; if they are more than a tenth, an error is raised.

        Parameters
        ----------
        n_bootstrap : int
            Number of resampled data sets.
        clusters : array, optional
            The cluster of each row; whole clusters are resampled. By default the levels of the largest anchor factor,
            or rows if there is none.
        random_state : int or Generator, optional
            Seed.
        n_jobs : int, optional
            Number of processes; -1 uses all cores.
        progress : bool, optional
            Whether to show a progress bar. By default only in a terminal or notebook.

        Returns
        -------
        BoostedBootstrap
            The fitted models.
        """
        boosted = self._fitted()
        if boosted.refit is not None:
            raise InputError("a refitted model cannot be resampled: use the model before the refit")
        if self._data is None:
            raise UnavailableError(NOT_AT_HAND)
        rule = Given(self.model_.result_.basis)
        front = {name: self.__dict__[name] for name in FRONT & self.__dict__.keys()}
        fresh = clone(self).set_params(n_rounds=boosted.n_rounds, validation=None)
        refit = partial(_refit, fresh, fresh.specification().at(rule=rule), front)
        models, what, failed = resampled(self._data, refit, n_bootstrap, clusters, random_state, n_jobs, progress)
        return BoostedBootstrap(tuple(models), what, failed)

    @named
    def confidence_band(
        self,
        X: Covariates,
        at: Numbers,
        of: Of = "cdf",
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        uncertainty: str | BoostedBootstrap | None = None,
        offset: Numbers | None = None,
    ) -> ConfidenceBand:
        """Return confidence bands of predicted probabilities or quantiles for each row of X, by the bootstrap.

        Parameters
        ----------
        X : array or frame
            Covariates.
        at : number or vector
            Outcomes y for ``of="cdf"`` and ``"sf"``; probabilities for ``of="ppf"``.
        of : {"cdf", "sf", "ppf"}
            P(Y <= y), P(Y > y) or quantiles.
        level : float
            Confidence level.
        simultaneous : bool
            Whether the band of a row covers all points in ``at`` at once, instead of each one separately.
        uncertainty : "bootstrap" or BoostedBootstrap, optional
            The result of ``bootstrap``; by default 200 fits are made.
        offset : array, optional
            Added to f(x). Needed if the model was fitted with an offset.

        Returns
        -------
        ConfidenceBand
            Percentiles of the fits or, if simultaneous, the estimate plus and minus a multiple of their deviations.

        Notes
        -----
        Shrinkage makes f smaller than the truth in this fit and in all refits, so that the band shows the variance of
        the prediction and not its bias.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.ProportionalHazards(order=3), n_rounds=10)
        >>> refits = model.bootstrap(20, random_state=0, progress=False)
        >>> model.confidence_band(data[:2], [300.0], of="sf", uncertainty=refits)
        ConfidenceBand(sf, 2 rows x 1 points, 95% pointwise, bootstrap of 20)
        """
        estimate, refits = self._with_refits(X, offset, uncertainty)
        return band_of_refits(estimate, refits, at, of, level, simultaneous)

    @named
    def restricted_mean(
        self,
        X: Covariates,
        tau: float,
        *,
        by: Labels | None = None,
        level: float = 0.95,
        uncertainty: str | BoostedBootstrap | None = None,
        offset: Numbers | None = None,
    ) -> RestrictedMeans:
        """Return the mean time up to tau, E[min(Y, tau)], of each row or group, with its bootstrap standard error.

        Parameters
        ----------
        X : array or frame
            Covariates.
        tau : number
            The horizon, not beyond the last follow-up.
        by : array or name of a column of X, optional
            A label for each row. Means are averaged over the rows of each group, which are taken as given.
        level : float
            Confidence level.
        uncertainty, offset
            As for ``confidence_band``.

        Returns
        -------
        RestrictedMeans
            ``frame()`` has the means, ``differences()`` those between rows or groups.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.ProportionalHazards(order=3), n_rounds=10)
        >>> refits = model.bootstrap(20, random_state=0, progress=False)
        >>> model.restricted_mean(data, 365, by=data.treat, uncertainty=refits).method
        'bootstrap of 20'
        """
        estimate = self.predict_distribution(X, offset=offset)
        groups = Groups.of(by, X, len(estimate), level_between(level))
        tau = checked_horizon(tau, estimate, self.model_.result_.outcome_range)
        return means_of_refits(*self._with_refits(X, offset, uncertainty), tau, groups)

    def plot(self, ax: Axis = None) -> Any:
        """Draw the loss, its parts and the held-out loss against the rounds; return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        return plotting.rounds(self, ax)

    def _with_refits(
        self, X: Covariates, offset: Numbers | None, uncertainty: str | BoostedBootstrap | None
    ) -> tuple[Any, list[Any]]:
        """Return the predicted distributions, and those of refits."""
        self._fitted()
        refuse_recalibrated(self.model_.result_)
        if uncertainty in ("hessian", "sandwich"):
            parts.refuse("boosting", "sandwich")
        if uncertainty not in (None, "bootstrap") and not isinstance(uncertainty, BoostedBootstrap):
            raise InputTypeError(f"uncertainty must be 'bootstrap' or what bootstrap() returns, not {uncertainty!r}")
        estimate = self.predict_distribution(X, offset=offset)
        models = (uncertainty if isinstance(uncertainty, BoostedBootstrap) else self.bootstrap()).models
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)  # the estimate has given them
            return estimate, [model.predict_distribution(X, offset=offset) for model in models]


def _refit(model: Any, spec: Specification, front: dict[str, Any], part: Data) -> Any:
    """Return the model fitted to resampled rows, without them; None if the fit fails."""
    if part.dropped:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)
            fitted = clone(model)._fit_data(spec, part)
    except (IdentificationError, ArithmeticError, np.linalg.LinAlgError):
        return None
    if not fitted.converged_:
        return None
    fitted.model_, fitted._data = fitted.model_.with_result(None, fitted.model_.result_), None
    fitted.__dict__ |= front
    return fitted
