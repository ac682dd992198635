"""Look at a table before a fit."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_json, add_model, add_output, add_table, template
from anchortm.exceptions import AnchorTMError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    "anchortm check cgd.csv",
    'anchortm check cgd.csv -m cox -f "Surv(tstop, status) ~ treat + age | center"',
)
MOST_COLUMNS, MOST_SITES = 60, 30


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command)
    add_model(command, "", needed=False)
    add_output(command, "the table of columns")
    add_json(command, "everything")


def run(options: Any) -> int:
    """Print what is in the table, and what a fit would refuse; return 1 if it would refuse something."""
    from anchortm.cli.fits import factors, with_numbers
    from anchortm.cli.inspection import Finding, Inspection, column_table, remarks, site_candidates
    from anchortm.cli.output import check_outputs, report
    from anchortm.cli.tables import read_table
    from anchortm.cli.words import in_shell

    check_outputs(options, options.data)
    no_dates: list[str] = []
    data = read_table(options, tell=False, refused=no_dates)
    columns, candidates, sites = column_table(data, options.source), [], None
    findings = [*map(Finding, no_dates), *remarks(data, options.source)]
    if options.formula is None:
        candidates = site_candidates(data, options.source)
    else:
        model = None
        try:
            model = None if options.model is None else template(options)
        except AnchorTMError as error:
            findings.append(Finding(in_shell(str(error))))
        data = with_numbers(options, data)
        own = {"weights": options.weights, "offset": options.offset, "factors": frozenset(factors(options, data))}
        look = Inspection(data, options.source, options.formula, model, options.missing == "drop", **own)
        look.look()
        findings, sites = [*findings, *look.findings], look.sites
    refused = [finding for finding in findings if finding.refused]
    record = {
        "rows": len(data),
        "columns": columns,
        "sites": sites,
        "candidates": candidates,
        "refused": [{"problem": each.text, "repair": each.remedy} for each in refused],
        "notes": [each.text for each in findings if not each.refused],
    }
    report(options, columns, lambda: _text(options, record), record)
    return int(bool(refused))


def _text(options: Any, record: dict[str, Any]) -> str:
    from anchortm.cli.terminal import as_text, paint, paragraph

    columns, sites = record["columns"], record["sites"]
    name = "standard input" if options.data == "-" else options.data
    how = "" if options.source is None else f"; {options.source.dialect.described()}"
    head = paragraph(f"{name}: {record['rows']} rows, {len(columns)} columns{how}", hanging="  ")
    lines = [paint(head, "bold"), "", as_text(columns, MOST_COLUMNS)]
    if record["candidates"]:
        listed = ", ".join(record["candidates"])
        lines += ["", paragraph(f"Columns that may be sites (anchors): {listed}", hanging="  ")]
    if sites is not None:
        lines += [
            "",
            paint(f"Sites: {len(sites)}, with the rows that a fit would use", "bold"),
            as_text(sites, MOST_SITES),
        ]
    if record["notes"]:
        lines += [
            "",
            paint("Worth knowing", "bold"),
            *(paragraph(f"- {text}", hanging="  ") for text in record["notes"]),
        ]
    return "\n".join([*lines, "", *_verdict(options, record["refused"])])


def _verdict(options: Any, refused: list[dict[str, str]]) -> list[str]:
    """Return what a fit would say."""
    from anchortm.cli.terminal import paint, paragraph

    if not refused:
        if options.formula is None:
            what = "--formula" if options.model else "--formula and --model"
            return [paragraph(f"To see what a fit would say, add {what}.")]
        whom = "a fit" if options.model else "the formula; add --model to try a fit"
        return [paint(paragraph(f"Nothing would be refused by {whom}."), "green")]
    lines = [paint("A fit would be refused", "red")]
    for k, each in enumerate(refused):
        lines.append(paragraph(f"{k + 1}. {each['problem']}", hanging="   "))
        if each["repair"]:
            lines.append(paragraph(f"repair: {each['repair']}", "   ", "   "))
    return lines
