"""Structural models: exact sampling for every link, interventions, and the paper's scenarios with their numbers."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

import anchortm as atm
from anchortm.bases import BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.exceptions import InputError
from anchortm.sem import SEM, Additive, Choice, Linear, Normal, Rademacher, Transformation
from anchortm.simulate.scenarios import iv1_model

mpl.use("Agg")


def model(link: str = "probit", basis=None, theta=(0.0, 1.0), **options) -> SEM:
    return SEM(
        Rademacher(),
        Linear(Normal.of(sd=0.75)),
        Linear(Normal.of(sd=0.75, size=2), anchors=[[0.3], [0.0]], hidden=[[0.6], [1.0]]),
        Transformation(link, basis or LinearBasis(), theta, [0.5, -0.2], [1.0], **options),
    )


BASES = {
    "linear": (LinearBasis(), [0.5, 2.0]),
    "log-linear": (LogLinearBasis(), [0.5, 2.0]),
    "bernstein": (BernsteinBasis(3, (-2.0, 3.0)), [-3.0, 0.0, 0.5, 4.0]),
}


@pytest.mark.parametrize("link", ["probit", "logit", "cloglog", "loglog"])
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_outcomes_are_exact_draws_given_their_parents(link: str, basis: str, sign: float) -> None:
    sem = model(link, *BASES[basis], anchors=[0.7], sign=sign)
    sample = sem.sample(20_000, random_state=1)
    u = sem.response.distribution(sample.A, sample.H, sample.X).cdf(sample.Y[:, None])[:, 0]
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u, sample.H[:, 0])[0, 1]) < 0.025


def test_discrete_outcomes() -> None:
    ordinal = model("logit", OrdinalBasis(("low", "mid", "high")), [-1.0, 1.0])
    sample = ordinal.sample(50_000, random_state=2)
    p = ordinal.response.distribution(sample.A, sample.H, sample.X).probabilities().mean(axis=0)
    found = [(level == sample.Y).mean() for level in ordinal.labels()]
    np.testing.assert_allclose(found, p, atol=0.01)
    count = model("cloglog", CountBasis(2, (0, 20)), [-1.0, 0.0, 2.0])
    sample = count.sample(50_000, random_state=3)
    dist = count.response.distribution(sample.A, sample.H, sample.X)
    for k in (0, 3, 10):
        assert (k >= sample.Y).mean() == pytest.approx(dist.cdf(float(k)).mean(), abs=0.01)


def test_equations_and_interventions() -> None:
    sem = model()
    sample = sem.sample(200_000, random_state=4)
    assert set(np.unique(sample.A)) == {-1.0, 1.0}
    slope = np.linalg.lstsq(np.hstack([sample.A, sample.H]), sample.X, rcond=None)[0]
    np.testing.assert_allclose(slope.T, [[0.3, 0.6], [0.0, 1.0]], atol=0.01)
    assert sample.H.std() == pytest.approx(0.75, abs=0.01)
    done = sem.do(A=4.0).sample(100_000, random_state=5)
    assert (done.A == 4.0).all()
    assert done.X[:, 0].mean() == pytest.approx(1.2, abs=0.02)
    pushed = sem.push(Normal.of(mean=2.0, sd=3.0)).sample(100_000, random_state=6)
    assert pushed.A.mean() == pytest.approx(2.0, abs=0.05)
    assert pushed.A.std() == pytest.approx(3.0, abs=0.05)
    assert sem.sample(3, random_state=7).Y.tolist() == sem.sample(3, random_state=7).Y.tolist()
    rng = np.random.default_rng(8)
    assert sem.sample(3, rng).Y.tolist() != sem.sample(3, rng).Y.tolist()
    skewed = sem.push(Choice((0.0, 1.0), (0.9, 0.1))).sample(10_000, random_state=9)
    assert skewed.A.mean() == pytest.approx(0.1, abs=0.02)


def test_graph() -> None:
    assert model().edges() == [("A", "X"), ("H", "X"), ("H", "Y"), ("X", "Y")]
    assert ("A", "Y") in model(anchors=[1.0]).edges()
    hidden = SEM(
        Normal.of(size=2),
        Linear(Normal.of(), anchors=[[1.0, 0.0]]),
        Linear(Normal.of()),
        Additive(lambda A, H, X: X[:, 0], Normal.of(), ("X",)),
    )
    assert hidden.edges() == [("A", "H"), ("X", "Y")]
    ax = model().draw()
    assert {text.get_text() for text in ax.texts} >= {"A", "H", "X", "Y"}


def test_refusals() -> None:
    for call, message in (
        (lambda: model().do(A=[1.0, 2.0]), "1 anchors, not 2"),
        (lambda: model(theta=(0.0, -1.0)), "increasing"),
        (lambda: model("tanh"), "unknown link"),
        (lambda: SEM(Rademacher(), Linear(Normal.of()), Linear(Normal.of(), anchors=[[1.0, 2.0]]), None), "has shape"),
        (lambda: Normal.of(sd=-1.0), "none negative"),
        (lambda: Normal((0.0,), (1.0, 2.0)), "as many means"),
        (lambda: Choice((0.0, 1.0), (0.9, 0.2)), "with sum 1"),
        (lambda: model(theta=(0.0, 0.0)), "increasing"),
        (lambda: model(theta=(0.0, 1.0, 2.0)), "2 parameters"),
        (lambda: model(anchors=[1.0, 2.0]), "effects of anchors have shape"),
        (lambda: model().do(A=np.nan), "finite values"),
        (lambda: atm.scenarios.scenario("iv3"), "unknown scenario"),
        (lambda: atm.scenarios.la("buhlmann"), "has the variants"),
        (lambda: atm.scenarios.la(mxx="run"), "does not have the settings mxx"),
        (lambda: atm.scenarios.la(mx="often").draw(), "mx must be"),
        (lambda: atm.scenarios.iv2(shift_on="H").draw(), "shift_on must be"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_iv1_parameters_as_printed() -> None:
    theta = iv1_model(atm.scenarios.iv1().settings).response.theta
    np.testing.assert_allclose(theta, [-7.034, 2.050, 3.538, 4.634, 5.540, 6.328, 7.034], atol=6e-4)
    assert atm.scenarios.iv1("paper").settings["do_A"] == 3.6
    run = atm.scenarios.iv1().draw(0)
    assert run.train.Y.shape == (1000,)
    assert run.test["do(12)"].X.mean() == pytest.approx(3.6, abs=0.1)


def test_e2_attenuation_not_bias() -> None:
    """With many rows beta goes from 0.5 towards 0.2736, the attenuated causal effect, as xi grows (claim E2)."""
    run = atm.scenarios.iv1(n_train=100_000).draw(3)
    y, X, A = run.train.Y, run.train.X, run.train.A
    path = atm.anchor_path(atm.ContinuousProbit(), X, y, A[:, 0].astype(int), [0, 7, 1e4])
    np.testing.assert_allclose(-path.coefs[:, 0], [0.500, 0.350, 0.251], atol=0.03)


@pytest.mark.parametrize(("variant", "plain", "anchored"), [("paper", 47.5, 3.5), ("code", 58.6, 4.2)])
def test_n2_mean_nll_of_scenario_nla(variant: str, plain: float, anchored: float) -> None:
    scenario = atm.scenarios.nla(variant)
    means = []
    for seed in range(12):
        run = scenario.draw(seed)
        test = run.test["push"]
        fits = (atm.ContinuousProbit(xi=xi).fit(run.train.X, run.train.Y, anchors=run.train.A) for xi in (0.0, 6.0))
        means.append([fit.nll(test.X, test.Y).mean() for fit in fits])
    np.testing.assert_allclose(np.median(means, axis=0), [plain, anchored], rtol=0.25)


def test_c_medians_of_scenario_la() -> None:
    scenario = atm.scenarios.la()
    quantiles = []
    for seed in range(25):
        run = scenario.draw(seed)
        test = run.test["push"]
        fits = (atm.NormalLinear(xi=xi).fit(run.train.X, run.train.Y, anchors=run.train.A) for xi in (0.0, 6.0))
        quantiles.append([np.quantile(fit.nll(test.X, test.Y), [0.0, 0.5, 0.99]) for fit in fits])
    wanted = [[1.617, 3.532, 29.42], [2.545, 2.874, 6.701]]
    np.testing.assert_allclose(np.median(quantiles, axis=0), wanted, rtol=0.25)


def test_f_coefficients_of_scenario_iv2() -> None:
    """The published settings with a weak and a strong instrument: median beta along xi."""
    for mx, wanted in ((0.5, [0.996, 0.666, 0.440]), (2.0, [0.565, 0.454, 0.432])):
        scenario = atm.scenarios.iv2("code", mx=mx)
        betas = []
        for seed in range(15):
            train = scenario.draw(seed).train
            anchors = (train.A[:, 0] > 0).astype(int)
            path = atm.anchor_path(atm.OrdinalRegression(), train.X, train.Y, anchors, [0, 10, 1e4])
            betas.append(path.coefs[:, 0])
        np.testing.assert_allclose(np.median(betas, axis=0), wanted, atol=0.08)


def test_variants_differ_as_documented() -> None:
    assert atm.scenarios.nla("buhlmann").settings["anchor_effect"] == -2.0
    run = atm.scenarios.la("code").draw(0)
    assert run.test["push"].A.std() == pytest.approx(np.sqrt(10), abs=0.15)
    grid = atm.scenarios.iv1("code", n_train=200, n_test=100).draw(0)
    assert grid.train.Y.shape == (200,)
    literal = atm.scenarios.iv2("paper", mx=2.0).draw(0)
    assert set(np.unique(literal.train.A)) == {-1.0, 1.0}
    assert literal.test["do(3)"].X.mean() == pytest.approx(6.0, abs=0.1)
    assert "variant='paper'" in repr(atm.scenarios.iv2("paper"))
