"""Survival by treatment with its band, dashed beyond the last follow-up, and the numbers at risk."""

from __future__ import annotations

from typing import Any

import numpy as np

import anchortm as atm


def draw() -> Any:
    cgd = atm.datasets.load_cgd()
    formula = "Surv(tstop, status) ~ treat + age | center"
    model = atm.ProportionalHazards.from_formula(formula, cgd, log_first=True)
    two = cgd[:2].assign(treat=["placebo", "rIFN-g"], age=12)
    band = model.confidence_band(two, np.linspace(1, 450, 200), of="sf")
    return atm.plotting.survival(band, atm.Surv(cgd.tstop, cgd.status), by=cgd.treat, unit="days").figure
