"""Everything that is measured on one data set of the survey: each part is a function from rows to plain values."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import anchortm as atm
from anchortm.exceptions import AnchorTMError
from anchortm.models.given import given
from anchortm.newplace.assessment.labels import curve_like
from anchortm.newplace.regressor import Regressor
from anchortm.newplace.strategies import Anchored, Strategy
from anchortm.selection.places import places_of
from anchortm.survey.catalogue import DataSet
from anchortm.survey.preparation import PLACE, SEED, Prepared

__all__ = ["LABELS", "LEVEL", "measured", "strategies_for"]

LEVEL = 0.9  # of intervals and sets
LABELS = (0, 5, 20)
GROUPS = 5  # of places, which are left out together to try conformal sets
HELD_BACK = 0.2  # share of the places that the advice is tried on
FEWEST_HELD_BACK = 10  # places, below which none are held back
FAR = 1.0 / 3.0  # share of the places that count as far
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
XI = 3.0  # fixed, in the middle of the values that searches choose from
Record = dict[str, Any]


@dataclass(frozen=True)
class MeanAnchored(Anchored):
    """Anchored with xi chosen by the mean over left-out environments instead of their 90 % quantile."""

    objective: str | float = "mean"
    name: ClassVar[str] = "anchored, by the mean"


def strategies_for(kind: str, model: Any) -> list[str | Strategy]:
    """Return the strategies that are compared on outcomes of a kind."""
    found: list[str | Strategy] = [*("equal", "widened", "anchored", "anchored+spread", "random-intercept", "worst")]
    found += [MeanAnchored(), Anchored(XI)]
    rounds: Record = {"n_rounds": 50, "validation": 0.25, "random_state": SEED}
    for name, xi in (("boosted", 0.0), ("boosted, anchored", XI)):
        found.append(Regressor(atm.AnchorBoostedTM(model, xi=xi, **rounds), name))
    trees: Record = {"max_iter": 50, "max_leaf_nodes": 15, "random_state": SEED, "early_stopping": False}
    if kind in ("ordinal", "binary"):
        found.append(Regressor(HistGradientBoostingClassifier(**trees), "gradient boosting"))
    elif kind not in ("time", "count"):  # it has no distribution for censored times and for counts
        learner = HistGradientBoostingRegressor(loss="quantile", **trees)
        found.append(Regressor(learner, "gradient boosting", QUANTILES))
    return found


def measured(data: DataSet, table: Prepared) -> Record:
    """Return everything that is measured on a data set, as plain values; what fails says why."""
    found: Record = {"name": data.name, "digest": data.digest, "facts": _facts(data, table), "failed": {}}
    start = time.perf_counter()
    parts: dict[str, Callable[[DataSet, Prepared], Any]] = {
        "comparison": _comparison,
        "hard": _hard,
        "shift": _shift,
        "location": _location,
        "score_test": _score_test,
        "labels": _labels,
        "conformal": _conformal,
        "held_back": _held_back,
    }
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, part in parts.items():
            try:
                found[name] = part(data, table)
            except AnchorTMError as error:
                found[name], found["failed"][name] = None, str(error)
    return found | {"seconds": time.perf_counter() - start}


def _facts(data: DataSet, table: Prepared) -> Record:
    """Return what the data are."""
    frame = table.frame
    exact = float(frame["event"].mean()) if data.kind == "time" else 1.0
    return {
        "table": data.table,
        "kind": data.kind,
        "environments": data.environments,
        "seen": data.seen,
        "formula": table.formula,
        "model": type(table.model).__name__,
        "rows": len(frame),
        "places": table.n_places,
        "median_rows": float(frame[PLACE].value_counts().median()),
        "exact": exact,
        "remarks": table.remarks,
    }


def _comparison(data: DataSet, table: Prepared) -> Record:
    """Return the means of all scores by design and strategy, and what the comparison advises."""
    found = atm.compare_strategies(
        table.model,
        table.formula,
        table.frame,
        strategies=strategies_for(data.kind, table.model),
        scores=["crps", "coverage", "spread"],
        progress=False,
    )
    frame = found.frame()
    distance = _distances(table)
    frame["far"] = frame["environment"].map(str).map(distance) >= np.quantile(list(distance.values()), 1.0 - FAR)
    tests = found.table().set_index(["design", "strategy"])
    rows = []
    for (design, strategy), own in frame.groupby(["design", "strategy"], sort=False):
        test = tests.loc[(design, strategy)]
        rows.append(_means(own) | {"design": design, "strategy": strategy, "se": test["se"], "p": test["p"]})
    further = found.verdict.further
    advice = {"like": found.verdict.like, "further": None if further is None else further.strategy}
    return {"rows": rows, "advice": advice, "confidence": None if further is None else further.confidence}


def _means(own: pd.DataFrame) -> Record:
    """Return the means of scores over left-out places; of the design "further" over its folds."""
    gain = -own["regret"]
    width = (own["spread"] * gain).where(own["spread"].notna(), 0.0).where(gain.notna())
    fold = [own[name].astype(str) for name in ("direction", "side", "share")]

    def mean(values: pd.Series) -> float:
        return float(values.groupby(fold).mean().mean())

    far = own["far"].to_numpy(dtype=bool)
    found = {name: mean(own[name]) for name in ("nll", "skill", "crps", "coverage", "xi", "factor")}
    found |= {"gain": mean(gain), "width_gain": mean(width), "failed": int(own["nll"].isna().sum())}
    found |= {"near": _mean(gain[~far]), "far": _mean(gain[far]), "gained": _mean((gain > 0.0)[gain.notna()])}
    return found | {"places": int(own["environment"].nunique()), "q10": float(gain.quantile(0.1))}


def _mean(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else math.nan


def _hard(data: DataSet, table: Prepared) -> Record:
    """Return the 90 % quantile of the loss over left-out places, and the worst: what rules for xi are about.

    This was added after the first results, to judge the default rule by what it is made for.
    """
    found = atm.compare_strategies(
        table.model,
        table.formula,
        table.frame,
        design="like",
        strategies=["widened", "anchored", MeanAnchored()],
        scores=[],
        progress=False,
    )
    return {row["strategy"]: {"q90": row["q90"], "worst": row["worst"]} for row in found.table().to_dict("records")}


def _distances(table: Prepared) -> dict[str, float]:
    """Return how far the mean covariates of each place are from those of all rows: Mahalanobis distances."""
    import formulaic

    right = table.formula.split("~")[1].split("|")[0]
    X = np.asarray(formulaic.model_matrix(right, table.frame), dtype=np.float64)[:, 1:]
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    precision = np.linalg.pinv(Z.T @ Z / len(Z), rcond=1e-10, hermitian=True)
    labels = table.frame[PLACE].to_numpy()
    means = {str(label): Z[labels == label].mean(axis=0) for label in np.unique(labels)}
    return {label: float(math.sqrt(max(own @ precision @ own, 0.0))) for label, own in means.items()}


def _shift(data: DataSet, table: Prepared) -> Record:
    """Return how far the mean covariates of places are from those of all rows, in the middle and at most."""
    found = list(_distances(table).values())
    return {"median": float(np.median(found)), "largest": max(found)}


def _location(data: DataSet, table: Prepared) -> Record:
    """Return how well mean covariates of places predict their mean residuals."""
    found = atm.diagnostics.location_shift(table.model, table.formula, table.frame, random_state=0)
    return {"r2": found.r2, "se": found.se, "p": found.pvalue, "noise": found.noise, "beyond": found.beyond_chance}


def _score_test(data: DataSet, table: Prepared) -> Record:
    """Return whether residuals depend on the place."""
    return {"p": float(atm.diagnostics.score_test(table.model, table.formula, table.frame).pvalue)}


def _labels(data: DataSet, table: Prepared) -> list[Record]:
    """Return what a few outcomes of the new place gain over maximum likelihood without them."""
    rows = given(table.model, table.formula, table.frame, None)
    with rows.screened():
        curve = curve_like(places_of(rows, [0.0], None)[1], LABELS, None, SEED)
    found = [{"labels": m, "gain": curve.at(m)[0], "se": curve.at(m)[1], "places": curve.sites(m)} for m in LABELS]
    return [*found, {"labels": None, "gain": curve.sd, "se": math.nan, "places": curve.sites(0)}]


def _conformal(data: DataSet, table: Prepared) -> Record:
    """Return the coverage of conformal sets at places that are left out in groups, and that of plain intervals."""
    frame, places, infinite = table.frame, [], []
    for held in _groups(frame[PLACE]):
        predictor = atm.ConformalPredictor(table.model, LEVEL, method="loeo", random_state=SEED, progress=False)
        predictor.fit(table.formula, frame[~held])
        places.append(predictor.coverage_by_place(frame[held]).frame())
        infinite.append(not math.isfinite(predictor.threshold_))
    found = pd.concat(places)
    own = {name: float(found[name].mean()) for name in ("coverage", "model")}
    return own | {"infinite": float(np.mean(infinite)), "places": len(found)}


def _groups(places: pd.Series) -> list[NDArray[np.bool_]]:
    """Return which rows are left out together: the places in random groups of about the same number."""
    labels = np.random.default_rng(SEED).permutation(np.sort(places.unique()))
    return [places.isin(own).to_numpy() for own in np.array_split(labels, min(GROUPS, labels.size)) if own.size]


def _held_back(data: DataSet, table: Prepared) -> list[Record]:
    """Return what the comparison advises from some of the places, and what the others then show.

    Held back are a random fifth of the places, and the fifth whose mean covariates are furthest from those of all.
    """
    distance = _distances(table)
    if len(distance) < FEWEST_HELD_BACK:
        return []
    many = max(2, round(HELD_BACK * len(distance)))
    far = sorted(distance, key=lambda label: distance[label])[-many:]
    some = np.random.default_rng(SEED).permutation(sorted(distance))[:many].tolist()
    return [_advised(table, which, held) for which, held in (("like", some), ("further", far))]


def _advised(table: Prepared, which: str, held: Sequence[str]) -> Record:
    """Return what is advised for one set of places, and what each strategy gains there."""
    away = table.frame[PLACE].isin(held).to_numpy()
    known, new = table.frame[~away], table.frame[away]
    found = atm.assess(table.model, table.formula, known, new=new, progress=False).with_outcomes(new)
    advice, shown = found.recommendation.main, found.held_back
    if shown is None:
        raise AnchorTMError("the held-back places could not be predicted")
    rows = [{name: row[name] for name in ("strategy", "xi", "gain", "se", "coverage")} for row in shown.rows]
    said = {"design": advice.design, "strategy": advice.strategy, "xi": advice.xi, "confidence": advice.confidence}
    return {"which": which, "places": len(held), "advice": said, "agrees": shown.agrees, "rows": rows}
