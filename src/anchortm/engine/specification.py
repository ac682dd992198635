"""The specification of a fit: the checked arguments of an estimator, without rows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import flag, generator, jobs, level_between, one_number, real_numbers, whole_number
from anchortm.engine.baseline_rules import BaselineRule
from anchortm.engine.data import Data
from anchortm.engine.environment_weights import asks, check_rule
from anchortm.engine.objective.penalised import Known, Penalty, check_strengths
from anchortm.engine.objective.scale_effects import check_scale, scale_columns, scale_name
from anchortm.engine.objective.worst_places import WorstCase
from anchortm.engine.rows.quadrature import MOST_NODES
from anchortm.engine.solve.identification import Checked, check_covariates
from anchortm.engine.solve.newton import Options
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs import parts
from anchortm.inputs.baselines import make_mixture, varying_groups
from anchortm.inputs.clusters import named_effects
from anchortm.inputs.design import Design, joined
from anchortm.inputs.missing import check_missing
from anchortm.inputs.response import Response, Scale
from anchortm.inputs.splines import Marks, wiggly
from anchortm.inputs.targets import check_known

__all__ = ["Specification", "named_columns"]

Array = NDArray[np.float64]


def named_columns(names: Any, what: str) -> list[Any]:
    """Return the columns of X in an argument that holds one name or several."""
    if names is None:
        return []
    if isinstance(names, (str, int, np.integer)):
        return [names]
    if not isinstance(names, Iterable):
        raise InputTypeError(f"{what} must be names or positions of columns of X, not {names!r}")
    return list(names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Specification:
    """The specification of one fit.

    Most fields are arguments of the estimators, under the same names. The others are:

    Attributes
    ----------
    model : str
        Name of the estimator.
    sign : float
        Sign of x'beta in h.
    outcome : str
        Whether y is read as numbers, classes or counts.
    levels : tuple or None
        Classes that the user fixed.
    effect : str
        Name of exp(coefficient), such as "odds ratio".
    """

    model: str
    link: Any  # a Link, or a Family
    rule: BaselineRule
    sign: float = -1.0
    outcome: Scale = "continuous"
    levels: tuple[Any, ...] | None = None
    effect: str = ""
    lowest_xi: float = 0.0
    finite_xi: bool = False  # whether xi must be finite, as in boosting
    xi: float = 0.0
    anchor_intercept: bool = True
    anchor_names: Any = None
    strata: Any = None
    varying: Any = None
    random: Any = None
    n_nodes: int | None = None
    scale: Any = None
    xi_scale: float | None = None
    l1: float = 0.0
    l2: float = 0.0
    penalty_factor: Any = None
    smooth: float = 0.0
    tol: float = 1e-8
    max_iter: int = 200
    n_jobs: int | None = None
    verbose: int = 0
    n_restarts: int = 0
    random_state: Any = None
    start: Any = None
    missing: str = "error"
    tail: float = 1.0
    worst: WorstCase | None = None  # minimise the loss of the worst places instead
    environment_weights: Any = "rows"
    anchor_weights: Any = "rows"
    target: Any = None
    proxies: Any = None
    more: tuple[Any, ...] = ()  # parts beside those of the package

    likelihood = "transformation"  # its key in the table of parts
    takes_trials = False

    def at(self, **changes: Any) -> Self:
        """Return the specification with some arguments changed."""
        return replace(self, **changes)

    def for_columns(self, names: Sequence[str], kept: Sequence[str]) -> Self:
        """Return the specification for some of the covariates, whose arguments do not name the others."""
        if len(kept) == len(names):
            return self
        changes: dict[str, Any] = {"start": None}
        if self.scale is not None:
            left = [names[j] for j in scale_columns(self.scale, names) if names[j] in kept]
            changes |= {"scale": left or None, "xi_scale": self.xi_scale if left else None}
        if isinstance(self.penalty_factor, Mapping):
            gone = {text for name in names if name not in kept for text in (name, scale_name(name))}
            left_factors = {name: x for name, x in self.penalty_factor.items() if str(name) not in gone}
            changes["penalty_factor"] = left_factors
        elif self.penalty_factor is not None and not isinstance(self.penalty_factor, str):
            factors = real_numbers(self.penalty_factor, "penalty_factor")
            changes["penalty_factor"] = factors[np.isin(np.array(names, dtype=object), kept)]
        return self.at(**changes)

    def check(self) -> Self:
        """Return the specification; raise an error if arguments are out of range or cannot be combined."""
        self.check_xi()
        whole_number(self.max_iter, "max_iter", 1)
        whole_number(self.n_restarts, "n_restarts", 0)
        level_between(self.tol, "tol")
        flag(self.anchor_intercept, "anchor_intercept")
        whole_number(int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, "verbose", 0)
        jobs(self.n_jobs)
        generator(self.random_state)
        check_missing(self.missing)
        check_rule(self.environment_weights, "environment_weights")
        check_rule(self.anchor_weights, "anchor_weights")
        check_strengths(l1=self.l1, l2=self.l2, smooth=self.smooth)
        if not 0.0 < one_number(self.tail, "tail") <= 1.0:
            raise InputError(f"tail must lie in (0, 1], not {self.tail!r}: it is the share of the worst environments")
        if self.n_restarts and (self.tail < 1.0 or self.worst is not None):
            raise InputError("n_restarts searches for minima of the anchor loss of all environments: leave it out")
        if self.n_nodes is not None and whole_number(self.n_nodes, "n_nodes", 3) > MOST_NODES:
            raise InputError(f"n_nodes must be at most {MOST_NODES}, not {self.n_nodes}")
        return self

    def check_xi(self) -> None:
        """Raise an error if the model does not allow this xi."""
        xi = one_number(self.xi, "xi")
        if self.finite_xi and xi == math.inf:
            parts.refuse("boosting", "infinite")
        if self.finite_xi and not 0.0 <= xi < math.inf:
            raise InputError(f"xi must be at least 0 and finite, not {self.xi}")
        if math.isnan(xi) or xi < self.lowest_xi:
            raise InputError(
                f"xi must be at least {self.lowest_xi:g}, not {self.xi}"
                + ("" if self.lowest_xi else "; only NormalLinear takes values from -1/2")
            )
        if self.worst is not None and xi != 0.0:
            raise InputError(f"WorstEnvironment has no xi, and here it is {xi:g}: use xi = 0, or xis=[0]")
        check_scale(self.scale, self.xi_scale, xi)
        parts.refuse(*self.asked(), self.likelihood)
        if self.target is not None or self.proxies is not None:
            check_known(self.target, self.proxies, xi, self.anchor_intercept)

    def check_sums(self) -> None:
        """Raise an error if sums over sites are not enough for these arguments."""

    def asked(self) -> list[str]:
        """Return the keys, in the table of parts, of the parts that the arguments request."""
        given = {
            "scale": self.scale is not None,
            "random": bool(self.cluster),
            "strata": bool(named_columns(self.strata, "strata")),
            "varying": bool(varying_groups(self.varying)),
            "l1": self.l1 != 0.0,
            "l2": self.l2 != 0.0,
            "infinite": self.xi == math.inf,
            "negative": self.xi < 0.0,
            "tail": self.tail != 1.0,
            "worst": self.worst is not None,
            "environment_weights": asks(self.environment_weights),
            "anchor_weights": asks(self.anchor_weights),
            "target": self.target is not None,
            "proxies": self.proxies is not None,
        }
        return [name for name, wanted in given.items() if wanted]

    def check_outcome(self, y: Any) -> None:
        """Raise an error if the model cannot use these outcomes; they are as the user passed them."""

    def check_response(self, response: Response) -> None:
        """Raise an error if the model cannot use the outcomes of these rows."""

    def single_rows_show_effects(self, response: Response) -> bool:
        """Return whether random effects of single rows differ from the variation that rows have without them."""
        return False

    def with_baselines(self, data: Data, labels: Sequence[Any] | None) -> Data:
        """Return the data with baselines for strata and varying effects; X loses covariates with varying effects."""
        mixture, taken = make_mixture(
            labels, self.varying, data.design.names, data.design.matrix, self.sign, data.design.marks
        )
        return data._replace(design=data.design.without(taken), mixture=mixture)

    def check_design(self, data: Data) -> Checked:
        """Return ranges and near-collinearity of the covariates; raise an error if they are not identified."""
        X, names = data.design.matrix, data.design.names
        penalty = self.design_penalty(data.design, data.weights)  # its factors are checked with or without a penalty
        penalised = ~penalty.free if self.penalised(data.design.marks) else None
        p = len(names)
        if data.clusters is not None:
            data.clusters.check(self.single_rows_show_effects(data.response))
        if data.mixture is not None:
            data.mixture.corners.check(data.mixture.weights)
            levels = data.mixture.levels
            X, names = joined(X, levels), (*names, *data.mixture.corners.level_names)
            penalised = None if penalised is None else np.append(penalised, np.zeros(levels.shape[1], dtype=bool))
        turned = 0 if self.scale is not None or self.cluster else p
        found = check_covariates(X, names, penalised, turned)
        return Checked(found.ranges[:, :p], tuple(j for j in found.near if j < p), found.share)

    @property
    def options(self) -> Options:
        """Return the options of the solver."""
        return Options(tol=self.tol, max_iter=self.max_iter, verbose=self.verbose)

    @property
    def quiet(self) -> Options:
        """Return the options of the solver for one of many fits, which prints nothing."""
        return Options(tol=self.tol, max_iter=self.max_iter)

    @property
    def threads(self) -> int:
        """Return the number of threads."""
        n_jobs = jobs(self.n_jobs)
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)

    @property
    def cluster(self) -> list[Any]:
        """Return the columns of X with the clusters of random effects: none, one or two."""
        return [column for column, _ in named_effects(self.random)]

    @property
    def roles(self) -> dict[str, str]:
        """Return the roles of the columns of X that are not covariates, by name or position."""
        named = (("anchor", self.anchor_names), ("stratum", self.strata), ("cluster", self.cluster))
        return {str(column): word for word, columns in named for column in named_columns(columns, word)}

    def smoothed(self, marks: Marks) -> bool:
        """Return whether some of these columns belong to penalised smooth terms."""
        return bool(self.smooth) and bool(wiggly(marks).any())

    def fills_in(self, marks: Marks) -> bool:
        """Return whether the parts that are asked for need all entries of a sparse design."""
        kinked = self.tail != 1.0 or self.worst is not None
        return self.scale is not None or bool(self.cluster) or self.penalised(marks) or kinked

    def penalised(self, marks: Marks) -> bool:
        """Return whether coefficients are penalised by an elastic net or by smoothing."""
        return bool(self.l1 or self.l2 or self.smoothed(marks))

    def penalty(
        self,
        names: tuple[str, ...],
        marks: Marks,
        X: Any = None,
        weights: Array | None = None,
        added: tuple[tuple[str, ...], Marks] = ((), ()),
        known: Known | None = None,
    ) -> Penalty:
        """Return the penalty on the coefficients of these columns, and on what parts of the model ``added``.

        ``known`` are means and deviations of the columns in all rows, if X is not available.
        """
        strengths = (self.l1, self.l2, self.smooth, self.penalty_factor)
        return Penalty.of(*strengths, names, X, weights, marks, *added, known)

    def design_penalty(
        self, design: Design, weights: Array | None, added: tuple[tuple[str, ...], Marks] = ((), ())
    ) -> Penalty:
        """Return the penalty on the coefficients of a design."""
        return self.penalty(design.names, design.marks, design.matrix, weights, added)
