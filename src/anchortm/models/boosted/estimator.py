"""AnchorBoostedTM: transformation models whose shift is a sum of trees, boosted down the anchor loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import warn
from anchortm._util.checks import (
    check_weights,
    finite_numbers,
    flag,
    generator,
    level_between,
    one_number,
    real_numbers,
    whole_number,
)
from anchortm._util.frames import aligned, native
from anchortm.bases import OrdinalBasis
from anchortm.engine.problem import Data
from anchortm.engine.solve.identification import check_covariates, check_kinds, check_levels
from anchortm.exceptions import AnchorTMWarning, ConvergenceWarning, IdentificationError, InputError, InputTypeError
from anchortm.inference.summary import Summary, baseline_facts
from anchortm.inputs.anchors import anchor_columns, group_codes
from anchortm.inputs.design import Design, check_columns, to_design, without_anchors
from anchortm.inputs.response import Response, as_response
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.booster import Booster, Stage, Watched
from anchortm.models.boosted.refit import STRONGEST, Target
from anchortm.models.boosted.trees import ARRAYS, Binned, Tree, binned, checked_tree, grow
from anchortm.models.cox import CoxPH
from anchortm.models.fitted import FittedModel, one_column
from anchortm.models.from_formula import FormulaMixin
from anchortm.models.glm import AnchorGLM
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.extrapolation import extrapolation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AnchorBoostedTM"]

Array = NDArray[np.float64]

OF_MODEL = (  # what is asked of the fitted model inside
    *("xi_", "loss_", "loglik_", "penalty_", "kkt_", "min_eigenvalue_", "converged_", "convexity_", "warnings_"),
    *("baseline_", "link_", "basis_", "classes_", "support_", "outcome_range_", "row_kinds_", "n_rows_", "n_total_"),
)


MOST_INFORMATION = 500_000  # numbers that a file holds for refits of stages before the last


class NotForBoostedError(InputTypeError, AttributeError):
    """Raised where what the other models answer is asked of a boosted one; for ``hasattr`` it is not there."""


class State(NamedTuple):
    """A boosting after a round: what was found, and the negative log-likelihood of environments held out."""

    booster: Booster
    stage: Stage
    found: Tree | Array | None
    held_out: float


class AnchorBoostedTM(FormulaMixin, BaseEstimator):  # type: ignore[misc]
    """A transformation model with a shift of any shape, F(h(y) - f(x)): f is boosted down the anchor loss.

    Each round grows a tree on the pseudo-residuals r + 2 xi r'(P r), takes a shrunken Newton step in the values of its
    leaves, and solves for the baseline again. All outcomes and kinds of censoring are those of the model that is
    boosted.

    Parameters
    ----------
    model : estimator
        What is boosted: any model of this package with a baseline of its own, such as ``ContinuousLogit(order=4)``. Its
        own xi is not used; strata, effects that vary, scale effects and elastic nets are not for boosting.
    xi : float
        Strength of the causal regulariser, from 0 to a large finite number.
    learner : {"tree", "linear+tree", "linear"}
        What f is made of: trees; trees beside a linear part, which is solved for again in each round as the baseline
        is, so that no rounds at all are the linear model; or a linear function that grows in shrunken steps. Trees
        alone are constant beyond the range of the data, a linear part goes on.
    n_rounds : int
        Number of rounds, or the most there may be with ``validation``. 0 is the model without trees.
    learning_rate : float
        Share of the Newton step that is gone.
    max_leaf_nodes, min_samples_leaf : int
        Size of the trees, and rows in each leaf.
    l2_leaf : float
        Pull of the leaf values of a round towards zero, as if each leaf had so many rows more (of curvature 1)
        without anything to be learnt from.
    validation : None, float, list or "each"
        Environments that are held out to find the number of rounds: none, a share of them drawn at random, those
        named, or each in turn. The best round is the one with the least mean negative log-likelihood over them.
    n_iter_no_change : int
        How many rounds without a better one are tried.
    all_rows : bool
        Whether the fit is repeated on all rows for the number of rounds that was found.
    cut : int, optional
        Cut numeric environments at quantiles into so many groups.
    random_state : int, optional
        Seed of the draw of environments.

    Attributes
    ----------
    model_ : estimator
        The baseline, and the linear part if there is one, as a fitted model with f as its offset. Its certificates
        (``kkt_``, ``min_eigenvalue_``, ``converged_``) say that it is best for this f.
    trees_ : list of Tree
        One for each round.
    coef_ : array of shape (p,)
        Coefficients of the linear part, zeros without one.
    coef_names_ : list of str
        Names of the covariates.
    n_rounds_ : int
        Number of rounds.
    loss_history_ : DataFrame
        For each round the loss, its two parts, and ``held_out``, the negative log-likelihood of environments held out.
    feature_importances_ : array of shape (p,)
        Share of each covariate in what the splits gain (of a linear learner, in the size of the standardised effects).
    held_out_ : list
        Names of the environments that were held out.
    xi_, loss_, loglik_, penalty_, baseline_, kkt_, min_eigenvalue_, converged_
        As for the other models, given f. After a ``refit`` that moves anything those of its rows: ``loss_`` is their
        mean negative log-likelihood plus the pull towards the fit, ``penalty_`` is 0.
    refit_ : dict
        After ``refit``: number of rows and strength.
    n_features_in_, feature_names_in_ : int, array of str
        Columns of X; names only where it had names.
    covariate_ranges_ : array of shape (2, p)
        Smallest and largest value of each covariate.
    formula_ : Formula
        After ``from_formula``.

    See Also
    --------
    anchortm.AnchorBoosting : the competitor by squared error

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site, hidden = rng.integers(0, 6, 600), rng.normal(size=600)
    >>> x = rng.normal(size=600) + site + hidden
    >>> y = np.exp(np.sin(x) + hidden + 0.5 * rng.normal(size=600))
    >>> model = atm.AnchorBoostedTM(atm.ContinuousProbit(log_first=True), xi=1.0, n_rounds=50)
    >>> model.fit(x[:, None], y, anchors=site).predict([[0.0], [1.5]]).round(1)
    array([0.5, 2.4])
    """

    model_: Any
    trees_: list[Tree]
    coef_names_: list[str]
    coef_: Array
    held_out_: list[Any]
    feature_importances_: Array
    covariate_ranges_: Array
    n_features_in_: int
    _had_offset: bool
    _stages: list[Stage]
    _steps: list[Array]
    _curve: Array
    _spread: Array

    def __init__(
        self,
        model: Any,
        xi: float = 0.0,
        *,
        learner: Literal["tree", "linear+tree", "linear"] = "tree",
        n_rounds: int = 200,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        l2_leaf: float = 1.0,
        validation: Any = None,
        n_iter_no_change: int = 20,
        all_rows: bool = True,
        cut: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.xi = xi
        self.learner = learner
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_leaf = l2_leaf
        self.validation = validation
        self.n_iter_no_change = n_iter_no_change
        self.all_rows = all_rows
        self.cut = cut
        self.random_state = random_state

    _named = FittedModel._named
    _new_offset = FittedModel._new_offset

    @property
    def anchor_names(self) -> Any:
        """Return the columns of X that the model takes as anchors."""
        return getattr(self.model, "anchor_names", None)

    @property
    def _scale(self) -> Any:
        return self.model._scale

    def _fixed_levels(self) -> Any:
        return self.model._fixed_levels()

    def _base(self) -> Any:
        """Return the model that is boosted, with our xi."""
        if not isinstance(self.model, TransformationModel):
            raise InputTypeError(
                f"model must be an estimator of this package, such as ContinuousProbit(), not {self.model!r}"
            )
        if isinstance(self.model, CoxPH):
            raise InputTypeError(
                "CoxPH cannot be boosted: its likelihood is no sum over rows; take ProportionalHazards"
            )
        if isinstance(self.model, AnchorGLM):
            raise InputTypeError(
                "AnchorGLM cannot be boosted: it has no baseline in y; take a model that has one, such as "
                "CountRegression, OrdinalRegression or ContinuousProbit"
            )
        for name in ("strata", "varying", "scale", "random", "l1", "l2", "penalty_factor", "n_restarts"):
            value = getattr(self.model, name)
            if value is not None and not (isinstance(value, (int, float)) and value == 0):
                raise InputError(f"{name} is not for boosting: leave it out; trees take any columns as covariates")
        return clone(self.model).set_params(xi=self.xi, anchor_names=None)

    def _check_xi(self) -> float:
        xi = one_number(self.xi, "xi")
        if not 0.0 <= xi < math.inf:
            raise InputError(f"xi must be at least 0 and finite, not {self.xi}")
        return xi

    def _check_limits(self) -> None:
        if self.learner not in ("tree", "linear+tree", "linear"):
            raise InputError(f"learner must be 'tree', 'linear+tree' or 'linear', not {self.learner!r}")
        for name, least in (("n_rounds", 0), ("min_samples_leaf", 1), ("n_iter_no_change", 1), ("max_leaf_nodes", 2)):
            whole_number(getattr(self, name), name, least)
        if not 0.0 < one_number(self.learning_rate, "learning_rate") <= 1.0:
            raise InputError(f"learning_rate must lie in (0, 1], not {self.learning_rate!r}")
        if not 0.0 <= one_number(self.l2_leaf, "l2_leaf") < math.inf:
            raise InputError(f"l2_leaf must be at least 0 and finite, not {self.l2_leaf!r}")
        flag(self.all_rows, "all_rows")
        if self.cut is not None:
            whole_number(self.cut, "cut", 2)
        generator(self.random_state)
        self._check_validation()
        self._base()._check_limits()

    def _check_validation(self) -> None:
        if isinstance(self.validation, (float, np.floating)):
            level_between(self.validation, "validation")
        elif self.validation is not None and not isinstance(self.validation, (str, Iterable)):
            raise InputTypeError(
                f"validation must be None, a share, a list of environments or 'each', not {self.validation!r}"
            )
        elif isinstance(self.validation, str):
            if self.validation != "each":
                raise InputError(
                    f"validation must be None, a share, a list of environments or 'each', not {self.validation!r}"
                )
            if not self.all_rows:
                raise InputError("validation='each' fits all rows in the end: leave all_rows=False out")

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        anchors: Any = None,
        environments: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Self:
        """Boost; arguments as for the other models.

        ``environments`` are what ``validation`` holds out: by default the levels of the largest anchor factor.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.AnchorBoostedTM(atm.ContinuousProbit(), xi=1.0, validation=0.3, random_state=0)
        >>> model.fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town).n_rounds_
        53
        """
        self._check_xi()
        self._check_limits()
        if y is None:
            raise InputError("requires y to be passed, but the target y is None: fit(X, y)")
        aligned(X=X, y=y, anchors=anchors, environments=environments, sample_weight=sample_weight, offset=offset)
        data = self._prepare(X, y, anchors, sample_weight, offset)
        groups = None if environments is None else self._groups(environments, data)
        return self._fit(data, groups)

    def _prepare(self, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any) -> Data:
        """Check the inputs once; drop rows of weight zero."""
        if self.model.xi != 0:
            raise InputError(
                f"xi = {self.model.xi!r} of the inner model is not used: give it to AnchorBoostedTM(model, xi=...)"
            )
        X, named = native(X), self.model._split_off(native(X))[1] if self._named("anchor_names") else None
        given = list(X.columns) if hasattr(X, "columns") else None
        if named is not None:
            if anchors is not None:
                raise InputError("give anchors to fit, or anchor_names to the constructor, not both")
            X, anchors = self.model._split_off(X)[0], named
        data: Data = self._base()._prepare(None, y, anchors, sample_weight, offset)
        if X is None:
            raise InputError("X is None: there is nothing to boost; fit the model itself")
        design = to_design(X, None)
        n = len(data.response) if data.kept is None else data.kept.size
        if design.matrix.shape[0] != n:
            raise InputError(f"X has {design.matrix.shape[0]} rows, but y has {n}: pass the same rows of both")
        if design.matrix.shape[1] == 0:
            raise InputError(f"X has 0 feature(s) (shape={design.matrix.shape}) while a minimum of 1 is required.")
        if data.kept is not None:
            design = design._replace(matrix=design.matrix[data.kept])
        if self.xi != 0.0 and data.anchors is None:
            raise InputError(
                f"xi = {self.xi:g} needs anchors: pass fit(..., anchors=...), name them after '|' in a formula, or use "
                "xi=0"
            )
        columns = tuple(map(str, given)) if design.named and given is not None else None
        return self._checked(data._replace(design=design, columns_given=columns))

    def _checked(self, data: Data, without: Sequence[Any] = ()) -> Data:
        """Return rows that identify what is boosted, or refuse them, naming the environments that they are without."""
        try:
            check_kinds(data.response)
            if self.learner != "tree":
                check_covariates(data.design.matrix, data.design.names)
                check_levels(data.response, data.design.matrix, data.design.names)
        except IdentificationError as error:
            named = f"without environment {', '.join(map(str, without))}: " if without else ""
            raise IdentificationError(f"{named}{error}") from None
        return data

    def _groups(self, environments: Any, data: Data) -> tuple[NDArray[np.intp], NDArray[Any]] | None:
        n, given = len(data.response) if data.kept is None else data.kept.size, len(anchor_columns(environments))
        if given != n:
            raise InputError(f"environments has {given} rows, but y has {n}: pass the same rows of both")
        if self.validation is None:
            return None
        groups, labels = group_codes(environments, self.cut)
        if data.kept is None:
            return groups, labels
        found, groups = np.unique(groups[data.kept], return_inverse=True)
        return groups, labels[found]

    def _held_out(
        self, data: Data, given: tuple[NDArray[np.intp], NDArray[Any]] | None
    ) -> tuple[list[Any], list[list[NDArray[np.intp]]]]:
        """Return the names of environments to hold out, and the rows of each, those that go together in a list."""
        if self.validation is None:
            return [], []
        if given is None:
            main = None if data.anchors is None else data.anchors.main
            if data.anchors is None or main is None:
                raise InputError(
                    "validation holds out environments, and there is no anchor factor: pass "
                    "fit(..., environments=...), with cut=k for numbers"
                )
            given = data.anchors.factors[main], data.anchors.levels[main]
        groups, labels = given
        if labels.size < 2:
            raise InputError("there is a single environment: nothing is left to fit when it is held out")
        names = labels.tolist()
        if isinstance(self.validation, str):
            return names, [[np.flatnonzero(groups == e)] for e in range(labels.size)]
        if isinstance(self.validation, (float, np.floating)):
            number = min(max(1, round(self.validation * labels.size)), labels.size - 1)
            chosen = sorted(generator(self.random_state).choice(labels.size, number, replace=False).tolist())
        else:
            wanted = list(self.validation)
            unknown = [str(name) for name in wanted if name not in names]
            if unknown:
                raise InputError(f"validation names environments that are not there: {', '.join(unknown)}")
            if not wanted or len(set(wanted)) == labels.size:
                raise InputError(f"validation must name some of the {labels.size} environments, and not all")
            chosen = sorted({names.index(name) for name in wanted})
        return [names[e] for e in chosen], [[np.flatnonzero(groups == e) for e in chosen]]

    def _fit(self, data: Data, groups: tuple[NDArray[np.intp], NDArray[Any]] | None = None) -> Self:
        base = self._base()
        names, sets = self._held_out(data, groups)
        curve: list[float] = []
        states: list[State] = []
        without = [[name] for name in names] if isinstance(self.validation, str) else [names] * len(sets)
        parts = [
            self._checked(data.subset(np.setdiff1d(np.arange(len(data.response)), np.concatenate(held))), gone)
            for held, gone in zip(sets, without, strict=True)
        ]
        # all are watched together, round by round
        watched = [
            self._boost(base, part, [data.take(e) for e in held]) for part, held in zip(parts, sets, strict=True)
        ]
        for k, side_by_side in enumerate(zip(*watched, strict=False)):
            curve.append(float(np.mean([state.held_out for state in side_by_side])))
            states.append(side_by_side[0])
            if np.argmin(curve) == k:
                best = copy(side_by_side[0].booster)  # which goes on from round to round
            if k == self.n_rounds or k - int(np.argmin(curve)) >= self.n_iter_no_change:
                break
        rounds = int(np.argmin(curve)) if curve else self.n_rounds
        if sets and not self.all_rows:
            part, states = parts[0], [*states[:rounds], states[rounds]._replace(booster=best)]
        else:
            part, states = data, list(islice(self._boost(base, data, []), rounds + 1))
        fitted = copy(self)
        fitted._curve, fitted.held_out_ = np.array(curve), names
        fitted._store(base, part, states)
        self.__dict__ = fitted.__dict__  # at once: a fit that is interrupted or refused leaves the model as it was
        return self

    def _refitted(
        self, data: Data, held: Data, groups: tuple[NDArray[np.intp], NDArray[Any]], gone: Any
    ) -> tuple[float, dict[str, Any]]:
        """Return the mean negative log-likelihood of other rows after a fit to these, and facts of the fit.

        ``groups`` are the environments that are left, ``gone`` is the name of the one that is not.
        """
        if isinstance(self.validation, Iterable) and not isinstance(self.validation, str):
            left: list[Any] | None = [name for name in self.validation if name != gone]
            if not left and len(list(self.validation)):
                text = f"without environment {gone} nothing that validation names is left: all {self.n_rounds} rounds"
                warn(text, AnchorTMWarning)
                left = None
            self.validation = left
        base = self._base()
        fitted = self._fit(self._checked(data), groups)
        rows = Watched(fitted.basis_, held, self.learner == "linear+tree")
        rows.f += fitted._f(rows.X)
        nll = rows.nll(fitted.link_, base._sign, fitted.baseline_, fitted.model_.coef_)
        return nll, {"converged": fitted.converged_, "rounds": fitted.n_rounds_}

    def _boost(self, base: Any, data: Data, held: list[Data]) -> Iterator[State]:
        """Yield the state before the first round and after each, as long as there is something to learn."""
        linear = self.learner == "linear+tree"
        some = slice(None) if linear else slice(0)
        design = data.design._replace(matrix=data.design.matrix[:, some], names=data.design.names[some])
        own = data._replace(design=design, covariate_ranges=_ranges(design.matrix), columns_given=None)
        booster = Booster(base, own, float(self.xi))
        X = data.design.matrix[booster.order]
        bins = binned(X) if self.learner != "linear" else None
        watched = [Watched(booster.basis, rows, linear) for rows in held]
        found: Tree | Array | None = None
        while True:
            nll = float(np.mean([rows.at(booster) for rows in watched])) if watched else math.nan
            yield State(booster, booster.stage(), found, nll)
            found = self._round(booster, X, bins)
            if found is None:
                return
            for rows in watched:
                rows.f += found.predict(rows.X) if isinstance(found, Tree) else rows.X @ found

    def _round(self, booster: Booster, X: Array, bins: Binned | None) -> Tree | Array | None:
        """Return what a round adds to f: a tree with its values, or coefficients; None where nothing is left."""
        if bins is None:
            scale = X.std(axis=0)
            found = booster.step(X / scale, self.learning_rate, 0.0)
            return None if found is None else found / scale
        weights = np.ones(X.shape[0]) if booster.data.weights is None else booster.data.weights
        pull = booster.pseudo_residuals()
        tree, leaf = grow(bins, pull, weights, self.max_leaf_nodes, self.min_samples_leaf, self.l2_leaf)
        if tree.leaves.size < 2:
            return None
        values = booster.step(np.eye(tree.leaves.size)[leaf], self.learning_rate, self.l2_leaf)
        return None if values is None else tree.with_values(values)

    def _store(self, base: Any, data: Data, states: list[State]) -> None:
        booster = states[-1].booster
        total = booster.offset + booster.f
        self.model_ = copy(base)
        fitted = booster.data._replace(offset=total)
        self.model_._store(booster.link, booster.basis, fitted, booster.objective, booster.solution, [booster.solution])
        self.model_._tell()
        self._stages = [state.stage for state in states]
        self.trees_ = [state.found for state in states if isinstance(state.found, Tree)]
        self._steps = [state.found for state in states if isinstance(state.found, np.ndarray)]
        self.coef_names_, self._had_offset = list(data.design.names), data.offset is not None
        self.covariate_ranges_, self._spread = _ranges(data.design.matrix), data.design.matrix.std(axis=0)
        self.n_features_in_ = len(self.coef_names_) + len(self._named("anchor_names"))
        for stale in ("feature_names_in_", "formula_", "refit_"):
            self.__dict__.pop(stale, None)
        if data.columns_given is not None:
            self.feature_names_in_ = np.array(data.columns_given, dtype=object)
        self._finish(len(states) - 1)

    def _finish(self, rounds: int) -> None:
        """Keep so many rounds, and what follows from them."""
        p = len(self.coef_names_)
        rounds = min(rounds, len(self._stages) - 1)
        if rounds < len(self._stages) - 1:
            self.model_ = self._stages[rounds].put(self.model_)
            self.model_._far_from_zero = []  # a file does not have it; there are no scale effects
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.model_._tell()
        self._stages = self._stages[: rounds + 1]
        self.trees_, self._steps = self.trees_[:rounds], self._steps[:rounds]
        if self.learner == "linear":
            self.coef_ = np.sum(self._steps, axis=0) if self._steps else np.zeros(p)
            gains = np.abs(self.coef_) * self._spread
        else:
            self.coef_ = self.model_.coef_ if self.learner == "linear+tree" else np.zeros(p)
            gains = np.zeros(p)
            for tree in self.trees_:
                np.add.at(gains, tree.feature[tree.feature >= 0], tree.gain[tree.feature >= 0])
        self.feature_importances_ = gains / gains.sum() if gains.sum() > 0.0 else gains

    @property
    def n_rounds_(self) -> int:
        """Return the number of rounds."""
        check_is_fitted(self, "model_")
        return len(self._stages) - 1

    @property
    def loss_history_(self) -> pd.DataFrame:
        """Return the loss and its parts after each round, and what was watched while environments were held out."""
        import pandas as pd

        check_is_fitted(self, "model_")
        xi = self.model_.xi_
        rows = [{"loss": s.loss, "nll": s.loss - xi * s.penalty, "penalty": s.penalty} for s in self._stages]
        table = pd.DataFrame(rows).reindex(range(max(len(rows), self._curve.size)))
        if self._curve.size:
            table["held_out"] = pd.Series(self._curve)
        return table.rename_axis("round")

    def __getattr__(self, name: str) -> Any:
        if name in OF_MODEL and "model_" in self.__dict__:
            return getattr(self.model_, name)
        other = hasattr(TransformationModel, name) or name in FittedModel.__annotations__
        if other and ("model_" in self.__dict__ or not name.endswith("_")):
            raise NotForBoostedError(
                f"{type(self).__name__} has no {name}: there are no standard errors or tests of a boosted f, and no "
                "penalties to choose but xi; compare fits by leave_one_environment_out, or predict_distribution at two "
                "values of a covariate, or take a linear model with splines"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _design(self, X: Any, n_rows: int | None = None) -> Design:
        """Return the covariates of new rows, checked against those of the fit."""
        check_is_fitted(self, "model_")
        if X is None:
            raise InputError("X is None: a boosted model predicts from covariates, pass those of the rows")
        X = self._covariates(native(X))
        anchors = self._named("anchor_names")
        if anchors:
            X = without_anchors(X, anchors, self.n_features_in_)
        design = to_design(X, n_rows)
        check_columns(design, self.coef_names_, hasattr(self, "feature_names_in_"), type(self).__name__)
        return design

    def _f(self, X: Array) -> Array:
        """Return f without a linear part that is solved for."""
        if self.learner == "linear":
            return np.asarray(X @ self.coef_)
        return np.asarray(sum((tree.predict(X) for tree in self.trees_), np.zeros(X.shape[0])))

    def _ask(self, what: str, X: Any, offset: Any, *y: Any, **options: Any) -> Any:
        """Return the answer of the fitted model, with f as its offset."""
        aligned(X=X, offset=offset)
        design, offset = self._design(X), self._new_offset(X, offset)
        f = self._f(design.matrix)
        if y:
            y = (self._response(y[0], f.size),)
        if offset is not None:
            f = f + finite_numbers(offset, f.size, "offset")
        return getattr(self.model_, what)(design if self.learner == "linear+tree" else None, *y, offset=f, **options)

    def _response(self, y: Any, n: int) -> Response:
        """Return the outcome of n rows."""
        if y is None:
            raise InputError("y is None: pass the outcome of the rows")
        levels = self.basis_.levels if isinstance(self.basis_, OrdinalBasis) else None
        response = as_response(one_column(native(y)), self._scale, levels)
        if len(response) != n:
            raise InputError(f"X has {n} rows, but y has {len(response)}: pass the same rows of both")
        return response

    def _outcome(self, X: Any, y: Any) -> Any:
        """Return the outcome as given, or from the table that has it."""
        check_is_fitted(self, "model_")
        aligned(X=X, y=y)
        return self.formula_.outcome(X) if y is None and hasattr(self, "formula_") else y

    def predict_distribution(self, X: Any, *, offset: Any = None, n_rows: int | None = None) -> PredictedDistribution:
        """Return the predicted distribution of each row; ``n_rows``, of models without X, changes nothing here.

        See Also
        --------
        anchortm.predict.PredictedDistribution : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.ProportionalHazards(order=3), n_rounds=20)
        >>> model.predict_distribution(data[:2]).sf([100.0, 300.0]).round(2)
        array([[0.93, 0.74],
               [0.89, 0.6 ]])
        """
        return self._ask("predict_distribution", X, offset)  # type: ignore[no-any-return]

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Return the conditional median, or the most probable class."""
        return self._ask("predict", X, offset)

    @available_if(  # type: ignore[untyped-decorator]
        lambda self: hasattr(self.model, "predict_proba")
    )
    def predict_proba(self, X: Any, *, offset: Any = None) -> Array:
        """Return the probability of each class, one row for each row of X."""
        return np.asarray(self._ask("predict_proba", X, offset))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = get_tags(self.model) if isinstance(self.model, BaseEstimator) else tags
        tags.estimator_type, tags.target_tags = base.estimator_type, base.target_tags
        tags.regressor_tags, tags.classifier_tags = base.regressor_tags, base.classifier_tags
        return tags

    def nll(self, X: Any, y: Any = None, *, offset: Any = None) -> Array:
        """Return the negative log-likelihood of each row; after ``from_formula`` X may hold the outcome too."""
        return np.asarray(self._ask("nll", X, offset, self._outcome(X, y)))

    def residuals(self, X: Any, y: Any = None, *, offset: Any = None, which: str = "shift") -> Array:
        """Return the score residual of each row: the derivative of its log-likelihood in alpha at F(h - alpha).

        With ``which="scale"`` that of the scale, as for the other models.
        """
        return np.asarray(self._ask("residuals", X, offset, self._outcome(X, y), which=which))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the mean log-likelihood of the rows."""
        aligned(X=X, y=y, sample_weight=sample_weight)
        nll = self.nll(X, y, offset=offset)
        return float(-np.average(nll, weights=check_weights(sample_weight, nll.size)))

    def extrapolation(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Return where predictions for X leave what the fit has seen: there trees are constant.

        See Also
        --------
        anchortm.NormalLinear.extrapolation : the same of a linear model
        """
        check_is_fitted(self, "model_")
        return extrapolation(self, X, y)

    def staged(self, n_rounds: int) -> AnchorBoostedTM:
        """Return the model as it was after so many rounds.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.AnchorBoostedTM(atm.ContinuousProbit(), n_rounds=40)
        >>> model = model.fit(data[["rm", "lstat"]], data.cmedv)
        >>> [round(model.staged(k).loss_, 2) for k in (0, 10, 40)]
        [3.51, 2.85, 2.62]
        """
        check_is_fitted(self, "model_")
        if whole_number(n_rounds, "n_rounds", 0) > self.n_rounds_:
            raise InputError(f"there are {self.n_rounds_} rounds, not {n_rounds}")
        if hasattr(self, "refit_"):
            raise InputError("after a refit there are no rounds: take them of the model before")
        result = copy(self)
        result._finish(n_rounds)
        return result

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss, its parts and the held-out environments against the rounds; return the axes."""
        return plotting.rounds(self, ax)

    def summary(self) -> Summary:
        """Return a table of the fit that prints: facts, and the share of each covariate in what was gained.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> formula = "rating ~ temp + contact | judge"
        >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.OrdinalRegression(), xi=1.0, n_rounds=30)
        >>> model.summary().frame().round(2)
                        importance
        covariate
        temp[T.warm]          0.71
        contact[T.yes]        0.29
        """
        check_is_fitted(self, "model_")
        facts = baseline_facts(self.model_)
        given = f"KKT residual {self.kkt_:.1e}, smallest curvature {self.min_eigenvalue_:.1e}"
        facts["converged"] = f"{'yes' if self.converged_ else 'NO'}, the baseline given f: {given}"
        f = "f(x)" if self.learner != "linear+tree" else "x'beta {sign} f(x)"
        sign = "+" if self.model_._sign > 0 else "-"
        own = {"model": f"F(h(y) {sign} {f.format(sign=sign)})"}
        size = f", {sum(tree.leaves.size for tree in self.trees_)} leaves" if self.learner != "linear" else ""
        own["f"] = f"{self.n_rounds_} rounds of {self.learner}{size}, learning rate {self.learning_rate:g}"
        if self.held_out_:
            chosen = "by " if self.n_rounds_ == np.argmin(self._curve) else "not by the "
            there = f"negative log-likelihood {self._curve[self.n_rounds_]:.4f}"
            own["rounds"] = f"{chosen}{len(self.held_out_)} held-out environments, {there}"
        if hasattr(self, "refit_"):
            moved = math.isfinite(self.refit_["strength"])
            own["refit"] = f"{self.refit_['rows']} rows of the target, " + (
                f"strength {self.refit_['strength']:g}; what follows is of these rows"
                if moved
                else "nothing moved: what follows is of the fit"
            )
            if moved:
                nll = -self.loglik_ / self.n_total_
                facts["anchor loss"] = "none for the target"
                facts["refit loss"] = (
                    f"{self.loss_:.6f} = {nll:.6f} (mean negative log-likelihood) + {self.loss_ - nll:.3g} (pull)"
                )
                facts["converged"] = f"{'yes' if self.converged_ else 'NO'}, the refit: {given}"
                facts["xi"] += ", of the fit"
                if "constraints" in facts:
                    facts["constraints"] = facts["constraints"].replace("at zero", "at a fifth of what was there")
        columns: dict[str, list[Any]] = {"covariate": list(self.coef_names_)}
        columns["importance"] = self.feature_importances_.tolist()
        if self.learner != "tree":
            columns["coef"] = self.coef_.tolist()
        baseline = dict(zip(self.model_.parameter_names_, self.model_.baseline_.tolist(), strict=True))
        title = f"AnchorBoostedTM of {type(self.model_).__name__}: {self.model_._kind}"
        return Summary(
            title,
            own | {k: v for k, v in facts.items() if k not in ("model", "minimum", "AIC, BIC")},
            columns,
            baseline,
            tuple(self.model_.warnings_),
            heading="Covariates",
        )

    def refit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, offset: Any = None, strength: float | None = None
    ) -> AnchorBoostedTM:
        """Return the model with leaf values and baseline adapted to a few rows from the target site.

        Trees keep their splits. The values of all leaves move from where they are, by a ridge under which f(x)
        has, at each x, a prior deviation of 1 / sqrt(strength) on the scale of h; baseline and linear part move as if
        they were known from ``strength`` rows of the fit, and h becomes nowhere flatter than a fifth of what it was.
        There is no penalty on the target rows: they are one place.

        Parameters
        ----------
        X, y, sample_weight, offset
            Rows of the target. No rows leave the model as it is.
        strength : float, optional
            How many rows what is known counts for; beyond 1e8 nothing moves, as it would be lost in rounding. By
            default it is chosen from 1 (30 / n for fewer than 30 rows) to 1000, or not to move at all: the strongest
            whose negative log-likelihood over five folds of the rows is within a standard error of the best.

        Examples
        --------
        >>> import numpy as np, anchortm as atm
        >>> rng = np.random.default_rng(1)
        >>> x = rng.uniform(-2, 2, size=(500, 1))
        >>> y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=500)
        >>> model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=50).fit(x[:400], y[:400])
        >>> target = model.refit(x[400:430], y[400:430] + 1.0)  # a site where all is higher by 1
        >>> bool(target.nll(x[430:], y[430:] + 1.0).mean() < model.nll(x[430:], y[430:] + 1.0).mean())
        True
        """
        check_is_fitted(self, "model_")
        if strength is not None and not one_number(strength, "strength") > 0.0:
            raise InputError(f"strength must be positive, not {strength!r}")
        if X is None:
            raise InputError("X is None: pass the covariates of rows from the target")
        if len(native(X)) == 0:
            return self._moved(None, 0, math.inf)
        aligned(X=X, y=y, sample_weight=sample_weight, offset=offset)
        design = self._design(X)
        n = design.matrix.shape[0]
        response = self._response(self._outcome(X, y), n)
        weights, offset = check_weights(sample_weight, n), self._new_offset(X, offset)
        matrix, offset = design.matrix, None if offset is None else finite_numbers(offset, n, "offset")
        if weights is not None and not weights.all():  # as fit does: such rows are not there
            kept = np.flatnonzero(weights)
            matrix, response, weights = matrix[kept], response[kept], weights[kept]
            offset, n = None if offset is None else offset[kept], kept.size
        if n == 0:
            return self._moved(None, 0, math.inf)
        rows = Target(self, matrix, response, weights, offset)
        if strength is None:
            strength = rows.choose()
        if strength > STRONGEST:
            return self._moved(None, n, math.inf)
        stage, moves = rows.solve(strength)
        result = self._moved((stage, moves), n, strength)
        inner = result.model_
        inner.n_rows_, inner.row_kinds_ = n, response.counts()
        inner.n_total_ = float(n) if weights is None else float(weights.sum())
        if not stage.converged:
            text = f"the refit did not converge ({stage.reason}): scaled KKT residual {stage.kkt:.1e}; raise max_iter"
            inner.warnings_ = [*inner.warnings_, text]
            warn(text, ConvergenceWarning)
        return result

    def _columns_of(self, X: Array) -> Array:
        """Return Z with f = Z @ values: the leaves of all trees, or the covariates in units of their spread."""
        if self.learner == "linear":
            return np.asarray(X / self._spread)
        leaves = [np.eye(tree.leaves.size)[tree.apply(X)] for tree in self.trees_]
        return np.hstack([np.zeros((X.shape[0], 0)), *leaves])

    def _moved(self, found: tuple[Stage, Array] | None, rows: int, strength: float) -> AnchorBoostedTM:
        """Return the model with other parameters, or with its own where none were found."""
        result = copy(self)
        result.refit_ = {"rows": rows, "strength": strength}
        if found is None:
            return result
        stage, moves = found
        result.model_ = stage.put(self.model_)
        if self.learner == "linear":
            result.coef_ = self.coef_ + moves / self._spread
            return result
        if self.learner == "linear+tree":
            result.coef_ = stage.beta
        ends = np.cumsum([tree.leaves.size for tree in self.trees_])[:-1]
        pieces = np.split(moves, ends) if self.trees_ else []
        result.trees_ = [
            tree.with_values(tree.value[tree.leaves] + piece) for tree, piece in zip(self.trees_, pieces, strict=True)
        ]
        return result

    def _more(self) -> dict[str, Any]:
        """Return what a file holds beside the fitted model inside."""
        small = len(self._stages) * self.model_.active_.size**2 <= MOST_INFORMATION
        return {
            "trees": [{name: getattr(tree, name) for name in ARRAYS} for tree in self.trees_],
            "steps": self._steps,
            "stages": [(stage if small else stage._replace(information=None))._asdict() for stage in self._stages],
            "curve": self._curve,
            "held_out": self.held_out_,
            "coef": self.coef_,
            "importances": self.feature_importances_,
            "names": self.coef_names_,
            "features": list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
            "ranges": self.covariate_ranges_,
            "spread": self._spread,
            "offset": self._had_offset,
            "refit": getattr(self, "refit_", None),
        }

    def _set_more(self, record: dict[str, Any], inner: Any) -> None:
        """Take what ``_more`` gave, checked; ``inner`` is the fitted model inside."""

        def need(condition: bool, what: str) -> None:
            if not condition:
                raise InputError(what)

        names, features = record["names"], record["features"]
        need(isinstance(names, list) and all(isinstance(name, str) for name in names), "the covariates have no names")
        p, k, linear = len(names), len(record["stages"]), self.learner == "linear"
        own = names if self.learner == "linear+tree" else []
        need(p > 0 and list(inner.coef_names_) == own, "the model inside does not have the covariates of the learner")
        need(k > 0 and isinstance(record["offset"], bool), "there are no rounds")
        AnchorBoostedTM(inner)._base()  # what is not for boosting is not inside either
        plain = not (inner.l1_ or inner.l2_ or inner.smooth_) and inner._corners is None and inner._random is None
        need(plain and min(inner.kkt_, inner.penalty_) >= 0.0, "the model inside is not one that was boosted")
        known = [part for part in (inner._information, inner._jacobian) if part is not None]
        need(all(np.isfinite(part).all() for part in known), "the information of the model inside is not of numbers")
        self.model_, self.coef_names_, self._had_offset = inner, names, record["offset"]
        self.n_features_in_ = p + len(self._named("anchor_names"))
        if features is not None:
            text = isinstance(features, list) and all(isinstance(name, str) for name in features)
            need(text and len(features) == self.n_features_in_, "the feature names are not as many as features")
            self.feature_names_in_ = np.array(features, dtype=object)
        self.trees_ = [checked_tree(tree, p) for tree in record["trees"]]
        self._steps = [_numbers(step, (p,)) for step in record["steps"]]
        need(len(self._steps if linear else self.trees_) == k - 1, "the rounds are not as many as what they add")
        need(not (self.trees_ if linear else self._steps), "the rounds are not those of the learner")
        self._stages = [_checked_stage(stage, inner) for stage in record["stages"]]
        self._curve = _numbers(record["curve"], None)
        held = record["held_out"]
        text = isinstance(held, list) and all(isinstance(name, (str, int, float)) for name in held)
        need(text, "the environments held out are not names")
        need(self._curve.size >= k if held else not self._curve.size, "held-out environments and their curve differ")
        self.held_out_ = held
        self.coef_, self.feature_importances_ = _numbers(record["coef"], (p,)), _numbers(record["importances"], (p,))
        self.covariate_ranges_, self._spread = _numbers(record["ranges"], (2, p)), _numbers(record["spread"], (p,))
        need(own == [] or np.array_equal(self.coef_, inner.coef_), "the coefficients are not those of the model inside")
        need(self.learner != "tree" or not self.coef_.any(), "trees have no coefficients")
        need(
            bool((self._spread > 0.0 if linear else self._spread >= 0.0).all()), "the spread of a covariate is not one"
        )
        need(bool((np.diff(self.covariate_ranges_, axis=0) >= 0.0).all()), "the range of a covariate is not one")
        need(bool((self.feature_importances_ >= 0.0).all()), "the importance of a covariate is not one")
        if record["refit"] is None:
            last = self._stages[-1]
            same = np.array_equal(last.theta, inner.baseline_) and np.array_equal(last.beta, inner.coef_)
            need(same and last.loss == inner.loss_, "the last round is not that of the model inside")
            steps = np.sum(self._steps, axis=0) if self._steps else np.zeros(p)
            need(not linear or np.array_equal(self.coef_, steps), "the coefficients are not the sum of the rounds")
        else:
            rows, strength = record["refit"]["rows"], record["refit"]["strength"]
            need(isinstance(rows, int) and rows >= 0 and strength > 0.0, "the refit is not one")
            self.refit_ = {"rows": rows, "strength": strength}


def _ranges(X: Array) -> Array:
    return np.array([X.min(axis=0), X.max(axis=0)])


def _numbers(values: Any, shape: tuple[int, ...] | None) -> Array:
    """Return finite numbers of a file, of this shape or in a row."""
    array = real_numbers(values, "a field") if len(values) else np.zeros(0)
    if not np.isfinite(array).all() or (array.shape != shape if shape is not None else array.ndim != 1):
        raise InputError(f"numbers of shape {array.shape} are not what should be there")
    return array


def _checked_stage(record: dict[str, Any], inner: Any) -> Stage:
    theta, beta = _numbers(record["theta"], inner.baseline_.shape), _numbers(record["beta"], inner.coef_.shape)
    named = ("loss", "loglik", "penalty", "kkt", "min_eigenvalue", "atom")
    numbers = dict(zip(named, _numbers([record[name] for name in named], (len(named),)).tolist(), strict=True))
    k, information, history = inner.active_.size, record["information"], record["history"]
    fine = (
        set(record) == set(Stage._fields)
        and min(numbers[name] for name in ("penalty", "kkt", "atom")) >= 0.0
        and record["convexity"] in ("global", "local", "none")
        and isinstance(record["reason"], str)
        and isinstance(history, list)
        and all(isinstance(row, dict) for row in history)
        and len(record["active"]) == k
    )
    if not fine:
        raise InputError("a round is not one")
    return Stage(
        theta=theta,
        beta=beta,
        **numbers,
        converged=flag(record["converged"], "converged"),
        n_iter=whole_number(record["n_iter"], "n_iter", 1),
        convexity=record["convexity"],
        folds=tuple(_numbers(record["folds"], None).tolist()),
        active=np.array([flag(value, "active") for value in record["active"]], dtype=bool),
        reason=record["reason"],
        history=history,
        information=None if information is None else _numbers(information, (k, k)),
    )
