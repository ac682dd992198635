"""Simulated data that several rooms are tested with, and the comparison of two fits of them."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import anchortm as atm


def simulate(seed: int, n: int = 150, levels: int = 4):
    """Sites shift a covariate and the outcome; a hidden variable moves both."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, levels, n)
    hidden = rng.normal(size=n)
    x = np.column_stack([rng.normal(size=n) + 0.5 * site + hidden, rng.normal(size=n)])
    latent = 0.5 * x[:, 0] - 0.5 * x[:, 1] + hidden + 0.3 * (site == 1) + rng.logistic(size=n)
    return x, latent, site


class FourSites(NamedTuple):
    """Rows at four sites, which shift two covariates and the outcome, and a numeric anchor that does nothing."""

    n: int
    site: Any
    year: Any
    X: Any
    y: Any


def four_sites(n: int = 300, seed: int = 0) -> FourSites:
    rng = np.random.default_rng(seed)
    site, year = rng.integers(0, 4, n), rng.normal(size=n)
    X = rng.normal(size=(n, 2)) + 0.3 * site[:, None]
    return FourSites(n, site, year, X, X @ [1, -0.5] + 0.3 * site + rng.normal(size=n))


FOUR = four_sites()


def table(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Return a table with outcomes of every kind, sites that shift covariates and outcome, weights and offsets."""
    rng = np.random.default_rng(seed)
    site, effect = rng.integers(0, 12, n), rng.normal(size=12)
    data = pd.DataFrame({f"x{j}": rng.normal(size=n) + 0.5 * effect[site] for j in range(3)})
    latent = data.to_numpy() @ [0.5, -0.3, 0.2] + 0.5 * effect[site] + rng.logistic(size=n)
    y = 10.0 * np.exp(latent / 4.0)
    limit = np.quantile(y, 0.9)
    return data.assign(
        y=y,
        time=np.minimum(y, limit),
        event=y < limit,
        low=np.floor(y),
        high=np.where(y > 15, math.inf, np.floor(y) + 1.0),
        entry=np.where(rng.random(n) < 0.3, 0.2 * np.minimum(y, limit), 0.0),
        site=[f"site {k}" for k in site],
        region=site % 3,
        year=rng.normal(size=n),
        quality=np.digitize(latent, [-2.0, 0.0, 2.0]),
        word=np.array(["bad", "good", "very good"])[np.digitize(latent, [-1.0, 1.0])],
        count=rng.poisson(np.exp(latent / 3.0)),
        group=rng.choice(["a", "b", "c"], n),
        weight=rng.integers(0, 4, n).astype(float),
        share=rng.uniform(0.2, 2.0, n),
        shift=0.1 * rng.normal(size=n),
    )


def same_fit(streamed: atm.AnchorTM, memory: atm.AnchorTM, tolerance: float = 1e-8, sampled: bool = False) -> None:
    """Compare two fits; ``sampled`` says that columns were standardised by few rows, the unit of the curvature."""
    np.testing.assert_allclose(streamed.coef_, memory.coef_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(streamed.baseline_, memory.baseline_, rtol=tolerance, atol=tolerance)
    assert streamed.coef_names_ == memory.coef_names_
    assert streamed.converged_
    assert streamed.kkt_ <= streamed.tol
    for name in ("loss_", "loglik_", "penalty_", "n_total_", *(() if sampled else ("min_eigenvalue_",))):
        assert getattr(streamed, name) == pytest.approx(getattr(memory, name), rel=1e-7, abs=1e-9), name
    for name in ("row_kinds_", "time_", "n_rows_", "n_anchors_", "dropped_anchors_", "convexity_", "n_parameters_"):
        assert getattr(streamed, name) == getattr(memory, name), name
    assert streamed.result_.binary == memory.result_.binary
