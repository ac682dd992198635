"""The rule: what to do at a new place, from what left-out places showed.

For a place like those of the fit:

1. Maximum likelihood, unless another strategy is better on average over left-out places by more than chance
   (simultaneous p-value below 0.05): "clear".
2. If the best of them gains more than 0.01 on average, but not by more than chance, the data do not decide.

For a place further out: the graded rule of the comparison (``anchortm.selection.further``).

For both: if outcomes of the new place are at hand, recalibrate with them if this gains more than 0.01, more than its
standard error over left-out places, and more than the strategy that is recommended otherwise. If none are, say how many
are worth collecting: the smallest number that brings 80 % of what the best number brings at the same places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.newplace.assessment.advice import Advice
from anchortm.newplace.assessment.labels import LabelCurve
from anchortm.newplace.assessment.stability import fitted_differences
from anchortm.newplace.assessment.words import signed
from anchortm.newplace.comparison import Comparison
from anchortm.newplace.paired import FEWEST as FEWEST_PAIRED
from anchortm.newplace.paired import paired
from anchortm.selection.designs import FEWEST
from anchortm.selection.further import ANCHORED, GAIN, Further

__all__ = ["advice_further", "advice_like", "too_few", "with_labels"]

SHARE = 0.8  # share of the largest gain that a smaller number of outcomes must reach to be recommended
FEWEST_SITES = 5  # places at which a number of outcomes must have been tried before it is recommended
LEVEL = 0.9  # level of intervals
DRAWS = 2000
TUNED = ("anchored", "anchored+spread", "widened")  # they may end up as maximum likelihood itself


def advice_like(found: Comparison, finals: Mapping[str, Any], stability: Mapping[str, float] | None) -> Advice:
    """Return the advice for a place like those of the fit.

    Parameters
    ----------
    found : Comparison
        Strategies compared at left-out places.
    finals : mapping
        The strategies fitted to all rows, by name; it is asked for the strategy that is recommended only.
    stability : mapping or None
        How often each strategy is recommended over draws of places.
    """
    names, regret = fitted_differences(found)
    n = regret.shape[1] if names else 0
    if n == 0:
        return Advice("like", confidence="untried", reasons=("No other strategy could be compared.",))
    if n < FEWEST_PAIRED:
        text = f"With {n} places no comparison can be clear; {FEWEST_PAIRED} are needed."
        return Advice("like", confidence="undecided", reasons=(text,))
    gains, test, taken = -regret.mean(axis=1), paired(regret), found.verdict.like
    best = int(np.argmax(gains))
    if taken is None or taken == "ml":
        undecided = gains[best] > GAIN
        advice = Advice("like", confidence="undecided" if undecided else "keep")
        own = regret[best]
        if undecided:
            text = (
                f"{_called(names[best])} gains {gains[best]:.2f} per row on average over {n} left-out places "
                f"({int((own < 0.0).sum())} gain, {int((own > 0.0).sum())} lose), but that may be chance "
                f"(p = {test.pvalue[best]:.2g})."
            )
        else:
            text = (
                f"No strategy predicts the {n} left-out places better than maximum likelihood by more than {GAIN:g} "
                f"per row on average (the best, {names[best]!r}, changes it by {_small(gains[best])})."
            )
        return replace(advice, reasons=(text,), stability=_share("ml", stability))
    k = names.index(taken)
    final = finals[taken]
    text = (
        f"{_called(taken)} predicts {int((regret[k] < 0.0).sum())} of {n} left-out places better than maximum "
        f"likelihood, on average by more than chance (p = {test.pvalue[k]:.2g})."
    )
    xi, factor = float(getattr(final, "xi_", 0.0)), float(getattr(final, "widened_", 1.0))
    if taken in TUNED and xi == 0.0 and f"{factor:.2g}" == "1":
        return Advice("like", reasons=(text, "But tuned on all places, it is maximum likelihood itself."))
    return Advice(
        "like",
        taken,
        xi,
        "clear",
        float(gains[k]),
        _interval(-regret[k]),
        f"{LEVEL:.0%} bootstrap interval over places",
        factor,
        stability=_share(taken, stability),
        reasons=(text,),
    )


def advice_further(found: Comparison, n: int, stability: Mapping[str, float] | None) -> Advice:
    """Return the advice for a place further out; ``n`` is the number of places."""
    further = found.verdict.further
    if further is None:
        failed = "No fit without the outermost places succeeded."
        return too_few(n) if n < FEWEST else Advice("further", confidence="untried", reasons=(failed,))
    stable = _share(further.strategy, stability)
    advice = Advice("further", further.strategy, further.xi, further.confidence, stability=stable)
    if further.confidence in ANCHORED:
        gains = _nested(found, further)
        if gains.size:
            ends = (float(gains.min()), float(gains.max()))
            said = "range over folds that leave the outermost places out, xi chosen without them"
            advice = replace(advice, gain=float(gains.mean()), interval=ends, interval_is=said)
    return replace(advice, reasons=tuple(_why_further(further)))


def too_few(n: int) -> Advice:
    """Return that nothing can be said about a place further out."""
    text = (
        f"There are {n} places, and {FEWEST} are needed to leave the outermost ones out, so nothing can be said about "
        "a place further out."
    )
    return Advice("further", confidence="undecided", reasons=(text,))


def with_labels(advice: Advice, curves: Sequence[LabelCurve], labels: int | None) -> Advice:
    """Return the advice, with what outcomes of the new place add.

    Parameters
    ----------
    advice : Advice
        What to do without them.
    curves : sequence of LabelCurve
        What outcomes gain at left-out places of this kind, for fits at one xi or several.
    labels : int or None
        How many you have; None if you have none and want their number to be recommended.
    """
    if not curves:
        return advice
    if labels is None:
        return _collecting(advice, curves)
    most = [m for m in curves[0].gains if 0 < m <= labels and curves[0].sites(m) >= FEWEST_SITES]
    if not most:
        text = f"Recalibration with {labels} outcomes could not be tried: too few places have that many rows to spare."
        return replace(advice, reasons=(*advice.reasons, text))
    m = max(most)
    best = max(curves, key=lambda curve: curve.at(m)[0])
    gain, se = best.at(m)
    tried = f"{m} of the rows of a left-out place" if m == labels else f"{m} rows (the most that could be tried)"
    if not (gain > GAIN and gain > se and gain > np.nan_to_num(advice.gain, nan=0.0)):
        text = (
            f"Recalibration with {tried} changes the log-likelihood per row by {signed(gain, 3)} (standard error "
            f"{se:.3f}): that is not clear enough."
        )
        return replace(advice, reasons=(*advice.reasons, text))
    text = (
        f"Recalibration with {tried} gains {signed(gain)} per row (standard error {se:.2f}, {best.sites(m)} places): "
        "places differ by a shift that a few outcomes show."
    )
    ends = (gain - 1.645 * se, gain + 1.645 * se)
    return replace(
        advice,
        strategy="recalibrate",
        xi=best.xi,
        confidence="clear",
        gain=gain,
        interval=ends,
        interval_is=f"{LEVEL:.0%} interval over places",
        factor=1.0,
        stability=math.nan,
        reasons=(text, *advice.reasons),
        labels=labels,
    )


def _collecting(advice: Advice, curves: Sequence[LabelCurve]) -> Advice:
    """Return the advice with the number of outcomes that is worth collecting, if any number is."""
    clear: dict[int, LabelCurve] = {}
    for m in curves[0].gains:
        best = max(curves, key=lambda curve: float(np.nan_to_num(curve.at(m)[0], nan=-math.inf)))
        gain, se = best.at(m)
        if m and best.sites(m) >= FEWEST_SITES and gain > max(GAIN, se, np.nan_to_num(advice.gain, nan=0.0)):
            clear[m] = best
    if not clear:
        return advice
    most = max(clear, key=lambda m: clear[m].at(m)[0])

    def enough(m: int) -> bool:
        """Return whether m outcomes bring most of the largest gain, at places that tried both numbers."""
        own, largest = clear[m].gains[m], clear[most].gains[most]
        both = np.isfinite(own) & np.isfinite(largest)
        return bool(own[both].mean() >= SHARE * largest[both].mean())

    m = min(m for m in clear if m == most or (m < most and enough(m)))
    gain, se = clear[m].at(m)
    text = (
        f"About {m} outcomes of the new place would gain {signed(gain)} per row over maximum likelihood (standard "
        f"error {se:.2f}, tried at {clear[m].sites(m)} left-out places): recalibrate the fit "
        f"{f'at xi = {clear[m].xi:g}' if clear[m].xi else 'by maximum likelihood'} with them."
    )
    added = replace(advice, collect=m, collect_gain=gain, collect_xi=clear[m].xi)
    return replace(added, reasons=(*advice.reasons, text))


def _why_further(further: Further) -> list[str]:
    """Return why the graded rule says what it says."""
    gains = ", ".join(signed(gain) for gain in further.folds["gain"])
    at = f"at xi = {further.folds['xi'].iloc[0]:g}"
    n = len(further.folds)
    match further.confidence:
        case "confident":
            lines = [f"All {n} folds that leave the outermost places out gain {at}: {gains}."]
        case "tentative":
            own = ", ".join(signed(gain) for gain in further.folds.loc[further.folds["side"] == "same", "gain"])
            lines = [f"Both folds on the side of the new place gain {at} ({own}), more than by a wider spread alone."]
        case "undecided":
            lines = [f"The folds that leave the outermost places out disagree {at}: their gains are {gains}."]
        case "inside":
            lines = ["The new place lies among those of the fit, so it counts as a place like these."]
        case "untried":
            lines = ["No strategy with an xi was compared."]
        case _ if further.folds["xi"].iloc[0] == 0.0:
            lines = ["Where the outermost places are left out, no xi above 0 gains on average."]
        case _:
            lines = [f"The folds that leave the outermost places out do not support anchoring (gains {at}: {gains})."]
    if further.confidence in ANCHORED and further.width_alone:
        lines.append("Over all folds a wider spread alone gains as much.")
    return lines


def _nested(found: Comparison, further: Further) -> Array:
    """Return the gains of the anchored strategy, tuned without each fold, in the folds that speak for it."""
    frame = found.frame()
    own = frame[(frame["design"] == "further") & (frame["strategy"] == "anchored")]
    own = own[own["side"] == "same"] if further.confidence == "tentative" else own
    return np.asarray(-own.groupby(["side", "share"])["regret"].mean().dropna(), dtype=np.float64)


def _interval(values: Array) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean over places."""
    values = values[np.isfinite(values)]
    rng = np.random.default_rng(0)
    means = values[rng.integers(values.size, size=(DRAWS, values.size))].mean(axis=1)
    low, high = np.quantile(means, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL])
    return float(low), float(high)


def _share(strategy: str, stability: Mapping[str, float] | None) -> float:
    return math.nan if stability is None else stability.get(strategy, 0.0)


def _called(name: str) -> str:
    return f"The strategy {name!r}"


def _small(gain: float) -> str:
    text = signed(gain, 3)
    return "less than 0.001" if text == "0.000" else text
