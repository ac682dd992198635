"""The random effects of a fitted model with two random terms: variances, and the most likely effects of levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.cluster_effects import (
    CLOSED_FORM,
    FURTHEST,
    MARGINAL_NODES,
    NESTED,
    NOTHING,
    ONE_GROUPING,
    NormalEffects,
)
from anchortm.engine.data import Data
from anchortm.engine.objective.laplace import LaplaceObjective
from anchortm.engine.solve.newton import Solution
from anchortm.exceptions import AnchorWarning, InputError
from anchortm.inputs.two_terms import Intercepts, TwoTerms

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TwoEffects"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TwoEffects(NormalEffects):
    """The random intercepts of two terms, whose likelihood is a Laplace approximation."""

    effects: Intercepts
    tau: Array  # the variances
    labels: tuple[tuple[Any, ...], tuple[Any, ...]]  # names of the levels of both terms
    sizes: tuple[NDArray[np.intp], NDArray[np.intp]]  # their numbers of rows
    modes: tuple[Array, Array]  # their most likely effects
    variances: tuple[Array, Array]  # variances of the effects given the data, in the Laplace approximation
    exact: bool  # whether it is the integral itself
    n_nodes: None = None
    error: float = 0.0  # there is no quadrature

    @classmethod
    def of(cls, objective: LaplaceObjective, terms: TwoTerms, solution: Solution, tau: Array) -> TwoEffects:
        """Return the random effects of a solution."""
        modes, variances = objective.posterior(solution.v)
        some = np.diag(terms.effects.estimate(tau)) > 0.0  # effects without variance are 0 in every level
        known = [np.unique(codes, return_counts=True) for codes in terms.own.T]
        labels = [tuple(levels[k] for k in codes) for levels, (codes, _) in zip(terms.levels, known, strict=True)]
        return cls(
            terms.effects,
            np.array(tau),
            (labels[0], labels[1]),
            (known[0][1], known[1][1]),
            (modes[0] * some[0], modes[1] * some[1]),
            (variances[0] * some[0], variances[1] * some[1]),
            bool(objective.fixed.affine),
        )

    @property
    def n_clusters(self) -> int:
        """Return the number of levels of both terms."""
        return sum(map(len, self.labels))

    def table(self) -> pd.DataFrame:
        """Return the most likely effect of each level with its standard deviation, and its number of rows."""
        import pandas as pd

        parts = []
        for name, labels, sizes, mode, variance in self._by_term():
            index = pd.MultiIndex.from_product([[name], labels], names=["term", "level"])
            parts.append(pd.DataFrame({"1": mode, "sd of 1": np.sqrt(variance), "rows": sizes}, index=index))
        return pd.concat(parts)

    def _by_term(self) -> Iterator[tuple[Any, ...]]:
        """Yield the name of each term, the labels and sizes of its levels, their effects and the variances of these."""
        yield from zip(self.effects.names, self.labels, self.sizes, self.modes, self.variances, strict=True)

    def draw(self, clusters: TwoTerms, rng: np.random.Generator) -> Array:
        """Return the sum of both effects of each row, with simulated effects of the levels."""
        total, L = np.zeros(len(clusters.own)), np.diag(self.effects.estimate(self.tau))
        for own, codes, levels in zip(L, clusters.own.T, clusters.levels, strict=True):
            total += own * rng.standard_normal(len(levels))[codes]
        return total

    def conditional(self, clusters: TwoTerms) -> tuple[Array, Array]:
        """Return nodes of the sum of both effects given the data, and weights; levels that are new have their variance.

        The effects of a row's two levels are taken as independent given the data.
        """
        middle, variance = np.zeros(len(clusters.own)), np.zeros(len(clusters.own))
        prior = np.diag(self.covariance)
        for k, (_, labels, _, mode, own) in enumerate(self._by_term()):
            place = {label: j for j, label in enumerate(labels)}
            known_as = np.array([place.get(label, -1) for label in clusters.levels[k]], dtype=np.intp)
            code = known_as[clusters.own[:, k]]
            middle += np.where(code < 0, 0.0, mode[code])
            variance += np.where(code < 0, prior[k], own[code])
        x = np.linspace(-FURTHEST, FURTHEST, MARGINAL_NODES)
        w = np.exp(-0.5 * x**2)
        nodes = middle[:, None] + np.sqrt(variance)[:, None] * x
        return nodes, np.broadcast_to(w / w.sum(), nodes.shape)

    def facts(self, variance: float | None, slope: float | None) -> dict[str, str]:
        """Return the lines of a summary about random effects; see ``RandomEffects.facts``."""
        deviations = self.standard_deviations()
        spread = ", ".join(f"{name} {value:.4g}" for name, value in deviations.items())
        if slope is not None:
            spread += f" (on the scale of y {', '.join(f'{value / slope:.4g}' for value in deviations.values())})"
        if variance is not None:
            squares = np.array(list(deviations.values())) ** 2
            shares = squares / (squares.sum() + variance)
            spread += f"; shares of the variance of h {', '.join(f'{share:.3f}' for share in shares)}"
        listed = [f"{len(labels)} of {name}" for name, labels in zip(self.effects.names, self.labels, strict=True)]
        how = CLOSED_FORM if self.exact else "Laplace approximation at the most likely effects"
        return {"clusters": ", ".join(listed), "random sd": spread, "integrals": how}

    def remarks(self, data: Any, xi: float, tol: float) -> Iterator[tuple[str, type[Warning] | None]]:
        """Yield remarks on a fit with the category of the warning; None means that there is no warning."""
        for name, own in zip(self.effects.names, np.diag(self.covariance), strict=True):
            if own <= NOTHING:
                yield f"clusters of {name} do not differ: the fit is the one without their random effects", None
        if xi != 0.0 and isinstance(data, Data) and data.anchors is not None and isinstance(data.clusters, TwoTerms):
            for codes, anchor in zip(data.anchors.factors, data.anchors.factor_names, strict=True):
                for name, same in data.clusters.nested_in(codes):
                    yield (ONE_GROUPING if same else NESTED).format(cluster=name, name=anchor), AnchorWarning

    def record(self) -> dict[str, Any]:
        """Return the record for a file."""
        if not all(isinstance(label, (str, bool, int)) for labels in self.labels for label in labels):
            raise InputError(f"the names of clusters of {self.effects.cluster} cannot be saved: convert them to text")
        fields = ("tau", "labels", "sizes", "modes", "variances", "exact")
        return {"terms": self.effects.names} | {name: getattr(self, name) for name in fields}

    @classmethod
    def from_record(cls, record: dict[str, Any], names: Sequence[str]) -> TwoEffects:
        """Return the checked random effects from a record."""
        terms, labels = record["terms"], [tuple(own) for own in record["labels"]]
        sizes = [np.array(own, dtype=np.intp) for own in record["sizes"]]
        tau, *values = (_numbers(own) for own in (record["tau"], *record["modes"], *record["variances"]))
        shapes = [own.shape for own in (*sizes, *values)]
        if not (_are_levels(terms, labels, shapes) and tau.shape == (2,) and isinstance(record["exact"], bool)):
            raise InputError("the random effects do not match the model")
        effects = Intercepts.of(terms)
        if not (tau >= effects.lower).all() or min(own.min() for own in values[2:]) < 0.0:
            raise InputError("the covariance parameters of the random effects are invalid")
        modes, variances = (values[0], values[1]), (values[2], values[3])
        return cls(effects, tau, (labels[0], labels[1]), (sizes[0], sizes[1]), modes, variances, record["exact"])


def _numbers(values: Any) -> Array:
    numbers = np.array(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise InputError("random effects must be finite numbers")
    return numbers


def _are_levels(terms: Sequence[Any], labels: Sequence[Any], shapes: list[tuple[int, ...]]) -> bool:
    """Return whether these are two terms with different levels, and three arrays for each have as many values."""
    fits = len(terms) == len(labels) == 2 and shapes == 3 * [(len(own),) for own in labels]
    return fits and all(map(_are_names, (terms, *labels)))


def _are_names(values: Sequence[Any]) -> bool:
    """Return whether these are different names of columns or levels."""
    return all(isinstance(name, (str, bool, int)) for name in values) and len(set(values)) == len(values) > 0
