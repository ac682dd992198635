"""What a result says about its likelihood, where kinds of models differ: names, criteria, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.engine.cluster_effects import RandomEffects

if TYPE_CHECKING:
    from anchortm.engine.result import FitResult

__all__ = ["LikelihoodFacts"]

Array = NDArray[np.float64]


class LikelihoodFacts:
    """Facts about the likelihood of a fit; results of other kinds of likelihood override some."""

    link: Any
    basis: Basis
    baseline: Array
    sign: float
    loglik: float
    n_total: float
    random: RandomEffects | None
    inverse_of = "inverse Hessian"  # what standard errors at xi = 0 come from

    @property
    def kind(self) -> str:
        """Return what a summary calls the model."""
        return f"{self.link.name} link, {self.basis.kind} basis"

    @property
    def quasi(self) -> bool:
        """Return whether the dispersion is one that no likelihood of the family has."""
        return False

    @property
    def loglik_in_loss(self) -> float:
        """Return the log-likelihood that the loss has."""
        return self.loglik

    @property
    def largest_loglik(self) -> float:
        """Return the log-likelihood at its maximum over all parameters."""
        return self.loglik

    @property
    def sample_size(self) -> float:
        """Return the number of rows that BIC counts."""
        return self.n_total

    def comparable(self, smaller: FitResult) -> bool:
        """Return whether the likelihood of ``smaller`` is of the same outcome, and one that this model can have."""
        if type(self) is not type(smaller):
            return False
        own, other = self.basis, smaller.basis
        logs = [getattr(basis, "log_first", basis.kind == "log-linear") for basis in (own, other)]
        line = own.kind == "bernstein" and other.kind in ("linear", "log-linear") and logs[0] == logs[1]
        levels = [getattr(basis, "levels", None) for basis in (own, other)]
        same = own.kind == other.kind and logs[0] == logs[1] and levels[0] == levels[1]
        return (same or line) and self.link.name == smaller.link.name and own.n_parameters >= other.n_parameters

    def gain(self, smaller: FitResult) -> float:
        """Return the statistic of the likelihood-ratio test of a smaller model."""
        return 2.0 * (self.loglik - float(smaller.loglik))

    def own_facts(self) -> dict[str, str]:
        """Return facts for the summary that other models do not have, or have in other words."""
        if self.random is None:
            return {}
        sign = "+" if self.sign > 0 else "-"
        slope = float(self.baseline[1]) if self.basis.kind == "linear" else None
        return {"model": f"F(h(y) {sign} x'beta {sign} z'b), b normal"} | self.random.facts(self.link, slope)

    def remedy(self) -> str:
        """Return what to try where the fit did not converge."""
        return "raise max_iter, or look at history_"
