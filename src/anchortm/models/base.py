"""The base class of the estimators: their arguments, and how they fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from sklearn.base import clone

from anchortm._typing import AnyTable, Columns, Covariates, Labels, Numbers, Outcome, PlaceWeights, Seed
from anchortm._util.checks import flag
from anchortm._util.estimators import BaseEstimator, CopiedWithRows
from anchortm._util.frames import refuse_swapped
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm._util.progress import Task
from anchortm.backends.sources import open_source
from anchortm.backends.streamed import Stream
from anchortm.engine.baseline_rules import BaselineRule
from anchortm.engine.problem import Problem, with_known_names
from anchortm.engine.remarks import remarked
from anchortm.engine.result import FitResult
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inference.covariance import keep_standard_errors
from anchortm.inputs import parts
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.inputs.missing import How
from anchortm.inputs.targets import Proxies, TargetShift
from anchortm.models.attributes import FRONT
from anchortm.models.from_formula import FormulaMixin, with_roles
from anchortm.models.given import given
from anchortm.models.names import in_python
from anchortm.models.recalibrated import Recalibrated
from anchortm.predict.new_rows import NewRows

__all__ = ["TransformationModel", "check_model", "model"]

M = TypeVar("M", bound=type)

SHARED = (  # arguments that the specification takes unchanged
    *("xi", "anchor_intercept", "anchor_names", "strata", "varying", "random", "n_nodes", "tol", "max_iter", "n_jobs"),
    *("verbose", "n_restarts", "random_state", "start", "scale", "xi_scale", "l1", "l2", "penalty_factor", "smooth"),
    *("missing", "tail", "environment_weights", "anchor_weights", "target", "proxies"),
)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def model(cls: M) -> M:
    """Add a constructor for the annotated arguments: xi comes first, the others are keywords."""
    return dataclass(repr=False, eq=False, kw_only=True)(cls)  # type: ignore[return-value]


@model
class TransformationModel(Recalibrated, FormulaMixin, CopiedWithRows, BaseEstimator):
    """Base class of all models, with their arguments and their fit. Subclasses choose link, basis and sign."""

    _rows_in: ClassVar[str] = "_problem"
    _sign: ClassVar[float] = -1.0
    _lowest_xi: ClassVar[float] = 0.0
    _outcome: ClassVar[Any] = "continuous"  # whether y is read as numbers, classes or counts
    _effect: ClassVar[str] = ""  # name of exp(coefficient), such as "odds ratio"
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
    missing: How = "error"
    tail: float = 1.0
    environment_weights: PlaceWeights = "rows"
    anchor_weights: PlaceWeights = "rows"
    place_variance: bool = False
    target: TargetShift | None = None
    proxies: Proxies | None = None

    # subclasses define these

    def _make_link(self) -> Any:
        """Return the link; for a GLM, the family with its link."""
        raise NotImplementedError

    def _rule(self) -> BaselineRule:
        """Return the rule that makes the basis from the outcomes."""
        raise NotImplementedError

    def _own(self) -> dict[str, Any]:
        """Return the fields that only this model's specification has."""
        return {}

    def specification(self) -> Specification:
        """Return the arguments of this estimator as a frozen specification, which the engine fits.

        Returns
        -------
        Specification
        """
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
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        environments: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Problem:
        """Return the problem that ``fit`` would solve, with its inputs checked; arguments as for ``fit``.

        Returns
        -------
        Problem
            The frozen inputs of one fit. ``problem.fit()`` solves it and returns a ``FitResult``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_geyser()
        >>> problem = atm.NormalLinear().problem(data[["duration"]], data.waiting)
        >>> problem.fit().coef.round(2)
        array([-0.74])
        """
        if isinstance(X, str):
            named = {"sample_weight": sample_weight, "offset": offset, "environments": environments}
            return given(self, X, y, anchors, **named).prepared(environments is not None)[1]
        if y is None:
            raise InputError("requires y to be passed, but the target y is None: fit(X, y)")
        return self._problem_type.of(self.specification(), X, y, anchors, sample_weight, offset, environments)

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
        """Fit the model by minimising the anchor loss.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n, p), or None
            Covariates. None fits an unconditional model. Sparse columns stay sparse. Adjacent dummies of a factor
            with more than 100 levels are stored as codes. Or a formula, with a table in the place of y:
            ``fit(formula, data)``, see ``from_formula``.
        y : array, Response or ordered categorical
            The outcome. For censored outcomes see ``Surv`` and ``Interval``.
        anchors : array, series, frame or list of columns, optional
            Where rows come from, such as their site. Integers, booleans, strings and categories are factors; floats
            are numeric columns. Needed unless xi is 0.
        environments : array, optional
            The places whose shifts ``place_sd_`` measures, a column of names. By default the anchors, if they are one
            factor.
        sample_weight : array of non-negative numbers, optional
            A weight of 2 counts a row twice.
        offset : array, optional
            Added to x'beta, with coefficient 1.

        Returns
        -------
        self
            The fitted model.

        See Also
        --------
        anchortm.Surv, anchortm.Interval : censored outcomes

        Notes
        -----
        Rows are matched by position. An error is raised if two of the arguments have pandas indexes with different
        labels, or with the same labels in another order.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear(xi=10.0).fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> model.slope_.round(2)
        array([ 5.55, -0.75])
        >>> atm.NormalLinear(xi=10.0).fit("cmedv ~ rm + lstat | town", data).slope_.round(2)  # the same by a formula
        array([ 5.55, -0.75])
        """
        beside: dict[str, Any] = {"environments": environments, "sample_weight": sample_weight, "offset": offset}
        if isinstance(X, str):
            return self._fit_formula(X, y, anchors, **beside)
        refuse_swapped(y, "the formula comes first: fit({}, data)")
        problem = self.problem(X, y, anchors=anchors, **beside)
        result = remarked(problem, problem.fit())
        if flag(self.place_variance, "place_variance"):
            self._measure_places(problem, result)
        return self._keep(problem, result)

    def _keep(self, problem: Problem | None, result: FitResult, **more: Any) -> Self:
        """Store a result in one assignment, so that an interrupted or failed fit leaves the model unchanged."""
        stale = FRONT | {"n_passes_"}
        state = {name: value for name, value in self.__dict__.items() if name not in stale}
        kept = None if problem is None else problem.kept(result)
        spec = self.specification() if problem is None else problem.spec
        self.__dict__ = state | {"_problem": kept, "_fitted_with": spec, "_result": result} | more
        return self

    def with_result(self, problem: Problem | None, result: FitResult, **parameters: Any) -> Self:
        """Return a copy of the model that holds this result, with these arguments changed.

        Parameters
        ----------
        problem : Problem or None
            The problem that was solved.
        result : FitResult
            Its result.
        **parameters
            Arguments of the constructor that change.

        Returns
        -------
        estimator
            A new model of the same class.
        """
        # as clone(self).set_params(**parameters), which reads the signature of the constructor three times
        arguments = self.get_params(deep=False) | parameters
        plain = (type(None), bool, int, float, str)
        own: dict[str, Any] = {k: v if isinstance(v, plain) else clone(v, safe=False) for k, v in arguments.items()}
        made = type(self)(**own)
        return made._keep(problem, result)

    def _copy_with(self, result: FitResult) -> Self:
        """Return a copy of the fitted model that holds another result and no rows."""
        made = self.with_result(None, result)
        kept = {"_fitted_with", *FRONT}  # a formula may have given roles to columns
        made.__dict__ |= {name: self.__dict__[name] for name in kept if name in self.__dict__}
        return made

    def _batched(
        self, formula: str, data: Any, sample_weight: Any, offset: Any, environments: Any = None
    ) -> tuple[Self, Problem]:
        """Return the model with the roles that a formula names, and its problem for a table read in batches."""
        spec, parsed = self.specification(), parse_formula(formula)
        named = [*(["strata"] if parsed.strata else []), *(["random"] if parsed.random else [])]
        parts.refuse("batches", *spec.asked(), *named, spec.likelihood)
        spec.check()
        source = open_source(data, spec.threads)
        beside = (environments,) if self.missing == "drop" and isinstance(environments, str) else ()
        columns = (sample_weight, offset, self.anchor_intercept, self.missing, beside)
        stream = Stream(formula, source, spec.outcome, spec.levels, *columns)
        made = stream.reader.formula
        made.offset = offset
        model: Self = with_roles(self, made)
        spec = model.specification().check()
        stream.learn(spec)
        return model, with_known_names(self._problem_type.on(spec, stream))

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any, environments: Any = None) -> Self:
        """Return the model fitted to a table that is read in batches, with the roles that the formula names."""
        if environments is not None or flag(self.place_variance, "place_variance"):
            parts.refuse("batches", "places")
        with Task(type(self).__name__, shown=True if self.verbose else None):
            model, problem = self._batched(formula, data, sample_weight, offset)
            result = remarked(problem, problem.fit())
        stream = problem.data
        return model._keep(problem, result, n_passes_=stream.n_passes, formula_=stream.reader.formula)

    @property
    def new_rows_(self) -> NewRows:
        """Return the object that turns new rows into linear predictors and outcomes of this model."""
        result, spec = self.result_, self._fitted_with
        assert spec is not None  # noqa: S101
        there = result.recalibration
        more: dict[str, Any] = {"transformers": self.__dict__.get("transformers_", ())}
        if there is not None:  # rows are those of a place whose shift, or of a cluster whose effect, is nearly known
            result = replace(result, random=None) if there.cluster else result
            more |= {"law": there.law} if there.law.sd else {}
        return self._rows_type(spec, result, self.__dict__.get("formula_"), **more)

    def __getstate__(self) -> dict[str, Any]:
        if self._problem is not None:
            keep_standard_errors(self)
        state: dict[str, Any] = super().__getstate__()
        return state | {"_problem": None} if "_problem" in state else state  # pickles do not carry the rows


def problem_on(model: TransformationModel, spec: Specification, data: Any) -> Problem:
    """Return the problem of a model for checked rows, wherever they are."""
    return model._problem_type.on(spec, data)


def check_model(model: Any, question: str) -> None:
    """Raise an error unless ``model`` is a model of this package; a boosted model must go with the question."""
    if isinstance(model, TransformationModel):
        parts.refuse(question, *model.specification().asked())
        return
    if hasattr(model, "left_out"):
        parts.refuse("boosting", question)
        return
    if is_pipeline(model) and model_of(model) is not model:
        raise InputTypeError(
            f"this needs the model alone, not a {type(model).__name__}: transform X first, "
            "X = pipeline[:-1].fit_transform(X), and pass pipeline[-1]"
        )
    text = f"model must be an estimator of this package, such as NormalLinear(), not {model!r}"
    named = in_python(model) if isinstance(model, str) else None
    raise InputTypeError(text if named is None else f"{text}: what the command line calls {model} is {named} here")
