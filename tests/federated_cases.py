"""Tables of several sites for tests of federated fits, and the fit of the same rows in one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import anchortm as atm
from anchortm.federated import Coordinator, LocalSites, Policy, Site

SUPPORT = (0.5, 4.0)


def table(n: int = 600, sites: int = 3, seed: int = 0) -> pd.DataFrame:
    """Return rows of several sites with outcomes of all kinds."""
    rng = np.random.default_rng(seed)
    site = np.sort(rng.integers(0, sites, n))
    x, z = rng.normal(size=n) + 0.4 * site, rng.choice(["a", "b", "c"], n)
    latent = 0.6 * x + 0.4 * (z == "b") + 0.2 * site + rng.logistic(size=n)
    time, end = np.exp(0.5 * latent), rng.exponential(6.0, n) + 0.2
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "y": latent,
            "time": np.minimum(time, end),
            "event": (time <= end).astype(int),
            "lower": np.floor(2.0 * latent) / 2.0,
            "upper": np.floor(2.0 * latent) / 2.0 + 0.5,
            "low": np.where(rng.random(n) < 0.2, -np.inf, latent),
            "grade": np.digitize(latent, [-1.0, 0.5, 2.0]),
            "count": rng.poisson(np.exp(0.3 * x + 0.5)),
            "entry": np.where(rng.random(n) < 0.3, 0.1 * np.minimum(time, end), 0.0),
            "sick": (latent > 1.0).astype(int),
            "trials": 3 + np.arange(n) % 4,
            "successes": rng.binomial(3 + np.arange(n) % 4, 1.0 / (1.0 + np.exp(0.5 - 0.5 * latent))),
            "cost": rng.gamma(3.0, np.exp(0.3 * x + 0.2) / 3.0),
            "ward": rng.integers(0, 3, n),
            "w": rng.integers(1, 4, n).astype(float),
            "o": 0.1 * rng.normal(size=n),
            "sex": np.where(np.arange(n) % 5 < 3, "f", "m"),
            "u": np.sin(np.arange(n)),
            "patient": [f"{k}/{j}" for k, j in zip(site, np.arange(n) // 6, strict=True)],
            "site": [f"s{k}" for k in site],
        }
    )


def sites_of(data: pd.DataFrame, **more: Any) -> list[Site]:
    """Return a site for each value of the column ``site``, which the sites themselves do not have."""
    return [Site(rows.drop(columns="site"), str(name), **more) for name, rows in data.groupby("site")]


def coordinator(
    data: pd.DataFrame, formula: str, masks: bool = True, policy: Policy | None = None, **study: Any
) -> Coordinator:
    """Return a coordinator of these rows, with all sites in this process."""
    return Coordinator(LocalSites(sites_of(data, policy=policy)), {"formula": formula, **study}, masks=masks)


def errors(model: Any) -> np.ndarray:
    """Return the standard errors of the coefficients."""
    return np.asarray(model.summary().frame()["std. error"], dtype=np.float64)


def check_equal(model: Any, pooled: Any) -> None:
    """Check that two fits are one, with their standard errors."""
    assert model.converged_
    assert pooled.converged_
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-10, rtol=0)
    np.testing.assert_allclose(
        model.baseline_, pooled.baseline_, atol=1e-10 * (1 + abs(pooled.baseline_).max()), rtol=0
    )
    np.testing.assert_allclose(errors(model), errors(pooled), rtol=1e-9)
    np.testing.assert_allclose([model.loss_, model.loglik_], [pooled.loss_, pooled.loglik_], rtol=1e-12)
    assert model.n_rows_ == pooled.n_rows_
    if isinstance(pooled, atm.AnchorGLM):
        for name in ("deviance_", "pearson_", "dispersion_", "quasi_loglik_"):
            np.testing.assert_allclose(getattr(model, name), getattr(pooled, name), rtol=1e-10)


CELLS: dict[str, tuple[Any, str]] = {
    "Lm": (atm.NormalLinear(), "y ~ x + z | site"),
    "Lm, one covariate": (atm.NormalLinear(), "y ~ x | site"),
    "c-probit": (atm.ContinuousProbit(order=4), "y ~ x + z | site"),
    "c-logit": (atm.ContinuousLogit(order=5), "y ~ x + z | site"),
    "c-logit, in log y": (atm.ContinuousLogit(order=4, log_first=True), "time ~ x + z | site"),
    "c-logit, right": (atm.ContinuousLogit(order=5), "Surv(time, event) ~ x + z | site"),
    "c-logit, natural": (atm.ContinuousLogit(order=5, extrapolate="natural"), "Surv(time, event) ~ x | site"),
    "c-probit, right": (atm.ContinuousProbit(order=4), "Surv(time, event) ~ x + z | site"),
    "c-logit, interval": (atm.ContinuousLogit(order=4), "Interval(lower, upper) ~ x + z | site"),
    "c-logit, left": (atm.ContinuousLogit(order=4), "Interval(low, y) ~ x + z | site"),
    "Cox": (atm.ProportionalHazards(order=5), "Surv(time, event) ~ x + z | site"),
    "Cox, late entry": (atm.ProportionalHazards(order=4), "Surv(time, event, entry) ~ x + z | site"),
    "Lehmann": (atm.Lehmann(order=4), "Surv(time, event) ~ x + z | site"),
    **{
        dist: (atm.ParametricSurvival(dist=dist), "Surv(time, event) ~ x + z | site")
        for dist in ("weibull", "lognormal", "loglogistic", "exponential", "rayleigh")
    },
    **{
        f"ordinal {link}": (atm.OrdinalRegression(link=link), "grade ~ x + z | site")
        for link in ("logit", "probit", "cloglog", "loglog")
    },
    "count": (atm.CountRegression(order=3), "count ~ x + z | site"),
    "count, not in logs": (atm.CountRegression(order=3, log_first=False, link="cloglog"), "count ~ x + z | site"),
    "general": (atm.AnchorTM(link="loglog", basis="linear"), "y ~ x + z | site"),
    "interaction": (atm.ContinuousLogit(order=4), "y ~ x * z + I(x**2) | site"),
    "no covariates": (atm.ContinuousLogit(order=4), "y ~ 1 | site"),
    **{
        f"GLM {family} {link}": (atm.AnchorGLM(family=family, link=link, **more), f"{outcome} ~ x + z | site")
        for family, link, outcome, more in (
            ("gaussian", "identity", "y", {}),
            ("gaussian", "log", "cost", {}),
            ("binomial", "logit", "sick", {}),
            ("binomial", "probit", "sick", {}),
            ("binomial", "cloglog", "sick", {}),
            ("poisson", "log", "count", {}),
            ("poisson", "sqrt", "count", {"dispersion": "pearson"}),
            ("gamma", "log", "cost", {}),
            ("gamma", "inverse", "cost", {"dispersion": "ml"}),
            ("negative_binomial", "log", "count", {"alpha": 0.3}),
        )
    },
    "GLM trials": (atm.AnchorGLM(family="binomial"), "Trials(successes, trials) ~ x + z | site"),
    "GLM ridge": (atm.AnchorGLM(family="gamma", l2=0.05), "cost ~ x + z | site"),
    "strata": (atm.ContinuousLogit(order=4), "y | sex ~ x + z | site"),
    "strata, right": (atm.ContinuousLogit(order=4), "Surv(time, event) | sex ~ x + z | site"),
    "strata, Lm": (atm.NormalLinear(), "y | sex ~ x + z | site"),
    "strata, ordinal": (atm.OrdinalRegression(), "grade | sex ~ x + z | site"),
    "strata, count": (atm.CountRegression(order=3), "count | sex ~ x | site"),
    "varying factor": (atm.ContinuousLogit(order=4, varying="z"), "y ~ x + z | site"),
    "varying number": (atm.ContinuousLogit(order=4, varying={"u": (-1.0, 1.0)}), "y ~ x + u | site"),
    "strata and varying": (atm.ContinuousLogit(order=3, varying={"u": (-1.0, 1.0)}), "y | sex ~ x + u | site"),
    "scale": (atm.ContinuousLogit(order=4, scale=["x"]), "y ~ x + z | site"),
    "scale, factor": (atm.ContinuousProbit(order=3, scale="z"), "y ~ x + z | site"),
    "scale, right": (atm.ContinuousLogit(order=4, scale=["x"]), "Surv(time, event) ~ x + z | site"),
    "scale, ordinal": (atm.OrdinalRegression(scale=["x"]), "grade ~ x + z | site"),
    "scale, Weibull": (atm.ParametricSurvival(dist="weibull", scale=["x"]), "Surv(time, event) ~ x | site"),
    "scale, xi of its own": (atm.ContinuousLogit(order=4, scale=["x"], xi_scale=3.0), "y ~ x + z | site"),
    "scale and strata": (atm.ContinuousLogit(order=3, scale=["x"]), "y | sex ~ x | site"),
    "scale and ridge": (atm.ContinuousLogit(order=3, scale=["x"], l2=0.02), "y ~ x + z | site"),
    "random, Lm": (atm.NormalLinear(), "y ~ x + z + (1 | patient) | site"),
    "random, c-probit": (atm.ContinuousProbit(order=3), "y ~ x + (1 | patient) | site"),
    "random, right": (atm.ContinuousLogit(order=3), "Surv(time, event) ~ x + (1 | patient) | site"),
    "random, ordinal": (atm.OrdinalRegression(), "grade ~ x + (1 | patient) | site"),
    "random slope, Lm": (atm.NormalLinear(), "y ~ x + (1 + x | patient) | site"),
    "random, strata": (atm.ContinuousProbit(order=3), "y | sex ~ x + (1 | patient) | site"),
    "ridge": (atm.ContinuousLogit(order=4, l2=0.05), "y ~ x + z | site"),
    "ridge on deviations": (atm.NormalLinear(l2=0.05, penalty_factor={"x": 2.0}), "y ~ x + z | site"),
}
RANGES = {"u": [-1.0, 1.0]}
SUPPORTS = {
    **dict.fromkeys(("count", "count, not in logs", "strata, count"), (0.0, 6.0)),
    "c-logit, interval": (-2.0, 4.0),
}
