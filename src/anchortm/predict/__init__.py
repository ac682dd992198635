"""Predicted distributions."""

from anchortm.engine.place_variance import PlaceVariance
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.family import AveragedFamily, FamilyDistribution
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.marked import MarkedDistribution
from anchortm.predict.piecewise import PiecewiseDistribution
from anchortm.predict.protocol import Distribution
from anchortm.predict.shifted_family import ShiftedFamily
from anchortm.predict.survival_steps import StepDistribution

__all__ = [
    "AveragedDistribution",
    "AveragedFamily",
    "Distribution",
    "FamilyDistribution",
    "MarkedDistribution",
    "PiecewiseDistribution",
    "PlaceVariance",
    "PredictedDistribution",
    "ShiftedFamily",
    "StepDistribution",
]
