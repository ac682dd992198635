"""WorstEnvironment: a model whose worst environment is as good as possible."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone

from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import one_number, whole_number
from anchortm.engine.objective.worst_places import WorstCase
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.models.attributes import FRONT, Found, not_fitted
from anchortm.models.base import TransformationModel
from anchortm.models.given import given

__all__ = ["WorstEnvironment"]

RISKS = ("worst", "cvar")
REFERENCES = ("own-shift", "null", None)
FITTED = ("model_", "result_", "new_rows_")  # properties whose errors Python would hide behind ``__getattr__``


class OfModel:
    """A member that the wrapped model may have in a version of its own: that of the fitted model is used."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return getattr(TransformationModel, self.name) if instance is None else getattr(instance.model_, self.name)


class Argument:
    """An argument of the wrapped model, which this estimator does not have itself."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else getattr(instance.model, self.name)


class WorstEnvironment(TransformationModel):
    """A model fitted so that its loss in the worst environment, or the mean of the worst, is as small as possible.

    The loss of an environment is its mean negative log-likelihood, minus a reference b_e: with a reference the fit
    minimises the largest regret (minimax regret). The fit is a maximum-likelihood fit in which environments have the
    weights ``environment_multipliers_``; most of these are 0. Where the likelihood is concave the minimum is global,
    and ``duality_gap_`` bounds how far the loss can be from it.

    Parameters
    ----------
    model : estimator
        The model: any transformation model of this package, or an ``AnchorGLM`` of a family without a dispersion. Its
        xi must be 0. Scale effects, random effects and l1 are not supported.
    risk : {"worst", "cvar"}
        "worst" minimises the loss of the worst environment, "cvar" the mean loss of the worst ``share`` of them.
    share : float, optional
        For "cvar": the share, in (0, 1].
    reference : {"own-shift", "null", None}
        What the loss of an environment is compared with: its loss if the maximum-likelihood fit to all rows is moved by
        the shift of h that suits the environment best; its loss under the model without covariates; or nothing, which
        warns if shares of exact rows differ, because the loss then depends on the unit of the outcome.
    weights : {"equal", "rows"}
        Whether ``share`` is a share of environments or of rows.
    min_rows : int
        Environments with fewer rows are taken together as one environment. With 1 a single row can decide the fit.

    Attributes
    ----------
    model_ : estimator
        The fitted model, of the class of ``model``; this estimator has all its methods and fitted attributes.
    loss_ : float
        The minimised value: the largest loss minus its reference, or the mean of the worst share.
    environment_multipliers_ : Series
        The weight of each environment in the fit; they sum to 1.
    duality_gap_ : float
        How far ``loss_`` can be from its smallest value; NaN if the likelihood is not known to be concave.
    decisive_ : Decisive
        Sizes, multipliers, losses and references of the environments; ``decisive_.frame()`` is a table.

    See Also
    --------
    anchortm.strategies.WorstEnvironment : the same in a comparison of strategies

    Notes
    -----
    Standard errors are those of the bootstrap: a minimum at which environments tie has no normal distribution. The
    fit protects environments like those of the data. It says nothing about shifts larger than theirs.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.WorstEnvironment(atm.ContinuousProbit(), min_rows=10).fit("cmedv ~ rm + lstat | town", data)
    >>> round(model.loss_, 3), bool(model.duality_gap_ < 1e-9)
    (0.581, True)
    >>> model.environment_multipliers_.nlargest(2).round(2).to_dict()  # towns that decide
    {'Boston South Boston': 0.39, 'Waltham': 0.28}
    """

    def __init__(
        self,
        model: TransformationModel,
        risk: Literal["worst", "cvar"] = "worst",
        share: float | None = None,
        reference: Literal["own-shift", "null"] | None = "own-shift",
        *,
        weights: Literal["equal", "rows"] = "equal",
        min_rows: int = 1,
    ) -> None:
        self.model = model
        self.risk = risk
        self.share = share
        self.reference = reference
        self.weights = weights
        self.min_rows = min_rows

    # members that some models have in versions of their own
    result_ = OfModel()
    new_rows_ = OfModel()
    predict = OfModel()
    predict_distribution = OfModel()
    residuals = OfModel()
    confidence_band = OfModel()

    # arguments that the base class asks for
    anchor_names = Argument()
    anchor_intercept = Argument()
    missing = Argument()
    place_variance = Argument()
    strata = Argument()
    random = Argument()
    varying = Argument()
    scale = Argument()
    verbose = Argument()
    n_jobs = Argument()

    duality_gap_ = Found[float]("decisive", "gap")

    @property
    def model_(self) -> Any:
        """Return the fitted model, of the class of ``model``."""
        if self._result is None:
            raise not_fitted(self)
        if self.__dict__.get("_view", (None, None))[0] is not self._result:
            made = self.model.with_result(self._problem, self._result)
            made._fitted_with = self._fitted_with
            self.__dict__["_view"] = self._result, made
        made = self.__dict__["_view"][1]
        made.__dict__ |= {name: self.__dict__[name] for name in FRONT if name in self.__dict__}
        return made

    def __getattr__(self, name: str) -> Any:
        if "model" not in self.__dict__ or (self._result is None and name in FITTED):
            raise not_fitted(self)
        if name.startswith("_") or not hasattr(type(self.model), name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.model_, name)

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()

    @property
    def _problem_type(self) -> type[Problem]:  # type: ignore[override]
        return self._checked()._problem_type

    def _checked(self) -> TransformationModel:
        """Return the model; raise an error if it cannot be wrapped."""
        if not isinstance(self.model, TransformationModel) or isinstance(self.model, WorstEnvironment):
            raise InputTypeError(
                f"model must be an estimator of this package, such as ContinuousProbit(), not {self.model!r}"
            )
        return self.model

    def specification(self) -> Specification:
        """Return the specification of the model, whose worst environment is minimised."""
        spec = self._checked().specification()
        if spec.xi != 0.0:
            raise InputError(f"xi = {spec.xi!r} of the inner model is not used: leave it out")
        family = spec.link if spec.likelihood == "mean" else None
        estimated = family is not None and (family.free_dispersion or family.estimate is not None)
        if estimated or getattr(spec, "alpha", None) == "ml":
            raise InputError(
                "losses of environments would depend on a dispersion or alpha that is estimated from all of them: use "
                "NormalLinear for gaussian outcomes, a family without a dispersion, or give alpha a number"
            )
        return spec.at(worst=self.case())

    def case(self) -> WorstCase:
        """Return what is minimised over environments, after checking the arguments.

        Returns
        -------
        WorstCase
        """
        for name, value, known in (
            ("risk", self.risk, RISKS),
            ("reference", self.reference, REFERENCES),
            ("weights", self.weights, ("equal", "rows")),
        ):
            if not (value is None or isinstance(value, str)) or value not in known:
                raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")
        whole_number(self.min_rows, "min_rows", 1)
        if self.risk == "worst":
            if self.share is not None:
                raise InputError("share is for risk='cvar': leave it out, or set risk")
            return WorstCase(None, self.reference, self.weights, self.min_rows)
        if self.share is None or not 0.0 < one_number(self.share, "share") <= 1.0:
            raise InputError(f"risk='cvar' needs a share in (0, 1], not {self.share!r}")
        return WorstCase(float(self.share), self.reference, self.weights, self.min_rows)

    def problem(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        environments: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Problem:
        """Return the problem that ``fit`` would solve, with its inputs checked; arguments as for ``fit``."""
        if isinstance(X, str):
            named = {"sample_weight": sample_weight, "offset": offset, "environments": environments}
            return given(self, X, y, anchors, **named).prepared(environments is not None)[1]
        if y is None:
            raise InputError("requires y to be passed, but the target y is None: fit(X, y)")
        if anchors is not None and environments is not None and not _same(anchors, environments):
            raise InputError(
                "WorstEnvironment takes its environments as anchors, but here the two differ: pass environments only"
            )
        places = anchors if environments is None else environments
        return self._problem_type.of(self.specification(), X, y, places, sample_weight, offset)

    def fit(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        environments: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Self:
        """Fit the model by minimising the loss of the worst environment.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n, p), or None
            Covariates; or a formula, with a table in the place of y: ``fit(formula, data)``.
        y : array, Response or ordered categorical
            The outcome. For censored outcomes see ``Surv`` and ``Interval``.
        anchors : array, optional
            Another name for the environments: a formula names them after ``|``.
        environments : array
            The environment of each row, one column of names.
        sample_weight : array of non-negative numbers, optional
            A weight of 2 counts a row twice.
        offset : array, optional
            Added to x'beta, with coefficient 1.

        Returns
        -------
        self
            The fitted model.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.WorstEnvironment(atm.NormalLinear(), "cvar", 0.2, min_rows=10)
        >>> model.fit(data[["rm", "lstat"]], data.cmedv, environments=data.town).slope_.round(2)
        array([ 4.84, -0.86])
        """
        return super().fit(X, y, anchors=anchors, environments=environments, sample_weight=sample_weight, offset=offset)

    def with_result(self, problem: Problem | None, result: FitResult, **parameters: Any) -> Self:
        """Return a copy that holds this result, with these arguments changed; an xi, which must be 0, is ignored."""
        parameters.pop("xi", None)
        arguments = self.get_params(deep=False) | parameters
        made = type(self)(**{name: clone(value, safe=False) for name, value in arguments.items()})
        return made._keep(problem, result)

    def _keep(self, problem: Problem | None, result: FitResult, **more: Any) -> Self:
        self.__dict__.pop("_view", None)
        return super()._keep(problem, result, **more)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_view"}


def _same(anchors: Labels, environments: Labels) -> bool:
    """Return whether two columns have the same names in all rows."""
    if isinstance(anchors, AnchorColumns):  # as folds of pipelines pass them
        if len(anchors.factors) != 1 or anchors.columns.shape[1]:
            return False
        anchors = anchors.levels[0][anchors.factors[0]]
    one, two = (np.asarray(labels, dtype=object).ravel() for labels in (anchors, environments))
    return np.array_equal(one, two)
