"""What a newcomer reads when rows, arguments or columns are not as an assessment needs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMWarning, AnchorWarning, InputError, InputTypeError
from anchortm.selection.places import Places
from tests.newplace.assessment.test_assess import FORMULA, data_of

SHORT: dict[str, Any] = {"strategies": ["equal"], "progress": False}
MODEL = atm.NormalLinear()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return data_of(8, 12)


@pytest.fixture(scope="module")
def new() -> pd.DataFrame:
    return data_of(rows=20, seed=9, level=3.0)


def test_a_formula_without_places(table):
    with pytest.raises(InputError, match=r"name them after '\|' in a formula \(y ~ x \| place\)"):
        atm.assess(MODEL, "y ~ x + z", table, **SHORT)


NUMERIC = "numeric environments need cut=k, the number of quantile groups: "


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the error of the command line, on one line."""
    assert main([*arguments]) == 1
    return " ".join(capsys.readouterr().err.split())


def test_codes_that_are_floats(table, tmp_path: Path, capsys, monkeypatch):
    """Before, whole numbers with a gap were called numeric, without the column or a way out."""
    data = table.assign(inst=pd.factorize(table.place)[0].astype(float), dose=np.arange(len(table)) / 8)
    with pytest.raises(InputError) as caught:
        atm.assess(MODEL, "y ~ x + z | inst", data, **SHORT)
    assert str(caught.value) == (
        f"{NUMERIC}'inst' has numbers such as 0.0; whole numbers are read as floats if a value is missing; if they are "
        "names, write C(inst) after '|' in a formula, or convert them with astype(int) or astype(str)"
    )
    with pytest.raises(InputError) as caught:
        atm.assess(MODEL, data[["x", "z"]], data.y, data.inst.to_numpy() + 3.0, **SHORT)
    assert str(caught.value) == (
        f"{NUMERIC}they are numbers such as 3.0; whole numbers are read as floats if a value is missing; if they are "
        "names, convert them with astype(int) or astype(str)"
    )
    with pytest.raises(InputError) as caught:
        atm.assess(MODEL, "y ~ x + z | dose", data, **SHORT)
    assert str(caught.value) == f"{NUMERIC}'dose' has numbers such as 0.125; if they are names, use astype(str)"
    with pytest.raises(InputError) as caught:
        atm.assess(MODEL, "y ~ x + z | N(inst)", data, **SHORT)
    assert str(caught.value) == f"{NUMERIC}'N(inst)' has numbers such as 0.0"
    monkeypatch.chdir(tmp_path)
    data.to_csv("d.csv", index=False)
    words = ("--strategies", "equal", "--no-progress")
    assert refused(capsys, "assess", "d.csv", "-m", "lm", "-f", "y ~ x | inst", *words) == (
        "error: numeric environments need --cut k, the number of quantile groups: 'inst' has numbers such as 0.0; "
        "whole numbers are read as floats if a value is missing; if they are names, write C(inst) after '|' in "
        "--formula, or write whole numbers or text in the file"
    )


def test_codes_that_the_formula_calls_factors(table, new):
    """Before, with C(code) of floats there were no conformal intervals, and places were called 0.0."""
    data = table.assign(inst=pd.factorize(table.place)[0].astype(float))
    found = atm.assess(MODEL, "y ~ x + z | C(inst)", data, new=new, **SHORT)
    other = atm.assess(MODEL, "y ~ x + z | inst", data.astype({"inst": int}), new=new, **SHORT)
    assert not found.notes
    assert found.sites.labels == other.sites.labels == [str(k) for k in range(8)]
    assert found.recommendation.sentence == other.recommendation.sentence
    assert vars(found.conformal) == vars(other.conformal)
    model = atm.NormalLinear(xi=2.0).fit("y ~ x + z | C(inst)", data)
    same = atm.NormalLinear(xi=2.0).fit("y ~ x + z | place", data)
    np.testing.assert_allclose(model.predict(new), same.predict(new))


@pytest.mark.parametrize("call", [atm.assess, atm.compare_strategies, atm.anchor_path, atm.leave_one_environment_out])
def test_arguments_in_the_wrong_places(table, call):
    """Before, arguments in the wrong places were called environments that are missing."""
    with pytest.raises(InputTypeError, match=r"formula 'y .*' comes where the table should be: .* \(model, 'y "):
        call(MODEL, table, FORMULA)
    with pytest.raises(InputTypeError, match=r"'rows.csv' is a file, not a table: pass pandas.read_csv\('rows.csv'\)"):
        call(MODEL, FORMULA, "rows.csv")
    with pytest.raises(InputTypeError, match=r"command line calls c-logit is ContinuousLogit\(\) here"):
        call("c-logit", FORMULA, table)

    with pytest.raises(InputTypeError, match=r"is ParametricSurvival\(dist='weibull'\) here"):
        call("weibull", FORMULA, table)
    with pytest.raises(InputTypeError, match=r"not 'logit'$"):
        call("logit", FORMULA, table)


def test_a_fit_with_the_table_first(table):
    for model in (MODEL, atm.AnchorGLM(), atm.CoxPH()):
        with pytest.raises(InputTypeError, match=r"the formula comes first: fit\('y ~ x \+ z \| place', data\)"):
            model.fit(table, FORMULA)
    with pytest.raises(InputTypeError, match=r"a formula is a string .*, not DataFrame$"):
        MODEL.from_formula(table, FORMULA)


DROP = atm.NormalLinear(missing="drop")


def test_new_rows_of_several_places(table, new):
    """They are assessed as one place, which was not said."""
    said = "Its rows are of 2 places, taken as one: if these differ, assess each alone."
    found = atm.assess(MODEL, FORMULA, table, new=new.assign(place=["far", "away"] * 10), **SHORT)
    assert said in found.new.sentence
    assert said in " ".join(str(found).split())
    for one in (new, new.assign(place="far")):
        assert "taken as one" not in atm.assess(MODEL, FORMULA, table, new=one, **SHORT).new.sentence


def test_missing_values_of_the_new_place(table, new):
    """Before, rows of the new place with missing values were refused in spite of missing="drop"."""
    holes = new.assign(x=new.x.where(np.arange(20) % 7 != 0), z=new.z.where(np.arange(20) != 1), other=np.nan)
    whole, words = holes[["x", "z"]].dropna(), "new: 4 of 20 rows with missing values are left out, covariate 'x' ("
    with pytest.warns(AnchorTMWarning, match=re.escape(words)):
        found = atm.assess(DROP, FORMULA, table, new=holes, **SHORT)
    expected = atm.assess(DROP, FORMULA, table, new=whole, **SHORT)
    assert found.new.sentence == expected.new.sentence
    assert found.new.n == 16
    assert vars(found.conformal) == vars(expected.conformal)
    with pytest.warns(AnchorTMWarning, match=re.escape(words)):
        arrays = atm.assess(DROP, table[["x", "z"]], table.y, table.place, new=holes[["x", "z"]], **SHORT)
    assert arrays.new.distance == pytest.approx(expected.new.distance)
    with pytest.warns(AnchorTMWarning, match=re.escape(words)):
        compared = atm.compare_strategies(DROP, FORMULA, table, new=holes, **SHORT)
    assert compared.verdict.sentence == expected.comparison.verdict.sentence
    with pytest.warns(AnchorTMWarning, match=re.escape(words)):
        search = atm.XiSearchCV(DROP, [0.0, 3.0], design="further", new=holes).fit(FORMULA, table)
    assert search.verdict_.distance == pytest.approx(expected.new.distance)
    with pytest.warns(AnchorTMWarning, match="4 of 20 rows with missing values are left out"):
        later = expected.with_outcomes(holes)
    pd.testing.assert_frame_equal(
        later.held_back.frame(), expected.with_outcomes(new[holes.x.notna() & holes.z.notna()]).held_back.frame()
    )
    with pytest.raises(InputError, match=r'new: .*missing values .*, or use NormalLinear\(missing="drop"\)'):
        atm.assess(MODEL, FORMULA, table, new=holes, **SHORT)
    with pytest.raises(InputError, match="new: no rows are left"):
        atm.assess(DROP, FORMULA, table, new=holes.assign(x=np.nan), **SHORT)


def test_places_without_complete_rows(table):
    """Before, places whose rows all have missing values disappeared without a word."""
    holes = table.assign(x=table.x.where(~table.place.isin(["site 03", "site 05"])), code=pd.factorize(table.place)[0])
    said = "2 places have no complete rows and are left out: site 03, site 05"
    for formula, places in ((FORMULA, {}), ("y ~ x + z", {"environments": "place"})):
        with pytest.warns(AnchorTMWarning, match=f"^{said}$"):
            found = atm.assess(DROP, formula, holes, **places, **SHORT)
        assert f"{said}." in " ".join(repr(found).partition("Need and possibility")[0].split())
        assert f"{said}." in found.to_dict()["data"]["remarks"]
        assert len(found.sites.labels) == 6
    with pytest.warns(AnchorTMWarning, match=f"^{said}$"):
        atm.compare_strategies(DROP, holes[["x", "z"]], holes.y, holes.place, **SHORT)
    gap = holes.assign(code=holes.code.where(holes.index != 0))  # so that codes are floats
    with pytest.warns(AnchorTMWarning, match="^2 places have no complete rows and are left out: 3, 5$"):
        atm.leave_one_environment_out(DROP, "y ~ x + z | code", gap, xis=[0.0])
    with pytest.warns(AnchorTMWarning, match="^1 place has no complete row and is left out: site 03$"):
        atm.leave_one_environment_out(DROP, FORMULA, holes[holes.place != "site 05"], xis=[0.0])


def test_a_place_for_each_row_is_told_before_the_fits(table, monkeypatch):
    """Before, a place for each row took minutes before a warning."""

    def stop(*_: Any) -> None:
        raise RuntimeError("the fits begin")

    monkeypatch.setattr(Places, "records", stop)
    rows = table.assign(place=[f"p{k // 2 if k < 20 else k}" for k in range(len(table))])
    for call in (atm.assess, atm.compare_strategies):
        with (
            pytest.warns(AnchorTMWarning, match="^86 places for 96 rows: .* larger places"),
            pytest.raises(RuntimeError, match="the fits begin"),
        ):
            call(MODEL, FORMULA, rows, **SHORT)


def test_the_place_as_a_covariate(table):
    """Before, the place as a covariate was told if it is text, in many warnings, and not if it is a code."""
    data = table.assign(inst=pd.factorize(table.place)[0])
    said = "'inst' is both the place and a covariate, as a number: .* if it is a code of places, leave it out"
    with pytest.warns(AnchorWarning, match=said):
        atm.NormalLinear().fit("y ~ x + inst | inst", data)
    with pytest.warns(AnchorWarning, match=said) as caught:
        atm.assess(MODEL, "y ~ x + inst", data, environments="inst", **SHORT)
    assert len(caught) == 1
    for formula in ("y ~ x + inst | N(inst)", "y ~ x + bs(inst, 4) | inst", "y ~ x + inst | place"):
        atm.NormalLinear().fit(formula, data)  # a number on purpose, or another place
    with pytest.warns(AnchorTMWarning) as caught:
        atm.assess(MODEL, "y ~ x + place | place", data, strategies=["anchored"], progress=False)
    words = [str(one.message) for one in caught]
    assert sum(text.startswith("the covariates explain the anchors exactly") for text in words) == 1
    notes = [text for text in words if "without" in text]
    assert len(notes) == 1
    assert notes[0].startswith("each of the 8 environments is predicted without covariates that the others do not")


def test_outcomes_with_unknown_levels(table, new):
    levels = table.assign(g=np.where(np.arange(96) % 2, "a", "b"))
    found = atm.assess(MODEL, "y ~ x + g | place", levels, **SHORT)
    said = "the new place: covariate 'g' has levels that the fit has not seen: c (20 rows, first at row 0); "
    with pytest.raises(InputError) as caught:
        found.with_outcomes(new.assign(g="c"))
    assert str(caught.value) == said + "known: a, b; drop these rows or merge levels"
