"""The map of the code is true: every module is on it, and imports only from rooms above."""

import importlib
import runpy

import pytest
from paths import DOCS, ROOT

import anchortm as atm
from anchortm._moved import MOVED

house = runpy.run_path(str(ROOT / "scripts" / "house.py"))
TREES = house["sources"]()


def test_every_module_is_in_a_room() -> None:
    lost = [name for name in TREES if name not in house["OUTSIDE"] and house["room_of"](name) is None]
    assert not lost
    assert set(house["ORDER"]) <= set(TREES)


def test_rooms_import_only_from_above() -> None:
    order, room_of = house["ORDER"], house["room_of"]
    against = [
        f"{name} imports {other}"
        for name, tree in TREES.items()
        for other in sorted(house["imported"](tree))
        if room_of(name) and room_of(other) and order.index(room_of(other)) > order.index(room_of(name))
    ]
    assert not against


def test_the_page_is_made_from_the_tree() -> None:
    """If this fails, run scripts/house.py, and scripts/draw_docs.py house for the picture."""
    assert (DOCS / "house.md").read_text() == house["page"]()


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
@pytest.mark.parametrize("name", ["", *sorted(atm._MODULES), "exceptions"])
def test_dir_of_public_modules_shows_public_names(name: str) -> None:
    """Tab completion offers what a module is for, not np and Any."""
    module = importlib.import_module(f"anchortm.{name}".rstrip("."))
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, shown) for shown in dir(module))
