"""What commands that fit models share: the table by its formula, summaries that fit the terminal, workers."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anchortm._util.frames import in_formulas
from anchortm.cli.cleaning import as_numbers
from anchortm.cli.columns import hint_at_dates, refuse_texts
from anchortm.cli.options import template
from anchortm.cli.tables import read_table
from anchortm.cli.terminal import as_text, note, paint, paragraph
from anchortm.cli.words import in_shell
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["environments", "factors", "prepare", "start_workers", "summary_text", "table_for", "with_numbers"]

MOST_ROWS = 40  # coefficients to print
TECHNICAL = ["kkt", "min_eigenvalue", "convexity", "lower_minimum_known"]  # columns that the terminal leaves out


def table_for(options: Any) -> pd.DataFrame:
    """Return the table; refuse texts and dates where the formula needs numbers."""
    from anchortm.inputs.formula import Formula

    data = read_table(options)
    names = [str(name) for name in data.columns]
    with hint_at_dates(options, data):
        roles, known_factors = Formula.unread(options.formula, names).roles(names), factors(options, data)
    refuse_texts(data, roles, known_factors, options.source)
    padded = set() if options.source is None or options.quiet else options.source.padded - known_factors
    for name in (name for name in names if name in padded and roles.get(name) == "covariate"):
        note(f"{name} is read as a factor, since some values begin with 0; write C({in_formulas(name)}) to say so")
    if not options.quiet:
        _tell_about_commas(options)
    return with_numbers(options, data)


def _tell_about_commas(options: Any) -> None:
    """Say that a comma joins two values of xi, to readers of decimal commas."""
    decimal = "." if options.source is None else options.source.dialect.decimal
    if options.xi is not options.default_xi and decimal == "," and len(options.xi) == 2:
        first, last = options.xi
        note(f"--xi has two values, {first:g} and {last:g}; decimals are written with a point, such as 0.5")


def with_numbers(options: Any, data: pd.DataFrame) -> pd.DataFrame:
    """Return the table with digits that begin with 0 as numbers where numbers are needed: outcome, weights, offset."""
    left = options.formula.partition("~")[0]
    outcome = [name for name in data.columns if str(name) in left and "==" not in left and "!=" not in left]
    needed = {*outcome, options.weights, options.offset} - factors(options, data)
    return as_numbers(data, needed, options.source)


def factors(options: Any, data: pd.DataFrame) -> set[str]:
    """Return the columns that are factors by the formula or by the model."""
    found = {quoted or word for quoted, word in re.findall(r"\bC\(\s*(?:`([^`]+)`|(\w+))", options.formula)}
    left = options.formula.partition("~")[0]
    if (options.model or "").startswith("o-") or left.lstrip().startswith("ordered("):
        found |= {str(name) for name in data.columns if str(name) in left}
    return found


def prepare(options: Any) -> tuple[tuple[Any, str, Any], dict[str, Any]]:
    """Return the model with the formula and its table, and the columns of weights and offset."""
    columns = {"sample_weight": options.weights, "offset": options.offset}
    return (template(options), options.formula, table_for(options)), columns


def environments(options: Any, command: str) -> None:
    """Refuse to leave out environments that nobody has named."""
    from anchortm.inputs.formula.grammar import parse_formula

    anchors = [name for name, _ in parse_formula(options.formula).anchors]
    if not anchors and not options.environments:
        raise InputError(
            f"{command} needs environments: name them after '|' in --formula (y ~ x | place), or give --environments"
        )
    if len(anchors) > 1 and not options.environments:
        raise InputError(f"there are several anchors: choose --environments from {', '.join(anchors)}")


def summary_text(summary: Any) -> str:
    """Return a summary that fits the terminal."""
    summary = replace(summary, warnings=tuple(map(in_shell, summary.warnings)))
    around = str(replace(summary, columns={"covariate": []}, scale=None)).splitlines()
    blank = around.index("") if "" in around else len(around)
    indent = " " * (max(map(len, summary.facts)) + 4)
    lines = [paint(around[0], "bold"), *(paragraph(line, hanging=indent) for line in around[1:blank]), ""]
    if summary.columns["covariate"]:
        lines += [summary.heading, *_coefficients(summary), ""]
    if summary.scale is not None:
        lines += ["Scale effects", as_text(summary.scale_frame().reset_index(), MOST_ROWS, indent="  "), ""]
    lines += [paragraph(line, hanging=" " * (6 if line.startswith("Note") else 10)) for line in around[blank + 1 :]]
    return "\n".join(lines).rstrip()


def _coefficients(summary: Any) -> list[str]:
    """Return the table of coefficients: those of curves and those that are zero are left out."""
    table = summary.frame().reset_index()
    said = []
    if any(summary.curved):
        table = table[[not curved for curved in summary.curved]]
        said.append("  ... and the curves of smooth terms: --output has their coefficients")
    if "elastic net" in summary.facts:
        table = table[table["coef"] != 0.0]
    return [*([as_text(table, MOST_ROWS, indent="  ")] if len(table) else []), *said]


def start_workers(jobs: int) -> None:
    """Start worker processes that ignore Ctrl-C, so that only this process reacts, ends them and prints one line."""
    if jobs == 1 or not hasattr(signal, "pthread_sigmask"):
        return
    from multiprocessing import resource_tracker

    from joblib import Parallel, delayed

    resource_tracker.ensure_running()  # starting it later would unblock the signal
    with Parallel(n_jobs=jobs) as parallel:  # joblib keeps the workers for later calls with as many
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            parallel(delayed(abs)(k) for k in range(2))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
