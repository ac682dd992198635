"""The frozen result of boosting: f, the fit after each round, and the held-out loss; with its record for files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import flag, real_numbers, whole_number
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError
from anchortm.models.boosted.booster import Stage
from anchortm.models.boosted.shape import Shape
from anchortm.models.boosted.trees import ARRAYS, checked_tree

__all__ = ["BoostedResult"]

Array = NDArray[np.float64]

MOST_INFORMATION = 500_000  # a file holds the information of all stages (for refits) up to this many numbers


@dataclass(frozen=True, eq=False)
class BoostedResult:
    """The results of boosting, except the parameters of the inner model."""

    shape: Shape
    stages: list[Stage]
    curve: Array  # negative log-likelihood of held-out environments after each round
    held_out: list[Any]
    coef_names: list[str]  # the covariates of f
    covariates: list[str]  # all covariates in the order of X, including those with varying effects
    columns: tuple[str, ...] | None  # names of the columns of X, if X has names
    n_features_in: int
    covariate_ranges: Array
    importances: Array
    had_offset: bool
    refit: dict[str, Any] | None = None

    @property
    def n_rounds(self) -> int:
        """Return the number of rounds."""
        return len(self.stages) - 1

    def first(self, rounds: int, beta: Array) -> BoostedResult:
        """Return the result after this number of rounds; ``beta`` is the linear part beside trees."""
        shape = self.shape.first(rounds, beta)
        return replace(self, shape=shape, stages=self.stages[: rounds + 1], importances=shape.importances())

    def to_dict(self) -> dict[str, Any]:
        """Return the record for a file, without the inner model."""
        small = len(self.stages) * self.stages[-1].active.size ** 2 <= MOST_INFORMATION
        return {
            "trees": [{name: getattr(tree, name) for name in ARRAYS} for tree in self.shape.trees],
            "steps": self.shape.steps,
            "stages": [(stage if small else stage._replace(information=None))._asdict() for stage in self.stages],
            "curve": self.curve,
            "held_out": self.held_out,
            "coef": self.shape.coef,
            "importances": self.importances,
            "names": self.coef_names,
            "covariates": self.covariates,
            "features": None if self.columns is None else list(self.columns),
            "ranges": self.covariate_ranges,
            "spread": self.shape.spread,
            "offset": self.had_offset,
            "refit": self.refit,
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any], learner: str, n_beside: int, inner: FitResult) -> BoostedResult:
        """Return the checked result from a record of ``to_dict``.

        Parameters
        ----------
        record : dict
            The record.
        learner : str
            The learner.
        n_beside : int
            Number of columns of X that are anchors or strata.
        inner : FitResult
            The result of the inner model.
        """
        names = record["names"]
        covariates = record.get("covariates", names)  # early files do not have it
        _need(isinstance(names, list) and all(isinstance(name, str) for name in names), "the covariates have no names")
        k = len(record["stages"])
        _need(k > 0 and isinstance(record["offset"], bool), "the stages or the offset are invalid")
        _check_inner(inner, names if learner == "linear+tree" else [])
        _need(len(names) > 0, "there are no covariates")
        varying = [] if inner.corners is None else inner.corners.varying_names
        _need(
            isinstance(covariates, list)
            and [name for name in covariates if name not in varying] == names
            and set(varying) <= set(covariates),
            "the covariates are incomplete",
        )
        shape = _shape(record, learner, len(names), k)
        made = cls(
            shape,
            [_stage(stage, inner) for stage in record["stages"]],
            *_held_out(record, k),
            names,
            covariates,
            _features(record["features"], len(covariates) + n_beside),
            len(covariates) + n_beside,
            _numbers(record["ranges"], (2, len(covariates))),
            _numbers(record["importances"], (len(names),)),
            record["offset"],
            _refit(record["refit"]),
        )
        made.check(inner)
        return made

    def check(self, inner: FitResult) -> None:
        """Raise an error if parts contradict each other or the result of the inner model."""
        shape, linear = self.shape, self.shape.learner == "linear"
        same = not shape.linear or np.array_equal(shape.coef, inner.coef)
        _need(same, "the coefficients differ from those of the inner model")
        _need(shape.learner != "tree" or not shape.coef.any(), "trees have no coefficients")
        spread = shape.spread > 0.0 if linear else shape.spread >= 0.0
        _need(bool(spread.all()), "the spread of a covariate is invalid")
        _need(bool((np.diff(self.covariate_ranges, axis=0) >= 0.0).all()), "the range of a covariate is invalid")
        _need(bool((self.importances >= 0.0).all()), "the importance of a covariate is invalid")
        if self.refit is None and inner.recalibration is None:
            last = self.stages[-1]
            same = np.array_equal(last.theta, inner.baseline) and np.array_equal(last.beta, inner.coef)
            _need(same and last.loss == inner.loss, "the last round differs from the inner model")
            steps = np.sum(shape.steps, axis=0) if shape.steps else np.zeros(len(self.coef_names))
            _need(not linear or np.array_equal(shape.coef, steps), "the coefficients are not the sum of the rounds")


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise InputError(what)


def _check_inner(inner: FitResult, names: list[str]) -> None:
    """Raise an error if the inner model cannot have been boosted."""
    _need(list(inner.coef_names) == names, "the inner model does not have the covariates of the learner")
    plain = not inner.l1 and inner.random is None and inner.scale is None and (bool(names) or not inner.ridged)
    _need(plain and min(inner.kkt, inner.penalty) >= 0.0, "the inner model cannot have been boosted")
    known = [part for part in (inner.information, inner.jacobian) if part is not None]
    _need(all(np.isfinite(part).all() for part in known), "the information of the inner model is not finite")


def _shape(record: dict[str, Any], learner: str, p: int, k: int) -> Shape:
    trees = [checked_tree(tree, p) for tree in record["trees"]]
    steps = [_numbers(step, (p,)) for step in record["steps"]]
    linear = learner == "linear"
    _need(len(steps if linear else trees) == k - 1, "the number of trees or steps differs from the number of rounds")
    _need(not (trees if linear else steps), "the rounds do not match the learner")
    return Shape(learner, trees, steps, _numbers(record["coef"], (p,)), _numbers(record["spread"], (p,)))


def _held_out(record: dict[str, Any], k: int) -> tuple[Array, list[Any]]:
    held, curve = record["held_out"], _numbers(record["curve"], None)
    named = isinstance(held, list) and all(isinstance(name, (str, int, float)) for name in held)
    _need(named, "the names of held-out environments are invalid")
    _need(curve.size >= k if held else not curve.size, "the held-out losses do not match the rounds")
    return curve, held


def _features(features: Any, n: int) -> tuple[str, ...] | None:
    if features is None:
        return None
    text = isinstance(features, list) and all(isinstance(name, str) for name in features)
    _need(text and len(features) == n, "the number of feature names does not match the number of features")
    return tuple(features)


def _refit(record: Any) -> dict[str, Any] | None:
    if record is None:
        return None
    rows, strength = record["rows"], record["strength"]
    _need(isinstance(rows, int) and rows >= 0 and strength > 0.0, "the refit record is invalid")
    return {"rows": rows, "strength": strength}


def _numbers(values: Any, shape: tuple[int, ...] | None) -> Array:
    """Return finite numbers from a file, of this shape or, if it is None, one-dimensional."""
    array = real_numbers(values, "a field") if len(values) else np.zeros(0)
    if not np.isfinite(array).all() or (array.shape != shape if shape is not None else array.ndim != 1):
        expected = "one dimension" if shape is None else f"shape {shape}"
        raise InputError(f"a field holds numbers of shape {array.shape}, not finite numbers of {expected}")
    return array


def _stage(record: dict[str, Any], inner: FitResult) -> Stage:
    theta, beta = _numbers(record["theta"], inner.baseline.shape), _numbers(record["beta"], inner.coef.shape)
    named = ("loss", "loglik", "penalty", "kkt", "min_eigenvalue", "atom")
    numbers = dict(zip(named, _numbers([record[name] for name in named], (len(named),)).tolist(), strict=True))
    k, information, history = inner.active.size, record["information"], record["history"]
    fine = (
        set(record) | {"own"} == set(Stage._fields)  # early files do not have it
        and isinstance(record.get("own", {}), dict)
        and min(numbers[name] for name in ("penalty", "kkt", "atom")) >= 0.0
        and record["convexity"] in ("global", "local", "none")
        and isinstance(record["reason"], str)
        and isinstance(history, list)
        and all(isinstance(row, dict) for row in history)
        and len(record["active"]) == k
    )
    _need(fine, "the record of a boosting round is invalid")
    return Stage(
        theta=theta,
        beta=beta,
        **numbers,
        converged=flag(record["converged"], "converged"),
        n_iter=whole_number(record["n_iter"], "n_iter", 1),
        convexity=record["convexity"],
        folds=tuple(_numbers(record["folds"], None).tolist()),
        active=np.array([flag(value, "active") for value in record["active"]], dtype=bool),
        reason=record["reason"],
        history=history,
        information=None if information is None else _numbers(information, (k, k)),
        own=record.get("own", {}),
    )
