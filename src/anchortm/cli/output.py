"""Write results: files, standard output, JSON, text and figures."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.files import check_target, write_whole
from anchortm.cli.streams import exact
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["apart", "as_json", "check_output", "check_outputs", "new_figure", "report", "tell", "write_table"]

WRITE = (".csv", ".parquet", ".json")
PICTURES = (".png", ".pdf", ".svg")


def check_output(path: str | None, endings: tuple[str, ...] = WRITE) -> None:
    """Refuse, before any work is done, an output that could not be written."""
    if path is None or (path == "-" and endings is WRITE):
        return
    file = Path(path)
    if file.suffix.lower() not in endings:
        raise InputError(f"{path} must end in {', '.join(endings)}")
    folder = check_target(path).parent
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {folder} is read-only")


def apart(*paths: str | None) -> None:
    """Refuse outputs that would overwrite the input or each other."""
    given = [os.path.realpath(path) for path in paths if path not in (None, "-")]
    if len(set(given)) < len(given):
        raise InputError("input and outputs must be different files: rename one of them")


def check_outputs(options: Any, *inputs: str) -> None:
    """Refuse outputs that could not be written, overwrite something, or need what is not installed."""
    saved, plot, page = (getattr(options, name, None) for name in ("save", "plot", "report"))
    check_output(options.output)
    check_output(saved, (".json",))
    check_output(plot, PICTURES)
    check_output(page, (".html",))
    if len({os.path.realpath(path) for path in inputs}) < len(inputs):
        raise InputError(f"{inputs[0]} is given as the model and as the table: name the table after the model")
    apart(*inputs, options.output, saved, plot, page)
    if options.json and options.output == "-":
        raise InputError("--json and --output - both print to standard output: choose one")
    if plot is not None or page is not None:
        new_figure()


def tell(options: Any, text: str) -> None:
    """Print a note to the error stream, apart from the results."""
    if not options.quiet:
        print(text, file=sys.stderr)


def report(
    options: Any, table: pd.DataFrame, text: Callable[[], str], record: Any = None, draw: Any = None, shown: bool = True
) -> None:
    """Write, draw and print a result, in this order, so that files are written even if the reader of a pipe stops.

    Parameters
    ----------
    options
        Say where to: ``output``, ``plot``, ``json`` and ``quiet``.
    table : DataFrame
        The result for files, and for JSON unless there is a record.
    text : callable
        Returns the result for readers.
    record : dict, optional
        The result for scripts.
    draw : callable, optional
        Draws the result on axes.
    shown : bool
        Whether readers want to see a result that is in a file.
    """
    if options.output is not None:
        write_table(table, options.output)
        if options.output != "-":
            tell(options, f"written to {options.output}")
    plot = getattr(options, "plot", None)
    if plot is not None:
        from anchortm._util.files import write_figure

        figure = new_figure()
        draw(figure.subplots())
        write_figure(plot, figure, 150)
        tell(options, f"drawn to {plot}")
    if options.json:
        print(as_json(table if record is None else record))
    elif shown and options.output != "-" and not (options.quiet and _in_a_file(options)):
        print(text())


def _in_a_file(options: Any) -> bool:
    return any(getattr(options, name, None) for name in ("output", "plot", "save", "report"))


def new_figure() -> Any:
    """Return a new figure; refuse if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'anchortm[plot]'") from None
    return Figure(figsize=(7.5, 4.5), layout="constrained")


def write_table(table: pd.DataFrame, path: str) -> None:
    """Write a table as CSV, Parquet or JSON, whole or not at all; - is CSV on standard output."""
    if path == "-":
        table.to_csv(exact(sys.stdout), index=False)
        return

    def write(temporary: Path) -> None:
        match Path(path).suffix.lower():
            case ".csv":
                table.to_csv(temporary, index=False)
            case ".parquet":
                try:
                    table.to_parquet(temporary, index=False)
                except ImportError:
                    raise InputError("Parquet files need pyarrow: pip install 'anchortm[parquet]'") from None
            case _:
                temporary.write_text(as_json(table), encoding="utf-8")

    write_whole(path, write)


def as_json(value: Any) -> str:
    """Return a table (as a list of rows) or a dictionary as strict JSON, with infinities as words."""
    return json.dumps(_plain(value), indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        value = value.to_dict("records")
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)  # such as dates
