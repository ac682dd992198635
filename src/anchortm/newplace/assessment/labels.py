"""How much a few outcomes of the new place help, tried at places that are left out.

Each place is left out, or the outermost ones together. Some rows of a left-out place are drawn, the fit to the other
places is recalibrated by them (a shift, whose prior is the variance of shifts between the other places), and its other
rows are predicted. The gain over maximum likelihood without recalibration is measured on the same rows, so that gains
for different numbers of outcomes can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.place_variance import FEWEST_PLACES
from anchortm.engine.rows.shift_law import NormalShift, ShiftLaw
from anchortm.engine.rows.shifted_rows import ShiftedRows
from anchortm.exceptions import InputError
from anchortm.newplace.place_variance import Joined, LeftOut, Likeliest, left_out_rows, usable
from anchortm.selection.designs import Fold
from anchortm.selection.places import Places

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NUMBERS", "LabelCurve", "curve_further", "curve_like"]

Codes = NDArray[np.intp]

NUMBERS = (0, 5, 10, 20, 50, 100)
DRAWS = 6  # draws of the few rows of a place
REST = 5  # rows of a place that must be left to predict
MOST = 200  # places that are tried
MOST_ROWS = 500  # most rows of a place that are predicted


@dataclass(frozen=True, eq=False)
class LabelCurve:
    """What outcomes of the new place gain, by their number, tried at left-out places.

    Attributes
    ----------
    xi : float
        Strength of the penalty of the fit that is recalibrated.
    gains : dict
        For each number of outcomes, the gain at each place: the mean negative log-likelihood of its other rows under
        maximum likelihood without recalibration, minus that with it. Above 0 is better; NaN if it has too few rows.
    sd : float
        Standard deviation of shifts between places, on the scale of h.
    """

    xi: float
    gains: dict[int, Array]
    sd: float

    def frame(self) -> pd.DataFrame:
        """Return one row for each number of outcomes: ``m``, the mean ``gain``, its standard error, and ``sites``."""
        import pandas as pd

        rows = [(m, *self.at(m), self.sites(m)) for m in self.gains if self.sites(m)]
        return pd.DataFrame(rows, columns=["m", "gain", "se", "sites"])

    def sites(self, m: int) -> int:
        """Return the number of places that have enough rows to try m outcomes."""
        return int(np.isfinite(self.gains[m]).sum()) if m in self.gains else 0

    def at(self, m: int) -> tuple[float, float]:
        """Return the mean gain from m outcomes over places, and its standard error; NaN if no place is large enough."""
        if not self.sites(m):
            return math.nan, math.nan
        values = self.gains[m][np.isfinite(self.gains[m])]
        error = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
        return float(values.mean()), error


class _Site(NamedTuple):
    """The rows of a left-out place.

    Attributes
    ----------
    code : int
        Its number.
    rows : ShiftedRows
        Its rows under the fit to other places, as functions of a shift.
    plain : array
        Their log-likelihoods under maximum likelihood fitted to the same other places.
    weights : array or None
        Weights of the rows.
    sd : float
        Standard deviation of shifts between the other places.
    """

    code: int
    rows: ShiftedRows
    plain: Array
    weights: Array | None
    sd: float


def curve_like(
    places: Places, numbers: Sequence[int] = NUMBERS, n_jobs: int | None = None, seed: int = 0
) -> LabelCurve:
    """Return what outcomes of the new place gain if it is like the others: places are left out one after another.

    Parameters
    ----------
    places : Places
        All rows by their environments.
    numbers : sequence of int
        Numbers of outcomes to try.
    n_jobs : int or None
        Number of processes.
    seed : int
        Seed of the draws.
    """
    codes = _tried(places, seed)
    with one_blas_thread():
        found = _joined(_leaving(places, 0.0), codes, places, n_jobs)
        sites = [
            _Site(e, rows, _plain(rows), _weights(places, at), float(sd))
            for (e, at, rows), sd in zip(found.used, found.joint.without, strict=True)
        ]
        return LabelCurve(0.0, _gains_of(sites, numbers, n_jobs, seed), found.joint.sd)


def curve_further(
    places: Places,
    folds: Sequence[Fold],
    xi: float,
    numbers: Sequence[int] = NUMBERS,
    n_jobs: int | None = None,
    seed: int = 0,
) -> LabelCurve:
    """Return what outcomes of the new place gain if it is further out: the outermost places are left out together.

    Parameters
    ----------
    places, numbers, n_jobs, seed
        As for ``curve_like``.
    folds : sequence of Fold
        Which places are left out together; no place is in two of them.
    xi : float
        Strength of the penalty of the fit that is recalibrated.
    """
    sites, sds = [], []
    with one_blas_thread():
        for fold in folds:
            inside = places.inside(fold.out)
            sd = _joined(_leaving(places, xi, inside), inside, places, n_jobs).joint.sd
            gone = np.isin(places.groups, list(fold.out)).astype(np.intp)
            at, rows, why = _leaving(places, xi, None, gone)(1)
            base = _leaving(places, 0.0, None, gone)(1)[1] if xi else rows
            if rows is None or base is None:
                raise InputError(f"the fit without the outermost places failed: {why}")
            plain, codes = _plain(base), places.groups[at]
            for e in sorted(fold.out):
                own = np.flatnonzero(codes == e)
                sites.append(_Site(e, rows.part(own), plain[own], _weights(places, at[own]), sd))
            sds.append(sd)
        return LabelCurve(xi, _gains_of(sites, numbers, n_jobs, seed), float(np.mean(sds)))


def _leaving(places: Places, xi: float, inside: Sequence[int] | None = None, codes: Codes | None = None) -> LeftOut:
    """Return a function that leaves out a place (or all rows with a code), perhaps among some of the places only.

    It returns the positions of the rows among all of them, what is known of them, and why if nothing is.
    """
    problem, groups = places.problem.at(xi=xi), places.groups if codes is None else codes
    if inside is None:
        return partial(left_out_rows, replace(problem), places.starts[xi], xi, groups)
    kept = places.rows_in(inside)
    problem = replace(problem.subset(kept))
    start = problem.objective.coordinates.split(problem.solve()[0].v)
    return partial(_among, kept, partial(left_out_rows, replace(problem), start, xi, groups[kept]))


def _among(kept: Codes, leave: LeftOut, e: int) -> tuple[Codes, ShiftedRows | None, str]:
    """Return the rows of a place that is left out among some of the places."""
    rows, shifted, why = leave(e)
    return kept[rows], shifted, why


class _Joined(NamedTuple):
    """Places that could be left out, with their rows, and the variance of shifts between them."""

    used: list[tuple[int, Codes, ShiftedRows]]
    joint: Likeliest


def _joined(leave: LeftOut, codes: Sequence[int], places: Places, n_jobs: int | None) -> _Joined:
    with Task("left-out places", len(codes)) as task:
        found = task.map(leave, codes, n_jobs)
    used = [(e, at, rows) for e, (at, rows, _) in zip(codes, found, strict=True) if rows is not None and usable(rows)]
    if len(used) < FEWEST_PLACES:
        raise InputError(
            f"{len(used)} of {len(codes)} places can be left out to try recalibration there; it needs {FEWEST_PLACES}"
        )
    weights = None if places.data.weights is None else places.weights
    return _Joined(used, Joined.of([(at, rows) for _, at, rows in used], weights).joint())


def _plain(rows: ShiftedRows) -> Array:
    """Return the log-likelihoods of rows that are not shifted."""
    return rows(np.zeros((rows.n_rows, 1)))[0][:, 0]


def _weights(places: Places, at: Codes) -> Array | None:
    return None if places.data.weights is None else places.weights[at]


def _tried(places: Places, seed: int) -> list[int]:
    """Return the places that are left out: all, or as many as are needed, drawn at random."""
    codes = np.arange(places.n)
    if places.n > MOST:
        codes = np.sort(np.random.default_rng(seed).choice(codes, MOST, replace=False))
    return [int(code) for code in codes]


def _gains_of(sites: Sequence[_Site], numbers: Sequence[int], n_jobs: int | None, seed: int) -> dict[int, Array]:
    """Return the gains at the places, by the number of outcomes."""
    with Task("recalibrations", len(sites)) as task:
        table = np.array(task.map(partial(_gains, tuple(numbers), seed), sites, n_jobs))
    return {m: table[:, k] for k, m in enumerate(numbers)}


def _gains(numbers: tuple[int, ...], seed: int, site: _Site) -> list[float]:
    """Return the gain at one place from each number of its outcomes; NaN where the place is too small."""
    rng = np.random.default_rng([seed, site.code])
    draws = [rng.permutation(site.rows.n_rows) for _ in range(DRAWS)]
    return [float(np.mean([_gain(site, m, draw) for draw in (draws if m else draws[:1])])) for m in numbers]


def _gain(site: _Site, m: int, draw: Codes) -> float:
    """Return the gain on the rows of a place that are not among the first m of a draw."""
    if m and draw.size < m + REST:
        return math.nan
    known, rest = np.sort(draw[:m]), np.sort(draw[m : m + MOST_ROWS])
    prior = NormalShift(0.0, site.sd)
    law: ShiftLaw = prior
    if m and site.sd > 0.0:
        few, weights = site.rows.part(known), None if site.weights is None else site.weights[known]
        law = prior.given(few.together(weights), few.concave)
    moved = site.rows.part(rest).averages(law)[0]
    return float(np.average(moved - site.plain[rest], weights=None if site.weights is None else site.weights[rest]))
