"""Labels of clusters: arrays of whole numbers are coded as lists of the same labels are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from anchortm.exceptions import InputError
from anchortm.inputs.baselines import cluster_labels, coded, stratum_labels

RNG = np.random.default_rng(3)
COLUMNS = {
    "narrow": RNG.integers(-5, 40, 200),
    "wide": RNG.integers(-(10**15), 10**15, 30).repeat(2),
    "whole floats": RNG.integers(0, 9, 50).astype(float),
    "small": RNG.integers(0, 9, 50).astype(np.int8),
    "booleans": RNG.random(20) < 0.5,
    "words": np.array(["b", "a", "c", "a"]),
    "large": np.array([2**64 - 1, 3, 2**64 - 1], dtype=np.uint64),
    "mixed": np.array(["b", 2, True, "b"], dtype=object),
    "empty": np.zeros(0, dtype=int),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("table", [lambda c: pd.DataFrame({"g": c}), lambda c: c[:, None]])
def test_codes_are_those_of_lists(name: str, table) -> None:
    column = table(COLUMNS[name])
    known, codes = coded(cluster_labels(column))
    wanted, places = coded(stratum_labels(column, "clusters"))
    assert known == wanted
    assert list(map(type, known)) == list(map(type, wanted))
    np.testing.assert_array_equal(codes, places)
    assert codes.dtype == np.intp


def test_tables_of_other_kinds() -> None:
    numbers = pl.DataFrame({"g": [4, 2, 4]})
    assert coded(cluster_labels(numbers))[0] == [2, 4]
    category = pd.DataFrame({"g": pd.Categorical(["x", "y", "x"])})
    assert coded(cluster_labels(category))[0] == ["x", "y"]


@pytest.mark.parametrize("bad", [[1.5, 2.0], [np.nan, 2.0], [np.inf, 1.0]])
def test_other_numbers_are_refused(bad: list[float]) -> None:
    with pytest.raises(InputError, match="clusters are names or whole numbers"):
        cluster_labels(pd.DataFrame({"g": bad}))
