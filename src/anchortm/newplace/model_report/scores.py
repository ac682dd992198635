"""What a report says about predictions and outcomes: by place, and of all rows together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchortm._typing import Array, Seed
from anchortm.exceptions import InputError
from anchortm.inputs.empirical import empirical_distribution
from anchortm.inputs.response import Kind, Response
from anchortm.newplace.model_report.rows import LEAST, ReportedRows
from anchortm.newplace.scoring import concordance_or_nan
from anchortm.predict.survival_steps import StepDistribution
from anchortm.scores.outcomes import known_rows, known_values
from anchortm.scores.table import score_table

__all__ = ["LEVELS", "Scored", "calibration_of", "chosen_times", "expected_of", "mean_of", "scores_of", "site_of"]

LEVELS = (0.5, 0.8, 0.9)  # levels of the intervals whose coverage is reported
CONFIDENCE = 0.95
BINS = 10
CLUSTERS = 5  # places from which on an interval counts them, not the rows alone
FOR_SLOPE = 20
SAME = 1e-8  # relative difference of log-likelihoods of the same rows


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of the rows with an outcome; None where a model or an outcome does not have one.

    Attributes
    ----------
    nll, pit, residual : array or None
        Negative log-likelihood, probability integral transform and score residual of each row.
    error : array
        Distance of the outcome from the predicted median, or from the mean of a GLM; NaN where it is not known.
    event : array of bool or None
        For times, whether the row has an event.
    risk : array or None
        For times, a number that is higher where events come sooner.
    remarks : tuple of str
        What could not be computed, and why.
    """

    nll: Array | None
    pit: Array | None
    residual: Array | None
    error: Array
    event: NDArray[np.bool_] | None
    risk: Array | None
    remarks: tuple[str, ...] = ()


def chosen_times(rows: ReportedRows, times: Sequence[float] | None) -> list[float]:
    """Return the times at which survival is reported: as given, or quarters of the longest time of the fit."""
    if rows.kind != "time":
        if times is not None:
            raise InputError("times are for outcomes that are times: leave them out")
        return []
    if times is not None:
        found = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if found.ndim != 1 or not np.isfinite(found).all() or (found <= 0.0).any():
            raise InputError(f"times must be positive numbers, not {times!r}")
        return sorted(set(found.tolist()))
    reach = rows.model.new_rows_.result.outcome_range
    return [] if reach is None else [float(f"{share * reach[1]:.2g}") for share in (0.25, 0.5, 0.75)]


def expected_of(rows: ReportedRows, times: Sequence[float]) -> dict[str, Array]:
    """Return what is predicted for each row: quantiles, means, probabilities of classes, survival at times."""
    law, n = rows.law, rows.good.size
    if law is None:
        return {}
    if rows.kind == "class":
        return {"probabilities": np.asarray(law.probabilities())}
    found: dict[str, Array] = {}
    if rows.kind == "mean":
        found["mean"] = np.asarray(law.mean(), dtype=np.float64)
    if not _binomial(rows):
        quantiles = np.asarray(law.ppf([0.1, 0.5, 0.9]), dtype=np.float64).reshape(n, 3)
        found |= {name: quantiles[:, j] for j, name in enumerate(("q10", "median", "q90"))}
    if times:
        found["survival"] = np.asarray(law.sf(list(times)), dtype=np.float64).reshape(n, len(times))
    return found


def _binomial(rows: ReportedRows) -> bool:
    return rows.kind == "mean" and rows.model.new_rows_.result.link.family == "binomial"


def scores_of(rows: ReportedRows, seed: Seed) -> Scored | None:
    """Return the scores of the rows with an outcome; None if there are none."""
    response = rows.response
    if response is None:
        return None
    X, offset = rows.part(rows.scored)
    remarks: list[str] = []
    nll = u = None
    law = rows.law[rows.scored]
    if isinstance(law, StepDistribution):
        remarks.append(
            "CoxPH predicts survival curves of steps that end at the last event time. They have no density, so that "
            "NLL, PIT and coverage are not available: compare predicted and observed survival"
        )
    elif not _lacks_clusters(rows):
        codes = rows.codes[rows.good][rows.scored]
        table = score_table(rows.model, X, response, codes, offset=offset, random_state=seed, **rows.options).rows
        nll, u = (table[name].to_numpy(dtype=np.float64) for name in ("nll", "pit"))
    residual = None
    if _lacks_clusters(rows):
        remarks.append(
            "the model has random effects and the table does not say which rows share a cluster, so that NLL, PIT, "
            "coverage and residuals are not available"
        )
    else:
        residual = np.asarray(rows.model.residuals(X, response, offset=offset), dtype=np.float64)
    event = response.kind != Kind.RIGHT if rows.kind == "time" else None
    return Scored(nll, u, residual, _error(rows, law, response), event, _risk(rows, law), tuple(remarks))


def _lacks_clusters(rows: ReportedRows) -> bool:
    """Return whether the likelihood of rows needs clusters that the table does not have."""
    new_rows = rows.model.new_rows_
    if new_rows.result.random is None:
        return False
    try:
        new_rows.clusters(rows.X)
    except InputError:
        return True
    return False


def _error(rows: ReportedRows, law: Any, response: Response) -> Array:
    """Return the distance of known outcomes from the centre of their prediction."""
    values = known_values(response)
    if rows.kind == "mean":
        centre = np.asarray(law.mean(), dtype=np.float64)
        values = values if response.trials is None else values / response.trials
    else:
        centre = law.ppf(0.5)
        centre = np.asarray(law.codes(centre) if rows.kind == "class" else centre, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        away = np.abs(values - centre)
    return np.where(known_rows(response), away, math.nan)


def _risk(rows: ReportedRows, law: Any) -> Array | None:
    if rows.kind != "time":
        return None
    if isinstance(law, StepDistribution):
        return law.shift
    moved = getattr(getattr(law, "transformation", None), "moved", None)
    return None if moved is None or np.size(moved) != len(law) else np.asarray(moved)


def mean_of(values: Array) -> float | None:
    """Return a mean, None if it is not finite or rests on fewer than five rows."""
    if len(values) < LEAST:
        return None
    with np.errstate(invalid="ignore"):
        found = float(np.mean(values))
    return found if math.isfinite(found) else None


def _means(values: Array) -> list[float | None] | None:
    return None if len(values) < LEAST else [mean_of(column) for column in values.T]


def site_of(
    rows: ReportedRows,
    expected: Mapping[str, Array],
    outside: NDArray[np.bool_] | None,
    scored: Scored | None,
    times: Sequence[float],
    place: int | None,
) -> dict[str, Any]:
    """Return what is known of one place, or of all rows if ``place`` is None."""
    every = np.ones(rows.n, dtype=bool) if place is None else rows.codes == place
    good = every[rows.good]
    mine = good[rows.scored]
    n, n_good = int(every.sum()), int(good.sum())
    found: dict[str, Any] = {"n": n, "bad": n - n_good, "small": n_good < LEAST}
    for name, values in expected.items():
        found[name] = mean_of(values[good]) if values.ndim == 1 else _means(values[good])
    found["beyond"] = None if outside is None else mean_of(outside[good].astype(np.float64))
    return found | _outcomes_of(rows, scored, mine, times)


def _outcomes_of(
    rows: ReportedRows, scored: Scored | None, mine: NDArray[np.bool_], times: Sequence[float]
) -> dict[str, Any]:
    """Return what outcomes of some rows say about their predictions."""
    found: dict[str, Any] = {"outcomes": int(mine.sum()), "events": None}
    names = ("nll", "residual", "lower", "upper", "mae", "coverage", "concordance", "observed")
    found |= dict.fromkeys(names)
    if scored is None or rows.response is None or mine.sum() < LEAST:
        return found
    response = rows.response[np.flatnonzero(mine)]
    events = None if scored.event is None else int(scored.event[mine].sum())
    found["events"] = events
    if scored.nll is not None:
        found["nll"] = mean_of(scored.nll[mine])
    if scored.residual is not None:
        own = scored.residual[mine]
        found["residual"] = mean_of(own)
        if (events is None or events >= LEAST) and found["residual"] is not None:
            found["lower"], found["upper"] = _mean_interval(own)
    found["mae"] = mean_of(scored.error[mine])
    if scored.pit is not None:
        found["coverage"] = coverage_of(scored.pit[mine])
    if scored.risk is not None and not response.truncated.any():
        concordance = concordance_or_nan(scored.risk[mine], response)
        found["concordance"] = concordance if math.isfinite(concordance) else None
    found["observed"] = _observed(rows, response, times)
    return found


def coverage_of(u: Array) -> dict[str, float]:
    """Return the share of rows in the central intervals of each level."""
    return {f"{100 * level:g}": float(np.mean(np.abs(u - 0.5) <= 0.5 * level)) for level in LEVELS}


def _mean_interval(values: Array) -> tuple[float, float]:
    """Return the limits of a 95 % interval of a mean, by Student's t for independent rows."""
    half = float(stats.t.ppf(0.5 + 0.5 * CONFIDENCE, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))
    return float(values.mean()) - half, float(values.mean()) + half


def _observed(rows: ReportedRows, response: Response, times: Sequence[float]) -> Any:
    """Return the observed counterpart: shares of classes, Kaplan-Meier survival, the mean that GLMs predict."""
    if rows.kind == "class":
        levels = response.levels or ()
        return (np.bincount(response.codes, minlength=len(levels)) / len(response)).tolist()
    if rows.kind == "time":
        return [row["observed"] for row in survival_of(response, times)]
    if rows.kind == "mean":
        values = known_values(response)
        return mean_of(values if response.trials is None else values / response.trials)
    return None


def survival_of(response: Response, times: Sequence[float]) -> list[dict[str, Any]]:
    """Return the Kaplan-Meier estimate of survival at these times, with 95 % intervals (Greenwood, log-log).

    It is None beyond the last time that was observed, and for left- or interval-censored rows.
    """
    empty: dict[str, Any] = dict.fromkeys(("observed", "lower", "upper"))
    if not np.isin(response.kind, (Kind.EXACT, Kind.RIGHT)).all() or response.exit is not None:
        return [empty | {"time": time} for time in times]
    exact = response.kind == Kind.EXACT
    ends = np.where(exact, response.upper, response.lower)
    entry = np.full(len(response), -np.inf) if response.entry is None else response.entry
    steps = empirical_distribution(response)
    points, events = np.unique(ends[exact], return_counts=True)
    left, entered = (np.searchsorted(np.sort(own), points, side="left") for own in (ends, entry))
    at_risk = np.asarray(entered - left, dtype=np.float64)  # entry < t <= end
    found = []
    for time in times:
        if time > ends.max():
            found.append(empty | {"time": time})
            continue
        reached = int(np.searchsorted(steps.points, time, side="right"))
        survival = 1.0 if reached == 0 else float(1.0 - steps.cdf[reached - 1])
        own = points <= time
        with np.errstate(divide="ignore"):
            variance = float(np.sum(events[own] / (at_risk[own] * (at_risk[own] - events[own]))))
        found.append({"time": time, "observed": survival, **_log_log(survival, variance)})
    return found


def _log_log(survival: float, variance: float) -> dict[str, float | None]:
    """Return the limits of an interval of survival on the scale log(-log)."""
    if not 0.0 < survival < 1.0 or not 0.0 < variance < math.inf:
        return {"lower": None, "upper": None}
    half = float(stats.norm.ppf(0.5 + 0.5 * CONFIDENCE)) * math.sqrt(variance) / abs(math.log(survival))
    return {"lower": survival ** math.exp(half), "upper": survival ** math.exp(-half)}


def calibration_of(
    rows: ReportedRows, expected: Mapping[str, Array], scored: Scored | None, times: Sequence[float]
) -> dict[str, Any] | None:
    """Return the calibration of all rows with an outcome: coverage, PIT histogram, slope, observed counterparts."""
    response = rows.response
    if scored is None or response is None or len(response) < LEAST:
        return None
    codes = rows.codes[rows.good][rows.scored]
    found: dict[str, Any] = {"n": len(response), "levels": list(LEVELS), "coverage": None, "pit": None}
    if scored.pit is not None:
        inside = [np.abs(scored.pit - 0.5) <= 0.5 * level for level in LEVELS]
        found["coverage"] = [
            {"level": level, "coverage": float(hit.mean()), **share_interval(hit, codes)}
            for level, hit in zip(LEVELS, inside, strict=True)
        ]
        counts, edges = np.histogram(scored.pit, bins=BINS, range=(0.0, 1.0))
        found["pit"] = {"edges": edges.round(10).tolist(), "share": (counts / counts.sum()).tolist()}
    found["rows_of_the_fit"] = _look_known(rows, scored)
    found["slope"] = _slope(rows, expected, response, codes)
    found["survival"] = found["classes"] = None
    if rows.kind == "time":
        predicted = expected["survival"][rows.scored].mean(axis=0) if "survival" in expected else []
        pairs = zip(survival_of(response, times), predicted, strict=True)
        found["survival"] = [own | {"predicted": float(mean)} for own, mean in pairs]
    if rows.kind == "class":
        predicted = expected["probabilities"][rows.scored].mean(axis=0)
        levels, shares = response.levels or (), _observed(rows, response, times)
        found["classes"] = [
            {"class": str(level), "predicted": float(mean), "observed": share}
            for level, mean, share in zip(levels, predicted, shares, strict=True)
        ]
    return found


def _look_known(rows: ReportedRows, scored: Scored) -> bool:
    """Return whether the log-likelihood is that of the fit, so that these seem to be its rows."""
    result = rows.model.new_rows_.result
    if scored.nll is None or scored.nll.size != result.n_rows or result.n_total != result.n_rows:
        return False
    return abs(float(scored.nll.sum()) + float(result.loglik)) <= SAME * max(1.0, abs(float(result.loglik)))


def share_interval(hit: NDArray[np.bool_], codes: NDArray[np.intp]) -> dict[str, float]:
    """Return the limits of a 95 % interval of a share of rows.

    It is that of Clopper and Pearson for independent rows. With at least five places it is widened, where needed, to
    the one that takes places as the independent units.
    """
    n, k = hit.size, int(hit.sum())
    tail = 0.5 - 0.5 * CONFIDENCE
    lower = 0.0 if k == 0 else float(stats.beta.ppf(tail, k, n - k + 1))
    upper = 1.0 if k == n else float(stats.beta.ppf(1.0 - tail, k + 1, n - k))
    groups = np.unique(codes, return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    if n_groups >= CLUSTERS:
        share = k / n
        sums = np.bincount(groups, hit - share)
        error = math.sqrt(n_groups / (n_groups - 1) * float(sums @ sums)) / n
        half = float(stats.t.ppf(1.0 - tail, n_groups - 1)) * error
        lower, upper = min(lower, max(share - half, 0.0)), max(upper, min(share + half, 1.0))
    return {"lower": lower, "upper": upper}


def _slope(
    rows: ReportedRows, expected: Mapping[str, Array], response: Response, codes: NDArray[np.intp]
) -> dict[str, float] | None:
    """Return the slope of outcomes on their predicted medians (or means), with a 95 % interval; 1 if calibrated.

    The errors of rows of one place may be correlated if there are at least five places.
    """
    name = {"number": "median", "count": "median", "mean": "mean"}.get(rows.kind)
    if name is None or name not in expected or len(response) < FOR_SLOPE or not known_rows(response).all():
        return None
    x, y = expected[name][rows.scored], known_values(response)
    y = y if response.trials is None else y / response.trials
    if response.truncated.any() or not np.isfinite(x).all() or np.ptp(x) == 0.0:
        return None
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    scores = centred * (y - y.mean() - slope * centred)
    groups = np.unique(codes, return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    if n_groups >= CLUSTERS:
        scores = np.bincount(groups, scores)
    size = scores.size
    error = math.sqrt(size / (size - 1) * float(scores @ scores)) / spread
    half = float(stats.t.ppf(0.5 + 0.5 * CONFIDENCE, size - 1)) * error
    return {"slope": slope, "lower": slope - half, "upper": slope + half}
