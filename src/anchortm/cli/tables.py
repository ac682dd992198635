"""Tables in and out: CSV and Parquet files, JSON and text for people."""

from __future__ import annotations

import glob
import json
import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm.exceptions import InputError
from anchortm.files import write_whole
from anchortm.frames import read_csv

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_json", "as_text", "check_output", "in_batches", "read_table", "write_table"]

READ = (".csv", ".parquet")
WRITE = (".csv", ".parquet", ".json")


def read_table(path: str) -> pd.DataFrame:
    """Return the table of a CSV or Parquet file."""
    import pandas as pd

    file = Path(path)
    if file.suffix.lower() not in READ:
        raise InputError(f"{path} should be a {' or '.join(READ)} file")
    if not file.is_file():
        raise InputError(f"there is no file {path}")
    try:
        data = pd.read_parquet(file) if file.suffix.lower() == ".parquet" else read_csv(file)
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'anchortm[parquet]'") from None
    except (OSError, ValueError, UnicodeDecodeError) as error:
        if isinstance(error.__context__, KeyboardInterrupt) or "Calling read(nbytes)" in str(error):
            raise KeyboardInterrupt from None  # pandas turns an interruption into an error of its own
        raise InputError(f"cannot read {path}: {error}") from None
    if data.empty:
        raise InputError(f"{path} has no rows")
    if data.shape[1] == 1 and any(mark in str(data.columns[0]) for mark in ";\t"):
        raise InputError(f"{path} has one column, {data.columns[0]!r}: its values should be separated by commas")
    return data


def in_batches(path: str) -> bool:
    """Return whether a path stands for many files: a folder or a pattern."""
    return Path(path).is_dir() or glob.has_magic(path)


def check_output(path: str | None, endings: tuple[str, ...] = WRITE) -> None:
    """Refuse an output before any work is done that could not be written after it."""
    if path is None:
        return
    file = Path(path)
    if file.suffix.lower() not in endings:
        raise InputError(f"{path} should end in {', '.join(endings)}")
    if not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent} to write {file.name} to")
    if not os.access(file.parent, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {file.parent} is read-only")


def write_table(table: pd.DataFrame, path: str) -> None:
    """Write a table as CSV, Parquet or JSON, whole or not at all."""

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
    """Return a table (as a list of rows) or a dictionary as strict JSON, infinities as words."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        value = value.to_dict("records")
    return json.dumps(_plain(value), indent=1, allow_nan=False)


def _plain(value: Any) -> Any:
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
    return str(value)  # dates and the like


def as_text(table: pd.DataFrame, rows: int = 20) -> str:
    """Return a table that fits the terminal: columns wrapped to its width, many rows cut short."""
    width = shutil.get_terminal_size((120, 24)).columns
    shown = table if len(table) <= rows else table.head(rows)
    text = shown.to_string(index=False, float_format=lambda v: f"{v:.5g}", line_width=width)
    return text if len(table) <= rows else f"{text}\n... {len(table)} rows in all"
