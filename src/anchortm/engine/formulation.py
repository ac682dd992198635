"""Make the loss of a fit, and its start values, from a specification and checked rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import real_numbers
from anchortm._util.threads import one_blas_thread
from anchortm.bases import Basis
from anchortm.engine.model_parts import PARTS, MakeLoss, Part
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.likelihood import start_values
from anchortm.engine.rows.standardised import BLOCK_ROWS
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs import parts
from anchortm.inputs.splines import Marks

__all__ = ["Formulation"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Formulation:
    """The specification, the checked rows, the link, and the basis made from the rows."""

    spec: Specification
    data: Any  # Data, or a Stream of rows that are not in memory
    link: Any  # a Link, or a Family
    basis: Basis

    def __getstate__(self) -> dict[str, Any]:
        """Return the inputs without the objective, which is built again when it is needed."""
        return {name: self.__dict__[name] for name in ("spec", "data", "link", "basis")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def at(self, **changes: Any) -> Self:
        """Return the problem for the same rows with changed arguments, such as xi."""
        return replace(self, spec=self.spec.at(**changes))

    def with_objective(self, objective: Objective) -> Self:
        """Return the same problem, whose loss is known already."""
        result = replace(self)
        result.__dict__["_objective"] = objective
        return result

    def with_data(self, data: Any) -> Self:
        """Return the problem for other rows with the same basis."""
        return replace(self, data=data)

    @property
    def objective(self) -> Objective:
        """Return the loss to minimise; it is made once."""
        # cached_property would hold a lock of the class in Python 3.11, and fits in threads may take turns here
        if "_objective" not in self.__dict__:
            self.__dict__["_objective"] = self.make_objective(self.link, self.data)
        made: Objective = self.__dict__["_objective"]
        return made

    def parts(self, data: Any = None) -> list[Part]:
        """Return the requested parts, in the order in which they wrap the loss."""
        data = self.data if data is None else data
        return [part for part in (*PARTS, *self.spec.more) if part.asked(self.spec, data)]

    def make_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the loss of these rows under a link, with the basis of the problem, in new or given coordinates."""
        if not 0.0 <= self.spec.xi < math.inf:
            data = data.without_wide()  # the ends of the path need all columns

        def plain(rows: Any) -> Objective:
            return self.plain_objective(link, rows, coordinates)

        make: MakeLoss = plain
        asked = self.parts(data)
        for part in asked:
            make = part.afar(make, self) if data.afar else part.loss(make, self)
        objective = make(data)
        for part in asked:
            objective = part.settle(objective, self, data)
        return objective

    def plain_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the anchor loss of the rows, without further parts."""
        spec, known = self.spec, {} if coordinates is None else {"coordinates": coordinates}
        n_jobs = None if spec.n_jobs is None else spec.threads
        found: Objective = data.objective(link, self.basis, spec.sign, spec.anchor_intercept, n_jobs, **known)
        return found

    def names_of(self, data: Any) -> tuple[str, ...]:
        """Return the names of all parameters except those of the baseline."""
        return (*data.names, *self.added(data)[0])

    def added(self, data: Any) -> tuple[tuple[str, ...], Marks]:
        """Return the names of the parameters that parts add after the coefficients, and their smooth terms."""
        asked = self.parts(data)
        names = tuple(name for part in asked for name in part.names(self.spec, data))
        return names, tuple(mark for part in asked for mark in part.marks(self.spec, data))

    def own_parameters(self, beta: Array, data: Any) -> Iterator[tuple[Part, Array]]:
        """Yield each part with the parameters that it adds; ``beta`` has those after the baseline's."""
        first = len(data.names)
        for part in self.parts(data):
            size = len(part.names(self.spec, data))
            yield part, beta[first : first + size]
            first += size

    def threads(self, objective: Objective | None = None) -> AbstractContextManager[Any]:
        """Return a context that limits BLAS to one thread for large data, whose blocks are small matrices."""
        if objective is None and self.data.in_memory:  # before the loss is made, which also goes block by block
            rows = len(self.data.response)
        else:
            rows = (self.objective if objective is None else objective).n_rows
        return one_blas_thread() if rows > BLOCK_ROWS else nullcontext()

    def start(self, objective: Objective, data: Any = None) -> Array:
        """Return the start values: those of the user, or values from the distribution of all outcomes."""
        data = self.data if data is None else data
        if self.spec.start is not None:
            return self._given_start(objective)
        if objective.begin is not None:
            return objective.begin
        theta = start_values(objective.link, self.basis, *data.typical)
        if data.mixture is not None:
            theta = np.tile(theta, data.mixture.corners.n_baselines)
        p = objective.coordinates.n_coefs - objective.start.size
        size = objective.coordinates.matrix.shape[0]  # number of parameters of all baselines
        rest = np.append(np.zeros(p), objective.start)
        return objective.coordinates.join(np.pad(theta, (0, size - theta.size)), rest)

    def _given_start(self, objective: Objective) -> Array:
        """Return the checked start values of the user."""
        given = self.spec.start
        p = objective.coordinates.n_coefs - objective.start.size
        size = objective.coordinates.matrix.shape[0]
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise InputTypeError(f"start must be a pair (baseline, coef), not {given!r}")
        theta, beta = (real_numbers(part, "start") for part in given)
        if not (np.isfinite(theta).all() and np.isfinite(beta).all()):
            raise InputError("start has values that are not finite; start=None chooses start values")
        if theta.shape != (size,) or beta.shape != (p,):
            sizes = [str(part.size) if part.ndim == 1 else f"shape {part.shape}" for part in (theta, beta)]
            raise InputError(f"start must be (baseline, coef) of lengths {size} and {p}, not {' and '.join(sizes)}")
        return objective.coordinates.join(theta, np.append(beta, objective.start))

    def refuse(self, question: str) -> None:
        """Raise an error if a question, such as a score test, cannot be asked of this problem; see ``inputs.parts``."""
        smooth = ["smooth"] if self.spec.smoothed(self.data.marks) else []
        place = "memory" if self.data.in_memory else "batches"
        parts.refuse(question, *self.spec.asked(), *smooth, self.spec.likelihood, place)

    def check_anchors(self) -> None:
        """Raise an error if there is a penalty but no anchors."""
        spec = self.spec
        known = next((name for name in ("target", "proxies") if getattr(spec, name) is not None), "")
        if self.data.anchors is None and (spec.xi != 0.0 or spec.xi_scale) and not known:
            asked = f"xi = {spec.xi:g}" if spec.xi else f"xi_scale = {spec.xi_scale:g}"
            raise InputError(
                f"{asked} needs anchors: pass fit(..., anchors=...), name them after '|' in a formula (y ~ x | place), "
                "or use xi=0"
            )
