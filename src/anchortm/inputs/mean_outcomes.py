"""Which rows generalised linear models take: exact outcomes that their family has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError
from anchortm.families import Family
from anchortm.inputs.response import Response

__all__ = ["check_rows", "check_shares"]


def check_shares(y: Any) -> None:
    """Refuse shares of unknown numbers of trials."""
    values = np.asarray(y)
    if values.dtype.kind == "f" and ((values > 0.0) & (values < 1.0)).any():
        raise InputError(
            "binomial outcomes must be 0 or 1, or Trials(successes, trials), not shares: a share does not say how many "
            "trials there were"
        )


def check_rows(response: Response, family: Family) -> None:
    """Refuse truncated and censored rows, and outcomes that the family does not have."""
    y = response.upper
    if response.truncated.any():
        raise InputError("AnchorGLM does not take truncated rows: use CountRegression or another transformation model")
    if family.discrete:
        below = np.where(np.isneginf(response.lower), -1.0, response.lower)
        _refuse(below != y - 1.0, "is a censored count, and AnchorGLM takes exact ones: use CountRegression")
    else:
        exact = (
            "is censored, and AnchorGLM takes exact outcomes: use a transformation model, such as ParametricSurvival"
        )
        _refuse(response.lower != y, exact)
    family.check_outcomes(y, response.trials)


def _refuse(bad: NDArray[np.bool_], why: str) -> None:
    if bad.any():
        raise InputError(f"row {int(np.flatnonzero(bad)[0])} {why}")
