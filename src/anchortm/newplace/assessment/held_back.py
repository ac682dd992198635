"""What the new place then shows: the strategies, fitted to all rows, on outcomes that came in later."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import shown
from anchortm._typing import Array
from anchortm._util.html import report
from anchortm.exceptions import AnchorTMError
from anchortm.inputs.missing import rows_taken
from anchortm.inputs.response import Response
from anchortm.models.given import whole_new
from anchortm.newplace.assessment.advice import Advice
from anchortm.newplace.assessment.labels import DRAWS, REST
from anchortm.newplace.assessment.words import signed
from anchortm.newplace.scoring import scores_of_rows
from anchortm.selection.further import GAIN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HeldBack", "NewRows", "held_back"]

SCORES = ("nll", "mae", "coverage")

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

        ``se`` is the standard error of the gain over rows, as if they did not depend on each other. ``mae`` is the mean
        absolute error of medians, ``coverage`` that of 90 % intervals.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def _gain(self, strategy: str) -> float:
        """Return what the recommended kind of strategy gained; NaN if it was not tried here."""
        if strategy == "recalibrate":
            return next((row["gain"] for row in self.rows if row["strategy"].startswith("recalibrated")), math.nan)
        names = [strategy, f"anchored({self.advice.xi:g})"][: 2 if strategy == "anchored" else 1]
        gains = {row["strategy"]: row["gain"] for row in self.rows}
        return next((gains[name] for name in names if name in gains), math.nan)

    @property
    def _best(self) -> dict[str, Any]:
        """Return the best of the strategies that need no outcomes of the new place, besides maximum likelihood."""
        known = [row for row in self._without_outcomes if math.isfinite(row["gain"])]
        others = [row for row in known if row["strategy"] != "ml"]
        return max(others or known or self._without_outcomes, key=lambda row: row["gain"])

    @property
    def _without_outcomes(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if not row["strategy"].startswith("recalibrated")]

    @property
    def _recalibrated(self) -> str:
        """Return what outcomes of the new place would have gained, in words; empty if it was not tried."""
        own = next((row for row in self.rows if row["strategy"].startswith("recalibrated")), None)
        if own is None or math.isnan(own["gain"]):
            return ""
        m = own["strategy"].partition("(")[2].rstrip(")")
        return f" Recalibration with {m} of its outcomes gains {signed(own['gain'])} at the others."

    @property
    def _clear(self) -> bool:
        """Return whether the best gain is more than nothing, and more than two of its standard errors."""
        best = self._best
        return bool(best["gain"] > max(GAIN, 2.0 * np.nan_to_num(best["se"])))

    @property
    def agrees(self) -> bool | None:
        """Return whether the new place agrees with the recommendation; None if there was none, or no answer."""
        gain = self._gain(self.advice.strategy)
        if self.advice.confidence in ("undecided", "untried") or math.isnan(gain):
            return None
        return gain > 0.0 if self.advice.strategy != "ml" else not self._clear

    @property
    def sentence(self) -> str:
        """Return the answer in words."""
        best = self._best
        name = str(best["strategy"]).partition("(")[0] + (f" (xi = {best['xi']:g})" if best["xi"] else "")
        if not self._clear:
            own = f" (the best is {name}, {signed(best['gain'])} in log-likelihood per row)"
            own = "" if best["strategy"] == "ml" else own
            truth = f"no strategy that was tried clearly gains over maximum likelihood{own}"
        else:
            most = "gains most" if not self._recalibrated else "gains most of those without its outcomes"
            truth = f"{name} {most}, {signed(best['gain'])} in log-likelihood per row over maximum likelihood"
        said = {True: "This agrees with the recommendation", False: "This does not agree with the recommendation"}
        word = said.get(self.agrees, "The recommendation was open") if self.agrees is not None else ""
        if not word:
            word = "The training places had not decided" if self.advice.confidence == "undecided" else ""
        gain = self._gain(self.advice.strategy)
        own = f" (the recommended strategy: {signed(gain)})" if word and self.advice.strategy != "ml" else ""
        rows = "1 row" if self.n == 1 else f"{self.n} rows"
        return f"At the new place ({rows}), {truth}." + (f" {word}{own}." if word else "") + self._recalibrated

    @shown
    def __repr__(self) -> str:
        table = self.frame().to_string(index=False, float_format=lambda v: f"{v:.3g}", na_rep="")
        return "\n".join([TITLE, table, self.sentence])

    def _repr_html_(self) -> str:
        return report(TITLE, self.frame(), self.sentence)


class NewRows(NamedTuple):
    """Rows of the new place with their outcomes.

    Attributes
    ----------
    X, y, offset
        As the models take them.
    response : Response
        The outcomes, checked.
    weights : array or None
        Weights of the rows.
    """

    X: Any
    y: Any
    offset: Any
    response: Response
    weights: Any

    def take(self, rows: NDArray[np.intp]) -> NewRows:
        """Return some of the rows."""
        n = len(self.response)
        X, y, offset = (rows_taken(name, getattr(self, name), n, rows) for name in ("X", "y", "offset"))
        weights = None if self.weights is None else self.weights[rows]
        return NewRows(X, y, offset, self.response[rows], weights)

    def scores(self, fitted: Any) -> tuple[dict[str, float], Array]:
        """Return the mean scores of a fitted model, NaN where it has none, and the log-likelihood of each row."""
        raw = {"X": self.X, "y": self.y, "offset": self.offset}
        found = scores_of_rows(fitted, raw, self.response, np.zeros(0), 0, SCORES[1:])
        result = dict.fromkeys(SCORES, math.nan)
        for name in SCORES:
            values = np.asarray(found.get(name, np.full(len(self.response), np.nan)))
            known = ~np.isnan(values) & (np.isfinite(values) | (name == "nll"))
            own = None if self.weights is None else self.weights[known]
            result[name] = float(np.average(values[known], weights=own)) if known.any() else math.nan
        return result, -found["nll"]

    def recalibrated(self, ml: Any, fitted: Any, m: int, variance: float) -> dict[str, float]:
        """Return the mean scores of a fit after a shift by m of these rows, at the others; and the gain there."""
        found = []
        for k in range(DRAWS):
            draw = np.random.default_rng([k, m]).permutation(len(self.response))
            few, rest = self.take(np.sort(draw[:m])), self.take(np.sort(draw[m:]))
            options = {} if few.offset is None else {"offset": few.offset}
            moved = fitted.recalibrate(few.X, few.y, what="shift", prior=variance, sample_weight=few.weights, **options)
            scores, base = rest.scores(moved)[0], rest.scores(ml)[0]
            found.append(scores | {"gain": base["nll"] - scores["nll"]})
        return {name: float(np.mean([one[name] for one in found])) for name in (*SCORES, "gain")}


def held_back(
    finals: Mapping[str, Any], rows: NewRows, advice: Advice, recalibrated: Any, m: int, variance: float
) -> HeldBack:
    """Return how strategies that were fitted to all training rows do at the new place.

    Parameters
    ----------
    finals : mapping
        Fitted models by the name of their strategy; "ml" is among them.
    rows : NewRows
        Rows of the new place.
    advice : Advice
        What was recommended.
    recalibrated : fitted model
        The model that is recalibrated with outcomes of the new place.
    m : int
        How many of them.
    variance : float
        Variance of shifts between places; 0 if it is not known, or if places do not differ.
    """
    found: list[dict[str, Any]] = []
    kept = whole_new(finals["ml"], getattr(finals["ml"], "formula_", None), rows.X, "the new place")
    rows = rows if kept is None else rows.take(kept)
    try:
        finals["ml"].new_rows_.design(rows.X, len(rows.response))
    except AnchorTMError as error:
        raise type(error)(f"the new place: {error}") from None
    base, base_logliks = rows.scores(finals["ml"])
    for name, fitted in finals.items():
        row: dict[str, Any] = dict.fromkeys((*SCORES, "gain", "se"), math.nan)
        row |= {"strategy": name, "xi": float(getattr(fitted, "xi_", 0.0))}
        with suppress(AnchorTMError):
            scores, logliks = rows.scores(fitted)
            row |= scores | {"gain": base["nll"] - scores["nll"], "se": _error(logliks - base_logliks)}
        found.append(row)
    if variance > 0.0 and len(rows.response) >= m + REST:
        with suppress(AnchorTMError):
            row = {"strategy": f"recalibrated({m})", "xi": float(recalibrated.xi_), "se": math.nan}
            found.append(row | rows.recalibrated(finals["ml"], recalibrated, m, variance))
    names = ("strategy", "xi", "nll", "gain", "se", "mae", "coverage")
    return HeldBack([{name: row[name] for name in names} for row in found], len(rows.response), advice)


def _error(differences: Array) -> float:
    """Return the standard error of a mean over rows."""
    known = differences[np.isfinite(differences)]
    return float(known.std(ddof=1)) / math.sqrt(known.size) if known.size > 1 else math.nan
