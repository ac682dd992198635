"""What a fitted conformal predictor says about itself: its threshold, its promise, its places."""

from __future__ import annotations

import math
from typing import Any, Self

from numpy.typing import NDArray

from anchortm._messages import shown, warn
from anchortm._util.estimators import BaseEstimator
from anchortm._util.html import EstimatorInNotebook, report
from anchortm._util.pipelines import model_of
from anchortm.exceptions import AnchorTMWarning
from anchortm.models.attributes import not_fitted
from anchortm.newplace.conformal_fits import Calibration
from anchortm.newplace.conformal_scores import Promise
from anchortm.newplace.conformal_words import facts_of, percent, promised, why_infinite

__all__ = ["Calibrated"]


class Calibrated(EstimatorInNotebook, BaseEstimator):
    """An estimator that holds a calibration, and what follows from it."""

    level: float
    guarantee: str
    share: float
    _calibration: Calibration | None = None

    def with_calibration(self, calibration: Calibration) -> Self:
        """Return the predictor with fits and scores from elsewhere, such as a file."""
        self._calibration = calibration
        return self

    def _promise(self) -> Promise:
        return Promise.checked(self.guarantee, self.level, self.share)

    def __sklearn_is_fitted__(self) -> bool:
        return self._calibration is not None

    @property
    def calibration_(self) -> Calibration:
        """Return the fits and the scores of rows that they have not seen."""
        if self._calibration is None:
            raise not_fitted(self)
        return self._calibration

    @property
    def model_(self) -> Any:
        """Return the fitted model: to half of the places with "split", else to all of them."""
        return self.calibration_.model

    @property
    def threshold_(self) -> float:
        """Return the largest score of outcomes that belong to the sets; of lower bounds if outcomes are censored."""
        found = self.calibration_
        return found.threshold(self._promise(), not found.censored)

    @property
    def nominal_level_(self) -> float:
        """Return the level that the model's own intervals, or lower bounds, need to keep the promise."""
        return -math.expm1(-self.threshold_)

    @property
    def places_needed_(self) -> int:
        """Return the smallest number of calibration places; with fewer, sets are infinite."""
        return self._promise().needed

    @property
    def training_environments_(self) -> NDArray[Any]:
        """Return the places that the model is fitted to."""
        return self.calibration_.training

    @property
    def calibration_environments_(self) -> NDArray[Any]:
        """Return the places whose rows were scored."""
        return self.calibration_.places

    @property
    def notes_(self) -> tuple[str, ...]:
        """Return which rows and places count as not covered, because they could not be predicted."""
        return self.calibration_.notes

    @property
    def approximate_(self) -> bool:
        """Return whether the promise holds only approximately."""
        return self.calibration_.method == "full"

    @property
    def guarantee_(self) -> str:
        """Return what is promised."""
        return promised(self._promise(), self.calibration_.method)

    def warn_if_infinite(self, both: bool | None = None) -> None:
        """Warn if sets are infinite, and say why.

        Parameters
        ----------
        both : bool, optional
            Whether sets have both ends; by default if no outcomes are censored.
        """
        found = self.calibration_
        why = why_infinite(found, self._promise(), not found.censored if both is None else both)
        if why:
            warn(why, AnchorTMWarning)

    def facts(self) -> dict[str, str]:
        """Return what the sets promise and what they are made from, in words.

        Returns
        -------
        dict of str
        """
        return facts_of(self.calibration_, self._promise())

    def _title(self) -> str:
        found = self.calibration_
        model, numbers = type(model_of(found.model)).__name__, found.scale in ("continuous", "time")
        kind = "lower bounds" if found.censored else "intervals" if numbers else "sets"
        return f"ConformalPredictor({model}, {found.method}): {percent(float(self.level))} {kind} for new places"

    @shown
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if self._calibration is None:
            return super().__repr__(N_CHAR_MAX)
        lines = [f"  {name:<8}  {text}" for name, text in self.facts().items()]
        return "\n".join([self._title(), *lines])

    def _found(self) -> str | None:
        return None if self._calibration is None else report(self._title(), self.facts())
