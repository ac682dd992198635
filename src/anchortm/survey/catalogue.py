"""The data sets of the survey, as ``data_sets.toml`` lists them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any

from anchortm.exceptions import InputError

__all__ = ["KINDS", "DataSet", "catalogue", "named"]

KINDS = ("number", "positive", "time", "ordinal", "binary", "count")


@dataclass(frozen=True)
class DataSet:
    """What is predicted from what, and which column says where rows come from.

    Attributes
    ----------
    name : str
        What it is called on the page.
    table : str
        Where it is: package and item.
    environment, environments : str
        The column that says where rows come from, and what its values are.
    kind : str
        The kind of the outcome.
    outcome : str
        The column of the outcome, or how it follows from columns.
    covariates : sequence of str
    event : mapping
        Of a time: a column, and its values that are events.
    factors : sequence of str
        Columns whose numbers are codes.
    classes : sequence
        The classes of an ordinal or binary outcome, from low to high.
    keep : mapping
        Columns, and the values of rows that take part.
    seen : bool
        Whether the data were looked at while the package was made.
    """

    name: str
    table: str
    environment: str
    environments: str
    kind: str
    outcome: str
    covariates: Sequence[str]
    event: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    factors: Sequence[str] = ()
    classes: Sequence[Any] = ()
    keep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seen: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"{self.name}: kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if bool(self.event) != (self.kind == "time"):
            raise InputError(f"{self.name}: a time, and nothing else, has an event")
        if bool(self.classes) != (self.kind in ("ordinal", "binary")):
            raise InputError(f"{self.name}: ordinal and binary outcomes, and no others, have classes")

    @property
    def digest(self) -> str:
        """Return the digest of everything that is listed."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def catalogue() -> list[DataSet]:
    """Return all data sets of the survey."""
    text = files("anchortm.survey").joinpath("data_sets.toml").read_text(encoding="utf-8")
    return [DataSet(**own) for own in tomllib.loads(text)["data"]]


def named(names: Sequence[str]) -> list[DataSet]:
    """Return the data sets with these names, in the order of the list; all if none is named."""
    known = catalogue()
    unknown = [name for name in names if name not in {one.name for one in known}]
    if unknown:
        raise InputError(f"the survey has no data set {unknown[0]!r}: anchortm survey --list names them")
    return [one for one in known if not names or one.name in names]
