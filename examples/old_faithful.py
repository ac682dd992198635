"""Fit an unconditional transformation model to the durations of Old Faithful and draw it.

The transport picture: a smooth increasing function h carries the bimodal distribution of
the durations to the minimum extreme value distribution, P(Y <= y) = F(h(y)).
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from anchortm.bases import BernsteinBasis
from anchortm.likelihood import build_terms, evaluate, loglik_and_residuals, start_values
from anchortm.links import MinExtremeValue
from anchortm.response import as_response

ROOT = Path(__file__).resolve().parents[1]
LINK = MinExtremeValue()


def durations() -> np.ndarray:
    with open(ROOT / "tests" / "reference" / "data" / "geyser.csv", newline="") as file:
        return np.array([float(row["duration"]) for row in csv.DictReader(file)])


def fit(y: np.ndarray) -> tuple[BernsteinBasis, np.ndarray, float]:
    """Return basis, theta and log-likelihood at the maximum over non-decreasing h."""
    response = as_response(y)
    basis = BernsteinBasis(order=6, support=(y.min(), y.max()))
    terms, none = build_terms(basis, response), np.zeros(y.size)
    increments = basis.increments

    def loss(delta: np.ndarray) -> tuple[float, np.ndarray]:
        theta = increments.matrix @ delta
        value, gradient = 0.0, np.zeros(theta.size)
        for term in terms:
            at = evaluate(LINK, term, theta, none)
            value -= at.loglik.sum()
            gradient += term.upper.T @ at.values.r - term.slope.T @ (1.0 / at.slope)
        return value, increments.matrix.T @ gradient

    start = np.linalg.solve(increments.matrix, start_values(LINK, basis, response))
    bounds = list(zip(increments.lower, increments.upper, strict=True))
    with np.errstate(all="ignore"):  # a trial step may flatten h somewhere: the loss is infinite there
        best = minimize(loss, start, jac=True, bounds=bounds, method="SLSQP", options={"ftol": 1e-14, "maxiter": 2000})
    theta = increments.matrix @ best.x
    return basis, theta, float(loglik_and_residuals(LINK, terms, theta, none)[0].sum())


def draw(y: np.ndarray, basis: BernsteinBasis, theta: np.ndarray, target: Path) -> None:
    """Draw h (upper right), the density of Y below it and the density of Z beside it."""
    figure, axes = plt.subplots(
        2,
        2,
        figsize=(7, 6),
        sharex="col",
        sharey="row",
        width_ratios=(1, 2),
        height_ratios=(2, 1),
        layout="constrained",
    )
    grid = np.linspace(y.min() - 0.1, y.max() + 0.1, 600)
    h = basis.rows(grid) @ theta
    density = np.exp(LINK.log_density(h)) * (basis.derivative_rows(grid) @ theta)
    z = np.linspace(h.min(), h.max(), 600)
    axes[0, 1].plot(grid, h, color="black")
    axes[0, 1].set_ylabel("h(y)")
    axes[0, 0].plot(np.exp(LINK.log_density(z)), z, color="black")
    axes[0, 0].invert_xaxis()
    axes[0, 0].set_xlabel("density of Z")
    axes[0, 0].set_ylabel("z")
    axes[0, 0].tick_params(labelbottom=True)
    for panel in axes[:, 1]:
        panel.tick_params(labelleft=True, labelbottom=True)
    axes[1, 1].hist(y, bins=40, density=True, color="0.85")
    axes[1, 1].plot(grid, density, color="black")
    axes[1, 1].set_xlabel("duration of the eruption (minutes)")
    axes[1, 1].set_ylabel("density of Y")
    axes[1, 0].axis("off")
    cuts = np.interp(LINK.quantile([0.0, 0.25, 0.5, 0.75, 1.0]), h, grid)
    for low, high, shade in zip(cuts[:-1], cuts[1:], ("#08519c", "#3182bd", "#6baed6", "#bdd7e7"), strict=True):
        part = (grid >= low) & (grid <= high)
        axes[1, 1].fill_between(grid[part], density[part], color=shade, alpha=0.6, lw=0)
        axes[0, 1].fill_between(grid[part], h.min(), h[part], color=shade, alpha=0.15, lw=0)
        band = (z >= np.interp(low, grid, h)) & (z <= np.interp(high, grid, h))
        axes[0, 0].fill_betweenx(z[band], np.exp(LINK.log_density(z[band])), color=shade, alpha=0.6, lw=0)
    figure.suptitle("Each shade carries a quarter of the probability, from Y to Z")
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=150)
    plt.close(figure)


def main() -> None:
    y = durations()
    basis, theta, loglik = fit(y)
    target = ROOT / "output" / "old_faithful.png"
    draw(y, basis, theta, target)
    print(f"{y.size} eruptions, minimum extreme value link, Bernstein basis of order {basis.order}")
    print(f"log-likelihood {loglik:.3f}; theta = {np.array2string(theta, precision=3)}")
    print(f"the transport picture is in {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
