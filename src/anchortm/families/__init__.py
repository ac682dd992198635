"""Families of generalised linear models, one class and one file each behind one contract.

``contract`` says what a family gives, ``mean_of_eta`` how its mean depends on eta, and ``mean_links`` holds the links.
To add a family, write a file beside these and list its class in ``FAMILY_TYPES`` below.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from anchortm.exceptions import InputError, InputTypeError
from anchortm.families.binomial import Binomial
from anchortm.families.contract import Family
from anchortm.families.gamma import Gamma, likeliest_shape
from anchortm.families.gaussian import Gaussian
from anchortm.families.mean_links import Mean
from anchortm.families.negative_binomial import NegativeBinomial
from anchortm.families.numerics import excess
from anchortm.families.numerics import spread as spread
from anchortm.families.poisson import Poisson

__all__ = [
    "FAMILIES",
    "FAMILY_TYPES",
    "Binomial",
    "Family",
    "Gamma",
    "Gaussian",
    "Mean",
    "NegativeBinomial",
    "Poisson",
    "excess",
    "get_family",
    "likeliest_shape",
]


def __dir__() -> list[str]:
    return sorted(__all__)


FAMILY_TYPES: dict[str, type[Family]] = {
    own.family: own for own in (Poisson, Binomial, Gamma, NegativeBinomial, Gaussian)
}
#: The links of each family by name, the default first.
FAMILIES: dict[str, tuple[str, ...]] = {name: tuple(own.links) for name, own in FAMILY_TYPES.items()}


def get_family(family: Any, link: Any = None, alpha: Any = 1.0, residual: str = "score") -> Family:
    """Return a family by its name, with its default link or the one that is named.

    A ``Family`` is returned with this link, if one is named, and these residuals.

    Examples
    --------
    >>> from anchortm.families import get_family
    >>> get_family("gamma").link, get_family("gamma", "inverse").name
    ('log', 'gamma-inverse')
    """
    known = f"family must be one of {', '.join(FAMILIES)}, or a Family, not {family!r}"
    if not isinstance(family, (str, Family)):
        raise InputTypeError(known)
    if isinstance(family, str) and family not in FAMILIES:
        raise InputError(known)
    chosen = family if isinstance(family, Family) else FAMILY_TYPES[family]()
    if link is not None:
        if link not in tuple(chosen.links):  # which takes lists and other mistakes
            links = ", ".join(chosen.links)
            raise InputError(f"the link of {chosen.family} must be one of {links}, not {link!r}")
        chosen = replace(chosen, link=link)
    if residual not in ("score", "deviance"):
        raise InputError(f"residual must be 'score' or 'deviance', not {residual!r}")
    value = _checked_alpha(alpha)
    if chosen.uses_alpha and chosen.alpha is None:
        chosen = replace(chosen, alpha=value)
    return replace(chosen, residual=residual)


def _checked_alpha(alpha: Any) -> float | None:
    """Return alpha as a number, or None if it is to be estimated."""
    if isinstance(alpha, str) and alpha == "ml":
        return None
    number = isinstance(alpha, (int, float, np.integer, np.floating)) and not isinstance(alpha, bool)
    if not (number and 0.0 < alpha <= sys.float_info.max):
        raise InputError(f"alpha must be a positive number or 'ml', not {alpha!r}")
    return float(alpha)
