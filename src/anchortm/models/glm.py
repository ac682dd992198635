"""AnchorGLM: generalised linear models with the anchor penalty, on score or deviance residuals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils.metaestimators import available_if

from anchortm._typing import Covariates, Labels, Numbers, Outcome, Place
from anchortm._util.checks import level_between
from anchortm.bases import ConstantBasis
from anchortm.engine.baseline_rules import BaselineRule, Given
from anchortm.engine.mean_problem import MeanProblem
from anchortm.engine.mean_result import MeanResult, MeanSpecification
from anchortm.exceptions import InputError
from anchortm.families import Family, get_family
from anchortm.inference.bands import ConfidenceBand, Of, family_band
from anchortm.inference.bootstrap import Bootstrap, refuse_recalibrated, resolve
from anchortm.inputs import parts
from anchortm.inputs.judgement import OnBadRows, Unknown
from anchortm.models.attributes import Found
from anchortm.models.base import TransformationModel, model
from anchortm.models.docstrings import ATTRIBUTES, SHARED
from anchortm.models.roles import Regressor
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.mean_rows import MeanRows
from anchortm.predict.names import named

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AnchorGLM"]

Array = NDArray[np.float64]

_OWN = """family : {"poisson", "binomial", "gamma", "negative_binomial", "gaussian"} or Family
        Distribution of y given x. Binomial outcomes are 0 and 1, booleans, or ``Trials(successes, trials)``.
    link : str, optional
        The function g in g(mean) = intercept + x'beta + offset. By default the canonical link, and log for gamma and
        negative binomial. Other choices: poisson identity, sqrt; binomial probit, cloglog, loglog, log; gamma inverse
        (canonical), identity; negative_binomial identity, sqrt; gaussian log.
    residual : {"score", "deviance"}
        Residuals in the penalty: "score" is dl/deta (y - mean under a canonical link); "deviance" is the signed
        square root of the deviance, centred because its mean is not 0.
    alpha : float or "ml"
        Parameter of the negative binomial, whose variance is mean + alpha mean^2. "ml" estimates it by maximum
        likelihood at xi = 0, together with the coefficients, and keeps it for other xi.
    dispersion : {"pearson", "ml"} or float, optional
        How to estimate the dispersion after the fit, or its value. By default "pearson", Pearson's chi-square divided
        by its degrees of freedom, for gamma and gaussian, and 1 for the others, as in R and statsmodels. "ml" is for
        gamma and gaussian. The dispersion enters standard errors, and predicted gamma and gaussian distributions.
    """
_INTERCEPT = ": the intercept."
_MORE = """intercept_ : float
        The intercept, as a number.
    dispersion_ : float
        The dispersion: the variance of y is ``dispersion_`` times the variance function.
    alpha_ : float
        Parameter of the negative binomial; None for other families.
    deviance_ : float
        Twice the difference between the log-likelihoods of the saturated model and of this one, at dispersion 1.
    pearson_ : float
        Pearson's chi-square statistic, at dispersion 1.
    quasi_loglik_ : float
        Log-likelihood at dispersion 1, which enters the loss.
    """


def _binomial(estimator: Any) -> bool:
    if estimator.specification().family != "binomial":
        raise AttributeError(f"predict_proba is for family='binomial', not {estimator.family!r}: use predict")
    return True


@model
class AnchorGLM(Regressor, TransformationModel):  # noqa: D101
    __doc__ = f"""Generalised linear models: g(E[y|x]) = intercept + x'beta + offset, with the anchor penalty.

    The loss is the mean negative log-likelihood at dispersion 1 plus xi times the mean squared projection of the
    residuals on the anchors. At xi = 0 the fit equals that of R's glm and statsmodels. As xi grows, the residuals
    become uncorrelated with the anchors. With as many independent anchors as parameters the limit solves
    A'(y - mean) = 0; for binary outcomes this is Foster's instrumental-variable estimator.

    Parameters
    ----------{SHARED.format(own=_OWN)}{ATTRIBUTES.format(baseline=_INTERCEPT, own=_MORE)}
    See Also
    --------
    anchortm.CountRegression, anchortm.OrdinalRegression, anchortm.NormalLinear : transformation models
    anchortm.predict.FamilyDistribution : the predicted distributions

    Notes
    -----
    ``strata``, ``varying`` and ``scale`` need a model with a baseline in y; AnchorGLM raises an error for them.
    ``random`` is for counts and binomial outcomes: Poisson, binomial, and negative binomial with a given alpha.
    ``loglik_`` includes the dispersion, ``loss_`` does not.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT + C(YEAR) | LOCATION", data, xi=0.1, family="poisson")
    >>> model.summary().frame()[["coef", "rate ratio"]].round(2)
                   coef  rate ratio
    covariate
    cHEIGHT       -0.02        0.98
    C(YEAR)[T.96] -0.14        0.87
    C(YEAR)[T.97] -1.83        0.16
    """

    _sign = 1.0
    _problem_type = MeanProblem
    _specification_type = MeanSpecification
    _rows_type = MeanRows

    family: str | Family = "gaussian"
    link: str | None = None
    residual: Literal["score", "deviance"] = "score"
    alpha: float | Literal["ml"] = 1.0
    dispersion: float | Literal["pearson", "ml"] | None = None

    deviance_ = Found[float]()
    pearson_ = Found[float]()
    quasi_loglik_ = Found[float]()
    dispersion_ = Found[float]()

    @property
    def _outcome(self) -> Any:
        return "count" if self._make_link().discrete else "continuous"

    @property
    def _effect(self) -> str:  # type: ignore[override]
        return self._make_link().effect_name

    def _make_link(self) -> Family:
        return replace(get_family(self.family, self.link, self.alpha, self.residual), estimate=self.dispersion)

    def _rule(self) -> BaselineRule:
        return Given(ConstantBasis(self._make_link().discrete))

    def _own(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("residual", "alpha", "dispersion")}
        return own | {"family": self._make_link().family}

    @property
    def result_(self) -> MeanResult:
        """Return all results of the fit as one frozen object."""
        result = super().result_
        assert isinstance(result, MeanResult)  # noqa: S101
        return result

    @property
    def new_rows_(self) -> MeanRows:
        """Return the object that turns new rows into linear predictors and outcomes of this model."""
        rows = super().new_rows_
        assert isinstance(rows, MeanRows)  # noqa: S101
        return rows

    @property
    def intercept_(self) -> float:
        """Return the intercept."""
        return float(self.result_.baseline[0])

    @property
    def alpha_(self) -> float | None:
        """Return alpha of the negative binomial; None for other families."""
        return self.result_.alpha

    def residuals(
        self,
        X: Covariates,
        y: Outcome | None = None,
        *,
        kind: Literal["score", "deviance", "pearson", "response"] = "score",
        offset: Numbers | None = None,
        which: str = "shift",
    ) -> Array:
        """Return the residual of each row; positive where y is above its mean.

        Parameters
        ----------
        X, y : covariates and outcome
            After ``from_formula``, X may be a table that holds both.
        kind : {"score", "deviance", "pearson", "response"}
            "score": dl/deta at dispersion 1. "deviance": the signed square root of the deviance, not centred.
            "pearson": (y - mean) / sqrt(variance function). "response": y - mean. For binomial rows y is the number
            of successes. With random effects the score residual is that of the integral over them, mean and variance
            are averaged over new clusters, and there are no deviance residuals.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        which : {"shift"}
            Only "shift" is available; other models also have "scale".

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.residuals(data[:3]).round(2)
        array([-4.4 , -4.4 , -3.74])
        >>> model.residuals(data[:3], kind="deviance").round(2)
        array([-2.97, -2.97, -2.74])
        """
        if which != "shift":
            raise InputError(f"which must be 'shift', not {which!r}: AnchorGLM does not have scale residuals")
        if self.result_.random is not None:
            return self._marginal_residuals(X, y, kind, offset)
        return self.new_rows_.residuals(X, y, kind, offset)

    def _marginal_residuals(self, X: Covariates, y: Outcome | None, kind: str, offset: Numbers | None) -> Array:
        """Return residuals of a model with random effects."""
        rows = self.new_rows_
        if kind == "score":
            return rows.logliks(X, y, offset)[1]
        if kind not in ("pearson", "response"):
            raise InputError(
                f"with random effects kind must be 'score', 'pearson' or 'response', not {kind!r}: an average over "
                "effects is not a member of the family and has no saturated model"
            )
        response = rows.response(X, y)
        law = self.predict_distribution(X, offset=offset, n_rows=len(response), trials=response.trials)
        away = response.upper - law.mean()
        return np.asarray(away if kind == "response" else away / np.sqrt(law.variance()))

    def predict(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Array:
        """Return the mean of each row; for binomial outcomes, the probability of a success.

        With random effects it is the average over their distribution, the mean of a row from a new cluster.

        An error is raised for rows whose linear predictor lies outside the range of the link, such as a negative mean
        of counts under the identity link.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
            Covariates. After ``from_formula``, a table with the columns of the formula.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        n_rows : int, optional
            Number of rows to predict for ``X=None``; by default 1.
        on_bad_rows, unknown, place
            As for ``predict_distribution``; marked rows have the mean NaN.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.predict(data[:2]).round(2)
        array([4.4, 4.4])
        """
        rows = self._rows_at(place)
        return np.asarray(rows.answer(rows.averages, X, n_rows, on_bad_rows, unknown, offset=offset))

    @available_if(_binomial)  # type: ignore[untyped-decorator]
    def predict_proba(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Array:
        """Return the probabilities of 0 and 1 for binomial models; arguments as for ``predict``.

        Returns
        -------
        array of shape (n, 2)

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM(family="binomial").fit(data[["cHEIGHT"]], data.TICKS > 0)
        >>> model.predict_proba(data[["cHEIGHT"]][:1]).round(2)
        array([[0.3, 0.7]])
        """
        policy: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unknown": unknown, "place": place}
        mean = self.predict(X, offset=offset, n_rows=n_rows, **policy)
        return np.column_stack([1.0 - mean, mean])

    @named
    def predict_distribution(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        conditional: bool = False,
        trials: Numbers | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Any:
        """Return the predicted distribution of each row.

        Parameters
        ----------
        X, offset, n_rows
            As for ``predict``.
        conditional : bool
            For models with random effects. By default rows belong to new clusters: their distributions are averaged
            over the normal distribution of the effects. If True, rows from clusters of the fit are averaged over the
            posterior distribution of their cluster's effects instead.
        trials : int or array, optional
            For binomial models: the number of trials of all rows, or of each row. By default 1.
        on_bad_rows, unknown
            As for transformation models. Rows whose linear predictor lies outside the range of the link are bad, too.
        place : {"average", "new"}
            As for transformation models: "new" averages over normal shifts of the linear predictor.

        Returns
        -------
        FamilyDistribution
            An ``AveragedFamily`` if there are random effects. With ``on_bad_rows="mark"`` a ``MarkedDistribution`` of
            one of these.

        See Also
        --------
        anchortm.predict.FamilyDistribution : cdf, quantiles, intervals and more
        anchortm.predict.AveragedFamily : the same, with random effects

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.predict_distribution(data[:1]).interval(0.9)
        (array([1.]), array([8.]))
        """
        rows = self._rows_at(place)
        work, numbers = partial(rows.predicted, conditional=conditional), {"offset": offset, "trials": trials}
        return rows.answer(work, X, n_rows, on_bad_rows, unknown, conditional, **numbers)

    def mean_intervals(
        self,
        X: Covariates = None,
        *,
        level: float = 0.95,
        kind: str | None = None,
        clusters: Labels | None = None,
        offset: Numbers | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Return the mean of each row with its standard error and confidence interval.

        The interval is symmetric on the scale of the link, truncated to its range, and then transformed to the mean.
        With random effects the mean is that of a row from a new cluster, and the uncertainty of their variance counts.

        Parameters
        ----------
        X, offset
            As for ``predict``.
        level : float
            Confidence level.
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        DataFrame
            One row for each row of X: mean, std. error, lower and upper.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.mean_intervals(data[:1]).round(2)
           mean  std. error  lower  upper
        0   4.4        0.12   4.17   4.64
        """
        import pandas as pd

        refuse_recalibrated(self.result_)
        link, (eta, columns) = self.result_.link, self.new_rows_.predictors(X, offset)
        V = self.covariance(kind, clusters, **options)
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", columns, V, columns), 0.0))
        width = stats.norm.ppf(0.5 + 0.5 * level_between(level)) * error
        mean = link.mean(eta)
        with np.errstate(divide="ignore", over="ignore"):
            ends = np.sort([link.mean(link.inside(eta + side * width)).mu for side in (-1.0, 1.0)], axis=0)
        table = {"mean": mean.mu, "std. error": np.abs(mean.d1) * error, "lower": ends[0], "upper": ends[1]}
        index = X.index if isinstance(X, pd.DataFrame) and len(X) == eta.size else None
        return pd.DataFrame(table, index=index)

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
        """Return confidence bands of predicted probabilities or quantiles; arguments as for transformation models.

        The dispersion is taken as known. Each band holds for all points at once.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.confidence_band(data[:1], [3, 6]).frame().round(2)
           row    y  estimate  lower  upper
        0    0  3.0      0.36   0.32   0.40
        1    0  6.0      0.84   0.81   0.87
        """
        parts.refuse("bands", *self.new_rows_.spec.asked())
        if self.result_.random is not None:
            offset = self.new_rows_.offset(X, offset)
            return self._band_of_averages(X, at, of, level, simultaneous, uncertainty, offset)
        eta, columns = self.new_rows_.predictors(X, offset)

        def at_eta(there: Array) -> FamilyDistribution:
            mean = self.new_rows_.means(self.new_rows_.inside(there))
            return FamilyDistribution(self.result_.link, mean, np.ones(mean.size), there)

        known = resolve(self, uncertainty)
        return family_band(at_eta, eta, columns, at, of, level, simultaneous, known)
