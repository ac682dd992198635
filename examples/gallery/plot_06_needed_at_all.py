"""
Is anchoring needed at all?
===========================

Before you choose xi, three checks show whether a penalty is needed and whether it can work: a score test, the first
stage and left-out environments. Here they are applied to four data sets, with four different answers.
"""

# sphinx_gallery_tags = ["diagnostics", "no gain"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

# %%
# Three data sets come with the package, and one is made up so that anchoring should help: seven hospitals differ in the
# level of a marker; frailty, which nobody measures, raises the marker and shortens the time to the event.

rng = np.random.default_rng(0)
hospital = rng.integers(0, 7, 700)
level = 1.5 * rng.normal(size=7)
frailty = rng.normal(size=700)
marker = level[hospital] + frailty + 0.5 * rng.normal(size=700)
months = rng.weibull(1.5, 700) * np.exp(3 - 0.2 * marker - 0.6 * frailty)

cgd, wine, boston = atm.datasets.load_cgd(), atm.datasets.load_wine(), atm.datasets.load_boston_housing2()
cases = {
    "centres": (
        atm.ProportionalHazards(order=3),
        "Surv(tstop, status) ~ treat + age + propylac | center",
        cgd,
    ),
    "judges": (atm.OrdinalRegression(), "rating ~ temp + contact | judge", wine),
    "towns": (atm.NormalLinear(), "cmedv ~ crim + zn + indus + nox + rm + age + lstat | town", boston),
    "hospitals": (
        atm.ProportionalHazards(),
        "Surv(months, event) ~ marker | hospital",
        pd.DataFrame({"months": np.minimum(months, 60), "event": months < 60, "marker": marker, "hospital": hospital}),
    ),
}

# %%
# Three checks
# ------------
# The score test asks whether the anchors explain the residuals that the covariates leave. The first stage asks how
# strongly the anchors shift the covariates: if they do not, no choice of coefficients can undo their effect. Leaving
# each environment out shows whether a penalty pays.

rows = {}
for name, (model, formula, data) in cases.items():
    test = atm.diagnostics.score_test(model, formula, data)
    stage = atm.diagnostics.first_stage(formula, data).frame()
    left_out = atm.leave_one_environment_out(model, formula, data, xis=[0, 1, 3, 10])
    loeo = left_out.summary()
    rows[name] = {
        "environments": left_out.frame().environment.nunique(),
        "score test, p": f"{test.pvalue:.1g}",
        "first stage, R2": f"{stage.R2.min():.2f} to {stage.R2.max():.2f}",
        "worst, xi = 0": f"{loeo.worst[0]:.2f}",
        "best xi for it": f"{loeo.worst.idxmin():g}",
        "worst there": f"{loeo.worst.min():.2f}",
        "median": f"{loeo['median'][0]:.2f} -> {loeo['median'][loeo.worst.idxmin()]:.2f}",
    }
print(pd.DataFrame(rows).to_string())

# %%
# Four answers:
#
# - **centres**: no penalty is needed. The test does not reject, and no penalty helps. Keep xi = 0.
# - **judges**: they differ, but coefficients cannot undo it. Every judge tasted every wine, so the first stage is 0. A
#   penalty only widens predictions, which helps the worst judge a little and costs the median judge about half of that.
# - **towns**: they differ more than the model can explain: 92 anchor directions for 9 parameters. The loss of the worst
#   town falls to a third, and the median town pays for it.
# - **hospitals**: the case that anchoring is made for. The hospitals explain residuals, and they shift the marker, so a
#   change of its coefficient helps. The worst hospital gains 0.34, and the median hospital loses 0.04.
#
# The residuals
# -------------
# You can see the same in the mean score residual of each place at xi = 0. Note that the scales differ.

figure, axes = plt.subplots(2, 2, figsize=(10, 6), layout="constrained")
for ax, (name, (model, formula, data)) in zip(axes.flat, cases.items(), strict=True):
    atm.plotting.residuals(model.fit(formula, data), data, ax, label=1)
    ax.set(ylabel="mean score residual\n± 2 standard errors", xlabel=f"{rows[name]['environments']} {name}, by height")
    ax.tick_params(axis="x", rotation=0)
    if name == "centres":
        ax.set_xticks([])
        ax.set_ylim(-1, 1)
figure.align_ylabels()

# %%
# The means of the centres are small, and most bars cross 0. The bars of judges 7 and 1, hospitals 2 and 5 and many
# towns do not. The test says the same with one number. With few rows in each place, as in many towns, it simulates its
# distribution; 199 draws cannot give a p-value below 0.005.
