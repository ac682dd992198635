"""The recommendation for a place further out than those of the fit, from the outermost environments left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.frames import native, take
from anchortm._util.pipelines import is_pipeline
from anchortm.exceptions import AnchorTMError, InputError
from anchortm.inputs.formula import Formula
from anchortm.models.given import Given, whole_new
from anchortm.selection.designs import FEWEST, SHARES, Direction, direction_of, distances, further
from anchortm.selection.places import Out, Places, places_of
from anchortm.selection.tuning import Tuning, best_factor

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ANCHORED",
    "GAIN",
    "INSIDE",
    "ByExtremes",
    "Further",
    "choose_further",
    "direction_for",
    "further_verdict",
    "graded",
    "without_gaps",
]

INSIDE = 1.0  # standard deviations between environments within which a new place is like them
GAIN = 0.01  # a smaller change of the negative log-likelihood does not count
ANCHORED = ("confident", "tentative")  # the grades that support anchoring


@dataclass(frozen=True, eq=False)
class Further:
    """The recommendation for a place further out, and the folds that it rests on.

    Attributes
    ----------
    strategy : {"anchored", "ml"}
        What to use.
    confidence : {"confident", "tentative", "keep", "undecided", "inside", "untried"}
        "confident": all four folds gain. "tentative": both folds on the side of the new place gain, more than by a
        wider spread. "keep": no fold clearly supports anchoring. "undecided": some folds gain and others lose.
        "inside": the new place lies among those of the fit, so that the question does not arise. "untried": no
        strategy has an xi to choose.
    xi : float
        The value with the smallest mean loss over the folds; 0 for maximum likelihood.
    folds : DataFrame
        What was left out, how far out it is, and the gain there at the xi with the smallest mean loss and by another
        spread.
    distance : float or None
        How far out the new place is, in standard deviations between environments.
    """

    strategy: str
    confidence: str
    xi: float
    folds: pd.DataFrame
    distance: float | None = None

    @property
    def width_alone(self) -> bool:
        """Return whether maximum likelihood with a wider spread gains as much on the folds, on average."""
        return bool(self.folds["gain_widened"].mean() >= self.folds["gain"].mean())

    @property
    def sentence(self) -> str:
        """Return the recommendation in words."""
        width = "; over all folds a wider spread alone gains as much" if self.width_alone else ""
        far = "" if self.distance is None else f" (the new place is {abs(self.distance):.1f} SD out)"
        gains = ", ".join(f"{gain:+.2f}" for gain in self.folds["gain"])
        match self.confidence:
            case "confident":
                what = f"anchored, xi = {self.xi:g}; all {len(self.folds)} folds gain ({gains}){width}"
            case "tentative":
                own = ", ".join(f"{gain:+.2f}" for gain in self.folds.loc[self.folds["side"] == "same", "gain"])
                what = f"anchored, xi = {self.xi:g}, tentatively; the folds on its side gain ({own}){width}"
            case "inside":
                what = "the new place is not further out than those of the fit, so it counts as a place like these"
            case "untried":
                what = "no strategy with an xi was compared"
            case "undecided":
                at = f"{self.folds['xi'].iloc[0]:g}"
                what = f"the data do not decide, keep maximum likelihood; gains by fold at xi = {at} are {gains}"
            case _:
                what = "keep maximum likelihood; anchoring gains nothing on the outermost places"
        return f"further out{far}: {what}"


def further_verdict(tuning: Tuning, numbers: list[int], direction: Direction, out: Out = frozenset()) -> Further:
    """Return the graded rule for a place further out, from the losses of four folds of outermost environments.

    ``numbers`` are those of the xi to choose from.
    """
    import pandas as pd

    losses = np.array([tuning.losses(k) for k in numbers])
    at = int(np.nanargmin(losses.mean(axis=1))) if np.isfinite(losses).any() else 0
    gain: Array = losses[0] - losses[at]
    factor, wider = 1.0, np.zeros(gain.size)
    if tuning.has_spread:
        factor = best_factor(tuning, 0, None, np.ones(gain.size, dtype=bool))
        wider = losses[0] - tuning.losses(0, factor)
    folds = pd.DataFrame(
        {
            "direction": direction.name,
            "side": [fold.side for fold in tuning.folds],
            "share": [fold.share for fold in tuning.folds],
            "environments": [len(fold.out - out) for fold in tuning.folds],
            "distance": [distances(direction, fold, out) for fold in tuning.folds],
            "xi": tuning.xis[numbers[at]],
            "gain": gain,
            "gain_widened": wider,
        }
    )
    xi = tuning.xis[numbers[at]]
    confidence = graded(gain, wider, (folds["side"] == "same").to_numpy(), xi)
    if direction.new is not None and abs(direction.new) < INSIDE:
        confidence = "inside"
    elif len(numbers) < 2:
        confidence = "untried"
    anchored = confidence in ANCHORED
    return Further("anchored" if anchored else "ml", confidence, xi if anchored else 0.0, folds, direction.new)


def graded(gain: Array, wider: Array, same: NDArray[np.bool_], xi: float) -> str:
    """Return how sure the folds are of anchoring, by their gains at the best xi, and by those of a wider spread.

    A fold that could not be fitted supports nothing: all four must gain, or both on the side of the new place.
    """
    if xi == 0.0 or not np.isfinite(gain).all():
        return "keep"
    if gain.size == 2 * len(SHARES) and (gain > GAIN).all():
        return "confident"
    if same.sum() == len(SHARES) and (gain[same] > GAIN).all() and gain[same].mean() > wider[same].mean():
        return "tentative"
    return "undecided" if (gain > GAIN).any() and (gain < -GAIN).any() else "keep"


def without_gaps(model: Any, formula: Formula | None, new: Any) -> Any:
    """Return the rows of the new place without those that have missing covariates, if the model drops such rows."""
    kept = None if new is None else whole_new(model, formula, new, "new")
    return new if kept is None else take(native(new), kept)


def direction_for(rows: Given, places: Places, new: Any) -> tuple[Direction, Array | None]:
    """Return the direction in which environments are left out, and the mean covariates of the new place, if any.

    ``new`` are rows of the new place, which the maximum-likelihood fit to all rows reads.
    """
    problem = places.problem.at(xi=0.0)
    ml = rows.reading(rows.model.with_result(problem, problem.fit(), xi=0.0), problem)
    means = None
    if new is not None:
        try:
            matrix = ml.new_rows_.matrix(new)
        except AnchorTMError as error:
            raise type(error)(f"new: {error}") from None
        if not matrix.shape[0]:
            raise InputError("new has no rows: pass rows of the new place, without outcomes")
        means = np.asarray(matrix.mean(axis=0))
    return direction_of(places, np.asarray(ml.coef_), new=means), means


class ByExtremes(NamedTuple):
    """The choice of xi by the outermost environments.

    Attributes
    ----------
    xi : float
        The xi that the folds support; else the smallest of those to choose from.
    smallest : float
        The xi with the smallest mean loss over the folds.
    table : DataFrame
        For each xi the mean loss over the folds, its difference from xi = 0, and the loss of each fold.
    verdict : Further
        What the folds recommend.
    """

    xi: float
    smallest: float
    table: pd.DataFrame
    verdict: Further


def choose_further(
    rows: Given, xis: list[float], new: Any, cut: int | None, n_jobs: int | None, progress: bool | None
) -> ByExtremes:
    """Return the choice of xi by leaving out the outermost environments."""
    import pandas as pd

    if hasattr(rows.model, "learner") or is_pipeline(rows.model):
        raise InputError("design='further' takes models without trees and transformers: use design='like' for others")
    whole = sorted({0.0, *xis})
    with rows.screened():
        rows, places = places_of(rows, whole, cut)
        if places.n < FEWEST:
            raise InputError(f"there are {places.n} environments: design='further' needs at least {FEWEST}; use 'like'")
        direction, _ = direction_for(rows, places, new)
        folds = further(places, direction)
        records = places.records([fold.out for fold in folds], n_jobs, "outermost environments", progress)
    tuning = Tuning.of(places, frozenset(), folds, records)
    verdict = further_verdict(tuning, list(range(len(whole))), direction)
    losses = np.array([tuning.losses(k) for k in range(len(whole))])
    mean = losses.mean(axis=1)
    table = pd.DataFrame({"objective": mean, "difference": mean - mean[0]}, index=pd.Index(whole, name="xi"))
    for fold, loss in zip(tuning.folds, losses.T, strict=True):
        table[f"{fold.side} {fold.share:.0%}"] = loss
    smallest = float(min(xis, key=lambda xi: float(table.objective[xi])))
    return ByExtremes(verdict.xi if verdict.xi in xis else min(xis), smallest, table.loc[sorted(set(xis))], verdict)
