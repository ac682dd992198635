"""The choice of a search: the objective of each penalty over left-out environments, and the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anchortm._messages import warn
from anchortm.exceptions import ConvergenceWarning, InputError
from anchortm.selection.paired_choice import check_objective

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["best_of", "level_of", "objectives"]


def level_of(objective: str | float, one_standard_error: bool) -> float | None:
    """Return the quantile to minimise (1 for the worst), or None for the mean."""
    level = check_objective(objective)
    if one_standard_error and level is not None:
        why = ": a maximum has no standard error" if level == 1.0 else f", not {objective!r}"
        raise InputError(f"one_standard_error needs objective='mean'{why}")
    return level


def objectives(frame: pd.DataFrame, names: tuple[str, ...], level: float | None) -> pd.DataFrame:
    """Return the objective and the hardest environment for each value of the penalties of these names."""
    frame = frame.dropna(subset=["nll"])
    by = list(names) if len(names) > 1 else names[0]
    grouped = frame.groupby(by)
    converged = grouped["converged"].all()
    if level is None:
        nll = frame.pivot(index="environment", columns=by, values="nll").reindex(columns=converged.index)
        mean = nll.mean()
        best = (mean[converged] if converged.any() else mean).idxmin()
        # environments differ far more than fits do, so fits are compared within environments
        difference = nll.sub(nll[best], axis=0)
        table = mean.to_frame("objective").assign(difference=difference.mean(), standard_error=difference.sem())
    else:
        table = grouped["nll"].quantile(level).to_frame("objective")
    hardest = frame.loc[grouped["nll"].idxmax().to_numpy(), "environment"].to_numpy()
    return table.assign(hardest=hardest, converged=converged)


def best_of(table: pd.DataFrame, names: tuple[str, ...], one_standard_error: bool) -> tuple[float, ...]:
    """Return the best penalties, or the simplest ones (then the smallest xi) within one standard error."""
    what = " and ".join(names)
    if not table.converged.all():
        places = [np.atleast_1d(at) for at in table.index[~table.converged]]
        gone = ", ".join(" and ".join(f"{value:g}" for value in place) for place in places)
        warn(f"fits at {what} = {gone} did not converge and are not chosen", ConvergenceWarning)
        table = table[table.converged]
        if table.empty:
            raise InputError(f"no {what} converged in all environments: raise max_iter, or lower the order")
    best = tuple(float(value) for value in np.atleast_1d(table.objective.idxmin()))
    if one_standard_error:
        near = table.index[(table.difference <= table.standard_error) | (table.difference == 0.0)]
        best = max((tuple(map(float, np.atleast_1d(at))) for at in near), key=lambda at: (*at[:-1], -at[-1]))
    return best
