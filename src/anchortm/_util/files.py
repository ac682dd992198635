"""Files: read if they are regular files, written whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from anchortm.exceptions import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "beside",
    "check_regular",
    "check_target",
    "make_folder",
    "read_bytes",
    "remove_folder",
    "write_figure",
    "write_whole",
]

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(path: str | os.PathLike[str]) -> int:
    """Return the size of a regular file, following links; refuse pipes (they may block) and devices."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        raise InputError(f"cannot read {os.fspath(path)}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"cannot read {os.fspath(path)}: it is {_kind(found.st_mode)}; name a regular file")
    return found.st_size


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the bytes of a regular file; refuse one with more than ``most``, whatever size it claims to have."""
    size = check_regular(path)
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1) if size <= most else b""
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from None
    if max(size, len(content)) > most:
        raise InputError(f"cannot read {os.fspath(path)}: it has more than the {most} bytes that are allowed")
    return content


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that ``path`` leads to, following links; refuse to replace anything but a regular file.

    To move a new file onto a device or a pipe would remove the device or the pipe.
    """
    target = Path(os.path.realpath(path))  # what a link points to, not the link
    for folder, name in ((Path(path).parent, Path(path).name), (target.parent, target.name)):
        if not folder.is_dir():
            raise InputError(f"cannot write {name}: the folder {folder} does not exist")
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{target} is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"cannot write {target}: it is {_kind(mode)}; name a new file or a regular one")
    return target


def _kind(mode: int) -> str:
    """Return in words what kind of path this is, if it is not a regular file."""
    return KINDS.get(stat.S_IFMT(mode), "not a file")


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Call ``write`` with a temporary file beside ``path``, and move it there once it is complete.

    If ``path`` is a link, the file behind it is replaced and the link stays.
    """
    target = check_target(path)
    temporary = beside(target)  # named before it exists, so that it is removed after any interruption
    try:
        temporary.touch(exist_ok=False)
        write(temporary)
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
    return Path(path)


def write_figure(path: str | os.PathLike[str], figure: Figure, dpi: int) -> Path:
    """Write a figure, drawn in memory first: matplotlib does not report a full disk for PDF files."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=Path(path).suffix[1:].lower(), dpi=dpi)
    return write_whole(path, lambda file: file.write_bytes(drawn.getvalue()))


def beside(target: Path) -> Path:
    """Return a new hidden name beside a file or folder."""
    return target.with_name(f".{target.stem[:100]}-{secrets.token_hex(4)}{target.suffix}")


def make_folder(folder: Path) -> None:
    """Make a folder for results; refuse one that cannot be written to, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write to the folder {folder}: it is read-only")


def remove_folder(folder: Path) -> None:
    """Remove a folder if it exists, also while threads are still writing to it."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
