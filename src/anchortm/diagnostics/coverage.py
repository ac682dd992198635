"""Do outcomes fall where they were predicted? Calibration by environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Array, Axis, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.frames import name_of
from anchortm._util.html import report
from anchortm.predict.observed import environments_of, rows_of_table
from anchortm.scores import transforms

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Calibration", "calibration"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Whether outcomes fall where they were predicted, by environment.

    Attributes
    ----------
    table : DataFrame
        The table that ``frame`` returns.
    rows : DataFrame
        Environment and probability integral transform of each row.
    environment_name : str or None
        What the column of environments is called.

    See Also
    --------
    anchortm.diagnostics.calibration : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> result = atm.diagnostics.calibration(model, data)  # by the judges
    >>> result.frame()[["environment", "n", "pit", "coverage_90"]].head(3).round(2)
      environment   n   pit  coverage_90
    0       (all)  72  0.50         0.97
    1           1   8  0.78         1.00
    2           2   8  0.40         1.00
    """

    table: pd.DataFrame
    rows: pd.DataFrame
    environment_name: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return one row per environment: n, mean transform, coverage and Kolmogorov's test of uniformity."""
        return self.table

    def plot(self, ax: Axis = None, label: int = 3) -> Axes:
        """Draw the distribution of the transforms by environment and return the axes."""
        return plotting.calibration(self.rows, ax, label=label, name=self.environment_name)

    @shown
    def __repr__(self) -> str:
        lines = [self._title(), self._furthest().to_string(index=False, float_format="{:.4g}".format)]
        return "\n".join([*lines, *(f"  ({text})" for text in self._notes())])

    def _repr_html_(self) -> str:
        return report(self._title(), self._furthest(), *self._notes())

    def _title(self) -> str:
        return "Calibration by environment" + (f" ({self.environment_name})" if self.environment_name else "")

    def _furthest(self) -> pd.DataFrame:
        """Return the row of all environments, and those furthest from uniform."""
        return self.table.iloc[[0, *self.table.iloc[1:].sort_values("pvalue").head(10).index]]

    def _notes(self) -> list[str]:
        return [f"the 10 furthest from uniform, of {len(self.table) - 1}"] if len(self.table) > 11 else []


def calibration(
    model: Any,
    X: Covariates | str,
    y: Outcome | AnyTable | None = None,
    environments: Labels | None = None,
    *,
    offset: Numbers | None = None,
    random_state: Seed = 0,
) -> Calibration:
    """Return how well the predicted distributions are calibrated in each environment.

    The table summarises the probability integral transforms: their mean (below 1/2 if outcomes are lower than
    predicted), the coverage of central 50 % and 90 % intervals, and the Kolmogorov-Smirnov distance from uniformity
    with its p-value. In censored and discrete rows the transforms are drawn at random.

    Parameters
    ----------
    model : fitted model
    X, y, offset
        As for ``fit``; usually of rows that the fit has not seen. After a fit by a formula, X may be a table that holds
        the outcome.
    environments : array or column name
        One label per row; by default the anchor of the formula, if y comes from the table too.
    random_state : int, Generator or None
        Seed of the draws.

    See Also
    --------
    anchortm.diagnostics.Calibration : the result
    anchortm.scores.score_table : scores by environment

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.diagnostics.calibration(model, data, environments="temp")
    Calibration by environment (temp)
    environment  n    pit  coverage_50  coverage_90  distance  pvalue
          (all) 72 0.4984       0.4861       0.9722   0.07688  0.7592
           warm 36 0.5042       0.4444       0.9722    0.1256  0.5773
           cold 36 0.4925       0.5278       0.9722   0.08977  0.9088
    """
    import pandas as pd

    X, y = rows_of_table(model, X, y)
    environments = environments_of(model, X, y, environments, needed=True)
    rows = transforms(model, X, y, environments, offset=offset, random_state=random_state)

    def describe(name: Any, u: Array) -> dict[str, Any]:
        test = stats.kstest(u, "uniform")
        inside = {f"coverage_{p}": float((np.abs(u - 0.5) <= p / 200).mean()) for p in (50, 90)}
        row = {"environment": name, "n": u.size, "pit": u.mean()} | inside
        return row | {"distance": test.statistic, "pvalue": test.pvalue}

    table = [describe("(all)", rows["pit"].to_numpy())]
    table += [describe(name, u.to_numpy()) for name, u in rows.groupby("environment")["pit"]]
    return Calibration(pd.DataFrame(table), rows, name_of(environments))
