"""AnchorTM and the named models: scikit-learn estimators, thin presets over one engine."""

from __future__ import annotations

import math
import os
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from anchortm.anchors import AnchorColumns, anchor_columns
from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.design import Design, check_columns, split_anchors, to_design
from anchortm.empirical import default_support
from anchortm.exceptions import (
    AnchorTMWarning,
    AnchorWarning,
    ConvergenceWarning,
    IdentificationError,
    InputError,
    InputTypeError,
)
from anchortm.identification import check_covariates, check_kinds
from anchortm.likelihood import build_terms, loglik_and_residuals, start_values
from anchortm.links import Link, get_link
from anchortm.objective import BLOCK_ROWS, Objective, build_objective
from anchortm.response import Response, Scale, as_response
from anchortm.solver import Options, Solution, restarts, solve
from anchortm.summary import Summary, summarise

if TYPE_CHECKING:
    import pandas as pd

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

FLAT_CURVATURE = 1e-8  # in standardised parameters


def _model(cls: type[Any]) -> type[Any]:
    """Make a constructor from the annotated arguments, xi first and all others by keyword."""
    return dataclass(repr=False, eq=False, kw_only=True)(cls)


@_model
class _TransformationModel(BaseEstimator):  # type: ignore[misc]
    """What all models share: fitting, residuals, likelihood. Subclasses choose link, basis and sign."""

    _sign: ClassVar[float] = -1.0
    _scale: ClassVar[Any] = "continuous"
    _lowest_xi: ClassVar[float] = 0.0
    _effect: ClassVar[str] = ""

    xi: float = field(default=0.0, kw_only=False)
    anchor_intercept: bool = True
    anchor_names: Any = None
    tol: float = 1e-8
    max_iter: int = 200
    n_jobs: int | None = None
    verbose: int = 0
    n_restarts: int = 0
    random_state: Any = None
    start: Any = None

    def _make_link(self) -> Link:
        raise NotImplementedError

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, *, anchors: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model by minimising the anchor loss.

        Parameters
        ----------
        X : array or frame of shape (n, p), or None
            Covariates. None gives an unconditional model.
        y : array, Response or ordered categorical
            The outcome; see ``Surv`` and ``Interval`` for censored ones.
        anchors : array, series, frame or list of columns, optional
            What marks where rows come from. Integers, booleans, strings and categories are
            factors, floats are numeric columns. Needed for xi other than 0.
        sample_weight : array of non-negative numbers, optional
            Weights replicate rows.
        offset : array, optional
            Joins x'beta with coefficient 1.

        Returns
        -------
        self
        """
        xi = self._check_xi()
        if y is None:
            raise InputError("requires y to be passed, but the target y is None")
        data = self._prepare(X, y, anchors, sample_weight, offset)
        if data.anchors is None and xi != 0.0:
            raise InputError(f"xi = {xi:g} needs anchors: pass fit(..., anchors=...), or use xi=0")
        link, basis = self._make_link(), self._make_basis(data.response, data.weights)
        objective = self._objective(link, basis, data)
        with self._threads(objective):
            solution, others = self._solve(objective, basis, data, xi)
        self._store(link, basis, data, objective, solution, others)
        self._tell()
        return self

    def _check_xi(self) -> float:
        if isinstance(self.xi, bool) or not isinstance(self.xi, (int, float, np.integer, np.floating)):
            raise InputTypeError(f"xi must be a number, not {self.xi!r}")
        if math.isnan(self.xi) or self.xi < self._lowest_xi:
            raise InputError(
                f"xi must be at least {self._lowest_xi:g}, not {self.xi}"
                + ("" if self._lowest_xi else "; only NormalLinear takes values from -1/2")
            )
        return float(self.xi)

    def _prepare(self, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any) -> _Data:
        """Check the inputs once; drop rows of weight zero."""
        if self.anchor_names is not None:
            if anchors is not None:
                raise InputError("give anchors to fit, or anchor_names to the constructor, not both")
            X, anchors = split_anchors(X, list(np.atleast_1d(self.anchor_names)))
        response = as_response(_one_column(y), self._scale)
        design = to_design(X, len(response))
        columns = None if anchors is None else anchor_columns(anchors)
        n = len(response)
        for name, size in (("X", design.matrix.shape[0]), ("anchors", n if columns is None else len(columns))):
            if size != n:
                raise InputError(f"{name} has {size} rows, but y has {n}")
        weights, shift = _weights(sample_weight, n), _offset(offset, n)
        if weights is not None and (weights == 0.0).any():
            keep = weights > 0.0
            response, design = response[keep], design._replace(matrix=design.matrix[keep])
            weights, shift = weights[keep], None if shift is None else shift[keep]
            if columns is not None:
                columns = anchor_columns([c[keep] for c in _raw_columns(columns)])
        if len(response) == 1:
            raise IdentificationError("n_samples = 1: a distribution cannot be estimated from one row")
        response, dropped = _drop_empty_classes(response)
        check_kinds(response)
        check_covariates(design.matrix, design.names)
        return _Data(response, design, columns, weights, shift, dropped)

    def _objective(self, link: Link, basis: Basis, data: _Data) -> Objective:
        return build_objective(
            link,
            basis,
            data.response,
            data.design.matrix,
            data.anchors,
            data.weights,
            data.offset,
            self._sign,
            self.anchor_intercept,
            n_jobs=_n_jobs(self.n_jobs),
            names=data.design.names,
        )

    @staticmethod
    def _threads(objective: Objective) -> Any:
        """Keep BLAS to one thread where our blocks are small matrices; not worth its cost for small data."""
        return threadpool_limits(1, user_api="blas") if objective.n_rows > BLOCK_ROWS else nullcontext()

    def _start(self, objective: Objective, basis: Basis, data: _Data) -> Array:
        p = data.design.matrix.shape[1]
        if self.start is None:
            theta = start_values(objective.link, basis, data.response, data.weights)
            return objective.coordinates.join(theta, np.zeros(p))
        theta, beta = (np.asarray(part, dtype=np.float64) for part in self.start)
        if theta.size != basis.n_parameters or beta.size != p:
            raise InputError(
                f"start must be (baseline, coef) of lengths {basis.n_parameters} and {p}, "
                f"not {theta.size} and {beta.size}"
            )
        return objective.coordinates.join(theta, beta)

    def _solve(self, objective: Objective, basis: Basis, data: _Data, xi: float) -> tuple[Solution, list[Solution]]:
        options = Options(tol=self.tol, max_iter=self.max_iter, verbose=self.verbose)
        solution = solve(objective, self._start(objective, basis, data), xi, options)
        if self.n_restarts and math.isfinite(xi):
            rng = np.random.default_rng(self.random_state)
            return solution, restarts(objective, solution, self.n_restarts, options, rng)
        return solution, [solution]

    def _store(
        self,
        link: Link,
        basis: Basis,
        data: _Data,
        objective: Objective,
        solution: Solution,
        others: list[Solution],
    ) -> None:
        theta, beta = objective.coordinates.split(solution.v)
        self.link_, self.basis_ = link, basis
        self.baseline_, self.coef_ = theta, beta
        self.coef_names_ = list(data.design.names)
        self.n_features_in_ = data.design.matrix.shape[1]
        if self.anchor_names is not None:
            self.n_features_in_ += len(np.atleast_1d(self.anchor_names))
        if data.design.named:
            self.feature_names_in_ = np.array(data.design.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if hasattr(basis, "support"):
            self.support_ = basis.support
        if isinstance(basis, OrdinalBasis):
            self.classes_ = np.array(basis.levels)
        n = objective.n_total
        self.n_rows_, self.n_total_ = objective.n_rows, n
        self.row_kinds_ = data.response.counts()
        self.n_anchors_ = 0 if objective.anchors is None else objective.anchors.rank
        self.dropped_anchors_ = () if objective.anchors is None else objective.anchors.dropped
        self.dropped_classes_ = data.dropped
        self.loglik_, self.loss_ = solution.sums.loglik, solution.loss
        self.penalty_ = solution.penalty_sum / n
        self.n_iter_, self.converged_ = max(1, solution.n_iter), solution.converged
        self.kkt_, self.min_eigenvalue_ = solution.kkt, solution.min_eigenvalue
        self.active_, self.folds_ = solution.active, solution.folds
        self.convexity_ = objective.convexity(solution.sums, solution.xi)
        self.lower_minima_ = [s.loss for s in others if s.loss < solution.loss - 1e-7 * (1.0 + abs(solution.loss))]
        self._history = solution.history
        self._reason = solution.reason

    def _tell(self) -> None:
        """Warn of what the data and the solution show, and keep it in ``warnings_``."""
        self.warnings_: list[str] = []

        def say(text: str, category: type[Warning] | None = AnchorTMWarning) -> None:
            self.warnings_.append(text)
            if category is not None:
                warnings.warn(text, category, stacklevel=4)

        if self.dropped_anchors_:
            say(f"anchor columns dropped as constant or collinear: {', '.join(self.dropped_anchors_)}", AnchorWarning)
        if self.n_anchors_ == 1 and self.anchor_intercept:
            say("the anchors have a single environment: they cannot regularise", AnchorWarning)
        if self.dropped_classes_:
            say(f"classes without rows dropped: {', '.join(map(str, self.dropped_classes_))}")
        if not self.converged_:
            say(
                f"the fit did not converge ({self._reason}): scaled KKT residual {self.kkt_:.1e} "
                f"after {self.n_iter_} iterations; raise max_iter, or look at history_",
                ConvergenceWarning,
            )
        elif self.folds_:
            say(
                f"the branch connected to xi = 0 ends near xi = {', '.join(f'{xi:.3g}' for xi in self.folds_)}; "
                "the estimate is on the one that it drops into: use a smaller xi, or look at others with n_restarts"
            )
        elif self.min_eigenvalue_ < FLAT_CURVATURE:
            say(
                f"flat direction: the smallest curvature is {self.min_eigenvalue_:.1e}, "
                "so some parameters are hardly determined; lower the order or leave covariates out"
            )
        for flat, side in zip(self.basis_.flat_ends(self.baseline_), ("lower", "upper"), strict=True):
            if flat:
                say(f"h is flat beyond the {side} end of the support: the mass there cannot be placed", None)

    @property
    def history_(self) -> pd.DataFrame:
        """Return one row for each iteration: xi, loss, KKT residual, active bounds, model and step."""
        import pandas as pd

        check_is_fitted(self)
        return pd.DataFrame(self._history)

    @property
    def n_parameters_(self) -> int:
        """Return the number of parameters, baseline and coefficients."""
        check_is_fitted(self)
        return int(self.baseline_.size - self.basis_.increments.equalities.shape[0] + self.coef_.size)

    @property
    def aic_(self) -> float:
        """Return Akaike's criterion, -2 loglik + 2 parameters."""
        return -2.0 * self.loglik_ + 2.0 * self.n_parameters_

    @property
    def bic_(self) -> float:
        """Return Schwarz's criterion, -2 loglik + log(n) parameters."""
        return -2.0 * self.loglik_ + math.log(self.n_total_) * self.n_parameters_

    def _shift(self, X: Any, n_rows: int | None, offset: Any) -> Array:
        check_is_fitted(self, "coef_")
        if self.anchor_names is not None and X is not None:
            X, _ = split_anchors(X, list(np.atleast_1d(self.anchor_names)))
        design = to_design(X, n_rows)
        check_columns(design, self.coef_names_, hasattr(self, "feature_names_in_"), type(self).__name__)
        shift = design.matrix @ self.coef_
        extra = _offset(offset, shift.size)
        return self._sign * (shift if extra is None else shift + extra)

    def _rows(self, X: Any, y: Any, offset: Any) -> tuple[Array, Array]:
        check_is_fitted(self, "coef_")
        levels = self.basis_.levels if isinstance(self.basis_, OrdinalBasis) else None
        response = as_response(y, self._scale, levels)
        shift = self._shift(X, len(response), offset)
        if shift.size != len(response):
            raise InputError(f"X has {shift.size} rows, but y has {len(response)}")
        return loglik_and_residuals(self.link_, build_terms(self.basis_, response), self.baseline_, shift)

    def nll(self, X: Any, y: Any, *, offset: Any = None) -> Array:
        """Return the negative log-likelihood of each row."""
        return -self._rows(X, y, offset)[0]

    def residuals(self, X: Any, y: Any, *, offset: Any = None) -> Array:
        """Return the score residual of each row: the derivative of its log-likelihood in alpha at F(h - alpha)."""
        return self._rows(X, y, offset)[1]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the mean log-likelihood of the rows."""
        loglik = self._rows(X, y, offset)[0]
        weights = _weights(sample_weight, loglik.size)
        return float(np.average(loglik, weights=weights))

    def predict(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Any:
        """Return the conditional median (infinite where a flat end never reaches it).

        An unconditional model takes ``X=None`` and ``n_rows``.
        """
        shift = self._shift(X, n_rows, offset)
        return self.basis_.inverse(self.baseline_, self.link_.quantile(0.5) - shift)

    def summary(self) -> Summary:
        """Return a table of the fit that prints."""
        check_is_fitted(self, "coef_")
        return summarise(self)


class _Data:
    """Checked inputs of one fit."""

    __slots__ = ("anchors", "design", "dropped", "offset", "response", "weights")

    def __init__(
        self,
        response: Response,
        design: Design,
        anchors: AnchorColumns | None,
        weights: Array | None,
        offset: Array | None,
        dropped: tuple[Any, ...],
    ) -> None:
        self.response, self.design, self.anchors = response, design, anchors
        self.weights, self.offset, self.dropped = weights, offset, dropped


def _raw_columns(columns: AnchorColumns) -> list[Array]:
    return [*columns.factors, *columns.columns.T]


def _one_column(y: Any) -> Any:
    """Return a single column as a vector, with scikit-learn's warning."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=4)
        return y.ravel()
    return y


def _n_jobs(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def _numbers(values: Any, n: int, name: str) -> Array:
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"{name} must be numbers, not {array.dtype}") from None
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise InputError(f"{name} has shape {array.shape}, expected ({n},): sample_weight and offset must be 1D array")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"{name} is {array[row]} at row {row}; it must be finite")
    return np.asarray(array)


def _weights(sample_weight: Any, n: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = _numbers(sample_weight, n, "sample_weight")
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise InputError(f"sample_weight is negative: {weights[row]} at row {row}; weights replicate rows")
    if not weights.any():
        raise InputError("all sample weights are zero: at least one row must count")
    return None if (weights == 1.0).all() else weights


def _offset(offset: Any, n: int) -> Array | None:
    return None if offset is None else _numbers(offset, n, "offset")


def _drop_empty_classes(response: Response) -> tuple[Response, tuple[Any, ...]]:
    """Return an ordinal response without the classes that have no rows, and these classes."""
    if response.levels is None:
        return response, ()
    seen = np.bincount(response.codes, minlength=len(response.levels)) > 0
    if seen.all():
        return response, ()
    kept = [level for level, here in zip(response.levels, seen, strict=True) if here]
    gone = tuple(level for level, here in zip(response.levels, seen, strict=True) if not here)
    return as_response(response, "ordinal", kept), gone


class _Regressor(RegressorMixin):  # type: ignore[misc]
    """Numbers are predicted, and the score is the log-likelihood, not R^2."""

    score = _TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a log-likelihood has no upper limit of 1
        return tags


class _Classifier(ClassifierMixin):  # type: ignore[misc]
    """Classes are predicted, and the score is the log-likelihood, not the accuracy."""

    score = _TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


@_model
class _BernsteinModel(_Regressor, _TransformationModel):
    """Models with a Bernstein baseline."""

    _link: ClassVar[str]

    order: int = 6
    support: Any = None
    log_first: bool = False
    extrapolate: Literal["linear", "natural"] = "linear"

    def _make_link(self) -> Link:
        return get_link(self._link)

    def _support(self, response: Response, weights: Array | None) -> tuple[float, float]:
        return default_support(response, weights) if self.support is None else self.support

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


@_model
class ContinuousProbit(_BernsteinModel):
    __doc__ = f"""The c-probit model (R's BoxCox): F(y|x) = Phi(h(y) - x'beta), h smooth and increasing.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "probit"


@_model
class ContinuousLogit(_BernsteinModel):
    __doc__ = f"""The c-logit model (R's Colr, sign flipped): F(y|x) = expit(h(y) - x'beta); odds of larger y.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "logit"
    _effect = "odds ratio"


@_model
class ProportionalHazards(_BernsteinModel):
    __doc__ = f"""The Cox model with a smooth baseline (R's Coxph): F(y|x) = 1 - exp(-exp(h(y) + x'beta)).

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "cloglog"
    _sign = 1.0
    _effect = "hazard ratio"


@_model
class Lehmann(_BernsteinModel):
    __doc__ = f"""The Lehmann model: F(y|x) = exp(-exp(-(h(y) - x'beta))), reverse-time proportional hazards.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}"""

    _link = "loglog"
    _effect = "reverse-time hazard ratio"


@_model
class NormalLinear(_Regressor, _TransformationModel):
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


@_model
class ParametricSurvival(_Regressor, _TransformationModel):
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


@_model
class OrdinalRegression(_Classifier, _TransformationModel):
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


@_model
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


@_model
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

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
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
