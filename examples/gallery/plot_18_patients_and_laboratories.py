"""
Patients in laboratories: who is a cluster, who an anchor?
==========================================================

Patients of a trial are seen four times each, and a marker is read in one of thirteen laboratories. Two groupings, two
roles. Visits of one patient are alike: if you ignore that, standard errors are wrong, and a *random effect* takes care
of it. Laboratories differ in ways that will be different again at the next one. That makes predictions wrong, so
laboratories are the *anchors*. The patients, their treatments and centres are those of the cgd trial; the outcome is
made up, so that the truth is known.
"""

# sphinx_gallery_tags = ["continuous", "model extensions"]

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

trial = atm.datasets.load_cgd()
centre = pd.factorize(trial.center)[0]
VISITS, TRUE_EFFECT, PATIENT_SD = 4, 1.0, 1.5


def visits(seed, own=False):
    """Return four visits of each patient, read at any laboratory, or all at the one of the patient's own centre."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(len(trial)), VISITS)
    lab = centre[patient] if own else rng.integers(0, 13, patient.size)
    strain = rng.normal(size=patient.size)  # of the day, hidden: it raises the marker and lowers the score
    marker = strain + 1.5 * rng.normal(size=13)[lab] + 0.5 * rng.normal(size=patient.size)
    treated = (trial.treat != "placebo").to_numpy(dtype=float)[patient]
    noise = PATIENT_SD * rng.normal(size=len(trial))[patient] + 0.5 * rng.normal(size=patient.size)
    score = TRUE_EFFECT * treated + 0.5 * marker - 1.5 * strain + noise
    columns = {"score": score, "treated": treated, "marker": marker, "patient": patient}
    return pd.DataFrame(columns | {"lab": [f"lab {k}" for k in lab]})


data = visits(0)
model = atm.NormalLinear.from_formula("score ~ treated + marker + (1 | patient)", data)
print(model.summary())

# %%
# Ignoring the patients
# ---------------------
#
# A good part of what the covariates do not explain belongs to the patient and recurs at every visit. A model without
# random effects treats 512 visits as 512 independent rows.

plain = atm.NormalLinear.from_formula("score ~ treated + marker", data)
errors = {
    "rows independent": plain.standard_errors()[0] * plain.sigma_,
    "sandwich by patient": plain.standard_errors(clusters=data.patient)[0] * plain.sigma_,
    "random patients": model.standard_errors()[0] * model.sigma_,
}
for name, error in errors.items():
    print(f"standard error of the treatment's effect, {name}: {error:.3f}")

# %%
# Which is right? In simulated trials we can count how often the 95 % interval contains the truth.

TRIALS = 60
held = dict.fromkeys(errors, 0)
for seed in range(1, TRIALS + 1):
    rows = visits(seed)
    mixed = atm.NormalLinear.from_formula("score ~ treated + marker + (1 | patient)", rows)
    fixed = atm.NormalLinear.from_formula("score ~ treated + marker", rows)
    found = {
        "rows independent": fixed.intervals(),
        "sandwich by patient": fixed.intervals(clusters=rows.patient),
        "random patients": mixed.intervals(),
    }
    for name, table in found.items():
        # on the scale of h the truth is the effect over the noise that the model has
        truth = TRUE_EFFECT / (mixed if name == "random patients" else fixed).sigma_
        held[name] += bool(table.loc["treated", "lower"] <= truth <= table.loc["treated", "upper"])
for name, count in held.items():
    print(f"{name}: {count} of {TRIALS} intervals hold the truth")

# %%
# The interval that ignores patients is too short. The other two are long enough. The random effect also shows how much
# patients differ, and can predict a patient whom it has seen.
#
# A patient whom the model knows
# ------------------------------
#
# ``predict_distribution`` predicts a new patient, averaged over the distribution of patients. ``conditional=True`` uses
# what the patient's earlier visits have shown.

row = data[data.patient == 5][:1]
new, known = model.predict_distribution(row), model.predict_distribution(row, conditional=True)
for name, distribution in (("a new patient", new), ("this one", known)):
    low, high = (ends[0] for ends in distribution.interval(0.9))
    print(f"{name}: median {distribution.median()[0]:.2f}, 90 % from {low:.2f} to {high:.2f}")

# %%
# Laboratories as anchors
# -----------------------
#
# The strain of the day is hidden. It raises the marker and lowers the score, so that the marker seems to matter less
# than it does (0.5). This predicts well as long as marker and strain go together as they do here, but not at a
# laboratory with other readings. Each laboratory is left out in turn, and its visits are scored by their marginal
# likelihood.

formula = "score ~ treated + marker + (1 | patient) | lab"
xis = [0, 1, 10, 100]
left_out = atm.leave_one_environment_out(atm.NormalLinear(), formula, data, xis=xis)
print(left_out.summary().round(3).to_string())


def marker_path(rows):
    """Return effects of the marker and their standard errors along xi, and the deviation between patients."""
    fits = atm.anchor_path(atm.NormalLinear(), formula, rows, xis=xis).models
    errors = [fit.standard_errors()[1] * fit.sigma_ for fit in fits]
    return [fit.slope_[1] for fit in fits], errors, [fit.random_sd_["1"] * fit.sigma_ for fit in fits]


crossed = marker_path(data)
for xi, slope, error, sd in zip(xis, *crossed, strict=True):
    print(f"xi = {xi:g}: effect of the marker {slope:.2f}, standard error {error:.2f}; patients differ by {sd:.2f}")

# %%
# The random effect does not help against the strain: at xi = 0 the effect of the marker is wrong. The penalty moves it
# towards the truth and helps the worst laboratory. In turn, the penalty does not account for the patients.
#
# When clusters lie within environments
# -------------------------------------
#
# That worked because visits of a patient are spread over laboratories. Let every centre have its own laboratory, where
# all visits of its patients are read: each patient is then in one environment.

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    nested = marker_path(visits(0, own=True))
print(f"{told[0].category.__name__}: {told[0].message}")
for xi, slope, _, sd in zip(xis, *nested, strict=True):
    print(f"xi = {xi:g}: effect of the marker {slope:.2f}; patients differ by {sd:.2f}")

# %%
# Now the penalty fails, and the fit warns that it may. What a laboratory does to all its patients looks like a
# difference between patients. The random effect takes it up, which leaves little in the residuals, and the penalty
# pushes the variance between patients up instead of the effect of the marker towards the truth. In such a design leave
# the random effect out, and cluster the standard errors by patient.

parts = visits(0, own=True)
alone = atm.NormalLinear.from_formula("score ~ treated + marker | lab", parts, xi=10.0)
error = alone.standard_errors(clusters=parts.patient)[1] * alone.sigma_
print(f"xi = 10 without a random effect: effect of the marker {alone.slope_[1]:.2f}, standard error {error:.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
at = 1 + np.array(xis)
left.errorbar(
    at, crossed[0], 1.96 * np.array(crossed[1]), fmt="o-", color="#0072B2", label="visits at many laboratories"
)
left.errorbar(at, nested[0], 1.96 * np.array(nested[1]), fmt="s--", color="#D55E00", label="each patient at one")
left.axhline(0.5, color="0.6", linewidth=0.8)
left.text(1.0, 0.52, "truth", va="bottom", color="0.4")
left.set(
    xscale="log", xlabel="1 + xi", ylabel="effect of the marker on the score", title="random patients, 95 % intervals"
)
left.xaxis.set_major_formatter("{x:g}")
left.legend(frameon=False)
effects = model.random_effects_.sort_values("1")
place = np.arange(len(effects))
right.vlines(
    place, *((effects["1"] + k * effects["sd of 1"]) * model.sigma_ for k in (-1.64, 1.64)), color="#56B4E9", lw=1
)
right.plot(place, effects["1"] * model.sigma_, ".", color="#0072B2", markersize=4)
right.set(xlabel="patients, ordered", ylabel="effect on the score", title="90 % of what is known of each patient")
plt.show()
