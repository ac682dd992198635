"""What commands on a new place share: its rows, read as those of the table, and strategies by their names."""

from __future__ import annotations

import os
from copy import copy
from typing import Any

import numpy as np

from anchortm.cli.cleaning import as_numbers
from anchortm.cli.columns import is_text, place, refuse_texts
from anchortm.cli.fits import factors, with_numbers
from anchortm.cli.output import tell
from anchortm.cli.tables import read_table
from anchortm.exceptions import AnchorTMError, InputError
from anchortm.inputs.judgement import DROP_LEVELS

__all__ = ["inputs", "new_rows", "strategies"]

MOST_LEVELS = 20  # levels that a message lists


def inputs(options: Any, *others: str | None) -> list[str]:
    """Return the files that are read; refuse rows of the new place that are the table itself."""
    given = [file for file in (options.new, *others) if file is not None]
    if any(os.path.realpath(options.data) == os.path.realpath(file) for file in given):
        raise InputError("--new is the table itself: it should have rows of a new place, without outcomes")
    return [options.data, *dict.fromkeys(given)]


def strategies(options: Any) -> list[Any]:
    """Return the strategies; those that choose xi choose from the values of --xi."""
    from anchortm.newplace.strategies import DEFAULT, Anchored

    names = DEFAULT if options.strategies is None else [name.strip() for name in options.strategies.split(",")]
    chosen = {"anchored": Anchored(choose=options.xi), "anchored+spread": Anchored(choose=options.xi, spread=True)}
    return [chosen.get(name, name) for name in names]


def new_rows(options: Any, file: str | None, table: Any, *, outcomes: bool = False) -> Any:
    """Return rows of the new place, read as those of the table; None if there is no such file.

    Parameters
    ----------
    options
        The options of the command.
    file : str or None
        The file of the rows.
    table : DataFrame
        The table of the fit.
    outcomes : bool
        Whether the outcome is needed too.
    """
    from anchortm.inputs.formula import Formula

    if file is None:
        return None
    names = [str(name) for name in table.columns]
    roles = Formula.unread(options.formula, names).roles(names)
    kinds = ("covariate", "stratum", *(("outcome",) if outcomes else ()))
    needed = [name for name, role in roles.items() if role in kinds]
    data, source = _read(options, file, table, needed, roles, outcomes)
    _refuse_new_levels(options, file, data, table, [x for x in needed if roles[x] == "covariate"], source)
    whole = data[needed].notna().all(axis=1)
    if whole.all():
        return data
    if options.missing != "drop":
        gone = ", ".join(repr(name) for name in needed if data[name].isna().any())
        where = place(source, [row for row, known in enumerate(whole) if not known])
        raise InputError(f"{file}: {gone} has missing values at {where}; add --missing drop, or fill them in")
    if not whole.any():
        raise InputError(f"{file}: each row has a missing value in a column that the formula needs")
    tell(options, f"{int((~whole).sum())} of {len(data)} rows of {file} with missing values are left out")
    return data[whole]


def _refuse_new_levels(options: Any, file: str, data: Any, table: Any, names: list[str], source: Any) -> None:
    """Refuse levels of factors among these covariates that the table of the fit does not have."""
    from anchortm.inputs.formula.column_kinds import level_key

    known_factors = factors(options, table)
    for name in (name for name in names if name in known_factors or is_text(table[name])):
        known = {level_key(value) for value in table[name].dropna().unique()}
        new = data[name].map(level_key, na_action="ignore")
        odd = new.notna() & ~new.isin(known)
        if odd.any():
            levels, seen = (", ".join(sorted(found)[:MOST_LEVELS]) for found in (set(new[odd]), known))
            raise InputError(
                f"{file}: covariate {name!r} has levels that the table does not have: {levels} at "
                f"{place(source, np.flatnonzero(odd).tolist())}; known: {seen}; {DROP_LEVELS}"
            )


def _read(
    options: Any, file: str, table: Any, needed: list[str], roles: dict[str, str], outcomes: bool
) -> tuple[Any, Any]:
    """Return the rows of the new place and their file; refuse texts and dates where the table has numbers."""
    own = copy(options)
    dates = [part for part in (options.dates or "").split(",") if part.partition("=")[0].strip() in needed]
    own.data, own.dates = file, ",".join(dates) or None
    data = read_table(own)
    absent = [name for name in needed if name not in data]
    if absent:
        raise InputError(f"{file} has no column {', '.join(map(repr, absent))}, which the formula needs")
    numbers = dict.fromkeys([name for name in needed if not is_text(table[name])], "covariate")
    try:
        data = with_numbers(own, data) if outcomes else data
        data = as_numbers(data, numbers, own.source)
        refuse_texts(data, numbers, factors(options, table), own.source, needed=True)
    except AnchorTMError as error:
        raise InputError(f"{file}: {error}") from None
    return data, own.source
