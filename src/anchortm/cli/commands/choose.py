"""Choose xi."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from anchortm.cli.options import add_environments, add_json, add_model, add_output, add_plot, add_table
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    'anchortm choose cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center"',
    'anchortm choose cgd.csv -m weibull -f "Surv(tstop, status) ~ treat + age | center" --rule mean',
)
RULES = {  # what each rule asks
    "mean": "best for left-out sites on average",
    "q90": "best for the 90 % quantile of the sites",
    "worst": "best for the worst of the left-out sites",
    "further": "best for the outermost sites together",
    "invariance": "smallest that passes the invariance test",
    "shifts": "best for the worst of 95 % of shifts",
}
FOR = {  # where a rule helps to predict; the others are diagnostics
    "mean": "a site like these",
    "q90": "a site like these",
    "worst": "a site like these",
    "further": "a site further out",
    "invariance": "(diagnostic)",
    "shifts": "(diagnostic)",
}
FEW_SITES = 10
FEW_ROWS = 10  # sites with fewer rows do not decide
OBJECTIVES: dict[str, str | float] = {"mean": "mean", "q90": 0.9, "worst": "worst"}


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
            lines = [paint("What each rule would choose", "bold"), as_text(_readable(table), 52)]
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
    """Return which sites are the hardest for the rules that look at single sites."""
    from anchortm.cli.terminal import shorten

    deciding = table[table["rows"].notna()].to_dict("records")
    return [f"hardest site of {row['rule']}: {shorten(str(row['site']), 40)} ({row['rows']} rows)" for row in deciding]


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
        self._far: Any = None

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

    def further(self) -> Any:
        """Return the search by the outermost sites, computed at the first call."""
        from anchortm.selection.searches import XiSearchCV

        if self._far is None:
            options = self.options
            search = XiSearchCV(self.model, options.xi, design="further", cut=options.cut, n_jobs=options.jobs)
            self._far = search.fit(self.formula, self.data, environments=options.environments, **self.columns)
        return self._far

    def draw(self, ax: Any) -> None:
        """Draw what the rule looked at."""
        drawn = {"invariance": self.tests, "further": self.further}.get(self.options.rule, self.left_out)
        drawn().plot(ax)

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
                return table, None, "No xi makes the residuals invariant: choose by left-out sites, --rule q90."
            return table, found.xi, self._next(found.xi)
        if name == "further":
            search = self.further()
            table = search.results_.reset_index()
            table["chosen"] = table["xi"] == search.best_xi_
            said = search.verdict_.sentence
            return table, search.best_xi_, f"{said[0].upper()}{said[1:]}. {self._next(search.best_xi_)}"
        table, remark = self._left_out_table(name)
        xi = float(table["xi"][table["chosen"]].iloc[0])
        return table, xi, " ".join([*([f"{remark[0].upper()}{remark[1:]}."] if remark else []), self._next(xi)])

    def _left_out_table(self, name: str) -> tuple[Any, str]:
        """Return what a rule minimises for each xi, with the xi that it takes, and which sites do not count."""
        from anchortm.selection.choice import Rule

        frame = self.left_out().frame()
        if not frame.groupby("xi")["converged"].all().any():
            raise InputError("no --xi converged for all left-out sites: lower --order, or try smaller values")
        rule = Rule.of(OBJECTIVES[name], "paired", False, FEW_ROWS)
        at, results = rule.choose(frame, ("xi",))
        table = results.reset_index().rename(columns={"standard_error": "se", "n": "rows"})
        remark = rule.remark(frame, ("xi",)).replace("environment", "site")
        return table.assign(chosen=table["xi"] == at[0]), remark

    def all_rules(self) -> tuple[Any, float | None, str]:
        """Return what each rule chooses."""
        import pandas as pd

        from anchortm._util.progress import Task

        with Task("choose", 2) as task:
            self.left_out()
            task.step()
            # a test that this model does not have; among other rules its warning would be noise
            with contextlib.suppress(AnchorTMError), warnings.catch_warnings():
                warnings.simplefilter("ignore", AnchorTMWarning)
                self.tests()
            with contextlib.suppress(AnchorTMError):  # too few sites, or rows that are read in batches
                self.further()
        known, rows = {"invariance": self._tests, "further": self._far}, []
        for name, asks in RULES.items():
            if name in known and known[name] is None:
                table, xi = None, None
            else:
                table, xi, _ = self.rule(name)
            row = {"rule": name, "xi": float("nan") if xi is None else xi, "for": FOR[name], "the xi that is": asks}
            rows.append(row | {"site": "", "rows": None} | self._hardest(name, table, xi))
        found = pd.DataFrame(rows).astype({"rows": "Int64"})
        return found, None, self._which(found)

    def _hardest(self, name: str, table: Any, xi: float | None) -> dict[str, Any]:
        """Return the hardest site at the xi that a rule takes, if the rule looks at single sites."""
        if name not in ("q90", "worst"):
            return {}
        at = table[table["xi"] == xi].iloc[0]
        return {"site": at["hardest"], "rows": int(at["rows"])}

    def _which(self, table: Any) -> str:
        """Return which xi to take."""
        sites = self.left_out().frame().environment.nunique()
        chosen = dict(zip(table["rule"], table["xi"], strict=True))
        far = None if self._far is None else self._far.verdict_
        if chosen["q90"] == 0.0 and chosen["mean"] == 0.0 and (far is None or far.xi == 0.0):
            return "No penalty clearly helps the left-out sites: keep xi = 0."
        rough = f"With {sites} sites these rules are rough. " if sites < FEW_SITES else ""
        here = f"For a site like these, xi = {chosen['q90']:.4g} (q90)."
        there = "" if far is None else f" {far.sentence[0].upper()}{far.sentence[1:]}."
        return f"{rough}{here}{there} To see what a wider spread alone would do, use anchortm compare."

    def _next(self, xi: float) -> str:
        largest = max(self.options.xi)
        edge = " This is the largest that was tried: add larger ones to --xi." if xi == largest > 0 else ""
        return f"Next: anchortm fit with --xi {xi:.4g} and --save.{edge}"
