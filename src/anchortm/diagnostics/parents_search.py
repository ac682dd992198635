"""Test all sets of covariates: how many there are, in which order, and what they cost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.diagnostics.invariance_methods import SetTest
from anchortm.exceptions import AnchorTMError, InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ParentsSearch"]

CHUNK = 64  # sets that one process tests in a row; each fit starts from the one before


@dataclass(frozen=True, eq=False)
class ParentsSearch:
    """A test, and the sets to test: the mandatory terms with up to ``size`` of the candidates."""

    test: SetTest
    candidates: tuple[int, ...]
    mandatory: tuple[int, ...]
    size: int

    @property
    def n_sets(self) -> int:
        """Return the number of sets."""
        return sum(math.comb(len(self.candidates), k) for k in range(self.size + 1))

    def of_size(self, k: int) -> list[tuple[int, ...]]:
        """Return the sets of one size; neighbours in this order have most of their terms in common."""
        return list(combinations(self.candidates, k))

    def check_price(self, most: int) -> None:
        """Refuse more fits than ``most``, and say how long they would take."""
        if self.n_sets <= most:
            return
        seconds = self._one_test()
        p = len(self.candidates)
        bound = "" if self.size == p else f" of at most {self.size}"
        raise InputError(
            f"{p} covariates have {self.n_sets} sets{bound}, each with a fit of its own: about "
            f"{_duration(seconds * self.n_sets)} in one process, at {1000 * seconds:.2g} ms each. The limit is "
            f"max_fits={most}: raise it, or test fewer sets by screen='lasso' or 'blanket', max_size or mandatory; the "
            "documentation of causal_parents says what each does to the guarantee"
        )

    def _one_test(self) -> float:
        """Return the seconds that one set of the middle size takes."""
        middle = self.candidates[: max(1, min(self.size, len(self.candidates) // 2))]
        began = time.perf_counter()
        self._row(self.test.fresh(), middle)
        return time.perf_counter() - began

    def run(self, n_jobs: int | None, stop_level: float | None = None) -> tuple[pd.DataFrame, bool]:
        """Return the tests, one row for each set, and whether the search stopped early.

        With ``stop_level`` it stops after the first size at which no covariate is in all accepted sets.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        sizes = [[k] for k in range(self.size + 1)] if stop_level is not None else [[*range(self.size + 1)]]
        with Task("sets of covariates", self.n_sets) as task:
            for own in sizes:
                sets = [one for k in own for one in self.of_size(k)]
                with Task("sets of covariates", math.ceil(len(sets) / CHUNK)) as inner:
                    for part in inner.map(self._chunk, list(_chunks(sets)), n_jobs):
                        rows += part
                task.step(len(sets))
                if stop_level is not None and own[0] < self.size and self._settled(rows, stop_level):
                    return pd.DataFrame(rows), True
        return pd.DataFrame(rows), False

    def _chunk(self, sets: Sequence[tuple[int, ...]]) -> list[dict[str, Any]]:
        """Return the tests of some sets, whose fits start from each other."""
        test = self.test.fresh()
        with one_blas_thread():  # matrices are small
            return [self._row(test, own) for own in sets]

    def _row(self, test: SetTest, own: tuple[int, ...]) -> dict[str, Any]:
        """Return the test of a set, or the reason why it cannot be tested."""
        terms = test.setting.terms
        row: dict[str, Any] = {"set": terms.named(own), "size": len(own), "reason": ""}
        try:
            found = test(terms.columns_of([*self.mandatory, *own]))
        except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
            return row | {"statistic": math.nan, "df": 0, "p_value": math.nan, "reason": str(error)}
        return row | {"statistic": found.statistic, "df": found.df, "p_value": found.p_value}

    def _settled(self, rows: list[dict[str, Any]], level: float) -> bool:
        """Return whether no covariate is in all accepted sets, so that further sets change nothing."""
        names = self.test.setting.terms.named(self.candidates)
        accepted = [set(row["set"]) for row in rows if not row["p_value"] <= level]
        return bool(accepted) and not set(names).intersection(*accepted)

    def with_test(self, test: SetTest) -> ParentsSearch:
        """Return the search of the same sets by another test."""
        return replace(self, test=test)


def _chunks(sets: Sequence[tuple[int, ...]]) -> Iterator[Sequence[tuple[int, ...]]]:
    for start in range(0, len(sets), CHUNK):
        yield sets[start : start + CHUNK]


def _duration(seconds: float) -> str:
    """Return a time in a unit that people read."""
    for unit, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"
