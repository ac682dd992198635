"""The coordinator of a federated fit: models of this package, fitted to rows that stay at their sites."""

# house: long because it is the one class that users of sites hold, and most of it is documentation
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._util.checks import one_number, several_xi
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import remarked
from anchortm.engine.result import FitResult
from anchortm.engine.solve.continuation import solve_path
from anchortm.exceptions import IdentificationError, InputError, InputTypeError
from anchortm.federated.conversation import Conversation
from anchortm.federated.masks import FEWEST_SITES
from anchortm.federated.plan import Plan, learn
from anchortm.federated.restart import Reached, started_from, with_reasons
from anchortm.federated.sites_data import SitesData
from anchortm.federated.sites_structure import structured
from anchortm.federated.study import Given, Study
from anchortm.federated.transport import SiteLostError, Transport
from anchortm.federated.wire import WireError
from anchortm.inference.covariance import covariance, default_kind
from anchortm.inputs import parts
from anchortm.models.base import TransformationModel, check_model, problem_on
from anchortm.models.from_formula import with_roles
from anchortm.selection.path import AnchorPath

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.federated.assessment import FederatedAssessment
    from anchortm.federated.left_out import Kept
    from anchortm.selection.left_out_result import LeaveOneEnvironmentOut

__all__ = ["Coordinator"]

Array = NDArray[np.float64]
M = TypeVar("M", bound=TransformationModel)

TIMEOUT = 60.0  # seconds for one answer of a site


class Coordinator:
    """Fits models to the rows of several sites, which send sums only. The fit is that to all rows in one table.

    Parameters
    ----------
    transport : Transport
        The sites: ``LocalSites``, ``ProcessSites`` or a ``Hub``.
    study : Study, dict or file
        What the sites have agreed on: at least a formula.
    masks : bool
        Whether sites hide their sums behind masks that cancel in the total; from three sites on.
    timeout : float
        Seconds to wait for one answer of a site.

    Attributes
    ----------
    rounds, bytes_sent, bytes_received : int
        How many questions were asked so far, their size, and that of the answers, of all sites together.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.federated import Coordinator, LocalSites, Site
    >>> data = atm.datasets.load_boston_housing2()
    >>> sites = LocalSites([Site(data[k::3], name) for k, name in enumerate(["east", "north", "west"])])
    >>> coordinator = Coordinator(sites, {"formula": "cmedv ~ rm + lstat | site"})
    >>> model = coordinator.fit(atm.ContinuousLogit(), xi=1.0)
    >>> model.coef_.round(3)
    array([ 1.414, -0.326])
    >>> model.n_rows_, coordinator.rounds < 30
    (506, True)
    """

    def __init__(self, transport: Transport, study: Given, masks: bool = True, timeout: float = TIMEOUT) -> None:
        if not hasattr(transport, "ask") or not hasattr(transport, "names"):
            raise InputTypeError(f"transport must carry questions to sites, such as LocalSites, not {transport!r}")
        self.transport, self.study = transport, Study.of(study)
        self.masks, self.timeout = masks, one_number(timeout, "timeout")
        if not masks and self.study.masks and not self.study.members:
            self.study = Study.of({**self.study.record(), "masks": False})
        self._conversations: list[Conversation] = []
        self._known: dict[str, SitesData] = {}
        self._reached: Reached | None = None

    def __repr__(self) -> str:
        return f"Coordinator({len(self.transport.names)} sites, {self.study.formula!r})"

    @property
    def rounds(self) -> int:
        """Return how many questions were asked so far."""
        return sum(one.rounds for one in self._conversations)

    @property
    def bytes_sent(self) -> int:
        """Return the size of all questions."""
        return sum(one.bytes_sent for one in self._conversations)

    @property
    def bytes_received(self) -> int:
        """Return the size of all answers."""
        return sum(one.bytes_received for one in self._conversations)

    def prepare(self, model: TransformationModel | None = None) -> Plan:
        """Return what sums say of the sites before a fit: rows, levels, moments, a rounded histogram.

        Parameters
        ----------
        model : estimator, optional
            How to read the outcome; by default as numbers or times.

        Returns
        -------
        Plan

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Policy, Site
        >>> data, small = atm.datasets.load_wine(), Policy(least_cell=1)
        >>> sites = LocalSites([Site(data[:36], "a", small), Site(data[36:], "b", small)])
        >>> Coordinator(sites, {"formula": "rating ~ temp | site"}).prepare(atm.OrdinalRegression()).classes
        (1, 2, 3, 4, 5)
        """
        return self._data("continuous" if model is None else model.specification().outcome).plan

    def fit(self, model: M, xi: float | None = None, *, start: TransformationModel | None = None) -> M:
        """Return the model fitted to the rows of all sites.

        Parameters
        ----------
        model : estimator
            A model of this package. It is not changed.
        xi : float, optional
            The strength of the penalty; by default that of the model.
        start : fitted model, optional
            A fit whose parameters are near, such as one to which a site is added.

        Returns
        -------
        estimator
            A fitted model of the same class. It has no rows, as a model that was loaded from a file: it predicts, and
            has standard errors and a summary.

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[:150], "early"), Site(data[150:], "late")])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> coordinator.fit(atm.NormalLinear(), xi=1.0).slope_.round(2)
        array([-7.79])
        """
        model = self._at(model, xi)
        return self._solved(model, None if start is None else (start.result_.baseline, start.result_.others))

    def resume(self, model: M, xi: float | None = None) -> M:
        """Return the fit, begun again where an earlier one was when a site was lost.

        All sites must agree: the same ones must be there, with the same rows as before.

        Parameters
        ----------
        model : estimator
            The model of the fit that was interrupted.
        xi : float, optional
            The strength of the penalty; by default that of the model.

        Returns
        -------
        estimator

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[:150], "early"), Site(data[150:], "late")])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> coordinator.resume(atm.NormalLinear(), xi=1.0)
        Traceback (most recent call last):
            ...
        anchortm.exceptions.InputError: there is nothing to resume: no fit of this coordinator was interrupted
        """
        reached = self._reached
        if reached is None:
            raise InputError("there is nothing to resume: no fit of this coordinator was interrupted")
        model = self._at(model, xi)
        reached.check(type(model).__name__)
        data = self._data(model.specification().outcome)
        reached.compare(data.conversation.fingerprints)
        return self._solved(model, reached.parameters)

    def _solved(self, model: M, start: tuple[Array, Array] | None) -> M:
        """Return the fitted model; keep where the fit is if a site is lost."""
        problem = self.problem(model)
        try:
            found = problem.fit() if start is None else started_from(problem, start)
            made = self._fitted(model, problem, remarked(problem, found))
        except (SiteLostError, WireError):
            self._keep(type(model).__name__, problem)
            raise
        except (IdentificationError, ArithmeticError) as error:
            if type(error) not in (IdentificationError, ArithmeticError):
                raise
            raise with_reasons(problem, error) from error
        self._reached = None
        return made

    def _keep(self, model: str, problem: Problem) -> None:
        """Keep the best parameters of a fit that was interrupted, and end its session."""
        data: SitesData = problem.data
        self._known.clear()
        objective: Any = problem.objective.unpenalised
        own, xi = objective.ray(float(problem.spec.xi))
        v = objective.remote.lowest([xi * share**2 for share in own.mix])
        if v is not None:
            marks = data.conversation.fingerprints
            self._reached = Reached(model, objective.coordinates.split(v), marks)

    def path(self, model: TransformationModel, xis: Sequence[float]) -> AnchorPath:
        """Return the fits at several xi, each on the branch connected to xi = 0.

        Parameters
        ----------
        model : estimator
            A model of this package.
        xis : sequence of float
            Values of xi.

        Returns
        -------
        AnchorPath

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[:150], "early"), Site(data[150:], "late")])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> coordinator.path(atm.NormalLinear(), [0, 1, 10]).coefs.shape
        (3, 1)
        """
        asked = several_xi(xis)
        for xi in asked:
            self._at(model, xi).specification().check_xi()
        first = self.problem(self._at(model, asked[0]))
        first.check_anchors()
        objective, models = first.objective, []
        solutions = solve_path(objective, first.start(objective), asked, first.spec.options)
        for xi, solution in zip(asked, solutions, strict=True):
            problem = first.at(xi=xi).with_objective(objective)
            found = problem.result(objective, solution, [solution])
            models.append(self._fitted(self._at(model, xi), problem, found))
        return AnchorPath(
            np.array(asked),
            np.array([m.result_.effects[1] for m in models]),
            np.array([m.result_.baseline for m in models]),
            tuple(models[0].result_.effects[0]),
            tuple(models),
        )

    def score(self, model: TransformationModel) -> pd.DataFrame:
        """Return the mean negative log-likelihood of a fitted model at each site.

        Each site sends its number of rows and the sum over them, in clear text.

        Parameters
        ----------
        model : fitted model
            A model that this coordinator has fitted, or one with the same covariates and classes.

        Returns
        -------
        DataFrame
            One row for each site: ``site``, ``n`` and ``nll``.

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[:150], "early"), Site(data[150:], "late")])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> coordinator.score(coordinator.fit(atm.NormalLinear(), xi=1.0)).n.tolist()
        [150, 149]
        """
        import pandas as pd

        problem = self._fitted_problem(model)
        data, objective = problem.data, problem.objective
        inner = objective.unpenalised
        v = inner.coordinates.join(model.result_.baseline, model.result_.others)
        found = data.scores(inner, v, data.conversation.names, getattr(model.result_, "dispersion", 1.0))
        rows = [{"site": name, "n": own["n"], "nll": -own["loglik"] / own["weight"]} for name, own in found.items()]
        return pd.DataFrame(rows)

    def covariance(self, model: TransformationModel, kind: str | None = None) -> Array:
        """Return the covariance matrix of baseline and coefficients of a fitted model.

        Parameters
        ----------
        model : fitted model
            A model that this coordinator has fitted.
        kind : {"hessian", "sandwich"}, optional
            By default the inverse Hessian at xi = 0 and the sandwich otherwise, as for rows in memory.

        Returns
        -------
        array

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[:150], "early"), Site(data[150:], "late")])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> coordinator.covariance(coordinator.fit(atm.NormalLinear(), xi=1.0)).shape
        (3, 3)
        """
        return covariance(model.with_result(self._fitted_problem(model), model.result_), kind)

    def leave_one_site_out(self, model: TransformationModel, xis: Sequence[float]) -> LeaveOneEnvironmentOut:
        """Return how well each site is predicted by the fits to all others, for each xi.

        The baselines have the support of all sites. With masks there must be four sites, so that three are left; fits
        to nearly the same sites say about what the sites that differ would send.

        Parameters
        ----------
        model : estimator
            A model of this package.
        xis : sequence of float
            Values of xi.

        Returns
        -------
        LeaveOneEnvironmentOut

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[k * 60:(k + 1) * 60], f"part {k}") for k in range(4)])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> coordinator.leave_one_site_out(atm.NormalLinear(), [0, 1]).frame().shape[0]
        8
        """
        asked = several_xi(xis)
        problem = self.problem(self._at(model, 0.0))
        found = self._left_out(problem, type(model).__name__, asked)
        if isinstance(found, str):
            raise InputError(found)
        return found

    def assess(self, model: TransformationModel, xis: Sequence[float] = (0, 1, 3, 10)) -> FederatedAssessment:
        """Return whether anything helps at a new place, as far as sums over sites can show it.

        Each site is left out at each xi and at xi = 0, and scores the fits to the others; totals over sites give the
        score test of invariance, and rounded counts the coverage of intervals. The printed page ends with what needs
        single rows. Each xi takes one of the answers that ``Policy(most_calibrations=20)`` allows.

        Parameters
        ----------
        model : estimator
            A model of this package. Its own xi does not matter.
        xis : sequence of float
            Values of xi to compare with 0.

        Returns
        -------
        FederatedAssessment

        See Also
        --------
        anchortm.assess : for rows in memory

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[k * 42:(k + 1) * 42], f"part {k}") for k in range(7)])
        >>> coordinator = Coordinator(sites, {"formula": "waiting ~ duration | site"})
        >>> print(coordinator.assess(atm.NormalLinear(), [1, 10]).advice.sentence)
        At a place like these: keep maximum likelihood.
        """
        from anchortm.federated.assessment import assessed

        asked = sorted({0.0, *several_xi(xis)})
        if len(asked) == 1:
            raise InputError("assess compares values of xi with 0: give at least one above 0, such as xis=[1, 3, 10]")
        problem, name = self.problem(self._at(model, 0.0)), type(model).__name__
        kept: Kept = {}
        return assessed(problem, name, asked, self._left_out(problem, name, asked, kept), kept)

    def _left_out(
        self, problem: Problem, model: str, xis: list[float], kept: Kept | None = None
    ) -> LeaveOneEnvironmentOut | str:
        """Return the table of left-out sites, or why there are too few sites for it."""
        from anchortm.federated.left_out import leave_one_site_out

        wrong = [xi for xi in xis if not 0.0 <= xi < float("inf")]
        if wrong:
            raise InputError(f"xis must be finite numbers from 0 for sites, not {wrong[0]:g}")
        conversation = problem.data.conversation
        n, fewest = len(conversation.names), FEWEST_SITES + 1 if conversation.masked else 2
        if n < fewest:
            why = ", so that masks can hide what the others send: set masks=False if the sites agree"
            return f"leaving out one of {n} sites needs at least {fewest}{why if conversation.masked else ''}"
        return leave_one_site_out(problem, model, xis, lambda names: self._session(names, conversation.scale), kept)

    # sessions and problems

    def _session(self, names: Sequence[str], scale: str) -> Conversation:
        """Return a new session with some of the sites."""
        made = Conversation(self.transport, self.study, names, self.masks, scale, self.timeout)
        self._conversations.append(made)
        return made

    def _data(self, scale: str) -> SitesData:
        """Return the rows of all sites, read for one kind of outcome; they are learned once."""
        if scale not in self._known:
            conversation = self._session(list(self.transport.names), scale)
            self._known[scale] = SitesData(learn(conversation), conversation)
        return self._known[scale]

    @staticmethod
    def _at(model: M, xi: float | None) -> M:
        """Return a copy of the model, perhaps with another xi; refuse what is not a model."""
        check_model(model, "sites")
        own: M = clone(model)
        return own if xi is None else own.set_params(xi=xi)

    def problem(self, model: TransformationModel) -> Problem:
        """Return the problem that ``fit`` solves, after checking that sums are enough for it.

        Its ``objective`` asks the sites at any parameters, and each site decides whether it answers.

        Parameters
        ----------
        model : estimator
            A model of this package.

        Returns
        -------
        Problem

        Examples
        --------
        >>> import anchortm as atm
        >>> from anchortm.federated import Coordinator, LocalSites, Site
        >>> data = atm.datasets.load_geyser()
        >>> sites = LocalSites([Site(data[:150], "early"), Site(data[150:], "late")])
        >>> problem = Coordinator(sites, {"formula": "waiting ~ duration | site"}).problem(atm.NormalLinear())
        >>> problem.objective.n_rows, problem.objective.n_parameters
        (299, 3)
        """
        parts.refuse("sites", *model.specification().asked(), model.specification().likelihood)
        model.specification().check()
        data = self._data(model.specification().outcome)
        spec = _with_roles(model, data.plan).specification().check()
        spec.check_sums()
        if spec.levels is not None and tuple(spec.levels) != data.plan.classes:
            raise InputError("give the classes in the study, where all sites read them, not in the model")
        data = structured(data, spec)
        data.learn(spec)
        return problem_on(model, spec, data)

    def _fitted_problem(self, model: TransformationModel) -> Problem:
        """Return the problem of a fitted model, with its baseline."""
        result = model.result_
        problem = self.problem(self._at(model, result.xi))
        if list(problem.data.names) != result.coef_names:
            raise InputError(
                f"the model has the covariates {', '.join(result.coef_names)}, and the study "
                f"{', '.join(problem.data.names)}: use a model of this study"
            )
        return replace(problem, basis=result.basis)

    @staticmethod
    def _fitted(model: M, problem: Problem, result: FitResult) -> M:
        """Return the fitted model without rows, with its standard errors."""
        model = _with_roles(model, problem.data.plan)
        whole = model.with_result(problem, result)
        known = not result.l1 and not (result.ridged and result.random is not None)
        if default_kind(result, None) == "sandwich" and result.strict and known:
            covariance(whole, "sandwich")  # kept in the result
        made = model.with_result(None, result)
        made.formula_ = problem.data.plan.formula
        return made


def _with_roles(model: M, plan: Plan) -> M:
    """Return the model with the strata that the study's formula names, and with varying and scale terms as columns."""
    formula = plan.formula
    named = {"strata": formula.strata or None, "random": formula.random}
    known = {name: None for name, own in named.items() if own is not None and getattr(model, name, None) == own}
    made: M = with_roles(clone(model).set_params(**known) if known else model, formula)
    return made
