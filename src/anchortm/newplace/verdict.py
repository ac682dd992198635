"""What a comparison recommends: for a place like those of the fit, and for a place further out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anchortm._util.html import report
from anchortm.selection.further import Further

__all__ = ["Verdict"]


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a comparison recommends.

    Attributes
    ----------
    like : str or None
        The strategy for a place like those of the fit: maximum likelihood, unless another one is better on
        average over left-out environments by more than chance (simultaneous p-value below 0.05).
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
