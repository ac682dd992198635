"""AnchorTM and the named models: scikit-learn estimators, thin presets over one engine."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.empirical import check_overlap, default_support
from anchortm.exceptions import InputError
from anchortm.links import Link, get_link
from anchortm.model import TransformationModel, model
from anchortm.response import Response, Scale

__all__ = [
    "AnchorTM",
    "ContinuousLogit",
    "ContinuousProbit",
    "CountRegression",
    "Lehmann",
    "NormalLinear",
    "OrdinalRegression",
    "ParametricSurvival",
    "ProportionalHazards",
]

Array = NDArray[np.float64]


class _Regressor(RegressorMixin):  # type: ignore[misc]
    """Numbers are predicted, and the score is the log-likelihood, not R^2."""

    score = TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a log-likelihood has no upper limit of 1
        tags.input_tags.sparse = True
        return tags


class _Classifier(ClassifierMixin):  # type: ignore[misc]
    """Classes are predicted, and the score is the log-likelihood, not the accuracy."""

    score = TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags


@model
class _BernsteinModel(_Regressor, TransformationModel):
    """Models with a Bernstein baseline."""

    _link: ClassVar[str]

    order: int = 6
    support: Any = None
    log_first: bool = False
    extrapolate: Literal["linear", "natural"] = "linear"

    def _make_link(self) -> Link:
        return get_link(self._link)

    def _support(self, response: Response, weights: Array | None) -> tuple[float, float]:
        if self.support is None:
            return default_support(response, weights)
        check_overlap(self.support, response)
        return self.support  # type: ignore[no-any-return]

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return BernsteinBasis(self.order, self._support(response, weights), self.log_first, self.extrapolate)


_SHARED = """
    xi : float
        Strength of the causal regulariser; 0 is maximum likelihood, ``math.inf`` the limit.
    {own}anchor_intercept : bool
        Whether the constant belongs to the span of the anchors.
    anchor_names : list, optional
        Columns of X to use as anchors instead of covariates.
    tol, max_iter : float, int
        Tolerance on the scaled KKT residual, and the limit on iterations of one minimisation.
    n_jobs : int, optional
        Threads over blocks of rows; -1 for all cores.
    verbose : int
        1 prints every iteration.
    n_restarts, random_state : int, seed
        Random starts that look for lower minima; found ones are in ``lower_minima_``. The estimate
        stays on the branch connected to xi = 0.
    start : pair (baseline, coef), optional
        Parameters to start from.
"""
_BERNSTEIN = """order : int
        Order of the Bernstein polynomials.
    support : pair, optional
        Their support; by default the 10 % and 90 % quantiles of y.
    log_first : bool
        Take the basis in log y.
    extrapolate : {"linear", "natural"}
        Outside the support the baseline continues linearly; "natural" also has no curvature there.
    """


@model
class ContinuousProbit(_BernsteinModel):
    __doc__ = f"""The c-probit model (R's BoxCox): F(y|x) = Phi(h(y) - x'beta), h smooth and increasing.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "probit"


@model
class ContinuousLogit(_BernsteinModel):
    __doc__ = f"""The c-logit model (R's Colr, sign flipped): F(y|x) = expit(h(y) - x'beta); odds of larger y.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "logit"
    _effect = "odds ratio"


@model
class ProportionalHazards(_BernsteinModel):
    __doc__ = f"""The Cox model with a smooth baseline (R's Coxph): F(y|x) = 1 - exp(-exp(h(y) + x'beta)).

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "cloglog"
    _sign = 1.0
    _effect = "hazard ratio"


@model
class Lehmann(_BernsteinModel):
    __doc__ = f"""The Lehmann model: F(y|x) = exp(-exp(-(h(y) - x'beta))), reverse-time proportional hazards.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "loglog"
    _effect = "reverse-time hazard ratio"


@model
class NormalLinear(_Regressor, TransformationModel):
    __doc__ = f"""The normal linear model: F(y|x) = Phi(theta_1 + theta_2 y - x'beta), in closed form if y is exact.

    ``xi`` may be as low as -1/2 (partialling the anchors out). On the scale of y, ``intercept_``,
    ``slope_`` and ``sigma_`` are the usual ones: y = intercept + x'slope + sigma * noise.

    Parameters
    ----------{_SHARED.format(own="")}"""

    _lowest_xi = -0.5

    def _make_link(self) -> Link:
        return get_link("probit")

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return LinearBasis()

    @property
    def sigma_(self) -> float:
        """Return the standard deviation of y given x."""
        check_is_fitted(self, "coef_")
        return float(1.0 / self.baseline_[1])

    @property
    def intercept_(self) -> float:
        """Return the intercept on the scale of y."""
        check_is_fitted(self, "coef_")
        return float(-self.baseline_[0] / self.baseline_[1])

    @property
    def slope_(self) -> Array:
        """Return the coefficients on the scale of y."""
        check_is_fitted(self, "coef_")
        return np.asarray(self.coef_ / self.baseline_[1])


_DISTRIBUTIONS: dict[str, tuple[str, float | None]] = {
    "weibull": ("cloglog", None),
    "lognormal": ("probit", None),
    "loglogistic": ("logit", None),
    "exponential": ("cloglog", 1.0),
    "rayleigh": ("cloglog", 2.0),
}


@model
class ParametricSurvival(_Regressor, TransformationModel):
    __doc__ = f"""Accelerated failure times (R's Survreg): F(y|x) = F_Z(theta_1 + theta_2 log y - x'beta).

    Parameters
    ----------{_SHARED.format(own="")}    dist : {{"weibull", "lognormal", "loglogistic", "exponential", "rayleigh"}}
        Distribution of y; the last two fix theta_2 to 1 and 2.
    """

    dist: Literal["weibull", "lognormal", "loglogistic", "exponential", "rayleigh"] = "weibull"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _resolved(self) -> tuple[str, float | None]:
        try:
            return _DISTRIBUTIONS[self.dist]
        except (KeyError, TypeError):
            raise InputError(f"dist must be one of {', '.join(_DISTRIBUTIONS)}, not {self.dist!r}") from None

    def _make_link(self) -> Link:
        return get_link(self._resolved()[0])

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return LogLinearBasis(self._resolved()[1])


@model
class OrdinalRegression(_Classifier, TransformationModel):
    __doc__ = f"""Cumulative models for ordered classes (R's Polr): P(Y <= k | x) = F_Z(theta_k - x'beta).

    Parameters
    ----------{_SHARED.format(own="")}    link : {{"logit", "probit", "cloglog", "loglog"}}
        The reference distribution.
    """

    _scale = "ordinal"

    link: str = "logit"

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return OrdinalBasis(response.levels or ())

    def predict_proba(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Array:
        """Return the probability of each class, one row for each row of X."""
        shift = self._shift(X, n_rows, offset)
        ends = np.concatenate([[-np.inf], self.baseline_, [np.inf]])[None, :] + shift[:, None]
        return np.exp(self.link_.interval(ends[:, :-1], ends[:, 1:]).l)

    def predict(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Any:
        """Return the most probable class."""
        probabilities = self.predict_proba(X, offset=offset, n_rows=n_rows)
        return self.classes_[np.argmax(probabilities, axis=1)]


@model
class CountRegression(_BernsteinModel):
    __doc__ = f"""Count transformation models (R's cotram): P(Y <= k | x) = F_Z(h(k) - x'beta).

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}    link : {{"logit", "probit", "cloglog", "loglog"}}
        The reference distribution.
    """

    _scale = "count"

    log_first: bool = True
    link: str = "logit"

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return CountBasis(self.order, self._support(response, weights), self.log_first, self.extrapolate)


@model
class AnchorTM(_BernsteinModel):
    __doc__ = f"""The general triple: any link and any basis.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}    link : {{"logit", "probit", "cloglog", "loglog"}} or Link
        The reference distribution.
    basis : {{"bernstein", "linear", "log-linear", "ordinal", "count"}} or Basis
        The basis in y; a ``Basis`` is taken as it is.
    """

    link: Any = "logit"
    basis: Any = "bernstein"

    @property
    def _scale(self) -> Scale:
        kind = self.basis.kind if isinstance(self.basis, Basis) else self.basis
        return "ordinal" if kind == "ordinal" else "count" if kind == "count" else "continuous"

    def _fixed_levels(self) -> tuple[Any, ...] | None:
        return self.basis.levels if isinstance(self.basis, OrdinalBasis) else None

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        if isinstance(self.basis, OrdinalBasis):
            return OrdinalBasis(response.levels or ())  # its own, but for classes without rows
        if isinstance(self.basis, Basis):
            return self.basis
        match self.basis:
            case "bernstein":
                return super()._make_basis(response, weights)
            case "linear":
                return LinearBasis()
            case "log-linear":
                return LogLinearBasis()
            case "ordinal":
                return OrdinalBasis(response.levels or ())
            case "count":
                return CountBasis(self.order, self._support(response, weights), self.log_first, self.extrapolate)
        raise InputError(
            f"basis must be 'bernstein', 'linear', 'log-linear', 'ordinal', 'count' or a Basis, not {self.basis!r}"
        )
