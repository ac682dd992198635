"""A model at one site: its share in the loss, made by the engine as for rows in memory, and the rules at parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.backends.column_sums import numbers_of
from anchortm.backends.reading import Batch
from anchortm.engine.baseline_rules import Given
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.data import Data, Strata
from anchortm.engine.objective.anchored import AnchoredObjective
from anchortm.engine.objective.build import build_objective, layout_of
from anchortm.engine.objective.mean import MeanObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.standardised import baseline_moments, coordinates_from_moments
from anchortm.engine.specification import Specification
from anchortm.exceptions import AnchorTMError
from anchortm.families import Family
from anchortm.federated.histograms import surely_between
from anchortm.federated.policy import DisclosureError, Policy, RowsError
from anchortm.federated.recipe import Recipe
from anchortm.federated.shared_anchors import SharedAnchors
from anchortm.federated.wire import WireError
from anchortm.inputs.baselines import Corners
from anchortm.inputs.clusters import Clusters
from anchortm.inputs.design import Design
from anchortm.inputs.mean_outcomes import check_rows
from anchortm.newplace.assessment.calibration import BINS as BINS_OF_PIT
from anchortm.newplace.assessment.calibration import LEVELS
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.marginal import AveragedDistribution
from anchortm.scores import pit

__all__ = ["SiteModel", "effective", "of_rows"]

Array = NDArray[np.float64]

BEYOND = 1e-9  # how far parameters may be beyond their bounds, by rounding
FEW_CELLS = 0.5  # effective rows of Pearson's chi-square, relative to the smallest cell
IN_CORNER = 0.25  # effective share of the rows of a stratum, if that is fewer than the policy asks for
EXACT = 1.0 / 8.0  # effective share of the exact rows, if that is fewer than the policy asks for


def effective(values: Array) -> float:
    """Return how many rows a sum of numbers stands for: (sum x)^2 / sum x^2."""
    if not np.isfinite(values).all():
        return 0.0
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    shares = values / largest
    return float(shares.sum()) ** 2 / float(shares @ shares)


@dataclass(frozen=True, eq=False)
class _SiteProblem(Problem):
    """The loss of the rows of a site, with anchors that sites may share."""

    shared: SharedAnchors | None = None

    def plain_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the anchor loss of the rows, in the coordinates of all sites."""
        shared, spec = self.shared, self.spec
        return build_objective(
            link,
            self.basis,
            data.response,
            data.design.matrix,
            data.anchors if shared is None or data.anchors is None else shared.coded(data.anchors),
            data.weights,
            data.offset,
            spec.sign,
            spec.anchor_intercept,
            names=data.design.names,
            coordinates=coordinates,
            geometry=None if shared is None else shared.projection,
            mixture=data.mixture,
        )


class SiteModel:
    """One model on the rows of one site."""

    def __init__(
        self, recipe: Recipe, batch: Batch, policy: Policy, curve: Array | None, clusters: Strata | None = None
    ) -> None:
        self.recipe, self.policy = recipe, policy
        self.n_rows = len(batch.response)
        policy.check_rows(self.n_rows, recipe.basis.n_parameters + batch.X.shape[1])  # before columns are made
        if recipe.family is not None:
            _check_outcomes(batch, recipe)
        if recipe.corners is not None:
            batch = self._structured(batch, recipe.corners, recipe.taken)
        X = numbers_of(batch.X)[0]
        design = Design(X, tuple(f"x{j}" for j in range(X.shape[1])), True)
        self.batch = batch
        self.data = Data(
            batch.response,
            design,
            batch.anchors,
            batch.weights,
            batch.offset,
            (),
            mixture=batch.mixture,
            clusters=self._clusters(clusters, design),
        )
        self._check_support(curve)

    def _clusters(self, known: Strata | None, design: Design) -> Clusters | None:
        """Return the clusters of the rows with the columns of their random effects, if the model has any."""
        effects = self.recipe.effects
        if effects is None:
            return None
        if known is None:
            raise WireError("the random effects do not match the study")
        Z = effects.columns(design.names, design.matrix)
        return Clusters(known.codes, known.labels, Z, effects, self.recipe.n_nodes, 0.0)

    def _structured(self, batch: Batch, corners: Corners, taken: list[int]) -> Batch:
        """Return the rows with their weights on the corners of strata and varying effects, checked."""
        if (corners.strata is None) != (batch.strata is None) or len(corners.covariates) != batch.X.shape[1]:
            raise WireError("the baselines do not match the rows")
        if batch.strata is not None and corners.strata is not None and corners.strata.labels != batch.strata.labels:
            raise WireError("the strata are not those of the design")
        X = numbers_of(batch.X)[0]
        for group in corners.varying:
            own = X[:, corners.covariates.index(group.names[0])]
            if group.kind == "number" and (own.min() < group.low or own.max() > group.high):
                raise RowsError(f"the site has rows outside of the range of {group.names[0]!r} in the study")
        made = batch.structured(corners, taken)
        assert made.mixture is not None  # noqa: S101
        least = max(self.policy.least_rows, self.policy.rows_per_parameter * self.recipe.basis.n_parameters)
        for weights in made.mixture.weights.T:
            if weights.any() and effective(weights) < least:
                raise DisclosureError(
                    f"a baseline of a stratum or a varying effect rests on fewer than {least:g} rows of the site: "
                    "merge strata or levels, or leave strata or varying out"
                )
        return made

    def _check_support(self, curve: Array | None) -> None:
        """Refuse a baseline that few rows are in the support of."""
        support = getattr(self.recipe.basis, "support", None)
        if support is None or curve is None:
            return
        if surely_between(curve, *support) < self.policy.least_rows:
            raise DisclosureError(
                f"the site has fewer than {self.policy.least_rows} rows in the support of the baseline: "
                "give the study a wider support"
            )

    @cached_property
    def problem(self) -> _SiteProblem:
        """Return the model as the engine takes it."""
        recipe = self.recipe
        spec = Specification(
            model="",
            link=recipe.link,
            rule=Given(recipe.basis),
            sign=recipe.sign,
            anchor_intercept=recipe.intercept,
            **recipe.arguments,
        )
        return _SiteProblem(spec, self.data, recipe.link, recipe.basis, recipe.shared)

    def baseline(self, units: Array) -> Array:
        """Return sums and sums of squares of the columns of the baseline in units; of families those of outcomes."""
        recipe, response = self.recipe, self.batch.response
        parts = layout_of(recipe.link, recipe.basis, response)
        size, total, squares = baseline_moments(recipe.basis, parts, self.data.mixture)
        if total.shape != units.shape:
            raise WireError("the units do not match the baseline")
        found = [np.array([size]), total / units, squares / units**2]
        if recipe.family is not None:
            w = np.ones(self.n_rows) if self.batch.weights is None else self.batch.weights
            trials = np.ones(self.n_rows) if response.trials is None else response.trials
            found.append(np.array([w @ response.upper, w @ trials]) / recipe.family.unit)
        return np.concatenate(found)

    @property
    def _n_columns(self) -> int:
        """Return the number of columns beside those of the baseline; those of the scale come twice."""
        return len(self.data.names) + len(self.recipe.arguments.get("scale", ()))

    def takes(self, size: int) -> bool:
        """Return whether coordinates may have so many columns."""
        return size > self._n_columns

    def objective(self, mean: Array, scale: Array) -> AnchoredObjective:
        """Return the share of the site in the loss; its parameters and its coordinates are those of all sites."""
        recipe = self.recipe
        k = scale.size - self._n_columns
        self.policy.check_rows(self.n_rows, scale.size)
        units = (1.0, mean[:k], scale[:k] ** 2 + mean[:k] ** 2)  # a row with these moments
        covariates = (recipe.sign * mean[k:], scale[k:], recipe.sign)
        known = coordinates_from_moments(recipe.basis, units, *covariates, recipe.corners)
        unit = 1.0 if recipe.family is None else recipe.family.eta_unit
        coordinates = replace(known, mean=mean, scale=scale, unit=unit)  # without their rounding errors
        made = self.problem.make_objective(recipe.link, self.data, coordinates)
        assert isinstance(made, AnchoredObjective)  # noqa: S101
        return made

    def fitted(self, objective: Objective, v: Array, dispersion: float) -> Array:
        """Return the deviance, and the log-likelihood at a dispersion."""
        rows = _means(objective).fitted(v)
        return np.array([rows.deviance, rows.loglik(dispersion)])

    def pearson(self, objective: Objective, v: Array) -> tuple[Array, bool]:
        """Return Pearson's chi-square, and whether it is that of a few rows, with outcomes far from their means."""
        rows = _means(objective).fitted(v)
        parts = rows.link.pearson(rows.eta, rows.outcome) ** 2
        parts = parts if rows.weights is None else parts * rows.weights
        return np.array([parts.sum()]), effective(parts) < FEW_CELLS * self.policy.least_cell

    def loglik(self, objective: Objective, v: Array, dispersion: float) -> float:
        """Return the log-likelihood of the site, at a dispersion if the mean is modelled."""
        if isinstance(objective, MeanObjective):
            return objective.fitted(v).loglik(dispersion)
        return objective.sums(v).loglik

    def calibration(self, theta: Array, beta: Array, draws: np.random.Generator) -> Array:
        """Return numbers of rows by predicted probability of their outcome, in ten bins; and outside of intervals.

        Rows that are censored or discrete take a random number between the probabilities at their two ends.
        """
        recipe, batch = self.recipe, self.batch
        if isinstance(recipe.link, Family):
            raise WireError("calibration by counts is implemented for transformation models")
        baseline, shift = self.problem.moved(theta, beta, self.data)
        time = batch.response.scale == "time"
        given = recipe.link, recipe.basis, baseline, recipe.sign * shift, time, None, recipe.sign
        law = PredictedDistribution(*given)
        if recipe.effects is not None and self.data.clusters is not None:  # those of a cluster that is not known
            tau = beta[beta.size - recipe.effects.n_parameters :]
            none = np.zeros(0, dtype=np.intp)
            random = RandomEffects(recipe.effects, tau, (), none, 1, 0.0, None, None)
            added, weights = random.marginal(self.data.clusters.Z)
            law = AveragedDistribution(*given, added, weights)
        u = pit(law, batch.response, draws)
        outside = [float((np.abs(u - 0.5) > 0.5 * level).sum()) for level in LEVELS]
        return np.concatenate([np.histogram(u, bins=BINS_OF_PIT, range=(0.0, 1.0))[0], outside])

    # the rules at parameters

    def singled_out(self, objective: Objective, v: Array) -> bool:
        """Return whether the sums at v stand for a few rows, or v is not one that a fit can reach.

        Four things can single rows out: residuals that are steep in few rows; a scale that is large in few; means that
        are near the end of their range in few; and, for exact outcomes, a baseline that is nearly flat at few of them,
        because their share in the gradient is one over its slope.
        """
        at, least = objective.coordinates, self.policy.least_effective
        if least == 0.0:  # the rule is off
            return False
        slack = BEYOND * (1.0 + np.abs(v))
        if (v < at.lower - slack).any() or (v > at.upper + slack).any():
            return True
        with np.errstate(all="ignore"):
            slopes = observed(objective).residual_slopes(v)
            slopes = slopes if objective.weights is None else slopes * objective.weights
            if isinstance(objective, MeanObjective) and objective.link.outside(objective.fitted(v).eta).any():
                return True
            shares = self._shares(objective, v, slopes)
            return self._few_clusters(slopes) or any(self._few(own, rows, least, most) for own, rows, most in shares)

    def _shares(self, objective: Objective, v: Array, slopes: Array) -> Iterator[tuple[Array, NDArray[np.intp], float]]:
        """Yield the shares of rows in sums at v, which rows these are, and how many effective ones are enough."""
        everything, factors, k = np.arange(self.n_rows), objective.row_scales(v), objective.coordinates.n_baseline
        yield slopes, everything, np.inf
        if factors is not None:  # of first and of second derivatives
            yield factors, everything, np.inf
            yield factors**2, everything, np.inf
        if isinstance(
            objective, MeanObjective
        ):  # near its ends a mean soon becomes impossible, which a site cannot hide
            eta, ends = objective.fitted(v).eta, objective.link.eta_range
            yield from ((1.0 / np.abs(eta - end), everything, EXACT * eta.size) for end in ends if np.isfinite(end))
        for term in of_rows(objective).terms:
            if term.kind == "exact" and term.slope is not None:
                yield 1.0 / (term.slope @ v[:k]), term.rows, EXACT * term.rows.size

    def _few_clusters(self, slopes: Array) -> bool:
        """Return whether sums stand for few clusters: one with many rows can have most of the effective ones."""
        if self.data.clusters is None:
            return False
        codes = self.data.clusters.codes
        codes = codes if self._order is None else codes[self._order]
        return effective(np.asarray(np.bincount(codes, slopes), dtype=np.float64)) < self.policy.least_cell

    def _few(self, shares: Array, rows: NDArray[np.intp], least: float, enough: float) -> bool:
        """Return whether sums with these shares of rows stand for few of them: in all, or in one of the baselines."""
        if effective(shares) < min(least, enough):
            return True
        for weights in () if self._corners is None else self._corners[rows].T:
            if weights.any() and effective(weights * shares) < min(least, IN_CORNER * effective(weights)):
                return True
        return False

    @cached_property
    def _corners(self) -> Array | None:
        """Return the weights of the rows on the baselines, in the order in which the loss has its rows."""
        if self.data.mixture is None:
            return None
        weights = self.data.mixture.weights
        return weights if self._order is None else weights[self._order]

    @cached_property
    def _order(self) -> NDArray[np.intp] | None:
        """Return the order in which the loss has its rows."""
        anchors, shared = self.data.anchors, self.recipe.shared
        own = anchors if shared is None or anchors is None else shared.coded(anchors)
        return None if own is None else own.order()


def of_rows(objective: Objective) -> RowObjective:
    """Return the loss of the rows, without random effects."""
    found = getattr(objective, "fixed", objective)
    assert isinstance(found, RowObjective)  # noqa: S101
    return found


def observed(objective: Objective) -> Objective:
    """Return the loss with the observed slopes of residuals, which the expected information would hide."""
    if not isinstance(objective, MeanObjective) or not objective.link.expected_information:
        return objective
    return objective.with_link(replace(objective.link, expected_information=False))


def _means(objective: Objective) -> MeanObjective:
    if not isinstance(objective, MeanObjective):
        raise WireError("this question is about models of means")
    return objective


def _check_outcomes(batch: Batch, recipe: Recipe) -> None:
    """Refuse outcomes that a family does not have, without a word on which."""
    assert recipe.family is not None  # noqa: S101
    try:
        check_rows(batch.response, recipe.family)
    except AnchorTMError:
        raise RowsError(
            f"the site has outcomes that the {recipe.family.family} family does not have (censored, negative, or more "
            "successes than trials)"
        ) from None
