"""How many threads work on rows, and one BLAS thread while our own threads or processes run, or blocks are small."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

__all__ = ["one_blas_thread", "usual_threads"]

MANY_ROWS = 200_000  # from this number of rows on, a second thread pays


def usual_threads(n_rows: int) -> int:
    """Return how many threads share rows in memory if the user has not said: 2 for many rows, else 1.

    A thread that is not the main one is probably one of several at work, and so is a process that was told to use few
    threads by OMP_NUM_THREADS, as those of joblib are.
    """
    if n_rows < MANY_ROWS or threading.current_thread() is not threading.main_thread():
        return 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    first = told.split(",")[0].strip()  # a list has one number for each level: take the outermost
    return max(1, min(2, cores, int(first) if first.isascii() and first.isdigit() else cores))


class _Process:
    """Who is inside now, and the settings that the first one found: most BLAS have one setting for the process."""

    lock = threading.Lock()
    inside: set[object] = set()  # noqa: RUF012 - one for the process
    found: dict[str, tuple[Any, int]] = {}  # noqa: RUF012


if hasattr(os, "register_at_fork"):  # a process that is forked while another thread holds the lock can still take it
    os.register_at_fork(
        before=_Process.lock.acquire, after_in_parent=_Process.lock.release, after_in_child=_Process.lock.release
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread; the last to leave, from any thread, restores the settings that the first one found."""
    pools = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        (pool, pool.num_threads) for pool in pools if pool.info().get("threading_layer") == "openmp"
    ]  # this thread's
    visitor = object()
    try:
        with _Process.lock:
            _Process.inside.add(visitor)
            for pool in pools:
                if pool.num_threads != 1 and all(pool is not other for other, _ in own):
                    _Process.found.setdefault(pool.filepath, (pool, pool.num_threads))
                pool.set_num_threads(1)
        yield
    finally:  # also after an interruption on the way in
        for pool, number in own:
            pool.set_num_threads(number)
        with _Process.lock:
            _Process.inside.discard(visitor)
            if not _Process.inside:
                _anybody()
                for pool, number in _Process.found.values():
                    pool.set_num_threads(number)
                _Process.found.clear()
                _anybody()


def _anybody() -> None:
    """Let any thread change the setting: threadpoolctl may have reserved it for a thread that has left."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
