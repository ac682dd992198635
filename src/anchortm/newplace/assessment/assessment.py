"""The result of ``assess``: what to do at a new place, and all that the answer rests on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anchortm._messages import shown
from anchortm._typing import AnyTable, Covariates, Numbers, Outcome
from anchortm._util.checks import flag
from anchortm._util.files import write_whole
from anchortm._util.html import report
from anchortm.exceptions import InputError
from anchortm.newplace.assessment.advice import Advice, Recommendation
from anchortm.newplace.assessment.asides import asides
from anchortm.newplace.assessment.calibration import Calibration, ConformalWidth
from anchortm.newplace.assessment.evidence import Evidence, NewPlace, attempted
from anchortm.newplace.assessment.final import Finals
from anchortm.newplace.assessment.held_back import HeldBack, NewRows, held_back
from anchortm.newplace.assessment.labels import NUMBERS, REST, LabelCurve
from anchortm.newplace.assessment.methods import Methods
from anchortm.newplace.assessment.record import record_of
from anchortm.newplace.assessment.sites import Sites
from anchortm.newplace.assessment.text import lines_of, page_of_text
from anchortm.newplace.assessment.views import Effects, Views
from anchortm.newplace.assessment.words import need_sentence, signed
from anchortm.newplace.comparison import Comparison
from anchortm.selection.further import GAIN

__all__ = ["Assessment"]

USUAL = 20  # outcomes of the new place that recalibration is tried with, if the advice names no number


@dataclass(frozen=True, eq=False)
class Assessment:
    """What to do at a new place, and all that the answer rests on. Parts that cannot be computed are None.

    Attributes
    ----------
    recommendation : Recommendation
        The answer: ``strategy``, ``xi`` and ``sentence``, with ``like`` and ``further`` for the two kinds of place.
    comparison : Comparison
        Strategies at left-out places.
    evidence : Evidence
        Score test, mean residuals, first stage and location shift.
    new : NewPlace or None
        How far out the new place is.
    calibration : Calibration or None
        Coverage of intervals for left-out places.
    conformal : ConformalWidth or None
        How wide intervals are that promise coverage at a new place.
    curves : list
        Pairs of a kind of place and a ``LabelCurve``: what outcomes of the new place gain.
    stability : dict
        For each kind of place, how often each strategy is recommended if places are resampled.
    views : Views or None
        Predictions for typical rows at each xi.
    effects : Effects or None
        Effects on the scale of the outcome at each xi.
    methods : Methods
        How this was computed.
    notes : tuple of str
        What could not be computed, and why.
    sites : Sites
        The places.
    held_back : HeldBack or None
        What the new place then showed, if ``with_outcomes`` was called.

    See Also
    --------
    anchortm.assess : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model, formula = atm.OrdinalRegression(), "rating ~ temp + contact | judge"
    >>> found = atm.assess(model, formula, data, strategies=["anchored"])
    >>> found.recommendation.strategy, found.recommendation.xi
    ('ml', 0.0)
    >>> print(found.need_sentence)
    Places differ beyond what the covariates explain (p = 0.005), so something could be gained.
    """

    recommendation: Recommendation
    comparison: Comparison
    evidence: Evidence
    new: NewPlace | None
    calibration: Calibration | None
    conformal: ConformalWidth | None
    curves: list[tuple[str, LabelCurve]]
    stability: dict[str, Any]
    views: Views | None
    effects: Effects | None
    methods: Methods
    notes: tuple[str, ...]
    sites: Sites
    finals: Mapping[str, Finals]
    held_back: HeldBack | None = None
    command: str | None = None

    @property
    def need_sentence(self) -> str:
        """Return whether places differ beyond what the covariates explain, in words."""
        test = self.evidence.test
        return "" if test is None else need_sentence(test.pvalue)

    @property
    def identification(self) -> str | None:
        """Return whether a large xi moves coefficients or only widens predictions, in words; None if unknown."""
        found = self.evidence.identification
        return None if found is None else str(found.sentence)

    def asides(self, design: str) -> list[str]:
        """Return what the strategies show beside the recommendation for one kind of place, in words."""
        advice = getattr(self.recommendation, design)
        strategy = None if advice is None else advice.strategy
        return asides(self.comparison.table(), design, strategy, int((~self.sites.small).sum()))

    @property
    def labels_sentence(self) -> str:
        """Return what outcomes of the new place are worth, in words."""
        parts = []
        words = {"like": "at a place like these", "further": "at a place further out"}
        for design, words_ in words.items():
            rows = [curve.frame().assign(xi=curve.xi) for name, curve in self.curves if name == design and not curve.xi]
            frame = rows[0] if rows else None
            frame = None if frame is None else frame[(frame["m"] > 0) & (frame["sites"] >= 3)]
            if frame is None or frame.empty:
                continue
            last = frame.iloc[-1]
            gain, tried = signed(last["gain"]), f"{last['sites']:.0f} places"
            what = f"{words_}, {last['m']:.0f} outcomes"
            helps = last["gain"] > GAIN
            said = f"gain {gain} per row over maximum likelihood ({tried})"
            parts.append(f"{what} {said if helps else f'do not help ({gain} per row, {tried})'}")
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}." if text else "Too few places are large enough to try this."

    def fit(self) -> Any:
        """Return the recommended model, fitted to all rows.

        If the answer is to recalibrate, this is the model to call ``recalibrate`` of, with the outcomes of the new
        place.
        """
        advice = self.recommendation.main
        finals = self.finals["further" if advice.design == "further" else "like"]
        if advice.strategy in ("anchored", "recalibrate"):  # "anchored" may not be among the strategies by this name
            return finals.at(advice.xi)
        return finals[advice.strategy]

    def with_outcomes(
        self,
        X: Covariates | AnyTable,
        y: Outcome | None = None,
        *,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Assessment:
        """Return the same assessment with what the new place then showed.

        Parameters
        ----------
        X, y : covariates and outcome
            Rows of the new place; after a formula, a table with its outcome alone.
        sample_weight, offset : arrays, optional
            As for ``fit``.

        Returns
        -------
        Assessment
            Its ``held_back`` has the strategies at these rows; it is printed, and shown in the report.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> known, new = data[data.judge < 9], data[data.judge == 9]
        >>> model, formula = atm.OrdinalRegression(), "rating ~ temp + contact | judge"
        >>> found = atm.assess(model, formula, known, strategies=["anchored"])
        >>> found.with_outcomes(new).held_back.frame()[["strategy", "gain"]].round(2).tail(2)
               strategy  gain
        5  anchored(10) -0.43
        6  anchored(30) -0.98
        """
        from anchortm._util.checks import check_weights
        from anchortm.predict.observed import rows_of_table

        advice = self.recommendation.main
        finals = self.finals[advice.design]
        ml = finals["ml"]
        X, y = rows_of_table(ml, X, y)
        response = ml.new_rows_.response(X, y)
        if not len(response):
            raise InputError("there are no rows: pass those of the new place, with their outcomes")
        rows = NewRows(X, y, offset, response, check_weights(sample_weight, len(response)))
        notes: list[str] = []
        tried = self._tried(finals, notes)
        at = advice.xi if advice.strategy == "recalibrate" else 0.0
        m, variance = self._recalibration(advice, at, len(response))
        found = held_back(tried, rows, advice, finals.at(at) if m else ml, m, variance)
        return replace(self, held_back=found, notes=tuple(dict.fromkeys([*self.notes, *notes])))

    def _tried(self, finals: Finals, notes: list[str]) -> dict[str, Any]:
        """Return the strategies, and anchored fits at each xi, fitted to all rows; notes say which failed."""
        calls: dict[str, Any] = {name: partial(finals.__getitem__, name) for name in finals}
        calls |= {f"anchored({xi:g})": partial(finals.at, xi) for xi in self.sites.xis if xi > 0.0 and np.isfinite(xi)}
        made = {name: attempted(f"the strategy {name!r} at the new place", call, notes) for name, call in calls.items()}
        return {name: own for name, own in made.items() if own is not None}

    def _recalibration(self, advice: Advice, xi: float, n: int) -> tuple[int, float]:
        """Return with how many of n outcomes recalibration is tried, and the variance of shifts between places."""
        curve = next((curve for design, curve in self.curves if design == advice.design and curve.xi == xi), None)
        m = advice.labels or advice.collect or USUAL
        if m > n - REST and advice.labels:
            m = max(m for m in (advice.labels, *NUMBERS) if m <= max(n - REST, 0))
        return m, 0.0 if curve is None or not m else curve.sd**2

    def to_dict(self, rows: bool = False) -> dict[str, Any]:
        """Return everything as plain values, as JSON has them; numbers that are not known are None.

        Parameters
        ----------
        rows : bool
            Whether to include places with fewer than 5 rows, and the predictions for single rows. Without them
            everything is an aggregate of at least 5 rows.
        """
        return record_of(self, flag(rows, "rows"))

    def save(self, path: str | os.PathLike[str], rows: bool = False) -> Path:
        """Write everything to a JSON file, whole or not at all; ``rows`` as for ``to_dict``."""
        text = json.dumps(self.to_dict(rows), indent=1, allow_nan=False)
        return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def report(self, path: str | os.PathLike[str], rows: bool = False) -> Path:
        """Write everything to one HTML file that any browser opens from the disk, whole or not at all.

        Its plots are interactive. It has no rows of your data, only aggregates of at least 5 rows, and loads nothing
        from elsewhere.

        Parameters
        ----------
        path : path
            The file, such as "report.html".
        rows : bool
            Whether to include places with fewer than 5 rows, and the predictions for single rows.

        Returns
        -------
        Path
        """
        from anchortm.newplace.report import assessment_page

        text = assessment_page(self.to_dict(rows))
        return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @shown
    def __repr__(self) -> str:
        return page_of_text(self)

    def _repr_html_(self) -> str:
        first, *others = lines_of(self)
        return "\n".join(
            [
                report(first.title, *first.lines),
                *(report(part.title, *part.lines, *([] if part.table is None else [part.table])) for part in others),
            ]
        )
