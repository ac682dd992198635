"""Models by the names that the paper, R and users know."""

from __future__ import annotations

from typing import Any

from anchortm.exceptions import InputError

__all__ = ["MODELS", "make_model"]

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


def make_model(name: str, **options: Any) -> Any:
    """Return the model of this name with the given options."""
    import anchortm

    cls, fixed = MODELS[name]
    given = {key: value for key, value in options.items() if value is not None}
    made = getattr(anchortm, cls)
    unknown = sorted(set(given) - set(made().get_params(deep=False)))
    if unknown:
        listed = ", ".join("--" + key.replace("_", "-") for key in unknown)
        raise InputError(f"the model {name} does not take {listed}")
    return made(**fixed, **given)
