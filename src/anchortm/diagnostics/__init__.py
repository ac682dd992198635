"""Is anchoring needed, can it work, and did it? What residuals, covariates and predictions show about the anchors."""

from anchortm.diagnostics.coverage import Calibration, calibration
from anchortm.diagnostics.identification import OverIdentification, over_identification
from anchortm.diagnostics.invariance_tests import InvarianceTest
from anchortm.diagnostics.movable import LocationShift, location_shift
from anchortm.diagnostics.parents_result import CausalParents
from anchortm.diagnostics.parents_sensitivity import ParentsSensitivity
from anchortm.diagnostics.relevance import FirstStage, first_stage
from anchortm.diagnostics.residuals import ResidualInvariance, residual_invariance
from anchortm.diagnostics.score_tests import ScoreTest, score_test

__all__ = [
    "Calibration",
    "CausalParents",
    "FirstStage",
    "InvarianceTest",
    "LocationShift",
    "OverIdentification",
    "ParentsSensitivity",
    "ResidualInvariance",
    "ScoreTest",
    "calibration",
    "first_stage",
    "location_shift",
    "over_identification",
    "residual_invariance",
    "score_test",
]


def __dir__() -> list[str]:
    return sorted(__all__)
