"""Environments as columns of numbers: a number is one column, a factor with K levels K - 1 indicators."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns

__all__ = ["EnvironmentColumns"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EnvironmentColumns:
    """The columns that residuals are compared with, side by side.

    Attributes
    ----------
    matrix : array of shape (n, d)
    names : tuple of str
        ``site=b`` for the indicator of a level, the name of the variable for a number.
    indicator : tuple of bool
        Which columns are indicators of a level.
    given : AnchorColumns
        The environments as factors and numbers.
    """

    matrix: Array
    names: tuple[str, ...]
    indicator: tuple[bool, ...]
    given: AnchorColumns

    @classmethod
    def of(cls, given: AnchorColumns, named: bool = True) -> EnvironmentColumns:
        """Return the columns; the first level of a factor has none. ``named`` says whether the user named variables."""
        given = given if named else _renamed(given)
        columns, names = [given.columns], []
        for codes, levels, name in zip(given.factors, given.levels, given.factor_names, strict=True):
            columns.append((codes[:, None] == np.arange(1, levels.size)).astype(np.float64))
            names += [f"{name}={level}" for level in levels[1:]]
        numeric, matrix = len(given.column_names), np.hstack(columns)
        if not (matrix != matrix[:1]).any():
            raise InputError("there is a single environment: invariance is a comparison of two or more")
        indicator = (False,) * numeric + (True,) * len(names)
        return cls(matrix, (*given.column_names, *names), indicator, given)

    def labels(self) -> dict[str, NDArray[np.object_] | Array]:
        """Return the environments of the rows as given, by name."""
        found: dict[str, NDArray[np.object_] | Array] = dict(
            zip(self.given.column_names, self.given.columns.T, strict=True)
        )
        for codes, levels, name in zip(self.given.factors, self.given.levels, self.given.factor_names, strict=True):
            found[name] = np.asarray(levels)[codes]
        return found


def _renamed(given: AnchorColumns) -> AnchorColumns:
    """Return the environments with names such as environment0 in place of anchor0."""
    names = (
        tuple(re.sub(r"^anchor(?=\d*$)", "environment", name) for name in own)
        for own in (given.factor_names, given.column_names)
    )
    factor_names, column_names = names
    return replace(given, factor_names=factor_names, column_names=column_names)
