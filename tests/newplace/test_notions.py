"""What the page on other notions of robustness says about its simulated world, in more samples."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest
from paths import ROOT

SAMPLES = 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::anchortm.exceptions.AnchorTMWarning")
def test_what_each_way_protects_against() -> None:
    """Differences of means over samples, by at least two standard errors; the functions are those of the page."""
    page = (ROOT / "docs" / "guide" / "notions.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, re.S)[:2]
    names: dict[str, Any] = {}
    exec(first + second[: second.index("found = [")], names)  # noqa: S102 - our own page
    found = pd.concat({seed: names["losses"](seed) for seed in range(100, 100 + SAMPLES)})

    def better(one: str, other: str, kind: str) -> bool:
        difference = found.xs(one, level=1)[kind] - found.xs(other, level=1)[kind]
        return bool(difference.mean() < -2.0 * difference.std() / SAMPLES**0.5)

    ml, fifth = "maximum likelihood", "worst fifth, regret"
    ways = [name for name in names["ways"] if not name.startswith("target")]
    assert all(better("equal weights", name, "like") for name in ways if "weights" not in name)
    assert all(better("anchored, xi = 5", name, "further") for name in ways if not name.startswith("anchored"))
    assert all(better(name, ml, "worst tenth") for name in ways if name != ml)
    assert better(ml, "anchored, xi = 5", "like")
    assert better("anchored, xi = 5", "anchored, tail = 0.2", "like")
    assert better("anchored, xi = 5", "anchored, tail = 0.2", "further")
    assert better(fifth, "worst regret", "like")
    assert better(fifth, "anchored, xi = 5", "like")
    assert better("worst loss", ml, "odd")
    for name in ways:
        assert better("target: level 3", name, "further")
        assert better(name, "target: level 3", "like")
