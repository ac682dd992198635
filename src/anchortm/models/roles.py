"""Mixins that tell scikit-learn whether a model predicts numbers or classes."""

from __future__ import annotations

from typing import Any

from anchortm._util.estimators import ClassifierMixin, RegressorMixin
from anchortm.models.base import TransformationModel

__all__ = ["Classifier", "Regressor"]


class Regressor(RegressorMixin):
    """A model that predicts numbers. Its score is the mean log-likelihood, not R^2."""

    score = TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a log-likelihood has no upper limit of 1
        tags.input_tags.sparse = True
        return tags


class Classifier(ClassifierMixin):
    """A model that predicts classes. Its score is the mean log-likelihood, not the accuracy."""

    score = TransformationModel.score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags
