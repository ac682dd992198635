"""A strategy that wraps any regressor or survival model, so that a comparison can include it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anchortm._util.checks import real_numbers
from anchortm.engine.data import drop_empty_classes
from anchortm.engine.specification import named_columns
from anchortm.exceptions import InputError, InputTypeError
from anchortm.newplace.foreign import ForeignRows, covariates, errors_of, last_step
from anchortm.newplace.foreign_kinds import Predict, kind_of
from anchortm.newplace.strategies import Strategy
from anchortm.newplace.training import Training
from anchortm.predict import Distribution

__all__ = ["Regressor"]

LEVELS = (0.05, *(k / 10 for k in range(1, 10)), 0.95)


class Regressor(Strategy):
    """Any regressor or survival model that yields quantiles or a distribution, or only a prediction.

    How it is used depends on what the estimator has; the first match counts:

    - ``predict_distribution(X)``, as all models of this package, also boosted ones: used as it is. The curves of
      ``CoxPH`` have steps, and are read as survival curves.
    - a quantile loss, as ``HistGradientBoostingRegressor(loss="quantile")``, ``GradientBoostingRegressor`` and
      ``QuantileRegressor``: a copy is fitted at each of ``levels``.
    - ``predict(X, quantiles=...)``, as quantile forests: one fit predicts all levels.
    - ``predict_survival_function(X)``, as lifelines and scikit-survival: for exact and right-censored times.
    - ``predict_proba(X)``: classifiers, for ordinal outcomes.
    - ``predict(X, return_std=True)``, as ``BayesianRidge``: normal distributions with these standard deviations.
    - ``predict(X)``: normal distributions. Their standard deviation is that of the errors at environments which are
      left out, in up to 5 groups, of the training rows.

    The last step of a pipeline decides. Covariates are X as it was given, without anchor columns; with a formula they
    are its design matrix, as a frame. Weights go to estimators that take them.

    Parameters
    ----------
    estimator : estimator
        An unfitted estimator, which is copied for each fit.
    name : str, optional
        In tables and plots; by default the name of its class.
    levels : sequence of float
        Levels of the quantiles; by default 0.05, 0.1, 0.2, ..., 0.9, 0.95. Between them the distribution function is a
        straight line, beyond them it is exponential; quantiles that cross are sorted.

    Notes
    -----
    If only some quantiles are known, the nll depends on their levels. It also depends on the width of the window that
    densities are averaged over: the smallest difference between outcomes, but at least 1/1000 of the range of the inner
    80 %. CRPS, coverage and width depend little on the levels if these include 0.05 and 0.95, so prefer them when you
    compare quantile regressors with other models. For ordinal outcomes, predicted numbers are rounded to classes, and
    each class has a probability of at least 1 / (2 n), with n training rows.

    See Also
    --------
    anchortm.compare_strategies : compares strategies
    anchortm.predict.PiecewiseDistribution : what quantiles and survival curves become

    Examples
    --------
    >>> import anchortm as atm
    >>> from sklearn.linear_model import QuantileRegressor
    >>> data = atm.datasets.load_wine()
    >>> strategy = atm.strategies.Regressor(QuantileRegressor(alpha=0.0))
    >>> found = atm.compare_strategies(
    ...     atm.NormalLinear(), "response ~ temp + contact | judge", data, design="like", strategies=[strategy]
    ... )
    >>> frame = found.frame()
    >>> frame.pivot_table(["crps", "coverage", "width"], "strategy", sort=False).rename_axis(None).round(2)
                        crps  coverage  width
    null               11.61      0.85  64.65
    ml                  9.05      0.88  47.71
    QuantileRegressor   9.18      0.88  47.56
    """

    def __init__(self, estimator: Any, name: str | None = None, levels: ArrayLike = LEVELS) -> None:
        kind_of(estimator)  # raises an error if it is not supported
        if name is not None and not isinstance(name, str):
            raise InputTypeError(f"name must be text, not {name!r}")
        at = real_numbers(levels, "levels")
        if at.ndim != 1 or at.size < 2 or not ((at > 0.0) & (at < 1.0)).all() or not (np.diff(at) > 0.0).all():
            raise InputError(f"levels must be at least two increasing numbers between 0 and 1, not {levels!r}")
        self.estimator, self.levels = estimator, at
        self.name = type(last_step(estimator)).__name__ if name is None else name  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"Regressor({self.estimator!r}, name={self.name!r})"

    def fit(self, train: Training) -> Any:
        """Return the estimator fitted to the training rows."""
        named = named_columns(train.given.model.specification().anchor_names, "anchor_names")
        given, data, formula = train.given_rows, train.places.data, train.given.formula is not None
        rows = ForeignRows(
            X=covariates(given["X"], named, formula),
            y=given["y"],
            response=drop_empty_classes(data.response[train.rows])[0],
            anchors=train.environments if given["anchors"] is None else given["anchors"],
            environments=train.environments,
            weights=None if data.weights is None else data.weights[train.rows],
            offset=given["offset"],
            levels=self.levels,
        )
        with errors_of("estimator"):
            return _Predictor(kind_of(self.estimator).fit(self.estimator, rows), (named, formula))


class _Predictor:
    """A fitted estimator that predicts distributions."""

    def __init__(self, predict: Predict, reading: tuple[list[Any], bool]) -> None:
        self._predict, self._reading = predict, reading

    def predict_distribution(self, X: Any, **options: Any) -> Distribution:
        with errors_of("estimator"):
            return self._predict(covariates(X, *self._reading), options)
