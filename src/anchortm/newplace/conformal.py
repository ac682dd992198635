"""Sets with a coverage guarantee at a new place: conformal prediction with places as units."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import AnyTable, Array, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import jobs
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.judgement import OnBadRows, Unknown
from anchortm.newplace.conformal_fits import METHODS, calibrated
from anchortm.newplace.conformal_rows import PlaceRows
from anchortm.newplace.conformal_views import Calibrated
from anchortm.newplace.coverage import PlaceCoverage, of_calibration, of_new_places
from anchortm.predict.observed import rows_of_table

__all__ = ["ConformalPredictor"]


class ConformalPredictor(Calibrated):
    """Intervals, sets and lower bounds with valid coverage at a new place, even if the model is wrong.

    The model is fitted to some places and its predictions are compared with the outcomes of others, which the fit has
    not seen. Sets are as wide as these outcomes need. The coverage is guaranteed if the new place and the given places
    are exchangeable: as if all were drawn from one population of places. Rows of one place may depend on each other.

    Parameters
    ----------
    model : estimator
        Any model of this package, a search such as ``XiSearchCV``, or a pipeline that ends in one. It is not changed.
        A search is repeated in each fit, so that what it chooses does not depend on the places that are scored.
    level : float
        Share of rows that sets should cover.
    guarantee : {"average", "places"}
        "average": a row of a new place is covered with a probability of at least ``level``. "places": in at least a
        share ``share`` of new places, at least a share ``level`` of the rows is covered.
    share : float
        Share of new places for ``guarantee="places"``.
    method : {"split", "loeo", "full"}
        "split" fits the model to half of the places, drawn at random, and calibrates on the others. "loeo" leaves out
        one place after another and predicts with all of these fits: jackknife+ for "average", for which only
        ``2 level - 1`` is guaranteed, and jackknife-minmax for "places". "full" leaves out one place after another and
        predicts with the fit to all places: sets are often shortest, but nothing is guaranteed.
    random_state : int
        Seed of the random halves.
    cut : int, optional
        Cut numeric environments at their quantiles into this many places.
    n_jobs : int, optional
        Number of processes for left-out fits; -1 uses all cores.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal or notebook.

    Attributes
    ----------
    model_ : estimator
        The fitted model: to half of the places with "split", else to all of them.
    guarantee_ : str
        What is promised, and under which condition.
    approximate_ : bool
        Whether the promise holds only approximately.
    threshold_ : float
        Largest score of outcomes that belong to the sets; infinite if there are too few places.
    nominal_level_ : float
        1 - exp(-threshold_): the level that the model's own central intervals need to keep the promise.
    places_needed_ : int
        Smallest number of calibration places; with fewer, sets are infinite.
    training_environments_, calibration_environments_ : array
        The places of the fit, and those that were scored.
    notes_ : tuple of str
        Rows and places that count as not covered, because they could not be predicted.

    See Also
    --------
    anchortm.newplace.coverage.PlaceCoverage : coverage by place

    Notes
    -----
    ``level``, ``guarantee`` and ``share`` may be changed after the fit, by ``set_params``; predictions use what is set.

    Weights replicate rows, as in all fits: a row of weight 2 counts as two rows of its place. The share of rows in a
    promise is then a share of weights, and each place counts the same whatever its total weight.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> predictor = atm.ConformalPredictor(atm.ContinuousProbit(), level=0.9)
    >>> predictor.fit("cmedv ~ rm + lstat | town", data)
    ConformalPredictor(ContinuousProbit, split): 90 % intervals for new places
      promise   a row of a new place is covered with a probability of at least 90 %
      if        the new place and these are exchangeable, as if drawn from one population of places
      places    92 (town): 46 to fit, 46 to calibrate; 9 are needed
      sets      the central 97.9 % of each predicted distribution
    >>> lower, upper = predictor.predict_interval(data[:2])
    >>> lower.round(1), upper.round(1)
    (array([19.6, 17.4]), array([51.1, 40.2]))

    Sets of classes, and lower bounds of censored times:

    >>> wine = atm.datasets.load_wine()
    >>> ordinal = atm.ConformalPredictor(atm.OrdinalRegression(), 0.8, method="loeo")
    >>> ordinal.fit("rating ~ temp + contact | judge", wine).predict_set(wine[:2])
    [[1, 2, 3], [1, 2, 3]]
    >>> cgd = atm.datasets.load_cgd()
    >>> times = atm.ConformalPredictor(atm.ParametricSurvival(), 0.8)
    >>> times.fit("Surv(tstop, status) ~ treat + age | center", cgd).lower_bound(cgd[:2]).round()
    array([112.,  47.])
    """

    def __init__(
        self,
        model: Any,
        level: float = 0.9,
        guarantee: str = "average",
        share: float = 0.9,
        method: str = "split",
        random_state: Seed = 0,
        *,
        cut: int | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.level = level
        self.guarantee = guarantee
        self.share = share
        self.method = method
        self.random_state = random_state
        self.cut = cut
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        environments: Labels | None = None,
        anchors: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Self:
        """Fit the model to some places, and calibrate the sets on others.

        Parameters
        ----------
        X, y : covariates and outcome
            As for ``fit`` of the model; or a formula and a table, ``fit(formula, data)``.
        environments : array, or column name of a table
            The place of each row; by default the anchors.
        anchors : array, frame or list of columns, optional
            Anchors of the fits; by default the environments.
        sample_weight, offset : arrays, or column names of a table, optional
            As for ``fit`` of the model.

        Returns
        -------
        self
            The fitted predictor.
        """
        promise = self._promise()
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise InputError(f"method must be 'split', 'loeo' or 'full', not {self.method!r}")
        beside = {"anchors": anchors, "sample_weight": sample_weight, "offset": offset, "environments": environments}
        rows = PlaceRows.of(self.model, X, y, self.cut, **beside)
        found = calibrated(rows, self.method, promise, self.random_state, jobs(self.n_jobs), self.progress)
        self._calibration = found
        self.warn_if_infinite()
        return self

    def _ends(
        self,
        X: Covariates | AnyTable,
        both: bool,
        offset: Numbers | None,
        trials: Numbers | None,
        on_bad_rows: OnBadRows,
        unknown: Unknown,
    ) -> tuple[Array, Array]:
        """Return the ends of sets as numbers, classes as positions; NaN in rows that are marked as bad."""
        found, promise = self.calibration_, self._promise()
        if both and found.censored:
            raise InputError(
                f"{found.censored} outcomes are censored, so that only lower_bound is available: these rows do not "
                "show how late censored events are, unless the censoring is modelled too"
            )
        if on_bad_rows not in ("error", "mark"):
            raise InputError(f"on_bad_rows must be 'error' or 'mark', not {on_bad_rows!r}")
        options: dict[str, Any] = {"unknown": unknown}
        options |= {k: values for k, values in (("offset", offset), ("trials", trials)) if values is not None}
        lower, upper, bad = found.ends(promise, X, both, **options)
        if bad.any() and on_bad_rows == "error":
            found.model.predict_distribution(X, **options)  # raises an error that names the rows
            raise InputError(f"row {int(np.flatnonzero(bad)[0])} cannot be predicted: its levels are in one place only")
        return lower, upper

    def predict_interval(
        self,
        X: Covariates | AnyTable = None,
        *,
        offset: Numbers | None = None,
        trials: Numbers | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the ends of the interval of each row.

        Parameters
        ----------
        X : array or frame
            New rows, in one batch or many: each row has its own interval. After a fit by a formula, a table with the
            columns of the formula.
        offset, trials, on_bad_rows, unknown
            As for ``predict_distribution`` of the model.

        Returns
        -------
        lower, upper : arrays of shape (n,)
            For ordinal models, the first and the last class. Infinite if there are too few places: a warning says how
            many are needed.
        """
        ends = self._ends(X, True, offset, trials, on_bad_rows, unknown)
        self.warn_if_infinite(True)
        return self._outcomes(ends[0]), self._outcomes(ends[1])

    def predict_set(
        self,
        X: Covariates | AnyTable = None,
        *,
        offset: Numbers | None = None,
        trials: Numbers | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
    ) -> list[Sequence[Any]]:
        """Return the set of classes or counts of each row; it has no gaps.

        Parameters
        ----------
        X, offset, trials, on_bad_rows, unknown
            As for ``predict_interval``.

        Returns
        -------
        list
            For each row a list of classes, or a ``range`` of counts. A range without an end stops at ``sys.maxsize``.
            Sets of bad rows that are marked are empty.
        """
        found = self.calibration_
        if not (found.levels is not None or found.scale == "count"):
            raise InputTypeError("predict_set is for ordinal outcomes and counts: use predict_interval for numbers")
        lower, upper = self._ends(X, True, offset, trials, on_bad_rows, unknown)
        self.warn_if_infinite(True)
        sets: list[Any] = [_range(low, high) for low, high in zip(lower.tolist(), upper.tolist(), strict=True)]
        levels = found.levels
        return sets if levels is None else [[levels[k] for k in own] for own in sets]

    def lower_bound(
        self,
        X: Covariates | AnyTable = None,
        *,
        offset: Numbers | None = None,
        trials: Numbers | None = None,
        on_bad_rows: OnBadRows = "error",
        unknown: Unknown = "error",
    ) -> NDArray[Any]:
        """Return a lower bound of the outcome of each row; outcomes may be censored.

        A censored outcome counts as if the event had happened when the row was last seen. The bound then holds for
        that time, and so for the event, which is later. Upper bounds would need a model of the censoring.

        Parameters
        ----------
        X, offset, trials, on_bad_rows, unknown
            As for ``predict_interval``.

        Returns
        -------
        array of shape (n,)
            The smallest possible outcome if there are too few places: a warning says how many are needed.
        """
        lower = self._ends(X, False, offset, trials, on_bad_rows, unknown)[0]
        self.warn_if_infinite(False)
        return self._outcomes(lower)

    @property
    def end_names_(self) -> tuple[str, ...]:
        """Return the names of the ends that sets have: only the lower one if outcomes are censored."""
        return ("lower",) if self.calibration_.censored else ("lower", "upper")

    def end_columns(
        self, X: Covariates | AnyTable, on_bad_rows: OnBadRows = "error", unknown: Unknown = "error"
    ) -> dict[str, NDArray[Any]]:
        """Return the ends of the sets by name, for tables; without a warning if they are infinite.

        Parameters
        ----------
        X, on_bad_rows, unknown
            As for ``predict_interval``.

        Returns
        -------
        dict of arrays
        """
        both = len(self.end_names_) > 1
        ends = self._ends(X, both, None, None, on_bad_rows, unknown)
        return {name: self._outcomes(values) for name, values in zip(self.end_names_, ends, strict=False)}

    def _outcomes(self, numbers: Array) -> NDArray[Any]:
        """Return positions of classes as classes, None where they are missing; other numbers as they are."""
        levels = self.calibration_.levels
        if levels is None:
            return numbers
        missing = np.isnan(numbers)
        labels = np.empty(len(levels), dtype=object)
        labels[:] = levels
        found = labels[np.where(missing, 0.0, numbers).astype(np.intp)]
        found[missing] = None
        alike = len({type(level) for level in levels}) == 1 and not missing.any()
        return np.array(found.tolist()) if alike else found

    def coverage_by_place(
        self,
        X: Covariates | str | AnyTable = None,
        y: Outcome | AnyTable | None = None,
        environments: Labels | None = None,
        *,
        sets: str | None = None,
        offset: Numbers | None = None,
    ) -> PlaceCoverage:
        """Return which share of the rows of each place is covered.

        Parameters
        ----------
        X, y : covariates and outcome, optional
            Rows of new places, as for ``fit``; after a fit by a formula, the table alone. By default the places that
            were scored, each by a fit that has not seen it. They set the threshold, so that their coverage shows which
            places are hard, but does not test the promise.
        environments : array, or column name of a table
            The place of each new row. By default the anchor of the formula.
        sets : {"interval", "lower"}, optional
            Whether intervals or lower bounds are to cover; by default intervals, unless outcomes are censored. A
            censored outcome counts as covered if the row was seen beyond its lower bound.
        offset : array, optional
            Offset of new rows, as for ``predict_distribution`` of the model.

        Returns
        -------
        PlaceCoverage
        """
        promise = self._promise()
        if X is None and y is None:
            return of_calibration(self.calibration_, promise, sets)
        X, y = rows_of_table(self.model_, X, y)
        return of_new_places(self.calibration_, promise, sets, X, y, environments, offset, self._ends)


def _range(low: float, high: float) -> range:
    """Return the whole numbers between two ends; none if they are not numbers."""
    if math.isnan(low):
        return range(0)
    return range(int(low), sys.maxsize if math.isinf(high) else min(int(high) + 1, sys.maxsize))
