"""Real data with places held back: what ``assess`` recommends from the others, and what the held-back places show.

Later months; the neighbourhoods and towns with the highest and the lowest mean price; the European centres of a trial.
The months and the neighbourhoods were known when the rule was made. The towns and the centres were chosen for this
module before their numbers were computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import anchortm as atm

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.newplace.assessment.assessment import Assessment

__all__ = ["Case", "answer", "cases", "computers"]

PC = "price ~ log(speed) + log(hd) + log(ram) + screen + cd + multi + premium | trend"
AMES = (
    "Sale_Price ~ log(Gr_Liv_Area) + log(Lot_Area) + Year_Built + Year_Remod_Add + Total_Bsmt_SF + Garage_Cars"
    " + Full_Bath + Half_Bath + Bedroom_AbvGr + Fireplaces + Central_Air | Neighborhood"
)
BOSTON = "cmedv ~ crim + zn + indus + nox + rm + age + lstat | town"
CGD = "Surv(tstop, status) ~ treat + age + propylac | center"
EUROPE = ("Amsterdam", "Copenhagen", "Univ. of Zurich")
LEAST = 5  # rows of a place
HELD_BACK = 6  # places on each side


class Case(NamedTuple):
    """A data set, the places that are held back, and the model.

    Attributes
    ----------
    name : str
        What it is called.
    held : str
        Which places are held back.
    model : estimator
    formula : str
    known, new : DataFrame
        Rows of the other places, and of those that are held back.
    """

    name: str
    held: str
    model: Any
    formula: str
    known: pd.DataFrame
    new: pd.DataFrame


def computers() -> Case:
    """Return prices of personal computers: months 25 to 35 are held back."""
    data = atm.datasets.load_computers()
    early = data.trend <= 24
    return Case("PC prices", "months 25 to 35", atm.ContinuousLogit(), PC, data[early], data[~early])


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield computers()
    ames, boston, cgd = atm.datasets.load_ames(), atm.datasets.load_boston_housing2(), atm.datasets.load_cgd()
    for name, model, formula, data, place, price, many in (
        ("Ames", atm.ContinuousLogit(), AMES, ames, "Neighborhood", "Sale_Price", "neighbourhoods"),
        ("BostonHousing2", atm.ContinuousProbit(), BOSTON, boston, "town", "cmedv", "towns"),
    ):
        kept = data[data.groupby(place)[place].transform("size") >= LEAST]
        order = kept.groupby(place)[price].mean().sort_values().index
        for word, own in (("dearest", order[-HELD_BACK:]), ("cheapest", order[:HELD_BACK])):
            away = kept[place].isin(own)
            held = f"the six {word} of {len(order)} {many}"
            yield Case(name, held, model, formula, kept[~away], kept[away])
    away = cgd.center.isin(EUROPE)
    hazards = atm.ProportionalHazards(order=3)
    yield Case("cgd", "the three European centres", hazards, CGD, cgd[~away], cgd[away])


def answer(case: Case, n_jobs: int | None = None, progress: bool | None = None) -> Assessment:
    """Return the assessment from the known places, with what the held-back places then show."""
    outcome = case.formula.split("~")[0]
    names = [name for name in case.new.columns if name not in outcome]  # the answer does not see the outcomes
    found = atm.assess(case.model, case.formula, case.known, new=case.new[names], n_jobs=n_jobs, progress=progress)
    return found.with_outcomes(case.new)
