"""Every cell of the table in docs/guide/cells.md: models by kinds of outcomes, with anchors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from paths import DOCS

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

PAGE = DOCS / "guide" / "cells.md"
RNG = np.random.default_rng(0)
N = 240
SITE = RNG.integers(0, 5, N)
HIDDEN = RNG.normal(size=N) + 0.8 * (SITE - 2)
X = pd.DataFrame({"x": HIDDEN + RNG.normal(size=N), "z": RNG.normal(size=N)})
PERSON = np.arange(N) // 4
Y = np.exp(1.0 + 0.3 * (0.5 * X.x + HIDDEN + 0.3 * X.z + RNG.normal(size=N))).to_numpy()
LIMIT, ENTRY, CODES = RNG.uniform(2, 12, N), 0.5 * Y * RNG.uniform(size=N), np.digitize(Y, [2.0, 3.0, 5.0])


def mixed() -> Any:
    """Return rows of all kinds: left-censored, interval-censored, exact, right-censored."""
    lower = np.select([Y < 2, Y < 3, Y > 6], [-np.inf, 2.0, 6.0], Y)
    return atm.Interval(lower, np.select([Y < 2, Y < 3, Y > 6], [2.0, 3.0, np.inf], Y))


KINDS: dict[str, Callable[[], Any]] = {
    "exact": lambda: Y.round(1),
    "right-censored": lambda: atm.Surv(np.minimum(Y, LIMIT), Y <= LIMIT),
    "left-censored": lambda: atm.Interval(np.where(Y < 2, -np.inf, Y), np.maximum(Y, 2.0)),
    "interval-censored": lambda: atm.Interval(2.0 * np.floor(Y / 2.0), 2.0 * np.floor(Y / 2.0) + 2.0),
    "all kinds mixed": mixed,
    "delayed entry": lambda: atm.Surv(np.minimum(Y, LIMIT + ENTRY), Y <= LIMIT + ENTRY, ENTRY),
    "right-truncated": lambda: atm.Interval(Y, Y, entry=np.zeros(N), exit=np.full(N, 4.0 * Y.max())),
    "ordered classes": lambda: pd.Categorical.from_codes(CODES, ["a", "b", "c", "d"], ordered=True),
    "true or false": lambda: Y > 3,
    "counts": lambda: np.floor(Y).astype(int),
}


def glm(family: str) -> Callable[[float], Any]:
    return lambda xi: atm.AnchorGLM(xi, family=family)


def boosted(make: Callable[..., Any]) -> Callable[[float], Any]:
    return lambda xi: atm.AnchorBoostedTM(make(), xi, n_rounds=10, min_samples_leaf=10)


def random(make: Callable[..., Any]) -> Callable[[float], Any]:
    return lambda xi: make(xi, random="person")


MODELS: dict[str, Callable[[float], Any]] = {
    "NormalLinear": atm.NormalLinear,
    "ContinuousProbit": lambda xi: atm.ContinuousProbit(xi, order=3),
    "ContinuousLogit": lambda xi: atm.ContinuousLogit(xi, order=3),
    "ProportionalHazards": lambda xi: atm.ProportionalHazards(xi, order=3),
    "CoxPH": atm.CoxPH,
    "Lehmann": lambda xi: atm.Lehmann(xi, order=3),
    "ParametricSurvival": atm.ParametricSurvival,
    "OrdinalRegression": atm.OrdinalRegression,
    "CountRegression": lambda xi: atm.CountRegression(xi, order=3),
    'AnchorGLM(family="gaussian")': glm("gaussian"),
    'AnchorGLM(family="gamma")': glm("gamma"),
    'AnchorGLM(family="poisson")': glm("poisson"),
    'AnchorGLM(family="negative_binomial")': glm("negative_binomial"),
    'AnchorGLM(family="binomial")': glm("binomial"),
    'ContinuousLogit(strata="part")': lambda xi: atm.ContinuousLogit(xi, order=3, strata="part"),
    'ContinuousLogit(varying="z")': lambda xi: atm.ContinuousLogit(xi, order=3, varying="z"),
    'ContinuousLogit(scale="z")': lambda xi: atm.ContinuousLogit(xi, order=3, scale="z"),
    "ContinuousLogit(l1=0.01)": lambda xi: atm.ContinuousLogit(xi, order=3, l1=0.01),
    'OrdinalRegression(varying="z")': lambda xi: atm.OrdinalRegression(xi, varying="z"),
    'OrdinalRegression(scale="z")': lambda xi: atm.OrdinalRegression(xi, scale="z"),
    'CountRegression(strata="part")': lambda xi: atm.CountRegression(xi, order=3, strata="part"),
    'NormalLinear(random="person")': random(atm.NormalLinear),
    'ContinuousLogit(random="person")': random(lambda xi, **k: atm.ContinuousLogit(xi, order=3, **k)),
    'OrdinalRegression(random="person")': random(atm.OrdinalRegression),
    'CountRegression(random="person")': random(lambda xi, **k: atm.CountRegression(xi, order=3, **k)),
    "AnchorBoostedTM(ContinuousLogit())": boosted(lambda: atm.ContinuousLogit(order=3)),
    "AnchorBoostedTM(OrdinalRegression())": boosted(atm.OrdinalRegression),
    "AnchorBoostedTM(CountRegression())": boosted(lambda: atm.CountRegression(order=3)),
}


def answer(model: str, kind: str) -> str:
    """Return what becomes of a model with this kind of outcome."""
    columns = X
    if "strata" in model:
        columns = X.assign(part=np.arange(N) % 2)
    if "random" in model:
        columns = X.assign(person=PERSON)
    fits = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for xi in (0.0, 10.0):
                fits.append(MODELS[model](xi).fit(columns, KINDS[kind](), anchors=SITE))
    except (InputError, InputTypeError):
        return "no"
    plain, anchored = fits
    assert plain.converged_, (model, kind)
    assert anchored.converged_, (model, kind)
    assert anchored.penalty_ < plain.penalty_, (model, kind)
    return "yes"


def cells() -> list[tuple[str, str, str]]:
    """Return model, kind and answer of every cell of the page."""
    rows = next(part for part in PAGE.read_text().split("\n\n") if part.startswith("| model")).splitlines()
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    header, body = table[0][1:], table[2:]
    return [(row[0].strip("`"), kind, cell) for row in body for kind, cell in zip(header, row[1:], strict=True)]


def test_the_table_has_every_cell() -> None:
    assert {(model, kind) for model, kind, _ in cells()} == {(model, kind) for model in MODELS for kind in KINDS}


@pytest.mark.parametrize(("model", "kind", "wanted"), cells(), ids=lambda value: str(value))
def test_a_cell(model: str, kind: str, wanted: str) -> None:
    assert answer(model, kind) == wanted
