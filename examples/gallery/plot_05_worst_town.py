"""
What would the worst town look like?
====================================

House prices in 92 Boston towns, each predicted by models that were fitted to the other 91. The next town may be an
ordinary one or the hardest of a hundred. This example looks at the whole range of towns as xi grows, and at the
worst of them.
"""

# sphinx_gallery_tags = ["continuous", "choosing xi"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm
from anchortm.plotting.style import xi_axis, xi_looks

data = atm.datasets.load_boston_housing2()
X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
price, town = data.cmedv, data.town
model = atm.ContinuousProbit()
xis = [0, 0.3, 1, 3, 10, 30]
nll = (
    atm.leave_one_environment_out(model, X, price, town, xis)
    .frame()
    .pivot(index="environment", columns="xi", values="nll")
)

# %%
# From the ordinary to the worst town
# -----------------------------------
# Each column is a value of xi. Each row is a quantile, over the 92 towns, of the mean negative log-likelihood of a
# town.

levels = [0.25, 0.5, 0.75, 0.9, 0.95, 1.0]
table = nll.quantile(levels)
table.index = [f"{level:.0%} of towns below" for level in levels]
table["best xi"] = table.idxmin(axis=1)
print(table.round(2).to_string())

# %%
# The answer to "which xi?" depends on which town you mean. The median town is predicted best without a penalty, and so
# is the one at 75 %. At 90 % and 95 % xi = 1 is best. For the worst town it is xi = 10, which halves the loss from 9.75
# to 4.81. Beyond xi = 10 every row gets worse.
#
# Who is it?
# ----------

hardest = nll.nlargest(3, 0)
print(hardest[[0, 1, 10]].round(2).to_string())
beacon = town == "Boston Beacon Hill"
print(data.loc[beacon, ["cmedv", "rm", "lstat", "nox", "indus"]].to_string(index=False))
print("medians of all tracts")
print(data[["cmedv", "rm", "lstat", "nox", "indus"]].median().to_frame().T.to_string(index=False))

# %%
# Three neighbours in the middle of Boston. By the covariates Beacon Hill is not far from ordinary: homes of usual
# size, more industry and dirtier air than elsewhere, fewer inhabitants of lower status. Its prices are more than
# twice the median. (At 50 prices are capped. They are taken as exact here, as in the paper; "Prices are capped at 50"
# does better.)

fits = {xi: atm.ContinuousProbit(xi=xi).fit(X[~beacon], price[~beacon], anchors=town[~beacon]) for xi in (0, 1, 10)}
rows = {
    f"xi = {xi}": {
        "median": dist.median().mean(),
        "P(price > 45)": dist.sf(45.0).mean(),
        "width of 90 % intervals": np.diff(dist.interval(0.9), axis=0).mean(),
    }
    for xi, fit in fits.items()
    for dist in [fit.predict_distribution(X[beacon])]
}
print(pd.DataFrame(rows).T.round(2).to_string())

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
shades = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(levels)))
for level, shade, style in zip(levels[::-1], shades, ["-", "--", "-.", ":", "-", "--"], strict=True):
    line = nll.quantile(level)
    name = "worst town" if level == 1 else "median town" if level == 0.5 else f"{level:.0%} quantile"
    left.plot(line.index, line, style, color=shade, lw=2, label=name)
    left.plot(line.idxmin(), line.min(), "o", color=shade, ms=7)
xi_axis(left, xis)
left.set(ylabel="mean negative log-likelihood\nof a left-out town")
left.legend(frameon=False, fontsize="small", title="over 92 towns; dots: best xi")
grid = np.linspace(0, 75, 400)
for xi, (colour, style) in xi_looks(fits).items():
    density = fits[xi].predict_distribution(X[beacon]).pdf(grid).mean(axis=0)
    right.plot(grid, density, color=colour, linestyle=style, lw=2, label=f"xi = {xi:g}")
right.plot(
    price[beacon], np.full(beacon.sum(), 0.003), "^", color="black", ms=9, label="reported price, all three tracts"
)
right.set(xlabel="price (1000 dollars)", ylabel="predicted density, mean of three tracts", ylim=(0, None))
right.legend(frameon=False)
right.set_title("Beacon Hill, predicted from the other towns", fontsize="medium")

# %%
# The penalty does not find the reason why Beacon Hill is dear: the predicted median only moves from 23 to 26. It widens
# the prediction: a price above 45 has a probability of 0.24 instead of 0.01, and the 90 % intervals are more than four
# times as wide. So take xi = 10 if the worst town must not surprise you, xi = 1 if you care about the hardest tenth of
# towns, and xi = 0 otherwise.
