"""Compare strategies at left-out places."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import (
    add_environments,
    add_json,
    add_model,
    add_new,
    add_output,
    add_plot,
    add_strategies,
    add_table,
)

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
    add_new(command)
    command.add_argument(
        "--design",
        choices=list(DESIGNS),
        metavar="DESIGN",
        help="like: leave out one place after another, for a new place like these; further: leave out the outermost "
        "places, for one further out; both (the default with at least 8 places)",
    )
    add_strategies(command, "q90 and worst")
    add_environments(command)
    add_output(command, "the scores of each strategy at each place")
    add_plot(command, "gains and losses by place")
    command.add_argument("--report", metavar="FILE", help="write all of it to this .html file, which needs no network")
    add_json(command, "the verdict, the tables and the scores at each place")


def run(options: Any) -> None:
    """Print, write and draw how strategies predict places that they have not seen."""
    from anchortm.cli.fits import environments, prepare, start_workers
    from anchortm.cli.new_place import inputs, new_rows, strategies
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.newplace.compare import compare_strategies

    check_outputs(options, *inputs(options))
    rows, columns = prepare(options)
    environments(options, "compare")
    start_workers(options.jobs)
    found = compare_strategies(
        *rows,
        environments=options.environments,
        cut=options.cut,
        design=DESIGNS.get(options.design),
        new=new_rows(options, options.new, rows[2]),
        strategies=strategies(options),
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


def _text(found: Any, options: Any) -> str:
    """Return the tables, what their columns mean, and the verdict."""
    from anchortm.cli.terminal import aligned, as_text, paint, paragraph
    from anchortm.cli.words import in_shell
    from anchortm.newplace.readable import parts_of, strategies_of

    lines = []
    meanings: dict[str, str] = {}
    for part in parts_of(found):
        lines += [paint(paragraph(part.heading), "bold"), as_text(aligned(part.table), 40), ""]
        meanings |= {name: text for name, text in part.meanings.items() if name not in meanings}
    legend = [*meanings.items(), *strategies_of(found).items()]
    lines += [paragraph(f"{name}: {text}", hanging="  ") for name, text in legend]
    remarks = [paragraph(in_shell(text), hanging="  ") for text in found.remarks]
    verdict = [paint(paragraph(line, hanging="  "), "bold") for line in found.verdict.lines()]
    return "\n".join([*lines, "", *(remarks and [*remarks, ""]), *verdict, *_next(found)])


def _next(found: Any) -> list[str]:
    """Return the command that fits what is recommended, if one does."""
    further = found.verdict.further
    if further is not None and further.strategy == "anchored":
        return [f"Next, for a place further out: anchortm fit with --xi {further.xi:g} and --save."]
    if found.verdict.like in ("ml", None):
        return ["Next: anchortm fit with --xi 0 and --save."]
    return []
