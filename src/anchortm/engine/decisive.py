"""Which environments decide a fit that minimises a tail risk, with the record for files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.plain_values import check, is_label, is_number, is_parameter, is_strength, list_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Decisive"]

Array = NDArray[np.float64]

NAMED = 5  # places that a summary names
FEW_ROWS = 10
EQUAL_SHARES = 1e-9  # shares that differ by less are equal up to rounding
RISKS = ("tail", "worst", "cvar")
REFERENCES = {
    "own-shift": "its own shift of the maximum-likelihood fit",
    "null": "the model without covariates",
    None: "nothing",
}


@dataclass(frozen=True, eq=False)
class Decisive:
    """Which environments decide a fit that minimises a tail risk.

    Attributes
    ----------
    risk : {"tail", "worst", "cvar"}
        The kind of risk: "tail" is that of squared mean residuals, the others are those of losses.
    share : float
        The share of the environments that counts; 0 is the single worst one.
    reference : {"own-shift", "null", None}
        What losses are compared with.
    places : tuple
        Names of the environments; small ones may have been taken together.
    rows : array
        Their total weights.
    weights : array
        Their multipliers, which sum to 1: the fit is one in which environments have these weights. Most are 0.
    values : array
        The values behind the risk: squared mean residuals, or mean losses minus their reference.
    offsets : array
        The reference of each environment.
    exact : array
        The share of exact rows, such as events, in each environment; empty for a tail.
    gap : float
        The duality gap: how far the loss can be from its smallest value. NaN if the
        likelihood is not known to be concave.
    """

    risk: str
    share: float
    reference: str | None
    places: tuple[Any, ...]
    rows: Array
    weights: Array
    values: Array
    offsets: Array
    exact: Array
    gap: float = math.nan

    @property
    def multipliers(self) -> pd.Series:
        """Return the multiplier of each environment."""
        import pandas as pd

        return pd.Series(self.weights, index=pd.Index(self.places, name="environment"), name="multiplier")

    def __repr__(self) -> str:
        return f"Decisive({self.facts()['decisive']})"

    def frame(self) -> pd.DataFrame:
        """Return one row for each environment, the decisive ones first."""
        import pandas as pd

        columns = {"environment": self.places, "n": self.rows, "multiplier": self.weights, "value": self.values}
        columns |= {"reference": self.offsets, "exact": self.exact} if self.risk != "tail" else {}
        return pd.DataFrame(columns).sort_values(["multiplier", "value"], ascending=False, ignore_index=True)

    def facts(self) -> dict[str, str]:
        """Return the lines of a summary."""
        there = np.argsort(-self.weights, kind="stable")[: int((self.weights > 0.0).sum())]
        named = [f"{self.places[e]} {self.weights[e]:.2g}" for e in there[:NAMED]]
        more = ", ..." if there.size > NAMED else ""
        facts = {"decisive": f"{there.size} of {len(self.places)} environments: {', '.join(named)}{more}"}
        if self.risk == "tail":
            return {"tail": f"the worst {100.0 * self.share:.4g} % of the penalty counts"} | facts
        what = (
            "the worst environment" if self.risk == "worst" else f"the worst {100.0 * self.share:.4g} % of environments"
        )
        compared = {"compared with": REFERENCES[self.reference]} if self.reference else {}
        facts = {"risk": f"mean loss of {what}"} | compared | facts
        gap = (
            "no bound, because the likelihood is not known to be concave" if math.isnan(self.gap) else f"{self.gap:.1e}"
        )
        return facts | {"duality gap": gap}

    def times(self, factor: float) -> Decisive:
        """Return the same with values in another unit."""
        return replace(self, values=factor * self.values)

    def remarks(self) -> Iterator[str]:
        """Yield warnings: about losses that depend on the unit of time, and about places of a few rows that decide."""
        if self.risk == "tail":
            return
        if self.reference is None and np.ptp(self.exact) > EQUAL_SHARES and self.exact.max() > 0.0:
            yield (
                f"shares of exact rows differ between environments, from {self.exact.min():.2g} to "
                f"{self.exact.max():.2g}: their losses without a reference depend on the unit of the outcome, and so "
                "does the fit; use reference='own-shift' or 'null'"
            )
        size = float(self.weights @ self.rows)
        if size < FEW_ROWS:
            yield (
                f"the environments that decide have {size:.2g} rows on average: a few outcomes decide; "
                f"min_rows={FEW_ROWS} takes environments with fewer rows together"
            )

    # files

    def record(self) -> dict[str, Any]:
        """Return the record for a file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Decisive:
        """Return the checked values from a record."""
        whole = isinstance(record, dict) and set(record) == set(cls.__dataclass_fields__)
        check(whole, "the environments that decide have unknown or missing fields")
        risk, reference, places = record["risk"], record["reference"], record["places"]
        check(isinstance(risk, str) and risk in RISKS, "the risk is unknown")
        check(reference is None or (isinstance(reference, str) and reference in REFERENCES), "the reference is unknown")
        check(_is_share(record["share"]) and (record["share"] == 0.0) == (risk == "worst"), "the share is invalid")
        check(is_number(record["gap"]), "the duality gap is invalid")
        known = list_of(is_label)(places) and 0 < len(places) == len(set(places))
        check(known, "the environments that decide are invalid")
        columns = {}
        for name, test in (("rows", is_strength), ("weights", _is_share), ("values", is_parameter)):
            columns[name] = _column(record, name, test, len(places))
        columns["offsets"] = _column(record, "offsets", is_parameter, len(places))
        columns["exact"] = _column(record, "exact", _is_share, 0 if risk == "tail" else len(places))
        check(bool(columns["weights"].any()), "the weights of the environments that decide are all 0")
        return cls(risk, record["share"], reference, tuple(places), **columns, gap=record["gap"])


def _is_share(value: Any) -> bool:
    return is_strength(value) and value <= 1.0


def _column(record: dict[str, Any], name: str, test: Any, size: int) -> Array:
    values = record[name]
    check(list_of(test)(values) and len(values) == size, f"the {name} of the environments that decide are invalid")
    return np.array(values, dtype=np.float64)
