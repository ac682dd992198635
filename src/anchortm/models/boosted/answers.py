"""Methods of fitted boosted models: predictions come from the inner model with f as its offset."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from anchortm._typing import Covariates, Numbers, Outcome, Place
from anchortm._util.checks import check_weights
from anchortm._util.estimators import BaseEstimator
from anchortm._util.frames import aligned, native
from anchortm.bases import Basis
from anchortm.engine.place_variance import PlaceVariance
from anchortm.engine.recalibration.record import Recalibration
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError, InputTypeError, UnavailableError
from anchortm.inference.summary import Summary
from anchortm.inputs import parts
from anchortm.inputs.formula import Formula
from anchortm.inputs.judgement import OnBadRows, Unknown
from anchortm.inputs.response import Response
from anchortm.links import Link
from anchortm.models.attributes import Found, not_fitted
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.describe import describe, refit_record
from anchortm.models.boosted.result import BoostedResult
from anchortm.models.boosted.trees import Tree
from anchortm.models.new_places import AtPlaces
from anchortm.models.quantiles import Quantiles
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.extrapolation import extrapolation
from anchortm.predict.fitted import NOT_AT_HAND
from anchortm.predict.marked import MarkedDistribution
from anchortm.predict.new_rows import NewRows
from anchortm.predict.placed_rows import check_place

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BoostedAnswers", "NotForBoostedError"]

Array = NDArray[np.float64]
T = TypeVar("T")


INSTEAD = (
    "a boosted f has no parameters to test, and xi is its only penalty; compare fits by leave_one_environment_out, "
    "compare predict_distribution at two values of a covariate, or use a linear model with splines"
)


BY_COVARIANCE = ("covariance", "standard_errors", "intervals", "varying_effects")


class NotForBoostedError(InputTypeError, AttributeError):
    """Raised for a method of the other models that boosted models do not have; ``hasattr`` returns False."""


class OfBoosting(Found[T]):
    """A fitted attribute that reads the result of boosting."""

    def _result(self, model: Any) -> Any:
        return model._fitted()


class OfModel(Found[T]):
    """A fitted attribute that reads the attribute of the same name of the inner model."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name, self.path = name, ("model_", name)

    def _result(self, model: Any) -> Any:
        model._fitted()
        return model


class BoostedAnswers(AtPlaces, Quantiles):
    """The methods of a fitted boosted model."""

    model: TransformationModel
    learner: str
    model_: TransformationModel  # the fitted inner model
    place_variance: bool
    _measured_places: Callable[[], PlaceVariance]
    boosted_: BoostedResult
    xi_ = OfModel[float]()
    loss_ = OfModel[float]()
    loglik_ = OfModel[float]()
    penalty_ = OfModel[float]()
    kkt_ = OfModel[float]()
    min_eigenvalue_ = OfModel[float]()
    converged_ = OfModel[bool]()
    lower_minima_ = OfModel[list[float]]()
    convexity_ = OfModel[str]()
    warnings_ = OfModel[list[str]]()
    baseline_ = OfModel[Array]()
    baselines_ = OfModel["pd.DataFrame"]()
    link_ = OfModel[Link]()
    basis_ = OfModel[Basis]()
    classes_ = OfModel[NDArray[Any]]()
    support_ = OfModel[tuple[float, float]]()
    outcome_range_ = OfModel[tuple[float, float]]()
    outcome_name_ = OfModel[str]()
    row_kinds_ = OfModel[dict[str, int]]()
    n_rows_ = OfModel[int]()
    n_total_ = OfModel[float]()
    n_missing_ = OfModel[int]()
    missing_ = OfModel[dict[str, int]]()

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
    def recalibration_(self) -> Recalibration:
        """Return what ``recalibrate`` or ``refit`` found at a new place."""
        boosted, inner = self._fitted(), self.model_.result_
        if inner.recalibration is not None:
            return inner.recalibration
        if boosted.refit is None:
            raise UnavailableError(f"this fit of {type(self).__name__} does not have recalibration_")
        return refit_record(boosted.refit, inner)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Return the names of the columns of X, if X had names."""
        columns = self._fitted().columns
        if columns is None:
            raise UnavailableError("the columns of X had no names in the fit")
        return np.array(columns, dtype=object)

    def _fitted(self) -> BoostedResult:
        """Return the result of boosting."""
        if "model_" not in self.__dict__:
            raise not_fitted(self)
        return self.boosted_

    def _shown(self) -> FitResult:
        """Return the result of the inner model, with the covariates of the boosted model."""
        boosted = self._fitted()
        result = self.model_.result_
        corners = result.corners
        return replace(
            result,
            corners=None if corners is None else replace(corners, covariates=tuple(boosted.covariates)),
            coef=boosted.shape.coef,
            coef_names=boosted.coef_names,
            columns=boosted.columns,
            n_features_in=boosted.n_features_in,
            covariate_ranges=boosted.covariate_ranges,
            had_offset=boosted.had_offset,
        )

    @property
    def new_rows_(self) -> NewRows:
        """Return the object that turns new rows into linear predictors and outcomes of this model."""
        return self._asked().new_rows_

    def _asked(self) -> TransformationModel:
        """Return the inner model for rows of X: with the covariates of the boosted model, and f in its shift."""
        shape, asked = self._fitted().shape, copy(self.model_)
        spec = self.model_.specification().at(model=type(self).__name__, anchor_names=self.model.anchor_names)
        f = None if shape.learner == "linear" else shape.f  # a linear f has coefficients
        asked.__dict__ |= {
            "_result": self._shown(),
            "_fitted_with": spec,
            "_rows_type": partial(asked._rows_type, f=f),
            "formula_": self.__dict__.get("formula_"),
            "transformers_": self.__dict__.get("transformers_", ()),
        }
        return asked

    @property
    def loss_history_(self) -> pd.DataFrame:
        """Return the loss and its parts after each round, and the held-out loss if environments were held out."""
        import pandas as pd

        xi = self._shown().xi
        rows = [{"loss": s.loss, "nll": s.loss - xi * s.penalty, "penalty": s.penalty} for s in self.boosted_.stages]
        table = pd.DataFrame(rows).reindex(range(max(len(rows), self.boosted_.curve.size)))
        if self.boosted_.curve.size:
            table["held_out"] = pd.Series(self.boosted_.curve)
        return table.rename_axis("round")

    if not TYPE_CHECKING:  # a typo is an error to type checkers

        def __getattr__(self, name: str) -> Any:
            if name in ("new_rows_", "rows_used_"):  # the property failed because there is no fit
                self._fitted()
            if name == "rows_used_":  # or because there are no rows
                raise UnavailableError(NOT_AT_HAND)
            if name in ("place_variance_", "place_sd_", "place_sd_rowwise_"):
                self._measured_places()  # says why the property failed
            if hasattr(TransformationModel, name) and ("model_" in self.__dict__ or not name.endswith("_")):
                why = parts.refusal("boosting", "sandwich") if name in BY_COVARIANCE else INSTEAD
                raise NotForBoostedError(f"{type(self).__name__} has no {name}: {why}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _ask(self, what: str, X: Any, offset: Any, *y: Any, **options: Any) -> Any:
        """Return the answer of the inner model with f in its shift."""
        asked = self._asked()
        if X is None:
            raise InputError("X is None: a boosted model needs covariates; pass those of the rows")
        if check_place(options.get("place", "average")):
            self.place_variance_  # noqa: B018 - the inner model does not know how to compute it
        return getattr(asked, what)(X, *y, offset=offset, **options)

    def _response(self, X: Any, y: Any, n: int) -> Response:
        """Return the outcomes of n rows, from y or from the table X."""
        aligned(X=X, y=y)
        response = self.new_rows_.response(X, native(y))
        if len(response) != n:
            raise InputError(f"X has {n} rows, but y has {len(response)}: pass the same rows of both")
        return response

    @overload
    def predict_distribution(
        self,
        X: Covariates,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: Literal["error"] = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> PredictedDistribution: ...

    @overload
    def predict_distribution(
        self,
        X: Covariates,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: Literal["mark"],
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> MarkedDistribution: ...

    def predict_distribution(
        self,
        X: Covariates,
        *,
        offset: Numbers | None = None,
        n_rows: int | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Any:
        """Return the predicted distribution of each row.

        Parameters
        ----------
        X : array or frame
            Covariates. After ``from_formula``, a table with the columns of the formula.
        offset : array, optional
            Added to f(x). Needed if the model was fitted with an offset.
        n_rows : int, optional
            Not used; other models have it for ``X=None``.
        on_bad_rows : {"error", "mark"}
            What to do if rows cannot be predicted, because values are missing or infinite, or levels or strata are
            unknown to the fit: raise an error, or predict the others and mark these.
        unknown : {"error", "baseline", "rare"}
            How to treat levels of covariates that the fit has not seen: as an error, as the reference level of their
            coding, or as the level that was rarest in the fit. A warning counts the rows.
        place : {"average", "new"}
            Whether rows come from an average place, or from a new one; as for the other models.

        Returns
        -------
        PredictedDistribution
            With ``on_bad_rows="mark"`` a ``MarkedDistribution`` of it.

        See Also
        --------
        anchortm.predict.PredictedDistribution : cdf, quantiles, intervals and more

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
        return self._ask("predict_distribution", X, offset, on_bad_rows=on_bad_rows, unknown=unknown, place=place)

    def predict(
        self,
        X: Covariates,
        *,
        offset: Numbers | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Any:
        """Return the conditional median of each row, or its most probable class.

        Parameters
        ----------
        X, offset, on_bad_rows, unknown, place
            As for ``predict_distribution``.

        Returns
        -------
        array of shape (n,)
        """
        return self._ask("predict", X, offset, on_bad_rows=on_bad_rows, unknown=unknown, place=place)

    @available_if(  # type: ignore[untyped-decorator]
        lambda self: hasattr(self.model, "predict_proba")
    )
    def predict_proba(
        self,
        X: Covariates,
        *,
        offset: Numbers | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
        place: Place = "average",
    ) -> Array:
        """Return the probability of each class, one row for each row of X; arguments as for ``predict``."""
        policy = {"on_bad_rows": on_bad_rows, "unknown": unknown, "place": place}
        return np.asarray(self._ask("predict_proba", X, offset, **policy))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        base = get_tags(self.model) if isinstance(self.model, BaseEstimator) else tags
        tags.estimator_type, tags.target_tags = base.estimator_type, base.target_tags
        tags.regressor_tags, tags.classifier_tags = base.regressor_tags, base.classifier_tags
        tags.input_tags.sparse = base.input_tags.sparse
        return tags

    def nll(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, place: Place = "average"
    ) -> Array:
        """Return the negative log-likelihood of each row.

        Parameters
        ----------
        X, offset, place
            As for ``predict_distribution``.
        y : array, Response or ordered categorical, optional
            Outcomes. After ``from_formula`` they are taken from the table if y is not given.

        Returns
        -------
        array of shape (n,)
        """
        return np.asarray(self._ask("nll", X, offset, y, place=place))

    def residuals(
        self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None, which: str = "shift"
    ) -> Array:
        """Return the score residual of each row.

        Parameters
        ----------
        X, y, offset
            As for ``nll``.
        which : {"shift", "scale"}
            "shift" is the derivative of the log-likelihood of F(h - alpha) with respect to alpha at 0. "scale" is the
            residual of the scale, as for the other models.

        Returns
        -------
        array of shape (n,)
        """
        return np.asarray(self._ask("residuals", X, offset, y, which=which))

    def score(
        self,
        X: Covariates,
        y: Outcome | None = None,
        sample_weight: Numbers | None = None,
        *,
        offset: Numbers | None = None,
        place: Place = "average",
    ) -> float:
        """Return the mean log-likelihood of the rows; arguments as for ``nll``, and weights for the mean."""
        sample_weight = Formula.new_column(X, sample_weight)
        aligned(X=X, y=y, sample_weight=sample_weight)
        nll = self.nll(X, y, offset=offset, place=place)
        return float(-np.average(nll, weights=check_weights(sample_weight, nll.size)))

    def extrapolation(self, X: Covariates, y: Numbers | None = None) -> pd.DataFrame:
        """Return which rows of X, and which outcomes, lie outside the training range, where trees are constant.

        Parameters
        ----------
        X : array or frame
            New rows.
        y : number, or array of n rows, optional
            Outcomes to check, such as predicted quantiles of shape (n, k).

        Returns
        -------
        DataFrame
            The same columns as for a linear model.

        See Also
        --------
        anchortm.NormalLinear.extrapolation : explains the columns
        """
        return extrapolation(self, X, y)

    def summary(self) -> Summary:
        """Return a printable summary of the fit, with the importance of each covariate.

        Returns
        -------
        Summary

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
        self._fitted()
        return describe(self)
