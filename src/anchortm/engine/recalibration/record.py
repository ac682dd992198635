"""What a recalibration found, with its record for files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anchortm._util.html import report
from anchortm._util.plain_values import (
    check,
    is_count,
    is_flag,
    is_number,
    is_parameter,
    is_plain,
    is_strength,
    is_text,
)
from anchortm.engine.rows.shift_law import NormalShift, ShiftLaw, law_from_record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WAYS", "Recalibration"]

WAYS = ("shift", "shift+scale", "baseline")
MOST_NODES = 20_000
FROM = {
    "places": "from the places of the fit",
    "clusters": "from the random intercepts of the fit",
    "given": "as given",
    "default": "the default, whose square is a tenth of the variance of rows",
    "strength": "from the strength of the fit",
}


def _is_share(value: Any) -> bool:
    return value is None or is_strength(value)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) and all(map(is_plain, row.values())) for row in value)


FIELDS: dict[str, Callable[[Any], bool]] = {
    "what": lambda value: value in WAYS,
    "rows": is_count,
    "weight": is_strength,
    "prior": is_strength,
    "prior_from": lambda value: value in FROM,
    "shift": is_parameter,
    "std_error": is_strength,
    "scale": is_parameter,
    "scale_error": is_strength,
    "strength": _is_share,
    "floor": _is_share,
    "score": is_number,
    "converged": is_flag,
    "history": _are_rows,
    "cluster": is_text,
    "chosen": is_text,
    "emulated": lambda value: isinstance(value, dict) and all(map(is_number, value.values())),
}


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What ``recalibrate`` found at the new place.

    Attributes
    ----------
    what : {"shift", "shift+scale", "baseline", "trees"}
        What was fitted to the rows.
    rows, weight : int, float
        Number of rows from the new place, and the sum of their weights.
    prior : float
        Variance of the shift before the rows were seen.
    prior_from : {"places", "clusters", "given", "default", "strength"}
        Where it comes from: differences between the places of the fit, its random intercepts, the argument, the
        default, or the strength of a baseline.
    shift, std_error : float
        The most likely shift on the scale of h (of the linear predictor of a generalised linear model) and its
        standard error. A positive shift makes outcomes larger. For a baseline, the average over the rows of the fit.
    scale, scale_error : float
        The factor of h around its median, and its standard error; 1 and 0 unless it was fitted.
    strength, floor : float or None
        How many rows the fit counts for in a baseline, and the smallest share of its slopes.
    score : float
        Certificate: the derivative of the log posterior density at the solution, in standard errors; 0 at an exact
        maximum. For a baseline, the scaled KKT residual.
    converged : bool
        Whether the score is within its tolerance.
    history : list of dict
        One entry for each iteration; ``log`` is the same as a table.
    law : ShiftLaw
        The posterior distribution of the shift less ``shift``, over which predictions are averaged.
    cluster : str
        If the place is a new cluster of a model with random effects, the name of the clusters; predictions are then
        those of this cluster.
    chosen : str
        After ``what="auto"``: why this was chosen.
    emulated : dict
        After ``what="auto"``: for each way, the mean negative log-likelihood of left-out places after as many rows.

    See Also
    --------
    anchortm.NormalLinear.recalibrate : finds it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> X, price, new = data[["rm", "lstat"]], data.cmedv, data.town == "Cambridge"
    >>> model = atm.NormalLinear().fit(X[~new], price[~new])
    >>> there = model.recalibrate(X[new][:5], price[new][:5], what="shift", prior=0.25)
    >>> there.recalibration_
    Recalibration(shift 0.4 +- 0.33 from 5 rows, prior sd 0.5)
    >>> there.recalibration_.log[["iteration", "shift"]].round(2)
       iteration  shift
    0          0    0.0
    1          1    0.4
    """

    what: str
    rows: int
    weight: float
    prior: float
    prior_from: str
    shift: float
    std_error: float
    scale: float = 1.0
    scale_error: float = 0.0
    strength: float | None = None
    floor: float | None = None
    score: float = 0.0
    converged: bool = True
    history: list[dict[str, Any]] = field(default_factory=list)
    law: ShiftLaw = field(default_factory=NormalShift)
    cluster: str = ""
    chosen: str = ""
    emulated: dict[str, float] = field(default_factory=dict)

    @property
    def log(self) -> pd.DataFrame:
        """Return one row for each iteration."""
        import pandas as pd

        return pd.DataFrame(self.history)

    def __repr__(self) -> str:
        return f"Recalibration({self._found()}, {self._before()})"

    def _repr_html_(self) -> str:
        return report("Recalibration", self.facts())

    def _found(self) -> str:
        """Return what was found, in a few words."""
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        if self.what == "trees":
            return f"trees from {rows}"
        scale = f" and scale {self.scale:.3g} +- {self.scale_error:.2g}" if self.what == "shift+scale" else ""
        lead = "baseline, mean " if self.what == "baseline" else ""
        return f"{lead}shift {self.shift:.3g} +- {self.std_error:.2g}{scale} from {rows}"

    def _before(self) -> str:
        if self.strength is not None:
            return f"strength {self.strength:g}"
        return f"prior sd {math.sqrt(self.prior):.3g}"

    def facts(self) -> dict[str, str]:
        """Return the lines of a summary."""
        if self.strength is None:
            source = f"the shift has standard deviation {math.sqrt(self.prior):.4g}, {FROM[self.prior_from]}"
        else:
            source = f"the fit counts for {self.strength:g} rows; slopes keep at least {self.floor:g} of theirs"
        certificate = ("converged" if self.converged else "NOT converged") + f", score {self.score:.1e}"
        facts = {"recalibrated": f"{self._found()}; {certificate}", "prior": source}
        if self.cluster:
            facts["place"] = f"a new cluster of {self.cluster}, whose effect comes from the rows"
        if self.chosen:
            facts["chosen"] = f"{self.what}: {self.chosen}"
        return facts

    # files

    def to_dict(self) -> dict[str, Any]:
        """Return the record for a file."""
        names = [name for name in self.__dataclass_fields__ if name != "law"]
        return {name: getattr(self, name) for name in names} | {"law": self.law.record()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Recalibration:
        """Return the checked recalibration from a record."""
        check(isinstance(record, dict), "the recalibration is invalid")
        check(set(record) == set(cls.__dataclass_fields__), "the recalibration has unknown or missing fields")
        for name, test in FIELDS.items():
            check(test(record[name]), f"the field {name!r} of the recalibration is invalid")
        same = (record["strength"] is None) == (record["floor"] is None)
        check(same and record["scale"] > 0.0, "the recalibration is inconsistent")
        law = record["law"]
        check(isinstance(law, dict) and len(law.get("points", ())) <= MOST_NODES, "the law of the shift is invalid")
        return cls(**(record | {"law": law_from_record(law)}))
