"""The posterior distribution of the shift of a place, given its rows and a normal prior.

The log posterior density is l(d) - (d - centre)^2 * precision / 2, with l the log-likelihood of all rows at a shift d.
It is concave unless rows are truncated. Newton's method finds its mode and certifies it; the distribution around the
mode is normal where l is quadratic, and else a set of nodes with weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.engine.rows.shift_law import NodeShift, NormalShift, ShiftLaw, Values
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedMeans, ShiftedRows

__all__ = ["LONGEST", "TOLERANCE", "ShiftFit", "fit_shift", "law_around"]

# scores, in standard errors of the shift: the aim of the search, and what is enough if rounding ends it
TOLERANCE, ROUNDING = 1e-10, 1e-7
STEPS, HALVINGS = 100, 60
LONGEST = 2.0  # longest step, on the scale of h


@dataclass(frozen=True, eq=False)
class ShiftFit:
    """The most likely shift with its certificate.

    Attributes
    ----------
    shift : float
        The mode of the posterior density.
    information : float
        Minus the second derivative of the log posterior density there; its root is 1 / standard error.
    score : float
        The first derivative there, in standard errors: 0 at an exact mode.
    converged : bool
        Whether the score is within its tolerance and the information positive.
    history : list of dict
        One entry for each iteration.
    """

    shift: float
    information: float
    score: float
    converged: bool
    history: list[dict[str, Any]]

    @property
    def std_error(self) -> float:
        """Return the standard error."""
        return self.information**-0.5 if self.information > 0.0 else math.nan


def fit_shift(values: Values, precision: float, centre: float = 0.0) -> ShiftFit:
    """Return the most likely shift, by Newton's method with shortened steps; it starts at 0.

    Parameters
    ----------
    values : callable
        The log-likelihood of all rows at shifts of shape (1, K), its derivative, and minus the second one.
    precision, centre : float
        One over the variance of the prior, and its mean.
    """

    def there(shift: float) -> tuple[float, float, float]:
        with np.errstate(all="ignore"):
            loglik, score, information = (float(part[0, 0]) for part in values(np.full((1, 1), shift)))
        value, away = loglik - 0.5 * precision * (shift - centre) ** 2, shift - centre
        return (value if math.isfinite(value) else -math.inf), score - precision * away, information + precision

    at, history = 0.0, list[dict[str, Any]]()
    value, slope, curvature = there(at)
    for iteration in range(STEPS):
        size = math.sqrt(max(curvature, precision))  # truncated rows may have less
        history.append({"iteration": iteration, "shift": at, "log posterior": value, "score": slope / size})
        if not abs(slope) > TOLERANCE * size:
            break
        step = min(max(slope / size**2, -LONGEST), LONGEST)
        found = there(at + step)
        for _ in range(HALVINGS):
            if found[0] >= value - 1e-13 * (1.0 + abs(value)):
                break
            step *= 0.5
            found = there(at + step)
        if found[0] < value - 1e-13 * (1.0 + abs(value)) or at + step == at:
            break
        at, (value, slope, curvature) = at + step, found
    score = abs(slope) / math.sqrt(curvature) if curvature > 0.0 else math.inf
    return ShiftFit(at, curvature, score, score <= ROUNDING, history)


def law_around(rows: ShiftedRows, weights: Array | None, fit: ShiftFit, precision: float, centre: float) -> ShiftLaw:
    """Return the posterior distribution of the shift less its mode; ``precision`` and ``centre`` are the prior's."""
    if _quadratic(rows):
        return NormalShift(0.0, fit.std_error)
    found = NormalShift(centre, precision**-0.5).given(rows.together(weights), rows.concave)
    return NodeShift(found.points - fit.shift, found.log_weights)


def _quadratic(rows: ShiftedRows) -> bool:
    """Return whether the log-likelihood is a quadratic function of the shift."""
    if isinstance(rows, ShiftedMeans):
        return all(family.affine for family in rows.families)
    if not isinstance(rows, ShiftedEnds):
        return False
    return rows.link.quadratic and all((part.kind, part.sign) == ("exact", 1) for part in rows.ends.parts)
