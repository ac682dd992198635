"""Baselines that differ between rows: strata, and effects that change along the response.

    h(y | x, s) = a(y)'theta_s + sign * sum_j (x_j - low_j) a(y)'B_j + sign * x'beta

Each *group* (the strata, a factor, a number within its range) has corners: its levels, or the two ends of the
range. A row is an average of corners with weights w >= 0, and its baseline the same average of theirs. h increases
in y for every x within the ranges exactly if increments can be shared out among the corners so that none is negative:
bounds, as for a single baseline. With two or more groups they can be shared out in many ways, along directions in
which nothing else changes (``pieces``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.checks import one_number
from anchortm._util.frames import native
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError, InputTypeError
from anchortm.inputs.splines import Marks

__all__ = [
    "Corners",
    "Group",
    "Inside",
    "Mixture",
    "known_strata",
    "make_mixture",
    "stratum_codes",
    "stratum_labels",
    "varying_groups",
]

Array = NDArray[np.float64]

MOST, MOST_WEIGHTS = 1000, 50_000_000  # corners, and corners times rows


@dataclass(frozen=True)
class Group:
    """The strata, the levels of a factor (the reference first), or a number within its range."""

    kind: Literal["strata", "factor", "number"]
    names: tuple[str, ...]  # of the columns
    labels: tuple[Any, ...] = ()  # of the strata
    low: float = 0.0
    high: float = 1.0

    @property
    def size(self) -> int:
        """Return the number of corners."""
        return len(self.labels) if self.kind == "strata" else len(self.names) + 1

    def weights(self, columns: NDArray[Any]) -> Array:
        """Return the weights of the corners for each row."""
        if self.kind == "strata":
            return np.asarray(columns[:, [0]] == np.arange(self.size), dtype=np.float64)
        if self.kind == "factor":
            odd = np.flatnonzero(((columns != 0.0) & (columns != 1.0)).any(axis=1) | (columns.sum(axis=1) > 1.0))
            if odd.size and len(self.names) == 1:
                raise InputError(
                    f"{self.names[0]} was 0 or 1 in the fit, and its effect varies: it cannot be "
                    f"{columns[odd[0], 0]:g}, as at row {odd[0]}"
                )
            if odd.size:
                raise InputError(
                    f"{', '.join(self.names)} are to vary together, but are no dummies of one factor at row {odd[0]}: "
                    "list columns of numbers one by one"
                )
            return np.hstack([1.0 - columns.sum(axis=1, keepdims=True), columns])
        share = (columns[:, :1] - self.low) / (self.high - self.low)
        outside = int(((share < 0.0) | (share > 1.0)).sum())
        if outside:
            warn(
                f"{self.names[0]} leaves its range {self.low:g} to {self.high:g} in {outside} rows: its effect, which "
                "varies along the response, is held at that of the nearer end there",
                AnchorTMWarning,
            )
        share = np.clip(share, 0.0, 1.0)
        return np.hstack([1.0 - share, share])


class Inside(NamedTuple):
    """The baseline's part of the internal parameters: how they make the reported ones, their bounds, and pieces."""

    matrix: Array
    lower: Array
    upper: Array
    pieces: tuple[NDArray[np.intp], ...]


class Mixture(NamedTuple):
    """Corners, and the weights that each row gives them."""

    corners: Corners
    weights: Array

    def take(self, rows: Any) -> Mixture:
        """Return these rows."""
        return Mixture(self.corners, self.weights[rows])

    def columns(self, baseline: Array, rows: Any) -> Array:
        """Return the internal columns of these rows from those of a single baseline."""
        return self.corners.columns(baseline, self.weights[rows])

    def thetas(self, theta: Array) -> Array:
        """Return the baseline of each row from the reported ones."""
        return self.corners.thetas(theta, self.weights)

    @property
    def levels(self) -> Array:
        """Return the weights of the corners that are no reference, which shift h."""
        return self.weights[:, self.corners.others]

    def typical(self, theta: Array) -> Array:
        """Return the average baseline."""
        return np.asarray(self.corners.thetas(theta, self.weights.mean(axis=0, keepdims=True))[0])


@dataclass(frozen=True)
class Corners:
    """The groups of a model, the strata first."""

    groups: tuple[Group, ...]
    sign: float
    covariates: tuple[str, ...]  # all of X, those that only shift h too

    @property
    def strata(self) -> Group | None:
        """Return the strata."""
        return self.groups[0] if self.groups[0].kind == "strata" else None

    @property
    def varying(self) -> tuple[Group, ...]:
        """Return what varies along the response."""
        return tuple(group for group in self.groups if group.kind != "strata")

    @property
    def varying_names(self) -> list[str]:
        """Return the columns whose effects vary."""
        return [name for group in self.varying for name in group.names]

    @property
    def n_baselines(self) -> int:
        """Return the number of baselines without those of effects: of the strata, or one."""
        return 1 if self.strata is None else self.strata.size

    @property
    def n_blocks(self) -> int:
        """Return the number of baselines, those of effects included."""
        return self.n_baselines + len(self.varying_names)

    def weights(self, codes: NDArray[np.intp] | None, columns: Array) -> Array:
        """Return the weights of all corners, from the codes of the strata and the columns that vary."""
        parts, start = [], 0
        for group in self.groups:
            if group.kind == "strata":
                assert codes is not None  # noqa: S101
                parts.append(group.weights(codes[:, None]))
            else:
                parts.append(group.weights(columns[:, start : start + len(group.names)]))
                start += len(group.names)
        return np.hstack(parts)

    @cached_property
    def _starts(self) -> list[int]:
        return [sum(group.size for group in self.groups[:k]) for k in range(len(self.groups))]

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """Return the corners that are no reference."""
        first = set(self._starts)
        return np.array([j for j in range(sum(group.size for group in self.groups)) if j not in first], dtype=np.intp)

    def columns(self, rows: Array, weights: Array) -> Array:
        """Return the internal columns of rows a(y)'M (or of derivatives or differences of them).

        A constant, its differences at the corners that are no reference, and the increments of each corner.
        """
        increments = weights[:, :, None] * rows[:, None, 1:]
        levels = weights[:, self.others] * rows[:, :1]
        return np.hstack([rows[:, :1], levels, increments.reshape(rows.shape[0], -1)])

    def _contributions(self) -> Array:
        """Return how the baselines that are reported come from those of the corners."""
        V = sum(group.size for group in self.groups)
        reported = []
        base = np.zeros((self.n_baselines, V))
        for group, start in zip(self.groups, self._starts, strict=True):
            if group.kind == "strata":
                base[:, : group.size] += np.eye(group.size)
                continue
            base[:, start] += 1.0
            for k in range(1, group.size):
                effect = np.zeros(V)
                effect[start + k], effect[start] = 1.0, -1.0
                reported.append(self.sign * effect / (group.high - group.low))
        return np.vstack([base, *reported])

    def inside(self, matrix: Array, lower: Array, upper: Array) -> Inside:
        """Return the internal parameters from those of a single baseline: theta = matrix @ delta, its bounds."""
        K, k = matrix.shape
        corners = self._contributions()
        V, first = corners.shape[1], self.groups[0].size
        n_levels = self.others.size
        d = 1 + n_levels + V * (k - 1)
        own = np.zeros((V, K, d))  # the baseline of each corner
        own[:first, :, 0] = matrix[:, 0]
        for place, corner in enumerate(self.others):
            own[corner, :, 1 + place] = matrix[:, 0]
        places = 1 + n_levels + np.arange(V * (k - 1)).reshape(V, k - 1)
        for corner in range(V):
            own[corner][:, places[corner]] = matrix[:, 1:]
        free = np.full(1 + n_levels, np.inf)
        # what the bounds ask of the sum over groups is asked of the first
        low, high = (
            np.zeros((V, k - 1)),
            np.broadcast_to(np.where(lower[1:] == upper[1:], 0.0, np.inf), (V, k - 1)).copy(),
        )
        low[:first], high[:first] = lower[1:], upper[1:]
        pieces = [places[s : s + g.size] for s, g in zip(self._starts, self.groups, strict=True)]
        return Inside(
            np.einsum("bv,vkd->bkd", corners, own).reshape(-1, d),
            np.concatenate([-free, low.ravel()]),
            np.concatenate([free, high.ravel()]),
            tuple(pieces) if len(pieces) > 1 else (),
        )

    def thetas(self, theta: Array, weights: Array) -> Array:
        """Return the baseline of each row from the reported ones."""
        return self.shares(weights) @ theta.reshape(self.n_blocks, -1)

    def shares(self, weights: Array) -> Array:
        """Return what each row takes of the reported baselines."""
        scale = [self.sign * (group.high - group.low) for group in self.varying for _ in group.names]
        strata = weights[:, : self.n_baselines] if self.strata is not None else np.ones((weights.shape[0], 1))
        varying = [
            weights[:, start + 1 : start + group.size]
            for group, start in zip(self.groups, self._starts, strict=True)
            if group.kind != "strata"
        ]
        shares = np.hstack([strata, *varying])
        shares[:, self.n_baselines :] *= scale
        return shares

    def least(self, increments: Array) -> Array:
        """Return the least that increments can be within the ranges, from those of the reported baselines."""
        least, start = increments[: self.n_baselines].min(axis=0), self.n_baselines
        for group in self.varying:
            effects = self.sign * (group.high - group.low) * increments[start : start + len(group.names)]
            least = least + np.minimum(effects.min(axis=0), 0.0)
            start += len(group.names)
        return np.asarray(least)

    def parameter_names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the reported parameters from those of a single baseline."""
        return [f"{block}: {name}" if block else name for block in self.blocks for name in names]

    @property
    def blocks(self) -> list[str]:
        """Return whose the reported baselines are."""
        strata = [""] if self.strata is None else [str(label) for label in self.strata.labels]
        return strata + [f"effect of {name}" for name in self.varying_names]

    @property
    def level_names(self) -> list[str]:
        """Return the names of the corners that are no reference."""
        strata = [] if self.strata is None else [f"stratum {label}" for label in self.strata.labels[1:]]
        return [*strata, *self.varying_names]

    @property
    def symbols(self) -> list[str]:
        """Return what h depends on beside y, in letters."""
        return [*(["s"] if self.strata is not None else []), *(["x"] if self.varying else [])]

    def facts(self) -> dict[str, str]:
        """Return what a summary says."""
        found = {}
        if self.strata is not None:
            labels = [str(label) for label in self.strata.labels]
            more = f", ... ({len(labels)} in all)" if len(labels) > 10 else ""
            found["strata"] = ", ".join(labels[:10]) + more + ", each with a baseline of its own"
        if self.varying:
            texts = [
                f"{group.names[0]} from {group.low:g} to {group.high:g}"
                if group.kind == "number"
                else ", ".join(group.names)
                for group in self.varying
            ]
            found["varying"] = "; ".join(texts)
            lows = [f"{group.names[0]} = {group.low:g}" for group in self.varying if group.kind == "number"]
            if lows:
                found["varying"] += f"; the baseline is that of {', '.join(lows)}"
        return found

    def check(self, weights: Array) -> None:
        """Refuse rows that leave a corner without any."""
        empty = np.flatnonzero(weights.sum(axis=0) <= 0.0)
        for group, start in zip(self.groups, self._starts, strict=True):
            for corner in empty[(empty >= start) & (empty < start + group.size)] - start:
                what = (
                    f"stratum {group.labels[corner]!r}"
                    if group.kind == "strata"
                    else f"the reference level of {', '.join(group.names)}"
                    if corner == 0
                    else group.names[corner - 1]
                )
                raise IdentificationError(f"{what} has no rows: its baseline cannot be estimated; leave it out")


def stratum_labels(columns: Any, what: str = "strata") -> list[Any]:
    """Return the stratum of each row (in errors ``what``): what its column says, or ``a=1, b=2`` of several."""
    if hasattr(columns, "columns"):
        made = {str(name): _labels(columns[name], name, what) for name in columns.columns}
    else:
        made = {str(j): _labels(column, f"column {j}", what) for j, column in enumerate(np.asarray(columns).T)}
    if len(made) == 1:
        return next(iter(made.values()))
    rows = zip(*made.values(), strict=True)
    return [", ".join(f"{name}={value}" for name, value in zip(made, row, strict=True)) for row in rows]


def _labels(column: Any, name: Any, what: str) -> list[Any]:
    array = np.asarray(native(column))
    values = list(array) if array.dtype.kind in "mM" else array.tolist()  # of nanoseconds tolist makes whole numbers
    odd = [v for v in values if not (isinstance(v, (str, int)) or (isinstance(v, float) and v.is_integer()))]
    if odd:
        raise InputError(
            f"{what} are names or whole numbers, and {name!r} has {odd[0]!r}: drop such rows, or cut numbers"
        )
    return [int(v) if isinstance(v, float) else v for v in values]


def known_strata(labels: Sequence[Any]) -> list[Any]:
    """Return the strata that there are, in order."""
    return sorted(set(labels), key=lambda label: (str(type(label)), label))


def stratum_codes(labels: Sequence[Any], known: Sequence[Any]) -> NDArray[np.intp]:
    """Return the place of each label among those of the fit."""
    place = {label: k for k, label in enumerate(known)}
    unseen = sorted({str(label) for label in labels if label not in place})
    if unseen:
        raise InputError(
            f"strata that the fit has not seen: {', '.join(unseen[:10])}; known: {', '.join(map(str, known[:20]))}; "
            "a stratum's baseline comes from its own rows"
        )
    return np.array([place[label] for label in labels], dtype=np.intp)


def make_mixture(
    labels: Sequence[Any] | None,
    varying: Any,
    names: Sequence[str],
    matrix: Array,
    sign: float,
    marks: Marks | None = None,
) -> tuple[Mixture, list[int]]:
    """Return the corners of these rows with their weights, and which columns of the covariates they take up.

    ``varying`` are names or positions of columns, lists of them for the dummies of a factor, or a mapping from names
    to ranges.
    """
    groups = []
    codes = None
    if labels is not None:
        known = known_strata(labels)
        if len(known) < 2:
            raise InputError(f"there is a single stratum, {known[0]!r}: leave strata out")
        groups.append(Group("strata", (), tuple(known)))
        codes = stratum_codes(labels, known)
    taken: list[int] = []
    for entry, ends in varying_groups(varying):
        places = [_place(name, names) for name in entry]
        columns = matrix[:, places]
        own = tuple(names[j] for j in places)
        if marks is not None and any(marks[j] is not None for j in places):
            raise InputError(f"{own[0]}: smooth terms cannot vary along the response too: leave them out of varying")
        if len(places) > 1 or (ends is None and bool(np.isin(columns, (0.0, 1.0)).all())):
            groups.append(Group("factor", own))
        else:
            low, high = (float(columns.min()), float(columns.max())) if ends is None else map(float, ends)
            if not -np.inf < low < high < np.inf:
                raise InputError(f"{own[0]} varies over ({low:g}, {high:g}), which is no range: low < high is needed")
            if columns.min() < low or columns.max() > high:
                raise InputError(
                    f"{own[0]} is {columns.min():g} to {columns.max():g} in X, beyond its range ({low:g}, {high:g})"
                )
            groups.append(Group("number", own, (), low, high))
        taken += places
    if len(set(taken)) < len(taken):
        raise InputError(f"covariates are named twice in varying: {', '.join(sorted({names[j] for j in taken}))}")
    size = sum(group.size for group in groups)
    if size > MOST or size * matrix.shape[0] > MOST_WEIGHTS:
        raise InputError(
            f"{size} strata, levels and ends for {matrix.shape[0]} rows are too many baselines: merge some, give "
            "places as anchors, or take CoxPH, whose strata are free"
        )
    corners = Corners(tuple(groups), sign, tuple(names))
    return Mixture(corners, corners.weights(codes, matrix[:, taken])), taken


def varying_groups(varying: Any, what: str = "varying") -> list[tuple[list[Any], Any]]:
    """Return the columns of each group (in errors of ``what``), and the range of a number where it is given."""
    if varying is None:
        return []
    if isinstance(varying, Mapping):
        return [([name], None if ends is None else _range(name, ends)) for name, ends in varying.items()]
    listed = [varying] if isinstance(varying, (str, int, np.integer)) else varying
    if not isinstance(listed, Iterable):
        raise InputTypeError(f"{what} must be names or positions of covariates, not {varying!r}")
    groups = [[entry] if isinstance(entry, (str, int, np.integer)) else entry for entry in listed]
    for group in groups:
        fine = isinstance(group, (list, tuple)) and group and all(isinstance(v, (str, int, np.integer)) for v in group)
        if not fine:
            raise InputTypeError(f"{what} must be names or positions of covariates, or lists of dummies, not {group!r}")
    return [(list(group), None) for group in groups]


def _range(name: Any, ends: Any) -> tuple[float, float]:
    if not isinstance(ends, (list, tuple, np.ndarray)) or len(ends) != 2:
        raise InputError(f"varying gives {name!r} the range {ends!r}: give (low, high), or None for that of X")
    return one_number(ends[0], f"varying[{name!r}]"), one_number(ends[1], f"varying[{name!r}]")


def _place(name: Any, names: Sequence[str]) -> int:
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < len(names):
        return int(name)
    if name not in names:
        made = [own for own in names if own.startswith(f"{name}[")]
        hint = f"; for a term of a formula write text, varying={str(name)!r}" if made else ""
        listed = ", ".join(names) or "none"
        raise InputError(f"varying names {name!r}, which is no covariate: there are {listed}{hint}")
    return list(names).index(name)
