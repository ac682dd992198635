"""Run commands in a pseudo-terminal of a given width, as a person would see them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anchortm as atm

ESCAPES = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
SEVERAL = """
import json, sys
from anchortm.cli.main import main
for line in json.loads(sys.argv[1]):
    try:
        code = main(line)
    except SystemExit as end:
        code = end.code
    print(f"=== {code}", flush=True)
"""


class Terminal:
    """A process in a terminal of its own; what it prints is in ``text``."""

    def __init__(self, line: Sequence[str], folder: Path, columns: int = 80, **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        names = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        names |= {"PYTHONPATH": str(Path(atm.__file__).parents[1]), "TERM": "xterm"} | environment
        self.process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, *line],
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=names,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.raw = b""

    @property
    def text(self) -> str:
        return self.raw.decode(errors="replace").replace("\r\n", "\n")

    @property
    def plain(self) -> str:
        """Return the text without escapes."""
        return ESCAPES.sub("", self.text)

    def read(self, until: Callable[[], object] = lambda: False, seconds: float = 120.0) -> None:
        """Read until the process ends, or until something has been printed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    part = os.read(self.master, 65536)
                except OSError:  # the other end is closed
                    return
                if not part:
                    return
                self.raw += part

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        """Return the exit code."""
        self.read()
        code = self.process.wait(30)
        os.close(self.master)
        return code


def command(line: Sequence[str], folder: Path, columns: int = 80, **environment: str) -> tuple[int, Terminal]:
    """Return exit code and terminal of one command."""
    terminal = Terminal(["-m", "anchortm", *line], folder, columns, **environment)
    return terminal.end(), terminal


def commands(lines: Sequence[Sequence[str]], folder: Path, columns: int = 80) -> list[tuple[int, str]]:
    """Return exit code and text of several commands, by one process, which imports everything once."""
    terminal = Terminal(["-c", SEVERAL, json.dumps([list(line) for line in lines])], folder, columns)
    terminal.end()
    parts = re.split(r"=== (\w+)\n", terminal.plain)
    return [(int(code), text) for text, code in zip(parts[::2], parts[1::2], strict=False)]
