"""
Instrumental variables as the limit
===================================

If the anchor acts on the outcome only through the covariates, it is an instrument, and a large xi gives the
instrumental variable estimate. In a linear model this estimates the causal effect. In other models it estimates an
attenuated effect, because the hidden cause is left out.
"""

# sphinx_gallery_tags = ["causality"]

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm
from anchortm.plotting.style import xi_axis

# %%
# A linear model
# --------------
# Y = X + 2 H + noise and X = 1.5 A + H + noise, where A is a coin. Least squares attributes part of the effect of H to
# X.

rng = np.random.default_rng(3)
n = 2000
coin = rng.integers(0, 2, n)
hidden = rng.normal(size=n)
x = 1.5 * coin + hidden + rng.normal(size=n)
y = 1.0 * x + 2.0 * hidden + rng.normal(size=n)

fitted = np.polyval(np.polyfit(coin, x, 1), coin)  # first stage
two_stage = np.polyfit(fitted, y, 1)[0]
xis = np.array([0, 0.1, 0.3, 1, 3, 10, 30, 100, 1e3, 1e4, np.inf])
path = atm.anchor_path(atm.NormalLinear(), x[:, None], y, coin, xis)
slope = path.coefs[:, 0] / path.baselines[:, 1]  # on the scale of y
for k in (0, 3, 5, 8, 10):
    print(f"xi = {xis[k]:6g}: slope {slope[k]:.4f}")
print(f"least squares {np.polyfit(x, y, 1)[0]:.4f}, two-stage least squares {two_stage:.4f}, causal 1")
linear = atm.LinearAnchorRegression(gamma=atm.gamma_from_xi(3.0)).fit(x[:, None], y, anchors=coin)
print(f"linear anchor regression at gamma = 7, which is xi = 3: {linear.coef_[0]:.4f}")

# %%
# The slope goes from least squares at xi = 0 to two-stage least squares at xi = inf, which is a fit like any other
# here. The slope at xi = inf is the causal effect, 1, within sampling error. On the way, `NormalLinear` is linear
# anchor regression with gamma = 2 xi + 1.
#
# A model that is not linear
# --------------------------
# Scenario iv1 of the paper: a skewed outcome from a probit transformation model with a causal coefficient of 0.3, a
# coin as instrument, and a hidden cause with a coefficient of 0.6 and a standard deviation of 0.75. There are many
# rows, so that little is due to chance.

run = atm.scenarios.iv1(n_train=100_000, n_test=2000).draw(1)
anchor = (run.train.A[:, 0] > 0).astype(int)
grid = [0, 0.1, 0.3, 1, 3, 10, 30, 100, 1e3, 1e4]
probit = atm.anchor_path(atm.ContinuousProbit(), run.train.X, run.train.Y, anchor, grid)
beta = -probit.coefs[:, 0]  # the scenario's sign is h(y) + beta x
for xi, b in zip(grid, beta, strict=True):
    if xi in (0, 1, 10, 1e4):
        print(f"xi = {xi:6g}: beta = {b:.3f}")
error = probit.models[-1].standard_errors()[0]
attenuated = 0.3 / np.sqrt(1 + 0.6**2 * 0.75**2)
print(f"standard error at xi = 1e4 {error:.3f}; causal 0.3, attenuated {attenuated:.4f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
finite = np.isfinite(xis)
lines = (
    (axes[0], xis[finite], slope[finite], "linear model", "slope on the scale of y"),
    (axes[1], np.array(grid), beta, "probit transformation model (iv1)", "coefficient on the scale of h"),
)
for ax, at, values, title, label in lines:
    ax.plot(at, values, "-", color="#0072B2", marker="o", ms=4, lw=2, label="fit at xi", zorder=3)
    xi_axis(ax, at)
    ax.set(ylabel=label, title=title)
axes[0].axhline(two_stage, color="#8c6d00", ls="--", label=f"two-stage least squares, {two_stage:.3f}")
axes[0].axhline(1.0, color="black", ls=":", label="causal, 1")
axes[1].axhline(0.3, color="black", ls=":", label="causal, 0.3")
axes[1].axhline(attenuated, color="#8c6d00", ls="--", label=f"attenuated, {attenuated:.4f}")
axes[1].fill_between([-0.02, 2e4], attenuated - 2 * error, attenuated + 2 * error, color="#8c6d00", alpha=0.15, lw=0)
for ax in axes:
    ax.legend(frameon=False)

# %%
# On the right the coefficient goes past 0.3. It ends near 0.2736, and the causal value is four standard errors away.
# The penalty is not the reason: in a model that is not linear, leaving H out widens the distribution of the outcome
# given X, and all coefficients shrink by the factor 1 / sqrt(1 + 0.6² 0.75²). A large xi removes the confounding, not
# this attenuation. (The paper calls it bias, from the nonlinear expectation.)
