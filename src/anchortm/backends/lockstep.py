"""Many fits that share each read of a table.

Each fit is an ordinary one, in a thread of its own, to some of the rows or with weights of its own. It reads rows only
by the ``map`` of a ``Lane``. Fits take turns: one thread runs at a time. When all of them wait for rows, one pass over
the table serves all of them: a batch is decoded and its formula evaluated once, and then each fit gets the sums over
its own rows.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.threads import one_blas_thread
from anchortm.backends.reading import Batch, Reader
from anchortm.backends.sources import Source
from anchortm.inputs.anchors import groups_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Groups", "Lane", "Made", "Read", "Table", "View", "side_by_side"]

T = TypeVar("T")
Codes = NDArray[np.intp]


class Made:
    """Objects made from one batch, each once: the fits of one set of rows share them."""

    def __init__(self, batch: Batch | None) -> None:
        self.batch = batch
        self._found: dict[int, Any] = {}

    def by(self, make: Callable[[Batch], T]) -> T:
        """Return what a function makes of the batch."""
        key = id(getattr(make, "__self__", make))
        if key not in self._found:
            assert self.batch is not None  # noqa: S101
            self._found[key] = make(self.batch)
        made: T = self._found[key]
        return made


class Read(Protocol):
    """What is computed from each batch: by reading rows of a table, or from rows that were read already."""

    def __call__(self, frame: pd.DataFrame, start: int) -> Any:
        """Return the result for a batch of the table."""

    def on(self, made: Made) -> Any:
        """Return the result for rows that were read already."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups that rows belong to: a column of the table, or (None) the main factor of the anchors."""

    column: str | None
    levels: NDArray[Any]
    word: str = "environments"  # what they are, for messages

    @cached_property
    def _places(self) -> Any:
        import pandas as pd

        return pd.Index(self.levels)

    def found(self, reader: Reader, frame: pd.DataFrame, batch: Batch) -> tuple[Codes, NDArray[Any]]:
        """Return the groups of the rows of a batch as codes, with the levels of these."""
        if self.column is None:
            assert batch.anchors is not None  # noqa: S101
            main = batch.anchors.main or 0
            return batch.anchors.factors[main], batch.anchors.levels[main]
        rows, _ = reader.weighted(frame)
        return groups_of(rows[[self.column]], self.word)

    def codes(self, reader: Reader, frame: pd.DataFrame, batch: Batch) -> Codes:
        """Return the group of each row of a batch, by its place among all levels."""
        codes, levels = self.found(reader, frame, batch)
        return self.of(levels)[codes]

    def of(self, labels: NDArray[Any]) -> Codes:
        """Return the places of labels among all levels."""
        return np.asarray(self._places.get_indexer(labels), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class View:
    """Some rows of a table, with the codes of these: how often the rows of each group count, 0 for those left out."""

    reader: Reader
    times: Array

    def of(self, batch: Batch, groups: Codes) -> Batch | None:
        """Return the rows of a batch that count, with their weights; None if there are none."""
        times = self.times[groups]
        rows = np.flatnonzero(times)
        if rows.size == 0:
            return None
        part = batch if rows.size == times.size else batch.take(rows)
        if (self.times > 1.0).any():
            part = replace(part, weights=times[rows] * (1.0 if part.weights is None else part.weights))
        return self.reader.recoded(part)


class _Request(NamedTuple):
    """What one fit wants to know of the rows of a table, or of a view of it."""

    table: Table
    view: View | None
    read: Read
    join: Callable[[Any, Any], Any]
    label: str


class _Failure(NamedTuple):
    """The error of one fit, which does not stop the pass for the others."""

    error: Exception


@dataclass(frozen=True, eq=False)
class _Pass:
    """The work of one pass for several fits; it is sent to where the rows are."""

    requests: list[_Request]

    def __call__(self, frame: pd.DataFrame, start: int) -> list[Any]:
        found: list[Any] = [None] * len(self.requests)
        for here in _alike(self.requests, lambda request: request.table):
            table = self.requests[here[0]].table
            batch = table.reader.read(frame, start)
            codes = None
            if batch is not None and table.groups is not None:
                codes = table.groups.codes(table.reader, frame, batch)
            for own in _alike([self.requests[k] for k in here], lambda request: request.view):
                view = self.requests[here[own[0]]].view
                # one set of rows at a time
                made = Made(batch if view is None or batch is None or codes is None else view.of(batch, codes))
                for k in own:
                    found[here[k]] = _tried(self.requests[here[k]].read.on, made)
        return found

    def join(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [_joined(r.join, a, b) for r, a, b in zip(self.requests, first, second, strict=True)]


def _alike(requests: list[_Request], what: Callable[[_Request], object]) -> list[list[int]]:
    """Return the places of requests that have the same object."""
    found: dict[int, list[int]] = {}
    for k, request in enumerate(requests):
        found.setdefault(id(what(request)), []).append(k)
    return list(found.values())


def _tried(read: Callable[[Made], Any], made: Made) -> Any:
    try:
        return read(made)
    except Exception as error:
        return _Failure(error)


def _joined(join: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if isinstance(a, _Failure) or isinstance(b, _Failure):
        return a if isinstance(a, _Failure) else b
    return join(a, b)


@dataclass(frozen=True, eq=False)
class Table:
    """A source of rows with a reader of all of them, and the groups that views are made of."""

    source: Source = field(repr=False)
    reader: Reader
    groups: Groups | None = None

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        column = None if self.groups is None else self.groups.column
        return list(dict.fromkeys([*self.reader.columns, *([] if column is None else [column])]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the table without its source, as it is sent to where the rows are."""
        return self.__dict__ | {"source": None}


def _answers(requests: list[_Request]) -> list[Any]:
    """Return the answers to several requests about the tables of one source, from one pass over it."""
    work, labels = _Pass(requests), {request.label for request in requests}
    columns = dict.fromkeys(name for request in requests for name in request.table.columns)
    fits = f", {len(requests)} at once" if len(requests) > 1 else ""
    what = labels.pop() if len(labels) == 1 else "sums of several kinds"
    return requests[0].table.source.map(work, work.join, list(columns), what + fits)


class Lane:
    """The way of a fit to its rows: all rows of a table, or those of a view."""

    def __init__(self, table: Table, view: View | None = None) -> None:
        self.table, self.view = table, view

    def map(self, read: Read, join: Callable[[Any, Any], Any], label: str) -> Any:
        """Return the joined results of ``read`` for the rows of this lane."""
        request, task = _Request(self.table, self.view, read, join, label), getattr(_here, "task", None)
        if task is not None:
            return task.ask(request)
        if self.view is None:
            return self.table.source.map(read, join, self.table.columns, label)
        return _opened(_answers([request])[0])


def _opened(answer: Any) -> Any:
    if isinstance(answer, _Failure):
        raise answer.error
    return answer


_here = threading.local()  # the task that runs in this thread


class _Stopped(BaseException):
    """Ends a task because another one failed or the user interrupted."""


class _Task:
    """A computation in a thread, which runs from one question about rows to the next."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._stopped = call, False
        self._turn, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self.asked: _Request | None = None
        self._answer: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        context = contextvars.copy_context()  # settings of NumPy and of warnings
        self._thread = threading.Thread(target=context.run, args=(self._run,), daemon=True)

    def _run(self) -> None:
        _here.task = self
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        finally:
            self._rest.release()

    def ask(self, request: _Request) -> Any:
        """Let the others run, and return the answer when it is there."""
        if not self._stopped:
            self.asked = request
            self._rest.release()
            self._turn.acquire()
        if self._stopped:
            raise _Stopped
        answer, self._answer = self._answer, None
        return _opened(answer)

    def go(self, answer: Any = None) -> None:
        """Run up to the next question, or to the end."""
        self.asked, self._answer = None, answer
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._turn.release()
        self._rest.acquire()

    def stop(self) -> None:
        """End the thread at its next question, and wait for its end."""
        self._stopped = True
        if self._thread.ident is not None:
            self._turn.release()
            self._thread.join()


def side_by_side(calls: Sequence[Callable[[], T]], most: int) -> list[T]:
    """Return the results of several computations that read tables; at most ``most`` of them are under way at once.

    The first error of one of them ends all.
    """
    tasks = [_Task(call) for call in calls]
    coming, waiting = iter(tasks), list[_Task]()
    try:
        with one_blas_thread():
            while True:
                new = list(islice(coming, max(1, most) - len(waiting)))
                for task in new:
                    task.go()
                waiting = _waiting([*waiting, *new])
                if waiting:
                    _serve(waiting)
                    waiting = _waiting(waiting)
                elif not new:
                    return [task.result for task in tasks]
    finally:
        for task in tasks:
            task.stop()


def _waiting(tasks: list[_Task]) -> list[_Task]:
    """Return the tasks that have asked; raise the first error."""
    for task in tasks:
        if task.error is not None:
            raise task.error
    return [task for task in tasks if task.asked is not None]


def _serve(tasks: list[_Task]) -> None:
    """Answer the questions of all tasks, those about one source by one pass, and let them run on."""
    asked = [task.asked for task in tasks if task.asked is not None]
    for here in _alike(asked, lambda request: request.table.source):
        for k, answer in zip(here, _answers([asked[k] for k in here]), strict=True):
            tasks[k].go(answer)
