"""Comparisons of hard data and odd strategies: each problem has its own note, and the others go on."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError, InputTypeError

FORMULA = "y ~ x + z | site"
TUNED = ["widened", "anchored", "anchored+spread"]
LM = atm.NormalLinear()


def table(places: int = 10, rows: int = 20, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    e = np.repeat(np.arange(places), rows)
    hidden, z = rng.normal(size=(2, e.size))
    x = rng.normal(size=places)[e] + hidden + rng.normal(size=e.size)
    y = x + hidden + rng.normal(size=e.size)
    return pd.DataFrame({"x": x, "z": z, "y": y, "site": [f"s{k}" for k in e]})


def compared(data: pd.DataFrame, model=LM, formula: str = FORMULA, **options):
    options = {"design": "like", "strategies": TUNED, "scores": []} | options
    return atm.compare_strategies(model, formula, data, **options)


def same(first: pd.DataFrame, second: pd.DataFrame, **options) -> None:
    assert first.nll.notna().all()
    pd.testing.assert_frame_equal(first, second, **options)


# rows that are left out, or have no columns


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("formula", [False, True])
def test_rows_that_a_fit_drops_are_as_if_they_were_never_there(weighted: bool, formula: bool) -> None:
    data = table(6)
    gaps = data.assign(x=data.x.where(data.index % 17 != 3), w=np.where(data.index % 13 == 5, 0.0, 2.0))
    gone = gaps.x.isna() | (gaps.w == 0.0 if weighted else False)
    found = []
    for rows, model in ((gaps, atm.NormalLinear(missing="drop")), (gaps[~gone], LM)):
        options = {"design": "like", "strategies": ["anchored+spread"], "sample_weight": rows.w if weighted else None}
        given = (FORMULA, rows) if formula else (rows[["x", "z"]], rows.y, rows.site)
        found.append(atm.compare_strategies(model, *given, **options).frame())
    same(*found)


def test_without_covariates_all_strategies_are_the_same() -> None:
    data = table(5)
    found = atm.compare_strategies(LM, None, data.y, data.site, strategies=["anchored"], scores=["crps"]).frame()
    by_formula = compared(data, formula="y ~ 1 | site", strategies=["anchored"], scores=["crps"]).frame()
    same(found, by_formula)
    np.testing.assert_allclose(found.skill, 0.0, atol=1e-9)


def test_a_covariate_that_only_one_site_has() -> None:
    """Its coefficient is 0 in the fits without the site, also where the spread is tuned."""
    data = table(6).assign(odd=lambda rows: np.where(rows.site == "s3", rows.z, 0.0))
    own = ["widened", "anchored+spread"]
    found = compared(data, formula="y ~ x + odd | site", strategies=own, scores=["spread"]).frame()
    assert found.nll.notna().all()
    plain = compared(data, formula="y ~ x | site", strategies=own).frame()
    own = found.environment == "s3"
    np.testing.assert_allclose(found.nll[own & (found.strategy == "ml")], plain.nll[own & (plain.strategy == "ml")])
    assert found.note[own & (found.strategy != "null")].str.contains("without odd").all()
    assert found.note[~own | (found.strategy == "null")].eq("").all()


def test_the_spread_is_calibrated_without_a_column_that_one_site_has() -> None:
    data = table(6).assign(odd=lambda rows: np.where(rows.site == "s3", rows.z, 0.0))
    model = atm.NormalLinear.from_formula("y ~ x + odd | site", data)
    assert 0.5 < model.calibrate_spread("y ~ x + odd | site", data).widened_ < 2.0


# scores that some distributions do not have


def test_cox_models_have_a_likelihood_but_no_crps() -> None:
    data, formula = atm.datasets.load_cgd(), "Surv(tstop, status) ~ treat + age | center"
    with pytest.warns(AnchorTMWarning, match="rows without an event"):
        found = compared(data, atm.CoxPH(), formula, strategies=["anchored", "widened"], scores=None)
    frame = found.frame()
    known = frame[frame.strategy != "widened"]
    assert known.nll.notna().all()
    assert known.crps.isna().all()
    assert known.concordance[known.events > 1].notna().all()
    assert "the spread" in frame.note[frame.strategy == "widened"].iloc[0]


def test_a_score_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the CRPS of large counts with random effects does."""

    def refuse(*_: object) -> None:
        raise InputError("counts of 4096 and more have no CRPS with random effects: use the nll")

    monkeypatch.setattr("anchortm.newplace.scoring.crps_of_rows", refuse)
    found = compared(table(4), strategies=["equal"], scores=["crps", "mae"]).frame()
    assert found.note.eq("").all()
    assert found[["nll", "mae"]].notna().all(axis=None)
    assert found.crps.isna().all()


# strategies of users


class Raises(atm.strategies.Strategy):
    name = "raises"

    def fit(self, train):
        raise RuntimeError("no disk")


class Nothing(atm.strategies.Strategy):
    name = "nothing"

    def fit(self, train):
        return 3


class Nameless(atm.strategies.Strategy):
    def fit(self, train):
        return train.fit()


class Another(atm.strategies.Strategy):
    name = "ml"

    def fit(self, train):
        return train.fit().widened(3.0)


def test_errors_of_a_strategy_are_notes() -> None:
    found = compared(table(6), strategies=[Raises(), Nothing(), "equal"])
    notes = found.frame().groupby("strategy", sort=False).note.unique().str[0]
    assert notes["raises"] == "the strategy raised RuntimeError: no disk"
    assert "fit of the strategy must return a model with predict_distribution, not 3" in notes["nothing"]
    assert notes[["null", "ml", "equal"]].eq("").all()
    assert found.table().set_index("strategy").difference.loc[["raises", "nothing"]].isna().all()
    assert "raises failed at all 6 environments: the strategy raised RuntimeError: no disk" in repr(found)


@pytest.mark.parametrize(
    ("strategies", "message"),
    [
        ([Nameless()], "Nameless has no name"),
        ([Another()], "the name 'ml' is reserved"),
        ([atm.strategies.Anchored], "is not a strategy.*such as Anchored\\(10.0\\)"),
        (3, "strategies must be a list"),
        (["anchored", "anchored"], "two strategies have the name 'anchored'"),
    ],
)
def test_strategies_that_are_refused(strategies, message: str) -> None:
    with pytest.raises(AnchorTMError, match=message):
        compared(table(4), strategies=strategies)


def test_if_the_model_cannot_be_fitted_there_is_no_comparison() -> None:
    data = table(4, 3).assign(**{f"x{k}": np.random.default_rng(k).normal(size=12) for k in range(9)})
    formula = "y ~ " + " + ".join(f"x{k}" for k in range(9)) + " | site"
    with pytest.raises(ValueError, match="cannot be fitted without any of the 4 environments"):
        compared(data, formula=formula)


# the words on failures


def test_a_failure_that_strategies_share_is_said_once() -> None:
    data, formula = atm.datasets.load_cgd(), "Surv(tstop, status) ~ treat + steroids | center"
    found = compared(data, atm.ParametricSurvival(), formula, strategies=["equal", "anchored"])
    lines = [line for line in repr(found).splitlines() if "separation" in line]
    assert len(lines) == 1
    assert lines[0].startswith("ml, equal and anchored failed at 1 of 13 environments: complete or quasi-complete")
    frame = found.frame()
    assert frame.note[frame.strategy == "null"].eq("").all()


def test_why_nothing_can_be_tuned() -> None:
    own = [atm.strategies.Anchored(choose=[0.0, np.inf])]
    (line,) = compared(table(), strategies=own).remarks
    assert "anchored failed at all 10 environments: nothing can be tuned: all fits inside the training" in line
    assert "xi = inf is over-identified" in line


def test_lost_columns_are_not_failures() -> None:
    data = table().assign(odd=lambda rows: np.where(rows.site == "s3", rows.z, 0.0))
    text = repr(compared(data, formula="y ~ x + odd | site", strategies=["equal"], design=None))
    assert "failed" not in text
    assert "s3: without odd" in text


def test_a_strategy_that_failed_has_gained_nothing() -> None:
    found = compared(table(), design="further", strategies=[Raises(), "anchored"]).table().set_index("strategy")
    assert found.gained["raises"] == ""
    assert found.gained["anchored"].endswith("of 4")


# rows of the new place


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (table()[["x"]], "new: there is no column 'z'"),
        (table().assign(x=np.nan), r"new: missing values \(NaN\) in covariate 'x' \(200 rows\)"),
        (table().assign(x="a"), "new: .*numbers"),
        (table().head(0), "new has no rows"),
        (np.ones((3, 2)), "new: .*table with named columns"),
    ],
)
def test_bad_rows_of_the_new_place(new, message: str) -> None:
    with pytest.raises(AnchorTMError, match=message):
        compared(table(), design="further", new=new)


def test_a_new_place_is_not_ignored_silently() -> None:
    with pytest.raises(ValueError, match="new is for design='further'"):
        compared(table(), design="like", new=table())
    with pytest.warns(AnchorTMWarning, match="there are 7 environments.*new is not used"):
        compared(table(7), design=None, new=table())


# seeds


def test_one_seed_for_all_strategies_and_processes() -> None:
    data, formula = atm.datasets.load_wine(), "rating ~ temp + contact | judge"
    own = {"strategies": ["equal", Raises()], "scores": ["coverage"]}
    options = own | {"model": atm.OrdinalRegression(), "formula": formula}
    found = [compared(data, random_state=np.random.default_rng(3), n_jobs=n, **options).frame() for n in (1, 2)]
    pd.testing.assert_frame_equal(*found)
    assert found[0].nll[found[0].strategy != "raises"].notna().all()
    with pytest.raises(InputTypeError, match="random_state must be"):
        compared(data, random_state="a", **options)


def test_a_few_warnings_of_the_fits_are_no_noise() -> None:
    """Left-out rows beyond a varying baseline that is not monotone there do not warn."""
    data = atm.datasets.load_boston_housing2()
    data = data[data.town.isin(data.town.value_counts().index[:12])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compared(
            data,
            atm.ContinuousLogit(varying="rm"),
            "cmedv ~ rm + lstat | town",
            design="further",
            strategies=["anchored"],
        )
    assert found.frame().note.eq("").all()


def test_wrong_types() -> None:
    with pytest.raises(InputTypeError, match="scores must be a list"):
        compared(table(4), scores=3)
    with pytest.raises(InputTypeError, match="design must be"):
        compared(table(4), design=3)
