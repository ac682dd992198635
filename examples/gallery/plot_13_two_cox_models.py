"""
Two Cox models
==============

`ProportionalHazards` has a smooth baseline and fits it together with the coefficients. `CoxPH` leaves the baseline
unspecified: it uses the partial likelihood and martingale residuals. Without a penalty the two agree. With a penalty
they can differ, because of the baseline.
"""

# sphinx_gallery_tags = ["survival"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

# %%
# Eight sites
# -----------
# A hidden cause H acts on the covariate and on the hazard, so that maximum likelihood is wrong about x, whose
# coefficient is 0.5. Sites shift the covariate, which makes it possible to separate the two. They also have a small
# direct effect on the hazard, so no coefficient of x makes the mean residual zero at all eight sites.

rng = np.random.default_rng(3)
n, n_sites = 3000, 8
site = rng.integers(0, n_sites, n)
hidden = rng.normal(size=n)
push, own = rng.normal(size=n_sites), 0.5 * rng.normal(size=n_sites)
x = push[site] + hidden + rng.normal(size=n)
time = (rng.exponential(size=n) * np.exp(-(0.5 * x + hidden + own[site]))) ** (1 / 1.5)
limit = 2 * rng.exponential(size=n)
y = atm.Surv(np.minimum(time, limit), time <= limit)
X = x[:, None]

xis = [0, 0.3, 1, 3, 10, 30, 100, 300, 1000]
partial = atm.anchor_path(atm.CoxPH(), X, y, site, xis)
full = atm.anchor_path(atm.ProportionalHazards(log_first=True), X, y, site, xis)
table = pd.DataFrame(
    {
        "coef, CoxPH": partial.coefs[:, 0],
        "coef, full": full.coefs[:, 0],
        "penalty, CoxPH": partial.frame().penalty.to_numpy(),
        "penalty, full": full.frame().penalty.to_numpy(),
        "mean r², CoxPH": [np.mean(m.residuals(X, y) ** 2) for m in partial.models],
        "mean r², full": [np.mean(m.residuals(X, y) ** 2) for m in full.models],
    },
    index=pd.Index(xis, name="xi"),
)
print(table.round(3).to_string())

# %%
# At xi = 0 the coefficients agree to two digits, and would to more with a richer baseline. Up to xi = 3 the paths
# stay close. Then they part. The coefficient of `CoxPH` settles where the residuals of the sites are as small as x can
# make them, and so does its penalty. The penalty of the full likelihood goes on falling, and its coefficient goes on
# shrinking. (Neither ends at 0.5: the sites act on the hazard by themselves, and a hidden cause attenuates hazard
# ratios even where it confounds nothing.)
#
# What falls there is not the difference between sites. The residual is Lambda - event, and a baseline that is part of
# the penalised fit can make *all* residuals smaller by being flat, as the last column shows. Here is the survival
# probability that each model predicts, averaged over the rows, next to the Kaplan-Meier curve, which needs no model.

grid = np.linspace(0, 3, 61)
chosen = [0, 30, 1000]
curves = {
    name: {xi: path.models[xis.index(xi)].predict_distribution(X).sf(grid).mean(axis=0) for xi in chosen}
    for name, path in (("CoxPH", partial), ("full", full))
}
event = np.isfinite(y.upper)
order = np.argsort(y.lower)
at_risk = n - np.arange(n)
kaplan_meier = np.cumprod(1 - event[order] / at_risk)
km = np.append(1.0, kaplan_meier)[np.searchsorted(y.lower[order], grid, side="right")]
for name, of_xi in curves.items():
    print(
        name,
        "largest distance from Kaplan-Meier:",
        {xi: round(float(np.abs(c - km).max()), 3) for xi, c in of_xi.items()},
    )

# %%
# `CoxPH` cannot do that. Its baseline follows from the coefficients by Breslow's formula, whatever the penalty: at
# every time, the expected number of events among those at risk equals the observed number. So a penalty can change only
# the coefficients.

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
strength = np.arange(len(xis))
looks = (("CoxPH", partial, "#0072B2", "-"), ("full likelihood", full, "#D55E00", "--"))
for name, path, colour, line in looks:
    left.plot(strength, path.coefs[:, 0], line, color=colour, label=name)
    middle.plot(strength, path.frame().penalty, line, color=colour, label=name)
for ax, what in ((left, "coefficient of x"), (middle, "penalty")):
    ax.set_xticks(strength, [f"{xi:g}" for xi in xis])
    ax.set(xlabel="xi", ylabel=what)
    ax.set_ylim(bottom=0.0)
left.axhline(0.5, color="grey", linewidth=0.8)
left.annotate("causal", (strength[-1], 0.5), ha="right", va="bottom", color="grey")
left.legend(loc="lower left")
right.plot(grid, km, color="black", linewidth=3, alpha=0.3, label="Kaplan-Meier")
for (name, of_xi), (_, _, colour, line) in zip(curves.items(), looks, strict=True):
    for xi, width in zip(chosen, (0.8, 1.4, 2.0), strict=True):
        right.plot(grid, of_xi[xi], line, color=colour, linewidth=width, label=f"{name}, xi = {xi}")
right.set(xlabel="time", ylabel="mean P(Y > t)", ylim=(0, 1))
right.legend(fontsize=7)
plt.show()

# %%
# Which to take
# -------------
# Take `CoxPH` if only the order of risks matters, if a few polynomials cannot follow the baseline, or if predictions
# must stay calibrated overall while the coefficients are made robust. It also takes strata whose baselines have nothing
# in common:

strata = atm.CoxPH(3.0, strata="clinic").fit(pd.DataFrame({"x": x, "clinic": site % 2}), y, anchors=site)
print(strata.summary())

# %%
# Take `ProportionalHazards` for interval-censored times, for densities, means and bands of predictions, for times
# beyond the last event, and for tables that do not fit into memory. Its wide predictions at a large xi have a meaning,
# too: a model that must hold at every site, and is often wrong, should predict widely.
