"""The strategies fitted to all rows: what they tune is tuned on the left-out environments of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import Any

from anchortm.exceptions import AnchorTMError
from anchortm.newplace.compare import Compared
from anchortm.newplace.strategies import STRATEGIES, Strategy
from anchortm.newplace.training import Training
from anchortm.selection.designs import like
from anchortm.selection.tuning import Tuning

__all__ = ["Finals"]


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
            self._fitted[name] = self._compared.rows.reading(copy(found), self._compared.places.problem)
        return self._fitted[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._strategies)

    def __len__(self) -> int:
        return len(self._strategies)
