"""The metadata state a lowest version of all that is depended on and no highest; make test-lowest installs these."""

import re
import runpy

from paths import ROOT


def test_lower_bounds_only_and_make_reads_them() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "lowest.py"))
    stated = script["requirements"]()
    bounds = [re.fullmatch(r"([a-z-]+)(\[[a-z]+\])?>=([\d.]+)", text) for text in stated]
    assert all(bounds), stated
    assert len({bound[1] for bound in bounds}) == len(bounds), "one name with two bounds"
    assert script["lowest"]() == [f"{bound[1]}=={bound[3]}" for bound in bounds]
    recipe = (ROOT / "Makefile").read_text().split(".venv-lowest/test.stamp: pyproject.toml scripts/lowest.py\n")[1]
    assert "scripts/lowest.py >.venv-lowest/constraints.txt" in recipe
    assert "--constraint .venv-lowest/constraints.txt" in recipe
