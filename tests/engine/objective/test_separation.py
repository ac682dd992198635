"""Separation is found by linear programmes that see few of the rows at first."""

from __future__ import annotations

import numpy as np
import pytest

from anchortm.engine.objective import separation

EVERY_ROW = 10**9


def rows(seed: int) -> np.ndarray:
    """Return rows whose products a direction must not make negative; for every other seed there is such a direction."""
    rng = np.random.default_rng(seed)
    n, p = int(10 ** rng.uniform(2.5, 4)), int(rng.integers(1, 12))
    X = rng.normal(size=(n, p)) if seed % 3 else (rng.normal(size=(n, p)) > 0.3).astype(float)
    side = np.where(X @ rng.normal(size=p) >= 0.0, 1.0, -1.0)
    against = rng.integers(n, size=[0, 1, 0, n // 20][seed % 4])
    side[against] *= -1.0
    return X * side[:, None]


@pytest.mark.parametrize("seed", range(16))
def test_few_rows_first_find_what_all_rows_find(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slack = rows(seed)
    p = slack.shape[1]
    gain, box = slack.sum(axis=0), np.ones(p)
    found = {}
    for first in (20, separation.FIRST_ROWS, EVERY_ROW):
        monkeypatch.setattr(separation, "FIRST_ROWS", first)
        found[first] = separation._maximise(slack, gain, np.eye(p), -box, box)
    whole = found.pop(EVERY_ROW)
    if seed % 2 == 0:
        assert whole is not None
    for direction in found.values():
        assert (direction is None) == (whole is None)
        if direction is not None:
            assert (slack @ direction).min() >= -1e-6
            np.testing.assert_allclose(gain @ direction, gain @ whole, rtol=1e-6)
