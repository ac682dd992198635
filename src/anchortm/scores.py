"""How good predicted distributions are: proper scores, calibration and, for times, discrimination.

Every function takes the predicted distributions and what was observed, and gives one value a row,
or one number where that is all there is. ``score_table`` puts them together, by environment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm import plotting
from anchortm.anchors import groups_of
from anchortm.bases import OrdinalBasis
from anchortm.distribution import NODES, WEIGHTS, PredictedDistribution
from anchortm.empirical import empirical_distribution
from anchortm.exceptions import InputError
from anchortm.response import Kind, Response, Surv, as_response

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScoreTable", "brier", "concordance", "coverage", "crps", "nll_quantiles", "pit", "score_table"]

Array = NDArray[np.float64]

CRPS_PANELS = 64


def nll_quantiles(nll: ArrayLike, alpha: ArrayLike) -> Array:
    """Return quantiles of the negative log-likelihood of rows, the paper's way to look at shifts."""
    return np.asarray(np.quantile(np.asarray(nll, dtype=np.float64), np.asarray(alpha, dtype=np.float64)))


def crps(distribution: PredictedDistribution, y: ArrayLike) -> Array:
    """Return the continuous ranked probability score of exact outcomes, one value a row.

    The integral of (F(t) - 1{y <= t})^2 over t, as twice the integral of the quantile loss over
    probabilities, by Gauss-Legendre on panels that split at F(y). Classes score on their positions.
    """
    return _crps(distribution, distribution._codes(y))


def _crps(distribution: PredictedDistribution, codes: Array) -> Array:
    if codes.shape != (len(distribution),):
        raise InputError(f"y must have one value for each of the {len(distribution)} rows, not shape {codes.shape}")
    if distribution.basis.discrete:
        return _discrete_crps(distribution, codes)
    at = distribution.cdf(codes[:, None])[:, 0]
    unit = 0.5 * (1.0 - np.cos(np.pi * np.arange(CRPS_PANELS // 2 + 1) / (CRPS_PANELS // 2)))  # dense at both ends
    total = np.zeros(codes.size)
    for low, high, above in ((np.zeros_like(at), at, False), (at, np.ones_like(at), True)):
        edges = low[:, None] + (high - low)[:, None] * unit
        half = 0.5 * np.diff(edges, axis=1)
        q = ((edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES).reshape(codes.size, -1)
        weights = (half[:, :, None] * WEIGHTS).reshape(codes.size, -1)
        gap = distribution.ppf(np.clip(q, 0.0, 1.0)) - codes[:, None]
        # quantile loss: (1{y <= x_q} - q)(x_q - y)
        total += (weights * np.where(above, 1.0 - q, -q) * gap).sum(axis=1)
    return 2.0 * total


def _discrete_crps(distribution: PredictedDistribution, codes: Array) -> Array:
    if isinstance(distribution.basis, OrdinalBasis):
        grid = np.array([*distribution.basis.levels], dtype=object)
        below = distribution.cdf(grid)[:, :-1]
        return np.asarray(((below - (codes[:, None] <= np.arange(below.shape[1]))) ** 2).sum(axis=1))
    last = int(max(np.max(distribution.isf(1e-9)), codes.max())) + 1
    total = np.zeros(codes.size)
    for start in range(0, last, 1000):
        k = np.arange(start, min(start + 1000, last), dtype=np.float64)
        total += ((distribution.cdf(k) - (codes[:, None] <= k)) ** 2).sum(axis=1)
    return total


def pit(distribution: PredictedDistribution, y: Response, random_state: Any = None) -> Array:
    """Return the probability integral transforms, uniform if the predictions are calibrated.

    Exact rows give F(y); censored and discrete rows a random number between F at their two ends.
    """
    if len(y) != len(distribution):
        raise InputError(f"y has {len(y)} rows, but there are {len(distribution)} predicted distributions")
    low, high = (_cdf_at(distribution, end) for end in (y.lower, y.upper))
    if y.entry is not None or y.exit is not None:
        nothing = np.full(len(y), np.inf)
        first = _cdf_at(distribution, -nothing if y.entry is None else y.entry)
        last = _cdf_at(distribution, nothing if y.exit is None else y.exit)
        low, high = ((end - first) / (last - first) for end in (low, high))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    draw = np.random.default_rng(random_state).random(len(y))
    return np.where(y.kind == Kind.EXACT, high, low + draw * (high - low))


def _cdf_at(distribution: PredictedDistribution, codes: Array) -> Array:
    h = distribution._baseline(codes) + distribution.shift
    return np.exp(distribution.link.log_cdf(h))


def coverage(distribution: PredictedDistribution, y: ArrayLike, level: float = 0.9) -> Array:
    """Return which exact outcomes lie in the central interval of probability ``level``."""
    low, high = distribution.interval(level)
    values = np.asarray(y, dtype=np.float64)
    return np.asarray((values >= low) & (values <= high))


def concordance(risk: ArrayLike, y: Response) -> float:
    """Return Harrell's concordance index: how often the row with the higher risk fails first.

    A pair counts if the earlier time is an event; equal risks count one half.
    """
    score = np.asarray(risk, dtype=np.float64)
    event = y.kind == Kind.EXACT
    times = np.where(event, y.upper, y.lower)
    if score.shape != times.shape:
        raise InputError(f"risk has shape {score.shape}, but y has {len(y)} rows")
    order = np.lexsort((event, -times))  # latest first; among equal times censored rows before events
    ranks = np.unique(score, return_inverse=True)[1]
    tree = _Counter(int(ranks.max()) + 1)
    agree = pairs = 0.0
    start = 0
    while start < order.size:  # rows of one time are compared with later rows only, censored ones of this time included
        stop = start
        while stop < order.size and times[order[stop]] == times[order[start]]:
            stop += 1
        same = order[start:stop]
        for i in same[~event[same]]:
            tree.add(int(ranks[i]))
        for i in same[event[same]]:
            below, equal = tree.below(int(ranks[i])), tree.count(int(ranks[i]))
            agree += below + 0.5 * equal
            pairs += tree.size
        for i in same[event[same]]:
            tree.add(int(ranks[i]))
        start = stop
    if pairs == 0.0:
        raise InputError("no pair of rows can be compared: there is no event before another row's time")
    return agree / pairs


class _Counter:
    """Counts of ranks, with the number below a rank in logarithmic time (a Fenwick tree)."""

    def __init__(self, n: int) -> None:
        self._tree, self._counts, self.size = [0] * (n + 1), [0] * n, 0

    def add(self, rank: int) -> None:
        self._counts[rank] += 1
        self.size += 1
        k = rank + 1
        while k < len(self._tree):
            self._tree[k] += 1
            k += k & -k

    def below(self, rank: int) -> int:
        total, k = 0, rank
        while k > 0:
            total += self._tree[k]
            k -= k & -k
        return total

    def count(self, rank: int) -> int:
        return self._counts[rank]


def brier(distribution: PredictedDistribution, y: Response, times: ArrayLike, train: Response | None = None) -> Array:
    """Return the Brier score of survival at given times, with censored rows weighted (Graf et al., 1999).

    Weights are inverse Kaplan-Meier probabilities of being uncensored, from ``train`` (by default y).
    """
    grid = np.atleast_1d(np.asarray(times, dtype=np.float64))
    event = y.kind == Kind.EXACT
    observed = np.where(event, y.upper, y.lower)
    source = y if train is None else train
    fell = source.kind == Kind.EXACT
    censoring = empirical_distribution(Surv(np.where(fell, source.upper, source.lower), ~fell))

    def uncensored(t: Array, before: bool) -> Array:
        place = np.searchsorted(censoring.points, t, side="left" if before else "right")
        return np.concatenate([[1.0], 1.0 - censoring.cdf])[place]

    at_event, survival = uncensored(observed, before=True), distribution.sf(grid)
    scores = np.empty(grid.size)
    for k, t in enumerate(grid):
        failed, later = (observed <= t) & event, observed > t
        at_time = uncensored(np.array([t]), before=False)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(failed, survival[:, k] ** 2 / at_event, 0.0)
            parts += np.where(later, (1.0 - survival[:, k]) ** 2 / at_time, 0.0)
        scores[k] = parts.mean()
    return scores


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of predicted distributions, of all rows and by environment."""

    table: Any
    rows: Any
    level: float

    def frame(self) -> pd.DataFrame:
        """Return one row for all rows together and one for each environment."""
        return self.table

    def quantiles(self, alpha: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)) -> pd.DataFrame:
        """Return quantiles of the rows' nll: one row for each environment (and all) and each alpha."""
        import pandas as pd

        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        found = [(ALL, self.rows["nll"]), *self.rows.groupby("environment")["nll"]]
        return pd.DataFrame(
            [
                {"environment": name, "alpha": a, "nll": value}
                for name, nll in found
                for a, value in zip(levels.tolist(), nll_quantiles(nll, levels).tolist(), strict=True)
            ]
        )

    def plot(self, ax: Any = None, label: int = 3) -> Any:
        """Draw the distribution of the probability integral transforms by environment and return the axes."""
        return plotting.calibration(self.rows, ax, label=label)

    def __repr__(self) -> str:
        head = f"Scores, coverage of {self.level:.0%} intervals"
        return f"{head}\n{self.table.to_string(index=False, float_format=lambda v: f'{v:.4g}')}"


ALL = "(all)"


def score_table(
    model: Any,
    X: Any,
    y: Any,
    environments: Any = None,
    *,
    offset: Any = None,
    level: float = 0.9,
    times: Sequence[float] | None = None,
    random_state: Any = 0,
) -> ScoreTable:
    """Return the scores of a fitted model on these rows, together and by environment.

    Columns: n; ``nll``, the mean negative log-likelihood; ``crps`` (where all rows are exact);
    ``coverage`` of the central intervals with probability ``level`` and ``pit``, the mean probability
    integral transform (1/2 if calibrated), both from transforms that are drawn at random in censored
    and discrete rows, so that calibrated predictions reach their level. For times also ``concordance``
    and ``brier_<t>`` at ``times``, by default the median of the events, with the censoring of all rows.
    """
    import pandas as pd

    if not 0.0 < level < 1.0:
        raise InputError(f"level must lie between 0 and 1, not {level}")
    levels = model.basis_.levels if isinstance(model.basis_, OrdinalBasis) else None
    response = as_response(y, model._scale, levels)
    n = len(response)
    codes, names = (np.zeros(n, dtype=np.intp), np.array([ALL])) if environments is None else groups_of(environments)
    if codes.size != n:
        raise InputError(f"environments has {codes.size} rows, but y has {n}")
    distribution = model.predict_distribution(X, offset=offset, n_rows=n if X is None else None)
    exact = (response.kind == Kind.EXACT) | model.basis_.discrete
    values = np.full(n, math.nan)
    if exact.any():
        codes_of_y = response.codes if response.scale == "ordinal" else response.upper
        values[exact] = _crps(distribution[np.flatnonzero(exact)], codes_of_y[exact].astype(np.float64))
    u = pit(distribution, response, random_state)
    rows = pd.DataFrame({"environment": names[codes], "nll": model.nll(X, y, offset=offset), "crps": values, "pit": u})
    rows["coverage"] = np.abs(u - 0.5) <= 0.5 * level
    survival = response.scale == "time" and set(response.kind.tolist()) <= {Kind.EXACT, Kind.RIGHT}
    if survival and times is None and (response.kind == Kind.EXACT).any():
        times = [float(np.median(response.upper[response.kind == Kind.EXACT]))]

    def scores(name: Any, part: NDArray[np.intp]) -> dict[str, Any]:
        own = rows.iloc[part]
        result = {"environment": name, "n": part.size, "nll": own["nll"].mean(), "crps": own["crps"].mean(skipna=False)}
        result |= {"coverage": own["coverage"].mean(), "pit": own["pit"].mean()}
        if survival:
            result["concordance"] = _concordance_or_nan(distribution.shift[part], response[part])
            found = brier(distribution[part], response[part], times or [], train=response)
            result |= {f"brier_{t:g}": value for t, value in zip(times or [], found.tolist(), strict=True)}
        return result

    table = [scores(ALL, np.arange(n))]
    if environments is not None:
        table += [scores(name, np.flatnonzero(codes == e)) for e, name in enumerate(names.tolist())]
    return ScoreTable(pd.DataFrame(table), rows, level)


def _concordance_or_nan(risk: Array, y: Response) -> float:
    try:
        return concordance(risk, y)
    except InputError:  # no pair can be compared
        return math.nan
