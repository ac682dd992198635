"""Tables of predictions as Parquet files, written whole or not at all."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchortm._util.files import beside, remove_folder, write_whole
from anchortm.backends.reading import located
from anchortm.backends.sources import Source
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_batches", "write_folder", "write_table"]


def write_table(table: pd.DataFrame, output: str | os.PathLike[str]) -> None:
    """Write a table in memory."""
    _parquet(output)
    write_whole(output, lambda file: table.to_parquet(file, index=False))


def _parquet(output: str | os.PathLike[str]) -> None:
    if Path(output).suffix.lower() != ".parquet":
        raise InputError(f"{os.fspath(output)} should end in .parquet")


def write_folder(lazy: Any, folder: str) -> None:
    """Write one file for each partition to a new folder; a local one whole or not at all."""
    if "://" in folder:
        lazy.to_parquet(folder, write_index=False)
        return
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder} exists already: name a new folder")
    temporary = beside(target)
    try:
        lazy.to_parquet(str(temporary), write_index=False)
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        remove_folder(temporary)


def write_batches(
    source: Source, work: Any, columns: list[str], output: str | os.PathLike[str], asked: dict[str, tuple[str, Any]]
) -> None:
    """Write the predictions batch by batch; columns that are kept have the types of the source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _parquet(output)

    def _known_type(found: Any) -> Any:
        return pa.string() if found == pa.null() else found  # a first batch of bad rows only

    def located_work(frame: Any, start: int) -> pd.DataFrame:
        with located(start):
            result: pd.DataFrame = work(frame)
            return result

    def write(file: Path) -> None:
        writer: Any = None
        try:
            with closing(source.each(located_work, columns, "predictions")) as tables:
                for table in tables:
                    if writer is None:
                        kept = {name: source.arrow_type(name) for name, (kind, _) in asked.items() if kind == "keep"}
                        found = pa.Schema.from_pandas(table, preserve_index=False)
                        types = {field.name: kept.get(field.name, _known_type(field.type)) for field in found}
                        writer = pq.ParquetWriter(file, pa.schema([pa.field(*own) for own in types.items()]))
                    writer.write_table(pa.Table.from_pandas(table, writer.schema, preserve_index=False))
            if writer is None:
                raise InputError("the table has no rows")
        finally:
            if writer is not None:
                writer.close()

    write_whole(output, write)
