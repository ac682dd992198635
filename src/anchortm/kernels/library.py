"""The compiled kernels, if they are available and not switched off.

``ANCHORTM_KERNELS=numpy`` in the environment does without them, ``ANCHORTM_KERNELS=compiled`` insists on them. The
choice is made once, when this module is imported.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from numpy.typing import NDArray

from anchortm.exceptions import InputError
from anchortm.kernels.build import FOLDER, LIBRARY, fingerprint

__all__ = ["LOADED", "function", "pointer"]

VARIABLE, CHOICES = "ANCHORTM_KERNELS", ("compiled", "numpy")


def _load() -> ctypes.CDLL | None:
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", *CHOICES):
        raise InputError(f"{VARIABLE} is {choice!r}, but must be one of {', '.join(CHOICES)}, or not set")
    if choice == "numpy":
        return None
    try:
        library = ctypes.CDLL(str(FOLDER / LIBRARY))
        found = ctypes.c_uint32.in_dll(library, "anchortm_fingerprint").value
    except (OSError, ValueError) as error:
        why = str(error)
    else:
        if found == fingerprint():
            return library
        why = "it was made from other sources; install the package again"
    if choice == "compiled":
        raise ImportError(f"{VARIABLE} is 'compiled', but the library of kernels cannot be used: {why}")
    return None


LOADED: ctypes.CDLL | None = _load()


def function(name: str, *arguments: Any) -> Any:
    """Return a function of the library that takes these types, or None without the library."""
    if LOADED is None:
        return None
    found = getattr(LOADED, name)
    found.argtypes = arguments
    return found


def pointer(values: NDArray[Any] | None) -> int | None:
    """Return where the numbers of a contiguous array are; None (no array) for None."""
    return None if values is None else int(values.__array_interface__["data"][0])
