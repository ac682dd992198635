"""The map of the code is true, and its rules hold: order of imports, private names, sizes, rooms that a fit visits."""

import ast
import importlib
import runpy
import sys
from types import FrameType

import numpy as np
import pytest
from paths import DOCS, ROOT
from PIL import Image

import anchortm as atm
from anchortm._moved import MOVED

house = runpy.run_path(str(ROOT / "scripts" / "house.py"))
TREES = house["sources"]()


def test_every_module_is_in_a_room() -> None:
    lost = [name for name in TREES if name not in house["OUTSIDE"] and house["room_of"](name) is None]
    assert not lost
    assert set(house["ORDER"]) <= set(TREES)


def test_rooms_import_only_from_above() -> None:
    """Methods that point down the order are listed in DELEGATES of scripts/house.py."""
    assert not house["against_the_order"](TREES)


def test_every_delegate_is_used() -> None:
    rooms = {(house["room_of"](name), other) for name, tree in TREES.items() for other in house["imported"](tree)}
    unused = [pair for pair in house["DELEGATES"] if not any(r == pair[0] and o.startswith(pair[1]) for r, o in rooms)]
    assert not unused


def test_private_names_stay_in_their_package() -> None:
    """Give the name of another package a public name, or a method that does what you need."""
    assert not house["private_uses"](TREES)


def test_modules_functions_and_classes_are_small() -> None:
    """To exceed a limit for a reason, write it above the definition, or anywhere in a long module.

    "# house: complex because ...", "# house: methods because ..." for classes, "# house: long because ..." for modules.
    """
    assert not house["oversized"](TREES, house["texts"]())


def made(**modules: str) -> dict[str, ast.Module]:
    return {name.replace("__", "."): ast.parse(text) for name, text in modules.items()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from anchortm.links.base import _hidden", ["models: _hidden"]),
        ("def f(model):\n    return model._objective", ["models: _objective"]),
        ("def f(model):\n    return getattr(model, '_objective', None)", ["models: _objective"]),
        ("def f(a):\n    return a.b._objective()", ["models: _objective"]),
        ("class A:\n    def _own(self):\n        return self._own\ndef f(a):\n    return a._own()", []),
        ("class A:\n    def f(self):\n        return self._of_a_base_class + super()._of_a_base_class", []),
        ("import sys\nsys._getframe()", []),
        ("def f(pair):\n    return pair._replace(a=1)", []),
        ("from anchortm._util import checks", []),
    ],
)
def test_private_uses_are_found(text: str, found: list[str]) -> None:
    assert house["private_uses"](made(models__base=text, links__base="def _hidden(): ...")) == found


def test_imports_against_the_order_are_found() -> None:
    """Those inside functions too, and names that the package itself offers."""
    text = "def f():\n    from anchortm.models.cox import CoxPH\n    from anchortm import XiSearchCV"
    trees = {"": TREES[""]} | made(inputs__design=text, selection__path=text)
    below = ["inputs.design imports models.cox.CoxPH", "inputs.design imports selection.searches"]
    assert house["against_the_order"](trees) == below


def test_limits_and_their_exceptions() -> None:
    body = "".join(f"    if x == {k} and x: pass\n" for k in range(8))
    function = f"def f(x):\n{body}"
    assert house["complexity"](ast.parse(function).body[0]) == 17
    assert house["complexity"](ast.parse("def f(x):\n    return [a or b for a in x if a]").body[0]) == 4
    reason = "# house: complex because each line is one case of a table\n"
    methods = "class A:\n" + "".join(f"    def f{k}(self): ...\n" for k in range(26))

    def found(text: str) -> list[str]:
        return house["oversized"](made(links=text), {"links": text.splitlines()})

    assert found(function) == ["links: f is complex"]
    assert found(reason + function) == []
    assert found(methods) == ["links: A has many methods"]
    assert found("x = 1\n" * 450) == ["links: long"]
    assert found("# house: long because it is a table\n" + "x = 1\n" * 450) == []


def test_one_fit_visits_few_rooms_and_never_calls_back_down() -> None:
    """A room calls rooms above it; a call to a room below would be a model passed up and asked for its privates."""
    rng = np.random.default_rng(1)
    X, site = rng.normal(size=(200, 2)), rng.integers(0, 5, 200)
    y = X[:, 0] + rng.logistic(size=200)
    atm.ContinuousLogit(xi=1.0).fit(X, y, anchors=site)  # what a first call imports does not count
    order, room_of = house["ORDER"], house["room_of"]
    visited, down = set(), set()

    def name_of(frame: FrameType) -> str:
        return str(frame.f_globals.get("__name__", "")).removeprefix("anchortm.")

    def note(frame: FrameType, event: str, _: object) -> None:
        name = name_of(frame)
        if event != "call" or room_of(name) is None:
            return
        visited.add(name)
        caller = frame.f_back
        while caller is not None and room_of(name_of(caller)) is None:
            caller = caller.f_back
        if caller is not None and order.index(room_of(name_of(caller))) < order.index(room_of(name)):
            down.add(f"{name_of(caller)} calls {frame.f_code.co_name} of {name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        atm.ContinuousLogit(xi=1.0).fit(X, y, anchors=site)
    finally:
        sys.setprofile(before)
    assert not down
    rooms = {room_of(name) for name in visited}
    assert len(rooms) <= house["MOST_ROOMS"], sorted(rooms)
    assert len(visited) <= house["MOST_MODULES"], sorted(visited)


def test_the_page_is_made_from_the_tree() -> None:
    """If this fails, run scripts/house.py."""
    assert (DOCS / "house.md").read_text() == house["page"]()


def test_the_picture_is_made_from_the_tree() -> None:
    """If this fails, run scripts/house.py."""
    digest = runpy.run_path(str(ROOT / "scripts" / "draw_docs.py"))["digest"]
    with Image.open(DOCS / "images" / "house.png") as picture:
        assert picture.info["Source"] == digest(runpy.run_path(str(DOCS / "pictures" / "house.py")))["Source"]


def test_names_for_type_checkers_are_those_at_run_time() -> None:
    shown = {name.rpartition(".")[::2] for name in house["imported"](TREES[""])}
    homes = {("anchortm", name) for name in ("_moved", *atm._MODULES)} | {
        (home, name) for name, home in atm._HOME.items()
    }
    assert {(module or "anchortm", name) for module, name in shown} == homes


@pytest.mark.parametrize("old", MOVED)
def test_old_addresses_warn_and_work(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"anchortm.{old} is now anchortm.{MOVED[old]}"):
        module = importlib.reload(importlib.import_module(f"anchortm.{old}"))
    new = importlib.import_module(f"anchortm.{MOVED[old]}")
    assert all(getattr(module, name) is getattr(new, name) for name in new.__all__)
    assert new.__spec__ is not None
    assert new.__spec__.name == new.__name__


@pytest.mark.bug("other software", "dir() of public modules showed what they import")
@pytest.mark.parametrize("name", ["", *sorted(atm._MODULES), "exceptions", "families"])
def test_dir_of_public_modules_shows_public_names(name: str) -> None:
    """Tab completion offers what a module is for, not np and Any."""
    module = importlib.import_module(f"anchortm.{name}".rstrip("."))
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, shown) for shown in dir(module))
