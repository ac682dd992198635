"""``assess``: one call that says whether anything helps at a new place, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from anchortm._messages import warn
from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import jobs, whole_number
from anchortm._util.frames import native
from anchortm._util.progress import Task
from anchortm.exceptions import AnchorTMError, InputError
from anchortm.inputs.missing import rows_taken
from anchortm.models.base import TransformationModel
from anchortm.models.given import given
from anchortm.newplace.assessment import calibration as calibrations
from anchortm.newplace.assessment import rule, stability
from anchortm.newplace.assessment import views as pictures
from anchortm.newplace.assessment.advice import Recommendation
from anchortm.newplace.assessment.assessment import Assessment
from anchortm.newplace.assessment.evidence import NewPlace, attempted, evidence_of, new_place
from anchortm.newplace.assessment.final import Finals
from anchortm.newplace.assessment.labels import NUMBERS, LabelCurve, curve_further, curve_like
from anchortm.newplace.assessment.methods import Methods
from anchortm.newplace.assessment.sites import Sites, environment_name
from anchortm.newplace.compare import Asked, Compared, check_compared, compared, warn_of_single_rows
from anchortm.newplace.place_variance import check_places
from anchortm.newplace.scoring import listed
from anchortm.newplace.strategies import DEFAULT, STRATEGIES, Strategy, as_strategy
from anchortm.selection.designs import FEWEST, SHARES, further
from anchortm.selection.further import without_gaps

__all__ = ["assess"]

DESIGNS = ("like", "further")


def assess(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    environments: Labels | None = None,
    *,
    new: Covariates | AnyTable | None = None,
    labels: int | None = None,
    strategies: Sequence[str | Strategy] | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    cut: int | None = None,
    min_rows: int = 10,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool | None = None,
) -> Assessment:
    """Return whether anything helps at a new place, what to do, and why.

    Parameters
    ----------
    model : estimator
        Any model of this package except boosted ones. It is not changed; its own xi is not used.
    X, y : covariates and outcome
        As for ``fit``; or a formula and a table.
    anchors : array, frame or list of columns, optional
        Anchors of the fits; by default the environments.
    environments : array, or column name of a table, optional
        The place of each row; by default the anchors.
    new : array or frame, optional
        Rows of the new place, without outcomes. They show how far out it is, and so which question to answer: what
        to do at a place like these, or further out. Without them both are answered. If the model has
        ``missing="drop"``, rows with missing values are left out.
    labels : int, optional
        How many outcomes of the new place you have, or can get. The answer then says whether to recalibrate with
        them. Without it the answer says how many would be worth collecting.
    strategies : sequence of str or Strategy, optional
        What to compare; see ``compare_strategies``.
    sample_weight, offset, cut, min_rows
        As for ``compare_strategies``.
    n_jobs : int, optional
        Number of processes; -1 uses all cores.
    random_state : int
        Seed of all random draws. The default gives the same answer each time.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal or notebook.

    Returns
    -------
    Assessment
        It prints as a page of text; ``report`` writes a page for browsers.

    See Also
    --------
    anchortm.compare_strategies : the comparison that the answer rests on

    Notes
    -----
    Nothing new is estimated here: the answer puts together score test, first stage, comparison of strategies,
    calibration, conformal sets and recalibration, all at left-out environments. The rule is explained in the guide,
    under "Assessing a new place".

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model, formula = atm.OrdinalRegression(), "rating ~ temp + contact | judge"
    >>> found = atm.assess(model, formula, data, strategies=["anchored"])
    >>> print(found.recommendation.like.headline)
    The data do not decide, so keep maximum likelihood
    """
    check_compared(model, "assess")
    asked_labels = None if labels is None else whole_number(labels, "labels", 1)
    whole_number(random_state, "random_state", 0)
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    if rows.batched:
        raise InputError("assess needs the rows in memory: read the table first")
    asked = Asked(strategies, [], cut, whole_number(min_rows, "min_rows", 1), jobs(n_jobs), random_state, None)
    formula = X if isinstance(X, str) else None
    source = pictures.Source(formula, native(y if isinstance(X, str) else X))
    inputs = {"anchors": anchors, "environments": environments, "sample_weight": sample_weight, "offset": offset}
    inputs |= {"new": new, "labels": asked_labels, "strategies": strategies, "cut": cut}
    inputs |= {"min_rows": None if min_rows == 10 else min_rows, "random_state": random_state or None}
    warn_of_single_rows(rows, cut)
    new = without_gaps(rows.model, rows.formula, new)
    with Task("assessment", 5, progress) as task, _once(), rows.screened():
        base = compared(rows, asked, None, new)
        task.step()
        raw = {"X": X, "y": y, "anchors": anchors, "environments": environments}
        raw |= {"sample_weight": sample_weight, "offset": offset}
        if rows.missing is not None and rows.missing.rows is not None:
            n, kept = rows.missing.counts.n_rows, rows.missing.rows
            raw = {name: rows_taken(name, values, n, kept) for name, values in raw.items()}
        run = _Run(base, model, raw, asked, asked_labels, source, new, [])
        about = Methods.of(base.places, model, formula, inputs, random_state)
        return run.assessment(task, about)


@contextmanager
def _once() -> Iterator[None]:
    """Show each warning once, although several parts may raise it."""
    with catch_warnings(record=True) as found:
        simplefilter("always")
        yield
    for one in dict.fromkeys((str(caught.message), caught.category) for caught in found):
        warn(*one)


@dataclass(frozen=True, eq=False)
class _Run:
    """One assessment: the comparison, and what the other parts need."""

    base: Compared
    model: Any
    raw: dict[str, Any]
    asked: Asked
    labels: int | None
    source: pictures.Source
    new: Any
    notes: list[str]

    def assessment(self, task: Task, about: Methods) -> Assessment:
        """Return all parts of the answer."""
        base, places, seed = self.base, self.base.places, self.asked.seed
        like, far = (Finals(base, design, self._strategies(), self.asked.min_rows) for design in DESIGNS)
        ml = like.at(0.0)
        evidence = evidence_of(base.rows, places, like.ml, self.asked.cut, seed)
        self.notes.extend(evidence.notes)
        place = self._new_place(ml)
        task.step(label="assessment")
        recommendation, label_curves, stable = self._recommendation(like, ml, place)
        task.step()
        xis = list(dict.fromkeys([0.0, *(advice.xi for advice in recommendation.given)]))
        calibrated = self._try(
            "calibration",
            lambda: calibrations.calibration(base.rows, places, xis, self.asked.cut, self.asked.n_jobs, seed),
        )
        promise = self._try(
            "conformal intervals",
            lambda: calibrations.conformal_width(self.model, self.raw, self._at(), self.asked.cut, seed),
        )
        task.step()
        drawn, moved = self._pictures(like, ml)
        task.step()
        return Assessment(
            recommendation=recommendation,
            comparison=base.comparison,
            evidence=evidence,
            new=place,
            calibration=calibrated,
            conformal=promise,
            curves=label_curves,
            stability=stable,
            views=drawn,
            effects=moved,
            methods=about,
            notes=tuple(dict.fromkeys(self.notes)),
            sites=Sites.of(base, self.asked.min_rows, ml),
            finals={"like": like, "further": far},
        )

    def _strategies(self) -> dict[str, Strategy]:
        wanted = self.asked.strategies
        wanted = [wanted] if isinstance(wanted, Strategy) else DEFAULT if wanted is None else wanted
        found = [as_strategy(one) for one in listed(wanted, "strategies", DEFAULT)]
        return {one.name: one for one in (STRATEGIES["ml"], *found) if one.name != "null"}

    def _try(self, what: str, call: Callable[[], Any]) -> Any:
        return attempted(what, call, self.notes)

    def _at(self) -> Any:
        """Return rows at which widths are measured: those of the new place, or all that the fits use."""
        used = np.sort(self.base.places.data.rows_used)
        return self.source.given(self.source.columns.iloc[used]) if self.new is None else self.new

    def _new_place(self, ml: Any) -> NewPlace | None:
        """Return how far out the new place is."""
        if self.new is None:
            return None
        return new_place(self.base.rows, self.base.places, ml, self.new, self.asked.cut)

    def _recommendation(
        self, like: Finals, ml: Any, place: NewPlace | None
    ) -> tuple[Recommendation, list[tuple[str, LabelCurve]], dict[str, Any]]:
        """Return the answer, the curves of labels with their designs, and how stable the answer is."""
        found, n, seed = self.base.comparison, self.base.places.n, self.asked.seed
        stable: dict[str, Any] = {"like": stability.stability_like(found, seed), "further": None}
        if self.base.tuning is not None:
            stable["further"] = stability.stability_further(self.base.tuning, seed)
        near = rule.advice_like(found, like, stable["like"])
        far = rule.advice_further(found, n, stable["further"])
        curves = self._curves(ml, far.xi)
        near = rule.with_labels(near, [one for design, one in curves if design == "like"], self.labels)
        far = rule.with_labels(far, [one for design, one in curves if design == "further"], self.labels)
        kind = "both" if place is None else "like" if place.inside else "further"
        return Recommendation(kind, near, far), curves, stable

    def _curves(self, ml: Any, xi: float) -> list[tuple[str, LabelCurve]]:
        """Return what outcomes of the new place gain, for each kind of place."""
        places, jobs_, seed = self.base.places, self.asked.n_jobs, self.asked.seed
        if not np.isfinite(places.xis).all():  # a fit at xi = inf may not exist, and none is recalibrated
            places = replace(places, xis=[own for own in places.xis if np.isfinite(own)])
        numbers = sorted({*NUMBERS, *([] if self.labels is None else [self.labels])})
        spec = places.problem.spec
        try:
            check_places(spec, ml.result_.link, True)
        except AnchorTMError as error:
            self.notes.append(f"recalibration: {error}")
            return []
        found = [("like", self._try("recalibration", lambda: curve_like(places, numbers, jobs_, seed)))]
        if self.base.direction is not None and places.n >= FEWEST:
            folds = [fold for fold in further(places, self.base.direction) if fold.share == max(SHARES)]
            for at in dict.fromkeys([0.0, xi]):
                call = partial(curve_further, places, folds, at, numbers, jobs_, seed)
                found.append(("further", self._try("recalibration further out", call)))
        return [(design, curve) for design, curve in found if curve is not None]

    def _pictures(self, like: Finals, ml: Any) -> tuple[Any, Any]:
        """Return predictions for typical rows, and effects, at each xi."""
        places, name = self.base.places, ml.result_.outcome_name
        models = {}
        for xi in pictures.XIS:
            fitted = self._try(f"fit at xi = {xi:g}", partial(like.at, xi))
            if fitted is not None:
                models[xi] = fitted
        called = environment_name(self.base.rows)
        rows = self._try("profiles", lambda: pictures.profiles(places, ml, self.source, self.new, called))
        drawn = None if rows is None else self._try("views", lambda: pictures.views(models, rows, places, name))
        moved = self._try("effects", lambda: pictures.effects(models, self.source, places, self.asked.seed))
        return drawn, moved
