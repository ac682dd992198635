"""L2 anchor boosting (Buehlmann, 2020): boosting of the anchor loss with any base learner.

The loss of a function f is |(I - P)(y - f)|^2 + gamma |P(y - f)|^2. Each step fits the base learner to the negative
gradient, the pseudo-residuals (I + (gamma - 1) P)(y - f). It then moves along the fit, by ``learning_rate`` times the
length that minimises the loss. For gamma = 1 and a least-squares base learner this length is 1, as in ordinary L2
boosting; for large gamma it keeps the steps from overshooting.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from anchortm._typing import AnyTable, Array, Covariates, Labels, Outcome
from anchortm._util.checks import generator, one_number, whole_number
from anchortm._util.frames import native
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm.competitors.linear import L2Regressor, check_gamma, l2_data
from anchortm.exceptions import InputError
from anchortm.inputs.missing import How

__all__ = ["AnchorBoosting"]


class _LinearAndForest:
    """The base learner of the paper: a linear model, and a random forest for its residuals."""

    def __init__(self, n_trees: int, seed: int, n_jobs: int | None) -> None:
        self.linear = LinearRegression()
        self.forest = RandomForestRegressor(n_trees, min_samples_leaf=5, random_state=seed, n_jobs=n_jobs)

    def fit(self, X: Array, u: Array) -> Self:
        rest = u - self.linear.fit(X, u).predict(X)
        self.forest.fit(X, rest)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.linear.predict(X) + self.forest.predict(X))


class AnchorBoosting(L2Regressor):
    """Boosting of squared errors, with weight gamma in the span of the anchors.

    Parameters
    ----------
    gamma : float
        Weight of the error in the span of the anchors; 1 is plain L2 boosting.
    n_estimators : int
        Number of steps.
    learning_rate : float
        Fraction of the best step taken in each round.
    base : {"linear+forest", "tree", "linear"} or estimator
        Base learner: that of the paper (a linear model and a random forest for its residuals), a small tree, a linear
        model, or any scikit-learn regressor.
    n_trees, max_depth : int
        Number of trees in a forest; depth of a single tree.
    anchor_intercept : bool
        Whether the constant belongs to the span of the anchors.
    n_jobs : int, optional
        Number of processes of the forest.
    random_state : int, optional
        Seed of the forests.
    missing : {"error", "drop"}
        What to do with rows that have missing values: raise an error that lists the columns, or leave the rows out.

    Attributes
    ----------
    n_missing_, missing_ : int, dict
        Number of rows that ``missing="drop"`` left out, and the number of rows with missing values by column.
    losses_ : array
        The anchor loss after each step, relative to the loss before the first.

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site, hidden = rng.integers(0, 4, 500), rng.normal(size=500)
    >>> x = rng.normal(size=500) + site + hidden
    >>> y = np.sin(x) + 2 * hidden + rng.normal(size=500)
    >>> model = atm.AnchorBoosting(7.0, base="tree", n_estimators=100).fit(x[:, None], y, anchors=site)
    >>> model.predict([[0.0], [1.0]]).shape
    (2,)
    """

    start_: float
    learners_: list[Any]
    losses_: Array

    def _found(self) -> str | None:
        if "losses_" not in self.__dict__:
            return None
        facts = {"steps": len(self.learners_), "anchor loss": f"{self.losses_[-1]:.4g} of that before the first step"}
        return report(f"{type(self).__name__}, gamma = {self.gamma:g}", facts)

    def __init__(
        self,
        gamma: float = 1.0,
        n_estimators: int = 50,
        learning_rate: float = 0.1,
        *,
        base: Literal["linear+forest", "tree", "linear"] | Any = "linear+forest",
        n_trees: int = 100,
        max_depth: int = 3,
        anchor_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: int | None = None,
        missing: How = "error",
    ) -> None:
        self.gamma = gamma
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.base = base
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.anchor_intercept = anchor_intercept
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.missing = missing

    def _learner(self, seed: int) -> Any:
        match self.base:
            case "linear+forest":
                return _LinearAndForest(self.n_trees, seed, self.n_jobs)
            case "tree":
                return DecisionTreeRegressor(max_depth=self.max_depth, min_samples_leaf=5, random_state=seed)
            case "linear":
                return LinearRegression()
            case str():
                raise InputError(f"base must be 'linear+forest', 'tree', 'linear' or a regressor, not {self.base!r}")
        return clone(self.base)

    def fit(self, X: Covariates | str, y: Outcome | AnyTable, *, anchors: Labels | None = None) -> Self:
        """Boost for ``n_estimators`` steps; pass X, y and anchors, or a formula and a table, as to the other models."""
        if isinstance(X, str):
            return self._fit_formula(X, y, anchors)
        with self._whole(X=native(X), y=y, anchors=anchors) as rows:
            return self._fit(**rows)

    def _fit(self, X: Any, y: Any, anchors: Any) -> Self:
        """Boost with rows without missing values."""
        gamma = check_gamma(self.gamma, anchors)
        if not np.isfinite(gamma):
            raise InputError("AnchorBoosting needs a finite gamma: for gamma = inf use LinearAnchorRegression")
        for name in ("n_estimators", "n_trees", "max_depth"):
            whole_number(getattr(self, name), name, 1)
        if not 0.0 < one_number(self.learning_rate, "learning_rate") <= 1.0:
            raise InputError(f"learning_rate must lie in (0, 1], not {self.learning_rate!r}")
        design, data = l2_data(X, y, anchors, None, self.anchor_intercept)
        rng = generator(self.random_state)

        def weighted(values: Array) -> Array:
            """Return (I + (gamma - 1) P) v, the gradient of half the loss."""
            return values + (gamma - 1.0) * data.project(values)

        start = float(data.y.mean())
        error = data.y - start
        first = float(error @ weighted(error))
        learners: list[tuple[float, Any]] = []
        losses = []
        with Task("boosting, step", self.n_estimators) as task:
            for _ in range(self.n_estimators):
                pull = weighted(error)
                learner = self._learner(int(rng.integers(2**31))).fit(data.X, pull)
                direction = np.asarray(learner.predict(data.X))
                curvature = float(direction @ weighted(direction))
                step = self.learning_rate * float(pull @ direction) / curvature if curvature > 0.0 else 0.0
                error = error - step * direction
                learners.append((step, learner))
                losses.append(float(error @ weighted(error)) / first if first > 0.0 else 0.0)
                task.step()
        fitted = copy(self)
        fitted.start_, fitted.learners_, fitted.losses_ = start, learners, np.array(losses)
        fitted._remember(design, X)
        self.__dict__ = fitted.__dict__  # all at once, so that an interrupted fit leaves the model as it was
        return self

    def predict(self, X: Covariates) -> Array:
        """Return the predictions after all steps."""
        matrix = self._new_rows(X)
        result = np.full(matrix.shape[0], self.start_)
        for step, learner in self.learners_:
            result += step * np.asarray(learner.predict(matrix))
        return result
