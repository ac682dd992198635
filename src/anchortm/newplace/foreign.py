"""Rows as estimators of other packages take them, pipelines, and predictions as distributions."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._messages import warn
from anchortm._typing import Array
from anchortm._util.frames import native
from anchortm.bases import LinearBasis, OrdinalBasis
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError
from anchortm.inputs.design import split_columns, to_design
from anchortm.inputs.missing import rows_taken
from anchortm.inputs.response import Kind, Response
from anchortm.links import get_link
from anchortm.predict import Distribution, PredictedDistribution

__all__ = [
    "ForeignRows",
    "argument_of_last",
    "class_distribution",
    "copied",
    "covariates",
    "errors_of",
    "fitted",
    "last_step",
    "normal_distribution",
    "on_the_scale_of",
    "one_number_each",
    "resolution_of",
    "takes",
    "transformed",
]


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
            raise InputError(f"{name} does not take an offset: add it to the covariates, or leave this strategy out")

    def take(self, rows: NDArray[np.intp]) -> tuple[Any, Array | None]:
        """Return covariates and weights of some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return rows_taken("X", self.X, self.environments.size, rows), weights


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Turn errors that an estimator or a strategy raises into ours, so that they do not end a comparison."""
    try:
        yield
    except AnchorTMError:
        raise
    except Exception as error:  # whatever it raises
        raise InputError(f"the {what} raised {type(error).__name__}: {error}") from error


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


def transformed(estimator: Any, X: Any) -> Any:
    """Return X as the last step of a fitted pipeline sees it."""
    return estimator[:-1].transform(X) if len(getattr(estimator, "steps", ())) > 1 else X


def argument_of_last(estimator: Any, name: str) -> str:
    """Return the name of an argument of the last step."""
    return f"{estimator.steps[-1][0]}__{name}" if hasattr(estimator, "steps") else name


def copied(estimator: Any) -> Any:
    """Return an unfitted copy."""
    return clone(estimator) if hasattr(estimator, "get_params") else copy.deepcopy(estimator)


def takes(method: Any, name: str) -> bool:
    """Return whether a method has an argument of this name."""
    try:
        found = signature(method).parameters.get(name)
    except (TypeError, ValueError):
        return False
    return found is not None and found.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def fitted(estimator: Any, X: Any, y: Any, weights: Array | None, **more: Any) -> Any:
    """Return a copy of the estimator, fitted with the weights if it takes any."""
    if weights is not None:
        if takes(last_step(estimator).fit, "sample_weight"):
            more["sample_weight"] = weights
        else:
            name = type(last_step(estimator)).__name__
            warn(f"{name} does not take sample_weight: it is fitted without weights", AnchorTMWarning)
    made = copied(estimator)
    made.fit(X, y, **{argument_of_last(estimator, name): value for name, value in more.items()})
    return made


# predictions as distributions


def resolution_of(values: Array) -> float:
    """Return the smallest difference between outcomes, but at least 1/1000 of the range of the inner 80 %.

    It is the width of the window of densities: an outcome with a probability of its own has an infinite density.
    """
    gaps = np.diff(np.unique(values))
    low, high = np.quantile(values, [0.1, 0.9])
    least = 1e-3 * max(high - low, 1e-6 * float(np.ptp(values)))
    return float(max(gaps.min(), least)) if gaps.size else 1e-3 * max(1.0, abs(float(values[0])))


def one_number_each(values: Any) -> Array:
    """Return predictions as one finite number for each row."""
    found = np.asarray(values, dtype=np.float64)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1:
        raise InputError(f"predictions must be one number for each row, not of shape {found.shape}")
    if not np.isfinite(found).all():
        raise InputError(f"predictions must be finite, but {int((~np.isfinite(found)).sum())} are not")
    return found


def normal_distribution(mean: Array, sd: float | Array) -> PredictedDistribution:
    """Return normal distributions."""
    theta = np.stack(np.broadcast_arrays(0.0, 1.0 / sd), axis=-1)
    return PredictedDistribution(get_link("probit"), LinearBasis(), theta, mean / sd, gain=-1.0)


def class_distribution(cumulative: Array, levels: tuple[Any, ...], n: int) -> PredictedDistribution:
    """Return distributions over ordered classes; each class has a probability of at least 1 / (2 n)."""
    p = np.diff(cumulative, prepend=0.0, append=1.0, axis=1)
    p = np.maximum(p, 0.5 / n)
    upper = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    theta = np.log(upper) - np.log1p(-upper)
    return PredictedDistribution(get_link("logit"), OrdinalBasis(levels), theta, np.zeros(len(theta)))


def on_the_scale_of(rows: ForeignRows, found: Distribution) -> Distribution:
    """Return the distribution; if the outcome is ordinal, numbers are rounded to positions of classes."""
    levels = rows.response.levels
    if levels is None:
        return found
    return class_distribution(found.cdf(np.arange(len(levels) - 1) + 0.5), levels, len(rows.response))
