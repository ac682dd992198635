"""CoxPH: the anchor loss of Cox's partial likelihood, whose residuals are those of martingales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from anchortm._messages import warn
from anchortm._util.checks import check_weights
from anchortm._util.frames import aligned
from anchortm.bases import Basis
from anchortm.engine.objective.partial_likelihood import (
    Hazard,
    Outcome,
    PartialObjective,
    build_partial,
    row_logliks,
    sums_between,
)
from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.plain import Objective
from anchortm.engine.problem import Data, Strata
from anchortm.engine.solve.identification import Checked
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError, InputTypeError
from anchortm.inputs.baselines import stratum_codes
from anchortm.inputs.design import Design
from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Kind, Response, as_response
from anchortm.links import Link, get_link
from anchortm.models.base import TransformationModel, model
from anchortm.models.fitted import one_column
from anchortm.models.transformation import _ATTRIBUTES, _SHARED, _Regressor
from anchortm.predict.survival_steps import StepBasis, StepDistribution, strata_curves

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoxPH"]

Array = NDArray[np.float64]

_OWN = """ties : {"efron", "breslow"}
        How events at one time are treated. Efron's formula is nearer to what times without ties would give, and is
        the default of R's survival; with Breslow's, weights replicate rows to the letter.
    """
_NONE = ": empty, as steps are no parameters."
_STEPS = """baseline_hazard_ : DataFrame
        Cumulative hazard of rows whose covariates are 0, at each event time (of each stratum).
    strata_ : tuple
        The strata; empty without.
    n_events_ : int
        Number of rows with an event.
    """


@model
class CoxPH(_Regressor, TransformationModel):  # noqa: D101
    __doc__ = f"""The Cox model by its partial likelihood (R's coxph): hazard(t | x) = hazard_0(t) exp(x'beta).

    The baseline is left open, and the penalty acts on Lambda - event, the negative martingale residual. Outcomes are
    exact or right-censored, with delayed entry if wanted (``Surv(time, event, entry)``); for others take
    ``ProportionalHazards``, whose baseline is smooth and part of the penalised likelihood.

    Parameters
    ----------{_SHARED.format(own=_OWN)}{_ATTRIBUTES.format(baseline=_NONE, own=_STEPS)}
    See Also
    --------
    anchortm.ProportionalHazards : the full likelihood, with a smooth baseline
    anchortm.predict.StepDistribution : what it predicts

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data, xi=1.0)
    >>> model.summary().frame()[["coef", "hazard ratio"]].round(2)
                     coef  hazard ratio
    covariate
    treat[T.rIFN-g] -1.09          0.34
    age             -0.03          0.97
    """

    _sign = 1.0
    _effect = "hazard ratio"
    _varies = False

    ties: Literal["efron", "breslow"] = "efron"

    def _make_link(self) -> Link:
        return get_link("cloglog")

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return StepBasis()

    def _check_limits(self) -> None:
        super()._check_limits()
        if self.ties not in ("efron", "breslow"):
            raise InputError(f"ties must be 'efron' or 'breslow', not {self.ties!r}")
        if self.random is not None:
            raise InputError("CoxPH takes no random effects: take ProportionalHazards, whose likelihood has a baseline")
        if self.varying is not None:
            raise InputError("effects that vary are for models whose baseline has a basis: take ProportionalHazards")
        if self.scale is not None:
            raise InputError("scale effects are for models whose baseline has a basis: take ProportionalHazards")

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any) -> Formula:
        raise InputTypeError(
            "CoxPH takes a table in memory: a risk set reaches across all rows; read the table first, or take "
            "ProportionalHazards, whose likelihood is a sum over rows"
        )

    def _prepare(self, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any) -> Data:
        data = super()._prepare(X, y, anchors, sample_weight, offset)
        check_outcome(data.response)
        return data

    def _with_baselines(self, data: Data, labels: Sequence[Any] | None) -> Data:
        assert labels is not None  # noqa: S101
        strata = Strata.of(labels)
        if len(strata.labels) < 2:
            raise InputError(f"there is a single stratum, {strata.labels[0]!r}: leave strata out")
        return data._replace(strata=strata)

    def _check_design(self, data: Data) -> Checked:
        found = super()._check_design(data)
        if data.strata is not None:
            _check_within(data.without_wide().design, data.strata.codes)
        return found

    def _outcome(
        self, response: Response, weights: Array | None, offset: Array | None, strata: Strata | None
    ) -> Outcome:
        codes = None if strata is None or len(strata.labels) < 2 else strata.codes
        return Outcome(response.lower, response.kind == Kind.EXACT, response.entry, codes, weights, offset, self.ties)

    def _objective(self, link: Link, basis: Basis, data: Any) -> Objective:
        return super()._objective(link, basis, data.without_wide())

    def _plain_objective(self, link: Link, basis: Basis, data: Any) -> Objective:
        outcome = self._outcome(data.response, data.weights, data.offset, data.strata)
        design = data.design
        return build_partial(link, outcome, design.matrix, data.anchors, self.anchor_intercept, design.names)

    def _loglik(self, link: Link, basis: Basis, theta: Array, beta: Array, rows: Data) -> Array:
        """Return the partial log-likelihood of rows among themselves, which knows nothing of their baseline."""
        outcome = self._outcome(rows.response, rows.weights, rows.offset, rows.strata)
        if not outcome.dead.any():
            warn(
                "rows without an event have a partial log-likelihood of 0 whatever the coefficients: they say nothing "
                "about xi",
                AnchorTMWarning,
            )
        return row_logliks(outcome, rows.design.matrix @ beta)

    def _draw(self, data: Data, rng: np.random.Generator) -> Array:
        """Return a time of each row drawn from the fitted hazard; ties only where the data have some."""
        shift = data.design.matrix @ self.coef_ - self._centre
        shift = shift if data.offset is None else shift + data.offset
        stratum = np.zeros(shift.size, dtype=np.intp) if data.strata is None else data.strata.codes
        hazard, time, entry = (
            rng.exponential(size=shift.size) * np.exp(-shift),
            np.empty(shift.size),
            data.response.entry,
        )
        tied = self.n_events_ > self._hazard.time.size
        for code, curve in enumerate(self._curves()):
            own, t, total = stratum == code, np.append(0.0, curve.time), np.append(0.0, curve.total)
            z = hazard[own]
            if entry is not None:
                z = z + (curve(entry[own]) if tied else np.interp(entry[own], t, total))
            # without ties the hazard is spread evenly between event times
            time[own] = curve.first_at(z) if tied else np.interp(z, total, t, right=np.inf)
        return time

    def _redrawn(self, objective: Objective, data: Data) -> Objective:
        return self._objective(objective.link, self.basis_, data)

    def _start(self, objective: Objective, basis: Basis, data: Any) -> Array:
        return np.zeros(objective.n_parameters) if self.start is None else super()._start(objective, basis, data)

    def _store(self, link: Link, basis: Basis, data: Any, objective: Objective, solution: Any, others: Any) -> None:
        super()._store(link, basis, data, objective, solution, others)
        objective = objective.inner if isinstance(objective, Net) else objective
        assert isinstance(objective, PartialObjective)  # noqa: S101
        self.atom_ = 0.0
        self.strata_ = () if data.strata is None else data.strata.labels
        self.n_events_ = int(objective.outcome.dead.sum())
        self._event_weight = float(objective.sets.multiplicity.sum())
        self._hazard = objective.hazard(solution.v)
        self._centre = float(objective.coordinates.mean @ (solution.v / objective.coordinates.scale))

    def _own_facts(self) -> dict[str, str]:
        facts = {
            "model": "hazard(t) exp(x'beta), partial likelihood",
            "rows": f"{self.n_rows_} ({self.n_events_} events)"
            + ("" if self.n_total_ == self.n_rows_ else f", total weight {self.n_total_:g}"),
        }
        return facts | ({"strata": f"{len(self.strata_)}, each with a baseline of its own"} if self.strata_ else {})

    @property
    def _kind(self) -> str:
        return f"partial likelihood, {self.ties.capitalize()}'s ties"

    def _comparable(self, smaller: Any) -> bool:
        if not isinstance(smaller, CoxPH) or smaller.ties != self.ties or smaller.strata_ != self.strata_:
            return False
        return all(np.array_equal(a, b) for a, b in zip(self._hazard[:2], smaller._hazard[:2], strict=True))

    @property
    def bic_(self) -> float:
        """Return Schwarz's criterion of a maximum-likelihood fit; the weight of events counts, not that of rows."""
        self._check_criterion()
        return -2.0 * self.loglik_ + math.log(self._event_weight) * self.n_parameters_

    @property
    def baseline_hazard_(self) -> pd.DataFrame:
        """Return the cumulative baseline hazard at each event time, of rows whose covariates and offset are 0.

        Breslow's estimator, or with Efron's ties the one that goes with them.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.baseline_hazard_.tail(2).round(2)
             time  cumulative hazard
        41  334.0               1.43
        42  373.0               2.23
        """
        import pandas as pd

        check_is_fitted(self, "coef_")
        totals = np.concatenate([curve.total for curve in self._curves()] or [np.zeros(0)])
        with np.errstate(over="ignore"):
            table = pd.DataFrame({"time": self._hazard.time, "cumulative hazard": totals * np.exp(-self._centre)})
        if self.strata_:
            table["stratum"] = np.array(self.strata_, dtype=object)[self._hazard.stratum]
        return table

    def _curves(self) -> Any:
        return strata_curves(*self._hazard[:3], max(1, len(self.strata_)))

    def _new_strata(self, X: Any) -> Strata | None:
        """Return the strata of new rows among themselves."""
        labels = None if X is None else self._split_new(X)[1]
        return None if labels is None else Strata.of(labels)

    def _strata_of(self, X: Any, n: int) -> NDArray[np.intp]:
        """Return the strata of new rows as the fit numbers them."""
        labels = None if X is None else self._split_new(X)[1]
        return np.zeros(n, dtype=np.intp) if labels is None else stratum_codes(labels, self.strata_)

    def _new_rows(self, X: Any, y: Any, offset: Any) -> tuple[Response, Array]:
        """Return outcome and x'beta + offset of rows."""
        check_is_fitted(self, "coef_")
        aligned(X=X, y=y, offset=offset)
        if y is None and hasattr(self, "formula_"):
            y = self.formula_.outcome(X)
        response = as_response(one_column(y), self._scale)
        check_outcome(response)
        shift = self._shift(X, len(response), offset)
        if shift.size != len(response):
            raise InputError(f"X has {shift.size} rows, but y has {len(response)}: pass the same rows of both")
        return response, shift

    def _rows(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        if which != "shift":
            raise InputError("CoxPH has one residual: which='scale' is of models whose baseline has a basis")
        response, shift = self._new_rows(X, y, offset)
        strata = self._new_strata(X)
        loglik = row_logliks(self._outcome(response, None, None, strata), shift)
        if strata is not None and not set(strata.labels) <= set(self.strata_):
            return loglik, np.full(len(response), np.nan)
        return loglik, self._martingale(response, shift, self._strata_of(X, len(response)))

    def _martingale(self, response: Response, shift: Array, stratum: NDArray[np.intp]) -> Array:
        """Return Lambda - event."""
        event, hazard = response.kind == Kind.EXACT, np.zeros(len(response))
        for code in np.unique(stratum):
            own, steps = np.flatnonzero(stratum == code), self._hazard.stratum == code
            time, jump, tied = (a[steps] for a in (self._hazard.time, self._hazard.jump, self._hazard.tied))
            last = np.searchsorted(time, response.lower[own], side="right")
            first = 0 if response.entry is None else np.searchsorted(time, response.entry[own], side="right")
            hazard[own] = sums_between(jump, np.broadcast_to(first, last.shape), last - 1)
            # one who dies at an event time shares its jump with the others, as Efron's formula has it
            place = np.searchsorted(time, response.lower[own])
            there = event[own] & (np.append(time, np.nan)[place] == response.lower[own])
            hazard[own] -= np.where(there, np.append(tied, 0.0)[place], 0.0)
        return np.asarray(np.exp(shift - self._centre) * hazard - event)

    def nll(self, X: Any, y: Any = None, *, offset: Any = None) -> Array:
        """Return the share of each row in the negative partial log-likelihood of these rows among themselves.

        Rows without an event have 0. The baseline of the fit plays no part: the numbers say how well the coefficients
        order these rows, and depend on which rows are given together. So strata may be ones that the fit has not
        seen, which ``residuals`` and ``predict_distribution``, that need a baseline, refuse.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.nll(data)[:3].round(2)
        array([5.07, 4.46, 0.  ])
        """
        return super().nll(X, y, offset=offset) + 0.0  # no -0

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the partial log-likelihood of these rows among themselves, divided by their total weight.

        Weights count in the risk sets too, as in a fit. Strata may be new, as in ``nll``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> round(model.score(data), 3), round(model.loglik_ / len(data), 3)
        (-1.459, -1.459)
        """
        aligned(X=X, y=y, sample_weight=sample_weight)
        response, shift = self._new_rows(X, y, offset)
        strata, weights = self._new_strata(X), check_weights(sample_weight, len(response))
        if weights is not None:
            keep = weights > 0.0
            response, shift, weights = response[keep], shift[keep], weights[keep]
            strata = None if strata is None else strata.take(keep)
        loglik = row_logliks(self._outcome(response, weights, None, strata), shift)
        return float(np.average(loglik, weights=weights))

    def residuals(self, X: Any, y: Any = None, *, offset: Any = None, which: str = "shift") -> Array:
        """Return Lambda - event of each row, the negative martingale residual, under the baseline of the fit.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.residuals(data)[:3].round(2)
        array([-0.86, -0.97,  0.41])
        """
        self._strata_of(X, 0)
        return super().residuals(X, y, offset=offset, which=which)

    def predict_distribution(
        self, X: Any = None, *, offset: Any = None, n_rows: int | None = None, conditional: bool = False
    ) -> Any:
        """Return the predicted survival curve of each row: steps at the event times of the fit.

        See Also
        --------
        anchortm.predict.StepDistribution : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> model.predict_distribution(data[:2]).sf([100.0, 300.0]).round(2)
        array([[0.94, 0.79],
               [0.83, 0.5 ]])
        """
        if conditional:
            self._effects()  # it has none
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        shift = self._shift(X, n_rows, offset)
        return StepDistribution(self._curves(), self._strata_of(X, shift.size), shift, centre=self._centre)

    def _distribution(self, shift: Array) -> NoReturn:
        raise InputTypeError(
            "CoxPH has no baseline that a penalty could flatten: this question is for ProportionalHazards"
        )

    def confidence_band(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: the steps have no covariance here.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> try:
        ...     model.confidence_band(data, [100.0])
        ... except TypeError as error:
        ...     print(str(error)[:48])
        CoxPH has no confidence bands: its baseline is n
        """
        raise InputTypeError(
            "CoxPH has no confidence bands: its baseline is not among the parameters; take ProportionalHazards, or "
            "refit to resampled rows"
        )

    def _more(self) -> dict[str, Any]:
        """Return what a file holds beside what all models have."""
        return {
            **{name: getattr(self._hazard, name) for name in Hazard._fields},
            "strata": self.strata_,
            "events": self.n_events_,
            "event_weight": self._event_weight,
            "centre": self._centre,
        }

    def _set_more(self, record: dict[str, Any]) -> None:
        """Take what ``_more`` gave, checked."""
        time, stratum, jump, tied = (np.asarray(record[name]) for name in Hazard._fields)
        if self._corners is not None:
            raise InputError("CoxPH has no corners")
        self.strata_ = tuple(record["strata"]) if isinstance(record["strata"], (list, tuple)) else (None,)
        same = all(a.shape == time.shape and a.ndim == 1 for a in (stratum, jump, tied))
        whole = stratum.dtype.kind == "i" and bool((np.diff(stratum) >= 0).all())
        known = bool((stratum >= 0).all() and (stratum < max(1, len(self.strata_))).all())
        text = all(isinstance(name, (str, int, bool)) for name in self.strata_)
        text = text and len(self.strata_) != 1 and Strata.of(self.strata_).labels == self.strata_
        numbers = all(a.dtype.kind in "if" and bool(np.isfinite(a).all()) for a in (time, jump, tied))
        if not (same and whole and known and text and numbers and time.size):
            raise InputError("the steps of the baseline do not fit together")
        rising = (np.diff(time) > 0.0) | (np.diff(stratum) > 0)
        if not (rising.all() and (jump > 0.0).all() and (tied >= 0.0).all() and (tied < jump).all()):
            raise InputError("the steps of the baseline do not rise")
        if not (isinstance(record["events"], int) and time.size <= record["events"] <= self.n_rows_):
            raise InputError("there are fewer events than event times, or more than rows")
        self.n_events_, self._centre = record["events"], float(record["centre"])
        self._event_weight = float(record.get("event_weight", self.n_events_))  # not in the first files
        if not 0.0 < self._event_weight <= self.n_total_ * (1.0 + 1e-9):
            raise InputError("the weight of events is not one of these rows")
        inside = math.isfinite(self._centre)
        if (ranges := getattr(self, "covariate_ranges_", None)) is not None:  # not in the first files
            ends = self.coef_ * ranges
            room = 1e-9 * np.abs(ends).max(axis=0).sum()
            inside = ends.min(axis=0).sum() - room <= self._centre <= ends.max(axis=0).sum() + room
        if not inside or (self.strata is None) != (not self.strata_):
            raise InputError("the baseline does not belong to the model")
        time, jump, tied = (a.astype(np.float64) for a in (time, jump, tied))
        self._hazard = Hazard(time, stratum.astype(np.intp), jump, tied)


def check_outcome(response: Response) -> None:
    """Refuse outcomes that a partial likelihood does not take."""
    counts = response.counts()
    other = [f"{counts[kind]} {kind}-censored" for kind in ("left", "interval") if counts[kind]]
    if response.exit is not None:
        other.append(f"{int(np.isfinite(response.exit).sum())} right-truncated")
    if other:
        raise InputError(
            f"CoxPH takes exact and right-censored rows, and here are {' and '.join(other)} ones: a risk set needs to "
            "know who is at risk when; take ProportionalHazards, which takes all kinds"
        )


def _check_within(design: Design, codes: NDArray[np.intp]) -> None:
    """Refuse covariates that do not vary within any stratum."""
    size, constant = np.maximum(np.bincount(codes), 1), []  # strata may be empty in a part of the rows
    for name, x in zip(design.names, design.matrix.T, strict=True):
        inside = x - (np.bincount(codes, x) / size)[codes]
        if np.abs(inside).max() <= 1e-12 * np.abs(x - x.mean()).max() * math.sqrt(x.size):
            constant.append(name)
    if constant:
        raise IdentificationError(
            f"constant within every stratum: {', '.join(constant)}; such effects cannot be told from the strata's "
            "baselines: leave these covariates out"
        )
