"""R's coxph, lmer, glmer and clmm on published data: estimates, likelihoods, variances, residuals, curves, effects."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE

import anchortm as atm

FOLDER = REFERENCE / "r2"
COX = json.loads((FOLDER / "cox.json").read_text())
MIXED = json.loads((FOLDER / "mixed.json").read_text())


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv")


# case without its ties -> table, covariates, columns of the outcome, and what else the call has
LUNG = ["age", "sex", "ph.ecog", "wt.loss"]
CALLS: dict[str, tuple[str, list[str], tuple[str, ...], dict[str, str]]] = {
    "lung": ("lung", [*LUNG, "ph.karno"], ("time", "d"), {}),
    "lung_rob": ("lung", LUNG, ("time", "d"), {"robust": "rows"}),
    "lung_clus": ("lung", LUNG, ("time", "d"), {"robust": "inst"}),
    "lung_strat": ("lung", ["age", "ph.ecog", "wt.loss"], ("time", "d"), {"strata": "sex"}),
    "lung_w": ("lung", LUNG, ("time", "d"), {"weights": "w"}),
    "lung_wrob": ("lung", LUNG, ("time", "d"), {"weights": "w", "robust": "rows"}),
    "lung_ties": ("lung", LUNG, ("t100", "d"), {}),
    "lung_tieswstrat": (
        "lung",
        ["age", "ph.ecog", "wt.loss"],
        ("t100", "d"),
        {"strata": "sex", "weights": "w", "robust": "rows"},
    ),
    "heart": ("heart", ["age", "year", "surgery", "transplant"], ("stop", "event", "start"), {}),
    "heart_strat_clus": (
        "heart",
        ["age", "year", "transplant"],
        ("stop", "event", "start"),
        {"strata": "surgery", "robust": "id"},
    ),
    "cgd": ("cgdcp", ["tr", "sexf", "age", "inh"], ("tstop", "status", "tstart"), {"robust": "id"}),
    "cgd_enum": (
        "cgdcp",
        ["tr", "sexf", "age", "inh"],
        ("tstop", "status", "tstart"),
        {"strata": "enum", "robust": "id"},
    ),
    "vet": (
        "veteran",
        ["trt", "karno", "diagtime", "age", "prior"],
        ("time", "status"),
        {"strata": "celltype"},
    ),
    "vet_off": ("veteran", ["trt", "karno"], ("time", "status"), {"offset": "age"}),
    "vet_sf": ("veteran", ["trt", "karno", "age"], ("time", "status"), {}),
    "colon": (
        "colon",
        ["rxl", "rx5", "sex", "age", "obstruct", "nodes"],
        ("time", "status"),
        {"strata": "differ"},
    ),
}
CASES = [name for name in COX if name != "conc"]


def close(ours, theirs, rtol: float) -> None:
    """Compare with a relative error, and the same of the largest number where others are nearly zero."""
    theirs = np.asarray(theirs, dtype=np.float64)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@pytest.mark.parametrize("name", CASES)
def test_coxph(name: str) -> None:
    case, ties = re.fullmatch(r"(\w+)_(efron|breslow)", name).groups()
    file, covariates, columns, more = CALLS[case]
    data, r = table(file), COX[name]
    time, event, *entry = (data[column].to_numpy() for column in columns)
    y = atm.Surv(time, event, *entry)
    strata = more.get("strata")
    X = data[covariates if strata is None else [*covariates, strata]].astype(float if strata is None else object)
    X = X.infer_objects()
    offset = data[more["offset"]].to_numpy() / 50 if "offset" in more else None
    weights = data[more["weights"]].to_numpy() if "weights" in more else None
    model = atm.CoxPH(ties=ties, strata=strata, tol=1e-12).fit(X, y, sample_weight=weights, offset=offset)
    close(model.coef_, r["coef"], 1e-10)
    assert model.loglik_ == pytest.approx(r["loglik"], rel=1e-13)
    close(model.covariance(), r["vcov"], 1e-10)
    close(-model.residuals(X, y, offset=offset), r["mart"], 1e-9)
    if r.get("robust"):
        clusters = np.arange(len(data)) if more["robust"] == "rows" else data[more["robust"]].to_numpy()
        k = len(np.unique(clusters))
        close(model.covariance("sandwich", clusters=clusters) * (k - 1) / k, r["robust"], 1e-9)
    hazard = pd.DataFrame(r["bh"])
    ours = model.baseline_hazard_
    groups = [(None, hazard)] if strata is None else hazard.groupby("strata")
    for label, rows in groups:
        own = ours
        if label is not None:
            wanted = str(label).split("=")[-1]
            own = ours[ours.stratum.astype(str) == wanted]
        steps = np.append(0.0, own["cumulative hazard"])[np.searchsorted(own.time, rows.time, side="right")]
        at = 0.0 if offset is None else offset.mean()  # where R has its baseline
        close(np.exp(at) * steps, rows.hazard, 1e-9)
    if "sf" in r:
        found = model.predict_distribution(X[:5]).sf(np.array(r["sft"], dtype=float))
        close(found.T, r["sf"], 1e-10)


def test_concordance_of_coxph() -> None:
    for key, file, covariates, event in (
        ("lung", "lung", [*LUNG, "ph.karno"], "d"),
        ("vet", "veteran", ["trt", "karno", "age"], "status"),
    ):
        data = table(file)
        y = atm.Surv(data.time, data[event])
        model = atm.CoxPH().fit(data[covariates], y)
        risk = data[covariates].to_numpy() @ model.coef_
        assert atm.scores.concordance(risk, y) == pytest.approx(COX["conc"][key], rel=1e-12)


LMER = {
    "sleep_i": ("sleep", "Reaction ~ Days + (1 | Subject) | 0"),
    "sleep_is": ("sleep", "Reaction ~ Days + (1 + Days | Subject) | 0"),
    "sleep_s": ("sleep", "Reaction ~ Days + (0 + Days | Subject) | 0"),
    "ortho": ("ortho", "distance ~ age + C(Sex, contr.treatment('Female')) + (1 | Subject) | 0"),
}


@pytest.mark.parametrize("name", LMER)
def test_lmer(name: str) -> None:
    file, formula = LMER[name]
    r, data = MIXED[name], table(file)
    model = atm.NormalLinear.from_formula(formula, data, tol=1e-10)
    assert model.loglik_ == pytest.approx(r["ll"], rel=1e-11)
    close([model.intercept_, *model.slope_], r["fix"], 1e-6)
    assert model.sigma_ == pytest.approx(r["sig"], rel=1e-5)
    close(model.random_cov_.to_numpy() * model.sigma_**2, np.reshape(r["vc"], model.random_cov_.shape), 1e-4)


LINKS_OF_CLMM = {"logit": "logit", "probit": "probit", "cloglog": "loglog", "loglog": "cloglog"}


@pytest.mark.parametrize("link", LINKS_OF_CLMM)
def test_clmm(link: str) -> None:
    """R's clmm calls cloglog what clm and we call loglog, and the other way round."""
    r, data = MIXED[f"wine_{link}"], table("wine_o")
    model = atm.OrdinalRegression.from_formula(
        "rating ~ temp + contact + (1 | judge) | 0", data, link=LINKS_OF_CLMM[link], tol=1e-10
    )
    assert model.loglik_ == pytest.approx(r["ll"], abs=2e-8)
    close(model.baseline_, r["alpha"], 1e-4)
    close(model.coef_, r["beta"], 1e-4)
    assert model.random_sd_.iloc[0] == pytest.approx(r["sd"], rel=1e-3)
    close(model.standard_errors(), r["se"][4:6], 1e-3)


@pytest.mark.parametrize("name", ["bact_logit", "bact_probit", "bact_cloglog", "cbpp"])
def test_glmer(name: str) -> None:
    """A binary outcome is an ordinal one of two classes; its threshold is minus the intercept."""
    r = MIXED[name]
    if name == "cbpp":
        data, formula, link = table("cbpp"), "yy ~ period + (1 | herd) | 0", "logit"
    else:
        data, formula = table("bact"), "yy ~ C(trt, contr.treatment('placebo')) + w2 + (1 | ID) | 0"
        # glmer has P(Y = 1) = F(eta), we have P(Y = 0) = F(threshold - eta): the link is mirrored
        link = {"logit": "logit", "probit": "probit", "cloglog": "loglog"}[name.split("_")[1]]
    model = atm.OrdinalRegression.from_formula(formula, data, link=link, tol=1e-10)
    assert model.loglik_ == pytest.approx(r["ll"], abs=2e-7)
    close([-model.baseline_[0], *model.coef_], r["fix"], 2e-4)
    assert model.random_sd_.iloc[0] ** 2 == pytest.approx(r["vc"], rel=2e-3)
