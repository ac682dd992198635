"""What the results of the survey say, as tables: every number and every word of the page's conclusions is from here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from anchortm._typing import Array
from anchortm.survey import thresholds as limit
from anchortm.survey.measuring import LABELS, Record

__all__ = ["STRATEGIES", "Findings", "interval", "rank_correlation"]

STRATEGIES = {  # in the order of tables and pictures
    "widened": "widened",
    "anchored": "anchored",
    "anchored+spread": "anchored, spread tuned",
    "anchored, by the mean": "anchored, xi by the mean",
    "anchored(3)": "anchored, xi = 3",
    "equal": "equal environments",
    "random-intercept": "random intercept",
    "worst": "worst environment",
    "boosted": "boosted",
    "boosted, anchored": "boosted and anchored, xi = 3",
    "gradient boosting": "scikit-learn's gradient boosting",
}
TUNED = ("widened", "anchored", "anchored+spread", "random-intercept", "equal", "worst")  # linear, without outcomes
DRAWS = 4000
LEAST = 8  # data sets, for a mean with an interval
PREDICTORS: dict[str, tuple[str, Callable[[Record], Any]]] = {
    "location": (
        "R2 of `location_shift`: mean residuals regressed on mean covariates",
        lambda r: _of(r, "location", "r2"),
    ),
    "location p": ("1 - p of `location_shift`", lambda r: _rest(_of(r, "location", "p"))),
    "score": (
        "-log p of `score_test`: dependence of residuals on environments",
        lambda r: _log(_of(r, "score_test", "p")),
    ),
    "places sd": ("standard deviation of shifts between environments", lambda r: r["labels"][-1]["gain"]),
    "shift": ("shift of mean covariates in the median environment", lambda r: _of(r, "shift", "median")),
    "places": ("number of environments", lambda r: r["facts"]["places"]),
    "rows": ("rows of the median environment", lambda r: r["facts"]["median_rows"]),
}


def _of(record: Record, part: str, name: str) -> Any:
    return None if record.get(part) is None else record[part][name]


def _rest(value: Any) -> Any:
    return None if value is None else 1.0 - value


def _log(value: Any) -> Any:
    return None if value is None else -float(np.log(max(value, 1e-300)))


def interval(values: Any) -> tuple[float, float]:
    """Return the bootstrap interval of a mean over data sets; NaN if there are few."""
    x = np.asarray(values, dtype=np.float64)
    x = x[np.isfinite(x)]
    if x.size < LEAST:
        return np.nan, np.nan
    draws = x[np.random.default_rng(0).integers(x.size, size=(DRAWS, x.size))]
    low, high = np.quantile(draws.mean(axis=1), [0.5 - limit.INTERVAL / 2, 0.5 + limit.INTERVAL / 2])
    return float(low), float(high)


def rank_correlation(x: Any, y: Any) -> tuple[float, float, float, int]:
    """Return Spearman's correlation, its bootstrap interval, and the number of pairs."""
    pairs = np.array([x, y], dtype=np.float64)
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    n = pairs.shape[1]
    if n < LEAST or (np.ptp(pairs, axis=1) == 0.0).any():
        return np.nan, np.nan, np.nan, n
    rows = np.random.default_rng(0).integers(n, size=(DRAWS, n))
    low, high = np.nanquantile(_spearman(*pairs[:, rows]), [0.5 - limit.INTERVAL / 2, 0.5 + limit.INTERVAL / 2])
    return float(_spearman(*pairs)), float(low), float(high), n


def _spearman(x: Array, y: Array) -> Array:
    """Return Spearman's correlation along the last axis; NaN where all values are equal."""
    first, second = (
        ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (rankdata(x, axis=-1), rankdata(y, axis=-1))
    )
    size = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    return np.asarray((first * second).sum(axis=-1) / np.where(size > 0.0, size, np.nan))


@dataclass(frozen=True, eq=False)
class Findings:
    """The results of all data sets, and what they say together.

    Attributes
    ----------
    records : sequence of dict
        What was measured, one record for each data set.
    """

    records: Sequence[Record]

    @cached_property
    def measured(self) -> list[Record]:
        """Return the records of data sets that could be compared."""
        return [record for record in self.records if record.get("comparison")]

    @cached_property
    def judged(self) -> list[Record]:
        """Return those on which conclusions rest: data that were not looked at while the package was made."""
        return [record for record in self.measured if not record["facts"]["seen"]]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Return one row for each data set, design and strategy, with the facts of the data set."""
        names = ("kind", "places", "rows", "seen")
        found = pd.DataFrame(
            [
                {"data": record["name"], **{name: record["facts"][name] for name in names}} | row
                for record in self.measured
                for row in record["comparison"]["rows"]
            ]
        )
        numbers = ["gain", "width_gain", "near", "far", "crps", "coverage", "p", "se", "q10", "xi", "nll"]
        return found.astype(dict.fromkeys(numbers, np.float64))

    def table(self, design: str, value: str = "gain") -> pd.DataFrame:
        """Return a value by data set and strategy, over the data sets that are judged."""
        own = self.rows[(self.rows["design"] == design) & ~self.rows["seen"]]
        return own.pivot(index="data", columns="strategy", values=value)

    def summary(self, design: str) -> pd.DataFrame:
        """Return one row for each strategy: its mean gain over data sets, and on how many it gains and loses."""
        gains, p, crps = (self.table(design, value) for value in ("gain", "p", "crps"))
        found = []
        for name, title in STRATEGIES.items():
            if name not in gains:
                continue
            own = gains[name].dropna()
            clear = p[name] < limit.CLEAR
            change = (crps[name] / crps["ml"] - 1.0).dropna()
            found.append(
                {
                    "strategy": title,
                    "sets": len(own),
                    "mean": own.mean(),
                    "interval": interval(own),
                    "median": own.median(),
                    "better": int((own > limit.GAIN).sum()),
                    "worse": int((own < -limit.GAIN).sum()),
                    "clearly better": int((clear & (gains[name] > limit.GAIN)).sum()),
                    "clearly worse": int((clear & (gains[name] < -limit.GAIN)).sum()),
                    "crps": 100.0 * change.median(),
                    "worst": own.idxmin(),
                    "lost": own.min(),
                }
            )
        return pd.DataFrame(found).set_index("strategy")

    def near_far(self) -> pd.DataFrame:
        """Return the mean gains at near and at far environments, and their difference, for each strategy."""
        near, far = self.table("like", "near"), self.table("like", "far")
        found = []
        for name, title in STRATEGIES.items():
            both = pd.DataFrame({"near": near[name], "far": far[name]}).dropna()
            more = both["far"] - both["near"]
            row = {"strategy": title, "near": both["near"].mean(), "far": both["far"].mean()}
            found.append(row | {"difference": more.mean(), "interval": interval(more)})
        return pd.DataFrame(found).set_index("strategy")

    def hard(self) -> pd.DataFrame:
        """Return what strategies gain at the hard environments: by the 90 % quantile of the loss, and by the worst."""
        kept = [record["hard"] for record in self.judged if record.get("hard")]
        rows = []
        for name in ("widened", "anchored", "anchored, by the mean"):
            for measure in ("q90", "worst"):
                gains = pd.Series([own["ml"][measure] - own[name][measure] for own in kept], dtype=np.float64)
                row = {"strategy": STRATEGIES[name], "measure": measure, "sets": len(gains), "mean": gains.mean()}
                row |= {"interval": interval(gains), "better": int((gains > limit.GAIN).sum())}
                rows.append(row | {"worse": int((gains < -limit.GAIN).sum())})
        return pd.DataFrame(rows)

    def width(self) -> pd.DataFrame:
        """Return, for strategies that gain on a data set, on how many of them the gain is mostly one of width."""
        found = []
        for name in ("anchored", "anchored+spread", "random-intercept", "widened"):
            for design in ("like", "further"):
                gain, width = self.table(design)[name], self.table(design, "width_gain")[name]
                own = gain > limit.GAIN
                share = (width[own] / gain[own]).clip(0.0, 1.0)
                row = {"strategy": STRATEGIES[name], "design": design, "gains on": int(own.sum())}
                found.append(row | {"mostly width": int((share > limit.MOSTLY).sum()), "share": share.median()})
        return pd.DataFrame(found)

    def labels(self) -> pd.DataFrame:
        """Return the gains from few outcomes of the new place, beside the best strategy that needs none."""
        like, rows = self.table("like"), []
        best = like[[name for name in TUNED if name in like]].max(axis=1).clip(lower=0.0)
        for record in self.judged:
            if record["labels"] is None:
                continue
            curve = {own["labels"]: own["gain"] for own in record["labels"]}
            own = {f"{m} outcomes": curve[m] for m in LABELS}
            rows.append({"data": record["name"], "best without": best[record["name"]], **own})
        return pd.DataFrame(rows).set_index("data").astype(np.float64)

    def predictors(self) -> pd.DataFrame:
        """Return how well what is known in advance ranks the data sets by what anchoring gains."""
        found = []
        for design in ("like", "further"):
            gains = self.table(design)["anchored"]
            for title, value in PREDICTORS.values():
                x = [value(record) if record["labels"] else None for record in self.judged]
                x = [np.nan if own is None else own for own in x]
                y = [gains.get(record["name"], np.nan) for record in self.judged]
                rho, low, high, n = rank_correlation(x, y)
                row = {"design": design, "diagnostic": title, "rho": rho, "interval": (low, high), "sets": n}
                found.append(row | {"predicts": bool(low > limit.PREDICTS or high < -limit.PREDICTS)})
        return pd.DataFrame(found)

    def alarm(self) -> pd.DataFrame:
        """Return how often anchoring gains where the location diagnostic is positive, and where it is not."""
        rows = []
        for design in ("like", "further"):
            gains = self.table(design)["anchored"]
            for record in self.judged:
                if record.get("location") and record["name"] in gains:
                    rows.append((design, _positive(record), gains[record["name"]]))
        frame = pd.DataFrame(rows, columns=["design", "positive", "gain"]).dropna()
        groups = frame.groupby(["design", "positive"])["gain"]
        found = groups.agg(["size", "mean"])
        found["better"] = groups.agg(lambda own: int((own > limit.GAIN).sum()))
        found["worse"] = groups.agg(lambda own: int((own < -limit.GAIN).sum()))
        return found.reset_index()

    def advice(self) -> pd.DataFrame:
        """Return one row for each time the advice of ``assess`` was tried on places that were held back."""
        rows = [_tried(record, tried) for record in self.judged for tried in record["held_back"] or []]
        frame = pd.DataFrame(rows)
        numbers = ["gain", "widened", "anchored", "anchored+spread", "equal", "best", "recalibrated"]
        return frame.astype(dict.fromkeys(numbers, np.float64))

    def conformal(self) -> pd.DataFrame:
        """Return the coverage of 90 % conformal sets, and of the model's own, by data set."""
        own = {record["name"]: record["conformal"] for record in self.judged if record.get("conformal")}
        return pd.DataFrame.from_dict(own, orient="index").astype(np.float64)


def _tried(record: Record, tried: Record) -> Record:
    """Return what was advised for places that were held back, and what strategies then gained there."""
    gains = {own["strategy"]: own["gain"] for own in tried["rows"] if own["gain"] is not None}
    few = next((gain for label, gain in gains.items() if label.startswith("recalibrated")), None)
    said = tried["advice"]
    got = few if said["strategy"] == "recalibrate" else gains.get(said["strategy"])
    got = gains.get(f"anchored({said['xi'] or 0:g})") if got is None and said["strategy"] == "anchored" else got
    row = {"data": record["name"], "held back": tried["which"], "agrees": tried["agrees"], "recalibrated": few}
    row |= {"strategy": said["strategy"], "confidence": said["confidence"], "gain": got}
    row |= {label: gains.get(label) for label in ("widened", "anchored", "anchored+spread", "equal")}
    return row | {"best": max((gains[label] for label in TUNED if label in gains), default=np.nan)}


def _positive(record: Record) -> bool:
    """Return whether mean covariates predict the mean residuals of left-out environments by more than chance."""
    found = record["location"]
    return bool(found["p"] is not None and found["p"] < limit.CLEAR and found["r2"] > 0.0)
