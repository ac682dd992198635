"""Anchors of any type: factors or numbers, and what cannot be an anchor."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.exceptions import AnchorWarning, InputError, InputTypeError


@pytest.mark.parametrize(
    "anchors",
    [
        FOUR.year.astype(object),
        pl.Series([Decimal(f"{a:.6f}") for a in FOUR.year]),
        np.array([Decimal(f"{a:.6f}") for a in FOUR.year]),
    ],
    ids=["object floats", "polars decimals", "decimals"],
)
def test_numbers_in_objects_are_numeric_anchors(anchors) -> None:
    assert atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=anchors).n_anchors_ == 2


def test_mixed_object_anchors() -> None:
    both = np.column_stack([FOUR.year.astype(object), FOUR.site.astype(str).astype(object)])
    assert atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=both).n_anchors_ == 5


@pytest.mark.parametrize(
    ("anchors", "error", "message"),
    [
        (pd.Series(["a", pd.NA] * 150, dtype="string"), InputError, "missing at row 1"),
        (pd.to_datetime(["2020-01-01"] * 300), InputTypeError, "time stamp"),
        (pd.DataFrame(index=range(300)), InputError, "no columns"),
        ("hospital", InputTypeError, "use anchor_names"),
    ],
)
def test_anchors_that_cannot_be(anchors, error, message: str) -> None:
    with pytest.raises(error, match=message):
        atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=anchors)


def test_huge_unsigned_codes() -> None:
    codes = FOUR.site.astype(np.uint64) + np.uint64(2**63 + 5)
    assert atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=codes).n_anchors_ == 4


def test_codes_as_floats_are_pointed_out() -> None:
    with pytest.warns(AnchorWarning, match=r"whole numbers as floats .*astype\(int\)"):
        atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=(np.arange(FOUR.n) % 7).astype(float))


def test_a_duplicated_numeric_anchor_beside_a_factor_is_named() -> None:
    with pytest.warns(AnchorWarning, match="collinear: anchor"):
        model = atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=[FOUR.site, FOUR.year, 2 * FOUR.year])
    assert model.n_anchors_ == 5


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_numeric_anchors_in_extreme_units(scale: float) -> None:
    wanted = atm.NormalLinear(xi=3.0).fit(FOUR.X, FOUR.y, anchors=FOUR.year).coef_
    np.testing.assert_allclose(
        atm.NormalLinear(xi=3.0).fit(FOUR.X, FOUR.y, anchors=FOUR.year * scale).coef_, wanted, rtol=1e-8
    )
    assert atm.NormalLinear(xi=3.0).fit(FOUR.X, FOUR.y, anchors=[FOUR.site, FOUR.year * scale]).n_anchors_ == 5


def test_more_anchors_that_cannot_be() -> None:
    with pytest.raises(InputTypeError, match="is complex"):
        atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=FOUR.year + 1j)
    doubled = pd.DataFrame(np.column_stack([FOUR.site, FOUR.site]), columns=["g", "g"])
    with pytest.raises(InputError, match="occur more than once"):
        atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=doubled)
