"""What is asked of a generalised linear model, and what its fit says."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from anchortm.engine.result import FitResult
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.inputs.mean_outcomes import check_rows, check_shares
from anchortm.inputs.response import Response

__all__ = ["MeanResult", "MeanSpecification"]

SAVED = ("deviance", "pearson", "quasi_loglik", "dispersion", "alpha")  # fields in files


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanSpecification(Specification):
    """The specification of a generalised linear model; ``link`` is a family with its link."""

    family: str = "gaussian"
    residual: Literal["score", "deviance"] = "score"
    alpha: Any = 1.0
    dispersion: Any = None

    likelihood = "mean"
    takes_trials = True

    def check(self) -> MeanSpecification:
        """Return the specification; raise an error if arguments are out of range or cannot be combined."""
        if self.residual == "deviance" and not self.anchor_intercept:
            raise InputError("deviance residuals are centred: anchor_intercept=False needs residual='score'")
        self._check_dispersion()
        if self.cluster:
            self._check_mixed()
        return super().check()

    def _check_mixed(self) -> None:
        """Raise an error unless the rows have a likelihood given their random effects, for effects of any size."""
        link = self.link
        if not link.discrete:
            raise InputError(
                f"the {self.family} family has a dispersion, which is estimated after the fit, but the variance of "
                "random effects is relative to it: use NormalLinear, ContinuousProbit or ParametricSurvival, which "
                "estimate both together"
            )
        if self.estimates_alpha or self.dispersion not in (None, 1, 1.0):
            raise InputError(
                "random effects explain part of the extra variation that alpha='ml' or a dispersion would estimate "
                "without them: give alpha a number and leave dispersion out"
            )
        if self.residual == "deviance":
            raise InputError("random effects have marginal score residuals only: set residual='score'")
        if any(map(math.isfinite, link.eta_range)):
            raise InputError(
                f"normal random effects take {link.link}(mean) out of its range: use link={next(iter(link.links))!r}"
            )

    def single_rows_show_effects(self, response: Response) -> bool:
        """Return True if the family fixes the variance of rows: that of counts, or of several trials."""
        return self.family != "binomial" or (response.trials is not None and bool((response.trials > 1.0).any()))

    def check_sums(self) -> None:
        """Raise an error for what depends on all rows before their sums can be taken."""
        if self.cluster:
            raise InputError(
                "random effects of AnchorGLM are not implemented for sites: use OrdinalRegression for two classes, or "
                "CountRegression"
            )
        if self.estimates_alpha:
            raise InputError("alpha='ml' needs the influence of rows on alpha: give alpha a number for sites")
        if self.residual == "deviance":
            raise InputError("deviance residuals are centred at their mean in all rows: set residual='score' for sites")

    def _check_dispersion(self) -> None:
        given = self.dispersion
        if given is None:
            return
        number = isinstance(given, (int, float, np.number)) and not isinstance(given, bool)
        if given not in ("pearson", "ml") if isinstance(given, str) else not (number and 0.0 < given < math.inf):
            raise InputError(f"dispersion must be 'pearson', 'ml', a positive number or None, not {given!r}")
        if given == "ml" and self.link.discrete:
            raise InputError(
                f"{self.family} outcomes have no maximum-likelihood dispersion: use "
                "dispersion='pearson', or family='negative_binomial' with alpha='ml'"
            )

    def check_outcome(self, y: Any) -> None:
        """Raise an error for proportions of an unknown number of trials."""
        if self.family == "binomial" and not isinstance(y, Response):
            check_shares(y)

    def check_response(self, response: Response) -> None:
        """Raise an error if outcomes are not possible under the family, or are all equal."""
        check_rows(response, self.link)
        self.link.check_variation(response.upper, response.trials)

    @property
    def estimates_alpha(self) -> bool:
        """Return whether alpha of the negative binomial is estimated."""
        return bool(self.link.uses_alpha) and self.alpha == "ml"


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanResult(FitResult):
    """The result of a generalised linear model."""

    deviance: float
    pearson: float
    quasi_loglik: float
    estimated_alpha: bool
    asked_alpha: Any
    asked_dispersion: Any
    at_edge: int = 0  # number of rows whose mean is at the end of its range

    @property
    def dispersion(self) -> float:
        """Return the dispersion."""
        return float(self.link.dispersion)

    @property
    def alpha(self) -> float | None:
        """Return alpha of the negative binomial; None for other families."""
        return None if self.link.alpha is None else float(self.link.alpha)

    @property
    def inverse_of(self) -> str:  # type: ignore[override]
        """Return the name of the matrix behind standard errors at xi = 0."""
        if self.random is not None:
            return "inverse Hessian"
        if not self.estimated_alpha:
            return "inverse expected information"
        wide = isinstance(self.information, Arrow)
        return "inverse expected information, alpha as known" if wide else "inverse Hessian, alpha included"

    @property
    def n_parameters(self) -> int:
        """Return the number of parameters: intercept, coefficients, and an estimated dispersion or alpha."""
        own = self.estimated_alpha or (not self.link.discrete and self.link.free_dispersion)
        return 1 + int(self.others.size) + int(own)

    @property
    def kind(self) -> str:
        """Return the description of the model in a summary."""
        return f"{self.link.family.replace('_', ' ')} family, {self.link.link} link"

    @property
    def quasi(self) -> bool:
        """Return whether this is a quasi-likelihood: the family does not have this dispersion."""
        return bool(self.link.discrete and (self.link.free_dispersion or self.dispersion != 1.0))

    @property
    def loglik_in_loss(self) -> float:
        """Return the log-likelihood at dispersion 1, which enters the loss."""
        return self.quasi_loglik

    @property
    def largest_loglik(self) -> float:
        """Return the log-likelihood at the maximum-likelihood dispersion, or at the given one."""
        if self.link.discrete or not self.link.free_dispersion:
            return self.loglik
        return float(self.link.largest_loglik(self.deviance, self.quasi_loglik, self.n_total))

    def comparable(self, smaller: FitResult) -> bool:
        """Return whether ``smaller`` can be a special case of this model."""
        if not isinstance(smaller, MeanResult):
            return False
        if smaller.link.link != self.link.link or smaller.asked_dispersion != self.asked_dispersion:
            return False
        own, other = str(self.link.family), str(smaller.link.family)
        if own == "negative_binomial":  # alpha = 0 is Poisson
            fits = self.asked_alpha == "ml" or (own == other and smaller.asked_alpha == self.asked_alpha)
            return fits and other in ("poisson", "negative_binomial")
        return own == other

    def gain(self, smaller: FitResult) -> float:
        """Return the statistic of the likelihood-ratio test of a smaller model."""
        gain = 2.0 * (self.largest_loglik - float(smaller.largest_loglik))
        return gain / self.dispersion if self.quasi else gain

    def own_record(self) -> dict[str, Any]:
        """Return the fields that only this kind of result has, for a file."""
        values = {f"{name}_": getattr(self, name) for name in SAVED}
        _check_saved(values)
        return {"family": values}

    @classmethod
    def from_own_record(cls, record: dict[str, Any], spec: Specification, found: dict[str, Any]) -> MeanResult:
        """Return the result with the checked fields that only this kind has."""
        assert isinstance(spec, MeanSpecification)  # noqa: S101
        values = {f"{name}_": record["family"][f"{name}_"] for name in SAVED}
        _check_saved(values)
        family, alpha, dispersion = spec.link, values["alpha_"], values["dispersion_"]
        if (alpha is None) != (not family.uses_alpha) or alpha == 0.0:
            raise InputError("alpha is invalid: it is a positive number, for the negative binomial only")
        if family.alpha not in (None, alpha) or not dispersion > 0.0:
            raise InputError("alpha or dispersion does not match the model")
        if getattr(found["basis"], "whole", None) is not family.discrete:
            raise InputError("the basis does not match whether outcomes are whole numbers")
        own = {
            "link": replace(family, alpha=alpha, dispersion=float(dispersion)),
            **{name: float(values[f"{name}_"]) for name in ("deviance", "pearson", "quasi_loglik")},
            "estimated_alpha": spec.estimates_alpha,
            "asked_alpha": spec.alpha,
            "asked_dispersion": spec.dispersion,
        }
        return cls(**(found | own))

    def own_facts(self) -> dict[str, str]:
        """Return the lines of the summary that are specific to this kind of model."""
        link = self.link
        how = f"by {'maximum likelihood' if self.asked_dispersion == 'ml' else 'Pearson'}"
        mean = "mean" if link.link == "identity" else f"{link.link}(mean)"
        random = {} if self.random is None else self.random.facts(None, None)
        at = "" if self.random is None else ", at the most likely effects"
        pearson = "not known" if math.isnan(self.pearson) else f"{self.pearson:.4f}"
        facts = {
            "model": f"{mean} = intercept + x'beta" + (" + z'b, b normal" if random else ""),
            **random,
            "rows": f"{self.n_rows}" + ("" if self.n_total == self.n_rows else f", total weight {self.n_total:g}"),
            "residuals": "score, dl/deta" if link.residual == "score" else "deviance, less their mean",
            "deviance": f"{self.deviance:.4f}, Pearson {pearson}{at}",
            "dispersion": f"{self.dispersion:.5g}, {how if link.free_dispersion else 'fixed'}",
        }
        if link.alpha is not None:
            facts["alpha"] = f"{link.alpha:.5g}" + (
                ", by maximum likelihood at xi = 0" if self.asked_alpha == "ml" else ""
            )
        return facts

    def remedy(self) -> str:
        """Return advice for a fit that did not converge."""
        if not self.at_edge:
            return super().remedy()
        rows = f"{self.at_edge} row{'s have' if self.at_edge > 1 else ' has'}"
        return (
            f"{rows} a mean at the end of its range, which the {self.link.link} link reaches: the minimum may be at "
            f"that end, far from the estimate; use link={next(iter(self.link.links))!r}"
        )


def _check_saved(values: dict[str, Any]) -> None:
    """Raise an error if a value is not valid in a file."""
    for name, value in values.items():
        low = -math.inf if name == "quasi_loglik_" else 0.0
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        absent = (value is None and name == "alpha_") or (number and math.isnan(value) and name == "pearson_")
        if not (absent or (number and low <= value < math.inf)):
            raise InputError(f"{name} is invalid: {value!r}")
