"""Data and models for any combination of parts: ``make({"strata", "scale"})`` has what a fit and its checks need."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
from slow_loss import SlowBasis, Stated

import anchortm as atm

SITES = 3
SUPPORT = (0.3, 4.0)
TAIL = 0.5  # share of the worst environments
RANGE = (-2.0, 2.0)  # of the covariate whose effect varies
TARGET = 0.7  # mean of the numeric anchor at a target


@cache
def table(wide: bool = False) -> pd.DataFrame:
    """Return rows with every column that a part may need; more of them where a factor has 104 levels."""
    n, clusters = (312, 78) if wide else (150, 30)
    rng = np.random.default_rng(20)
    person = np.arange(n) % clusters
    site = rng.integers(0, SITES, n)
    if wide:
        site = np.arange(n) * SITES // n
    hidden = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n) + 0.5 * hidden + 0.4 * (site - 1),
            "z": rng.uniform(-1.5, 1.5, size=n),
            "u": rng.normal(size=n),  # has no effect
            "v": rng.uniform(-2.0, 2.0, size=n),
            "part": np.where(rng.uniform(size=n) < 0.5, "left", "right"),
            "person": person,
            "site": np.array(["A", "B", "C"])[site],
            "home": np.array(["A", "B", "C"])[person % SITES],  # clusters lie within homes
            "a": 0.3 * (site - 1) + rng.normal(size=n),
            "w": 1.0 + person % 3,  # constant within clusters
            "off": 0.3 * rng.normal(size=n),
            "item": np.arange(n) // 7 % 10,  # crosses persons
        }
    )
    spread = np.where(frame.part == "left", 0.8, 1.2) * np.exp(0.15 * frame.z)
    eta = 0.5 * frame.x - 0.4 * frame.z + 0.3 * np.sin(2.0 * frame.v) + 0.4 * hidden + frame.off
    eta += 0.6 * rng.normal(size=clusters)[person] + 0.4 * rng.normal(size=10)[frame.item]
    frame["y"] = eta + spread * rng.normal(size=n)
    time = np.exp(0.4 * frame.y)
    frame["entry"] = np.where(rng.uniform(size=n) < 0.3, 0.3 * time, 0.0)
    end = np.quantile(time, rng.uniform(0.5, 1.5, n).clip(0.0, 1.0))
    end = np.maximum(end, 1.1 * frame.entry)
    frame["time"] = np.ceil(20.0 * np.minimum(time, end)) / 20.0  # with ties
    frame["event"] = (time <= end).astype(int)
    frame["low"] = np.where(rng.uniform(size=n) < 0.3, 0.7 * time, time)
    frame["high"] = np.where(frame.low < time, 1.3 * time, time)
    frame.loc[3::11, "low"] = -np.inf
    frame["grade"] = pd.cut(frame.y, [-np.inf, -0.8, 0.1, 1.0, np.inf], labels=False) + 1
    frame["count"] = rng.poisson(np.exp(0.5 + 0.5 * eta))
    frame["yes"] = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    frame["amount"] = rng.gamma(2.0, np.exp(0.4 * eta) / 2.0)
    frame["b"] = frame.a + 0.5 * rng.normal(size=n)  # measures the same as a
    if wide:  # each level is found at every site
        frame["code"] = [f"k{k:03d}" for k in np.arange(n) % (n // SITES)]
    return frame


@dataclass(frozen=True)
class Outcome:
    """A model for an outcome: the class, the left side of its formula, options, and what the slow loss needs."""

    model: type
    left: str
    slow: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)


def bernstein(log: float | None = None, size: int = 4) -> SlowBasis:
    return SlowBasis("bernstein", size, SUPPORT, log)


OUTCOMES = {
    "normal": Outcome(atm.NormalLinear, "y", {}),
    "weibull": Outcome(
        atm.ParametricSurvival, "Surv(time, event, entry)", {"link": "cloglog", "basis": SlowBasis("log-linear")}
    ),
    "ordinal": Outcome(
        atm.OrdinalRegression,
        "grade",
        {"link": "logit", "basis": SlowBasis("steps", 3)},
    ),
    "logit": Outcome(
        atm.ContinuousLogit,
        "Interval(low, high)",
        {"link": "logit", "basis": bernstein()},
        {"order": 3, "support": SUPPORT},
    ),
    "hazards": Outcome(
        atm.ProportionalHazards,
        "Surv(time, event)",
        {"link": "cloglog", "basis": bernstein(0.0), "sign": 1.0},
        {"order": 3, "support": SUPPORT, "log_first": True},
    ),
    "lehmann": Outcome(
        atm.Lehmann,
        "y",
        {"link": "loglog", "basis": SlowBasis("bernstein", 3, (-1.5, 1.5))},
        {"order": 2, "support": (-1.5, 1.5)},
    ),
    "probit": Outcome(
        atm.ContinuousProbit,
        "y",
        {"link": "probit", "basis": SlowBasis("bernstein", 4, (-1.5, 1.5))},
        {"order": 3, "support": (-1.5, 1.5)},
    ),
    "count": Outcome(
        atm.CountRegression,
        "count",
        {"link": "logit", "basis": SlowBasis("bernstein", 3, (0.0, 6.0), 1.0)},
        {"order": 2, "support": (0.0, 6.0)},
    ),
    "cox": Outcome(atm.CoxPH, "Surv(time, event, entry)", {"engine": "partial", "sign": 1.0}),
    "breslow": Outcome(
        atm.CoxPH,
        "Surv(time, event, entry)",
        {"engine": "partial", "sign": 1.0, "ties": "breslow"},
        {"ties": "breslow"},
    ),
    "lognormal": Outcome(
        atm.ParametricSurvival, "Interval(low, high)", {"basis": SlowBasis("log-linear")}, {"dist": "lognormal"}
    ),
    "poisson": Outcome(atm.AnchorGLM, "count", {"engine": "mean", "family": "poisson"}, {"family": "poisson"}),
    "binomial": Outcome(atm.AnchorGLM, "yes", {"engine": "mean", "family": "binomial"}, {"family": "binomial"}),
    "gaussian": Outcome(atm.AnchorGLM, "y", {"engine": "mean", "family": "gaussian"}, {"family": "gaussian"}),
    "gamma": Outcome(atm.AnchorGLM, "amount", {"engine": "mean", "family": "gamma"}, {"family": "gamma"}),
    "negative binomial": Outcome(
        atm.AnchorGLM,
        "count",
        {"engine": "mean", "family": "negative_binomial", "alpha": 0.7},
        {"family": "negative_binomial", "alpha": 0.7},
    ),
    "deviance": Outcome(
        atm.AnchorGLM,
        "count",
        {"engine": "mean", "family": "poisson", "residual": "deviance"},
        {"family": "poisson", "residual": "deviance"},
    ),
}
TRANSFORMATIONS = ("normal", "weibull", "ordinal", "logit", "hazards", "count")


def outcome_for(parts: frozenset[str], turn: int) -> str:
    """Return a model for these parts; the turn chooses among several."""
    if "partial" in parts:
        return "cox"
    if "mean" in parts:
        return "gaussian" if "wide" in parts else ("poisson", "binomial")[turn % 2]
    if "wide" in parts:
        return "normal"
    if "proxies" in parts:
        return ("normal", "probit")[turn % 2]
    choices = TRANSFORMATIONS[:-1] if "random" in parts else TRANSFORMATIONS  # the counts of persons hardly differ
    return choices[turn % len(choices)]


@dataclass(frozen=True, eq=False)
class Case:
    """A model with some parts and its data; ``fit`` fits it, ``stated`` gives the loss that it should minimise."""

    parts: frozenset[str]
    outcome: Outcome
    data: pd.DataFrame
    anchor: str
    xi: float

    @property
    def formula(self) -> str:
        left = self.outcome.left + (" | part" if "strata" in self.parts else "")
        right = ["x", "z"]
        right += ["u"] if "l1" in self.parts else []
        if "random" in self.parts:
            right += ["(1 + z | person)" if "slope" in self.parts else "(1 | person)"]
            right += ["(1 | item)"] if "crossed" in self.parts else []
        right += ["s(v, 4)"] if "smooth" in self.parts else []
        right += ["code"] if "wide" in self.parts else []
        return f"{left} ~ {' + '.join(right)} | {' + '.join(self.anchors)}"

    @property
    def anchors(self) -> list[str]:
        """Return the anchors: numeric ones where something is known about them."""
        return ["a", "b"] if "proxies" in self.parts else ["a"] if "target" in self.parts else [self.anchor]

    @property
    def known(self) -> bool:
        """Whether anchors are numeric, so that environments are given beside them."""
        return bool(self.parts & {"target", "proxies"})

    @property
    def target(self) -> atm.TargetShift:
        """Return a target with a smaller variance where that is allowed, and else with a larger one."""
        return atm.TargetShift({"a": TARGET}, {"a": {"a": self._variance}})

    @property
    def _variance(self) -> float:
        return 0.4 if self.outcome in (OUTCOMES["normal"], OUTCOMES["probit"]) else 2.5

    @property
    def options(self) -> dict[str, Any]:
        """Return arguments of the model's constructor, without xi."""
        found = dict(self.outcome.options)
        found |= {"varying": {"z": RANGE}} if "varying" in self.parts else {}
        found |= {"scale": "x"} if "scale" in self.parts else {}
        found |= {"l1": 0.03} if "l1" in self.parts else {}
        found |= {"l2": 0.05} if "l2" in self.parts else {}
        found |= {"tail": TAIL} if "tail" in self.parts else {}
        found |= {name: "equal" for name in ("environment_weights", "anchor_weights") if name in self.parts}
        found |= {"target": self.target} if "target" in self.parts else {}
        found |= {"proxies": atm.Proxies("a", "b")} if "proxies" in self.parts else {}
        return found

    @property
    def columns(self) -> dict[str, str]:
        found = {"sample_weight": "w"} if "weights" in self.parts else {}
        return found | ({"offset": "off"} if "offset" in self.parts else {})

    @property
    def boosted(self) -> bool:
        return "boosting" in self.parts

    @property
    def linear(self) -> bool:
        """Whether there are coefficients: penalties of boosted models act on a linear part beside the trees."""
        return not self.boosted or bool(self.parts & {"l1", "l2", "smooth"})

    def model(self, **changes: Any) -> Any:
        """Return the model before it is fitted; strata and random effects are named by the formula."""
        if self.boosted:
            base = self.outcome.model(**self.options)
            given = {"xi": self.xi, "n_rounds": 3, "random_state": 0}
            given |= {"learner": "linear+tree"} if self.linear else {}
            return atm.AnchorBoostedTM(base, **given | changes)
        return self.outcome.model(**{"xi": self.xi} | self.options | changes)

    def fit(self, data: Any = None, **changes: Any) -> Any:
        """Return the model, fitted by the formula to a table or to what ``data`` names."""
        model = self.model(**changes)
        return type(model).from_formula(
            self.formula, self.data if data is None else data, **self.columns, **model.get_params(deep=False)
        )

    @cached_property
    def pieces(self) -> dict[str, Any]:
        """Return covariates, outcome, anchors, and the other arguments of functions that take no formula."""
        extra = {name: self.data[column].to_numpy() for name, column in self.columns.items()}
        made = atm.Formula.counted(self.formula, self.data, extra.get("sample_weight"))
        return {"X": made.X, "y": made.y, "anchors": made.anchors, "extra": extra, "formula": made}

    def bare(self, **changes: Any) -> Any:
        """Return the model for covariates without a formula: columns that are strata or clusters are named."""
        made = self.pieces["formula"]
        roles: dict[str, Any] = {"strata": made.strata} if made.strata else {}
        roles |= {"random": made.random} if made.random is not None else {}
        if not self.boosted:
            return self.model(**roles | changes)
        model = self.model(**changes)
        return model.set_params(model=model.model.set_params(**roles))

    def stated(self, model: Any) -> Stated:
        """Return the loss of a fitted model, from the table and the names that the model reports."""
        data = self.data
        lower, upper, entry = self._ends(data)
        slow = dict(self.outcome.slow)
        if "strata" in self.parts:
            slow["stratum"] = (data.part == "right").to_numpy().astype(int)
        if "random" in self.parts:
            slow["cluster"] = np.unique(data.person, return_inverse=True)[1]
        if "slope" in self.parts:
            slow |= {"slope": data.z.to_numpy(), "n_nodes": 20}
        if "crossed" in self.parts:
            slow["crossed"] = data.item.to_numpy()
        if "varying" in self.parts:
            slow |= {"V": data[["z"]].to_numpy() - RANGE[0], "width": RANGE[1] - RANGE[0]}
        xi = 0.5 if "target" in self.parts else float(model.xi_)
        if "scale" in self.parts:
            slow |= {"Z": data[["x"]].to_numpy(), "xi_scale": xi}
        offset = data.off.to_numpy() if "offset" in self.parts else np.zeros(len(data))
        X = np.zeros((len(data), 0))
        if self.linear:
            names, inner = model.coef_names_, model.model if self.boosted else model
            X = self._design(names)
            slow["bends"] = np.array(["s(" in name and "linear" not in name for name in names], dtype=float)
            slow |= {"l1": inner.l1, "l2": inner.l2, "smooth": inner.smooth}
        if "tail" in self.parts:
            slow |= {"tail": TAIL, "multipliers": model.environment_multipliers_.to_numpy()}
        if self.boosted:  # the trees are given, the baseline and the linear part are optimal
            offset = self._trees(model) - X @ model.coef_[: X.shape[1]]
        w = data.w.to_numpy() if "weights" in self.parts else np.ones(len(data))
        A = dummies(data[self.anchor])
        if self.known:
            A = data[self.anchors].to_numpy()
            A = A - np.average(A, axis=0, weights=w)
            slow["omega"] = self._omega(A, w)
        return Stated(
            lower,
            upper,
            X,
            w,
            offset,
            A,
            entry=entry,
            xi=xi,
            places=np.unique(data[self.anchor], return_inverse=True)[1],
            equal=("environment_weights" in self.parts, "anchor_weights" in self.parts),
            **slow,
        )

    def _omega(self, A: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the matrix of the penalty in the sums of the residuals over centred anchors."""
        gram = (w[:, None] * A).T @ A
        if "proxies" in self.parts:
            return np.array([[0.0, 0.5], [0.5, 0.0]]) / gram[0, 1]
        return w.sum() * (self._variance - gram / w.sum()) / gram**2

    def target_shift(self, stated: Stated, w: np.ndarray) -> float:
        """Return how much further h lies at the target: a Newton step towards a mean residual of 0."""
        r, step = stated.terms(w)[1], 1e-5
        ends = [replace(stated, offset=stated.offset + k * step).terms(w)[1] for k in (stated.sign, -stated.sign)]
        slope = np.average((ends[0] - ends[1]) / (2.0 * step), weights=stated.weights)
        kappa = (stated.weights * r) @ stated.A[:, 0] / (stated.weights @ stated.A[:, 0] ** 2)
        away = TARGET - np.average(self.data.a, weights=stated.weights)
        return float(kappa * away / slope)

    def _trees(self, model: Any) -> np.ndarray:
        """Return the shift of all rows by trees and offset."""
        if hasattr(model, "formula_"):
            return np.asarray(model.predict_distribution(self.data).shift)
        given = {name: values for name, values in self.pieces["extra"].items() if name == "offset"}
        return np.asarray(model.predict_distribution(self.pieces["X"], **given).shift)

    def _design(self, names: list[str]) -> np.ndarray:
        """Return the columns of coefficients: those of the table, indicators of levels, curves of smooth terms."""
        columns = []
        for name in names:
            if "s(" in name:
                columns.append(self._curves[name].to_numpy())
            elif "[T." in name:
                columns.append((self.data.code == name.split("[T.")[1][:-1]).to_numpy())
            else:
                columns.append(self.data[name].to_numpy())
        return np.column_stack(columns).astype(float)

    @cached_property
    def _curves(self) -> pd.DataFrame:
        """Return the columns of smooth terms."""
        made = self.pieces["X"]
        if isinstance(made, pd.DataFrame):
            return made
        return pd.DataFrame(made.matrix.toarray(), columns=made.names)

    def _ends(self, data: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return lower and upper ends of outcomes, and entries."""
        left = self.outcome.left
        if left == "Interval(low, high)":
            return data.low.to_numpy(), data.high.to_numpy(), None
        if left.startswith("Surv"):
            time, event = data.time.to_numpy(), data.event.to_numpy() == 1
            entry = data.entry.to_numpy() if "entry" in left else None
            return time, np.where(event, time, np.inf), entry
        y = data[left].to_numpy().astype(float)
        if left == "grade":
            return y - 2.0, y - 1.0, None
        if left == "count" and self.outcome.model is atm.CountRegression:
            return y - 1.0, y, None
        return y, y, None


def dummies(anchor: pd.Series) -> np.ndarray:
    """Return the columns of an anchor and the constant."""
    if anchor.dtype == float:
        return np.column_stack([np.ones(len(anchor)), anchor])
    return (anchor.to_numpy()[:, None] == np.unique(anchor)).astype(float)


def parameters(case: Case, model: Any) -> np.ndarray:
    """Return the reported numbers: baselines, coefficients, scale effects, standard deviation of random intercepts."""
    if case.boosted:
        return np.append(model.baseline_, model.coef_ if case.linear else []).astype(float)
    found = [np.zeros(0) if "partial" in case.parts else np.ravel(model.baseline_), model.coef_]
    found += [model.scale_coef_] if "scale" in case.parts else []
    if "crossed" in case.parts:
        found.append(np.ravel(model.random_sd_))
    elif "random" in case.parts:
        found.append(
            np.linalg.cholesky(np.asarray(model.random_cov_) + 1e-300)[np.tril_indices(len(model.random_cov_))]
        )
    return np.concatenate(found).astype(float)


def of_training(case: Case, model: Any) -> np.ndarray:
    """Return the reported numbers of the training rows: those of a target are moved back."""
    found = parameters(case, model)
    if "target" not in case.parts:
        return found
    basis = case.outcome.slow.get("basis", SlowBasis("linear"))
    level = np.eye(basis.size)[0] if basis.kind in ("linear", "log-linear") else np.ones(basis.size)
    strata = 2 if "strata" in case.parts else 1
    found[: strata * basis.size] += model.target_shift_ * np.tile(level, strata)
    return found


def make(parts: set[str] | frozenset[str], turn: int = 0, anchor: str = "", outcome: str = "") -> Case:
    """Return a model with these parts, engines and ends, and data for it.

    Beside "random", "slope" adds a random slope and "crossed" a second random intercept.
    """
    parts = frozenset(parts)
    infinite, weighed = "infinite" in parts, bool(parts & {"environment_weights", "anchor_weights"})
    if weighed and not anchor:
        anchor = "home" if "random" in parts else "site"  # weights are constant within clusters
    return Case(
        parts,
        OUTCOMES[outcome or outcome_for(parts, turn)],
        table("wide" in parts),
        anchor or ("a" if infinite and "tail" not in parts else "site"),
        math.inf if infinite else 0.0 if "target" in parts else 0.5,
    )
