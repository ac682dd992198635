"""Covariates: what is a number, in which unit, and which columns are anchors."""

import numpy as np
import pandas as pd
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FOUR.X.astype(str), "X is not numeric"),
        (pd.DataFrame(FOUR.X.astype(str), columns=["a", "b"]), "covariate 'a' is not numeric"),
        (pd.DataFrame({"a": FOUR.X[:, 0], "b": pd.Categorical(FOUR.site)}), "covariate 'b' is a category"),
        (
            pd.DataFrame({"a": FOUR.X[:, 0], "b": pd.to_datetime(["2020-01-01"] * FOUR.n)}),
            "covariate 'b' is not numeric",
        ),
    ],
)
def test_what_is_no_number_is_no_covariate(frame, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        atm.NormalLinear().fit(frame, FOUR.y)


def test_anchor_names_without_covariates() -> None:
    with pytest.raises(InputError, match="X is None"):
        atm.NormalLinear(xi=1.0, anchor_names=["g"]).fit(None, FOUR.y)
    frame = pd.DataFrame({"a": FOUR.X[:, 0], "g": FOUR.site})
    model = atm.NormalLinear(xi=1.0, anchor_names="g").fit(frame, FOUR.y)
    assert model.n_features_in_ == len(model.feature_names_in_) == 2
    assert model.n_anchors_ == 4


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_units_of_covariates(scale: float) -> None:
    model = atm.NormalLinear().fit(FOUR.X * scale, FOUR.y)
    np.testing.assert_allclose(model.coef_ * scale, atm.NormalLinear().fit(FOUR.X, FOUR.y).coef_, rtol=1e-8)


def test_masked_values_are_missing() -> None:
    mask = np.zeros(FOUR.X.shape, dtype=bool)
    mask[3, 1] = True
    with pytest.raises(InputError, match="missing values in x1, first at row 3"):
        atm.NormalLinear().fit(np.ma.array(FOUR.X, mask=mask), FOUR.y)
    with pytest.raises(InputError, match="missing value: None at row 3"):
        atm.NormalLinear().fit(FOUR.X, np.ma.array(FOUR.y, mask=mask[:, 1]))
