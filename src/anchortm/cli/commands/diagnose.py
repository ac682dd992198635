"""Ask whether anchoring is needed, can work, and has worked."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_json, add_model, add_output, add_table
from anchortm.exceptions import AnchorTMError, InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ('anchortm diagnose cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --xi 1',)
LEVEL = 0.05
MOST_SITES = 10


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command)
    add_model(command, "10")
    add_output(command, "all numbers")
    add_json(command, "all numbers")


def run(options: Any) -> None:
    """Print the three answers, and what follows from them."""
    from anchortm._util.progress import Task
    from anchortm.cli.fits import table_for
    from anchortm.cli.options import template
    from anchortm.cli.output import check_outputs, report
    from anchortm.models.given import given

    check_outputs(options, options.data)
    if len(options.xi) > 1:
        raise InputError(f"diagnose judges one fit: give a single --xi, not {len(options.xi)} values")
    model, data = template(options), table_for(options)
    rows = given(model, options.formula, data, sample_weight=options.weights, offset=options.offset)
    if rows.anchors is None:
        raise InputError("diagnose needs anchors: name them after '|' in --formula (y ~ x | place)")
    place = " and ".join(str(name) for name in rows.anchors.columns)
    questions = {
        "needed": lambda: _needed(rows, place),
        "can_work": lambda: _can_work(rows, place),
        "did": lambda: _did(rows, options.xi[0], place),
    }
    with Task("diagnose", len(questions)) as task:
        found = {name: _asked(question) for name, question in task.each(questions.items())}
    advice = _advice(found, options, place)
    record = {name: {key: value for key, value in answer.items() if key != "lines"} for name, answer in found.items()}
    report(options, _long(record), lambda: _text(found, place, advice), record | {"advice": advice})


def _asked(question: Any) -> dict[str, Any]:
    """Return an answer, or why there is none."""
    from anchortm.cli.words import in_shell

    try:
        answer: dict[str, Any] = question()
    except AnchorTMError as error:
        return {"answer": "not known", "reason": in_shell(str(error)), "lines": [in_shell(str(error))]}
    return answer


def _fitted(rows: Any, xi: float) -> Any:
    from sklearn.base import clone

    extra = {"anchors": rows.anchors, "sample_weight": rows.sample_weight, "offset": rows.offset}
    return clone(rows.model).set_params(xi=xi).fit(rows.X, rows.y, **extra)


def _needed(rows: Any, place: str) -> dict[str, Any]:
    """Return whether the sites still matter after the covariates."""
    from anchortm.diagnostics import score_test

    extra = {"sample_weight": rows.sample_weight, "offset": rows.offset}
    test = score_test(rows.model, rows.X, rows.y, rows.anchors, **extra)
    yes = test.pvalue < LEVEL
    lines = [
        f"Score test: {test.statistic:.4g} on {test.df} degree{'s' if test.df != 1 else ''} of freedom, "
        f"p = {test.pvalue:.3g}. The residuals {'depend' if yes else 'do not clearly depend'} on {place}."
    ]
    facts = {"statistic": test.statistic, "df": test.df, "pvalue": test.pvalue, "method": test.method}
    return {"answer": "yes" if yes else "not seen", **facts, "lines": lines}


def _can_work(rows: Any, place: str) -> dict[str, Any]:
    """Return how much the sites shift the covariates."""
    from anchortm.diagnostics import first_stage
    from anchortm.diagnostics.relevance import WEAK

    X = rows.X[rows.formula.design_columns()] if hasattr(rows.X, "columns") else rows.X
    table = first_stage(X, rows.anchors).frame()
    weak = table.index[table["F"] < WEAK].tolist()
    some = len(weak) < len(table)
    lines = [table[["R2", "F", "pvalue", "partial_R2"]].reset_index()]
    if weak:
        lines.append(
            f"F below {WEAK:g}, weak by the usual rule: {', '.join(map(str, weak))}. A penalty says little about "
            f"coefficients of covariates that {place} does not shift."
        )
    seen = bool((table["pvalue"] < LEVEL).any())
    answer = "yes" if not weak else "in part" if some else "weakly" if seen else "hardly"
    return {"answer": answer, "covariates": table.reset_index(), "weak": weak, "lines": lines}


def _did(rows: Any, xi: float, place: str) -> dict[str, Any]:
    """Return how residuals depend on the sites, without and with the penalty."""
    from anchortm.diagnostics import residual_invariance

    before, after = _fitted(rows, 0.0), _fitted(rows, xi)
    found = residual_invariance(before, after, rows.X, rows.y, rows.anchors, offset=rows.offset)
    first, last = found.explained
    table = found.frame()
    order = table["mean_before"].abs().sort_values(ascending=False).index
    shown = table.loc[order, ["level", "n", "mean_before", "mean_after"]].head(MOST_SITES)
    means = {"mean_before": "at xi = 0", "mean_after": f"at xi = {xi:g}"}
    lines: list[Any] = [
        f"Share of the residual variance that {place} explains: {first:.3g} at xi = 0, {last:.3g} at xi = {xi:g}."
    ]
    if shown[["mean_before", "mean_after"]].notna().all(axis=None):
        more = f", of {len(table)}" if len(table) > MOST_SITES else ""
        lines += [f"Mean residuals, the largest first{more}:", shown.rename(columns={"level": place} | means)]
    answer = "yes" if last < 0.5 * first else "in part" if last < 0.9 * first else "hardly"
    facts = {"xi": xi, "explained_before": first, "explained_after": last, "sites": table}
    return {"answer": answer, **facts, "lines": lines}


def _advice(found: dict[str, Any], options: Any, place: str) -> str:
    """Return one line on what to do."""
    if found["needed"]["answer"] == "not seen":
        return f"There is no evidence that {place} matters once the covariates are known: keep xi = 0."
    if found["can_work"]["answer"] == "hardly":
        return (
            f"{place} hardly shifts the covariates, so a penalty mostly widens predictions: before you use one, "
            "compare with anchortm loeo."
        )
    if found["can_work"]["answer"] == "weakly":
        return (
            f"{place} shifts the covariates weakly for its number of levels: compare values of xi with anchortm loeo."
        )
    if found["needed"]["answer"] == "not known":
        return "Compare values of xi with anchortm loeo."
    return "Anchoring is worth trying: anchortm choose, with the same options, finds a value of xi."


def _text(found: dict[str, Any], place: str, advice: str) -> str:
    from anchortm.cli.terminal import as_text, paint, paragraph

    questions = {
        "needed": f"Does {place} still matter after the covariates?",
        "can_work": f"Does {place} shift the covariates?",
        "did": "Did the penalty make residuals less dependent on it?",
    }
    parts = []
    for k, (name, question) in enumerate(questions.items()):
        answer = found[name]
        style = {"yes": "green", "in part": "yellow", "weakly": "yellow", "hardly": "yellow"}.get(
            answer["answer"], "bold"
        )
        parts.append(f"{k + 1}. {paint(question, 'bold')} {paint(answer['answer'], style)}")
        parts += [
            paragraph(line, "   ") if isinstance(line, str) else as_text(line, 30, indent="   ")
            for line in answer["lines"]
        ]
        parts.append("")
    return "\n".join([*parts, paragraph(advice)])


def _long(record: dict[str, Any]) -> Any:
    """Return all numbers as a table: question, item, quantity, value."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for question, answer in record.items():
        for quantity, value in answer.items():
            if isinstance(value, pd.DataFrame):
                names = [name for name in ("covariate", "anchor", "level") if name in value]
                for row in value.to_dict("records"):
                    item = " ".join(str(row.pop(name)) for name in names)
                    own = ({"quantity": key, "value": str(v)} for key, v in row.items())
                    rows += [{"question": question, "item": item, **each} for each in own]
            elif not isinstance(value, list):
                rows.append({"question": question, "item": "", "quantity": quantity, "value": str(value)})
    return pd.DataFrame(rows)
