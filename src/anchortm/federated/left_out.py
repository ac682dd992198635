"""Leave one site out after another: fits to the others in sessions of their own, scored at the site left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.solve.continuation import first_solution, solve_path
from anchortm.exceptions import AnchorTMWarning, IdentificationError
from anchortm.federated.conversation import Conversation
from anchortm.federated.plan import learn
from anchortm.federated.sites_data import SitesData
from anchortm.federated.sites_structure import structured
from anchortm.selection.left_out_result import LeaveOneEnvironmentOut
from anchortm.selection.splits import bare_specification

__all__ = ["Kept", "leave_one_site_out"]

Array = NDArray[np.float64]
Begin = Callable[[Sequence[str]], Conversation]
Kept = dict[tuple[str, float], tuple[Array, Array]]

ASIDE = 1e-3  # how far apart the starts of different sessions are, in standardised parameters


def leave_one_site_out(
    problem: Problem, model: str, xis: list[float], begin: Begin, kept: Kept | None = None
) -> LeaveOneEnvironmentOut:
    """Return the table of left-out sites.

    Parameters
    ----------
    problem : Problem
        That of all sites.
    model : str
        Name of the model.
    xis : list of float
        Values of xi.
    begin : callable
        Begins a session with some sites.
    kept : dict, optional
        Takes the baseline and the coefficients of each fit, by the site left out and xi.
    """
    data: SitesData = problem.data
    values = xis if 0.0 in xis else [0.0, *xis]
    rows: list[dict[str, Any]] = []
    for name in data.conversation.names:
        others = [other for other in data.conversation.names if other != name]
        try:
            rows += _fold(problem, name, values, begin(others), {} if kept is None else kept)
        except IdentificationError as error:
            warn(f"environment {name}: {error}", AnchorTMWarning)
            lost = {"nll": math.nan, "skill": math.nan, "regret": math.nan, "converged": False, "notes": str(error)}
            coefs = {f"coef_{one}": math.nan for one in data.names}
            rows += [{"environment": name, "xi": xi, "n": math.nan} | lost | coefs for xi in values]
    return LeaveOneEnvironmentOut([row for row in rows if row["xi"] in xis], model, environment_name="site")


def _fold(
    problem: Problem, name: str, xis: list[float], conversation: Conversation, kept: Kept
) -> list[dict[str, Any]]:
    """Return the rows of the table for one site."""
    whole: SitesData = problem.data
    data = structured(SitesData(learn(conversation, whole.plan), conversation), problem.spec)
    data.learn(problem.spec)
    fold = problem.with_data(data)
    fold.check_anchors()
    objective, options = fold.objective, fold.spec.quiet
    start = _aside(fold.start(objective), conversation.session)
    solutions = solve_path(objective, start, xis, options)
    parameters = [objective.coordinates.split(solution.v) for solution in solutions]
    kept |= {(name, xi): pair for xi, pair in zip(xis, parameters, strict=True)}
    dispersions = [_dispersion(fold, objective, solution.v) for solution in solutions]
    found = [_scored(problem, pair, phi, name) for pair, phi in zip(parameters, dispersions, strict=True)]
    found.append(_null(problem, fold, name))
    scores = [-own["loglik"] / own["weight"] for own in found]
    at_zero = scores[xis.index(0.0)]
    rows = []
    for xi, solution, (_, beta), nll in zip(xis, solutions, parameters, scores, strict=False):
        about: dict[str, Any] = {"environment": name, "xi": xi, "n": found[0]["n"]}
        about |= {"events": found[0]["events"]} if data.plan.time else {}
        about |= {"nll": nll, "skill": scores[-1] - nll, "regret": nll - at_zero}
        about |= {"converged": solution.converged, "notes": ""}
        rows.append(about | {f"coef_{one}": b for one, b in zip(fold.names_of(data), beta.tolist(), strict=True)})
    return rows


def _aside(v: Array, session: str) -> Array:
    """Return a start that no other session has: the same one with other members would show what a site sends."""
    rng = np.random.default_rng(int(session[:16], 16))
    return np.asarray(v * (1.0 + ASIDE * rng.uniform(-1.0, 1.0, v.size)) + ASIDE * rng.uniform(-1.0, 1.0, v.size))


def _null(problem: Problem, fold: Problem, name: str) -> dict[str, Any]:
    """Return what the left-out site says of the fit without covariates, strata, scale and random effects."""
    own = bare(fold)
    objective: Any = own.objective.unpenalised
    nothing = objective.restricted(np.zeros(0, dtype=np.intp))
    start = _aside(own.start(nothing), own.data.conversation.session)
    v = nothing.whole(first_solution(nothing, start, own.spec.quiet).v)
    return _scored(bare(problem), objective.coordinates.split(v), _dispersion(own, objective, v), name)


def bare(problem: Problem) -> Problem:
    """Return the problem whose model has one baseline; its covariates are there, and are not asked about."""
    data: SitesData = problem.data
    plain = replace(data, mixture=None, arguments={}, clusters=None)
    return replace(problem, spec=bare_specification(problem.spec), data=plain)


def _dispersion(problem: Problem, objective: Objective, v: Array) -> float:
    """Return the dispersion of a fit, 1 for models without."""
    return float(getattr(problem.fitted_link(objective, v), "dispersion", 1.0))


def _scored(problem: Problem, parameters: tuple[Array, Array], dispersion: float, name: str) -> dict[str, Any]:
    """Return what the left-out site says of a fit to the others, in the session of all sites."""
    data: SitesData = problem.data
    objective: Any = problem.objective.unpenalised
    return data.scores(objective, objective.coordinates.join(*parameters), [name], dispersion)[name]
