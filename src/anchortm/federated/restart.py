"""Fits that start from known parameters: those of a similar fit, or of one that was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.exceptions import IdentificationError, InputError

__all__ = ["Reached", "started_from", "with_reasons"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reached:
    """Where a fit was when a site was lost."""

    model: str
    parameters: tuple[Array, Array]
    fingerprints: Mapping[str, str]

    def check(self, model: str) -> None:
        """Refuse another model."""
        if model != self.model:
            raise InputError(f"the fit that was interrupted was that of a {self.model}: resume that model, or call fit")

    def compare(self, fingerprints: Mapping[str, str]) -> None:
        """Refuse other sites, or sites with other rows."""
        own = self.fingerprints
        changed = sorted(name for name in {*own, *fingerprints} if own.get(name) != fingerprints.get(name))
        if changed:
            raise InputError(f"the sites or their rows have changed: {', '.join(changed)}; call fit, which starts anew")


def with_reasons(problem: Problem, error: Exception) -> IdentificationError:
    """Return an error of the solver with the sites that kept sums to themselves."""
    refused: dict[str, str] = {}
    for made in problem.data.made.values():
        refused |= made.remote.refused
    listed = "; ".join(f"{name}: {reason}" for name, reason in sorted(refused.items()))
    return IdentificationError(f"{error}" + (f"; sites kept sums to themselves ({listed})" if refused else ""))


def started_from(problem: Problem, start: tuple[Array, Array]) -> FitResult:
    """Return the result from the parameters of a similar fit."""
    problem.check_anchors()
    theta, beta = start
    sizes = [part.size for part in problem.objective.coordinates.split(problem.start(problem.objective))]
    if [theta.size, beta.size] != sizes:
        raise InputError("start has other parameters than the model: pass a fit of the same model")
    solution = problem.near(problem.objective, (theta, beta), float(problem.spec.xi))
    return problem.result(problem.objective, solution, [solution])
