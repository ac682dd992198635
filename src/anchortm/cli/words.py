"""Translate messages for the command line: options for Python arguments, lines of the CSV file for row numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from anchortm.cli.models import MODELS
from anchortm.exceptions import renumbered

if TYPE_CHECKING:
    from anchortm.cli.dialects import CsvFile

__all__ = ["in_shell"]

RENAMED = {"log_first": "log-first", "sample_weight": "weights", "n_jobs": "jobs", "xis": "xi", "min_rows": "min-rows"}
RENAMED |= {"environment_weights": "environment-weights", "anchor_weights": "anchor-weights"}
RENAMED |= {"max_size": "max-size", "n_screened": "n-screened", "max_fits": "max-fits"}
OPTIONS = {name: f"--{option}" for name, option in RENAMED.items()} | {
    name: f"--{name}"
    for name in (
        *("missing", "xi", "order", "support", "tail", "l1", "l2", "varying", "scale", "offset", "environments"),
        *("cut", "labels"),
        *("quantiles", "cdf", "sf", "keep", "extrapolation", "what", "prior", "strength", "floor"),
        *("level", "mandatory"),
    )
}
NAMES = "|".join(OPTIONS)
CLASSES = {cls: name for name, (cls, _) in reversed(MODELS.items()) if cls != "AnchorGLM"}
FAMILIES = {options["family"]: name for name, (_, options) in MODELS.items() if "family" in options}
MEMORY = "name one file, without --batches"
RULES: list[tuple[str, Any]] = [
    # arguments that have no option
    (r"pass fit\(\.\.\., anchors=\.\.\.\), name them after '\|' in a formula", "name them after '|' in --formula"),
    (r"fit it with place_variance=True, or ask for place_sd_ before you save it", "fit it with --place-variance"),
    (
        r"pass environments= to fit, one name for each row, or anchors that are one factor; after '\|' a formula names "
        "them",
        "name one anchor, a factor, after '|' in --formula, or give --environments",
    ),
    (r"give more places, or environments= that divide the rows further", "give --environments with more places"),
    (r'place="(\w+)"', r"--place \1"),
    (r"pass them after y, or name them after '\|' in a formula", "name them after '|' in --formula"),
    (r"pass an ordered categorical, or write (ordered\(.*?\)) in a formula", r"write \1 in --formula"),
    (
        r"make the categories ordered, for example pd\.Categorical\(.*?\)$",
        "write ordered(column, 'low', 'high') in --formula",
    ),
    (r"use astype\(int\) or astype\(str\)", "write C(...) around them in --formula"),
    (r"(?<=if they are names, )use astype\(str\)", "write them as text in the file"),
    (
        r"after '\|' in a formula, or convert them with .*",
        "after '|' in --formula, or write whole numbers or text in the file",
    ),
    (r"turn it into numbers, for example with astype\(float\)", "correct it in the file"),
    (r"turn codes into astype\(int\)", "write codes as whole numbers or text in the file"),
    (r"raise max_iter, or look at history_", "more iterations are possible in Python"),
    (r"raise max_iter, or lower the order", "lower --order"),
    (r"; raise max_iter", ""),
    (r", or look at others with n_restarts", ""),
    (r"; the model's argument smooth= sets how smooth the curve is", ""),
    (r"; clusters=np\.arange\(n\) treats rows as independent", ""),
    (r"give clusters= to standard_errors or summary", "cluster-robust standard errors are available in Python only"),
    (r"pass offset= \(0 says that none is meant\)", "they are predicted without"),
    (r"give the column with offset=", "give the column with --offset"),
    (r"^times(?= (?:are for|must be positive))", "--times"),
    (r"^training(?= has)", "--training"),
    (r"give the rows of the fit too \(training\)", "give the rows of the fit too (--training)"),
    (r"(?:read it|read the table(?: into memory)?) first", MEMORY),
    (
        r"give these rows as Interval\(0, 1\), or add half a unit to all times, time \+ 0\.5",
        "write Interval(lower, upper) in --formula with columns that are 0 and 1 in these rows (equal in those of "
        "other events, upper inf in censored ones), or time + 0.5 in place of time, half a unit later for all",
    ),
    (r"leave random out", "leave the random effects out of --formula"),
    (r"leave strata out", "leave the strata out of --formula"),
    (r"a sparse X or ", ""),
    (r"^n_samples = 1:", "the table has one row:"),
    (r"(?<=compare with the one that means the event)(?=, )", " in --formula"),
    (r"turn it into numbers, or drop such rows", "correct it in the file"),
    (r'\b\w+\(missing="drop"\)', "--missing drop"),
    (r"score them by brier and concordance, or use ", "use "),
    (r", or pass an object such as Anchored\(10\.0\) or Regressor\(estimator\)", ""),
    (r"; use design='like'", "; use --design like"),
    (r"new is for design='further': add this design, or leave new out", "--new is for --design further or both"),
    (r"^new(?=: | has no rows)|(?<=fewer than 8, so )new\b", "--new"),
    (r"^causal_parents\b", "parents"),
    (
        r"The limit is max_fits=(\d+): raise it, or test fewer sets by screen='lasso' or 'blanket', max_size or "
        r"mandatory; the documentation of causal_parents says .*",
        r"The limit is --max-fits \1: raise it, or test fewer sets by --screen, --max-size or --mandatory",
    ),
    (r"rejects too often; use method='simulate'", "rejects too often; use --method simulate"),
    (r"^method='simulate' cannot draw (.*): use method='gcm'", r"--method simulate cannot draw \1: use --method gcm"),
    (r"use regression='linear'", "use --regression linear"),
    (r"write bs\(x, 4\) for s\(x\)", "write bs(x, 4) for s(x) in --formula"),
    (r"\bmethod='(\w+)', (\d+) with 'loeo' or 'full'", r"--method \1, \2 with loeo or full"),
    (r"\bor lower level$", "or lower --conformal"),
    (r"\bor lower share$", "or lower --share"),
    # models by their names here
    (r"(?:AnchorGLM\()?family=['\"](\w+)['\"]\)?", lambda found: f"--model {FAMILIES.get(found[1], found[1])}"),
    (r", or give alpha a number|: give it a number", ""),
    (r"take '(weibull)'", r"take --model \1"),
    (r", or fit with link='\w+'|; use link='\w+'", ""),
    (rf"\b(?:{'|'.join(CLASSES)})\b", lambda found: f"--model {CLASSES[found[0]]}"),
    (r"\bAnchorGLM\b", "this model"),
    # options
    (r"shifts between places as prior\b", "shifts between places as --prior"),
    (r"\bwhat='([\w+]+)'", r"--what \1"),
    (r"^(prior|strength|floor)(?=,)", r"--\1"),
    (r'\bmissing="drop"(?:, an argument of the model)?', "--missing drop"),
    (r'(?:pass|predict with) on_bad_rows="mark"', "add --bad-rows mark"),
    (
        r'predict with unknown="baseline" \(or "rare"\) or on_bad_rows="mark"',
        "add --unknown baseline (or rare) or --bad-rows mark",
    ),
    (r'\bunknown="(\w+)"', r"--unknown \1"),
    (r"see notes in frame\(\)|see the column notes of frame\(\)", "--output writes the notes"),
    (r"\(log_first=False of Bernstein models\)", "(--model cox or c-logit, without --log-first)"),
    (r"use log_first=False", "leave --log-first out"),
    (r"log_first=True", "--log-first"),
    (rf"\b({NAMES})=(?=[^\s=])", lambda found: f"{OPTIONS[found[1]]} "),
    (r"^xi = (?=\S+ needs)", "--xi "),
    (r"\bset xi to\b", "set --xi to"),
    (rf"^({NAMES})(?= (?:must|has|is|are|names|gives|does|needs|was|\())", lambda found: OPTIONS[found[1]]),
    (r"\bwithout (l1|l2)\b", r"without --\1"),
    (r"\b(by|no|or|take|use) (l1|l2)\b", r"\1 --\2"),
    (r"\b(in|of|leave) (varying|scale)\b(?= out|$|:|,)", r"\1 --\2"),
    (
        r"a wider support|widen the support",
        lambda found: found[0].replace("the support", "--support").replace("r support", "r --support"),
    ),
    (r"lower the order", "lower --order"),
    (r"leave quantiles, cdf and sf out", "leave --quantiles, --cdf and --sf out"),
    (r"probabilities must", "--quantiles must"),
    (r"sample_weight", "--weights"),
    # the table
    (r"\bX contains\b", "the table contains"),
    (r"outliers in y, X or offset", "outliers in the outcome, the covariates or --offset"),
    (
        r"(^|\b(?:explain|overlap|divide|of|in|is) )y(?= (?:is|has|must|reaches|by|at|without|cannot)|,|$)",
        r"\1the outcome",
    ),
]


def in_shell(text: str, source: CsvFile | None = None) -> str:
    """Return a message of the package in the words of the command line; ``source`` is the CSV file that was read."""
    for pattern, words in RULES:
        text = re.sub(pattern, words, text)
    if source is None:
        return text
    rows = [int(row) for row in re.findall(r"\brow (\d+)\b", text)]
    lines = source.lines(rows) if rows else {}
    return renumbered(text, lambda row: f"line {lines[row]}" if row in lines else f"row {row}")
