"""Dask DataFrames: each partition is read where it is, and only results travel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.frames import select
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.backends.sources import BATCH_ROWS, Read, Source, T
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DaskSource"]

FAN_IN = 8  # results that are joined at once


class DaskSource(Source):
    """A Dask DataFrame on the scheduler in use: a ``distributed.Client`` if there is one, else threads.

    The scheduler decides when each partition is worked on; results are joined in the order of the rows, in a tree. If a
    worker dies, Dask runs its tasks again elsewhere.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = [str(name) for name in frame.columns]

    @cached_property
    def _starts(self) -> list[int]:
        import dask

        def count(frame: Any) -> Any:
            return dask.compute(*[dask.delayed(len)(part) for part in frame.to_delayed()])

        try:
            sizes = count(self._frame[self._frame.columns[:1].tolist()])
        except (ValueError, KeyError):  # Dask cannot always select columns before others become categories
            sizes = count(self._frame)
        return [0, *np.cumsum(sizes).tolist()]

    @cached_property
    def n_rows(self) -> int:
        return int(self._starts[-1])

    def is_integer(self, name: str) -> bool | None:
        kind = getattr(self._frame.dtypes[name], "kind", "O")
        return None if kind == "f" else kind in "iu"

    def _frames(self, columns: Sequence[str]) -> Iterator[Any]:
        for part in self._frame[list(columns)].to_delayed():
            yield part.compute()

    def map(self, read: Read[T], join: Callable[[T, T], T], columns: Sequence[str], label: str) -> T:
        import dask

        self.passes += 1
        tell = dask.delayed(_Task(read, join, tuple(columns)), pure=False)  # once, not once for each partition
        parts = zip(self._frame[list(columns)].to_delayed(), self._starts[:-1], self._starts[1:], strict=True)
        results = [dask.delayed(_call)(tell, part, start) for part, start, stop in parts if stop > start]
        if not results:
            raise InputError("the table has no rows")
        while len(results) > 1:
            results = [dask.delayed(_join)(tell, *results[k : k + FAN_IN]) for k in range(0, len(results), FAN_IN)]
        with Task(f"pass {self.passes}, {label}, {self.n_rows} rows in {len(self._starts) - 1} partitions"):
            result: T = results[0].compute()
        return result


class _Task:
    """The function of a batch, and the one that joins two results."""

    def __init__(self, read: Read[Any], join: Callable[[Any, Any], Any], columns: tuple[str, ...]) -> None:
        self.read, self.join, self.columns = read, join, columns


def _call(task: _Task, part: pd.DataFrame, start: int) -> Any:
    """Return the result of a partition, in batches and with one BLAS thread, since Dask runs threads of its own."""
    with one_blas_thread():
        found = (
            task.read(select(part.iloc[first : first + BATCH_ROWS], task.columns), start + first)
            for first in range(0, len(part), BATCH_ROWS)
        )
        return functools.reduce(task.join, found)


def _join(task: _Task, *results: Any) -> Any:
    return functools.reduce(task.join, results)
