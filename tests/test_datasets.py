"""The shipped data sets: complete, documented column by column, alike in pandas and polars."""

import re

import numpy as np
import pytest

from anchortm.datasets import LOADERS
from anchortm.exceptions import InputError

SHAPES = {
    "ames": (2930, 14),
    "boston_housing2": (506, 10),
    "cgd": (128, 12),
    "computers": (6259, 10),
    "geyser": (299, 2),
    "grouseticks": (403, 7),
    "wine": (72, 6),
}


@pytest.mark.parametrize("name", LOADERS)
def test_shape_backends_and_documentation(name: str) -> None:
    frame, other = LOADERS[name](), LOADERS[name]("polars")
    assert frame.shape == other.shape == SHAPES[name]
    assert not frame.isna().any().any()
    for column in frame:
        assert frame[column].tolist() == other[column].to_list()
        assert re.search(rf"\b{column}\b", LOADERS[name].__doc__), f"{column} is not documented"
    assert "Source:" in LOADERS[name].__doc__


def test_what_is_left_out_and_refused() -> None:
    columns = set(LOADERS["boston_housing2"]())
    assert "b" not in columns
    assert np.isin(["cmedv", "town", "tract", "crim", "zn", "indus", "nox", "rm", "age", "lstat"], list(columns)).all()
    with pytest.raises(InputError, match="'pandas' or 'polars'"):
        LOADERS["wine"]("arrow")
