"""What to do at a new place: the advice for one kind of place, and the recommendation made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from anchortm._util.html import report
from anchortm.newplace.assessment.words import signed

__all__ = ["DESIGNS", "Advice", "Recommendation"]

DESIGNS = {"like": "at a place like these", "further": "at a place further out"}


@dataclass(frozen=True)
class Advice:
    """What to do at one kind of place.

    Attributes
    ----------
    design : {"like", "further"}
        The kind of place.
    strategy : str
        Name of the strategy: one of ``anchortm.strategies``, or "recalibrate".
    xi : float
        Strength of the penalty; 0 for maximum likelihood.
    confidence : str
        "clear", "confident" and "tentative" support the strategy. "keep" says that nothing beats maximum likelihood,
        "undecided" that the data do not decide. "inside" says that the new place is like the others, "untried" that
        nothing was compared.
    gain : float
        Expected gain over maximum likelihood in log-likelihood per row; NaN if maximum likelihood is kept.
    interval : tuple of float or None
        Interval for the gain.
    interval_is : str
        What kind of interval it is.
    factor : float
        Factor by which predictions are widened.
    collect : int or None
        How many outcomes of the new place are worth collecting.
    collect_gain : float
        Their gain over maximum likelihood.
    collect_xi : float
        Strength of the penalty of the fit to recalibrate with them.
    stability : float
        Share of draws of places with the same strategy; NaN if it was not computed.
    reasons : tuple of str
        Why, in sentences.
    labels : int
        How many outcomes of the new place you have.

    Examples
    --------
    >>> from anchortm.newplace.assessment.advice import Advice
    >>> advice = Advice("further", "anchored", 10.0, "confident", 0.3, (0.1, 0.5), "range over folds")
    >>> print(advice.headline)
    Anchor with xi = 10
    >>> print(advice.gain_sentence)
    Expected gain over maximum likelihood: +0.30 in log-likelihood per row (range over folds: +0.10 to +0.50).
    """

    design: str
    strategy: str = "ml"
    xi: float = 0.0
    confidence: str = "keep"
    gain: float = math.nan
    interval: tuple[float, float] | None = None
    interval_is: str = ""
    factor: float = 1.0
    collect: int | None = None
    collect_gain: float = math.nan
    collect_xi: float = 0.0
    stability: float = math.nan
    reasons: tuple[str, ...] = ()
    labels: int = 0

    @property
    def headline(self) -> str:
        """Return the recommendation in a few words."""
        wide = f"{self.factor:.2g} times as wide"
        match self.strategy:
            case "ml":
                what = "keep maximum likelihood"
                what = f"the data do not decide, so {what}" if self.confidence == "undecided" else what
            case "anchored":
                what = f"anchor with xi = {self.xi:g}" + (", tentatively" if self.confidence == "tentative" else "")
            case "anchored+spread" if self.xi:
                what = f"anchor with xi = {self.xi:g}, and make predictions {wide}"
            case "widened" | "anchored+spread":
                what = f"keep maximum likelihood, and make predictions {wide}"
            case "equal":
                what = "give all places the same weight"
            case "random-intercept":
                what = "fit random intercepts of the places"
            case "recalibrate":
                first = f"anchor with xi = {self.xi:g}, then recalibrate" if self.xi else "recalibrate the model"
                what = f"{first} with your {self.labels} outcome{'' if self.labels == 1 else 's'}"
            case _:
                what = f"use the strategy {self.strategy!r}"
        return what[0].upper() + what[1:] + self._collecting

    @property
    def _collecting(self) -> str:
        """Return how many outcomes to collect, and whether they replace the strategy."""
        if not self.collect:
            return ""
        if self.strategy == "ml" or (self.strategy == "anchored" and self.xi == self.collect_xi):
            return f", and collect about {self.collect} outcomes at the new place"
        return f", until you have about {self.collect} outcomes of the new place"

    @property
    def gain_sentence(self) -> str:
        """Return what the strategy gains, in words; empty if maximum likelihood is kept."""
        if math.isnan(self.gain):
            return ""
        ends = "" if self.interval is None else f" ({self.interval_is}: {_range(self.interval)})"
        return f"Expected gain over maximum likelihood: {signed(self.gain)} in log-likelihood per row{ends}."

    @property
    def stability_sentence(self) -> str:
        """Return how stable the answer is, in words; empty if that was not computed."""
        if math.isnan(self.stability):
            return ""
        draws = "all draws" if self.stability == 1.0 else f"{min(self.stability, 0.99):.0%} of the draws"
        fragile = ": it depends on a few places" if self.stability < 0.5 else ""
        return f"If places are drawn again, the recommended strategy is the same in {draws}{fragile}."

    @property
    def lines(self) -> list[str]:
        """Return the recommendation, what it gains, why, and how stable it is: a sentence each."""
        said = (self.sentence, self.gain_sentence, *self.reasons, self.stability_sentence)
        return [text for text in said if text]

    @property
    def sentence(self) -> str:
        """Return the recommendation as a sentence."""
        return f"{DESIGNS[self.design].capitalize()}: {self.headline[0].lower()}{self.headline[1:]}."

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        facts = {"strategy": self.strategy, "xi": f"{self.xi:g}", "how sure": self.confidence}
        return report(self.sentence, facts, *self.lines[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values; numbers that are not known are NaN."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found |= {name: getattr(self, name) for name in ("headline", "gain_sentence", "sentence")}
        found["interval"] = None if self.interval is None else list(self.interval)
        found["reasons"] = [text for text in (*self.reasons, self.stability_sentence) if text]
        return found


@dataclass(frozen=True)
class Recommendation:
    """What to do at the new place.

    Attributes
    ----------
    kind : {"like", "further", "both"}
        The kind of place that the answer is for: one of the two if rows of the new place show how far out it is.
    like, further : Advice or None
        The advice for each kind of place; None if it was not asked for.

    Examples
    --------
    >>> from anchortm.newplace.assessment.advice import Advice, Recommendation
    >>> Recommendation("both", Advice("like"), Advice("further", "anchored", 10.0, "confident"))
    At a place like these: keep maximum likelihood. At a place further out: anchor with xi = 10.
    """

    kind: str
    like: Advice | None
    further: Advice | None

    @property
    def main(self) -> Advice:
        """Return the advice that the answer is: that for a place like these if the kind of place is not known."""
        found = self.further if self.kind == "further" else self.like
        assert found is not None  # noqa: S101
        return found

    @property
    def strategy(self) -> str:
        """Return the name of the strategy."""
        return self.main.strategy

    @property
    def xi(self) -> float:
        """Return the strength of the penalty."""
        return self.main.xi

    @property
    def given(self) -> list[Advice]:
        """Return the advice that the answer consists of."""
        if self.kind != "both":
            return [self.main]
        return [advice for advice in (self.like, self.further) if advice is not None]

    @property
    def sentence(self) -> str:
        """Return the answer in a sentence for each kind of place."""
        return " ".join(advice.sentence for advice in self.given)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        return "\n".join(advice._repr_html_() for advice in self.given)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        advice = {
            name: None if one is None else one.to_dict()
            for name, one in (("like", self.like), ("further", self.further))
        }
        return {"kind": self.kind, "strategy": self.strategy, "xi": self.xi, "sentence": self.sentence, **advice}


def _range(ends: tuple[float, float]) -> str:
    return f"{signed(ends[0])} to {signed(ends[1])}"
