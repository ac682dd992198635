"""Distributional anchor regression: predict whole distributions that hold up at a new place."""

from __future__ import annotations

import importlib
from typing import Any

from anchortm.public import dir_of

__version__ = "0.1.0.dev0"

# name -> module that holds it; loaded on first use, so that importing anchortm stays cheap
_HOME = {
    "AnchorBoostedTM": "boosted",
    "AnchorBoosting": "boosting",
    "AnchorGLM": "glm",
    "AnchorTM": "estimators",
    "ContinuousLogit": "estimators",
    "ContinuousProbit": "estimators",
    "CountRegression": "estimators",
    "CoxPH": "cox",
    "ElasticNetCV": "nets",
    "Formula": "formula",
    "Interval": "response",
    "Lehmann": "estimators",
    "LinearAnchorRegression": "linear",
    "NormalLinear": "estimators",
    "OrdinalRegression": "estimators",
    "ParametricSurvival": "estimators",
    "ProportionalHazards": "estimators",
    "Response": "response",
    "SmoothSearchCV": "search",
    "Surv": "response",
    "Trials": "response",
    "XiSearchCV": "search",
    "anchor_path": "path",
    "elastic_net_path": "nets",
    "gamma_from_quantile": "path",
    "gamma_from_xi": "path",
    "leave_one_environment_out": "evaluation",
    "likelihood_ratio_test": "summary",
    "load": "persistence",
    "marginal_effects": "effects",
    "predict_table": "predictions",
    "proportionality_test": "proportionality",
    "save": "persistence",
    "xi_by_score_test": "search",
    "xi_from_gamma": "path",
}

_MODULES = ("datasets", "diagnostics", "links", "plotting", "scenarios", "scores", "sem")

__all__ = ["__version__", *_HOME, *_MODULES]

__dir__ = dir_of(__all__)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"anchortm.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(f"anchortm.{_HOME[name]}"), name)
    raise AttributeError(f"module 'anchortm' has no attribute {name!r}")
