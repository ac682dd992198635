"""What the pictures need of a result. Results are defined further down the house, so pictures name their parts only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "Band",
    "Boosted",
    "Draws",
    "LeftOut",
    "Model",
    "NetPath",
    "NetSearch",
    "Panels",
    "Path",
    "Predicted",
    "XiSearch",
]

# axes for several panels
Panels: TypeAlias = Union["Axes", Sequence["Axes"], NDArray[np.object_], None]


class Predicted(Protocol):
    """Predicted distributions of rows: a ``Distribution``."""

    def __len__(self) -> int: ...

    def sf(self, y: ArrayLike, /) -> Array:
        """Return P(Y > y), a row for each row."""


class Model(Protocol):
    """A model that was fitted by a formula."""

    @property
    def formula_(self) -> Any:
        """The formula, which reads tables."""

    def predict_distribution(self, X: Any, /) -> Any:
        """Return the predicted distribution of each row."""


class Path(Protocol):
    """Fits along xi: an ``AnchorPath``."""

    @property
    def xis(self) -> Array:
        """Values of xi."""

    @property
    def coefs(self) -> Array:
        """Coefficients, one row per xi."""

    @property
    def coef_names(self) -> Sequence[str]:
        """Names of the coefficients."""

    @property
    def models(self) -> Sequence[Any]:
        """Fitted models, one per xi."""


class NetPath(Protocol):
    """Fits along lambda and xi: an ``ElasticNetPath``."""

    @property
    def xis(self) -> Array:
        """Values of xi."""

    @property
    def lambdas(self) -> Array:
        """Values of lambda."""

    @property
    def coefs(self) -> Array:
        """Coefficients by lambda, xi and covariate."""

    @property
    def coef_names(self) -> Sequence[str]:
        """Names of the coefficients."""


class NetSearch(Protocol):
    """A fitted search over a grid: ``ElasticNetCV`` or ``SmoothSearchCV``."""

    objective: str | float
    rule: str
    results_: pd.DataFrame
    best_xi_: float

    @property
    def loeo_(self) -> LeftOut:
        """Losses of left-out environments."""


class XiSearch(Protocol):
    """A fitted search over xi: ``XiSearchCV``."""

    objective: str | float
    rule: str
    design: str
    results_: pd.DataFrame
    best_xi_: float

    @property
    def loeo_(self) -> LeftOut:
        """Losses of left-out environments."""


class Draws(Protocol):
    """Parameters of fits to resampled data: a ``Bootstrap``."""

    @property
    def draws(self) -> Array:
        """Parameters, one row per fit."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the parameters."""

    @property
    def n_baseline(self) -> int:
        """How many of them are of the baseline, which come first."""

    def frame(self, level: float, /) -> pd.DataFrame:
        """Return estimate, lower and upper of each parameter."""


class LeftOut(Protocol):
    """Losses of left-out environments: a ``LeaveOneEnvironmentOut``."""

    @property
    def environment_name(self) -> str | None:
        """What the column of environments is called."""

    def frame(self) -> pd.DataFrame:
        """Return one row per environment and xi."""


class Boosted(Protocol):
    """A boosted model."""

    @property
    def loss_history_(self) -> pd.DataFrame:
        """Loss after each round."""


class Band(Protocol):
    """A ``ConfidenceBand``."""

    @property
    def of(self) -> str:
        """Function that the band is for: cdf, sf or ppf."""

    @property
    def at(self) -> NDArray[Any]:
        """Points at which it is evaluated."""

    @property
    def estimate(self) -> NDArray[Any]:
        """Estimates, one row per distribution."""

    @property
    def lower(self) -> NDArray[Any]:
        """Lower ends."""

    @property
    def upper(self) -> NDArray[Any]:
        """Upper ends."""

    @property
    def simultaneous(self) -> bool:
        """Whether the band holds for all points together."""

    @property
    def level(self) -> float:
        """Confidence level."""

    @property
    def steps(self) -> bool:
        """Whether the curves are constant between the points."""

    @property
    def labels(self) -> Any:
        """Labels of the rows, a pandas index or None."""
