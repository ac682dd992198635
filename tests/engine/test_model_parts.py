"""Parts of a model have one contract, and a new one is one new file."""

import numpy as np
import pytest
from engine.toy_part import PulledCoefficients
from scipy import optimize

import anchortm as atm
from anchortm.engine.model_parts import PARTS, Part
from anchortm.exceptions import InputError
from anchortm.inputs.parts import NAMES

RNG = np.random.default_rng(0)
N = 150
SITE = RNG.integers(0, 4, N)
X = RNG.normal(size=(N, 3)) + 0.3 * SITE[:, None]
Y = np.exp(0.5 * X[:, 0] - 0.2 * X[:, 1] + 0.6 * RNG.normal(size=N))
CENTRE = np.array([1.0, 0.0, -1.0])


@pytest.mark.parametrize("model", [atm.ContinuousLogit(order=3), atm.NormalLinear(), atm.ParametricSurvival()])
@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_a_toy_part_in_one_file(model, xi: float) -> None:
    """The unchanged solver minimises the loss that the part states, judged by an independent minimiser."""
    spec, strength = model.set_params(xi=xi).specification(), 0.4
    plain = model.problem(X, Y, anchors=SITE)
    part = PulledCoefficients(CENTRE, strength)
    result = type(plain).of(spec.at(more=(part,)), X, Y, SITE).fit()
    assert result.converged
    assert result.min_eigenvalue > 0.0
    A = np.eye(4)[SITE]
    P = A @ np.linalg.solve(A.T @ A, A.T)

    def loss(w: np.ndarray) -> float:
        k = result.baseline.size
        other = model.with_result(None, result_at(result, w[:k], w[k:]))
        r = other.residuals(X, Y)
        pull = 0.5 * strength * float(((w[k:] - CENTRE) ** 2).sum())
        return float(other.nll(X, Y).mean() + xi * r @ P @ r / N + pull)

    here = np.concatenate([result.baseline, result.coef])
    assert result.loss == pytest.approx(loss(here), rel=1e-10)
    moves = np.concatenate([np.zeros(result.baseline.size), np.ones(3)]).astype(bool)

    def along(beta: np.ndarray) -> float:
        w = here.copy()
        w[moves] = beta
        return loss(w)

    slopes = optimize.approx_fprime(result.coef, along, 1e-6)
    np.testing.assert_allclose(slopes, 0.0, atol=2e-5)
    alone = plain.fit().coef
    assert np.linalg.norm(result.coef - CENTRE) < np.linalg.norm(alone - CENTRE)


def result_at(result, baseline: np.ndarray, coef: np.ndarray):
    from dataclasses import replace

    return replace(result, baseline=baseline, coef=coef)


def test_a_part_that_is_not_asked_for_changes_nothing() -> None:
    model = atm.NormalLinear(xi=1.0)
    plain = model.problem(X, Y, anchors=SITE)
    idle = plain.at(more=(PulledCoefficients(CENTRE, 0.0),))
    np.testing.assert_array_equal(idle.fit().coef, plain.fit().coef)


def test_every_part_is_in_the_table_of_combinations() -> None:
    assert {part.key for part in PARTS} - {"collinear"} <= set(NAMES)
    assert all(isinstance(part, Part) for part in PARTS)
    plain = atm.NormalLinear().problem(X, Y)
    assert plain.parts() == []
    both = atm.NormalLinear(l1=0.1, l2=0.1).problem(X, Y)
    assert [part.key for part in both.parts()] == ["l2"]


def test_parts_that_need_the_rows_are_refused_where_rows_are_elsewhere() -> None:
    problem = atm.NormalLinear().problem(X, Y, anchors=SITE)
    with pytest.raises(InputError, match="not implemented for sites that share sums only"):
        PulledCoefficients(CENTRE, 1.0).afar(lambda rows: problem.objective, problem)
