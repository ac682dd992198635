"""Progress of long calls: one bar with a label, owned by the outermost call.

A long call enters a ``Task``. Inside another task it does not draw, but moves the bar of the outermost one: a task is
done to ``(done + fraction of the task inside) / total``. Tasks only count; a thread looks at them four times a second
and draws, after half a second at the earliest, so that short calls show nothing and steps cost nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

from anchortm import _messages
from anchortm.exceptions import InputTypeError

__all__ = ["Task", "above", "set_progress"]

T = TypeVar("T")

DELAY = 0.5  # seconds before the first drawing
INTERVAL = 0.25  # seconds between drawings
MOST_COLUMNS = 100
ROOM = 4  # columns that stay free, because terminals write ^C where the line ends
MANY = 10_000  # counts from which thousands and millions are written as k and M


class set_progress:  # noqa: N801 - called as a function
    """Show or hide the progress bars of all calls that do not say so themselves by ``progress=``.

    Parameters
    ----------
    shown : bool or None
        False hides all bars and True shows them, also in files and pipes. None is the default: bars are shown in
        terminals and notebooks, by calls in the main thread that take longer than half a second.

    Examples
    --------
    For the rest of the session:

    >>> import anchortm as atm
    >>> _ = atm.set_progress(False)

    For a few lines:

    >>> with atm.set_progress(False):
    ...     model = atm.OrdinalRegression.from_formula("rating ~ temp | judge", atm.datasets.load_wine())
    >>> _ = atm.set_progress(None)
    """

    _wanted: bool | None = None

    def __init__(self, shown: bool | None) -> None:
        self._before = set_progress._wanted
        set_progress._wanted = _checked(shown, "shown")

    def __enter__(self) -> None:
        """Begin a context that restores the setting at its end."""

    def __exit__(self, *_: object) -> None:
        set_progress._wanted = self._before


class Task:
    """A long call, or a part of one. The outermost task owns the bar.

    Parameters
    ----------
    label : str
        What is being done.
    total : float, optional
        Number of steps; a task whose length is unknown has none.
    shown : bool, optional
        Whether to show a bar, if this is the outermost task. By default only in a terminal or notebook.
    detail : str
        What to say after the label and the number of steps; narrow terminals may cut it off.
    """

    def __init__(self, label: str, total: float | None = None, shown: bool | None = None, *, detail: str = "") -> None:
        self.detail = detail
        self.label, self.total, self.shown = label, total, _checked(shown, "progress")
        self.inner: Task | None = None
        self._count: Callable[[], float] | None = None
        self._done = 0.0
        self._bar: _Bar | None = None

    def __enter__(self) -> Self:
        self._outer = _current.get()
        self.root: Task = self if self._outer is None else self._outer.root
        self._owner = os.getpid(), threading.get_ident()
        if self._outer is None:
            self._bar = _Bar(self) if _visible(self.shown) else None
        elif self._outer.is_here:
            self._outer.inner = self
        _current.set(self)  # last: an interruption on the way in leaves no task behind
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        _current.set(self._outer)
        if self._outer is not None and self._outer.inner is self:
            self._outer.inner = None
        if self._bar is not None:
            self._bar.close(finished=kind is None)

    @property
    def is_here(self) -> bool:
        """Return whether this is the process and the thread of the task."""
        return self._owner == (os.getpid(), threading.get_ident())

    @property
    def done(self) -> float:
        """Return the number of finished steps."""
        return self._done if self._count is None else self._count()

    def step(self, n: float = 1.0, label: str | None = None) -> None:
        """Count n more steps as done; ``label`` says what comes next."""
        self._done += n
        self.label = self.label if label is None else label

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""
        for item in items:
            yield item
            self.step()

    def map(self, call: Callable[[Any], T], items: Iterable[Any], n_jobs: int | None) -> list[T]:
        """Return the results of a function for each item, one step each, by ``n_jobs`` processes of joblib."""
        from joblib import Parallel, delayed

        workers = Parallel(n_jobs=n_jobs)
        self._count = lambda: float(getattr(workers, "n_completed_tasks", 0))
        work = _Silent(call, *self._owner)
        return list(workers(delayed(work)(item) for item in items))

    def fraction(self) -> float | None:
        """Return the fraction of the task that is done, None if it is unknown."""
        if self.total is None:
            return None
        inner = self.inner
        within = 0.0 if inner is None else inner.fraction() or 0.0
        return min((self.done + min(within, 1.0)) / max(self.total, 1.0), 1.0)

    def text(self) -> str:
        """Return what is being done: the label of this task, and label and count of the innermost."""
        last = self
        while last.inner is not None:
            last = last.inner
        count = ""
        if last.total is not None and last.total > 1.0:
            count = f" {_short(min(last.done, last.total))}/{_short(last.total)}"
        own = f"{last.label}{count}{last.detail and f', {last.detail}'}"
        return own if last is self else f"{self.label}, {own}"


_current: ContextVar[Task | None] = ContextVar("anchortm_task", default=None)


class _Silent:
    """A function that shows no bars if it is called in another process or thread than the one that made it."""

    def __init__(self, call: Callable[[Any], Any], pid: int, thread: int) -> None:
        self.call, self.owner = call, (pid, thread)

    def __call__(self, item: Any) -> Any:
        if self.owner == (os.getpid(), threading.get_ident()):
            return self.call(item)
        before = _current.get()
        _current.set(None)
        try:
            with Task("", shown=False):
                return self.call(item)
        finally:
            _current.set(before)


class _Bar:
    """The bar of the outermost task: a thread that draws it by tqdm, in terminals or in notebooks."""

    def __init__(self, task: Task) -> None:
        self._task, self._stream, self._began = task, sys.stderr, time.time()
        self._bar: Any = None
        self._widget = False
        self._lock, self._end = threading.Lock(), threading.Event()
        context = contextvars.copy_context()  # context of the notebook's cell
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="anchortm progress", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # an interruption
            self._end.set()
            raise

    def _run(self) -> None:
        pause = DELAY
        with contextlib.suppress(Exception):  # a bar that cannot be drawn, as its stream was closed, does no harm
            while not self._end.wait(pause):
                pause = INTERVAL
                with self._lock:
                    if not self._end.is_set():
                        self._draw()

    def _draw(self) -> None:
        if self._bar is None:
            self._bar = self._made()
        self._bar.set_description_str(self._task.text(), refresh=False)
        self._bar.update(max((self._task.fraction() or 0.0) - self._bar.n, 0.0))

    def _made(self) -> Any:
        self._widget = _in_notebook() and importlib.util.find_spec("ipywidgets") is not None
        made = importlib.import_module("tqdm.notebook" if self._widget else "tqdm.std").tqdm
        known = self._task.total is not None
        bar = made(
            desc=self._task.text(),
            total=1.0 if known else None,
            file=self._stream,
            leave=False,
            ncols=None if self._widget else _columns(self._stream),
            mininterval=0.0,
            miniters=0,
            delay=1e-9,  # the first drawing is that of update
            smoothing=0.0,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}" if known else "[{elapsed}] {desc}",
        )
        bar.start_t = self._began
        return bar

    def clear(self) -> None:
        """Erase the bar until it is drawn again."""
        if self._bar is not None:
            self._bar.clear()

    def close(self, finished: bool) -> None:
        """Erase the bar; in a notebook the bar of a call that failed remains, in red."""
        self._end.set()
        self._thread.join()
        if self._bar is None:
            return
        with contextlib.suppress(Exception):
            if finished and self._bar.total is not None:
                self._bar.n = self._bar.total
            elif self._widget:
                self._draw()  # where the call failed
            self._bar.close()
            if not self._widget:
                self._stream.write("\r" + " " * (self._bar.ncols + ROOM - 1) + "\r")
                self._stream.flush()

    @property
    def lock(self) -> threading.Lock:
        """Return the lock that the bar is drawn under."""
        return self._lock


@contextlib.contextmanager
def above() -> Iterator[None]:
    """Erase the bar while a line is printed; the bar is drawn again below it."""
    task = _current.get()
    bar = None if task is None else task.root._bar
    if bar is None or task is None or not task.is_here:
        yield
        return
    with bar.lock:
        bar.clear()
        yield


_messages.aside = above  # warnings


def _visible(shown: bool | None) -> bool:
    """Return whether the outermost task has a bar."""
    shown = set_progress._wanted if shown is None else shown
    if shown is not None:
        return shown and sys.stderr is not None
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return False  # a worker
    return threading.current_thread() is threading.main_thread() and (_in_notebook() or _is_terminal(sys.stderr))


def _checked(shown: bool | None, name: str) -> bool | None:
    if shown is not None and not isinstance(shown, bool):
        raise InputTypeError(f"{name} must be True, False or None (only in a terminal or notebook), not {shown!r}")
    return shown


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is no stream, or it is closed
        return False


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


def _columns(stream: Any) -> int:
    """Return the width of a bar in a terminal, less than the whole line."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        width = 80
    return max(min(width or 80, MOST_COLUMNS) - ROOM, 10)


def _short(count: float) -> str:
    if count < MANY:
        return f"{count:.0f}"
    return f"{count / 1e3:.3g}k" if count < 1e6 else f"{count / 1e6:.3g}M"
