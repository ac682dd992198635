"""What a newcomer reads when rows, arguments or columns are not as an assessment needs them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import anchortm as atm
from anchortm.exceptions import InputError
from tests.newplace.assessment.test_assess import data_of

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
