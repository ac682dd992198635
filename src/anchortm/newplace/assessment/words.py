"""Words and numbers of an assessment's sentences: gains with their sign, and what places are called."""

from __future__ import annotations

import re

__all__ = ["need_sentence", "place_name", "signed"]

LEVEL = 0.05


def need_sentence(pvalue: float) -> str:
    """Return what the score test of invariance says about the need for anchoring, in words.

    Examples
    --------
    >>> from anchortm.newplace.assessment.words import need_sentence
    >>> need_sentence(0.3)
    'The data do not show that places differ beyond what the covariates explain (p = 0.3).'
    """
    p = "p < 0.001" if pvalue < 0.001 else f"p = {pvalue:.2g}"
    if pvalue < LEVEL:
        return f"Places differ beyond what the covariates explain ({p}), so something could be gained."
    return f"The data do not show that places differ beyond what the covariates explain ({p})."


def signed(gain: float, digits: int = 2) -> str:
    """Return a gain with its sign and so many decimals, one if it is large; 0 has no sign.

    Examples
    --------
    >>> from anchortm.newplace.assessment.words import signed
    >>> signed(0.123), signed(-0.001), signed(20.96)
    ('+0.12', '0.00', '+21.0')
    """
    text = f"{gain:+.{digits if abs(gain) < 10.0 else 1}f}"
    return text[1:] if float(text) == 0.0 else text


def place_name(label: object, kind: str | None) -> str:
    """Return what a place is called: its label, behind the name of the grouping if the label is a number or a code.

    Examples
    --------
    >>> from anchortm.newplace.assessment.words import place_name
    >>> place_name(8, "trend"), place_name("A7", "hospital"), place_name("Nahant", "town"), place_name(8, None)
    ('trend 8', 'hospital A7', 'Nahant', '8')
    """
    text = str(label)
    speaks = re.search(r"[^\W\d_]{3}", text) is not None  # three letters in a row are taken for a name
    return text if not kind or speaks or text.lower().startswith(str(kind).lower()) else f"{kind} {text}"
