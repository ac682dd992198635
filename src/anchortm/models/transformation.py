"""AnchorTM and the named models: scikit-learn estimators, thin presets over one engine."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.engine.rows.likelihood import no_logarithm
from anchortm.exceptions import InputError, UnavailableError
from anchortm.inputs.empirical import check_overlap, default_support
from anchortm.inputs.response import Response, Scale
from anchortm.links import Link, get_link
from anchortm.models.base import TransformationModel, model

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
        support = self._support(response, weights)
        if self.log_first is True and self.support is None and support[0] <= 0.0:
            raise no_logarithm(support[0], "or less in many rows")
        return BernsteinBasis(self.order, support, self.log_first, self.extrapolate)


_SHARED = """
    xi : float
        Strength of the causal regulariser; 0 is maximum likelihood, ``math.inf`` the limit.
    {own}anchor_intercept : bool
        Whether the constant belongs to the span of the anchors.
    anchor_names : list, optional
        Columns of X to use as anchors instead of covariates.
    strata : name or list, optional
        Columns of X (names, or positions of an array's) whose levels have baselines of their own. In formulas they
        stand before ``~``: ``outcome | stratum ~ covariates``.
    varying : name, list or dict, optional
        Covariates whose effects change along the response, so that odds or hazards are not proportional: names, or
        positions among the covariates; the dummies of a factor as a list within the list; or a dict from names to
        ranges (low, high), by default those of X, within which h is sure to increase. With ``from_formula`` terms:
        ``varying="age + C(stage)"``.
    random : name or dict, optional
        Column of X (a name, or the position of an array's) whose levels are clusters with random intercepts, or
        ``{{"patient": ["1", "x"]}}`` for an intercept and a slope of the covariate x that differ between patients, both
        normal. In formulas ``(1 | patient)`` and ``(1 + x | patient)`` among the covariates.
    n_nodes : int, optional
        Nodes for the integral over each random effect; by default as many as ``tol`` asks for.
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
        Parameters to start from (scale effects last among the coefficients, but these start at 0).
    scale : name or position, list of them or, in ``from_formula``, terms such as "age + C(stage)", optional
        Covariates z that change the spread of y too: h(y|x) = exp(z'g / 2) h(y) -+ x'beta. Each unit of z multiplies
        the spread by exp(-g / 2). Their zero matters: centre covariates that are never near 0.
    xi_scale : float, optional
        Strength of the penalty on the residuals of the scale, by default xi.
    l1, l2 : float
        Elastic net: l1 times the sum of the absolute coefficients and l2 / 2 times that of their squares are added to
        the loss, which is a mean over rows. The baseline has no penalty.
    penalty_factor : array, dict or "deviation", optional
        Factor of the penalty on each coefficient, by position or by name (1 for those not named); 0 is no penalty.
        "deviation" penalises the coefficients of columns with standard deviation 1.
    smooth : float
        Strength of the roughness penalty on smooth terms, ``s(x)`` in formulas: smooth / 2 times the mean squared
        second derivative of each curve, its range taken as 2 pi wide, is added to the loss. 0 is no penalty; the
        larger, the closer to lines. Without smooth terms it has no effect. ``SmoothSearchCV`` chooses it.
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
_ATTRIBUTES = """
    Attributes
    ----------
    coef_ : array of shape (p,)
        Coefficients beta, on the scale of h.
    coef_names_ : list of str
        Their names.
    baseline_ : array
        Parameters theta of the baseline h(y) = a(y)'theta{baseline} With strata one after the other, then those of
        effects that vary.
    baselines_ : DataFrame
        The same, one row for each stratum and each effect that varies.
    parameter_names_ : list of str
        Names of the parameters in ``baseline_``.
    {own}link_, basis_ : Link, Basis
        The reference distribution, and the basis with all that was resolved from the data.
    xi_ : float
        The xi of the fit.
    random_cov_, random_sd_ : DataFrame, Series
        Covariance and standard deviations of the random effects, on the scale of h.
    random_effects_ : DataFrame
        Means and standard deviations of the effects of each cluster after the data, and its number of rows.
    n_clusters_ : int
        Number of clusters with random effects.
    loglik_ : float
        Log-likelihood, summed over rows, without the penalty.
    loss_ : float
        The anchor loss, a mean over rows, with the elastic net; at xi = inf the mean negative log-likelihood.
    l1_, l2_ : float
        The elastic net of the fit.
    smooth_ : float
        The strength of smoothing; 0 without smooth terms.
    edf_ : dict
        Effective degrees of freedom of each smooth term, from 1 (a line) to its number of columns; empty without.
    penalty_ : float
        Mean squared projection of the score residuals on the anchors, not multiplied by xi.
    converged_, n_iter_ : bool, int
        Whether the tolerance was reached, and after how many iterations.
    kkt_ : float
        Scaled residual of the optimality conditions, in standardised parameters.
    min_eigenvalue_ : float
        Smallest curvature of the loss in free directions, in standardised parameters; positive at a strict minimum.
    convexity_ : {{"global", "local", "none"}}
        What is known of the minimum: the loss is convex everywhere, around it, or neither is known.
    folds_ : tuple of float
        Where the branch connected to xi = 0 ended on the way to xi; mostly empty.
    lower_minima_ : list of float
        Losses of lower minima that ``n_restarts`` found.
    active_ : array of bool
        Which increments of the baseline, and which coefficients under l1, are held at zero; coefficients last.
    warnings_ : list of str
        What the fit warned of.
    n_rows_, n_total_ : int, float
        Number of rows, and sum of their weights.
    row_kinds_ : dict
        Number of exact, left-, right- and interval-censored rows; classes and counts are intervals.
    n_anchors_ : int
        Number of directions of the anchors, with the constant if ``anchor_intercept``; 0 without anchors.
    dropped_anchors_, dropped_classes_ : tuple
        Anchor columns that are constant or collinear, and classes without rows.
    float_codes_ : tuple of str
        Numeric anchors that look like codes of places.
    atom_ : float
        Probability at time 0 that the baseline leaves for average covariates (0 for outcomes that are no times).
    covariate_names_ : list of str
        All covariates, including those whose effects vary; ``coef_names_`` has those with one coefficient.
    covariate_ranges_ : array of shape (2, p)
        Smallest and largest value of each covariate.
    outcome_range_ : pair of float
        Smallest and largest outcome or limit of censoring (of classes, positions).
    time_ : bool
        Whether the outcome was given by ``Surv``.
    n_features_in_, feature_names_in_ : int, array of str
        Columns of X; names only where it had names.
    formula_ : Formula
        After ``from_formula``.
    n_passes_ : int
        After ``from_formula`` with a table that is read in batches: how often it was read.
    scale_coef_, scale_names_ : array, list of str
        With ``scale``: coefficients g of the log scale of h, twice; positive ones make the spread of y smaller.
    xi_scale_, penalty_scale_ : float
        With ``scale``: the strength of the scale's penalty, and the penalty, as ``xi_`` and ``penalty_``.
"""
_IN_Y = {
    "bernstein": (
        ": order + 1 values.",
        """support_ : pair of float
        Support of the Bernstein polynomials.
    """,
    ),
    "line": (": intercept and slope.", ""),
    "steps": (": K - 1 thresholds.", "classes_ : array\n        The K classes, in order.\n    "),
    "any": (
        ".",
        """support_ : pair of float
        Support of the Bernstein polynomials, where the basis has them.
    classes_ : array
        The classes of an ordinal basis, in order.
    """,
    ),
}


def _attributes(kind: str) -> str:
    """Return what a fitted model with this kind of basis has, for its docstring."""
    baseline, own = _IN_Y[kind]
    return _ATTRIBUTES.format(baseline=baseline, own=own)


@model
class ContinuousProbit(_BernsteinModel):
    __doc__ = f"""The c-probit model (R's BoxCox): F(y|x) = Phi(h(y) - x'beta), h smooth and increasing.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}{_attributes("bernstein")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.ContinuousProbit(xi=1.0).fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
    >>> model.predict(data[["rm", "lstat"]][:2]).round(1)  # medians, 1000 dollars
    array([28.1, 23.6])
    """

    _link = "probit"


@model
class ContinuousLogit(_BernsteinModel):
    __doc__ = f"""The c-logit model (R's Colr, sign flipped): F(y|x) = expit(h(y) - x'beta); odds of larger y.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}{_attributes("bernstein")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> y = atm.Surv(data.cmedv, data.cmedv < 50)  # values of 50 are censored
    >>> model = atm.ContinuousLogit(xi=10.0).fit(data[["rm", "lstat"]], y, anchors=data.town)
    >>> model.coef_.round(2)  # log odds ratios of larger values
    array([ 0.49, -0.15])
    """

    _link = "logit"
    _effect = "odds ratio"


@model
class ProportionalHazards(_BernsteinModel):
    __doc__ = f"""The Cox model with a smooth baseline (R's Coxph): F(y|x) = 1 - exp(-exp(h(y) + x'beta)).

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}{_attributes("bernstein")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> formula = "Surv(tstop, status) ~ treat + age | center"
    >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
    >>> model.summary().frame()[["coef", "hazard ratio"]].round(2)
                     coef  hazard ratio
    covariate
    treat[T.rIFN-g] -1.07          0.34
    age             -0.03          0.97
    """

    _link = "cloglog"
    _sign = 1.0
    _effect = "hazard ratio"


@model
class Lehmann(_BernsteinModel):
    __doc__ = f"""The Lehmann model: F(y|x) = exp(-exp(-(h(y) - x'beta))), reverse-time proportional hazards.

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}{_attributes("bernstein")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.Lehmann(log_first=True).fit(data[["duration"]], data.waiting)
    >>> model.coef_.round(2), model.predict(data[["duration"]][:2]).round(0)
    (array([-0.82]), array([70., 82.]))
    """

    _link = "loglog"
    _effect = "reverse-time hazard ratio"


@model
class NormalLinear(_Regressor, TransformationModel):
    __doc__ = f"""The normal linear model: F(y|x) = Phi(theta_1 + theta_2 y - x'beta), in closed form if y is exact.

    ``xi`` may be as low as -1/2 (partialling the anchors out). On the scale of y, ``intercept_``,
    ``slope_`` and ``sigma_`` are the usual ones: y = intercept + x'slope + sigma * noise.

    Parameters
    ----------{_SHARED.format(own="")}{_attributes("line")}
    See Also
    --------
    anchortm.LinearAnchorRegression : the same slopes with gamma = 2 xi + 1, by squared error

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.NormalLinear(xi=10.0).fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
    >>> model.slope_.round(2), round(model.sigma_, 1)  # on the scale of y
    (array([ 5.55, -0.75]), 19.7)
    """

    _lowest_xi = -0.5

    def _make_link(self) -> Link:
        return get_link("probit")

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return LinearBasis()

    @property
    def sigma_(self) -> float:
        """Return the standard deviation of y given x."""
        return 1.0 / self._line[1]

    @property
    def intercept_(self) -> float:
        """Return the intercept on the scale of y."""
        intercept, slope = self._line
        return -intercept / slope

    @property
    def slope_(self) -> Array:
        """Return the coefficients on the scale of y."""
        return np.asarray(self.coef_ / self._line[1])

    @property
    def _line(self) -> tuple[float, float]:
        check_is_fitted(self, "coef_")
        if self._corners is not None:
            raise UnavailableError("with strata or varying effects there is no one line in y: see baselines_")
        if hasattr(self, "scale_coef_"):
            raise UnavailableError(
                "with scale effects mean and spread change from row to row: use predict_distribution(X)"
            )
        return float(self.baseline_[0]), float(self.baseline_[1])


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
    {_attributes("line")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> formula = "Surv(tstop, status) ~ treat + age | center"
    >>> model = atm.ParametricSurvival.from_formula(formula, data, xi=1.0, dist="loglogistic")
    >>> model.summary().frame()["time ratio"].round(2).tolist()
    [2.8, 1.03]
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
    {_attributes("steps")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> model.predict_proba(data[:1]).round(2)
    array([[0.22, 0.54, 0.2 , 0.03, 0.01]])
    """

    _scale = "ordinal"

    link: str = "logit"

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return OrdinalBasis(response.levels or ())

    def predict_proba(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Array:
        """Return the probability of each class, one row for each row of X.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
        >>> model.predict_proba(data[:2]).round(2)
        array([[0.22, 0.54, 0.2 , 0.03, 0.01],
               [0.22, 0.54, 0.2 , 0.03, 0.01]])
        """
        if self._random is not None:
            return self.predict_distribution(X, offset=offset, n_rows=n_rows).probabilities()
        theta, shift = self._parts(X, n_rows, offset)
        inner = np.broadcast_to(theta, (shift.size, self.basis_.n_parameters)) + shift[:, None]
        ends = np.pad(inner, ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))
        return np.asarray(np.exp(self.link_.interval(ends[:, :-1], ends[:, 1:]).l))

    def predict(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Any:
        """Return the most probable class.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
        >>> model.predict(data[:3])
        array([2, 2, 3])
        """
        probabilities = self.predict_proba(X, offset=offset, n_rows=n_rows)
        return self.classes_[np.argmax(probabilities, axis=1)]


@model
class CountRegression(_BernsteinModel):
    __doc__ = f"""Count transformation models (R's cotram): P(Y <= k | x) = F_Z(h(k) - x'beta).

    Parameters
    ----------{_SHARED.format(own=_BERNSTEIN)}    link : {{"logit", "probit", "cloglog", "loglog"}}
        The reference distribution.
    {_attributes("bernstein")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> model = atm.CountRegression.from_formula("TICKS ~ cHEIGHT + C(YEAR) | LOCATION", data, xi=1.0, order=3)
    >>> model.predict_distribution(data[:1]).pmf([0, 1]).round(2)
    array([[0.33, 0.21]])
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
    {_attributes("any")}
    See Also
    --------
    anchortm.links.get_link : links by name
    anchortm.bases.BernsteinBasis : one of the bases

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.AnchorTM(link="cloglog", basis="linear").fit(data[["duration"]], data.waiting)
    >>> model.coef_.round(2), model.basis_
    (array([-0.57]), LinearBasis())
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
