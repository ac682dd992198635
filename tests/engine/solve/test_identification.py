"""Fits that have no single answer are refused by name."""

import numpy as np
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.engine.rows.standardised import column_ends, column_sums, scale_columns
from anchortm.engine.solve.identification import check_covariates
from anchortm.exceptions import IdentificationError, InputError


def test_more_parameters_than_rows() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(IdentificationError, match="59 covariates for 60 rows"):
        atm.NormalLinear().fit(rng.normal(size=(60, 59)), rng.normal(size=60))


def test_constant_y_is_named() -> None:
    with pytest.raises(InputError, match="y is constant: all rows are at 5"):
        atm.ContinuousLogit().fit(FOUR.X, np.full(FOUR.n, 5.0))


@pytest.mark.parametrize("shape", [(5, 3), (128, 3), (1000, 1), (1300, 10), (300, 80), (700, 0)])
def test_sums_and_ends_of_columns(shape: tuple[int, int]) -> None:
    """Many rows side by side give what row after row gives, in any layout of the matrix."""
    X = np.random.default_rng(1).normal(size=shape)
    for matrix in (X, np.asfortranarray(X), X[::-1]):
        np.testing.assert_allclose(column_sums(matrix), matrix.sum(axis=0), rtol=1e-12, atol=1e-12)
        for found, expected in zip(column_ends(matrix), (matrix.min(axis=0), matrix.max(axis=0)), strict=True):
            np.testing.assert_array_equal(found, expected)
    factor, shift = np.random.default_rng(2).random((2, shape[1]))
    scaled = X.copy()
    scale_columns(scaled, factor, shift)
    np.testing.assert_array_equal(scaled, X * factor - shift)


@pytest.mark.parametrize("n", [40, 9001])
@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_covariates_in_any_units(n: int, unit: float) -> None:
    """One pass tells ranges, constant and collinear columns, also of numbers whose squares are not doubles."""
    rng = np.random.default_rng(3)
    X = rng.normal([0.0, 50.0, -1e4], size=(n, 3))
    X[:, 0] *= unit
    names = ["a", "b", "c"]
    np.testing.assert_array_equal(check_covariates(X, names).ranges, [X.min(axis=0), X.max(axis=0)])
    with pytest.raises(IdentificationError, match="constant covariates: b;"):
        check_covariates(np.insert(X[:, [0, 2]], 1, 7.0, axis=1), names)
    both = np.column_stack([X[:, 0], X[:, 1], X[:, 1] - X[:, 0] / unit])
    with pytest.raises(IdentificationError, match="collinear covariates: a, b, c;"):
        check_covariates(both, names)
