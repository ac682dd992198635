"""The commands. Slow imports wait until a command needs them."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from anchortm.cli.models import make_model
from anchortm.cli.words import in_shell
from anchortm.exceptions import InputError

__all__ = ["bench", "completion", "data", "demo", "fit", "loeo", "path", "predict", "reproduce"]

PICTURES = (".png", ".pdf", ".svg")
ARGUMENTS = (
    "order",
    "support",
    "log_first",
    "l1",
    "l2",
    "varying",
    "scale",
    "missing",
)  # options that are parameters of the model
TECHNICAL = ["kkt", "min_eigenvalue", "convexity", "lower_minimum_known"]  # columns that the terminal leaves out


def _template(options: Any) -> Any:
    """Return the model that the options describe."""
    return make_model(options.model, **{name: getattr(options, name) for name in ARGUMENTS})


def _prepare(options: Any) -> tuple[tuple[Any, str, Any], dict[str, Any]]:
    """Return the model with the formula and its table, and the columns of weights and offset."""
    from anchortm.cli.tables import read_table

    columns = {"sample_weight": options.weights, "offset": options.offset}
    return (_template(options), options.formula, read_table(options.data)), columns


def demo(options: Any) -> None:
    """Print the tables of the demonstration and write its figures."""
    from anchortm.cli.demo import run
    from anchortm.cli.tables import as_json

    quiet = (lambda _: None) if options.json else print
    found = run(Path(options.output), quiet)
    if options.json:
        tables = {key: found[key].rename_axis("model").reset_index().to_dict("records") for key in ("worst", "median")}
        print(as_json(tables | {"figures": found["figures"]}))


def data(options: Any) -> None:
    """Write a shipped data set to a file."""
    from anchortm.cli.tables import check_output, write_table
    from anchortm.datasets import LOADERS

    check_output(options.output)
    table = LOADERS[options.name]()
    write_table(table, options.output)
    print(f"{len(table)} rows with the columns {', '.join(table.columns)} are in {options.output}")


def fit(options: Any) -> None:
    """Fit one model and print its summary, or several along xi and print a table."""
    from anchortm.cli.tables import as_json, as_text, check_output, in_batches, read_table, write_table
    from anchortm.saving import save
    from anchortm.selection.path import anchor_path

    check_output(options.output)
    check_output(options.save, (".json",))
    _apart(options.data, options.output, options.save)
    batches = options.batches or in_batches(options.data)
    if len(options.xi) > 1:
        if batches:
            raise InputError("a table that is read in batches needs a single --xi: run one command for each value")
        if options.save:
            raise InputError(f"--save needs a single --xi, not {len(options.xi)} values")
        rows, columns = _prepare(options)
        table = anchor_path(*rows, xis=options.xi, **columns).frame()
        shown = as_json(table) if options.json else as_text(table.drop(columns=TECHNICAL))
    else:
        template = _template(options)
        model = type(template).from_formula(
            options.formula,
            options.data if batches else read_table(options.data),
            sample_weight=options.weights,
            offset=options.offset,
            **(template.get_params(deep=False) | {"xi": options.xi[0]}),
        )
        summary = model.summary()
        summary = replace(summary, warnings=tuple(map(in_shell, summary.warnings)))
        table = summary.frame().reset_index()
        shown = as_json(_facts(model, summary, table)) if options.json else str(summary)
        if options.save:
            save(model, options.save)
            print(f"saved to {options.save}", file=sys.stderr)
    _write(table, options.output, write_table)
    print(shown)


def _facts(model: Any, summary: Any, table: Any) -> dict[str, Any]:
    """Return the numbers of a fit, for scripts."""
    names = ("xi", "n_rows", "n_anchors", "loglik", "loss", "penalty", "converged", "kkt", "min_eigenvalue", "n_iter")
    return {
        "model": type(model).__name__,
        **{name: getattr(model, f"{name}_") for name in names},
        "coefficients": table.to_dict("records"),
        "baseline": summary.baseline,
        "support": getattr(model, "support_", None),
        "notes": list(summary.warnings),
    }


def _apart(*paths: str | None) -> None:
    """Refuse outputs that would overwrite the input or each other."""
    given = [os.path.realpath(path) for path in paths if path is not None]
    if len(set(given)) < len(given):
        raise InputError("input and outputs must be different files: rename one of them")


def _write(table: Any, path: str | None, write: Callable[[Any, str], None]) -> None:
    if path is not None:
        write(table, path)
        print(f"written to {path}", file=sys.stderr)


def _report(options: Any, table: Any, shown: Any, draw: Callable[[Any], Any]) -> None:
    """Write, draw and print a table, in this order, so that files are written even if the reader of a pipe stops."""
    from anchortm.cli.tables import as_json, as_text, write_table

    _write(table, options.output, write_table)
    if options.plot is not None:
        from anchortm._util.files import write_figure

        figure = _figure()
        draw(figure.subplots())
        write_figure(options.plot, figure, 150)
        print(f"drawn to {options.plot}", file=sys.stderr)
    print(as_json(table) if options.json else as_text(shown))


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'anchortm[plot]'") from None
    return Figure(figsize=(7.5, 4.5), layout="constrained")


def _check_outputs(options: Any) -> None:
    from anchortm.cli.tables import check_output

    check_output(options.output)
    check_output(options.plot, PICTURES)
    _apart(options.data, options.output, options.plot)
    if options.plot is not None:
        _figure()


def path(options: Any) -> None:
    """Print, write and draw a path in xi."""
    from anchortm.selection.path import anchor_path

    _check_outputs(options)
    rows, columns = _prepare(options)
    found = anchor_path(*rows, xis=options.xi, **columns)
    table = found.frame()
    _report(options, table, table.drop(columns=TECHNICAL), found.plot)


def loeo(options: Any) -> None:
    """Print, write and draw the left-out environments."""
    from anchortm.inputs.formula.grammar import parse_formula
    from anchortm.selection.left_out import leave_one_environment_out

    _check_outputs(options)
    rows, columns = _prepare(options)
    anchors = [name for name, _ in parse_formula(options.formula).anchors]
    if not anchors and not options.environments:
        raise InputError("loeo needs environments: name the anchors after '|' in --formula, or give --environments")
    if len(anchors) > 1 and not options.environments:
        raise InputError(f"there are several anchors: choose --environments from {', '.join(anchors)}")
    _start_workers(options.jobs)
    result = leave_one_environment_out(
        *rows, options.environments, options.xi, cut=options.cut, n_jobs=options.jobs, **columns
    )
    if not options.json:
        print(f"{result.frame().environment.nunique()} environments, each predicted by fits to the others (mean nll)")
    _report(options, result.frame(), result.summary().reset_index(), result.plot)


def _start_workers(jobs: int) -> None:
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


def predict(options: Any) -> None:
    """Predict with a saved model; Parquet to Parquet in batches."""
    from anchortm.cli.tables import as_json, as_text, check_output, in_batches, read_table, write_table
    from anchortm.predict.tables import predict_table
    from anchortm.saving import load

    check_output(options.output)
    _apart(options.model, options.data, options.output)
    model = load(options.model)
    wanted = {
        "quantiles": options.quantiles,
        "keep": options.keep.split(",") if options.keep else [],
        "cdf": _outcomes(model, options.cdf),
        "sf": _outcomes(model, options.sf),
        "extrapolation": options.extrapolation,
    }
    many = in_batches(options.data)
    if many or (not options.json and all(str(file).endswith(".parquet") for file in (options.data, options.output))):
        predict_table(model, options.data, options.output, **wanted)
        print(f"written to {options.output}", file=sys.stderr)
        return
    table = predict_table(model, read_table(options.data), **wanted)
    _write(table, options.output, write_table)
    if options.json:
        print(as_json(table))
    elif options.output is None:
        print(as_text(table))


def _outcomes(model: Any, text: str) -> list[Any]:
    return [_outcome(model, point.strip()) for point in text.split(",")] if text else []


def _outcome(model: Any, text: str) -> Any:
    """Return an outcome that was written in the shell: a class by its name, or a number."""
    for level in getattr(model, "classes_", []):
        if str(level) == text:
            return level
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} is neither a number nor a class of this model") from None


def reproduce(options: Any) -> None:
    """Run parts of the reproduction and print the table of claims."""
    from anchortm.cli.tables import as_json
    from anchortm.reproduce.engine import Options
    from anchortm.reproduce.table import claim_frame
    from anchortm.reproduce.table import reproduce as run

    for name, least in (("runs", 2), ("trees", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"--{name} must be at least {least}, not {value}")
    _figure()  # fail early if matplotlib is missing
    how = Options(options.runs, options.jobs, options.seed, None, options.trees)
    quiet = (lambda text: print(text, file=sys.stderr)) if options.json else print
    _start_workers(options.jobs)
    claims = run(options.parts, Path(options.out), how, fresh=options.fresh, say=quiet)
    if options.json:
        print(as_json(claim_frame(claims)))
        return
    width = shutil.get_terminal_size((120, 24)).columns
    for claim in claims:
        print(f"\n{claim.id}  {claim.verdict.upper()}")
        for text in (claim.sentence, claim.measured, claim.reason):
            if text:
                print(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  "))
    counts = Counter(claim.verdict for claim in claims)
    print(f"\n{len(claims)} claims: {', '.join(f'{n} {verdict}' for verdict, n in counts.most_common())}.")
    print(f"Figures, tables and claims are in {options.out}.")


def bench(options: Any) -> None:
    """Run the benchmark and print its report."""
    from anchortm.bench.engine import FULL, QUICK, Options
    from anchortm.bench.suite import FIGURE, check_parts, run

    repeats = (1 if options.quick else 3) if options.repeats is None else options.repeats
    if repeats < 1:
        raise InputError(f"--repeats must be at least 1, not {repeats}")
    if FIGURE in check_parts(options.only):
        _figure()  # fail early if matplotlib is missing
    how = Options(QUICK if options.quick else FULL, repeats)
    print(run(options.only, Path(options.out), how, lambda text: print(text, file=sys.stderr, flush=True)))
    print(f"Written to {options.out}.", file=sys.stderr)


def completion(options: Any) -> None:
    """Print the completion script of a shell."""
    try:
        import shtab
    except ImportError:
        raise InputError("completion scripts need shtab: pip install 'anchortm[cli]'") from None
    print(shtab.complete(options.parser(), options.shell))
