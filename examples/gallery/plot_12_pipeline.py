"""
Anchors in a scikit-learn pipeline
==================================

Models are scikit-learn estimators. `make_pipeline` of this package puts transformers before a model, passes the anchors
on to it, and predicts distributions. What does a grid search choose, and is it what you want?
"""

# sphinx_gallery_tags = ["scikit-learn", "choosing xi"]

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.plotting.style import xi_axis

data = atm.datasets.load_boston_housing2()
X, y = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]], data.cmedv

# %%
# A pipeline
# ----------
# The covariates are scaled, and the towns go to the model as its anchors. Coefficients have the names of the columns.

pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear(xi=1.0)).fit(X, y, anchors=data.town)
print(pipeline.intervals().coef.round(2).to_dict())
print(pipeline.predict_quantiles(X[:2]).round(1))

# %%
# A grid search chooses the mean
# ------------------------------
# Towns must not be split: `GroupKFold` leaves a tenth of them out at a time. The score is the mean log-likelihood of
# the rows.

xis = [0, 0.3, 1, 3, 10, 30]
grid = GridSearchCV(pipeline, {"normallinear__xi": xis}, cv=GroupKFold(10))
grid.fit(X, y, groups=data.town, anchors=data.town)
mean = -grid.cv_results_["mean_test_score"]
print(pd.Series(mean, pd.Index(xis, name="xi"), name="mean NLL").round(3).to_frame().T.to_string())
print("chosen by GridSearchCV: xi =", grid.best_params_["normallinear__xi"])

# %%
# XiSearchCV asks for evidence
# ----------------------------
# It leaves out one town at a time, and fits the whole pipeline, scaling included, to the others. Another xi than 0
# must be better by more than one standard error, for the 0.9 quantile of towns that have at least 10 rows.

search = atm.XiSearchCV(pipeline, xis).fit(X, y, anchors=data.town)
print(f"XiSearchCV keeps xi = {search.best_xi_:g}; {repr(search).splitlines()[-1]}")

# %%
# The losses of all towns are kept, so that other choices can be read off one search. This is what the smallest value
# would choose, whatever the size of the towns (`rule="smallest"`):

nll = search.loeo_.frame().pivot(index="environment", columns="xi", values="nll")
lines = {"mean": nll.mean(), "0.5": nll.quantile(0.5), "0.9": nll.quantile(0.9), "worst": nll.max()}
rows = {key: {"chosen xi": line.idxmin()} | line.round(2).to_dict() for key, line in lines.items()}
print(pd.DataFrame(rows).T.to_string())

# %%
figure, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
names = {"worst": "worst town", "0.9": "90 % quantile of towns", "mean": "mean over towns", "0.5": "median town"}
for (key, name), colour, style in zip(
    names.items(), ("#D55E00", "#E69F00", "#0072B2", "#009E73"), ("-", "-.", "--", ":"), strict=True
):
    line = [rows[key][xi] for xi in xis]
    ax.plot(xis, line, style, color=colour, lw=2, label=name)
    ax.plot(rows[key]["chosen xi"], rows[key][rows[key]["chosen xi"]], "o", color=colour, ms=8)
xi_axis(ax, xis)
ax.set_yscale("log")
ax.set_yticks([3, 4, 5, 7, 10, 15], ["3", "4", "5", "7", "10", "15"])
ax.minorticks_off()
ax.set(ylabel="negative log-likelihood of left-out towns")
ax.legend(frameon=False, title="dots: chosen")

# %%
# The objective decides. The median town wants no penalty, the mean a small one, the worst the largest of the list. But
# the worst town has three rows, and it gains mostly from wider predictions. A grid search optimises its score, so use
# the mean only if you care about the average over towns.
