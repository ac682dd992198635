"""What every estimator of this package is: arguments, a fit, and the answers of its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from sklearn.base import clone

from anchortm._typing import Columns, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.estimators import BaseEstimator
from anchortm.backends.sources import open_source
from anchortm.backends.streamed import Stream
from anchortm.engine.baseline_rules import BaselineRule
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import remarked
from anchortm.engine.result import FitResult
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs import parts
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.models.answers import Inference
from anchortm.models.from_formula import FormulaMixin
from anchortm.predict.new_rows import NewRows

__all__ = ["TransformationModel", "check_model", "model"]

M = TypeVar("M", bound=type)

SHARED = (  # arguments that estimators hand on to the specification as they are
    *("xi", "anchor_intercept", "anchor_names", "strata", "varying", "random", "n_nodes", "tol", "max_iter", "n_jobs"),
    *("verbose", "n_restarts", "random_state", "start", "scale", "xi_scale", "l1", "l2", "penalty_factor", "smooth"),
)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def model(cls: M) -> M:
    """Make a constructor from the annotated arguments, xi first and all others by keyword."""
    return dataclass(repr=False, eq=False, kw_only=True)(cls)  # type: ignore[return-value]


@model
class TransformationModel(Inference, FormulaMixin, BaseEstimator):
    """What all models share: their arguments and their fit. Subclasses choose link, basis and sign."""

    _sign: ClassVar[float] = -1.0
    _lowest_xi: ClassVar[float] = 0.0
    _outcome: ClassVar[Any] = "continuous"  # how y is read: as numbers, classes or counts
    _effect: ClassVar[str] = ""  # what the exponential of a coefficient is called, if anything
    _problem_type: ClassVar[type[Problem]] = Problem
    _specification_type: ClassVar[type[Specification]] = Specification

    xi: float = field(default=0.0, kw_only=False)
    anchor_intercept: bool = True
    anchor_names: Columns | None = None
    strata: Columns | None = None
    varying: Any = None
    random: Any = None
    n_nodes: int | None = None
    tol: float = 1e-8
    max_iter: int = 200
    n_jobs: int | None = None
    verbose: int = 0
    n_restarts: int = 0
    random_state: Seed = None
    start: Any = None
    scale: Any = None
    xi_scale: float | None = None
    l1: float = 0.0
    l2: float = 0.0
    penalty_factor: Any = None
    smooth: float = 0.01

    # what subclasses say of themselves

    def _make_link(self) -> Any:
        """Return the link, or the family with its link."""
        raise NotImplementedError

    def _rule(self) -> BaselineRule:
        """Return how the basis follows from the outcomes."""
        raise NotImplementedError

    def _own(self) -> dict[str, Any]:
        """Return what the specification of this kind of model has beside what all have."""
        return {}

    def specification(self) -> Specification:
        """Return what a fit of this estimator asks for, as one frozen object."""
        return self._specification_type(
            model=type(self).__name__,
            link=self._make_link(),
            rule=self._rule(),
            sign=self._sign,
            outcome=self._outcome,
            effect=self._effect,
            lowest_xi=self._lowest_xi,
            **{name: getattr(self, name) for name in SHARED},
            **self._own(),
        )

    def problem(
        self,
        X: Covariates,
        y: Outcome,
        *,
        anchors: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Problem:
        """Return the problem that ``fit`` would solve with these arguments, its inputs checked.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_geyser()
        >>> problem = atm.NormalLinear().problem(data[["duration"]], data.waiting)
        >>> problem.fit().coef.round(2)
        array([-0.74])
        """
        if y is None:
            raise InputError("requires y to be passed, but the target y is None: fit(X, y)")
        return self._problem_type.of(self.specification(), X, y, anchors, sample_weight, offset)

    def fit(
        self,
        X: Covariates,
        y: Outcome,
        *,
        anchors: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Self:
        """Fit the model by minimising the anchor loss.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n, p), or None
            Covariates. None gives an unconditional model. Sparse columns stay sparse, and dummies of a factor with
            more than 100 levels that stand side by side are held as codes.
        y : array, Response or ordered categorical
            The outcome; see ``Surv`` and ``Interval`` for censored ones.
        anchors : array, series, frame or list of columns, optional
            What marks where rows come from. Integers, booleans, strings and categories are
            factors, floats are numeric columns. Needed for xi other than 0.
        sample_weight : array of non-negative numbers, optional
            Weights replicate rows.
        offset : array, optional
            Joins x'beta with coefficient 1.

        Rows are matched by position. Where two of these have pandas indexes with different labels, or the same labels
        in another order, they are refused.

        Returns
        -------
        self

        See Also
        --------
        anchortm.Surv, anchortm.Interval : censored outcomes

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear(xi=10.0).fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> model.slope_.round(2)
        array([ 5.55, -0.75])
        """
        problem = self.problem(X, y, anchors=anchors, sample_weight=sample_weight, offset=offset)
        return self._keep(problem, remarked(problem, problem.fit()))

    def _keep(self, problem: Problem | None, result: FitResult, **more: Any) -> Self:
        """Take a result at once: a fit that is interrupted or refused leaves the model as it was."""
        stale = ("formula_", "n_passes_")
        state = {name: value for name, value in self.__dict__.items() if name not in stale}
        kept = None if problem is None else problem.kept(result)
        self.__dict__ = state | {"_problem": kept, "_result": result} | more
        return self

    def with_result(self, problem: Problem | None, result: FitResult, **parameters: Any) -> Self:
        """Return a model of this class that holds a result, with these arguments changed; the model itself is not."""
        made: Self = clone(self).set_params(**parameters)
        return made._keep(problem, result)

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any) -> Formula:
        """Fit to a table that is read in batches, and return the formula as new rows need it."""
        spec, parsed = self.specification(), parse_formula(formula)
        named = [*(["strata"] if parsed.strata else []), *(["random"] if parsed.random is not None else [])]
        parts.refuse("batches", *spec.asked(), *named, spec.likelihood)
        spec.check()
        source = open_source(data, spec.threads, True if self.verbose else None)
        stream = Stream(formula, source, spec.outcome, spec.levels, sample_weight, offset, self.anchor_intercept)
        problem = self._problem_type.on(spec, stream)
        result = remarked(problem, problem.fit())
        self._keep(problem, result, n_passes_=source.passes)
        return stream.reader.formula

    @property
    def new_rows_(self) -> NewRows:
        """Return what turns new rows into the numbers that the model needs."""
        result = self.result_
        spec = self.specification() if self._problem is None else self._problem.spec
        return self._rows_type(spec, result, self.__dict__.get("formula_"))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"_problem": None} if "_problem" in state else state  # rows stay at home


def check_model(model: Any, refits: bool = False) -> None:
    """Refuse what is not a model of this package, or one that cannot be followed along xi where that is needed."""
    if isinstance(model, TransformationModel) or (refits and hasattr(model, "left_out")):
        return
    if hasattr(model, "left_out"):
        raise InputTypeError(
            f"{type(model).__name__} has no parameters to follow along xi: fit it at each xi, or compare them by "
            "leave_one_environment_out or XiSearchCV"
        )
    raise InputTypeError(f"model must be an estimator of this package, such as NormalLinear(), not {model!r}")
