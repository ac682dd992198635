"""Pages of the API: examples first, arguments of models in groups, and what a class inherits folded.

Docstrings stay plain numpydoc. What numpydoc has made of them is put into another order here.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes

__all__ = ["GROUPS", "examples_first", "grouped", "setup"]

GROUPS = {  # arguments of the models
    "model": "order support log_first extrapolate link basis dist ties family alpha dispersion residual",
    "penalty": "xi anchor_intercept anchor_names anchor_weights environment_weights tail target proxies xi_scale "
    "l1 l2 penalty_factor smooth",
    "structure": "strata varying scale random place_variance missing",
    "numerics": "tol max_iter n_nodes n_jobs verbose n_restarts random_state start",
}
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}
_ITEM = re.compile(r"^    (?:\*\*|:obj:`)(?P<names>[\w, ]+?)(?:\*\*| <|`)")


def examples_first(lines: list[str]) -> list[str]:
    """Return a docstring with its examples before its fields."""
    fields = next((k for k, line in enumerate(lines) if re.match(r":[A-Z][\w, ]*:$", line)), None)
    start = next((k for k, line in enumerate(lines) if line == ".. rubric:: Examples"), None)
    if fields is None or start is None or start < fields:
        return lines
    end = next((k for k in range(start + 1, len(lines)) if lines[k].startswith((".. ", ":"))), len(lines))
    return [*lines[:fields], *lines[start:end], "", *lines[fields:start], *lines[end:]]


def grouped(lines: list[str]) -> list[str]:
    """Return a docstring with a field for each group of its parameters, if all of them have a group."""
    if ":Parameters:" not in lines:
        return lines
    start = lines.index(":Parameters:")
    end = next((k for k in range(start + 1, len(lines)) if lines[k] and not lines[k].startswith(" ")), len(lines))
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    own: list[str] = []
    for line in lines[start + 1 : end]:
        if item := _ITEM.match(line):
            group = _GROUP_OF.get(item["names"].split(",")[0])
            if group is None:
                return lines
            own = found[group]
        own.append(line)
    fields = [part for group, inside in found.items() if inside for part in (f":Arguments, {group}:", "", *inside, "")]
    return lines[:start] + fields + lines[end:]


def _docstring(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = examples_first(grouped(lines))


class folded(nodes.Element):  # noqa: N801 - nodes have small letters
    """What readers unfold."""


def _visit(self: Any, _node: folded) -> None:
    self.body.append('<details class="more"><summary>details</summary>')


def _depart(self: Any, _node: folded) -> None:
    self.body.append("</details>")


def _fold(_app: Any, doctree: Any, docname: str) -> None:
    """Fold the descriptions of what classes inherit below their first sentences."""
    if not docname.startswith("api/generated/"):
        return
    for outer in list(doctree.findall(addnodes.desc)):
        if outer["objtype"] != "class":
            continue
        signature = next(iter(outer.findall(addnodes.desc_signature)))
        owner: Any = import_module(signature["module"])
        for part in signature["fullname"].split("."):
            owner = getattr(owner, part)
        for inner in outer.findall(addnodes.desc):
            if inner is not outer and _name(inner) not in vars(owner):
                content = inner.children[-1]
                if len(content.children) > 1:
                    rest = folded("", *content.children[1:])
                    content.children[1:] = []
                    content += rest


def _name(description: Any) -> str:
    return str(next(iter(description.findall(addnodes.desc_signature)))["fullname"]).rpartition(".")[2]


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_node(folded, html=(_visit, _depart))
    app.connect("autodoc-process-docstring", _docstring, priority=900)  # after numpydoc
    app.connect("doctree-resolved", _fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
