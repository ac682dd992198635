"""Pages of the API: every argument of a model has a group, and examples come first."""

from __future__ import annotations

import inspect
import runpy

import pytest
from paths import ROOT

import anchortm as atm
from anchortm.models.base import TransformationModel

pytest.importorskip("sphinx", reason="the site needs the extra docs")
pages = runpy.run_path(str(ROOT / "docs" / "extensions" / "model_pages.py"))
MODELS = [
    name
    for name in sorted(atm._HOME)
    if inspect.isclass(getattr(atm, name)) and issubclass(getattr(atm, name), TransformationModel)
]


@pytest.mark.parametrize("name", MODELS)
def test_every_argument_of_a_model_has_a_group(name: str) -> None:
    docscrape = pytest.importorskip("numpydoc.docscrape_sphinx", reason="the site needs the extra docs")
    if name in ("AnchorBoostedTM", "WorstEnvironment"):
        pytest.skip("has arguments of its own")
    model = getattr(atm, name)
    lines = str(docscrape.SphinxClassDoc(model, config={"show_class_members": False})).splitlines()
    made = pages["examples_first"](pages["grouped"](lines))
    assert ":Parameters:" not in made
    fields = [line for line in made if line.startswith((":", ".. rubric"))]
    assert fields[0] == ".. rubric:: Examples"
    assert [line for line in fields if line.startswith(":Arguments")][-3:] == [
        f":Arguments, {group}:" for group in ("penalty", "structure", "numerics")
    ]
    assert sorted(line for line in made if line.strip()) == sorted(
        [line for line in lines if line.strip() and line != ":Parameters:"]
        + [line for line in made if line.startswith(":Arguments")]
    )


def test_docstrings_without_groups_stay() -> None:
    lines = [
        "Text.",
        "",
        ":Parameters:",
        "",
        "    **other** : int",
        "        Words.",
        "",
        ".. rubric:: Examples",
        "",
        ">>> 1",
    ]
    assert pages["grouped"](lines) == lines
    assert pages["examples_first"](lines)[2] == ".. rubric:: Examples"
    assert pages["examples_first"](["Text.", "", ".. rubric:: Examples"]) == ["Text.", "", ".. rubric:: Examples"]
