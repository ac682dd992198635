"""Run the code of examples/tutorial.ipynb and write what it prints into the notebook. Jupyter is not needed."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tutorial.ipynb"


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells with code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(notebook: dict[str, Any]) -> list[str]:
    """Run the code cells one after another, and return what each prints."""
    names: dict[str, Any] = {}
    found = []
    for cell in code_cells(notebook):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec("".join(cell["source"]), names)  # noqa: S102 - our own notebook
        found.append(out.getvalue())
    return found


def kept(cell: dict[str, Any]) -> str:
    """Return what a cell printed when the notebook was written."""
    return "".join(line for output in cell["outputs"] for line in output.get("text", []))


def main() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    for number, (cell, text) in enumerate(zip(code_cells(notebook), printed(notebook), strict=True), start=1):
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        cell["execution_count"] = number
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
