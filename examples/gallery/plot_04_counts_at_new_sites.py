"""
Counts at new sites
===================

Ticks were counted on the heads of 403 grouse chicks at 63 locations of a moor, in three years. How many can you expect
on chicks at a location where nobody has looked yet?
"""

# sphinx_gallery_tags = ["counts", "choosing xi"]

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anchortm as atm
from anchortm.plotting.style import xi_looks

data = atm.datasets.load_grouseticks()
X = pd.DataFrame(
    {
        "1996": (data.YEAR == 96).astype(float),
        "1997": (data.YEAR == 97).astype(float),
        "altitude (100 m)": data.HEIGHT / 100,
    }
)
ticks, location = data.TICKS, data.LOCATION
model = atm.CountRegression()
print(
    f"ticks on a chick: median {ticks.median():.0f}, mean {ticks.mean():.1f}, largest {ticks.max()}; "
    f"none on {(ticks == 0).mean():.0%}"
)

# %%
# The counts are far from Poisson: the mean is three times the median. A count transformation model needs no such
# assumption. It estimates the distribution itself, and year and altitude shift it.
#
# Leave each location out
# -----------------------

print(atm.diagnostics.score_test(model, X, ticks, location))
loeo = atm.leave_one_environment_out(model, X, ticks, location, [0, 1, 3, 10, 100])
print(loeo.summary().round(2).to_string())
nll = loeo.frame().pivot(index="environment", columns="xi", values="nll")
print(f"locations predicted better at xi = 10 than at 0: {(nll[10] < nll[0]).sum()} of {len(nll)}")

# %%
# The locations explain much that year and altitude do not (the p-value is too small, because chicks of a brood are
# alike). The worst location gains from a penalty: 0.43 at xi = 3, where the median location loses 0.01, and 1.17 at xi
# = 10, where the median location loses 0.34 and 52 of 63 locations lose.
#
# The worst location
# ------------------
# Five chicks of one brood, in 1996, at 449 m. What did the models that had not seen them expect?

away = location == 24
seen = np.sort(ticks[away])
print("counted:", seen.tolist())
fits = {xi: atm.CountRegression(xi=xi).fit(X[~away], ticks[~away], anchors=location[~away]) for xi in (0.0, 10.0)}
rows = {
    f"xi = {xi:g}": {
        "median": dist.median()[0],
        "90 % quantile": dist.ppf([0.9])[0, 0],
        "P(45 or more)": dist.sf(44)[0],
    }
    for xi, fit in fits.items()
    for dist in [fit.predict_distribution(X[away][:1])]
}
print(pd.DataFrame(rows).T.round(3).to_string())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
loeo.plot(left, label=2)
handles, names = left.get_legend_handles_labels()
names = [f"location {name}" if name.isdigit() else name for name in names]
left.legend(handles, names, loc="upper left", fontsize="small", ncols=3)
left.set_ylim(top=9.9)
left.set_title("Each of 63 locations, predicted from the others", fontsize="medium")
grid = np.arange(0, 120)
for xi, (colour, style) in xi_looks(fits).items():
    fit = fits[xi]
    sf = fit.predict_distribution(X[away][:1]).sf(grid - 1)[0]
    right.step(grid, sf, where="post", color=colour, linestyle=style, lw=2, label=f"predicted, xi = {xi:g}")
right.step(seen, 1 - np.arange(seen.size) / seen.size, where="pre", color="0.5", lw=1)
right.plot(seen, 1 - np.arange(seen.size) / seen.size, "o", color="0.3", label="counted")
right.set(
    xlabel="number of ticks on a chick", ylabel="probability of so many or more", yscale="log", ylim=(1.5e-3, 1.6)
)
right.yaxis.set_major_formatter("{x:g}")
right.legend(frameon=False, loc="lower left")
right.set_title("Location 24, which neither model has seen", fontsize="medium")

# %%
# All five chicks had 45 ticks or more. Maximum likelihood gave that a probability of 0.028, the model at xi = 10 one of
# 0.155. The price: the 90 % quantile rises from 23 to 80 ticks, at every location of that altitude in that year. Is it
# worth it? If you must be ready for a location like number 24, yes. If you want good forecasts at most locations, keep
# xi = 0, or 3 at most: here the locations differ in ways that no covariate explains, and a penalty can only make
# predictions wider.
