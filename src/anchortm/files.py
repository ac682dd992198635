"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anchortm.exceptions import InputError

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], Any]) -> Path:
    """Call ``write`` with a temporary file beside ``path``, and move it there once it is complete."""
    target = Path(os.path.realpath(path))  # what a link points to, not the link
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to write {target.name} to")
    try:
        handle, name = tempfile.mkstemp(suffix=target.suffix, prefix=f".{target.stem}-", dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write to {target.parent}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        write(temporary)
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return Path(path)
