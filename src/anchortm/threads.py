"""One BLAS thread while our own threads, processes or small blocks are at work."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

__all__ = ["one_blas_thread"]


class _Inside:
    """Who is inside at this moment: the number of BLAS threads belongs to the process, not to a thread."""

    lock = threading.Lock()
    visitors: set[object] = set()  # noqa: RUF012 - one for the process
    limits: Any = None


if hasattr(os, "register_at_fork"):  # a process that is forked while another thread holds the lock can still take it
    os.register_at_fork(
        before=_Inside.lock.acquire, after_in_parent=_Inside.lock.release, after_in_child=_Inside.lock.release
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread; the last to leave, from whatever thread, restores what the first one found."""
    visitor = object()
    try:
        with _Inside.lock:
            if _Inside.limits is None:
                _Inside.limits = threadpool_limits(1, user_api="blas")
            _Inside.visitors.add(visitor)
        yield
    finally:  # also of an interruption on the way in
        with _Inside.lock:
            _Inside.visitors.discard(visitor)
            if not _Inside.visitors and _Inside.limits is not None:
                _Inside.limits.restore_original_limits()
                _Inside.limits = None
