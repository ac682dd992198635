"""A causal diagnostic: the smallest xi at which the score test does not reject invariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from anchortm import plotting
from anchortm._messages import shown, warn
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import flag, level_between
from anchortm._util.html import Table, report
from anchortm._util.progress import Task
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.solve.continuation import first_solution, follow
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.inference.score_tests import check_directions, score_statistic
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given
from anchortm.selection.left_out import leave_one_environment_out
from anchortm.selection.left_out_result import LeaveOneEnvironmentOut

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
    directions, parameters : int
        Number of directions of the anchors, and of free parameters. With more directions than parameters the anchors
        over-identify the model.
    cost : LeaveOneEnvironmentOut or None
        Left-out environments at xi = 0 and at ``xi``, if they were asked for.

    See Also
    --------
    anchortm.xi_by_score_test : computes it

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site, hidden = rng.integers(0, 3, 300), rng.normal(size=300)
    >>> x = rng.normal(size=300) + site + hidden
    >>> y = x + 2 * hidden + rng.normal(size=300)
    >>> rule = atm.xi_by_score_test(atm.NormalLinear(), x[:, None], y, site)
    >>> rule.frame().iloc[[0, -1]].round({"xi": 0, "statistic": 1, "pvalue": 2})
         xi  statistic  df  pvalue
    0   0.0       55.0   2    0.00
    18  5.0        3.3   2    0.19
    """

    xi: float | None
    level: float
    table: pd.DataFrame
    model: str
    directions: int = 0
    parameters: int = 0
    cost: LeaveOneEnvironmentOut | None = None

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
        return " ".join([self._found(), *self._price()])

    def _price(self) -> list[str]:
        """Return what this xi costs at left-out environments, if that was asked for."""
        if self.cost is None:
            return []
        at = self.cost.summary().loc[self.xi]
        n = len({row["environment"] for row in self.cost.rows})
        word = "gain" if at.regret < 0.0 else "lose"
        return [
            f"Left out one by one, {n} environments {word} {abs(at.regret):.3g} (standard error {at.se:.2g}) in mean "
            "negative log-likelihood at this xi, against xi = 0."
        ]

    def _found(self) -> str:
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
            + ("." if self.cost is not None else "")
        )


def xi_by_score_test(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    *,
    level: float = 0.05,
    largest: float = 1e6,
    cost: bool = False,
    environments: Labels | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    progress: bool | None = None,
) -> InvarianceRule:
    """Return the smallest xi at which the score test does not reject invariance.

    This is a diagnostic of a causal question: how much anchoring makes residuals uncorrelated with the anchors? It is
    not a way to choose xi for predictions, which can be much worse at this xi: ask for the ``cost``, and choose xi by
    ``XiSearchCV`` or ``compare_strategies``.

    Among the models whose residuals may be uncorrelated with the anchors, this one has the highest likelihood, in the
    spirit of the PULSE estimator (Jakobsen and Peters, 2022). The statistic is that of ``diagnostics.score_test``
    divided by sum r^2 / sum r'. Without this division a penalty that flattens h, and so shrinks all residuals, would
    pass as invariance. If the anchors have more directions than the model has free parameters (over-identification), a
    warning says so: there may be no such xi, and where there is one, it flattens predictions more than it moves them.

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
    cost : bool
        Whether to leave out one environment after another at xi = 0 and at the xi that was found, so that the result
        says what this xi costs.
    environments : array, or column name of a table, optional
        What to leave out for the cost; by default the anchors.
    sample_weight, offset : arrays, optional
        As for ``fit``; with a table, names of columns too.
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
    >>> site, hidden = rng.integers(0, 3, 300), rng.normal(size=300)
    >>> x = rng.normal(size=300) + site + hidden
    >>> y = x + 2 * hidden + rng.normal(size=300)
    >>> rule = atm.xi_by_score_test(atm.NormalLinear(), x[:, None], y, site, cost=True)
    >>> print(f"xi = {rule.xi:.2f}")
    xi = 3.22
    >>> print(rule.cost.summary()["regret"].round(3).tolist())
    [0.0, -0.076]
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
        raise InputError(
            "a test of invariance needs anchors: pass them after y, or name them after '|' in a formula (y ~ x | place)"
        )
    objective, options = problem.objective, problem.spec.quiet
    tested = objective  # the test does not depend on the weights of the penalty
    if problem.data.weighting is not None:
        tested = problem.with_data(problem.data.weighing.put(None)).objective
    check_directions(objective)
    directions, free = _sizes(objective)
    if directions > free:
        warn(
            f"the anchors over-identify the model: they have {directions} directions and the model {free} free "
            "parameters, so perhaps no xi makes residuals invariant; do not take this xi for predictions, choose it by "
            "left-out environments (XiSearchCV)",
            AnchorTMWarning,
        )
    rows: list[dict[str, float]] = []

    def accepted(solution: Solution) -> bool:
        if not solution.converged:
            raise InputError(
                f"the fit at xi = {solution.xi:.3g} did not converge ({solution.reason}), so invariance cannot be "
                "tested there"
            )
        rows.append({"xi": solution.xi} | _test(tested, solution))
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
    left_out = None
    if flag(cost, "cost") and xi:
        beside: dict[str, Any] = {"sample_weight": sample_weight, "offset": offset, "progress": progress}
        places = environments
        if not isinstance(X, str):
            places, beside = anchors if environments is None else environments, beside | {"anchors": anchors}
        left_out = leave_one_environment_out(model, X, y, places, [0.0, xi], **beside)
    table = pd.DataFrame(rows).sort_values("xi", ignore_index=True)
    return InvarianceRule(xi, level, table, type(model).__name__, directions, free, left_out)


def _sizes(objective: Objective) -> tuple[int, int]:
    """Return the number of directions of the anchors, and of free parameters."""
    directions = 0 if objective.anchors is None else int(objective.anchors.rank)
    return directions, int((objective.coordinates.lower < objective.coordinates.upper).sum())


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
