"""What is learned of all sites before a fit, by sums only: levels, kinds of rows, moments, rounded histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.checks import check_total_weight
from anchortm.engine.solve.identification import CovariateSums, check_counts, check_size
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError
from anchortm.federated.conversation import Conversation
from anchortm.federated.study import SITE
from anchortm.inputs.empirical import SUPPORT_QUANTILES, empirical_distribution
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.column_kinds import ColumnFacts
from anchortm.inputs.response import Interval, Response, Surv, as_response

__all__ = ["KINDS", "Plan", "learn"]

Array = NDArray[np.float64]

KINDS = ("exact", "left", "right", "interval")
FIRST = np.array([-(4.0**k) for k in range(20, -21, -1)] + [0.0] + [4.0**k for k in range(-20, 21)])
BINS = 64  # of each zoom into a histogram
ENDS, TAILS = (0.02, 0.98), (0.05, 0.95)  # what the first zoom keeps, and the ends that are reported as ranges


@dataclass(frozen=True, eq=False)
class Plan:
    """What is known of a study before a fit. No row, no exact quantile, no smallest or largest value is in it.

    Attributes
    ----------
    n_rows : int
        Number of rows at all sites.
    n_total : float
        Their total weight.
    kinds : dict
        Numbers of exact, left-, right- and interval-censored rows.
    classes : tuple
        The classes of an ordinal outcome.
    support : pair of float or None
        The default support of Bernstein baselines: that of the study, or quantiles of a rounded histogram.
    names : tuple of str
        The names of the covariates.
    mean, deviation : array
        Their weighted means and standard deviations.
    ranges : array
        The 5 % and 95 % bins of the columns of numbers; 0 and 1 of columns with these values.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import Coordinator, LocalSites, Site
    >>> data = atm.datasets.load_boston_housing2()
    >>> sites = LocalSites([Site(data[k::3], name) for k, name in enumerate(["east", "north", "west"])])
    >>> plan = Coordinator(sites, {"formula": "cmedv ~ rm + lstat | site"}).prepare()
    >>> plan.n_rows, plan.names
    (506, ('rm', 'lstat'))
    """

    n_rows: int
    n_total: float
    kinds: dict[str, int]
    classes: tuple[Any, ...]
    dropped: tuple[Any, ...]
    alphabetical: bool
    support: tuple[float, float] | None
    names: tuple[str, ...]
    mean: Array
    deviation: Array
    ranges: Array
    binary: tuple[bool, ...]
    rank: int
    anchored: bool
    time: bool
    truncated: bool
    offset: float
    response: Response  # a made-up outcome with the distribution of the histogram
    weights: Array
    sums: CovariateSums
    formula: Formula
    outcome_range: tuple[float, float]

    def __repr__(self) -> str:
        return f"Plan({self.n_rows} rows, {len(self.names)} covariates, {self.rank} environments)"

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """Return the levels of the factors."""
        return {name: tuple(own) for name, own in self.formula.state()["levels"].items()}

    @property
    def row_kinds(self) -> frozenset[tuple[str, int]]:
        """Return the kinds of rows and truncations that can occur under any basis."""
        found = {(kind, 1) for kind, number in self.kinds.items() if number}
        if ("interval", 1) in found:
            found.add(("left", 1))
        if self.truncated:
            found |= {(kind, -1) for kind in ("left", "right", "interval")}
        return frozenset(found)

    def check_covariates(self, own: NDArray[np.bool_]) -> None:
        """Refuse constant or collinear columns among those that have no penalty."""
        spread = np.sqrt(np.maximum(np.diag(self.sums.gram) / self.n_rows, 0.0))
        constant = spread <= 1e-12
        check_size(int(own.sum()), self.n_rows)
        self.sums.check(self.names, constant, own)


def learn(conversation: Conversation, like: Plan | None = None) -> Plan:
    """Return what sums say of the sites of a session, in three rounds.

    ``like`` is the plan of more sites, whose levels, classes and support the fits to these sites keep.
    """
    facts = _Facts.of(conversation)
    if like is not None:
        facts = replace(
            facts,
            classes=like.classes,
            dropped=like.dropped,
            columns={
                name: replace(fact, levels=like.levels.get(name, ()), declared=())
                for name, fact in facts.columns.items()
            },
        )
    ordinal = conversation.scale == "ordinal"
    K, levels = len(facts.classes), {name: list(fact.levels) for name, fact in facts.columns.items() if fact.levels}
    n_levels = sum(map(len, levels.values()))
    shown = 0 if ordinal else 2
    head = 3 + len(KINDS) + 2 * K * ordinal + n_levels
    found = conversation.ask(
        "counts",
        {"levels": levels, "classes": list(facts.classes) if ordinal else [], "numbers": facts.numbers},
        {"edges": FIRST},
        head + (shown + len(facts.numbers)) * FIRST.size,
    ).total
    facts = facts.counted(found[:head], ordinal)
    if ordinal and not (facts.class_weights > 0.0).all():
        raise IdentificationError("a class of the outcome has no rows at these sites")
    histograms = [_Bins(FIRST, row) for row in found[head:].reshape(-1, FIRST.size)]
    edges = _zoomed(histograms[1:shown]) if shown else np.zeros(0)
    number_edges = [_zoomed([bins]) for bins in histograms[shown:]]
    if like is None:
        ranges = {name: bins.ends(TAILS) for name, bins in zip(facts.numbers, histograms[shown:], strict=True)}
        formula = facts.settled(ranges)
    else:
        formula = like.formula
    names = tuple(formula.design_columns())
    units = _units(formula, len(names))
    p = len(names)
    found = conversation.ask(
        "moments",
        {
            "design": formula.state(),
            "classes": list(facts.classes) if ordinal else [],
            "alone": facts.alone if like is None else [],
            "numbers": facts.numbers,
        },
        {"edges": edges, "number_edges": np.array(number_edges).reshape(-1, BINS), "units": units},
        2 * p + shown * edges.size + len(number_edges) * BINS,
    ).total
    first, beyond = found[:p], found[p : 2 * p]
    cut = 2 * p + shown * edges.size
    ends = {
        name: _Bins(own, row).ends(TAILS)
        for name, own, row in zip(facts.numbers, number_edges, found[cut:].reshape(-1, BINS), strict=True)
    }
    finer = np.zeros(0)
    if shown:
        finer = _zoomed([_Bins(edges, found[2 * p + edges.size : cut])], TAILS)
    mean = first / facts.n_rows
    size = p * (p + 1) // 2
    found = conversation.ask(
        "gram", {"numbers": []}, {"edges": finer, "units": units, "mean": mean}, 3 * p + size + 1 + shown * finer.size
    ).total
    total, gram, weighted, squares, offset, counts = np.split(found, np.cumsum([p, size, p, p, 1]))
    full = np.zeros((p, p))
    full[np.triu_indices(p)] = gram
    sums = CovariateSums(facts.n_rows, total, full + np.triu(full, 1).T)
    middle = weighted / facts.n_total
    deviation = units * np.sqrt(np.maximum(squares / facts.n_total - middle**2, 0.0))
    binary = tuple((beyond == 0.0).tolist())
    spans = np.array(
        [_range(name, one, ends, m, s) for name, one, m, s in zip(names, binary, units * mean, deviation, strict=True)]
    )
    response, weights = facts.typical(finer, counts)
    kinds = facts.kinds
    if not ordinal and conversation.scale != "count":
        check_counts(kinds)
    return Plan(
        facts.n_rows,
        facts.n_total,
        kinds,
        facts.classes,
        facts.dropped,
        facts.alphabetical,
        like.support if like is not None else _support(conversation.study.support, response, weights),
        names,
        units * (mean + middle),
        np.where(deviation > 0.0, deviation, 1.0),
        spans.reshape(-1, 2).T,
        binary,
        facts.rank,
        facts.anchored,
        facts.time,
        facts.truncated,
        float(offset[0]) / facts.n_total,
        response,
        weights,
        sums,
        formula,
        (float(finer[0]), float(finer[-1])) if finer.size else (0.0, float(max(len(facts.classes) - 1, 1))),
    )


def _support(given: Any, response: Response, weights: Array) -> tuple[float, float] | None:
    """Return the support of the study, or quantiles of the histogram; None if the outcome has classes."""
    if response.scale == "ordinal":
        return None
    if given is not None:
        return (float(given[0]), float(given[1]))
    law = empirical_distribution(response, weights)
    low, high = (law.quantile(q) for q in SUPPORT_QUANTILES)
    if not low < high:
        raise InputError("the outcome has nearly the same value in most rows: give the support in the study")
    return low, high


def _range(
    name: str, binary: bool, ends: Mapping[str, tuple[float, float]], mean: float, sd: float
) -> tuple[float, float]:
    """Return about where a covariate lies."""
    if binary:
        return 0.0, 1.0
    return ends.get(name, (mean - 2.0 * sd, mean + 2.0 * sd))


def _units(formula: Formula, p: int) -> Array:
    """Return powers of two of about the size of the columns of a design, at the ends of the ranges of its numbers."""
    import pandas as pd

    state = formula.state()
    ranges, levels = state["ranges"], state["levels"]
    rows = {name: [low, high, 0.5 * (low + high)] for name, (low, high) in ranges.items()}
    rows |= {name: [own[k % len(own)] for k in range(3)] for name, own in levels.items()}
    if not rows or p == 0:
        return np.ones(p)
    with np.errstate(all="ignore"):
        try:
            X = np.abs(np.asarray(formula.design(pd.DataFrame(rows)), dtype=np.float64))
        except InputError:  # such as log(x) at a made-up number
            return np.ones(p)
    size = np.max(np.where(np.isfinite(X), X, 0.0), axis=0)
    return np.asarray(2.0 ** np.ceil(np.log2(np.where(size > 0.0, size, 1.0))), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Bins:
    """Rounded numbers of rows at or below edges."""

    edges: Array
    below: Array

    def ends(self, shares: tuple[float, float]) -> tuple[float, float]:
        """Return the edges around these shares of the rows below the last edge."""
        total = max(float(self.below[-1]), 1.0)
        first = int(np.searchsorted(self.below, shares[0] * total, side="right")) - 1
        last = int(np.searchsorted(self.below, shares[1] * total))
        first, last = max(first, 0), min(last, self.edges.size - 1)
        if first >= last:
            first, last = max(last - 1, 0), max(last, 1)
        return float(self.edges[first]), float(self.edges[last])


def _zoomed(bins: Sequence[_Bins], shares: tuple[float, float] = ENDS) -> Array:
    """Return finer edges between the ends of a histogram."""
    low, high = bins[-1].ends(shares)
    return np.linspace(low, high, BINS)


@dataclass(frozen=True, eq=False)
class _Facts:
    """What all sites have said of their columns, joined, and what sums have added."""

    formula_text: str
    names: list[str]
    columns: dict[str, ColumnFacts]
    coded: frozenset[str]
    declared_levels: Mapping[str, tuple[Any, ...]]
    alone: list[list[Any]]
    classes: tuple[Any, ...]
    dropped: tuple[Any, ...]
    alphabetical: bool
    time: bool
    truncated: bool
    scale: str
    anchored: bool
    n_rows: int = 0
    n_total: float = 0.0
    rank: int = 0
    kinds: Any = None
    class_weights: Any = None

    @property
    def numbers(self) -> list[str]:
        """Return the columns of numbers."""
        return [name for name, fact in self.columns.items() if fact.kind == "number"]

    @classmethod
    def of(cls, conversation: Conversation) -> _Facts:
        """Return the facts of a session; refuse columns that are of different kinds at different sites."""
        study, by_site = conversation.study, conversation.facts
        first = by_site[conversation.names[0]]
        for name, own in by_site.items():
            if set(own["names"]) != set(first["names"]) or set(own["columns"]) != set(first["columns"]):
                raise InputError(f"the site {name!r} has other columns for this study than {conversation.names[0]!r}")
        names, columns, alone = sorted(first["names"]), {}, []
        for column in first["columns"]:
            parts = {name: own["columns"][column] for name, own in by_site.items()}
            kinds = {part["kind"] for part in parts.values()}
            if len(kinds) > 1:
                raise InputError(
                    f"column {column!r} is of kind {' and '.join(sorted(kinds))} at different sites: make it one type, "
                    "or write C(...) for a factor"
                )
            levels = _joined(part["levels"] for part in parts.values())
            declared = _joined(part["declared"] for part in parts.values())
            if column in study.levels:
                foreign = [level for level in levels if level not in study.levels[column]]
                if foreign:
                    raise InputError(f"column {column!r} has levels that the study does not declare: {foreign[0]!r}")
                levels = declared = list(study.levels[column])
            kind = kinds.pop()
            columns[column] = ColumnFacts(column, kind, 0, tuple(levels), tuple(declared))
            if len(parts) > 1:
                for level in levels:
                    if sum(level in part["levels"] for part in parts.values()) == 1:
                        alone.append([column, level])
        classes, dropped, alphabetical = _classes(by_site, study.classes, conversation.scale)
        formula = Formula.unread(study.formula, names)
        anchored = any(own["anchors"] is not None for own in by_site.values())
        if anchored:
            _check_inside(by_site, study.across)
        kinds_seen = [kind for own in by_site.values() for kind in own["kinds"]]
        return cls(
            study.formula,
            names,
            columns,
            frozenset(formula.covariate_columns),
            study.levels,
            alone,
            classes,
            dropped,
            alphabetical,
            any(own["time"] for own in by_site.values()),
            "truncated" in kinds_seen,
            conversation.scale,
            anchored,
        )

    def counted(self, found: Array, ordinal: bool) -> _Facts:
        """Return the facts with the numbers of rows that sums gave."""
        n, K = round(float(found[0])), len(self.classes)
        total = float(found[1])
        check_total_weight(total)
        at = 3 + len(KINDS)
        kinds = {kind: round(float(x)) for kind, x in zip(KINDS, found[3:at], strict=True)}
        weights = None
        if ordinal:
            rows = [round(float(x)) for x in found[at : at + K]]
            weights = found[at + K : at + 2 * K]
            kinds = {"exact": 0, "left": rows[0], "right": rows[-1], "interval": sum(rows[1:-1])}
            at += 2 * K
        columns = {}
        for name, fact in self.columns.items():
            own = found[at : at + len(fact.levels)]
            at += len(fact.levels)
            counts = tuple(max(1, round(float(x))) for x in own)
            columns[name] = replace(fact, n_rows=n, counts=counts)
        made = replace(self, columns=columns, n_rows=n, n_total=total, rank=round(float(found[2])))
        return replace(made, kinds=kinds, class_weights=weights)

    def settled(self, ranges: Mapping[str, tuple[float, float]]) -> Formula:
        """Return the formula with the levels and about the ranges of its columns."""
        import pandas as pd

        formula = Formula.unread(self.formula_text, self.names)
        facts = {
            name: replace(fact, low=ranges[name][0], high=ranges[name][1]) if fact.kind == "number" else fact
            for name, fact in self.columns.items()
        }
        formula.settle(facts, pd.DataFrame({name: [] for name in facts}))
        return formula

    def typical(self, edges: Array, counts: Array) -> tuple[Response, Array]:
        """Return a made-up outcome with the distribution of a histogram, and its weights."""
        if self.scale == "ordinal":
            labels = np.empty(len(self.classes), dtype=object)
            labels[:] = self.classes
            return as_response(labels, "ordinal", self.classes), np.asarray(self.class_weights)
        observed, every = (np.diff(part, prepend=0.0, append=part[-1]) for part in counts.reshape(2, -1))
        observed, every = np.maximum(observed, 0.0), np.maximum(every, 0.0)
        at = np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])
        every[-1] = max(0.0, self.n_rows - every.sum())
        observed[-1] = every[-1] if self.kinds["right"] == 0 else 0.0
        censored = np.maximum(every - observed, 0.0) * (self.kinds["right"] > 0)
        if self.scale == "count":
            whole = np.maximum(np.ceil(at), 0.0)
            use = observed > 0.0
            return as_response(whole[use].astype(np.int64), "count"), observed[use]
        times = np.concatenate([at[observed > 0.0], at[censored > 0.0]])
        weights = np.concatenate([observed[observed > 0.0], censored[censored > 0.0]])
        event = np.arange(times.size) < (observed > 0.0).sum()
        if self.time:
            return Surv(np.maximum(times, 1e-300), event), weights
        if not event.all():
            return Interval(times, np.where(event, times, math.inf)), weights
        return as_response(times, "continuous"), weights


def _joined(parts: Any) -> list[Any]:
    """Return the members of several lists, each once."""
    return list(dict.fromkeys(value for part in parts for value in part))


def _classes(
    by_site: Mapping[str, Any], declared: tuple[Any, ...], scale: str
) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
    """Return the classes in order, those without rows, and whether they are words that were sorted."""
    if scale != "ordinal":
        return (), (), False
    seen = _joined(own["classes"] for own in by_site.values())
    own_orders = [own["declared"] for own in by_site.values()]
    known = list(declared)
    if not known and all(order is not None for order in own_orders):
        if any(order != own_orders[0] for order in own_orders):
            raise InputError("the classes of the outcome have another order at other sites: give classes in the study")
        known = list(own_orders[0])
    if known:
        foreign = [label for label in seen if label not in known]
        if foreign:
            raise InputError(f"the outcome has a class that the study does not declare: {foreign[0]!r}")
        gone = tuple(label for label in known if label not in seen)
        return tuple(label for label in known if label in seen), gone, False
    try:
        ordered = tuple(sorted(seen))
    except TypeError:
        raise InputError("the classes of the outcome cannot be sorted: give classes in the study") from None
    if len(ordered) < 2:
        raise IdentificationError("the outcome has a single class at all sites")
    words = all(isinstance(label, str) for label in ordered) and len(ordered) > 2
    if words:
        warn(
            f"classes are taken in alphabetical order: {', '.join(ordered)}; give classes in the study", AnchorTMWarning
        )
    return ordered, (), words


def _check_inside(by_site: Mapping[str, Any], across: bool) -> None:
    """Refuse anchors whose levels are at several sites, unless the study allows it."""
    seen: dict[tuple[str, Any], str] = {}
    for name, own in by_site.items():
        for factor, levels in (own["anchors"] or {"factors": {}})["factors"].items():
            for level in levels:
                other = seen.setdefault((factor, level), name)
                if other != name and not across:
                    raise InputError(
                        f"the anchor {factor!r} has levels at several sites: use the anchor {SITE!r}, or set across = "
                        "true in the study, which tells more about each site"
                    )
