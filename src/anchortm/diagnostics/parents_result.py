"""Which covariates are in every accepted set: the answer of invariant causal prediction, with all its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Axis
from anchortm._util.checks import level_between
from anchortm._util.html import report
from anchortm.diagnostics.defining_sets import minimal_hitting_sets
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from anchortm.diagnostics.environment_regressions import RegressionName, Regressor
    from anchortm.diagnostics.invariance_tests import InvarianceTest
    from anchortm.diagnostics.parents_search import ParentsSearch
    from anchortm.diagnostics.parents_sensitivity import ParentsSensitivity

__all__ = ["CausalParents", "answered", "asked", "covariate_p_values", "parents_at"]

MOST_SHOWN = 5  # defining sets in a text
FEW_ROWS = 20.0  # rows per degree of freedom, below which the chi-square distribution rejects too often


@dataclass(frozen=True, eq=False)
class CausalParents:
    """The covariates that are in every accepted set.

    Attributes
    ----------
    parents : tuple of str
        The intersection of the accepted sets. With probability 1 - level at least, all of them are parents of the
        outcome, if the model is right for the set of all parents, the environment does not act on the outcome directly,
        and nothing hidden acts on both the outcome and its parents.
    sets : DataFrame
        One row for each set that was tested: set (a tuple of names, without the mandatory ones), size, statistic, df,
        p_value, accepted, and reason, which says why a set could not be tested. Such a set has no p-value and counts as
        accepted: the guarantee holds regardless of what its test would have said.
    p_values : Series
        For each covariate the largest p-value of the sets without it (1 if one of these could not be tested). A
        covariate is a parent at each level from there up to the largest p-value of all sets.
    level : float
    misspecified : bool
        Whether every set was rejected. Then the model is wrong for all sets, and ``parents`` is empty for this reason.
    candidates, mandatory, screened_out : tuples of str
        The covariates that sets are made of, those in every set, and those that screening left out.
    max_size : int or None
        Largest size of a set, if bounded.
    n_sets : int
        Number of sets to test. If the search stopped early, fewer were tested.
    stopped : bool
        Whether the search ended as soon as no covariate was left in all accepted sets. The p-values are then lower
        bounds, which all exceed the level.
    rows : float
        Number of rows for each degree of freedom of the tests.
    model, method, regression : str
        Name of the model, of the statistic, and of the regression of the environments.

    See Also
    --------
    anchortm.causal_parents : computes it

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(3)
    >>> site = rng.integers(0, 3, 400)
    >>> x1 = rng.normal(size=400) + site
    >>> y = x1 + rng.normal(size=400)
    >>> x2 = y + 0.5 * rng.normal(size=400) - site
    >>> found = atm.causal_parents(atm.NormalLinear(), np.column_stack([x1, x2]), y, site)
    >>> found.frame().round(3)
               p_value  parent
    covariate
    x0           0.000    True
    x1           0.923   False
    """

    parents: tuple[str, ...]
    sets: pd.DataFrame
    p_values: pd.Series
    level: float
    misspecified: bool
    candidates: tuple[str, ...]
    mandatory: tuple[str, ...]
    screened_out: tuple[str, ...]
    max_size: int | None
    n_sets: int
    stopped: bool
    rows: float
    model: str
    method: str
    regression: str
    search: ParentsSearch = field(repr=False)  # what sensitivity() asks again

    @property
    def accepted(self) -> list[tuple[str, ...]]:
        """The accepted sets, the smallest first."""
        return self.sets.loc[self.sets["accepted"], "set"].tolist()  # type: ignore[no-any-return]

    @property
    def defining_sets(self) -> list[tuple[str, ...]] | None:
        """The minimal sets that intersect every accepted set, the smallest first; None if there are too many.

        Each contains a parent, under the same conditions as ``parents``. There are none if the empty set is accepted,
        or no set at all, or if the search stopped early.
        """
        if self.misspecified or self.stopped or not all(self.accepted):
            return []
        place = {name: j for j, name in enumerate(self.candidates)}
        found = minimal_hitting_sets(frozenset(place[name] for name in own) for own in self.accepted)
        return None if found is None else [tuple(self.candidates[j] for j in sorted(own)) for own in found]

    def frame(self) -> pd.DataFrame:
        """Return one row for each candidate: its p-value, and whether it is a parent."""
        import pandas as pd

        parent = [name in self.parents for name in self.candidates]
        index = pd.Index(self.candidates, name="covariate")
        return pd.DataFrame({"p_value": self.p_values.to_numpy(), "parent": parent}, index=index)

    def at(self, level: float) -> CausalParents:
        """Return the answer at another level, from the same tests.

        After an early stop the tests answer at smaller levels only.
        """
        level = level_between(level, "level")
        if self.stopped and level > self.level:
            self._refuse_larger_levels()
        return answered(self.sets, level, **asked(self))

    def levels(self) -> pd.DataFrame:
        """Return how the answer depends on the level, from the same tests.

        One row for each answer: it holds at levels from ``level_from`` on and below ``level_to``. In the last row every
        set is rejected.
        """
        import pandas as pd

        if self.stopped:
            self._refuse_larger_levels()
        top = float(np.nanmax(self.sets["p_value"].fillna(1.0)))
        starts = sorted({0.0, *(float(p) for p in self.p_values if p < top)})
        rows = []
        for start, end in zip(starts, [*starts[1:], top], strict=True):
            found = parents_at(self.sets, self.p_values, start)
            rows.append({"level_from": start, "level_to": end, "parents": found, "misspecified": False})
        if top < 1.0:
            rows.append({"level_from": top, "level_to": 1.0, "parents": (), "misspecified": True})
        return pd.DataFrame(rows)

    def _refuse_larger_levels(self) -> None:
        raise InputError(
            f"the search stopped early at level {self.level:g}, and larger levels need further sets: search again with "
            "stop_early=False"
        )

    def sensitivity(
        self, regressions: Sequence[RegressionName | Regressor] = ("linear", "none"), n_jobs: int | None = None
    ) -> ParentsSensitivity:
        """Return how the answer depends on level, environments and regression, and what shifts the covariates.

        The search is repeated for each environment that is left out and for each regression.

        Parameters
        ----------
        regressions : sequence
            Regressions of the environments to compare, as for ``causal_parents``.
        n_jobs : int, optional
            Number of processes.
        """
        from anchortm.diagnostics.parents_sensitivity import parents_sensitivity

        return parents_sensitivity(self, regressions, n_jobs)

    def test(self, covariates: str | Sequence[str]) -> InvarianceTest:
        """Return the test of one set with its residuals, which its ``plot()`` draws against the environments.

        Parameters
        ----------
        covariates : str or sequence of str
            Names of the set; the mandatory ones are added. ``()`` is the empty set.
        """
        from anchortm.diagnostics.invariance_tests import set_test

        test, mandatory = self.search.test, self.search.mandatory
        own = test.setting.terms.places(covariates, "covariates")
        return set_test(test.fresh(), self.method, tuple(sorted({*own, *mandatory})))

    def plot(self, ax: Axis = None, *, of: Literal["parents", "sets"] = "parents", label: int = 3) -> Axes:
        """Draw p-values and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        of : {"parents", "sets"}
            ``"parents"``: of the covariates, with the parents marked. ``"sets"``: of all sets by their sizes, with the
            accepted ones marked.
        label : int
            How many accepted sets to name.

        See Also
        --------
        anchortm.plotting.parents, anchortm.plotting.covariate_sets : draw it
        """
        if of == "sets":
            return plotting.covariate_sets(self.sets, self.level, ax, label=label)
        if of != "parents":
            raise InputError(f"of must be 'parents' or 'sets', not {of!r}; test(set).plot() draws residuals of a set")
        return plotting.parents(self.frame(), self.level, ax, rejected=self.misspecified)

    @shown
    def __str__(self) -> str:
        table = [self.frame().to_string(float_format="{:.3g}".format)] if self.candidates else []
        return "\n".join([self._title(), *table, *self.remarks])

    def _repr_html_(self) -> str:
        return report(self._title(), self.frame(), *self.remarks)

    def _title(self) -> str:
        found = ", ".join(self.parents) or "none found"
        how = f"{self.method}, {self.regression}" if self.method in ("gcm", "simulate") else self.method
        return f"Causal parents at level {self.level:g}: {found} ({self.model}, {how})"

    @property
    def remarks(self) -> list[str]:
        """How to read the answer, and what its guarantee depends on."""
        return [*self._verdict(), *self._limits()]

    def _verdict(self) -> list[str]:
        """Return how to read the answer."""
        if self.misspecified:
            return [
                f"Every set is rejected at level {self.level:g}: the model is misspecified for all of them, a parent "
                "is not among the covariates, or the environment acts on the outcome directly. This is not evidence "
                "that there are no parents."
            ]
        if self.stopped:
            return [
                f"Stopped after {len(self.sets)} of {self.n_sets} sets, as no covariate is in all accepted ones; "
                "p-values are lower bounds."
            ]
        if self.parents and self.sets.loc[self.sets["accepted"], "p_value"].isna().all():
            return ["Every set that could be tested is rejected: the answer rests on sets that could not be tested."]
        if self.parents:
            return []
        if self._tested_and_accepted(()):
            given = f"given {', '.join(self.mandatory)}, " if self.mandatory else ""
            return [f"The empty set is accepted: {given}the outcome does not clearly differ between environments."]
        sets = self.defining_sets
        if sets == []:
            return ["The empty set could not be tested and counts as accepted, so that no covariate is in all of them."]
        if sets is None:
            return ["No covariate is in all accepted sets, and there are too many defining sets to list."]
        listed = "; ".join(" or ".join(own) for own in sets[:MOST_SHOWN])
        more = f" ({len(sets)} in all)" if len(sets) > MOST_SHOWN else ""
        return [f"No covariate is in all accepted sets, but each of these has a parent: {listed}{more}."]

    def _tested_and_accepted(self, own: tuple[str, ...]) -> bool:
        """Return whether a set was tested and accepted."""
        known = self.sets[self.sets["accepted"] & self.sets["p_value"].notna()]
        return own in known["set"].tolist()

    def _limits(self) -> list[str]:
        """Return what the guarantee depends on."""
        notes = []
        if self.method != "simulate" and self.rows < FEW_ROWS:
            notes.append(
                f"{self.rows:.2g} rows for each degree of freedom: the chi-square distribution rejects too often; use "
                "method='simulate'."
            )
        lost = self.sets.loc[self.sets["p_value"].isna(), "reason"]
        if len(lost):
            number = (
                "1 set could not be tested and counts"
                if len(lost) == 1
                else f"{len(lost)} sets could not be tested and count"
            )
            notes.append(f"{number} as accepted; the first: {lost.iloc[0]}.")
        if self.screened_out:
            notes.append(
                f"Screening left out {', '.join(self.screened_out)}: the guarantee holds if no parent is there."
            )
        if self.max_size is not None and self.max_size < len(self.candidates):
            notes.append(f"Sets have at most {self.max_size} covariates: the guarantee needs at most as many parents.")
        return notes

    __repr__ = __str__


def answered(sets: pd.DataFrame, level: float, **about: Any) -> CausalParents:
    """Return the answer at a level from the tests of sets."""
    p_values = covariate_p_values(sets, about["candidates"])
    found = parents_at(sets, p_values, level)
    accepted = sets["p_value"].isna() | (sets["p_value"] > level)
    sets = sets.assign(accepted=accepted)[["set", "size", "statistic", "df", "p_value", "accepted", "reason"]]
    return CausalParents(found or (), sets, p_values, level, found is None, **about)


def asked(found: CausalParents) -> dict[str, Any]:
    """Return what was asked, without the tests and the level."""
    names = ("candidates", "mandatory", "screened_out", "max_size", "n_sets", "stopped", "rows", "model")
    return {name: getattr(found, name) for name in (*names, "method", "regression", "search")}


def covariate_p_values(sets: pd.DataFrame, candidates: Sequence[str]) -> pd.Series:
    """Return for each covariate the largest p-value of the sets without it; a set that has none counts as 1."""
    import pandas as pd

    p = sets["p_value"].fillna(1.0).to_numpy()
    without = [np.array([name not in own for own in sets["set"]]) for name in candidates]
    values = [float(p[own].max(initial=0.0)) for own in without]
    return pd.Series(values, index=pd.Index(candidates, name="covariate"), name="p_value", dtype=float)


def parents_at(sets: pd.DataFrame, p_values: pd.Series, level: float) -> tuple[str, ...] | None:
    """Return the covariates in all accepted sets; None if every set is rejected."""
    if not (sets["p_value"].fillna(1.0) > level).any():
        return None
    return tuple(name for name, p in p_values.items() if p <= level)
