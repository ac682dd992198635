"""From a specification and checked rows to the loss of a fit, and where a solver starts on it."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import real_numbers
from anchortm._util.threads import one_blas_thread
from anchortm.bases import Basis
from anchortm.engine.data import Data
from anchortm.engine.objective.location_scale import ScaledObjective
from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.scale_effects import check_scalable, scale_columns, scale_name
from anchortm.engine.objective.turned import netted, untangled
from anchortm.engine.rows.likelihood import start_values
from anchortm.engine.rows.standardised import BLOCK_ROWS
from anchortm.engine.solve.nodes import with_enough_nodes
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.design import Design

__all__ = ["Formulation"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Formulation:
    """What is asked, the checked rows, the link, and the basis that follows from the rows."""

    spec: Specification
    data: Any  # Data, or a Stream whose rows are elsewhere
    link: Any  # a Link, or a Family
    basis: Basis

    def __getstate__(self) -> dict[str, Any]:
        """Return the inputs without the objective, which is made again where it is needed."""
        return {name: self.__dict__[name] for name in ("spec", "data", "link", "basis")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def at(self, **changes: Any) -> Self:
        """Return the problem of the same rows with arguments changed, such as xi."""
        return replace(self, spec=self.spec.at(**changes))

    def with_data(self, data: Any) -> Self:
        """Return the problem of other rows on the same basis."""
        return replace(self, data=data)

    @cached_property
    def objective(self) -> Objective:
        """Return the loss to be minimised."""
        return self.make_objective(self.link, self.data)

    def make_objective(self, link: Any, data: Any) -> Objective:
        """Return the loss of these rows under a link, on the basis of the problem."""
        spec = self.spec
        if not data.in_memory:
            penalty = spec.penalty(data.names, data.marks)
            plain = self.plain_objective(link, data)
            return Net.of(plain, penalty) if spec.penalised(data.marks) else plain
        if not 0.0 <= spec.xi < math.inf:
            data = data.without_wide()  # wide factors are not supported at the ends of the path

        def plain_of(rows: Data) -> Objective:
            return self.plain_objective(link, rows)

        if data.clusters is not None:
            return self._mixed_objective(data, plain_of)
        if not spec.penalised(data.design.marks):
            return untangled(data, plain_of) if data.near and spec.scale is None else plain_of(data)
        return netted(data, spec.design_penalty(data.design, data.weights), plain_of)

    def plain_objective(self, link: Any, data: Any) -> Objective:
        """Return the anchor loss without a penalty on coefficients."""
        spec = self.spec
        if spec.scale is None:
            return data.objective(link, self.basis, spec.sign, spec.anchor_intercept, spec.threads)  # type: ignore[no-any-return]
        check_scalable(self.basis)
        columns, names = scale_columns(spec.scale, data.design.names), self.names_of(data)
        Z = spec.sign * data.design.matrix[:, columns]
        both = data._replace(design=Design(np.hstack([data.design.matrix, Z]), names, data.design.named))
        plain = both.objective(link, self.basis, spec.sign, spec.anchor_intercept, spec.threads)
        return ScaledObjective(plain, len(columns), names, spec.xi_scale)

    def _mixed_objective(self, data: Data, plain_of: Any) -> Objective:
        """Return the loss of a model with random effects, with enough nodes for its integrals."""
        clusters = data.clusters
        assert clusters is not None  # noqa: S101

        def make(n_nodes: int | None) -> Objective:
            return plain_of(data._replace(clusters=clusters._replace(n_nodes=n_nodes)))  # type: ignore[no-any-return]

        first = make(clusters.n_nodes)
        if clusters.slack is not None:
            return first
        start = self.start(first, data)
        return with_enough_nodes(first, start, make, self.spec.quiet, clusters.n_nodes is not None)

    def names_of(self, data: Data) -> tuple[str, ...]:
        """Return the names of all parameters except those of the baseline."""
        names = data.design.names
        effects = () if data.clusters is None else data.clusters.effects.parameter_names()
        return (*names, *(scale_name(names[j]) for j in scale_columns(self.spec.scale, names)), *effects)

    def threads(self, objective: Objective | None = None) -> AbstractContextManager[Any]:
        """Keep BLAS to one thread where our blocks are small matrices; not worth its cost for small data."""
        rows = self.data_rows if objective is None else objective.n_rows
        return one_blas_thread() if rows > BLOCK_ROWS else nullcontext()

    @property
    def data_rows(self) -> int:
        """Return the number of rows."""
        return self.objective.n_rows

    def start(self, objective: Objective, data: Any = None) -> Array:
        """Return where a solver starts: as the user said, or from the distribution of all outcomes."""
        data = self.data if data is None else data
        if self.spec.start is not None:
            return self._given_start(objective)
        if objective.begin is not None:
            return objective.begin
        theta = start_values(objective.link, self.basis, *data.typical)
        if data.mixture is not None:
            theta = np.tile(theta, data.mixture.corners.n_baselines)
        p = objective.coordinates.n_coefs - objective.start.size
        size = objective.coordinates.matrix.shape[0]  # of all baselines
        rest = np.append(np.zeros(p), objective.start)
        return objective.coordinates.join(np.pad(theta, (0, size - theta.size)), rest)

    def _given_start(self, objective: Objective) -> Array:
        """Return the start that the user gave, checked."""
        given = self.spec.start
        p = objective.coordinates.n_coefs - objective.start.size
        size = objective.coordinates.matrix.shape[0]
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise InputTypeError(f"start must be a pair (baseline, coef), not {given!r}")
        theta, beta = (real_numbers(part, "start") for part in given)
        if not (np.isfinite(theta).all() and np.isfinite(beta).all()):
            raise InputError("start has values that are not finite; start=None finds its own")
        if theta.shape != (size,) or beta.shape != (p,):
            sizes = [str(part.size) if part.ndim == 1 else f"shape {part.shape}" for part in (theta, beta)]
            raise InputError(f"start must be (baseline, coef) of lengths {size} and {p}, not {' and '.join(sizes)}")
        return objective.coordinates.join(theta, np.append(beta, objective.start))

    def check_anchors(self) -> None:
        """Refuse a penalty without anchors."""
        spec = self.spec
        if self.data.anchors is None and (spec.xi != 0.0 or spec.xi_scale):
            asked = f"xi = {spec.xi:g}" if spec.xi else f"xi_scale = {spec.xi_scale:g}"
            raise InputError(
                f"{asked} needs anchors: pass fit(..., anchors=...), name them after '|' in a formula, or use xi=0"
            )
