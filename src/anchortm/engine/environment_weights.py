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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import one_number
from anchortm.exceptions import InputError, InputTypeError

__all__ = ["RULES", "Shrinkage", "Weighting", "asks", "check_names", "check_rule"]

Array = NDArray[np.float64]

RULES = ("rows", "equal", "shrunk")


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
    """The rules of a fit. Shares are made from the rows at hand, so that those of a subset have shares of their own.

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
