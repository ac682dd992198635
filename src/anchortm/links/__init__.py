"""Links: the reference distributions F of P(Y <= y | x) = F(h(y | x)), one file each behind one contract.

``contract`` says what a link gives, ``terms`` what one row contributes under it, and ``numerics`` holds what several
links share. To add a link, write a file beside these and list it in ``LINKS`` below; nothing else depends on its name.
"""

from __future__ import annotations

from anchortm.exceptions import InputError
from anchortm.links.contract import Link
from anchortm.links.logistic import Logistic
from anchortm.links.max_extreme_value import MaxExtremeValue
from anchortm.links.min_extreme_value import MinExtremeValue
from anchortm.links.normal import Normal
from anchortm.links.numerics import LOG_SQRT_2PI as LOG_SQRT_2PI
from anchortm.links.numerics import log1mexp as log1mexp
from anchortm.links.terms import OneEnd, TwoEnds
from anchortm.links.terms import OtherPenalised as OtherPenalised
from anchortm.links.terms import Penalised as Penalised
from anchortm.links.terms import Residuals as Residuals
from anchortm.links.terms import RowValues as RowValues

__all__ = [
    "LINKS",
    "Link",
    "Logistic",
    "MaxExtremeValue",
    "MinExtremeValue",
    "Normal",
    "OneEnd",
    "TwoEnds",
    "get_link",
]


def __dir__() -> list[str]:
    return sorted(__all__)


#: The four links by name: ``probit``, ``logit``, ``cloglog`` and ``loglog``.
LINKS: dict[str, Link] = {link.name: link for link in (Normal(), Logistic(), MinExtremeValue(), MaxExtremeValue())}


def get_link(link: str | Link) -> Link:
    """Return the link of this name; a link is returned as it is.

    Examples
    --------
    >>> from anchortm.links import get_link
    >>> get_link("cloglog")
    MinExtremeValue()
    """
    if isinstance(link, Link):
        return link
    try:
        return LINKS[link]
    except (KeyError, TypeError):
        raise InputError(f"unknown link {link!r}; choose one of {', '.join(LINKS)}, or pass a Link") from None
