"""Options that commands share: the table, the model, the outputs."""

from __future__ import annotations

import argparse
from typing import Any

from anchortm.cli.models import MODELS
from anchortm.cli.parsing import jobs, numbers, pair

__all__ = [
    "ARGUMENTS",
    "add_certificate",
    "add_common",
    "add_environments",
    "add_jobs",
    "add_json",
    "add_model",
    "add_new",
    "add_output",
    "add_place",
    "add_plot",
    "add_reading",
    "add_sites",
    "add_strategies",
    "add_table",
    "template",
]

ARGUMENTS = (  # options that are parameters of the model
    "order",
    "support",
    "log_first",
    "tail",
    "l1",
    "l2",
    "varying",
    "scale",
    "missing",
    "environment_weights",
    "anchor_weights",
)
FILES = ".csv, .parquet or .json"
STRATEGIES = (
    "what to compare with null (no covariates) and ml (maximum likelihood): equal, widened, anchored, anchored+spread "
    "(these four are the default), random-intercept"
)
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": " "}
DECIMALS = {"point": ".", "comma": ","}


def add_common(command: argparse.ArgumentParser) -> None:
    """Add the options of every command."""
    command.add_argument("-q", "--quiet", action="store_true", help="print results, warnings and errors only")
    command.add_argument("--no-progress", action="store_true", help="show no progress bar")
    command.add_argument("--debug", action="store_true", help="show where an error happened")


def add_table(
    command: argparse.ArgumentParser,
    help: str = "a .csv or .parquet file, or - for CSV from a pipe",
    optional: bool = False,
) -> Any:
    """Add the table and how to read it; return the group of these options."""
    more: dict[str, Any] = {"nargs": "?"} if optional else {}
    command.add_argument("data", metavar="TABLE", help=help, **more)
    return add_reading(command)


def add_reading(command: argparse.ArgumentParser) -> Any:
    """Add how to read a table; return the group of these options."""
    group = command.add_argument_group("reading the table")
    group.add_argument(
        "--separator",
        type=_separator,
        metavar="CHAR",
        help="between the values of a CSV file: comma, semicolon, tab, bar or one character (default: detected)",
    )
    group.add_argument(
        "--decimal", type=_decimal, metavar="CHAR", help="decimal point or comma of its numbers (default: detected)"
    )
    group.add_argument(
        "--encoding", metavar="NAME", help="encoding of its text, such as utf-8 or cp1252 (default: detected)"
    )
    group.add_argument(
        "--missing-values",
        action="append",
        default=[],
        metavar="TEXT,...",
        help="texts that count as missing, such as 'unknown,<0.5', besides empty cells, NA, n/a and null; joined by "
        "semicolons if numbers have decimal commas",
    )
    group.add_argument(
        "--dates",
        metavar="COLUMN,...",
        help="turn columns of dates into days since 1970-01-01; stay=left-came adds a column of days between two",
    )
    group.add_argument("--date-format", metavar="FORMAT", help="how dates are written, such as %%d/%%m/%%Y")
    return group


def add_model(command: argparse.ArgumentParser, xis: str = "0", needed: bool = True) -> None:
    """Add the formula and the model with its parameters."""
    group = command.add_argument_group("model")
    group.add_argument("-f", "--formula", required=needed, help="outcome ~ covariates | anchors")
    group.add_argument(
        "-m", "--model", required=needed, choices=list(MODELS), metavar="MODEL", help=f"one of {', '.join(MODELS)}"
    )
    if xis:
        default = numbers(xis)
        command.set_defaults(default_xi=default)
        group.add_argument(
            "-x",
            "--xi",
            type=numbers,
            default=default,
            metavar="XI,...",
            help=f"strength of the anchor penalty (default {xis}); inf is allowed",
        )
    group.add_argument("--order", type=int, help="order of the Bernstein polynomials")
    group.add_argument(
        "--support",
        type=pair,
        metavar="LOW,HIGH",
        help="their support; write --support=-3,4 if it begins with a minus",
    )
    group.add_argument("--log-first", action="store_true", default=None, help="use the basis in log y")
    group.add_argument(
        "--tail", type=float, metavar="SHARE", help="share of the worst environments that xi penalises (default 1: all)"
    )
    group.add_argument("--l1", type=float, help="strength of the lasso penalty on the coefficients")
    group.add_argument("--l2", type=float, help="strength of the ridge penalty on the coefficients")
    group.add_argument("--varying", metavar="TERMS", help="terms whose effects vary along the outcome, such as x + z")
    group.add_argument("--scale", metavar="TERMS", help="terms that also change the spread of the outcome")
    group.add_argument("--weights", metavar="COLUMN", help="column of weights")
    group.add_argument("--offset", metavar="COLUMN", help="column of offsets")
    for where, what in (("environment", "likelihood"), ("anchor", "penalty")):
        group.add_argument(
            f"--{where}-weights",
            choices=["rows", "equal", "shrunk"],
            metavar="HOW",
            help=f"how places count in the {what}: by their rows (the default), equal, or shrunk, in between",
        )
    group.add_argument(
        "--missing",
        choices=["error", "drop"],
        metavar="HOW",
        help="rows with missing values: error (the default), or drop to leave them out",
    )


def add_environments(command: argparse.ArgumentParser) -> None:
    """Add the options on the environments to leave out."""
    command.add_argument("--environments", metavar="COLUMN", help="column of the environments (default: the anchor)")
    command.add_argument("--cut", type=int, metavar="K", help="cut numeric environments at quantiles into K groups")
    add_jobs(command)


def add_sites(command: argparse.ArgumentParser) -> None:
    """Add the options of fits to rows at several sites."""
    group = command.add_argument_group("sites that keep their rows")
    group.add_argument(
        "--sites", metavar="STUDY", help="the .toml file of a study, in place of a table: its sites send sums only"
    )
    group.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8443", help="where sites dial in (default 127.0.0.1:8443)"
    )
    add_certificate(group, "this hub")
    group.add_argument(
        "--wait", type=float, default=600.0, metavar="SECONDS", help="how long to wait for all sites (default 600)"
    )


def add_certificate(group: Any, whose: str) -> None:
    """Add the files of a connection over TLS."""
    group.add_argument("--cert", metavar="FILE", help=f"certificate of {whose}, as PEM")
    group.add_argument("--key", metavar="FILE", help="its private key, as PEM")
    group.add_argument("--ca", metavar="FILE", help="certificate of the authority that has signed those of all sides")


def add_new(command: argparse.ArgumentParser) -> None:
    """Add the file of the new place."""
    command.add_argument(
        "--new",
        metavar="NEW",
        help="a .csv or .parquet file with rows of the new place, without outcomes: they show how far out it is, "
        "and in which direction",
    )


def add_strategies(command: argparse.ArgumentParser, quantiles: str) -> None:
    """Add the strategies, and how large places must be; ``quantiles`` says where small ones do not count."""
    command.add_argument("--strategies", metavar="NAME,...", help=STRATEGIES)
    command.add_argument(
        "--min-rows",
        type=int,
        default=10,
        metavar="N",
        help=f"places with fewer rows, or fewer than 5 events, do not count in {quantiles} (default 10)",
    )


def add_place(command: argparse.ArgumentParser) -> None:
    """Add the kind of place that is predicted."""
    command.add_argument(
        "--place",
        choices=["average", "new"],
        default="average",
        metavar="PLACE",
        help="average (the default) for an average place of the fit, or new for one that is not among them: averaged "
        "over shifts between places, which fit --place-variance measures",
    )


def add_jobs(command: argparse.ArgumentParser) -> None:
    """Add the number of processes."""
    command.add_argument("-j", "--jobs", type=jobs, default=1, metavar="N", help="processes; -1 for all cores")


def add_output(command: Any, what: str = "the table", files: str = FILES, **options: Any) -> None:
    """Add the option for a file, or with ``metavar`` for a folder; --out is another name of it."""
    text = f"write {what} to this {files} file, or as CSV to - (standard output)" if files else what
    command.add_argument("-o", "--output", help=text, **({"metavar": "FILE"} | options))
    again = {"metavar": "FILE"} | options | {"default": argparse.SUPPRESS, "required": False}
    command.add_argument("--out", dest="output", help=argparse.SUPPRESS, **again)


def add_plot(command: argparse.ArgumentParser, what: str) -> None:
    """Add the option for a figure."""
    command.add_argument("-p", "--plot", metavar="FILE", help=f"draw {what} to this .png, .pdf or .svg file")


def add_json(command: argparse.ArgumentParser, what: str = "the table") -> None:
    """Add the option for JSON."""
    command.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def template(options: Any) -> Any:
    """Return the model that the options describe."""
    from anchortm.cli.models import make_model

    return make_model(options.model, **{name: getattr(options, name) for name in ARGUMENTS})


def _separator(text: str) -> str:
    found = SEPARATORS.get(text, text)
    if len(found) != 1 or found in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} should be {', '.join(SEPARATORS)} or one character")
    return found


def _decimal(text: str) -> str:
    found = DECIMALS.get(text, text)
    if found not in DECIMALS.values():
        raise argparse.ArgumentTypeError(f"{text!r} should be point or comma")
    return found
