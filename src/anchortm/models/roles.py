"""Whether numbers or classes are predicted, as scikit-learn asks."""

from __future__ import annotations

from typing import Any

from anchortm._util.estimators import ClassifierMixin, RegressorMixin
from anchortm.models.base import TransformationModel

__all__ = ["Classifier", "Regressor"]


class Regressor(RegressorMixin):
    """Numbers are predicted, and the score is the log-likelihood, not R^2."""

    score = TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a log-likelihood has no upper limit of 1
        tags.input_tags.sparse = True
        return tags


class Classifier(ClassifierMixin):
    """Classes are predicted, and the score is the log-likelihood, not the accuracy."""

    score = TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags
