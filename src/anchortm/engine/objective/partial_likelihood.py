"""Cox's partial likelihood as an objective: risk sets instead of a baseline.

    l(v) = sum_dead weight_i eta_i - sum_e m_e log S_e[1],      r_i = Lambda_i - dead_i

with e the pseudo-events and S_e the sums of ``rows.risk_sets``. Derivatives of log S_e are cumulants of the covariates
over the risk set. There is no baseline among the parameters and no constant: v are the coefficients of standardised
covariates.

The residual r has the sign of the score residuals of ``ProportionalHazards``; the martingale residual is -r.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.anchored import AnchoredObjective, InfluenceInputs
from anchortm.engine.objective.baseline_steps import BaselineSteps
from anchortm.engine.objective.protocol import Convexity, Derivatives, Point, Sums
from anchortm.engine.objective.separation import ordering
from anchortm.engine.rows.anchor_metric import Reweighing, reweighed
from anchortm.engine.rows.block_sums import weighted_gram
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.projections import Projection, projection
from anchortm.engine.rows.risk_sets import Outcome, RiskSets
from anchortm.engine.rows.standardised import BLOCK_ROWS
from anchortm.exceptions import IdentificationError, SeparationError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.links import Link

__all__ = ["PartialObjective", "build_partial"]

Array = NDArray[np.float64]

CHUNK = 500_000  # numbers in memory at once, while columns are summed over risk sets


class ShiftCoordinates(Coordinates):
    """Coefficients alone: there is no baseline, and no constant that depends on the means."""

    def split(self, v: Array) -> tuple[Array, Array]:
        return np.zeros(0), v / self.scale

    def join(self, theta: Array, beta: Array) -> Array:
        return beta * self.scale

    @cached_property
    def jacobian(self) -> Array:
        """Return dbeta/dv."""
        return np.diag(1.0 / self.scale)


class _At(NamedTuple):
    """What all derivatives at one v need."""

    v: Array
    eta: Array
    w: Array
    weighted: Array  # w times weight
    S: Array
    hazard: Array  # cumulative hazard of each row, without its w
    loglik: float


class PartialObjective(AnchoredObjective):
    """The anchor loss of a partial likelihood; see the module's docstring."""

    first_order = True

    def __init__(
        self,
        link: Link,
        coordinates: Coordinates,
        anchors: Projection | None,
        outcome: Outcome,
        sets: RiskSets,
        X: Array,  # standardised, one row for each covariate, in the order of the risk sets
        names: tuple[str, ...],
    ) -> None:
        n = outcome.time.size
        total = float(n if outcome.weights is None else outcome.weights.sum())
        super().__init__(link, coordinates, anchors, names, n, total)
        self.outcome, self.sets, self.X = outcome, sets, X
        self._weights, self._offset = (None if a is None else a[sets.order] for a in (outcome.weights, outcome.offset))
        self._part = None if anchors is None else anchors.part(slice(None))
        self._here: _At | None = None

    def _at(self, v: Array) -> _At:
        if self._here is not None and np.array_equal(self._here.v, v):
            return self._here
        with np.errstate(all="ignore"):  # of a trial step
            eta = self.sets.centred(self._eta(v))
            w = np.exp(eta)
            weighted = self._times(w)
            S = self.sets.pseudo_sum(weighted)
            m, dead = self.sets.multiplicity, self.sets.dead
            loglik = float(self._times(eta)[dead].sum() - m @ np.log(S)) if S.min() > 0.0 else -math.inf
            self._here = _At(v.copy(), eta, w, weighted, S, self.sets.spread(m / S), loglik)
        return self._here

    def _eta(self, v: Array) -> Array:
        eta = v @ self.X
        return np.asarray(eta if self._offset is None else eta + self._offset)

    def _times(self, values: Array) -> Array:
        return values if self._weights is None else values * self._weights

    def _r(self, at: _At) -> Array:
        r = at.w * at.hazard
        r[self.sets.dead] -= 1.0
        return r

    def _all(self, values: Array) -> Array:
        """Return values of the rows of the risk sets for all rows; the others have 0."""
        result = np.zeros((self.n_rows, *values.shape[1:]))
        result[self.sets.order] = values
        return result

    def _anchor_sums(self, values: Array, sums: Array) -> None:
        assert self._part is not None  # noqa: S101
        self._part.add(sums, self._all(self._times(values)), None)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        at, s = self._at(v), np.zeros(self.n_sums)
        with np.errstate(all="ignore"):
            if self.anchors is not None:
                self._anchor_sums(self._r(at), s)
            return Sums(at.loglik, self._root(s))

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        """Return the gradient of -loglik + multiplier't, of all columns at little cost."""
        sets, at = self.sets, self._at(v)
        pull = self._times(self._r(at))
        if multiplier is not None and self._part is not None:
            u = self._row_values(multiplier)
            mean = sets.pseudo_sum(at.weighted * u) / at.S
            pull += at.weighted * (at.hazard * u - sets.spread(sets.multiplicity / at.S * mean))
        return np.asarray(self.X @ pull)

    def restricted(self, columns: NDArray[np.intp]) -> PartialObjective:
        """Return the objective of some covariates alone, in the same coordinates: others have coefficient 0."""
        names = tuple(self.names[j] for j in columns)
        coordinates = self.coordinates.restricted(columns)
        return PartialObjective(self.link, coordinates, self.anchors, self.outcome, self.sets, self.X[columns], names)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of r along ``multiplier`` if given."""
        sets, at = self.sets, self._at(v)
        m, f, S = sets.multiplicity, sets.share, at.S
        G = np.zeros((self.n_parameters, self.n_sums))
        with np.errstate(all="ignore"):
            square = m / S**2
            b = [sets.by_time(square * f**q) for q in range(3)] if sets.tied else [square]
            u, a, curvature = None, b, at.hazard
            if multiplier is not None and self._part is not None:
                u = self._row_values(multiplier)
                mean = sets.pseudo_sum(at.weighted * u) / S
                a = [sets.by_time(square * (1.0 - 2.0 * mean) * f**q) for q in range(len(b))]
                curvature = (1.0 + u) * at.hazard - sets.spread(m * mean / S)
            H = _gram(self.X, at.weighted * curvature)
            risk, dying = _sums_at_events(sets, self.X, at.weighted)
            for j, x in enumerate(self.X if self.anchors is not None else ()):
                jump, tied = b[0] * risk[j], None
                if dying is not None:
                    jump, tied = jump - b[1] * dying[j], b[1] * risk[j] - b[2] * dying[j]
                self._anchor_sums(at.w * (x * at.hazard - sets.over(jump, tied)), G[j])
            if u is None:
                _subtract_squares(H, risk, dying, b)
            else:
                along, died = _sums_at_events(sets, self.X, at.weighted * u)
                half = 0.5 * a[0] * risk + b[0] * along
                if dying is None or died is None:
                    product = risk @ half.T
                else:
                    half -= a[1] * dying + b[1] * died
                    product = risk @ half.T + dying @ (0.5 * a[2] * dying + b[2] * died - b[1] * along).T
                H -= product + product.T
            return Derivatives(self.X @ self._times(self._r(at)), H, self._root(np.ascontiguousarray(G.T)))

    def _row_values(self, t: Array) -> Array:
        """Return Q t in the rows of the risk sets."""
        assert self._part is not None  # noqa: S101
        return self._part.spread(self._spread(t))[self.sets.order]  # type: ignore[arg-type]

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        """Return what is known of a minimum.

        With u = 2 xi P r, the Hessian without the square of E is the sum over risk sets of
        E[(1 + u - mean u)(x - mean x)(x - mean x)'], so it is not negative where the range of u is at most 1.
        """
        if xi == 0.0:
            return "global"
        if self.anchors is None or not math.isfinite(xi):
            return "none"
        return "local" if 2.0 * xi * float(np.ptp(self._row_values(sums.t))) <= 1.0 else "none"

    def sample(self, size: int) -> PartialObjective:
        """Return the objective of about ``size`` rows of all times and strata, in the same coordinates."""
        order = self.sets.order
        step = max(1, order.size // size)
        first = np.arange(0, order.size, step)
        picks = np.minimum(first + np.random.default_rng(0).integers(0, step, first.size), order.size - 1)
        picks = picks[np.argsort(order[picks])]
        outcome = self.outcome.take(order[picks])
        if not outcome.dead.any():
            raise ArithmeticError("no event in the sample")
        anchors = None if self.anchors is None else self.anchors.subset(order[picks], outcome.weights)
        sets = outcome.risk_sets()
        X = self.X[:, picks[sets.order]]
        return PartialObjective(self.link, self.coordinates, anchors, outcome, sets, X, self.names)

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets."""
        return 0.0 if self._offset is None else float(self._offset.mean())

    def residuals(self, v: Array) -> Array:
        """Return Lambda - dead in the order of the objective's rows."""
        return self._all(self._r(self._at(v)))

    @property
    def weights(self) -> Array | None:
        """Return the weights of all rows."""
        return self.outcome.weights

    def residual_slopes(self, v: Array) -> Array:
        """Return Lambda, the derivative of each residual in its own shift while the baseline stays."""
        at = self._at(v)
        return self._all(at.w * at.hazard)

    def anchor_information(self, v: Array) -> Array:
        """Return Q'W(dr/dshift)Q, less the part that the baseline takes up as it moves along."""
        assert self.anchors is not None  # noqa: S101
        at, sets = self._at(v), self.sets
        result = np.zeros((self.anchors.rank, self.n_sums))
        for unit, sums in zip(np.eye(self.anchors.rank), result, strict=True):
            q = self._row_values(unit)
            mean = sets.pseudo_sum(at.weighted * q) / at.S
            self._anchor_sums(at.w * (q * at.hazard - sets.spread(sets.multiplicity * mean / at.S)), sums)
        return self._root(result.T)

    def steps(self, v: Array) -> BaselineSteps:
        """Return the cumulative baseline hazard at v, and what its derivatives need."""
        at, c = self._at(v), self.coordinates
        top = np.maximum.reduceat(self._eta(v), self.sets.rows_of)
        return BaselineSteps(self.sets, self.X, at.w, at.weighted, at.S, top, float(c.mean @ (v / c.scale)))

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the derivatives of the equations that v solves in the weights of rows, times the bread."""
        at, sets = self._at(work.v), self.sets
        m, S, w = sets.multiplicity, at.S, at.w
        rows = np.zeros((sets.order.size, work.bread.shape[1]))

        def mean(values: Array) -> Array:
            return sets.pseudo_sum(at.weighted * values) / S

        def score(values: Array, centre: Array) -> Array:
            """Return the derivative of Dl[values] in the weights of rows."""
            result = -w * (values * at.hazard - sets.spread(m * centre / S))
            result[sets.dead] += values[sets.dead] - sets.mean_at_death(centre)
            return result

        u = None
        if self.anchors is not None and work.pull.any():
            u = self._row_values(work.pull)
            u_mean = mean(u)
            u_spread = sets.spread(m * u_mean / S)
        for x, bread in zip(self.X, work.bread, strict=True):
            x_mean = mean(x)
            own = -score(x, x_mean)
            if u is not None:
                covariance = mean(u * x) - u_mean * x_mean
                own[sets.dead] += sets.mean_at_death(covariance)
                own += w * (
                    u * (x * at.hazard - sets.spread(m * x_mean / S))
                    - x * u_spread
                    + sets.spread(m * (u_mean * x_mean - covariance) / S)
                )
            rows += own[:, None] * bread
        result = self._all(rows)
        if self.anchors is not None and self._part is not None:
            Pr = self._part.projected(self.anchors.projection_of(self.sums(work.v).t))
            for j, direction in enumerate(self._part.spread(self.anchors.coefficients(work.K)).T):
                along = direction[sets.order]
                result[:, j] -= self._all(score(along, mean(along))) + direction * Pr
        yield slice(0, self.n_rows), result if work.every is None else result + work.every

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> InfluenceInputs:
        """Return what ``shares`` needs."""
        return InfluenceInputs(v, pull, bread, K)

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if the likelihood is monotone in some direction."""
        found = ordering(self.gain, self.broken)
        if found is not None:
            what = f"a combination of {', '.join(found.names(0, self.names))}"
            raise SeparationError(
                f"monotone likelihood: at every event time {what} is largest for the row with the event, so that "
                "the partial likelihood grows without a maximum; leave a covariate out, or collect rows that overlap"
            )

    @cached_property
    def gain(self) -> Array:
        """Return the sum of x_i - x_j over all events i and all rows j at risk then."""
        sets = self.sets
        size, ones = sets.n_dead, np.ones(sets.order.size)
        at_risk = sets.at_risk(ones)
        return np.array([at_risk @ sets.dying(x) - size @ sets.at_risk(x) for x in self.X])

    def broken(self, direction: Array, tolerance: float) -> Array:
        """Return x_i - x_j for events i that have less of the direction than a row j at risk, for the largest j."""
        sets, value = self.sets, direction @ self.X
        best = sets.largest(value)[sets.dead_at]
        below = np.flatnonzero(value[sets.dead] < value[best] - tolerance)
        return np.asarray((self.X[:, sets.dead[below]] - self.X[:, best[below]]).T)


def _sums_at_events(sets: RiskSets, X: Array, weights: Array) -> tuple[Array, Array | None]:
    """Return weighted sums of all columns over those at risk at each event time; if ties count, over the dying."""
    risk = np.empty((X.shape[0], sets.times.size))
    dying = np.empty_like(risk) if sets.tied else None
    step = max(1, CHUNK // max(1, weights.size))
    for start in range(0, X.shape[0], step):
        some = slice(start, start + step)
        columns = X[some] * weights
        risk[some] = sets.at_risk(columns)
        if dying is not None:
            dying[some] = sets.dying(columns)
    return risk, dying


def _gram(X: Array, weights: Array) -> Array:
    """Return X diag(weights) X', a block of rows at a time."""
    result = np.zeros((X.shape[0], X.shape[0]))
    for start in range(0, weights.size, BLOCK_ROWS):
        result += weighted_gram(X[:, start : start + BLOCK_ROWS].T, weights[start : start + BLOCK_ROWS])
    return result


def _subtract_squares(H: Array, risk: Array, dying: Array | None, b: list[Array]) -> None:
    """Subtract the sum over event times of b_0 rr' - b_1 (rd' + dr') + b_2 dd', r over those at risk, d the dying.

    That is b_0 (r - (b_1 / b_0) d)^2 + (b_2 - b_1^2 / b_0) d^2: squares, whose products take half the time.
    """
    if dying is not None:
        share = b[1] / b[0]
        rest = b[2] - share * b[1]
        tied = np.flatnonzero(rest > 0.0)
        H -= weighted_gram(dying[:, tied].T, rest[tied])
        risk = risk - share * dying
    H -= weighted_gram(risk.T, b[0])


def build_partial(
    link: Link,
    outcome: Outcome,
    X: Array,
    anchors: AnchorColumns | None,
    anchor_intercept: bool,
    names: tuple[str, ...],
    reweighing: Reweighing | None = None,
) -> PartialObjective:
    """Return the anchor loss of these rows; rows are ordered by the main anchor factor inside.

    ``reweighing`` says how weights of environments enter the penalty; those of the likelihood are in the outcome.
    """
    if not outcome.dead.any():
        raise IdentificationError("no row has an event: a partial likelihood needs at least one")
    order = None if anchors is None else anchors.order()
    if order is not None and anchors is not None:
        outcome, anchors = outcome.take(order), anchors.take(order)
        reweighing = None if reweighing is None else reweighing.take(order)
    projected = None
    if anchors is not None and reweighing is None:
        projected = projection(anchors, outcome.weights, anchor_intercept)
    elif anchors is not None and reweighing is not None:
        projected = reweighed(anchors, outcome.weights, anchor_intercept, reweighing)
    sets = outcome.risk_sets()
    mean = X.mean(axis=0)
    scale = np.array([float(np.sqrt(np.mean((x - c) ** 2))) for x, c in zip(X.T, mean, strict=True)])
    if not scale.all():
        raise IdentificationError(f"constant covariates: {', '.join(np.array(names)[scale == 0.0])}; leave them out")
    rows = sets.order if order is None else order[sets.order]
    C = np.empty((X.shape[1], rows.size))
    for j in range(X.shape[1]):
        C[j] = (X[rows, j] - mean[j]) / scale[j]
    free = np.full(scale.size, np.inf)
    coordinates = ShiftCoordinates(np.zeros((0, 0)), mean, scale, -free, free)
    return PartialObjective(link, coordinates, projected, outcome, sets, C, names)
