"""Structural equation transformation models: simulate data, and what interventions do to them.

The code is in ``anchortm.simulate.sem``; import the names from here.
"""

from anchortm.simulate.sem import (
    SEM,
    Additive,
    Choice,
    Constant,
    Linear,
    Normal,
    Rademacher,
    Sample,
    Transformation,
)

__all__ = [
    "SEM",
    "Additive",
    "Choice",
    "Constant",
    "Linear",
    "Normal",
    "Rademacher",
    "Sample",
    "Transformation",
]


def __dir__() -> list[str]:
    return sorted(__all__)
