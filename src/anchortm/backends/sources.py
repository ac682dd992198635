"""Tables too large for memory, read in batches of rows: Parquet files, pyarrow datasets, polars lazy frames."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from anchortm._typing import AnyTable
from anchortm._util.files import check_regular
from anchortm._util.frames import known, select
from anchortm._util.progress import Task
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError, first_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BATCH_ROWS", "Source", "open_source"]

T = TypeVar("T")
Read = Callable[["pd.DataFrame", int], T]  # rows of a batch, and the position of the first

BATCH_ROWS = 131_072
READ_AHEAD = 2  # batches


class Source(ABC):
    """A table whose rows are read as often as they are needed.

    The rest of the package needs only ``map``: it calls a function on each batch of rows and joins the results in
    order. ``passes`` counts how often the table was read.
    """

    batched: ClassVar[bool] = True
    names: list[str]
    passes: int = 0
    n_jobs: int = 1

    @cached_property
    @abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _frames(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield these columns of the rows in order, a batch at a time."""

    def map(self, read: Read[T], join: Callable[[T, T], T], columns: Sequence[str], label: str) -> T:
        """Return the joined results of ``read`` for all batches."""
        joined: list[T] = []
        with closing(self.each(read, columns, label)) as parts:
            for part in parts:
                joined = [join(joined[0], part) if joined else part]
        if not joined:
            raise InputError("the table has no rows")
        return joined[0]

    def each(self, read: Read[T], columns: Sequence[str], label: str) -> Generator[T]:
        """Yield the result of ``read`` for each batch, in order, and show progress; close it if you leave early."""
        self.passes += 1
        try:
            with Task(f"pass {self.passes}, rows", self.n_rows, detail=label) as task:
                for size, part in self._results(read, columns):
                    yield part
                    task.step(size)
        except Exception:
            self._check_unchanged()  # a change of the file may be the cause
            raise
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        file = self.changed()
        if file is not None:
            raise InputError(
                f"{file} changed while it was being read in batches (its size or time of modification); fit again, "
                "and do not change the data meanwhile"
            )

    def arrow_type(self, name: str) -> Any:
        """Return the type that a column has in a Parquet file."""
        raise NotImplementedError

    def is_integer(self, name: str) -> bool | None:
        """Return whether a column is of integers, with gaps or without; None for floats, which may stand for them."""
        return None

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a file is one of those that are read, or would be next time."""
        return False

    def changed(self) -> str | None:
        """Return a file that was replaced since the table was opened, None if there is none."""
        return None

    def check(self, columns: Sequence[str]) -> None:
        """Refuse columns that the table does not have."""
        known(columns, self.names)

    def _results(self, read: Read[T], columns: Sequence[str]) -> Iterator[tuple[int, T]]:
        """Yield the number of rows and the result of each batch, in order; ``n_jobs`` batches at once."""
        batches = self._batches(columns)
        if self.n_jobs <= 1:
            for frame, start in batches:
                yield len(frame), read(frame, start)
            return
        with ThreadPoolExecutor(self.n_jobs) as pool:
            waiting: deque[tuple[int, Future[T]]] = deque()
            for frame, start in batches:
                waiting.append((len(frame), pool.submit(read, frame, start)))
                if len(waiting) > self.n_jobs:
                    size, future = waiting.popleft()
                    yield size, future.result()
            for size, future in waiting:
                yield size, future.result()

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[pd.DataFrame, int]]:
        start = 0
        for table in self._frames(columns):
            frame = select(table, columns)
            if len(frame):
                yield frame, start
            start += len(frame)
        if start != self.n_rows:
            raise InputError(
                f"the table changed while it was being read: it had {self.n_rows} rows and now has {start}; fit again, "
                "and do not change the data meanwhile"
            )


class ParquetSource(Source):
    """A pyarrow dataset: Parquet files on this machine or elsewhere."""

    def __init__(self, dataset: Any, place: str | None = None) -> None:
        self._dataset, self._place = dataset, place
        self._stamps = {file: _stamp(file) for file in _local_files(dataset)}
        # the index of a pandas frame is not a column of the table
        self.names = [name for name in map(str, dataset.schema.names) if not re.fullmatch(r"__index_level_\d+__", name)]

    @cached_property
    def n_rows(self) -> int:
        with _readable():
            return int(self._dataset.count_rows())

    def changed(self) -> str | None:
        return next((file for file, stamp in self._stamps.items() if _stamp(file) != stamp), None)

    def _frames(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        held: list[Any] = []
        size = 0
        with _readable():
            batches = self._dataset.to_batches(
                columns=list(columns), batch_size=BATCH_ROWS, batch_readahead=READ_AHEAD, fragment_readahead=1
            )
            for batch in itertools.chain(batches, [None]):
                # small row groups are joined
                if held and (batch is None or size + batch.num_rows > BATCH_ROWS):
                    yield pa.Table.from_batches(held).to_pandas(split_blocks=True, ignore_metadata=True)
                    held, size = [], 0
                if batch is not None and batch.num_rows:
                    held.append(batch)
                    size += batch.num_rows

    def arrow_type(self, name: str) -> Any:
        return _plain_type(self._dataset.schema.field(name).type)

    def is_integer(self, name: str) -> bool | None:
        import pyarrow as pa

        kind = self._dataset.schema.field(name).type
        return None if pa.types.is_floating(kind) else bool(pa.types.is_integer(kind))

    def holds(self, path: str | os.PathLike[str]) -> bool:
        target = os.path.realpath(path)
        if target in map(os.path.realpath, getattr(self._dataset, "files", [])):
            return True
        if self._place is None:
            return False
        place = os.path.realpath(self._place)
        return _matches(target, place) or os.path.commonpath([target, place]) == place


def _local_files(dataset: Any) -> list[str]:
    """Return the files of a dataset that are on this machine."""
    local = getattr(getattr(dataset, "filesystem", None), "type_name", None) == "local"
    return list(dataset.files) if local else []


def _stamp(file: str) -> tuple[int, int] | None:
    """Return the size and the time of modification of a file, None if there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _matches(path: str, pattern: str) -> bool:
    """Return whether a file matches a pattern, where * stays within a folder and ** does not."""
    if "**" in pattern:
        return fnmatch.fnmatch(path, pattern)
    parts, wanted = Path(path).parts, Path(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatch, parts, wanted))


class PolarsSource(Source):
    """A polars LazyFrame, run in streaming mode once for each pass."""

    def __init__(self, lazy: Any) -> None:
        import polars as pl

        if tuple(map(int, pl.__version__.split(".")[:2])) < (1, 25):
            raise InputError(f"lazy tables need polars 1.25 or newer, this is {pl.__version__}: call collect()")
        with _readable():
            schema = lazy.collect_schema()
        # categories without an order are read as text, whose order does not depend on the rows
        words = [name for name, kind in schema.items() if kind == pl.Categorical]
        self._lazy = lazy.with_columns(pl.col(words).cast(pl.String)) if words else lazy
        self.names = [str(name) for name in schema.names()]
        self._types = dict(schema)

    @cached_property
    def n_rows(self) -> int:
        import polars as pl

        with _readable():
            return int(self._lazy.select(pl.len()).collect(engine="streaming").item())

    def _frames(self, columns: Sequence[str]) -> Iterator[Any]:
        chosen = self._lazy.select(list(columns))
        with _readable():
            if hasattr(chosen, "collect_batches"):
                yield from chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
                return
            for start in range(0, self.n_rows, BATCH_ROWS):  # older versions run the query for each slice
                yield chosen.slice(start, BATCH_ROWS).collect()

    def is_integer(self, name: str) -> bool | None:
        kind = self._types[name]
        return None if kind.is_float() else bool(kind.is_integer())

    def arrow_type(self, name: str) -> Any:
        return _plain_type(self._lazy.select(name).limit(0).collect().to_arrow().schema.field(name).type)


@contextmanager
def _readable() -> Iterator[None]:
    """Turn errors of readers into an ``InputError``."""
    try:
        yield
    except AnchorTMError:
        raise
    except (OSError, ValueError, NotImplementedError, KeyError) as error:  # pyarrow's are among them
        raise InputError(f"cannot read the table: {first_line(error)}") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("polars", "pyarrow"):
            raise
        raise InputError(f"cannot read the table: {first_line(error)}") from error


def _plain_type(kind: Any) -> Any:
    """Return the type of a column's values: the dictionaries of batches may differ."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def open_source(data: AnyTable, n_jobs: int = 1) -> Source:
    """Return the source of Parquet files (a path or glob), a pyarrow dataset, a LazyFrame or a Dask DataFrame."""
    module = type(data).__module__.split(".")[0]
    if isinstance(data, Source):
        source: Source = data
    elif isinstance(data, (str, os.PathLike)):
        source = ParquetSource(_dataset(os.fspath(data)), os.fspath(data))
    elif module == "pyarrow":
        source = ParquetSource(data)
    elif module == "polars":
        source = PolarsSource(data)
    elif module.startswith("dask"):
        from anchortm.backends.dask import DaskSource

        source = DaskSource(data)
    else:
        raise InputTypeError(f"data must be a table, Parquet files or a lazy table, not {type(data)}")
    source.n_jobs = n_jobs
    return source


def _dataset(path: str) -> Any:
    """Return the dataset of a file, a folder or a pattern of files; types that differ from file to file are widened."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'anchortm[parquet]'") from None
    files, base = _files(path)
    try:
        options = {"format": "parquet", "partitioning": "hive", "partition_base_dir": base}
        found = ds.dataset(files, **options)
        schemas = [found.schema, *(fragment.physical_schema for fragment in found.get_fragments())]
        return found.replace_schema(pa.unify_schemas(schemas, promote_options="permissive"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"cannot read {path} as Parquet: {first_line(error)}") from None


def _files(path: str) -> tuple[list[str], str]:
    """Return the files of a path, a folder or a pattern, and the folder below which names may hold partitions."""
    if Path(path).is_dir():
        files, base = sorted(str(file) for file in Path(path).rglob("*.parquet") if not file.is_dir()), path
        if not files:
            raise InputError(f"there are no Parquet files (*.parquet) in {path}")
    elif Path(path).exists():
        files, base = [path], str(Path(path).parent)
    elif glob.has_magic(path):
        files = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
        fixed = itertools.takewhile(lambda part: not glob.has_magic(part), Path(path).parts)
        base = str(Path(*fixed))
        if not files:
            raise InputError(f"no file matches {path}")
    else:
        raise InputError(f"there is no file or folder {path}")
    for name in files:
        check_regular(name)
    wrong = next((name for name in files if name.lower().endswith(".csv")), None)
    if wrong is not None:
        raise InputError(f"{wrong} is a CSV file: turn it into Parquet to read it in batches, or read it as a table")
    return files, base
