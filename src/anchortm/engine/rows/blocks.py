"""Blocks of rows, sums over them, and the blocks of rows in memory.

A *work* is a function of one block that adds to arrays. It carries all that it needs (the parameters, the link) but no
rows, so that it can be sent to where the rows are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.projections import Part, Projection
from anchortm.engine.rows.standardised import Rows

__all__ = ["Block", "Blocks", "MemoryBlocks", "Piece", "Shape", "Total", "Work", "add", "run"]

Array = NDArray[np.float64]
Shape = tuple[int, ...]
T = TypeVar("T")
Total = tuple[float, list[Array]]


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of one term in one block, with their anchors."""

    data: Rows
    part: Part | None


@dataclass(frozen=True, eq=False)
class Block:
    """The rows from ``start`` on, as pieces of one kind each."""

    start: int
    size: int
    pieces: list[Piece]
    anchors: Projection | None

    @property
    def rows(self) -> slice:
        """Return the positions of the rows."""
        return slice(self.start, self.start + self.size)


class Work(ABC):
    """A sum over rows: adds the share of one block to arrays of these shapes, and returns a number."""

    label: ClassVar[str]

    @property
    @abstractmethod
    def shapes(self) -> list[Shape]:
        """Return the shapes of the arrays."""

    @abstractmethod
    def __call__(self, block: Block, arrays: list[Array]) -> float:
        """Add the share of a block."""


def run(blocks: Iterable[Block], work: Work) -> Total:
    """Return the sums of a work over blocks."""
    arrays, value = [np.zeros(shape) for shape in work.shapes], 0.0
    # a trial step may overflow; its log-likelihood is then not finite
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for block in blocks:
            value += work(block, arrays)
    return value, arrays


def add(totals: Sequence[Total]) -> Total:
    """Return the sum of sums."""
    with np.errstate(over="ignore", invalid="ignore"):  # a trial step may overflow
        arrays = [sum(parts) for parts in zip(*(a for _, a in totals), strict=True)]
        return sum(value for value, _ in totals), arrays


class Blocks(ABC):
    """Where the rows are."""

    n_rows: int
    n_total: float
    kinds: frozenset[tuple[str, int]]  # the kinds of rows, with their signs
    costly: bool = False  # whether a sum costs much more than one over a sample
    sample_rows: int = 20_000  # size of the sample that large data start from

    @abstractmethod
    def total(self, work: Work) -> Total:
        """Return the sums of a work over all rows."""

    @abstractmethod
    def one_slope(self) -> Array | None:
        """Return the derivative row of exact rows if all have the same, else None."""

    @abstractmethod
    def sample(self, size: int, anchors: Projection | None) -> tuple[MemoryBlocks, Projection | None]:
        """Return about ``size`` rows from all over the data, with the projection on their own anchors."""

    @abstractmethod
    def whole_rows(self, anchors: Projection | None) -> tuple[MemoryBlocks, Projection | None]:
        """Return all rows that are in memory, with their anchors."""

    @abstractmethod
    def restricted(self, columns: NDArray[np.intp], n_baseline: int, anchors: Projection | None) -> Blocks:
        """Return the same rows with some of their covariates."""

    @abstractmethod
    def weight_sums(self, anchors: Projection) -> Array:
        """Return A'W1 of all rows."""

    @abstractmethod
    def largest_spread(self, anchors: Projection, coefficients: Array) -> float:
        """Return the largest |A @ coefficients| of all rows."""

    @property
    @abstractmethod
    def at_hand(self) -> list[Rows]:
        """Return the rows that are in memory: all, or a sample."""

    def elsewhere(self, find: Callable[[list[Rows]], T | None]) -> T | None:
        """Return the sum of what ``find`` returns for rows that are not in memory, None if there is nothing."""
        return None

    def everywhere(self, find: Callable[[list[Rows]], T]) -> T:
        """Return the sum of what ``find`` returns for all rows, wherever they are."""
        found = self.elsewhere(find)
        return find(self.at_hand) if found is None else found

    def tell(self, loss: float) -> None:  # noqa: B027 - rows in memory show no progress
        """Show the loss as progress."""


class MemoryBlocks(Blocks):
    """Rows in memory, cut into blocks; threads share the blocks."""

    _parts: list[Part | None] | None = None

    def __init__(
        self,
        terms: list[Rows],
        anchors: Projection | None,
        n_rows: int,
        weights: Array | None,
        block_rows: int,
        n_jobs: int = 1,
    ) -> None:
        self.terms, self.n_rows, self.weights = terms, n_rows, weights
        self.block_rows, self.n_jobs = block_rows, n_jobs
        self.n_total = float(n_rows if weights is None else weights.sum())
        self.kinds = frozenset((term.kind, term.sign) for term in terms)
        self.blocks = [
            Block(
                start,
                min(block_rows, n_rows - start),
                [
                    Piece(data, None if anchors is None else anchors.part(data.rows))
                    for term in terms
                    if (data := term.cut(start, start + block_rows)).rows.size
                ],
                anchors,
            )
            for start in range(0, n_rows, block_rows)
        ]

    @property
    def parts(self) -> list[Part | None]:
        """Return the anchors of each term."""
        if self._parts is None:
            anchors = self.blocks[0].anchors
            self._parts = [None if anchors is None else anchors.part(term.rows) for term in self.terms]
        return self._parts

    def total(self, work: Work) -> Total:
        jobs = min(self.n_jobs, len(self.blocks))
        if jobs <= 1:
            return run(self.blocks, work)
        share = math.ceil(len(self.blocks) / jobs)
        with ThreadPoolExecutor(jobs) as pool:
            parts = pool.map(lambda k: run(self.blocks[k * share : (k + 1) * share], work), range(jobs))
            return add(list(parts))

    @property
    def at_hand(self) -> list[Rows]:
        return self.terms

    def one_slope(self) -> Array | None:
        (term,) = self.terms
        assert term.slope is not None  # noqa: S101
        first: Array = term.slope[0]
        return first if (term.slope == first).all() else None

    def weight_sums(self, anchors: Projection) -> Array:
        return anchors.weight_sums(self.weights, self.n_rows)

    def largest_spread(self, anchors: Projection, coefficients: Array) -> float:
        return float(np.abs(anchors.part(slice(None)).spread(coefficients)).max())

    def sample(self, size: int, anchors: Projection | None) -> tuple[MemoryBlocks, Projection | None]:
        # one row at random from each run of rows, so that a pattern in their order does no harm
        step = max(1, self.n_rows // size)
        starts = np.arange(0, self.n_rows, step)
        chosen = np.zeros(self.n_rows, dtype=bool)
        chosen[np.minimum(starts + np.random.default_rng(0).integers(0, step, starts.size), self.n_rows - 1)] = True
        return self.take(chosen, anchors, lambda part: part)

    def whole_rows(self, anchors: Projection | None) -> tuple[MemoryBlocks, Projection | None]:
        return self, anchors

    def restricted(self, columns: NDArray[np.intp], n_baseline: int, anchors: Projection | None) -> MemoryBlocks:
        whole = np.concatenate([np.arange(n_baseline), n_baseline + columns])
        # np.take, unlike an index, keeps the numbers of a row together
        return self.changed(lambda part: replace(part, C=part.C.take(whole if part.ends is None else columns, axis=1)))

    def changed(self, change: Callable[[Rows], Rows]) -> MemoryBlocks:
        """Return the same rows, changed: other columns, or another offset."""
        made = copy(self)
        made.terms = [change(term) for term in self.terms]
        made.blocks = []
        for block in self.blocks:
            cuts = (term.cut(block.start, block.start + block.size) for term in made.terms)
            pieces = zip((data for data in cuts if data.rows.size), block.pieces, strict=True)
            made.blocks.append(replace(block, pieces=[Piece(data, piece.part) for data, piece in pieces]))
        return made

    def take(
        self, chosen: NDArray[np.bool_], anchors: Projection | None, change: Callable[[Rows], Rows]
    ) -> tuple[MemoryBlocks, Projection | None]:
        """Return the chosen rows, changed, with the projection on their own anchors."""
        picks, terms = np.flatnonzero(chosen), []
        for term in self.terms:
            if term.rows.size == self.n_rows:  # all rows, in their order
                terms.append(change(term.take(picks, np.arange(picks.size))))
            else:
                own = np.flatnonzero(chosen[term.rows])
                terms.append(change(term.take(own, np.searchsorted(picks, term.rows[own]))))
        weights = None if self.weights is None else self.weights[picks]
        anchors = None if anchors is None else anchors.subset(picks, weights)
        return MemoryBlocks(terms, anchors, picks.size, weights, self.block_rows, self.n_jobs), anchors
