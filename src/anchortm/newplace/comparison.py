"""Compare strategies at left-out environments, to see whether anything helps at a new place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from tqdm import tqdm

from anchortm._messages import shown
from anchortm._typing import AnyTable, Array, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import jobs, whole_number
from anchortm._util.threads import one_blas_thread
from anchortm.exceptions import AnchorTMError, InputError
from anchortm.inputs.response import Kind, Response
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import Given, given
from anchortm.newplace.paired import paired
from anchortm.newplace.scoring import at_the_same_width, concordance_or_nan, scores_of_rows
from anchortm.newplace.strategies import DEFAULT, STRATEGIES, Strategy, as_strategy
from anchortm.newplace.training import Training, Tuning, inner_folds, places_of
from anchortm.newplace.verdict import Verdict, further_verdict
from anchortm.selection.designs import FEWEST, Direction, Fold, direction_of, further, like
from anchortm.selection.places import Out, Places, Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "compare_strategies"]

DESIGNS = ("like", "further")
SCORES = ("nll", "crps", "coverage", "width", "mae", "brier")
BY = ("design", "direction", "side", "share")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Strategies compared at left-out environments.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    model : str
        Name of the model.
    verdict : Verdict
        What the comparison recommends.
    min_rows : int
        Environments with fewer rows, or with fewer than 5 events, are shown but not ranked.

    See Also
    --------
    anchortm.compare_strategies : computes it
    """

    rows: list[dict[str, Any]]
    model: str
    verdict: Verdict
    min_rows: int = 10

    def frame(self) -> pd.DataFrame:
        """Return one row for each design, fold, strategy and environment.

        Returns
        -------
        DataFrame
            ``nll``; ``skill``, the nll of the model without covariates minus nll (higher is better); ``regret``, nll
            minus that of maximum likelihood (lower is better), and ``spread``, the share of it that a change of the
            width alone explains; ``crps``; ``coverage`` and ``width`` of 90 % intervals; ``mae``, the mean absolute
            error of medians in rows with known outcomes; for times also ``events``, ``concordance`` and ``brier``.
            ``ranked`` says whether the environment is large enough to be compared by itself.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def table(self) -> pd.DataFrame:
        """Return one row for each design and strategy.

        Returns
        -------
        DataFrame
            ``mean``, ``q90`` and ``worst`` of minus the skill over environments (the last two over those that are
            ranked); ``difference``, the mean difference of nll from maximum likelihood, its standard error ``se``
            over environments, and ``p``, from flipping the signs of differences, simultaneous over strategies. The
            folds of the design "further" overlap, so that it has no standard errors: ``gained`` says in how many of
            its folds a strategy is better than maximum likelihood.
        """
        import pandas as pd

        frame = self.frame()
        found = []
        for design, part in frame.groupby("design", sort=False):
            found.append(_like_table(part) if design == "like" else _further_table(part))
        return pd.concat(found, ignore_index=True)

    def _title(self) -> str:
        frame = self.frame()
        n, names = frame["environment"].nunique(), " and ".join(frame["design"].unique())
        return f"Comparison({self.model}, {frame['strategy'].nunique()} strategies, {n} environments, {names})"

    @shown
    def __repr__(self) -> str:
        table = self.table().to_string(index=False, float_format=lambda v: f"{v:.3g}", na_rep="")
        return f"{self._title()}\n{table}\n{self.verdict!r}"

    def _repr_html_(self) -> str:
        table = self.table().to_html(index=False, float_format="{:.3f}".format, na_rep="")
        return f"<p>{escape(self._title())}</p>{table}{self.verdict._repr_html_()}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for a file."""
        return {"model": self.model, "rows": self.rows, "verdict": self.verdict.to_dict(), "min_rows": self.min_rows}


def _like_table(part: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    nll = part.pivot(index="environment", columns="strategy", values="nll")
    names = list(dict.fromkeys(part["strategy"]))
    others = [name for name in names if name not in ("null", "ml")]
    differences = nll[others].sub(nll["ml"], axis=0).to_numpy().T if "ml" in nll else np.empty((0, 0))
    test = paired(differences) if others and differences.size else None
    found = []
    for name, own in part.groupby("strategy", sort=False):
        loss, ranked = -own["skill"], own["ranked"]
        some = loss[ranked] if ranked.any() else loss
        row = {"design": "like", "strategy": name, "mean": loss.mean(), "q90": some.quantile(0.9), "worst": some.max()}
        row |= dict.fromkeys(("difference", "se", "p"), math.nan)
        if test is not None and name in others:
            k = others.index(str(name))
            row |= {"difference": test.difference[k], "se": test.error[k], "p": test.pvalue[k]}
        elif name == "ml":
            row |= {"difference": 0.0}
        elif "ml" in nll:
            row |= {"difference": float((nll["null"] - nll["ml"]).mean())}
        found.append(row)
    return pd.DataFrame(found)


def _further_table(part: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    folds = part.groupby(["strategy", "direction", "side", "share"], sort=False)
    means = folds[["nll", "skill"]].mean().reset_index()
    wide = means.pivot(index=["direction", "side", "share"], columns="strategy", values="nll")
    found = []
    for name, own in part.groupby("strategy", sort=False):
        loss, ranked = -own["skill"], own["ranked"]
        some = loss[ranked] if ranked.any() else loss
        mean = -means.loc[means["strategy"] == name, "skill"].mean()
        row = {"design": "further", "strategy": name, "mean": mean, "q90": some.quantile(0.9), "worst": some.max()}
        if "ml" in wide:
            change = wide[name] - wide["ml"]
            row |= {"difference": change.mean(), "gained": f"{int((change < 0.0).sum())} of {len(change)}"}
        found.append(row)
    return pd.DataFrame(found)


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
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    cut: int | None = None,
    min_rows: int = 10,
    n_jobs: int | None = None,
    random_state: Any = 0,
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
        Where rows come from; by default the anchors.
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
    sample_weight, offset, cut
        As for ``leave_one_environment_out``.
    min_rows : int
        Environments with fewer rows (or with fewer than 5 events) are shown, but do not count in quantiles.
    n_jobs : int, optional
        Number of processes; -1 uses all cores.
    random_state : int
        Seed of transforms that are drawn at random in censored and discrete rows.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal.

    Returns
    -------
    Comparison

    Notes
    -----
    Whatever a strategy tunes, it tunes inside the training environments: by the same design, or by leaving out one
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
    0     null  0.00        0.23
    1       ml -0.23        0.00
    2  widened -0.23        0.00
    3 anchored -0.23        0.00
    """
    check_model(model, "left_out")
    if hasattr(model, "learner"):
        raise InputError("compare_strategies takes linear models: boosted ones have leave_one_environment_out")
    chosen = _strategies(strategies)
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    if rows.batched:
        raise InputError("compare_strategies needs the rows in memory: read the table first")
    xis = list(dict.fromkeys([0.0, *sorted({float(xi) for strategy in chosen for xi in strategy.xis})]))
    with rows.screened():
        rows, places = places_of(rows, xis, cut)
        names = _designs(design, places)
        run = _Run(rows, places, chosen, whole_number(min_rows, "min_rows", 1), jobs(n_jobs), random_state, progress)
        return run.compare(names, new)


def _strategies(wanted: Sequence[str | Strategy] | None) -> list[Strategy]:
    """Return the strategies, with those that others are measured from in front."""
    if isinstance(wanted, (str, Strategy)):
        wanted = [wanted]
    given = [as_strategy(one) for one in (DEFAULT if wanted is None else wanted)]
    names = [one.name for one in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"two strategies have the name {twice[0]!r}: give one of them another, as Regressor(..., name=...)"
        )
    return list({one.name: one for one in (STRATEGIES["null"], STRATEGIES["ml"], *given)}.values())


def _designs(design: str | Sequence[str] | None, places: Places) -> list[str]:
    if design is None:
        return list(DESIGNS if places.n >= FEWEST else DESIGNS[:1])
    names = [design] if isinstance(design, str) else list(design)
    unknown = [name for name in names if name not in DESIGNS]
    if unknown or not names:
        raise InputError(f"design must be 'like', 'further' or both, not {design!r}")
    return names


@dataclass(frozen=True, eq=False)
class _Run:
    """One comparison: its rows and strategies."""

    rows: Given
    places: Places
    strategies: list[Strategy]
    min_rows: int
    n_jobs: int | None
    seed: Any
    progress: bool | None

    def compare(self, designs: list[str], new: Any) -> Comparison:
        """Return the comparison by these designs."""
        places = self.places
        full = Training(self.rows, places, frozenset())
        ml = self._new_model(full) if "further" in designs else None
        at_new = None if new is None or ml is None else self._means_of(ml, new)
        folds: list[Fold] = like(places) if "like" in designs else []
        direction: Direction | None = None
        if ml is not None:
            direction = direction_of(places, np.asarray(ml.coef_), new=at_new)
            folds = folds + further(places, direction)
        outer = places.records([fold.out for fold in folds], self.n_jobs, self.progress, "left-out environments")
        inner = self._inner(folds, outer, at_new)
        records = outer | self._inner_records(inner)
        work = partial(_one_fold, self, times=self._times())
        tasks = [(fold, self._tuning(fold, inner, records)) for fold in folds]
        with one_blas_thread():
            shown = self._shown("strategies")(tasks)
            found = Parallel(n_jobs=self.n_jobs)(delayed(work)(fold, tuning) for fold, tuning in shown)
        rows = _with_reference([row for part in found for row in part])
        verdict = self._verdict(rows, folds, outer, direction)
        return Comparison(rows, type(self.rows.model).__name__, verdict, self.min_rows)

    def _shown(self, label: str) -> Any:
        return partial(tqdm, desc=label, disable=None if self.progress is None else not self.progress)

    def _new_model(self, full: Training) -> Any:
        """Return the maximum-likelihood fit to all rows, which reads new rows and gives the direction."""
        return self.rows.reading(full.fit(), self.places.problem)

    def _means_of(self, model: Any, new: Any) -> Array:
        matrix = model.new_rows_.matrix(new)
        if not matrix.shape[0]:
            raise InputError("new has no rows: pass rows of the new place, without outcomes")
        return np.asarray(matrix.mean(axis=0))

    def _inner(self, folds: list[Fold], outer: dict[Out, Record], new: Array | None) -> dict[Fold, list[Fold]]:
        """Return the folds on which strategies are tuned, for each fold."""
        if not any(strategy.tunes for strategy in self.strategies):
            return {}
        return {fold: inner_folds(self.places, fold, outer[fold.out].slope, new) for fold in folds}

    def _inner_records(self, inner: dict[Fold, list[Fold]]) -> dict[Out, Record]:
        sets = [fold.out for folds in inner.values() for fold in folds]
        return self.places.records(sets, self.n_jobs, self.progress, "fits inside the others") if sets else {}

    def _tuning(self, fold: Fold, inner: dict[Fold, list[Fold]], records: dict[Out, Record]) -> Tuning | None:
        if fold not in inner:
            return None
        own = {one.out: records[one.out] for one in inner[fold]}
        return Tuning(self.places, fold.out, inner[fold], own)

    def _times(self) -> Array:
        """Return the time at which Brier scores are taken: the median event time; none if the outcome is no time."""
        response = self.places.data.response
        event = response.kind == Kind.EXACT
        if response.scale != "time" or not event.any() or event.all():
            return np.zeros(0)
        return np.array([float(np.median(response.upper[event]))])

    def _verdict(
        self, rows: list[dict[str, Any]], folds: list[Fold], outer: dict[Out, Record], direction: Direction | None
    ) -> Verdict:
        """Return what the comparison recommends."""
        import pandas as pd

        best = None
        if any(fold.design == "like" for fold in folds):
            frame = pd.DataFrame(rows)
            table = _like_table(frame[frame["design"] == "like"])
            better = table[(table["p"] < 0.05) & (table["difference"] < 0.0)]
            best = "ml" if better.empty else str(better.sort_values("difference").iloc[0]["strategy"])
        out = None
        if direction is not None:
            own = [fold for fold in folds if fold.design == "further"]
            tuning = Tuning(self.places, frozenset(), own, outer)
            out = further_verdict(tuning, list(range(len(self.places.xis))), direction)
        return Verdict(best, out)


def _one_fold(run: _Run, fold: Fold, tuning: Tuning | None, times: Array) -> list[dict[str, Any]]:
    """Return one row for each strategy and each environment of a fold."""
    places = run.places
    train = Training(run.rows, places, fold.out, tuning, run.min_rows)
    codes = sorted(fold.out)
    held = places.rows_in(codes)
    raw, response = train.raw(held), places.data.response[held]
    rows: list[dict[str, Any]] = []
    reference: Any = None
    for strategy in run.strategies:
        note, facts, found = "", {}, None
        try:
            predictor = strategy.fit(train)
            facts = {"xi": getattr(predictor, "xi_", math.nan), "factor": getattr(predictor, "widened_", 1.0)}
            found = scores_of_rows(predictor, raw, response, times, run.seed)
            if strategy.name == "ml":
                reference = predictor, found
        except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
            note = str(error)
        about = {"design": fold.design, "direction": fold.direction, "side": fold.side, "share": fold.share}
        for e in codes:
            own = places.groups[held] == e
            row = about | {"strategy": strategy.name, "environment": places.labels.tolist()[e]}
            row |= {"n": float(places.weights[held][own].sum()), "events": float(places.events[e])}
            row |= _means(found, own, places.weights[held], response) | facts
            row["spread_nll"] = _spread_part(reference, found, own, raw, train, held)
            row |= {"ranked": bool(places.ranked(run.min_rows)[e]), "note": note}
            rows.append(row)
    return rows


def _means(
    found: dict[str, Array] | None, own: NDArray[np.bool_], weights: Array, response: Response
) -> dict[str, float]:
    """Return the mean scores over the rows of one environment; NaN where there is none."""
    row = dict.fromkeys(SCORES, math.nan) | {"concordance": math.nan}
    if found is None:
        return row
    for name in SCORES:
        if name in found:
            values = found[name][own]
            known = ~np.isnan(values)
            if known.any():
                row[name] = float(np.average(values[known], weights=weights[own][known]))
    if "risk" in found:
        row["concordance"] = concordance_or_nan(found["risk"][own], response[own])
    return row


def _spread_part(
    reference: Any, found: dict[str, Array] | None, own: NDArray[np.bool_], raw: Any, train: Training, held: Any
) -> float:
    """Return the nll of an environment under maximum likelihood, made as wide as this strategy."""
    if reference is None or found is None:
        return math.nan
    ml, base = reference
    ratio = float(np.mean(found["width"][own]) / np.mean(base["width"][own])) if base["width"][own].any() else math.nan
    if not math.isfinite(ratio) or ratio <= 0.0:
        return math.nan
    rows = train.raw(held[own])
    nll = at_the_same_width(ml, rows, ratio)
    return math.nan if nll is None else float(np.average(nll, weights=train.places.weights[held][own]))


def _with_reference(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with skill, regret and the share of regret that the width explains."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (*(str(row[name]) for name in BY), row["environment"])

    base = {name: {key(row): row["nll"] for row in rows if row["strategy"] == name} for name in ("null", "ml")}
    result = []
    for row in rows:
        at = key(row)
        regret, wider = row["nll"] - base["ml"][at], row.pop("spread_nll") - base["ml"][at]
        more = {"skill": base["null"][at] - row["nll"], "regret": regret}
        more["spread"] = wider / regret if abs(regret) > 1e-3 else math.nan
        ordered = ["design", "direction", "side", "share", "strategy", "environment", "n", "events", "nll"]
        result.append({name: row[name] for name in ordered} | more | {k: v for k, v in row.items() if k not in ordered})
    return result
