"""What the data say before any strategy is compared: their rows, the need for anchoring, and whether it can work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm._util.frames import column_names, is_frame, native, select
from anchortm.diagnostics import first_stage, location_shift, over_identification, score_test
from anchortm.diagnostics.movable import FEWEST as FEWEST_MOVABLE
from anchortm.engine.specification import named_columns
from anchortm.exceptions import AnchorTMError
from anchortm.inputs.design import split_columns
from anchortm.models.given import Given
from anchortm.newplace.assessment.sites import environment_name
from anchortm.selection.further import INSIDE, direction_for
from anchortm.selection.path import anchor_path
from anchortm.selection.places import Places

__all__ = ["Evidence", "NewPlace", "attempted", "covariates_of", "evidence_of", "new_place", "residual_means"]

LARGE = (100.0, 1000.0)  # values of xi that show whether the penalty vanishes
Z = 1.96  # half width of intervals for mean residuals, in standard errors


@dataclass(frozen=True, eq=False)
class Evidence:
    """The need for anchoring, and whether it can work; what cannot be computed is None, and ``notes`` say why.

    Attributes
    ----------
    covariates : list of dict
        One row for each covariate: its mean, standard deviation, and that of its means between places.
    residuals : array of shape (environments, 3)
        Mean score residual of each place under maximum likelihood, and the ends of its 95 % interval.
    test : ScoreTest or None
        Whether the anchors explain more than the covariates do.
    stage : FirstStage or None
        How strongly the anchors shift the covariates.
    location : LocationShift or None
        Whether these shifts predict where the fit errs.
    identification : OverIdentification or None
        Whether there are more directions of the anchors than the model can follow.
    notes : list of str
        What could not be computed, and why.
    """

    covariates: list[dict[str, Any]]
    residuals: Array
    test: Any = None
    stage: Any = None
    location: Any = None
    identification: Any = None
    notes: list[str] = field(default_factory=list)

    @property
    def location_sentence(self) -> str:
        """Return whether anchoring can move predictions, in the words of an assessment; empty if it is not known."""
        return "" if self.location is None else str(self.location.sentence).replace("Environments", "Places")


def attempted(what: str, call: Callable[[], Any], notes: list[str]) -> Any:
    """Return the result of a call; None if it is refused, with a note that says why."""
    try:
        return call()
    except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
        notes.append(f"{what}: {error}")
        return None


def evidence_of(rows: Given, places: Places, ml: Any, cut: int | None, seed: int) -> Evidence:
    """Return what the data say about the need for anchoring, and whether it can work.

    Parameters
    ----------
    rows : Given
        The model and its rows.
    places : Places
        The rows by their places.
    ml : fitted model
        The fit by maximum likelihood to all rows.
    cut : int or None
        Numeric environments were cut into this many groups.
    seed : int
        Seed of simulated tests.
    """
    notes: list[str] = []
    anchors = rows.anchors
    beside = {"sample_weight": rows.sample_weight, "offset": rows.offset}
    test = attempted(
        "score test of invariance",
        lambda: score_test(rows.model, rows.X, rows.y, anchors, random_state=seed, **beside),
        notes,
    )
    found = covariates_of(places)
    stage = location = None
    if found:
        stage = attempted("first stage", lambda: first_stage(_covariates(rows), anchors), notes)
    if found and places.n >= FEWEST_MOVABLE:
        environments = anchors if rows.environments is None else rows.environments
        location = attempted(
            "location shift",
            lambda: location_shift(rows.model, rows.X, rows.y, environments, cut=cut, random_state=seed, **beside),
            notes,
        )
    identification = attempted("over-identification", lambda: _identification(rows, beside), notes) if found else None
    residuals = attempted("mean residuals", lambda: residual_means(rows, places, ml), notes)
    if residuals is None:
        residuals = np.full((places.n, 3), np.nan)
    return Evidence(found, residuals, test, stage, location, identification, notes)


def _covariates(rows: Given) -> Any:
    """Return X without its columns of strata and clusters, which are not covariates."""
    random = getattr(rows.model, "random", None)
    random = random if isinstance(random, str) else list(random or ())
    others = [*named_columns(getattr(rows.model, "strata", None), "strata"), *named_columns(random, "random")]
    return split_columns(native(rows.X), others)[0] if others else rows.X


def _identification(rows: Given, beside: dict[str, Any]) -> Any:
    """Return how coefficients and the spread of predictions change as xi grows."""
    path = anchor_path(rows.model, rows.X, rows.y, rows.anchors, [0.0, *LARGE], **beside)
    return over_identification(path, rows.X)


def residual_means(rows: Given, places: Places, ml: Any) -> Array:
    """Return the mean score residual of each place, and the ends of its 95 % interval."""
    _, at = places.data.at_given(np.arange(places.groups.size))
    r = np.asarray(ml.residuals(rows.X, rows.y, offset=rows.offset))[at]
    mean = places.means(r)
    spread = places.means((r - mean[places.groups]) ** 2)
    count = np.bincount(places.groups, minlength=places.n).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(spread / (count - 1.0))  # NaN with one row
    error[count < 2] = np.nan
    return np.column_stack([mean, mean - Z * error, mean + Z * error])


def covariates_of(places: Places) -> list[dict[str, Any]]:
    """Return the mean and spread of each covariate, over rows and between places."""
    data = places.data.without_wide()
    X, w = np.asarray(data.design.matrix), places.weights
    if X.shape[1] == 0:
        return []
    mean = np.average(X, axis=0, weights=w)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    between = _means(places, X).std(axis=0, ddof=1)
    return [
        {"name": str(name), "mean": float(mean[j]), "sd": float(sd[j]), "between": float(between[j])}
        for j, name in enumerate(data.names[: X.shape[1]])
    ]


def _means(places: Places, X: Array) -> Array:
    """Return the mean of each column in each place."""
    return np.column_stack([places.means(column) for column in X.T])


@dataclass(frozen=True, eq=False)
class NewPlace:
    """How far out the new place is, and in which covariates.

    Attributes
    ----------
    n : int
        Number of its rows.
    distance : float
        How far out it is along the shift that matters for predictions, in standard deviations between places.
    covariates : list of dict
        For each covariate the mean in training and at the new place, the ``shift`` in standard deviations between
        places, and its ``effect`` on the linear predictor of the fit by maximum likelihood.
    beyond : float
        Share of its rows outside the training range; NaN if the ranges are not known.
    uncounted : tuple of str
        Covariates that the distance leaves out, because their effects vary along the outcome.
    together : int
        Number of places that its rows name; 1 if they do not have the column.
    """

    n: int
    distance: float
    covariates: list[dict[str, Any]]
    beyond: float
    uncounted: tuple[str, ...] = ()
    together: int = 1

    @property
    def inside(self) -> bool:
        """Return whether it counts as a place like those of the fit."""
        return abs(self.distance) < INSIDE

    @property
    def sentence(self) -> str:
        """Return the answer in words."""
        far = f"The new place lies {abs(self.distance):.1f} standard deviations from the average place"
        verdict = "it counts as a place like these" if self.inside else "further out than most places"
        most = max(self.covariates, key=lambda own: abs(own["effect"]), default=None)
        cause = rows = ""
        if most is not None and not self.inside:
            cause = f" What moves its predictions most is the shift of {most['name']} ({most['shift']:+.1f} SD)."
        if self.beyond > 0.0:
            rows = f" {self.beyond:.0%} of its rows lie outside the training range of a covariate."
        if self.together > 1:
            rows += f" Its rows are of {self.together} places, taken as one: if these differ, assess each alone."
        return f"{far}: {verdict}.{cause}{rows}{self._caveat}"

    @property
    def short(self) -> str:
        """Return the answer without naming a covariate of its rows."""
        return f"The new place counts as {'a place like these' if self.inside else 'further out'}.{self._caveat}"

    @property
    def _caveat(self) -> str:
        """Return what the distance leaves out, in words."""
        if not self.uncounted:
            return ""
        names, one = ", ".join(self.uncounted), len(self.uncounted) == 1
        return (
            f" This does not count {names}, whose effect{'' if one else 's'} var{'ies' if one else 'y'} along the "
            "outcome: if the place is unusual there, assess it without new and read the answer for a place further out."
        )


def new_place(rows: Given, places: Places, ml: Any, new: Any, cut: int | None) -> NewPlace:
    """Return how far out the new place is.

    Parameters
    ----------
    rows : Given
        The model and its rows.
    places : Places
        The rows by their places.
    ml : fitted model
        The fit by maximum likelihood, which reads new rows.
    new : table or array
        Rows of the new place.
    cut : int or None
        Numeric environments were cut into this many groups.
    """
    direction, means = direction_for(rows, places, new)
    assert means is not None  # noqa: S101
    data = places.data.without_wide()
    X = np.asarray(data.design.matrix)
    own = _means(places, X)
    between = own.std(axis=0, ddof=1)
    centre, coef = own.mean(axis=0), np.nan_to_num(np.asarray(ml.coef_))[: X.shape[1]]
    shift = np.divide(means - centre, between, out=np.zeros_like(centre), where=between > 0.0)
    effect = (means - centre) * coef
    covariates = [
        {
            "name": str(name),
            "training": float(centre[j]),
            "new": float(means[j]),
            "shift": float(shift[j]),
            "effect": float(effect[j]),
        }
        for j, name in enumerate(data.names[: X.shape[1]])
    ]
    beyond = math.nan
    notes: list[str] = []
    outside = attempted("extrapolation", lambda: ml.extrapolation(new), notes)
    if outside is not None:
        beyond = float((outside["covariates"] != "").mean())
    assert direction.new is not None  # noqa: S101
    uncounted = tuple(map(str, places.problem.spec.varying or ()))
    together = 1 if cut is not None else _named_places(rows, native(new))
    return NewPlace(int(_length(new)), direction.new, covariates, beyond, uncounted, together)


def _named_places(rows: Given, new: Any) -> int:
    """Return how many places the new rows name, if they have the column."""
    name = environment_name(rows)
    return int(select(new, [name])[name].nunique()) if is_frame(new) and name in column_names(new) else 1


def _length(table: Any) -> int:
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)
