"""Look at a table: its columns, its sites, and what a fit would refuse, each with what repairs it."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.frames import in_formulas
from anchortm.cli.cleaning import alike
from anchortm.cli.columns import date_format, is_text, odd_numbers, place, with_dates, without_texts
from anchortm.cli.dialects import CsvFile
from anchortm.cli.terminal import shorten
from anchortm.cli.words import in_shell
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, rows_of
from anchortm.inputs.missing import rows_taken

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Finding", "Inspection", "column_table", "remarks", "site_candidates"]

TINY = 5  # a site with fewer rows says little
MOST_SITES = 500
ROOM = 28  # letters for the values of a column
NAMED = re.compile(
    r"site|centre|center|hospital|klinik|clinic|town|city|country|region|school|lab|batch|year|judge", re.I
)


@dataclass(frozen=True)
class Finding:
    """Something that a fit would refuse, or that is worth knowing.

    Attributes
    ----------
    text : str
        What was found.
    remedy : str
        The option or the edit that repairs it; empty if there is nothing to repair.
    refused : bool
        Whether a fit would be refused.
    """

    text: str
    remedy: str = ""
    refused: bool = True


def column_table(data: pd.DataFrame, source: CsvFile | None) -> pd.DataFrame:
    """Return one row for each column: its type, missing and different values, and what they are."""
    import pandas as pd

    rows = []
    for name in data.columns:
        column = _plain(data[name])
        kind, values = _kind(column, str(name), source)
        rows.append(
            {
                "column": str(name),
                "type": kind,
                "missing": int(column.isna().sum()),
                "distinct": int(column.nunique()),
                "values": values,
            }
        )
    return pd.DataFrame(rows)


def _plain(column: pd.Series) -> pd.Series:
    """Return a column of values that can be compared: lists and tables as text."""
    nested = is_text(column) and column.map(lambda value: isinstance(value, (list, dict, set, np.ndarray))).any()
    return column.astype(str) if nested else column


def _kind(column: pd.Series, name: str, source: CsvFile | None) -> tuple[str, str]:
    """Return the type of a column, and its values in short."""
    present = column.dropna()
    if present.empty:
        return "empty", ""
    form = date_format(column)
    if form is not None:
        return "date", f"such as {present.iloc[0]}"
    odd = odd_numbers(column, name, source)
    if odd is not None:
        return "number?", f"{odd.shown(1)} at {place(source, odd.all_rows, 1)}"
    if is_text(column) or column.dtype.kind not in "iuf":
        return ("yes/no" if column.dtype.kind == "b" else "text"), _levels(present)
    whole = bool((present % 1 == 0).all())
    return "whole number" if whole else "number", f"{present.min():.5g} to {present.max():.5g}"


def _levels(present: pd.Series) -> str:
    """Return the most frequent values, as many as there is room for."""
    shown: list[str] = []
    total = present.nunique()
    counts = present.value_counts(sort=False).sort_values(ascending=False, kind="stable")  # ties as they appear
    for level in counts.index[:ROOM]:
        text = shorten(str(level), ROOM)
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(text) > ROOM:
            break
        shown.append(text)
    return ", ".join(shown) + (", ..." if len(shown) < total else "")


def remarks(data: pd.DataFrame, source: CsvFile | None) -> list[Finding]:
    """Return what is worth knowing about a table, whatever the formula."""
    found = []
    if source is not None:
        if padded := [str(name) for name in data.columns if name in source.padded]:
            found.append(f"read as text, since some of their values begin with 0: {', '.join(padded)}")
        if rows := source.short():
            found.append(f"fewer values than names, so that the last ones are missing: {source.at(rows, 5)}")
    for name in data.columns:
        if is_text(data[name]):
            groups = ("; ".join(map(repr, group)) for group in alike(_plain(data[name])))
            found += [f"values of {name} that differ in upper and lower case only: {group}" for group in groups]
    return [Finding(text, refused=False) for text in found]


def site_candidates(data: pd.DataFrame, source: CsvFile | None) -> list[str]:
    """Return columns that may be sites: text or whole numbers with some values, each in several rows."""
    found = []
    for name in map(str, data.columns):
        column = _plain(data[name]).dropna()
        n, text = column.nunique(), is_text(column)
        whole = not text and column.dtype.kind in "iuf" and bool((column % 1 == 0).all())
        named = NAMED.search(name) is not None
        fits = 3 <= n <= MOST_SITES and len(column) >= TINY * n and (text or (whole and named))
        if fits and odd_numbers(data[name], name, source) is None and date_format(data[name]) is None:
            found.append((not named, -n, name))
    return [name for _, _, name in sorted(found)][:5]


@dataclass
class Inspection:
    """A table, checked as a fit by a formula would check it.

    Attributes
    ----------
    data : DataFrame
        The table.
    source : CsvFile or None
        The file, for line numbers.
    formula : str
        The formula.
    model : estimator or None
        The model, unfitted; None if it is not decided yet.
    drop : bool
        Whether rows with missing values are dropped.
    weights, offset : str or None
        Columns of a fit.
    findings : list of Finding
        What was found, filled by ``look``.
    """

    data: pd.DataFrame
    source: CsvFile | None
    formula: str
    model: Any = None
    drop: bool = False
    factors: frozenset[str] = frozenset()
    weights: str | None = None
    offset: str | None = None
    findings: list[Finding] = field(default_factory=list)
    sites: Any = None

    def look(self) -> None:
        """Find everything that a fit would refuse, in the order in which it is to be repaired."""
        from anchortm.inputs.formula import Formula

        names = [str(name) for name in self.data.columns]
        try:
            formula = Formula.unread(self.formula, names)
            roles = formula.roles(names)
        except AnchorTMError as error:
            self.findings.append(Finding(in_shell(str(error), self.source), "correct --formula"))
            return
        repaired = self._missing(roles, self._dates(roles, self._texts(roles)))
        self.sites = self._sites(formula, roles, repaired)
        if len(repaired):
            self._try(repaired.reset_index(drop=True), repaired.index.to_numpy())

    def _texts(self, roles: dict[str, str]) -> pd.DataFrame:
        """Find texts among numbers, and return the table without them."""
        wanted = [name for name, role in roles.items() if role in ("covariate", "outcome") and name not in self.factors]
        for name in wanted:
            odd = odd_numbers(self.data[name], name, self.source)
            if odd is not None:
                where = place(self.source, odd.all_rows)
                factor = f", or C({in_formulas(name)}) in --formula for a factor" if roles[name] == "covariate" else ""
                text = f"{name} has numbers, but also {odd.shown()} at {where}"
                self.findings.append(Finding(text, f"{odd.remedy(self.source)}{factor}"))
        return without_texts(self.data, wanted, self.source)

    def _dates(self, roles: dict[str, str], data: pd.DataFrame) -> pd.DataFrame:
        """Find dates where numbers are needed, and return the table with days in their place."""
        wanted = [name for name, role in roles.items() if role in ("covariate", "outcome") and name not in self.factors]
        for name in wanted:
            form = date_format(data[name])
            if form is None:
                continue
            option = "" if form != "ambiguous" else " --date-format %d/%m/%Y (or %m/%d/%Y)"
            self.findings.append(Finding(f"{name} has dates, not numbers", f"add --dates {name}{option}"))
            data = with_dates(data, name, "%d/%m/%Y" if form == "ambiguous" else form, self.source)
        return data

    def _missing(self, roles: dict[str, str], data: pd.DataFrame) -> pd.DataFrame:
        """Find missing values, and return the rows without."""
        own = [name for name in (self.weights, self.offset) if name is not None and name in data]
        used = list(dict.fromkeys([*roles, *own]))
        whole = data[used].notna().all(axis=1)
        counts = {name: n for name in used if (n := int(data[name].isna().sum()))}
        if not counts:
            return data
        listed = ", ".join(f"{name} in {n}" for name, n in sorted(counts.items(), key=lambda item: -item[1]))
        left = int(whole.sum())
        text = f"missing values: {listed} of {len(data)} rows"
        if not left:
            self.findings.append(Finding(f"{text}; no row is complete", "leave such columns out of --formula"))
        elif self.drop:
            self.findings.append(Finding(f"{text}; --missing drop leaves {left} rows", refused=False))
        else:
            self.findings.append(Finding(text, f"add --missing drop, which leaves {left} rows, or fill them in"))
        return rows_taken("data", data, len(data), np.flatnonzero(whole))

    def _sites(self, formula: Any, roles: dict[str, str], data: pd.DataFrame) -> Any:
        """Return rows and events of each site; find tiny sites and levels that one site has alone."""
        import pandas as pd

        anchors = [name for name, role in roles.items() if role == "anchor" and data[name].nunique() <= MOST_SITES]
        if not anchors or not len(data):
            return None
        site = data[anchors[0]]
        table = site.value_counts(sort=False).sort_index().rename("rows").rename_axis(anchors[0]).reset_index()
        events = _events(formula, data)
        if events is not None:
            each = pd.Series(np.asarray(events)).groupby(site.to_numpy()).sum()
            table["events"] = table[anchors[0]].map(each).astype(int)
        self._tell_about(table, anchors[0])
        for name, role in roles.items():
            if role == "covariate" and (is_text(data[name]) or name in self.factors):
                self._alone(data, name, anchors[0])
        return table

    def _tell_about(self, table: pd.DataFrame, anchor: str) -> None:
        """Note sites that say little."""
        if len(table) < 2:
            self.findings.append(Finding(f"{anchor} has a single value, so it cannot act as an anchor", refused=False))
        tiny = table[table["rows"] < TINY]
        if len(tiny):
            self.findings.append(Finding(f"sites with fewer than {TINY} rows: {_first(tiny[anchor])}", refused=False))
        if "events" in table and (table["events"] == 0).any():
            names = _first(table[anchor][table["events"] == 0])
            self.findings.append(Finding(f"sites without events: {names}", refused=False))

    def _alone(self, data: pd.DataFrame, name: str, anchor: str) -> None:
        """Note levels that exist at one site only."""
        sites = data.groupby(data[name].astype(str))[anchor].agg(["nunique", "first", "size"])
        for level, row in sites[sites["nunique"] == 1].head(5).iterrows():
            rows = f"{row['size']} row{'s' if row['size'] != 1 else ''}"
            text = f"level {level!r} of {name} exists at {row['first']} only ({rows})"
            self.findings.append(Finding(text, refused=False))

    def _try(self, data: pd.DataFrame, rows: Any) -> None:
        """Fit the repaired table, or read it by the formula if there is no model, and find what is refused."""
        from anchortm.inputs.formula import Formula

        before = any(finding.refused for finding in self.findings)
        try:
            with warnings.catch_warnings(record=True) as caught, rows_of(rows):
                warnings.simplefilter("always", AnchorTMWarning)
                if self.model is None:
                    Formula.counted(self.formula, data, None)
                else:
                    own = {"sample_weight": self.weights, "offset": self.offset}
                    type(self.model).from_formula(self.formula, data, **own, **self.model.get_params(deep=False))
        except AnchorTMError as error:
            first = "after these repairs, " if before else ""
            self.findings.append(Finding(f"{first}{in_shell(str(error), self.source)}"))
            return
        said = dict.fromkeys(in_shell(str(warning.message)) for warning in caught)
        self.findings += [Finding(text, refused=False) for text in said]


def _first(names: pd.Series, most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names.tolist()[:most])) + more


def _events(formula: Any, data: pd.DataFrame) -> Any:
    """Return which rows have events: exact survival times, or ones of an outcome of zeros and ones."""
    from anchortm.inputs.response import Kind, Response

    try:
        outcome = formula.outcome(data)
    except AnchorTMError:
        return None
    if isinstance(outcome, Response):
        return outcome.kind == Kind.EXACT if outcome.scale == "time" else None
    values = np.asarray(outcome)
    if values.dtype.kind in "biuf" and set(np.unique(values).tolist()) == {0, 1}:
        return values.astype(bool)
    return None
