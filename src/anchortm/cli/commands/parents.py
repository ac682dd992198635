"""Find the covariates that are in every set that explains the outcome in the same way at all sites."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_jobs, add_json, add_model, add_output, add_plot, add_table

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    'anchortm parents cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age + steroids | center" -p sets.png',
    'anchortm parents cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age + steroids | center" '
    "--mandatory age --sensitivity",
)
MOST_SETS = 10  # accepted sets to print


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command)
    add_model(command, "")
    no_penalty = [0.0]
    command.set_defaults(xi=no_penalty, default_xi=no_penalty)
    command.add_argument(
        "--environments", metavar="COLUMN", help="column of the sites (default: what --formula has after '|')"
    )
    command.add_argument("--level", type=float, default=0.05, help="level of the tests (default 0.05)")
    command.add_argument(
        "--mandatory", action="append", default=[], metavar="TERM", help="a term that is in every set; may be repeated"
    )
    command.add_argument("--max-size", type=int, metavar="K", help="test sets of at most K terms")
    command.add_argument(
        "--screen",
        choices=["lasso", "blanket"],
        metavar="HOW",
        help="drop terms before sets are formed: lasso, or blanket (keeps terms on which the outcome depends given all "
        "others); a parent may be lost",
    )
    command.add_argument(
        "--n-screened", type=int, default=10, metavar="K", help="number of terms that --screen keeps (default 10)"
    )
    command.add_argument(
        "--method",
        choices=["gcm", "simulate", "wald", "score"],
        default="gcm",
        metavar="TEST",
        help="gcm: covariance of residuals and sites (the default); simulate: the same for small tables; wald: sites "
        "and their interactions as covariates; score: sites as covariates",
    )
    command.add_argument(
        "--regression",
        choices=["linear", "logistic", "forest", "none"],
        default="linear",
        metavar="HOW",
        help="how sites are predicted from the covariates: linear (the default), logistic, forest or none",
    )
    command.add_argument(
        "--stop-early", action="store_true", help="stop once no term can be in every accepted set any more"
    )
    command.add_argument(
        "--max-fits", type=int, default=2**14, metavar="N", help="largest number of sets to test (default 16384)"
    )
    command.add_argument(
        "--sensitivity",
        action="store_true",
        help="repeat the search without each site and with other regressions, and report which terms the sites shift",
    )
    add_jobs(command)
    add_output(command, "the tests of all sets")
    add_plot(command, "the p-values of all sets by their size")
    add_json(command, "the answer and the tests of all sets")


def run(options: Any) -> None:
    """Print, write and draw the covariates in every accepted set, and the tests."""
    from anchortm.cli.fits import prepare, start_workers
    from anchortm.cli.output import check_outputs, report
    from anchortm.diagnostics.causal_parents import causal_parents

    check_outputs(options, options.data)
    rows, columns = prepare(options)
    start_workers(options.jobs)
    names = ("level", "mandatory", "max_size", "screen", "n_screened", "method", "regression", "stop_early", "max_fits")
    asked: dict[str, Any] = {name: getattr(options, name) for name in names} | columns
    found = causal_parents(*rows, environments=options.environments, n_jobs=options.jobs, **asked)
    moved = found.sensitivity(n_jobs=options.jobs) if options.sensitivity else None
    sets = found.sets.assign(set=[_joined(own) for own in found.sets["set"]])
    record = {
        "parents": found.parents,
        "level": found.level,
        "misspecified": found.misspecified,
        "covariates": found.frame().reset_index(),
        "defining_sets": found.defining_sets,
        "remarks": _remarks(found),
        "sets": found.sets,
    }
    if moved is not None:
        record["sensitivity"] = {"answers": moved.frame(), "shifts": moved.shifts, "remarks": _remarks(moved)}
    report(options, sets, lambda: _text(found, sets, moved), record, lambda ax: found.plot(ax, of="sets"))


def _remarks(found: Any) -> list[str]:
    """Return the remarks of a result in the words of the command line."""
    from anchortm.cli.words import in_shell

    return [in_shell(text) for text in found.remarks]


def _joined(names: tuple[str, ...]) -> str:
    """Return a set as a formula writes it."""
    return " + ".join(names) or "(none)"


def _text(found: Any, sets: Any, moved: Any) -> str:
    """Return the answer, the covariates, the accepted sets, and how to read them."""
    from anchortm.cli.terminal import as_text, paint, paragraph

    answer = ", ".join(found.parents) or "none found"
    table = found.frame().reset_index().rename(columns={"p_value": "p-value"})
    marked = [k for k, parent in enumerate(table["parent"]) if parent]
    table["parent"] = ["<- parent" if parent else "" for parent in table["parent"]]
    lines = [paint(paragraph(f"Causal parents at level {found.level:g}: {answer}", hanging="  "), "bold"), ""]
    if len(table):
        lines += [as_text(table.rename(columns={"parent": ""}), 60, marked)]
        lines += ["p-value: the largest of the sets without this covariate", ""]
    lines += [*_accepted(found, sets), ""]
    lines += [paragraph(text, hanging="  ") for text in _remarks(found)]
    if moved is not None:
        answers = moved.frame()
        answers["parents"] = [
            "every set is rejected" if rejected else ", ".join(own) or "none"
            for own, rejected in zip(answers["parents"], answers["misspecified"], strict=True)
        ]
        lines += ["", paint("How sensitive the answer is", "bold"), as_text(answers.drop(columns="misspecified"), 60)]
        lines += [paragraph(text, hanging="  ") for text in _remarks(moved)]
    return "\n".join(lines).rstrip()


def _accepted(found: Any, sets: Any) -> list[str]:
    """Return how many sets are accepted, and the smallest of them."""
    from anchortm.cli.terminal import as_text

    own = sets.loc[sets["accepted"], ["set", "statistic", "df", "p_value"]].rename(columns={"p_value": "p-value"})
    lines = [f"{len(own)} of {len(sets)} sets are accepted{', the smallest first:' if len(own) else ''}"]
    return [*lines, as_text(own, MOST_SETS)] if len(own) else lines
