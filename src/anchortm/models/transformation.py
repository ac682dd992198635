"""AnchorTM and the named models: scikit-learn estimators, thin presets over one engine."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Covariates, Numbers, Place
from anchortm.bases import Basis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.engine.baseline_rules import BaselineRule, Bernstein, Classes, Given
from anchortm.exceptions import InputError, UnavailableError
from anchortm.inputs.judgement import OnBadRows, Unknown
from anchortm.inputs.response import Scale
from anchortm.links import Link, get_link
from anchortm.models.base import TransformationModel, model
from anchortm.models.docstrings import BERNSTEIN, SHARED, attributes
from anchortm.models.roles import Classifier, Regressor

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


@model
class _BernsteinModel(Regressor, TransformationModel):
    """Base class of models with a Bernstein baseline."""

    _link: ClassVar[str]

    order: int = 6
    support: tuple[float, float] | None = None
    log_first: bool = False
    extrapolate: Literal["linear", "natural"] = "linear"

    def _make_link(self) -> Link:
        return get_link(self._link)

    def _rule(self) -> BaselineRule:
        return Bernstein(self.order, self.support, self.log_first, self.extrapolate)


@model
class ContinuousProbit(_BernsteinModel):
    __doc__ = f"""The c-probit model (R's BoxCox): F(y|x) = Phi(h(y) - x'beta), with h smooth and increasing.

    After the unknown transformation h, the outcome is normal with mean x'beta and variance 1.

    Parameters
    ----------{SHARED.format(own=BERNSTEIN)}{attributes("bernstein")}
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
    __doc__ = f"""The c-logit model (R's Colr with the opposite sign): F(y|x) = expit(h(y) - x'beta).

    exp(beta) is the ratio of the odds of larger outcomes, the same at every threshold of y.

    Parameters
    ----------{SHARED.format(own=BERNSTEIN)}{attributes("bernstein")}
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

    exp(beta) is the hazard ratio.

    Parameters
    ----------{SHARED.format(own=BERNSTEIN)}{attributes("bernstein")}
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
    __doc__ = f"""The Lehmann model: F(y|x) = exp(-exp(-(h(y) - x'beta))), with proportional reverse-time hazards.

    Parameters
    ----------{SHARED.format(own=BERNSTEIN)}{attributes("bernstein")}
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
class NormalLinear(Regressor, TransformationModel):
    __doc__ = f"""The normal linear model: F(y|x) = Phi(theta_1 + theta_2 y - x'beta), in closed form if y is exact.

    ``xi`` may be as low as -1/2, which partials the anchors out. ``intercept_``, ``slope_`` and ``sigma_`` are on
    the scale of y: y = intercept + x'slope + sigma * noise.

    Parameters
    ----------{SHARED.format(own="")}{attributes("line")}
    See Also
    --------
    anchortm.LinearAnchorRegression : gives the same slopes with gamma = 2 xi + 1, by squared error

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

    def _rule(self) -> BaselineRule:
        return Given(LinearBasis())

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
        result = self.result_
        if result.corners is not None:
            raise UnavailableError("with strata or varying effects the model has several lines in y: see baselines_")
        if result.scale is not None:
            raise UnavailableError(
                "with scale effects the mean and the spread differ between rows: use predict_distribution(X)"
            )
        return float(result.baseline[0]), float(result.baseline[1])


_DISTRIBUTIONS: dict[str, tuple[str, float | None]] = {
    "weibull": ("cloglog", None),
    "lognormal": ("probit", None),
    "loglogistic": ("logit", None),
    "exponential": ("cloglog", 1.0),
    "rayleigh": ("cloglog", 2.0),
}


@model
class ParametricSurvival(Regressor, TransformationModel):
    __doc__ = f"""Accelerated failure time models (R's Survreg): F(y|x) = F_Z(theta_1 + theta_2 log y - x'beta).

    Parameters
    ----------{SHARED.format(own="")}    dist : {{"weibull", "lognormal", "loglogistic", "exponential", "rayleigh"}}
        Distribution of y given x. "exponential" fixes theta_2 at 1, "rayleigh" at 2.
    {attributes("line")}
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

    def _rule(self) -> BaselineRule:
        return Given(LogLinearBasis(self._resolved()[1]))


@model
class OrdinalRegression(Classifier, TransformationModel):
    __doc__ = f"""Cumulative models for ordered classes (R's Polr): P(Y <= k | x) = F_Z(theta_k - x'beta).

    Parameters
    ----------{SHARED.format(own="")}    link : {{"logit", "probit", "cloglog", "loglog"}}
        The reference distribution F_Z.
    {attributes("steps")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> model.predict_proba(data[:1]).round(2)
    array([[0.22, 0.54, 0.2 , 0.03, 0.01]])
    """

    _outcome = "ordinal"

    link: str = "logit"

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _rule(self) -> BaselineRule:
        return Classes()

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
        """Return the probability of each class.

        Parameters
        ----------
        X : array or frame
            Covariates. An unconditional model takes ``X=None`` and ``n_rows``.
        offset : array, optional
            Added to x'beta. Needed if the model was fitted with an offset.
        n_rows : int, optional
            Number of rows to predict for ``X=None``.
        on_bad_rows, unknown, place
            As for ``predict_distribution``.

        Returns
        -------
        array of shape (n, K)
            One row for each row of X, one column for each of ``classes_``; NaN in bad rows if these are marked.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
        >>> model.predict_proba(data[:2]).round(2)
        array([[0.22, 0.54, 0.2 , 0.03, 0.01],
               [0.22, 0.54, 0.2 , 0.03, 0.01]])
        """
        work = partial(self._probabilities, place=place)
        return np.asarray(self.new_rows_.answer(work, X, n_rows, on_bad_rows, unknown, offset=offset))

    def _probabilities(
        self, X: Covariates, n_rows: int | None, *, offset: Numbers | None, place: Place = "average"
    ) -> Array:
        """Return the probability of each class."""
        rows = self._rows_at(place)
        if self.result_.random is not None:
            return self._predicted(X, n_rows, offset=offset).probabilities()
        theta, shift = rows.parts(X, n_rows, offset)
        inner = np.broadcast_to(theta, (shift.size, self.basis_.n_parameters)) + shift[:, None]
        ends = np.pad(inner, ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))
        return np.asarray(np.exp(rows.link.log_mass(ends[:, :-1], ends[:, 1:])))

    def predict(
        self,
        X: Covariates = None,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Any:
        """Return the most probable class of each row; arguments as for ``predict_proba``.

        If bad rows are marked, their class is NaN where classes are numbers, which then are floats, and None otherwise.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
        >>> model.predict(data[:3])
        array([2, 2, 3])
        """
        work = partial(self._most_probable, place=place)
        return self.new_rows_.answer(work, X, n_rows, on_bad_rows, unknown, offset=offset)

    def _most_probable(self, X: Covariates, n_rows: int | None, **asked: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[np.argmax(self._probabilities(X, n_rows, **asked), axis=1)])


@model
class CountRegression(_BernsteinModel):
    __doc__ = f"""Count transformation models (R's cotram): P(Y <= k | x) = F_Z(h(k) - x'beta).

    Parameters
    ----------{SHARED.format(own=BERNSTEIN)}    link : {{"logit", "probit", "cloglog", "loglog"}}
        The reference distribution F_Z.
    {attributes("bernstein")}
    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> model = atm.CountRegression.from_formula("TICKS ~ cHEIGHT + C(YEAR) | LOCATION", data, xi=1.0, order=3)
    >>> model.predict_distribution(data[:1]).pmf([0, 1]).round(2)
    array([[0.33, 0.21]])
    """

    _outcome = "count"

    log_first: bool = True
    link: str = "logit"

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _rule(self) -> BaselineRule:
        return Bernstein(self.order, self.support, self.log_first, self.extrapolate, counts=True)


@model
class AnchorTM(_BernsteinModel):
    __doc__ = f"""The general transformation model with any link and any basis: F(y|x) = F_Z(a(y)'theta - x'beta).

    Parameters
    ----------{SHARED.format(own=BERNSTEIN)}    link : {{"logit", "probit", "cloglog", "loglog"}} or Link
        The reference distribution F_Z.
    basis : {{"bernstein", "linear", "log-linear", "ordinal", "count"}} or Basis
        The basis a(y) of the baseline. A ``Basis`` object is used as it is.
    {attributes("any")}
    See Also
    --------
    anchortm.links.get_link : returns a link by its name
    anchortm.bases.BernsteinBasis : one of the bases

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.AnchorTM(link="cloglog", basis="linear").fit(data[["duration"]], data.waiting)
    >>> model.coef_.round(2), model.basis_
    (array([-0.57]), LinearBasis())
    """

    link: str | Link = "logit"
    basis: str | Basis = "bernstein"

    @property
    def _outcome(self) -> Scale:
        kind = self.basis.kind if isinstance(self.basis, Basis) else self.basis
        return "ordinal" if kind == "ordinal" else "count" if kind == "count" else "continuous"

    def _own(self) -> dict[str, Any]:
        return {"levels": self.basis.levels if isinstance(self.basis, Basis) else None}

    def _make_link(self) -> Link:
        return get_link(self.link)

    def _rule(self) -> BaselineRule:
        if isinstance(self.basis, OrdinalBasis):
            return Classes()  # the classes of the basis that have rows
        if isinstance(self.basis, Basis):
            return Given(self.basis)
        rules: dict[Any, BaselineRule] = {
            "bernstein": Bernstein(self.order, self.support, self.log_first, self.extrapolate),
            "linear": Given(LinearBasis()),
            "log-linear": Given(LogLinearBasis()),
            "ordinal": Classes(),
            "count": Bernstein(self.order, self.support, self.log_first, self.extrapolate, counts=True),
        }
        if not isinstance(self.basis, str) or self.basis not in rules:
            raise InputError(
                f"basis must be 'bernstein', 'linear', 'log-linear', 'ordinal', 'count' or a Basis, not {self.basis!r}"
            )
        return rules[self.basis]
