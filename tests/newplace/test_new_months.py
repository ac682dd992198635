"""Two data sets where the answer is known: new months, whose gain is foreseen, and neighbourhoods, where it is not."""

import numpy as np
import pandas as pd
import pytest

import anchortm as atm

PC = "price ~ log(speed) + log(hd) + log(ram) + screen + cd + multi + premium | trend"
AMES = (
    "Sale_Price ~ log(Gr_Liv_Area) + log(Lot_Area) + Year_Built + Year_Remod_Add + Total_Bsmt_SF + Garage_Cars"
    " + Full_Bath + Half_Bath + Bedroom_AbvGr + Fireplaces + Central_Air | Neighborhood"
)


def at_the_new_place(formula: str, known: pd.DataFrame, new: pd.DataFrame, y: str, xis: list[float]) -> pd.DataFrame:
    """Return the mean NLL of the new rows and the mean absolute error of their medians, by xi."""
    rows = []
    for xi in xis:
        fit = atm.ContinuousLogit.from_formula(formula, known, xi=xi)
        error = np.abs(fit.predict_distribution(new).median() - new[y].to_numpy())
        rows.append({"xi": xi, "nll": fit.nll(new).mean(), "error": error.mean()})
    return pd.DataFrame(rows).set_index("xi")


@pytest.mark.slow
def test_new_months_of_computers_are_foreseen() -> None:
    data = atm.datasets.load_computers()
    known, new = data[data.trend <= 24], data[data.trend > 24]
    found = atm.compare_strategies(
        atm.ContinuousLogit(), PC, known, new=new, strategies=["widened", "anchored"], progress=False
    )
    table = found.table().set_index(["design", "strategy"])
    assert found.verdict.like == "ml"
    assert table.loc[("like", "anchored"), "difference"] > 0.0
    further = found.verdict.further
    assert (further.strategy, further.confidence, further.xi) == ("anchored", "tentative", 10.0)
    assert further.distance == pytest.approx(3.0, abs=0.05)
    assert further.folds["gain"].to_numpy() == pytest.approx([0.32, 0.55, -0.01, -0.02], abs=0.01)
    assert (further.folds["gain_widened"][:2] < further.folds["gain"][:2]).all()
    assert table.loc[("further", "anchored"), "difference"] < table.loc[("further", "widened"), "difference"] < 0.0

    truth = at_the_new_place(PC, known, new, "price", [0.0, 10.0, 30.0])
    assert (truth["nll"] - truth["nll"][0.0]).to_numpy() == pytest.approx([0.0, -0.94, -0.99], abs=0.01)
    assert truth["error"].to_numpy() == pytest.approx([602.0, 340.0, 300.0], abs=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["dearest", "cheapest"])
def test_new_neighbourhoods_of_ames_are_not_foreseen(which: str) -> None:
    data = atm.datasets.load_ames()
    size = data["Neighborhood"].value_counts()
    data = data[data["Neighborhood"].isin(size.index[size >= 5])]
    order = data.groupby("Neighborhood")["Sale_Price"].mean().sort_values().index
    assert len(order) == 26
    away = data["Neighborhood"].isin(order[-6:] if which == "dearest" else order[:6])
    found = atm.compare_strategies(
        atm.ContinuousLogit(),
        AMES,
        data[~away],
        new=data[away],
        design="further",
        strategies=["anchored", atm.strategies.Anchored(xi=10.0)],
        progress=False,
    )
    frame = found.frame()
    regret = frame[frame["strategy"] == "anchored(10)"].groupby(["side", "share"])["regret"].mean()
    truth = at_the_new_place(AMES, data[~away], data[away], "Sale_Price", [0.0, 10.0])
    change = truth["nll"][10.0] - truth["nll"][0.0]
    assert (found.verdict.further.strategy, found.verdict.further.confidence) == ("ml", "undecided")
    assert (regret["same"] > 0.03).all()  # the folds on the side of the new places lose
    if which == "dearest":
        assert change == pytest.approx(-0.26, abs=0.02)
        assert truth["error"][10.0] < truth["error"][0.0]
    else:
        assert (regret["other"] < -0.2).all()
        assert change == pytest.approx(0.22, abs=0.02)
        assert truth["error"][10.0] > truth["error"][0.0]
