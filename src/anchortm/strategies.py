"""Strategies for a new place, for ``compare_strategies``: anchored or not, wider or not, or a model of your own."""

from __future__ import annotations

from anchortm.newplace.regressor import Regressor
from anchortm.newplace.strategies import (
    Anchored,
    EqualEnvironments,
    MaximumLikelihood,
    NoCovariates,
    RandomIntercept,
    Strategy,
    Widened,
    WorstEnvironment,
)

__all__ = [
    "Anchored",
    "EqualEnvironments",
    "MaximumLikelihood",
    "NoCovariates",
    "RandomIntercept",
    "Regressor",
    "Strategy",
    "Widened",
    "WorstEnvironment",
]


def __dir__() -> list[str]:
    return sorted(__all__)
