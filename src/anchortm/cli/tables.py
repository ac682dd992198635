"""Read and write tables: CSV, Parquet and JSON files, and text for the terminal."""

from __future__ import annotations

import glob
import json
import math
import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.files import check_regular, check_target, write_whole
from anchortm._util.frames import each_once, read_csv
from anchortm.exceptions import AnchorTMError, InputError, first_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_json", "as_text", "check_output", "in_batches", "read_table", "write_table"]

READ = (".csv", ".parquet")
WRITE = (".csv", ".parquet", ".json")
MOST_BYTES = 8 * 2**30  # largest table that is read at once


def read_table(path: str) -> pd.DataFrame:
    """Return the table of a CSV or Parquet file."""
    import pandas as pd

    file = Path(path)
    if file.suffix.lower() not in READ:
        raise InputError(f"{path} must be a {' or '.join(READ)} file")
    if file.is_dir():
        raise InputError(
            f"{path} is a folder: name a file; only fit and predict read folders of Parquet files, in batches"
        )
    if not file.exists():
        raise InputError(f"there is no file {path}")
    check_regular(file)
    try:
        data = _parquet(file) if file.suffix.lower() == ".parquet" else _csv(file)
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'anchortm[parquet]'") from None
    except AnchorTMError as error:
        raise InputError(f"cannot read {path}: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read {path}: it is not UTF-8 text; save it as plain CSV in UTF-8") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"cannot read {path}: it is empty") from None
    except pd.errors.ParserWarning:
        raise InputError(f"cannot read {path}: its rows have more values than its first line has names") from None
    except Exception as error:  # readers raise many kinds of errors on damaged files
        if isinstance(error.__context__, KeyboardInterrupt) or "Calling read(nbytes)" in str(error):
            raise KeyboardInterrupt from None  # pandas turns an interruption into its own error
        reason = first_line(error).removeprefix("Error tokenizing data. C error: ")
        advice = "are all quotes closed?" if file.suffix.lower() == ".csv" else "is the file whole?"
        raise InputError(f"cannot read {path}: {reason}; {advice}") from None
    if data.empty:
        raise InputError(f"{path} has no rows")
    return data


def _csv(file: Path) -> pd.DataFrame:
    """Return the table of a CSV file, after checks: no NUL bytes, unique names, and a name for each value."""
    import pandas as pd

    size = 0
    with file.open("rb") as handle:
        while part := handle.read(2**20):
            size += len(part)
            _check_size(size)
            if b"\0" in part:
                raise InputError("it contains NUL bytes, so it is not text; save it as plain CSV in UTF-8")
    first = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, index_col=False)
    names = [name for name in first.iloc[0] if name]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise InputError(f"it has one column, {names[0][:80]!r}: its values must be separated by commas")
    each_once(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return read_csv(file)


def _parquet(file: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow.parquet as pq

    about = pq.read_metadata(file)
    _check_size(8 * about.num_rows * about.num_columns)
    each_once(about.schema.to_arrow_schema().names)
    return pd.read_parquet(file)


def _check_size(size: int) -> None:
    """Refuse a table that is too large for memory; some files never end."""
    if size > MOST_BYTES:
        raise InputError(
            f"it has more than {MOST_BYTES / 2**30:g} GiB, too much to read at once: save it as Parquet and read it in "
            "batches, with fit --batches or with predict from .parquet to .parquet"
        )


def in_batches(path: str) -> bool:
    """Return whether a path stands for many files: a folder or a pattern."""
    return Path(path).is_dir() or glob.has_magic(path)


def check_output(path: str | None, endings: tuple[str, ...] = WRITE) -> None:
    """Refuse, before any work is done, an output that could not be written."""
    if path is None:
        return
    file = Path(path)
    if file.suffix.lower() not in endings:
        raise InputError(f"{path} must end in {', '.join(endings)}")
    folder = check_target(path).parent
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {folder} is read-only")


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
    """Return a table (as a list of rows) or a dictionary as strict JSON, with infinities as words."""
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
    return str(value)  # such as dates


def as_text(table: pd.DataFrame, rows: int = 20) -> str:
    """Return a table that fits the terminal: columns wrapped to its width, many rows cut short."""
    width = shutil.get_terminal_size((120, 24)).columns
    shown = table if len(table) <= rows else table.head(rows)
    text = shown.to_string(index=False, float_format=lambda v: f"{v:.5g}", line_width=width)
    return text if len(table) <= rows else f"{text}\n... {len(table)} rows in all"
