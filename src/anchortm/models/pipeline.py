"""Pipelines of scikit-learn that have the methods of their last step, a model of this package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from anchortm._typing import Covariates, Outcome
from anchortm._util.frames import is_frame, native
from anchortm._util.html import EstimatorInNotebook
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm.exceptions import UnavailableError
from anchortm.inputs.transformed import with_names
from anchortm.models.attributes import not_fitted
from anchortm.models.base import TransformationModel
from anchortm.models.glm import AnchorGLM
from anchortm.models.transformation import OrdinalRegression

if TYPE_CHECKING:

    class _Pipeline:
        """What we use of scikit-learn's pipeline."""

        steps: list[tuple[str, Any]]
        memory: Any
        verbose: bool

        def __init__(self, steps: Any, **options: Any) -> None: ...

        def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
            """Fit the transformers and the last step."""
            ...

        def _fit(self, X: Any, y: Any = None, *args: Any, **options: Any) -> Any: ...

        def __sklearn_is_fitted__(self) -> bool: ...
else:
    from sklearn.pipeline import Pipeline as _Pipeline

__all__ = ["Pipeline", "as_pipeline", "fit_arguments", "make_pipeline", "unfolded", "with_parameters"]


def _asks(method: Any) -> Any:
    """Return a method like that of the model, for rows before the transformers; it exists where the model has it.

    A pipeline that ends in another estimator does what scikit-learn does.
    """
    name = method.__name__

    @wraps(method)
    def ask(self: Any, *arguments: Any, **options: Any) -> Any:
        foreign = model_of(self) is self
        return getattr(super(Pipeline, self) if foreign else self.model_, name)(*arguments, **options)

    def has(self: Any) -> bool:
        model = model_of(self)
        if model is self:
            return hasattr(super(Pipeline, self), name)
        return hasattr(type(model), name) and (not model.__sklearn_is_fitted__() or hasattr(model, name))

    first = (method.__doc__ or "").split("\n")[0]
    rows = "Rows pass the transformers first. " if "X" in signature(method).parameters else ""
    ask.__doc__ = f"{first}\n\n{rows}Arguments are those of ``{name}`` of the model."
    return available_if(has)(ask)


class Pipeline(EstimatorInNotebook, _Pipeline):
    """A scikit-learn pipeline that ends in a model of this package and answers what the model answers.

    It is used like ``sklearn.pipeline.Pipeline`` and has the methods of the model beside, for rows as they are before
    the transformers. In addition, ``fit`` passes anchors, weights and offset on to the model, and coefficients have the
    names that the transformers give to columns.

    Parameters
    ----------
    steps : list of (name, estimator)
        Transformers, and last a model, or a search such as ``XiSearchCV``.
    transform_input, memory, verbose : optional
        As for ``sklearn.pipeline.Pipeline``.

    Attributes
    ----------
    model_ : estimator
        The fitted model. It takes rows as they are before the transformers, like a model that was fitted by a
        formula. ``pipeline[-1]`` takes rows as they are after them.

    See Also
    --------
    anchortm.make_pipeline : names the steps
    anchortm.save : writes a fitted pipeline to a file

    Notes
    -----
    ``predict_table``, ``scores.score_table``, ``marginal_effects`` and other functions of a fitted model take pipelines
    too, those of scikit-learn included. So do ``leave_one_environment_out`` and ``XiSearchCV``, which fit the
    transformers again without the left-out rows.

    Examples
    --------
    >>> import anchortm as atm
    >>> from sklearn.preprocessing import StandardScaler
    >>> data = atm.datasets.load_boston_housing2()
    >>> pipeline = atm.Pipeline([("scale", StandardScaler()), ("model", atm.ContinuousProbit(xi=1.0))])
    >>> pipeline = pipeline.fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
    >>> pipeline.predict_distribution(data[:2][["rm", "lstat"]]).ppf([0.1, 0.9]).round(1)
    array([[20.2, 48.2],
           [17.3, 38.2]])
    >>> pipeline.summary().frame().coef.round(2)
    covariate
    rm       0.27
    lstat   -0.95
    Name: coef, dtype: float64
    """

    predict = _asks(TransformationModel.predict)
    predict_proba = _asks(OrdinalRegression.predict_proba)
    predict_distribution = _asks(TransformationModel.predict_distribution)
    predict_quantiles = _asks(TransformationModel.predict_quantiles)
    nll = _asks(TransformationModel.nll)
    score = _asks(TransformationModel.score)
    residuals = _asks(TransformationModel.residuals)
    extrapolation = _asks(TransformationModel.extrapolation)
    confidence_band = _asks(TransformationModel.confidence_band)
    restricted_mean = _asks(TransformationModel.restricted_mean)
    survival_quantiles = _asks(TransformationModel.survival_quantiles)
    mean_intervals = _asks(AnchorGLM.mean_intervals)
    summary = _asks(TransformationModel.summary)
    covariance = _asks(TransformationModel.covariance)
    standard_errors = _asks(TransformationModel.standard_errors)
    intervals = _asks(TransformationModel.intervals)
    bootstrap = _asks(TransformationModel.bootstrap)
    recalibrate = _asks(TransformationModel.recalibrate)

    def __init__(
        self,
        steps: Sequence[tuple[str, object]],
        *,
        transform_input: Sequence[str] | None = None,
        memory: object = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)

    def fit(self, X: Covariates, y: Outcome | None = None, **options: Any) -> Self:
        """Fit the transformers one after the other, and the model to what they make of X.

        Parameters
        ----------
        X, y : covariates and outcome
            X as the first transformer takes it, y as the model takes it.
        **options
            ``anchors``, ``sample_weight``, ``offset`` and ``environments`` of the model. Those of another step are
            written ``step__name``, as in scikit-learn. With metadata routing enabled, scikit-learn passes them to the
            steps that request them.

        Returns
        -------
        self
            The fitted pipeline.
        """
        return super().fit(X, y, **_addressed(self, options))

    def _fit(self, X: Any, y: Any = None, *args: Any, **options: Any) -> Any:
        """Return what the transformers make of X, with the names of columns."""
        found = super()._fit(X, y, *args, **options)
        transformers = [step for _, step in self.steps[:-1] if step not in (None, "passthrough")]
        ours = model_of(self) is not self  # others would want names at prediction too
        return with_names(found, X, transformers) if ours and is_frame(native(X)) else found

    def _last(self) -> Any:
        """Return the model, fitted or not, for rows as they are before the transformers."""
        model = model_of(self)
        if model is self:
            raise UnavailableError("this pipeline does not end in a model of this package: see its steps")
        return model

    def specification(self) -> Any:
        """Return the arguments of the model as a frozen specification."""
        return self._last().specification()

    @property
    def anchor_names(self) -> Any:
        """Return the columns that the model takes as anchors."""
        return self._last().anchor_names

    @property
    def model_(self) -> Any:
        """Return the fitted model, for rows as they are before the transformers."""
        model = self._last()
        if not self.__sklearn_is_fitted__():
            raise not_fitted(self)
        return model

    def _found(self) -> Any:
        fitted = model_of(self) is not self and self.__sklearn_is_fitted__()
        return self.model_._found() if fitted else None


def _addressed(pipeline: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of fit with the name of the last step, as scikit-learn wants them without metadata routing."""
    from sklearn import get_config

    if get_config()["enable_metadata_routing"]:
        return params
    last = pipeline.steps[-1][0]
    return {name if "__" in name else f"{last}__{name}": value for name, value in params.items() if value is not None}


def as_pipeline(model: Any) -> Any:
    """Return a pipeline of scikit-learn as one of ours, with the same steps; another estimator as it is."""
    if not is_pipeline(model) or isinstance(model, Pipeline):
        return model
    return Pipeline(model.steps, **{k: v for k, v in model.get_params(deep=False).items() if k != "steps"})


def unfolded(model: Any) -> Any:
    """Return ``model_`` of a pipeline as a pipeline of its transformers and the model; another one as it is."""
    transformers = getattr(model, "__dict__", {}).get("transformers_")
    if not transformers:
        return model
    last = object.__new__(type(model))
    last.__dict__ |= {name: value for name, value in model.__dict__.items() if name != "transformers_"}
    return make_pipeline(*transformers, last)


def with_parameters(model: Any, **parameters: Any) -> Any:
    """Return an unfitted copy of a model, or of a pipeline, whose model has these arguments; or the model inside it."""
    last = f"{model.steps[-1][0]}__" if is_pipeline(model) else ""
    known = model.get_params()
    inside = {name for name in parameters if last + name not in known and f"{last}model__{name}" in known}
    named = {f"{last}{'model__' if name in inside else ''}{name}": value for name, value in parameters.items()}
    return clone(model).set_params(**named)


def fit_arguments(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return those of the given anchors, environments, weights and offset that the model takes in its fit."""
    known = signature(model_of(model).fit).parameters
    return {name: value for name, value in given.items() if name not in ("X", "y") and name in known}


def make_pipeline(*steps: object, memory: object = None, verbose: bool = False) -> Pipeline:
    """Return a pipeline of these steps, named by their classes in lower case.

    Parameters
    ----------
    *steps : estimators
        Transformers, and last a model.
    memory, verbose : optional
        As for ``sklearn.pipeline.make_pipeline``.

    Returns
    -------
    Pipeline

    See Also
    --------
    anchortm.Pipeline : takes names for the steps

    Examples
    --------
    >>> import anchortm as atm
    >>> from sklearn.impute import SimpleImputer
    >>> data = atm.datasets.load_boston_housing2()
    >>> X = data[["rm", "lstat"]].copy()
    >>> X.loc[::50, "rm"] = None  # some values are missing
    >>> pipeline = atm.make_pipeline(SimpleImputer(), atm.NormalLinear(xi=1.0)).fit(X, data.cmedv, anchors=data.town)
    >>> pipeline.nll(X[:3], data.cmedv[:3]).round(2)
    array([3.14, 3.15, 3.03])
    """
    from sklearn.pipeline import make_pipeline as named

    return Pipeline(named(*steps).steps, memory=memory, verbose=verbose)
