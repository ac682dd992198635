"""Estimators of other packages: what they are fitted to, and how their predictions become distributions.

``KINDS`` lists what is supported. The first kind that an estimator has counts.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from anchortm._messages import warn
from anchortm._typing import Array
from anchortm._util.frames import is_frame, native
from anchortm.bases import LinearBasis, OrdinalBasis
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError, InputTypeError
from anchortm.inputs.design import split_columns, to_design
from anchortm.inputs.missing import rows_taken
from anchortm.inputs.response import Kind, Response
from anchortm.links import get_link
from anchortm.predict import Distribution, PiecewiseDistribution, PredictedDistribution, StepDistribution

__all__ = ["ForeignKind", "ForeignRows", "covariates", "kind_of", "named_errors"]

FOLDS = 5  # in which environments are left out for the errors of a regressor
QUANTILE_PARAMETERS = (  # argument and value that make a regressor one of quantiles, and the argument of the level
    ("loss", "quantile", "quantile"),
    ("loss", "quantile", "alpha"),
    ("objective", "quantile", "alpha"),  # LightGBM
    ("objective", "reg:quantileerror", "quantile_alpha"),  # XGBoost
)

Predict = Callable[[Any, Any], Distribution]  # of covariates and an offset


@dataclass(frozen=True, eq=False)
class ForeignRows:
    """The rows that an estimator is fitted to: ``y`` as given, and the response made of it."""

    X: Any
    y: Any
    response: Response
    anchors: Any
    environments: NDArray[Any]
    weights: Array | None
    offset: Any
    levels: Array

    def numbers(self, estimator: Any) -> Array:
        """Return known outcomes as numbers, classes as their positions; refuse others."""
        response, name = self.response, type(last_step(estimator)).__name__
        self.refuse_offset(name)
        if response.scale == "count":
            raise InputError(
                f"{name} predicts numbers, but the outcomes are counts: use one with predict_distribution, as AnchorGLM"
            )
        if response.scale == "ordinal":
            return np.asarray(response.codes, dtype=np.float64)
        censored = int((response.kind != Kind.EXACT).sum())
        if censored or response.truncated.any():
            raise InputError(
                f"{name} needs known outcomes, but {censored} are censored and {int(response.truncated.sum())} "
                "truncated: use a survival model"
            )
        return np.asarray(response.upper)

    def times(self, estimator: Any) -> tuple[Array, NDArray[np.bool_]]:
        """Return times and whether they are events; refuse other outcomes."""
        response, name = self.response, type(last_step(estimator)).__name__
        self.refuse_offset(name)
        kinds = set(response.kind.tolist())
        if response.scale in ("ordinal", "count") or not kinds <= {Kind.EXACT, Kind.RIGHT} or response.truncated.any():
            raise InputError(
                f"{name} is a survival model: it takes exact and right-censored times without delayed entry, not "
                f"{response!r}"
            )
        event = response.kind == Kind.EXACT
        return np.where(event, response.upper, response.lower), np.asarray(event)

    def refuse_offset(self, name: str) -> None:
        """Refuse an offset, which most estimators do not know."""
        if self.offset is not None:
            raise InputError(f"{name} takes no offset: add it to the covariates, or leave this strategy out")

    def take(self, rows: NDArray[np.intp]) -> tuple[Any, Array | None]:
        """Return covariates and weights of some rows."""
        return rows_taken("X", self.X, self.environments.size, rows), None if self.weights is None else self.weights[
            rows
        ]


@dataclass(frozen=True)
class ForeignKind:
    """A kind of estimators: what they have, in words and as a test of their last step, and how they are fitted."""

    words: str
    has: Callable[[Any], bool]
    fit: Callable[[Any, ForeignRows], Predict]


def kind_of(estimator: Any) -> ForeignKind:
    """Return the kind of an estimator; refuse one that is of none."""
    last = last_step(estimator)
    if not isinstance(estimator, type) and callable(getattr(last, "fit", None)):
        for kind in KINDS:
            if kind.has(last):
                return kind
    supported = "; ".join(kind.words for kind in KINDS)
    what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"{type(last).__name__}"
    raise InputTypeError(f"Regressor takes an unfitted estimator that has fit and one of: {supported}; not {what}")


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Turn errors of an estimator into ours, so that one strategy that fails does not end a comparison."""
    try:
        yield
    except AnchorTMError:
        raise
    except Exception as error:  # whatever the estimator raises
        raise InputError(f"{name} failed, {type(error).__name__}: {error}") from error


def covariates(X: Any, named: list[Any], formula: bool) -> Any:
    """Return X as an estimator sees it: without anchor columns (``named``); of a formula, its design as a frame."""
    import pandas as pd

    if X is None:
        raise InputError("there are no covariates: this strategy needs some")
    X = native(X)
    if formula:
        design = to_design(X)
        return pd.DataFrame(design.matrix, columns=_plain_names(design.names))
    return split_columns(X, named)[0] if named else X


def _plain_names(names: tuple[str, ...]) -> list[str]:
    """Return the names of a formula's columns without brackets and the like, which some packages refuse."""
    plain = [re.sub(r"[^\w.]+", "_", name).strip("_") for name in names]
    return plain if len(set(plain)) == len(plain) and all(plain) else [f"x{j}" for j in range(len(names))]


# pipelines, arguments and weights


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, and any other estimator as it is."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def _transformed(estimator: Any, X: Any) -> Any:
    """Return X as the last step of a fitted pipeline sees it."""
    return estimator[:-1].transform(X) if len(getattr(estimator, "steps", ())) > 1 else X


def _key(estimator: Any, name: str) -> str:
    """Return the name of an argument of the last step."""
    return f"{estimator.steps[-1][0]}__{name}" if hasattr(estimator, "steps") else name


def _copy(estimator: Any) -> Any:
    return clone(estimator) if hasattr(estimator, "get_params") else copy.deepcopy(estimator)


def _takes(method: Any, name: str) -> bool:
    """Return whether a method has an argument of this name."""
    try:
        found = signature(method).parameters.get(name)
    except (TypeError, ValueError):
        return False
    return found is not None and found.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _fitted(estimator: Any, X: Any, y: Any, weights: Array | None, **more: Any) -> Any:
    """Return a copy of the estimator, fitted with the weights if it takes any."""
    if weights is not None:
        if _takes(last_step(estimator).fit, "sample_weight"):
            more["sample_weight"] = weights
        else:
            name = type(last_step(estimator)).__name__
            warn(f"{name} takes no sample_weight: it is fitted without weights", AnchorTMWarning)
    made = _copy(estimator)
    made.fit(X, y, **{_key(estimator, name): value for name, value in more.items()})
    return made


# predictions as distributions


def resolution_of(values: Array) -> float:
    """Return the width below which outcomes are not told apart: their unit, but not less than 1/1000 of their range.

    The range is that of the inner 80 %. Without it, an outcome that a law gives a probability of its own would have an
    infinite density.
    """
    gaps = np.diff(np.unique(values))
    low, high = np.quantile(values, [0.1, 0.9])
    least = 1e-3 * max(high - low, 1e-6 * float(np.ptp(values)))
    return float(max(gaps.min(), least)) if gaps.size else 1e-3 * max(1.0, abs(float(values[0])))


def _numbers(values: Any) -> Array:
    """Return predictions as one finite number for each row."""
    found = np.asarray(values, dtype=np.float64)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1:
        raise InputError(f"predictions must be one number for each row, not of shape {found.shape}")
    if not np.isfinite(found).all():
        raise InputError(f"predictions must be finite, but {int((~np.isfinite(found)).sum())} are not")
    return found


def _normal(mean: Array, sd: float | Array) -> PredictedDistribution:
    """Return normal distributions."""
    theta = np.stack(np.broadcast_arrays(0.0, 1.0 / sd), axis=-1)
    return PredictedDistribution(get_link("probit"), LinearBasis(), theta, mean / sd, gain=-1.0)


def _classes(cumulative: Array, levels: tuple[Any, ...], n: int) -> PredictedDistribution:
    """Return distributions over ordered classes; no class is less likely than half of one of n rows."""
    p = np.diff(cumulative, prepend=0.0, append=1.0, axis=1)
    p = np.maximum(p, 0.5 / n)
    upper = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    theta = np.log(upper) - np.log1p(-upper)
    return PredictedDistribution(get_link("logit"), OrdinalBasis(levels), theta, np.zeros(len(theta)))


def _on_the_scale_of(rows: ForeignRows, found: Distribution) -> Distribution:
    """Return a distribution of numbers as it is, or over classes, by rounding, if the outcome has these."""
    levels = rows.response.levels
    if levels is None:
        return found
    return _classes(found.cdf(np.arange(len(levels) - 1) + 0.5), levels, len(rows.response))


# kinds of estimators


def _fit_distribution(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit an estimator that predicts distributions, such as a model of this package."""
    fit, more = last_step(estimator).fit, {}
    for name, value in (("anchors", rows.anchors), ("environments", rows.environments), ("offset", rows.offset)):
        if value is not None and _takes(fit, name):
            more[name] = value
    if "offset" not in more:
        rows.refuse_offset(type(last_step(estimator)).__name__)
    made = _fitted(estimator, rows.X, rows.y, rows.weights, **more)

    def predict(X: Any, offset: Any) -> Distribution:
        options = {} if offset is None else {"offset": offset}
        found = last_step(made).predict_distribution(_transformed(made, X), **options)
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
    made = [
        _fitted(clone(estimator).set_params(**{_key(estimator, argument): float(level)}), rows.X, y, rows.weights)
        for level in rows.levels
    ]
    return _from_quantiles(rows, y, lambda X: np.column_stack([_numbers(one.predict(X)) for one in made]))


def _fit_quantiles(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit an estimator whose predictions take levels, such as a quantile forest."""
    y = rows.numbers(estimator)
    made = _fitted(estimator, rows.X, y, rows.weights)
    levels = rows.levels.tolist()
    return _from_quantiles(rows, y, lambda X: last_step(made).predict(_transformed(made, X), quantiles=levels))


def _from_quantiles(rows: ForeignRows, y: Array, quantiles: Callable[[Any], Any]) -> Predict:
    width = resolution_of(y)

    def predict(X: Any, offset: Any) -> Distribution:
        found = PiecewiseDistribution.from_quantiles(np.asarray(quantiles(X)), rows.levels, width)
        return _on_the_scale_of(rows, found)

    return predict


def _fit_survival(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a survival model: with columns of a frame as lifelines, or with a structured array as scikit-survival."""
    time, event = rows.times(estimator)
    if _takes(last_step(estimator).fit, "duration_col"):
        made, predict = _fit_by_columns(estimator, rows, time, event)
    else:
        y = np.empty(time.size, dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = event, time
        made, predict = _fitted(estimator, rows.X, y, rows.weights), lambda X: X
    return lambda X, offset: _from_curves(
        rows, *_curves(last_step(made).predict_survival_function(_transformed(made, predict(X))))
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
    if rows.weights is not None and _takes(estimator.fit, "weights_col"):
        table, more["weights_col"] = table.assign(**{"(weight)": rows.weights}), "(weight)"
    made = _copy(estimator)
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
    made = _fitted(estimator, rows.X, codes, rows.weights)

    def predict(X: Any, offset: Any) -> Distribution:
        found = np.asarray(last_step(made).predict_proba(_transformed(made, X)))
        return _classes(np.cumsum(found, axis=1)[:, :-1], levels, codes.size)

    return predict


def _fit_deviations(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a regressor that predicts standard deviations, such as a Gaussian process."""
    y = rows.numbers(estimator)
    made = _fitted(estimator, rows.X, y, rows.weights)
    width = resolution_of(y)

    def predict(X: Any, offset: Any) -> Distribution:
        mean, sd = last_step(made).predict(_transformed(made, X), return_std=True)
        return _on_the_scale_of(rows, _normal(_numbers(mean), np.maximum(_numbers(sd), width)))

    return predict


def _fit_point(estimator: Any, rows: ForeignRows) -> Predict:
    """Fit a regressor, and take the standard deviation of its errors from environments that were left out."""
    y = rows.numbers(estimator)
    n, groups = y.size, np.unique(rows.environments, return_inverse=True)[1].ravel()
    if groups.max() == 0:
        raise InputError("the errors of a regressor are those at left-out environments, but training has only one")
    squares = np.empty(n)
    for inside, out in GroupKFold(min(FOLDS, int(groups.max()) + 1)).split(groups, groups=groups):
        X, weights = rows.take(inside)
        squares[out] = (y[out] - _numbers(_fitted(estimator, X, y[inside], weights).predict(rows.take(out)[0]))) ** 2
    sd = max(float(np.sqrt(np.average(squares, weights=rows.weights))), resolution_of(y))
    made = _fitted(estimator, rows.X, y, rows.weights)
    return lambda X, offset: _on_the_scale_of(rows, _normal(_numbers(made.predict(X)), sd))


def _has(name: str) -> Callable[[Any], bool]:
    return lambda last: callable(getattr(last, name, None))


def _predict_takes(name: str) -> Callable[[Any], bool]:
    return lambda last: _takes(getattr(last, "predict", None), name)


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
        lambda last: _has("predict_survival_function")(last) or _takes(last.fit, "duration_col"),
        _fit_survival,
    ),
    ForeignKind("predict_proba(X), for ordinal outcomes", _has("predict_proba"), _fit_classes),
    ForeignKind("predict(X, return_std=True)", _predict_takes("return_std"), _fit_deviations),
    ForeignKind("predict(X)", _has("predict"), _fit_point),
)
