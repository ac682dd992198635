"""Do the residuals depend on the anchors? Rao's score test, with simulated outcomes where places are small."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats
from sklearn.base import clone

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Array, Axis, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import generator, whole_number
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm.engine.remarks import tell_alphabetical
from anchortm.exceptions import InputError
from anchortm.inference.redrawn import redraws, whole_rows, why_not
from anchortm.inference.score_tests import (
    Information,
    Quadratic,
    check_directions,
    free_parameters,
    simulated_statistic,
)
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ScoreTest", "score_test"]

FEW_ROWS = 20.0  # rows per degree of freedom; with fewer, the distribution of the statistic is simulated
MUCH = 0.05  # from this df^1.5 / n on, the observed information (as noisy as the scores) distorts the test
SOME_DRAWS = 40  # draws whose information is averaged
METHODS = {
    "observed": "observed information, chi-square distribution",
    "expected": "expected information, chi-square distribution",
    "simulate": "expected information, simulated distribution",
}


@dataclass(frozen=True)
class ScoreTest:
    """Rao's test that the anchors, added to the model as covariates, would have no effect.

    Attributes
    ----------
    statistic : float
    df : int
        Degrees of freedom: the directions of the anchors that the covariates do not already span.
    pvalue : float
    model : str
        Name of the model.
    rows : float
        Number of rows for each degree of freedom.
    method : {"observed", "expected", "simulate"}
        How the p-value was computed, see ``score_test``.
    simulated : array
        Statistics of outcomes drawn from the fitted model; empty if none were drawn. With m draws the smallest possible
        p-value is 1 / (m + 1).
    n_passes : int or None
        How often the table was read, if it is read in batches.

    See Also
    --------
    anchortm.diagnostics.score_test : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> test = atm.diagnostics.score_test(atm.OrdinalRegression(), formula, data)
    >>> test.frame().round(4)
       statistic  df  pvalue
    0    26.2281   8   0.005
    """

    statistic: float
    df: int
    pvalue: float
    model: str
    rows: float = math.inf
    method: str = "observed"
    simulated: Array = field(default_factory=lambda: np.zeros(0), compare=False)
    n_passes: int | None = field(default=None, compare=False)

    def frame(self) -> pd.DataFrame:
        """Return the test as a table of one row."""
        import pandas as pd

        return pd.DataFrame([{"statistic": self.statistic, "df": self.df, "pvalue": self.pvalue}])

    def plot(self, ax: Axis = None) -> Axes:
        """Draw the statistic against its distribution under invariance and return the axes."""
        return plotting.chi_square(self.statistic, self.df, ax, simulated=self.simulated)

    @shown
    def __str__(self) -> str:
        unit = f"degree{'s' if self.df != 1 else ''} of freedom"
        return f"{self._title()}: {self.statistic:.4g} on {self.df} {unit}, p = {self.pvalue:.3g}; {self._verdict()}"

    def _repr_html_(self) -> str:
        facts = {"statistic": self.statistic, "degrees of freedom": self.df, "p-value": f"{self.pvalue:.3g}"}
        return report(self._title(), facts, self._verdict())

    def _title(self) -> str:
        return f"Score test of invariance, {self.model}"

    def _verdict(self) -> str:
        word = "explain more" if self.pvalue < 0.05 else "do not clearly explain more"
        how = METHODS[self.method]
        if self.method == "simulate":
            how += f", {self.simulated.size} draws"
            how += "" if (self.simulated >= self.statistic).any() else ", all smaller"
        elif self.method == "observed" and self.rows < FEW_ROWS:
            how += f", {self.rows:.2g} rows for each degree of freedom: this version rejects too often"
        return f"the anchors {word} than the covariates do ({how})"

    __repr__ = __str__


def score_test(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    *,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    method: Literal["auto", "observed", "expected", "simulate"] = "auto",
    n_draws: int = 199,
    random_state: Seed = 0,
) -> ScoreTest:
    """Return the score test of "the anchors have no effect beyond the covariates".

    A small p-value says that the residuals of the maximum-likelihood fit depend on the anchors: anchoring is worth
    trying.

    The statistic is t'[Q'diag(r')Q - E (nH)^-1 E']^+ t. Here t = Q'r are the coordinates of the residuals on the
    anchors, E = dt/dw, and nH is the information. The degrees of freedom are the rank of the bracket, so directions
    that the covariates already span do not count. The test takes as known the increments of the baseline that are at
    their bound, and the covariance of random effects.

    Parameters
    ----------
    model : estimator
        Any model of this package without a penalty on its coefficients. The test ignores its xi.
    X, y, anchors, sample_weight, offset
        As for ``fit``; or a formula with its anchors and a table, ``score_test(model, formula, data)``, and weights
        and offset as arrays or column names. The table may be one that is read in batches.
    method : {"auto", "observed", "expected", "simulate"}
        How to compute the p-value.

        - ``"observed"``: the bracket comes from the data, the p-value from the chi-square distribution. This is Rao's
          test as in R's survival. With many small places it rejects a true model too often, because the bracket is as
          noisy as the residuals.
        - ``"expected"``: the bracket is averaged over outcomes drawn from the fitted model, with their censoring.
        - ``"simulate"``: as ``"expected"``, and the statistic is compared with the statistics of the drawn outcomes,
          each after a Newton step towards its own fit. This holds its level with as few as two rows per place.
        - ``"auto"``: simulates with fewer than 20 rows for each degree of freedom; otherwise uses the expected
          information where it matters. If outcomes cannot be drawn (right truncation, weights that are not whole
          numbers, tables that are read in batches), it uses the observed information.
    n_draws : int
        Number of simulated outcomes.
    random_state : int, Generator or None
        Seed of the draws. The default gives the same answer each time.

    See Also
    --------
    anchortm.xi_by_score_test : find the smallest xi that this test accepts

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> test = atm.diagnostics.score_test(atm.OrdinalRegression(), formula, data)
    >>> print(f"{test.statistic:.1f} on {test.df} degrees of freedom, p = {test.pvalue:.3f}")  # the judges differ
    26.2 on 8 degrees of freedom, p = 0.005
    >>> X = data[["temp", "contact"]] == ["warm", "yes"]  # the same from columns
    >>> test == atm.diagnostics.score_test(atm.OrdinalRegression(), X, data.rating, data.judge)
    True
    """
    if method not in ("auto", *METHODS):
        raise InputError(f"method must be 'auto', {', '.join(map(repr, METHODS))}, not {method!r}")
    whole_number(n_draws, "n_draws", 1)
    check_model(model, "score_test")
    rng = generator(random_state)
    null = clone(model).set_params(xi=0.0, anchor_weights="rows")  # the test does not depend on them
    rows = given(null, X, y, anchors, sample_weight=sample_weight, offset=offset)
    rows, problem = rows.prepared()
    data = problem.data
    problem.refuse("score_test")
    if data.anchors is None:
        raise InputError(
            "a score test needs anchors: pass them after y, or name them after '|' in a formula (y ~ x | place)"
        )
    obstacle = why_not(data)
    if obstacle is not None and method in ("expected", "simulate"):
        raise InputError(f"method={method!r} cannot draw {obstacle}: take method='observed'")
    tell_alphabetical(data)
    objective = problem.objective
    check_directions(objective)
    solution, others = problem.solve()
    if not solution.converged:
        raise InputError(f"the maximum-likelihood fit did not converge ({solution.reason}): no score test")
    scored, free = objective.scored, free_parameters(objective, solution.active)

    def test(quadratic: Quadratic, method: str, simulated: Array | None = None) -> ScoreTest:
        statistic = quadratic(scored.sums(solution.v).t) / scored.dispersion(solution.v)
        share = scored.n_total / quadratic.df
        if simulated is None:
            simulated, pvalue = np.zeros(0), float(stats.chi2.sf(statistic, quadratic.df))
        else:
            pvalue = (1 + int(np.sum(simulated >= statistic))) / (1 + simulated.size)
        found = (statistic, quadratic.df, pvalue, type(model).__name__, share, method, simulated)
        return ScoreTest(*found, rows.n_passes(problem))

    observed = test(Quadratic.of(Information.at(scored, solution.v), free), "observed")
    if method == "auto":
        noisy = observed.df**1.5 > MUCH * scored.n_total
        method = "simulate" if observed.rows < FEW_ROWS else "expected" if noisy else "observed"
    if method == "observed" or obstacle is not None:
        return observed
    result = problem.result(objective, solution, others)
    draws = redraws(problem.with_data(whole_rows(data)), result, objective, rng)
    # the information needs draws of its own: a statistic divided by its own information is too large
    information = Information.mean([Information.at(loss, solution.v) for loss in islice(draws, SOME_DRAWS)])
    quadratic = Quadratic.of(information, free)
    if method == "expected":
        return test(quadratic, method)
    with Task("simulated score tests", n_draws) as task:
        losses = task.each(islice(draws, n_draws))
        simulated = [simulated_statistic(loss, solution.v, information, quadratic, free) for loss in losses]
    return test(quadratic, method, np.array(simulated))
