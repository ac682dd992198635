"""Predictions with another spread: h becomes m + (h - m) / factor, where m is the median of the link.

Medians, ranks and the order of risks stay as they are. The result stays in its class of models: all parameters are
divided by the factor, and the level of the baseline moves by m (1 - 1 / factor).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm._util.checks import real_numbers
from anchortm.bases import Basis
from anchortm.engine.result import FitResult
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.exceptions import InputError
from anchortm.inputs.baselines import Corners

__all__ = ["check_factor", "level_of", "levels_of", "shifted", "why_not_widened", "widened"]


def check_factor(factor: Any) -> float:
    """Return the factor of a spread, a finite positive number."""
    value = real_numbers(factor, "factor")
    if value.ndim or not 0.0 < float(value) < math.inf:
        raise InputError(f"factor must be a positive number, not {factor!r}; 1 changes nothing, 2 is twice as wide")
    return float(value)


def why_not_widened(result: FitResult) -> str | None:
    """Return why the predictions of a result cannot have another spread; None if they can."""
    if result.recalibration is not None:
        return "it is recalibrated at a place; change the spread of the model before, then recalibrate"
    if result.basis.kind == "constant":
        return "the family of a generalised linear model fixes the spread; use a transformation model"
    if result.basis.kind == "step":
        return "steps of a partial likelihood have no scale; use ProportionalHazards"
    fixed = result.basis.increments
    if ((fixed.lower == fixed.upper) & (fixed.lower != 0.0)).any():
        return "this distribution has a fixed slope, so that its spread cannot change; use dist='weibull'"
    if result.random is not None:
        return "random effects already widen the predictions for new clusters; leave them out"
    if result.had_offset:
        return "the offset has coefficient 1 and cannot be divided by the factor; give it as a covariate"
    if result.scale is not None and _median(result) != 0.0:
        return "scale effects turn h about 0, not about the median of this link; use a probit or logit link"
    return None


def _median(result: FitResult) -> float:
    return float(result.link.quantile(0.5))


def widened(result: FitResult, factor: float) -> FitResult:
    """Return the result with predictions that are ``factor`` times as wide, on the scale of h."""
    reason = why_not_widened(result)
    if reason is not None:
        raise InputError(f"the spread of this model cannot change: {reason}")
    c, m = 1.0 / check_factor(factor), _median(result)
    level = level_of(result)[1]
    moved = result.at(np.concatenate([c * result.baseline + (1.0 - c) * m * level, c * result.coef, _kept(result)]))
    atom = result.atom
    if atom:
        atom = float(np.exp(result.link.log_cdf(m + c * (result.link.quantile(atom) - m))))
    scales = np.ones(result.parameters.size)
    scales[: result.baseline.size + result.coef.size] = c
    return replace(
        moved,
        widened=result.widened * check_factor(factor),
        typical=c * result.typical + (1.0 - c) * m * _typical_level(result),
        atom=atom,
        target_shift=None if result.target_shift is None else c * result.target_shift,
        **_certainty(result, scales),
    )


def level_of(result: FitResult) -> tuple[Array, Array]:
    """Return the parameters of the function 1, of one baseline and of all of them."""
    return result.basis.increments.matrix[:, 0], levels_of(result.basis, result.corners)


def levels_of(basis: Basis, corners: Corners | None) -> Array:
    """Return the parameters of the function 1, of all baselines."""
    constant = basis.increments.matrix[:, 0]
    blocks = 1 if corners is None else corners.n_blocks
    levels = 1 if corners is None else corners.n_baselines
    return np.concatenate([np.tile(constant, levels), np.zeros((blocks - levels) * constant.size)])


def _typical_level(result: FitResult) -> Array:
    """Return the same for ``typical``, which is one baseline, or after loading a file all of them."""
    constant, level = level_of(result)
    return constant if result.typical.size == constant.size else level


def shifted(result: FitResult, shift: float) -> FitResult:
    """Return the result with predictions that are higher: the shift is subtracted from h, or added to x'beta + ...

    The linear predictor of a generalised linear model grows by the shift, and the hazards of a partial likelihood
    are multiplied by exp(-shift).
    """
    if result.basis.kind == "constant":
        return replace(result, baseline=result.baseline + shift, typical=result.typical + shift)
    if result.basis.kind == "step":
        steps = result.hazard  # type: ignore[attr-defined]
        factor = math.exp(-shift)
        return replace(result, hazard=steps._replace(jump=factor * steps.jump, tied=factor * steps.tied))  # type: ignore[call-arg]
    atom = result.atom
    if atom:
        atom = float(np.exp(result.link.log_cdf(result.link.quantile(atom) - shift)))
    baseline = result.baseline - shift * level_of(result)[1]
    return replace(result, baseline=baseline, typical=result.typical - shift * _typical_level(result), atom=atom)


def _certainty(result: FitResult, scales: Array) -> dict[str, Any]:
    """Return what standard errors need, after parameters were multiplied by ``scales``."""
    information, jacobian = result.information, result.jacobian
    if isinstance(information, Arrow):
        jacobian = information.coordinates.jacobian
        information = information.toarray()
    sandwich = result.computed.get("sandwich")
    return {
        "information": information,
        "jacobian": None if jacobian is None else scales[:, None] * jacobian,
        "computed": {} if sandwich is None else {"sandwich": np.outer(scales, scales) * sandwich},
    }


def _kept(result: FitResult) -> Any:
    """Return the parameters that a widening leaves as they are: scale effects."""
    return result.others[result.coef.size :]
