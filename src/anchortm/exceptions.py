"""Errors and warnings of our own. Each says what came, what is allowed and what to try."""

from __future__ import annotations

__all__ = ["AnchorTMError", "InputError", "InputTypeError"]


class AnchorTMError(Exception):
    """Base of every error that anchortm raises on purpose."""


class InputError(AnchorTMError, ValueError):
    """Raised for a value that makes no sense where it stands."""


class InputTypeError(AnchorTMError, TypeError):
    """Raised for something of the wrong type, such as strings where numbers belong."""
