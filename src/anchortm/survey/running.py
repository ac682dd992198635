"""Run the survey: one file of results for each data set, kept, so that an interrupted survey goes on where it was."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from anchortm._util.checks import jobs
from anchortm._util.files import make_folder, write_whole
from anchortm._util.progress import Task, above
from anchortm.exceptions import AnchorTMError, AnchorTMWarning
from anchortm.survey import measuring, preparation
from anchortm.survey.catalogue import DataSet
from anchortm.survey.measuring import Record, measured
from anchortm.survey.preparation import prepared, read

__all__ = ["QUICK", "key", "run", "settings", "stored"]

QUICK = (  # takes a few minutes
    "Radon in homes",
    "Infant mortality",
    "Fuel economy by year",
    "Waiting for a liver",
    "German school types",
    "Decisions on refugees",
    "Interlocking directorates",
)


def settings() -> Record:
    """Return all numbers that the results depend on, beside the data."""
    modules = {"preparation": preparation, "measuring": measuring}
    return {
        f"{name}.{constant}": value
        for name, module in modules.items()
        for constant, value in sorted(vars(module).items())
        if constant.isupper() and isinstance(value, (int, float, tuple))
    }


def key(data: DataSet) -> str:
    """Return a digest of a data set and of all settings: results with another one are not used again."""
    text = json.dumps([data.digest, settings()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stored(folder: Path, data: DataSet) -> Record | None:
    """Return the results of a data set that an earlier run kept; None if there are none, or settings have changed."""
    try:
        found = json.loads(_file(folder, data).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("key") == key(data) else None


def run(
    chosen: Sequence[DataSet],
    folder: Path,
    n_jobs: int | None = None,
    say: Callable[[str], None] = print,
    fresh: bool = False,
) -> list[Record]:
    """Return the results of data sets, in their order; each is written to the folder as soon as it is known."""
    make_folder(folder)
    found = {} if fresh else {one.name: own for one in chosen if (own := stored(folder, one)) is not None}
    todo = [one for one in chosen if one.name not in found]
    if found:
        say(f"{len(found)} of {len(chosen)} data sets were measured before")
    with Task("survey", len(todo)) as task:
        work = Parallel(n_jobs=jobs(n_jobs) or 1, return_as="generator_unordered", batch_size=1)
        for record in work(delayed(_one)(one, folder) for one in todo):
            found[record["name"]] = record
            task.step()
            with above():
                say(f"{len(found):3d} of {len(chosen)}  {record['name']}: {_outline(record)}")
    return [found[one.name] for one in chosen]


def _file(folder: Path, data: DataSet) -> Path:
    name = "".join(c if c.isalnum() else "_" for c in data.name.lower())
    return folder / f"{name}.json"


def _one(data: DataSet, folder: Path) -> Record:
    """Return the results of one data set, and write them; a data set that cannot be measured says why."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)
            record = measured(data, prepared(data, read(data)))
    except AnchorTMError as error:
        record = {"name": data.name, "digest": data.digest, "left_out": str(error)}
    record = {name: _rounded(own) for name, own in (record | {"key": key(data)}).items()}
    text = json.dumps(record, indent=1)
    write_whole(_file(folder, data), lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return record


def _rounded(value: Any) -> Any:
    """Return plain values, with numbers of ten digits, and None for what is not a number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {name: _rounded(own) for name, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(own) for own in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value


def _outline(record: Record) -> str:
    if "left_out" in record:
        return f"left out: {record['left_out']}"
    facts, failed = record["facts"], record["failed"]
    text = f"{facts['places']} {facts['environments']}, {facts['rows']} rows, {record['seconds']:.0f} s"
    return text + "".join(f"; {name} failed: {why}" for name, why in failed.items())
