"""The results of leaving out one environment after another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Axis, Seed
from anchortm._util.checks import level_between, whole_number
from anchortm._util.html import report
from anchortm.exceptions import InputError
from anchortm.inputs.response import Response
from anchortm.predict.widths import mean_ratio
from anchortm.selection.choice import Losses
from anchortm.selection.held import Held
from anchortm.selection.left_out_table import MOST_TOLD
from anchortm.selection.paired_choice import MIN_ROWS, check_objective, drawn, objective_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LeaveOneEnvironmentOut", "Predicted"]


@dataclass(frozen=True, eq=False)
class LeaveOneEnvironmentOut:
    """How well each environment is predicted by the fit to all others, for each xi.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    model : str
        Name of the model.
    by : tuple of str
        Names of the penalties that differ between fits: "xi"; "lambda" and "xi"; or "smooth" and "xi".
    n_passes : int or None
        How often the table was read, if it is read in batches.
    n_missing : int
        Number of rows that were dropped because values are missing.
    environment_name : str or None
        What the column of environments is called.
    missing : dict
        How many of these rows each environment had, for those that are known: not for tables that are read in batches,
        and not in searches.
    held : dict
        The rows of each environment with their predictions, for ``predictions``; empty for tables that are read in
        batches and for grids of penalties.

    See Also
    --------
    anchortm.leave_one_environment_out, anchortm.ElasticNetCV, anchortm.SmoothSearchCV : compute it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), formula, data, xis=[0, 3])
    >>> result.frame()[["environment", "xi", "n", "nll", "skill", "regret"]].head(3).round(3)
       environment   xi  n    nll  skill  regret
    0            1  0.0  8  1.591  0.167   0.000
    1            1  3.0  8  1.527  0.230  -0.063
    2            2  0.0  8  1.406  0.411   0.000
    """

    rows: list[dict[str, Any]]
    model: str
    by: tuple[str, ...] = ("xi",)
    n_passes: int | None = None
    n_missing: int = 0
    environment_name: str | None = None
    missing: Mapping[Any, int] = field(default_factory=dict)
    held: Mapping[Any, Held] = field(default_factory=dict, repr=False)

    def frame(self) -> pd.DataFrame:
        """Return one row for each environment and xi: its size, its scores, notes on the fit, and coefficients.

        Returns
        -------
        DataFrame
            ``n`` is the number of rows (or their total weight), ``events`` that of events if the outcome is a time, and
            ``nll`` the mean negative log-likelihood. ``skill`` is the nll of a model without covariates, fitted to the
            same rows, minus nll: higher is better. It does not depend on the unit of the outcome, so that environments
            can be compared even if they differ in their share of censored rows. ``regret`` is nll minus that at
            xi = 0: lower is better. ``notes`` is empty, or says without which columns an environment was predicted, or
            why it was not; its scores are then NaN. Coefficients that the other environments do not identify are NaN.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def summary(self) -> pd.DataFrame:
        """Return the scores over environments for each xi.

        Environments that could not be predicted do not count.

        Returns
        -------
        DataFrame
            One row for each xi: the worst, median and mean negative log-likelihood; ``hardest`` names the worst
            environment and ``n`` is its size. ``skill`` is the mean skill, ``regret`` the mean difference of the
            negative log-likelihood from xi = 0, and ``se`` its standard error over environments.
        """
        frame = self.frame().dropna(subset=["nll"])
        grouped = frame.groupby(list(self.by) if len(self.by) > 1 else self.by[0])
        table = grouped["nll"].agg(worst="max", median="median", mean="mean")
        hardest = frame.loc[grouped["nll"].idxmax().to_numpy()]
        table = table.assign(hardest=hardest["environment"].to_numpy(), n=hardest["n"].to_numpy())
        table = table.assign(skill=grouped["skill"].mean())
        return table.assign(regret=grouped["regret"].mean(), se=grouped["regret"].sem()) if "regret" in frame else table

    def predictions(self, xi: float) -> dict[Any, Predicted]:
        """Return what was predicted for each environment by the fit to the others, with the outcomes seen there.

        With these, any score can be computed.

        Parameters
        ----------
        xi : float
            One of the strengths of the penalty.

        Returns
        -------
        dict
            For each environment a tuple: ``distribution`` for its rows, ``y``, their outcomes, and ``rows``, their
            positions in the data. Environments that could not be predicted are missing.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> formula = "rating ~ temp + contact | judge"
        >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), formula, data, xis=[0, 3])
        >>> found = result.predictions(3)[1]  # judge 1
        >>> float(atm.scores.crps(found.distribution, found.y).mean().round(3))
        0.619
        """
        return {
            name: Predicted(held.distributions[xi], held.rows.y, held.rows.positions) for name, held in self._held(xi)
        }

    def _held(self, xi: float) -> list[tuple[Any, Held]]:
        """Return the environments with predictions at this xi."""
        if not self.held:
            raise InputError(
                "there are no predictions: rows that are read in batches, and fits of a grid of penalties, do not keep "
                "them; call leave_one_environment_out with rows in memory"
            )
        known = sorted({row["xi"] for row in self.rows})
        if xi not in known:
            raise InputError(f"xi must be one of {', '.join(f'{one:g}' for one in known)}, not {xi!r}")
        return [(name, held) for name, held in self.held.items() if xi in held.distributions]

    def split(self) -> pd.DataFrame:
        """Return how much of each difference from xi = 0 is a change of the width, and how much one of the location.

        Predictions at xi = 0 are made as wide as those at xi, while their medians stay. The change that
        this brings is the part of the spread; the rest is the part of location and shape.

        Returns
        -------
        DataFrame
            One row for each environment and xi: ``regret``; ``factor``, how many times as wide predictions are as at
            xi = 0; ``spread`` and ``location``, which add up to the regret. They are NaN for models whose width has
            no factor: generalised linear models, CoxPH, random effects, boosted models and pipelines.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model, formula = atm.NormalLinear(), "cmedv ~ rm + lstat | town"
        >>> result = atm.leave_one_environment_out(model, formula, data, xis=[0, 10])
        >>> result.split()[["regret", "spread", "location"]].mean().round(2).tolist()
        [0.35, 0.35, 0.0]
        """
        import pandas as pd

        rows = []
        for row in self.rows:
            held, xi = self.held.get(row["environment"]), row["xi"]
            factor, spread = math.nan, math.nan
            if held is not None and held.ends is not None and xi in held.distributions:
                factor = mean_ratio(held.distributions[xi], held.distributions[0.0])
                spread = held.nll_at_width(factor) - held.nll_at_width(1.0)
            parts = {"factor": factor, "spread": spread, "location": row["regret"] - spread}
            rows.append({"environment": row["environment"], "xi": xi, "n": row["n"], "regret": row["regret"]} | parts)
        return pd.DataFrame(rows)

    def bootstrap(
        self, objective: str | float = "mean", *, n_draws: int = 2000, level: float = 0.9, random_state: Seed = 0
    ) -> pd.DataFrame:
        """Return how uncertain the difference from xi = 0 is, by resampling environments with replacement.

        Nothing is refitted: the losses of left-out environments, which are minus the skill, are resampled.

        Parameters
        ----------
        objective : {"mean", "worst"} or float
            The mean over environments, the worst of them, or a quantile; the last two over environments of at least
            10 rows (and 5 events).
        n_draws : int
            Number of draws.
        level : float
            Probability of the intervals.
        random_state : int
            Seed of the draws.

        Returns
        -------
        DataFrame
            For each xi the objective, its ``difference`` from xi = 0, the standard error ``se`` of the difference, and
            ``lower`` and ``upper``, the ends of a percentile interval for it.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model, formula = atm.NormalLinear(), "cmedv ~ rm + lstat | town"
        >>> result = atm.leave_one_environment_out(model, formula, data, xis=[0, 1])
        >>> result.bootstrap().round(2)
             objective  difference    se  lower  upper
        xi
        0.0      -0.45        0.00  0.00    0.0   0.00
        1.0      -0.40        0.06  0.09   -0.1   0.18
        """
        import pandas as pd

        if self.by != ("xi",):
            raise InputError(
                "bootstrap compares values of xi, but other penalties vary here too: use a table where only xi varies"
            )
        check, n = check_objective(objective), whole_number(n_draws, "n_draws", 2)
        losses = Losses.of(self.frame(), self.by, MIN_ROWS)
        xis = [at[0] for at in losses.at]
        if 0.0 not in xis:
            raise InputError("bootstrap compares with xi = 0, which is not among xis")
        first, tail = xis.index(0.0), 0.5 * (1.0 - level_between(level))
        values = objective_of(losses.values, losses.counted, check)
        draws = drawn(losses.values, losses.counted, check, n, random_state)
        draws = draws - draws[first]
        lower, upper = np.quantile(draws, [tail, 1.0 - tail], axis=1)
        found = {"objective": values, "difference": values - values[first], "se": draws.std(axis=1, ddof=1)}
        return pd.DataFrame(found | {"lower": lower, "upper": upper}, index=pd.Index(xis, name="xi"))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the lines below the printed table: columns and rows that were left out, and what was not predicted."""
        first = {row["environment"]: row for row in self.rows}
        without = sum("without " in row["notes"] for row in first.values())
        lost = sum(math.isnan(row["nll"]) for row in first.values())
        found = []
        if without:
            found.append(f"{_of(without, len(first))} predicted without some columns: see notes in frame()")
        if lost:
            found.append(f"{_of(lost, len(first))} not predicted and not counted here: see notes in frame()")
        if self.n_missing:
            rows = "1 row" if self.n_missing == 1 else f"{self.n_missing} rows"
            most = sorted(self.missing.items(), key=lambda item: -item[1])[:MOST_TOLD]
            listed = ", ".join(f"{name}: {n}" for name, n in most) + (", ..." if len(self.missing) > MOST_TOLD else "")
            found.append(f"dropped: {rows} with missing values" + (f" ({listed})" if listed else ""))
        if any(row.get("events", row["n"]) < row["n"] for row in first.values()):
            found.append("nll of censored outcomes depends on the share of events: compare environments by skill")
        return tuple(found)

    def _title(self) -> str:
        frame = self.frame()
        sizes = [f"{frame[name].nunique()} values of {name}" for name in self.by]
        name = f" ({self.environment_name})" if self.environment_name else ""
        sizes = [f"{frame.environment.nunique()} environments{name}", *sizes]
        return f"LeaveOneEnvironmentOut({self.model}, {', '.join(sizes)})"

    @shown
    def __repr__(self) -> str:
        return "\n".join([self._title(), self.summary().round(4).to_string(), *self.remarks])

    def _repr_html_(self) -> str:
        return report(self._title(), self.summary(), *self.remarks)

    def plot(self, ax: Axis = None, label: int = 3, legend: bool = True, *, of: str = "nll") -> Any:
        """Draw a score of each environment against xi and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        label : int
            How many environments to name: the hardest ones at the first xi; of regret, those with the largest gains
            and losses at the last xi.
        legend : bool
            Whether to draw a legend.
        of : {"nll", "skill", "regret"}
            Which score: "regret" is the gain (below 0) or loss against xi = 0.

        Returns
        -------
        matplotlib axes
        """
        if self.by != ("xi",):
            raise InputError(
                f"this plot is for fits that differ in xi alone, not in {' and '.join(self.by)}: use the plot() of "
                "ElasticNetCV or SmoothSearchCV"
            )
        return plotting.left_out(self, ax, label, legend, of=of)


class Predicted(NamedTuple):
    """The rows of a left-out environment: their predicted distributions, outcomes and positions in the data."""

    distribution: Any
    y: Response
    rows: NDArray[np.intp]


def _of(number: int, total: int) -> str:
    return f"{number} of {total} environments {'was' if number == 1 else 'were'}"
