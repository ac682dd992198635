"""Choose xi."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from anchortm.cli.options import add_environments, add_json, add_model, add_output, add_plot, add_table
from anchortm.exceptions import AnchorTMError, InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    'anchortm choose cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center"',
    'anchortm choose cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --rule mean',
)
RULES = {  # what each rule asks
    "worst": "best for the worst of the left-out sites",
    "q90": "best for the 90 % quantile of the left-out sites",
    "mean": "best for left-out sites on average",
    "invariance": "smallest at which a test finds no trace of the sites",
    "shifts": "best for the worst of 95 % of shifts, whatever the data",
}
FEW_SITES = 10
FEW_ROWS = 10
LEVELS = {"worst": 1.0, "q90": 0.9}  # quantiles over the left-out sites


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command)
    add_model(command, "0,1,3,10,30,100")
    listed = "; ".join(f"{name}: {text}" for name, text in RULES.items()).replace("%", "%%")
    command.add_argument("-r", "--rule", choices=list(RULES), metavar="RULE", help=f"one rule in detail. {listed}")
    add_environments(command)
    add_output(command)
    add_plot(command, "the left-out sites, or the tests of --rule invariance,")
    add_json(command, "the choice and its table")


def run(options: Any) -> None:
    """Print what the rules choose, or one rule with its table."""
    from anchortm.cli.output import check_outputs, report
    from anchortm.cli.terminal import as_text, paint, paragraph

    check_outputs(options, options.data)
    if options.plot and options.rule == "shifts":
        raise InputError("--rule shifts has nothing to draw: leave --plot out")
    question = _Question(options)
    table, xi, advice = question.all_rules() if options.rule is None else question.rule(options.rule)

    def text() -> str:
        if options.rule is None:
            lines = [paint("What each rule would choose", "bold"), as_text(_readable(table), 40)]
            lines += ["", *_deciding(table)]
        else:
            marked = [k for k, chosen in enumerate(table["chosen"]) if chosen]
            shown = table.assign(chosen=["<- chosen" if chosen else "" for chosen in table["chosen"]])
            head = f"Rule {options.rule}: {RULES[options.rule]}"
            lines = [paint(head, "bold"), as_text(shown.rename(columns={"chosen": ""}), 40, marked)]
        return "\n".join([*lines, "", paragraph(advice)])

    record = {"rule": options.rule, "xi": xi, "table": table, "advice": advice}
    report(options, table, text, record, question.draw)


def _readable(table: Any) -> Any:
    """Return the table of rules, with a word for rules that choose nothing; the sites are named below it."""
    shown = table.drop(columns=["site", "rows"])
    return shown.assign(xi=["none" if xi != xi else f"{xi:.4g}" for xi in table["xi"]])


def _deciding(table: Any) -> list[str]:
    """Return which sites decide rules, with a caution where a few rows do."""
    from anchortm.cli.terminal import paragraph, shorten

    deciding = table[table["rows"].notna()].to_dict("records")
    lines = [f"{row['rule']} is decided by {shorten(str(row['site']), 40)} ({row['rows']} rows)" for row in deciding]
    caution = (
        f"Caution: with fewer than {FEW_ROWS} rows a site decides by chance; compare with mean, or leave such "
        "sites out of the table."
    )
    return [*lines, *([paragraph(caution)] if any(row["rows"] < FEW_ROWS for row in deciding) else [])]


class _Question:
    """The model and its rows, asked for xi; what several rules need is computed once."""

    def __init__(self, options: Any) -> None:
        from anchortm.cli.fits import environments, prepare

        self.options = options
        (self.model, self.formula, self.data), self.columns = prepare(options)
        if options.rule not in ("invariance", "shifts"):
            environments(options, "choose")
        self._loeo: Any = None
        self._tests: Any = None

    def left_out(self) -> Any:
        """Return the left-out sites, computed at the first call."""
        from anchortm.cli.fits import start_workers
        from anchortm.selection.left_out import leave_one_environment_out

        if self._loeo is None:
            start_workers(self.options.jobs)
            self._loeo = leave_one_environment_out(
                self.model,
                self.formula,
                self.data,
                self.options.environments,
                self.options.xi,
                cut=self.options.cut,
                n_jobs=self.options.jobs,
                **self.columns,
            )
        return self._loeo

    def tests(self) -> Any:
        """Return the smallest xi that the test of invariance accepts, with all tests."""
        from anchortm.selection.invariance_rule import xi_by_score_test

        if self._tests is None:
            self._tests = xi_by_score_test(self.model, self.formula, self.data, **self.columns)
        return self._tests

    def draw(self, ax: Any) -> None:
        """Draw what the rule looked at."""
        (self.tests() if self.options.rule == "invariance" else self.left_out()).plot(ax)

    def rule(self, name: str) -> tuple[Any, float | None, str]:
        """Return the table of a rule with the chosen row, its xi, and what to do."""
        import pandas as pd

        if name == "shifts":
            from anchortm import gamma_from_quantile, xi_from_gamma

            shares = [0.5, 0.8, 0.9, 0.95, 0.99]
            xis = [float(xi_from_gamma(gamma_from_quantile(share))) for share in shares]
            table = pd.DataFrame({"shifts covered": shares, "xi": xis, "chosen": [share == 0.95 for share in shares]})
            return table, xis[3], self._next(xis[3])
        if name == "invariance":
            found = self.tests()
            table = found.frame().copy()
            table["chosen"] = table["xi"] == found.xi if found.xi is not None else False
            if found.xi is None:
                return table, None, "No xi makes the residuals invariant: choose by left-out sites, --rule worst."
            return table, found.xi, self._next(found.xi)
        table = self._left_out_table(name)
        xi = float(table["xi"][table["chosen"]].iloc[0])
        return table, xi, self._next(xi)

    def _left_out_table(self, name: str) -> Any:
        """Return what a rule minimises for each xi, and which xi is best; fits that failed are not chosen."""
        frame = self.left_out().frame().dropna(subset=["nll"])  # sites that could not be predicted do not count
        grouped = frame.groupby("xi")
        nll, level = grouped["nll"], LEVELS.get(name)
        values = nll.mean() if level is None else nll.quantile(level)
        converged = grouped["converged"].all()
        if not converged.any():
            raise InputError("no --xi converged for all left-out sites: lower --order, or try smaller values")
        hardest = frame.loc[nll.idxmax().to_numpy()].set_index("xi")["environment"]
        table = values.to_frame("nll").assign(hardest=hardest, converged=converged).reset_index()
        return table.assign(chosen=table["xi"] == values[converged].idxmin())

    def all_rules(self) -> tuple[Any, float | None, str]:
        """Return what each rule chooses."""
        import pandas as pd

        from anchortm._util.progress import Task

        with Task("choose", 2) as task:
            self.left_out()
            task.step()
            with contextlib.suppress(AnchorTMError):  # a test that this model does not have
                self.tests()
        rows = []
        for name, asks in RULES.items():
            xi = None if name == "invariance" and self._tests is None else self.rule(name)[1]
            site, n = self._decides(name, xi)
            chosen = {"rule": name, "xi": float("nan") if xi is None else xi, "the xi that is": asks}
            rows.append({**chosen, "site": site, "rows": n})
        table = pd.DataFrame(rows).astype({"rows": "Int64"})
        return table, None, self._which(table)

    def _decides(self, name: str, xi: float | None) -> tuple[Any, int | None]:
        """Return the site whose score is the quantile that a rule looks at, the upper of two, and its rows."""
        if name not in LEVELS:
            return "", None
        frame = self.left_out().frame().dropna(subset=["nll"])
        own = frame[frame["xi"] == xi].sort_values("nll")
        row = own.iloc[math.ceil(LEVELS[name] * (len(own) - 1))]
        return row["environment"], int(row["n"])

    def _which(self, table: Any) -> str:
        """Return which rule suits these data."""
        sites = self.left_out().frame().environment.nunique()
        chosen = dict(zip(table["rule"], table["xi"], strict=True))
        if chosen["worst"] == 0.0 and chosen["mean"] == 0.0:
            return "No penalty helps the left-out sites: keep xi = 0."
        if sites < FEW_SITES:
            return (
                f"With {sites} sites the left-out rules are rough: look at several rules, and prefer the smaller xi if "
                f"the new site should be like these. {self._next(chosen['worst'])}"
            )
        return (
            "Use worst or q90 if the new site may differ as these do from each other, invariance to be safe against "
            f"larger shifts. {self._next(chosen['worst'])}"
        )

    def _next(self, xi: float) -> str:
        largest = max(self.options.xi)
        edge = " This is the largest that was tried: add larger ones to --xi." if xi == largest > 0 else ""
        return f"Next: anchortm fit with --xi {xi:.4g} and --save.{edge}"
