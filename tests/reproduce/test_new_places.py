"""What is recommended on real data, and what held-back places then show."""

import sys
from pathlib import Path

import numpy as np
import pytest

from anchortm.reproduce.new_places import EUROPE, answer, cases

ROOT = Path(__file__).resolve().parents[2]


def test_places_are_held_back_whole():
    for case in cases():
        place = case.formula.split("|")[1].strip()
        assert not set(case.known[place]) & set(case.new[place])
        assert len(case.known) > len(case.new) > 0
    assert set(case.new.center) == set(EUROPE)


def test_the_answer_does_not_see_the_outcomes():
    case = list(cases())[-1]
    wrong = case._replace(new=case.new.assign(tstop=case.new.tstop.to_numpy()[::-1].copy(), status=1))
    one, other = answer(case), answer(wrong)
    for kind in ("like", "further"):
        assert repr(getattr(one.recommendation, kind)) == repr(getattr(other.recommendation, kind))
    gains = [np.array([row["gain"] for row in found.held_back.rows]) for found in (one, other)]
    assert not np.allclose(*gains, equal_nan=True)


@pytest.mark.slow
def test_the_page_is_what_the_script_writes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import new_places

    assert (ROOT / "docs" / "evidence" / "new_places.md").read_text(encoding="utf-8") == new_places.page(2)
    sys.modules.pop("new_places")


@pytest.mark.slow
def test_what_the_data_say():
    """New months are foreseen, neighbourhoods are not: there the training places disagree with each other."""
    found = {(case.name, case.held): answer(case, 2) for case in cases()}
    months = found["PC prices", "months 25 to 35"]
    assert months.recommendation.kind == "further"
    assert (months.recommendation.strategy, months.recommendation.xi) == ("anchored", 10.0)
    assert months.recommendation.further.confidence == "tentative"
    assert months.held_back.agrees is True
    for word in ("dearest", "cheapest"):
        own = found["Ames", f"the six {word} of 26 neighbourhoods"]
        assert own.recommendation.main.confidence == "undecided"
        assert own.held_back.agrees is None
