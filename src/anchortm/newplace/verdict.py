"""What a comparison recommends: for a place like those of the fit, and for a place further out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.html import report
from anchortm.newplace.spread import best_factor
from anchortm.newplace.training import Tuning
from anchortm.selection.designs import SHARES, Direction, distances
from anchortm.selection.places import Out

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Further", "Verdict", "further_verdict"]

INSIDE = 1.0  # standard deviations between environments within which a new place is like them
GAIN = 0.01  # a smaller change of the negative log-likelihood does not count


@dataclass(frozen=True, eq=False)
class Further:
    """The recommendation for a place further out, and the folds that it rests on.

    Attributes
    ----------
    strategy : {"anchored", "ml"}
        What to use.
    confidence : {"confident", "tentative", "keep", "undecided", "inside", "untried"}
        "confident": all four folds gain. "tentative": both folds on the side of the new place gain, more than by a
        wider spread. "keep": no fold speaks clearly for anchoring. "undecided": some folds gain and others lose.
        "inside": the new place lies among those of the fit, so that the question does not arise. "untried": no
        strategy has an xi to choose.
    xi : float
        The value with the smallest mean loss over the folds; 0 for maximum likelihood.
    folds : DataFrame
        What was left out, how far out it is, and the gain there at the xi with the smallest mean loss and by another
        spread.
    distance : float or None
        How far out the new place is, in standard deviations between environments.
    """

    strategy: str
    confidence: str
    xi: float
    folds: pd.DataFrame
    distance: float | None = None

    @property
    def width_alone(self) -> bool:
        """Return whether maximum likelihood with a wider spread gains as much on the folds, in the mean."""
        return bool(self.folds["gain_widened"].mean() >= self.folds["gain"].mean())

    @property
    def sentence(self) -> str:
        """Return the recommendation in words."""
        width = "; over all folds a wider spread alone gains as much" if self.width_alone else ""
        far = "" if self.distance is None else f" (the new place is {abs(self.distance):.1f} SD out)"
        gains = ", ".join(f"{gain:+.2f}" for gain in self.folds["gain"])
        match self.confidence:
            case "confident":
                what = f"anchored, xi = {self.xi:g}; all {len(self.folds)} folds gain ({gains}){width}"
            case "tentative":
                own = ", ".join(f"{gain:+.2f}" for gain in self.folds.loc[self.folds["side"] == "same", "gain"])
                what = f"anchored, xi = {self.xi:g}, tentatively; the folds on its side gain ({own}){width}"
            case "inside":
                what = "the new place is not further out than those of the fit, so it counts as a place like these"
            case "untried":
                what = "no strategy with an xi was compared"
            case "undecided":
                at = f"{self.folds['xi'].iloc[0]:g}"
                what = f"the data do not decide, keep maximum likelihood; gains by fold at xi = {at} are {gains}"
            case _:
                what = "keep maximum likelihood; anchoring gains nothing on the outermost places"
        return f"further out{far}: {what}"


def further_verdict(tuning: Tuning, numbers: list[int], direction: Direction, out: Out = frozenset()) -> Further:
    """Return the graded rule for a place further out, from the losses of four folds of outermost environments.

    ``numbers`` are those of the xi to choose from.
    """
    import pandas as pd

    losses = np.array([tuning.losses(k) for k in numbers])
    at = int(np.nanargmin(losses.mean(axis=1))) if np.isfinite(losses).any() else 0
    gain: Array = losses[0] - losses[at]
    factor, wider = 1.0, np.zeros(gain.size)
    if tuning.has_spread:
        factor = best_factor(tuning, 0, None, np.ones(gain.size, dtype=bool))
        wider = losses[0] - tuning.losses(0, factor)
    folds = pd.DataFrame(
        {
            "direction": direction.name,
            "side": [fold.side for fold in tuning.folds],
            "share": [fold.share for fold in tuning.folds],
            "environments": [len(fold.out - out) for fold in tuning.folds],
            "distance": [distances(direction, fold, out) for fold in tuning.folds],
            "xi": tuning.xis[numbers[at]],
            "gain": gain,
            "gain_widened": wider,
        }
    )
    same = (folds["side"] == "same").to_numpy()
    xi = tuning.xis[numbers[at]]
    confidence = "keep" if xi == 0.0 else _confidence(gain, wider, same)
    if direction.new is not None and abs(direction.new) < INSIDE:
        confidence = "inside"
    elif len(numbers) < 2:
        confidence = "untried"
    anchored = confidence in ("confident", "tentative")
    return Further("anchored" if anchored else "ml", confidence, xi if anchored else 0.0, folds, direction.new)


def _confidence(gain: Array, wider: Array, same: NDArray[np.bool_]) -> str:
    """Return how sure the folds are of anchoring, by their gains, and by those of a wider spread.

    A fold that could not be fitted speaks for nothing: all four must gain, or both on the side of the new place.
    """
    if not np.isfinite(gain).all():
        return "keep"
    if gain.size == 2 * len(SHARES) and (gain > GAIN).all():
        return "confident"
    if same.sum() == len(SHARES) and (gain[same] > GAIN).all() and gain[same].mean() > wider[same].mean():
        return "tentative"
    return "undecided" if (gain > GAIN).any() and (gain < -GAIN).any() else "keep"


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a comparison recommends.

    Attributes
    ----------
    like : str or None
        The strategy for a place like those of the fit: maximum likelihood, unless another one is better in the mean
        over left-out environments by more than chance (simultaneous p-value below 0.05).
    further : Further or None
        The recommendation for a place further out.
    """

    like: str | None
    further: Further | None

    @property
    def sentence(self) -> str:
        """Return the recommendation in words."""
        return "; ".join(self._parts())

    def _parts(self) -> list[str]:
        parts = []
        if self.like is not None:
            better = f"{self.like}, better than maximum likelihood on average by more than chance"
            name = "keep maximum likelihood" if self.like == "ml" else better
            parts.append(f"at a place like these: {name}")
        if self.further is not None:
            parts.append(self.further.sentence)
        return parts

    def lines(self) -> list[str]:
        """Return the recommendation as sentences, one for each design."""
        return [part[0].upper() + part[1:] for part in self._parts()]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return report("Verdict", *self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return the recommendation as plain values."""
        own = None
        if self.further is not None:
            own = {name: getattr(self.further, name) for name in ("strategy", "confidence", "xi", "distance")}
            own |= {"folds": self.further.folds.to_dict("records")}
        return {"like": self.like, "further": own, "sentence": self.sentence}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Verdict:
        """Return the recommendation from what ``to_dict`` returned."""
        import pandas as pd

        own = record["further"]
        if own is not None:
            folds = pd.DataFrame(own["folds"])
            own = Further(str(own["strategy"]), str(own["confidence"]), float(own["xi"]), folds, own["distance"])
        return cls(record["like"], own)
