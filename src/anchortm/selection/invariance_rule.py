"""Choosing xi by a test: the smallest xi at which the score test no longer rejects invariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy import stats

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import level_between
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.solve.continuation import first_solution, follow
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import InputError
from anchortm.inference.score_tests import check_directions, refuse_net, score_statistic
from anchortm.models.base import TransformationModel, check_model

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InvarianceRule", "xi_by_score_test"]

ENOUGH = 1e4  # a rejection at a smaller xi says little about larger ones
FIRST, FACTOR, CLOSE = 0.01, 2.0, 1.005  # of the xi that are tried, and how close the answer is


@dataclass(frozen=True, eq=False)
class InvarianceRule:
    """The smallest xi at which the score test no longer rejects invariance, and the tests on the way to it.

    Attributes
    ----------
    xi : float or None
        The smallest xi that is not rejected; None if every one is.
    level : float
        Level of the test.
    table : DataFrame
        What ``frame`` returns.
    model : str
        Name of the model.

    See Also
    --------
    anchortm.xi_by_score_test : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> rule = atm.xi_by_score_test(atm.OrdinalRegression(), frame.X, frame.y, data.judge)
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
        """Return one row for each xi tried: statistic, degrees of freedom and p-value."""
        return self.table

    def plot(self, ax: Axis = None) -> Any:
        """Draw the p-values against xi and return the axes."""
        return plotting.rule(self.table, self.level, self.xi, ax)

    @shown
    def __repr__(self) -> str:
        first, last = self.table.iloc[0], self.table.iloc[-1]
        if self.xi is None:
            reason = (
                "The anchors act on the outcome in ways that no coefficients of these covariates undo, so choose xi by "
                "left-out environments instead (XiSearchCV)."
                if last.xi >= ENOUGH
                else "Look further, with a larger largest=."
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
    X: Covariates,
    y: Outcome,
    anchors: Labels | None,
    *,
    level: float = 0.05,
    largest: float = 1e6,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
) -> InvarianceRule:
    """Return the smallest xi at which the score test of invariance no longer rejects.

    The likeliest of the models whose residuals could be uncorrelated with the anchors, in the spirit of the
    PULSE estimator (Jakobsen and Peters, 2022). At xi = 0 the test is that of ``diagnostics.score_test``,
    divided by sum r^2 / sum r': a penalty flattens h, and residuals that shrink altogether are not
    invariant for that. With more anchor directions than parameters there may be no such xi.

    Parameters
    ----------
    model : estimator
        Any model of this package; its own xi is not used.
    level : float
        Level of the test.
    largest : float
        Where to stop looking.

    See Also
    --------
    anchortm.selection.InvarianceRule : what is returned
    anchortm.XiSearchCV : another rule

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

    check_model(model)
    level_between(level)
    if not 0.0 < largest < math.inf:
        raise InputError(f"largest must be a positive number, not {largest}")
    problem = model.problem(X, y, anchors=anchors, sample_weight=sample_weight, offset=offset)
    problem = problem.at(xi=0.0)
    refuse_net(problem.spec, problem.data.design.marks)
    if problem.data.anchors is None:
        raise InputError("a test of invariance needs anchors")
    objective, options = problem.objective, problem.spec.quiet
    check_directions(objective)
    rows: list[dict[str, float]] = []

    def accepted(solution: Solution) -> bool:
        if not solution.converged:
            raise InputError(f"the fit at xi = {solution.xi:.3g} did not converge ({solution.reason}): no test there")
        rows.append({"xi": solution.xi} | _test(objective, solution))
        return rows[-1]["pvalue"] >= level

    with problem.threads():
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
    """Return the smallest accepted xi between a rejected solution and an accepted xi, to half a per cent."""
    while upper > CLOSE * max(here.xi, 0.1 * FIRST):
        middle = math.sqrt(max(here.xi, 0.1 * FIRST) * upper)
        there = follow(objective, here, middle, options)
        if accepted(there):
            upper = middle
        else:
            here = there
    return upper
