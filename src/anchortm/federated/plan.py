"""What is learned of all sites before a fit, by sums only: levels, kinds of rows, moments, rounded histograms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.solve.identification import CovariateSums, check_counts, check_size
from anchortm.exceptions import InputError
from anchortm.federated.conversation import Conversation
from anchortm.federated.facts import Facts
from anchortm.federated.histograms import BINS, FIRST, TAILS, Bins, typical_outcome, zoomed
from anchortm.federated.shared_anchors import SharedAnchors, root_of
from anchortm.federated.sums import symmetric
from anchortm.inputs.empirical import SUPPORT_QUANTILES, empirical_distribution
from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Response, as_response

__all__ = ["Plan", "learn"]

Array = NDArray[np.float64]
Ranges = dict[str, tuple[float, float]]


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
        The default support of Bernstein baselines: that of the study, or quantiles of a rounded histogram. None for
        classes, and if nearly all outcomes are the same.
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
    shared: SharedAnchors | None = None
    strata: tuple[Any, ...] = ()
    stratum_shares: Array | None = None  # of the rows
    clusters: tuple[float, float] = (0.0, 0.0)  # number and weight of the clusters with random effects

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

    @property
    def beside(self) -> list[str]:
        """Return the names of the columns that tell strata apart."""
        return [f"stratum {label}" for label in self.strata[1:]]

    def check_covariates(self, own: NDArray[np.bool_]) -> None:
        """Refuse constant or collinear columns among those that have no penalty, the strata beside them."""
        own = np.append(own, np.ones(len(self.beside), dtype=bool))
        spread = np.sqrt(np.maximum(np.diag(self.sums.gram) / self.n_rows, 0.0))
        constant = spread <= 1e-12
        check_size(int(own.sum()), self.n_rows)
        self.sums.check((*self.names, *self.beside), constant, own)


def learn(conversation: Conversation, like: Plan | None = None) -> Plan:
    """Return what sums say of the sites of a session, in three rounds.

    ``like`` is the plan of more sites, whose levels, classes and support the fits to these sites keep.
    """
    facts = _known(Facts.of(conversation), like)
    if len(facts.strata) == 1:
        raise InputError(f"there is a single stratum, {facts.strata[0]!r}: leave strata out")
    facts, first = _counts(conversation, facts)
    bins, columns = first[: _shown(facts)], first[_shown(facts) :]
    if like is None:
        ranges = {name: one.ends(TAILS) for name, one in zip(facts.numbers, columns, strict=True)}
        formula = facts.settled(ranges)
    else:
        formula = like.formula
    names, units = tuple(formula.design_columns()), _units(formula)
    p, units = len(names), np.append(units, np.ones(max(len(facts.strata) - 1, 0)))
    mean, binary, finer, ranges = _moments(conversation, facts, formula, units, bins, columns, like is None)
    sums, weighted, deviation, offset, counts = _products(conversation, facts, units, mean, finer)
    response, weights = _typical(facts, finer, counts)
    if not facts.ordinal and facts.scale != "count":
        check_counts(facts.kinds)
    shared = _shared(conversation, facts) if facts.crossing else None
    shares = mean[p:]  # strata have the unit 1
    weighted, deviation = weighted[:p], deviation[:p]
    spans = [
        (0.0, 1.0) if one else ranges.get(name, (m - 2.0 * s, m + 2.0 * s))
        for name, one, m, s in zip(names, binary[:p], weighted, deviation, strict=True)
    ]
    return Plan(
        facts.n_rows,
        facts.n_total,
        facts.kinds,
        facts.classes,
        facts.dropped,
        facts.alphabetical,
        _support(conversation.study.support, response, weights) if like is None else like.support,
        names,
        weighted,
        np.where(deviation > 0.0, deviation, 1.0),
        np.array(spans).reshape(-1, 2).T,
        binary[:p],
        facts.rank if shared is None else shared.projection.rank,
        facts.anchored,
        facts.time,
        facts.truncated,
        offset / facts.n_total,
        response,
        weights,
        sums,
        formula,
        (float(finer[0]), float(finer[-1])) if finer.size else (0.0, float(max(len(facts.classes) - 1, 1))),
        shared,
        facts.strata,
        np.insert(shares, 0, 1.0 - shares.sum()) if facts.strata else None,
        facts.clusters,
    )


def _known(facts: Facts, like: Plan | None) -> Facts:
    """Return the facts with the levels and classes of a plan of more sites."""
    if like is None:
        return facts
    levels = like.levels
    columns = {name: replace(fact, levels=levels.get(name, ()), declared=()) for name, fact in facts.columns.items()}
    return replace(facts, classes=like.classes, dropped=like.dropped, columns=columns, strata=like.strata)


def _shown(facts: Facts) -> int:
    """Return how many histograms of the outcome there are: of observed outcomes, and of all."""
    return 0 if facts.ordinal else 2


def _counts(conversation: Conversation, facts: Facts) -> tuple[Facts, list[Bins]]:
    """Return the facts with numbers of rows, and coarse histograms of the outcome and of columns of numbers."""
    size, histograms = facts.size, _shown(facts) + len(facts.numbers)
    fields: dict[str, Any] = {"levels": facts.levels, "classes": list(facts.classes), "numbers": facts.numbers}
    found = conversation.ask("counts", fields, {"edges": FIRST}, size + histograms * FIRST.size).total
    rest = found[size:].reshape(-1, FIRST.size)
    return facts.counted(found[:size]), [Bins(FIRST, row) for row in rest]


def _moments(
    conversation: Conversation,
    facts: Facts,
    formula: Formula,
    units: Array,
    bins: list[Bins],
    columns: list[Bins],
    settled: bool,
) -> tuple[Array, tuple[bool, ...], Array, Ranges]:
    """Return means in units, which columns are 0 or 1, fine edges of the outcome, and about the ranges of columns."""
    p = units.size
    edges = zoomed(bins[-1]) if bins else np.zeros(0)
    number_edges = np.array([zoomed(one) for one in columns]).reshape(-1, BINS)
    fields = {
        "design": formula.state(),
        "classes": list(facts.classes),
        "alone": facts.alone if settled else [],
        "numbers": facts.numbers,
        "strata": list(facts.strata),
    }
    arrays = {"edges": edges, "number_edges": number_edges, "units": units}
    found = conversation.ask("moments", fields, arrays, 2 * p + len(bins) * edges.size + number_edges.size).total
    total, beyond, counts, rest = np.split(found, np.cumsum([p, p, len(bins) * edges.size]))
    ranges = {
        name: Bins(own, row).ends(TAILS)
        for name, own, row in zip(facts.numbers, number_edges, rest.reshape(-1, BINS), strict=True)
    }
    finer = zoomed(Bins(edges, counts[edges.size :]), TAILS) if bins else np.zeros(0)
    return total / facts.n_rows, tuple((beyond == 0.0).tolist()), finer, ranges


def _products(
    conversation: Conversation, facts: Facts, units: Array, mean: Array, finer: Array
) -> tuple[CovariateSums, Array, Array, float, Array]:
    """Return products of the columns, their weighted means and deviations, the sum of offsets, and a fine histogram."""
    p = units.size
    size = p * (p + 1) // 2
    arrays = {"edges": finer, "units": units, "mean": mean}
    found = conversation.ask("gram", {}, arrays, 3 * p + size + 1 + _shown(facts) * finer.size).total
    total, gram, weighted, squares, offset, counts = np.split(found, np.cumsum([p, size, p, p, 1]))
    sums = CovariateSums(facts.n_rows, total, symmetric(gram, p))
    middle = weighted / facts.n_total
    deviation = units * np.sqrt(np.maximum(squares / facts.n_total - middle**2, 0.0))
    return sums, units * (mean + middle), deviation, float(offset[0]), counts


def _shared(conversation: Conversation, facts: Facts) -> SharedAnchors:
    """Return the anchors that sites share, with the products of their columns."""
    n = len(facts.anchor_numbers)
    names = {"factors": {name: list(own) for name, own in facts.anchors.items()}, "numbers": list(facts.anchor_numbers)}
    mean, unit = np.zeros(n), np.ones(n)
    size = 1 + n + sum(len(levels) - 1 for levels in facts.anchors.values())
    upper = np.triu_indices(size)
    gram = np.zeros((size, size))
    for _ in range(2 if n else 1):  # the second time around their means, in their units
        total = conversation.ask("anchors", names, {"mean": mean, "unit": unit}, upper[0].size).total
        gram[upper] = total
        if n:
            first, square = gram[0, size - n :] / gram[0, 0], np.diag(gram)[size - n :] / gram[0, 0]
            mean, last = mean + unit * first, (mean, unit)
            unit = unit * np.sqrt(np.maximum(square - first**2, 1e-300))
    mean, unit = last if n else (mean, unit)
    whole = gram + np.triu(gram, 1).T
    arrays = {"anchor_mean": mean, "anchor_unit": unit, "anchor_root": root_of(whole)}
    return SharedAnchors.of(names, arrays)


def _typical(facts: Facts, edges: Array, counts: Array) -> tuple[Response, Array]:
    """Return a made-up outcome with the distribution of all rows, and its weights."""
    if facts.ordinal:
        labels = np.empty(len(facts.classes), dtype=object)
        labels[:] = facts.classes
        return as_response(labels, "ordinal", facts.classes), np.asarray(facts.class_weights)
    return typical_outcome(facts.scale, facts.time, edges, counts, facts.n_rows, facts.kinds["right"] > 0)


def _support(given: Any, response: Response, weights: Array) -> tuple[float, float] | None:
    """Return the support of the study, or quantiles of the histogram; None if there are no two."""
    if response.scale == "ordinal":
        return None
    if given is not None:
        return (float(given[0]), float(given[1]))
    law = empirical_distribution(response, weights)
    low, high = (law.quantile(q) for q in SUPPORT_QUANTILES)
    return (low, high) if low < high else None


def _units(formula: Formula) -> Array:
    """Return powers of two of about the size of the columns of a design, at the ends of the ranges of its numbers."""
    import pandas as pd

    state, p = formula.state(), len(formula.design_columns())
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
