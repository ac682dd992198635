"""Does anything help at a new place? What sums over sites say of it, as one page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchortm._messages import shown
from anchortm._util.html import report
from anchortm.diagnostics.score_tests import FEW_ROWS, ScoreTest
from anchortm.engine.problem import Problem
from anchortm.exceptions import InputError
from anchortm.federated.left_out import Kept
from anchortm.federated.objective import FederatedObjective
from anchortm.federated.sites_data import SitesData
from anchortm.inference.score_tests import free_parameters
from anchortm.inputs import parts
from anchortm.newplace.assessment.advice import Advice
from anchortm.newplace.assessment.calibration import BINS, LEVELS
from anchortm.newplace.assessment.text import NOT_COMPUTED, Part, page
from anchortm.newplace.assessment.words import need_sentence, signed
from anchortm.newplace.paired import FEWEST, paired
from anchortm.selection.further import GAIN

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.selection.left_out_result import LeaveOneEnvironmentOut

__all__ = ["CountedCalibration", "FederatedAssessment", "advice_of", "assessed", "compared", "need_of"]

Array = NDArray[np.float64]

CLEAR = 0.05  # simultaneous p-value of a strategy that is better by more than chance
SPANNED = 1e-8  # share of a direction's information that is left, below which the covariates span it
SEED = 0  # of the random numbers between the two ends of censored and discrete rows
LEVEL = 1.645  # standard errors of a 90 % interval
FORMAT = "anchortm federated assessment 1"
APART = (
    "These need single rows, which stay at the sites: leaving the outermost places out (a place further out), "
    "a recalibration curve (how many outcomes of the new place to collect), the width of conformal intervals, "
    "predictions for typical rows, and the HTML report with plots.",
)


@dataclass(frozen=True, eq=False)
class CountedCalibration:
    """How well intervals cover at left-out sites, from counts that sites have rounded.

    Attributes
    ----------
    bins : dict
        For each xi the number of rows in each of ten bins of the probability integral transform, all sites together.
    outside : dict
        For each xi the number of rows outside of the central 50, 80 and 90 % intervals.
    n_rows, n_sites : int
        Number of rows and of sites.
    cell : int
        Sites round each count at random to a multiple of this number, or of a smaller one if their own rules say so.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.federated import CountedCalibration
    >>> found = CountedCalibration({0.0: np.full(10, 20.0)}, {0.0: np.array([100.0, 40.0, 20.0])}, 200, 4, 5)
    >>> found.coverage(0.0), round(found.rounding_error, 3)
    (array([0.5, 0.8, 0.9]), 0.025)
    """

    bins: Mapping[float, Array]
    outside: Mapping[float, Array]
    n_rows: int
    n_sites: int
    cell: int

    def coverage(self, xi: float) -> Array:
        """Return the share of rows in the central 50, 80 and 90 % intervals; not beyond 0 and 1 by rounding."""
        return np.clip(1.0 - self.outside[xi] / self.n_rows, 0.0, 1.0)

    def histogram(self, xi: float) -> Array:
        """Return the share of rows in each of ten bins; 0.1 each if predictions are calibrated."""
        return np.asarray(self.bins[xi] / self.n_rows)

    def frame(self) -> pd.DataFrame:
        """Return the share of rows in the central 50, 80 and 90 % intervals, a row for each xi."""
        import pandas as pd

        columns = [f"{level:.0%}" for level in LEVELS]
        index = pd.Index(list(self.bins), name="xi")
        return pd.DataFrame([self.coverage(xi) for xi in self.bins], index=index, columns=columns)

    def _repr_html_(self) -> str:
        return report("Shares of rows in intervals", self.frame())

    @property
    def rounding_error(self) -> float:
        """Return the largest standard error that rounding can have in a share; 0 if nothing is rounded."""
        return 0.0 if self.cell == 1 else 0.5 * self.cell * math.sqrt(self.n_sites) / self.n_rows

    @property
    def sentence(self) -> str:
        """Return what was counted, in words."""
        text = "Share of the rows of all sites inside the intervals, each row predicted by the fit to the other sites."
        if self.cell == 1:
            return text
        return (
            f"{text} Sites round counts at random to multiples of {self.cell}, correct on average: this adds a "
            f"standard error of at most {self.rounding_error:.2g} to a share."
        )


@dataclass(frozen=True, eq=False)
class FederatedAssessment:
    """Whether anything helps at a new place, as far as sums over sites can show it. Parts that are not known are None.

    Attributes
    ----------
    advice : Advice
        What to do at a place like these: ``strategy``, ``xi``, ``confidence``, ``gain`` and ``reasons``.
    left_out : LeaveOneEnvironmentOut or None
        The scores of each site under the fits to the others.
    test : ScoreTest or None
        The score test of invariance with the observed information.
    calibration : CountedCalibration or None
        Coverage of intervals at left-out sites.
    notes : tuple of str
        What could not be computed, and why.
    model : str
        Name of the model.
    n_rows, n_sites : int
        Number of rows and of sites.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import Coordinator, LocalSites, Site
    >>> data = atm.datasets.load_geyser()
    >>> sites = LocalSites([Site(data[k * 42:(k + 1) * 42], f"part {k}") for k in range(7)])
    >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
    >>> found = coordinator.assess(atm.NormalLinear(), [0, 1, 10])
    >>> found.advice.strategy, found.gains().shape
    ('ml', (7, 2))
    """

    advice: Advice
    left_out: LeaveOneEnvironmentOut | None
    test: ScoreTest | None
    calibration: CountedCalibration | None
    notes: tuple[str, ...]
    model: str
    n_rows: int
    n_sites: int

    def gains(self) -> pd.DataFrame:
        """Return what each xi gains over xi = 0 at each left-out site, in log-likelihood per row.

        Returns
        -------
        DataFrame
            One row for each site and one column for each xi above 0; empty if no site could be left out.
        """
        import pandas as pd

        if self.left_out is None:
            return pd.DataFrame()
        wide = -self.left_out.frame().pivot(index="environment", columns="xi", values="regret")
        return (wide.drop(columns=0.0) + 0.0).rename_axis(index="site")

    def frame(self) -> pd.DataFrame:
        """Return one row for each xi.

        Returns
        -------
        DataFrame
            ``gain`` over xi = 0 in log-likelihood per row, in the mean over left-out sites, with its paired standard
            error ``se`` and the simultaneous p-value ``pvalue`` of sign flips (NaN below 6 sites); and the coverage of
            central 50, 80 and 90 % intervals at left-out sites.
        """
        import pandas as pd

        gains = self.gains()
        xis = [0.0, *map(float, gains.columns)]
        test = compared(gains)
        rows = []
        for k, xi in enumerate(xis):
            ml = {"gain": 0.0, "se": 0.0, "pvalue": math.nan}
            row = (
                ml
                if test is None or k == 0
                else {"gain": test[0][k - 1], "se": test[1][k - 1], "pvalue": test[2][k - 1]}
            )
            known = self.calibration is not None and xi in self.calibration.bins
            inside = self.calibration.coverage(xi) if known and self.calibration else np.full(len(LEVELS), math.nan)
            rows.append({"xi": xi, **row, **dict(zip(_names(), inside.tolist(), strict=True))})
        return pd.DataFrame(rows)

    @property
    def need_sentence(self) -> str:
        """Return whether sites differ beyond what the covariates explain, in words; empty if not tested."""
        return "" if self.test is None else need_sentence(self.test.pvalue)

    def lines(self) -> list[Part]:
        """Return the parts of the page, the answer first."""
        made = [Part("Does it help at a new place?", self.advice.lines)]
        made.append(Part("Data", [f"{self.n_rows} rows at {self.n_sites} sites that keep them, {self.model}."]))
        if self.test is not None:
            few = (
                "With so few rows for each degree of freedom this version of the test rejects too often; the other "
                "versions draw outcomes from the fitted model, which needs rows."
            )
            said = [self.need_sentence, str(self.test) + ".", *([few] if self.test.rows < FEW_ROWS else [])]
            made.append(Part("Need", said))
        frame = self.frame().set_index("xi")
        if self.left_out is not None:
            own = frame[["gain", "se", "pvalue"]].iloc[1:]
            made.append(Part("Gain over maximum likelihood at left-out sites, per row (higher is better)", [], own))
            made.append(Part("By site", [], self.gains().rename(columns="xi = {:g}".format).rename_axis(columns=None)))
        if self.calibration is not None:
            own = frame[_names()].dropna()
            made.append(Part("Intervals for left-out sites", [self.calibration.sentence], own))
        return [*made, Part(NOT_COMPUTED, [*self.notes, *APART])]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as JSON has them; numbers that are not known are None."""
        calibration: dict[str, Any] | None = None
        if (own := self.calibration) is not None:
            calibration = {"n_rows": own.n_rows, "n_sites": own.n_sites, "cell": own.cell}
            calibration["counts"] = [
                {"xi": xi, "bins": own.bins[xi].tolist(), "outside": own.outside[xi].tolist()} for xi in own.bins
            ]
        test = self.test
        record = {
            "format": FORMAT,
            "model": self.model,
            "n_rows": self.n_rows,
            "n_sites": self.n_sites,
            "advice": self.advice.to_dict(),
            "need": None
            if test is None
            else {"statistic": test.statistic, "df": test.df, "p": test.pvalue, "sentence": self.need_sentence},
            "xis": self.frame().to_dict("records"),
            "sites": [] if self.left_out is None else self.left_out.frame().to_dict("records"),
            "calibration": calibration,
            "notes": [*self.notes, *APART],
        }
        plain: dict[str, Any] = json.loads(json.dumps(record, default=_number), parse_constant=lambda _: None)
        return plain

    @shown
    def __repr__(self) -> str:
        return page(self.lines())

    def _repr_html_(self) -> str:
        return "\n".join(
            report(part.title, *part.lines, *([] if part.table is None else [part.table.reset_index()]))
            for part in self.lines()
        )


def _names() -> list[str]:
    """Return the names of the columns of coverage."""
    return [f"inside {level:.0%}" for level in LEVELS]


def _number(value: Any) -> Any:
    """Return a number of NumPy as a plain one."""
    return value.item()


def compared(gains: pd.DataFrame) -> tuple[Array, Array, Array, int] | None:
    """Return mean gains over sites, their paired standard errors, p-values, and the number of sites."""
    if gains.empty:
        return None
    test = paired(-gains.to_numpy(dtype=np.float64).T)
    return 0.0 - test.difference, test.error, test.pvalue, test.n


def advice_of(gains: pd.DataFrame) -> Advice:
    """Return what to do at a place like these: the rule of ``assess`` for rows in memory, without stability."""
    test = compared(gains)
    if test is None or not np.isfinite(test[0]).any():
        return Advice("like", confidence="untried", reasons=("No xi above 0 could be compared at left-out sites.",))
    mean, error, pvalue, n = test
    if n < FEWEST:
        text = f"With {n} sites no comparison can be clear; {FEWEST} are needed."
        return Advice("like", confidence="undecided", reasons=(text,))
    better = (mean > 0.0) & (pvalue < CLEAR)
    best = int(np.nanargmax(np.where(better, mean, -math.inf) if better.any() else mean))
    xi, own = float(gains.columns[best]), gains.iloc[:, best].dropna().to_numpy()
    won, lost = int((own > 0.0).sum()), int((own < 0.0).sum())
    if better.any():
        text = (
            f"Anchoring with xi = {xi:g} predicts {won} of {own.size} left-out sites better than maximum likelihood, "
            f"on average by more than chance (p = {pvalue[best]:.2g})."
        )
        ends = (float(mean[best] - LEVEL * error[best]), float(mean[best] + LEVEL * error[best]))
        advice = Advice("like", "anchored", xi, "clear", float(mean[best]), ends, "90 % interval over sites")
        return replace(advice, reasons=(text,))
    if mean[best] > GAIN:
        text = (
            f"The data do not decide: xi = {xi:g} gains {signed(mean[best])} per row on average over {own.size} "
            f"left-out sites ({won} gain, {lost} lose), but that may be chance (p = {pvalue[best]:.2g})."
        )
        return Advice("like", confidence="undecided", reasons=(text,))
    text = (
        f"No xi predicts the {own.size} left-out sites better than maximum likelihood by more than {GAIN:g} per row on "
        f"average (the best, xi = {xi:g}, changes it by {signed(mean[best], 3)})."
    )
    return Advice("like", confidence="keep", reasons=(text,))


def need_of(problem: Problem, model: str) -> ScoreTest:
    """Return the score test of invariance with the observed information, from totals over sites.

    The statistic t'(D - E H^-1 E')^+ t needs t, E and D of single sites only through t'D^-1 t, E'D^-1 t and E'D^-1 E,
    because D has one block for each site: it is t'D^-1 t + c'(H - G)^+ c with c and G the other two.
    """
    data: SitesData = problem.data
    if data.anchors is None:
        raise InputError("a score test needs anchors: name them after '|' in the formula")
    if data.plan.shared is not None:
        raise InputError("sums for the score test exist only if each level of the anchors is at one site")
    parts.refuse("score_test", *problem.spec.asked(), problem.spec.likelihood)
    absent = {"scale effects": problem.spec.scale is not None, "random effects": bool(problem.spec.cluster)}
    for name in (name for name, there in absent.items() if there):
        raise InputError(f"its sums are not implemented with {name}")
    solution, _ = problem.solve()
    if not solution.converged:
        raise InputError(f"the maximum-likelihood fit did not converge ({solution.reason}): no score test")
    objective: Any = problem.objective
    inner: FederatedObjective = objective.unpenalised
    free = free_parameters(objective, solution.active)
    rank, size, cross, gram = inner.remote.need(inner.whole(solution.v))
    root = np.linalg.cholesky(inner.derivatives(solution.v).hessian[np.ix_(free, free)])
    c = np.linalg.solve(root, cross[free])
    G = np.linalg.solve(root, np.linalg.solve(root, gram[np.ix_(free, free)]).T)
    values, vectors = np.linalg.eigh(np.eye(c.size) - 0.5 * (G + G.T))
    keep = values > SPANNED
    df = rank + int(keep.sum()) - c.size
    if df < 1:
        raise InputError("the model already contains all anchors, so there is nothing to test")
    statistic = size + float(((vectors.T @ c)[keep] ** 2 / values[keep]).sum())
    share = inner.n_total / df
    return ScoreTest(statistic, df, float(stats.chi2.sf(statistic, df)), model, share, "observed")


def calibration_of(problem: Problem, xis: list[float], kept: Kept) -> CountedCalibration:
    """Return the calibration of the fits without each site; one masked question for each xi."""
    data: SitesData = problem.data
    names = data.conversation.names
    absent = [name for name in names if (name, 0.0) not in kept]
    if absent:
        raise InputError(f"there is no fit without {', '.join(absent)}: the counts of all sites are added up")
    objective: Any = problem.objective.unpenalised
    bins, outside, cell = {}, {}, 1
    for xi in xis:
        points = np.array([objective.coordinates.join(*kept[name, xi]) for name in names])
        counts, cell = objective.remote.calibration(points, SEED, BINS + len(LEVELS))
        bins[xi], outside[xi] = counts[:BINS], counts[BINS:]
    return CountedCalibration(bins, outside, data.plan.n_rows, len(names), cell)


def assessed(
    problem: Problem, model: str, xis: list[float], left_out: LeaveOneEnvironmentOut | str, kept: Kept
) -> FederatedAssessment:
    """Return the assessment; ``left_out`` says why if no site could be left out."""
    data: SitesData = problem.data
    notes: list[str] = []
    test = calibration = None
    try:
        test = need_of(problem, model)
    except InputError as error:
        notes.append(f"Score test: {error}.")
    scores = None if isinstance(left_out, str) else left_out
    if isinstance(left_out, str):
        notes.append(f"Comparison and calibration at left-out sites: {left_out}.")
    else:
        try:
            calibration = calibration_of(problem, xis, kept)
        except InputError as error:
            notes.append(f"Calibration: {error}.")
    bare = FederatedAssessment(
        Advice("like"), scores, test, calibration, tuple(notes), model, data.plan.n_rows, len(data.conversation.names)
    )
    return replace(bare, advice=advice_of(bare.gains()))
