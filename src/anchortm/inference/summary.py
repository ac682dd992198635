"""The printable summary of a fitted model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from anchortm._messages import plain, shown
from anchortm._util.checks import level_between
from anchortm._util.html import report
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError
from anchortm.inference.bootstrap import any_covariance
from anchortm.inference.covariance import coefficient_intervals, default_kind
from anchortm.inference.optimum import NET, constraints, optimum
from anchortm.inputs.design import WIDE
from anchortm.inputs.splines import smooth_terms, wiggly
from anchortm.predict.fitted import Fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Summary", "baseline_facts", "summarise"]

SHOWN = 20  # number of printed levels of a wide factor
MOST_CHOSEN = 30  # number of printed coefficients of an elastic net
DROPPED = 4  # columns with missing values to name
SMOOTH = "smooth terms"


@dataclass(frozen=True)
class Summary:
    """A printable summary of a fit: facts, coefficients, baseline and warnings.

    Attributes
    ----------
    title : str
        The first line: model, link and basis.
    facts : dict
        The lines above the coefficients, by name.
    columns : dict
        Columns of the table of coefficients.
    baseline : dict
        Parameters of the baseline, by name.
    warnings : tuple of str
        Warnings of the fit.
    scale : dict or None
        Columns of the table of scale effects; None without scale effects.
    blocks : tuple of str
        A label for each reported baseline: strata, then varying effects.
    heading : str
        The heading of the table of coefficients.
    curved : tuple of bool
        Which coefficients belong to curves of smooth terms; they are not printed.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> summary = model.summary()
    >>> summary.facts["xi"]
    '1, 9 anchor directions'
    >>> summary.frame()[["coef", "std. error", "odds ratio"]].round(2)
                    coef  std. error  odds ratio
    covariate
    temp[T.warm]    2.28        0.57        9.79
    contact[T.yes]  1.44        0.58        4.20
    """

    title: str
    facts: dict[str, str]
    columns: dict[str, list[Any]]
    baseline: dict[str, float]
    warnings: tuple[str, ...]
    scale: dict[str, list[Any]] | None = None
    blocks: tuple[str, ...] = ("",)
    heading: str = "Coefficients"
    curved: tuple[bool, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return the table of coefficients.

        Returns
        -------
        DataFrame
        """
        import pandas as pd

        return pd.DataFrame(self.columns).set_index("covariate")

    def scale_frame(self) -> pd.DataFrame:
        """Return the table of scale effects; it is empty without scale effects.

        Returns
        -------
        DataFrame
        """
        import pandas as pd

        return pd.DataFrame({"covariate": []} if self.scale is None else self.scale).set_index("covariate")

    @shown
    def __str__(self) -> str:
        width = max(map(len, self.facts))
        lines = [self.title, *(f"  {name:<{width}}  {value}" for name, value in self.facts.items()), ""]
        if self.columns["covariate"]:
            rows, left_out = _shown(self.columns, NET in self.facts, self.curved)
            table = _table({name: [values[j] for j in rows] for name, values in self.columns.items()})
            lines += [self.heading, *table, *(f"  {text}" for text in left_out), ""]
        if self.scale is not None:
            lines += ["Scale effects", *_table(self.scale), ""]
        if self.baseline:
            lines += self._baselines()
        lines += [f"Note: {text}" for text in self.warnings]
        return "\n".join(lines).rstrip()

    __repr__ = __str__

    def _baselines(self) -> list[str]:
        """Return the lines on the baseline, one for each stratum and each varying effect."""
        parameters, size = list(self.baseline.items()), len(self.baseline) // len(self.blocks)
        width, lines = max(map(len, self.blocks)), []
        for k, block in enumerate(self.blocks):
            start = len(block) + 2 if block else 0  # where the name of the parameter starts, after its block
            texts = [f"{name[start:]} {value:.4g}" for name, value in parameters[k * size : (k + 1) * size]]
            lines.append(f"Baseline  {block:<{width}}{'  ' if width else ''}{', '.join(texts)}")
        return lines

    def _repr_html_(self) -> str:
        parts: list[Any] = [self.facts]
        if self.columns["covariate"]:
            rows, left_out = _shown(self.columns, NET in self.facts, self.curved)
            parts += [self.frame().iloc[rows], *left_out]
        if self.scale is not None:
            parts += ["Scale effects", self.scale_frame()]
        if self.baseline:
            parts += self._baselines()
        return report(self.title, *parts, *(f"Note: {text}" for text in self.warnings))


def _shown(columns: dict[str, list[Any]], net: bool, curved: tuple[bool, ...]) -> tuple[list[int], list[str]]:
    """Return the positions of the coefficients to print, and lines about the others.

    Of a factor with more than a hundred levels, print the first ones; of an elastic net, those that are not zero.
    """
    names = columns["covariate"]
    if any(curved):
        rest = {name: [v for v, own in zip(values, curved, strict=True) if not own] for name, values in columns.items()}
        rows, said = _shown(rest, net, ())
        places = np.flatnonzero(~np.array(curved))[rows].tolist()
        return places, [*said, "... and the curves of smooth terms: smooth_effects()"]
    rows = []
    if net:
        chosen = [j for j, coef in enumerate(columns["coef"]) if coef != 0.0]
        more = len(chosen) - MOST_CHOSEN
        said = [f"... and {more} more that are not zero: frame() has them all"] if more > 0 else []
        return chosen[:MOST_CHOSEN], said
    left_out, first = [], 0
    for kind, group in groupby(names, key=lambda name: re.split(r"\[T\.|\d+$", name)[0]):
        size = len(list(group))
        shown = SHOWN if size > WIDE else size
        rows += range(first, first + shown)
        if shown < size:
            left_out.append(f"... and {size - shown} more of {kind}: frame() has them all")
        first += size
    return rows, left_out


def _table(columns: dict[str, list[Any]]) -> list[str]:
    cells = [
        [
            name,
            *(
                plain(v) if isinstance(v, str) else "" if v != v else f"{v:.3g}" if name == "p-value" else f"{v:.5g}"
                for v in values
            ),
        ]
        for name, values in columns.items()
    ]
    widths = [max(map(len, column)) for column in cells]
    rows = zip(*cells, strict=True)
    return [
        "  " + "  ".join(c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # ratios may be infinite, standard errors zero
def summarise(
    model: Fitted, level: float = 0.95, kind: str | None = None, clusters: Any = None, **options: Any
) -> Summary:
    """Return the summary of a fitted model."""
    level_between(level)
    result = model.result_
    table = _asked_intervals(model, level, kind, clusters, options)
    p = result.coef.size
    own = None if table is None else table[:p]
    columns = _columns(result, result.coef_names, result.coef, own, level)
    columns |= _effects_of_y(result, own, level)
    return Summary(
        f"{type(model).__name__}: {result.kind}",
        baseline_facts(result) | ({} if table is None else _errors_fact(result, kind, clusters)),
        columns,
        dict(zip(result.parameter_names, result.baseline.tolist(), strict=True)),
        tuple(result.warnings),
        _scale_table(result, None if table is None else table[p:], level),
        ("",) if result.corners is None else tuple(result.corners.blocks),
        curved=tuple(wiggly(result.marks).tolist()),
    )


def _asked_intervals(model: Fitted, level: float, kind: str | None, clusters: Any, options: dict[str, Any]) -> Any:
    """Return the confidence intervals, or None if by default there are none.

    The default needs a strict minimum and, for xi other than 0, the rows of the fit.
    """
    result = model.result_
    if kind is not None or clusters is not None or options:  # the user asked for it, and so must see an error
        matrix = any_covariance(model, kind, clusters, **options) if kind == "bootstrap" or options else None
        return coefficient_intervals(model, level, kind, clusters, matrix)
    hessian = default_kind(result, None) == "hessian"
    kept = result.information if hessian else result.computed.get("sandwich")
    if result.coef.size == 0 or (kept is None and not model.has_rows_):
        return None
    try:
        return coefficient_intervals(model, level, None, None)
    except InputError:
        return None


def _scale_table(result: FitResult, table: Any, level: float) -> dict[str, list[Any]] | None:
    """Return the columns of the table of scale effects; None without scale effects."""
    if result.scale is None:
        return None
    columns = _columns(result, result.scale.names, result.scale.coef, table, level)
    what = {"linear": "sd of y", "log-linear": "sd of log y"}.get(result.basis.kind, "spread on h's scale")
    columns[f"{what}, times"] = np.exp(-0.5 * result.scale.coef).tolist()
    return columns


def _effects_of_y(result: FitResult, table: Any, level: float) -> dict[str, list[Any]]:
    """Return the columns that interpret the coefficients: ratios of odds, hazards or times, or slopes of y."""
    columns: dict[str, list[Any]] = {}
    scaled = result.scale is not None
    effect = result.effect or ("odds ratio" if result.link.name == "logit" else "")
    single = result.corners is None and not scaled  # effects on the scale of y need a single baseline
    if result.basis.kind == "log-linear" and single:
        columns["time ratio"] = _ratios(result.coef / result.baseline[1]).tolist()
    elif effect and (scaled or result.basis.kind != "log-linear"):
        columns |= _ratio_columns(result, effect, table, level)
    if result.basis.kind == "linear" and single:
        columns["slope of y"] = (result.coef / result.baseline[1]).tolist()
    return columns


def _ratio_columns(result: FitResult, effect: str, table: Any, level: float) -> dict[str, list[Any]]:
    """Return the exponentials of the coefficients, and their intervals if the table has intervals."""
    scale_names = [] if result.scale is None else result.scale.names
    alone = ~np.isin(result.coef_names, scale_names)  # a covariate with a scale effect does not have a single ratio
    columns = {effect: np.where(alone, _ratios(result.coef), np.nan).tolist()}
    if table is not None:
        ends = [[f"{v:.4g}" for v in _ratios(table[end])] for end in ("lower", "upper")]
        ranges = [f"{a} to {b}" for a, b in zip(*ends, strict=True)]
        columns[f"{100 * level:g} % of ratio"] = [r if a else "" for r, a in zip(ranges, alone, strict=True)]
    return columns


def _ratios(coef: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.exp(coef)


def _columns(result: FitResult, names: Any, coef: Any, table: Any, level: float) -> dict[str, list[Any]]:
    """Return the columns that all tables of parameters share."""
    columns: dict[str, list[Any]] = {"covariate": list(names), "coef": coef.tolist()}
    if table is not None:
        errors = table["std. error"].to_numpy()
        columns["std. error"] = errors.tolist()
        for end in ("lower", "upper"):
            columns[f"{end} {100 * level:g} %"] = table[end].tolist()
        if result.unpenalised:
            columns["p-value"] = (2.0 * stats.norm.sf(np.abs(coef / errors))).tolist()
    return columns


def _errors_fact(result: FitResult, kind: str | None, clusters: Any) -> dict[str, str]:
    kind = default_kind(result, clusters) if kind is None else kind
    how = {"hessian": result.inverse_of, "sandwich": "sandwich", "bootstrap": "bootstrap"}[kind]
    rows = "rows independent" if clusters is None and result.random is None else "clusters independent"
    if kind == "bootstrap" and clusters is None and (result.n_anchors or result.random is not None):
        rows = "environments resampled" if result.random is None else "clusters or environments resampled"
    aims = [name for name, value in (("xi", result.xi), ("l2", result.l2), ("smooth", result.smooth)) if value]
    aims += ["xi_scale"] if result.scale is not None and result.scale.xi not in (0.0, result.xi) else []
    aim = f", for the coefficients that this {' and '.join(aims)} aims at" if aims else ""
    return {"std. errors": f"{how}{aim}; {rows}"}


def _changed(result: FitResult) -> dict[str, str]:
    """Return the lines about what was changed after the fit: for a target, the spread, or by rows of a new place."""
    found = {} if result.recalibration is None else result.recalibration.facts()
    if result.target_shift is not None:
        shift = (
            f"outcomes shifted by {result.target_shift:.4g} on the scale of h; the log-likelihood is that of training"
        )
        found = {"target": shift} | found
    if result.widened == 1.0:
        return found
    return {"spread": f"widened by {result.widened:.4g} after the fit, whose log-likelihood this is"} | found


def _places(result: FitResult) -> dict[str, str]:
    """Return the lines about shifts between places, if these are known."""
    found = result.computed.get("places")
    return {} if found is None else found.facts()


def baseline_facts(result: FitResult) -> dict[str, str]:
    """Return the lines of the summary above the coefficients, by name."""
    facts = {"model": _formula(result), "rows": _rows(result)} | _dropped(result)
    if result.support is not None:
        facts["baseline"] = _support(result)
    if result.corners is not None:
        facts |= result.corners.facts()
    facts |= optimum(result) | _changed(result) | _places(result)
    if result.l1 or result.l2:
        count = f"{np.count_nonzero(result.coef)} of {result.coef.size} coefficients are not zero"
        facts[NET] = f"l1 {result.l1:g}, l2 {result.l2:g}; {count}"
    elif result.largest and result.converged and not result.quasi:  # AIC and BIC need maximum likelihood
        facts["AIC, BIC"] = f"{_criterion(result, 2.0):.2f}, {_criterion(result, math.log(result.sample_size)):.2f}"
    if result.edf or result.smooth:
        sizes = smooth_terms(result.marks)
        degrees = ", ".join(f"{term} {edf:.2f} of {len(sizes[term])}" for term, edf in result.edf.items())
        facts[SMOOTH] = f"smooth {result.smooth:g}; degrees of freedom {degrees or 'not known: more columns than rows'}"
    facts |= constraints(result)
    if result.basis.kind == "linear" and result.corners is None and result.scale is None:
        facts["scale of y"] = (
            f"intercept {-result.baseline[0] / result.baseline[1]:.5g}, sigma {1 / result.baseline[1]:.5g}"
        )
    return facts | result.own_facts()


def _formula(result: FitResult) -> str:
    sign = "+" if result.sign > 0 else "-"
    h = "h(y)" if result.corners is None else f"h(y | {', '.join(result.corners.symbols)})"
    return f"F({h} {sign} x'beta)" if result.scale is None else f"F(exp(z'g / 2) {h} {sign} x'beta)"


def _rows(result: FitResult) -> str:
    kinds = ", ".join(f"{n} {name}" for name, n in result.row_kinds.items() if n)
    if result.basis.discrete:  # internally, these rows are intervals
        kinds = f"{len(result.classes)} classes" if result.basis.kind == "ordinal" else "counts"
    total = "" if result.n_total == result.n_rows else f", total weight {result.n_total:g}"
    return f"{result.n_rows} ({kinds}){total}"


def _dropped(result: FitResult) -> dict[str, str]:
    """Return the line on how many rows were dropped, and the columns with most missing values."""
    if not result.n_missing:
        return {}
    first = sorted(result.missing.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} in {n}" for name, n in first[:DROPPED])
    more = f", and {len(first) - DROPPED} more columns" if len(first) > DROPPED else ""
    rows = "1 row" if result.n_missing == 1 else f"{result.n_missing} rows"
    return {"dropped": f"{rows} with missing values: {shown}{more}"}


def _support(result: FitResult) -> str:
    basis: Any = result.basis  # a Bernstein basis, which has a support
    low, high = basis.support
    in_log = ", in log(1 + y)" if basis.discrete else ", in log y"
    return f"order {basis.order} on ({low:.6g}, {high:.6g})" + (in_log if basis.log_first else "")


def _criterion(result: FitResult, price: float) -> float:
    """Return the information criterion -2 loglik + price * n_parameters."""
    return -2.0 * result.largest_loglik + price * result.n_parameters
