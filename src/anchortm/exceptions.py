"""Errors and warnings of our own. Each says what came, what is allowed and what to try."""

from __future__ import annotations

__all__ = [
    "AnchorTMError",
    "AnchorTMWarning",
    "AnchorWarning",
    "ConvergenceWarning",
    "IdentificationError",
    "InputError",
    "InputTypeError",
    "ModelFileError",
    "OverIdentifiedError",
    "SeparationError",
    "first_line",
]


class AnchorTMError(Exception):
    """Base of every error that anchortm raises on purpose."""


class InputError(AnchorTMError, ValueError):
    """Raised for a value that makes no sense where it stands."""


class InputTypeError(AnchorTMError, TypeError):
    """Raised for something of the wrong type, such as strings where numbers belong."""


class IdentificationError(InputError):
    """Raised when the data do not determine the parameters: no event, a rank-deficient design."""


class SeparationError(IdentificationError):
    """Raised when the likelihood has no maximiser because a combination of columns separates the rows."""


class OverIdentifiedError(InputError):
    """Raised at xi = inf when the anchors ask for more than the parameters can give."""


def first_line(error: BaseException) -> str:
    """Return what an error of someone else's says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class ModelFileError(InputError):
    """Raised for a model file that is truncated, foreign, of an unknown version, or does not hold together."""


class AnchorTMWarning(UserWarning):
    """Base of every warning that anchortm gives."""


class AnchorWarning(AnchorTMWarning):
    """Given when anchors are dropped, or cannot do anything."""


class ConvergenceWarning(AnchorTMWarning):
    """Given when a fit did not reach its tolerance; says why and what to try."""
