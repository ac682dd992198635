"""Properties of results that depend on the kind of likelihood: names, criteria, comparisons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.decisive import Decisive
from anchortm.engine.two_effects import TwoEffects

if TYPE_CHECKING:
    from anchortm.engine.result import FitResult

__all__ = ["LikelihoodFacts"]

Array = NDArray[np.float64]


class LikelihoodFacts:
    """Properties of the likelihood of a fit; results of other kinds of likelihood override some."""

    link: Any
    basis: Basis
    baseline: Array
    sign: float
    loglik: float
    n_total: float
    random: RandomEffects | TwoEffects | None
    decisive: Decisive | None
    xi: float
    inverse_of = "inverse Hessian"  # the matrix behind standard errors at xi = 0

    @property
    def kind(self) -> str:
        """Return the description of the model in a summary."""
        return f"{self.link.name} link, {self.basis.kind} basis"

    @property
    def quasi(self) -> bool:
        """Return whether this is a quasi-likelihood: the family does not have this dispersion."""
        return False

    @property
    def kinked(self) -> bool:
        """Return whether the loss is a tail risk over environments."""
        return self.decisive is not None and (self.decisive.risk != "tail" or 0.0 < self.xi < math.inf)

    @property
    def loglik_in_loss(self) -> float:
        """Return the log-likelihood that enters the loss."""
        return self.loglik

    @property
    def largest_loglik(self) -> float:
        """Return the log-likelihood at its maximum over all parameters."""
        return self.loglik

    @property
    def sample_size(self) -> float:
        """Return the sample size in BIC: the total weight of rows."""
        return self.n_total

    def comparable(self, smaller: FitResult) -> bool:
        """Return whether ``smaller`` has the same kind of outcome and can be a special case of this model."""
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
        """Return the lines of the summary that are specific to this kind of model."""
        if self.random is None:
            return {}
        sign = "+" if self.sign > 0 else "-"
        slope = float(self.baseline[1]) if self.basis.kind == "linear" else None
        return {"model": f"F(h(y) {sign} x'beta {sign} z'b), b normal"} | self.random.facts(self.link.variance, slope)

    def remedy(self) -> str:
        """Return advice for a fit that did not converge."""
        return "raise max_iter, or look at history_"
