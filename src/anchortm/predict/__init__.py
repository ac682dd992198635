"""Predicted distributions."""

from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.survival_steps import StepDistribution

__all__ = ["AveragedDistribution", "FamilyDistribution", "PredictedDistribution", "StepDistribution"]
