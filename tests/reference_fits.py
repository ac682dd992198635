"""The R fits in tests/reference as objects of ours: response, basis, link, design, coefficients."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from paths import REFERENCE

import anchortm as atm
from anchortm import Interval, Response, Surv
from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.datasets import LOADERS
from anchortm.inputs.response import as_response
from anchortm.links import LINKS, Link

LINK_NAMES = {
    "normal": "probit",
    "logistic": "logit",
    "minimum extreme value": "cloglog",
    "maximum extreme value": "loglog",
}
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
NAMES = sorted(path.stem for path in (REFERENCE / "r").glob("*.json"))
UNSTRATIFIED = [name for name in NAMES if "strata" not in name]


SHIPPED = {"BostonHousing2": "boston_housing2", "cgd_first_event": "cgd"}


@cache
def data(name: str) -> pd.DataFrame:
    own = REFERENCE / "data" / f"{name}.csv"
    return pd.read_csv(own) if own.exists() else LOADERS[SHIPPED.get(name, name)]()


@cache
def record(name: str) -> dict[str, Any]:
    return json.loads((REFERENCE / "r" / f"{name}.json").read_text())


def boston_response(kind: str) -> Response:
    y, constructed = data("BostonHousing2").cmedv.to_numpy(), data("BostonHousing2_constructed")
    turn = np.arange(1, len(y) + 1) % 4
    inf = np.inf
    make = {
        "exact": lambda: as_response(y),
        "rc": lambda: Surv(y, y != 50),
        "lc": lambda: Interval(np.where(y <= 12, -inf, y), np.maximum(y, 12)),
        "ic": lambda: Interval(np.floor(y), np.where(y == 50, inf, np.floor(y) + 1)),
        "lt": lambda: Surv(y, y != 50, constructed.start),
        "mix": lambda: Interval(
            np.select([turn == 0, turn == 1], [np.floor(y), -inf], y),
            np.select([turn == 0, turn == 2], [np.floor(y) + 1, inf], y),
        ),
        "ord6": lambda: as_response(constructed.y_ord, "ordinal"),
        "bin": lambda: as_response(np.where(y > 21, "hi", "lo"), "ordinal", levels=["lo", "hi"]),
    }
    return make[kind]()


def response_and_design(name: str) -> tuple[Response, np.ndarray]:
    source, kind = name.split("_")[:2]
    if source == "boston":
        columns = [] if "noshift" in name else COVARIATES
        return boston_response(kind), data("BostonHousing2")[columns].to_numpy()
    if source == "cgd":
        d = data("cgd_first_event")
        columns = [d.treat == "rIFN-g", d.age, d.sex == "female", d.inherit == "autosomal", d.steroids, d.propylac]
        return Surv(d.tstop, d.status), np.column_stack(columns).astype(float)
    if source == "wine":
        d = data("wine")
        return as_response(d.rating, "ordinal"), np.column_stack([d.temp == "warm", d.contact == "yes"]).astype(float)
    if source == "grouseticks":
        d = data("grouseticks")
        return as_response(d.TICKS, "count"), np.column_stack([d.YEAR == 96, d.YEAR == 97, d.cHEIGHT]).astype(float)
    d = data("faithful")
    return as_response(d.waiting), np.zeros((len(d), 0))


def basis_of(reference: dict[str, Any]) -> Basis:
    extrapolate = "natural" if "vis" in reference["name"] or "extrapolate" in reference["name"] else "linear"
    match reference["basis_class"]:
        case "polynomial_basis":
            return LinearBasis()
        case "log_basis":
            return LogLinearBasis()
        case "formula_basis":
            return OrdinalBasis(tuple(reference["levels"]))
    log_first, support = reference["log_first"], np.array(reference["support"], dtype=float)
    if reference["model_class"] == "cotram":
        return CountBasis(reference["order"], tuple(support - log_first), log_first)
    return BernsteinBasis(reference["order"], tuple(support), log_first, extrapolate)


@dataclass
class Fit:
    """A reference fit: h = a(y)'theta + sign * x'beta + offset."""

    name: str
    reference: dict[str, Any]
    response: Response
    X: np.ndarray
    basis: Basis
    link: Link
    theta: np.ndarray
    beta: np.ndarray
    sign: float
    offset: np.ndarray
    weights: np.ndarray

    @property
    def shift(self) -> np.ndarray:
        return self.sign * (self.X @ self.beta) + self.offset


def load(name: str) -> Fit:
    reference = record(name)
    response, X = response_and_design(name)
    coef, is_shift = np.array(reference["polished"]["coef"]), np.array(reference["is_shift"])
    if name == "boston_bin_Polr_logistic":  # a spurious baseline coefficient, fixed at 0
        coef, is_shift = np.delete(coef, 1), np.delete(is_shift, 1)
    constructed = data("BostonHousing2_constructed")
    return Fit(
        name,
        reference,
        response,
        X,
        basis_of(reference),
        LINKS[LINK_NAMES[reference["distribution"]]],
        coef[~is_shift],
        coef[is_shift],
        -1.0 if reference["negative"] else 1.0,
        constructed.off.to_numpy() if "offset" in name else np.zeros(len(response)),
        constructed.w.to_numpy(dtype=float) if "weights" in name else np.ones(len(response)),
    )


def model_for(fit: Fit):
    """Return our estimator for an R model, and the factor from R's coefficients to ours."""
    reference = fit.reference
    bernstein = {}
    if fit.basis.kind in ("bernstein", "count"):
        bernstein = {
            "order": fit.basis.order,
            "support": fit.basis.support,
            "log_first": fit.basis.log_first,
            "extrapolate": fit.basis.extrapolate,
        }
    link = LINK_NAMES[reference["distribution"]]
    match reference["model_class"]:
        case "Lm":
            return atm.NormalLinear(), 1.0
        case "BoxCox":
            return atm.ContinuousProbit(**bernstein), 1.0
        case "Colr":
            return atm.ContinuousLogit(**bernstein), -1.0  # R's Colr is h + x'beta
        case "Coxph":
            return atm.ProportionalHazards(**bernstein), 1.0
        case "Lehmann":
            return atm.Lehmann(**bernstein), 1.0
        case "Survreg":
            dist = {"cloglog": "weibull", "probit": "lognormal", "logit": "loglogistic"}[link]
            return atm.ParametricSurvival(dist=dist), 1.0
        case "Polr":
            return atm.OrdinalRegression(link=link), 1.0
        case "cotram":
            return atm.CountRegression(link=link, **bernstein), 1.0
    raise AssertionError(reference["model_class"])
