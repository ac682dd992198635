"""What ``assess`` says before hospital 13 joins, and what its patients then show, in many samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import anchortm as atm
from anchortm._typing import Array
from anchortm.reproduce.hospital_13 import FORMULA, SHIFTS, World, true_survival, world

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COVARIATES",
    "GAIN",
    "LABELS",
    "SAMPLES",
    "SHOWN",
    "SUPPORT",
    "hazards",
    "sample",
    "shown",
    "study",
    "true_loss",
    "winner",
]

SUPPORT = (1.0, 48.0)  # months; agreed on by the hospitals before any fit
COVARIATES = ["marker", "age", "hospital"]
SAMPLES = 50
LABELS = 20  # outcomes of hospital 13 that recalibrate
FIRST_TEST = 200  # patients of hospital 13 from this one on are predicted
SHOWN = 23  # the sample of the gallery; see ``shown``
GAIN = 0.01  # log-likelihood per row; smaller gains count as nothing, as in assess
LEVEL = 0.9  # level of the lower bound
WIDTHS = np.exp(np.linspace(-0.7, 1.4, 22))
MONTHS = np.arange(2.0, 37.0, 2.0)
FEW = [f"recalibrated({LABELS})", f"own({LABELS})"]
WITHOUT = ("ml", "widened", "anchored")  # strategies that need no outcomes of hospital 13


def hazards(xi: float = 0.0) -> Any:
    """Return the model of the study: proportional hazards, their baseline flexible on a fixed range of log time."""
    return atm.ProportionalHazards(xi, order=3, log_first=True, support=SUPPORT)


def true_loss(own: World, rows: pd.DataFrame) -> float:
    """Return the mean negative log-likelihood of the truth, which knows what hospital 13 is like."""
    survival, density = true_survival(own.hospital, rows, rows[["months"]])
    died = rows.died.to_numpy() == 1
    return float(-np.where(died, np.log(density[:, 0]), np.log(survival[:, 0])).mean())


def sample(shift: str, seed: int) -> dict[str, Any]:
    """Return what was said in advance and what then happened, in one sample.

    Parameters
    ----------
    shift : str
        A name of ``anchortm.reproduce.hospital_13.SHIFTS``.
    seed : int

    Returns
    -------
    dict
        ``advised``, ``confidence``, ``xi`` and ``collect`` are the answer of ``assess``, which sees the twelve hospitals
        and the covariates of hospital 13. ``gain ...`` are gains over maximum likelihood in log-likelihood per row at
        patients of hospital 13. ``best width ...`` are such gains with the width that suits these patients best, known in
        hindsight only: what is left between two strategies is location. ``curve ...`` is the mean distance of a
        patient's survival curve from the truth. ``bound`` is the share of patients who live longer than the conformal
        lower bound, ``bound ml`` than the 10 % quantile of the model.
    """
    own = world(shift, seed)
    few, test = own.new[:LABELS], own.new[FIRST_TEST:]
    found: Any = atm.assess(
        hazards(), FORMULA, own.known, new=own.new[COVARIATES], strategies=["widened", "anchored"], progress=False
    )
    advice = found.recommendation.main
    ml = hazards().fit(FORMULA, own.known)
    fits = tuned(found)
    fits |= {f"anchored({xi:g})": hazards(xi).fit(FORMULA, own.known) for xi in (1.0, 3.0, 10.0)}
    fits |= {FEW[0]: ml.recalibrate(few, what="shift"), FEW[1]: alone(few)}
    base = float(ml.nll(test).mean())
    row: dict[str, Any] = {"shift": shift, "seed": seed, "distance": found.new.distance, "design": advice.design}
    row |= {"advised": advice.strategy, "confidence": advice.confidence, "advised xi": advice.xi}
    row |= {"collect": advice.collect or 0, "xi": float(fits["anchored"].xi_), "nll ml": base}
    row |= {f"gain {name}": base - float(fit.nll(test).mean()) for name, fit in fits.items()}
    row["gain truth"] = base - true_loss(own, test)
    for name, fit in {"ml": ml, "anchored(3)": fits["anchored(3)"]}.items():
        row[f"best width {name}"] = base - min(float(fit.widened(width).nll(test).mean()) for width in WIDTHS)
    truth = true_survival(own.hospital, test, MONTHS)[0]
    for name in ("ml", *WITHOUT[1:], FEW[0]):
        curves = (fits | {"ml": ml})[name].predict_distribution(test).sf(MONTHS)
        row[f"curve {name}"] = float(np.abs(curves - truth).mean())
    bound = atm.ConformalPredictor(hazards(), LEVEL, method="loeo").fit(FORMULA, own.known).lower_bound(test)
    row["bound"] = longer(own, test, bound)
    row["bound ml"] = longer(own, test, ml.predict_quantiles(test, [1.0 - LEVEL])[:, 0])
    return row


def tuned(found: Any) -> dict[str, Any]:
    """Return the widened and the anchored model as ``assess`` tunes them for the kind of place that hospital 13 is."""
    finals = found.finals[found.recommendation.main.design]
    return {name: finals[name] for name in WITHOUT[1:]}


def alone(rows: pd.DataFrame) -> Any:
    """Return a Weibull model fitted to rows of hospital 13 alone: few rows do not carry a flexible baseline."""
    return atm.ParametricSurvival().fit(FORMULA.split("|")[0], rows)


def longer(own: World, rows: pd.DataFrame, months: Array) -> float:
    """Return the true mean probability of these patients to live longer."""
    return float(true_survival(own.hospital, rows, np.asarray(months)[:, None])[0].mean())


def study(seeds: Iterable[int] = range(SAMPLES)) -> Iterator[dict[str, Any]]:
    """Yield ``sample`` of every shift and seed."""
    for seed in seeds:
        for shift in SHIFTS:
            yield sample(shift, seed)


def shown(table: pd.DataFrame) -> int:
    """Return the sample that the gallery shows: the one whose gain by anchoring is the median for the first shift."""
    own = table[table["shift"] == next(iter(SHIFTS))].sort_values("gain anchored")
    return int(own["seed"].iloc[(len(own) - 1) // 2])


def winner(row: Any) -> str:
    """Return which strategy without outcomes of hospital 13 did best there; "ml" if none gained more than ``GAIN``."""
    gains = {name: row[f"gain {name}"] for name in WITHOUT[1:]}
    best = max(gains, key=lambda name: gains[name])
    return best if gains[best] > GAIN and not math.isnan(gains[best]) else "ml"
