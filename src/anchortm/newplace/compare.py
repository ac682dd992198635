"""Compare strategies at left-out environments, to see whether anything helps at a new place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._typing import AnyTable, Array, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import generator, jobs, whole_number
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError
from anchortm.inputs.anchors import group_codes
from anchortm.inputs.response import Kind, Response
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import Given, given
from anchortm.models.worst_environment import WorstEnvironment
from anchortm.newplace.comparison import Comparison, like_table
from anchortm.newplace.foreign import errors_of
from anchortm.newplace.scoring import (
    at_the_same_width,
    check_scores,
    concordance_or_nan,
    listed,
    scores_of_rows,
)
from anchortm.newplace.strategies import DEFAULT, STRATEGIES, Strategy, as_strategy
from anchortm.newplace.training import Training, inner_folds
from anchortm.newplace.verdict import Verdict
from anchortm.predict.widths import mean_ratio
from anchortm.selection.designs import FEWEST, Direction, Fold, further, like
from anchortm.selection.further import direction_for, further_verdict, without_gaps
from anchortm.selection.places import Out, Places, Record, places_of
from anchortm.selection.tuning import Tuning

__all__ = ["Asked", "Compared", "check_compared", "compare_strategies", "compared", "warn_of_single_rows"]

DESIGNS = ("like", "further")
BY = ("design", "direction", "side", "share")
FIRST = (*BY, "strategy", "environment", "n", "events", "nll", "skill", "regret")  # columns of all comparisons


def compare_strategies(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    environments: Labels | None = None,
    *,
    design: str | Sequence[str] | None = None,
    new: Covariates | AnyTable | None = None,
    strategies: Sequence[str | Strategy] | None = None,
    scores: Sequence[str] | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    cut: int | None = None,
    min_rows: int = 10,
    n_jobs: int | None = None,
    random_state: Seed = 0,
    progress: bool | None = None,
) -> Comparison:
    """Return how several strategies predict environments that they have not seen.

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
    design : {"like", "further"} or both, optional
        "like" leaves out one environment after another: how good are predictions at a place like these? "further"
        leaves out the outermost environments together: how good are they at a place further out than those of the fit?
        By default both, if there are at least 8 environments.
    new : array or frame, optional
        Rows of the new place, without outcomes. They set the direction in which "further" leaves environments out, and
        how far out the new place is.
    strategies : sequence of str or Strategy, optional
        By default "null", "ml", "equal", "widened", "anchored" and "anchored+spread"; see ``anchortm.strategies``.
        "null" and "ml" always take part, because the others are measured from them.
    scores : sequence of str, optional
        Which scores to compute: some of "spread", "crps", "coverage", "width", "mae", "brier" and "concordance", which
        ``Comparison.frame`` explains; by default all. "nll", "skill" and "regret" are always computed.
    sample_weight, offset, cut
        As for ``leave_one_environment_out``.
    min_rows : int
        Environments with fewer rows (or with fewer than 5 events) are shown, but do not count in quantiles.
    n_jobs : int, optional
        Number of processes; -1 uses all cores.
    random_state : int, Generator or None
        Seed of transforms that are drawn at random in censored and discrete rows. The default gives the same answer
        each time.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal.

    Returns
    -------
    Comparison

    Notes
    -----
    Strategies are tuned inside the training environments only: by the same design, or by leaving out one
    environment where fewer than 8 remain. The left-out rows play no part in it.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> found = atm.compare_strategies(
    ...     atm.OrdinalRegression(), "rating ~ temp + contact | judge", data, design="like",
    ...     strategies=["widened", "anchored"],
    ... )
    >>> found.table()[["strategy", "mean", "difference"]].round(2)
       strategy  mean  difference
    0      null  0.00        0.20
    1        ml -0.20        0.00
    2   widened -0.18        0.01
    3  anchored -0.22       -0.02
    """
    check_compared(model, "compare_strategies")
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    if rows.batched:
        raise InputError("compare_strategies needs the rows in memory: read the table first")
    rng = generator(random_state)  # one seed, so that all strategies have the same draws, in all processes
    seed = random_state if isinstance(random_state, int) else int(rng.integers(2**32))
    asked = Asked(strategies, scores, cut, whole_number(min_rows, "min_rows", 1), jobs(n_jobs), seed, progress)
    warn_of_single_rows(rows, cut)
    new = without_gaps(rows.model, rows.formula, new)
    with rows.screened():
        return compared(rows, asked, design, new).comparison


def check_compared(model: Any, what: str) -> None:
    """Refuse models whose fits strategies cannot take apart."""
    check_model(model, "left_out")
    if hasattr(model, "learner"):
        raise InputError(f"{what} takes linear models: boosted ones have leave_one_environment_out")
    if isinstance(model, WorstEnvironment):
        raise InputError(
            "strategies fit the model in their own ways, and WorstEnvironment is one of them: pass the model inside "
            'it, and strategies=["worst"], or strategies.WorstEnvironment with its arguments'
        )


def warn_of_single_rows(rows: Given, cut: int | None) -> None:
    """Warn before any fit if places have fewer than two rows on average: that takes long and says little."""
    environments = rows.anchors if rows.environments is None else rows.environments
    if environments is None:
        return
    groups, labels = group_codes(environments, cut)
    if 2 * labels.size > groups.size:
        warn(
            f"{labels.size} places for {groups.size} rows: places have fewer than two rows on average, so left-out "
            "places say little about a new one, and all the fits take long; use larger places, such as regions",
            AnchorTMWarning,
        )


class Asked(NamedTuple):
    """The task of a comparison: the arguments of ``compare_strategies``, with checked numbers."""

    strategies: Sequence[str | Strategy] | None
    scores: Sequence[str] | None
    cut: int | None
    min_rows: int
    n_jobs: int | None
    seed: Any
    progress: bool | None


class Compared(NamedTuple):
    """A comparison, and the left-out fits that it rests on.

    Attributes
    ----------
    comparison : Comparison
        The result for users.
    rows : Given
        The rows, checked.
    places : Places
        The rows by their environments.
    records : dict
        What the fits without some environments say about these, by which environments they are.
    direction : Direction or None
        The order of environments for the design "further".
    tuning : Tuning or None
        The losses of the folds of this design, which the verdict rests on.
    """

    comparison: Comparison
    rows: Given
    places: Places
    records: dict[Out, Record]
    direction: Direction | None
    tuning: Tuning | None


def compared(rows: Given, asked: Asked, design: str | Sequence[str] | None, new: Any) -> Compared:
    """Return the comparison of these rows; missing values are screened outside."""
    chosen, wanted = _strategies(asked.strategies), check_scores(asked.scores)
    xis = list(dict.fromkeys([0.0, *sorted({float(xi) for strategy in chosen for xi in strategy.xis})]))
    rows, places = places_of(rows, xis, asked.cut)
    names = _designs(design, places, new)
    run = _Run(rows, places, chosen, wanted, asked.min_rows, asked.n_jobs, asked.seed)
    with Task("comparison of strategies", 3, asked.progress) as whole:  # one bar for its three parts
        return run.compare(names, new, whole)


def _strategies(wanted: Sequence[str | Strategy] | None) -> list[Strategy]:
    """Return the strategies, with those that others are measured from in front."""
    wanted = [wanted] if isinstance(wanted, Strategy) else DEFAULT if wanted is None else wanted
    given = [as_strategy(one) for one in listed(wanted, "strategies", DEFAULT)]
    for one in given:
        if not isinstance(getattr(one, "name", None), str):
            raise InputError(f"the strategy {type(one).__name__} has no name: give its class one, name = 'mine'")
        if one.name in ("null", "ml") and one != STRATEGIES[one.name]:
            raise InputError(
                f"the name {one.name!r} is reserved: give {type(one).__name__} another name, because all strategies "
                "are compared with null and ml"
            )
    names = [one.name for one in given]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(
            f"two strategies have the name {twice[0]!r}: leave one out, or name a regressor, Regressor(..., name=...)"
        )
    return list({one.name: one for one in (STRATEGIES["null"], STRATEGIES["ml"], *given)}.values())


def _designs(design: str | Sequence[str] | None, places: Places, new: Any) -> list[str]:
    """Return the designs; warn if they cannot use rows of the new place."""
    if design is None:
        names = list(DESIGNS if places.n >= FEWEST else DESIGNS[:1])
        if new is not None and "further" not in names:
            warn(f"there are {places.n} environments, fewer than {FEWEST}, so new is not used", AnchorTMWarning)
        return names
    names = listed(design, "design", DESIGNS)
    unknown = [name for name in names if name not in DESIGNS]
    if unknown or not names:
        raise InputError(f"design must be 'like', 'further' or both, not {design!r}")
    if new is not None and "further" not in names:
        raise InputError("new is for design='further': add this design, or leave new out")
    return names


@dataclass(frozen=True, eq=False)
class _Run:
    """One comparison: its rows and strategies."""

    rows: Given
    places: Places
    strategies: list[Strategy]
    scores: tuple[str, ...]
    min_rows: int
    n_jobs: int | None
    seed: Any

    def compare(self, designs: list[str], new: Any, whole: Task) -> Compared:
        """Return the comparison by these designs; ``whole`` counts its three parts."""
        places = self.places
        folds: list[Fold] = like(places) if "like" in designs else []
        direction: Direction | None = None
        at_new: Array | None = None
        if "further" in designs:
            direction, at_new = direction_for(self.rows, places, new)
            folds = folds + further(places, direction)
        outer = places.records([fold.out for fold in folds], self.n_jobs, "left-out environments")
        whole.step()
        inner = self._inner(folds, outer, at_new)
        records = outer | self._inner_records(inner)
        whole.step()
        work = partial(_one_fold, self, times=self._times())
        tasks = [(fold, self._tuning(fold, inner, records), _remark(outer[fold.out])) for fold in folds]
        with Task("strategies", len(tasks)) as task, one_blas_thread():
            found = task.map(work, tasks, self.n_jobs)
        rows = _with_reference([row for part in found for row in part])
        _check_reference(rows)
        extremes = self._extremes(folds, outer)
        verdict = self._verdict(rows, direction, extremes)
        comparison = Comparison(rows, type(self.rows.model).__name__, verdict, self.min_rows)
        return Compared(comparison, self.rows, places, outer, direction, extremes)

    def _inner(self, folds: list[Fold], outer: dict[Out, Record], new: Array | None) -> dict[Fold, list[Fold]]:
        """Return the folds on which strategies are tuned, for each fold."""
        if not any(strategy.tunes for strategy in self.strategies):
            return {}
        return {fold: inner_folds(self.places, fold, outer[fold.out].slope, new) for fold in folds}

    def _inner_records(self, inner: dict[Fold, list[Fold]]) -> dict[Out, Record]:
        sets = [fold.out for folds in inner.values() for fold in folds]
        return self.places.records(sets, self.n_jobs, "fits inside the others") if sets else {}

    def _tuning(self, fold: Fold, inner: dict[Fold, list[Fold]], records: dict[Out, Record]) -> Tuning | str:
        """Return what strategies tune on, or why there is nothing."""
        if fold not in inner:
            return "no strategy tunes anything"
        if all(records[one.out].failed for one in inner[fold]):
            return f"all fits inside the training environments failed: {records[inner[fold][0].out].note}"
        return Tuning.of(self.places, fold.out, inner[fold], records)

    def _times(self) -> Array:
        """Return the time of Brier scores, the median event time; none if outcomes are not times, or all are events."""
        response = self.places.data.response
        event = response.kind == Kind.EXACT
        if response.scale != "time" or not event.any() or event.all():
            return np.zeros(0)
        return np.array([float(np.median(response.upper[event]))])

    def _extremes(self, folds: list[Fold], outer: dict[Out, Record]) -> Tuning | None:
        """Return the losses of the outermost environments; None if there are none, and so no verdict on them."""
        own = [fold for fold in folds if fold.design == "further" and not outer[fold.out].failed]
        return Tuning.of(self.places, frozenset(), own, outer) if own else None

    def _verdict(self, rows: list[dict[str, Any]], direction: Direction | None, extremes: Tuning | None) -> Verdict:
        """Return what the comparison recommends."""
        import pandas as pd

        best, frame = None, pd.DataFrame(rows)
        own = frame[frame["design"] == "like"]
        if not own.empty:
            table = like_table(own)
            better = table[(table["p"] < 0.05) & (table["difference"] < 0.0)]
            best = "ml" if better.empty else str(better.sort_values("difference").iloc[0]["strategy"])
        out = None
        if direction is not None and extremes is not None:
            out = further_verdict(extremes, list(range(len(self.places.xis))), direction)
        return Verdict(best, out)


def _one_fold(run: _Run, task: tuple[Fold, Tuning | str, str], times: Array) -> list[dict[str, Any]]:
    """Return one row for each strategy and each environment of a fold.

    A task is a fold, what is tuned on, and which columns the fits without these environments do without.
    """
    fold, tuning, remark = task
    places = run.places
    train = Training(run.rows, places, fold.out, tuning, run.min_rows)
    codes = sorted(fold.out)
    held = places.rows_in(codes)
    raw, response = train.raw(held), places.data.response[held]
    rows: list[dict[str, Any]] = []
    reference: Any = None
    for strategy in run.strategies:
        note, facts, found = "", dict.fromkeys(("xi", "factor"), math.nan), None
        try:
            with errors_of("strategy"):
                predictor = strategy.fit(train)
                facts = {"xi": getattr(predictor, "xi_", math.nan), "factor": getattr(predictor, "widened_", 1.0)}
                found = scores_of_rows(predictor, raw, response, times, run.seed, run.scores)
            note = "" if strategy.name == "null" else remark
            if strategy.name == "ml":
                reference = predictor, found
        except AnchorTMError as error:
            note = str(error)
        wider = _spread_part(reference, found, train, held) if "spread" in run.scores else None
        about = {"design": fold.design, "direction": fold.direction, "side": fold.side, "share": fold.share}
        for e in codes:
            own = places.groups[held] == e
            row = about | {"strategy": strategy.name, "environment": places.labels.tolist()[e]}
            row |= {"n": float(places.weights[held][own].sum()), "events": float(places.events[e])}
            row |= _means(run.scores, found, own, places.weights[held], response) | facts
            row["regret_se"] = _error(reference, found, own)
            own_weights = places.weights[held][own]
            row["spread_nll"] = math.nan if wider is None else float(np.average(wider[own], weights=own_weights))
            row |= {"ranked": bool(places.ranked(run.min_rows)[e]), "note": note}
            rows.append(row)
    return rows


def _remark(record: Record) -> str:
    """Return which columns fits do without, if they succeed."""
    return "" if record.failed else record.note


def _check_reference(rows: list[dict[str, Any]]) -> None:
    """Refuse a comparison in which maximum likelihood, from which the others are measured, always fails."""
    own = [row for row in rows if row["strategy"] == "ml"]
    if all(math.isnan(row["nll"]) for row in own):
        n = len({row["environment"] for row in own})
        raise InputError(f"the model cannot be fitted without any of the {n} environments: {own[0]['note']}")


def _means(
    scores: Sequence[str], found: dict[str, Any] | None, own: NDArray[np.bool_], weights: Array, response: Response
) -> dict[str, float]:
    """Return the mean scores over the rows of one environment; NaN where there is none."""
    row = {name: math.nan for name in scores if name not in ("skill", "regret")}
    for name in row:
        if found is None or name not in found:
            continue
        values = found[name][own]
        known = ~np.isnan(values)
        if name == "concordance":
            row[name] = concordance_or_nan(values, response[own])
        elif known.any():
            row[name] = float(np.average(values[known], weights=weights[own][known]))
    return row


def _error(reference: Any, found: dict[str, Any] | None, own: NDArray[np.bool_]) -> float:
    """Return the standard error, over the rows of an environment, of the mean difference from maximum likelihood."""
    if reference is None or found is None or own.sum() < 2:
        return math.nan
    difference = found["nll"][own] - reference[1]["nll"][own]
    return float(difference.std(ddof=1) / math.sqrt(own.sum()))


def _spread_part(reference: Any, found: dict[str, Any] | None, train: Training, held: Any) -> Array | None:
    """Return the nll of rows under maximum likelihood, made as wide as this strategy in each environment."""
    if reference is None or found is None:
        return None
    ml, base = reference
    groups = train.places.groups[held]
    nll = np.full(groups.size, math.nan)
    for e in np.unique(groups):
        own = np.flatnonzero(groups == e)
        ratio = mean_ratio(found["distribution"][own], base["distribution"][own])
        wider = at_the_same_width(ml, train.raw(held[own]), ratio)
        if wider is not None:
            nll[own] = wider
    return nll


def _with_reference(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with skill, regret and the share of regret that the width explains."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (*(str(row[name]) for name in BY), row["environment"])

    base = {name: {key(row): row["nll"] for row in rows if row["strategy"] == name} for name in ("null", "ml")}
    result = []
    for row in rows:
        at = key(row)
        regret, wider = row["nll"] - base["ml"][at], row.pop("spread_nll") - base["ml"][at]
        row |= {"skill": base["null"][at] - row["nll"], "regret": regret}
        if "spread" in row:
            row["spread"] = wider / regret if abs(regret) > 1e-3 else math.nan
        result.append({name: row[name] for name in FIRST} | row)
    return result
