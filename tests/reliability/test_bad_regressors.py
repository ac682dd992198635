"""What bad estimators, and outcomes that an estimator cannot use, get in a comparison of strategies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError
from anchortm.strategies import Regressor

N = 60
rng = np.random.default_rng(0)
SITE = np.arange(N) % 4
X = pd.DataFrame({"age": rng.normal(size=N) + SITE, "dose": rng.normal(size=N)})
Y = X.age + rng.normal(size=N)
TIMES = atm.Surv(np.exp(Y / 3), rng.integers(0, 2, N))
LATE = atm.Surv(np.exp(Y / 3) + 1.0, np.ones(N, dtype=int), np.full(N, 0.5))
COUNTS = rng.poisson(2.0, N)
GRADES = pd.Series(pd.Categorical.from_codes(np.digitize(Y, [0.0, 2.0]), ["a", "b", "c"], ordered=True))


class Estimator(BaseEstimator):
    """A regressor whose predictions are what it is given."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def fit(self, X: Any, y: Any) -> Estimator:
        return self

    def predict(self, X: Any) -> Any:
        return self.values(len(X))


class Curves(Estimator):
    """A survival model that returns what it is given."""

    def predict_survival_function(self, X: Any) -> Any:
        return self.values(len(X))


class Laws(Estimator):
    """A model whose distributions are what it is given."""

    def predict_distribution(self, X: Any) -> Any:
        return self.values(len(X))


class Quantiles(Estimator):
    """A quantile forest that returns what it is given."""

    def predict(self, X: Any, quantiles: Any = None) -> Any:
        return self.values(len(X))


MADE: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "nothing": (lambda: Regressor(None), InputTypeError, "has fit and one of: predict_distribution.*not NoneType"),
    "a class": (lambda: Regressor(LinearRegression), InputTypeError, "unfitted estimator.*not the class Linear"),
    "a transformer": (lambda: Regressor(StandardScaler()), InputTypeError, "predict_survival_function.*not Standard"),
    "a text": (lambda: Regressor("ridge"), InputTypeError, "takes an unfitted estimator.*not str"),
    "no name": (lambda: Regressor(LinearRegression(), name=3), InputTypeError, "name must be text, not 3"),
    "falling levels": (lambda: Regressor(QuantileRegressor(), levels=[0.9, 0.1]), InputError, "increasing numbers"),
    "level of 1": (lambda: Regressor(QuantileRegressor(), levels=[0.1, 1.0]), InputError, "between 0 and 1"),
    "one level": (lambda: Regressor(QuantileRegressor(), levels=[0.5]), InputError, "at least two"),
    "words as levels": (lambda: Regressor(QuantileRegressor(), levels=["a", "b"]), InputTypeError, "levels"),
}
# name: (strategy, model, outcome, options, the note)
NOTES: dict[str, tuple[Any, Any, Any, dict[str, Any], str]] = {
    "censored": (
        LinearRegression(),
        atm.ProportionalHazards(),
        TIMES,
        {},
        r"known outcomes, but \d+ are censored.*survival",
    ),
    "censored quantiles": (
        HistGradientBoostingRegressor(loss="quantile"),
        atm.ProportionalHazards(),
        TIMES,
        {},
        "HistGradientBoostingRegressor needs known outcomes.*use a survival model",
    ),
    "truncated": (LinearRegression(), atm.ProportionalHazards(), LATE, {}, "needs known outcomes.*truncated"),
    "delayed entry": (Curves(), atm.ProportionalHazards(), LATE, {}, "without delayed entry"),
    "counts": (
        LinearRegression(),
        atm.CountRegression(),
        COUNTS,
        {},
        "the outcomes are counts: use one with predict_di",
    ),
    "classes as times": (Curves(), atm.OrdinalRegression(), GRADES, {}, "Curves is a survival model"),
    "numbers as classes": (
        LogisticRegression(),
        atm.NormalLinear(),
        Y,
        {},
        "classifier, which needs an ordinal outcome",
    ),
    "offset": (LinearRegression(), atm.NormalLinear(), Y, {"offset": np.ones(N)}, "not take an offset: add it to the"),
    "missing predictions": (
        Estimator(lambda n: np.full(n, np.nan)),
        atm.NormalLinear(),
        Y,
        {},
        "predictions must be finite, but 15 are not",
    ),
    "wrong shape": (
        Estimator(lambda n: np.zeros((n, 2))),
        atm.NormalLinear(),
        Y,
        {},
        r"one number for each row, not of shape \(15, 2\)",
    ),
    "missing quantiles": (Quantiles(lambda n: np.full((n, 11), np.nan)), atm.NormalLinear(), Y, {}, "must be finite"),
    "too few quantiles": (Quantiles(lambda n: np.zeros((n, 3))), atm.NormalLinear(), Y, {}, "there are 11 levels"),
    "no curves": (Curves(lambda n: [1.0] * n), atm.ProportionalHazards(), TIMES, {}, "step functions with x and y"),
    "curves above 1": (
        Curves(lambda n: pd.DataFrame(np.full((2, n), 1.5), index=[1.0, 2.0])),
        atm.ProportionalHazards(),
        TIMES,
        {},
        "probabilities between 0 and 1",
    ),
    "no distribution": (
        Laws(lambda n: np.zeros(n)),
        atm.NormalLinear(),
        Y,
        {},
        "must return a Distribution, not ndarr",
    ),
    "clusters": (KMeans(2, n_init=1), atm.ProportionalHazards(), TIMES, {}, "KMeans needs known outcomes"),
}


@pytest.mark.parametrize("name", MADE)
def test_an_estimator_that_is_none_is_refused_at_once(name: str, tally: Callable[..., None]) -> None:
    make, wanted, message = MADE[name]
    with pytest.raises(AnchorTMError) as caught:
        make()
    assert type(caught.value) is wanted, repr(caught.value)
    assert re.search(message, str(caught.value)), str(caught.value)
    tally("bad input", "other calls refused")


@pytest.mark.parametrize("name", NOTES)
def test_what_an_estimator_cannot_use_is_a_note(name: str, tally: Callable[..., None]) -> None:
    estimator, model, y, options, message = NOTES[name]
    before = X.copy()
    found = atm.compare_strategies(
        model,
        X,
        y,
        environments=SITE,
        design="like",
        strategies=[Regressor(estimator, name="own")],
        progress=False,
        **options,
    )
    own = found.frame().query("strategy == 'own'")
    assert own.nll.isna().all()
    assert all(re.search(message, note) for note in own.note), own.note.unique()
    assert np.isfinite(found.frame().query("strategy == 'ml'").nll).all()
    pd.testing.assert_frame_equal(X, before)
    tally("bad input", "other calls refused")


def test_two_strategies_of_one_name_are_refused() -> None:
    two = [Regressor(LinearRegression()), Regressor(LinearRegression())]
    with pytest.raises(InputError, match="two strategies have the name 'LinearRegression'"):
        atm.compare_strategies(atm.NormalLinear(), X, Y, environments=SITE, strategies=two)
