"""Loops over rows in C. Each has a slower counterpart in NumPy, which is used where the library is missing."""

from anchortm.kernels.library import LOADED

__all__ = ["NAME"]

NAME = "numpy" if LOADED is None else "compiled"
