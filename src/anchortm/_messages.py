"""Messages: make control characters visible, and let warnings point at the user's line."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["aside", "plain", "plain_lines", "shown", "warn"]

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
# C0, DEL and C1 (terminal commands), line ends, marks that change the direction of writing, lone surrogates
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

aside: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext  # progress bars step aside by it


def plain(text: str) -> str:
    r"""Return a text as one line, with control characters as codes, because column names may hold terminal commands.

    Examples
    --------
    >>> from anchortm._messages import plain
    >>> print(plain("\x1b[31mâge"))
    \x1b[31mâge
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain_lines(text: str, keep: str = "\n") -> str:
    """Return a text of several lines, with control characters as codes, except those in ``keep``."""
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else plain(found[0]), text)


def shown(method: Callable[..., str]) -> Callable[..., str]:
    """Decorate a ``__str__`` or ``__repr__`` so that control characters appear as codes."""

    @functools.wraps(method)
    def wrapped(*given: Any, **named: Any) -> str:
        return plain_lines(method(*given, **named))

    return wrapped


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the user's line that called this package.

    This line is in the caller of our outermost function. Frames of decorators and joblib may lie between our functions.
    """
    level = depth = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            level = depth + 1
        frame, depth = frame.f_back, depth + 1
    with aside():
        warnings.warn(text, category, stacklevel=level)
