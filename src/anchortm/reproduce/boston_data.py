"""BostonHousing2 as the paper uses it: seven covariates, prices that are capped at 50, 92 towns, and four models."""

from __future__ import annotations

from typing import Any

import anchortm as atm

__all__ = ["COVARIATES", "MODELS", "THREE", "model_of", "outcome", "read", "towns"]

COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
MODELS = ["Lm", "c-probit", "c-logit", "c-logit (censored)"]
THREE = ["Boston Back Bay", "Boston Beacon Hill", "Boston North End"]
SUPPORT = (12.9, 34.65)  # support of the c-logit models; the others use that of their training rows


def read() -> tuple[Any, Any, Any]:
    """Return covariates, prices and towns."""
    data = atm.datasets.load_boston_housing2()
    return data[COVARIATES], data.cmedv, data.town


def outcome(name: str, price: Any) -> Any:
    """Return the outcome of a model: prices, or prices that are censored at 50."""
    return atm.Surv(price, price != 50) if "censored" in name else price


def model_of(name: str, support: tuple[float, float] | None = None) -> Any:
    """Return a model by its name in the paper; by default with the support of the left-out fits."""
    make = {"Lm": atm.NormalLinear, "c-probit": atm.ContinuousProbit}.get(name, atm.ContinuousLogit)
    if support is None and name.startswith("c-logit"):
        support = SUPPORT
    return make() if name == "Lm" or support is None else make(support=support)


def towns() -> list[str]:
    """Return the names of the towns in the order of the arrays."""
    return sorted(set(read()[2]))
