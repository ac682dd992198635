"""The environments of an assessment: their sizes, covariates, and what each xi gains where they are left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.families import Family
from anchortm.newplace.assessment.views import kind_of_outcome
from anchortm.newplace.compare import Compared

__all__ = ["Sites", "environment_name"]


@dataclass(frozen=True, eq=False)
class Sites:
    """The environments, in the order of their numbers.

    Attributes
    ----------
    labels : list of str
        Their names.
    n, events : array
        Their rows and events, as often as weights count them; events are NaN if the outcome is not a time.
    counts : array of int
        Their rows, each counted once.
    small : array of bool
        Which are too small to be ranked.
    means : dict
        The mean of each covariate in each environment.
    xis : list of float
        Strengths of the penalty at which each was left out.
    gains : array of shape (environments, number of xi)
        What each xi gains over xi = 0 where the environment is left out; NaN where a fit failed.
    kind : str
        The kind of outcome.
    outcome : str or None
        What the outcome is called.
    name : str or None
        What the environments are called.
    classes : list or None
        The classes of an ordinal outcome.
    n_missing : int
        Number of rows that were dropped because values are missing.
    model, link : str
        Names of the model and of its link.
    gone : str
        A sentence about places whose rows were all dropped; empty if there are none.
    """

    labels: list[str]
    n: Array
    events: Array
    counts: NDArray[np.intp]
    small: NDArray[np.bool_]
    means: dict[str, Array]
    xis: list[float]
    gains: Array
    kind: str
    outcome: str | None
    name: str | None
    classes: list[Any] | None
    n_missing: int
    model: str
    link: str
    gone: str = ""

    @classmethod
    def of(cls, compared: Compared, min_rows: int, ml: Any) -> Sites:
        """Return the environments of a comparison; ``ml`` is the fit by maximum likelihood to all rows."""
        places, rows = compared.places, compared.rows
        gains = np.full((places.n, len(places.xis)), math.nan)
        for e in range(places.n):
            record = compared.records.get(frozenset({e}))
            if record is not None:
                w = places.weights[record.rows]
                gains[e] = [float(np.average(own - record.logliks[0], weights=w)) for own in record.logliks]
        data = places.data.without_wide()
        X = np.asarray(data.design.matrix)
        means = {str(name): places.means(X[:, j]) for j, name in enumerate(data.names[: X.shape[1]])}
        response, missing = data.response, data.missing
        return cls(
            [str(label) for label in places.labels.tolist()],
            places.sizes,
            places.events,
            np.bincount(places.groups, minlength=places.n),
            ~places.ranked(min_rows),
            means,
            places.xis,
            gains,
            kind_of_outcome(places),
            ml.result_.outcome_name,
            environment_name(rows),
            None if response.levels is None else list(response.levels),
            0 if missing is None else int(missing.counts.n_missing),
            type(rows.model).__name__,
            _link_name(getattr(places.problem.spec, "link", "")),
            rows.gone,
        )


def _link_name(link: Any) -> str:
    """Return the name of a link, behind that of the family if there is one."""
    return f"{link.family}, {link.link}" if isinstance(link, Family) else str(link)


def environment_name(rows: Any) -> str | None:
    """Return what the environments are called, if they have a name."""
    from anchortm._util.frames import name_of

    given = rows.anchors if rows.environments is None else rows.environments
    names = getattr(given, "factor_names", None)
    if names is not None:
        return str(names[0]) if len(names) == 1 and str(names[0]) != "environment" else None
    return name_of(given)
