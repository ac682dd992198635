"""Reproduce the paper."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from anchortm.cli.options import add_jobs, add_json, add_output
from anchortm.exceptions import InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    "anchortm reproduce boston identities --output paper",
    "anchortm reproduce la iv1 --runs 5 --output paper",
)


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument(
        "parts", nargs="*", metavar="PART", help="identities, boston, la, nla, nla-boosting, iv1, iv2, or all"
    )
    command.add_argument(
        "--runs", type=int, metavar="N", help="runs of each simulation (default: the published number)"
    )
    add_jobs(command)
    command.add_argument("--seed", type=int, default=1, help="seed of all random numbers")
    command.add_argument("--trees", type=int, default=20, help="number of trees of each forest in nla-boosting")
    add_output(command, "folder for figures, tables and claims", "", default="reproduction", metavar="FOLDER")
    command.add_argument("--fresh", action="store_true", help="compute again even if results are stored")
    add_json(command, "the claims")


def run(options: Any) -> None:
    """Run parts of the reproduction and print the table of claims."""
    from anchortm.cli.fits import start_workers
    from anchortm.cli.output import as_json, new_figure
    from anchortm.cli.terminal import paragraph
    from anchortm.reproduce.engine import Options
    from anchortm.reproduce.table import claim_frame, reproduce

    for name, least in (("runs", 2), ("trees", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"--{name} must be at least {least}, not {value}")
    new_figure()  # fail early if matplotlib is missing
    how = Options(options.runs, options.jobs, options.seed, None, options.trees)
    say = (lambda text: print(text, file=sys.stderr)) if options.json else print
    start_workers(options.jobs)
    claims = reproduce(options.parts, Path(options.output), how, fresh=options.fresh, say=say)
    if options.json:
        print(as_json(claim_frame(claims)))
        return
    for claim in claims:
        print(f"\n{claim.id}  {claim.verdict.upper()}")
        for text in (claim.sentence, claim.measured, claim.reason):
            if text:
                print(paragraph(text, "  "))
    counts = Counter(claim.verdict for claim in claims)
    print(f"\n{len(claims)} claims: {', '.join(f'{n} {verdict}' for verdict, n in counts.most_common())}.")
    print(f"Figures, tables and claims are in {options.output}.")
