"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
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
    # named before it is there, so that no interruption comes between making it and seeing to its end
    temporary = target.with_name(f".{target.stem[:100]}-{secrets.token_hex(4)}{target.suffix}")
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
