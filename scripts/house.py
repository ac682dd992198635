"""The map of the code, made from the tree: which rooms there are, what each is for, and who imports whom.

``python scripts/house.py`` writes docs/house.md. The picture is drawn by ``python scripts/draw_docs.py house``.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "anchortm"

# From top to bottom: a room imports only from rooms above it. Those of one floor do one kind of work.
FLOORS = {
    "helpers": ("_typing", "_messages", "exceptions", "_util", "datasets"),
    "what a model is made of": ("links", "families", "bases"),
    "what users give": ("inputs",),
    "the fit": ("engine.rows", "engine", "backends"),
    "what a fit tells": ("plotting", "predict", "scores", "inference"),
    "what users hold": ("models", "competitors"),
    "what users ask": ("selection", "diagnostics"),
    "where data come from": ("simulate",),
    "ways in and out": ("saving", "reproduce", "bench", "cli"),
}
ORDER = [room for rooms in FLOORS.values() for room in rooms]
OUTSIDE = ("", "__main__", "_moved", "sem", "scenarios")  # the package itself: its names, its command, short addresses

HEAD = """# The house

Data walks through the rooms from top to bottom and never back up; a room imports only from rooms above it. This page is
made from the source tree, and tests hold the tree to it.

![The rooms of the house, floor by floor, from what users give to what they ask](images/house.png)

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


def imported(tree: ast.Module) -> set[str]:
    """Return what a module imports from this package, by dotted names that may end in a name inside a module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "anchortm":
            found |= {f"{node.module}.{alias.name}".removeprefix("anchortm.") for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("anchortm.") for a in node.names if a.name.startswith("anchortm.")}
    return found


def job(tree: ast.Module) -> str:
    """Return the first sentence of a module's docstring."""
    first = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
    return first.removesuffix(".")


def page() -> str:
    """Return docs/house.md."""
    trees = sources()
    lines = [HEAD + "| room | its one job | files |", "|---|---|---|"]
    for room in ORDER:
        inside = [name for name in trees if name != room and room_of(name) == room]
        files = ", ".join(f"`{name.removeprefix(room + '.')}`" for name in inside)
        lines.append(f"| `{room}` | {job(trees[room])} | {files} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "house.md").write_text(page())
