"""Fits that have no single answer are refused by name."""

import numpy as np
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.exceptions import IdentificationError, InputError


def test_more_parameters_than_rows() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(IdentificationError, match="59 covariates for 60 rows"):
        atm.NormalLinear().fit(rng.normal(size=(60, 59)), rng.normal(size=60))


def test_constant_y_is_named() -> None:
    with pytest.raises(InputError, match="y is constant: all rows are at 5"):
        atm.ContinuousLogit().fit(FOUR.X, np.full(FOUR.n, 5.0))
