"""Files that are written whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from anchortm.exceptions import InputError

__all__ = ["beside", "make_folder", "remove_folder", "write_figure", "write_whole"]


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], Any]) -> Path:
    """Call ``write`` with a temporary file beside ``path``, and move it there once it is complete."""
    target = Path(os.path.realpath(path))  # what a link points to, not the link
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to write {target.name} to")
    temporary = beside(target)  # named before it is made, so that no interruption comes between making and removing it
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


def write_figure(path: str | os.PathLike[str], figure: Any, dpi: int) -> Path:
    """Write a figure that is drawn in memory before: matplotlib's PDF files do not say that a disk is full."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=Path(path).suffix[1:].lower(), dpi=dpi)
    return write_whole(path, lambda file: file.write_bytes(drawn.getvalue()))


def beside(target: Path) -> Path:
    """Return a new hidden name beside a file or folder."""
    return target.with_name(f".{target.stem[:100]}-{secrets.token_hex(4)}{target.suffix}")


def make_folder(folder: Path) -> None:
    """Make a folder that files can be written to, or say why there is none before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write to the folder {folder}: it is read-only")


def remove_folder(folder: Path) -> None:
    """Remove a folder that threads may still be writing to, and that need not be there."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
