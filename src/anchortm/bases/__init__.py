"""Bases a(y) of the baseline transformation h_0(y) = a(y)'theta, one file each behind one contract.

To add a basis, write a file beside these and import its class below. ``Basis.from_dict`` finds it by its ``kind``.
"""

from __future__ import annotations

from anchortm.bases.bernstein import BernsteinBasis
from anchortm.bases.constant import ConstantBasis
from anchortm.bases.contract import Basis, Increments
from anchortm.bases.contract import baseline_values as baseline_values
from anchortm.bases.count import CountBasis
from anchortm.bases.linear import LinearBasis
from anchortm.bases.log_linear import LogLinearBasis
from anchortm.bases.ordinal import OrdinalBasis

__all__ = [
    "Basis",
    "BernsteinBasis",
    "ConstantBasis",
    "CountBasis",
    "Increments",
    "LinearBasis",
    "LogLinearBasis",
    "OrdinalBasis",
]


def __dir__() -> list[str]:
    return sorted(__all__)
