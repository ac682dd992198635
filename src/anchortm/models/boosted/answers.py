"""What a boosted model answers: predictions through the model inside, with f as its offset."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from anchortm._typing import Covariates, Numbers, Outcome
from anchortm._util.checks import check_weights, finite_numbers
from anchortm._util.estimators import BaseEstimator
from anchortm._util.frames import aligned, native
from anchortm.bases import Basis
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError, InputTypeError, UnavailableError
from anchortm.inference.summary import Summary
from anchortm.inputs.response import Response
from anchortm.links import Link
from anchortm.models.attributes import Found
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.describe import describe
from anchortm.models.boosted.result import BoostedResult
from anchortm.models.boosted.trees import Tree
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.extrapolation import extrapolation
from anchortm.predict.new_rows import NewRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BoostedAnswers", "NotForBoostedError"]

Array = NDArray[np.float64]
T = TypeVar("T")


INSTEAD = (
    "there are no standard errors or tests of a boosted f, and no penalties to choose but xi; compare fits by "
    "leave_one_environment_out, or predict_distribution at two values of a covariate, or take a linear model with "
    "splines"
)


class NotForBoostedError(InputTypeError, AttributeError):
    """Raised where what the other models answer is asked of a boosted one; for ``hasattr`` it is not there."""


class OfBoosting(Found[T]):
    """A fitted attribute that the result of boosting holds."""

    def _result(self, model: Any) -> Any:
        return model._fitted()


class OfModel(Found[T]):
    """A fitted attribute of the model inside, under the same name."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name, self.path = name, ("model_", name)

    def _result(self, model: Any) -> Any:
        model._fitted()
        return model


class BoostedAnswers:
    """The answers of a fitted boosted model."""

    model: TransformationModel
    learner: str
    model_: TransformationModel  # the fitted model inside
    boosted_: BoostedResult
    xi_ = OfModel[float]()
    loss_ = OfModel[float]()
    loglik_ = OfModel[float]()
    penalty_ = OfModel[float]()
    kkt_ = OfModel[float]()
    min_eigenvalue_ = OfModel[float]()
    converged_ = OfModel[bool]()
    convexity_ = OfModel[str]()
    warnings_ = OfModel[list[str]]()
    baseline_ = OfModel[Array]()
    link_ = OfModel[Link]()
    basis_ = OfModel[Basis]()
    classes_ = OfModel[NDArray[Any]]()
    support_ = OfModel[tuple[float, float]]()
    outcome_range_ = OfModel[tuple[float, float]]()
    row_kinds_ = OfModel[dict[str, int]]()
    n_rows_ = OfModel[int]()
    n_total_ = OfModel[float]()

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    trees_ = OfBoosting[list[Tree]]("shape", "trees")
    coef_ = OfBoosting[Array]("shape", "coef")
    n_rounds_ = OfBoosting[int]("n_rounds")
    coef_names_ = OfBoosting[list[str]]("coef_names")
    held_out_ = OfBoosting[list[Any]]("held_out")
    feature_importances_ = OfBoosting[Array]("importances")
    covariate_ranges_ = OfBoosting[Array]("covariate_ranges")
    n_features_in_ = OfBoosting[int]("n_features_in")
    refit_ = OfBoosting[dict[str, Any]]("refit")

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Return the names of the columns of X, if it had names."""
        columns = self._fitted().columns
        if columns is None:
            raise UnavailableError("X had no names")
        return np.array(columns, dtype=object)

    def _fitted(self) -> BoostedResult:
        """Return the result of boosting."""
        if "model_" not in self.__dict__:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
        return self.boosted_

    def _shown(self) -> FitResult:
        """Return the result of the model inside, with the covariates of the boosted model."""
        boosted = self._fitted()
        return replace(
            self.model_.result_,
            coef=boosted.shape.coef,
            coef_names=boosted.coef_names,
            columns=boosted.columns,
            n_features_in=boosted.n_features_in,
            covariate_ranges=boosted.covariate_ranges,
            had_offset=boosted.had_offset,
        )

    @property
    def new_rows_(self) -> NewRows:
        """Return what turns new rows into the numbers that the model needs."""
        result = self._shown()
        spec = self.model_.specification().at(model=type(self).__name__, anchor_names=self.model.anchor_names)
        return NewRows(spec, result, self.__dict__.get("formula_"))

    @property
    def loss_history_(self) -> pd.DataFrame:
        """Return the loss and its parts after each round, and what was watched while environments were held out."""
        import pandas as pd

        xi = self._shown().xi
        rows = [{"loss": s.loss, "nll": s.loss - xi * s.penalty, "penalty": s.penalty} for s in self.boosted_.stages]
        table = pd.DataFrame(rows).reindex(range(max(len(rows), self.boosted_.curve.size)))
        if self.boosted_.curve.size:
            table["held_out"] = pd.Series(self.boosted_.curve)
        return table.rename_axis("round")

    if not TYPE_CHECKING:  # a typo is an error to type checkers

        def __getattr__(self, name: str) -> Any:
            if name == "new_rows_":  # a property that found no fit
                self._fitted()
            if hasattr(TransformationModel, name) and ("model_" in self.__dict__ or not name.endswith("_")):
                raise NotForBoostedError(f"{type(self).__name__} has no {name}: {INSTEAD}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _ask(self, what: str, X: Any, offset: Any, *y: Any, **options: Any) -> Any:
        """Return the answer of the fitted model, with f as its offset."""
        aligned(X=X, offset=offset)
        rows = self.new_rows_
        if X is None:
            raise InputError("X is None: a boosted model predicts from covariates, pass those of the rows")
        design, offset = rows.design(native(X)), rows.offset(X, offset)
        f = self.boosted_.shape.f(np.asarray(design.matrix))
        if y:
            y = (self._response(X, y[0], f.size),)
        if offset is not None:
            f = f + finite_numbers(offset, f.size, "offset")
        return getattr(self.model_, what)(design if self.boosted_.shape.linear else None, *y, offset=f, **options)

    def _response(self, X: Any, y: Any, n: int) -> Response:
        """Return the outcome of n rows, as given or from the table that has it."""
        aligned(X=X, y=y)
        rows = self.new_rows_
        if y is None and rows.formula is None:
            raise InputError("y is None: pass the outcome of the rows")
        response = rows.response(X, native(y))
        if len(response) != n:
            raise InputError(f"X has {n} rows, but y has {len(response)}: pass the same rows of both")
        return response

    def predict_distribution(
        self, X: Covariates, *, offset: Numbers | None = None, n_rows: int | None = None
    ) -> PredictedDistribution:
        """Return the predicted distribution of each row; ``n_rows``, of models without X, changes nothing here.

        See Also
        --------
        anchortm.predict.PredictedDistribution : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.ProportionalHazards(order=3), n_rounds=20)
        >>> model.predict_distribution(data[:2]).sf([100.0, 300.0]).round(2)
        array([[0.93, 0.74],
               [0.89, 0.6 ]])
        """
        return self._ask("predict_distribution", X, offset)  # type: ignore[no-any-return]

    def predict(self, X: Covariates, *, offset: Numbers | None = None) -> Any:
        """Return the conditional median, or the most probable class."""
        return self._ask("predict", X, offset)

    @available_if(  # type: ignore[untyped-decorator]
        lambda self: hasattr(self.model, "predict_proba")
    )
    def predict_proba(self, X: Covariates, *, offset: Numbers | None = None) -> Array:
        """Return the probability of each class, one row for each row of X."""
        return np.asarray(self._ask("predict_proba", X, offset))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        base = get_tags(self.model) if isinstance(self.model, BaseEstimator) else tags
        tags.estimator_type, tags.target_tags = base.estimator_type, base.target_tags
        tags.regressor_tags, tags.classifier_tags = base.regressor_tags, base.classifier_tags
        return tags

    def nll(self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None) -> Array:
        """Return the negative log-likelihood of each row; after ``from_formula`` X may hold the outcome too."""
        return np.asarray(self._ask("nll", X, offset, y))

    def residuals(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, which: str = "shift"
    ) -> Array:
        """Return the score residual of each row: the derivative of its log-likelihood in alpha at F(h - alpha).

        With ``which="scale"`` that of the scale, as for the other models.
        """
        return np.asarray(self._ask("residuals", X, offset, y, which=which))

    def score(
        self,
        X: Covariates,
        y: Outcome | None = None,
        sample_weight: Numbers | None = None,
        *,
        offset: Numbers | None = None,
    ) -> float:
        """Return the mean log-likelihood of the rows."""
        aligned(X=X, y=y, sample_weight=sample_weight)
        nll = self.nll(X, y, offset=offset)
        return float(-np.average(nll, weights=check_weights(sample_weight, nll.size)))

    def extrapolation(self, X: Covariates, y: Numbers | None = None) -> pd.DataFrame:
        """Return where predictions for X leave what the fit has seen: there trees are constant.

        See Also
        --------
        anchortm.NormalLinear.extrapolation : the same of a linear model
        """
        return extrapolation(self, X, y)

    def summary(self) -> Summary:
        """Return a table of the fit that prints: facts, and the share of each covariate in what was gained.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> formula = "rating ~ temp + contact | judge"
        >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.OrdinalRegression(), xi=1.0, n_rounds=30)
        >>> model.summary().frame().round(2)
                        importance
        covariate
        temp[T.warm]          0.71
        contact[T.yes]        0.29
        """
        return describe(self)
