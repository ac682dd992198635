"""What all sites say of their columns in clear text, joined: kinds, levels and classes, never numbers of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import check_total_weight
from anchortm.exceptions import IdentificationError, InputError
from anchortm.federated.conversation import Conversation
from anchortm.federated.questions import KINDS
from anchortm.federated.study import SITE, Study
from anchortm.inputs.baselines import known_strata
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.column_kinds import ColumnFacts
from anchortm.inputs.response import plain_words

__all__ = ["Facts"]

Array = NDArray[np.float64]
BySite = Mapping[str, dict[str, Any]]

HEAD = 5 + len(KINDS)  # rows, their weight, environments, clusters, their weight, rows of each kind


@dataclass(frozen=True, eq=False)
class Facts:
    """What all sites have said of their columns, joined, and what sums have added."""

    study: Study
    scale: str
    names: list[str]
    columns: dict[str, ColumnFacts]
    alone: list[list[Any]]  # levels that one site alone has
    classes: tuple[Any, ...]
    dropped: tuple[Any, ...]  # classes without rows
    alphabetical: bool
    time: bool
    truncated: bool
    anchored: bool
    crossing: tuple[str, ...] = ()  # anchors that sites share
    anchors: Mapping[str, list[Any]] = field(default_factory=dict)  # the levels of all factors, if some are shared
    anchor_numbers: tuple[str, ...] = ()
    n_rows: int = 0
    n_total: float = 0.0
    rank: int = 0
    kinds: Any = None
    class_weights: Any = None
    strata: tuple[Any, ...] = ()
    clusters: tuple[float, float] = (0.0, 0.0)  # their number and weight

    @property
    def ordinal(self) -> bool:
        """Return whether the outcome has classes."""
        return self.scale == "ordinal"

    @property
    def numbers(self) -> list[str]:
        """Return the columns of numbers."""
        return [name for name, fact in self.columns.items() if fact.kind == "number"]

    @property
    def levels(self) -> dict[str, list[Any]]:
        """Return the levels of the factors."""
        return {name: list(fact.levels) for name, fact in self.columns.items() if fact.levels}

    @property
    def size(self) -> int:
        """Return how many numbers ``counted`` takes."""
        return HEAD + 2 * len(self.classes) * self.ordinal + sum(map(len, self.levels.values()))

    @classmethod
    def of(cls, conversation: Conversation) -> Facts:
        """Return the facts of a session; refuse columns that are of different kinds at different sites."""
        study, by_site = conversation.study, conversation.facts
        first = by_site[conversation.names[0]]
        for name, own in by_site.items():
            if not _same_columns(own, first):
                raise InputError(f"the site {name!r} has other columns for this study than {conversation.names[0]!r}")
        columns: dict[str, ColumnFacts] = {}
        alone: list[list[Any]] = []
        for column in first["columns"]:
            parts = [own["columns"][column] for own in by_site.values()]
            columns[column] = _column(column, parts, study)
            alone += [[column, level] for level in columns[column].levels if _times(level, parts) == 1 < len(parts)]
        classes, dropped, alphabetical = _classes(by_site, study.classes) if conversation.scale == "ordinal" else _NONE
        anchored = first["anchors"] is not None
        kinds = {kind for own in by_site.values() for kind in own["kinds"]}
        return cls(
            study,
            conversation.scale,
            sorted(first["names"]),
            columns,
            alone,
            classes,
            dropped,
            alphabetical,
            any(own["time"] for own in by_site.values()),
            "truncated" in kinds,
            anchored,
            _crossing(by_site, study.across) if anchored else (),
            *(_anchors(by_site) if anchored else ({}, ())),
            strata=tuple(known_strata(_joined(own["strata"] for own in by_site.values()))),
        )

    def counted(self, found: Array) -> Facts:
        """Return the facts with the numbers of rows that sums gave."""
        n, K = round(float(found[0])), len(self.classes)
        total = float(found[1])
        check_total_weight(total)
        kinds = {kind: round(float(x)) for kind, x in zip(KINDS, found[5:HEAD], strict=True)}
        weights, at = None, HEAD
        if self.ordinal:
            rows = [round(float(x)) for x in found[at : at + K]]
            weights, at = found[at + K : at + 2 * K], at + 2 * K
            kinds = {"exact": 0, "left": rows[0], "right": rows[-1], "interval": sum(rows[1:-1])}
            if not all(rows):
                raise IdentificationError("a class of the outcome has no rows at these sites")
        columns = {}
        for name, fact in self.columns.items():
            own = found[at : at + len(fact.levels)]
            at += len(fact.levels)
            columns[name] = replace(fact, n_rows=n, counts=tuple(max(1, round(float(x))) for x in own))
        made = replace(self, columns=columns, n_rows=n, n_total=total, rank=round(float(found[2])))
        return replace(made, kinds=kinds, class_weights=weights, clusters=(float(found[3]), float(found[4])))

    def settled(self, ranges: Mapping[str, tuple[float, float]]) -> Formula:
        """Return the formula with the levels and about the ranges of its columns."""
        import pandas as pd

        formula = Formula.unread(self.study.formula, self.names)
        facts = {
            name: replace(fact, low=ranges[name][0], high=ranges[name][1]) if fact.kind == "number" else fact
            for name, fact in self.columns.items()
        }
        formula.settle(facts, pd.DataFrame({name: [] for name in facts}))
        return formula


_NONE: tuple[tuple[Any, ...], tuple[Any, ...], bool] = ((), (), False)


def _column(column: str, parts: list[dict[str, Any]], study: Study) -> ColumnFacts:
    """Return what a column is at all sites."""
    kinds = sorted({part["kind"] for part in parts})
    if len(kinds) > 1:
        raise InputError(
            f"column {column!r} is of kind {' and '.join(kinds)} at different sites: make it one type, or write C(...) "
            "for a factor"
        )
    levels, declared = (_joined(part[what] for part in parts) for what in ("levels", "declared"))
    if column in study.levels:
        foreign = [level for level in levels if level not in study.levels[column]]
        if foreign:
            raise InputError(f"column {column!r} has levels that the study does not declare: {foreign[0]!r}")
        levels = declared = list(study.levels[column])
        kinds = ["category"] if kinds == ["text"] else kinds  # whose levels are not sorted
    return ColumnFacts(column, kinds[0], 0, tuple(levels), tuple(declared))


def _same_columns(own: dict[str, Any], first: dict[str, Any]) -> bool:
    """Return whether two sites have the same columns and anchors for a study."""
    parts = [
        (set(one["names"]), set(one["columns"]), one["anchors"] and [*map(sorted, one["anchors"].values())])
        for one in (own, first)
    ]
    return parts[0] == parts[1]


def _times(level: Any, parts: list[dict[str, Any]]) -> int:
    """Return how many sites have a level."""
    return sum(level in part["levels"] for part in parts)


def _joined(parts: Iterable[list[Any]]) -> list[Any]:
    """Return the members of several lists, each once."""
    return list(dict.fromkeys(value for part in parts for value in part))


def _classes(by_site: BySite, declared: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
    """Return the classes in order, those without rows, and whether they are words that were sorted."""
    seen = _joined(own["classes"] for own in by_site.values())
    known = list(declared) or _common_order([own["declared"] for own in by_site.values()])
    if known:
        foreign = [label for label in seen if label not in known]
        if foreign:
            raise InputError(f"the outcome has a class that the study does not declare: {foreign[0]!r}")
        there = tuple(label for label in known if label in seen)
        return there, tuple(label for label in known if label not in seen), False
    return _sorted(seen)


def _sorted(seen: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
    """Return classes that nobody has ordered, in their natural order."""
    try:
        ordered = tuple(sorted(seen))
    except TypeError:
        raise InputError("the classes of the outcome cannot be sorted: give classes in the study") from None
    if len(ordered) < 2:
        raise IdentificationError("the outcome has a single class at all sites")
    return ordered, (), plain_words(ordered)


def _common_order(orders: list[Any]) -> list[Any]:
    """Return the order of classes that all sites declare; empty if some declare none."""
    if any(order is None for order in orders):
        return []
    if any(order != orders[0] for order in orders):
        raise InputError("the classes of the outcome have another order at other sites: give classes in the study")
    return list(orders[0])


def _anchors(by_site: BySite) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """Return the levels of all factors among the anchors, in order, and the numbers."""
    own = [facts["anchors"] for facts in by_site.values()]
    factors = {name: _joined(one["factors"][name] for one in own) for name in own[0]["factors"]}
    ordered = {name: sorted(levels, key=lambda x: (type(x).__name__, x)) for name, levels in factors.items()}
    return ordered, tuple(own[0]["numbers"])


def _crossing(by_site: BySite, across: bool) -> tuple[str, ...]:
    """Return the anchors that sites share; refuse them unless the study allows it."""
    seen: dict[tuple[str, Any], str] = {}
    found = dict.fromkeys(name for own in by_site.values() for name in own["anchors"]["numbers"])
    for name, own in by_site.items():
        for factor, levels in own["anchors"]["factors"].items():
            if any(seen.setdefault((factor, level), name) != name for level in levels):
                found[factor] = None
    if found and not across:
        raise InputError(
            f"sites share levels or numbers of the anchors {', '.join(found)}: use the anchor {SITE!r}, or set across "
            "= true in the study, which reveals more about each site"
        )
    return tuple(found)
