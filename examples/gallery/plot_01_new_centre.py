"""
A new centre joins the trial
============================

A trial of gamma interferon was run in 13 centres: 128 patients, and the time to their first serious infection. A
14th centre wants to know what to expect for its patients. Do predictions for it need anchoring?
"""

# sphinx_gallery_tags = ["survival", "choosing xi", "no gain"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

data = atm.datasets.load_cgd()
outcome, centre = atm.Surv(data.tstop, data.status), data.center
X = pd.DataFrame(
    {
        "interferon": (data.treat == "rIFN-g").astype(float),
        "age (decades)": data.age / 10,
        "X-linked": (data.inherit == "X-linked").astype(float),
        "antibiotics": data.propylac.astype(float),
    }
)
model = atm.ProportionalHazards(order=3)
print(f"{len(data)} patients in {centre.nunique()} centres, {data.status.sum()} infections, the others censored")

# %%
# Do the centres know more?
# -------------------------
# The score test asks whether the centres would explain anything if they were added to the model as covariates.

print(atm.diagnostics.score_test(model, X, outcome, centre))

# %%
# They would not: a statistic of 7.6 is less than its 12 degrees of freedom. The residuals of maximum likelihood show no
# pattern by centre, so a penalty has nothing to remove.
#
# Leave each centre out
# ---------------------
# A second check costs more and assumes less: each centre is predicted by models that were fitted to the other 12.

search = atm.XiSearchCV(model, [0, 1, 3, 10, 30, 100], objective="worst").fit(X, outcome, anchors=centre)
table = search.loeo_.summary()
print(table[["worst", "median", "mean"]].round(3).to_string())
print(f"best for the worst centre: xi = {search.best_xi_:g}")

# %%
# The worst centre, the median centre and the mean over centres agree: every penalty makes predictions worse, though a
# small one hardly does. With xi = 0 the chosen model is the ordinary proportional hazards model.
#
# What the new centre can expect
# ------------------------------
# Two patients of ten years, X-linked, on antibiotics, who differ in their treatment.

chosen = search.best_estimator_
patients = pd.DataFrame([[0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], columns=X.columns)
free = chosen.predict_distribution(patients).sf(365.0)
print(f"free of serious infections for a year: {free[0]:.0%} on placebo, {free[1]:.0%} on interferon")
ratio = np.exp(chosen.intervals().loc["interferon", ["coef", "lower", "upper"]])
print(f"hazard ratio of interferon {ratio.coef:.2f}, 95 % interval {ratio.lower:.2f} to {ratio.upper:.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
search.loeo_.plot(left, label=1)
left.legend(loc="upper left", fontsize="small", ncols=2)
left.set_ylim(top=4.9)
left.set_title("Each of 13 centres, predicted from the others", fontsize="medium")
chosen.confidence_band(patients, np.linspace(1, 380, 120), "sf").plot(
    right, ["placebo", "interferon"], unit="days since the start of the trial"
)
right.legend(loc="lower left", frameon=False)
right.set(ylabel="no serious infection yet, probability", ylim=(0, 1.02))
right.set_title("A patient of the new centre, with 95 % bands", fontsize="medium")

# %%
# Interferon cuts the hazard to a third. Nothing here speaks for a penalty, so the new centre gets the plain model. This
# is a finding about these 13 centres. If the 14th differs from them in ways in which they do not differ from each
# other, no anchor helps.
