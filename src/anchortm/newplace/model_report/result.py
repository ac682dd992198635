"""A report on a fitted model at the places of a table: what it is, what it predicts there, and whether that fits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from anchortm._messages import shown
from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome, Place, Seed
from anchortm._util.files import write_whole
from anchortm._util.frames import is_batched
from anchortm._util.pipelines import model_of
from anchortm.exceptions import InputError, InputTypeError
from anchortm.newplace.model_report.about import about_methods, about_model, about_table
from anchortm.newplace.model_report.conclusions import conclusions_of
from anchortm.newplace.model_report.drift import drift_of, extrapolation_of, outside_of
from anchortm.newplace.model_report.rows import ALL, read_rows
from anchortm.newplace.model_report.scores import calibration_of, chosen_times, expected_of, scores_of, site_of
from anchortm.newplace.model_report.words import frame_of, page_of_text, sections_of
from anchortm.predict.observed import rows_of_table
from anchortm.predict.placed_rows import check_place

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelReport", "model_report"]


@dataclass(frozen=True, eq=False)
class ModelReport:
    """A report on a fitted model at the places of a table.

    It holds numbers of at least five rows, and no rows. Places with fewer rows that can be predicted are listed with
    their number of rows only.

    Attributes
    ----------
    record : dict
        All that the report says, as plain values; ``to_dict`` returns a copy.

    See Also
    --------
    anchortm.model_report : makes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> north = data.town.isin(data.town.unique()[:40])
    >>> model = atm.ContinuousLogit.from_formula("cmedv ~ rm + lstat | town", data[north])
    >>> found = atm.model_report(model, data[~north])
    >>> found.frame()[["environment", "n", "median", "residual"]].tail(3).round(2)
        environment  n  median  residual
    49    Westwood  3     NaN       NaN
    50    Weymouth  8   22.35     -0.62
    51    Winthrop  5   25.69     -0.76
    >>> print(found.conclusions[0])
    90 % intervals cover 68 % of 286 outcomes (95 % interval 52 % to 85 %): predictions are too narrow here, or shifted.
    """

    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values for JSON: a number that is not known is None.

        Returns
        -------
        dict
            ``about`` the model; the ``table``; ``conclusions``, sentences; ``all``, the row of all rows together, and
            ``sites``, one for each place; ``calibration``; ``extrapolation``; ``drift``; ``methods``.
        """
        return deepcopy(self.record)

    @property
    def conclusions(self) -> list[str]:
        """Return what the report says, and what it cannot say, as sentences."""
        return list(self.record["conclusions"])

    def frame(self) -> pd.DataFrame:
        """Return one row for each place; a single row if the rows come without places.

        Returns
        -------
        DataFrame
            ``n``, the number of rows; ``bad``, how many of them cannot be predicted; means over the others of what is
            predicted: ``q10``, ``median`` and ``q90`` of numbers, times and counts, ``p_<class>`` of classes,
            ``sf_<t>`` (survival) of times, ``mean`` of GLMs; ``beyond``, the share of rows with a covariate outside
            its training range. With outcomes: their number ``outcomes``; ``events`` of times; ``nll``; ``residual``,
            the mean score residual, above 0 where outcomes are larger than predicted, and the limits ``lower`` and
            ``upper`` of its 95 % interval; ``mae``, the mean distance from the predicted median (from the mean of
            GLMs); ``coverage_50``, ``coverage_80`` and ``coverage_90``; ``concordance`` of times; and what was
            observed in place of what was predicted: ``observed_p_<class>``, ``observed_sf_<t>`` (Kaplan-Meier) or
            ``observed_mean``. NaN where a number is not known.
        """
        return frame_of(self.record)

    @shown
    def __repr__(self) -> str:
        return page_of_text(self.record)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report to one HTML file, whole or not at all, which any browser opens from the disk.

        It has plots, and a table of places that readers can sort and search. It has the names of places, but no rows
        of your data, and loads nothing from elsewhere.

        Parameters
        ----------
        path : path
            The file, such as "report.html".

        Returns
        -------
        Path
        """
        from anchortm.newplace.report import model_page

        text = model_page(self.record)
        return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def _repr_html_(self) -> str:
        from anchortm._util.html import report

        title, *parts = sections_of(self.record)
        return "\n".join([report(title.heading, *title.parts), *(report(part.heading, *part.parts) for part in parts)])


def model_report(
    model: Any,
    X: Covariates | str,
    y: Outcome | AnyTable | None = None,
    environments: Labels | None = None,
    *,
    offset: Numbers | None = None,
    training: Covariates = None,
    times: Sequence[float] | None = None,
    place: Place = "average",
    random_state: Seed = 0,
    source: Mapping[str, str] | None = None,
) -> ModelReport:
    """Return a report on a fitted model at the places of a table, for people who did not fit it.

    It says what the model is, what it predicts at each place, whether outcomes agree where there are some, which rows
    leave the training range, and how covariates differ from those of the fit. It says so if a conclusion is not
    possible. Rows that the model cannot predict are counted by reason and left out.

    Parameters
    ----------
    model : fitted model
        It may come from ``load``. Of a search or a ``ConformalPredictor``, the model inside is used.
    X : table or array
        The rows. After a fit by a formula, the table with the columns of the formula.
    y : outcomes, optional
        After a fit by a formula they are taken from the table if it has them. Rows may lack their outcome.
    environments : array or column name, optional
        The place of each row. By default the anchor of the formula, if it is a factor and the table has it.
    offset : array or column name, optional
        As for ``predict_distribution``.
    training : table or array, optional
        The rows of the fit, to compare means of covariates. A fitted model knows ranges of numbers and how often each
        level occurred, but not the means.
    times : sequence of float, optional
        Times at which to report survival, for outcomes that are times. By default three up to the longest of the fit.
    place : {"average", "new"}
        Whether predictions are those for an average place of the fit or for a new one, as for
        ``predict_distribution``.
    random_state : int, Generator or None
        Seed of the transforms that are drawn at random in censored and discrete rows.
    source : dict of str, optional
        More facts to print about the model, such as its file. ``command``, the line of the shell that makes the
        report, is printed at the end.

    Returns
    -------
    ModelReport

    See Also
    --------
    anchortm.scores.score_table : scores alone
    anchortm.compare_strategies : whether anchoring helps at a new place

    Notes
    -----
    The interval of a mean residual is by Student's t for independent rows; places with fewer than five events have
    none. The interval of a coverage is that of Clopper and Pearson, widened where needed to the one that counts places
    as the independent units (with at least five places). The calibration slope is that of a regression of the outcomes
    on the predicted medians, or means of GLMs.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> found = atm.model_report(model, data.drop(columns="status"))
    >>> found.frame()[["environment", "n", "median", "sf_190"]].head(2).round(2)
      environment   n  median  sf_190
    0   Amsterdam  19  369.74    0.81
    1  Copenhagen   4     NaN     NaN
    >>> found.conclusions[0]
    "Calibration cannot be judged: the table has no column 'status'."
    """
    if isinstance(X, str):
        X, y = rows_of_table(model_of(model), X, y)
    inner = _fitted(model)
    options = {"place": place} if check_place(place) else {}
    rows = read_rows(inner, X, y, environments, offset, _n_rows(X), options)
    times = chosen_times(rows, times)
    expected, columns, scored = expected_of(rows, times), outside_of(rows), scores_of(rows, random_state)
    outside = None if columns is None else ((columns[1] < columns[2][0]) | (columns[1] > columns[2][1])).any(axis=1)
    sites = [
        {"name": name if isinstance(name, (str, int, float, bool)) else str(name)}
        | site_of(rows, expected, outside, scored, times, place=code)
        for code, name in enumerate(rows.places)
    ]
    facts = dict(source or {})
    command = facts.pop("command", None)
    notes = () if scored is None else scored.remarks
    record = {
        "about": about_model(rows, times, facts),
        "table": about_table(rows, sites),
        "all": {"name": ALL} | site_of(rows, expected, outside, scored, times, place=None),
        "sites": sites,
        "calibration": calibration_of(rows, expected, scored, times),
        "extrapolation": extrapolation_of(rows, columns, rows.law),
        "drift": drift_of(rows, X, columns, training),
        "methods": about_methods(rows, random_state, place) | {"command": command, "notes": list(notes)},
    }
    return ModelReport(record | {"conclusions": conclusions_of(record)})


def _fitted(model: Any) -> Any:
    """Return the fitted model of this package inside a search, a pipeline or a predictor of sets."""
    inner = model_of(model.model_ if hasattr(type(model), "predict_interval") else model)
    if not hasattr(type(inner), "new_rows_"):
        raise InputTypeError(f"model must be a fitted model of this package, not {type(model).__name__}")
    check_is_fitted(inner)
    return inner


def _n_rows(X: Any) -> int:
    """Return the number of rows; refuse what is not in memory, and no rows."""
    if X is None or is_batched(X):
        raise InputTypeError(f"X must be a table or an array in memory, not {type(X).__name__}: read the table first")
    n_rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
    if n_rows == 0:
        raise InputError("X has no rows")
    return n_rows
