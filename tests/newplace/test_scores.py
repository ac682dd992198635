"""Scores of a comparison: which are computed, and what they are by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.newplace import scoring

CGD = "Surv(tstop, status) ~ treat + age | center"
ALWAYS = ["design", "direction", "side", "share", "strategy", "environment", "n", "events", "nll", "skill", "regret"]
LAST = ["xi", "factor", "regret_se", "ranked", "note"]


def compared(**options) -> pd.DataFrame:
    options = {"design": "like", "strategies": ["widened"]} | options
    model = atm.ParametricSurvival(dist="weibull")
    return atm.compare_strategies(model, CGD, atm.datasets.load_cgd(), **options).frame()


@pytest.fixture(scope="module")
def everything() -> pd.DataFrame:
    return compared()


def test_all_columns_by_default(everything: pd.DataFrame) -> None:
    scores = ["spread", "crps", "coverage", "width", "mae", "brier", "concordance"]
    assert everything.columns.tolist() == [*ALWAYS, *scores, *LAST]
    ml = everything[(everything.strategy == "ml") & (everything.events > 0)]  # without events no error of a median
    assert ml.drop(columns=["spread", "share"]).notna().all(axis=None)


def test_some_scores_are_those_of_all(everything: pd.DataFrame) -> None:
    some = compared(scores=["concordance", "crps", "nll"])
    assert some.columns.tolist() == [*ALWAYS, "crps", "concordance", *LAST]
    pd.testing.assert_frame_equal(some, everything[some.columns])


def test_scores_that_are_not_wanted_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even once: the functions that compute them raise an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("a score that nobody asked for")

    for name in ("crps_of_rows", "width_of", "pit", "brier_rows", "known_values"):
        monkeypatch.setattr(scoring, name, refuse)
    monkeypatch.setattr("anchortm.newplace.compare.at_the_same_width", refuse)
    assert compared(scores=[], strategies=["equal"]).columns.tolist() == [*ALWAYS, *LAST]
    with pytest.raises(ValueError, match="nobody asked for"):
        compared(scores="width", strategies=["equal"])


@pytest.mark.parametrize("wanted", [["cprs"], "cprs", ["crps", 3]])
def test_unknown_scores(wanted) -> None:
    with pytest.raises(ValueError, match=r"scores must be some of nll, skill, regret, spread, .*, not ('cprs'|3)"):
        compared(scores=wanted)


def test_scores_of_a_site_by_hand(everything: pd.DataFrame) -> None:
    data = atm.datasets.load_cgd()
    inside, outside = data[data.center != "NIH"], data[data.center == "NIH"]
    model = atm.ParametricSurvival.from_formula(CGD, inside, dist="weibull")
    row = everything[(everything.strategy == "ml") & (everything.environment == "NIH")].iloc[0]
    dist = model.predict_distribution(outside)
    lower, upper = dist.interval(0.9)
    assert row.width == pytest.approx((upper - lower).mean())
    died = outside.status.to_numpy() == 1
    assert row.mae == pytest.approx(np.abs(outside.tstop.to_numpy() - dist.median())[died].mean())
    assert (row.n, row.events) == (len(outside), died.sum())
    y = atm.Surv(outside.tstop, outside.status)
    assert row.concordance == pytest.approx(atm.scores.concordance(-dist.median(), y))
    at = float(np.median(data.tstop[data.status == 1]))
    assert row.brier == pytest.approx(float(atm.scores.brier(dist, y, [at])[0]), rel=1e-9)


BY_HAND = {
    "censored, with the default support": (atm.ContinuousLogit(), "Surv(cmedv, cmedv < 50) ~ rm + lstat | town", {}),
    "weighted": (atm.ContinuousProbit(order=4), "cmedv ~ rm + lstat | town", {"sample_weight": "age"}),
    "offset": (atm.NormalLinear(), "cmedv ~ rm + lstat | town", {"offset": "nox"}),
    "strata": (atm.ContinuousLogit(order=3), "cmedv | rich ~ rm + lstat | town", {}),
    "gamma": (atm.AnchorGLM(family="gamma"), "cmedv ~ rm + lstat | town", {}),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_likelihoods_are_those_of_fits_by_hand(case: str) -> None:
    """Also the support of a baseline is that of the training rows alone."""
    model, formula, columns = BY_HAND[case]
    data = atm.datasets.load_boston_housing2()
    data = data[data.town.isin(data.town.value_counts().index[:8])].assign(rich=lambda d: d.rm > 6)
    own = [atm.strategies.Anchored(3.0)]
    frame = atm.compare_strategies(model, formula, data, strategies=own, scores=[], **columns).frame()
    one_by_one = frame[frame.design == "like"].groupby("environment")
    together = frame[frame.design == "further"].groupby(["side", "share"])
    for _, fold in [*[*one_by_one][::4], *[*together][::2]]:
        inside = data[~data.town.isin(fold.environment)]
        given = {name: inside[column] for name, column in columns.items()}
        for name, xi in (("ml", 0.0), ("anchored(3)", 3.0)):
            fitted = type(model).from_formula(formula, inside, **{**model.get_params(), "xi": xi}, **given)
            for row in fold[fold.strategy == name].itertuples():
                rows = data[data.town == row.environment]
                offset = {"offset": rows.nox} if "offset" in columns else {}
                nll = np.average(fitted.nll(rows, **offset), weights=rows.age if "sample_weight" in columns else None)
                assert row.nll == pytest.approx(nll, abs=1e-7)
