"""The worlds of hospital 13: their truth is the truth, and the twelve hospitals do not know what the thirteenth is."""

import runpy

import numpy as np
import pandas as pd
import pytest
from paths import DOCS, ROOT
from PIL import Image

import anchortm as atm
from anchortm.federated import Coordinator, LocalSites, Site
from anchortm.reproduce.hospital_13 import FORMULA, SHIFTS, Hospital, true_survival, world
from anchortm.reproduce.hospital_13_study import COVARIATES, SAMPLES, SHOWN, SUPPORT, hazards, sample, shown, winner

TABLE = DOCS / "evidence" / "hospital_13.csv"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(TABLE)


def check_row(table: pd.DataFrame, shift: str, seed: int) -> None:
    """Compute a row of the table again, and compare."""
    row = table[(table["shift"] == shift) & (table["seed"] == seed)].iloc[0]
    found = sample(shift, seed)
    assert list(found) == list(row.index)
    for name, value in found.items():
        if isinstance(value, str):
            assert value == row[name], name
        else:
            assert value == pytest.approx(row[name], rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("shift", SHIFTS)
def test_the_twelve_are_the_same_whatever_the_thirteenth_is(shift: str) -> None:
    own, other = world(shift, 3), world("nothing", 3)
    pd.testing.assert_frame_equal(own.known, other.known)
    assert own.known.hospital.nunique() == 12
    assert set(own.new.hospital) == {"hospital 13"}
    assert own.new.equals(other.new) == (shift == "nothing")


def test_the_shift_is_the_one_that_is_named() -> None:
    like = world("nothing", 5).hospital
    assert world("laboratory", 5).hospital == like._replace(level=3.0)
    assert world("care", 5).hospital == like._replace(care=pytest.approx(-0.6))
    assert world("frailty", 5).hospital == like._replace(frailty=2.0)


def test_true_survival_is_that_of_patients_with_the_same_marker_and_age() -> None:
    rng = np.random.default_rng(1)
    hospital, n = Hospital(level=0.5, care=-0.2, frailty=0.7), 4_000_000
    frailty = hospital.frailty + rng.normal(size=n)
    frailty = frailty[np.abs(hospital.level + frailty + 0.5 * rng.normal(size=n) - 2.0) < 0.01]  # the marker reads 2
    log_time = np.log(24.0) - 0.2 - 0.15 * 2.0 - 0.5 * frailty - 0.1 * (75.0 - 65.0) / 10.0
    time = np.exp(log_time) * rng.exponential(size=frailty.size) ** 0.25
    months = np.array([6.0, 12.0, 24.0])
    sf, density = true_survival(hospital, pd.DataFrame({"marker": [2.0], "age": [75.0]}), months)
    simulated = (time[:, None] > months).mean(axis=0)
    assert sf[0] == pytest.approx(simulated, abs=4.0 * 0.5 / np.sqrt(time.size))
    step = 1e-4
    above, below = (
        true_survival(hospital, pd.DataFrame({"marker": [2.0], "age": [75.0]}), months + k)[0] for k in (step, -step)
    )
    assert density[0] == pytest.approx((below - above)[0] / (2.0 * step), rel=1e-6)


@pytest.mark.parametrize("xi", [0.0, 3.0])
def test_hospitals_that_keep_their_rows_get_the_pooled_fit(xi: float) -> None:
    known = world("nothing", SHOWN).known
    sites = LocalSites([Site(rows, name) for name, rows in known.groupby("hospital")])
    study = {"formula": FORMULA.replace("hospital", "site"), "support": SUPPORT}
    apart, pooled = Coordinator(sites, study).fit(hazards(), xi=xi), hazards(xi).fit(FORMULA, known)
    assert apart.coef_ == pytest.approx(pooled.coef_, abs=1e-10)
    curves = [fit.predict_distribution(known).sf([6.0, 24.0]) for fit in (apart, pooled)]
    assert curves[0] == pytest.approx(curves[1], abs=1e-10)


def test_the_answer_does_not_see_outcomes_of_hospital_13() -> None:
    """It gets a table without them, and xi does not change with them."""
    assert not {"months", "died"} & set(COVARIATES)
    own = world("laboratory", SHOWN)
    search = [
        atm.XiSearchCV(hazards(), [0.0, 1.0, 3.0], design="further", new=new).fit(FORMULA, own.known).results_
        for new in (own.new[COVARIATES], own.new.assign(months=1.0, died=1))
    ]
    pd.testing.assert_frame_equal(*search)


def test_the_table_is_complete(table: pd.DataFrame) -> None:
    expected = [(shift, seed) for seed in range(SAMPLES) for shift in SHIFTS]
    assert list(zip(table["shift"], table["seed"], strict=True)) == expected
    assert shown(table) == SHOWN
    assert not table.drop(columns=["gain own(20)"]).isna().any(axis=None)


def test_nobody_beats_the_truth(table: pd.DataFrame) -> None:
    """Only by chance of 1000 patients, and by little."""
    gains = table.filter(regex="^gain (?!truth)")
    assert (gains.max(axis=1) - table["gain truth"]).max() < 0.02


def test_a_row_of_the_table_comes_out_again(table: pd.DataFrame) -> None:
    check_row(table, "laboratory", 7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 12, 23, 34, 45])
def test_a_tenth_of_the_table_comes_out_again(table: pd.DataFrame, seed: int) -> None:
    for shift in SHIFTS:
        check_row(table, shift, seed)


def test_the_page_and_its_picture_are_what_the_table_gives(table: pd.DataFrame) -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "hospital_13.py"))["page"](table)
    assert (DOCS / "evidence" / "hospital_13.md").read_text(encoding="utf-8") == page
    digest = runpy.run_path(str(ROOT / "scripts" / "draw_docs.py"))["digest"]
    with Image.open(DOCS / "images" / "hospital_13.png") as picture:
        drawn = runpy.run_path(str(DOCS / "pictures" / "hospital_13.py"))
        assert picture.info["Source"] == digest(drawn)["Source"]


def test_the_words_of_the_page_hold(table: pd.DataFrame) -> None:
    """The page computes its numbers; these are the claims around them."""
    won = table.apply(winner, axis=1).groupby(table["shift"]).value_counts().unstack(fill_value=0)
    assert won.loc["laboratory"].idxmax() == "anchored"
    assert won.loc["care"].idxmax() == "widened"
    assert won.loc["nothing"].idxmax() == "ml"
    means = table.groupby("shift").mean(numeric_only=True)
    medians = table.groupby("shift").median(numeric_only=True)
    location = medians["best width anchored(3)"] - medians["best width ml"]
    assert location["laboratory"] > 0.05
    assert location.drop("laboratory").max() < 0.0
    assert means.loc["laboratory", "curve anchored"] < 0.9 * means.loc["laboratory", "curve widened"]
    advised = table[table["advised"] == "anchored"]
    gained = (advised["gain anchored"] > 0.0).groupby(advised["shift"]).mean()
    assert gained["laboratory"] > 0.8
    assert gained["frailty"] < 0.2
    assert means.loc["nothing", ["gain widened", "gain anchored"]].max() < 0.0
    assert means.loc["nothing", "bound"] > 0.95
    assert means.loc[["care", "frailty"], "bound ml"].max() < 0.75
