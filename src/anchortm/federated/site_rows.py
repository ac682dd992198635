"""The rows of one site: read by the study's formula, and summed up in the few ways that questions ask for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.frames import column_names, native, refuse_missing, select
from anchortm.backends.column_sums import numbers_of
from anchortm.backends.reading import Batch, Reader
from anchortm.engine.data import Strata
from anchortm.engine.rows.projections import projection
from anchortm.exceptions import InputError
from anchortm.federated.histograms import BINS, finest_step, on_the_grid
from anchortm.federated.policy import DisclosureError, Policy
from anchortm.federated.questions import KINDS
from anchortm.federated.recipe import Recipe
from anchortm.federated.shared_anchors import SharedAnchors
from anchortm.federated.site_model import SiteModel, effective
from anchortm.federated.study import SITE, Study
from anchortm.federated.wire import WireError
from anchortm.inputs.anchors import AnchorColumns, anchor_columns
from anchortm.inputs.baselines import cluster_labels, coded, stratum_sets
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.column_kinds import ColumnFacts
from anchortm.inputs.missing import Gaps
from anchortm.inputs.response import Response, as_response, classes_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Design", "SiteRows", "content_of", "table_of"]

Array = NDArray[np.float64]

FACTOR = re.compile(r"C\([^()]*\)")  # levels of a column, in the name of a column of the design


def table_of(data: Any, study: Study, name: str, environments: str | None) -> pd.DataFrame:
    """Return the columns of a site's table that a study needs, with the anchor ``site``."""
    table = native(data)
    there = list(column_names(table))
    names = list(dict.fromkeys([*there, SITE]))
    needed = Formula.unread(study.formula, names).needed(names)
    more = (study.sample_weight, study.offset, environments, *Formula.unread(study.formula, names).clusters)
    extra = [column for column in more if column is not None]
    absent = [column for column in dict.fromkeys([*needed, *extra]) if column not in names]
    if absent:
        raise InputError(f"the site has no column {', '.join(absent)}, which the study needs")
    own = [column for column in dict.fromkeys([*needed, *extra]) if column in there]
    frame = select(table, own).reset_index(drop=True)
    if SITE not in needed:
        return frame
    if environments is None:
        return frame.assign(**{SITE: name})
    return frame.assign(**{SITE: [f"{name}/{value}" for value in frame[environments]]})


def content_of(frame: pd.DataFrame) -> bytes:
    """Return a digest of all values of a table."""
    import pandas as pd

    return hashlib.sha256(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes()).digest()


@dataclass(frozen=True, eq=False)
class Design:
    """How all sites read their rows: the settled formula, the classes, and levels that one site alone has."""

    state: Mapping[str, Any]
    classes: tuple[Any, ...]
    alone: tuple[tuple[str, Any], ...] = ()
    strata: tuple[Any, ...] = ()

    @property
    def levels(self) -> dict[str, list[Any]]:
        """Return the levels of the factors."""
        return dict(self.state["levels"])


class SiteRows:
    """The rows of one site in one study, with one reading of the outcome."""

    def __init__(self, frame: pd.DataFrame, study: Study, policy: Policy, scale: Any) -> None:
        self.study, self.policy, self.scale = study, policy, scale
        names = list(frame.columns)
        formula = Formula.unread(study.formula, names)
        beside = tuple(formula.clusters)
        reader = Reader(
            formula, tuple(names), scale, study.sample_weight, study.offset, missing=study.missing, beside=beside
        )
        if study.missing == "drop":
            whole = [name for name in reader.labels if Gaps.of(frame[name]).integers]
            reader = replace(reader, integers=tuple(whole))
        policy.check_columns([name for name in reader.columns if name != SITE])
        self.frame, self.weights = reader.weighted(frame)
        if self.frame.empty:
            raise DisclosureError("the site has no rows for this study")
        self.formula, self.reader = formula, replace(reader, weight=None, missing="error", beside=())
        self.n_rows = len(self.frame)
        self.names: tuple[str, ...] = ()  # of the columns of the design, once it is known
        self._check()

    def _check(self) -> None:
        """Apply the rules that need no question."""
        policy = self.policy
        policy.check_rows(self.n_rows)
        for name, fact in self.facts.items():
            if fact.kind != "number":
                policy.check_levels(len(fact.levels), self.n_rows, f"column {name!r}")
                policy.check_cells(np.array(fact.counts), f"levels of column {name!r}")
        if self.clusters is not None:
            policy.check_clusters(len(self.clusters.labels))
        if self.formula.strata:
            counts = np.bincount(self.strata.codes)
            policy.check_levels(counts.size, self.n_rows, "stratum")
            policy.check_cells(counts, "strata")
        if self.scale == "ordinal":
            policy.check_cells(np.bincount(self._classes.codes), "classes of the outcome")
        else:
            response = self.plain_response
            policy.check_cells(np.array(list(response.counts().values())), "kinds of outcomes")
            policy.check_cells(np.array([int(response.truncated.sum())]), "truncated outcomes")
            policy.check_cells(_ends_of(response), "values of a 0-1 outcome")
        if self.weights is not None and effective(self.weights) < policy.least_effective:
            raise DisclosureError("the weights of few rows outweigh all others at the site")

    @cached_property
    def facts(self) -> dict[str, ColumnFacts]:
        """Return what the columns of the covariates are."""
        return self.formula.learn(self.frame)

    @cached_property
    def strata(self) -> Strata:
        """Return the stratum of each row."""
        labels, codes = stratum_sets(select(self.frame, self.formula.strata))
        return Strata(codes, tuple(labels))

    @cached_property
    def _classes(self) -> Any:
        return classes_of(self.formula.outcome(self.frame))

    @cached_property
    def plain_response(self) -> Response:
        """Return the outcome of a model without classes."""
        return as_response(self.formula.outcome(self.frame), self.scale)

    @cached_property
    def anchors(self) -> AnchorColumns | None:
        """Return the anchors."""
        frame = self.formula.anchor_frame(self.frame)
        return None if frame is None else anchor_columns(frame)

    def described(self) -> dict[str, Any]:
        """Return what is said in clear text: kinds and levels of columns, classes, what anchors are."""
        columns = {
            name: {"kind": fact.kind, "levels": _plain(fact.levels), "declared": _plain(fact.declared)}
            for name, fact in self.facts.items()
        }
        found: dict[str, Any] = {
            "names": list(self.frame.columns),
            "columns": columns,
            "classes": [],
            "declared": None,
            "time": False,
            "kinds": [],
        }
        if self.scale == "ordinal":
            found |= {"classes": _plain(self._classes.labels)}
            found |= {"declared": None if self._classes.declared is None else _plain(self._classes.declared)}
        else:
            response = self.plain_response
            kinds = [kind for kind, number in response.counts().items() if number]
            found |= {"time": response.scale == "time", "kinds": kinds + ["truncated"] * bool(response.truncated.any())}
        found["strata"] = _plain(self.strata.labels) if self.formula.strata else []
        found["anchors"] = None if self.anchors is None else self._described_anchors(self.anchors)
        return found

    def _described_anchors(self, anchors: AnchorColumns) -> dict[str, Any]:
        """Return the anchors and their levels, after checking the cells of those that lie inside the site."""
        own = [name for name in anchors.factor_names if name != SITE]
        levels = list(zip(anchors.factor_names, anchors.levels, strict=True))
        shared = {name: _plain(of.tolist()) for name, of in levels if name != SITE or self.study.across}
        for (name, of), codes in zip(levels, anchors.factors, strict=True):
            if name in own or of.size > 1:
                self.policy.check_cells(np.bincount(codes), f"levels of the anchor {name!r}")
        return {"factors": shared, "numbers": list(anchors.column_names)}

    # sums before the fit

    def counts(self, levels: Mapping[str, Sequence[Any]], classes: Sequence[Any]) -> Array:
        """Return numbers of rows: all, their weight, by kind, of environments, by class, by level."""
        w = np.ones(self.n_rows) if self.weights is None else self.weights
        if self.scale == "ordinal":
            at = {label: k for k, label in enumerate(classes)}
            where = np.array([at[label] for label in self._classes.labels])[self._classes.codes]
            by_class = np.concatenate([np.bincount(where, minlength=len(classes)), np.bincount(where, w, len(classes))])
            kinds = np.zeros(len(KINDS))
        else:
            own = self.plain_response.counts()
            kinds, by_class = np.array([own[kind] for kind in KINDS], dtype=np.float64), np.zeros(0)
        environments = 0 if self.anchors is None else projection(self.anchors, self.weights, True).rank
        by_level = [
            self.facts[name].counted.get(level, 0) for name, own_levels in levels.items() for level in own_levels
        ]
        head = np.array([self.n_rows, w.sum(), environments, *self._cluster_counts(w)])
        return np.concatenate([head, kinds, by_class, self.policy.rounded(np.array(by_level, dtype=np.float64))])

    def _cluster_counts(self, w: Array) -> list[float]:
        """Return the number of clusters, and their weight."""
        if self.clusters is None:
            return [0.0, 0.0]
        sizes = np.bincount(self.clusters.codes)
        return [float(sizes.size), float((w / sizes[self.clusters.codes]).sum())]

    @cached_property
    def _curve(self) -> tuple[Array, Array]:
        """Return a typical outcome of each row, and whether it counts as observed."""
        response = self.plain_response
        lower, upper = response.lower, response.upper
        both = np.isfinite(lower) & np.isfinite(upper)
        middle = np.where(both, 0.5 * (np.where(both, lower, 0.0) + np.where(both, upper, 0.0)), 0.0)
        at = np.where(both, upper if response.scale == "count" else middle, np.where(np.isfinite(upper), upper, lower))
        known = np.isfinite(at)
        return np.where(known, at, 0.0)[known], np.isfinite(upper)[known]

    def histogram(self, outcome: Array, numbers: Mapping[str, Array]) -> Array:
        """Return rounded numbers of rows at or below edges: observed outcomes, all outcomes, each column of numbers."""
        if any(name not in self.facts or self.facts[name].kind != "number" for name in numbers):
            raise WireError("histograms are those of the outcome and of covariates that are numbers")
        parts = []
        if outcome.size:
            at, observed = self._curve
            self._check_edges(outcome, at)
            parts += [_at_most(at[observed], outcome), _at_most(at, outcome)]
        for name, edges in numbers.items():
            values = self.frame[name].to_numpy(dtype=np.float64)
            self._check_edges(edges, values)
            parts.append(_at_most(values, edges))
        return self.policy.rounded(np.concatenate(parts)) if parts else np.zeros(0)

    @staticmethod
    def _check_edges(edges: Array, values: Array) -> None:
        """Refuse edges between which a value could be searched for, by asking again with others."""
        if not on_the_grid(edges) or (edges.size == BINS and edges[1] - edges[0] < finest_step(values)):
            raise DisclosureError("the edges of a histogram are finer than sums need, or not on the fixed grid")

    def with_design(self, design: Design) -> Batch:
        """Return the rows as all sites read them, after checking the cells of their columns."""
        if design.state.get("text") != self.study.formula:
            raise InputError("the design belongs to another formula than the study's")
        if len(set(design.strata)) != len(design.strata):
            raise WireError("the design names a stratum twice")
        formula = Formula.from_state(dict(design.state))
        levels = design.classes if self.scale == "ordinal" else None
        strata = design.strata if formula.strata else None
        reader = replace(self.reader, formula=formula, levels=levels, dense=True, strata=strata)
        batch = reader.read(self.frame.drop(columns=formula.clusters), 0)
        assert batch is not None  # noqa: S101 - the site has rows
        X, self.names = numbers_of(batch.X)[0], tuple(formula.design_columns())
        for j, name in enumerate(self.names):
            there = X[:, j] != 0.0
            binary = bool(((X[:, j] == 1.0) == there).all())
            cells = [there.sum(), self.n_rows - there.sum()] if binary else [there.sum()]
            self.policy.check_cells(np.array(cells), f"rows with and without {name!r}")
            if not binary and _is_computed(name, self.frame.columns):
                self._check_spread(name, X[:, j])
        for name, level in design.alone:
            number = self.facts[name].counted.get(level, 0) if name in self.facts else 0
            if 0 < number < 2 * self.policy.least_cell:
                raise DisclosureError(
                    f"a level of column {name!r} is at this site only, and has fewer than {2 * self.policy.least_cell} "
                    "rows: merge it with another one"
                )
        return replace(batch, weights=self.weights, anchors=self.anchors)

    @cached_property
    def clusters(self) -> Strata | None:
        """Return the cluster of each row; equal names at other sites are other clusters."""
        if not self.formula.clusters:
            return None
        refuse_missing(select(self.frame, self.formula.clusters), "cluster")
        labels, codes = coded(cluster_labels(select(self.frame, self.formula.clusters)))
        return Strata(codes, tuple(labels))

    def _check_spread(self, name: str, column: Array) -> None:
        """Refuse a column that a formula makes so steep that few rows have nearly all of its spread.

        Around the median, one row far out is one effective row; around the mean all others would count as well.
        """
        away = np.abs(column - np.median(column))
        if effective(away) < min(self.policy.least_cell, 0.5 * np.count_nonzero(away)):
            raise DisclosureError(
                f"the column {name!r} of the formula is nearly the same in all but fewer than {self.policy.least_cell} "
                "effective rows of the site, so that its sums would reveal those rows: take a flatter function, such "
                "as a logarithm"
            )

    @staticmethod
    def columns(batch: Batch) -> Array:
        """Return the columns of the design, and beside them those that tell strata apart."""
        return np.hstack([numbers_of(batch.X)[0], batch.beside()[0]])

    def moments(self, batch: Batch, units: Array) -> Array:
        """Return sums of the columns of the design in units, and how many rows have other values than 0 and 1."""
        X = self.columns(batch)
        other = (X != 0.0) & (X != 1.0)
        beyond = np.minimum(other.sum(axis=0), 1) * self.policy.least_cell
        return np.concatenate([(X / units).sum(axis=0), beyond])

    def gram(self, batch: Batch, units: Array, mean: Array) -> Array:
        """Return products of the columns around their means in units, and weighted sums and sums of squares."""
        Z = self.columns(batch) / units - mean
        w = np.ones(self.n_rows) if self.weights is None else self.weights
        offset = 0.0 if batch.offset is None else float(w @ batch.offset)
        upper = np.triu_indices(Z.shape[1])
        return np.concatenate([Z.sum(axis=0), (Z.T @ Z)[upper], w @ Z, w @ Z**2, [offset]])

    def check_shared(self, shared: SharedAnchors) -> None:
        """Refuse anchors that sites share, unless the study allows it, or too many of them."""
        if not self.study.across or self.anchors is None:
            raise DisclosureError("the study does not say that sites share anchors: set across = true, if all agree")
        own = {*self.anchors.factor_names}, {*self.anchors.column_names}
        if set(shared.factors) != own[0] or set(shared.numbers) != own[1]:
            raise InputError("the anchors are not those of the study's formula")
        self.policy.check_rows(self.n_rows, 1 + len(shared.names))

    def anchor_gram(self, shared: SharedAnchors) -> Array:
        """Return products of the constant and the columns of anchors that sites share."""
        assert self.anchors is not None  # noqa: S101 - checked before
        A = np.insert(shared.coded(self.anchors).columns, 0, 1.0, axis=1)
        w = np.ones(self.n_rows) if self.weights is None else self.weights
        return np.asarray(((A * w[:, None]).T @ A)[np.triu_indices(A.shape[1])])

    def model(self, recipe: Recipe, batch: Batch) -> SiteModel:
        """Return a model on these rows; its baselines must be those of the study."""
        corners, ranges = recipe.corners, self.study.ranges
        if corners is not None:
            ends = {group.names[0]: (group.low, group.high) for group in corners.varying if group.kind == "number"}
            if corners.covariates != self.names or any(ranges.get(name) != own for name, own in ends.items()):
                raise DisclosureError(
                    "effects vary over other ranges than those of the study, where all sites read them"
                )
        if recipe.shared is not None:
            self.check_shared(recipe.shared)
        curve = None if self.scale == "ordinal" else self._curve[0]
        return SiteModel(recipe, batch, self.policy, curve, self.clusters)


def _is_computed(name: str, columns: Collection[str]) -> bool:
    """Return whether a column of the design comes from a function, which the coordinator chooses.

    Columns as they are in the table, levels and their products have no constants that somebody could search with.
    """
    return name not in columns and "(" in FACTOR.sub("", name)


def _ends_of(response: Response) -> NDArray[np.intp]:
    """Return how many outcomes are 0 and 1 if there are no others; and how many are 0 or all of several trials."""
    y = response.upper
    top = np.ones(y.size) if response.trials is None else response.trials
    low, high = y == 0.0, y == top
    several = response.trials is not None and bool((top > 1.0).any())
    return np.array([low.sum(), high.sum()]) if several or bool((low | high).all()) else np.zeros(2, dtype=np.intp)


def _at_most(values: Array, edges: Array) -> Array:
    """Return how many values are at or below each edge."""
    return np.searchsorted(np.sort(values), edges, side="right").astype(np.float64)


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return levels as plain values."""
    found = [value.item() if hasattr(value, "item") else value for value in values]
    if not all(isinstance(value, (str, int, float, bool)) for value in found):
        raise InputError("levels and classes must be text or numbers: convert dates and other objects to text")
    return found
