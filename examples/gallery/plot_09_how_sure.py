"""
How sure is a predicted survival curve?
=======================================

A model fitted to 128 patients with 44 events predicts the whole course of a patient who is on interferon. How uncertain
is that curve, and does it matter which method measures the uncertainty?
"""

# sphinx_gallery_tags = ["survival", "uncertainty"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

data = atm.datasets.load_cgd()
outcome = atm.Surv(data.tstop, data.status)
X = pd.DataFrame({"interferon": (data.treat == "rIFN-g").astype(float), "age (decades)": data.age / 10})
fit = atm.ProportionalHazards(order=3).fit(X, outcome, anchors=data.center)
patient = pd.DataFrame([[1.0, 1.0]], columns=X.columns)  # on interferon, ten years old
days = np.linspace(5, 365, 100)

# %%
# Five measures of uncertainty
# ----------------------------
# The methods are: the information matrix (valid if the model is correct), the sandwich (valid even if the shape is
# wrong), fits to resampled patients, fits to resampled centres (patients of a centre may be alike), and the information
# matrix once more, for a band that covers all days at once.

bands = {
    "information": fit.confidence_band(patient, days, "sf"),
    "sandwich": fit.confidence_band(patient, days, "sf", uncertainty="sandwich"),
    "patients resampled": fit.confidence_band(
        patient, days, "sf", uncertainty=fit.bootstrap(n_bootstrap=150, clusters=data.id, random_state=1)
    ),
    "centres resampled": fit.confidence_band(
        patient, days, "sf", uncertainty=fit.bootstrap(n_bootstrap=150, random_state=1)
    ),
    "all days at once": fit.confidence_band(patient, days, "sf", simultaneous=True),
}
rows = {
    name: {"estimate": b.estimate[0, -1], "lower": b.lower[0, -1], "upper": b.upper[0, -1]} for name, b in bands.items()
}
table = pd.DataFrame(rows).T
print("no infection in the first year, 95 % intervals")
print(table.assign(width=table.upper - table.lower).round(2).to_string())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
bands["information"].plot(left, ["at each day"], unit="days since the start of the trial")
outer = bands["all days at once"]
left.plot(days, outer.lower[0], "--", color="#D55E00", lw=1.5, label="at all days at once")
left.plot(days, outer.upper[0], "--", color="#D55E00", lw=1.5)
left.legend(frameon=False, loc="lower left")
left.set(ylabel="no serious infection yet, probability", ylim=(0, 1.02))
left.set_title("95 % bands for a patient of ten years on interferon", fontsize="medium")
table = table[::-1]
right.hlines(np.arange(len(table)), table.lower, table.upper, color="#0072B2", lw=4)
right.plot(table.estimate, np.arange(len(table)), "o", color="black")
right.set_yticks(np.arange(len(table)), table.index)
right.set(xlabel="no infection in the first year, probability", xlim=(0, 1), ylim=(-0.6, len(table) - 0.4))
right.set_title("the same at 365 days, in five ways", fontsize="medium")

# %%
# Two in three patients stay free of infections in the first year, give or take 15 points. The information, the sandwich
# and resampled patients agree within a few points, which speaks for the model. Resampled centres give the narrowest
# interval, but 13 centres are few to resample, and with few of them such intervals tend to be too short, so do not read
# this as good precision. If you read the curve at many days, use the simultaneous band, which is wider by a fifth.
