"""Compare strategies at left-out sites."""

from __future__ import annotations

import os
from typing import Any

from anchortm.cli.options import add_environments, add_json, add_model, add_output, add_plot, add_table
from anchortm.exceptions import AnchorTMError, InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    'anchortm compare cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --report compared.html',
    'anchortm compare cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" '
    "--design like --strategies equal,widened",
)
DESIGNS = {"like": ["like"], "further": ["further"], "both": ["like", "further"]}


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command)
    add_model(command, "0,0.3,1,3,10,30")
    command.add_argument(
        "--new",
        metavar="NEW",
        help="a .csv or .parquet file with rows of the new place, without outcomes: which way, and how far out it is",
    )
    command.add_argument(
        "--design",
        choices=list(DESIGNS),
        metavar="DESIGN",
        help="like: leave out one site after another, for a new place like these; further: leave out the outermost "
        "sites, for a place further out; both (the default with at least 8 sites)",
    )
    command.add_argument(
        "--strategies",
        metavar="NAME,...",
        help="what to compare with null (no covariates) and ml (maximum likelihood): equal, widened, anchored, "
        "anchored+spread (these four are the default), random-intercept",
    )
    command.add_argument(
        "--min-rows",
        type=int,
        default=10,
        metavar="N",
        help="sites with fewer rows, or fewer than 5 events, do not count in q90 and worst (default 10)",
    )
    add_environments(command)
    add_output(command, "the scores of each strategy at each site")
    add_plot(command, "gains and losses by site")
    command.add_argument("--report", metavar="FILE", help="write all of it to this .html file, which needs no network")
    add_json(command, "the verdict, the tables and the scores at each site")


def run(options: Any) -> None:
    """Print, write and draw how strategies predict sites that they have not seen."""
    from anchortm.cli.fits import environments, prepare, start_workers
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.newplace.compare import compare_strategies

    if options.new is not None and os.path.realpath(options.new) == os.path.realpath(options.data):
        raise InputError("--new is the table itself: it should have rows of a new place, without outcomes")
    check_outputs(options, options.data, *([] if options.new is None else [options.new]))
    rows, columns = prepare(options)
    environments(options, "compare")
    start_workers(options.jobs)
    found = compare_strategies(
        *rows,
        environments=options.environments,
        cut=options.cut,
        design=DESIGNS.get(options.design),
        new=_new_rows(options, rows[2]),
        strategies=_strategies(options),
        scores=None if options.output or options.json else [],
        min_rows=options.min_rows,
        n_jobs=options.jobs,
        **columns,
    )
    if options.report is not None:
        found.report(options.report)
        tell(options, f"written to {options.report}")
    record = {"verdict": found.verdict.to_dict(), "table": found.table(), "environments": found.frame()}
    report(options, found.frame(), lambda: _text(found, options), record, found.plot)


def _strategies(options: Any) -> list[Any] | None:
    """Return the strategies; those that choose xi choose from the values of --xi."""
    from anchortm.newplace.strategies import DEFAULT, Anchored

    names = DEFAULT if options.strategies is None else [name.strip() for name in options.strategies.split(",")]
    chosen = {"anchored": Anchored(choose=options.xi), "anchored+spread": Anchored(choose=options.xi, spread=True)}
    return [chosen.get(name, name) for name in names]


def _new_rows(options: Any, table: Any) -> Any:
    """Return the covariates of the new place, read as those of the table; None if there is no such file."""
    from anchortm.cli.columns import place
    from anchortm.cli.output import tell
    from anchortm.inputs.formula import Formula

    if options.new is None:
        return None
    names = [str(name) for name in table.columns]
    roles = Formula.unread(options.formula, names).roles(names)
    needed = [name for name, role in roles.items() if role in ("covariate", "stratum")]
    data, source = _read_new(options, table, needed)
    whole = data[needed].notna().all(axis=1)
    if whole.all():
        return data
    if options.missing != "drop":
        gone = ", ".join(repr(name) for name in needed if data[name].isna().any())
        where = place(source, [row for row, known in enumerate(whole) if not known])
        raise InputError(f"{options.new}: {gone} has missing values at {where}; add --missing drop, or fill them in")
    if not whole.any():
        raise InputError(f"{options.new}: each row has a missing value in a column that the formula needs")
    tell(options, f"{int((~whole).sum())} of {len(data)} rows of {options.new} with missing values are left out")
    return data[whole]


def _read_new(options: Any, table: Any, needed: list[str]) -> tuple[Any, Any]:
    """Return the rows of the new place and their file; refuse texts and dates where the table has numbers."""
    from copy import copy

    from anchortm.cli.cleaning import as_numbers
    from anchortm.cli.columns import is_text, refuse_texts
    from anchortm.cli.fits import factors
    from anchortm.cli.tables import read_table

    own = copy(options)
    dates = [part for part in (options.dates or "").split(",") if part.partition("=")[0].strip() in needed]
    own.data, own.dates = options.new, ",".join(dates) or None
    data = read_table(own)
    absent = [name for name in needed if name not in data]
    if absent:
        raise InputError(f"{options.new} has no column {', '.join(map(repr, absent))}, which the formula needs")
    numbers = dict.fromkeys([name for name in needed if not is_text(table[name])], "covariate")
    try:
        data = as_numbers(data, numbers, own.source)
        refuse_texts(data, numbers, factors(options, table), own.source, needed=True)
    except AnchorTMError as error:
        raise InputError(f"{options.new}: {error}") from None
    return data, own.source


def _text(found: Any, options: Any) -> str:
    """Return the tables, what their columns mean, and the verdict."""
    from anchortm.cli.terminal import as_text, paint, paragraph
    from anchortm.cli.words import in_shell
    from anchortm.newplace.readable import parts_of, strategies_of

    lines = []
    meanings: dict[str, str] = {}
    for part in parts_of(found):
        lines += [paint(paragraph(part.heading), "bold"), as_text(_aligned(part.table), 40), ""]
        meanings |= {name: text for name, text in part.meanings.items() if name not in meanings}
    legend = [*meanings.items(), *strategies_of(found).items()]
    lines += [paragraph(f"{name}: {text}", hanging="  ") for name, text in legend]
    remarks = [paragraph(in_shell(text), hanging="  ") for text in found.remarks]
    verdict = [paint(paragraph(line, hanging="  "), "bold") for line in found.verdict.lines()]
    return "\n".join([*lines, "", *(remarks and [*remarks, ""]), *verdict, *_next(found)])


def _aligned(table: Any) -> Any:
    """Return a table whose numbers have the same digits after the point; cells without a number are empty."""
    import pandas as pd

    made = {}
    for name in table.columns:
        values = table[name].tolist()
        if table[name].dtype.kind == "f" and name != "share":
            cells = ["" if value != value else f"{value + 0.0:.3f}" for value in values]
        else:
            cells = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        if name in ("strategy", "side"):
            made[name] = cells
            continue
        size = max(map(len, [name, *cells]))
        made[name.rjust(size)] = [cell.rjust(size) for cell in cells]
    return pd.DataFrame(made)


def _next(found: Any) -> list[str]:
    """Return the command that fits what is recommended, if one does."""
    further = found.verdict.further
    if further is not None and further.strategy == "anchored":
        return [f"Next, for a place further out: anchortm fit with --xi {further.xi:g} and --save."]
    if found.verdict.like in ("ml", None):
        return ["Next: anchortm fit with --xi 0 and --save."]
    return []
