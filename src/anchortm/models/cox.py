"""CoxPH: the anchor loss of Cox's partial likelihood, with martingale residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Covariates, Numbers, Outcome, Place
from anchortm._util.checks import check_weights
from anchortm._util.frames import aligned
from anchortm.engine.baseline_rules import BaselineRule, Given
from anchortm.engine.partial_problem import PartialProblem, PartialResult, PartialSpecification
from anchortm.engine.rows.risk_sets import row_logliks
from anchortm.exceptions import InputError
from anchortm.inference.bands import ConfidenceBand, Of
from anchortm.inference.bootstrap import Bootstrap
from anchortm.inference.restricted_means import Groups, RestrictedMeans
from anchortm.inference.step_bands import step_band, step_means
from anchortm.inputs import parts
from anchortm.inputs.formula import Formula
from anchortm.inputs.judgement import OnBadRows, Unknown
from anchortm.links import Link, get_link
from anchortm.models.attributes import Found
from anchortm.models.base import TransformationModel, model
from anchortm.models.docstrings import ATTRIBUTES, SHARED
from anchortm.models.roles import Regressor
from anchortm.predict.names import named
from anchortm.predict.partial_rows import PartialRows
from anchortm.predict.placed_rows import check_place
from anchortm.predict.survival_steps import StepBasis

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoxPH"]

Array = NDArray[np.float64]

_OWN = """ties : {"efron", "breslow"}
        How to treat events at the same time. Efron's formula is usually closer to the result without ties, and is
        the default of R's survival. Under Breslow's formula a weight of 2 is exactly equivalent to duplicating the
        row.
    """
_NONE = ": empty, because the steps of the hazard are not parameters."
_STEPS = """baseline_hazard_ : DataFrame
        Cumulative hazard for covariates of 0 at each event time (of each stratum).
    strata_ : tuple
        The strata; empty without strata.
    n_events_ : int
        Number of rows with an event.
    """


def _refuse_new_place(place: Place) -> None:
    """Raise an error for the partial likelihood of rows of a new place."""
    if check_place(place):
        raise InputError(
            'place="new" does not change a partial likelihood, in which the shift of a place cancels: leave it out, or '
            "score predicted survival curves by brier"
        )


@model
class CoxPH(Regressor, TransformationModel):  # noqa: D101
    __doc__ = f"""The Cox model by its partial likelihood (R's coxph): hazard(t | x) = hazard_0(t) exp(x'beta).

    The baseline hazard is unspecified. The penalty acts on Lambda - event, the negative martingale residual. Outcomes
    are exact or right-censored, optionally with delayed entry (``Surv(time, event, entry)``). For other kinds of
    censoring use ``ProportionalHazards``, which has a smooth baseline.

    Parameters
    ----------{SHARED.format(own=_OWN)}{ATTRIBUTES.format(baseline=_NONE, own=_STEPS)}
    See Also
    --------
    anchortm.ProportionalHazards : the full likelihood, with a smooth baseline
    anchortm.predict.StepDistribution : the predicted survival curves

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data, xi=1.0)
    >>> model.summary().frame()[["coef", "hazard ratio"]].round(2)
                     coef  hazard ratio
    covariate
    treat[T.rIFN-g] -1.09          0.34
    age             -0.03          0.97
    """

    _sign = 1.0
    _effect = "hazard ratio"
    _problem_type = PartialProblem
    _rows_type = PartialRows
    _specification_type = PartialSpecification

    ties: Literal["efron", "breslow"] = "efron"

    n_events_ = Found[int]()
    strata_ = Found[tuple[Any, ...]]("strata")

    def _make_link(self) -> Link:
        return get_link("cloglog")

    def _rule(self) -> BaselineRule:
        return Given(StepBasis())

    def _own(self) -> dict[str, Any]:
        return {"ties": self.ties}

    @property
    def result_(self) -> PartialResult:
        """Return all results of the fit as one frozen object."""
        result = super().result_
        assert isinstance(result, PartialResult)  # noqa: S101
        return result

    @property
    def new_rows_(self) -> PartialRows:
        """Return the object that turns new rows into linear predictors and outcomes of this model."""
        rows = super().new_rows_
        assert isinstance(rows, PartialRows)  # noqa: S101
        return rows

    @property
    def baseline_hazard_(self) -> pd.DataFrame:
        """Return the cumulative baseline hazard at each event time, for covariates and offset of 0.

        This is Breslow's estimator; with ``ties="efron"`` it uses Efron's formula for ties.

        Returns
        -------
        DataFrame
            Columns time and cumulative hazard, and stratum if there are strata.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.baseline_hazard_.tail(2).round(2)
             time  cumulative hazard
        41  334.0               1.43
        42  373.0               2.23
        """
        import pandas as pd

        result = self.result_
        totals = np.concatenate([curve.total for curve in result.curves] or [np.zeros(0)])
        with np.errstate(over="ignore"):
            table = pd.DataFrame({"time": result.hazard.time, "cumulative hazard": totals * np.exp(-result.centre)})
        if result.strata:
            table["stratum"] = np.array(result.strata, dtype=object)[result.hazard.stratum]
        return table

    def nll(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, place: Place = "average"
    ) -> Array:
        """Return the contribution of each row to the negative partial log-likelihood of the given rows.

        Rows without an event contribute 0. The values do not use the baseline of the fit: they measure how well the
        coefficients order these rows, and depend on which rows you pass together. Strata may therefore be new, unlike
        in ``residuals`` and ``predict_distribution``, which need a baseline.

        Parameters
        ----------
        X : array or frame
            Covariates. After ``from_formula``, a table with the columns of the formula.
        y : Response, optional
            Outcomes from ``Surv``. After ``from_formula`` they are taken from the table if y is not given.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        place : {"average"}
            A shift that the rows of a place share does not change their order, so that only "average" is available.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.nll(data)[:3].round(2)
        array([5.07, 4.46, 0.  ])
        """
        _refuse_new_place(place)
        return super().nll(X, y, offset=offset) + 0.0  # turns -0 into 0

    def score(
        self,
        X: Covariates,
        y: Outcome | None = None,
        sample_weight: Numbers | None = None,
        *,
        offset: Numbers | None = None,
        place: Place = "average",
    ) -> float:
        """Return the partial log-likelihood of the given rows, divided by their total weight.

        Strata may be new, as in ``nll``.

        Parameters
        ----------
        X, y, offset, place
            As for ``nll``.
        sample_weight : array or column name, optional
            Weights of the rows, which also count in the risk sets, as in a fit.

        Returns
        -------
        float

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> round(model.score(data), 3), round(model.loglik_ / len(data), 3)
        (-1.459, -1.459)
        """
        _refuse_new_place(place)
        sample_weight = Formula.new_column(X, sample_weight)
        aligned(X=X, y=y, sample_weight=sample_weight)
        rows = self.new_rows_
        response, _, shift = rows.outcome_and_parts(X, y, offset)
        strata, weights = rows.own_strata(X), check_weights(sample_weight, len(response))
        if weights is not None:
            keep = weights > 0.0
            response, shift, weights = response[keep], shift[keep], weights[keep]
            strata = None if strata is None else strata.take(keep)
        loglik = row_logliks(rows.spec.outcome_of(response, weights, None, strata), shift)
        return float(np.average(loglik, weights=weights))

    def residuals(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, which: str = "shift"
    ) -> Array:
        """Return the negative martingale residual of each row, Lambda - event, under the baseline of the fit.

        Parameters
        ----------
        X, y, offset
            As for ``nll``, with strata of the fit.
        which : {"shift"}
            Only "shift" is available; other models also have "scale".

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.residuals(data)[:3].round(2)
        array([-0.86, -0.97,  0.41])
        """
        self.new_rows_.strata_of_fit(X, 0)
        return super().residuals(X, y, offset=offset, which=which)

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
        """Return the predicted survival curve of each row, which has steps at the event times of the fit.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates, with strata of the fit.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        n_rows : int, optional
            Number of rows to predict for ``X=None``; by default 1.
        conditional : bool
            Must be False: CoxPH does not have random effects.
        on_bad_rows, unknown
            As for ``ProportionalHazards``.
        place : {"average", "new"}
            Whether rows come from an average place of the fit, or from a new place whose log hazard is shifted by an
            unknown amount: "new" averages over normal shifts with the standard deviation ``place_sd_rowwise_``.

        Returns
        -------
        StepDistribution
            With ``on_bad_rows="mark"`` a ``MarkedDistribution`` of it.

        See Also
        --------
        anchortm.predict.StepDistribution : survival, cumulative hazard, quantiles

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.predict_distribution(data[:2]).sf([100.0, 300.0]).round(2)
        array([[0.94, 0.79],
               [0.83, 0.5 ]])
        """
        if conditional:
            self._effects()  # raises an error: there are no random effects
        rows = self._rows_at(place)
        return rows.answer(rows.predicted, X, n_rows, on_bad_rows, unknown, offset=offset)

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
        """Return confidence bands of predicted survival curves or quantiles for each row of X.

        Bands are symmetric on the scale of log(-log P(Y > t)), and R calls them "log-log". Those of quantiles are the
        times at which the limits of the curve reach the probability; they are infinite where a limit does not.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates, with strata of the fit.
        at : number or vector
            Times for ``of="cdf"`` and ``"sf"``; probabilities for ``of="ppf"``.
        of : {"cdf", "sf", "ppf"}
            P(Y <= t), P(Y > t) or quantiles.
        level : float
            Confidence level.
        simultaneous : bool
            Whether the band of a row covers all points in ``at`` at once, instead of each one separately.
        uncertainty : {"hessian", "sandwich", "bootstrap"} or Bootstrap, optional
            "hessian" is the variance under the model, as in R's ``survfit``; it needs xi = 0 and a fit without
            penalties, and is the default there. "sandwich" uses the influence of each row on the coefficients and on
            the baseline, and is the default otherwise. A bootstrap gives percentiles.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.

        Returns
        -------
        ConfidenceBand

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.confidence_band(data[:1], [100.0, 300.0], of="sf").frame().round(2)
           row      y  estimate  lower  upper
        0    0  100.0      0.94   0.88   0.97
        1    0  300.0      0.79   0.66   0.87
        """
        parts.refuse("bands", *self.new_rows_.spec.asked())
        distribution = self.predict_distribution(X, offset=offset)
        matrix = self.new_rows_.matrix(X, len(distribution))
        return step_band(self, distribution, matrix, at, of, level, simultaneous, uncertainty)

    def _restricted_means(
        self, X: Covariates, distribution: Any, tau: float, groups: Groups, uncertainty: Any, offset: Numbers | None
    ) -> RestrictedMeans:
        return step_means(self, distribution, self.new_rows_.matrix(X, len(distribution)), tau, groups, uncertainty)

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

        The same as ``confidence_band(X, q, of="ppf")``, which has no other limits for curves with steps.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.survival_quantiles(data[:2]).frame()
           row    q  estimate  lower  upper
        0    0  0.5       inf  373.0    inf
        1    1  0.5     294.0  246.0    inf
        """
        return self.confidence_band(X, q, "ppf", level=level, uncertainty=uncertainty, offset=offset)
