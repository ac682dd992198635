"""Reference numbers of invariance tests: the models and the rows that they belong to."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
from paths import REFERENCE

import anchortm as atm

PROBLEMS = json.loads((REFERENCE / "gcm" / "refs.json").read_text())["problems"]


def reference_model(problem: dict[str, Any]) -> Any:
    support = tuple(problem["support"]) if "support" in problem else None
    made = {
        "Lm": atm.NormalLinear(),
        "BoxCox": atm.ContinuousProbit(support=support),
        "Survreg": atm.ParametricSurvival(),
        "Coxph": atm.ProportionalHazards(support=support),
        "coxph_partial": atm.CoxPH(),
        "Polr": atm.OrdinalRegression(),
        "Polr_probit": atm.OrdinalRegression(link="probit"),
        "glm_binomial": atm.AnchorGLM(family="binomial"),
    }
    return made[problem["model"]]


def reference_rows(problem: dict[str, Any]) -> tuple[str, pd.DataFrame]:
    return f"{problem['formula']} | E", pd.read_csv(REFERENCE / "gcm" / problem["data"])
