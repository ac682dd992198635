"""What each command does with its options. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anchortm.cli.models import make_model
from anchortm.exceptions import InputError

__all__ = ["completion", "data", "demo", "fit", "loeo", "path", "predict"]

PICTURES = (".png", ".pdf", ".svg")
TECHNICAL = ["kkt", "min_eigenvalue", "convexity", "lower_minimum_known"]  # columns that a terminal does not need


def _prepare(options: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return the model, the formula with its data, and weights and offset."""
    from anchortm.cli.tables import read_table
    from anchortm.formula import Formula

    model = make_model(options.model, order=options.order, support=options.support, log_first=options.log_first)
    made = Formula(options.formula, read_table(options.data))
    return model, made, {"sample_weight": made.column(options.weights), "offset": made.column(options.offset)}


def demo(options: Any) -> None:
    """Show the tables of the demonstration and write its figures."""
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
    from anchortm.cli.tables import as_json, as_text, check_output, read_table, write_table
    from anchortm.path import anchor_path
    from anchortm.persistence import save

    check_output(options.output)
    check_output(options.save, (".json",))
    if len(options.xi) > 1:
        if options.save:
            raise InputError(f"--save takes one model, and there are {len(options.xi)} values of --xi")
        model, made, extra = _prepare(options)
        table = anchor_path(model, made.X, made.y, made.anchors, options.xi, **extra).frame()
        print(as_json(table) if options.json else as_text(table.drop(columns=TECHNICAL)))
    else:
        template = make_model(options.model, order=options.order, support=options.support, log_first=options.log_first)
        parameters = template.get_params(deep=False) | {"xi": options.xi[0]}
        model = type(template).from_formula(
            options.formula,
            read_table(options.data),
            sample_weight=options.weights,
            offset=options.offset,
            **parameters,
        )
        summary = model.summary()
        table = summary.frame().reset_index()
        if options.json:
            facts = {"facts": summary.facts, "coefficients": table.to_dict("records"), "baseline": summary.baseline}
            print(as_json({"title": summary.title} | facts | {"notes": list(summary.warnings)}))
        else:
            print(summary)
        if options.save:
            save(model, options.save)
            print(f"saved to {options.save}", file=sys.stderr)
    _write(table, options.output, write_table)


def _write(table: Any, path: str | None, write: Callable[[Any, str], None]) -> None:
    if path is not None:
        write(table, path)
        print(f"written to {path}", file=sys.stderr)


def _report(options: Any, table: Any, shown: Any, draw: Callable[[Any], Any]) -> None:
    """Print, write and draw a table."""
    from anchortm.cli.tables import as_json, as_text, write_table

    print(as_json(table) if options.json else as_text(shown))
    _write(table, options.output, write_table)
    if options.plot is not None:
        from anchortm.files import write_whole

        figure = _figure()
        draw(figure.subplots())
        write_whole(options.plot, lambda file: figure.savefig(file, dpi=150))
        print(f"drawn to {options.plot}", file=sys.stderr)


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
    if options.plot is not None:
        _figure()


def path(options: Any) -> None:
    """Print, write and draw a path in xi."""
    from anchortm.path import anchor_path

    _check_outputs(options)
    model, made, extra = _prepare(options)
    found = anchor_path(model, made.X, made.y, made.anchors, options.xi, **extra)
    table = found.frame()
    _report(options, table, table.drop(columns=TECHNICAL), found.plot)


def loeo(options: Any) -> None:
    """Print, write and draw the left-out environments."""
    from anchortm.evaluation import leave_one_environment_out

    _check_outputs(options)
    model, made, extra = _prepare(options)
    if made.anchors is None:
        raise InputError("name the anchors after '|' in the formula")
    if options.environments:
        environments = made.column(options.environments)
    elif made.anchors.shape[1] == 1:
        environments = made.anchors.iloc[:, 0]
    else:
        raise InputError(f"with several anchors name the --environments: {', '.join(made.anchors.columns)}")
    result = leave_one_environment_out(
        model,
        made.X,
        made.y,
        environments,
        options.xi,
        anchors=made.anchors,
        cut=options.cut,
        n_jobs=options.jobs,
        **extra,
    )
    if not options.json:
        print(f"{result.frame().environment.nunique()} environments, each predicted by fits to the others (mean nll)")
    _report(options, result.frame(), result.summary().reset_index(), result.plot)


def predict(options: Any) -> None:
    """Predict with a saved model."""
    import pandas as pd

    from anchortm.cli.tables import as_json, as_text, check_output, read_table, write_table
    from anchortm.persistence import load

    check_output(options.output)
    model, new = load(options.model), read_table(options.data)
    distribution = model.predict_distribution(new)
    columns: dict[str, Any] = {}
    for name in (options.keep or "").split(",") if options.keep else []:
        if name not in new:
            raise InputError(f"--keep: there is no column {name!r} in {options.data}")
        columns[name] = new[name].to_numpy()
    if not (options.quantiles or options.cdf or options.sf):
        columns["prediction"] = model.predict(new)
    for q in options.quantiles:
        columns[f"q{q:g}"] = distribution.ppf(q)
    classes = {float(level): level for level in getattr(model, "classes_", []) if _is_number(level)}
    for name, points in (("cdf", options.cdf), ("sf", options.sf)):
        for y in points:
            columns[f"{name}_{y:g}"] = getattr(distribution, name)(classes.get(y, y))
    if hasattr(model, "classes_") and not options.quantiles:
        for level, p in zip(model.classes_, model.predict_proba(new).T, strict=True):
            columns[f"p_{level}"] = p
    table = pd.DataFrame(columns)
    _write(table, options.output, write_table)
    if options.json:
        print(as_json(table))
    elif options.output is None:
        print(as_text(table))


def _is_number(level: Any) -> bool:
    try:
        float(level)
    except (TypeError, ValueError):
        return False
    return not isinstance(level, str)


def completion(options: Any) -> None:
    """Print the completion script of a shell."""
    try:
        import shtab
    except ImportError:
        raise InputError("completion scripts need shtab: pip install 'anchortm[cli]'") from None
    print(shtab.complete(options.parser(), options.shell))
