"""The lines of a summary about the loss and its minimum."""

from __future__ import annotations

import math

import numpy as np

from anchortm.engine.result import FLAT_CURVATURE, FitResult

__all__ = ["NET", "constraints", "optimum"]

NET = "elastic net"


def optimum(result: FitResult) -> dict[str, str]:
    """Return the lines on the loss and its minimum."""
    scale, penalties = result.scale, [(result.strength, result.penalty, "penalty")]
    if scale is not None:
        penalties.append((scale.xi, scale.penalty, "penalty of the scale"))
    anchors = f", {result.n_anchors} anchor directions" if result.n_anchors else ", no anchors"
    loss = f"{result.loss:.6f} = {-result.loglik_in_loss / result.n_total:.6f} (mean negative log-likelihood)"
    loss += "".join(f" + {xi:g} x {value:.3g} ({name})" for xi, value, name in penalties if 0.0 != xi < math.inf)
    if result.l1 or result.ridged:
        loss += f" + {_net_share(result):.3g} ({_net_name(result)})"
    if result.decisive is not None and result.decisive.risk != "tail":  # there is no xi
        found = {"log-likelihood": f"{result.loglik:.4f}", "loss": f"{result.loss:.6f}"}
        return found | _certificate(result) | result.decisive.facts()
    return (
        {
            "xi": ("replaced by a target" if result.form == "target" else f"{result.xi:g}")
            + ("" if scale is None else f", xi_scale {scale.xi:g}")
            + anchors,
            "log-likelihood": f"{result.loglik:.4f}",
            "anchor loss": loss,
        }
        | _certificate(result)
        | ({} if result.decisive is None else result.decisive.facts())
    )


def _certificate(result: FitResult) -> dict[str, str]:
    """Return the lines that say whether the fit converged, and to which kind of minimum."""
    return {
        "converged": ("yes" if result.converged else "NO")
        + f", {result.n_iter} iteration{'s' if result.n_iter != 1 else ''}, "
        f"KKT residual {result.kkt:.1e}, "
        + ("at a corner" if math.isinf(result.min_eigenvalue) else f"smallest curvature {result.min_eigenvalue:.1e}"),
        "minimum": _minimum(result),
    } | ({} if result.shares is None else result.shares.facts())


def constraints(result: FitResult) -> dict[str, str]:
    """Return the line on the number of increments of the baseline held at zero, if there are any."""
    held = int(result.active[: result.active.size - result.coef.size - result.extra.size].sum())
    if not held:
        return {}
    if result.corners is None:
        return {"constraints": f"{held} increment{'s' if held > 1 else ''} of the baseline held at zero"}
    steps = np.diff(result.baseline.reshape(result.corners.n_blocks, -1))
    none = int((result.corners.least(steps) <= 1e-9 * (1.0 + np.abs(steps).sum(axis=0))).sum())
    return {"constraints": f"{none} increment{'s' if none != 1 else ''} of h zero for some covariates or strata"}


def _net_name(result: FitResult) -> str:
    """Return the name of the penalty on coefficients."""
    return " and ".join([*([NET] if result.l1 or result.l2 else []), *(["smoothing"] if result.smooth else [])])


def _net_share(result: FitResult) -> float:
    """Return the value of the penalty on coefficients in the loss."""
    return float(result.loss + result.loglik_in_loss / result.n_total - result.strength * result.penalty)


def _minimum(result: FitResult) -> str:
    text = {
        "global": "global: the loss is convex",
        "local": "local and strict: the loss is convex around it",
        "none": "on the branch connected to xi = 0; the loss need not be convex",
    }[result.convexity]
    if not result.converged:
        return "not reached"
    if result.min_eigenvalue < FLAT_CURVATURE:
        text = (
            "global: the loss is convex, " if result.convexity == "global" else ""
        ) + "flat: other parameters do as well"
    if result.folds:
        text = "on the next branch below: the one from xi = 0 ended on the way"
    if result.lower_minima:
        text += f"; {len(result.lower_minima)} lower found, the lowest {min(result.lower_minima):.6f}"
    return text
