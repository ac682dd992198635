"""How often the right thing is recommended in worlds whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from place_worlds import world

import anchortm as atm

SAMPLES = {16: 100, 40: 30}  # by the number of places; the verdict itself is tried more often in test_compare.py
ROWS = 40


def recommended(kind: str, places: int, seed: int, **options):
    data, new = world(kind, places, ROWS, seed), world(kind, 1, 200, 1000 + seed, 3.0)
    model, some = atm.NormalLinear(), ["widened", "anchored"]
    found = atm.assess(model, "y ~ x | place", data, new=new, strategies=some, progress=False, **options)
    return found.recommendation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "places", "least", "most"),
    [
        ("hidden cause", 40, 0.85, 1.0),
        ("hidden cause", 16, 0.65, 1.0),
        ("noise differs", 16, 0.0, 0.15),
        ("noise differs", 40, 0.0, 0.15),
        ("random intercepts", 16, 0.0, 0.1),
        ("random intercepts", 40, 0.0, 0.1),
        ("nothing", 16, 0.0, 0.1),
        ("nothing", 40, 0.0, 0.1),
    ],
)
def test_how_often_anchoring_is_recommended(kind, places, least, most):
    found = [recommended(kind, places, seed) for seed in range(SAMPLES[places])]
    assert all(one.kind in ("further", "like") for one in found)
    far = [one.further for one in found]
    assert least <= np.mean([one.strategy == "anchored" for one in far]) <= most
    near = [one.like for one in found]
    assert np.mean([one.strategy == "ml" for one in near]) >= 0.9
    if kind == "noise differs":
        assert np.mean([one.confidence == "confident" for one in far]) <= 0.03
    if kind in ("nothing", "noise differs"):
        assert np.mean([one.collect is None for one in near]) >= 0.9
    if kind == "random intercepts":
        assert np.mean([one.collect is not None for one in near]) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("places", [16, 40])
def test_twenty_outcomes_recalibrate_where_places_have_intercepts(places):
    found = [recommended("random intercepts", places, seed, labels=20) for seed in range(SAMPLES[places])]
    for kind in ("like", "further"):
        assert np.mean([getattr(one, kind).strategy == "recalibrate" for one in found]) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nothing", "noise differs"])
def test_twenty_outcomes_do_not_recalibrate_where_places_have_none(kind):
    found = [recommended(kind, 16, seed, labels=20) for seed in range(SAMPLES[16])]
    assert np.mean([one.like.strategy == "recalibrate" for one in found]) <= 0.1
