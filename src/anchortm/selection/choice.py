"""The choice of a search: the objective of each candidate over left-out environments, and which one is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._typing import Array
from anchortm._util.checks import whole_number
from anchortm.exceptions import ConvergenceWarning, InputError
from anchortm.selection.paired_choice import (
    MIN_EVENTS,
    check_objective,
    choose,
    large_enough,
    objective_of,
    paired_error,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Losses", "Rule"]

RULES = ("paired", "smallest")


class Losses(NamedTuple):
    """The loss of each candidate at each left-out environment.

    Attributes
    ----------
    at : list of tuple
        Penalties of the candidates, the last of them xi.
    values : array of shape (number of candidates, number of environments)
        Losses; NaN where an environment could not be predicted.
    environments : list
        Names of the environments.
    n : array
        Their sizes.
    ranked : array of bool
        Whether they are large enough for quantiles, and to be the worst.
    converged : array of bool
        Whether all fits of a candidate converged.
    """

    at: list[tuple[float, ...]]
    values: Array
    environments: list[object]
    n: Array
    ranked: NDArray[np.bool_]
    converged: NDArray[np.bool_]

    @classmethod
    def of(cls, frame: pd.DataFrame, names: tuple[str, ...], min_rows: int | None, score: str = "skill") -> Losses:
        """Return the losses of a table of left-out environments: minus the skill, or the nll.

        Without ``min_rows`` environments of any size are ranked.
        """
        table = frame.pivot(index="environment", columns=list(names), values=score).sort_index(axis=1)
        values = table.to_numpy(dtype=np.float64).T * (-1.0 if score == "skill" else 1.0)
        about = frame.drop_duplicates("environment").set_index("environment").loc[table.index]
        n = about["n"].to_numpy(dtype=np.float64)
        events = about["events"].to_numpy(dtype=np.float64) if "events" in about else np.full(n.size, np.nan)
        converged = frame.groupby(list(names))["converged"].all()
        at = [tuple(map(float, np.atleast_1d(place))) for place in table.columns]
        known = [bool(converged.loc[place if len(names) > 1 else place[0]]) for place in at]
        ranked = np.ones(n.size, dtype=bool) if min_rows is None else large_enough(n, events, min_rows)
        return cls(at, values, list(table.index), n, ranked, np.array(known))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Return which environments count in quantiles: the ranked ones, or all if none is."""
        return self.ranked if self.ranked.any() else np.ones(self.n.size, dtype=bool)


class Rule(NamedTuple):
    """How a search chooses.

    Attributes
    ----------
    level : float or None
        The quantile of losses that is minimised, 1 for the worst; None for the mean.
    paired : bool
        Whether the smallest xi is kept unless another one is better by more than one standard error.
    near : bool
        Whether the simplest candidate within one standard error of the best is taken.
    min_rows : int
        Environments with fewer rows count in means only.
    """

    level: float | None
    paired: bool
    near: bool
    min_rows: int

    @classmethod
    def of(cls, objective: str | float, rule: str, one_standard_error: bool, min_rows: int) -> Rule:
        """Return the rule for the arguments of a search, after checking them."""
        if rule not in RULES:
            raise InputError(f"rule must be 'paired' or 'smallest', not {rule!r}")
        level = check_objective(objective)
        return cls(level, rule == "paired", bool(one_standard_error), whole_number(min_rows, "min_rows", 1))

    def losses(self, frame: pd.DataFrame, names: tuple[str, ...]) -> Losses:
        """Return what is minimised: minus the skill; for the rule "smallest" the nll, at environments of any size."""
        return Losses.of(frame, names, self.min_rows if self.paired else None, "skill" if self.paired else "nll")

    def choose(self, frame: pd.DataFrame, names: tuple[str, ...]) -> tuple[tuple[float, ...], pd.DataFrame]:
        """Return the penalties that are taken, and the table of objectives."""
        import pandas as pd

        losses = self.losses(frame, names)
        if not np.isfinite(losses.values).all(axis=0).any():
            raise InputError("no environment was predicted by all fits: see the column notes of the left-out table")
        usable = np.flatnonzero(_told_of_unconverged(losses, names)).tolist()
        # simpler candidates first: the strongest net or smoothness, then the smallest xi
        order = sorted(usable, key=lambda k: (*(-value for value in losses.at[k][:-1]), losses.at[k][-1]))
        values = objective_of(losses.values, losses.counted, self.level)
        first = self._first(losses, values, order)
        found = choose(losses.values[order], losses.counted, self.level, first=order.index(first), near=self.near)
        taken = order[found.taken if self.near or self.paired else found.best]
        than = first if self.paired and not self.near else order[found.best]
        errors = paired_error(losses.values, than, losses.counted, self.level)
        hardest = _hardest(losses, self.level)
        index = pd.MultiIndex.from_tuples(losses.at, names=names)
        table = pd.DataFrame(
            {
                "objective": values,
                "difference": values - values[than],
                "standard_error": errors,
                "hardest": [losses.environments[e] for e in hardest],
                "n": _whole(losses.n[hardest]),
                "converged": losses.converged,
            },
            index=index if len(names) > 1 else pd.Index([at[0] for at in losses.at], name=names[0]),
        )
        return losses.at[taken], table

    def remark(self, frame: pd.DataFrame, names: tuple[str, ...]) -> str:
        """Return how many environments are too small to count in a quantile; empty if none is."""
        ranked = self.losses(frame, names).ranked
        small, limits = int((~ranked).sum()), f"fewer than {self.min_rows} rows"
        if self.level is None or not small:
            return ""
        limits += f" or {MIN_EVENTS} events" if "events" in frame else ""
        if small == ranked.size:
            return f"all environments have {limits}, so that all of them count"
        have = "has" if small == 1 else "have"
        return f"{small} of {ranked.size} environments {have} {limits}: not counted in the {self._what}"

    @property
    def _what(self) -> str:
        return "worst" if self.level == 1.0 else "quantile"

    def _first(self, losses: Losses, values: Array, usable: list[int]) -> int:
        """Return the candidate that is kept without evidence for another one: the best at the smallest xi."""
        smallest = min(losses.at[k][-1] for k in usable)
        return min((k for k in usable if losses.at[k][-1] == smallest), key=lambda k: float(values[k]))


def _told_of_unconverged(losses: Losses, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which candidates may be chosen; warn about fits that did not converge."""
    what, usable = " and ".join(names), losses.converged
    if not usable.all():
        places = [losses.at[k] for k in np.flatnonzero(~usable).tolist()]
        gone = ", ".join(" and ".join(f"{value:g}" for value in place) for place in places)
        warn(f"fits at {what} = {gone} did not converge and are not chosen", ConvergenceWarning)
        if not usable.any():
            raise InputError(f"no {what} converged in all environments: raise max_iter, or lower the order")
    return usable


def _hardest(losses: Losses, level: float | None) -> NDArray[np.intp]:
    """Return the environment with the largest loss for each candidate, of those that count."""
    counted = np.ones(losses.n.size, dtype=bool) if level is None else losses.counted
    return np.asarray(np.nanargmax(np.where(counted & np.isfinite(losses.values), losses.values, -np.inf), axis=1))


def _whole(n: Array) -> NDArray[Any]:
    """Return sizes as integers, unless weights make them others."""
    return n.astype(np.int64) if (n == np.floor(n)).all() else n
