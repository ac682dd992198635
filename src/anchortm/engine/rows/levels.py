"""A sample of rows that keeps whole levels of a wide factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.blocks import MemoryBlocks
from anchortm.engine.rows.projections import Projection
from anchortm.engine.rows.standardised import Rows

__all__ = ["some_levels"]


def some_levels(
    memory: MemoryBlocks, anchors: Projection | None, size: int, n_levels: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], MemoryBlocks, Projection | None]:
    """Return levels with about ``size`` rows in total, their numbers of rows, and these rows with their anchors."""
    codes = np.zeros(memory.n_rows, dtype=np.int32)
    for term in memory.terms:
        if term.wide is not None and term.wide.codes is not None:
            codes[term.rows] = term.wide.codes
    count, order = np.bincount(codes, minlength=n_levels), np.random.default_rng(0).permutation(n_levels)
    order = order[count[order] > 0]
    enough = int(np.searchsorted(np.cumsum(count[order]), size)) + 1
    levels = np.sort(order[: max(2, enough)])
    code = np.full(n_levels, -1, dtype=np.int32)
    code[levels] = np.arange(levels.size)

    def recode(part: Rows) -> Rows:
        if part.wide is None or part.wide.codes is None:
            return part
        return replace(part, wide=replace(part.wide, codes=code[part.wide.codes], n_levels=levels.size))

    blocks, own = memory.take(code[codes] >= 0, anchors, recode)
    return levels, count[levels], blocks, own
