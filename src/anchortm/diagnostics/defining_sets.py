"""Defining sets: the minimal sets of covariates that have a member in common with every accepted set.

If no covariate is in all accepted sets, the causes are not known one by one. A defining set still says something: if
the accepted sets contain the causes, each defining set contains at least one of them (Heinze-Deml et al., 2018).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["minimal_hitting_sets", "minimal_sets"]

Set = frozenset[int]

MOST = 2000  # sets that are kept at any step


def minimal_sets(sets: Iterable[Set]) -> list[Set]:
    """Return the sets that contain no other of the sets, the smallest first."""
    found: list[Set] = []
    for own in sorted(set(sets), key=lambda one: (len(one), sorted(one))):
        if not any(smaller <= own for smaller in found):
            found.append(own)
    return found


def minimal_hitting_sets(sets: Iterable[Set], most: int = MOST) -> list[Set] | None:
    """Return all minimal sets that intersect each of the sets, by Berge's algorithm; None if there are too many.

    There are none if one of the sets is empty.
    """
    found: list[Set] = [frozenset()]
    for own in minimal_sets(sets):
        hit = [one for one in found if one & own]
        longer = (one | {j} for one in found if not one & own for j in own)
        found = minimal_sets([*hit, *longer])
        if len(found) > most:
            return None
    return found
