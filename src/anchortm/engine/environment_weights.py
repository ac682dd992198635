"""Weights of environments in the likelihood and in the penalty: by rows, equal, shrunk, or given.

With shares pi_e that add up to 1, the loss is

    sum_e pi_e NLL_e + xi sum_e pi'_e rbar_e^2,

NLL_e the mean negative log-likelihood of environment e and rbar_e its mean residual. ``"rows"`` is pi_e = n_e / n,
``"equal"`` is 1 / K, and ``"shrunk"`` is in between: pi_e is proportional to 1 / (tau^2 + 1 / I_e), the precision of an
environment whose shift has the variance tau^2 and is measured by n_e rows, I_e = n_e times the pooled mean of r'.
tau and that mean come from one maximum-likelihood fit to all rows and are then held: tau maximises the likelihood of
environments whose rows share a normal shift.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import one_number
from anchortm._util.plain_values import check, is_label, is_strength, list_of
from anchortm.engine.rows.anchor_metric import Reweighing
from anchortm.engine.rows.anchor_sums import group_weights
from anchortm.exceptions import InputError, InputTypeError

__all__ = [
    "ARGUMENTS",
    "NOT_ONE_FACTOR",
    "NO_ENVIRONMENTS",
    "Places",
    "RowWeighing",
    "Shares",
    "Shrinkage",
    "Weighing",
    "Weighting",
    "asks",
    "check_names",
    "check_rule",
]

Array = NDArray[np.float64]

RULES = ("rows", "equal", "shrunk")
ARGUMENTS = ("environment_weights", "anchor_weights")
NO_ENVIRONMENTS = (
    "environment_weights needs environments: pass environments= to fit, one name for each row, or anchors that are one "
    "factor"
)
NOT_ONE_FACTOR = (
    "anchor_weights weighs the levels of one factor, but the anchors are numbers or several columns: leave it out, or "
    "pass one column of names as anchors"
)


def check_rule(rule: Any, name: str) -> None:
    """Raise an error unless ``rule`` is a rule for weights of environments, or a weight for each of them."""
    if isinstance(rule, str):
        if rule not in RULES:
            raise InputError(f"{name} must be 'rows', 'equal', 'shrunk' or a dict of weights, not {rule!r}")
        return
    if not isinstance(rule, Mapping):
        raise InputTypeError(f"{name} must be 'rows', 'equal', 'shrunk' or a dict of weights, not {rule!r}")
    if not rule:
        raise InputError(f"{name} is an empty dict: give a weight for each environment")
    for label, value in rule.items():
        weight = one_number(value, f"{name}[{label!r}]")
        if not 0.0 <= weight < math.inf:
            raise InputError(f"{name}[{label!r}] must be at least 0 and finite, not {value!r}")
        if weight == 0.0 and name == "environment_weights":
            raise InputError(
                f"environment_weights[{label!r}] is 0, but every environment needs a positive weight: leave its rows "
                "out, or give them sample_weight 0"
            )
    if not any(rule.values()):
        raise InputError(f"all {name} are 0: give at least one environment a positive weight")


@dataclass(frozen=True)
class Shrinkage:
    """How much environments differ: the standard deviation tau of their shifts, and the pooled mean of r'."""

    sd: float
    slope: float

    def raw(self, totals: Array) -> Array:
        """Return 1 / (tau^2 + 1 / I_e), up to a constant, of environments with these weights of rows."""
        if math.isinf(self.sd):
            return np.where(totals > 0.0, 1.0, 0.0)
        return totals / (1.0 + self.sd**2 * self.slope * totals)


@dataclass(frozen=True, eq=False)
class Weighting:
    """The rules of a fit. Shares are made from the rows of the fit, so that those of a subset have shares of their own.

    Rules, and what goes with them, are by the names of the arguments, environment_weights and anchor_weights.
    ``copies`` says how often the bootstrap drew whole environments, which then count as often.
    """

    rules: Mapping[str, Any]
    shrinkage: Mapping[str, Shrinkage] = field(default_factory=dict)
    copies: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)

    def asks(self, name: str) -> bool:
        """Return whether a rule is another one than that each row counts alike."""
        return asks(self.rules[name])

    @property
    def sd(self) -> float | None:
        """Return tau, if a rule needs it; that of the likelihood comes first."""
        return next((found.sd for found in self.shrinkage.values()), None)

    def shares(self, name: str, labels: Sequence[Any], totals: Array) -> Array:
        """Return the share of each environment, from the total weight of its rows."""
        rule, drawn = self.rules[name], self.copies.get(name, {})
        copies = np.array([drawn.get(label, 1.0) for label in labels])
        single, there = totals / np.where(copies > 0.0, copies, 1.0), totals > 0.0
        if isinstance(rule, Mapping):
            own = _by_label(rule, labels, there, name)
        elif rule == "shrunk":
            own = self.shrinkage[name].raw(single)
        else:
            own = single if rule == "rows" else np.ones(totals.size)
        own = np.where(there, copies * own, 0.0)
        if not own.sum() > 0.0:
            raise InputError(f"{name} are 0 for all environments of these rows: give one of them a positive weight")
        return np.asarray(own / own.sum())

    def factors(self, labels: Sequence[Any], totals: Array) -> Array:
        """Return u_e = n pi_e / n_e of each environment, by which the likelihood multiplies the weights of its rows."""
        shares, there = self.shares("environment_weights", labels, totals), totals > 0.0
        return np.asarray(np.where(there, totals.sum() * shares / np.where(there, totals, 1.0), 1.0))


def asks(rule: Any) -> bool:
    """Return whether a rule is another one than that each row counts alike."""
    return not (isinstance(rule, str) and rule == "rows")


def _by_label(rule: Mapping[Any, Any], labels: Sequence[Any], there: NDArray[np.bool_], name: str) -> Array:
    """Return the weight of each environment from a dict; names and their text are the same."""
    known = {str(key): float(value) for key, value in rule.items()}
    absent = [label for label, here in zip(labels, there, strict=True) if here and str(label) not in known]
    if absent:
        raise InputError(
            f"{name} lacks {_listed(absent)}: give a weight for each of the {int(there.sum())} environments"
        )
    return np.array([known.get(str(label), 0.0) for label in labels])


def check_names(rule: Any, labels: Sequence[Any], name: str) -> None:
    """Raise an error if weights name environments that do not occur."""
    if not isinstance(rule, Mapping):
        return
    known = [str(label) for label in labels]
    if len({str(key) for key in rule}) < len(rule):
        raise InputError(f"{name} names an environment twice: {_listed(list(rule))}")
    unknown = [key for key in rule if str(key) not in known]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"they are {_listed(labels)}"
        raise InputError(f"{name} names {_listed(unknown)}, which no row belongs to: {hint}")


def _listed(names: Sequence[Any]) -> str:
    """Return the first names."""
    first = ", ".join(repr(name) for name in names[:3])
    return first + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of environments in a result: in the likelihood, and in the penalty; None if each row counts alike."""

    likelihood: Mapping[Any, float] | None = None
    penalty: Mapping[Any, float] | None = None
    sd: float | None = None  # tau of shares that are shrunk

    def facts(self) -> dict[str, str]:
        """Return the line of a summary."""
        found = []
        for shares, where in ((self.likelihood, "likelihood"), (self.penalty, "penalty")):
            if shares is not None:
                low, high = min(shares.values()), max(shares.values())
                size = "equal weights" if high - low <= 1e-9 * high else f"weights from {low:.3g} to {high:.3g}"
                found.append(f"{size} in the {where}")
        found += [] if self.sd is None else [f"shrunk by the sd of their shifts, {self.sd:.3g}"]
        return {"environments": ", ".join(found)} if found else {}

    def record(self) -> dict[str, Any]:
        """Return the record for a file."""
        parts = dict(zip(ARGUMENTS, (self.likelihood, self.penalty), strict=True))
        found: dict[str, Any] = {
            name: [[label, share] for label, share in shares.items()]
            for name, shares in parts.items()
            if shares is not None
        }
        return found if self.sd is None else found | {"environment_sd": self.sd}

    @classmethod
    def from_record(cls, record: Any, spec: Any) -> Shares:
        """Return the checked shares from a record; ``spec`` has the arguments of the fit."""
        check(isinstance(record, dict), "the weights of environments are invalid")
        found: dict[str, Mapping[Any, float] | None] = {}
        for name in ARGUMENTS:
            pairs = record.get(name)
            check(pairs is None or asks(getattr(spec, name)), f"{name}_ does not match the parameters")
            found[name] = None if pairs is None else _checked_shares(pairs, name)
        sd = record.get("environment_sd")
        shrunk = any(isinstance(rule := getattr(spec, name), str) and rule == "shrunk" for name in ARGUMENTS)
        check(is_strength(sd) if shrunk else sd is None, "environment_sd_ does not match the parameters")
        return cls(found[ARGUMENTS[0]], found[ARGUMENTS[1]], None if sd is None else float(sd))


def _checked_shares(pairs: Any, name: str) -> dict[Any, float]:
    """Return shares from pairs of a label and a number."""
    good = list_of(lambda pair: isinstance(pair, list) and len(pair) == 2 and is_label(pair[0]))(pairs)
    check(good and all(is_strength(share) for _, share in pairs), f"the field {name!r} of the weights is invalid")
    shares = {label: float(share) for label, share in pairs}
    whole = len(shares) == len(pairs) and abs(sum(shares.values()) - 1.0) < 1e-9
    check(whole, f"the field {name!r} of the weights is invalid")
    return shares


class Places(NamedTuple):
    """The environment of each available row, as a code, and the names of all environments."""

    codes: NDArray[np.intp]
    labels: tuple[Any, ...]


class Weighing(ABC):
    """What weights of environments mean for the rows of a fit, wherever these are."""

    data: Any

    @property
    def rules(self) -> Weighting | None:
        """Return the rules, if some environments may count other than by their rows."""
        rules: Weighting | None = self.data.weighting
        return rules

    @abstractmethod
    def put(self, rules: Weighting | None) -> Any:
        """Return the rows with these rules."""

    @abstractmethod
    def places(self, name: str) -> Places | None:
        """Return the environments whose weights a rule gives; None if each row counts alike."""

    @abstractmethod
    def totals(self, places: Places) -> Array:
        """Return the total weight of the rows of each environment."""

    def shares(self, name: str) -> dict[Any, float] | None:
        """Return the share of each environment that has rows; None if each row counts alike."""
        places = self.places(name)
        if places is None or self.rules is None:
            return None
        totals = self.totals(places)
        shares = self.rules.shares(name, places.labels, totals)
        return {label: float(x) for label, x, n in zip(places.labels, shares, totals, strict=True) if n > 0.0}

    @property
    def found(self) -> Shares | None:
        """Return the shares for a result."""
        if self.rules is None:
            return None
        return Shares(self.shares("environment_weights"), self.shares("anchor_weights"), self.rules.sd)


@dataclass(frozen=True, eq=False)
class RowWeighing(Weighing):
    """The same for rows in memory."""

    data: Any  # Data

    def put(self, rules: Weighting | None) -> Any:
        """Return the rows with these rules; they then keep their environments, even if the anchors change."""
        data = self.data
        return data._replace(weighting=rules, environments=data.environments if rules is None else data.places)

    def places(self, name: str) -> Places | None:
        """Return the environments whose weights a rule gives; None if each row counts alike."""
        if self.rules is None or not self.rules.asks(name):
            return None
        anchors, own = self.data.anchors, self.data.environments
        if name == "environment_weights":
            if own is None:
                raise InputError(NO_ENVIRONMENTS)
            return Places(own.codes, own.labels)
        if anchors is None:
            return None
        if len(anchors.factors) != 1 or anchors.columns.shape[1]:
            raise InputError(NOT_ONE_FACTOR)
        return Places(anchors.factors[0], tuple(anchors.levels[0].tolist()))

    def totals(self, places: Places) -> Array:
        """Return the total weight of the rows of each environment."""
        return group_weights(places.codes, len(places.labels), self.data.weights)

    @property
    def factors(self) -> Array | None:
        """Return by how much the likelihood multiplies the weight of each row; None if by 1."""
        places = self.places("environment_weights")
        if places is None or self.rules is None:
            return None
        return np.asarray(self.rules.factors(places.labels, self.totals(places))[places.codes])

    @property
    def case_weights(self) -> Array | None:
        """Return the weights of rows in the likelihood: their own, times those of their environments."""
        factors, weights = self.factors, self.data.weights
        if factors is None:
            return weights  # type: ignore[no-any-return]
        return factors if weights is None else factors * weights

    @property
    def reweighing(self) -> Reweighing | None:
        """Return what the weights of environments change for the anchors; None if nothing."""
        if self.rules is None or self.data.anchors is None:
            return None
        factors, shares, own = self.factors, self.shares("anchor_weights"), None
        if shares is not None:
            own = np.array([shares.get(level, 0.0) for level in self.data.anchors.levels[0].tolist()])
        return Reweighing(None if factors is None else 1.0 / factors, own)
