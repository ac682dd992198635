"""Strategies: ways to predict the outcomes of an environment that gave no rows to the fit.

A strategy sees the training environments only, and tunes inside them. A new strategy is a class
with a ``name`` and a ``fit`` that takes a ``Training`` and returns something with ``predict_distribution``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anchortm._typing import Array
from anchortm._util.checks import several_xi
from anchortm.exceptions import InputError
from anchortm.models.worst_environment import WorstEnvironment as Worst
from anchortm.newplace.training import Training
from anchortm.selection.paired_choice import check_objective, choose
from anchortm.selection.tuning import Tuning, best_factor

__all__ = [
    "DEFAULT",
    "STRATEGIES",
    "Anchored",
    "EqualEnvironments",
    "MaximumLikelihood",
    "NoCovariates",
    "RandomIntercept",
    "Strategy",
    "Widened",
    "WorstEnvironment",
    "as_strategy",
]

XIS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0)


class Strategy(ABC):
    """A way to predict a new place: the base class of strategies, also of your own.

    Attributes
    ----------
    name : str
        Its name in tables and plots.
    about : str
        What it does, in a few words.
    tunes : bool
        Whether it needs left-out fits inside the training environments; ``fit`` then finds them in ``train.tuning``.

    Examples
    --------
    Another strategy is a class with a name and a ``fit``, which sees the training environments only:

    >>> import anchortm as atm
    >>> class TwiceAsWide(atm.strategies.Strategy):
    ...     name = "twice as wide"
    ...
    ...     def fit(self, train):
    ...         return train.fit().widened(2.0)
    >>> data = atm.datasets.load_wine()
    >>> model, formula = atm.OrdinalRegression(), "rating ~ temp + contact | judge"
    >>> found = atm.compare_strategies(model, formula, data, design="like", strategies=[TwiceAsWide()])
    >>> found.table()[["strategy", "difference"]].round(2)
            strategy  difference
    0           null        0.20
    1             ml        0.00
    2  twice as wide        0.14
    """

    name: ClassVar[str]  # the name in tables and plots
    about: ClassVar[str] = ""
    tunes: ClassVar[bool] = False

    @abstractmethod
    def fit(self, train: Training) -> Any:
        """Return a fitted model for the training environments, with ``predict_distribution(X)`` and ``nll(X, y)``."""

    @property
    def xis(self) -> Sequence[float]:
        """Return the values of xi that the strategy chooses from."""
        return ()


@dataclass(frozen=True)
class NoCovariates(Strategy):
    """The model without covariates: every place is predicted alike. Skill is measured against it.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.strategies.NoCovariates().name
    'null'
    """

    name, about = "null", "the model without covariates"

    def fit(self, train: Training) -> Any:
        """Return the fit without covariates."""
        return _Bare(train.fit(covariates=False))


@dataclass(frozen=True)
class MaximumLikelihood(Strategy):
    """The model fitted by maximum likelihood to all training rows alike; xi = 0.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.strategies.MaximumLikelihood().name
    'ml'
    """

    name, about = "ml", "maximum likelihood"

    def fit(self, train: Training) -> Any:
        """Return the fit by maximum likelihood."""
        return train.fit()


@dataclass(frozen=True)
class EqualEnvironments(Strategy):
    """Maximum likelihood in which all environments have the same weight, whatever their size.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.strategies.EqualEnvironments().name
    'equal'
    """

    name, about = "equal", "maximum likelihood in which all places have the same weight"

    def fit(self, train: Training) -> Any:
        """Return the fit with equal weights of environments."""
        return train.fit(equal=True)


@dataclass(frozen=True)
class Widened(Strategy):
    """Maximum likelihood with a spread that is tuned on left-out environments; the location stays.

    This is the control for anchoring: a gain that one number brings is not due to anchoring.

    Parameters
    ----------
    objective : {"mean", "worst"} or float
        What the factor of the spread minimises over left-out environments; a number is a quantile.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.strategies.Widened("mean")
    Widened(objective='mean')
    """

    objective: str | float = 0.9
    tunes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_objective(self.objective)

    name, about = "widened", "maximum likelihood with a tuned spread"

    def fit(self, train: Training) -> Any:
        """Return the fit by maximum likelihood with the tuned spread."""
        tuning = _tuning(train)
        factor = best_factor(tuning, 0, _level(self, tuning), tuning.ranked(train.min_rows))
        return train.fit().widened(factor)


@dataclass(frozen=True)
class Anchored(Strategy):
    """The anchored model, at a given xi or at one that is chosen inside the training environments.

    Parameters
    ----------
    xi : float, optional
        Strength of the penalty; by default it is chosen.
    choose : sequence of float, optional
        Values to choose from; by default 0, 0.3, 1, 3, 10 and 30.
    objective : {"mean", "worst"} or float
        What is minimised over left-out environments; a number is a quantile. If the outermost environments are left
        out, the mean over these folds is minimised instead.
    spread : bool
        Whether to tune the spread as well.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.strategies.Anchored(10.0).name, atm.strategies.Anchored(spread=True).name
    ('anchored(10)', 'anchored+spread')
    """

    xi: float | None = None
    choose: Sequence[float] | None = None
    objective: str | float = 0.9
    spread: bool = False

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.xi is not None and self.choose is not None:
            raise InputError("give either xi, which is then fixed, or choose, the values to choose from")
        several_xi([0.0, *(XIS if self.choose is None else self.choose), *([] if self.xi is None else [self.xi])])

    @property
    def tunes(self) -> bool:  # type: ignore[override]
        """Return whether anything is tuned."""
        return self.xi is None or self.spread

    @property
    def xis(self) -> Sequence[float]:
        """Return the values of xi that the strategy, and the verdict on a place further out, choose from."""
        if self.xi is not None:
            return (0.0, self.xi) if self.spread or math.isfinite(self.xi) else ()
        return tuple(dict.fromkeys([0.0, *sorted(map(float, XIS if self.choose is None else self.choose))]))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name in tables and plots."""
        return "anchored" + ("" if self.xi is None else f"({self.xi:g})") + ("+spread" if self.spread else "")

    @property
    def about(self) -> str:  # type: ignore[override]
        """Return what the strategy does."""
        xi = "a tuned xi" if self.xi is None else f"xi = {self.xi:g}"
        return f"the anchored model with {xi}" + (" and a tuned spread" if self.spread else "")

    def fit(self, train: Training) -> Any:
        """Return the anchored fit at the given or the chosen xi."""
        if self.xi is not None and not self.spread:
            return train.fit(self.xi)
        tuning = _tuning(train)
        level, ranked = _level(self, tuning), tuning.ranked(train.min_rows)
        numbers = [tuning.xis.index(xi) for xi in self.xis]
        if self.xi is not None:
            return train.fit(self.xi).widened(best_factor(tuning, numbers[-1], level, ranked))
        if not self.spread:
            losses = np.array([tuning.losses(k) for k in numbers])
            if tuning.design == "further":  # folds overlap, so that differences over them have no standard error
                return train.fit(self.xis[_smallest(losses.mean(axis=-1))])
            return train.fit(self.xis[choose(losses, ranked, level).taken])
        found = [best_factor(tuning, k, level, ranked, value=True) for k in numbers]
        at = _smallest(np.array([value for _, value in found]))
        return train.fit(self.xis[at]).widened(found[at][0])


@dataclass(frozen=True)
class RandomIntercept(Strategy):
    """The model with a random intercept for each environment, fitted by maximum likelihood.

    A row of a new place has an intercept that is not known: its distribution is the average over the normal
    distribution of the intercepts. The nll is that of rows one by one.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> found = atm.compare_strategies(
    ...     atm.OrdinalRegression(), "rating ~ temp + contact | judge", data, design="like",
    ...     strategies=["random-intercept"],
    ... )
    >>> found.table()[["strategy", "mean"]].round(3)
               strategy   mean
    0              null  0.000
    1                ml -0.198
    2  random-intercept -0.202
    """

    name, about = "random-intercept", "a random intercept for each place"

    def fit(self, train: Training) -> Any:
        """Return the fit with random intercepts."""
        return _Marginal(train.fit_random_intercept())


@dataclass(frozen=True)
class WorstEnvironment(Strategy):
    """The model whose worst training environment is as good as possible; see ``anchortm.WorstEnvironment``.

    Parameters
    ----------
    risk : {"worst", "cvar"}
        The loss of the worst environment, or the mean loss of the worst ``share`` of them.
    share : float, optional
        For "cvar": the share.
    reference : {"own-shift", "null", None}
        What the loss of an environment is compared with.
    min_rows : int, optional
        Environments with fewer rows are taken together; by default those that the comparison counts as small.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.strategies.WorstEnvironment("cvar", 0.25).name
    'worst(cvar 0.25)'
    """

    risk: str = "worst"
    share: float | None = None
    reference: str | None = "own-shift"
    min_rows: int | None = None

    def __post_init__(self) -> None:
        self._around(None, 1).case()

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name in tables and plots."""
        own = [f"cvar {self.share:g}"] if self.risk == "cvar" else []
        own += [] if self.reference == "own-shift" else [f"reference {self.reference}"]
        return "worst" + (f"({', '.join(own)})" if own else "")

    @property
    def about(self) -> str:  # type: ignore[override]
        """Return what the strategy does."""
        what = "the worst environment" if self.risk == "worst" else f"the worst {100.0 * float(self.share or 0):g} %"
        return f"the smallest loss of {what}" + ("" if self.reference is None else f", relative to {self.reference}")

    def _around(self, model: Any, min_rows: int) -> Any:
        given = self.risk, self.share, self.reference
        return Worst(model, *given, min_rows=min_rows if self.min_rows is None else self.min_rows)  # type: ignore[arg-type]

    def fit(self, train: Training) -> Any:
        """Return the fit whose worst environment is as good as possible."""
        return train.fit_worst(self._around(train.given.model, train.min_rows))


def _tuning(train: Training) -> Tuning:
    if isinstance(train.tuning, str):
        raise InputError(f"nothing can be tuned: {train.tuning}")
    return train.tuning


def _level(strategy: Any, tuning: Tuning) -> float | None:
    """Return the quantile to minimise; over folds of extremes it is the mean."""
    return None if tuning.design == "further" else check_objective(strategy.objective)


def _smallest(values: Array) -> int:
    return int(np.nanargmin(values)) if np.isfinite(values).any() else 0


class _Bare:
    """A model without covariates that is asked with covariates, which it ignores."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict_distribution(self, X: Any, **options: Any) -> Any:
        if X is not None:
            options["n_rows"] = len(X.matrix) if hasattr(X, "matrix") else len(X)
        return self._model.predict_distribution(None, **options)

    def nll(self, X: Any, y: Any, **options: Any) -> Any:
        return self._model.nll(None, y, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _Marginal:
    """A model with random effects that predicts rows of new clusters, and scores them one by one."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict_distribution(self, X: Any, **options: Any) -> Any:
        return self._model.predict_distribution(X, **options)


STRATEGIES: dict[str, Strategy] = {
    "null": NoCovariates(),
    "ml": MaximumLikelihood(),
    "equal": EqualEnvironments(),
    "widened": Widened(),
    "anchored": Anchored(),
    "anchored+spread": Anchored(spread=True),
    "random-intercept": RandomIntercept(),
    "worst": WorstEnvironment(),
}
DEFAULT = ("null", "ml", "equal", "widened", "anchored", "anchored+spread")


def as_strategy(given: Any) -> Strategy:
    """Return a strategy, given as an object or by its name."""
    if isinstance(given, Strategy):
        return given
    if isinstance(given, str) and given in STRATEGIES:
        return STRATEGIES[given]
    raise InputError(
        f"{given!r} is not a strategy: name one of {', '.join(STRATEGIES)}, or pass an object such as Anchored(10.0) "
        "or Regressor(estimator)"
    )
