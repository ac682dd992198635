"""Held-out environments, which choose the number of boosting rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.checks import generator, level_between
from anchortm.engine.data import Data
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError
from anchortm.inputs.anchors import anchor_columns, group_codes

__all__ = ["Groups", "check_validation", "environment_groups", "held_out", "watch", "without"]

Groups = tuple[NDArray[np.intp], NDArray[Any]]  # the environment of each row, and the names of environments


def check_validation(validation: Any, all_rows: bool) -> None:
    """Raise an error if ``validation`` does not define held-out environments."""
    expected = f"validation must be None, a fraction, a list of environments or 'each', not {validation!r}"
    if isinstance(validation, (float, np.floating)):
        level_between(validation, "validation")
    elif validation is not None and not isinstance(validation, (str, Iterable)):
        raise InputTypeError(expected)
    elif isinstance(validation, str):
        if validation != "each":
            raise InputError(expected)
        if not all_rows:
            raise InputError("validation='each' always ends with a fit to all rows: leave all_rows=False out")


def environment_groups(environments: Any, data: Data, cut: int | None, validation: Any) -> Groups | None:
    """Return the given environments, checked; None if they are numbers or a single one, and nothing is held out."""
    columns = anchor_columns(environments)
    n, given = len(data.response) if data.kept is None else data.kept.size, len(columns)
    if given != n:
        raise InputError(f"environments has {given} rows, but y has {n}: pass the same rows of both")
    several = len(columns.levels) == 1 and columns.levels[0].size > 1 and not columns.column_names
    if validation is None and not several:
        return None
    groups, labels = group_codes(environments, cut)
    if data.kept is None:
        return groups, labels
    found, groups = np.unique(groups[data.kept], return_inverse=True)
    return groups, labels[found]


def held_out(
    validation: Any, data: Data, given: Groups | None, random_state: Any
) -> tuple[list[Any], list[list[NDArray[np.intp]]]]:
    """Return the names of the held-out environments, and for each fit a list of their rows."""
    if validation is None:
        return [], []
    if given is None:
        main = None if data.anchors is None else data.anchors.main
        if data.anchors is None or main is None:
            raise InputError(
                "validation holds out environments, but there is no anchor factor to define them: pass "
                "fit(..., environments=...), with cut=k for numeric ones"
            )
        given = data.anchors.factors[main], data.anchors.levels[main]
    groups, labels = given
    if labels.size < 2:
        raise InputError("there is a single environment: validation needs at least two")
    names = labels.tolist()
    if isinstance(validation, str):
        return names, [[np.flatnonzero(groups == e)] for e in range(labels.size)]
    chosen = _chosen(validation, names, random_state)
    return [names[e] for e in chosen], [[np.flatnonzero(groups == e) for e in chosen]]


def _chosen(validation: Any, names: list[Any], random_state: Any) -> list[int]:
    """Return the positions of the held-out environments: a random fraction, or those named."""
    if isinstance(validation, (float, np.floating)):
        number = min(max(1, round(validation * len(names))), len(names) - 1)
        return sorted(generator(random_state).choice(len(names), number, replace=False).tolist())
    wanted = list(validation)
    unknown = [str(name) for name in wanted if name not in names]
    if unknown:
        raise InputError(f"validation names unknown environments: {', '.join(unknown)}")
    if not wanted or len(set(wanted)) == len(names):
        raise InputError(f"validation must name some of the {len(names)} environments, but not all")
    return sorted({names.index(name) for name in wanted})


def watch(watched: Iterator[tuple[Any, ...]], n_rounds: int, patience: int) -> tuple[list[float], list[Any], Any]:
    """Return the held-out loss of each round, the states of the first fit, and its best booster."""
    curve: list[float] = []
    states: list[Any] = []
    best = None
    for k, side_by_side in enumerate(watched):
        curve.append(float(np.mean([state.held_out for state in side_by_side])))
        states.append(side_by_side[0])
        if np.argmin(curve) == k:
            best = copy(side_by_side[0].booster)  # a copy, because the booster changes in each round
        if k == n_rounds or k - int(np.argmin(curve)) >= patience:
            break
    return curve, states, best


def without(validation: Any, gone: Any, n_rounds: int) -> Any:
    """Return the validation argument for a fit without the environment ``gone``."""
    if not isinstance(validation, Iterable) or isinstance(validation, str):
        return validation
    named = list(validation)
    left = [name for name in named if name != gone]
    if left or not named:
        return left
    text = f"without environment {gone} no environment that validation names is left: all {n_rounds} rounds are used"
    warn(text, AnchorTMWarning)
    return None
