"""
Prices are capped at 50
=======================

In the Boston housing data the median price of a census tract is reported up to 50 000 dollars; whatever was higher
is written as 50. What happens if these prices are taken at their word, and what if the model is told that they are
only lower limits?
"""

# sphinx_gallery_tags = ["continuous", "censoring"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm

data = atm.datasets.load_boston_housing2()
X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
capped = data.cmedv == 50
print(f"{capped.sum()} of {len(data)} tracts are at 50")

# %%
# Two models of the same prices
# -----------------------------
# The only difference is the outcome: a number, or a number and whether it was seen.

as_exact = atm.ContinuousLogit().fit(X, data.cmedv)
as_censored = atm.ContinuousLogit().fit(X, atm.Surv(data.cmedv, ~capped))

for name, fit in (("exact", as_exact), ("censored", as_censored)):
    above = fit.predict_distribution(X).sf(50.0)
    print(
        f"{name}: {above.sum():.1f} tracts expected above 50, "
        f"P(price > 50) in the capped tracts {above[capped].mean():.2f}"
    )

# %%
# Sixteen tracts reached the cap. If the prices are taken as exact, the model expects 6 tracts above it; if they are
# censored, 11. Neither model foresees the five tracts of Back Bay and Beacon Hill, where small homes are dear for
# reasons that these covariates do not show.
#
# A cap of our own
# ----------------
# Nobody knows the prices above 50. So we take the tracts whose price is known, cap their prices at 35, and ask the
# models how many tracts are above it.

known = data[~capped]
X_known, price = known[X.columns], known.cmedv
hidden = price > 35
low = np.minimum(price, 35.0)
support = (13.0, 35.0)
fits = {
    "capped, taken as exact": atm.ContinuousLogit(support=support).fit(X_known, low),
    "capped, as censored": atm.ContinuousLogit(support=support).fit(X_known, atm.Surv(low, ~hidden)),
    "before our cap": atm.ContinuousLogit(support=support).fit(X_known, price),
}
levels = np.array([30.0, 35.0, 40.0, 45.0])
expected = {name: fit.predict_distribution(X_known).sf(levels).sum(axis=0) for name, fit in fits.items()}
expected["seen"] = [(price > level).sum() for level in levels]
table = pd.DataFrame(expected, index=[f"above {level:g}" for level in levels])
print("Number of tracts, expected by each model and seen")
print(table.round(1).to_string())
nll = {name: fit.nll(X_known[hidden], price[hidden]).mean() for name, fit in fits.items()}
print("mean NLL of the hidden prices:", ", ".join(f"{value:.1f} ({name})" for name, value in nll.items()))

# %%
# Taken as exact, the cap is a wall: the model expects 13 tracts above 35, where there are 31, and almost none above 40.
# With censored prices it expects 26 or 27 above 35, much closer to the truth. Further out it expects too few as well, 5
# instead of 15 above 40: a censored row says that the price is beyond the cap, not how far, and the model extrapolates
# from the prices that it has seen.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
looks = {
    "capped, taken as exact": ("#D55E00", "--"),
    "capped, as censored": ("#0072B2", "-"),
    "before our cap": ("black", ":"),
}
order = np.argsort(price[hidden].to_numpy())
tract = price[hidden].index[order[[hidden.sum() // 2]]]  # the median one of those hidden
grid = np.linspace(15, 60, 400)
for name, fit in fits.items():
    colour, style = looks[name]
    left.plot(grid, fit.predict_distribution(X_known.loc[tract]).pdf(grid)[0], style, color=colour, lw=2, label=name)
    right.plot(grid, fit.predict_distribution(X_known).sf(grid).sum(axis=0), style, color=colour, lw=2, label=name)
truth = price[tract].item()
left.axvline(truth, color="0.7", lw=5, alpha=0.6, zorder=0, label=f"its true price, {truth:g}")
left.set(xlabel="price of one hidden tract (1000 dollars)", ylabel="predicted density", ylim=(0, 0.15))
seen = np.sort(price)[::-1]
right.step(seen, np.arange(1, seen.size + 1), where="pre", color="0.7", lw=4, label="seen", zorder=0)
right.set(
    xlabel="price (1000 dollars)", ylabel="number of tracts above it", yscale="log", xlim=(25, 55), ylim=(0.5, 200)
)
right.yaxis.set_major_formatter("{x:g}")
for axes in (left, right):
    axes.axvline(35, color="black", lw=0.8)
    axes.text(35.4, 0.93, "our cap", transform=axes.get_xaxis_transform(), fontsize="small")
    axes.legend(frameon=False, fontsize="small", loc="upper left" if axes is left else "upper right")

# %%
# The left panel shows the wall in one tract, the median one of those hidden: the model that takes 35 for a price piles
# its density up before the cap. So pass capped prices as `Surv(price, seen)`. Where the cap does not matter, this costs
# nothing: below 30 the three curves on the right nearly coincide.
