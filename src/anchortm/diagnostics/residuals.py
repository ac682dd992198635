"""Did anchoring work? How the residuals of two fits depend on the anchors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.frames import aligned
from anchortm._util.html import report
from anchortm._util.pipelines import model_of
from anchortm.engine.rows.projections import projection
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import anchor_columns
from anchortm.predict.observed import anchors_of, rows_of_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ResidualInvariance", "residual_invariance"]
TITLE = "Residuals and anchors, before and after"


@dataclass(frozen=True, eq=False)
class ResidualInvariance:
    """How the score residuals of two fits depend on the anchors.

    Attributes
    ----------
    table : DataFrame
        The table that ``frame`` returns.
    explained : pair of float
        Fraction of the residual variance that the anchors explain, before and after.

    See Also
    --------
    anchortm.diagnostics.residual_invariance : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> before, after = (atm.OrdinalRegression(xi).fit(formula, data) for xi in (0, 10))
    >>> result = atm.diagnostics.residual_invariance(before, after, data)
    >>> result.frame()[["level", "n", "mean_before", "mean_after"]].head(3).round(3)
       level  n  mean_before  mean_after
    0      1  8        0.579       0.373
    1      2  8       -0.181      -0.135
    2      3  8        0.318       0.225
    """

    table: pd.DataFrame
    explained: tuple[float, float]

    def frame(self) -> pd.DataFrame:
        """Return one row for each level of a factor and each numeric anchor.

        The columns are anchor, level and n; then the mean residual of the level and the correlation of the residuals
        with the anchor (for a factor, the indicator of the level), each before and after.
        """
        return self.table

    def plot(self, ax: Axis = None, label: int = 3) -> Axes:
        """Draw the mean residual of each level before and after and return the axes."""
        return plotting.invariance(self.table, ax, label=label)

    @shown
    def __repr__(self) -> str:
        lines = [TITLE, *(f"  {name:<30}  {value}" for name, value in self._facts().items())]
        lines.append(self._furthest().to_string(index=False, float_format="{:.4g}".format))
        return "\n".join([*lines, *(f"  ({text})" for text in self._notes())])

    def _repr_html_(self) -> str:
        return report(TITLE, self._facts(), self._furthest(), *self._notes())

    def _facts(self) -> dict[str, str]:
        largest = self.table[["corr_before", "corr_after"]].abs().max()
        facts = {"share of variance explained": self.explained, "largest absolute correlation": tuple(largest)}
        means = self.table[["mean_before", "mean_after"]].abs().max()
        if np.isfinite(means).all():
            facts["largest absolute mean"] = tuple(means)
        return {name: f"{before:.4g} -> {after:.4g}" for name, (before, after) in facts.items()}

    def _furthest(self) -> pd.DataFrame:
        """Return the levels that are most correlated before."""
        return self.table.loc[self.table["corr_before"].abs().sort_values(ascending=False).index].head(10)

    def _notes(self) -> list[str]:
        return [f"the 10 most correlated before, of {len(self.table)}"] if len(self.table) > 10 else []


def residual_invariance(
    before: Any,
    after: Any,
    X: Covariates | str,
    y: Outcome | AnyTable | None = None,
    anchors: Labels | None = None,
    *,
    offset: Numbers | None = None,
    which: Literal["shift", "scale"] = "shift",
) -> ResidualInvariance:
    """Return means and correlations of the score residuals with the anchors, for two fits.

    A large xi aims at mean residuals of zero in all places: then predictions are neither too high nor too low in any.

    Parameters
    ----------
    before, after : fitted models
        Usually the fit at xi = 0 and the fit with a penalty.
    X, y, anchors, offset
        As for ``fit``. If both models were fitted by a formula, X is a table with its columns; y and the anchors then
        come from the table unless you pass them, and anchors and offset may be names of columns.
    which : {"shift", "scale"}
        Residuals of the shift (the default) or of the scale. The means of the latter show where outcomes spread more
        than predicted.

    See Also
    --------
    anchortm.diagnostics.ResidualInvariance : the result

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> before, after = (atm.OrdinalRegression(xi).fit(formula, data) for xi in (0, 10))
    >>> result = atm.diagnostics.residual_invariance(before, after, data)
    >>> [round(share, 2) for share in result.explained]
    [0.35, 0.27]
    """
    import pandas as pd

    X, y = rows_of_table(before, X, y)
    anchors = anchors_of(before, X, anchors)
    aligned(X=X, y=y, anchors=anchors, offset=offset)
    columns = anchor_columns(anchors)
    fits = {"before": before, "after": after}
    r = {name: model_of(fit).residuals(X, y, offset=offset, which=which) for name, fit in fits.items()}
    n = len(columns)
    if r["before"].size != n:
        raise InputError(f"anchors has {n} rows, but y has {r['before'].size}")
    centred = {name: values - values.mean() for name, values in r.items()}
    size = {name: np.sqrt((values**2).sum()) for name, values in centred.items()}
    rows: list[dict[str, Any]] = []
    for factor, levels, anchor in zip(columns.factors, columns.levels, columns.factor_names, strict=True):
        count = np.bincount(factor)
        spread = np.sqrt(count * (1.0 - count / n))
        table = {"anchor": anchor, "level": levels, "n": count}
        for name in r:
            table[f"mean_{name}"] = np.bincount(factor, r[name]) / count
        for name in r:
            with np.errstate(divide="ignore", invalid="ignore"):  # a single level has no correlation
                table[f"corr_{name}"] = np.bincount(factor, centred[name]) / (spread * size[name])
        rows += pd.DataFrame(table).to_dict("records")
    for column, anchor in zip(columns.columns.T, columns.column_names, strict=True):
        row = {"anchor": anchor, "level": "", "n": n, "mean_before": np.nan, "mean_after": np.nan}
        rows.append(row | {f"corr_{name}": np.corrcoef(column, r[name])[0, 1] for name in r})
    order = columns.order()
    order = np.arange(n) if order is None else order
    P = projection(columns.take(order))
    shares = [float((P(values[order]) ** 2).sum() / (values**2).sum()) for values in centred.values()]
    return ResidualInvariance(pd.DataFrame(rows), (shares[0], shares[1]))
