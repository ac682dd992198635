"""Choose xi by predicting left-out environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import jobs, several_xi
from anchortm._util.estimators import BaseEstimator
from anchortm._util.frames import name_of
from anchortm._util.html import EstimatorInNotebook, Table, report
from anchortm._util.pipelines import model_of
from anchortm._util.progress import Task
from anchortm.engine.remarks import remarked
from anchortm.engine.specification import named_columns
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import group_codes
from anchortm.inputs.design import split_columns
from anchortm.inputs.formula import Formula
from anchortm.inputs.missing import Missing
from anchortm.models.base import check_model
from anchortm.models.from_formula import FormulaMixin
from anchortm.models.given import Given, given, whole
from anchortm.models.pipeline import as_pipeline, fit_arguments, with_parameters
from anchortm.selection.batches import LeftOut
from anchortm.selection.choice import Rule
from anchortm.selection.folds import Grid
from anchortm.selection.further import Further, choose_further, without_gaps
from anchortm.selection.left_out_result import LeaveOneEnvironmentOut
from anchortm.selection.left_out_table import left_out
from anchortm.selection.paired_choice import MIN_ROWS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["XiSearchCV"]


class _Found(NamedTuple):
    """What a search found: the penalties that are taken, its table, and what it rests on."""

    at: tuple[float, ...]
    results: pd.DataFrame
    loeo: LeaveOneEnvironmentOut | None
    left_out: LeftOut | None = None
    verdict: Further | None = None


class XiSearchCV(EstimatorInNotebook, FormulaMixin, BaseEstimator):
    """Choose the xi that best predicts left-out environments, and fit the model with it.

    Parameters
    ----------
    model : estimator
        Any model of this package, or a pipeline that ends in one; its own xi is not used. The transformers of a
        pipeline are fitted again without each left-out environment.
    xis : sequence of float
        Values of xi to choose from.
    objective : {"worst", "mean"} or float
        What to minimise over left-out environments: a quantile of their losses (a number between 0 and 1), the largest
        loss ("worst") or the average ("mean"). The loss of an environment is minus its skill: its mean negative
        log-likelihood, less that of a model without covariates that was fitted to the same rows.
    rule : {"paired", "smallest"}
        "paired" keeps the smallest xi (0, if it is among ``xis``) unless the objective of the best one is smaller by
        more than one standard error of the difference, over the same environments. "smallest" takes the xi with the
        smallest objective, however small the difference. As in version 0.1, its losses are negative log-likelihoods,
        and environments of any size can decide.
    one_standard_error : bool
        Choose the smallest xi whose objective is within one standard error of the best. This is the standard error of
        the difference from the best xi, over the same environments.
    design : {"like", "further"}
        "like" leaves out one environment after another: a place like these. "further" leaves out the outermost
        environments together, which asks about a place further out than those of the fit. It needs at least 8
        environments. It takes the xi with the smallest mean loss over its four folds, if the folds support it; see
        ``verdict_``.
    new : array or frame, optional
        Rows of the new place, without outcomes. They set the direction in which "further" leaves environments out.
    min_rows : int
        Environments with fewer rows, or with fewer than 5 events of a censored outcome, count in the mean only: not in
        quantiles, and not as the worst.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_xi_ : float
        The chosen xi.
    best_estimator_ : estimator
        The model at ``best_xi_``, fitted to all rows.
    results_ : DataFrame
        For each xi the objective, its difference from the xi that others are compared with (the smallest one, or the
        best one for ``one_standard_error`` and for the rule "smallest"), the standard error of the difference, the
        hardest environment and its number of rows. For "further" the objective and the loss of each fold.
    loeo_ : LeaveOneEnvironmentOut
        The results of each left-out environment at each xi; not available for "further".
    verdict_ : Further
        For "further" only: what the folds recommend, with the folds themselves.
    n_passes_ : int or None
        How often the table was read, if it is read in batches.

    See Also
    --------
    anchortm.xi_by_score_test, anchortm.gamma_from_quantile : other ways to choose xi

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> search = atm.XiSearchCV(atm.OrdinalRegression(), [0, 3, 10], objective="worst")
    >>> search.fit(formula, data)
    XiSearchCV(OrdinalRegression, worst): xi = 0
          objective  difference  standard_error  hardest  n  converged
    xi
    0.0    0.030011    0.000000        0.000000        7  8       True
    3.0    0.084680    0.054669        0.074710        5  8       True
    10.0   0.361073    0.331062        0.083598        5  8       True
    all environments have fewer than 10 rows, so that all of them count
    >>> search.best_estimator_.coef_.round(2)
    array([2.5 , 1.53])
    """

    _by: ClassVar[tuple[str, ...]] = ("xi",)
    loeo_: LeaveOneEnvironmentOut
    verdict_: Further
    results_: pd.DataFrame
    best_xi_: float
    best_estimator_: Any
    n_passes_: int | None

    def __init__(
        self,
        model: Any,
        xis: Sequence[float] = (0.0, 1.0, 10.0, 100.0, 1000.0),
        objective: str | float = 0.9,
        *,
        rule: str = "paired",
        one_standard_error: bool = False,
        design: str = "like",
        new: Covariates | AnyTable | None = None,
        min_rows: int = MIN_ROWS,
        cut: int | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.xis = xis
        self.objective = objective
        self.rule = rule
        self.one_standard_error = one_standard_error
        self.design = design
        self.new = new
        self.min_rows = min_rows
        self.cut = cut
        self.n_jobs = n_jobs
        self.progress = progress

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
        """Leave out each environment at each xi, choose xi, and fit the model with it to all rows.

        Parameters
        ----------
        X, y : covariates and outcome
            As for ``fit`` of the model; or a formula and a table, ``fit(formula, data)``.
        anchors : array, series, frame or list of columns, optional
            Anchors of the fits; by default the environments.
        environments : array, optional
            Environments to leave out; by default the anchors, or the column in the model's ``anchor_names``.
        sample_weight, offset : arrays, optional
            As for ``fit`` of the model. With a table, these and the environments may be names of columns.

        Returns
        -------
        self
            The fitted search.
        """
        rule = self._rule()
        model = as_pipeline(self.model)
        inner = model_of(model) if self._by == ("xi",) else model
        check_model(inner, {"lambda": "l1", "smooth": "smooth"}.get(self._by[0], "searches"))
        beside = {"environments": environments, "sample_weight": sample_weight, "offset": offset}
        if isinstance(X, str):
            return self._fit_formula(X, y, anchors, **beside)
        rows = whole(model, X=X, y=y, anchors=anchors, **beside)
        with Task(type(self).__name__, 1, self.progress), rows as (found, missing):
            return self._fit(rule, missing, **found)

    def _fit(
        self,
        rule: Rule,
        missing: Missing | None,
        X: Any,
        y: Any,
        anchors: Any,
        environments: Any,
        sample_weight: Any,
        offset: Any,
    ) -> Self:
        """Fit to whole rows; arguments as for ``fit``."""
        model = as_pipeline(self._searched())
        named = model.anchor_names is not None
        if environments is None:
            columns = named_columns(model.anchor_names, "anchor_names")
            environments = split_columns(X, columns)[1] if named else anchors
        if environments is None:
            raise InputError(
                "pass anchors=, or environments= to leave out, or name them after '|' in a formula (y ~ x | place)"
            )
        name = name_of(environments)
        if anchors is None and not named:
            groups, labels = group_codes(environments, self.cut)  # the same for all fits
            environments = anchors = labels[groups]
        rows = Given(model, X, y, anchors, sample_weight, offset, environments, missing=missing)
        own = self._left_out(rows, rule, name) if self.design == "like" else self._further(rows)
        at = own.at
        best = with_parameters(as_pipeline(self.model), **self._parameters(*at))
        given = {"anchors": anchors, "sample_weight": sample_weight, "offset": offset}
        groups, labels = group_codes(environments, self.cut)  # boosting may hold some out to choose its rounds
        best.fit(X, y, **fit_arguments(best, given | {"environments": labels[groups]}))
        self._keep(own, best)
        return self

    def _rule(self) -> Rule:
        """Return how to choose, after checking the arguments for it."""
        if self.design not in ("like", "further"):
            raise InputError(f"design must be 'like' or 'further', not {self.design!r}")
        return Rule.of(self.objective, self.rule, self.one_standard_error, self.min_rows)

    def _left_out(self, rows: Given, rule: Rule, name: Any = None) -> _Found:
        """Return the choice by environments that are left out one after another."""
        found = left_out(rows, self._problems(), self._by, self.xis, self.cut, self.n_jobs, self.progress)
        if name is not None:
            found = found._replace(environment_name=name)
        about = (type(model_of(self.model)).__name__, self._by, found.n_passes, found.n_missing, found.environment_name)
        loeo = LeaveOneEnvironmentOut(found.rows, *about, held=found.held)
        at, results = rule.choose(loeo.frame(), self._by)
        return _Found(at, results, loeo, found)

    def _will_read(self, formula: Formula) -> None:
        """Take note of the formula of the fit that follows: it reads ``new``, too."""
        self._reads = formula

    def _further(self, rows: Given) -> _Found:
        """Return the choice by the outermost environments, which are left out together."""
        formula = self.__dict__.pop("_reads", None)
        new = without_gaps(rows.model, formula, self.new)
        new = new if new is None or formula is None else formula.design(new)
        found = choose_further(rows, several_xi(self.xis), new, self.cut, jobs(self.n_jobs), self.progress)
        xi = found.smallest if self.rule == "smallest" else found.xi
        return _Found((xi,), found.table, None, None, found.verdict)

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any, environments: Any = None) -> Self:
        """Return the search by a table that is read in batches."""
        rule = self._rule()
        if self.design == "further":
            raise InputError("design='further' needs the rows in memory: read the table first, or use design='like'")
        columns = {"sample_weight": sample_weight, "offset": offset, "environments": environments}
        own = self._left_out(given(self._searched(), formula, data, **columns), rule)
        found, at = own.left_out, own.at
        assert found is not None  # noqa: S101
        assert found.full is not None  # noqa: S101
        wanted, xi = self._parameters(*at), at[-1]
        assert found.given is not None  # noqa: S101
        at_xi = [problem.at(xi=xi) for problem in found.problems]
        (j,) = (j for j, one in enumerate(at_xi) if all(getattr(one.spec, name) == x for name, x in wanted.items()))
        problem, result = at_xi[j], found.full[j, xi]  # the fit to all rows, from which left-out fits started
        result = remarked(problem, problem.fit() if problem.spec.n_restarts else result)
        best = found.given.reading(found.given.model.with_result(problem, result, **wanted), problem)
        self._keep(own, best)
        self.formula_ = best.formula_
        return self

    def _keep(self, found: _Found, best: Any) -> None:
        """Store the results in one assignment, so that an interrupted or failed search leaves the object unchanged."""
        chosen = {f"best_{name}_": value for name, value in zip(self._by, found.at, strict=True)}
        passes = None if found.loeo is None else found.loeo.n_passes
        own = {"results_": found.results, "best_estimator_": best, "n_passes_": passes}
        own |= {"loeo_": found.loeo} if found.loeo is not None else {"verdict_": found.verdict}
        for name in ("formula_", "loeo_", "verdict_", "_reads"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.__dict__.update(own | chosen)

    def _searched(self) -> Any:
        """Return the model that prepares the rows."""
        return self.model

    def _problems(self) -> Grid | None:
        """Return the function that makes the problems of a grid of penalties; None if only xi differs."""
        return None

    def _parameters(self, *at: float) -> dict[str, float]:
        """Return the arguments of the model for one row of the table of results."""
        return {"xi": at[0]}

    def _read_tables(self, formula: Formula) -> None:
        self.formula_ = self.best_estimator_.formula_ = formula

    def predict(self, X: Covariates, **options: Any) -> Any:
        """Return the predictions of the chosen model; arguments as for its ``predict``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, **options)

    def predict_distribution(self, X: Covariates, **options: Any) -> Any:
        """Return the predicted distributions of the chosen model; arguments as for its ``predict_distribution``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_distribution(X, **options)

    def predict_quantiles(self, X: Covariates, quantiles: Numbers = (0.1, 0.5, 0.9), **options: Any) -> Any:
        """Return the predicted quantiles of the chosen model; arguments as for its ``predict_quantiles``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_quantiles(X, quantiles, **options)

    def nll(self, X: Covariates, y: Outcome | None = None, **options: Any) -> Any:
        """Return the negative log-likelihood of each row under the chosen model; arguments as for its ``nll``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.nll(X, y, **options)

    def summary(self, **options: Any) -> Any:
        """Return the summary of the chosen model; arguments as for its ``summary``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.summary(**options)

    def score(self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None) -> float:
        """Return the mean log-likelihood of rows under the chosen model; arguments as for its ``score``."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, offset=offset))

    def plot(self, ax: Axis = None) -> Any:
        """Draw the objective against xi, with the choice marked, and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self, "best_estimator_")
        return plotting.xi_search(self, ax)

    @shown
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "best_xi_"):
            return super().__repr__(N_CHAR_MAX)
        return "\n".join([self._title(), self.results_.to_string(), *self._remarks()])

    def _remarks(self) -> tuple[str, ...]:
        """Return the lines below the table."""
        if self.design == "further":
            return (self.verdict_.sentence,)
        small = self._rule().remark(self.loeo_.frame(), self._by)
        return (*([small] if small else []), *self.loeo_.remarks)

    def _title(self) -> str:
        chosen = ", ".join(f"{name} = {getattr(self, f'best_{name}_'):g}" for name in self._by)
        how = "further" if self.design == "further" else self.objective
        return f"{type(self).__name__}({type(model_of(self.model)).__name__}, {how}): {chosen}"

    def _found(self) -> str | None:
        if not hasattr(self, "best_xi_"):
            return None
        at = tuple(getattr(self, f"best_{name}_") for name in self._by)
        chosen = self.results_.index.get_loc(at if len(at) > 1 else at[0])
        return report(self._title(), Table(self.results_, chosen=[chosen]), *self._remarks())
