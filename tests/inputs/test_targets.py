"""TargetShift and Proxies as users give them: names, orders, shapes, and what is not a covariance."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]


@pytest.mark.parametrize(
    "given",
    [
        ({"a": 1.0, "b": 2.0}, {"b": {"a": 0.5, "b": 1.0}, "a": {"b": 0.5, "a": 2.0}}),
        (pd.Series({"b": 2.0, "a": 1.0}), pd.DataFrame(COVARIANCE, ["a", "b"], ["a", "b"])),
        (
            pd.Series([1.0, 2.0], ["a", "b"]),
            pd.DataFrame(COVARIANCE, ["a", "b"], ["a", "b"]).loc[["b", "a"], ["b", "a"]],
        ),
        ({"a": 1, "b": 2}, pl.DataFrame(COVARIANCE, schema=["a", "b"], orient="row")),
        (np.array([1.0, 2.0]), np.array(COVARIANCE)),
        ([1, 2], COVARIANCE),
        (pl.Series([1.0, 2.0]), COVARIANCE),
    ],
)
def test_names_and_orders(given):
    target = atm.TargetShift(*given)
    mean, covariance = target.of(["a", "b"])
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    np.testing.assert_array_equal(covariance, COVARIANCE)
    if target.names is not None:
        mean, covariance = target.of(["b", "a"])
        np.testing.assert_array_equal(mean, [2.0, 1.0])
        np.testing.assert_array_equal(covariance, [[1.0, 0.5], [0.5, 2.0]])
    again = atm.TargetShift.from_dict(target.to_dict())
    assert repr(again) == repr(target)
    assert repr(eval(repr(target), {"TargetShift": atm.TargetShift})) == repr(target)  # noqa: S307


def test_one_anchor_takes_numbers():
    target = atm.TargetShift(1.5, 4.0)
    assert target.of(["a"])[0].tolist() == [1.5]
    assert target.of(["a"])[1].tolist() == [[4.0]]
    assert atm.TargetShift({"a": 1.5}, 4.0).of(["a"])[1].tolist() == [[4.0]]
    assert atm.TargetShift(covariance=4.0).of(["a"])[0] is None
    assert atm.TargetShift(1.5).of(["a"])[1] is None


@pytest.mark.parametrize(
    ("mean", "covariance", "match"),
    [
        (None, None, "a mean, a covariance or both"),
        ([1.0, 2.0], [[1.0]], "mean has 2 anchors and covariance 1"),
        ({"a": 1.0, "b": 2.0}, COVARIANCE, "name both or neither"),
        ({"a": 1.0, "b": 2.0}, {"a": {"a": 1.0, "c": 0.0}, "c": {"a": 0.0, "c": 1.0}}, "give the same ones"),
        (None, {"a": 1.0, "b": 2.0}, "a mapping for each anchor"),
        (None, [[1.0, 2.0], [2.0, 1.0]], "an eigenvalue of its correlations is -1"),
        (None, [[1.0, 0.2], [0.1, 1.0]], "not symmetric"),
        (None, [[-1.0, 0.0], [0.0, 1.0]], "a variance is negative"),
        (None, [[0.0, 0.1], [0.1, 1.0]], "one of 0 has covariances"),
        (None, [1.0, 2.0], "a row and a column for each anchor"),
        ([[1.0]], None, "one number for each anchor"),
        ([np.nan], None, "not finite"),
        ([1e120], None, "rescale the anchors"),
        (None, pd.DataFrame(COVARIANCE, ["a", "b"], ["a", "c"]), "different names"),
    ],
)
def test_what_is_not_a_target(mean, covariance, match):
    with pytest.raises(InputError, match=match):
        atm.TargetShift(mean, covariance)


def test_covariances_of_any_units_are_judged_alike():
    unit = np.array([[1.0, 0.999999], [0.999999, 1.0]])
    for size in (1e-40, 1.0, 1e40):
        scale = np.outer([1.0, size], [1.0, size])
        atm.TargetShift(covariance=unit * scale)
        with pytest.raises(InputError, match="not a valid covariance matrix"):
            atm.TargetShift(covariance=np.array([[1.0, 1.000001], [1.000001, 1.0]]) * scale)
    atm.TargetShift(covariance=np.zeros((2, 2)))


def test_proxies():
    found = atm.Proxies(["a"], ["c"])
    assert found.places(["c", "a"]) == ([1], [0])
    assert atm.Proxies("a", 1).places(["a", "b"]) == ([0], [1])
    assert repr(found) == "Proxies(W=['a'], Z=['c'])"
    with pytest.raises(InputError, match="as many of each"):
        atm.Proxies(["a", "b"], ["c"])
    with pytest.raises(InputError, match="as many of each"):
        atm.Proxies([], [])
    with pytest.raises(InputTypeError, match="names or positions"):
        atm.Proxies(1.5, "a")
    for columns in (["a", "b"], ["a", "c", "d"]):
        with pytest.raises(InputError, match="name each anchor column once"):
            found.places(columns)
