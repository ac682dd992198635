"""The summary of a boosted model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anchortm.inference.summary import Summary, baseline_facts

__all__ = ["describe"]


def describe(model: Any) -> Summary:
    """Return a table of the fit that prints: facts, and the share of each covariate in what was gained."""
    result = inner = model.model_.result_
    facts = baseline_facts(inner)
    given = f"KKT residual {result.kkt:.1e}, smallest curvature {result.min_eigenvalue:.1e}"
    done = "yes" if result.converged else "NO"
    facts["converged"] = f"{done}, the baseline given f: {given}"
    own = _own_facts(model, "+" if result.sign > 0 else "-")
    refit = model.boosted_.refit
    if refit is not None:
        own["refit"] = _refit_fact(refit)
        if math.isfinite(refit["strength"]):
            nll = -result.loglik / result.n_total
            facts["anchor loss"] = "none for the target"
            facts["refit loss"] = (
                f"{result.loss:.6f} = {nll:.6f} (mean negative log-likelihood) + {result.loss - nll:.3g} (pull)"
            )
            facts["converged"] = f"{done}, the refit: {given}"
            facts["xi"] += ", of the fit"
            if "constraints" in facts:
                facts["constraints"] = facts["constraints"].replace("at zero", "at a fifth of what was there")
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
        heading="Covariates",
    )


def _own_facts(model: Any, sign: str) -> dict[str, str]:
    """Return what the model is, how it was boosted, and how the number of rounds was found."""
    f = "f(x)" if model.learner != "linear+tree" else f"x'beta {sign} f(x)"
    size = f", {sum(tree.leaves.size for tree in model.trees_)} leaves" if model.learner != "linear" else ""
    own = {
        "model": f"F(h(y) {sign} {f})",
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
        return f"{refit['rows']} rows of the target, nothing moved: what follows is of the fit"
    return f"{refit['rows']} rows of the target, strength {refit['strength']:g}; what follows is of these rows"
