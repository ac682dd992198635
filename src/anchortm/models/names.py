"""Models by the names that the paper, R and the command line use."""

from __future__ import annotations

from typing import Any

__all__ = ["MODELS", "in_python"]

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "lm": ("NormalLinear", {}),
    "c-probit": ("ContinuousProbit", {}),
    "c-logit": ("ContinuousLogit", {}),
    "cox": ("ProportionalHazards", {}),
    "cox-partial": ("CoxPH", {}),
    "lehmann": ("Lehmann", {}),
    "weibull": ("ParametricSurvival", {"dist": "weibull"}),
    "lognormal": ("ParametricSurvival", {"dist": "lognormal"}),
    "loglogistic": ("ParametricSurvival", {"dist": "loglogistic"}),
    "exponential": ("ParametricSurvival", {"dist": "exponential"}),
    "rayleigh": ("ParametricSurvival", {"dist": "rayleigh"}),
    "o-logit": ("OrdinalRegression", {"link": "logit"}),
    "o-probit": ("OrdinalRegression", {"link": "probit"}),
    "o-cloglog": ("OrdinalRegression", {"link": "cloglog"}),
    "o-loglog": ("OrdinalRegression", {"link": "loglog"}),
    "count": ("CountRegression", {"link": "logit"}),
    "count-probit": ("CountRegression", {"link": "probit"}),
    "count-cloglog": ("CountRegression", {"link": "cloglog"}),
    "count-loglog": ("CountRegression", {"link": "loglog"}),
    "poisson": ("AnchorGLM", {"family": "poisson"}),
    "binomial": ("AnchorGLM", {"family": "binomial"}),
    "gamma": ("AnchorGLM", {"family": "gamma"}),
    "negative-binomial": ("AnchorGLM", {"family": "negative_binomial", "alpha": "ml"}),
    "gaussian": ("AnchorGLM", {"family": "gaussian"}),
}


def in_python(name: str) -> str | None:
    """Return how Python writes the model that the command line calls by this name; None for other names.

    Examples
    --------
    >>> from anchortm.models.names import in_python
    >>> in_python("weibull")
    "ParametricSurvival(dist='weibull')"
    """
    if name not in MODELS:
        return None
    cls, options = MODELS[name]
    return f"{cls}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
