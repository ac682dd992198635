"""Corners of all groups of a model, and rows as averages of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Rows
from anchortm.exceptions import IdentificationError
from anchortm.inputs.baselines.groups import Group

__all__ = ["Corners", "Inside", "Mixture"]


class Inside(NamedTuple):
    """The internal parameters of the baselines: the matrix that gives the reported ones, their bounds, and pieces."""

    matrix: Array
    lower: Array
    upper: Array
    pieces: tuple[NDArray[np.intp], ...]


class Mixture(NamedTuple):
    """Corners, and their weights in each row."""

    corners: Corners
    weights: Array

    def take(self, rows: Rows) -> Mixture:
        """Return these rows."""
        return Mixture(self.corners, self.weights[rows])

    def without(self, names: Collection[str]) -> Mixture | None:
        """Return the rows without these strata and varying columns; None if nothing is left.

        A row at a level that is left out moves to the reference of its factor.
        """
        corners, parts = self.corners.without(names), []
        if corners is None:
            return None
        for group, start in zip(self.corners.groups, self.corners.starts, strict=True):
            own, left = self.weights[:, start : start + group.size], group.without(names)
            if group.kind == "strata":
                parts.append(own[:, [label in left.labels for label in group.labels]])
            elif left.names:
                kept = own[:, [k for k, name in enumerate(group.names, 1) if name in left.names]]
                parts.append(own if left.size == group.size else np.insert(kept, 0, 1.0 - kept.sum(axis=1), axis=1))
        return Mixture(corners, np.hstack(parts))

    def columns(self, baseline: Array, rows: Rows) -> Array:
        """Return the internal columns of these rows from those of a single baseline."""
        return self.corners.columns(baseline, self.weights[rows])

    def thetas(self, theta: Array) -> Array:
        """Return the baseline of each row from the reported ones."""
        return self.corners.thetas(theta, self.weights)

    @property
    def levels(self) -> Array:
        """Return the weights of the corners other than the references; these shift h."""
        return self.weights[:, self.corners.others]

    def typical(self, theta: Array) -> Array:
        """Return the average baseline."""
        return np.asarray(self.corners.thetas(theta, self.weights.mean(axis=0, keepdims=True))[0])


@dataclass(frozen=True)
class Corners:
    """The groups of a model, the strata first."""

    groups: tuple[Group, ...]
    sign: float
    covariates: tuple[str, ...]  # all columns of X, also those that only shift h

    @property
    def strata(self) -> Group | None:
        """Return the strata."""
        return self.groups[0] if self.groups[0].kind == "strata" else None

    @property
    def varying(self) -> tuple[Group, ...]:
        """Return the groups whose effects vary along the response."""
        return tuple(group for group in self.groups if group.kind != "strata")

    @property
    def varying_names(self) -> list[str]:
        """Return the columns whose effects vary."""
        return [name for group in self.varying for name in group.names]

    @property
    def size(self) -> int:
        """Return the number of corners of all groups."""
        return sum(group.size for group in self.groups)

    @property
    def n_baselines(self) -> int:
        """Return the number of baselines, without the effects: one, or one for each stratum."""
        return 1 if self.strata is None else self.strata.size

    @property
    def n_blocks(self) -> int:
        """Return the number of baselines, including those that are effects."""
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

    def average(self, strata: Array, means: Array) -> Array:
        """Return the weights of an average row, from the shares of the strata and the means of columns that vary."""
        parts, start = [strata], 0
        for group in self.varying:
            own = means[start : start + len(group.names)]
            share = own if group.kind == "factor" else (own - group.low) / (group.high - group.low)
            parts.append(np.append(1.0 - share.sum(), share))
            start += len(group.names)
        return np.concatenate(parts)[None, :]

    @cached_property
    def starts(self) -> list[int]:
        """Return the first corner of each group."""
        return [sum(group.size for group in self.groups[:k]) for k in range(len(self.groups))]

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """Return the corners other than the reference of each group."""
        first = set(self.starts)
        return np.array([j for j in range(sum(group.size for group in self.groups)) if j not in first], dtype=np.intp)

    def columns(self, rows: Array, weights: Array) -> Array:
        """Return the internal columns of rows a(y)'M (or of derivatives or differences of them).

        These are a constant, its differences at the corners other than the references, and the increments of each
        corner.
        """
        increments = weights[:, :, None] * rows[:, None, 1:]
        levels = weights[:, self.others] * rows[:, :1]
        return np.hstack([rows[:, :1], levels, increments.reshape(rows.shape[0], -1)])

    def _contributions(self) -> Array:
        """Return the matrix that gives the reported baselines from those of the corners."""
        V = sum(group.size for group in self.groups)
        reported = []
        base = np.zeros((self.n_baselines, V))
        for group, start in zip(self.groups, self.starts, strict=True):
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
        """Return the internal parameters from those of a single baseline: theta = matrix @ delta, with its bounds."""
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
        # bounds of the sum over groups are put on the first group
        low, high = (
            np.zeros((V, k - 1)),
            np.broadcast_to(np.where(lower[1:] == upper[1:], 0.0, np.inf), (V, k - 1)).copy(),
        )
        low[:first], high[:first] = lower[1:], upper[1:]
        pieces = [places[s : s + g.size] for s, g in zip(self.starts, self.groups, strict=True)]
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
        """Return the shares of the reported baselines in the baseline of each row."""
        scale = [self.sign * (group.high - group.low) for group in self.varying for _ in group.names]
        strata = weights[:, : self.n_baselines] if self.strata is not None else np.ones((weights.shape[0], 1))
        varying = [
            weights[:, start + 1 : start + group.size]
            for group, start in zip(self.groups, self.starts, strict=True)
            if group.kind != "strata"
        ]
        shares = np.hstack([strata, *varying])
        shares[:, self.n_baselines :] *= scale
        return shares

    def least(self, increments: Array) -> Array:
        """Return the smallest increments within the ranges, from those of the reported baselines."""
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
        """Return a label for each reported baseline; the only one has none."""
        strata = [""] if self.strata is None else [str(label) for label in self.strata.labels]
        return strata + [f"effect of {name}" for name in self.varying_names]

    @property
    def level_names(self) -> list[str]:
        """Return the names of the corners other than the references."""
        strata = () if self.strata is None else self.strata.corner_names[1:]
        return [*strata, *self.varying_names]

    @property
    def symbols(self) -> list[str]:
        """Return the letters of what h depends on beside y."""
        return [*(["s"] if self.strata is not None else []), *(["x"] if self.varying else [])]

    def facts(self) -> dict[str, str]:
        """Return the lines of a summary."""
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
        """Refuse corners without rows."""
        empty = np.flatnonzero(weights.sum(axis=0) <= 0.0)
        for group, start in zip(self.groups, self.starts, strict=True):
            for corner in empty[(empty >= start) & (empty < start + group.size)] - start:
                if group.kind == "strata":
                    what, named = f"stratum {group.labels[corner]!r}", [group.corner_names[corner]]
                elif corner == 0:
                    what, named = f"the reference level of {', '.join(group.names)}", list(group.names)
                else:
                    what = group.names[corner - 1]
                    named = [what]
                raise IdentificationError(
                    f"{what} has no rows: its baseline cannot be estimated; leave it out",
                    named,
                    collinear=corner == 0 and group.kind != "strata",
                )

    def empty(self, totals: Array) -> set[str]:
        """Return the strata and varying columns without rows, from the sum of the weights of each corner."""
        found = set[str]()
        for group, start in zip(self.groups, self.starts, strict=True):
            first = start if group.kind == "strata" else start + 1
            names = zip(group.corner_names, totals[first:], strict=False)
            found |= {name for name, total in names if total <= 0.0}
        return found

    def without(self, names: Collection[str]) -> Corners | None:
        """Return the corners without these strata and varying columns; None if no group is left."""
        groups = [group.without(names) for group in self.groups]
        left = tuple(group for group in groups if group.corner_names)
        return replace(self, groups=left) if left else None
