"""How good predicted distributions are: proper scores, calibration and, for times, discrimination.

Every function takes predictions and observed outcomes. It returns one value per row where the score has one, else
one number. Pass outcomes as to ``fit``: numbers or classes in an array, list or series, ``Surv``, ``Interval`` or a
structured survival array. A model that was fitted by a formula, and a table with its columns, can stand for both:
``crps(model, data)``. ``brier`` and ``concordance`` also score plain predictions of other software.
``score_table`` collects the scores of a model by environment.
"""

from __future__ import annotations

from anchortm.scores.calibration import coverage, pit
from anchortm.scores.proper import crps, nll_quantiles
from anchortm.scores.survival import brier, concordance
from anchortm.scores.table import ScoreTable, score_table, transforms

__all__ = [
    "ScoreTable",
    "brier",
    "concordance",
    "coverage",
    "crps",
    "nll_quantiles",
    "pit",
    "score_table",
    "transforms",
]


def __dir__() -> list[str]:
    return sorted(__all__)
