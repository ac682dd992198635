"""Linear anchor regression (Rothenhaeusler et al., 2021) in closed form: the L2 competitor of ``NormalLinear``.

The coefficients minimise |(I - P) e|^2 + gamma |P e|^2 with e = y - a - Xb. This partials the anchors out for
gamma = 0, is least squares for gamma = 1, and two-stage least squares in the limit of large gamma.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anchortm._typing import AnyTable, Array, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import check_weights, one_number
from anchortm._util.estimators import BaseEstimator, RegressorMixin
from anchortm._util.frames import aligned, is_frame, native
from anchortm._util.html import EstimatorInNotebook, report
from anchortm.engine.preparation import one_column
from anchortm.engine.rows.projections import Projection, projection
from anchortm.engine.solve.identification import check_covariates
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.anchors import AnchorColumns, anchor_columns
from anchortm.inputs.design import Design, check_columns, to_design
from anchortm.inputs.formula import Formula
from anchortm.inputs.missing import Counts, How, columns_of_inputs, whole_rows
from anchortm.inputs.response import as_response
from anchortm.models.from_formula import FormulaMixin

__all__ = ["L2Data", "L2Regressor", "LinearAnchorRegression", "check_gamma", "l2_data"]

HUGE = 1e12  # from this gamma on, the limit is used


class L2Data:
    """Checked rows of an L2 fit, ordered by the main anchor factor, and their projection."""

    def __init__(
        self,
        design: Design,
        y: Array,
        anchors: Labels | AnchorColumns | None,
        weights: Array | None,
        anchor_intercept: bool,
    ) -> None:
        columns = None if anchors is None else anchor_columns(anchors)
        if columns is not None and len(columns) != y.size:
            raise InputError(f"anchors has {len(columns)} rows, but y has {y.size}")
        order = None if columns is None else columns.order()
        self.order = np.arange(y.size) if order is None else order
        self.X, self.y = design.matrix[self.order], y[self.order]
        self.weights = None if weights is None else weights[self.order]
        self.P: Projection | None = None
        if columns is not None:
            self.P = projection(columns.take(self.order), self.weights, anchor_intercept)

    def project(self, values: Array) -> Array:
        """Return P v for a vector or for each column."""
        if self.P is None:
            return np.zeros_like(values)
        if values.ndim == 1:
            return self.P(values, self.weights)
        return np.column_stack([self.P(column, self.weights) for column in values.T]) if values.size else values


def l2_data(
    X: Covariates,
    y: Outcome,
    anchors: Labels | AnchorColumns | None,
    sample_weight: Numbers | None,
    anchor_intercept: bool,
) -> tuple[Design, L2Data]:
    """Return the design and the checked rows; rows of weight zero are dropped."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None")
    aligned(X=X, y=y, anchors=anchors, sample_weight=sample_weight)
    response = as_response(one_column(native(y)))
    if not (response.lower == response.upper).all() or response.truncated.any():
        raise InputError(
            "this model needs plain numbers as outcomes: use a transformation model for censored or truncated ones"
        )
    values, design = np.array(response.upper), to_design(X, len(response))
    if design.matrix.shape[0] != values.size:
        raise InputError(f"X has {design.matrix.shape[0]} rows, but y has {values.size}")
    if design.matrix.shape[1] == 0:
        raise InputError(f"X has 0 feature(s) (shape={design.matrix.shape}) while a minimum of 1 is required.")
    weights = check_weights(sample_weight, values.size)
    if weights is not None and not weights.all():
        keep = weights > 0.0
        design, values, weights = design._replace(matrix=design.matrix[keep]), values[keep], weights[keep]
        anchors = None if anchors is None else anchor_columns(anchors).subset(keep)
    if values.size == 1:
        raise IdentificationError("n_samples = 1: one row is not enough to fit a model")
    return design, L2Data(design, values, anchors, weights, anchor_intercept)


def check_gamma(gamma: Any, anchors: Any) -> float:
    """Return gamma as a float, or raise."""
    if not one_number(gamma, "gamma") >= 0.0:
        raise InputError(f"gamma must be a number of at least 0 (1 is least squares), not {gamma!r}")
    if anchors is None and gamma != 1.0:
        raise InputError(f"gamma = {gamma:g} needs anchors: pass fit(..., anchors=...), or use gamma=1")
    return float(gamma)


class L2Regressor(EstimatorInNotebook, FormulaMixin, RegressorMixin, BaseEstimator):
    """Base class of the L2 competitors: names of covariates, and checks of new rows against them."""

    missing: How
    n_missing_: int
    missing_: dict[str, int]

    @contextmanager
    def _whole(self, **inputs: Any) -> Iterator[dict[str, Any]]:
        """Yield the inputs without rows that have missing values, and remember these; or list them in an error."""
        aligned(**inputs)
        name = type(self).__name__
        with whole_rows(self.missing, lambda: columns_of_inputs({}, **inputs), name, **inputs) as (rows, missing):
            yield rows
            counts = Counts() if missing is None else missing.counts
            self.n_missing_, self.missing_ = counts.n_missing, dict(counts.columns)

    def _remember(self, design: Design, X: Any) -> None:
        for stale in ("feature_names_in_", "formula_"):
            self.__dict__.pop(stale, None)
        self.coef_names_, self.n_features_in_ = list(design.names), design.matrix.shape[1]
        if design.named and is_frame(X):
            self.feature_names_in_ = np.array(design.names, dtype=object)

    def _new_rows(self, X: Covariates) -> Array:
        check_is_fitted(self, "coef_names_")
        design = to_design(self._covariates(native(X)))
        check_columns(design, self.coef_names_, hasattr(self, "feature_names_in_"), type(self).__name__)
        return np.asarray(design.matrix)

    def score(self, X: Covariates, y: Outcome | None = None, sample_weight: Numbers | None = None) -> float:
        """Return R^2 of the predictions; after a fit by a formula, X may be a table that holds y and the weights."""
        if y is None:
            y = self._outcome_of(X)
        return float(super().score(X, y, Formula.new_column(X, sample_weight)))  # type: ignore[misc]


class LinearAnchorRegression(L2Regressor):
    """Linear regression with squared errors that have weight gamma in the span of the anchors.

    Parameters
    ----------
    gamma : float
        From 0 (anchors partialled out) through 1 (least squares) to ``math.inf`` (two-stage least squares; if the
        anchors do not identify all coefficients, the limit of large gamma).
    fit_intercept : bool
        Whether to fit an intercept.
    anchor_intercept : bool
        Whether the constant belongs to the span of the anchors.
    missing : {"error", "drop"}
        What to do with rows that have missing values: raise an error that lists the columns, or leave the rows out.

    Attributes
    ----------
    coef_, intercept_
    coef_names_ : list of str
    n_missing_, missing_ : int, dict
        Number of rows that ``missing="drop"`` left out, and the number of rows with missing values by column.

    See Also
    --------
    anchortm.NormalLinear : the same model with a predicted distribution

    Notes
    -----
    Equal to ``NormalLinear(xi=(gamma - 1) / 2)`` on the scale of y.

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site, hidden = rng.integers(0, 4, 500), rng.normal(size=500)
    >>> x = rng.normal(size=500) + site + hidden
    >>> y = x + 2 * hidden + rng.normal(size=500)
    >>> fits = [atm.LinearAnchorRegression(g).fit(x[:, None], y, anchors=site) for g in (1, 10, np.inf)]
    >>> [round(float(fit.coef_[0]), 2) for fit in fits]
    [1.63, 1.04, 0.87]
    """

    coef_: Array
    intercept_: float

    def _found(self) -> str | None:
        import pandas as pd

        if "coef_" not in self.__dict__:
            return None
        names = pd.Index(["intercept", *self.coef_names_], name="covariate")
        coefs = pd.DataFrame({"coef": [self.intercept_, *self.coef_]}, index=names)
        return report(f"{type(self).__name__}, gamma = {self.gamma:g}", coefs)

    def __init__(
        self,
        gamma: float = 1.0,
        *,
        fit_intercept: bool = True,
        anchor_intercept: bool = True,
        missing: How = "error",
    ) -> None:
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.anchor_intercept = anchor_intercept
        self.missing = missing

    def fit(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        sample_weight: Numbers | None = None,
    ) -> Self:
        """Fit the coefficients; pass X, y and anchors, or a formula and a table, as to the other models."""
        if isinstance(X, str):
            return self._fit_formula(X, y, anchors, sample_weight=sample_weight)
        with self._whole(X=native(X), y=y, anchors=anchors, sample_weight=sample_weight) as rows:
            return self._fit(**rows)

    def _fit(self, X: Any, y: Any, anchors: Any, sample_weight: Any) -> Self:
        """Fit the coefficients to rows without missing values."""
        gamma = check_gamma(self.gamma, anchors)
        design, data = l2_data(X, y, anchors, sample_weight, self.anchor_intercept)
        if self.fit_intercept:
            check_covariates(data.X, design.names, turned=None)
        centred = self.fit_intercept and (self.anchor_intercept or anchors is None)
        if centred:  # the intercept then makes residuals sum to zero, whatever gamma
            x_mean, y_mean = np.average(data.X, axis=0, weights=data.weights), np.average(data.y, weights=data.weights)
            C, target = data.X - x_mean, data.y - y_mean
        else:
            ones = np.ones((data.y.size, int(self.fit_intercept)))
            C, target = np.hstack([ones, data.X]), data.y
        b = _solve(data, C, target, gamma)
        fitted = copy(self)
        fitted._remember(design, X)
        if centred:
            fitted.coef_, fitted.intercept_ = b, float(y_mean - x_mean @ b)
        else:
            k = int(self.fit_intercept)
            fitted.coef_, fitted.intercept_ = b[k:], float(b[0]) if k else 0.0
        self.__dict__ = fitted.__dict__  # all at once, so that an interrupted fit leaves the model as it was
        return self

    def predict(self, X: Covariates) -> Array:
        """Return the conditional means."""
        return np.asarray(self._new_rows(X) @ self.coef_ + self.intercept_)


def _solve(data: L2Data, C: Array, target: Array, gamma: float) -> Array:
    """Return argmin |(I - P)(target - C b)|^2 + gamma |P (target - C b)|^2."""
    scale = np.sqrt(np.average(C**2, axis=0, weights=data.weights))
    C = C / scale
    PC, Py = data.project(C), data.project(target)
    root = np.ones(1) if data.weights is None else np.sqrt(data.weights)
    inside = root[:, None] * PC, root * Py
    outside = root[:, None] * (C - PC), root * (target - Py)
    # |C| is about sqrt(n) in each column: singular values smaller by 1e-10 are rounding errors
    size = 1e-10 * math.sqrt(float(root @ root) if data.weights is not None else target.size)
    if gamma >= HUGE:
        return _first_then(inside, outside, size) / scale
    if gamma == 0.0:
        return _first_then(outside, inside, size) / scale
    factor = math.sqrt(gamma)
    rows = np.vstack([outside[0], factor * inside[0]])
    b, *_ = np.linalg.lstsq(rows, np.concatenate([outside[1], factor * inside[1]]), rcond=1e-13)
    return np.asarray(b / scale)


def _first_then(first: tuple[Array, Array], then: tuple[Array, Array], size: float) -> Array:
    """Return the least-squares solution of the first problem; the second decides what the first leaves open.

    With the span of the anchors first, this is the limit of large gamma; with its complement first, of small gamma.
    """
    U, values, Vt = np.linalg.svd(first[0], full_matrices=False)
    rank = int((values > size).sum())
    b = Vt[:rank].T @ ((U[:, :rank].T @ first[1]) / values[:rank])
    free = Vt[rank:].T
    if free.shape[1]:
        rest, *_ = np.linalg.lstsq(then[0] @ free, then[1] - then[0] @ b, rcond=1e-13)
        b = b + free @ rest
    return np.asarray(b)
