"""The anchor loss as sums over blocks of rows.

    L(w) = -(1/n) sum_i weight_i l_i(w) + (xi/n) |t(w)|^2,      t = Q'W r(w)

with Q an orthonormal basis of the span of the anchors. Nothing but sums crosses rows: the
log-likelihood, its gradient and Hessian, and the anchors' sums A'Wr and A'WJ (J = dr/dw).

The parameters are the internal ones of ``columns``: h = c'v with standardised columns c.

Second derivatives of r enter through a *multiplier* mu in the coordinates of t: the sum of
weight_i (Q mu)_i D2 r_i. It is 2 xi t for a finite xi and n lambda for xi = inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from anchortm.bases import Basis
from anchortm.engine.rows.block_sums import (
    Influence,
    LogLikelihood,
    LogSlopes,
    Moments,
    SecondOrder,
    SlopeDerivatives,
    Slopes,
    Together,
    WideSecondOrder,
    evaluate_rows,
)
from anchortm.engine.rows.blocks import Blocks, MemoryBlocks
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.rows.likelihood import Layout, check_inside, layout
from anchortm.engine.rows.projections import Centred, Projection, projection
from anchortm.engine.rows.standardised import BLOCK_ROWS, Coordinates, Rows, make_coordinates, standardised
from anchortm.exceptions import IdentificationError, InputError
from anchortm.families import Family, likeliest_shape
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.inputs.response import Response
from anchortm.links import Link, Normal, OneEnd

__all__ = ["Derivatives", "MeanObjective", "NormalObjective", "Objective", "Sums", "build_objective", "objective_type"]

Array = NDArray[np.float64]

NEAR = 0.01  # of a multiplier that was expected, relative
MAX_CROSS = 20_000_000  # anchor directions, or sparse columns, times levels of a wide factor


class Sums(NamedTuple):
    """What a line search needs: the log-likelihood and the residuals' anchor coordinates."""

    loglik: float
    t: Array


class Derivatives(NamedTuple):
    """First and second derivatives, as sums over rows.

    ``gradient`` of -loglik, ``hessian`` of -loglik + mu'QWr, ``E`` = dt/dv.
    """

    gradient: Array
    hessian: Any  # an array, or an Arrow where the levels of a wide factor are among the parameters
    E: Array

    def penalised(self, weight: float) -> Any:
        """Return the Hessian plus weight E'E."""
        if isinstance(self.hessian, Arrow):
            return replace(self.hessian, weight=weight)
        return self.hessian + weight * (self.E.T @ self.E)


class _Latest(NamedTuple):
    """Sums and derivatives of one pass, the latter for about this multiplier."""

    v: Array
    sums: Sums
    multiplier: Array | None
    derivatives: Derivatives

    def serves(self, v: Array, multiplier: Array | None) -> bool:
        """Return whether the derivatives are those that are asked for, or as good."""
        if not np.array_equal(self.v, v) or (multiplier is None) != (self.multiplier is None):
            return False
        if multiplier is None or self.multiplier is None:
            return True
        # the multiplier's part of the Hessian is not needed to full accuracy on the way, and at its end nothing is off
        return bool(np.linalg.norm(multiplier - self.multiplier) <= NEAR * np.linalg.norm(multiplier))


class Objective:
    """The anchor loss of one data set, wherever its rows are: sums and derivatives at any v."""

    levels: NDArray[np.intp] | None = None  # of a wide factor, that a sample has
    begin: Array | None = None  # a start of all parameters that is better than a guess
    slack: float = 0.0  # by how much the gradient of the loss may miss its differences

    def __init__(
        self,
        link: Any,
        coordinates: Coordinates,
        anchors: Projection | None,
        blocks: Blocks,
        names: tuple[str, ...] = (),
    ) -> None:
        self.names = names  # of the covariates
        self.link: Any = link  # a Link, or a Family
        self.coordinates, self.anchors, self.blocks = coordinates, anchors, blocks
        self.n_rows, self.n_total = blocks.n_rows, blocks.n_total
        self.n_parameters = coordinates.scale.size
        self.n_sums = 0 if anchors is None else anchors.n_sums
        self._latest: _Latest | None = None

    @property
    def start(self) -> Array:
        """Return where parameters start that users do not give, the last of all: none."""
        return np.zeros(0)

    @property
    def memory(self) -> MemoryBlocks:
        """Return the blocks of rows in memory."""
        assert isinstance(self.blocks, MemoryBlocks)  # noqa: S101
        return self.blocks

    @property
    def terms(self) -> list[Rows]:
        """Return the rows in memory, by kind."""
        return self.memory.terms

    @property
    def weights(self) -> Array | None:
        """Return the weights of the rows in memory."""
        return self.memory.weights

    def ray(self, xi: float) -> tuple[Objective, float]:
        """Return the loss to minimise for this xi, and the number along its path: with one penalty itself, and xi."""
        return self, xi

    @property
    def simpler(self) -> Objective | None:
        """Return a loss from whose minimum at xi = 0 this one starts, if it needs one."""
        return None

    def _spread(self, t: Array | None) -> Array | None:
        """Return coordinates of t as coefficients of the anchors."""
        return None if t is None or self.anchors is None else self.anchors.coefficients(t)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v.

        Where a pass over the rows is costly the derivatives are taken in the same pass, with the multiplier that
        is ``expected``, and kept for the next call of ``derivatives``.
        """
        work = LogLikelihood(self.link, self.coordinates.unfold(v), self.coordinates.n_baseline, self.n_sums)
        if not self.blocks.costly:
            loglik, (s,) = self.blocks.total(work)
            return Sums(loglik, self._root(s))
        if self._latest is None or not np.array_equal(self._latest.v, v):
            loglik, (s, *rest) = self.blocks.total(Together(work, self._second_order(v, expected)))
            self._latest = _Latest(v.copy(), Sums(loglik, self._root(s)), expected, self._derivatives(rest))
        return self._latest.sums

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of r along ``multiplier`` if given."""
        if self._latest is not None and self._latest.serves(v, multiplier):
            return self._latest.derivatives
        return self._derivatives(self.blocks.total(self._second_order(v, multiplier))[1])

    def slopes(self, v: Array, multiplier: Array | None = None) -> Array:
        """Return the derivatives of -loglik + multiplier't in the coefficients, of all columns at little cost."""
        work = Slopes(self.link, v, self.coordinates.n_baseline, self._spread(multiplier))
        return self.blocks.total(work)[1][0]

    def loglik(self, v: Array, sums: Sums) -> float:
        """Return the log-likelihood at v, without what ``sums`` may have beside it."""
        return sums.loglik

    def restricted(self, columns: NDArray[np.intp]) -> Objective:
        """Return the objective of some covariates alone, in the same coordinates: others have coefficient 0."""
        k = self.coordinates.n_baseline

        def some(part: Rows) -> Rows:
            own = columns if part.ends is not None else np.concatenate([np.arange(k), k + columns])
            return replace(part, C=part.C[:, own])

        blocks = self.memory.changed(some, self.anchors)
        names = tuple(self.names[j] for j in columns)
        return type(self)(self.link, self.coordinates.restricted(columns), self.anchors, blocks, names)

    def _second_order(self, v: Array, multiplier: Array | None) -> SecondOrder:
        k, spread, wide = self.coordinates.n_baseline, self._spread(multiplier), self.coordinates.wide
        if wide is None:
            return SecondOrder(self.link, v, k, self.n_sums, spread)
        return WideSecondOrder(self.link, self.coordinates.unfold(v), k, self.n_sums, spread, wide.share.size)

    def _derivatives(self, arrays: list[Array]) -> Derivatives:
        gradient, hessian, G, *levels = arrays
        coordinates = self.coordinates
        if coordinates.wide is None:
            return Derivatives(gradient, hessian + self.n_total * coordinates.faint, self._root(G))
        across, diagonal, F = levels
        E = self._root(np.hstack([G, F]))
        if diagonal.size:
            H: Any = Arrow(coordinates, hessian, across, diagonal, E)
        else:
            H = coordinates.fold(coordinates.fold(hessian).T)
        return Derivatives(coordinates.fold(gradient), H, coordinates.fold(E))

    def _root(self, sums: Array) -> Array:
        if self.anchors is None:
            return sums
        with np.errstate(over="ignore", invalid="ignore"):  # of a trial step
            return self.anchors.root(sums)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Influence:
        """Return the work that gives the rows' shares in the influence; see ``Influence``."""
        t = self.sums(v).t
        return Influence(
            self.link, v, self.coordinates.n_baseline, bread, self._spread(pull), self._spread(K), self._spread(t)
        )

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows with their shares in the influence."""
        for block in self.memory.blocks:
            yield block.rows, work.shares(block)[0]

    @property
    def scored(self) -> Objective:
        """Return the objective whose penalty takes score residuals."""
        return self

    def dispersion(self, v: Array) -> float:
        """Return by how much residuals vary more than the likelihood says."""
        return 1.0

    @property
    def known_dispersion(self) -> bool:
        """Return whether the dispersion was given as a number."""
        return False

    @property
    def affine(self) -> bool:
        """Return whether the residuals are linear in v, so that the loss is convex: exact rows, normal link."""
        return isinstance(self.link, Normal) and self.blocks.kinds == {("exact", 1)}

    def convexity(self, sums: Sums, xi: float) -> Literal["global", "local", "none"]:
        """Return what is known of a minimum: the loss is convex everywhere, around it, or neither is known.

        For the logistic link, and for extreme values without their awkward side, -D2 l >= |D2 r|
        row by row, so the loss is convex where 2 xi |P r| <= 1.
        """
        if self.affine:
            return "global"
        kinds = {kind for kind, _ in self.blocks.kinds}
        if any(sign < 0 for _, sign in self.blocks.kinds):
            return "none"
        if xi == 0.0:
            return "global"
        safe = {
            "logit": {"exact", "left", "right", "interval"},
            "cloglog": {"exact", "right"},
            "loglog": {"exact", "left"},
        }
        if self.anchors is None or not math.isfinite(xi) or not kinds <= safe.get(self.link.name, set()):
            return "none"
        largest = self.blocks.largest_spread(self.anchors, self.anchors.coefficients(sums.t))
        return "local" if 2.0 * xi * largest <= 1.0 else "none"

    def sample(self, size: int) -> Objective:
        """Return the objective of about ``size`` rows from all over the data, in the same coordinates.

        Of a wide factor all rows of some levels are taken, whose coordinates are their own.
        """
        wide = self.coordinates.wide
        if wide is not None and wide.share.size:
            return self._some_levels(size, wide.share.size)
        blocks, anchors = self.blocks.sample(size, self.anchors)
        return type(self)(self.link, self.coordinates, anchors, blocks, self.names)

    def _some_levels(self, size: int, n_levels: int) -> Objective:
        codes = self._codes()
        count, order = np.bincount(codes, minlength=n_levels), np.random.default_rng(0).permutation(n_levels)
        enough = int(np.searchsorted(np.cumsum(count[order]), size)) + 1
        levels = np.sort(order[: max(2, enough)])
        code = np.full(n_levels, -1, dtype=np.int32)
        code[levels] = np.arange(levels.size)

        def recode(part: Rows) -> Rows:
            if part.wide is None or part.wide.codes is None:
                return part
            return replace(part, wide=replace(part.wide, codes=code[part.wide.codes], n_levels=levels.size))

        blocks, anchors = self.memory.take(code[codes] >= 0, self.anchors, recode)
        result = type(self)(self.link, self.coordinates.some_levels(count[levels]), anchors, blocks, self.names)
        result.levels = levels
        return result

    def _codes(self) -> NDArray[np.int32]:
        """Return the level of each row."""
        codes = np.zeros(self.n_rows, dtype=np.int32)
        for term in self.terms:
            if term.wide is not None and term.wide.codes is not None:
                codes[term.rows] = term.wide.codes
        return codes

    def from_whole(self, whole: Objective, v: Array) -> Array:
        """Return the parameters of a sample from those of all rows."""
        if self.levels is None:
            return v
        u, constant = whole.coordinates.levels(v)
        return self.coordinates.from_levels(u, constant[self.levels])

    def to_whole(self, whole: Objective, v: Array) -> Array:
        """Return the parameters of all rows from those of a sample; levels that it lacks are like the others."""
        if self.levels is None or whole.coordinates.wide is None:
            return v
        u, own = self.coordinates.levels(v)
        constant = np.full(whole.coordinates.wide.share.size, own.mean())
        constant[self.levels] = own
        return whole.coordinates.from_levels(u, constant)

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets, with the sign that they enter h with."""
        values = [term.offset.mean() for term in self.blocks.at_hand if term.offset is not None]
        return float(np.mean(values)) if values else 0.0

    def average_shift(self, v: Array) -> float:
        """Return what average covariates and offsets add to h."""
        k = self.coordinates.n_baseline
        raw = v / self.coordinates.scale
        return float(self.coordinates.mean[k:] @ raw[k:]) + self.mean_offset

    def residuals(self, v: Array) -> Array:
        """Return the score residuals in the order of the objective's rows."""
        r = np.zeros(self.n_rows)
        for term in self.terms:
            values, _ = evaluate_rows(self.link, term, self.coordinates.unfold(v), self.coordinates.n_baseline)
            r[term.rows] += term.sign * values.r
        return r

    def residual_slopes(self, v: Array) -> Array:
        """Return r' = r_u + r_v, the derivative of each residual in its shift."""
        slopes = np.zeros(self.n_rows)
        for term in self.terms:
            values, _ = evaluate_rows(self.link, term, self.coordinates.unfold(v), self.coordinates.n_baseline)
            dr = values.dr if isinstance(values, OneEnd) else values.r_u + values.r_v
            slopes[term.rows] += term.sign * dr
        return slopes

    def anchor_information(self, v: Array, slopes: Array) -> Array:
        """Return Q'W(dr/dshift)Q, from the weighted slopes of the rows."""
        assert self.anchors is not None  # noqa: S101
        return self.anchors.gram(slopes)


class NormalObjective(Objective):
    """Exact rows under the normal link: r = c'v is linear, so its part is quadratic.

    One pass over the data gives C'WC and E for every xi; afterwards only the derivative
    rows (the terms log h') are touched, and not even they where the slope is one number.
    """

    _slopes: tuple[Array, float, list[Array]] | None = None  # of the latest pass, where passes are costly

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Return M = [C o]'W[C o] and E = Q'W[C o], o the offset."""
        _, (M, G) = self.blocks.total(Moments(self.n_parameters, self.n_sums))
        return M, self._root(G)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        M, E = self.moments
        extended = np.append(v, 1.0)
        quadratic = -0.5 * float(extended @ M @ extended) - self.n_total * 0.5 * math.log(2.0 * math.pi)
        return Sums(quadratic + self._log_slopes(v), E @ extended)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        M, E = self.moments
        d = self.n_parameters
        gradient, hessian = M[:d] @ np.append(v, 1.0), M[:d, :d].copy()
        k = self.coordinates.n_baseline
        if self._one_slope is None:
            g, H = self._slope_derivatives(v[:k])
        else:
            D = self._one_slope / float(self._one_slope @ v[:k])
            g, H = -self.n_total * D, self.n_total * np.outer(D, D)
        gradient[:k] += g
        hessian[:k, :k] += H
        return Derivatives(gradient, hessian + self.n_total * self.coordinates.faint, E[:, :d])

    def _slope_derivatives(self, v: Array) -> list[Array]:
        if self._slopes is not None and np.array_equal(self._slopes[0], v):
            return self._slopes[2]
        return self.blocks.total(SlopeDerivatives(v))[1]

    @cached_property
    def _one_slope(self) -> Array | None:
        """Return the derivative row if all rows share one (a linear basis)."""
        return self.blocks.one_slope() if self.coordinates.n_baseline == 2 else None

    @property
    def linear(self) -> bool:
        """Return whether the transformation is linear in y: the minimum has a closed form."""
        return self._one_slope is not None

    def _log_slopes(self, v: Array) -> float:
        k = self.coordinates.n_baseline
        if self._one_slope is None and self.blocks.costly:
            if self._slopes is None or not np.array_equal(self._slopes[0], v[:k]):
                total, arrays = self.blocks.total(Together(LogSlopes(v[:k]), SlopeDerivatives(v[:k])))
                self._slopes = (v[:k].copy(), total, arrays)
            return self._slopes[1]
        if self._one_slope is None:
            return self.blocks.total(LogSlopes(v[:k]))[0]
        slope = float(self._one_slope @ v[:k])
        return self.n_total * math.log(slope) if slope > 0.0 else -math.inf


class LogAlpha(NamedTuple):
    """Second derivatives of -loglik in v, in both and in log(alpha), and the scores of log(alpha) by row."""

    hessian: Array
    cross: Array
    own: float
    scores: Array


class MeanObjective(Objective):
    """Rows whose mean is modelled by a family; see ``families``."""

    @property
    def scored(self) -> Objective:
        if self.link.residual == "score" and self.link.push == 1.0:
            return self
        anchors = self.anchors.inner if isinstance(self.anchors, Centred) else self.anchors
        link = replace(self.link, residual="score", push=1.0)
        return MeanObjective(link, self.coordinates, anchors, self.blocks, self.names)

    def predictors(self, v: Array) -> tuple[Array, Array, Array | None]:
        """Return eta, the outcomes and the weights of the rows."""
        (term,) = self.terms
        size, w = term.C.shape[1], self.coordinates.unfold(v)
        eta = term.C @ w[:size]
        eta += 0.0 if term.wide is None else term.wide.values(w[size:])
        eta += 0.0 if term.offset is None else term.offset
        assert term.outcome is not None  # noqa: S101
        return eta, term.outcome, term.weights

    def at_alpha(self, factor: float) -> MeanObjective:
        """Return the objective of negative binomial rows with alpha times a factor, whose loglik lacks a constant."""
        link = replace(self.link, alpha=factor * self.link.alpha)
        return MeanObjective(link, self.coordinates, self.anchors, self.blocks, self.names)

    def with_log_alpha(self, v: Array) -> LogAlpha:
        """Return the derivatives of the negative binomial log-likelihood with log(alpha) among the parameters."""
        eta, outcome, weights = self.predictors(v)
        y, mean, k = outcome[:, 0], self.link.mean(eta), 1.0 / self.link.alpha
        w, far = np.ones(y.size) if weights is None else weights, mean.mu + k
        slope = special.digamma(y + k) - special.digamma(k) - np.log1p(mean.mu / k) + (mean.mu - y) / far
        bend = special.polygamma(1, y + k) - special.polygamma(1, k) + mean.mu / (k * far) - (mean.mu - y) / far**2
        cross = self.terms[0].C.T @ (-w * k * mean.d1 * (mean.mu - y) / far**2)
        return LogAlpha(self.derivatives(v).hessian, cross, -float(w @ (k * slope + k**2 * bend)), -k * slope)

    def dispersion(self, v: Array) -> float:
        """Return the dispersion as the family finds it, in the family's unit."""
        link = self.link
        if not link.free_dispersion:
            return float((1.0 if link.estimate is None else link.estimate) / link.loss_unit**2)
        if link.estimate != "ml":
            size = 1 + int(np.count_nonzero(v[1:]))  # of coefficients that an elastic net has not put to zero
            df = self.n_total - size
            if not df > 0.0:
                raise IdentificationError(
                    f"{size} parameters for a total weight of {self.n_total:g}: nothing is left "
                    "to estimate the dispersion from; give dispersion a number"
                )
            return self.pearson(v) / df
        if link.family == "gaussian":
            return self.pearson(v) / self.n_total
        return 1.0 / likeliest_shape(0.5 * self.deviance(v) / self.n_total)

    @property
    def known_dispersion(self) -> bool:
        return self.link.estimate is not None and not self.link.free_dispersion

    def deviance(self, v: Array) -> float:
        """Return the deviance."""
        eta, outcome, weights = self.predictors(v)
        squares = self.link.deviance_residuals(eta, outcome, self.link.terms(eta, outcome)).r ** 2
        return float(squares.sum() if weights is None else weights @ squares)

    def pearson(self, v: Array) -> float:
        """Return Pearson's chi-square."""
        eta, outcome, weights = self.predictors(v)
        squares = self.link.pearson(eta, outcome) ** 2
        return float(squares.sum() if weights is None else weights @ squares)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Influence:
        work = super().influence(v, pull, bread, K)
        if not isinstance(self.anchors, Centred):
            return work
        k = self.coordinates.n_baseline
        sums = self.blocks.total(LogLikelihood(self.link, v, k, self.n_sums))[1][0]
        slopes = self.blocks.total(SecondOrder(self.link, v, k, self.n_sums))[1][2]
        return replace(work, centre=(float(self.anchors.mean(sums)), self.anchors.mean(slopes)))

    @property
    def affine(self) -> bool:
        return bool(self.link.affine)

    def convexity(self, sums: Sums, xi: float) -> Literal["global", "local", "none"]:
        if self.affine or (xi == 0.0 and self.link.concave):
            return "global"
        if self.anchors is None or not math.isfinite(xi) or not self.link.certified:
            return "none"
        largest = self.blocks.largest_spread(self.anchors, self.anchors.coefficients(sums.t))
        return "local" if 2.0 * xi * largest <= 1.0 else "none"


def build_objective(
    link: Link | Family,
    basis: Basis,
    response: Response,
    X: Matrix,
    anchors: AnchorColumns | None = None,
    weights: Array | None = None,
    offset: Array | None = None,
    sign: float = -1.0,
    anchor_intercept: bool = True,
    block_rows: int = BLOCK_ROWS,
    n_jobs: int = 1,
    names: tuple[str, ...] = (),
    coordinates: Coordinates | None = None,
    geometry: Projection | None = None,
    mixture: Mixture | None = None,
) -> Objective:
    """Return the anchor loss of these rows; h = a(y)'theta + sign * (x'beta + offset).

    Rows are ordered by the main anchor factor inside. Weights must be positive. Rows that are a part of all
    come with the ``coordinates`` and the ``geometry`` of the anchors of all.
    """
    family = link if isinstance(link, Family) else None
    check_inside(basis, response)  # before rows are moved, which errors name
    order = None if anchors is None else anchors.order()
    if order is not None and anchors is not None:  # rows of a group become neighbours
        response, anchors = response[order], anchors.take(order)
        weights, offset = (None if a is None else a[order] for a in (weights, offset))
        mixture = None if mixture is None else mixture.take(order)
    if family is None:
        parts = layout(basis, response)
    else:
        outcome = family.outcome(response.upper, response.trials)
        parts = [Layout("mean", 1, np.arange(len(response)), response.upper, None, outcome)]
        offset = None if offset is None else offset / family.eta_unit
    if coordinates is None:
        coordinates = make_coordinates(basis, parts, X, sign, mixture)
        coordinates = coordinates if family is None else replace(coordinates, unit=family.eta_unit)
    rows = [standardised(basis, part, X, order, sign, coordinates, weights, offset, mixture) for part in parts]
    if anchors is None:
        projected = None
    else:
        projected = projection(anchors, weights, anchor_intercept) if geometry is None else geometry.on(anchors)
    if projected is not None and family is not None and family.residual == "deviance":
        projected = Centred(projected, weights, len(response))
    if isinstance(X, WideMatrix):
        block_rows = max(block_rows, X.n_levels)  # sums by level are no smaller
        beside = X.sparse_at.size + (0 if projected is None else projected.n_sums)
        if beside * X.n_levels > MAX_CROSS:
            raise InputError(
                f"{beside} anchor directions and sparse columns beside a factor of {X.n_levels} levels are too many: "
                f"their product may be {MAX_CROSS}; merge levels, or leave one out"
            )
    blocks = MemoryBlocks(rows, projected, len(response), weights, block_rows, n_jobs)
    names = names or tuple(f"x{j}" for j in range(X.shape[1]))
    if family is not None:
        return MeanObjective(family, coordinates, projected, blocks, names)
    if isinstance(X, WideMatrix):
        return Objective(link, coordinates, projected, blocks, names)
    return objective_type(link, blocks)(link, coordinates, projected, blocks, names)


def objective_type(link: Any, blocks: Blocks) -> type[Objective]:
    """Return the class for these rows: exact rows under the normal link have one of their own."""
    return NormalObjective if isinstance(link, Normal) and blocks.kinds == {("exact", 1)} else Objective
