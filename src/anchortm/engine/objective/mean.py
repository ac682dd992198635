"""Generalised linear models: rows whose mean is modelled by a family; see ``families``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.separation import Recession
from anchortm.engine.rows.block_sums import Influence, LogLikelihood, SecondOrder
from anchortm.engine.rows.blocks import Blocks
from anchortm.engine.rows.centred import Centred
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.projections import Projection
from anchortm.engine.rows.standardised import BLOCK_ROWS
from anchortm.exceptions import IdentificationError
from anchortm.families import Family, spread

__all__ = ["FittedRows", "LogAlpha", "MeanLoss", "MeanObjective"]

Array = NDArray[np.float64]

NOTHING_LEFT = 1e-20  # a residual variance below this fraction of the variance of y counts as zero


class LogAlpha(NamedTuple):
    """Second derivatives of -loglik in v, in v and log(alpha), in log(alpha); scores of log(alpha) by row."""

    hessian: Array
    cross: Array
    own: float
    scores: Array


class FittedRows(NamedTuple):
    """Rows at their linear predictors, and sums over them, which are taken block by block."""

    link: Any  # a Family
    eta: Array
    outcome: Array
    weights: Array | None

    def total(self, values: Callable[[Array, Array], Array]) -> float:
        """Return the weighted sum of a function of eta and the outcomes."""
        total = 0.0
        for start in range(0, self.eta.size, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            part = values(self.eta[rows], self.outcome[rows])
            total += float(part.sum() if self.weights is None else self.weights[rows] @ part)
        return total

    @property
    def deviance(self) -> float:
        """Return the deviance."""
        return self.total(self.link.deviances)

    @property
    def pearson(self) -> float:
        """Return Pearson's chi-square."""
        return self.total(lambda eta, outcome: self.link.pearson(eta, outcome) ** 2)

    @property
    def left(self) -> float:
        """Return the sum of squared differences between outcomes and means."""
        return self.total(lambda eta, outcome: self.link.response_residuals(eta, outcome) ** 2)

    @property
    def spread(self) -> float:
        """Return the standard deviation of the outcomes."""
        return float(spread(self.outcome[:, 0], self.weights))

    @property
    def at_edge(self) -> int:
        """Return how many rows have a mean at an end of its range."""
        return int(self.link.near_edge(self.eta).sum())

    def loglik(self, dispersion: float) -> float:
        """Return the log-likelihood at a dispersion, which is in the units of y."""
        return self.total(replace(self.link, dispersion=dispersion).loglik)


class MeanLoss(Objective):
    """What losses of rows whose mean is modelled by a family share, wherever the rows are."""

    @abstractmethod
    def fitted(self, v: Array, added: Array | None = None) -> Any:
        """Return the rows at v, a ``FittedRows`` or its sums; ``added`` is what random effects add to eta."""

    @abstractmethod
    def with_link(self, link: Any) -> MeanLoss:
        """Return the loss of the same rows under another member of the family."""

    @abstractmethod
    def middle(self) -> tuple[float, float]:
        """Return the mean of the outcomes and that of their trials."""

    def dispersion(self, v: Array, rows: Any = None) -> float:
        """Return the dispersion: given, by Pearson's chi-square or by maximum likelihood, in the unit of the family."""
        link = self.link
        if not link.free_dispersion:
            return float((1.0 if link.estimate is None else link.estimate) / link.loss_unit**2)
        rows = self.fitted(v) if rows is None else rows
        if link.estimate != "ml":
            size = 1 + int(np.count_nonzero(v[1:]))  # coefficients that an elastic net has set to zero do not count
            df = self.n_total - size
            if not df > 0.0:
                raise IdentificationError(
                    f"{size} parameters for a total weight of {self.n_total:g}: too few rows to estimate the "
                    "dispersion; give dispersion a number"
                )
            return float(rows.pearson / df)
        return float(link.likeliest_dispersion(rows.deviance, self.n_total))

    def with_dispersion(self, v: Array, rows: Any) -> Family:
        """Return the family with its dispersion, in the units of y."""
        link = self.link
        if not link.discrete and rows.left <= NOTHING_LEFT * self.n_total * rows.spread**2:
            raise IdentificationError(
                "the covariates explain y without error, so the dispersion is 0 (is y, or a variable that it was "
                "computed from, among them?): leave covariates out"
            )
        dispersion = self.dispersion(v, rows) * link.loss_unit**2
        fitted: Family = replace(link, dispersion=dispersion, unit=1.0, push=1.0)
        return fitted

    @staticmethod
    def _convex_facts(link: Any, found: frozenset[tuple[str, int]]) -> tuple[bool, bool, bool]:
        return bool(link.affine), link.concave, link.certified

    def extent(self, v: Array) -> tuple[float, str]:
        size, what = super().extent(v)
        # with the inverse link means are large if eta is small
        return (1.0 / size, "mean") if self.link.link == "inverse" else (size, what)

    @staticmethod
    def _separation(names: list[str], found: Recession) -> str:
        what = f"a combination of {', '.join(names)}" if names else "the intercept alone"
        return (
            f"separation: along {what} the mean can go to the end of its range for rows whose outcomes are all there "
            "(counts of 0, trials without a success or a failure) and stay for all others, so that the likelihood "
            "grows without a maximum; leave a covariate out, merge levels, or collect rows that overlap"
        )


class MeanObjective(MeanLoss, RowObjective):
    """The anchor loss of rows whose mean is modelled by a family."""

    def __init__(
        self,
        link: Any,
        coordinates: Coordinates,
        anchors: Projection | None,
        blocks: Blocks,
        names: tuple[str, ...] = (),
    ) -> None:
        super().__init__(link, coordinates, anchors, blocks, names)
        self.ways = link.ways
        self.known_dispersion = link.estimate is not None and not link.free_dispersion

    @property
    def scored(self) -> Objective:
        if self.link.residual == "score" and self.link.push == 1.0:
            return self
        anchors = self.anchors.inner if isinstance(self.anchors, Centred) else self.anchors
        link = replace(self.link, residual="score", push=1.0)
        return MeanObjective(link, self.coordinates, anchors, self.blocks, self.names)

    def with_link(self, link: Any) -> MeanObjective:
        return MeanObjective(link, self.coordinates, self.anchors, self.blocks)

    def middle(self) -> tuple[float, float]:
        (rows,) = self.terms
        assert rows.outcome is not None  # noqa: S101
        trials = np.broadcast_to(self.link.trials(rows.outcome), rows.rows.shape)
        return (
            float(np.average(rows.outcome[:, 0], weights=rows.weights)),
            float(np.average(trials, weights=rows.weights)),
        )

    def fitted(self, v: Array, added: Array | None = None) -> FittedRows:
        """Return the rows at v; ``added`` is what random effects add to eta."""
        (term,) = self.terms
        size, w = term.C.shape[1], self.coordinates.unfold(v)
        eta = term.C @ w[:size]
        if term.wide is not None:
            eta += term.wide.values(w[size:])
        if term.offset is not None:
            eta += term.offset
        if added is not None:
            eta += added
        assert term.outcome is not None  # noqa: S101
        return FittedRows(self.link, eta, term.outcome, term.weights)

    def at_alpha(self, factor: float) -> MeanObjective:
        """Return the objective of negative binomial rows with alpha times a factor; its loglik lacks a constant."""
        link = replace(self.link, alpha=factor * self.link.alpha)
        return MeanObjective(link, self.coordinates, self.anchors, self.blocks, self.names)

    def with_log_alpha(self, v: Array) -> LogAlpha:
        """Return the derivatives of the negative binomial log-likelihood with log(alpha) among the parameters."""
        _, eta, outcome, weights = self.fitted(v)
        y, mean, k = outcome[:, 0], self.link.mean(eta), 1.0 / self.link.alpha
        w, far = np.ones(y.size) if weights is None else weights, mean.mu + k
        slope = special.digamma(y + k) - special.digamma(k) - np.log1p(mean.mu / k) + (mean.mu - y) / far
        bend = special.polygamma(1, y + k) - special.polygamma(1, k) + mean.mu / (k * far) - (mean.mu - y) / far**2
        cross = self.terms[0].C.T @ (-w * k * mean.d1 * (mean.mu - y) / far**2)
        return LogAlpha(self.derivatives(v).hessian, cross, -float(w @ (k * slope + k**2 * bend)), -k * slope)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Influence:
        work = super().influence(v, pull, bread, K)
        if not isinstance(self.anchors, Centred):
            return work
        k = self.coordinates.n_baseline
        sums = self.blocks.total(LogLikelihood(self.link, v, k, self.n_sums))[1][0]
        slopes = self.blocks.total(SecondOrder(self.link, v, k, self.n_sums))[1][3]
        return replace(work, centre=(float(self.anchors.mean(sums)), self.anchors.mean(slopes)))
