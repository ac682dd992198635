"""The summary of a boosted model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anchortm.engine.recalibration.record import Recalibration
from anchortm.engine.result import FitResult
from anchortm.inference.summary import Summary, baseline_facts
from anchortm.models.boosted.refit import FLATTEST

__all__ = ["describe", "refit_record"]


def describe(model: Any) -> Summary:
    """Return a printable summary of the fit, with the importance of each covariate."""
    result = inner = model.model_.result_
    facts = baseline_facts(inner)
    given = f"KKT residual {result.kkt:.1e}, smallest curvature {result.min_eigenvalue:.1e}"
    done = "yes" if result.converged else "NO"
    facts["converged"] = f"{done}, the baseline given f: {given}"
    own = _own_facts(model, facts["model"], "+" if result.sign > 0 else "-")
    refit = model.boosted_.refit
    if refit is not None:
        own["refit"] = _refit_fact(refit)
        if math.isfinite(refit["strength"]):
            nll = -result.loglik / result.n_total
            facts["anchor loss"] = "not used in the refit"
            facts["refit loss"] = (
                f"{result.loss:.6f} = {nll:.6f} (mean negative log-likelihood) + {result.loss - nll:.3g} (ridge)"
            )
            facts["converged"] = f"{done}, the refit: {given}"
            facts["xi"] += ", in the fit before"
            if "constraints" in facts:
                facts["constraints"] = facts["constraints"].replace("at zero", "at a fifth of the former slope")
    columns: dict[str, list[Any]] = {"covariate": list(model.coef_names_)}
    columns["importance"] = model.feature_importances_.tolist()
    if model.learner != "tree":
        columns["coef"] = model.coef_.tolist()
    return Summary(
        f"AnchorBoostedTM of {type(model.model_).__name__}: {inner.kind}",
        own | {k: v for k, v in facts.items() if k not in ("model", "minimum", "AIC, BIC")},
        columns,
        dict(zip(inner.parameter_names, inner.baseline.tolist(), strict=True)),
        tuple(inner.warnings),
        blocks=("",) if inner.corners is None else tuple(inner.corners.blocks),
        heading="Covariates",
    )


def _own_facts(model: Any, formula: str, sign: str) -> dict[str, str]:
    """Return the lines on the model, on f, and on how the number of rounds was chosen."""
    f = "f(x)" if model.learner != "linear+tree" else f"x'beta {sign} f(x)"
    size = f", {sum(tree.leaves.size for tree in model.trees_)} leaves" if model.learner != "linear" else ""
    own = {
        "model": formula.replace("x'beta", f),
        "f": f"{model.n_rounds_} rounds of {model.learner}{size}, learning rate {model.learning_rate:g}",
    }
    curve = model.boosted_.curve
    if curve.size:
        chosen = "by " if model.n_rounds_ == np.argmin(curve) else "not by the "
        there = f"negative log-likelihood {curve[model.n_rounds_]:.4f}"
        own["rounds"] = f"{chosen}{len(model.held_out_)} held-out environments, {there}"
    return own


def _refit_fact(refit: dict[str, Any]) -> str:
    if not math.isfinite(refit["strength"]):
        return f"{refit['rows']} rows from the target, no change: the lines below describe the fit before"
    return f"{refit['rows']} rows from the target, strength {refit['strength']:g}; the lines below describe these rows"


def refit_record(refit: dict[str, Any], inner: FitResult) -> Recalibration:
    """Return a refit in the words of a recalibration; several values move, so that there is no single shift."""
    moved = math.isfinite(refit["strength"])
    certificate: dict[str, Any] = {"score": inner.kkt, "converged": inner.converged, "history": inner.history}
    return Recalibration(
        "trees",
        refit["rows"],
        inner.n_total if moved else float(refit["rows"]),
        prior=math.nan,
        prior_from="strength",
        shift=math.nan if moved else 0.0,
        std_error=math.nan,
        strength=refit["strength"],
        floor=FLATTEST,
        **(certificate if moved else {}),
    )
