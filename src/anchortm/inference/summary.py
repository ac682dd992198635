"""What a fitted model says of itself: a table that prints."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from anchortm._messages import plain, shown
from anchortm._util.checks import level_between
from anchortm.exceptions import InputError
from anchortm.inference.covariance import FLAT_CURVATURE, coefficient_intervals, default_kind
from anchortm.inputs.design import WIDE
from anchortm.inputs.splines import smooth_terms, wiggly

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LikelihoodRatio", "Summary", "baseline_facts", "likelihood_ratio_test", "summarise"]

SHOWN = 20  # levels of a wide factor that are printed
MOST_CHOSEN = 30  # coefficients that an elastic net leaves, printed
NET = "elastic net"
SMOOTH = "smooth terms"


@dataclass(frozen=True)
class Summary:
    """Facts of a fit, its coefficients, and what to beware of.

    Attributes
    ----------
    title : str
    facts : dict
        What is printed above the coefficients, by name.
    columns : dict
        Columns of the table of coefficients.
    baseline : dict
        Parameters of the baseline, by name.
    warnings : tuple of str
        What the fit warned of.
    scale : dict or None
        Columns of the table of scale effects, where the model has any.
    blocks : tuple of str
        Whose the parameters of the baseline are, one after the other: of strata, and of effects that vary.
    heading : str
        What stands above the table.
    curved : tuple of bool
        Which coefficients are of curves of smooth terms; they are not printed.

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
        """Return the table of coefficients."""
        import pandas as pd

        return pd.DataFrame(self.columns).set_index("covariate")

    def scale_frame(self) -> pd.DataFrame:
        """Return the table of scale effects, empty where there are none."""
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
        """Return the baseline in one line, or one for each stratum and effect that varies."""
        parameters, size = list(self.baseline.items()), len(self.baseline) // len(self.blocks)
        width, lines = max(map(len, self.blocks)), []
        for k, block in enumerate(self.blocks):
            start = len(block) + 2 if block else 0  # of the parameter's own name
            texts = [f"{name[start:]} {value:.4g}" for name, value in parameters[k * size : (k + 1) * size]]
            lines.append(f"Baseline  {block:<{width}}{'  ' if width else ''}{', '.join(texts)}")
        return lines

    def _repr_html_(self) -> str:
        left = "style='text-align:left'"
        rows = (f"<tr><th {left}>{escape(k)}</th><td {left}>{escape(v)}</td></tr>" for k, v in self.facts.items())
        parts = [f"<p><b>{escape(self.title)}</b></p>", f"<table>{''.join(rows)}</table>"]
        if self.columns["covariate"]:
            shown, left_out = _shown(self.columns, NET in self.facts, self.curved)
            parts.append(self.frame().iloc[shown].to_html(float_format="{:.5g}".format))
            parts += [f"<p>{escape(text)}</p>" for text in left_out]
        if self.scale is not None:
            parts += ["<p>Scale effects</p>", self.scale_frame().to_html(float_format="{:.5g}".format)]
        if self.baseline:
            parts += [f"<p>{escape(line)}</p>" for line in self._baselines()]
        return "\n".join([*parts, *(f"<p>Note: {escape(text)}</p>" for text in self.warnings)])


def _shown(columns: dict[str, list[Any]], net: bool, curved: tuple[bool, ...]) -> tuple[list[int], list[str]]:
    """Return the coefficients to print, and what to say of the others.

    Of more than a hundred of a kind the first; of an elastic net those that are not zero.
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


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # ratios may be infinite, errors zero
def summarise(
    model: Any, level: float = 0.95, kind: str | None = None, clusters: Any = None, **options: Any
) -> Summary:
    """Return the summary of a fitted model."""
    level_between(level)
    asked = kind is not None or clusters is not None  # then a refusal is the user's to see
    table = coefficient_intervals(model, level, kind, clusters, **options) if asked else _intervals(model, level)
    p = model.coef_.size
    columns = _columns(model, model.coef_names_, model.coef_, None if table is None else table[:p], level)
    scale = None
    if hasattr(model, "scale_coef_"):
        own, g = None if table is None else table[p:], model.scale_coef_
        scale = _columns(model, model.scale_names_, g, own, level)
        what = {"linear": "sd of y", "log-linear": "sd of log y"}.get(model.basis_.kind, "spread on h's scale")
        scale[f"{what}, times"] = np.exp(-0.5 * g).tolist()
        table = None if table is None else table[:p]
    scaled = scale is not None
    effect = model._effect or ("odds ratio" if model.link_.name == "logit" else "")
    single = model._corners is None and not scaled  # one baseline, on whose scale effects can be told
    if model.basis_.kind == "log-linear" and single:
        columns["time ratio"] = _ratios(model.coef_ / model.baseline_[1]).tolist()
    elif effect and (scaled or model.basis_.kind != "log-linear"):
        alone = ~np.isin(model.coef_names_, getattr(model, "scale_names_", []))  # with a scale effect, no one ratio
        columns[effect] = np.where(alone, _ratios(model.coef_), np.nan).tolist()
        if table is not None:
            ends = [[f"{v:.4g}" for v in _ratios(table[end])] for end in ("lower", "upper")]
            ranges = [f"{a} to {b}" for a, b in zip(*ends, strict=True)]
            columns[f"{100 * level:g} % of ratio"] = [r if a else "" for r, a in zip(ranges, alone, strict=True)]
    if model.basis_.kind == "linear" and single:
        columns["slope of y"] = (model.coef_ / model.baseline_[1]).tolist()
    return Summary(
        f"{type(model).__name__}: {model._kind}",
        baseline_facts(model) | ({} if table is None else _errors_fact(model, kind, clusters)),
        columns,
        dict(zip(model.parameter_names_, model.baseline_.tolist(), strict=True)),
        tuple(model.warnings_),
        scale,
        ("",) if model._corners is None else tuple(model._corners.blocks),
        curved=tuple(wiggly(model._marks).tolist()),
    )


def _ratios(coef: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.exp(coef)


def _columns(model: Any, names: Any, coef: Any, table: Any, level: float) -> dict[str, list[Any]]:
    """Return the columns that every table of parameters has."""
    columns: dict[str, list[Any]] = {"covariate": list(names), "coef": coef.tolist()}
    if table is not None:
        errors = table["std. error"].to_numpy()
        columns["std. error"] = errors.tolist()
        for end in ("lower", "upper"):
            columns[f"{end} {100 * level:g} %"] = table[end].tolist()
        if model._unpenalised:
            columns["p-value"] = (2.0 * stats.norm.sf(np.abs(coef / errors))).tolist()
    return columns


def _intervals(model: Any, level: float) -> Any:
    """Return intervals where there are any: a strict optimum, and for xi other than 0 the rows at hand."""
    kept = model._information if default_kind(model, None) == "hessian" else model._sandwich
    if model.coef_.size == 0 or (kept is None and model._data is None):
        return None
    try:
        return coefficient_intervals(model, level, None, None)
    except InputError:
        return None


def _errors_fact(model: Any, kind: str | None, clusters: Any) -> dict[str, str]:
    kind = default_kind(model, clusters) if kind is None else kind
    how = {"hessian": model._inverse_of, "sandwich": "sandwich", "bootstrap": "bootstrap"}[kind]
    rows = "rows independent" if clusters is None and model._random is None else "clusters independent"
    if kind == "bootstrap" and clusters is None and (model.n_anchors_ or model._random is not None):
        rows = "environments resampled" if model._random is None else "clusters or environments resampled"
    aims = [name for name, value in (("xi", model.xi_), ("l2", model.l2_), ("smooth", model.smooth_)) if value]
    aims += ["xi_scale"] if getattr(model, "xi_scale_", 0.0) not in (0.0, model.xi_) else []
    aim = f", for the coefficients that this {' and '.join(aims)} aims at" if aims else ""
    return {"std. errors": f"{how}{aim}; {rows}"}


def baseline_facts(model: Any) -> dict[str, str]:
    """Return the facts of a fit without its coefficients, by name."""
    kinds = ", ".join(f"{n} {name}" for name, n in model.row_kinds_.items() if n)
    if model.basis_.discrete:  # whose rows are intervals inside
        kinds = f"{len(model.classes_)} classes" if model.basis_.kind == "ordinal" else "counts"
    sign = "+" if model._sign > 0 else "-"
    scaled = hasattr(model, "scale_coef_")
    penalties = [(model.xi_, model.penalty_, "penalty")]
    if scaled:
        penalties.append((model.xi_scale_, model.penalty_scale_, "penalty of the scale"))
    h = "h(y)" if model._corners is None else f"h(y | {', '.join(model._corners.symbols)})"
    facts = {
        "model": f"F(exp(z'g / 2) {h} {sign} x'beta)" if scaled else f"F({h} {sign} x'beta)",
        "rows": f"{model.n_rows_} ({kinds})"
        + ("" if model.n_total_ == model.n_rows_ else f", total weight {model.n_total_:g}"),
    }
    if hasattr(model, "support_"):
        facts["baseline"] = f"order {model.basis_.order} on ({model.support_[0]:.6g}, {model.support_[1]:.6g})"
        if model.basis_.log_first:
            facts["baseline"] += ", in log(1 + y)" if model.basis_.discrete else ", in log y"
    if model._corners is not None:
        facts |= model._corners.facts()
    facts |= {
        "xi": f"{model.xi_:g}"
        + (f", xi_scale {model.xi_scale_:g}" if scaled else "")
        + (f", {model.n_anchors_} anchor directions" if model.n_anchors_ else ", no anchors"),
        "log-likelihood": f"{model.loglik_:.4f}",
        "anchor loss": f"{model.loss_:.6f} = {-model._in_loss / model.n_total_:.6f} (mean negative log-likelihood)"
        + "".join(f" + {xi:g} x {value:.3g} ({name})" for xi, value, name in penalties if 0.0 != xi < math.inf)
        + (f" + {_net_share(model):.3g} ({_net_name(model)})" if model.l1_ or model._ridged else ""),
        "converged": ("yes" if model.converged_ else "NO")
        + f", {model.n_iter_} iteration{'s' if model.n_iter_ != 1 else ''}, "
        f"KKT residual {model.kkt_:.1e}, smallest curvature {model.min_eigenvalue_:.1e}",
        "minimum": _minimum(model),
    }
    if model.l1_ or model.l2_:
        count = f"{np.count_nonzero(model.coef_)} of {model.coef_.size} coefficients are not zero"
        facts[NET] = f"l1 {model.l1_:g}, l2 {model.l2_:g}; {count}"
    elif model._unpenalised and model.converged_ and not model._quasi:  # criteria of maximum-likelihood fits
        facts["AIC, BIC"] = f"{model.aic_:.2f}, {model.bic_:.2f}"
    if model.edf_ or model.smooth_:
        degrees = ", ".join(
            f"{term} {edf:.2f} of {len(smooth_terms(model._marks)[term])}" for term, edf in model.edf_.items()
        )
        facts[SMOOTH] = f"smooth {model.smooth_:g}; degrees of freedom {degrees or 'not known: more columns than rows'}"
    held = int(model.active_[: model.active_.size - model.coef_.size - model._extra.size].sum())
    if model._corners is not None and held:
        steps = np.diff(model.baseline_.reshape(model._corners.n_blocks, -1))
        none = int((model._corners.least(steps) <= 1e-9 * (1.0 + np.abs(steps).sum(axis=0))).sum())
        facts["constraints"] = f"{none} increment{'s' if none != 1 else ''} of h zero for some covariates or strata"
    elif held:
        facts["constraints"] = f"{held} increment{'s' if held > 1 else ''} of the baseline held at zero"
    if model.basis_.kind == "linear" and model._corners is None and not scaled:
        facts["scale of y"] = (
            f"intercept {-model.baseline_[0] / model.baseline_[1]:.5g}, sigma {1 / model.baseline_[1]:.5g}"
        )
    facts |= model._own_facts()
    return facts


def _net_name(model: Any) -> str:
    """Return what the penalty on coefficients is called."""
    return " and ".join([*([NET] if model.l1_ or model.l2_ else []), *(["smoothing"] if model.smooth_ else [])])


def _net_share(model: Any) -> float:
    """Return the share of the penalty on coefficients in the loss."""
    return float(model.loss_ + model._in_loss / model.n_total_ - model.xi_ * model.penalty_)


def _minimum(model: Any) -> str:
    text = {
        "global": "global: the loss is convex",
        "local": "local and strict: the loss is convex around it",
        "none": "on the branch connected to xi = 0; the loss need not be convex",
    }[model.convexity_]
    if not model.converged_:
        return "not reached"
    if model.min_eigenvalue_ < FLAT_CURVATURE:
        text = (
            "global: the loss is convex, " if model.convexity_ == "global" else ""
        ) + "flat: other parameters do as well"
    if model.folds_:
        text = "on a branch that the one from xi = 0 drops into"
    if model.lower_minima_:
        text += f"; {len(model.lower_minima_)} lower found, the lowest {min(model.lower_minima_):.6f}"
    return text


@dataclass(frozen=True)
class LikelihoodRatio:
    """A likelihood-ratio test of a smaller in a larger model.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    df : int
        Difference of the numbers of parameters.
    pvalue : float
        From the chi-square distribution.

    See Also
    --------
    anchortm.likelihood_ratio_test : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> fits = [atm.OrdinalRegression.from_formula(f"rating ~ {terms}", data) for terms in ("temp", "temp + contact")]
    >>> test = atm.likelihood_ratio_test(*fits)
    >>> print(f"{test.statistic:.2f} on {test.df}, p = {test.pvalue:.4f}")
    11.04 on 1, p = 0.0009
    """

    statistic: float
    df: int
    pvalue: float

    def __str__(self) -> str:
        unit = "degree" if self.df == 1 else "degrees"
        return f"likelihood ratio {self.statistic:.4g} on {self.df} {unit} of freedom, p = {self.pvalue:.3g}"


def likelihood_ratio_test(smaller: Any, larger: Any) -> LikelihoodRatio:
    """Return the likelihood-ratio test of two nested maximum-likelihood fits to the same rows.

    Both must have xi = 0. Likelihoods that are not of one kind are refused: a partial one and another, other ties or
    strata of ``CoxPH``, other links, families or kinds of outcome. That the covariates of one are among those of the
    other is the caller's word.

    See Also
    --------
    anchortm.inference.LikelihoodRatio : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> smaller, larger = (
    ...     atm.OrdinalRegression.from_formula(f"rating ~ {terms}", data) for terms in ("temp", "temp + contact")
    ... )
    >>> print(atm.likelihood_ratio_test(smaller, larger))
    likelihood ratio 11.04 on 1 degree of freedom, p = 0.00089
    """
    if not (smaller._unpenalised and larger._unpenalised):
        raise InputError(
            "a likelihood-ratio test compares maximum-likelihood fits: both models need xi = 0, and no l1 or l2 "
            "or smooth"
        )
    if smaller.n_total_ != larger.n_total_:
        raise InputError(f"the models were fitted to different rows: {smaller.n_total_:g} and {larger.n_total_:g}")
    if not larger._comparable(smaller):
        names = [f"{type(model).__name__} ({model._kind})" for model in (smaller, larger)]
        raise InputError(
            f"{names[0]} is no special case of {names[1]}: nested models have the same link or family, the same kind "
            "of outcome, baselines of one kind, and with a partial likelihood the same ties, strata and event times"
        )
    df = larger.n_parameters_ - smaller.n_parameters_
    if df <= 0:
        raise InputError("the larger model must have more parameters than the smaller one")
    statistic = larger._gain(smaller)
    if statistic < -1e-6 * (1.0 + abs(larger.loglik_)):
        raise InputError("the larger model fits worse: it does not contain the smaller one")
    statistic = max(statistic, 0.0)
    return LikelihoodRatio(statistic, df, float(stats.chi2.sf(statistic, df)) if math.isfinite(statistic) else 0.0)
