"""Fits by Cox's partial likelihood, which does not specify the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm.engine.data import Data, Strata
from anchortm.engine.hazard_steps import Steps, strata_curves
from anchortm.engine.objective.baseline_steps import Hazard
from anchortm.engine.objective.partial_likelihood import PartialObjective, build_partial
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.risk_sets import Outcome, row_logliks
from anchortm.engine.rows.shifted_rows import ShiftedHazards
from anchortm.engine.solve.identification import Checked
from anchortm.engine.solve.newton import Solution
from anchortm.engine.specification import Specification
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError
from anchortm.inputs.design import Design
from anchortm.inputs.response import Kind, Response

__all__ = ["PartialProblem", "PartialResult", "PartialSpecification", "check_rows"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PartialSpecification(Specification):
    """The specification of a fit by partial likelihood."""

    ties: Literal["efron", "breslow"] = "efron"

    likelihood = "partial"

    def check(self) -> PartialSpecification:
        """Return the specification; raise an error if arguments are out of range or cannot be combined."""
        if self.ties not in ("efron", "breslow"):
            raise InputError(f"ties must be 'efron' or 'breslow', not {self.ties!r}")
        return super().check()

    def check_response(self, response: Response) -> None:
        """Raise an error if a partial likelihood cannot use these outcomes."""
        check_rows(response)

    def with_baselines(self, data: Data, labels: Sequence[Any] | None) -> Data:
        """Return the data with the stratum of each row; strata have separate risk sets."""
        assert labels is not None  # noqa: S101
        strata = Strata.of(labels)
        if len(strata.labels) < 2:
            raise InputError(f"there is a single stratum, {strata.labels[0]!r}: leave strata out")
        return data._replace(strata=strata)

    def check_design(self, data: Data) -> Checked:
        """Return ranges and near-collinearity; raise an error if covariates are not identified within strata."""
        found = super().check_design(data)
        if data.strata is not None:
            _check_within(data.without_wide().design, data.strata.codes)
        return found

    def outcome_of(
        self, response: Response, weights: Array | None, offset: Array | None, strata: Strata | None
    ) -> Outcome:
        """Return times, events, strata and weights of rows."""
        codes = None if strata is None or len(strata.labels) < 2 else strata.codes
        return Outcome(response.lower, response.kind == Kind.EXACT, response.entry, codes, weights, offset, self.ties)


def check_rows(response: Response) -> None:
    """Raise an error if a partial likelihood cannot use these outcomes."""
    counts = response.counts()
    other = [f"{counts[kind]} {kind}-censored" for kind in ("left", "interval") if counts[kind]]
    if response.exit is not None:
        other.append(f"{int(np.isfinite(response.exit).sum())} right-truncated")
    if other:
        raise InputError(
            f"CoxPH supports exact and right-censored rows only, but there are {' and '.join(other)} rows: use "
            "ProportionalHazards, which supports all kinds"
        )


def _check_within(design: Design, codes: NDArray[np.intp]) -> None:
    """Raise an error if a covariate does not vary within any stratum."""
    size, constant = np.maximum(np.bincount(codes), 1), []  # strata may be empty in a subset of rows
    for name, x in zip(design.names, design.matrix.T, strict=True):
        inside = x - (np.bincount(codes, x) / size)[codes]
        if np.abs(inside).max() <= 1e-12 * np.abs(x - x.mean()).max() * math.sqrt(x.size):
            constant.append(name)
    if constant:
        raise IdentificationError(
            f"constant within every stratum: {', '.join(constant)}; their effects cannot be separated from the "
            "baselines of the strata: leave these covariates out",
            constant,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PartialResult(FitResult):
    """The result of a fit by partial likelihood."""

    ties: str
    n_events: int
    event_weight: float
    hazard: Hazard
    centre: float  # x'beta at the average covariates; ``hazard`` is the hazard there

    @property
    def kind(self) -> str:
        """Return the description of the model in a summary."""
        return f"partial likelihood, {self.ties.capitalize()}'s ties"

    @property
    def curves(self) -> tuple[Steps, ...]:
        """Return the cumulative baseline hazard of each stratum."""
        return strata_curves(*self.hazard[:3], max(1, len(self.strata)))

    @property
    def sample_size(self) -> float:
        """Return the sample size in BIC: the total weight of events."""
        return self.event_weight

    def comparable(self, smaller: FitResult) -> bool:
        """Return whether both fits have the same ties, strata and event times."""
        if not isinstance(smaller, PartialResult) or smaller.ties != self.ties or smaller.strata != self.strata:
            return False
        return all(np.array_equal(a, b) for a, b in zip(self.hazard[:2], smaller.hazard[:2], strict=True))

    def own_record(self) -> dict[str, Any]:
        """Return the steps of the baseline hazard, for a file."""
        steps = {name: getattr(self.hazard, name) for name in Hazard._fields}
        own = {"strata": self.strata, "events": self.n_events, "event_weight": self.event_weight}
        return {"steps": steps | own | {"centre": self.centre}}

    @classmethod
    def from_own_record(cls, record: dict[str, Any], spec: Specification, found: dict[str, Any]) -> PartialResult:
        """Return the result with the checked steps of the baseline hazard."""
        assert isinstance(spec, PartialSpecification)  # noqa: S101
        steps = record["steps"]
        if found["corners"] is not None:
            raise InputError("CoxPH does not have several baselines")
        strata = tuple(steps["strata"]) if isinstance(steps["strata"], (list, tuple)) else (None,)
        hazard = _checked_hazard(steps, strata)
        events, centre = steps["events"], float(steps["centre"])
        if not (isinstance(events, int) and hazard.time.size <= events <= found["n_rows"]):
            raise InputError("the number of events is below that of event times, or above that of rows")
        weight = float(steps.get("event_weight", events))  # early files do not have it
        if not 0.0 < weight <= found["n_total"] * (1.0 + 1e-9):
            raise InputError("the weight of events does not match the rows")
        inside = math.isfinite(centre)
        if (ranges := found.get("covariate_ranges")) is not None:  # early files do not have it
            ends = found["coef"] * ranges
            room = 1e-9 * np.abs(ends).max(axis=0).sum()
            inside = ends.min(axis=0).sum() - room <= centre <= ends.max(axis=0).sum() + room
        if not inside or (spec.strata is None) != (not strata):
            raise InputError("the baseline hazard does not match the model")
        own = {"ties": spec.ties, "n_events": events, "event_weight": weight, "hazard": hazard, "centre": centre}
        return cls(**(found | own | {"strata": strata}))

    def own_facts(self) -> dict[str, str]:
        """Return the lines of the summary that are specific to this kind of model."""
        facts = {
            "model": "hazard(t) exp(x'beta), partial likelihood",
            "rows": f"{self.n_rows} ({self.n_events} events)"
            + ("" if self.n_total == self.n_rows else f", total weight {self.n_total:g}"),
        }
        return facts | ({"strata": f"{len(self.strata)}, each with a baseline of its own"} if self.strata else {})


def _codes_fit(stratum: NDArray[np.intp], strata: tuple[Any, ...]) -> bool:
    """Return whether the codes are sorted and match the strata, and the strata are valid sorted names."""
    whole = stratum.dtype.kind == "i" and bool((np.diff(stratum) >= 0).all())
    known = bool(((stratum >= 0) & (stratum < max(1, len(strata)))).all())
    text = all(isinstance(name, (str, int, bool)) for name in strata)
    return whole and known and text and len(strata) != 1 and Strata.of(strata).labels == strata


def _checked_hazard(steps: dict[str, Any], strata: tuple[Any, ...]) -> Hazard:
    """Return the checked steps of the baseline hazard from a file."""
    time, stratum, jump, tied = (np.asarray(steps[name]) for name in Hazard._fields)
    same = all(a.shape == time.shape and a.ndim == 1 for a in (stratum, jump, tied))
    numbers = all(a.dtype.kind in "if" and bool(np.isfinite(a).all()) for a in (time, jump, tied))
    if not (same and numbers and time.size and _codes_fit(stratum, strata)):
        raise InputError("the steps of the baseline hazard are inconsistent")
    rising = (np.diff(time) > 0.0) | (np.diff(stratum) > 0)
    if not (rising.all() and (jump > 0.0).all() and (tied >= 0.0).all() and (tied < jump).all()):
        raise InputError("the steps of the baseline hazard do not increase")
    time, jump, tied = (a.astype(np.float64) for a in (time, jump, tied))
    return Hazard(time, stratum.astype(np.intp), jump, tied)


class PartialProblem(Problem):
    """A fit by partial likelihood."""

    spec: PartialSpecification

    def make_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the loss of these rows."""
        return super().make_objective(link, data.without_wide(), coordinates)

    def plain_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the anchor loss without a penalty on coefficients."""
        outcome = self.spec.outcome_of(data.response, data.weighing.case_weights, data.offset, data.strata)
        X, names = data.design.matrix, data.design.names
        return build_partial(
            link, outcome, X, data.anchors, self.spec.anchor_intercept, names, data.weighing.reweighing
        )

    def start(self, objective: Objective, data: Any = None) -> Array:
        """Return the start values of the solver: coefficients of 0, unless the user gave some."""
        return super().start(objective, data) if self.spec.start is not None else np.zeros(objective.n_parameters)

    def result(self, objective: Objective, solution: Solution, others: list[Solution]) -> PartialResult:
        """Return the result of a solution, with the baseline hazard."""
        inner = objective.unpenalised
        assert isinstance(inner, PartialObjective)  # noqa: S101
        steps = inner.steps(solution.v)
        own = {
            "ties": self.spec.ties,
            "n_events": int(inner.outcome.dead.sum()),
            "event_weight": float(inner.sets.multiplicity.sum()),
            "hazard": steps.hazard(),
            "centre": steps.centre,
        }
        result = PartialResult.of(self, self.link, objective, solution, others, **own)
        assert isinstance(result, PartialResult)  # noqa: S101
        return result

    def steps(self, objective: Objective, v: Array) -> tuple[tuple[Steps, ...], float]:
        """Return the cumulative baseline hazards of the strata, and the x'beta at which they hold."""
        inner, strata = objective.unpenalised, self.data.strata
        assert isinstance(inner, PartialObjective)  # noqa: S101
        steps, n_strata = inner.steps(v), 1 if strata is None else len(strata.labels)
        return strata_curves(*steps.hazard()[:3], n_strata), steps.centre

    def shifted(self, link: Any, theta: Array, beta: Array, rows: Data, steps: Any = None) -> ShiftedHazards:
        """Return these rows as functions of a shift of their log hazards, under the baseline ``steps``."""
        curves, centre = steps
        shift = rows.design.matrix @ beta - centre
        shift = shift if rows.offset is None else shift + rows.offset
        stratum = np.zeros(shift.size, dtype=np.intp) if rows.strata is None else rows.strata.codes
        return ShiftedHazards.under(curves, stratum, shift, rows.response)

    def logliks(self, link: Any, theta: Array, beta: Array, rows: Data) -> Array:
        """Return the contribution of each row to the partial log-likelihood of these rows."""
        outcome = self.spec.outcome_of(rows.response, rows.weights, rows.offset, rows.strata)
        if not outcome.dead.any():
            warn(
                "rows without an event have a partial log-likelihood of 0 for all coefficients, so they do not help "
                "to choose xi",
                AnchorTMWarning,
            )
        return row_logliks(outcome, rows.design.matrix @ beta)

    def draw(self, result: FitResult, rng: np.random.Generator) -> Array:
        """Return a simulated time for each row; there are ties only if the data have ties."""
        assert isinstance(result, PartialResult)  # noqa: S101
        data = self.data
        shift = data.design.matrix @ result.coef - result.centre
        shift = shift if data.offset is None else shift + data.offset
        stratum = np.zeros(shift.size, dtype=np.intp) if data.strata is None else data.strata.codes
        hazard, time, entry = (
            rng.exponential(size=shift.size) * np.exp(-shift),
            np.empty(shift.size),
            data.response.entry,
        )
        tied = result.n_events > result.hazard.time.size
        for code, curve in enumerate(result.curves):
            own, t, total = stratum == code, np.append(0.0, curve.time), np.append(0.0, curve.total)
            z = hazard[own]
            if entry is not None:
                z = z + (curve(entry[own]) if tied else np.interp(entry[own], t, total))
            # without ties the hazard is constant between event times
            time[own] = curve.first_at(z) if tied else np.interp(z, total, t, right=np.inf)
        return time

    def redrawn(self, objective: Objective, response: Response) -> Objective:
        """Return the loss of the same rows with other outcomes."""
        return self.make_objective(objective.link, self.data._replace(response=response))
