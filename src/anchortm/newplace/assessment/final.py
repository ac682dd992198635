"""The strategies fitted to all rows: what they tune is tuned on the left-out environments of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import Any

from anchortm.exceptions import AnchorTMError
from anchortm.inputs.formula import Formula
from anchortm.models.base import TransformationModel
from anchortm.newplace.compare import Compared
from anchortm.newplace.strategies import STRATEGIES, Strategy
from anchortm.newplace.training import Training
from anchortm.selection.designs import like
from anchortm.selection.tuning import Tuning

__all__ = ["Finals"]


class _OfTables:
    """A fitted model that is not one of this package's estimators, and reads tables by a formula."""

    def __init__(self, model: Any, formula: Formula) -> None:
        self._model, self._formula = model, formula

    def predict_distribution(self, X: Any, **options: Any) -> Any:
        """Return the distributions of rows of a table."""
        return self._model.predict_distribution(self._formula.design(X), **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of copies, which have no attributes yet
            raise AttributeError(name)
        return getattr(self._model, name)


class Finals(Mapping[str, Any]):
    """Fitted models by the name of their strategy, each fitted when it is asked for.

    Parameters
    ----------
    compared : Compared
        The comparison with its left-out fits.
    design : {"like", "further"}
        The kind of place that strategies are tuned for.
    strategies : mapping
        The strategies by name.
    min_rows : int
        Environments with fewer rows do not count in quantiles.
    """

    def __init__(self, compared: Compared, design: str, strategies: Mapping[str, Strategy], min_rows: int) -> None:
        self._compared, self._design, self._min_rows = compared, design, min_rows
        self._strategies = dict(strategies)
        self._fitted: dict[str, Any] = {}

    @cached_property
    def _training(self) -> Training:
        rows, places = self._compared.rows, self._compared.places
        tuning: Tuning | str | None = self._compared.tuning if self._design == "further" else None
        if tuning is None:
            try:
                tuning = Tuning.of(places, frozenset(), like(places), self._compared.records)
            except (AnchorTMError, KeyError) as error:
                tuning = str(error)
        return Training(rows, places, frozenset(), tuning, self._min_rows)

    def at(self, xi: float) -> Any:
        """Return the model fitted to all rows at an xi."""
        rows, places = self._compared.rows, self._compared.places
        return rows.reading(copy(self._training.fit(float(xi))), places.problem)

    @property
    def ml(self) -> Any:
        """Return the fit by maximum likelihood, which takes rows as the comparison does."""
        return self._training.fit()

    def __getitem__(self, name: str) -> Any:
        if name not in self._fitted:
            found = (self._strategies.get(name) or STRATEGIES[name]).fit(self._training)
            self._fitted[name] = self._reading(found)
        return self._fitted[name]

    def _reading(self, found: Any) -> Any:
        """Return a fitted model that reads tables by the formula, if there is one."""
        rows = self._compared.rows
        if isinstance(found, TransformationModel):
            return rows.reading(copy(found), self._compared.places.problem)
        return found if rows.formula is None else _OfTables(found, rows.formula)

    def __iter__(self) -> Iterator[str]:
        return iter(self._strategies)

    def __len__(self) -> int:
        return len(self._strategies)
