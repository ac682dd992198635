"""Parse the arguments, run the command, and report errors without tracebacks."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anchortm import __version__
from anchortm._messages import plain_lines
from anchortm.cli import commands
from anchortm.cli.models import MODELS
from anchortm.cli.words import in_shell
from anchortm.exceptions import AnchorTMError, AnchorTMWarning

__all__ = ["main", "parser"]

FAILED, INTERRUPTED = 1, 130
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: success, 1: failure, 2: wrong usage, 130: interrupted, 143: terminated (128 plus the number of the signal).
    """
    with _forgiving(sys.stdout), _plain_streams():
        return _run(parser().parse_args(arguments))


def _run(options: Any) -> int:
    def say(message: Any) -> str:
        return in_shell(str(message), getattr(options, "data", None))

    with warnings.catch_warnings(), _signals() as received:
        warnings.simplefilter("always", AnchorTMWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {say(message)}", file=sys.stderr)
        try:
            options.run(options)
            print(end="", flush=True)
        except KeyboardInterrupt:
            print("interrupted; no file was left half written", file=sys.stderr)
            return 128 + received[0] if received else INTERRUPTED
        except BrokenPipeError:  # the program that reads our output has stopped reading
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Exception as error:
            if options.debug:
                traceback.print_exc()
            if isinstance(error, OSError) and error.errno in UNWRITABLE:
                print(f"error: cannot write {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
                return FAILED
            known = isinstance(error, AnchorTMError)
            print(f"error: {say(error)}" if known else f"error: {type(error).__name__}: {error}", file=sys.stderr)
            if not known and not options.debug:
                print("This may be a bug in anchortm: --debug shows where it happened.", file=sys.stderr)
            return FAILED
    return 0


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that files and workers are cleaned up; yield the signals received."""
    received: list[int] = []

    def end(number: int, _: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    # in the main thread only, and not if something else, such as nohup, handles the signal
    ours = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if ours and hasattr(signal, name)]
    taken = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _forgiving(stream: Any) -> Iterator[None]:
    """Let a stream write letters that its encoding lacks as codes."""
    if not hasattr(stream, "reconfigure"):
        yield
        return
    before = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # the stream is closed
            stream.reconfigure(errors=before)


class _Plain:
    """A stream that writes control characters as codes, because data may contain escapes that a terminal obeys."""

    def __init__(self, stream: Any, keep: str) -> None:
        self._stream, self._keep = stream, keep

    def write(self, text: str) -> Any:
        return self._stream.write(plain_lines(text, self._keep))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _plain_streams() -> Iterator[None]:
    """Print control characters as codes; progress bars may still return to the start of their line."""
    # a stream that the shell has closed is None
    out: Any = sys.stdout and _Plain(sys.stdout, "\n\t")
    err: Any = sys.stderr and _Plain(sys.stderr, "\n\t\r")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} should be numbers joined by commas, such as 0,1,10") from None


def _jobs(text: str) -> int:
    if not text.lstrip("-").isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} should be a number of processes, or -1 for all cores")
    return int(text)


def _pair(text: str) -> tuple[float, float]:
    values = _numbers(text)
    if len(values) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} should be two numbers joined by a comma, such as 0,100")
    return values[0], values[1]


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="anchortm",
        description="Distributional anchor regression: predict whole distributions that hold up at a new place.",
    )
    top.add_argument("--version", action="version", version=f"anchortm {__version__}")
    choices = top.add_subparsers(dest="command", required=True, metavar="command")

    def add(name: str, run: Callable[[Any], None], about: str, *examples: str) -> argparse.ArgumentParser:
        lines = "\n".join(f"  {example}" for example in examples)
        command = choices.add_parser(
            name,
            help=about[0].lower() + about[1:].split(".")[0],
            description=about,
            epilog=f"{'examples' if len(examples) > 1 else 'example'}:\n{lines}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run)
        command.add_argument("--debug", action="store_true", help="show where an error happened")
        return command

    demo = add(
        "demo",
        commands.demo,
        "Show what anchoring does, on house prices in 92 towns.",
        "anchortm demo --output figures",
    )
    demo.add_argument("--output", default="anchortm-demo", metavar="FOLDER", help="folder for the figures")
    demo.add_argument("--json", action="store_true", help="print the tables as JSON")

    data = add(
        "data",
        commands.data,
        "Write one of the data sets that come with anchortm to a file.",
        "anchortm data boston_housing2 --output boston.csv",
        "anchortm data cgd --output cgd.csv",
    )
    data.add_argument("name", choices=["ames", "boston_housing2", "cgd", "computers", "geyser", "grouseticks", "wine"])
    data.add_argument("--output", required=True, metavar="FILE", help=".csv, .parquet or .json")

    fit = add(
        "fit",
        commands.fit,
        "Fit a model to a table and print its summary. With several xi, a table of all fits.",
        'anchortm fit boston.csv --model c-logit --formula "cmedv ~ rm + lstat | town" --xi 10 --save price.json',
        'anchortm fit cgd.csv --model cox --formula "Surv(tstop, status) ~ treat + age | center" --xi 0,1,10',
    )
    _add_model(fit)
    fit.add_argument(
        "--batches",
        action="store_true",
        help="read a .parquet file in batches, for tables larger than memory; folders and quoted patterns of files are "
        "always read so",
    )
    fit.add_argument("--save", metavar="FILE", help="write the fitted model to this .json file (one xi)")
    fit.add_argument("--output", metavar="FILE", help="write the coefficients to this .csv, .parquet or .json file")
    fit.add_argument("--json", action="store_true", help="print the result as JSON")

    path = add(
        "path",
        commands.path,
        "Fit a model along xi. Prints loss and coefficients for each value.",
        'anchortm path boston.csv --model lm --formula "cmedv ~ rm + lstat | town" --xi 0,1,10 --plot path.png',
    )
    _add_model(path, "0,1,10,100,1000")
    _add_outputs(path, "the coefficients along xi")

    loeo = add(
        "loeo",
        commands.loeo,
        "Leave each environment out in turn and predict it from the others, for each xi.",
        'anchortm loeo cgd.csv --model weibull --formula "Surv(tstop, status) ~ treat + age | center" --plot loeo.png',
    )
    _add_model(loeo, "0,1,10,100,1000")
    loeo.add_argument("--environments", metavar="COLUMN", help="column of the environments (default: the anchor)")
    loeo.add_argument("--cut", type=int, metavar="K", help="cut numeric environments at quantiles into K groups")
    loeo.add_argument("--jobs", type=_jobs, default=1, help="processes; -1 for all cores")
    _add_outputs(loeo, "the left-out environments")

    predict = add(
        "predict",
        commands.predict,
        "Predict distributions of new rows with a saved model. Without options, prints their medians or classes.",
        "anchortm predict price.json boston.csv --quantiles 0.1,0.5,0.9 --sf 30,50 --output predictions.csv",
    )
    predict.add_argument("model", help="a file written by anchortm fit --save")
    predict.add_argument(
        "data",
        help="a .csv or .parquet file, or a folder or quoted pattern of .parquet files, with the formula's columns",
    )
    predict.add_argument(
        "--quantiles", type=_numbers, default=[], metavar="Q,...", help="quantiles, such as 0.1,0.5,0.9"
    )
    predict.add_argument("--cdf", default="", metavar="Y,...", help="P(Y <= y) at these outcomes or classes")
    predict.add_argument("--sf", default="", metavar="Y,...", help="P(Y > y) at these outcomes or classes")
    predict.add_argument("--keep", metavar="COLUMN,...", help="columns of the data to repeat in the output")
    predict.add_argument(
        "--extrapolation",
        action="store_true",
        help="name covariates outside the training range, and flag quantiles beyond it",
    )
    predict.add_argument("--output", metavar="FILE", help="write all rows to this .csv, .parquet or .json file")
    predict.add_argument("--json", action="store_true", help="print all rows as JSON")

    reproduce = add(
        "reproduce",
        commands.reproduce,
        "Compute the figures and claims of the paper, and judge each claim.",
        "anchortm reproduce boston identities --out paper",
        "anchortm reproduce la iv1 --runs 5 --out paper",
    )
    reproduce.add_argument(
        "parts", nargs="*", metavar="PART", help="identities, boston, la, nla, nla-boosting, iv1, iv2, or all"
    )
    reproduce.add_argument(
        "--runs", type=int, metavar="N", help="runs of each simulation (default: the published number)"
    )
    reproduce.add_argument("--jobs", type=_jobs, default=1, help="processes; -1 for all cores")
    reproduce.add_argument("--seed", type=int, default=1, help="seed of all random numbers")
    reproduce.add_argument("--trees", type=int, default=20, help="number of trees of each forest in nla-boosting")
    reproduce.add_argument(
        "--out", default="reproduction", metavar="FOLDER", help="folder for figures, tables and claims"
    )
    reproduce.add_argument("--fresh", action="store_true", help="compute again even if results are stored")
    reproduce.add_argument("--json", action="store_true", help="print the claims as JSON")

    bench = add(
        "bench",
        commands.bench,
        "Measure speed and memory side by side with peers, as ratios in one run.",
        "anchortm bench --quick --only import cvxpy --out bench",
    )
    bench.add_argument("--out", default="bench", metavar="FOLDER", help="folder for results.md and the figure")
    bench.add_argument("--quick", action="store_true", help="small sizes: takes about a minute, and no bar is judged")
    bench.add_argument("--only", nargs="+", default=[], metavar="PART", help="parts to run (default: all)")
    bench.add_argument(
        "--repeats", type=int, metavar="N", help="number of runs, of which the fastest counts (default 3, quick 1)"
    )

    completion = add(
        "completion",
        commands.completion,
        "Print a script that completes commands and options in your shell.",
        "anchortm completion bash > anchortm-completion.bash",
    )
    completion.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    completion.set_defaults(parser=parser)
    return top


def _add_model(command: argparse.ArgumentParser, xis: str = "0") -> None:
    command.add_argument("data", help="a .csv or .parquet file")
    command.add_argument("--formula", required=True, help="outcome ~ covariates | anchors")
    command.add_argument("--model", required=True, choices=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    command.add_argument(
        "--xi", type=_numbers, default=_numbers(xis), metavar="XI,...", help=f"default {xis}; inf is allowed"
    )
    command.add_argument("--order", type=int, help="order of the Bernstein polynomials")
    command.add_argument(
        "--support",
        type=_pair,
        metavar="LOW,HIGH",
        help="their support; write --support=-3,4 if it begins with a minus",
    )
    command.add_argument("--log-first", action="store_true", default=None, help="use the basis in log y")
    command.add_argument("--l1", type=float, help="strength of the lasso penalty on the coefficients")
    command.add_argument("--l2", type=float, help="strength of the ridge penalty on the coefficients")
    command.add_argument("--varying", metavar="TERMS", help="terms whose effects vary along the outcome, such as x + z")
    command.add_argument("--scale", metavar="TERMS", help="terms that also change the spread of the outcome")
    command.add_argument("--weights", metavar="COLUMN", help="column of weights")
    command.add_argument("--offset", metavar="COLUMN", help="column of offsets")
    command.add_argument(
        "--missing", choices=["error", "drop"], help="what to do with rows that have missing values (default: error)"
    )


def _add_outputs(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--output", metavar="FILE", help="write the table to this .csv, .parquet or .json file")
    command.add_argument("--plot", metavar="FILE", help=f"draw {what} to this .png, .pdf or .svg file")
    command.add_argument("--json", action="store_true", help="print the table as JSON")
