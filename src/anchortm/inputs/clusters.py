"""Clusters of rows that share random effects: which rows, which effects, and their scale.

    h(y | x, g) = a(y)'theta + sign * (x'beta + z'b_g),      b_g ~ N(0, Sigma)

Internally, slopes refer to centred and scaled covariates, and Sigma = L L' with L lower-triangular. The parameters tau
are the entries of L in the order of ``np.tril_indices``, with those of the diagonal squared. The reason: L and -L are
the same model, so 0 is a stationary point in a standard deviation whatever the data, but an ordinary bound of a
variance. Centre and scale are set once from all rows, so that fits to parts of them are on the same scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Rows
from anchortm.exceptions import IdentificationError, InputError, InputTypeError
from anchortm.inputs.baselines import coded

__all__ = ["INTERCEPT", "Clusters", "Effects", "make_clusters", "named_effects"]

Codes = NDArray[np.intp]

MOST = 2  # random effects that a cluster can have
MOST_TERMS = 2  # groupings that can have random effects
LEAST = 1e-8  # lower bound of a squared entry of L
INTERCEPT = "1"


@dataclass(frozen=True)
class Effects:
    """The random effects of a cluster: an intercept ``1``, covariates with random slopes, and their units inside."""

    cluster: str
    names: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]

    @property
    def size(self) -> int:
        """Return the number of effects."""
        return len(self.names)

    @property
    def n_parameters(self) -> int:
        """Return the number of entries of L."""
        return self.size * (self.size + 1) // 2

    @cached_property
    def places(self) -> tuple[Codes, Codes]:
        """Return rows and columns of the entries of L."""
        return np.tril_indices(self.size)

    @cached_property
    def squared(self) -> NDArray[np.bool_]:
        """Return which parameters are squares."""
        rows, columns = self.places
        return np.asarray(rows == columns)

    @property
    def lower(self) -> Array:
        """Return the lower bounds of the parameters; for squares just above 0, where roots have derivatives."""
        return np.where(self.squared, LEAST, -np.inf)

    def entries(self, tau: Array) -> Array:
        """Return the entries of L."""
        return np.where(self.squared, np.sqrt(np.maximum(tau, LEAST)), tau)

    def slopes(self, tau: Array) -> tuple[Array, Array]:
        """Return first and second derivatives of each entry of L in its parameter."""
        root = self.entries(tau)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.squared, 0.5 / root, 1.0), np.where(self.squared, -0.25 / root**3, 0.0)

    def root(self, tau: Array) -> Array:
        """Return L."""
        L = np.zeros((self.size, self.size))
        L[self.places] = self.entries(tau)
        return L

    def estimate(self, tau: Array) -> Array:
        """Return L with zeros where entries are at their bound."""
        L = np.zeros((self.size, self.size))
        L[self.places] = np.where(self.at_bound(tau), 0.0, self.entries(tau))
        return L

    def at_bound(self, tau: Array) -> NDArray[np.bool_]:
        """Return which entries of L count as zero.

        Squares count as zero at their bound. Another entry in the row of such a square counts as zero too while its
        own square is as small.
        """
        held = self.squared & (tau <= 2.0 * LEAST)
        rows, _ = self.places
        return np.asarray(held | (held[self.squared][rows] & ~self.squared & (tau**2 <= 2.0 * LEAST)))

    @property
    def units(self) -> Array:
        """Return T such that the effects are T c, where c are the effects of the internal columns."""
        T = np.diag(1.0 / np.array(self.scale))
        if self.names[0] == INTERCEPT:
            T[0] -= np.array(self.centre) / np.array(self.scale)
        return T

    def covariance(self, tau: Array) -> Array:
        """Return Sigma, in the units of the covariates."""
        root = self.units @ self.estimate(tau)
        return np.asarray(root @ root.T)

    def columns(self, names: Sequence[str], matrix: Array) -> Array:
        """Return the internal columns z of rows from their covariates."""
        found = [
            np.ones(matrix.shape[0]) if name == INTERCEPT else (matrix[:, list(names).index(name)] - centre) / scale
            for name, centre, scale in zip(self.names, self.centre, self.scale, strict=True)
        ]
        return np.column_stack(found)

    def parameter_names(self) -> list[str]:
        """Return the names of the parameters."""
        pairs = zip(*self.places, strict=True)
        return [f"L[{self.names[a]}, {self.names[b]}]" + ("^2" if a == b else "") for a, b in pairs]


class Clusters(NamedTuple):
    """The cluster of each row, the names of all clusters, and the columns of the random effects."""

    codes: Codes
    labels: tuple[Any, ...]
    Z: Array
    effects: Effects
    n_nodes: int | None = None  # quadrature nodes in each dimension, once this is decided
    slack: float | None = None  # error that these nodes leave in a gradient, if known

    def take(self, rows: Rows) -> Clusters:
        """Return these rows, under the same codes."""
        return self._replace(codes=self.codes[rows], Z=self.Z[rows])

    def check(self, single: bool) -> None:
        """Refuse clusters that do not show how clusters differ; ``single``: clusters of one row can show it too."""
        column, sizes = self.effects.cluster, self.sizes
        if (sizes > 0).sum() < 2:
            raise IdentificationError(f"there is a single cluster of {column}: random effects need several")
        if sizes.max() == 1 and not single:
            raise IdentificationError(
                f"every cluster of {column} has one row: effects of clusters cannot be separated from those of rows; "
                "leave random out"
            )

    def check_whole(self, groups: Codes, what: str) -> None:
        """Refuse groups of rows that cut through clusters."""
        if not self.within(groups):
            raise InputError(
                f"{what} cut through the clusters of {self.effects.cluster}: rows of a cluster depend on each other, "
                "so give groups that contain whole clusters"
            )

    def within(self, groups: Codes) -> bool:
        """Return whether each cluster lies in one group."""
        first = np.empty(len(self.labels), dtype=groups.dtype)
        first[self.codes] = groups
        return bool((first[self.codes] == groups).all())

    def same(self, groups: Codes) -> bool:
        """Return whether clusters and groups are the same partition of the rows."""
        return self.within(groups) and np.unique(groups).size == np.unique(self.codes).size

    @property
    def sizes(self) -> Codes:
        """Return how many rows each cluster has; 0 for clusters without rows here."""
        return np.bincount(self.codes, minlength=len(self.labels))

    def gapless(self) -> tuple[Codes, Codes]:
        """Return the codes of the clusters that have rows here, and the position of each row's cluster among these."""
        some = self.sizes > 0
        found = np.flatnonzero(some)
        return found, self.codes if found.size == some.size else (np.cumsum(some) - 1)[self.codes]


def named_effects(random: object) -> list[tuple[str | int, list[str | int]]]:
    """Return the columns of clusters that the argument ``random`` names, each with its effects; none, one or two."""
    if random is None:
        return []
    if _is_column(random):
        return [(random, [INTERCEPT])]  # type: ignore[list-item]
    terms = random
    if isinstance(random, (list, tuple)) and all(map(_is_column, random)) and len(set(random)) == len(random):
        terms = {column: [INTERCEPT] for column in random}
    if not isinstance(terms, Mapping) or not 1 <= len(terms) <= MOST_TERMS:
        raise InputTypeError(
            "random must name one or two different columns of clusters, such as 'patient', {'patient': ['1', 'x']} or "
            f"['patient', 'ward'], not {random!r}"
        )
    named = [
        (column, _intercept_first(column, [effects] if _is_column(effects) else effects))
        for column, effects in terms.items()
    ]
    if len(named) > 1 and any(effects != [INTERCEPT] for _, effects in named):
        raise InputError("two random terms have intercepts only: leave slopes out, or one of the terms")
    return named


def _is_column(value: object) -> bool:
    """Return whether this names a column, by a text or a position."""
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _intercept_first(column: Any, effects: Any) -> list[str | int]:
    """Return the effects of a cluster, the intercept first; refuse what is not an intercept, a slope or both."""
    if not isinstance(effects, Sequence) or not effects:
        raise InputTypeError(f"random gives {column!r} the effects {effects!r}: give a list such as ['1', 'x']")
    if isinstance(column, str) and not all(isinstance(effect, str) for effect in effects):
        raise InputTypeError(
            f"random gives {column!r} the effects {effects!r}: give text, '1' for the intercept and names of covariates"
        )
    ordered = [effect for effect in effects if effect == INTERCEPT] + [e for e in effects if e != INTERCEPT]
    if len(set(ordered)) != len(ordered) or len(ordered) > MOST:
        raise InputError(
            f"random names the effects {', '.join(map(str, ordered))}: a cluster has an intercept '1', a slope, or both"
        )
    return ordered


def make_clusters(
    labels: Sequence[Any] | Codes, column: str | int, effects: Sequence[str | int], names: Sequence[str], X: Array
) -> Clusters:
    """Return the clusters of rows with the columns of their effects."""
    known, codes = coded(labels)
    found, centre, scale = [], [], []
    for effect in effects:
        name = INTERCEPT if effect == INTERCEPT else _name(effect, names)
        x = np.zeros(0) if name == INTERCEPT else X[:, list(names).index(name)]
        found.append(name)
        centre.append(float(x.mean()) if x.size and INTERCEPT in effects else 0.0)
        spread = float(x.std() if INTERCEPT in effects else math.sqrt(np.mean(x**2))) if x.size else 1.0
        if spread == 0.0:
            raise IdentificationError(f"the random slope of {name} has a constant covariate: leave it out")
        scale.append(spread)
    made = Effects(str(column), tuple(found), tuple(centre), tuple(scale))
    return Clusters(codes, tuple(known), made.columns(names, X), made)


def _name(effect: str | int, names: Sequence[str]) -> str:
    """Return the covariate of a random slope."""
    if isinstance(effect, (int, np.integer)) and not isinstance(effect, bool) and 0 <= effect < len(names):
        return names[int(effect)]
    if effect not in names:
        raise InputError(
            f"random names the slope of {effect!r}, which is not a covariate: there are {', '.join(names) or 'none'}; "
            "a random slope varies around the effect of a covariate"
        )
    return str(effect)
