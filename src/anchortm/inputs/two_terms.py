"""Two random terms: intercepts of two groupings of the same rows, crossed or nested.

    h(y | x, i, j) = a(y)'theta + sign * (x'beta + a_i + b_j),      a_i ~ N(0, tau_a^2), b_j ~ N(0, tau_b^2)

Rows are independent only if they are not connected: by a level that they share, or through rows that share levels with
both. The codes of ``TwoTerms`` are those of connected groups of rows. They play the part that clusters play in models
with one term: weights replicate them, and the sandwich and the bootstrap take them as units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from anchortm._typing import Array, Rows
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.baselines import coded
from anchortm.inputs.clusters import Effects

__all__ = ["Intercepts", "TwoTerms", "make_two_terms"]

Codes = NDArray[np.intp]

MOST_LEVELS = 3000  # most levels of the smaller term, whose matrix is dense


@dataclass(frozen=True)
class Intercepts(Effects):
    """The random intercepts of two terms, which are independent: L is diagonal; ``names`` are those of the terms."""

    @classmethod
    def of(cls, names: Sequence[Any]) -> Intercepts:
        """Return the intercepts of terms with these columns."""
        first, second = map(str, names)
        return cls(f"{first} and {second}", (first, second), (0.0, 0.0), (1.0, 1.0))

    @property
    def n_parameters(self) -> int:
        """Return the number of variances."""
        return self.size

    @cached_property
    def places(self) -> tuple[Codes, Codes]:
        """Return rows and columns of the entries of L."""
        return np.arange(self.size), np.arange(self.size)

    @property
    def units(self) -> Array:
        """Return the identity: intercepts do not have units."""
        return np.eye(self.size)

    def columns(self, names: Sequence[str], matrix: Array) -> Array:
        """Return the columns z: ones."""
        return np.ones((matrix.shape[0], self.size))


class TwoTerms(NamedTuple):
    """The levels of each row in two groupings, and the groups of rows that are connected through them."""

    codes: Codes  # codes of connected groups
    labels: tuple[Any, ...]  # numbers of connected groups
    Z: Array  # columns of the effects: 1, or -1 where they lower h
    effects: Intercepts
    own: NDArray[np.intp]  # (n, 2), codes of the levels
    levels: tuple[tuple[Any, ...], tuple[Any, ...]]
    n_nodes: int | None = None  # None: there is no quadrature
    slack: float | None = None

    def take(self, rows: Rows) -> TwoTerms:
        """Return these rows, under the same codes."""
        return self._replace(codes=self.codes[rows], Z=self.Z[rows], own=self.own[rows])

    def check(self, single: bool) -> None:
        """Refuse levels that do not show how levels differ; ``single``: levels of one row can show it too."""
        for codes, name in zip(self.own.T, self.effects.names, strict=True):
            sizes = np.bincount(codes)
            if (sizes > 0).sum() < 2:
                raise IdentificationError(f"there is a single cluster of {name}: random effects need several")
            if sizes.max() == 1 and not single:
                raise IdentificationError(
                    f"every cluster of {name} has one row: effects of clusters cannot be separated from those of rows; "
                    "leave it out"
                )
        first, second = (np.unique(codes).size for codes in self.own.T)
        if first == second == np.unique(self.own, axis=0).shape[0]:
            a, b = self.effects.names
            raise IdentificationError(f"{a} and {b} are the same groups of rows, so their effects cannot be separated")
        if min(first, second) > MOST_LEVELS:
            raise InputError(
                f"two random terms with {first} and {second} levels: the smaller may have at most {MOST_LEVELS}"
            )

    def check_whole(self, groups: Codes, what: str) -> None:
        """Refuse groups of rows that cut through connected groups."""
        if not self.within(groups):
            raise InputError(
                f"{what} cut through rows that {self.effects.cluster} connect: connected rows depend on each other, so "
                "give groups that contain all of them"
            )

    def within(self, groups: Codes) -> bool:
        """Return whether each connected group lies in one of these groups."""
        return _within(self.codes, groups)

    def nested_in(self, groups: Codes) -> list[tuple[str, bool]]:
        """Return the terms whose levels each lie in one of these groups, and whether they are the same partition."""
        return [
            (name, np.unique(codes).size == np.unique(groups).size)
            for codes, name in zip(self.own.T, self.effects.names, strict=True)
            if _within(codes, groups)
        ]


def _within(codes: Codes, groups: Codes) -> bool:
    """Return whether each level of ``codes`` lies in one group."""
    first = np.empty(int(codes.max()) + 1, dtype=groups.dtype)
    first[codes] = groups
    return bool((first[codes] == groups).all())


def make_two_terms(labels: Sequence[Sequence[Any] | Codes], effects: Intercepts) -> TwoTerms:
    """Return the terms from the labels of all rows in both groupings."""
    (first, one), (second, other) = map(coded, labels)
    both = np.column_stack([one, other])
    groups = _connected(both, (len(first), len(second)))
    known_groups = tuple(range(int(groups.max(initial=-1)) + 1))
    return TwoTerms(groups, known_groups, np.ones(both.shape), effects, both, (tuple(first), tuple(second)))


def _connected(own: NDArray[np.intp], sizes: tuple[int, int]) -> Codes:
    """Return the connected group of each row: a graph of levels, in which rows are edges."""
    total = sum(sizes)
    edges = sp.coo_matrix((np.ones(len(own)), (own[:, 0], sizes[0] + own[:, 1])), shape=(total, total))
    groups = connected_components(edges.tocsr(), directed=False)[1]
    return np.unique(groups[own[:, 0]], return_inverse=True)[1].astype(np.intp)
