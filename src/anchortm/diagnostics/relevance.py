"""Can anchoring work? How strongly the anchors shift the covariates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels
from anchortm._util.frames import aligned
from anchortm._util.html import report
from anchortm.engine.rows.projections import projection
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.design import Design, to_design
from anchortm.models.given import given

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["FirstStage", "first_stage"]

WEAK = 10.0  # an F statistic below this is commonly called weak
ROUNDING = 1e-12  # an R^2 this close to 0 or 1 is 0 or 1


@dataclass(frozen=True, eq=False)
class FirstStage:
    """How strongly the anchors shift each covariate.

    Attributes
    ----------
    table : DataFrame
        The table that ``frame`` returns.
    rank : int
        Number of linearly independent anchor columns, the constant included.

    See Also
    --------
    anchortm.diagnostics.first_stage : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> result = atm.diagnostics.first_stage(data[["rm", "lstat"]], data.town)
    >>> result.frame()[["R2", "F", "partial_R2"]].round(2)
                 R2     F  partial_R2
    covariate
    rm         0.50  4.50        0.44
    lstat      0.65  8.28        0.57
    """

    table: pd.DataFrame
    rank: int

    def frame(self) -> pd.DataFrame:
        """Return one row per covariate: R^2 and F of its regression on the anchors, and Shea's partial R^2."""
        return self.table

    def plot(self, ax: Axis = None) -> Axes:
        """Draw R^2 and partial R^2 of each covariate and return the axes."""
        return plotting.shares(self.table, ax)

    @shown
    def __repr__(self) -> str:
        return "\n".join([self._title(), self.table.to_string(float_format="{:.4g}".format), *self._notes()])

    def _repr_html_(self) -> str:
        return report(self._title(), self.table, *self._notes())

    def _title(self) -> str:
        return f"Anchors ({self.rank} directions) and covariates"

    def _notes(self) -> list[str]:
        """Return what to think of weak anchors."""
        weak, lines = self.table.index[self.table["F"] < WEAK].tolist(), []
        if self.table["partial_R2"].isna().all():
            lines.append("The anchors shift the covariates in too few directions to tell their effects apart.")
        if weak:
            lines.append(
                f"F below {WEAK:g}, weak by the usual rule: {', '.join(map(str, weak))}. A penalty says little about "
                "coefficients of covariates that the anchors do not shift."
            )
        return lines


def first_stage(X: Covariates | str, anchors: Labels | AnyTable) -> FirstStage:
    """Return how strongly the anchors shift each covariate, as in the first stage of an instrumental-variables fit.

    With several covariates, look at the partial R^2 (Shea, 1997): how well the anchors predict a covariate apart from
    the others. It is NaN if the anchors have fewer directions than there are covariates.

    Parameters
    ----------
    X, anchors
        As for ``fit``; or a formula with its anchors and a table in memory, ``first_stage(formula, data)``. The outcome
        of the formula is not used.

    See Also
    --------
    anchortm.diagnostics.FirstStage : the result

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> atm.diagnostics.first_stage(data[["nox", "rm"]], data.town).frame()[["R2", "F"]].round(1)
                R2     F
    covariate
    nox        0.9  45.4
    rm         0.5   4.5
    >>> atm.diagnostics.first_stage("cmedv ~ nox + rm | town", data).frame().F.round(1).tolist()  # by a formula
    [45.4, 4.5]
    """
    import pandas as pd

    if isinstance(X, str):
        X, anchors = _of_formula(X, anchors)
    aligned(X=X, anchors=anchors)
    columns = anchor_columns(anchors)
    design = to_design(X, len(columns))
    if design.matrix.shape[1] == 0:
        raise InputError("X has no columns: a first stage needs covariates")
    n = design.matrix.shape[0]
    if n != len(columns):
        raise InputError(f"X has {n} rows, but anchors has {len(columns)}")
    order = columns.order()
    order = np.arange(n) if order is None else order
    P = projection(columns.take(order))
    x = design.matrix[order] - design.matrix.mean(axis=0)
    spread = np.sqrt((x**2).sum(axis=0))
    if not spread.all():
        raise InputError(f"constant covariates: {', '.join(np.array(design.names)[spread == 0])}")
    x = x / spread
    fitted = np.column_stack([P(column) for column in x.T])
    r2 = np.clip((fitted**2).sum(axis=0), 0.0, 1.0)
    r2 = np.where(r2 > 1.0 - ROUNDING, 1.0, np.where(r2 < ROUNDING, 0.0, r2))
    df, rest = P.rank - 1, n - P.rank
    if df < 1 or rest < 1:
        raise InputError(
            f"a first stage needs at least 2 anchor directions and more rows than directions, not {P.rank} in {n} rows"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        F = (r2 / df) / ((1.0 - r2) / rest)
    gram = fitted.T @ fitted
    partial = np.full(x.shape[1], np.nan)
    if x.shape[1] and np.linalg.eigvalsh(gram)[0] > 1e-10:
        partial = np.diag(np.linalg.inv(x.T @ x)) / np.diag(np.linalg.inv(gram))
    table = {"R2": r2, "F": F, "df": df, "pvalue": stats.f.sf(F, df, rest), "partial_R2": partial}
    return FirstStage(pd.DataFrame(table, index=pd.Index(design.names, name="covariate")), P.rank)


def _of_formula(formula: str, data: Any) -> tuple[Any, Any]:
    """Return the covariates and anchors of a table, without strata and clusters."""
    rows = given(None, formula, data).in_memory("first_stage")
    if rows.anchors is None:
        raise InputError(
            "a first stage needs anchors: pass them after X, or name them after '|' in a formula (y ~ x | place)"
        )
    assert rows.formula is not None  # noqa: S101
    return rows.X if isinstance(rows.X, Design) else rows.X[rows.formula.design_columns()], rows.anchors
