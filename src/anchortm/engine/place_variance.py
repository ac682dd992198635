"""What left-out environments say about the shifts of h between places, as part of a result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anchortm._util.plain_values import check, is_count, is_number, is_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FEWEST_PLACES", "PlaceVariance"]

FEWEST_PLACES = 3  # two shifts do not show a variance
SHOWN = 3  # places that a summary names
NUMBERS = ("sd", "sd_error", "rowwise", "rowwise_error")


@dataclass(frozen=True)
class PlaceVariance:
    """The standard deviation of the shifts of h between places, estimated from left-out environments.

    Attributes
    ----------
    sd : float
        From the joint likelihood of left-out environments: how much places differ. The prior of a recalibration.
    sd_error : float
        Its standard error, by the jackknife over environments.
    rowwise : float
        From the predictive likelihood of single left-out rows: what a prediction of one row at a new place needs. It
        also makes up for other misfit, so that it does not estimate how much places differ.
    rowwise_error : float
        Its standard error.
    n_places : int
        Number of environments that were used.
    not_used : dict
        Environments that were not used, with the reasons.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data)
    >>> model.place_variance_.frame().round(2)
                sd  std. error
    joint     1.13        0.41
    row-wise  0.89        0.53
    """

    sd: float
    sd_error: float
    rowwise: float
    rowwise_error: float
    n_places: int
    not_used: Mapping[str, str] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """Return the two estimates with their standard errors."""
        import pandas as pd

        rows = [[self.sd, self.sd_error], [self.rowwise, self.rowwise_error]]
        return pd.DataFrame(rows, index=["joint", "row-wise"], columns=["sd", "std. error"])

    def facts(self) -> dict[str, str]:
        """Return the lines of a summary."""
        found = {
            "places": f"sd of shifts between {self.n_places} places {self.sd:.4g} (std. error {self.sd_error:.2g}); "
            f"for predictions of a new place {self.rowwise:.4g} ({self.rowwise_error:.2g}), row-wise"
        }
        if not self.not_used:
            return found
        first = [f"{name} ({reason})" for name, reason in list(self.not_used.items())[:SHOWN]]
        more = len(self.not_used) - SHOWN
        return found | {"not used": "; ".join(first) + (f"; and {more} more places" if more > 0 else "")}

    def record(self) -> dict[str, Any]:
        """Return the record for a file."""
        return {name: getattr(self, name) for name in NUMBERS} | {
            "n_places": self.n_places,
            "not_used": dict(self.not_used),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> PlaceVariance:
        """Return the checked estimates from a record."""
        check(isinstance(record, dict), "the place variance is invalid")
        for name in NUMBERS:
            value: Any = record.get(name)
            check(is_number(value) and 0.0 <= value < math.inf, f"the field {name!r} of the place variance is invalid")
        n: Any = record.get("n_places")
        names: Any = record.get("not_used")
        check(is_count(n) and n >= FEWEST_PLACES, "the number of places is invalid")
        good = isinstance(names, dict) and all(is_text(name) and is_text(why) for name, why in names.items())
        check(good, "the names of places that were not used are invalid")
        numbers = {name: float(record[name]) for name in NUMBERS}
        return cls(**numbers, n_places=n, not_used=names)
