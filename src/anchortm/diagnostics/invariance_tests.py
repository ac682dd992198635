"""Test whether a set of covariates explains the outcome in the same way in all environments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import generator, whole_number
from anchortm._util.html import report
from anchortm._util.threads import one_blas_thread
from anchortm.diagnostics.covariate_sets import SetFits, Setting
from anchortm.diagnostics.environment_columns import EnvironmentColumns
from anchortm.diagnostics.environment_regressions import RegressionName, Regressor, regression_of
from anchortm.diagnostics.invariance_methods import METHODS, SetTest
from anchortm.diagnostics.parents_result import FEW_ROWS
from anchortm.exceptions import InputError
from anchortm.models.base import TransformationModel
from anchortm.plotting.style import shortened

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["InvarianceTest", "Method", "invariance_test", "make_test", "set_test"]

Array = NDArray[np.float64]
Method = Literal["gcm", "simulate", "wald", "score"]

TITLES = {
    "gcm": "covariance of residuals and environments",
    "simulate": "covariance of residuals and environments, simulated distribution",
    "wald": "Wald's test of environments and their interactions",
    "score": "Rao's test of environments",
}


@dataclass(frozen=True, eq=False)
class InvarianceTest:
    """The test that, given a set of covariates, the outcome does not depend on the environment.

    Attributes
    ----------
    statistic : float
    df : int
        Degrees of freedom: the environment columns that neither the covariates nor other columns determine.
    p_value : float
    covariates : tuple of str
        The covariates of the set, terms if there is a formula.
    model, method, regression : str
        Name of the model, of the statistic, and of the regression of the environments.
    rows : float
        Number of rows for each degree of freedom.
    left_out : tuple of str
        Environment columns that add nothing to the others, and were left out.
    simulated : array
        Statistics of simulated outcomes, if the method is "simulate".
    residuals : array of shape (n,)
        Score residuals of the maximum-likelihood fit to the set.
    environments : EnvironmentColumns
        The environments of the rows.
    weights : array of shape (n,), optional
        The weights of the rows.

    See Also
    --------
    anchortm.invariance_test : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> test = atm.invariance_test(atm.OrdinalRegression(), "rating ~ temp + contact | judge", data, method="simulate")
    >>> test.frame()[["df", "p_value"]]
       df  p_value
    0   8    0.005
    """

    statistic: float
    df: int
    p_value: float
    covariates: tuple[str, ...]
    model: str
    method: str
    regression: str
    rows: float
    left_out: tuple[str, ...] = ()
    simulated: Array = field(default_factory=lambda: np.zeros(0))
    residuals: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    environments: EnvironmentColumns | None = field(default=None, repr=False)
    weights: Array | None = field(default=None, repr=False)

    def frame(self) -> pd.DataFrame:
        """Return the test as a table of one row."""
        import pandas as pd

        return pd.DataFrame([{"statistic": self.statistic, "df": self.df, "p_value": self.p_value}])

    def residual_frame(self) -> pd.DataFrame:
        """Return one row for each row that was used: its residual, and its environments by name."""
        import pandas as pd

        labels = {} if self.environments is None else self.environments.labels()
        return pd.DataFrame({"residual": self.residuals} | {str(name): own for name, own in labels.items()})

    def plot(self, ax: Axis = None, *, environment: str | None = None, label: int = 3) -> Axes:
        """Draw the residuals against an environment and return the axes.

        A factor shows the mean residual of each level, a number all rows with the least-squares line. If the outcome is
        explained in the same way everywhere, means are near 0 and the line is flat.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        environment : str, optional
            Which variable; by default the first.
        label : int
            How many levels to name if there are many: those furthest from 0.

        See Also
        --------
        anchortm.plotting.residuals : draws it
        """
        import pandas as pd

        labels = {} if self.environments is None else self.environments.labels()
        name = next(iter(labels), "") if environment is None else environment
        if name not in labels:
            raise InputError(f"environment must be one of {', '.join(labels)}, not {environment!r}")
        ax = plotting.residuals(
            self.residuals, pd.Series(labels[name], name=name), ax, label=label, weights=self.weights
        )
        given = shortened(", ".join(self.covariates) or "no covariates", 60)
        ax.set_title(f"given {given}: p = {self.p_value:.2g}", fontsize="medium", parse_math=False)
        return ax

    @shown
    def __str__(self) -> str:
        unit = f"degree{'s' if self.df != 1 else ''} of freedom"
        lines = [f"{self._title()}: {self.statistic:.4g} on {self.df} {unit}, p = {self.p_value:.3g}", *self._notes()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = {"statistic": self.statistic, "degrees of freedom": self.df, "p-value": f"{self.p_value:.3g}"}
        return report(self._title(), facts, *self._notes())

    def _title(self) -> str:
        given = ", ".join(self.covariates) or "no covariates"
        return f"Invariance given {given}, {self.model}, {TITLES[self.method]}"

    def _notes(self) -> list[str]:
        notes = []
        if self.left_out:
            notes.append(f"left out, as they add nothing to the other columns: {', '.join(self.left_out)}")
        if self.method != "simulate" and self.rows < FEW_ROWS:
            notes.append(
                f"{self.rows:.2g} rows for each degree of freedom: the chi-square distribution rejects too often; use "
                "method='simulate'"
            )
        return notes

    __repr__ = __str__


def make_test(
    setting: Setting, regression: RegressionName | Regressor, method: str, n_draws: int, random_state: Seed
) -> SetTest:
    """Return the test that the arguments ask for."""
    if method not in METHODS:
        raise InputError(f"method must be {', '.join(map(repr, METHODS))}, not {method!r}")
    whole_number(n_draws, "n_draws", 1)
    seed = int(generator(random_state).integers(2**31))
    return METHODS[method](setting, regression_of(regression, seed), n_draws, seed)


def invariance_test(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    environments: Labels | None = None,
    *,
    covariates: str | Sequence[str] | None = None,
    regression: RegressionName | Regressor = "linear",
    method: Method = "gcm",
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    n_draws: int = 199,
    random_state: Seed = 0,
) -> InvarianceTest:
    """Return the test that a set of covariates explains the outcome in the same way in all environments.

    The model is fitted to the set by maximum likelihood; its xi is ignored. If the set holds all covariates that act on
    the outcome, and the environment acts on the outcome only through them, then the score residuals of the fit are
    unrelated to the environment given the set. A small p-value says that this is not so: the set lacks a cause, holds
    an effect of the outcome, there is a hidden cause of both, or the model is wrong.

    Censored, truncated and interval outcomes enter with their own residuals, as in the fit.

    Parameters
    ----------
    model : estimator
        Any model of this package without penalties, random effects and scale effects. Its xi is ignored.
    X, y, environments, sample_weight, offset
        As for ``fit``, with environments in place of anchors: one factor, one number, or several columns of both. Or a
        formula with its environments and a table, ``invariance_test(model, "y ~ x1 + x2 | site", data)``. Weights
        replicate rows.
    covariates : sequence of str, optional
        Names of the set: of columns, or of terms of the formula. By default all; ``()`` is the empty set. Strata and
        covariates with varying effects are in every set.
    regression : {"linear", "logistic", "forest", "none"} or regressor
        How the environments are predicted from the set, for the methods "gcm" and "simulate".

        - ``"linear"``: least squares. The test holds its level if the mean of the environments is linear in the set, or
          if the model is a normal linear one; otherwise it rejects a bit less often than it should.
        - ``"logistic"``: logistic regression of each level but the first against all others; least squares for numbers.
        - ``"forest"``: a random forest of scikit-learn, out of bag.
        - ``"none"``: the mean. It rejects far too rarely if covariates and environments are related.
        - a regressor of scikit-learn: cross-fitted in five folds.

        With ``"linear"`` and ``"none"`` the result does not depend on the coding of factors; with the others it depends
        a little on which level is the first.
    method : {"gcm", "simulate", "wald", "score"}
        The statistic.

        - ``"gcm"``: n Lbar' Sigma^-1 Lbar with L_i = r_i xi_i, the product of score residual and environment residual,
          and chi-square with the rank of Sigma as degrees of freedom (Kook et al., 2024). It needs no model for how
          environments act. With fewer than about 20 rows for each degree of freedom it rejects too often.
        - ``"simulate"``: the same, compared with the statistics of ``n_draws`` outcomes from the fitted model, each
          with its own fit. It holds its level in small samples. (Permuted environments would be unrelated to the
          covariates, so that their statistics have another distribution.)
        - ``"wald"``: the environments and their interactions with the set join the model; Wald's test of all of them by
          the model's information. It sees effects that differ between environments, which ``"gcm"`` may miss, and needs
          many rows for each coefficient.
        - ``"score"``: Rao's test of the environments as further covariates, as ``diagnostics.score_test`` with the
          observed information.
    n_draws : int
        Number of simulated outcomes.
    random_state : int, Generator or None
        Seed of forests, folds and simulated outcomes. The default gives the same answer each time.

    Returns
    -------
    InvarianceTest

    See Also
    --------
    anchortm.causal_parents : tests all sets, and says which covariates are in every accepted one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> formula = "Surv(tstop, status) ~ treat + age + sex | inherit"
    >>> test = atm.invariance_test(atm.CoxPH(), formula, data, covariates=["treat", "age"])
    >>> print(f"{test.statistic:.2f} on {test.df} degree of freedom, p = {test.p_value:.2f}")
    0.52 on 1 degree of freedom, p = 0.47
    """
    setting = Setting.of("invariance_test", model, X, y, environments, sample_weight, offset)
    test = make_test(setting, regression, method, n_draws, random_state)
    terms = setting.terms
    chosen = tuple(range(len(terms.names))) if covariates is None else terms.places(covariates, "covariates")
    return set_test(test, method, chosen)


def set_test(test: SetTest, method: str, chosen: tuple[int, ...]) -> InvarianceTest:
    """Return the test of some terms, with the residuals of their fit."""
    setting, columns = test.setting, test.setting.terms.columns_of(chosen)
    with one_blas_thread():  # matrices are small
        found, residuals = test(columns), SetFits(setting.problem).residuals(columns)
    return InvarianceTest(
        *found[:3],
        setting.terms.named(chosen),
        setting.model,
        method,
        test.regression.name,
        setting.n_rows / found.df if found.df else math.inf,
        found.left_out,
        found.simulated,
        residuals,
        setting.environments,
        setting.weights,
    )
