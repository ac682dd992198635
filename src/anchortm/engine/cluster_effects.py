"""The random effects of a fitted model: their covariance, and their posterior in each cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.plain_values import is_count
from anchortm.engine.data import Data
from anchortm.engine.objective.normal_mixed import NormalMixedObjective
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.engine.rows.quadrature import MOST_NODES
from anchortm.engine.solve.newton import Solution
from anchortm.engine.solve.nodes import quadrature_error
from anchortm.exceptions import AnchorTMWarning, AnchorWarning, InputError
from anchortm.inputs.clusters import INTERCEPT, Clusters, Effects

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CLOSED_FORM", "NESTED", "NOTHING", "ONE_GROUPING", "NormalEffects", "RandomEffects"]

Array = NDArray[np.float64]

MARGINAL_NODES = 161  # trapezoidal rule for a normal variable; exact to rounding for standard deviations up to 5
FURTHEST = 10.0  # range of the nodes, in standard deviations
NOTHING = 1e-12  # variances below this count as zero
NOTICEABLE = 1e-5  # a larger error of the gradient, in standardised parameters, gives a warning
LEAST_WEIGHT = 1e-25  # nodes with smaller weights are left out
MOST_SAVED = 1_000_000  # largest number of posterior nodes in a file
CLOSED_FORM = "exact: exact rows and normal link"
ONE_GROUPING = (
    "clusters of {cluster} and the anchor {name} are the same groups, so random intercepts and penalty work against "
    "each other: random intercepts act like anchor regression with gamma < 1 (s2 / (s2 + n tau2) for normal outcomes), "
    "the penalty like gamma > 1; use clusters other than the anchors"
)
NESTED = (
    "each cluster of {cluster} lies in one level of the anchor {name}: random effects absorb differences between "
    "environments, like anchor regression with gamma < 1, and the penalty may raise their variance instead of changing "
    "coefficients; compare with the fit without random effects, and standard_errors(clusters=...)"
)


class NormalEffects:
    """What follows from the covariance of random effects: L of ``effects``, and its entries ``tau``."""

    effects: Effects
    tau: Array

    @property
    def covariance(self) -> Array:
        """Return the covariance matrix Sigma, in the units of the covariates."""
        return self.effects.covariance(self.tau)

    @property
    def none(self) -> bool:
        """Return whether all variances are zero, so that clusters do not differ."""
        return bool(np.diag(self.covariance).max() <= NOTHING)

    def standard_deviations(self) -> dict[str, float]:
        """Return the standard deviations of the random effects, by name."""
        called = ["intercept" if name == INTERCEPT else name for name in self.effects.names]
        return dict(zip(called, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    @property
    def parameters_by_name(self) -> dict[str, float]:
        """Return the standard deviations, for columns of a table."""
        return {f"sd_{name}": value for name, value in self.standard_deviations().items()}

    def deviations(self, Z: Array) -> Array:
        """Return the standard deviation of z'b for rows of new clusters."""
        return np.asarray(np.sqrt(((Z @ self.effects.estimate(self.tau)) ** 2).sum(axis=1)))

    def deviation_slopes(self, Z: Array) -> Array:
        """Return the derivatives of ``deviations`` in tau; 0 for entries of L that count as zero."""
        (rows, columns), (first, _) = self.effects.places, self.effects.slopes(self.tau)
        along, sd = Z @ self.effects.estimate(self.tau), self.deviations(Z)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = Z[:, rows] * along[:, columns] / sd * first
        return np.where((sd > 0.0) & ~self.effects.at_bound(self.tau), slopes, 0.0)

    def marginal(self, Z: Array) -> tuple[Array, Array]:
        """Return quadrature nodes of z'b for rows of new clusters, of shape (n, nodes), and their weights."""
        x = np.linspace(-FURTHEST, FURTHEST, MARGINAL_NODES)
        w = np.exp(-0.5 * x**2)
        return self.deviations(Z)[:, None] * x, np.broadcast_to(w / w.sum(), (len(Z), x.size))


@dataclass(frozen=True, eq=False)
class RandomEffects(NormalEffects):
    """The random effects of a fitted model."""

    effects: Effects
    tau: Array  # entries of L, the Cholesky factor of their covariance
    labels: tuple[Any, ...]  # names of the clusters
    sizes: NDArray[np.intp]
    n_nodes: int  # number of ``points`` in each dimension
    error: float  # change of the gradient with more nodes, on the scale of the KKT residual; 0 without quadrature
    points: Array | None  # (clusters, nodes, effects), standardised; None if a file has too many clusters
    weights: Array | None  # (clusters, nodes)
    elsewhere: int = 0  # number of clusters at sites that share sums only; they have no labels here

    @classmethod
    def of(
        cls, objective: MixedObjective | NormalMixedObjective, clusters: Clusters, solution: Solution, tau: Array
    ) -> RandomEffects:
        """Return the random effects of a solution."""
        points, weights = objective.posterior(solution.v)
        n_nodes, error = round(weights.shape[1] ** (1.0 / clusters.effects.size)), 0.0
        if objective.n_nodes is not None:
            finer = objective.with_nodes(n_nodes + max(4, n_nodes // 2))
            error = quadrature_error(objective, finer, solution.v, objective.sums(solution.v), solution.xi)
        some = clusters.effects.estimate(tau).any(axis=1)
        points = points if some.all() else points * some  # effects without variance are 0 in every cluster
        found, sizes = clusters.gapless()[0], clusters.sizes
        labels = clusters.labels if found.size == sizes.size else tuple(clusters.labels[k] for k in found)
        sizes = sizes[found]
        return cls(clusters.effects, np.array(tau), labels, sizes, n_nodes, error, points, weights)

    @property
    def correlation(self) -> float:
        """Return the correlation of two effects; NaN if there is one effect, or if one does not vary."""
        Sigma = self.covariance
        sd = np.sqrt(np.diag(Sigma))
        return float(Sigma[0, 1] / (sd[0] * sd[1])) if sd.size == 2 and sd.min() > 0.0 else math.nan

    @property
    def parameters_by_name(self) -> dict[str, float]:
        """Return the standard deviations, and the correlation of two effects, for columns of a table."""
        deviations = super().parameters_by_name
        return deviations | ({"correlation": self.correlation} if len(deviations) == 2 else {})

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters."""
        return self.elsewhere or len(self.labels)

    def table(self) -> pd.DataFrame:
        """Return the posterior means and standard deviations of each cluster's effects, and its number of rows."""
        import pandas as pd

        points, weights = self._known()
        b = points @ self.effects.units.T
        mean = np.einsum("gk,gkq->gq", weights, b)
        sd = np.sqrt(np.maximum(np.einsum("gk,gkq->gq", weights, (b - mean[:, None]) ** 2), 0.0))
        columns: dict[str, Array] = {}
        for j, name in enumerate(self.effects.names):
            columns |= {name: mean[:, j], f"sd of {name}": sd[:, j]}
        return pd.DataFrame(columns, index=pd.Index(self.labels, name=self.effects.cluster)).assign(rows=self.sizes)

    def _known(self) -> tuple[Array, Array]:
        if self.elsewhere:
            raise InputError("the effects of single clusters stay at their sites, which share sums only")
        if self.points is None or self.weights is None:
            raise InputError(
                "this model was saved without the effects of its clusters, because there were too many: fit it again"
            )
        return self.points, self.weights

    def draw(self, clusters: Clusters, rng: np.random.Generator) -> Array:
        """Return z'b of each row, with simulated effects of the clusters."""
        b = rng.standard_normal((len(clusters.labels), self.effects.size)) @ self.effects.estimate(self.tau).T
        return np.asarray((clusters.Z * b[clusters.codes]).sum(axis=1))

    def conditional(self, clusters: Clusters) -> tuple[Array, Array]:
        """Return nodes of z'b and weights given the data of each row's cluster; for new clusters as ``marginal``."""
        points, weights = self._known()
        place, Z = {label: k for k, label in enumerate(self.labels)}, clusters.Z
        known_as = np.array([place.get(label, -1) for label in clusters.labels], dtype=np.intp)
        code = known_as[clusters.codes]
        values, shares = self.marginal(Z)
        size = max(values.shape[1], weights.shape[1])
        result, share = np.zeros((len(Z), size)), np.zeros((len(Z), size))
        known, new = np.flatnonzero(code >= 0), np.flatnonzero(code < 0)
        result[new, : values.shape[1]], share[new, : values.shape[1]] = values[new], shares[new]
        K = weights.shape[1]
        result[known, :K] = np.einsum("jq,jkq->jk", Z[known], points[code[known]])
        share[known, :K] = weights[code[known]]
        used = (share > LEAST_WEIGHT).any(axis=0)
        return result[:, used], share[:, used]

    def facts(self, variance: float | None, slope: float | None) -> dict[str, str]:
        """Return the lines of a summary about random effects.

        ``variance`` is that of the link, None if rows have none on the scale of the effects; ``slope`` is the slope of
        a linear baseline.
        """
        names, deviations = self.effects.names, self.standard_deviations()
        sd = np.array(list(deviations.values()))
        spread = ", ".join(f"{name} {value:.4g}" for name, value in deviations.items())
        if not math.isnan(self.correlation):
            spread += f", correlation {self.correlation:.3f}"
        if slope is not None:
            spread += f" (on the scale of y {', '.join(f'{value / slope:.4g}' for value in sd)})"
        if self.elsewhere:
            rows = "at their sites"
        else:
            small, large = int(self.sizes.min()), int(self.sizes.max())
            rows = f"{small} to {large} rows" if small < large else f"{small} rows each"
        facts = {"clusters": f"{self.n_clusters} of {self.effects.cluster}, {rows}", "random sd": spread}
        if names == (INTERCEPT,) and variance is not None:
            share = sd[0] ** 2 / (sd[0] ** 2 + variance)
            facts["random sd"] += f"; share of the variance of h {share:.3f}"
        if self.error == 0.0:
            return facts | {"integrals": CLOSED_FORM}
        return facts | {"quadrature": f"{self.n_nodes} nodes an effect, error of the gradient {self.error:.1e}"}

    def remarks(self, data: Any, xi: float, tol: float) -> Iterator[tuple[str, type[Warning] | None]]:
        """Yield remarks on a fit with the category of the warning; None means that there is no warning."""
        cluster = self.effects.cluster
        if self.none:
            yield f"clusters of {cluster} do not differ: the fit is the one without random effects", None
        elif abs(self.correlation) > 1.0 - NOTHING:
            yield f"random effects of {cluster} have correlation 1 or -1: the data cannot separate them", None
        if self.error > tol:
            more = (
                f"raise n_nodes, up to {MOST_NODES}"
                if self.n_nodes < MOST_NODES
                else "rescale covariates with random slopes"
            )
            yield (
                f"the integrals over random effects, with {self.n_nodes} nodes, have an error of {self.error:.1e} in "
                f"the gradient, more than tol: {more}",
                AnchorTMWarning if self.error > NOTICEABLE else None,
            )
        if xi != 0.0 and self.elsewhere:
            yield NESTED.format(cluster=cluster, name="site"), AnchorWarning
        if xi != 0.0 and isinstance(data, Data) and data.anchors is not None and isinstance(data.clusters, Clusters):
            for codes, name in zip(data.anchors.factors, data.anchors.factor_names, strict=True):
                if data.clusters.within(codes):
                    same = data.clusters.same(codes)
                    yield (ONE_GROUPING if same else NESTED).format(cluster=cluster, name=name), AnchorWarning

    def record(self) -> dict[str, Any]:
        """Return the record for a file."""
        if not all(isinstance(label, (str, bool, int)) for label in self.labels):
            raise InputError(f"the names of clusters of {self.effects.cluster} cannot be saved: convert them to text")
        roomy = self.points is not None and self.points.size <= MOST_SAVED
        return {
            "cluster": self.effects.cluster,
            "names": self.effects.names,
            "centre": self.effects.centre,
            "scale": self.effects.scale,
            "tau": self.tau,
            "labels": self.labels,
            "sizes": self.sizes,
            "n_nodes": self.n_nodes,
            "error": self.error,
            "points": self.points if roomy else None,
            "weights": self.weights if roomy else None,
        } | ({"elsewhere": self.elsewhere} if self.elsewhere else {})

    @classmethod
    def from_record(cls, record: dict[str, Any], names: Sequence[str]) -> RandomEffects:
        """Return the checked random effects from a record; ``names`` are the covariates of the model."""
        effects = Effects(
            record["cluster"],
            tuple(record["names"]),
            tuple(_numbers(record, "centre")),
            tuple(_numbers(record, "scale")),
        )
        labels, n_nodes, elsewhere = tuple(record["labels"]), record["n_nodes"], record.get("elsewhere", 0)
        known = _are_elsewhere(elsewhere, labels, n_nodes) if elsewhere else _are_clusters(labels, n_nodes)
        if not (_are_effects(effects, names) and known):
            raise InputError("the random effects do not match the model")
        tau, sizes = _numbers(record, "tau"), np.array(record["sizes"])
        if tau.shape != (effects.n_parameters,) or not (tau >= effects.lower).all():
            raise InputError("the covariance parameters of the random effects are invalid")
        if elsewhere:
            sizes = np.zeros(0, dtype=np.intp)
        elif sizes.shape != (len(labels),) or sizes.dtype.kind != "i" or sizes.min() < 1:
            raise InputError("the sizes of the clusters do not match the clusters")
        made = cls(effects, tau, labels, sizes, n_nodes, float(record["error"]), None, None, elsewhere)
        return made if record["points"] is None else made._with_points(record)

    def _with_points(self, record: dict[str, Any]) -> RandomEffects:
        """Return the random effects with the effects of single clusters from a record."""
        labels, n_nodes, effects = self.labels, self.n_nodes, self.effects
        points, weights = _numbers(record, "points"), _numbers(record, "weights")
        shape = (len(labels), n_nodes**effects.size)
        good = points.shape == (*shape, effects.size) and weights.shape == shape
        if not (good and (weights >= 0.0).all() and np.allclose(weights.sum(axis=1), 1.0)):
            raise InputError("the effects of the clusters are inconsistent")
        return replace(self, points=points, weights=weights)


def _numbers(record: dict[str, Any], name: str) -> Array:
    values = np.array(record[name], dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{name} of the random effects must be finite numbers")
    return values


def _are_effects(effects: Effects, names: Sequence[str]) -> bool:
    """Return whether a model with these covariates can have these random effects."""
    return (
        isinstance(effects.cluster, str)
        and 1 <= effects.size <= 2
        and set(effects.names) <= {INTERCEPT, *names}
        and len(set(effects.names)) == effects.size == len(effects.centre) == len(effects.scale)
        and INTERCEPT not in effects.names[1:]
        and min(effects.scale) > 0.0
    )


def _are_elsewhere(elsewhere: Any, labels: tuple[Any, ...], n_nodes: Any) -> bool:
    """Return whether these are a valid number of clusters at sites, which have no labels, and of nodes."""
    return is_count(elsewhere) and not labels and _are_clusters((0,), n_nodes)


def _are_clusters(labels: tuple[Any, ...], n_nodes: Any) -> bool:
    """Return whether these are valid labels of clusters and a valid number of nodes."""
    return (
        all(isinstance(label, (str, bool, int)) for label in labels)
        and len(set(labels)) == len(labels) > 0
        and isinstance(n_nodes, int)
        and 1 <= n_nodes <= MOST_NODES
    )
