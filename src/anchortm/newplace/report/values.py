"""Values of a report as text: numbers with few digits, shares, p-values, names that are cut, and strengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from anchortm._messages import plain
from anchortm.plotting.style import LOOKS, shortened

__all__ = [
    "LONGEST",
    "colour_of",
    "covariate",
    "error",
    "gain",
    "known",
    "label_of",
    "name",
    "number",
    "p_value",
    "percent",
    "rounded",
    "strength",
    "trimmed",
    "whole",
]

LONGEST = 300  # letters of a name that a reader can use; longer ones are cut
MINUS, NARROW, INFINITY, NONE = "\u2212", "\u202f", "\u221e", "\u2013"
LARGE = 10_000  # from here on digits are grouped
SMALLEST_P = 0.001
# The colours c0 to c7 of report.css are those of LOOKS, so that strategies look alike in all pictures
PALETTE = {strategy: position for position, strategy in enumerate(LOOKS)}
PALETTE["recalibrated"] = PALETTE["recalibrate"]


def known(value: Any) -> TypeGuard[Any]:
    """Return whether a value is there: not None and not NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def number(value: Any, digits: int = 3) -> str:
    """Return a number with so many significant digits.

    Examples
    --------
    >>> from anchortm.newplace.report.values import number
    >>> number(0.012345), number(1234.5), number(None)
    ('0.0123', '1234', '–')
    """
    if not known(value):
        return NONE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return name(value)
    if math.isinf(value):
        return (MINUS if value < 0 else "") + INFINITY
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    text = f"{value:,.{max(digits - 1 - size, 0)}f}" if isinstance(value, float) else f"{value:,}"
    return text.replace(",", NARROW if abs(value) >= LARGE else "").replace("-", MINUS)


def whole(value: Any) -> str:
    """Return a count."""
    return number(value if not known(value) or isinstance(value, str) else round(value))


def gain(value: Any) -> str:
    """Return a gain with its sign and three decimals: smaller changes of the log-likelihood do not matter.

    From 10 on one decimal is enough.

    Examples
    --------
    >>> from anchortm.newplace.report.values import gain
    >>> gain(0.01234), gain(-0.5), gain(0.0), gain(20.9625)
    ('+0.012', '−0.500', '0.000', '+21.0')
    """
    if not known(value) or math.isinf(value):
        return number(value)
    text = f"{value:+.{3 if abs(value) < 10 else 1}f}"
    return "0.000" if float(text) == 0 else text.replace("-", MINUS)


def error(value: Any) -> str:
    """Return a standard error of gains: with three decimals, as they have."""
    return gain(value).lstrip("+")


def trimmed(text: str) -> str:
    """Return a number without zeros at its end.

    Examples
    --------
    >>> from anchortm.newplace.report.values import trimmed
    >>> trimmed("0.300"), trimmed("3.00"), trimmed("30")
    ('0.3', '3', '30')
    """
    return text.rstrip("0").rstrip(".") if "." in text and text[-1].isdigit() else text


def percent(value: Any) -> str:
    """Return a share in percent; only a whole is 100%.

    Examples
    --------
    >>> from anchortm.newplace.report.values import percent
    >>> percent(0.5), percent(0.034), percent(0.991), percent(0.9999), percent(1.0)
    ('50%', '3.4%', '99.1%', '> 99.9%', '100%')
    """
    if not known(value):
        return NONE
    if 0.9995 <= value < 1:
        return "> 99.9%"
    places = 1 if 0 < abs(value) < 0.1 or 0.99 < value < 1 else 0
    return f"{100 * value:.{places}f}%".replace("-", MINUS)


def p_value(value: Any) -> str:
    """Return a p-value."""
    if not known(value):
        return NONE
    return f"< {SMALLEST_P}" if value < SMALLEST_P else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def strength(xi: Any) -> str:
    """Return a strength xi of a list; None stands for infinity, which JSON does not have."""
    return INFINITY if xi is None else trimmed(number(xi))


def name(value: Any, most: int = LONGEST) -> str:
    """Return a name as one line of at most so many letters, with control characters as codes."""
    return NONE if value is None else shortened(plain(str(value)), most)


def covariate(value: Any) -> str:
    """Return the name of a covariate, without the mark of its coding.

    Examples
    --------
    >>> from anchortm.newplace.report.values import covariate
    >>> covariate("cd[T.yes]"), covariate("log(ram)")
    ('cd[yes]', 'log(ram)')
    """
    return name(value).replace("[T.", "[")


def label_of(strategy: object, xi: Any = None) -> str:
    """Return what a strategy is called, perhaps with its strength.

    Examples
    --------
    >>> from anchortm.newplace.report.values import label_of
    >>> label_of("ml"), label_of("anchored(3)"), label_of("anchored", 10.0), label_of("widened", 0.0)
    ('maximum likelihood', 'anchored, xi = 3', 'anchored, xi = 10', 'widened')
    """
    kind, _, inside = name(strategy).partition("(")
    label = {"ml": "maximum likelihood", "null": "no covariates", "recalibrate": "recalibrated"}.get(
        kind, kind.replace("+", " + ")
    )
    if kind == "recalibrated" and inside:
        return f"maximum likelihood after {inside.rstrip(')')} outcomes"
    own = inside.rstrip(")") if inside else strength(xi) if known(xi) and xi > 0 else ""
    return f"{label}, xi = {own}" if own else label


def colour_of(strategy: object) -> str:
    """Return the class that colours a strategy: the same in every plot."""
    called = str(strategy)
    return f"c{PALETTE.get(called, PALETTE.get(called.partition('(')[0].strip(), 4))}"


def rounded(value: Any, digits: int = 5) -> Any:
    """Return plain values for JSON: floats with few digits, None for what JSON does not have, names cut."""
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {name(key): rounded(part, digits) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(part, digits) for part in value]
    return name(value) if isinstance(value, str) else rounded(float(value), digits)
