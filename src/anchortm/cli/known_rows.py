"""Rows with known outcomes for a saved model: read, checked, and without those that cannot be used."""

from __future__ import annotations

from typing import Any

from anchortm.exceptions import InputError

__all__ = ["add_bad_rows", "known_rows"]


def add_bad_rows(command: Any, group: Any) -> None:
    """Add the options on rows that cannot be used; ``group`` has those on the table."""
    group.add_argument(
        "--missing",
        choices=["error", "drop"],
        default="error",
        metavar="HOW",
        help="rows with missing values: error (the default), or drop to leave them out",
    )
    command.add_argument(
        "--bad-rows",
        choices=["error", "drop"],
        default="error",
        metavar="HOW",
        help="rows that cannot be predicted, such as those with unknown levels: error (the default), or drop to leave "
        "them out",
    )


def known_rows(options: Any, model: Any, own: list[str], used: str) -> Any:
    """Return the rows of a table for a model, with its outcome and with these columns of the command's own.

    ``used`` says what becomes of them, such as "scored".
    """
    from anchortm.cli.cleaning import as_numbers
    from anchortm.cli.columns import refuse_texts
    from anchortm.cli.output import tell
    from anchortm.cli.saved import check_columns, columns_scored, numbers_needed
    from anchortm.cli.tables import read_table

    data = read_table(options)
    names = [str(name) for name in data.columns]
    check_columns(model, data, options, [*columns_scored(model, names), *own])
    roles = dict.fromkeys(numbers_needed(model, data), "covariate")
    data = as_numbers(data, roles, options.source)
    refuse_texts(data, roles, (), options.source, needed=True)
    if options.missing == "drop":
        needed = [*columns_scored(model, names), *own]
        whole = data[needed].notna().all(axis=1)
        if not whole.any():
            raise InputError("no rows are left: each row has a missing value in a column that is needed")
        if not whole.all():
            tell(options, f"{int((~whole).sum())} of {len(data)} rows with missing values are left out")
        data = _kept(options, data, whole)
    return _good(options, model, data, used)


def _good(options: Any, model: Any, data: Any, used: str) -> Any:
    """Return the rows that the model can predict; refuse the others unless they are to be dropped."""
    from anchortm._util.pipelines import model_of
    from anchortm.cli.output import tell
    from anchortm.cli.saved import rows_scored

    judgement = model_of(model).new_rows_.read(rows_scored(model, data)[0], None).judgement
    if not judgement.bad.any():
        return data
    if options.bad_rows == "error":
        try:
            judgement.check()
        except InputError as error:
            rows = str(error).partition("; repair")[0].replace("predicted", used)
            missing = "" if options.missing == "drop" else "; --missing drop leaves rows with missing values out"
            raise InputError(f"{rows}{missing}; --bad-rows drop leaves all such rows out") from None
    if judgement.bad.all():
        raise InputError("no rows are left: the model can predict none of them")
    tell(options, f"{int(judgement.bad.sum())} of {len(data)} rows that the model cannot predict are left out")
    return _kept(options, data, ~judgement.bad)


def _kept(options: Any, data: Any, rows: Any) -> Any:
    """Return some of the rows, which are then no longer those of the file."""
    options.source = None if not rows.all() else options.source
    return data[rows].reset_index(drop=True)
