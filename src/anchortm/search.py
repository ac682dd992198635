"""Choosing xi by how left-out environments are predicted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from anchortm.evaluation import LeaveOneEnvironmentOut, leave_one_environment_out
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["XiSearchCV"]


class XiSearchCV(BaseEstimator):  # type: ignore[misc]
    """Fit a model at the xi that does best when each environment is left out in turn.

    Parameters
    ----------
    model : estimator
        Any model of this package; its own xi is not used.
    xis : sequence of float
        Values to choose from.
    objective : {"worst", "mean"} or float
        What is made small over environments: the largest mean negative log-likelihood, its
        average, or a quantile of it between 0 and 1.
    one_standard_error : bool
        With "mean": take the largest xi whose average is within one standard error (over
        environments) of the best.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_xi_ : float
    best_estimator_ : estimator
        The model at ``best_xi_``, fitted to all rows.
    results_ : DataFrame
        The objective, its standard error where it has one, and the hardest environment for each xi.
    loeo_ : LeaveOneEnvironmentOut
    """

    def __init__(
        self,
        model: Any,
        xis: Sequence[float] = (0.0, 1.0, 10.0, 100.0, 1000.0),
        objective: str | float = "worst",
        *,
        one_standard_error: bool = False,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.xis = xis
        self.objective = objective
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any, *, anchors: Any = None, environments: Any = None, offset: Any = None) -> Self:
        """Leave each environment out at each xi, choose one, and fit it to all rows.

        ``environments`` are by default the anchors.
        """
        level = self._level()
        if environments is None:
            environments = anchors
        if environments is None:
            raise InputError("pass anchors=, or environments= to leave out")
        self.loeo_: LeaveOneEnvironmentOut = leave_one_environment_out(
            self.model,
            X,
            y,
            environments,
            self.xis,
            anchors=anchors,
            offset=offset,
            n_jobs=self.n_jobs,
            progress=self.progress,
        )
        self.results_ = self._results(self.loeo_.frame(), level)
        self.best_xi_ = self._best(self.results_)
        self.best_estimator_ = clone(self.model).set_params(xi=self.best_xi_)
        self.best_estimator_.fit(X, y, anchors=environments if anchors is None else anchors, offset=offset)
        return self

    def _level(self) -> float | None:
        """Return the quantile that is made small (1 for the worst), or None for the mean."""
        if self.objective in ("worst", "mean"):
            if self.one_standard_error and self.objective != "mean":
                raise InputError("one_standard_error goes with objective='mean': a maximum has no standard error here")
            return 1.0 if self.objective == "worst" else None
        if isinstance(self.objective, (int, float)) and 0.0 < self.objective < 1.0:
            if self.one_standard_error:
                raise InputError("one_standard_error goes with objective='mean'")
            return float(self.objective)
        raise InputError(f"objective must be 'worst', 'mean' or a number between 0 and 1, not {self.objective!r}")

    @staticmethod
    def _results(frame: pd.DataFrame, level: float | None) -> pd.DataFrame:
        grouped = frame.groupby("xi")["nll"]
        if level is None:
            table = grouped.agg(objective="mean", standard_error="sem")
        else:
            table = grouped.quantile(level).to_frame("objective")
        hardest = frame.loc[grouped.idxmax().to_numpy(), "environment"].to_numpy()
        return table.assign(hardest=hardest, converged=frame.groupby("xi")["converged"].all())

    def _best(self, table: pd.DataFrame) -> float:
        best = table.objective.idxmin()
        if self.one_standard_error:
            near = table.objective <= table.objective[best] + table.standard_error[best]
            best = table.index[near].max()
        return float(best)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the predictions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, **options)

    def predict_distribution(self, X: Any, **options: Any) -> Any:
        """Return the predicted distributions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_distribution(X, **options)

    def score(self, X: Any, y: Any, *, offset: Any = None) -> float:
        """Return the mean log-likelihood under the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, offset=offset))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "best_xi_"):
            return str(super().__repr__(N_CHAR_MAX=N_CHAR_MAX))
        chosen = "inf" if math.isinf(self.best_xi_) else f"{self.best_xi_:g}"
        return f"XiSearchCV({type(self.model).__name__}, {self.objective}): xi = {chosen}\n{self.results_.to_string()}"
