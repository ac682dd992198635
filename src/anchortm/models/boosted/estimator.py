"""AnchorBoostedTM: transformation models whose shift is a sum of trees, boosted on the anchor loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import flag, generator, one_number, whole_number
from anchortm._util.estimators import BaseEstimator
from anchortm._util.html import EstimatorInNotebook
from anchortm._util.progress import Task
from anchortm.engine.data import Data, Strata
from anchortm.engine.preparation import prepare_unchecked
from anchortm.engine.problem import Problem, with_known_names
from anchortm.engine.remarks import remarked
from anchortm.engine.specification import Specification, named_columns
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs import parts
from anchortm.inputs.missing import whole_inputs
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.booster import Booster, Stage
from anchortm.models.boosted.growth import Binned, binned, grow
from anchortm.models.boosted.left_out import LeftOut
from anchortm.models.boosted.result import BoostedResult
from anchortm.models.boosted.rows import Watched, beside, check_covariates, checked, covariate_ranges
from anchortm.models.boosted.shape import Shape
from anchortm.models.boosted.trees import Tree
from anchortm.models.boosted.validation import Groups, check_validation, environment_groups, held_out, watch
from anchortm.models.from_formula import FormulaMixin
from anchortm.models.given import given

__all__ = ["AnchorBoostedTM"]

Array = NDArray[np.float64]


class State(NamedTuple):
    """The state after a round: the booster, the tree or step of the round, and the held-out loss."""

    booster: Booster
    stage: Stage
    found: Tree | Array | None
    held_out: float


class AnchorBoostedTM(LeftOut, EstimatorInNotebook, FormulaMixin, BaseEstimator):
    """A transformation model F(h(y) - f(x)), or a GLM, with a non-linear shift f, boosted on the anchor loss.

    Each round grows a tree on the pseudo-residuals r + 2 xi r'(P r), takes a shrunken Newton step in its leaf values,
    and refits the baseline. It supports all outcomes and kinds of censoring that the boosted model supports, with
    strata, varying effects, offsets and weights.

    Parameters
    ----------
    model : estimator
        The model to boost: any model of this package except ``CoxPH``, such as ``ContinuousLogit(order=4)`` or
        ``AnchorGLM(family="poisson")``. Leave its own xi at 0. Each of its strata has its own baseline, and f is the
        same in all of them. Covariates whose effects vary stay linear and are not in f. The penalties l2 and
        smooth act on the linear part of ``learner="linear+tree"``. Scale effects, random effects and l1 are not
        supported.
    xi : float
        Strength of the causal regulariser, at least 0 and finite.
    learner : {"tree", "linear+tree", "linear"}
        "tree": f is a sum of trees, which is constant outside the training range. "linear+tree": a linear part is
        added and refitted in each round, like the baseline; with 0 rounds this is the linear model. "linear": f is a
        linear function that grows by shrunken steps.
    n_rounds : int
        Number of rounds; with ``validation``, the largest number. 0 is the model without trees.
    learning_rate : float
        Fraction of the Newton step taken in each round (learning rate).
    max_leaf_nodes, min_samples_leaf : int
        Largest number of leaves of a tree, and smallest number of rows in a leaf, whatever their weights.
    l2_leaf : float
        Ridge penalty on the leaf values of a round: it acts like this many extra rows in each leaf (of curvature 1)
        that pull its value to 0.
    validation : None, float, list or "each"
        Environments to hold out in order to choose the number of rounds: None; a fraction of them, drawn at random;
        a list of their names; or "each" in turn. The chosen round has the lowest mean negative log-likelihood over
        the held-out environments.
    n_iter_no_change : int
        Stop after this many rounds without improvement on the held-out environments.
    all_rows : bool
        Whether to refit on all rows with the chosen number of rounds.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    random_state : int, optional
        Seed for drawing environments.
    place_variance : bool
        Whether the fit also measures how much places differ, ``place_sd_``: it then boosts once more for each place.

    Attributes
    ----------
    model_ : estimator
        The baseline, and the linear part if there is one, as a fitted model with f as its offset. ``kkt_``,
        ``min_eigenvalue_`` and ``converged_`` certify that it is optimal given f.
    trees_ : list of Tree
        One tree for each round.
    coef_ : array of shape (p,)
        Coefficients of the linear part; zeros without one.
    coef_names_ : list of str
        Names of the covariates of f.
    baselines_ : DataFrame
        Parameters of the baseline, one row for each stratum and each varying effect.
    n_rounds_ : int
        Number of rounds.
    loss_history_ : DataFrame
        For each round: the loss, its two parts, and ``held_out``, the mean negative log-likelihood of the held-out
        environments.
    feature_importances_ : array of shape (p,)
        Share of each covariate in the total gain of the splits; for the linear learner, in the sum of absolute
        standardised coefficients.
    held_out_ : list
        Names of the held-out environments.
    xi_, loss_, loglik_, penalty_, baseline_, kkt_, min_eigenvalue_, converged_, n_missing_, missing_, rows_used_
        As for the other models, given f. After a ``refit`` that changes the model they are those of the new rows:
        ``loss_`` is the mean negative log-likelihood plus the ridge towards the previous fit, ``penalty_`` is 0.
    place_sd_, place_sd_rowwise_, place_variance_
        As for the other models, from boosting without each place.
    refit_ : dict
        After ``refit``: number of rows and strength.
    recalibration_ : Recalibration
        After ``recalibrate`` or ``refit``: what the rows of a new place changed.
    n_features_in_, feature_names_in_ : int, array of str
        Number of columns of X, and their names if X has names.
    covariate_ranges_ : array of shape (2, p)
        Smallest and largest value of each covariate; of a varying effect, the range over which it varies.
    formula_ : Formula
        After ``from_formula``: the formula.

    See Also
    --------
    anchortm.AnchorBoosting : anchor boosting of squared errors, for comparison

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

    def __init__(
        self,
        model: TransformationModel,
        xi: float = 0.0,
        *,
        learner: Literal["tree", "linear+tree", "linear"] = "tree",
        n_rounds: int = 200,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        l2_leaf: float = 1.0,
        validation: float | str | Iterable[Any] | None = None,
        n_iter_no_change: int = 20,
        all_rows: bool = True,
        cut: int | None = None,
        random_state: Seed = None,
        place_variance: bool = False,
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
        self.place_variance = place_variance

    @property
    def anchor_names(self) -> Any:
        """Return the columns of X that the boosted model uses as anchors."""
        return getattr(self.model, "anchor_names", None)

    def specification(self) -> Specification:
        """Return the specification of the boosted model, with the xi of this estimator."""
        if not isinstance(self.model, TransformationModel):
            raise InputTypeError(
                f"model must be an estimator of this package, such as ContinuousProbit(), not {self.model!r}"
            )
        spec = self.model.specification()
        parts.refuse("boosting", spec.likelihood, *spec.asked(), *(["infinite"] if self.xi == math.inf else []))
        for name, unused in (("penalty_factor", None), ("n_restarts", 0)):
            if getattr(self.model, name) is not unused:
                raise InputError(f"boosting does not use {name}: leave it out")
        if getattr(self.model, "alpha", None) == "ml":
            raise InputError("alpha='ml' estimates alpha before trees are grown, without them: give alpha a number")
        return spec.at(xi=self.xi, finite_xi=True)

    def check(self) -> Specification:
        """Return the specification of the boosted model; raise an error if an argument is out of range."""
        if self.learner not in ("tree", "linear+tree", "linear"):
            raise InputError(f"learner must be 'tree', 'linear+tree' or 'linear', not {self.learner!r}")
        for name, least in (("n_rounds", 0), ("min_samples_leaf", 1), ("n_iter_no_change", 1), ("max_leaf_nodes", 2)):
            whole_number(getattr(self, name), name, least)
        if not 0.0 < one_number(self.learning_rate, "learning_rate") <= 1.0:
            raise InputError(f"learning_rate must lie in (0, 1], not {self.learning_rate!r}")
        if not 0.0 <= one_number(self.l2_leaf, "l2_leaf") < math.inf:
            raise InputError(f"l2_leaf must be at least 0 and finite, not {self.l2_leaf!r}")
        flag(self.all_rows, "all_rows")
        flag(self.place_variance, "place_variance")
        if self.cut is not None:
            whole_number(self.cut, "cut", 2)
        generator(self.random_state)
        check_validation(self.validation, self.all_rows)
        return self.specification().check()

    def problem(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Problem:
        """Return the checked inputs of ``fit``, with the trees' covariates as design; arguments as for ``fit``."""
        spec = self.check()
        if isinstance(X, str):
            return given(self, X, y, anchors, sample_weight=sample_weight, offset=offset).prepared()[1]
        if y is None:
            raise InputError("requires y to be passed, but the target y is None: fit(X, y)")
        if self.model.xi != 0:
            raise InputError(
                f"xi = {self.model.xi!r} of the inner model is not used: pass it to AnchorBoostedTM(model, xi=...)"
            )
        if X is None:
            raise InputError("X is None: boosting needs covariates; without them fit the model itself")
        data = prepare_unchecked(spec, X, y, anchors, sample_weight, offset)
        check_covariates(self.learner, spec, data.design)
        known = data.places is not None  # else environments, which have weights, may come later
        plain = spec if known else spec.at(environment_weights="rows")
        made = self._kind.on(plain, checked(self.learner, spec, data))
        made.check_anchors()
        return replace(made, spec=spec)

    @property
    def _kind(self) -> type[Problem]:
        return self.model._problem_type

    def fit(
        self,
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        environments: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Self:
        """Fit the model by boosting.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n, p)
            Covariates. Trees need them as columns of numbers, so that a sparse X is filled in, up to 50 million
            numbers. Or a formula, with a table in the place of y: ``fit(formula, data)``, see ``from_formula``.
        y : array, Response or ordered categorical
            The outcome. For censored outcomes see ``Surv`` and ``Interval``.
        anchors : array, series, frame or list of columns, optional
            Where rows come from. Needed unless xi is 0.
        environments : array, optional
            Environments for ``validation``, by default the levels of the largest anchor factor; and the places whose
            shifts ``place_sd_`` measures, by default the anchors if they are one factor.
        sample_weight : array of non-negative numbers, optional
            A weight of 2 counts a row twice.
        offset : array, optional
            Added to f(x).

        Returns
        -------
        self
            The fitted model.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.AnchorBoostedTM(atm.ContinuousProbit(), xi=1.0, validation=0.3, random_state=0)
        >>> model.fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town).n_rounds_
        53
        """
        beside = {"environments": environments, "sample_weight": sample_weight, "offset": offset}
        if isinstance(X, str):
            return self._fit_formula(X, y, anchors, **beside)
        with whole_inputs(self.check(), X=X, y=y, anchors=anchors, **beside) as (whole, _):
            own = whole.pop("environments")
            problem = self.problem(**whole)
            groups = None if own is None else environment_groups(own, problem.data, self.cut, self.validation)
        data = problem.data.numbered()
        if groups is not None:
            data = data._replace(environments=Strata(groups[0], tuple(groups[1].tolist())))
        data = with_known_names(self._kind.on(problem.spec, data)).data
        if not self.place_variance:
            return self._fit(problem.spec, data, groups)
        fitted = copy(self)._fit(problem.spec, data, groups)  # a failure below leaves this model unchanged
        fitted.place_variance_  # noqa: B018 - computes it
        self.__dict__ = fitted.__dict__
        return self

    def _fit_data(self, spec: Specification, data: Data) -> Self:
        """Fit to checked rows; return self."""
        return self._fit(spec, checked(self.learner, spec, data))

    def _fit(self, spec: Specification, data: Data, groups: Groups | None = None) -> Self:
        names, sets = held_out(self.validation, data, groups, self.random_state)
        gone = [[name] for name in names] if isinstance(self.validation, str) else [names] * len(sets)
        kept = [
            checked(
                self.learner, spec, data.subset(np.setdiff1d(np.arange(len(data.response)), np.concatenate(held))), lost
            )
            for held, lost in zip(sets, gone, strict=True)
        ]
        # all fits advance together, round by round
        watched = [
            self._boost(spec, part, (data.take(np.concatenate(held)), [own.size for own in held]))
            for part, held in zip(kept, sets, strict=True)
        ]
        with Task("boosting, round", self.n_rounds * (2 if watched and self.all_rows else 1)) as task:
            curve, states, best = watch(task.each(zip(*watched, strict=False)), self.n_rounds, self.n_iter_no_change)
            rounds = int(np.argmin(curve)) if curve else self.n_rounds
            if best is not None and not self.all_rows:
                part, states = kept[0], [*states[:rounds], states[rounds]._replace(booster=best)]
            else:
                task.total = task.done + rounds
                part, states = data, list(task.each(islice(self._boost(spec, data), rounds + 1)))
        inner, boosted = self._stored(part, states, np.array(curve), names)
        return self._keep(model_=inner, boosted_=boosted, _data=part)

    def _boost(self, spec: Specification, data: Data, held: tuple[Data, list[int]] | None = None) -> Iterator[State]:
        """Yield the state after 0, 1, ... rounds until none improves the loss; ``held``: held-out rows and sizes."""
        booster = Booster(spec, beside(self.learner, data), self._kind)
        X = data.design.matrix[booster.order]
        bins = binned(X) if self.learner != "linear" else None
        watched = None if held is None else Watched(booster.problem, self.learner, *held)
        found: Tree | Array | None = None
        while True:
            yield State(booster, booster.stage(), found, math.nan if watched is None else booster.nll(watched))
            found = self._round(booster, X, bins)
            if found is None:
                return
            if watched is not None:
                watched.f += found.predict(watched.X) if isinstance(found, Tree) else watched.X @ found

    def _round(self, booster: Booster, X: Array, bins: Binned | None) -> Tree | Array | None:
        """Return the tree or the coefficients that a round adds to f; None if nothing improves the loss."""
        if bins is None:
            scale = X.std(axis=0)
            found = booster.step(X / scale, self.learning_rate)
            return None if found is None else found / scale
        pull = booster.pseudo_residuals()
        tree, leaf = grow(bins, pull, booster.weights, self.max_leaf_nodes, self.min_samples_leaf, self.l2_leaf)
        if tree.leaves.size < 2:
            return None
        values = booster.leaf_step(leaf, tree.leaves.size, self.learning_rate, self.l2_leaf)
        return None if values is None else tree.with_values(values)

    def with_boosted(self, model: TransformationModel, boosted: BoostedResult) -> Self:
        """Return a copy with these results: ``model``, the fitted inner model, and ``boosted``."""
        made: Self = clone(self)
        made.model_, made.boosted_ = model, boosted
        return made

    def _stored(self, data: Data, states: list[State], curve: Array, held_out: list[Any]) -> tuple[Any, BoostedResult]:
        """Return the fitted inner model and the result of boosting."""
        problem, found = states[-1].booster.result()
        base = clone(self.model).set_params(xi=self.xi, anchor_names=None)
        trees = [state.found for state in states if isinstance(state.found, Tree)]
        steps = [state.found for state in states if isinstance(state.found, np.ndarray)]
        X, names = data.design.matrix, list(data.design.names)
        covariates = names if data.mixture is None else list(data.mixture.corners.covariates)
        others = sum(len(named_columns(getattr(self.model, what), what)) for what in ("anchor_names", "strata"))
        shape = Shape(self.learner, trees, steps, np.zeros(X.shape[1]), X.std(axis=0))
        boosted = BoostedResult(
            shape,
            [state.stage for state in states],
            curve,
            held_out,
            names,
            covariates,
            data.columns_given,
            len(covariates) + others,
            covariate_ranges(data),
            np.zeros(0),
            data.offset is not None,
        )
        result = replace(remarked(problem, found), columns=boosted.columns, n_features_in=boosted.n_features_in)
        return base.with_result(problem, result), boosted.first(len(states) - 1, result.coef)

    def _found(self) -> Any:
        return self.summary() if "boosted_" in self.__dict__ else None
