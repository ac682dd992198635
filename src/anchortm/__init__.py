"""Distributional anchor regression: predict whole distributions at places that the data do not come from."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from anchortm import _moved

__version__ = "0.2.0"

# name -> the module that holds it; loaded on first use, so that importing anchortm stays cheap
_HOME = {
    "AnchorBoostedTM": "models.boosted.estimator",
    "AnchorBoosting": "competitors.boosting",
    "AnchorGLM": "models.glm",
    "AnchorTM": "models.transformation",
    "ConformalPredictor": "newplace.conformal",
    "ContinuousLogit": "models.transformation",
    "ContinuousProbit": "models.transformation",
    "CountRegression": "models.transformation",
    "CoxPH": "models.cox",
    "ElasticNetCV": "selection.elastic_net",
    "Formula": "inputs.formula",
    "Interval": "inputs.response",
    "Lehmann": "models.transformation",
    "LinearAnchorRegression": "competitors.linear",
    "NormalLinear": "models.transformation",
    "OrdinalRegression": "models.transformation",
    "ParametricSurvival": "models.transformation",
    "Pipeline": "models.pipeline",
    "ProportionalHazards": "models.transformation",
    "Proxies": "inputs.targets",
    "Response": "inputs.response",
    "SmoothSearchCV": "selection.smooth_search",
    "Surv": "inputs.response",
    "TargetShift": "inputs.targets",
    "Trials": "inputs.response",
    "WorstEnvironment": "models.worst_environment",
    "XiSearchCV": "selection.searches",
    "anchor_path": "selection.path",
    "assess": "newplace.assessment.assess",
    "causal_parents": "diagnostics.causal_parents",
    "compare_strategies": "newplace.compare",
    "elastic_net_path": "selection.elastic_net",
    "gamma_from_quantile": "selection.path",
    "gamma_from_xi": "selection.path",
    "invariance_test": "diagnostics.invariance_tests",
    "leave_one_environment_out": "selection.left_out",
    "likelihood_ratio_test": "inference.likelihood_ratio",
    "load": "saving",
    "make_pipeline": "models.pipeline",
    "marginal_effects": "diagnostics.marginal_effects",
    "model_report": "newplace.model_report",
    "predict_table": "predict.tables",
    "proportionality_test": "diagnostics.proportionality",
    "save": "saving",
    "set_progress": "_util.progress",
    "xi_by_score_test": "selection.invariance_rule",
    "xi_from_gamma": "selection.path",
}

_MODULES = ("datasets", "diagnostics", "federated", "links", "plotting", "scenarios", "scores", "sem", "strategies")

if TYPE_CHECKING:  # the same names for type checkers and editors, which do not run __getattr__
    from anchortm import datasets as datasets
    from anchortm import diagnostics as diagnostics
    from anchortm import federated as federated
    from anchortm import links as links
    from anchortm import plotting as plotting
    from anchortm import scenarios as scenarios
    from anchortm import scores as scores
    from anchortm import sem as sem
    from anchortm import strategies as strategies
    from anchortm._util.progress import set_progress as set_progress
    from anchortm.competitors.boosting import AnchorBoosting as AnchorBoosting
    from anchortm.competitors.linear import LinearAnchorRegression as LinearAnchorRegression
    from anchortm.diagnostics.causal_parents import causal_parents as causal_parents
    from anchortm.diagnostics.invariance_tests import invariance_test as invariance_test
    from anchortm.diagnostics.marginal_effects import marginal_effects as marginal_effects
    from anchortm.diagnostics.proportionality import proportionality_test as proportionality_test
    from anchortm.inference.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
    from anchortm.inputs.formula import Formula as Formula
    from anchortm.inputs.response import Interval as Interval
    from anchortm.inputs.response import Response as Response
    from anchortm.inputs.response import Surv as Surv
    from anchortm.inputs.response import Trials as Trials
    from anchortm.inputs.targets import Proxies as Proxies
    from anchortm.inputs.targets import TargetShift as TargetShift
    from anchortm.models.boosted.estimator import AnchorBoostedTM as AnchorBoostedTM
    from anchortm.models.cox import CoxPH as CoxPH
    from anchortm.models.glm import AnchorGLM as AnchorGLM
    from anchortm.models.pipeline import Pipeline as Pipeline
    from anchortm.models.pipeline import make_pipeline as make_pipeline
    from anchortm.models.transformation import AnchorTM as AnchorTM
    from anchortm.models.transformation import ContinuousLogit as ContinuousLogit
    from anchortm.models.transformation import ContinuousProbit as ContinuousProbit
    from anchortm.models.transformation import CountRegression as CountRegression
    from anchortm.models.transformation import Lehmann as Lehmann
    from anchortm.models.transformation import NormalLinear as NormalLinear
    from anchortm.models.transformation import OrdinalRegression as OrdinalRegression
    from anchortm.models.transformation import ParametricSurvival as ParametricSurvival
    from anchortm.models.transformation import ProportionalHazards as ProportionalHazards
    from anchortm.models.worst_environment import WorstEnvironment as WorstEnvironment
    from anchortm.newplace.assessment.assess import assess as assess
    from anchortm.newplace.compare import compare_strategies as compare_strategies
    from anchortm.newplace.conformal import ConformalPredictor as ConformalPredictor
    from anchortm.newplace.model_report import model_report as model_report
    from anchortm.predict.tables import predict_table as predict_table
    from anchortm.saving import load as load
    from anchortm.saving import save as save
    from anchortm.selection.elastic_net import ElasticNetCV as ElasticNetCV
    from anchortm.selection.elastic_net import elastic_net_path as elastic_net_path
    from anchortm.selection.invariance_rule import xi_by_score_test as xi_by_score_test
    from anchortm.selection.left_out import leave_one_environment_out as leave_one_environment_out
    from anchortm.selection.path import anchor_path as anchor_path
    from anchortm.selection.path import gamma_from_quantile as gamma_from_quantile
    from anchortm.selection.path import gamma_from_xi as gamma_from_xi
    from anchortm.selection.path import xi_from_gamma as xi_from_gamma
    from anchortm.selection.searches import XiSearchCV as XiSearchCV
    from anchortm.selection.smooth_search import SmoothSearchCV as SmoothSearchCV
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"anchortm.{name}")
        if name in _HOME:
            return getattr(importlib.import_module(f"anchortm.{_HOME[name]}"), name)
        raise AttributeError(f"module 'anchortm' has no attribute {name!r}")


__all__ = ["__version__", *_HOME, *_MODULES]


def __dir__() -> list[str]:
    return sorted(__all__)


_moved.install()
