"""Parse the arguments, run the command, and report errors without tracebacks."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from anchortm import __version__
from anchortm.cli.commands import COMMANDS
from anchortm.cli.options import add_common
from anchortm.cli.parsing import Parser
from anchortm.cli.streams import forgiving, plain_streams
from anchortm.cli.terminal import note, terminal_width
from anchortm.exceptions import AnchorTMError, AnchorTMWarning

__all__ = ["main", "parser"]

FAILED, USAGE, INTERRUPTED = 1, 2, 130
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
ABOUT = "Distributional anchor regression: predict whole distributions that hold up at a new place."
CODES = "exit codes: 0 success, 1 failure (check: a fit would be refused), 2 wrong usage, 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: success, 1: failure, 2: wrong usage, 130: interrupted, 143: terminated (128 plus the number of the signal).
    Without a command it prints its help and exits with 2, so that a script that lost its command fails.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with forgiving(sys.stdout), plain_streams():
        if not given:
            parser("").print_help(sys.stderr)
            raise SystemExit(USAGE)
        return _run(parser(next((word for word in given if not word.startswith("-")), "")).parse_args(given))


def parser(only: str | None = None) -> Parser:
    """Return the parser of all commands; with ``only``, it knows the options of that command alone, and is faster."""
    top = Parser(prog="anchortm", description=ABOUT, epilog=CODES)
    top.add_argument("--version", action="version", version=f"anchortm {__version__}")
    choices = top.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name, about in COMMANDS.items():
        first = about.split(". ")[0].rstrip(".")
        command = choices.add_parser(name, help=first[0].lower() + first[1:], description=about)
        if only in (None, name):
            module: Any = importlib.import_module(f"anchortm.cli.commands.{name}")
            command.examples = module.EXAMPLES
            command.set_defaults(run=module.run)
            module.add(command)
            add_common(command)
    return top


def _run(options: Any) -> int:
    def say(message: Any) -> str:
        from anchortm.cli.words import in_shell

        return in_shell(str(message), getattr(options, "source", None))

    with warnings.catch_warnings(), _signals() as received:
        warnings.simplefilter("always", AnchorTMWarning)
        warnings.showwarning = lambda message, *_, **__: note(say(message), "warning", "yellow")
        try:
            code = options.run(options)
            print(end="", flush=True)
        except KeyboardInterrupt:
            _say_interrupted()
            return 128 + received[0] if received else INTERRUPTED
        except BrokenPipeError:  # the program that reads our output has stopped reading
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Exception as error:
            _report(error, say, options.debug)
            return FAILED
        finally:
            source = getattr(options, "source", None)
            if source is not None:
                source.close()
    return int(code or 0)


def _report(error: Exception, say: Any, debug: bool) -> None:
    """Print an error without its traceback, unless it is asked for."""
    if debug:
        import traceback

        traceback.print_exc()
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        note(f"cannot write {error.filename or 'the output'}: {error.strerror}", "error", "red")
        return
    known = isinstance(error, AnchorTMError)
    note(say(error) if known else f"{type(error).__name__}: {error}", "error", "red")
    if not known and not debug:
        print("This may be a bug in anchortm: --debug shows where it happened.", file=sys.stderr)


def _say_interrupted() -> None:
    """Say so on a clean line: a terminal shows ^C there, and perhaps a progress bar."""
    text = "interrupted; no file was left half written"
    if getattr(sys.stderr, "isatty", lambda: False)():
        text = "\r" + text.ljust(terminal_width() - 1)
    print(text, file=sys.stderr)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that files and workers are cleaned up; yield the signals received."""
    received: list[int] = []

    def end(number: int, _: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    # in the main thread only, and not if something else, such as nohup, handles the signal
    ours = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if ours and hasattr(signal, name)]
    taken = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
