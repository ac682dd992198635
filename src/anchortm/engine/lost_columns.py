"""Fits to some of the rows, without the columns that these rows do not identify.

A level of a factor that exists at one place only is a column of zeros in the rows of all other places. All fits to
parts of the rows (left-out environments, searches, the bootstrap) leave such columns out: without its column, a row at
this level is read at the reference level. The same holds for columns that are collinear in these rows only: of those
the last one goes, as in R. A stratum without rows goes too; it cannot be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.scale_effects import scale_name
from anchortm.exceptions import IdentificationError

if TYPE_CHECKING:
    from anchortm.engine.formulation import Formulation
    from anchortm.inputs.baselines import Mixture

__all__ = ["Lost", "Shared", "identified", "known_names", "lost_strata", "notes_of"]

Array = NDArray[np.float64]
T = TypeVar("T")

MOST_LISTED = 8  # names in a note


class Lost(NamedTuple):
    """A column that some rows do not identify, whether it is 0 in all of them, and what it is collinear with.

    If it is not 0, the coefficients of those columns, and the baseline, are not what they are with this column.
    """

    name: str
    absent: bool
    beside: tuple[str, ...] = ()


R = TypeVar("R", bound=Any)  # rows of a fit, in memory or not


def identified(rows: R, check: Callable[[R], T]) -> tuple[R, T]:
    """Return the rows without the columns that ``check`` refuses, and its result for the others."""
    while True:
        try:
            return rows, check(rows)
        except IdentificationError as error:
            lost = _to_leave_out(rows, error)
            if not lost:
                raise
            rows = rows.without(lost, error.columns if error.collinear else ())


def _to_leave_out(rows: Any, error: IdentificationError) -> list[str]:
    """Return the columns that an error is about, of collinear ones the last; none if they cannot be left out."""
    slopes = () if rows.clusters is None else rows.clusters.effects.names
    shifting = [name for name in error.columns if name in rows.names]
    # of collinear columns one that only shifts h, if there is one
    found = (shifting or list(error.columns))[-1:] if error.collinear else list(error.columns)
    known = {*rows.names, *known_names(rows.mixture)}
    return [] if any(name in slopes or name not in known for name in found) else found


def known_names(mixture: Mixture | None) -> list[str]:
    """Return the names of strata and of columns with varying effects."""
    return [] if mixture is None else [name for group in mixture.corners.groups for name in group.corner_names]


def lost_strata(lost: Iterable[Lost], mixture: Mixture | None) -> list[str]:
    """Return which of the lost columns are strata; ``mixture`` is that of all rows."""
    strata = None if mixture is None else mixture.corners.strata
    return [] if strata is None else [one.name for one in lost if one.name in strata.corner_names]


def notes_of(lost: Iterable[Lost], unknown: Iterable[str]) -> str:
    """Return what a table says about an environment: columns of its fit that were left out, and unknown outcomes.

    ``unknown`` are the classes and strata that only this environment has, so that their rows cannot be predicted.
    """
    unknown, lost = list(unknown), list(lost)
    absent = [one.name for one in lost if one.absent and one.name not in unknown]
    others = [one.name for one in lost if not one.absent and one.name not in unknown]
    found = [f"not predicted: only this environment has {_listed(unknown)}"] if unknown else []
    found += [f"without {_listed(absent)}, which only this environment has"] if absent else []
    found += [f"without {_listed(others)}, which the other environments do not identify"] if others else []
    return "; ".join(found)


def _listed(names: list[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


@dataclass(frozen=True, eq=False)
class Shared:
    """Which parameters of a fit to all rows a fit to some of them has too."""

    blocks: NDArray[np.bool_]  # baselines
    others: NDArray[np.bool_]  # coefficients and what follows them
    changed: NDArray[np.bool_]  # those of them that mean something else without the lost columns
    moved: bool = False  # whether the baseline means something else

    @classmethod
    def of(cls, whole: Formulation, part: Formulation) -> Shared:
        """Return the parameters that both problems have; empty if all are shared."""
        lost = part.data.lost
        if not lost:
            none = np.zeros(0, dtype=bool)
            return cls(none, none, none)
        names, own = np.array(whole.names_of(whole.data), dtype=object), part.names_of(part.data)
        beside = {name for one in lost for name in one.beside if not one.absent}
        return cls(
            np.isin(_blocks(whole.data.mixture), _blocks(part.data.mixture)),
            np.isin(names, own),
            np.isin(names, [*beside, *map(scale_name, beside)]),
            not all(one.absent for one in lost),
        )

    def narrow(self, theta: Array, beta: Array) -> tuple[Array, Array]:
        """Return the shared parameters from those of all rows."""
        if not self.blocks.all():
            theta = theta.reshape(self.blocks.size, -1)[self.blocks].ravel()
        return theta, beta if self.others.all() else beta[self.others]

    def widen(self, theta: Array, beta: Array) -> tuple[Array, Array]:
        """Return the parameters of all rows from the shared ones; NaN for those that these rows do not identify."""
        if not self.blocks.size:
            return theta, beta
        theta = _filled(self.blocks, theta.reshape(int(self.blocks.sum()), -1)).ravel()
        beta = _filled(self.others, beta)
        return np.full(theta.size, np.nan) if self.moved else theta, np.where(self.changed, np.nan, beta)


def _blocks(mixture: Mixture | None) -> list[str]:
    return [""] if mixture is None else mixture.corners.blocks


def _filled(at: NDArray[np.bool_], values: Array) -> Array:
    result = np.full((at.size, *values.shape[1:]), np.nan)
    result[at] = values
    return result
