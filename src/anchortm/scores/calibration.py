"""Calibration: probability integral transforms and the coverage of prediction intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array, Seed, Table
from anchortm._util.checks import generator
from anchortm.inputs.response import Kind, Response
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.fitted import HasRows
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.piecewise import PiecewiseDistribution
from anchortm.predict.survival_steps import StepDistribution
from anchortm.scores.outcomes import check_predicted, exact_values, outcomes_of, predicted

__all__ = ["coverage", "pit"]


def pit(
    distribution: PredictedDistribution | FamilyDistribution | PiecewiseDistribution | HasRows,
    y: ArrayLike | Response | Table,
    random_state: Seed = None,
) -> Array:
    """Return the probability integral transforms, uniform if the predictions are calibrated.

    Exact rows give F(y); censored and discrete rows give a random number between F at their two ends, and outcomes
    that have a probability of their own one between F just below them and F. Pass ``y`` as to ``fit``: numbers,
    classes, counts, ``Surv`` or ``Interval``. Or pass a model that was fitted by a formula and a table.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age", data, order=3)
    >>> u = atm.scores.pit(model, data, random_state=0)
    >>> u.shape, bool((u >= 0).all() and (u <= 1).all())
    ((128,), True)
    """
    found, y = predicted(distribution, y)
    check_predicted(found)
    rows = outcomes_of(found, y)
    exact, atoms = rows.kind == Kind.EXACT, isinstance(found, PiecewiseDistribution)
    lower = np.where(exact, np.nextafter(rows.lower, -np.inf), rows.lower) if atoms else rows.lower
    low, high = (_cdf_at(found, end) for end in (lower, rows.upper))
    if rows.entry is not None or rows.exit is not None:
        nothing = np.full(len(rows), np.inf)
        first = _cdf_at(found, -nothing if rows.entry is None else rows.entry)
        last = _cdf_at(found, nothing if rows.exit is None else rows.exit)
        low, high = ((end - first) / (last - first) for end in (low, high))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    draw = generator(random_state).random(len(rows))
    return np.where(exact & (not atoms), high, low + draw * (high - low))


def _cdf_at(distribution: PredictedDistribution | FamilyDistribution | PiecewiseDistribution, codes: Array) -> Array:
    if not isinstance(distribution, PredictedDistribution):
        return distribution.cdf(codes[:, None])[:, 0]
    if isinstance(distribution, AveragedDistribution):
        parts = [np.exp(log_weight) * _cdf_at(part, codes) for log_weight, part in distribution.parts()]
        return np.asarray(np.sum(parts, axis=0))
    h = distribution.transformation.baseline(codes, np.arange(codes.size)) + distribution.transformation.moved
    return np.exp(distribution.link.log_cdf(h))


def coverage(
    distribution: PredictedDistribution | FamilyDistribution | PiecewiseDistribution | StepDistribution | HasRows,
    y: ArrayLike | Response | Table,
    level: float = 0.9,
) -> Array:
    """Return which known outcomes lie in the central interval of probability ``level``.

    Both ends belong to the interval, also if they are classes. Pass ``y`` as to ``fit``; censored rows are refused. Or
    pass a model that was fitted by a formula and a table.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> distribution = model.predict_distribution(data[["duration"]])
    >>> print(atm.scores.coverage(distribution, data.waiting, level=0.9).mean().round(2))
    0.91
    """
    found, y = predicted(distribution, y)
    check_predicted(found, steps=True)
    values = exact_values(found, y, "coverage")
    low, high = found.interval(level)
    if isinstance(found, PredictedDistribution):  # classes become their positions
        low, high = found.codes(low), found.codes(high)
    return np.asarray((values >= low) & (values <= high))
