"""Choose xi by a test: the smallest xi at which the score test does not reject invariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import level_between
from anchortm._util.html import Table, report
from anchortm._util.progress import Task
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.solve.continuation import first_solution, follow
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import InputError
from anchortm.inference.score_tests import check_directions, score_statistic
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InvarianceRule", "xi_by_score_test"]

ENOUGH = 1e4  # a rejection at a smaller xi says little about larger xi
FIRST, FACTOR, CLOSE = 0.01, 2.0, 1.005  # first positive xi, ratio of the next ones, relative precision of the result


@dataclass(frozen=True, eq=False)
class InvarianceRule:
    """The smallest xi at which the score test does not reject invariance, and all tests that were made.

    Attributes
    ----------
    xi : float or None
        The smallest xi that is not rejected; None if all are rejected.
    level : float
        Significance level of the test.
    table : DataFrame
        The table that ``frame`` returns.
    model : str
        Name of the model.

    See Also
    --------
    anchortm.xi_by_score_test : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> rule = atm.xi_by_score_test(atm.OrdinalRegression(), formula, data)
    >>> rule.frame().iloc[[0, -1]].round({"xi": 0, "statistic": 1, "pvalue": 2})
          xi  statistic  df  pvalue
    0    0.0       30.5   8    0.00
    20  20.0        8.8   8    0.36
    """

    xi: float | None
    level: float
    table: pd.DataFrame
    model: str

    def frame(self) -> pd.DataFrame:
        """Return one row for each tested xi: statistic, degrees of freedom and p-value.

        Returns
        -------
        DataFrame
        """
        return self.table

    def plot(self, ax: Axis = None) -> Any:
        """Draw the p-values against xi and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        return plotting.rule(self.table, self.level, self.xi, ax)

    def _repr_html_(self) -> str:
        return report(repr(self), Table(self.table, chosen=np.flatnonzero(self.table.xi == self.xi).tolist()))

    @shown
    def __repr__(self) -> str:
        first, last = self.table.iloc[0], self.table.iloc[-1]
        if self.xi is None:
            reason = (
                "No coefficients of these covariates make the residuals independent of the anchors, so choose xi by "
                "left-out environments instead (XiSearchCV)."
                if last.xi >= ENOUGH
                else "Raise largest= to try larger values."
            )
            return (
                f"InvarianceRule({self.model}): invariance is rejected at the {self.level:g} level for every xi up to "
                f"{last.xi:.3g} (p = {last.pvalue:.2g}). {reason}"
            )
        at = self.table[self.table.xi == self.xi].iloc[0]
        return (
            f"InvarianceRule({self.model}): xi = {self.xi:.4g}, where p = {at.pvalue:.3g} "
            f"(at xi = 0: {first.statistic:.4g} on {first.df:.0f} degrees of freedom, p = {first.pvalue:.3g})"
        )


def xi_by_score_test(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    *,
    level: float = 0.05,
    largest: float = 1e6,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    progress: bool | None = None,
) -> InvarianceRule:
    """Return the smallest xi at which the score test does not reject invariance.

    Among the models whose residuals may be uncorrelated with the anchors, this one has the highest likelihood, in the
    spirit of the PULSE estimator (Jakobsen and Peters, 2022). The statistic is that of ``diagnostics.score_test``
    divided by sum r^2 / sum r'. Without this division a penalty that flattens h, and so shrinks all residuals, would
    pass as invariance. With more independent anchors than parameters there may be no such xi.

    Parameters
    ----------
    model : estimator
        Any model of this package except boosted ones. It is not changed; its own xi is not used.
    X, y, anchors : covariates, outcome and anchors
        As for ``fit``; or a formula with its anchors and a table in memory, ``xi_by_score_test(model,
        formula, data)``.
    level : float
        Significance level of the test.
    largest : float
        Largest xi to try.
    sample_weight, offset : arrays, optional
        As for ``fit``. Of a table also the names of columns.
    progress : bool, optional
        Whether to show the xi that is being tested. By default only in a terminal or notebook.

    Returns
    -------
    InvarianceRule

    See Also
    --------
    anchortm.selection.InvarianceRule : the chosen xi, and the tests as a table or a plot
    anchortm.XiSearchCV : chooses xi by left-out environments

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site, hidden = rng.integers(0, 4, 300), rng.normal(size=300)
    >>> x = rng.normal(size=300) + site + hidden
    >>> y = x + 2 * hidden + rng.normal(size=300)
    >>> rule = atm.xi_by_score_test(atm.NormalLinear(), x[:, None], y, site)
    >>> print(f"xi = {rule.xi:.2f}")
    xi = 2.29
    """
    import pandas as pd

    check_model(model, "score_test")
    level_between(level)
    if not 0.0 < largest < math.inf:
        raise InputError(f"largest must be a positive finite number, not {largest}")
    found = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset)
    problem = found.in_memory("xi_by_score_test").prepared()[1]
    problem = problem.at(xi=0.0)
    problem.refuse("score_test")
    if problem.data.anchors is None:
        raise InputError("a test of invariance needs anchors: pass them after y, or name them after '|' in a formula")
    objective, options = problem.objective, problem.spec.quiet
    check_directions(objective)
    rows: list[dict[str, float]] = []

    def accepted(solution: Solution) -> bool:
        if not solution.converged:
            raise InputError(
                f"the fit at xi = {solution.xi:.3g} did not converge ({solution.reason}), so invariance cannot be "
                "tested there"
            )
        rows.append({"xi": solution.xi} | _test(objective, solution))
        task.step(label=f"score tests, p = {rows[-1]['pvalue']:.2g} at xi = {solution.xi:.3g}")
        return rows[-1]["pvalue"] >= level

    with Task("score tests", shown=progress) as task, problem.threads():
        here = first_solution(objective, problem.start(objective), options)
        xi: float | None = 0.0 if accepted(here) else None
        upper = min(FIRST, largest)
        while xi is None and here.xi < largest:
            there = follow(objective, here, upper, options)
            if accepted(there):
                xi = _first_accepted(objective, here, upper, options, accepted)
            here, upper = there, min(FACTOR * upper, largest)
    return InvarianceRule(xi, level, pd.DataFrame(rows).sort_values("xi", ignore_index=True), type(model).__name__)


def _test(objective: Objective, solution: Solution) -> dict[str, float]:
    statistic, df = score_statistic(objective, solution.v, solution.active, studentised=True)
    return {"statistic": statistic, "df": df, "pvalue": float(stats.chi2.sf(statistic, df))}


def _first_accepted(objective: Objective, here: Solution, upper: float, options: Options, accepted: Any) -> float:
    """Return the smallest accepted xi between a rejected and an accepted one, to within 0.5 %."""
    while upper > CLOSE * max(here.xi, 0.1 * FIRST):
        middle = math.sqrt(max(here.xi, 0.1 * FIRST) * upper)
        there = follow(objective, here, middle, options)
        if accepted(there):
            upper = middle
        else:
            here = there
    return upper
