"""What a site lets out: the rules for disclosure, which the site itself checks at every answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError

__all__ = ["DisclosureError", "Policy", "RowsError"]


class DisclosureError(InputError):
    """Raised if an answer would break a site's rules for disclosure; the message carries no values of rows.

    Examples
    --------
    >>> from anchortm.federated import DisclosureError, Policy
    >>> try:
    ...     Policy().check_rows(12, 3)
    ... except DisclosureError as error:
    ...     print(error)
    the site has fewer than the 20 rows that its policy asks for: leave the site out, or pool it with another one
    """


class RowsError(InputError):
    """Raised if the rows of a site do not suit a study or a model; the message carries no values of rows."""


@dataclass(frozen=True)
class Policy:
    """The rules for disclosure of a site. The defaults follow DataSHIELD's, and some are stricter.

    Parameters
    ----------
    least_rows : int
        Fewest rows with which a site takes part.
    least_cell : int
        Fewest rows of a level, a class, a value of a 0-1 column or a kind of outcome, unless it has none. Counts that
        leave the site are rounded to multiples of this number.
    rows_per_parameter : float
        Fewest rows of the site for each parameter of the model.
    least_effective : float
        Fewest effective rows, ``(sum r')^2 / sum r'^2`` with r' the slope of a row's residual, at all parameters that
        the coordinator asks about. Steep parameters that single out rows have few. The same is asked of one over the
        slope of the baseline at exact outcomes, or an eighth of these; 0 turns both rules off.
    most_answers : int
        Most answers in one study, over all runs that the ledger knows and all lists of members. Each point of a
        question counts. A site that has agreed to no study counts all its answers.
    most_scores : int
        Most answers about the fit of a single model at the site alone, which no mask hides.
    most_calibrations : int
        Most answers that count rows by their predicted probability, as ``Coordinator.assess`` asks: one for each xi.
    most_levels : int
        Most levels of a factor; there may also be no more than a third of the rows.
    columns : tuple of str
        The columns that a study may use; empty for those that its formula names.

    Examples
    --------
    >>> from anchortm.federated import Policy
    >>> Policy(least_rows=50).stricter(Policy(least_cell=10))
    Policy(least_rows=50, least_cell=10, rows_per_parameter=3.0, least_effective=20.0, most_answers=2000, \
most_scores=200, most_calibrations=20, most_levels=40, columns=())
    """

    least_rows: int = 20
    least_cell: int = 5
    rows_per_parameter: float = 3.0
    least_effective: float = 20.0
    most_answers: int = 2000
    most_scores: int = 200
    most_calibrations: int = 20
    most_levels: int = 40
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (
            *(("least_rows", 1), ("least_cell", 1), ("rows_per_parameter", 0.0), ("least_effective", 0.0)),
            *(("most_answers", 1), ("most_scores", 0), ("most_calibrations", 0), ("most_levels", 2)),
        ):
            value = getattr(self, name)
            whole = isinstance(least, int)
            number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if not (number and least <= value < 2**31):
                raise InputError(f"{name} of a policy must be a {'whole ' * whole}number from {least}, not {value!r}")
        columns: Any = self.columns
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise InputError(f"columns of a policy must be names of columns, not {columns!r}")
        object.__setattr__(self, "columns", tuple(columns))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Policy:
        """Return the policy from a table of a study file.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy.of({"least_rows": 30}).least_rows
        30
        """
        known = [part.name for part in fields(cls)]
        unknown = sorted(set(record) - set(known))
        if unknown:
            raise InputError(f"a policy has no rule called {', '.join(unknown)}; there are {', '.join(known)}")
        columns = record.get("columns", ())
        return cls(**{**record, "columns": tuple(columns) if isinstance(columns, list) else columns})

    def record(self) -> dict[str, Any]:
        """Return the policy as plain values.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy().record()["least_cell"]
        5
        """
        return {**asdict(self), "columns": list(self.columns)}

    def stricter(self, other: Policy) -> Policy:
        """Return the policy that keeps the rules of both.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy(most_answers=500).stricter(Policy()).most_answers
        500
        """
        both = self.columns and other.columns
        columns = (
            tuple(name for name in self.columns if name in other.columns) if both else self.columns or other.columns
        )
        if both and not columns:
            raise InputError("the policies of the site and of the study allow no column in common")
        least = {
            name: max(getattr(self, name), getattr(other, name))
            for name in ("least_rows", "least_cell", "rows_per_parameter", "least_effective")
        }
        most = {
            name: min(getattr(self, name), getattr(other, name))
            for name in ("most_answers", "most_scores", "most_calibrations", "most_levels")
        }
        return Policy(**least, **most, columns=columns)

    # the rules, each with its refusal

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse columns that are not on the list.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy(columns=("age", "time")).check_columns(["age"])
        """
        if not self.columns:
            return
        foreign = sorted(set(names) - set(self.columns))
        if foreign:
            raise DisclosureError(
                f"the study uses columns that the site's policy does not allow: {', '.join(foreign)}; leave them out, "
                "or ask the site to allow them"
            )

    def check_rows(self, n_rows: int, n_parameters: int = 0) -> None:
        """Refuse sites with few rows, also relative to the parameters of a model.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy().check_rows(60, n_parameters=20)
        """
        if n_rows < self.least_rows:
            raise DisclosureError(
                f"the site has fewer than the {self.least_rows} rows that its policy asks for: leave the site out, or "
                "pool it with another one"
            )
        if n_parameters * self.rows_per_parameter > n_rows:
            raise DisclosureError(
                f"the model has {n_parameters} parameters, more than one for each {self.rows_per_parameter:g} rows of "
                "the site: take a lower order or fewer covariates"
            )

    def check_cells(self, counts: NDArray[np.integer[Any]], what: str) -> None:
        """Refuse small counts that are not zero.

        Examples
        --------
        >>> import numpy as np
        >>> from anchortm.federated import Policy
        >>> Policy().check_cells(np.array([0, 5, 17]), "levels of stage")
        """
        if ((counts > 0) & (counts < self.least_cell)).any():
            raise DisclosureError(
                f"{what}: some have fewer than the {self.least_cell} rows that the site's policy asks for; merge "
                "them, or leave the column out"
            )

    def check_clusters(self, number: int) -> None:
        """Refuse random effects of few clusters, which may be patients.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy().check_clusters(10)
        """
        if number < 2 * self.least_cell:
            raise DisclosureError(
                f"the site has fewer than {2 * self.least_cell} clusters, twice the smallest cell of its policy: give "
                "the clusters as anchors, or leave the random effects out"
            )

    def check_levels(self, n_levels: int, n_rows: int, what: str) -> None:
        """Refuse factors with many levels.

        Examples
        --------
        >>> from anchortm.federated import Policy
        >>> Policy().check_levels(4, 200, "stage")
        """
        if n_levels > min(self.most_levels, n_rows / 3.0):
            raise DisclosureError(
                f"{what} has more than {self.most_levels} levels, or more than one for each three rows of the site: "
                "merge levels, or leave the column out"
            )

    def rounded(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return counts rounded to multiples of the smallest cell.

        Examples
        --------
        >>> import numpy as np
        >>> from anchortm.federated import Policy
        >>> Policy().rounded(np.array([2, 3, 14]))
        array([ 0.,  5., 15.])
        """
        return np.asarray(self.least_cell * np.floor(np.asarray(counts) / self.least_cell + 0.5), dtype=np.float64)

    def rounded_at_random(self, counts: NDArray[Any], draws: np.random.Generator) -> NDArray[np.float64]:
        """Return counts rounded at random to multiples of the smallest cell below or above, correct on average.

        Examples
        --------
        >>> import numpy as np
        >>> from anchortm.federated import Policy
        >>> many = Policy().rounded_at_random(np.full(10_000, 3), np.random.default_rng(0))
        >>> np.unique(many), round(float(many.mean()), 1)
        (array([0., 5.]), 3.0)
        """
        shares = np.asarray(counts, dtype=np.float64) / self.least_cell
        below = np.floor(shares)
        return np.asarray(self.least_cell * (below + (draws.random(shares.shape) < shares - below)), dtype=np.float64)
