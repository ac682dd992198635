"""Scale effects: which covariates have them, how they are called, and what they do to the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import one_number
from anchortm.bases import Basis, baseline_values
from anchortm.engine.rows.likelihood import Term, evaluate
from anchortm.exceptions import InputError, InputTypeError
from anchortm.links import Link

__all__ = ["check_scalable", "check_scale", "scale_columns", "scale_name", "scale_residuals", "scaled_baseline"]

Array = NDArray[np.float64]


def check_scale(scale: Any, xi_scale: Any, xi: float) -> None:
    """Refuse values of xi and xi_scale that scale effects do not support."""
    if scale is None:
        if xi_scale is not None:
            raise InputError("xi_scale is the penalty of scale effects, and there are none: name columns in scale")
        return
    if xi < 0.0:
        raise InputError(f"xi must be at least 0 with scale effects, not {xi}")
    if xi_scale is None:
        return
    if not 0.0 <= one_number(xi_scale, "xi_scale") < math.inf:
        raise InputError(f"xi_scale must be a finite number from 0, or None for the same as xi, not {xi_scale}")
    if math.isinf(xi) and xi_scale > 0.0:
        raise InputError("xi = inf goes with xi_scale=None, which makes both infinite, or xi_scale=0")


def check_scalable(basis: Basis) -> None:
    """Refuse bases that fix the scale."""
    increments = basis.increments
    if (increments.lower > 0.0).any():
        raise InputError("this distribution fixes the scale, so that there are no scale effects: take 'weibull'")


def scale_columns(scale: Any, names: Sequence[str]) -> list[int]:
    """Return the positions of the columns of the scale among the covariates."""
    if scale is None:
        return []
    flat = [name for part in _each(scale) for name in _each(part)]
    if not flat:
        raise InputError("scale names no column: leave it at None for none")
    places = dict(enumerate(names)) | {name: name for name in names}
    for name in flat:
        _check_name(name, len(names))
    unknown = [str(name) for name in flat if name not in places]
    if unknown:
        raise InputError(
            f"scale names columns that are not covariates: {', '.join(unknown)}; the covariates are "
            f"{', '.join(names) or 'none'}, and a scale effect needs a shift effect of the same column (a covariate "
            "whose effect varies changes the spread already)"
        )
    return [list(names).index(name) for name in dict.fromkeys(places[name] for name in flat)]


def _check_name(name: Any, n_covariates: int) -> None:
    """Refuse what is neither a name nor the position of a covariate."""
    position = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
    if not isinstance(name, str) and not (position and 0 <= name < n_covariates):
        raise InputTypeError(f"scale must be names of covariates or their positions, not {name!r}")


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def scale_name(name: str) -> str:
    """Return the name of the scale effect of a covariate, beside its shift effect."""
    return f"{name} (scale)"


def scaled_baseline(theta: Array, Z: Array, g: Array) -> Array:
    """Return exp(z'g / 2) theta for each row of Z."""
    return np.asarray(np.exp(0.5 * (Z @ g))[:, None] * theta)


def scale_residuals(link: Link, terms: tuple[Term, ...], theta: Array, shift: Array) -> Array:
    """Return r_s = -dl/dzeta of each row of a response; theta is e^zeta times the baseline."""
    result = np.zeros(shift.size)
    for term in terms:
        values, slope = evaluate(link, term, theta, shift)
        own = theta if theta.ndim == 1 else theta[term.rows]
        end = term.upper if term.lower is None else term.lower
        assert end is not None  # noqa: S101
        r_s = values.r * baseline_values(end, own)
        if term.difference is not None:
            r_s -= values.l_d * baseline_values(term.difference, own)
        result[term.rows] += term.sign * (r_s if slope is None else r_s - 1.0)
    return result
