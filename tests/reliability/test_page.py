"""docs/reliability.md is written from what the tests count: no bug on it without a test, none without its line."""

from __future__ import annotations

import ast

from paths import DOCS, TESTS


def marked() -> dict[str, str]:
    """Return what each bug was and the test that keeps it away."""
    found = {}
    for file in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.bug":
                    found[ast.literal_eval(mark.args[1])] = f"tests/{file.relative_to(TESTS)}::{node.name}"
    return found


def test_every_bug_that_was_found_is_on_the_page() -> None:
    page = (DOCS / "reliability.md").read_text()
    listed = {line[2:] for line in page.splitlines() if line.startswith("- ") and "(`tests/" in line}
    assert listed == {f"{what} (`{test}`)" for what, test in marked().items()}
