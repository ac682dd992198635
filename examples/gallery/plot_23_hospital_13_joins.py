"""
Hospital 13 joins
=================

Twelve hospitals have a model of survival, fitted without sharing rows. A thirteenth wants to use it. Will it hold
there? What can you do before the first outcomes come in, and how many outcomes change the answer? The patients are
simulated, so we can compare every answer with the truth.
"""

# sphinx_gallery_tags = ["survival", "further out", "several sites"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm
from anchortm.federated import Coordinator, LocalSites, Site
from anchortm.plotting.style import STRATEGIES
from anchortm.reproduce.hospital_13 import FORMULA, SHIFTS, true_survival, world
from anchortm.reproduce.hospital_13_study import SHOWN, alone, hazards, longer, true_loss, tuned

known = world("laboratory", SHOWN).known
hospitals = known.groupby("hospital").agg(patients=("died", "size"), died=("died", "mean"), marker=("marker", "mean"))
print(hospitals.round(2).to_string())

# %%
# A laboratory value, the marker, is measured at admission. Frailty is not measured. It raises the marker and shortens
# survival, three times as much as the marker itself does. The laboratories read the same blood higher or lower, and
# hospitals differ in their care. Follow-up ends after 6 to 48 months, so many times are censored.
#
# .. code-block:: text
#
#     hospital --> marker --> months <-- care of the hospital
#                    ^          ^
#                    +- frailty-+      (nobody has measured it)
#
#     marker      = level of the laboratory + frailty + noise / 2
#     log(months) = log(24) + care - 0.15 marker - 0.5 frailty - 0.1 (age - 65) / 10 + log(exponential) / 4
#
# We look at four different hospitals 13. The twelve are always the same. The sample is not a lucky one: of 50 samples,
# it is the one with the median gain of anchoring if the laboratory reads higher (see "Hospital 13, 50 times" among the
# evidence).

for name, shift in SHIFTS.items():
    print(f"{name}: {shift.about}")

# %%
# One model from twelve hospitals
# -------------------------------
# Rows stay where they are. The hospitals send sums, and the fit that comes out is the one you would have got from all
# rows in one table.

sites = LocalSites([Site(rows, name) for name, rows in known.groupby("hospital")])
study = {"formula": "Surv(months, died) ~ marker + age | site", "support": (1.0, 48.0), "leave_out": True}
coordinator = Coordinator(sites, study)
months = np.array([6.0, 12.0, 24.0, 36.0])
for xi in (0.0, 3.0):
    apart = coordinator.fit(hazards(), xi=xi)
    pooled = hazards(xi).fit(FORMULA, known)
    of_curves = np.abs(apart.predict_distribution(known).sf(months) - pooled.predict_distribution(known).sf(months))
    largest = max(np.abs(apart.coef_ - pooled.coef_).max(), of_curves.max())
    print(f"xi = {xi:g}: effects of marker and age {apart.coef_.round(3)}, {coordinator.rounds} rounds so far")
    print(f"    largest difference from the pooled fit below 1e-10: {bool(largest < 1e-10)}")

# %%
# Sums also answer whether anchoring would help at a place like these, by leaving out one hospital after another.

asked = coordinator.assess(hazards(), [3.0])
print(asked.advice)
print(asked.need_sentence)

# %%
# What ``assess`` says before hospital 13 joins
# ---------------------------------------------
# A hospital further out is another question. ``assess`` answers it by leaving out the outermost hospitals together.
# This needs rows, so from here on we use those of all twelve. Of hospital 13 it sees marker and age of the patients,
# but no outcome.

found, worlds = {}, {name: world(name, SHOWN) for name in SHIFTS}
for name, own in worlds.items():
    covariates = own.new[["marker", "age", "hospital"]]
    found[name] = atm.assess(hazards(), FORMULA, known, new=covariates, strategies=["widened", "anchored"])
    print(f"{name}: {found[name].new.distance:.1f} standard deviations out")
    print(f"    {found[name].recommendation.main.headline}")

# %%
# What then happened
# ------------------
# Now we look at 1000 patients of each hospital 13. ``widened`` is maximum likelihood with wider predictions. Its width
# and the xi of ``anchored`` are tuned on the twelve hospitals. ``recalibrated`` is maximum likelihood, shifted by the
# first 20 outcomes of hospital 13. ``truth`` knows everything except the frailty of a patient: nobody can do better.

ml = hazards().fit(FORMULA, known)
fits, rows = {}, []
for name, own in worlds.items():
    test = own.new[200:]
    fits[name] = {"maximum likelihood": ml} | tuned(found[name])
    fits[name]["recalibrated"] = ml.recalibrate(own.new[:20], what="shift")
    row = {strategy: ml.nll(test).mean() - fit.nll(test).mean() for strategy, fit in list(fits[name].items())[1:]}
    rows.append({"hospital 13": name, "xi": fits[name]["anchored"].xi_} | row)
    rows[-1]["truth"] = ml.nll(test).mean() - true_loss(own, test)
print("gain over maximum likelihood, in log-likelihood per patient")
print(pd.DataFrame(rows).set_index("hospital 13").round(2).to_string())

# %%
# The same in a picture: mean survival of these patients.

grid = np.linspace(0.5, 48.0, 96)
figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.6), sharex=True, sharey=True, layout="constrained")
titles = {"laboratory": "Laboratory reads higher", "care": "Worse care", "nothing": "Like the twelve"}
titles["frailty"] = "Frailer patients"
for ax, (name, own) in zip(axes.flat, worlds.items(), strict=True):
    test = own.new[200:]
    truth = true_survival(own.hospital, test, grid)[0].mean(axis=0)
    ax.plot(grid, truth, color=STRATEGIES["truth"][0], lw=5, alpha=0.25, label="truth")
    for strategy, fit in fits[name].items():
        colour, style = STRATEGIES[strategy]
        curve = fit.predict_distribution(test).sf(grid).mean(axis=0)
        on_top = 3 if strategy == "maximum likelihood" else 2  # at xi = 0 the anchored model is the same
        ax.plot(grid, curve, color=colour, linestyle=style, lw=2, label=strategy, zorder=on_top)
    ax.set_title(titles[name], fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
axes[0, 0].set(xlim=(0, 48), ylim=(0, 1))
for ax in axes[1]:
    ax.set_xlabel("months since admission")
figure.supylabel("share of the patients of hospital 13 still alive", fontsize="medium")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)

# %%
# - *Laboratory reads higher.* Maximum likelihood takes the high readings for frailty and predicts deaths far too early.
#   The twelve laboratories differ too, and show how little the marker says between hospitals. So anchoring lowers its
#   effect (from 0.86 to 0.46 above) and gets closer to the truth. This is the case it is made for: hospital 13 is
#   shifted further, but in a direction in which the twelve differ.
# - *Worse care.* No covariate shows it, and ``assess`` cannot know. Width is all that helps without outcomes: it lowers
#   the loss, but the curve is no better.
# - *Like the twelve.* Nothing is needed, and widening costs 0.10.
# - *Frailer patients.* The marker is high again, but now it is right. ``assess`` sees only the covariates, so it gives
#   the same advice as for the laboratory, and anchoring loses 0.28. The twelve do not differ in frailty, so they cannot
#   warn of it. Before you anchor, ask why the covariates are shifted.
#
# A bound to plan with
# --------------------
# Hospital 13 asks: for how long does a patient live, with a probability of at least 90 %? The model's own 10 % quantile
# is the answer for hospitals of the fit. A conformal lower bound is learned from left-out hospitals. Jackknife+ usually
# covers about 90 % of the patients of a hospital like the twelve; what it guarantees there is 80 %.

bounds = atm.ConformalPredictor(hazards(), level=0.9, method="loeo").fit(FORMULA, known)
rows = []
for name, own in worlds.items():
    test = own.new[200:]
    ends = {"the model alone": ml.predict_quantiles(test, [0.1])[:, 0], "conformal bound": bounds.lower_bound(test)}
    rows.append({"hospital 13": name} | {way: longer(own, test, end) for way, end in ends.items()})
    rows[-1]["median bound, months"] = np.median(ends["conformal bound"])
print("true share of the patients who live longer than the bound")
print(pd.DataFrame(rows).set_index("hospital 13").round(3).to_string())

# %%
# The conformal bound holds at all four hospitals here, and the model's own bound at two. It pays for that: for half of
# the patients it lies below six months, because censored times count as deaths. And it is no guarantee. Hospital 13 is
# exchangeable with the twelve only if it is like them; with frailer patients the bound fails in other samples.
#
# How many outcomes of hospital 13?
# ---------------------------------
# Now its outcomes come in. Each number of them is drawn eight times from the first 200 patients, and the same 1000
# others are predicted. The loss is measured from that of the truth, which nobody beats on average. ``own rows`` is a
# Weibull model of the known outcomes alone; it needs at least five deaths.

NUMBERS, DRAWS = [0, 5, 10, 20, 50, 100, 200], 8
losses = []
for name, own in worlds.items():
    test, first = own.new[200:], own.new[:200]
    floor = true_loss(own, test)
    anchored = fits[name]["anchored"]
    plain = {way: fits[name][way].nll(test).mean() - floor for way in ("maximum likelihood", "widened", "anchored")}
    for m in NUMBERS:
        for draw in range(DRAWS if 0 < m < 200 else 1):
            few = first.sample(m, random_state=draw)
            own_loss = {"recalibrated": ml.recalibrate(few, what="shift").nll(test).mean() - floor}
            if few.died.sum() >= 5:
                own_loss["own rows"] = alone(few).nll(test).mean() - floor
            losses.append({"shift": name, "m": m} | plain | own_loss)
curve = pd.DataFrame(losses).groupby(["shift", "m"], sort=False).median()
print("loss above the truth, median of the draws (10 stands for 10 and more)")
print(curve.clip(upper=10).round(2).to_string())

figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.6), sharex=True, layout="constrained")
at = np.arange(len(NUMBERS))
for ax, name in zip(axes.flat, worlds, strict=True):
    for strategy in ("maximum likelihood", "widened", "anchored", "recalibrated", "own rows"):
        colour, style = STRATEGIES[strategy]
        mark = {"recalibrated": "o", "own rows": "s"}.get(strategy)
        look = {"color": colour, "linestyle": style, "marker": mark, "ms": 5, "lw": 2}
        on_top = 3 if strategy == "maximum likelihood" else 2
        ax.plot(at, curve.loc[name, strategy], label=strategy, zorder=on_top, **look)
    ax.axhline(0.0, color="black", lw=0.8)
    ax.set_title(titles[name], fontsize="medium")
    ax.set_ylim(-0.05, 1.45)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xticks(at, NUMBERS)
for ax in axes[1]:
    ax.set_xlabel("outcomes of hospital 13 that are known")
figure.supylabel("negative log-likelihood per patient, above the truth", fontsize="medium")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)

# %%
# Five outcomes are worth more than any strategy without them, unless nothing is needed. From 20 on, recalibration
# hardly improves: it shifts all predictions and keeps the effects of the twelve, which are not those inside
# hospital 13. From 50 outcomes on, a model of its own rows is best; with 10 and fewer it is often useless. (The
# simulated times are nearly Weibull, which flatters the model of own rows; real ones are less kind.)
#
# What to take home
# -----------------
# - The federated fit is the pooled fit. Nothing is lost by leaving the rows where they are, except answers that need
#   rows.
# - Anchoring pays if hospital 13 is shifted in a direction in which the twelve differ. It loses if the covariates are
#   shifted because the patients are different. Covariates alone do not say which.
# - Nothing helps against what no covariate shows, except outcomes and, a little, width.
# - Collect a few outcomes. Five change more than the choice of a strategy, 50 carry a model of their own.
