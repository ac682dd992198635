"""The streams of the command line: control characters of the data as codes, our own colours where they are shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from anchortm._messages import plain_lines
from anchortm.cli.terminal import colours, unpainted

__all__ = ["exact", "forgiving", "plain_streams"]


@contextlib.contextmanager
def forgiving(stream: Any) -> Iterator[None]:
    """Let a stream write letters that its encoding lacks as codes."""
    if not hasattr(stream, "reconfigure"):
        yield
        return
    before = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # the stream is closed
            stream.reconfigure(errors=before)


class _Plain:
    """A stream that writes control characters as codes, because data may contain escapes that a terminal obeys."""

    def __init__(self, stream: Any, keep: str) -> None:
        self._stream, self._keep, self._coloured = stream, keep, colours(stream)

    def write(self, text: str) -> Any:
        return self._stream.write(unpainted(text, lambda part: plain_lines(part, self._keep), self._coloured))

    def exact(self) -> Any:
        """Return the stream for files: as it is, unless it is a terminal."""
        return self if self._stream.isatty() else self._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def exact(stream: Any) -> Any:
    """Return the stream that a table is written to, letter by letter unless a person looks at it."""
    return stream.exact() if isinstance(stream, _Plain) else stream


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Print control characters as codes; progress bars may still return to the start of their line."""
    # a stream that the shell has closed is None
    out: Any = sys.stdout and _Plain(sys.stdout, "\n\t")
    err: Any = sys.stderr and _Plain(sys.stderr, "\n\t\r")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
