"""Show a saved model."""

from __future__ import annotations

import json
from typing import Any

from anchortm.cli.options import add_json, add_output

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ("anchortm show price.json",)


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("model", metavar="MODEL", help="a file written by anchortm fit --save")
    add_output(command, "the coefficients")
    add_json(command, "the record")


def run(options: Any) -> None:
    """Print what is in a saved model."""
    from anchortm._util.pipelines import model_of
    from anchortm.cli.fits import summary_text
    from anchortm.cli.output import check_outputs, report
    from anchortm.cli.saved import columns_needed, load_model, model_alone
    from anchortm.cli.terminal import as_text, paragraph

    check_outputs(options, options.model)
    found = load_model(options.model)
    loaded = model_alone(found)
    model = model_of(loaded)  # in a pipeline, the last step
    with open(options.model, encoding="utf-8") as file:
        written = json.load(file)["written_by"]
    formula = getattr(model, "formula_", None)
    steps = [type(step).__name__ for step in getattr(model, "transformers_", ())]
    no_formula = f"none: it has transformers, {', '.join(steps)}" if steps else "none: it was fitted to arrays"
    summary, needed = model.summary(), _frame(columns_needed(loaded))
    facts = {
        "file": options.model,
        "written by": written,
        "formula": no_formula if formula is None else formula.text,
    }
    sets = found.facts() if found is not loaded else {}
    table = summary.frame().reset_index()

    def text() -> str:
        lines = [paragraph(f"{name:<10}  {value}", hanging=" " * 12) for name, value in (facts | sets).items()]
        lines += ["", summary_text(summary), "", "Columns that new rows need"]
        return "\n".join([*lines, as_text(needed, indent="  ") if len(needed) else "  none"])

    record = {
        "file": options.model,
        "written_by": written,
        "model": type(model).__name__,
        "formula": None if formula is None else formula.text,
        "transformers": steps,
        "n_rows": model.n_rows_,
        "xi": model.xi_,
        "facts": summary.facts,
        "coefficients": table,
        "columns": needed,
        "notes": list(summary.warnings),
        "sets": sets,
    }
    report(options, table, text, record)


def _frame(rows: list[dict[str, str]]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows, columns=["column", "values"])
