"""What the fit looks like at each xi, for pictures: predictions for typical rows, and effects on the scale of y.

Nothing here is a row of the data: a profile has the median of each number, and the most frequent level of each other
column, over at least five rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from anchortm._typing import Array
from anchortm._util.frames import column_names, is_frame, native, select
from anchortm.diagnostics.marginal_effects import marginal_effects
from anchortm.exceptions import AnchorTMError, InputError
from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Kind
from anchortm.newplace.assessment.words import place_name
from anchortm.selection.places import Places

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEAST", "XIS", "Effects", "Profiles", "Source", "Views", "effects", "kind_of_outcome", "profiles", "views"]

XIS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LEAST = 5  # rows behind a profile
MOST_PLACES = 8  # places with a profile of their own: the largest
POINTS = 91
MOST_COUNTS = 60
MOST_EFFECTS = 1000  # rows that effects are averaged over
FIFTH = 0.2


@dataclass(frozen=True, eq=False)
class Source:
    """The columns that a model reads.

    Attributes
    ----------
    formula : str or None
        The formula, if there is one.
    table : table or array
        The table of the formula, or X.
    """

    formula: str | None
    table: Any

    def of(self, table: Any) -> pd.DataFrame:
        """Return the columns that the model reads, of any rows."""
        import pandas as pd

        table = native(table)
        if table is None:
            raise InputError("X is None: without covariates all rows are alike")
        table = table.toarray() if issparse(table) else table
        if self.formula is None:
            return select(table, column_names(table)) if is_frame(table) else pd.DataFrame(np.asarray(table))
        return select(table, self._read)

    @cached_property
    def _read(self) -> list[str]:
        """Return the names of the columns that the formula reads as covariates and strata."""
        assert self.formula is not None  # noqa: S101
        names = column_names(self.table)
        roles = Formula.unread(self.formula, names).roles(names)
        return [name for name in names if roles.get(name) in ("covariate", "stratum")]

    @cached_property
    def columns(self) -> pd.DataFrame:
        """Return the columns that the model reads, of all rows."""
        return self.of(self.table)

    def given(self, rows: Any) -> Any:
        """Return rows, made of these columns, as the model takes them."""
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
        return frame if self.formula is not None or is_frame(self.table) else frame.to_numpy()


@dataclass(frozen=True, eq=False)
class Profiles:
    """Typical rows.

    Attributes
    ----------
    table : table or array
        One row for each profile, as the model reads them.
    names, about : list of str
        What they are called, and what they are.
    n : list of int
        Number of rows behind each of them.
    offset : array or None
        Mean offset of these rows.
    """

    table: Any
    names: list[str]
    about: list[str]
    n: list[int]
    offset: Array | None


@dataclass(frozen=True, eq=False)
class Views:
    """Predictions for profiles at each xi.

    Attributes
    ----------
    kind : {"density", "survival", "classes", "counts"}
        What is drawn.
    label : str
        What the outcome is called.
    x : list
        Outcomes at which predictions are known.
    xis : list of float
    profiles : list of dict
        For each profile ``name``, ``about``, ``n``; ``density`` (probabilities of classes and counts), ``survival``
        (P(Y > x)) and ``median``, each by xi.
    bends : list of float
        Ends of the support, rounded, at which a density may bend sharply; only those that are drawn.
    """

    kind: str
    label: str
    x: list[Any]
    xis: list[float]
    profiles: list[dict[str, Any]]
    bends: list[float] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Effects:
    """Average effects of covariates on the scale of the outcome, by xi.

    Attributes
    ----------
    unit : str
        What changes.
    xis : list of float
    rows : list of dict
        For each covariate its ``name``, the change it is ``per``, and ``values`` by xi.
    """

    unit: str
    xis: list[float]
    rows: list[dict[str, Any]]


def kind_of_outcome(places: Places) -> str:
    """Return what kind of outcome this is: "time", "class", "count", "mean" or "number"."""
    response = places.data.response
    if places.problem.spec.likelihood == "mean":
        return "mean"
    return {"time": "time", "ordinal": "class", "count": "count"}.get(response.scale, "number")


def profiles(places: Places, ml: Any, source: Source, new: Any, kind: str | None = None) -> Profiles:
    """Return typical rows: of all data, of rows with low and high predictions, of the largest places, of the new one.

    Parameters
    ----------
    places : Places
        The rows by their places.
    ml : fitted model
        The fit by maximum likelihood.
    source : Source
        The columns that the model reads.
    new : table or array, optional
        Rows of the new place.
    kind : str or None
        What places are called, such as "town".
    """
    used = places.data.rows_used
    design = places.data.without_wide().design.matrix
    eta = np.asarray(design) @ np.nan_to_num(np.asarray(ml.coef_))[: design.shape[1]]
    low, high = np.quantile(eta, [FIFTH, 1.0 - FIFTH])
    groups: list[tuple[str, str, NDArray[np.bool_]]] = [
        ("typical row", "all rows", np.ones(eta.size, dtype=bool)),
        ("low linear predictor", "the lowest fifth of the rows", eta <= low),
        ("high linear predictor", "the highest fifth of the rows", eta >= high),
    ]
    largest = np.argsort(-places.sizes, kind="stable")[:MOST_PLACES]
    groups += [(place_name(places.labels[e], kind), "rows of this place", places.groups == e) for e in sorted(largest)]
    known = [(name, about, np.flatnonzero(mask)) for name, about, mask in groups if mask.sum() >= LEAST]
    columns = source.columns
    made = [_typical(columns, used[own]) for _, _, own in known]
    names, abouts, sizes = map(list, zip(*((name, about, own.size) for name, about, own in known), strict=True))
    if new is not None and (fresh := source.of(new)).shape[0] >= LEAST:
        made.append(_typical(fresh, np.arange(fresh.shape[0])))
        names.append("new place")
        abouts.append("rows of the new place")
        sizes.append(int(fresh.shape[0]))
    offset = None if places.data.offset is None else np.full(len(made), float(np.mean(places.data.offset)))
    return Profiles(source.given(made), names, abouts, sizes, offset)


def _typical(columns: Any, own: NDArray[np.intp]) -> dict[Any, Any]:
    """Return the median of each number and the most frequent level of each other column."""
    found = {}
    for name in columns.columns:
        values = columns[name].iloc[own].dropna()
        numbers = values.dtype.kind in "iuf" and values.nunique() > 2
        found[name] = values.quantile(0.5, interpolation="lower") if numbers else values.mode().iloc[0]
    return found


def views(models: Mapping[float, Any], found: Profiles, places: Places, label: str | None) -> Views:
    """Return what fitted models, by xi, predict for profiles."""
    options: dict[str, Any] = {} if found.offset is None else {"offset": found.offset}
    laws = {xi: model.predict_distribution(found.table, **options) for xi, model in models.items()}
    kind, x = _axis(laws, places)
    basis = models[0.0].result_.basis
    steps = basis.kind == "step"  # so that medians are outcomes of rows
    drawn = [_drawn(law, kind, x, steps) for law in laws.values()]
    rows: list[dict[str, Any]] = [
        {"name": name, "about": about, "n": n}
        | {part: [None if own[part] is None else own[part][k] for own in drawn] for part in drawn[0]}
        for k, (name, about, n) in enumerate(zip(found.names, found.about, found.n, strict=True))
    ]
    for row in rows:
        for part in ("density", "survival"):
            row[part] = None if any(values is None for values in row[part]) else row[part]
    return Views(kind, label or "outcome", list(x), list(laws), rows, _bends(basis, x))


def _bends(basis: Any, x: Any) -> list[float]:
    """Return the ends of the support, rounded, at which densities may bend among the outcomes that are drawn."""
    if basis.kind != "bernstein" or basis.extrapolate != "linear":
        return []
    return [float(f"{end:.3g}") for end in basis.support if x[0] < end < x[-1]]


def _drawn(law: Any, kind: str, x: Any, steps: bool) -> dict[str, Any]:
    """Return densities, survival and medians of all profiles under fits at one xi."""
    survival = None if kind == "classes" else np.asarray(law.sf(np.asarray(x, dtype=np.float64)))
    median = np.asarray(law.ppf(0.5), dtype=object)
    if steps and kind == "survival":
        median = _nearest(np.asarray(x), median.astype(np.float64))
    return {"density": _density(law, kind, x), "survival": survival, "median": median}


def _axis(laws: Mapping[float, Any], places: Places) -> tuple[str, Any]:
    """Return what is drawn, and the outcomes at which it is known."""
    first, outcome = laws[0.0], kind_of_outcome(places)
    if outcome == "class":
        return "classes", list(first.basis.levels)
    response = places.data.response
    if outcome == "time":
        event = response.kind == Kind.EXACT
        times = response.upper[event] if event.any() else response.lower
        return "survival", np.linspace(0.0, _rounded(np.quantile(times, 0.95) * 1.2), POINTS)
    low, high = (np.asarray(first.ppf(q), dtype=np.float64) for q in (0.005, 0.995))
    low, high = low[np.isfinite(low)], high[np.isfinite(high)]
    if not low.size or not high.size:
        raise AnchorTMError("predicted quantiles are infinite")
    if hasattr(first, "pmf") and _whole(first):
        top = max(int(high.max()), 1)
        if top > MOST_COUNTS:  # nearly all probability is far below a few long tails
            top = max(int(np.nanmax(np.asarray(first.ppf(0.9), dtype=np.float64))), MOST_COUNTS)
        return "counts", np.unique(np.linspace(0, top, min(MOST_COUNTS, top) + 1).astype(int))
    return "density", np.linspace(float(low.min()), float(high.max()), POINTS)


def _whole(law: Any) -> bool:
    """Return whether a law is one of whole numbers."""
    try:
        return bool(np.isfinite(np.asarray(law.pmf(np.array([0.0, 1.0])), dtype=np.float64)).all())
    except (AnchorTMError, AttributeError, TypeError):
        return False


def _density(law: Any, kind: str, x: Any) -> Array | None:
    """Return densities or probabilities of each row at x; None if the law has none."""
    if kind == "classes":
        return np.asarray(law.probabilities())
    try:
        values = np.asarray(x, dtype=np.float64)
        return np.asarray(law.pmf(values) if kind == "counts" else law.pdf(values))
    except (AnchorTMError, AttributeError):
        return None


def _nearest(x: Array, values: Array) -> Array:
    """Return the nearest of the points to each value, the last one for values beyond them."""
    near = x[np.abs(x[:, None] - np.nan_to_num(values, posinf=0.0)).argmin(axis=0)]
    return np.where(values <= x[-1], near, np.where(np.isfinite(values), x[-1], values))


def _rounded(value: Any) -> float:
    """Return a number with three digits, which is not the outcome of a row."""
    return float(f"{value:.3g}")


def _short(value: Any) -> float:
    """Return a number as an integer if it is one: it is written into a label."""
    return int(value) if float(value).is_integer() else float(value)


def effects(models: Mapping[float, Any], source: Source, places: Places, seed: int) -> Effects:
    """Return average effects of covariates on the scale of the outcome, by xi.

    Effects on classes and counts are those on the probability to be above the middle one.
    """
    used = places.data.rows_used
    chosen = np.sort(np.random.default_rng(seed).choice(used, min(used.size, MOST_EFFECTS), replace=False))
    at = source.given(source.columns.iloc[chosen])
    options: dict[str, Any] = {}
    if places.data.offset is not None:
        options["offset"] = np.full(len(at), float(np.mean(places.data.offset)))
    kind, response = kind_of_outcome(places), places.data.response
    if kind == "class":
        levels = response.levels
        assert levels is not None  # noqa: S101
        options |= {"of": "probability", "above": levels[(len(levels) - 1) // 2]}
    elif kind == "count":
        options |= {"of": "probability", "above": _short(np.median(response.upper))}
    elif kind == "time":
        event = response.kind == Kind.EXACT
        options |= {"of": "probability", "above": _short(_rounded(np.median(response.upper[event])))}
    found = {xi: marginal_effects(model, at, **options) for xi, model in models.items()}
    first = found[next(iter(found))]
    made = [
        {
            "name": str(name),
            "per": str(row["per"]),
            "values": [float(own.table.loc[name, "effect"]) for own in found.values()],
        }
        for name, row in first.table.iterrows()
    ]
    return Effects(f"change of {first.of}", list(found), made)
