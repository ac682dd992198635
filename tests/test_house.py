"""The map of the code is true: every module is on it, and imports only from rooms above."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import anchortm as atm

ROOT = Path(__file__).resolve().parents[1]


def test_rooms_import_only_from_above() -> None:
    order = []
    for line in (ROOT / "docs" / "house.md").read_text().splitlines():
        if line.startswith("| `"):
            order += re.findall(r"`(\w+)`", line.split("|")[1])
    package = ROOT / "src" / "anchortm"
    modules = {path.stem: [path] for path in package.glob("*.py") if not path.stem.startswith("__")}
    modules["backends"] = list((package / "backends").glob("*.py"))
    assert sorted(order) == sorted(modules)
    for name, path in [(name, path) for name, paths in modules.items() for path in paths]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "anchortm":
                continue
            names = [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
            for other in set(names) & set(modules) - {name}:
                assert order.index(other) < order.index(name), f"{name} imports {other} from below"


@pytest.mark.bug("other software", "dir() of public modules showed what they import")
@pytest.mark.parametrize("name", ["", *sorted(atm._MODULES), "exceptions"])
def test_dir_of_public_modules_shows_public_names(name: str) -> None:
    """Tab completion offers what a module is for, not np and Any."""
    module = importlib.import_module(f"anchortm.{name}".rstrip("."))
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, shown) for shown in dir(module))
