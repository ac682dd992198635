"""
Rows that stay on disk
======================

A table of ten million rows need not fit into memory: a fit reads it a batch at a time, five to seven times in all. Here
is the same in miniature: eight Parquet files, the fit to them, and how much more files improve it.
"""

# sphinx_gallery_tags = ["large tables"]

import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

# %%
# Eight files
# -----------
# Claims from 30 regions, censored at 100. The covariates are age and a score; the score depends on something hidden
# that acts on claims as well.

folder = Path(tempfile.mkdtemp())
(folder / "rows").mkdir()
rng = np.random.default_rng(7)
level = rng.normal(size=30)
for k in range(8):
    n = 10_000
    region, hidden = rng.integers(0, 30, n), rng.normal(size=n)
    age, score = rng.uniform(20, 80, n), level[region] + hidden + rng.normal(size=n)
    claim = np.exp(1.5 + 0.01 * age + 0.3 * score + 0.4 * hidden + 0.6 * rng.logistic(size=n))
    rows = pd.DataFrame(
        {"claim": np.minimum(claim, 100.0), "seen": claim < 100, "age": age, "score": score, "region": region}
    )
    rows.to_parquet(folder / "rows" / f"claims{k}.parquet", index=False)

# %%
# Fit from disk, fit in memory
# ----------------------------

formula = "Surv(claim, seen) ~ age + score | region"
options = {"xi": 10.0, "log_first": True}
disk = atm.ContinuousLogit.from_formula(formula, f"{folder}/rows/*.parquet", **options)
memory = atm.ContinuousLogit.from_formula(
    formula, pd.concat(map(pd.read_parquet, sorted(folder.glob("rows/*.parquet")))), **options
)
print(f"{disk.n_total_:.0f} rows, {disk.n_passes_} passes")
print("coefficients from disk", disk.coef_.round(4), "and in memory", memory.coef_.round(4))
print("largest difference below 1e-8:", bool(abs(disk.coef_ - memory.coef_).max() < 1e-8))

# %%
# The two fits are the same: a pass returns only sums, and these do not depend on how the rows are split into files. (A
# table this small needs 4 passes, because all of it is in the sample that the first Newton steps use.)
#
# What more files buy
# -------------------
# The same formula for the first file, the first two, four and all eight.

names = sorted(folder.glob("rows/*.parquet"))
parts = {
    k: atm.ContinuousLogit.from_formula(formula, pd.concat(map(pd.read_parquet, names[:k])), **options)
    for k in (1, 2, 4)
}
parts[8] = disk
plain = atm.ContinuousLogit.from_formula(formula, f"{folder}/rows/*.parquet", xi=0.0, log_first=True)
table = pd.DataFrame({10_000 * k: part.intervals().loc["score"] for k, part in parts.items()}).T
print(table.round(3).to_string())
print(f"without a penalty, all rows: {plain.coef_[1]:.3f}")

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
where = np.arange(len(table))
ax.errorbar(
    where,
    table.coef,
    np.vstack([table.coef - table.lower, table.upper - table.coef]),
    fmt="o",
    color="#0072B2",
    ecolor="#0072B2",
    capsize=4,
    label="xi = 10, with 95 % interval",
)
ax.axhline(plain.coef_[1], color="#D55E00", ls="--", label="xi = 0, all rows")
ax.set_xticks(where, [f"{rows:,}".replace(",", " ") for rows in table.index])
ax.set(xlabel="rows", ylabel="coefficient of the score on the scale of h", xlim=(-0.4, 3.4))
ax.legend(frameon=False, loc="center right")

# %%
# Predictions for the whole table are written a batch at a time, too.

atm.predict_table(disk, f"{folder}/rows/*.parquet", folder / "predicted.parquet", quantiles=[0.5, 0.9], keep=["region"])
print(pd.read_parquet(folder / "predicted.parquet").head(3).round(1).to_string())
shutil.rmtree(folder)

# %%
# With eight times the rows the standard error falls to a third, as expected from the square root. The gap to the dashed
# line does not depend on the number of rows: maximum likelihood attributes part of the effect of the hidden variable to
# the score, with 80 000 rows as with ten million. This is why the regions are used as anchors.
