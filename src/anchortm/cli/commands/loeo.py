"""Leave each environment out."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import (
    add_environments,
    add_json,
    add_model,
    add_output,
    add_plot,
    add_sites,
    add_table,
    template,
)

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ('anchortm loeo cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --plot loeo.png',)


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command, optional=True)
    add_model(command, "0,1,10,100,1000")
    add_sites(command)
    add_environments(command)
    add_output(command)
    add_plot(command, "the left-out environments")
    add_json(command)


def run(options: Any) -> None:
    """Print, write and draw the left-out environments."""
    from anchortm.cli.fits import environments, prepare, start_workers
    from anchortm.cli.output import check_outputs, report
    from anchortm.cli.sites import connected
    from anchortm.cli.terminal import as_text, paragraph
    from anchortm.cli.words import in_shell
    from anchortm.selection.left_out import leave_one_environment_out

    if options.sites or options.data is None:
        check_outputs(options)
        with connected(options) as coordinator:
            result = coordinator.leave_one_site_out(template(options), options.xi)
    else:
        check_outputs(options, options.data)
        rows, columns = prepare(options)
        environments(options, "loeo")
        start_workers(options.jobs)
        result = leave_one_environment_out(
            *rows,
            options.environments,
            options.xi,
            cut=options.cut,
            n_jobs=options.jobs,
            **columns,
        )

    def text() -> str:
        n = result.frame().environment.nunique()
        head = paragraph(f"{n} environments, each predicted by fits to the others (mean negative log-likelihood)")
        remarks = [paragraph(in_shell(text), hanging="  ") for text in result.remarks]
        return "\n".join([head, as_text(result.summary().reset_index()), *remarks])

    report(options, result.frame(), text, draw=result.plot)
