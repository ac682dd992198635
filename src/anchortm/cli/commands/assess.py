"""Find out whether anything helps at a new place."""

from __future__ import annotations

import shlex
from typing import Any

from anchortm.cli.options import (
    DECIMALS,
    SEPARATORS,
    add_environments,
    add_json,
    add_model,
    add_new,
    add_output,
    add_plot,
    add_sites,
    add_strategies,
    add_table,
    template,
)
from anchortm.exceptions import InputError

__all__ = ["EXAMPLES", "add", "run"]

SITES = (0.0, 1.0, 3.0, 10.0)  # values of xi with --sites; few, since each costs rounds and sites limit their answers
# options that need single rows
ROWS = ("new", "labels", "outcomes", "strategies", "environments", "cut", "save", "plot", "report", "rows")

EXAMPLES = (
    'anchortm assess cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --report assessed.html',
    'anchortm assess cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --labels 5 '
    "--strategies widened --save new.json",
)


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command, optional=True)
    add_model(command, "0,0.3,1,3,10,30")
    add_sites(command)
    add_new(command)
    command.add_argument(
        "--labels",
        type=int,
        metavar="N",
        help="how many outcomes of the new place you have or can get: should the model be recalibrated with them?",
    )
    command.add_argument(
        "--outcomes",
        metavar="FILE",
        help="rows of the new place with their outcomes, to see at the end whether the answer was right; the answer "
        "does not use them",
    )
    add_strategies(command, "quantiles")
    add_environments(command)
    command.add_argument(
        "-s", "--save", metavar="FILE", help="write the recommended model, fitted to all rows, to this .json file"
    )
    add_output(command, "the scores of each strategy at each place")
    add_plot(command, "gains and losses by place")
    command.add_argument("--report", metavar="FILE", help="write all of it to this .html file, with interactive plots")
    command.add_argument(
        "--rows",
        action="store_true",
        help="include places with fewer than 5 rows, and predictions of single rows, in --report and --json",
    )
    add_json(command, "everything")


def run(options: Any) -> None:
    """Print, write and draw what helps at a new place."""
    from dataclasses import replace

    from anchortm.cli.fits import environments, prepare, start_workers
    from anchortm.cli.new_place import inputs, new_rows, strategies
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.newplace.assessment.advice import DESIGNS
    from anchortm.newplace.assessment.assess import assess
    from anchortm.saving import save

    if options.sites or options.data is None:
        _run_sites(options)
        return
    check_outputs(options, *inputs(options, options.outcomes))
    rows, columns = prepare(options)
    environments(options, "assess")
    new = new_rows(options, options.new, rows[2])
    later = new_rows(options, options.outcomes, rows[2], outcomes=True)
    start_workers(options.jobs)
    found = assess(
        *rows,
        environments=options.environments,
        cut=options.cut,
        new=new,
        labels=options.labels,
        strategies=strategies(options),
        min_rows=options.min_rows,
        n_jobs=options.jobs,
        **columns,
    )
    found = replace(found, command=_command(options))
    if later is not None:
        found = found.with_outcomes(later)
    if options.save:
        model = found.fit()
        if found.recommendation.strategy == "recalibrate" or _collecting(found):
            model.place_sd_  # noqa: B018 - the file has no rows, from which it could be found later
        save(model, options.save)
        kind = found.recommendation.kind
        which = f", for {DESIGNS[found.recommendation.main.design].removeprefix('at ')}," if kind == "both" else ""
        tell(options, f"the recommended model{which} is saved to {options.save}")
    if options.report is not None:
        found.report(options.report, options.rows)
        tell(options, f"written to {options.report}")
    record = found.to_dict(options.rows) if options.json else None
    report(options, found.comparison.frame(), lambda: _text(found, options.save), record, found.comparison.plot)


def _run_sites(options: Any) -> None:
    """Print and write what sums over sites say about a new place."""
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.cli.sites import connected

    given = [name for name in ROWS if getattr(options, name) not in (None, False)]
    if given:
        raise InputError(f"--{', --'.join(given)} cannot be used with --sites: single rows stay at the sites")
    check_outputs(options)
    with connected(options) as coordinator:
        xis = SITES if options.xi is options.default_xi else options.xi
        found = coordinator.assess(template(options), xis)
        tell(options, f"{coordinator.rounds} rounds, {coordinator.bytes_received} bytes from all sites together")
    report(options, found.frame(), lambda: "\n".join(_parts(found.lines())), found.to_dict() if options.json else None)


def _command(options: Any) -> str:
    """Return the line that computes the answer again, without what it writes."""
    words = ["anchortm", "assess", options.data, "-m", options.model, "-f", options.formula]
    for name, called in (("separator", SEPARATORS), ("decimal", DECIMALS)):
        value = getattr(options, name)
        word = next((own for own, character in called.items() if character == value), value)
        words += [] if value is None else [f"--{name}={word}"]
    words += [f"--missing-values={text}" for text in options.missing_values]
    if options.xi is not options.default_xi:
        words += ["-x", _numbers(options.xi)]
    named = ("order", "tail", "l1", "l2", "varying", "scale", "weights", "offset", "missing", "labels", "strategies")
    for name in (
        "encoding",
        "dates",
        "date_format",
        *named,
        "new",
        "outcomes",
        "environments",
        "cut",
        "environment_weights",
        "anchor_weights",
    ):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    words += [] if options.support is None else [f"--support={_numbers(options.support)}"]
    words += ["--log-first"] if options.log_first else []
    words += ["--min-rows", str(options.min_rows)] if options.min_rows != 10 else []
    return shlex.join(map(str, words))


def _numbers(values: Any) -> str:
    """Return numbers with all their digits, joined by commas."""
    return ",".join(repr(float(value)).removesuffix(".0") for value in values)


def _text(found: Any, saved: str | None) -> str:
    """Return the page of text, as wide as the terminal, and what to do next."""
    from anchortm.cli.terminal import paragraph
    from anchortm.newplace.assessment.text import lines_of

    steps = _next(found, saved)
    return "\n".join([*_parts(lines_of(found)), *(["", paragraph(f"Next: {' '.join(steps)}")] if steps else [])])


def _next(found: Any, saved: str | None) -> list[str]:
    """Return which commands to run next, with the saved model if there is one."""
    advice, further = found.recommendation.main, found.recommendation.further
    steps = []
    match advice.strategy:
        case "recalibrate":
            first = "" if saved else "this command with --save, then "
            steps.append(f"{first}anchortm recalibrate {saved or 'with the saved model'} and your outcomes.")
        case "ml" | "anchored" if not saved:
            steps.append(f"this command with --save, or anchortm fit with --xi {advice.xi:g} and --save.")
        case _ if saved:
            steps.append(f"anchortm predict {saved} and a table of new rows.")
    if (
        found.recommendation.kind == "both"
        and further is not None
        and further.strategy == "anchored" != advice.strategy
    ):
        steps.append(f"For a place further out: anchortm fit with --xi {further.xi:g} and --save.")
    if advice.collect and advice.collect_xi != advice.xi:
        own = f"anchortm fit with --xi {advice.collect_xi:g}, --place-variance and --save, then anchortm recalibrate"
        steps.append(f"Once you have outcomes of the new place: {own}.")
    elif _collecting(found):
        steps.append("Then anchortm recalibrate, with the outcomes that you collect.")
    return steps


def _collecting(found: Any) -> bool:
    """Return whether outcomes of the new place are worth collecting."""
    return any(advice.collect for advice in found.recommendation.given)


def _parts(parts: Any) -> list[str]:
    """Return the parts of a page, each below its heading."""
    from anchortm.cli.terminal import aligned, as_text, paint, paragraph
    from anchortm.cli.words import in_shell
    from anchortm.newplace.assessment.text import NOT_COMPUTED

    said: list[str] = []
    for part in parts:
        said += [*([""] if said else []), paint(paragraph(part.title), "bold")]
        words = [in_shell(text) if part.title == NOT_COMPUTED else text for text in part.lines]
        said += [paragraph(text, hanging="  ") for text in words]
        said += [] if part.table is None else [as_text(aligned(part.table.reset_index()), 40, indent="  ")]
    return said
