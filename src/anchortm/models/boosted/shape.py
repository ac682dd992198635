"""What boosting adds up to: a sum of trees, or a linear function that grew in steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anchortm.models.boosted.trees import Tree

__all__ = ["Shape"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shape:
    """The function f of a boosted model, without a linear part that is solved for in each round."""

    learner: str
    trees: list[Tree]
    steps: list[Array]  # what rounds add to the coefficients of a linear function
    coef: Array  # of the covariates: the sum of the steps, the linear part beside trees, or zeros
    spread: Array  # standard deviations of the covariates

    @property
    def linear(self) -> bool:
        """Return whether a linear part is solved for beside the trees."""
        return self.learner == "linear+tree"

    def f(self, X: Array) -> Array:
        """Return f of each row."""
        if self.learner == "linear":
            return np.asarray(X @ self.coef)
        return np.asarray(sum((tree.predict(X) for tree in self.trees), np.zeros(X.shape[0])))

    def columns(self, X: Array) -> Array:
        """Return Z with f = Z @ values: the leaves of all trees, or the covariates in units of their spread."""
        if self.learner == "linear":
            return np.asarray(X / self.spread)
        leaves = [np.eye(tree.leaves.size)[tree.apply(X)] for tree in self.trees]
        return np.hstack([np.zeros((X.shape[0], 0)), *leaves])

    def moved(self, moves: Array, beta: Array) -> Shape:
        """Return f with values that moved; ``beta`` is the linear part beside trees."""
        if self.learner == "linear":
            return replace(self, coef=self.coef + moves / self.spread)
        ends = np.cumsum([tree.leaves.size for tree in self.trees])[:-1]
        pieces = np.split(moves, ends) if self.trees else []
        trees = [
            tree.with_values(tree.value[tree.leaves] + piece) for tree, piece in zip(self.trees, pieces, strict=True)
        ]
        return replace(self, trees=trees, coef=beta if self.linear else self.coef)

    def first(self, rounds: int, beta: Array) -> Shape:
        """Return f after so many rounds; ``beta`` is the linear part beside trees."""
        trees, steps = self.trees[:rounds], self.steps[:rounds]
        coef = np.zeros(self.spread.size)
        if self.learner == "linear" and steps:
            coef = np.sum(steps, axis=0)
        return replace(self, trees=trees, steps=steps, coef=beta if self.linear else coef)

    def importances(self) -> Array:
        """Return the share of each covariate in what was gained."""
        if self.learner == "linear":
            gains = np.abs(self.coef) * self.spread
        else:
            gains = np.zeros(self.spread.size)
            for tree in self.trees:
                np.add.at(gains, tree.feature[tree.feature >= 0], tree.gain[tree.feature >= 0])
        return gains / gains.sum() if gains.sum() > 0.0 else gains
