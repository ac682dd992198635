"""AnchorGLM: generalised linear models with the anchor penalty, on score or deviance residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils.metaestimators import available_if

from anchortm._typing import Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import finite_numbers, level_between
from anchortm.bases import ConstantBasis
from anchortm.engine.baseline_rules import BaselineRule, Given
from anchortm.engine.mean_problem import MeanProblem, MeanResult, MeanSpecification
from anchortm.exceptions import InputError, InputTypeError
from anchortm.families import Family, get_family
from anchortm.inputs.mean_outcomes import check_rows
from anchortm.inputs.response import Response
from anchortm.models.attributes import Found
from anchortm.models.base import TransformationModel, model
from anchortm.models.docstrings import ATTRIBUTES, SHARED
from anchortm.models.roles import Regressor
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.new_rows import NewRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AnchorGLM"]

Array = NDArray[np.float64]

_OWN = """family : {"poisson", "binomial", "gamma", "negative_binomial", "gaussian"} or Family
        Distribution of y given x. Binomial outcomes are 0 and 1, booleans, or ``Trials(successes, trials)``.
    link : str, optional
        The function g with g(mean) = intercept + x'beta + offset. By default the canonical one, and log for gamma and
        negative binomial. Others: poisson identity, sqrt; binomial probit, cloglog, loglog, log; gamma inverse
        (canonical), identity; negative_binomial identity, sqrt; gaussian log.
    residual : {"score", "deviance"}
        Residuals of the penalty: dl/deta (with a canonical link y - mean), or signed roots of the deviance, less
        their mean, because they are not 0 on average.
    alpha : float or "ml"
        Of the negative binomial, whose variance is mean + alpha mean^2. "ml" estimates it by maximum likelihood,
        together with the coefficients at xi = 0, and holds it along the path.
    dispersion : {"pearson", "ml"} or float, optional
        How the dispersion is estimated after the fit, or its value. By default Pearson's chi-square by its degrees of
        freedom for gamma and gaussian, and 1 for the others, as in R and statsmodels. "ml" is for gamma and gaussian.
        It enters standard errors, and the predicted distributions of gamma and gaussian.
    """
_INTERCEPT = ": the intercept."
_MORE = """intercept_ : float
        The same as a number.
    dispersion_ : float
        Of the rows of the fit: their variance is dispersion_ times the variance function.
    alpha_ : float
        Of the negative binomial; None for others.
    deviance_ : float
        Twice the log-likelihood that is lacking to a perfect fit, at dispersion 1.
    pearson_ : float
        Pearson's chi-square, at dispersion 1.
    quasi_loglik_ : float
        Log-likelihood at dispersion 1, as the loss has it.
    """


@dataclass(frozen=True, eq=False)
class MeanRows(NewRows):
    """New rows under a generalised linear model: linear predictors and means."""

    result: MeanResult

    def response(self, X: Any, y: Any) -> Response:
        """Return the outcome of rows, refused where the family cannot have it."""
        response = super().response(X, y)
        check_rows(response, self.result.link)
        return response

    def eta(self, X: Any, n_rows: int | None, offset: Any) -> Array:
        """Return the linear predictor of each row."""
        theta, shift = self.parts(X, n_rows, offset)
        return np.asarray(theta[0] + shift)

    def inside(self, eta: Array) -> Array:
        """Return eta, refused where it lies outside the range of the link."""
        link = self.result.link
        rows = np.flatnonzero(link.outside(eta))
        if rows.size:
            listed = ", ".join(map(str, rows[:5])) + (f" and {rows.size - 5} more" if rows.size > 5 else "")
            raise InputError(
                f"{link.link}(mean) = {eta[rows[0]]:.4g} at row {rows[0]} is not possible for {link.family} outcomes "
                f"(rows {listed}): they are beyond what the {link.link} link can predict; leave them out, or fit "
                f"with link={next(iter(link.links))!r}"
            )
        return eta

    def means(self, eta: Array) -> Array:
        """Return the means of rows with these linear predictors."""
        with np.errstate(over="ignore"):
            return np.asarray(self.result.link.mean(self.inside(eta)).mu)

    def eta_and_outcome(self, X: Any, y: Any, offset: Any) -> tuple[Array, Array]:
        """Return linear predictor and outcome of rows."""
        response, theta, shift = self.outcome_and_parts(X, y, offset)
        return np.asarray(theta[0] + shift), self.result.link.outcome(response.upper, response.trials)

    def logliks(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        """Return log-likelihood and score residual of each row."""
        link = self.result.link
        eta, outcome = self.eta_and_outcome(X, y, offset)
        with np.errstate(all="ignore"):
            return link.loglik(eta, outcome), -link.terms(eta, outcome).r


def _binomial(estimator: Any) -> bool:
    if estimator.specification().family != "binomial":
        raise AttributeError(f"predict_proba is for family='binomial', not {estimator.family!r}: use predict")
    return True


@model
class AnchorGLM(Regressor, TransformationModel):  # noqa: D101
    __doc__ = f"""Generalised linear models: g(E[y|x]) = intercept + x'beta + offset, with the anchor penalty.

    The loss is the mean negative log-likelihood at dispersion 1 plus xi times the mean square of the residuals'
    projection on the anchors. At xi = 0 the fit is that of R's glm and statsmodels. As xi grows the residuals become
    uncorrelated with the anchors; with as many anchor directions as parameters the limit solves A'(y - mean) = 0, for
    binary outcomes the instrumental variable estimator of Foster.

    Parameters
    ----------{SHARED.format(own=_OWN)}{ATTRIBUTES.format(baseline=_INTERCEPT, own=_MORE)}
    See Also
    --------
    anchortm.CountRegression, anchortm.OrdinalRegression, anchortm.NormalLinear : transformation models
    anchortm.predict.FamilyDistribution : what it predicts

    Notes
    -----
    ``strata``, ``varying``, ``scale`` and ``random`` belong to models with a baseline, and are refused. ``loglik_``
    includes the dispersion, ``loss_`` does not.

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
        """Return everything that the fit found, as one frozen object."""
        result = super().result_
        assert isinstance(result, MeanResult)  # noqa: S101
        return result

    @property
    def new_rows_(self) -> MeanRows:
        """Return what turns new rows into the numbers that the model needs."""
        rows = super().new_rows_
        assert isinstance(rows, MeanRows)  # noqa: S101
        return rows

    @property
    def intercept_(self) -> float:
        """Return the intercept."""
        return float(self.result_.baseline[0])

    @property
    def alpha_(self) -> float | None:
        """Return alpha of the negative binomial."""
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
        """Return the residuals of rows, all positive where y is above its mean.

        Parameters
        ----------
        X, y : covariates and outcome
            After ``from_formula`` X may hold both.
        kind : {"score", "deviance", "pearson", "response"}
            dl/deta at dispersion 1; signed roots of the deviance (not centred); (y - mean) / sqrt(variance function);
            y - mean. Binomial rows count successes.
        offset : array, optional
        which : {"shift"}
            As other models have it; there is no scale.

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
            raise InputError(f"which must be 'shift': AnchorGLM has no residuals of a scale, and so not {which!r}")
        rows, link = self.new_rows_, self.result_.link
        eta, outcome = rows.eta_and_outcome(X, y, offset)
        rows.inside(eta)
        with np.errstate(all="ignore"):
            match kind:
                case "score":
                    return np.asarray(-link.terms(eta, outcome).r)
                case "deviance":
                    terms = link.terms(eta, outcome)
                    return np.asarray(link.deviance_residuals(eta, outcome, terms).r)
                case "pearson":
                    return np.asarray(link.pearson(eta, outcome))
                case "response":
                    return np.asarray(link.response_residuals(eta, outcome))
        raise InputError(f"kind must be 'score', 'deviance', 'pearson' or 'response', not {kind!r}")

    def predict(self, X: Covariates = None, *, offset: Numbers | None = None, n_rows: int | None = None) -> Array:
        """Return the mean of each row, of binomial outcomes the probability of a success.

        Rows whose intercept + x'beta + offset cannot be a mean, such as a negative count, are refused.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.predict(data[:2]).round(2)
        array([4.4, 4.4])
        """
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        rows = self.new_rows_
        return rows.means(rows.eta(X, n_rows, offset))

    @available_if(_binomial)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Covariates = None, *, offset: Numbers | None = None, n_rows: int | None = None) -> Array:
        """Return the probabilities of 0 and 1, of binomial models.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM(family="binomial").fit(data[["cHEIGHT"]], data.TICKS > 0)
        >>> model.predict_proba(data[["cHEIGHT"]][:1]).round(2)
        array([[0.3, 0.7]])
        """
        mean = self.predict(X, offset=offset, n_rows=n_rows)
        return np.column_stack([1.0 - mean, mean])

    def predict_distribution(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        conditional: bool = False,
        trials: Numbers | None = None,
    ) -> Any:
        """Return the predicted distribution of each row.

        ``trials`` are those of binomial rows, one number or one for each row, by default 1.

        See Also
        --------
        anchortm.predict.FamilyDistribution : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.predict_distribution(data[:1]).interval(0.9)
        (array([1.]), array([8.]))
        """
        if conditional:
            self._effects()  # it has none
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        link, rows = self.result_.link, self.new_rows_
        theta, shift = rows.parts(X, n_rows, offset)
        mean = rows.means(np.asarray(theta[0] + shift))
        if trials is None:
            return FamilyDistribution(link, mean, np.ones(mean.size), shift)
        if link.family != "binomial":
            raise InputError("trials are for family='binomial'")
        values = np.broadcast_to(trials, mean.shape) if np.ndim(trials) == 0 else trials
        numbers = finite_numbers(values, mean.size, "trials")
        if not ((numbers >= 1.0) & (numbers == np.floor(numbers))).all():
            raise InputError("trials must be whole numbers of at least 1")
        return FamilyDistribution(link, mean, numbers, shift)

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

        The interval is symmetric for g(mean), cut where the range of means ends, and turned back. Arguments are those
        of ``covariance``.

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

        link, rows = self.result_.link, self.new_rows_
        offset = rows.offset(X, offset)
        matrix = rows.matrix(X, 1 if X is None and offset is None else np.size(offset))
        eta = rows.inside(rows.eta(X, matrix.shape[0], offset))
        columns = np.column_stack([np.ones(matrix.shape[0]), matrix])
        V = self.covariance(kind, clusters, **options)
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", columns, V, columns), 0.0))
        width = stats.norm.ppf(0.5 + 0.5 * level_between(level)) * error
        mean = link.mean(eta)
        with np.errstate(divide="ignore", over="ignore"):
            ends = np.sort([link.mean(link.inside(eta + side * width)).mu for side in (-1.0, 1.0)], axis=0)
        table = {"mean": mean.mu, "std. error": np.abs(mean.d1) * error, "lower": ends[0], "upper": ends[1]}
        index = X.index if isinstance(X, pd.DataFrame) and len(X) == eta.size else None
        return pd.DataFrame(table, index=index)

    def confidence_band(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: the mean is what is modelled, and ``mean_intervals`` has its uncertainty.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> try:
        ...     model.confidence_band(data, [100.0])
        ... except TypeError as error:
        ...     print(str(error)[:41])
        AnchorGLM has no bands of its distributio
        """
        raise InputTypeError(
            "AnchorGLM has no bands of its distributions: take mean_intervals(X), or a transformation model, such as "
            "CountRegression, for bands of probabilities and quantiles"
        )
