"""The arguments ``strata`` and ``varying`` of models as corners with the weights of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anchortm._util.checks import one_number
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.baselines.corners import Corners, Mixture
from anchortm.inputs.baselines.groups import Group
from anchortm.inputs.baselines.strata import known_strata, stratum_codes
from anchortm.inputs.design import Matrix, WideMatrix, columns_of
from anchortm.inputs.splines import Marks

__all__ = ["Varying", "check_corners", "make_corners", "make_mixture", "varying_groups"]

MOST, MOST_WEIGHTS = 1000, 50_000_000  # limits of corners, and of corners times rows
Varying = Mapping[str, Any] | Iterable[Any] | str | int | None  # the argument of the models


Facts = Callable[[list[int]], tuple[float, float, bool]]  # least and largest number of columns, whether all are 0 or 1


def make_mixture(
    labels: Sequence[Any] | None,
    varying: Varying,
    names: Sequence[str],
    matrix: Matrix,
    sign: float,
    marks: Marks | None = None,
) -> tuple[Mixture, list[int]]:
    """Return the corners of these rows with their weights, and which columns of the covariates they take up."""

    def facts(places: list[int]) -> tuple[float, float, bool]:
        columns = columns_of(matrix, places)
        return float(columns.min()), float(columns.max()), bool(np.isin(columns, (0.0, 1.0)).all())

    known = None if labels is None else known_strata(labels)
    corners, taken = make_corners(known, varying, names, facts, sign, marks)
    if isinstance(matrix, WideMatrix):
        matrix.refuse_levels(taken)
    check_corners(corners.size, matrix.shape[0])
    codes = None if labels is None or known is None else stratum_codes(labels, known)
    return Mixture(corners, corners.weights(codes, columns_of(matrix, taken))), taken


def make_corners(
    strata: Sequence[Any] | None,
    varying: Varying,
    names: Sequence[str],
    facts: Facts,
    sign: float,
    marks: Marks | None = None,
) -> tuple[Corners, list[int]]:
    """Return the corners of a model, and which columns of the covariates they take up.

    ``strata`` are the labels of all strata. ``varying`` are names or positions of columns, lists of them for the
    dummies of a factor, or a mapping from names to ranges.
    """
    groups = []
    if strata is not None:
        if len(strata) < 2:
            raise InputError(f"there is a single stratum, {strata[0]!r}: leave strata out")
        groups.append(Group("strata", (), tuple(strata)))
    taken: list[int] = []
    for entry, ends in varying_groups(varying):
        places = [_place(name, names) for name in entry]
        own = tuple(names[j] for j in places)
        if marks is not None and any(marks[j] is not None for j in places):
            raise InputError(f"{own[0]}: smooth terms cannot vary along the response too: leave them out of varying")
        groups.append(_varying_group(own, facts(places), ends))
        taken += places
    if len(set(taken)) < len(taken):
        raise InputError(f"covariates are named twice in varying: {', '.join(sorted({names[j] for j in taken}))}")
    return Corners(tuple(groups), sign, tuple(names)), taken


def check_corners(size: int, n_rows: int) -> None:
    """Refuse too many corners for rows that are in memory at once."""
    if size > MOST or size * n_rows > MOST_WEIGHTS:
        raise InputError(
            f"{size} strata, levels and ends for {n_rows} rows are too many baselines: merge some, give places as "
            "anchors, or use CoxPH, whose strata have no parameters"
        )


def _varying_group(names: tuple[str, ...], facts: tuple[float, float, bool], ends: tuple[float, float] | None) -> Group:
    """Return the group of columns whose effects vary: a factor, or a number within its range."""
    least, largest, binary = facts
    if len(names) > 1 or (ends is None and binary):
        return Group("factor", names)
    low, high = (least, largest) if ends is None else ends
    if not -np.inf < low < high < np.inf:
        raise InputError(f"{names[0]} varies over ({low:g}, {high:g}), which is not a range: low < high is needed")
    if least < low or largest > high:
        raise InputError(f"{names[0]} is {least:g} to {largest:g} in X, beyond its range ({low:g}, {high:g})")
    return Group("number", names, (), low, high)


def varying_groups(varying: Varying, what: str = "varying") -> list[tuple[list[str | int], tuple[float, float] | None]]:
    """Return the columns of each group, and the range of a number where one is given.

    ``what`` is the name of the argument in errors.
    """
    if varying is None:
        return []
    if isinstance(varying, Mapping):
        return [([name], None if ends is None else _range(name, ends)) for name, ends in varying.items()]
    listed = [varying] if _is_name(varying) else varying
    if not isinstance(listed, Iterable):
        raise InputTypeError(f"{what} must be names or positions of covariates, not {varying!r}")
    groups: list[Any] = [[entry] if _is_name(entry) else entry for entry in listed]
    for group in groups:
        if not (isinstance(group, (list, tuple)) and group and all(map(_is_name, group))):
            raise InputTypeError(f"{what} must be names or positions of covariates, or lists of dummies, not {group!r}")
    return [(list(group), None) for group in groups]


def _is_name(entry: object) -> bool:
    return isinstance(entry, (str, int, np.integer))


def _range(name: str, ends: object) -> tuple[float, float]:
    """Return the range that ``varying`` gives a number."""
    if not isinstance(ends, (list, tuple, np.ndarray)) or len(ends) != 2:
        raise InputError(f"varying gives {name!r} the range {ends!r}: give (low, high), or None for the range in X")
    return one_number(ends[0], f"varying[{name!r}]"), one_number(ends[1], f"varying[{name!r}]")


def _place(name: str | int, names: Sequence[str]) -> int:
    """Return the position of a covariate that ``varying`` names."""
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < len(names):
        return int(name)
    if not isinstance(name, str) or name not in names:
        made = [own for own in names if own.startswith(f"{name}[")]
        hint = f"; for a term of a formula write text, varying={str(name)!r}" if made else ""
        listed = ", ".join(names) or "none"
        raise InputError(f"varying names {name!r}, which is not a covariate: there are {listed}{hint}")
    return list(names).index(name)
