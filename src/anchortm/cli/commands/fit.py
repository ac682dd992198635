"""Fit a model."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_json, add_model, add_output, add_sites, add_table, template
from anchortm.exceptions import InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    'anchortm fit boston.csv -m c-logit -f "cmedv ~ rm + lstat | town" --xi 10 --save price.json',
    'anchortm fit boston.csv -m c-probit -f "cmedv ~ rm + lstat | town" --place-variance --save places.json',
    'anchortm fit cgd.csv -m cox -f "Surv(tstop, status) ~ treat + age | center" --xi 0,1,10',
)


def add(command: Any) -> None:
    """Add the arguments."""
    table = "a .csv or .parquet file, - for CSV from a pipe, or a folder or quoted pattern of files"
    group = add_table(command, table, optional=True)
    group.add_argument(
        "--batches",
        action="store_true",
        help="read a .parquet file in batches, for tables larger than memory; folders and quoted patterns of files "
        "are always read this way",
    )
    add_model(command)
    add_sites(command)
    command.add_argument(
        "--place-variance",
        action="store_true",
        help="measure shifts between places by leaving each of them out, for predict --place new",
    )
    command.add_argument(
        "--environments", metavar="COLUMN", help="column of the places for --place-variance (default: the anchor)"
    )
    command.add_argument("-s", "--save", metavar="FILE", help="write the fitted model to this .json file (one xi)")
    add_output(command, "the coefficients")
    add_json(command, "the result")


def run(options: Any) -> None:
    """Fit one model and print its summary, or several along xi and print a table."""
    from anchortm.cli.fits import TECHNICAL, prepare, summary_text, table_for
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.cli.tables import in_batches
    from anchortm.cli.terminal import as_text
    from anchortm.inputs.formula.grammar import parse_formula
    from anchortm.saving import save
    from anchortm.selection.path import anchor_path

    if options.sites or options.data is None:
        _run_sites(options)
        return
    check_outputs(options, options.data)
    batches = options.batches or in_batches(options.data)
    if len(options.xi) > 1:
        if batches:
            raise InputError("a table that is read in batches needs a single --xi: run one command for each value")
        single = "--save" if options.save else "--place-variance" if options.place_variance else ""
        if single:
            raise InputError(f"{single} needs a single --xi, not {len(options.xi)} values")
        rows, columns = prepare(options)
        table = anchor_path(*rows, xis=options.xi, **columns).frame()
        report(options, table, lambda: as_text(table.drop(columns=TECHNICAL)))
        return
    model = _fitted(options, options.data if batches else table_for(options))
    summary = model.summary()
    if options.save:
        save(model, options.save)
        tell(options, f"saved to {options.save}")
    table = summary.frame().reset_index()
    report(options, table, lambda: summary_text(summary), _facts(model, summary, table))
    anchors = [name for name, _ in parse_formula(options.formula).anchors]
    if anchors and options.xi is options.default_xi:
        tell(options, f"note: without --xi, xi is 0 and {', '.join(anchors)} has no effect; anchortm choose finds one")


def _run_sites(options: Any) -> None:
    """Fit to rows at several sites."""
    from anchortm.cli.fits import summary_text
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.cli.sites import connected
    from anchortm.saving import save

    if len(options.xi) > 1:
        raise InputError("fits to sites need a single --xi: run one command for each value")
    check_outputs(options)
    with connected(options) as coordinator:
        model = coordinator.fit(template(options), xi=options.xi[0])
        tell(options, f"{coordinator.rounds} rounds, {coordinator.bytes_received} bytes from all sites together")
    summary = model.summary()
    if options.save:
        save(model, options.save)
        tell(options, f"saved to {options.save}")
    table = summary.frame().reset_index()
    report(options, table, lambda: summary_text(summary), _facts(model, summary, table))


def _fitted(options: Any, data: Any) -> Any:
    model = template(options)
    return type(model).from_formula(
        options.formula,
        data,
        sample_weight=options.weights,
        offset=options.offset,
        environments=options.environments,
        **(model.get_params(deep=False) | {"xi": options.xi[0], "place_variance": options.place_variance}),
    )


def _facts(model: Any, summary: Any, table: Any) -> dict[str, Any]:
    """Return the numbers of a fit, for scripts."""
    from anchortm.cli.words import in_shell

    names = ("xi", "n_rows", "n_anchors", "loglik", "loss", "penalty", "converged", "kkt", "min_eigenvalue", "n_iter")
    places = model.place_variance_.record() if "places" in model.result_.computed else None
    return {
        "model": type(model).__name__,
        **{name: getattr(model, f"{name}_") for name in names},
        "coefficients": table.to_dict("records"),
        "baseline": summary.baseline,
        "support": getattr(model, "support_", None),
        **({} if places is None else {"places": places}),
        "notes": [in_shell(text) for text in summary.warnings],
    }
