"""A thirteenth hospital joins twelve: simulated survival times whose truth is known.

A laboratory value is measured at admission. Frailty is not measured: it raises the value and shortens survival, three
times as much as the value itself does. The laboratories read the same blood higher or lower, and hospitals differ in
their care.

    hospital --> marker --> months <-- care of the hospital
                   ^          ^
                   +- frailty-+      (nobody has measured it)

    marker      = level of the laboratory + frailty + noise / 2
    log(months) = log(24) + care - 0.15 marker - 0.5 frailty - 0.1 (age - 65) / 10 + log(exponential) / 4

Effects of marker and frailty, and nearly the noise of log(months), are those of the page on the problem
(docs/start/problem.md). Hospital 13 differs from the twelve in one of four ways (``SHIFTS``). The worlds are built to show
these four cases: they say what can happen and why, not how often it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMULA", "SHIFTS", "Hospital", "Shift", "World", "true_survival", "world"]

FORMULA = "Surv(months, died) ~ marker + age | hospital"
HOSPITALS = 12
ROWS = (60, 180)  # patients of a hospital, at least and at most
LEVEL_SD, CARE_SD = 1.0, 0.2  # standard deviations between hospitals
BY_MARKER, BY_FRAILTY, BY_AGE = -0.15, -0.5, -0.1  # effects on log(months), the last for each ten years
LOG_SCALE, SHAPE = float(np.log(24.0)), 4.0
NOISE = 0.5  # measurement error of the marker
FOLLOW_UP = (6.0, 48.0)  # months from admission to the end of the study
NEW_ROWS = 1200  # patients of hospital 13
NODES = 40  # nodes of the integral over frailty


class Hospital(NamedTuple):
    """What a hospital is like.

    Attributes
    ----------
    level : float
        How much higher its laboratory reads than the average one.
    care : float
        What its care adds to log(months).
    frailty : float
        Mean frailty of its patients.
    """

    level: float = 0.0
    care: float = 0.0
    frailty: float = 0.0


class Shift(NamedTuple):
    """How hospital 13 differs from the twelve; None is drawn like theirs.

    Attributes
    ----------
    about : str
        The shift in words.
    level, care : float or None
    frailty : float
        As in ``Hospital``.
    """

    about: str
    level: float | None = None
    care: float | None = None
    frailty: float = 0.0


SHIFTS = {
    "laboratory": Shift("its laboratory reads 3 standard deviations higher", level=3.0 * LEVEL_SD),
    "care": Shift("its care is 3 standard deviations worse, and no covariate shows it", care=-3.0 * CARE_SD),
    "nothing": Shift("it is drawn like the twelve"),
    "frailty": Shift("its patients are 2 standard deviations frailer", frailty=2.0),
}


class World(NamedTuple):
    """Twelve hospitals and a thirteenth.

    Attributes
    ----------
    known, new : DataFrame
        Patients of the twelve, and of hospital 13, in random order.
    hospital : Hospital
        What hospital 13 is like.
    """

    known: pd.DataFrame
    new: pd.DataFrame
    hospital: Hospital


def _patients(
    rng: np.random.Generator, hospitals: Sequence[Hospital], sizes: Sequence[int], first: int
) -> pd.DataFrame:
    """Return patients of these hospitals, which are numbered from ``first`` on."""
    import pandas as pd

    at = np.repeat(np.arange(len(hospitals)), sizes)
    level, care, mean = np.array(hospitals, dtype=np.float64)[at].T
    frailty = mean + rng.normal(size=at.size)
    marker = level + frailty + NOISE * rng.normal(size=at.size)
    age = 65.0 + 10.0 * rng.normal(size=at.size)
    log_time = LOG_SCALE + care + BY_MARKER * marker + BY_FRAILTY * frailty + BY_AGE * (age - 65.0) / 10.0
    time = np.exp(log_time) * rng.exponential(size=at.size) ** (1.0 / SHAPE)
    end = rng.uniform(*FOLLOW_UP, size=at.size)
    columns = {"months": np.minimum(time, end), "died": (time <= end).astype(int), "marker": marker, "age": age}
    return pd.DataFrame(columns | {"hospital": [f"hospital {k + first:02d}" for k in at]})


def world(shift: str, seed: int) -> World:
    """Return a sample; the twelve hospitals of a seed are the same for all shifts.

    Parameters
    ----------
    shift : str
        A name of ``SHIFTS``.
    seed : int
    """
    own = SHIFTS[shift]
    rng, new_rng = np.random.default_rng([13, seed]), np.random.default_rng([14, seed])

    def drawn(source: np.random.Generator) -> Hospital:
        return Hospital(LEVEL_SD * source.normal(), CARE_SD * source.normal())

    known = _patients(rng, [drawn(rng) for _ in range(HOSPITALS)], rng.integers(*ROWS, HOSPITALS).tolist(), 1)
    like = drawn(new_rng)
    level, care = (old if value is None else value for old, value in zip(like, (own.level, own.care), strict=False))
    thirteenth = Hospital(level, care, own.frailty)
    return World(known, _patients(new_rng, [thirteenth], [NEW_ROWS], 13), thirteenth)


def true_survival(hospital: Hospital, rows: Any, months: ArrayLike) -> tuple[Array, Array]:
    """Return the probabilities to live longer, and the densities, given marker, age and what the hospital is like.

    Parameters
    ----------
    hospital : Hospital
    rows : DataFrame
        Its patients.
    months : array
        Times, with a row for each patient or one row for all.

    Returns
    -------
    pair of arrays
        Both with a row for each patient.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    variance = NOISE**2 / (1.0 + NOISE**2)  # variance of the frailty of patients with the same marker
    marker, age = (rows[name].to_numpy(dtype=np.float64) for name in ("marker", "age"))
    mean = hospital.frailty + (marker - hospital.level - hospital.frailty) / (1.0 + NOISE**2)
    frailty = mean[:, None] + np.sqrt(variance) * nodes
    seen = LOG_SCALE + hospital.care + BY_MARKER * marker + BY_AGE * (age - 65.0) / 10.0
    log_scale = seen[:, None] + BY_FRAILTY * frailty
    times = np.atleast_2d(np.asarray(months, dtype=np.float64))[:, :, None]
    hazard = (times / np.exp(log_scale)[:, None, :]) ** SHAPE
    survival = np.exp(-hazard)
    density = survival * hazard * SHAPE / times
    share = weights / weights.sum()
    return survival @ share, density @ share
