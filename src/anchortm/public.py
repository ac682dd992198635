"""What ``dir`` of a public module shows: its own names, without those that it imports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["dir_of"]


def dir_of(names: Sequence[str]) -> Callable[[], list[str]]:
    """Return the ``__dir__`` of a module whose ``__all__`` these names are."""
    return lambda: sorted(names)
