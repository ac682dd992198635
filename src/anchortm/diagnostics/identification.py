"""Why do coefficients shrink as xi grows? Whether the anchors over-identify the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Axis, Covariates
from anchortm._util.html import report
from anchortm.exceptions import InputError, InputTypeError
from anchortm.predict.distribution import PredictedDistribution
from anchortm.selection.path import AnchorPath

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["OverIdentification", "over_identification"]

FAR = 100.0  # from this xi on, the penalty shows how fast it falls


@dataclass(frozen=True, eq=False)
class OverIdentification:
    """How coefficients and the spread of predictions change along xi, and whether the model is over-identified.

    Attributes
    ----------
    table : DataFrame
        The table that ``frame`` returns.
    directions : int
        Number of directions of the anchors.
    parameters : int
        Number of parameters of the model, baseline and coefficients.
    outcome_name : str or None
        What the outcome is called, if it had a name in the fit.

    See Also
    --------
    anchortm.diagnostics.over_identification : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> path = atm.anchor_path(atm.NormalLinear(), data[["rm", "lstat"]], data.cmedv, data.town, [0, 10, 100, 1000])
    >>> result = atm.diagnostics.over_identification(path, data[["rm", "lstat"]])
    >>> result.directions, result.parameters
    (92, 4)
    >>> result.frame()[["xi", "coef_norm", "spread", "effect_norm"]].round(2)
           xi  coef_norm  spread  effect_norm
    0     0.0       1.06    7.40         5.83
    1    10.0       0.34   26.59         6.61
    2   100.0       0.11   80.99         6.66
    3  1000.0       0.04  255.11         6.67
    """

    table: pd.DataFrame
    directions: int
    parameters: int
    outcome_name: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return one row per xi: size of the coefficients on both scales, spread of predictions, penalty."""
        return self.table

    def plot(self, ax: Axis = None) -> Axes:
        """Draw the size of the coefficients on both scales against xi and return the axes."""
        return plotting.flattening(self.table, ax, unit=self.outcome_name or "y")

    @property
    def sentence(self) -> str:
        """Return the verdict in words: a penalty that falls like 1 / xi^2 vanishes; like 1 / xi it only flattens h."""
        counts = f"{self.directions} anchor directions and {self.parameters} parameters"
        large = self.table[(self.table.xi >= FAR) & np.isfinite(self.table.xi)]
        if self.directions <= self.parameters and len(large) < 2:
            return f"{counts}. To see whether the model is over-identified, add two values of xi of {FAR:g} or more."
        if len(large) >= 2:
            (a, p), (b, q) = large[["xi", "penalty"]].iloc[[0, -1]].to_numpy()
            if q <= 0.0 or np.log(p / q) / np.log(b / a) > 1.5:
                return f"{counts}. As xi grows residuals become uncorrelated with all anchors: not over-identified."
        return (
            f"{counts}: over-identified. Residuals cannot be made uncorrelated with all anchors. The fit lowers the "
            "penalty by flattening h instead: predictions widen and coefficients on the scale of h shrink."
        )

    @shown
    def __repr__(self) -> str:
        table = self.table.to_string(index=False, float_format="{:.4g}".format)
        return f"{self.sentence}\n{self._note()}\n{table}"

    def _repr_html_(self) -> str:
        return report(self.sentence, self.table, self._note())

    def _note(self) -> str:
        """Return what happens along xi."""
        first, last = self.table.iloc[0], self.table.iloc[-1]
        note = (
            f"From xi = {first.xi:g} to {last.xi:g} the coefficients (per standard deviation) go from "
            f"{first.coef_norm:.3g} to {last.coef_norm:.3g} on the scale of h; predicted distributions are "
            f"{last.spread / first.spread:.3g} times as wide"
        )
        if np.isfinite(first.effect_norm):
            note += (
                f", and on the scale of {self.outcome_name or 'y'} the coefficients go from {first.effect_norm:.3g} to "
                f"{last.effect_norm:.3g}"
            )
        return f"{note}."


def over_identification(path: AnchorPath, X: Covariates) -> OverIdentification:
    """Return how coefficients and the spread of predictions change along a path in xi.

    The table has one row per xi:

    - ``coef_norm``: norm of the coefficients on the scale of h, each per standard deviation of its covariate;
    - ``spread``: interquartile range of the predicted distribution at the means of the covariates (for classes and
      counts, the interquartile range of the link divided by the rise of h);
    - ``effect_norm``: the norm on the scale of y. It is exact for ``NormalLinear`` and holds near the centre for other
      models;
    - ``penalty``.

    Parameters
    ----------
    path : AnchorPath
        Fits along xi, see ``anchor_path``.
    X : covariates
        As for ``fit``; of a path by a formula, the table.

    See Also
    --------
    anchortm.anchor_path : computes the path
    anchortm.diagnostics.OverIdentification : the result

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> path = atm.anchor_path(atm.NormalLinear(), data[["rm", "lstat"]], data.cmedv, data.town, [0, 10, 100, 1000])
    >>> result = atm.diagnostics.over_identification(path, data[["rm", "lstat"]])
    >>> print(str(result).split(". ")[0])
    92 anchor directions and 4 parameters: over-identified
    """
    import pandas as pd

    first = path.models[0]
    if hasattr(first, "scale_coef_"):
        raise InputError(
            "over_identification does not support scale effects, which change the spread from row to row: pass the "
            "path of a model without scale"
        )
    if first.basis_.kind == "constant":
        raise InputError(
            f"{type(first).__name__} does not transform y, so no transformation can flatten: look in path.frame() "
            "whether the penalty goes to 0"
        )
    if first.basis_.kind == "step":
        raise InputTypeError("CoxPH has no baseline that a penalty could flatten: use ProportionalHazards instead")
    matrix = first.new_rows_.matrix(X, 2)
    deviation, mean = matrix.std(axis=0, ddof=1), matrix.mean(axis=0, keepdims=True)
    unit = float(np.diff(first.link_.quantile(np.array([0.25, 0.75])))[0])
    rows = []
    for xi, m in zip(path.xis, path.models, strict=True):
        coef = m.coef_
        norm = float(np.linalg.norm(coef * deviation))
        if m.basis_.discrete:
            typical = m.result_.typical
            width = float(typical[-1] - typical[0])
            spread, effect = unit / width if width > 0.0 else np.nan, np.nan
        else:
            fit = m.result_
            typical = PredictedDistribution(fit.link, fit.basis, fit.typical, fit.sign * (mean @ coef), fit.time)
            low, high = typical.interval(0.5)
            spread = float(high[0] - low[0])
            effect = norm * spread / unit
        rows.append({"xi": xi, "coef_norm": norm, "spread": spread, "effect_norm": effect, "penalty": m.penalty_})
    return OverIdentification(pd.DataFrame(rows), first.n_anchors_, first.n_parameters_, first.result_.outcome_name)
