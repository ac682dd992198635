"""What the tables of strategies show beside the recommendation, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchortm.newplace.assessment.words import signed
from anchortm.newplace.paired import FEWEST as FEWEST_PAIRED
from anchortm.selection.further import GAIN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["asides"]


def asides(table: pd.DataFrame, design: str, strategy: str | None, ranked: int) -> list[str]:
    """Return what else the strategies show at one kind of place.

    Parameters
    ----------
    table : DataFrame
        Strategies compared, from ``Comparison.table``.
    design : {"like", "further"}
        The kind of place.
    strategy : str or None
        The strategy that is recommended for it.
    ranked : int
        How many places are large enough to be compared one by one.
    """
    own = table[table["design"] == design].set_index("strategy")
    if "ml" not in own.index:
        return []
    found = [_without_covariates(own)]
    found.append(_at_hard_places(own, strategy, ranked) if design == "like" else _in_all_folds(own, strategy))
    return [text for text in found if text]


def _without_covariates(own: pd.DataFrame) -> str:
    """Return whether the covariates do harm."""
    lost = own.at["ml", "mean"]  # minus the skill
    if not lost > GAIN:
        return ""
    return (
        f"The model without covariates ('null') predicts these places better than maximum likelihood, by {lost:.2f} "
        "per row on average: what the covariates show at some places misleads at others."
    )


def _at_hard_places(own: pd.DataFrame, strategy: str | None, ranked: int) -> str:
    """Return which other strategy does better at hard places; nothing if places are few."""
    skill = -own["q90"].drop("null", errors="ignore").dropna()
    if ranked < FEWEST_PAIRED or "ml" not in skill:
        return ""
    best = str(skill.idxmax())
    if best == strategy or skill[best] - skill["ml"] <= GAIN:
        return ""
    return (
        f"If hard places matter most to you: {best!r} has the most skill there ({signed(skill[best], 3)}, maximum "
        f"likelihood {signed(skill['ml'], 3)}). It is the best of {len(skill)} strategies and not tested, so expect "
        "less."
    )


def _in_all_folds(own: pd.DataFrame, strategy: str | None) -> str:
    """Return which other strategy gains wherever the outermost places are left out."""
    if strategy not in ("ml", None):
        return ""
    others = own.drop(["null", "ml"], errors="ignore")
    others = others[others["gained"] != ""]  # without those that failed
    counts = [text.split(" of ") for text in others["gained"]]
    always = others[[gained == folds != "1" for gained, folds in counts]]
    always = always[always["difference"] < -GAIN]
    if always.empty:
        return ""
    best = str(always["difference"].idxmin())
    gain, folds = signed(-always.at[best, "difference"]), always.at[best, "gained"].split(" of ")[1]
    return (
        f"{best!r} gains in all {folds} folds ({gain} on average). The rule for places further out judges anchoring "
        f"only, so this is not a recommendation: the folds overlap, and it is the best of {len(others)} strategies."
    )
