"""Choose the smoothness and xi by predicting left-out environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._typing import Axis
from anchortm._util.checks import real_numbers
from anchortm.engine.problem import Problem
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.splines import wiggly
from anchortm.models.base import TransformationModel
from anchortm.selection.folds import Grid
from anchortm.selection.paired_choice import MIN_ROWS
from anchortm.selection.searches import XiSearchCV

__all__ = ["SmoothSearchCV"]


class SmoothSearchCV(XiSearchCV):
    """Choose the smoothness and the xi that best predict left-out environments, and fit the model with them.

    Parameters
    ----------
    model : estimator
        Any model of this package with smooth terms; its own xi and smooth are not used.
    xis, smooths : sequences of float
        Values of xi and smooth to choose from.
    objective, rule, min_rows
        As for ``XiSearchCV``. The rule "paired" keeps the best fit at the smallest xi unless the best of all is better
        by more than one standard error.
    one_standard_error : bool
        Among the fits whose objective is within one standard error of the best, choose the largest smooth, and then the
        smallest xi. This is the standard error of the difference from the best, over the same environments.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_smooth_, best_xi_ : float
        The chosen values.
    best_estimator_ : estimator
        The model with these values, fitted to all rows.
    results_ : DataFrame
        As for ``XiSearchCV``, for each smooth and xi.
    loeo_ : LeaveOneEnvironmentOut
        The negative log-likelihood of each left-out environment for each smooth and xi.
    n_passes_ : int or None
        How often the table was read, if it is read in batches.

    See Also
    --------
    anchortm.XiSearchCV : chooses xi alone
    anchortm.ElasticNetCV : chooses an elastic net and xi

    Notes
    -----
    Knots, and the range outside which curves are straight lines, come from the covariates of all rows, including
    left-out environments. Outcomes of left-out environments are not used.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> data["region"] = data.tract // 1000
    >>> search = atm.SmoothSearchCV.from_formula(
    ...     "cmedv ~ s(lstat, 5) + rm | region", data, model=atm.NormalLinear(), xis=[0, 1], smooths=[1, 0.01]
    ... )
    >>> search.best_smooth_, search.best_xi_
    (0.01, 1.0)
    """

    _by: ClassVar[tuple[str, ...]] = ("smooth", "xi")
    best_smooth_: float

    def __init__(
        self,
        model: Any,
        xis: Sequence[float] = (0.0, 1.0, 10.0, 100.0),
        smooths: Sequence[float] = (10.0, 1.0, 0.1, 0.01, 0.001),
        objective: str | float = 0.9,
        *,
        rule: str = "paired",
        one_standard_error: bool = False,
        min_rows: int = MIN_ROWS,
        cut: int | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        chosen: dict[str, Any] = {"rule": rule, "one_standard_error": one_standard_error, "min_rows": min_rows}
        super().__init__(model, xis, objective, **chosen, cut=cut, n_jobs=n_jobs, progress=progress)
        self.smooths = smooths

    def _strengths(self) -> list[float]:
        """Return the values of smooth, the largest first."""
        strengths = np.unique(real_numbers(self.smooths, "smooths"))[::-1]
        if not (strengths.size and np.isfinite(strengths).all() and strengths[-1] >= 0.0):
            raise InputError("smooths must be finite numbers, at least 0")
        return [float(strength) for strength in strengths]

    def _searched(self) -> Any:
        if not isinstance(self.model, TransformationModel):
            raise InputTypeError("SmoothSearchCV needs a model with its own smooth terms: for boosting use XiSearchCV")
        return clone(self.model).set_params(smooth=self._strengths()[0])

    def _problems(self) -> Grid | None:
        def problems(problem: Problem, _: list[float]) -> list[Problem]:
            if not wiggly(problem.data.marks).any():
                raise InputError("there are no smooth terms, s(x) in a formula: use XiSearchCV")
            return [problem.at(smooth=strength) for strength in self._strengths()]

        return problems

    def _parameters(self, *at: float) -> dict[str, float]:
        return {"smooth": at[0], "xi": at[1]}

    def plot(self, ax: Axis = None) -> Any:
        """Draw the objective against smooth, one line for each xi, and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self, "best_estimator_")
        return plotting.net_search(self, ax)
