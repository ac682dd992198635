"""The map of the code, made from the tree, and its rules: order of imports, private names, sizes.

``python scripts/house.py`` writes docs/house.md and draws its picture. ``test_house.py`` checks the rules.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "anchortm"

# From top to bottom: a room imports only from rooms above it. The rooms of a floor do the same kind of work.
FLOORS = {
    "helpers": ("_typing", "_messages", "exceptions", "_util", "kernels", "datasets"),
    "building blocks": ("links", "families", "bases"),
    "input": ("inputs",),
    "fitting": ("engine.rows", "engine", "backends"),
    "results of a fit": ("plotting", "predict", "scores", "inference"),
    "models": ("models",),
    "analyses": ("selection", "diagnostics", "newplace", "federated"),
    "comparison": ("competitors", "simulate"),
    "files, studies, command line": ("saving", "reproduce", "survey", "bench", "cli"),
}
ORDER = [room for rooms in FLOORS.values() for room in rooms]
OUTSIDE = (
    "",
    "__main__",
    "_moved",
    "sem",
    "scenarios",
    "strategies",
)  # the package itself: its names, its command, its addresses

# Methods that point down the order, such as model.save(): they import when called. Nothing else may import downwards.
# (room, module that it imports) -> the methods
DELEGATES: dict[tuple[str, str], str] = {
    ("models", "newplace.spread"): "calibrate_spread",
    ("models", "newplace.recalibration"): "recalibrate",
    ("models", "newplace.place_variance"): "place_variance_",
}

MOST_LINES = 449
MOST_BRANCHES = 15
MOST_METHODS = 25
MOST_ROOMS = 9  # rooms whose functions one fit calls: eight, and the compiled kernels
# modules that one fit visits: four are for the compiled loops and their counterparts; each part of a model has one too,
# because the fit asks it whether it is wanted
MOST_MODULES = 62
REASON = "# house: "  # begins a comment that gives the reason for an exception, "# house: long because ..."

OF_TUPLES = {"_replace", "_asdict", "_fields", "_make"}  # public names of named tuples

HEAD = """# The house

This page is a map of the code. A room is a package or module of `src/anchortm`, and the rooms of a floor do the same
kind of work. Data moves through the rooms from top to bottom. A room imports only from rooms above it, and never uses
private names of another package. A script makes this page and its picture from the source tree, and tests check the
rules.

![The rooms of the house with their jobs and files, floor by floor, from helpers to the command line](images/house.png)

"""


def module_name(path: Path) -> str:
    """Return the dotted name of a source file below the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """Return the room that a module, or a name in it, belongs to: the longest that fits."""
    fitting = [room for room in ORDER if module == room or module.startswith(room + ".")]
    return max(fitting, key=len, default=None)


def sources() -> dict[str, ast.Module]:
    """Return all modules of the package, parsed."""
    return {module_name(path): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def texts() -> dict[str, list[str]]:
    """Return the lines of all modules."""
    return {module_name(path): path.read_text().splitlines() for path in sorted(SOURCE.rglob("*.py"))}


def homes(trees: dict[str, ast.Module]) -> dict[str, str]:
    """Return the modules of the names that ``anchortm`` itself offers, by name."""
    (table,) = (
        ast.literal_eval(node.value)
        for node in trees[""].body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOME"
    )
    return dict(table)


def imported(tree: ast.Module) -> set[str]:
    """Return what a module imports from this package, as dotted names that may end in a name inside a module.

    Imports inside functions count, and so does ``importlib.import_module("anchortm.x")``.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "anchortm":
            found |= {f"{node.module}.{alias.name}".removeprefix("anchortm.") for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("anchortm.") for a in node.names if a.name.startswith("anchortm.")}
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            given = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            found |= {given.removeprefix("anchortm.")} if str(given).startswith("anchortm.") else set()
    return found


def against_the_order(trees: dict[str, ast.Module]) -> list[str]:
    """Return the imports that point down the order, except those of the delegates."""
    home = homes(trees)
    found = []
    for name, tree in trees.items():
        room = room_of(name)
        for other in sorted(imported(tree)):
            other = home.get(other, other)
            below = room and room_of(other) and ORDER.index(room_of(other)) > ORDER.index(room)
            if below and not any(place == room and other.startswith(module) for place, module in DELEGATES):
                found.append(f"{name} imports {other}")
    return sorted(found)


def package_of(module: str) -> str:
    """Return the top folder, or the module itself, in which private names may be shared."""
    return module.split(".")[0]


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines, as functions, classes, variables or attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "object.__setattr__":
            yield ast.literal_eval(node.args[1]) if isinstance(node.args[1], ast.Constant) else ""


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield the attributes that a module uses of other objects, and the names that it imports from other modules."""
    outside = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not _ours(node))
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _ours(node) and node.module != "anchortm":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            root = ast.unparse(node.value)
            if root not in ("self", "cls", "super()") and root.split(".")[0] not in outside:
                yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
            what = node.args[1]
            if isinstance(what, ast.Constant) and ast.unparse(node.args[0]) not in ("self", "cls"):
                yield str(what.value)


def _ours(node: ast.ImportFrom) -> bool:
    return (node.module or "").split(".")[0] == "anchortm"


def private_uses(trees: dict[str, ast.Module]) -> list[str]:
    """Return "package: _name" for private names of other packages."""
    own: dict[str, set[str]] = {}
    for name, tree in trees.items():
        own.setdefault(package_of(name), set()).update(_defined(tree))
    return sorted(
        {
            f"{package_of(name)}: {used}"
            for name, tree in trees.items()
            for used in _used(tree)
            if used.startswith("_") and not used.startswith("__") and used not in OF_TUPLES | own[package_of(name)]
        }
    )


def complexity(function: ast.AST) -> int:
    """Return the complexity of a function: 1, plus 1 for each branch, condition, loop and comprehension."""
    ways = 1
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp | ast.For | ast.While | ast.ExceptHandler | ast.Assert | ast.match_case):
            ways += 1
        if isinstance(node, ast.For | ast.While | ast.Try) and node.orelse:
            ways += 1
        if isinstance(node, ast.BoolOp):
            ways += len(node.values) - 1
        if isinstance(node, ast.comprehension):
            ways += 1 + len(node.ifs)
    return ways


def _excused(lines: list[str], number: int, kind: str) -> bool:
    """Return whether the line of a definition, or the line above it, gives a reason for the exception."""
    return any(f"{REASON}{kind} because " in line for line in lines[max(0, number - 2) : number])


def oversized(trees: dict[str, ast.Module], lines: dict[str, list[str]]) -> list[str]:
    """Return modules, functions and classes that exceed a limit without giving a reason."""
    found = []
    for name, tree in trees.items():
        if len(lines[name]) > MOST_LINES and not any(f"{REASON}long because " in line for line in lines[name]):
            found.append(f"{name}: long")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and complexity(node) > MOST_BRANCHES:
                found += (
                    []
                    if _excused(lines[name], node.lineno, "complex")
                    else [f"{package_of(name)}: {node.name} is complex"]
                )
            if isinstance(node, ast.ClassDef) and sum(isinstance(n, ast.FunctionDef) for n in node.body) > MOST_METHODS:
                found += (
                    []
                    if _excused(lines[name], node.lineno, "methods")
                    else [f"{package_of(name)}: {node.name} has many methods"]
                )
    return sorted(found)


def job(tree: ast.Module) -> str:
    """Return the first sentence of a module's docstring."""
    first = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
    return first.removesuffix(".")


def files_of(room: str, trees: dict[str, ast.Module]) -> list[str]:
    """Return the files and folders of a room, by name."""
    inside = [name.removeprefix(room + ".") for name in trees if name != room and room_of(name) == room]
    return sorted({name.split(".")[0] for name in inside})


def page() -> str:
    """Return docs/house.md."""
    trees = sources()
    lines = [HEAD + "| floor | rooms, with the number of their modules |", "|---|---|"]
    for floor, rooms in FLOORS.items():
        count = {room: sum(room_of(name) == room for name in trees) for room in rooms}
        lines.append(f"| {floor} | {', '.join(f'`{room}` {n}' for room, n in count.items())} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    (ROOT / "docs" / "house.md").write_text(page())
    subprocess.run([sys.executable, str(ROOT / "scripts" / "draw_docs.py"), "house"], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
