"""The public names of the package with their signatures, recorded so that a change of the contract is a decision.

``python scripts/snapshot_api.py`` writes tests/snapshot/api.json, and ``tests/project/test_snapshot.py`` compares the
package with it. A name is public if it is in ``anchortm.__all__``, in ``__all__`` of a public module, or on a page of
docs/api. Recorded are the parameters of functions and constructors with their defaults, and the methods and properties
of classes; not annotations, and not the attributes of fitted models, whose names end in an underscore.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import anchortm

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "snapshot" / "api.json"
MODULES = ("datasets", "diagnostics", "exceptions", "federated", "links", "plotting", "scenarios", "scores", "sem")


def documented() -> set[str]:
    """Return the names on the pages of docs/api."""
    names = set()
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        module = ""
        for line in page.read_text().splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif found := re.fullmatch(r"   (\w+)", line):
                names.add(f"{module}.{found[1]}")
    return names


def public_names() -> list[str]:
    """Return the addresses of all public names."""
    names = documented() | {f"anchortm.{name}" for name in anchortm.__all__ if name != "__version__"}
    for module in MODULES:
        names |= {f"anchortm.{module}.{name}" for name in importlib.import_module(f"anchortm.{module}").__all__}
    return sorted(names)


def default(value: Any) -> str:
    """Return a default as text that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str, tuple, enum.Enum)):
        return repr(value)
    return getattr(value, "__qualname__", f"<{type(value).__name__}>")


def signature(function: Any) -> str:
    """Return the parameters of a callable as in a call: names, kinds and defaults."""
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return "(...)"
    shown, starred = [], False
    for p in given:
        if p.kind is p.VAR_POSITIONAL:
            starred = True
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        shown.append(stars + p.name + ("" if p.default is p.empty else f"={default(p.default)}"))
        shown += ["/"] if p.kind is p.POSITIONAL_ONLY else []
    return f"({', '.join(shown)})"


def members(cls: type) -> dict[str, str]:
    """Return the methods and properties that a class has from this package, with their parameters."""
    found: dict[str, str] = {}
    fields = set(inspect.signature(cls).parameters) if not issubclass(cls, BaseException) else set()
    for base in reversed([base for base in cls.__mro__ if base.__module__.startswith("anchortm")]):
        for name, value in vars(base).items():
            value = getattr(value, "fn", value)  # a method that only some models have (scikit-learn's available_if)
            ours = not name.startswith("_") and not name.endswith("_") and not re.fullmatch(r"set_\w+_request", name)
            if not ours or name in fields:
                continue
            if isinstance(value, property):
                found[name] = "property"
            elif isinstance(value, (classmethod, staticmethod)):
                found[name] = f"{type(value).__name__}{signature(value.__func__)}"
            elif callable(value):
                found[name] = signature(value)
            else:
                found[name] = "attribute"
    return dict(sorted(found.items()))


def described(address: str) -> Any:
    """Return what is recorded of a name."""
    module, _, name = address.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return {"values": {member.name: member.value for member in value}}
    if inspect.isclass(value) and issubclass(value, BaseException):
        return {"bases": [base.__name__ for base in value.__bases__], "members": members(value)}
    if inspect.isclass(value):
        return {"call": signature(value), "members": members(value)}
    if callable(value):
        return {"call": signature(value)}
    return {"keys": sorted(map(str, value))} if isinstance(value, (dict, tuple, list)) else type(value).__name__


def record() -> dict[str, Any]:
    """Return what is recorded of all public names."""
    return {address: described(address) for address in public_names()}


def main() -> None:
    found = record()
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{FILE}: {len(found)} names")


if __name__ == "__main__":
    main()
