"""
Rooms matter more where homes are dear
======================================

A model with one coefficient for each covariate says that one more room multiplies the odds of a higher price by the
same factor everywhere, at 15 000 dollars as at 40 000. Is that so in Boston? And if it is not, does a model that lets
the effect vary along the price hold up in a town it has not seen?
"""

# sphinx_gallery_tags = ["continuous", "model extensions"]

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm

data = atm.datasets.load_boston_housing2()
price = atm.Surv(data.cmedv, data.cmedv < 50)  # values of 50 are censored
X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
X = X / X.std()
plain = atm.ContinuousLogit()
print(atm.proportionality_test(plain, X, price))

# %%
# These data clearly contradict proportional odds, most of all for crime and rooms. The test fits the plain model only:
# it uses the slope of the likelihood towards a model with an effect that varies.
#
# Let the effect of rooms vary
# ----------------------------
#
# The effect becomes a curve along the price, in the same basis as h. The fit ensures that h increases in y for every
# number of rooms between the fewest and the most in the data.

varying = atm.ContinuousLogit(varying=["rm"]).fit(X, price)
plain = plain.fit(X, price)
prices = np.linspace(12, 45, 100)
curve = varying.varying_effects(prices, kind="sandwich")
low, high = (curve.effect[np.searchsorted(prices, p)] for p in (15, 40))
print(f"log odds ratio of a standard deviation of rooms: one for all prices {plain.coef_[4]:.2f},")
print(f"varying: {low:.2f} at 15 000 dollars, {high:.2f} at 40 000")
print(f"AIC {plain.aic_:.0f} -> {varying.aic_:.0f}")

# %%
# Does it hold up in a town it has not seen?
# ------------------------------------------

towns = {}
for name, model in (("one effect", atm.ContinuousLogit()), ("effect varies", atm.ContinuousLogit(varying=["rm"]))):
    towns[name] = atm.leave_one_environment_out(model, X, price, data.town, [0, 1, 10, 100])
    print(name)
    print(towns[name].summary().round(2).to_string())

# %%
# Without a penalty the richer model is better in the median town and worse in the worst: it has learned more about
# these towns, including things that do not hold in Back Bay. At xi = 10 the worst town is about as good as that of the
# simpler model, and the median one better.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
left.fill_between(curve.y, curve.lower, curve.upper, color="#0072B2", alpha=0.2, label="95 % at each price")
left.plot(curve.y, curve.effect, color="#0072B2", label="effect varies")
left.axhline(plain.coef_[4], color="#D55E00", linestyle="--", label="one effect")
left.axhline(0.0, color="0.6", linewidth=0.8)
left.set(xlabel="price, 1000 dollars", ylabel="log odds ratio of a standard deviation of rooms")
left.legend(frameon=False, fontsize="small")
left.set_title("What a room more is worth, along the price", fontsize="medium")
places = np.arange(4)
for (name, result), colour in zip(towns.items(), ("#D55E00", "#0072B2"), strict=True):
    table = result.summary()
    right.plot(places, table.worst, "o-", color=colour, label=f"{name}: worst town")
    right.plot(places, table["median"], "o--", color=colour, label=f"{name}: median town")
right.set_xticks(places, ["0", "1", "10", "100"])
right.set(xlabel="xi", ylabel="negative log-likelihood of the left-out town", ylim=(0, None))
right.legend(frameon=False, fontsize="small")
right.set_title("Each of 92 towns, predicted from the others", fontsize="medium")

# %%
# An effect that varies needs more data than a single number: where prices are rare, its confidence band is wide. Test
# first, and compare left-out places with and without it.
