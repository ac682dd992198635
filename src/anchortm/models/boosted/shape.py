"""The function f of a boosted model: a sum of trees, or a linear function that grew in steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anchortm.models.boosted.trees import Tree, summed

__all__ = ["Shape"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shape:
    """The function f of a boosted model, without the linear part that is refitted in each round."""

    learner: str
    trees: list[Tree]
    steps: list[Array]  # the coefficients that each round of a linear learner adds
    coef: Array  # coefficients: the sum of the steps, the linear part beside trees, or zeros
    spread: Array  # standard deviations of the covariates

    @property
    def linear(self) -> bool:
        """Return whether the model has a linear part beside the trees."""
        return self.learner == "linear+tree"

    def f(self, X: Array) -> Array:
        """Return f(x) for each row."""
        if self.learner == "linear":
            return np.asarray(X @ self.coef)
        return summed(self.trees, X)

    def columns(self, X: Array) -> Array:
        """Return Z with f = Z @ values: indicators of the leaves of all trees, or the scaled covariates."""
        if self.learner == "linear":
            return np.asarray(X / self.spread)
        leaves = [np.eye(tree.leaves.size)[tree.apply(X)] for tree in self.trees]
        return np.hstack([np.zeros((X.shape[0], 0)), *leaves])

    def moved(self, moves: Array, beta: Array) -> Shape:
        """Return f with ``moves`` added to its values; ``beta`` is the linear part beside trees."""
        if self.learner == "linear":
            return replace(self, coef=self.coef + moves / self.spread)
        ends = np.cumsum([tree.leaves.size for tree in self.trees])[:-1]
        pieces = np.split(moves, ends) if self.trees else []
        trees = [
            tree.with_values(tree.value[tree.leaves] + piece) for tree, piece in zip(self.trees, pieces, strict=True)
        ]
        return replace(self, trees=trees, coef=beta if self.linear else self.coef)

    def first(self, rounds: int, beta: Array) -> Shape:
        """Return f after this number of rounds; ``beta`` is the linear part beside trees."""
        trees, steps = self.trees[:rounds], self.steps[:rounds]
        coef = np.zeros(self.spread.size)
        if self.learner == "linear" and steps:
            coef = np.sum(steps, axis=0)
        return replace(self, trees=trees, steps=steps, coef=beta if self.linear else coef)

    def importances(self) -> Array:
        """Return the share of each covariate in the total gain."""
        if self.learner == "linear":
            gains = np.abs(self.coef) * self.spread
        else:
            gains = np.zeros(self.spread.size)
            for tree in self.trees:
                np.add.at(gains, tree.feature[tree.feature >= 0], tree.gain[tree.feature >= 0])
        return gains / gains.sum() if gains.sum() > 0.0 else gains
