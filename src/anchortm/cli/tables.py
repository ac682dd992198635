"""Read tables: CSV files of any dialect, standard input, and Parquet files."""

from __future__ import annotations

import glob
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from anchortm._util.files import check_regular
from anchortm._util.frames import each_once, read_csv
from anchortm.cli.cleaning import stripped, with_zeros
from anchortm.cli.columns import missing_texts, with_dates, without_missing_texts
from anchortm.cli.dialects import CsvFile, detect
from anchortm.cli.terminal import note
from anchortm.exceptions import AnchorTMError, InputError, first_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["in_batches", "read_table"]

READ = (".csv", ".parquet")
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
MOST_BYTES = 8 * 2**30  # largest table that is read at once
MOST_PIPED = 2**30  # largest table from standard input, which is kept on disk meanwhile
STDIN = "standard input"


def read_table(options: Any, tell: bool = True, refused: list[str] | None = None) -> pd.DataFrame:
    """Return the table that the options name, with its dates as days; ``options.source`` then knows its lines.

    ``tell`` says on the error stream how the file is written, if that was detected and is not the usual way.
    ``refused`` collects messages about texts that are not dates; without it, they are refused.
    """
    options.source = None
    data = _read(options, tell and not options.quiet)
    if data.empty:
        raise InputError(f"{_shown(options.data)} has no rows")
    return with_dates(data, options.dates, options.date_format, options.source, options.quiet, refused)


def _shown(path: str) -> str:
    return STDIN if path == "-" else path


def _read(options: Any, tell: bool) -> pd.DataFrame:
    """Return the table as it is in the file."""
    import pandas as pd

    path = options.data
    file = Path(path)
    if path != "-":
        _check_place(file)
    csv_file = file.suffix.lower() != ".parquet"
    try:
        return _csv(options, tell) if csv_file else _parquet(file, missing_texts(options.missing_values, "."))
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'anchortm[parquet]'") from None
    except AnchorTMError as error:
        raise InputError(f"cannot read {_shown(path)}: {error}") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"cannot read {_shown(path)}: it is empty") from None
    except pd.errors.ParserWarning:
        raise InputError(
            f"cannot read {_shown(path)}: its rows have more values than its first line has names"
        ) from None
    except Exception as error:  # readers raise many kinds of errors on damaged files
        if isinstance(error.__context__, KeyboardInterrupt) or "Calling read(nbytes)" in str(error):
            raise KeyboardInterrupt from None  # pandas turns an interruption into its own error
        reason = first_line(error).removeprefix("Error tokenizing data. C error: ")
        advice = "are all quotes closed? Is --separator right?" if csv_file else "is the file whole?"
        raise InputError(f"cannot read {_shown(path)}: {reason}; {advice}") from None


def _check_place(file: Path) -> None:
    """Refuse what is not a file with a table."""
    if file.suffix.lower() in SHEETS:
        raise InputError(f"{file} is a spreadsheet: save it as CSV, and name that file")
    if file.suffix.lower() == ".json":
        raise InputError(f"{file} is not a table: give the model first, then the table, a {' or '.join(READ)} file")
    if file.suffix.lower() not in READ:
        raise InputError(
            f"{file} must be a {' or '.join(READ)} file: rename a text table to .csv, or give - and pipe it, < {file}"
        )
    if file.is_dir():
        raise InputError(
            f"{file} is a folder: name a file; only fit and predict read folders of Parquet files, in batches"
        )
    if not file.exists():
        raise InputError(f"there is no file {file}")
    check_regular(file)


def _csv(options: Any, tell: bool) -> pd.DataFrame:
    """Return the table of a CSV file, after checks: text, unique names, and a name for each value."""
    import pandas as pd

    source = options.source = _source(options.data)
    given = {name: getattr(options, name) for name in ("separator", "decimal", "encoding")}
    detected = detect(source, MOST_BYTES, _too_large(MOST_BYTES), given)
    dialect = source.dialect
    how: dict[str, Any] = {"sep": dialect.separator, "encoding": dialect.encoding, "skiprows": dialect.skip}
    with source.opened() as handle:
        first = pd.read_csv(handle, header=None, nrows=1, dtype=str, keep_default_na=False, index_col=False, **how)
    names = [name for name in first.iloc[0] if name]
    each_once(names)
    read = {"decimal": dialect.decimal, "na_values": missing_texts(options.missing_values, dialect.decimal)}
    with warnings.catch_warnings(), source.opened() as handle:
        warnings.simplefilter("error", pd.errors.ParserWarning)
        data = read_csv(handle, **how, **read)
    data = with_zeros(stripped(data, **read), source, **how)
    if detected and tell:
        note(f"{source.name} is read as: {dialect.described()}")
    return data


def _source(path: str) -> CsvFile:
    """Return the file, or standard input, kept on disk where it is large."""
    if path != "-":
        return CsvFile(path)
    spooled: Any = tempfile.SpooledTemporaryFile(2**24)  # noqa: SIM115 - closed with the command
    try:
        _spool(spooled)
    except BaseException:
        spooled.close()
        raise
    return CsvFile(STDIN, spooled)


def _spool(file: BinaryIO) -> None:
    """Copy standard input to a file; refuse more than a bounded number of bytes."""
    stream: Any = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise InputError("there is no standard input: name a file")
    size = 0
    while part := stream.read1(2**20):
        size += len(part)
        if size > MOST_PIPED:
            raise InputError(_too_large(MOST_PIPED))
        if size == len(part) and b"\0" in part and not part.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError("it contains NUL bytes, so it is not text; pipe plain CSV")
        file.write(part)


def _parquet(file: Path, missing: list[str]) -> pd.DataFrame:
    import pandas as pd
    import pyarrow.parquet as pq

    about = pq.read_metadata(file)
    if 8 * about.num_rows * about.num_columns > MOST_BYTES:
        raise InputError(_too_large(MOST_BYTES))
    each_once(about.schema.to_arrow_schema().names)
    data = pd.read_parquet(file)
    return without_missing_texts(data, missing) if missing else data


def _too_large(most: int) -> str:
    """Return the message on a table that is too large for memory; some files never end."""
    return (
        f"it has more than {most / 2**30:g} GiB, too much to read at once: save it as Parquet and read it in "
        "batches, with fit --batches or with predict from .parquet to .parquet"
    )


def in_batches(path: str) -> bool:
    """Return whether a path stands for many files: a folder or a pattern."""
    return Path(path).is_dir() or glob.has_magic(path)
