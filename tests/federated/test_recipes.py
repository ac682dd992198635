"""Recipes of models: those that a fit sends are read, and combinations that no fit has are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from federated_cases import RANGES, check_equal, coordinator, table

import anchortm as atm
from anchortm.federated.recipe import Recipe
from anchortm.federated.wire import Message, WireError

DATA = table()


def record(model: Any, formula: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the recipe that a fit sends."""
    asked = coordinator(DATA, formula, support=[-2.0, 4.0], ranges=RANGES)
    sites: Any = asked.transport
    sent: list[Message] = []
    sites.watch = lambda name, question, answer: sent.append(Message.decode(question))
    _ = asked.problem(model).objective
    found = next(message for message in sent if message.kind == "baseline")
    return {name: own for name, own in found.fields.items() if name not in ("session", "round")}, found.arrays


PLAIN = atm.ContinuousLogit(order=3), "y ~ x + u | site"
GLM = atm.AnchorGLM(), "y ~ x + u | site"
STRATA = atm.ContinuousLogit(order=3), "y | sex ~ x + u | site"
SCALE = atm.ContinuousLogit(order=3, scale=["x"]), "y ~ x + u | site"
RANDOM = atm.ContinuousLogit(order=3), "y ~ x + u + (1 | patient) | site"


@pytest.mark.bug("federated", "sites made models that no fit asks for, in which rules at parameters were incomplete")
@pytest.mark.parametrize(
    ("first", "fields", "second"),
    [
        (GLM, ("basis",), PLAIN),
        (GLM, ("corners",), STRATA),
        (GLM, ("arguments",), SCALE),
        (GLM, ("effects", "n_nodes"), RANDOM),
        (PLAIN, ("basis",), GLM),
        (RANDOM, ("arguments",), SCALE),
    ],
)
@pytest.mark.filterwarnings("ignore:each cluster of patient lies:anchortm.exceptions.AnchorWarning")
def test_combinations_that_no_fit_has_are_refused(first: Any, fields: tuple[str, ...], second: Any) -> None:
    own, arrays = record(*first)
    other = record(*second)[0]
    assert Recipe.of(own, arrays).record() == own
    with pytest.raises(WireError, match=r"parts of the model do not go together|do not match the model"):
        Recipe.of(own | {name: other[name] for name in fields}, arrays)


@pytest.mark.parametrize("scale", [[0, 0], [1, 0, 1]])
def test_columns_of_the_scale_differ(scale: list[int]) -> None:
    own, arrays = record(*SCALE)
    with pytest.raises(WireError, match="parts of the model do not go together"):
        Recipe.of(own | {"arguments": {"scale": scale}}, arrays)


@pytest.mark.bug("federated", "with more than 67 nodes the error of the integrals could not be asked for")
@pytest.mark.parametrize("n_nodes", [80, 101])
@pytest.mark.filterwarnings("ignore:each cluster of patient lies:anchortm.exceptions.AnchorWarning")
def test_many_nodes(n_nodes: int) -> None:
    model, formula = atm.OrdinalRegression(n_nodes=n_nodes, tol=1e-11), "grade ~ x + (1 | patient) | site"
    found = coordinator(DATA, formula).fit(model, xi=1.0)
    check_equal(found, atm.OrdinalRegression.from_formula(formula, DATA, n_nodes=n_nodes, tol=1e-11, xi=1.0))
