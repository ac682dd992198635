"""Fitted attributes about shifts between places, and the rows of a new place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anchortm._typing import Place
from anchortm.engine.place_variance import PlaceVariance
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.shift_law import NormalShift
from anchortm.exceptions import InputError
from anchortm.models.attributes import FittedAttributes
from anchortm.predict.new_rows import NewRows
from anchortm.predict.placed_rows import check_place

__all__ = ["AtPlaces", "NewPlaces"]


class AtPlaces:
    """A fitted model that knows, or finds out, how much places differ."""

    @property
    def place_variance_(self) -> PlaceVariance:
        """Return how much places differ, from fits that leave one environment out.

        It is computed at the first use while the model has the rows of its fit, or by the fit if the constructor has
        ``place_variance=True``. Saved models keep it.

        Returns
        -------
        PlaceVariance
            Both estimates with standard errors, and the environments that could not be used.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear().fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> model.place_variance_.frame().round(2)
                    sd  std. error
        joint     0.76        0.16
        row-wise  0.52        0.40
        """
        raise NotImplementedError

    @property
    def place_sd_(self) -> float:
        """Return the standard deviation of shifts of h between places, by the joint likelihood of left-out places.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear().fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> round(model.place_sd_, 2)  # in units of h: of the standard deviation of one town
        0.76
        """
        return self.place_variance_.sd

    @property
    def place_sd_rowwise_(self) -> float:
        """Return the standard deviation of shifts that predicts single left-out rows best; ``place="new"`` uses it.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear().fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> round(model.place_sd_rowwise_, 2)
        0.52
        """
        return self.place_variance_.rowwise


class NewPlaces(AtPlaces, FittedAttributes):
    """A fitted model whose left-out fits start from its own."""

    verbose: int
    place_variance: bool

    @property
    def new_rows_(self) -> NewRows:
        """Return the object that turns new rows into linear predictors and outcomes of this model."""
        raise NotImplementedError

    def _rows_at(self, place: Place = "average") -> Any:
        """Return the object that reads new rows, of an average place or of a new one.

        Parameters
        ----------
        place : {"average", "new"}

        Returns
        -------
        NewRows
        """
        if not check_place(place):
            return self.new_rows_
        if self.result_.recalibration is not None:
            raise InputError('place="new" needs the model before recalibration: this one is recalibrated to its place')
        return replace(self.new_rows_, law=NormalShift(0.0, self.place_sd_rowwise_))

    @property
    def place_variance_(self) -> PlaceVariance:  # noqa: D102 - as in the base class
        result = self.result_
        if "places" not in result.computed:
            self._measure_places(self.problem_ if self.has_rows_ else None, result)
        found: PlaceVariance = result.computed["places"]
        return found

    def _measure_places(self, problem: Problem | None, result: FitResult) -> None:
        """Add to a result how much places differ."""
        from anchortm.newplace.place_variance import place_variance

        result.computed["places"] = place_variance(problem, result, True if self.verbose else None)
