"""Recorded traffic of fits: no value of a row is in it, neither masked nor plain, as bytes or as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from federated_cases import CELLS, RANGES, SUPPORT, SUPPORTS, coordinator, table

from anchortm.federated.wire import Message

DATA = table()
COLUMNS = ("x", "u", "y", "time", "cost")  # continuous covariates and outcomes


def doubles(message: bytes) -> set[float]:
    """Return the numbers in the arrays and fields of a message."""
    made = Message.decode(message)
    found = {float(x) for values in made.arrays.values() if values.dtype.kind == "f" for x in values.ravel()}
    todo: list[Any] = [made.fields]
    while todo:
        own = todo.pop()
        if isinstance(own, float):
            found.add(own)
        elif isinstance(own, (dict, list)):
            todo += own.values() if isinstance(own, dict) else own
    return found


@pytest.mark.parametrize("masks", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        *("GLM gaussian identity", "GLM gamma inverse", "GLM binomial probit", "GLM trials", "GLM poisson sqrt"),
        *(
            "strata, right",
            "strata and varying",
            "varying number",
            "varying factor",
            "scale, right",
            "scale and strata",
        ),
        *("random, right", "random slope, Lm", "random, strata"),
    ],
)
@pytest.mark.filterwarnings("ignore:each cluster of patient lies in one level:anchortm.exceptions.AnchorWarning")
def test_no_value_of_a_row_crosses(name: str, masks: bool) -> None:
    model, formula = CELLS[name]
    traffic: list[bytes] = []

    def watch(name: str, question: bytes, answer: bytes) -> None:
        traffic.extend([question, answer])

    asked = coordinator(DATA, formula, masks, support=list(SUPPORTS.get(name, SUPPORT)), ranges=RANGES)
    sites: Any = asked.transport
    sites.watch = watch
    asked.score(asked.fit(model, xi=1.0))
    everything, numbers = b"\n".join(traffic), set().union(*map(doubles, traffic))
    assert len(traffic) > 60
    for column in COLUMNS:
        values = DATA[column].to_numpy(dtype=np.float64)
        values = values[values != 0.0]  # as the sine of the first row, and as much else
        assert not numbers & set(values.tolist())
        for value in values:
            assert value.tobytes() not in everything
            assert value.tobytes()[::-1] not in everything
            assert repr(float(value)).encode() not in everything


def test_values_in_messages_would_be_found() -> None:
    message = Message("sums", {"a": {"b": [DATA.x[3]]}}, {"sums": DATA.y.to_numpy()[:4]}).encode()
    assert {DATA.x[3], *DATA.y[:4]} <= doubles(message)
