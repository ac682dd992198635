"""Errors and warnings of this package. Each says what came, what is allowed and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anchortm._messages import plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AnchorTMError",
    "AnchorTMWarning",
    "AnchorWarning",
    "ConvergenceWarning",
    "IdentificationError",
    "InputError",
    "InputTypeError",
    "MissingValueError",
    "ModelFileError",
    "OverIdentifiedError",
    "SeparationError",
    "UnavailableError",
    "first_line",
    "renumbered",
    "rows_of",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class AnchorTMError(Exception):
    """Base class of all errors that anchortm raises on purpose.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.exceptions import AnchorTMError
    >>> try:
    ...     atm.Surv([1.0, -2.0], [1, 1])
    ... except AnchorTMError as error:
    ...     print(error)
    time is negative: -2.0 at row 1; times start at 0; for an outcome that may be negative use Interval(lower, ...
    """

    def __str__(self) -> str:
        return plain(super().__str__())


class InputError(AnchorTMError, ValueError):
    """Raised if a value is not allowed.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.xi_from_gamma(-1.0)
    Traceback (most recent call last):
        ...
    anchortm.exceptions.InputError: gamma must be at least 0, not -1.0
    """


class InputTypeError(AnchorTMError, TypeError):
    """Raised if an argument has the wrong type, such as strings instead of numbers.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.Surv(["one", "two"], [1, 1])
    Traceback (most recent call last):
        ...
    anchortm.exceptions.InputTypeError: time must be numbers, not 'one' at row 0; ...
    """


class MissingValueError(InputError):
    """Raised if a value is missing (NaN, None, NA) where a number or a level is needed.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.Surv([1.0, None], [1, 1])
    Traceback (most recent call last):
        ...
    anchortm.exceptions.MissingValueError: time has a missing value: None at row 1; drop or impute such rows
    """


class UnavailableError(InputError, AttributeError):
    """Raised if a fit does not have an attribute, such as AIC under a penalty; ``hasattr`` returns False.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.NormalLinear(l2=1.0).fit(data[["duration"]], data.waiting)
    >>> hasattr(model, "aic_")
    False
    >>> model.aic_
    Traceback (most recent call last):
        ...
    anchortm.exceptions.UnavailableError: AIC and BIC are for maximum-likelihood fits, ...: compare penalised ...
    """


class IdentificationError(InputError):
    """Raised if the data do not identify the parameters, for example without events or with collinear columns.

    Attributes
    ----------
    columns : tuple of str
        The covariates that are not identified, if the error is about covariates.
    collinear : bool
        Whether it is enough to leave out one of these columns.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.NormalLinear().fit([[1.0], [1.0], [1.0]], [1.0, 2.0, 3.0])
    Traceback (most recent call last):
        ...
    anchortm.exceptions.IdentificationError: constant covariates: x0; ...
    """

    def __init__(self, message: str = "", columns: Sequence[str] = (), collinear: bool = False) -> None:
        super().__init__(message)
        self.columns, self.collinear = tuple(columns), collinear


class SeparationError(IdentificationError):
    """Raised if the likelihood has no maximum because a combination of columns separates the rows.

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.OrdinalRegression().fit([[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1])
    Traceback (most recent call last):
        ...
    anchortm.exceptions.SeparationError: complete or quasi-complete separation: a combination of x0 ...
    """


class OverIdentifiedError(InputError):
    """Raised at xi = inf if no parameters satisfy all conditions that the anchors impose.

    Examples
    --------
    >>> import math, anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> model = atm.ContinuousLogit(xi=math.inf)
    >>> model.fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
    Traceback (most recent call last):
        ...
    anchortm.exceptions.OverIdentifiedError: xi = inf is over-identified: no values of the 9 parameters ...
    """


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an error from another package.

    Parameters
    ----------
    error : Exception
        The error.

    Returns
    -------
    str
        The name of the class if the message is empty.

    Examples
    --------
    >>> from anchortm.exceptions import first_line
    >>> first_line(ValueError("no such column")), first_line(KeyError())
    ('no such column', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def renumbered(text: str, place: Callable[[int], str]) -> str:
    """Return a message with its row numbers, counted from 0, replaced by what ``place`` returns."""
    return re.sub(r"\brow (\d+)\b", lambda found: place(int(found[1])), text)


@contextmanager
def rows_of(kept: Sequence[int] | NDArray[np.intp] | None) -> Iterator[None]:
    """Make errors count rows in the whole table if only the rows ``kept`` were used."""
    try:
        yield
    except InputError as error:
        if kept is None:
            raise
        raise type(error)(renumbered(str(error), lambda row: f"row {kept[row] if row < len(kept) else row}")) from None


class ModelFileError(InputError):
    """Raised if a model file is truncated, inconsistent, or of another program or version.

    Examples
    --------
    >>> import os, tempfile, anchortm as atm
    >>> from anchortm.exceptions import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "truncated.json")
    ...     with open(path, "w") as file:
    ...         _ = file.write('{"format": "anchortm-model", ')
    ...     try:
    ...         model = atm.load(path)
    ...     except ModelFileError:
    ...         print("not a model")
    not a model
    """


class AnchorTMWarning(UserWarning):
    """Base class of all warnings of anchortm.

    Examples
    --------
    >>> import warnings, anchortm as atm
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     grades = ["mid", "low", "high", "mid", "low"]
    ...     model = atm.OrdinalRegression().fit([[1.0], [2.0], [1.5], [3.0], [1.2]], grades)
    >>> caught[0].category.__name__, model.warnings_[0][:39]
    ('AnchorTMWarning', 'classes are taken in alphabetical order')
    """

    def __str__(self) -> str:
        return plain(super().__str__())


class AnchorWarning(AnchorTMWarning):
    """Issued if anchors are dropped or have no effect.

    Examples
    --------
    >>> import warnings, anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = atm.NormalLinear(xi=1.0).fit(data[["duration"]], data.waiting, anchors=["here"] * len(data))
    >>> caught[0].category.__name__, model.warnings_
    ('AnchorWarning', ['the anchors have a single environment: they cannot regularise'])
    """


class ConvergenceWarning(AnchorTMWarning):
    """Issued if a fit did not reach its tolerance; the message says why and what to try.

    Examples
    --------
    >>> import warnings, anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = atm.ContinuousLogit(max_iter=2).fit(data[["duration"]], data.waiting)
    >>> caught[0].category.__name__, model.converged_
    ('ConvergenceWarning', False)
    """
