"""What the new place then shows: the strategies, fitted to all rows, on outcomes that came in later."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._messages import shown
from anchortm._util.html import report
from anchortm.exceptions import AnchorTMError
from anchortm.newplace.assessment.rule import Advice
from anchortm.newplace.assessment.words import signed
from anchortm.selection.further import GAIN

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.inputs.response import Response

__all__ = ["HeldBack", "held_back"]

TITLE = "What the new place then showed"


@dataclass(frozen=True, eq=False)
class HeldBack:
    """The strategies at the new place, where outcomes are known by now, against what was recommended.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    n : int
        Number of rows of the new place.
    advice : Advice
        What was recommended.
    """

    rows: list[dict[str, Any]]
    n: int
    advice: Advice

    def frame(self) -> pd.DataFrame:
        """Return one row for each strategy: ``xi``, ``nll``, ``gain`` over maximum likelihood, ``mae``, ``coverage``.

        ``mae`` is the mean absolute error of medians, ``coverage`` that of 90 % intervals.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def _gain(self, strategy: str) -> float:
        """Return what the recommended kind of strategy gained; NaN if it was not tried here."""
        return next((row["gain"] for row in self.rows if row["strategy"] == strategy), math.nan)

    @property
    def _best(self) -> dict[str, Any]:
        return max(self.rows, key=lambda row: row["gain"] if math.isfinite(row["gain"]) else -math.inf)

    @property
    def agrees(self) -> bool | None:
        """Return whether the new place agrees with the recommendation; None if there was none, or no answer."""
        gain = self._gain(self.advice.strategy)
        if self.advice.confidence in ("undecided", "untried") or math.isnan(gain):
            return None
        return gain > 0.0 if self.advice.strategy != "ml" else self._best["gain"] <= GAIN

    @property
    def sentence(self) -> str:
        """Return the answer in words."""
        best = self._best
        name = str(best["strategy"]).partition("(")[0] + (f" (xi = {best['xi']:g})" if best["xi"] else "")
        if best["gain"] <= GAIN:
            truth = "no strategy that was tried gains more than 0.01 per row over maximum likelihood"
        else:
            truth = f"{name} gains most, {signed(best['gain'])} in log-likelihood per row over maximum likelihood"
        said = {True: "This agrees with the recommendation", False: "This does not agree with the recommendation"}
        word = said.get(self.agrees, "The recommendation was open") if self.agrees is not None else ""
        if not word:
            word = "The training places had not decided" if self.advice.confidence == "undecided" else ""
        gain = self._gain(self.advice.strategy)
        own = f" (the recommended strategy: {signed(gain)})" if word and self.advice.strategy != "ml" else ""
        return f"At the new place ({self.n} rows), {truth}." + (f" {word}{own}." if word else "")

    @shown
    def __repr__(self) -> str:
        table = self.frame().to_string(index=False, float_format=lambda v: f"{v:.3g}", na_rep="")
        return "\n".join([TITLE, table, self.sentence])

    def _repr_html_(self) -> str:
        return report(TITLE, self.frame(), self.sentence)


def held_back(
    finals: Mapping[str, Any], X: Any, y: Any, response: Response, weights: Any, offset: Any, advice: Advice
) -> HeldBack:
    """Return how strategies that were fitted to all training rows do at the new place.

    Parameters
    ----------
    finals : mapping
        Fitted models by the name of their strategy; "ml" is among them.
    X, y, offset
        The rows of the new place, as the models take them.
    response : Response
        The outcomes, checked.
    weights : array or None
        Weights of the rows.
    advice : Advice
        What was recommended.
    """
    from anchortm.newplace.scoring import scores_of_rows

    rows: list[dict[str, Any]] = []
    raw = {"X": X, "y": y, "offset": offset}
    for name, fitted in finals.items():
        row = {"strategy": name, "xi": float(getattr(fitted, "xi_", 0.0))}
        row |= dict.fromkeys(("nll", "gain", "mae", "coverage"), math.nan)
        try:
            found = scores_of_rows(fitted, raw, response, np.zeros(0), 0, ("mae", "coverage"))
        except AnchorTMError:
            rows.append(row)
            continue
        for score in ("nll", "mae", "coverage"):
            values = np.asarray(found.get(score, np.full(len(response), np.nan)))
            known = np.isfinite(values) if score != "nll" else ~np.isnan(values)
            own = None if weights is None else weights[known]
            row[score] = float(np.average(values[known], weights=own)) if known.any() else math.nan
        rows.append(row)
    base = next(row["nll"] for row in rows if row["strategy"] == "ml")
    return HeldBack([row | {"gain": base - row["nll"]} for row in rows], len(response), advice)
