"""Estimators of other packages: which kinds are supported, and how each is fitted and predicts.

``KINDS`` lists them. The first kind that an estimator has counts. A new kind is a function that fits, and a line there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from anchortm._typing import Array
from anchortm._util.frames import is_frame
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.response import Kind
from anchortm.newplace.foreign import (
    ForeignRows,
    argument_of_last,
    class_distribution,
    copied,
    fitted,
    last_step,
    normal_distribution,
    on_the_scale_of,
    one_number_each,
    resolution_of,
    takes,
    transformed,
)
from anchortm.predict import Distribution, PiecewiseDistribution, StepDistribution

__all__ = ["ForeignKind", "Predict", "kind_of"]

FOLDS = 5  # folds of environments that are left out to find the errors of a regressor
QUANTILE_PARAMETERS = (  # argument and value that make a regressor one of quantiles, and the argument of the level
    ("loss", "quantile", "quantile"),
    ("loss", "quantile", "alpha"),
    ("objective", "quantile", "alpha"),  # LightGBM
    ("objective", "reg:quantileerror", "quantile_alpha"),  # XGBoost
)

Predict = Callable[[Any, Mapping[str, Any]], Distribution]  # takes covariates, and an offset or trials by name


@dataclass(frozen=True)
class ForeignKind:
    """A kind of estimators: what they have, in words and as a test of their last step, and how they are fitted."""

    words: str
    has: Callable[[Any], bool]
    fit: Callable[[Any, ForeignRows], Predict]


def kind_of(estimator: Any) -> ForeignKind:
    """Return the kind of an estimator; raise an error if it is not supported."""
    last = last_step(estimator)
    if not isinstance(estimator, type) and callable(getattr(last, "fit", None)):
        for kind in KINDS:
            if kind.has(last):
                return kind
    supported = "; ".join(kind.words for kind in KINDS)
    what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"{type(last).__name__}"
    raise InputTypeError(f"Regressor takes an unfitted estimator that has fit and one of: {supported}; not {what}")


def _fit_distribution(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit an estimator that predicts distributions, such as a model of this package."""
    fit, more = last_step(estimator).fit, {}
    for name, value in (("anchors", rows.anchors), ("environments", rows.environments), ("offset", rows.offset)):
        if value is not None and takes(fit, name):
            more[name] = value
    if "offset" not in more:
        rows.refuse_offset(type(last_step(estimator)).__name__)
    made = fitted(estimator, rows.X, rows.y, rows.weights, **more)

    def predict(X: Any, options: Mapping[str, Any]) -> Distribution:
        found = last_step(made).predict_distribution(transformed(made, X), **options)
        if isinstance(found, StepDistribution):
            times = found.times()
            return _from_curves(rows, times, found.sf(times))
        if not isinstance(found, Distribution):
            raise InputTypeError(
                f"predict_distribution of {type(last_step(made)).__name__} must return a Distribution, not "
                f"{type(found).__name__}: derive from anchortm.predict.Distribution"
            )
        return found

    return predict


def _quantile_argument(last: Any) -> str | None:
    """Return the argument of a quantile regressor that holds its level; None for other estimators."""
    known = last.get_params(deep=False) if hasattr(last, "get_params") else {}
    if "quantile" in known and "loss" not in known:
        return "quantile"
    for argument, value, level in QUANTILE_PARAMETERS:
        if known.get(argument) == value and (level in known or argument == "objective"):
            return level
    return None


def _fit_levels(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a quantile regressor once at each level."""
    y, argument = rows.numbers(estimator), str(_quantile_argument(last_step(estimator)))
    key = argument_of_last(estimator, argument)
    at_levels = [clone(estimator).set_params(**{key: float(level)}) for level in rows.levels]
    made = [fitted(one, rows.X, y, rows.weights) for one in at_levels]
    return _from_quantiles(rows, y, lambda X: np.column_stack([one_number_each(one.predict(X)) for one in made]))


def _fit_quantiles(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit an estimator whose predictions take levels, such as a quantile forest."""
    y = rows.numbers(estimator)
    made = fitted(estimator, rows.X, y, rows.weights)
    levels = rows.levels.tolist()
    return _from_quantiles(rows, y, lambda X: last_step(made).predict(transformed(made, X), quantiles=levels))


def _from_quantiles(rows: ForeignRows, y: Array, quantiles: Callable[[Any], Any]) -> Predict:
    width = resolution_of(y)

    def predict(X: Any, options: Mapping[str, Any]) -> Distribution:
        found = PiecewiseDistribution.from_quantiles(np.asarray(quantiles(X)), rows.levels, width)
        return on_the_scale_of(rows, found)

    return predict


def _fit_survival(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a survival model: with columns of a frame as lifelines, or with a structured array as scikit-survival."""
    time, event = rows.times(estimator)
    if takes(last_step(estimator).fit, "duration_col"):
        made, shaped = _fit_by_columns(estimator, rows, time, event)
    else:
        y = np.empty(time.size, dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = event, time
        made, shaped = fitted(estimator, rows.X, y, rows.weights), lambda X: X
    return lambda X, options: _from_curves(
        rows, *_curves(last_step(made).predict_survival_function(transformed(made, shaped(X))))
    )


def _fit_by_columns(
    estimator: Any, rows: ForeignRows, time: Array, event: NDArray[np.bool_]
) -> tuple[Any, Callable[[Any], Any]]:
    """Return a model fitted to a frame with columns for time and event, and what makes a frame of new rows."""
    import pandas as pd

    def frame(X: Any) -> Any:
        found = pd.DataFrame(X.to_dict(as_series=False) if not hasattr(X, "iloc") and is_frame(X) else X)
        return found.rename(columns=str).reset_index(drop=True)

    table = frame(rows.X).assign(**{"(time)": time, "(event)": event.astype(int)})
    more = {"duration_col": "(time)", "event_col": "(event)"}
    if rows.weights is not None and takes(estimator.fit, "weights_col"):
        table, more["weights_col"] = table.assign(**{"(weight)": rows.weights}), "(weight)"
    made = copied(estimator)
    made.fit(table, **more)
    return made, frame


def _curves(found: Any) -> tuple[Array, Array]:
    """Return times and survival from a frame with times in its index, or from step functions."""
    if is_frame(found):
        return np.asarray(found.index, dtype=np.float64), np.asarray(found, dtype=np.float64).T
    if not len(found) or not all(hasattr(own, "x") and hasattr(own, "y") for own in found):
        raise InputTypeError(
            "predict_survival_function must return a frame with times in its index, or step functions with x and y, "
            f"not {type(found).__name__}"
        )
    times = np.unique(np.concatenate([np.asarray(own.x, dtype=np.float64) for own in found]))
    curves = []
    for own in found:
        values = getattr(own, "a", 1.0) * np.asarray(own.y, dtype=np.float64) + getattr(own, "b", 0.0)
        curves.append(np.append(1.0, values)[np.searchsorted(own.x, times, side="right")])
    return times, np.array(curves)


def _from_curves(rows: ForeignRows, times: Array, survival: Array) -> Distribution:
    """Return the distributions of survival curves; the hazard is at least half an event in all time at risk."""
    seen = np.where(rows.response.kind == Kind.EXACT, rows.response.upper, rows.response.lower)
    least = 0.5 / float(np.maximum(seen, 0.0).sum())
    return PiecewiseDistribution.from_survival(times, survival, resolution_of(seen), least)


def _fit_classes(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a classifier to the classes of an ordinal outcome."""
    response, name = rows.response, type(last_step(estimator)).__name__
    rows.refuse_offset(name)
    if response.levels is None:
        raise InputError(f"{name} is a classifier, which needs an ordinal outcome, not {response!r}")
    levels, codes = response.levels, response.codes
    made = fitted(estimator, rows.X, codes, rows.weights)

    def predict(X: Any, options: Mapping[str, Any]) -> Distribution:
        found = np.asarray(last_step(made).predict_proba(transformed(made, X)))
        return class_distribution(np.cumsum(found, axis=1)[:, :-1], levels, codes.size)

    return predict


def _fit_deviations(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a regressor that predicts standard deviations, such as a Gaussian process."""
    y = rows.numbers(estimator)
    made = fitted(estimator, rows.X, y, rows.weights)
    width = resolution_of(y)

    def predict(X: Any, options: Mapping[str, Any]) -> Distribution:
        mean, sd = last_step(made).predict(transformed(made, X), return_std=True)
        return on_the_scale_of(rows, normal_distribution(one_number_each(mean), np.maximum(one_number_each(sd), width)))

    return predict


def _fit_point(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a regressor, and take the standard deviation of its errors from environments that were left out."""
    y = rows.numbers(estimator)
    n, groups = y.size, np.unique(rows.environments, return_inverse=True)[1].ravel()
    if groups.max() == 0:
        raise InputError("a regressor needs errors at left-out environments, but training has only one environment")
    squares = np.empty(n)
    for inside, out in GroupKFold(min(FOLDS, int(groups.max()) + 1)).split(groups, groups=groups):
        X, weights = rows.take(inside)
        made = fitted(estimator, X, y[inside], weights)
        squares[out] = (y[out] - one_number_each(made.predict(rows.take(out)[0]))) ** 2
    sd = max(float(np.sqrt(np.average(squares, weights=rows.weights))), resolution_of(y))
    made = fitted(estimator, rows.X, y, rows.weights)
    return lambda X, options: on_the_scale_of(rows, normal_distribution(one_number_each(made.predict(X)), sd))


def _has(name: str) -> Callable[[Any], bool]:
    return lambda last: callable(getattr(last, name, None))


def _predict_takes(name: str) -> Callable[[Any], bool]:
    return lambda last: takes(getattr(last, "predict", None), name)


KINDS = (
    ForeignKind("predict_distribution(X)", _has("predict_distribution"), _fit_distribution),
    ForeignKind(
        'a quantile loss, as HistGradientBoostingRegressor(loss="quantile")',
        lambda last: _has("predict")(last) and _quantile_argument(last) is not None,
        _fit_levels,
    ),
    ForeignKind("predict(X, quantiles=...)", _predict_takes("quantiles"), _fit_quantiles),
    ForeignKind(
        "predict_survival_function(X), as lifelines and scikit-survival",
        lambda last: _has("predict_survival_function")(last) or takes(last.fit, "duration_col"),
        _fit_survival,
    ),
    ForeignKind("predict_proba(X), for ordinal outcomes", _has("predict_proba"), _fit_classes),
    ForeignKind("predict(X, return_std=True)", _predict_takes("return_std"), _fit_deviations),
    ForeignKind("predict(X)", _has("predict"), _fit_point),
)
