"""Effects on the scale of y: against finite differences of predictions, closed forms and the bootstrap."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from simulated import simulate

import anchortm as atm
from anchortm.exceptions import InputError

mpl.use("Agg")


def frame(seed: int, n: int = 300):
    x, latent, site = simulate(seed, n=n)
    X = pd.DataFrame(x, columns=["age", "dose"])
    X["treated"] = (np.random.default_rng(seed).random(n) < 0.4).astype(float)
    return X, latent + 0.7 * X.treated.to_numpy(), site


CASES = {
    "normal": (atm.NormalLinear(xi=1.0), lambda z: z, 1.0),
    "cox": (atm.ProportionalHazards(order=4), lambda z: atm.Surv(np.exp(z / 3), np.ones(z.size)), 1.2),
    "logit": (atm.ContinuousLogit(order=4, xi=2.0), lambda z: z, 1.0),
    "ordinal": (atm.OrdinalRegression(xi=2.0), lambda z: np.digitize(z, [-1, 1, 3]), 1),
    "count": (atm.CountRegression(order=2, support=(0, 20)), lambda z: np.floor(np.exp(z / 2)).astype(int), 2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("of", ["median", "probability"])
def test_by_differences_of_predictions(name: str, of: str) -> None:
    model, response, above = CASES[name]
    if of == "median" and name in ("ordinal", "count"):
        return  # refused, see below
    X, latent, site = frame(1)
    fit = model.fit(X, response(latent), anchors=site)
    result = atm.marginal_effects(fit, X, of, above=above if of == "probability" else None).frame()

    def outcome(X):
        dist = fit.predict_distribution(X)
        return dist.median() if of == "median" else dist.sf(above)

    for column in ("age", "dose"):
        up, down = X.copy(), X.copy()
        up[column] += 1e-5
        down[column] -= 1e-5
        slope = (outcome(up) - outcome(down)) / 2e-5
        assert result.loc[column, "effect"] == pytest.approx(slope.mean(), rel=1e-4)
        assert result.loc[column, "per"] == "unit"
    change = outcome(X.assign(treated=1.0)) - outcome(X.assign(treated=0.0))
    assert result.loc["treated", "effect"] == pytest.approx(change.mean())
    assert result.loc["treated", "per"] == "0 to 1"


def test_normal_model_has_its_slopes() -> None:
    X, latent, _ = frame(2)
    fit = atm.NormalLinear().fit(X, latent)
    table = atm.marginal_effects(fit, X).frame()
    np.testing.assert_allclose(table.effect, fit.slope_)
    k = 3
    J = np.hstack([np.zeros((k, 1)), -(fit.slope_ / fit.baseline_[1])[:, None], np.eye(k) / fit.baseline_[1]])
    np.testing.assert_allclose(table["std. error"], np.sqrt(np.diag(J @ fit.covariance() @ J.T)), rtol=1e-6)


def test_what_is_binary_is_the_fit_s_to_say() -> None:
    X, latent, _ = frame(2)
    fit = atm.ContinuousLogit(order=3).fit(X, latent)
    one = atm.marginal_effects(fit, pd.DataFrame({"age": [1.0], "dose": [0.0], "treated": [1.0]})).frame()
    assert one.per.tolist() == ["unit", "unit", "0 to 1"]


def test_variables_of_a_formula() -> None:
    """Factors level by level, splines and interactions as a whole: against predictions for changed tables."""
    X, latent, site = frame(5)
    data = X.assign(y=latent, site=site, stage=np.array(list("ABC"))[np.arange(300) % 3])
    formula = "y ~ bs(age, 4) + dose * stage + treated | site"
    fit = atm.ContinuousLogit.from_formula(formula, data, xi=1.0, order=3)

    def outcome(table):
        return fit.predict_distribution(table).sf(1.0).mean()

    effects = atm.marginal_effects(fit, data, "probability", above=1.0).frame()
    assert list(effects.index) == ["age", "dose", "treated", "stage[B]", "stage[C]"]
    assert effects.loc["stage[C]", "effect"] == pytest.approx(
        outcome(data.assign(stage="C")) - outcome(data.assign(stage="A"))
    )
    assert effects.loc["stage[C]", "per"] == "instead of A"
    assert effects.loc["treated", "effect"] == pytest.approx(
        outcome(data.assign(treated=1.0)) - outcome(data.assign(treated=0.0))
    )
    slope = (outcome(data.assign(dose=data.dose + 1e-4)) - outcome(data.assign(dose=data.dose - 1e-4))) / 2e-4
    assert effects.loc["dose", "effect"] == pytest.approx(slope, rel=1e-4)
    inside = data[(data.age > data.age.min()) & (data.age < data.age.max())]
    slope = (outcome(inside.assign(age=inside.age + 1e-4)) - outcome(inside.assign(age=inside.age - 1e-4))) / 2e-4
    assert atm.marginal_effects(fit, inside, "probability", above=1.0).frame().loc["age", "effect"] == pytest.approx(
        slope, rel=1e-3
    )


def test_errors_agree_with_the_bootstrap() -> None:
    X, latent, site = frame(3, n=500)
    fit = atm.ContinuousLogit(order=3, xi=1.0).fit(X, latent, anchors=site)
    boot = fit.bootstrap(200, clusters=np.arange(500), random_state=0)
    for options in ({}, {"of": "probability", "above": 1.0}):
        delta, draws = (atm.marginal_effects(fit, X, uncertainty=u, **options).frame() for u in (None, boot))
        np.testing.assert_allclose(delta["std. error"], draws["std. error"], rtol=0.25)
        np.testing.assert_array_equal(delta.effect, draws.effect)


def test_it_prints_plots_and_refuses() -> None:
    X, latent, _ = frame(4)
    fit = atm.ContinuousLogit(order=3).fit(X, latent)
    result = atm.marginal_effects(fit, X, "probability", above=2.0)
    assert "Average change of P(Y > 2.0)" in repr(result)
    assert result.plot().get_xlabel() == "change of P(Y > 2.0)"
    ordinal = atm.OrdinalRegression().fit(X, np.digitize(latent, [0, 2]))
    for call, message in (
        (lambda: atm.marginal_effects(fit, X, "mean"), "'median' or 'probability'"),
        (lambda: atm.marginal_effects(fit, X, "probability"), "needs above=c"),
        (lambda: atm.marginal_effects(fit, X, above=1.0), "goes with of='probability'"),
        (lambda: atm.marginal_effects(ordinal, X), "jumps"),
        (lambda: atm.marginal_effects(fit, X, "probability", above=np.nan), "one number or class"),
        (lambda: atm.marginal_effects(fit, X, "probability", above=[0.0, 1.0]), "one number or class"),
        (lambda: atm.marginal_effects(fit, X, uncertainty=np.eye(3)), "has shape"),
    ):
        with pytest.raises(InputError, match=message):
            call()
