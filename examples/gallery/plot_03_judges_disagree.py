"""
Judges disagree
===============

Nine judges rated the bitterness of the same eight bottles of wine from 1 to 5. How will a tenth judge rate them? The
judges are the anchor here. They cannot move the coefficients, and yet a penalty helps with the hardest judge.
"""

# sphinx_gallery_tags = ["ordinal", "choosing xi"]

import matplotlib.pyplot as plt
import pandas as pd

import anchortm as atm
from anchortm.plotting.style import xi_looks

data = atm.datasets.load_wine()
X = pd.DataFrame({"warm": (data.temp == "warm").astype(float), "contact": (data.contact == "yes").astype(float)})
rating, judge = data.rating, data.judge
model = atm.OrdinalRegression()
print(pd.crosstab(judge, rating).to_string())

# %%
# Judge 1 gave 4 or 5 to five of the eight bottles, judge 7 never more than 3, and both tasted the same wine.
#
# Do the judges matter, and can a penalty use that?
# -------------------------------------------------

print(atm.diagnostics.score_test(model, X, rating, judge))
stage = atm.diagnostics.first_stage(X, judge).frame()
print(f"share of the covariates' variance that judges explain: {stage.R2.max():.2f}")

# %%
# The judges explain much that temperature and contact do not. But every judge tasted every wine, so the judges do not
# shift the covariates at all, and no choice of coefficients can make the residuals of judge 1 and judge 7 alike. A
# penalty can only flatten the transformation, so that predictions become wider.
#
# Leave each judge out
# --------------------

search = atm.XiSearchCV(model, [0, 0.3, 1, 3, 10, 30]).fit(X, rating, anchors=judge)
print(search.loeo_.summary().round(3).to_string())

# %%
# At xi = 3 the hardest judge, number 7, is predicted best: 1.56 instead of 1.67. The median judge pays about half of
# that gain. At xi = 30 everybody pays. The search minimises the 0.9 quantile over judges and chooses xi = 3; for the
# mean it would keep xi = 0.

plain, chosen = atm.OrdinalRegression().fit(X, rating), search.best_estimator_
nll = search.loeo_.frame().pivot(index="environment", columns="xi", values="nll")
print(f"judges predicted better at xi = {chosen.xi:g} than at 0: {(nll[chosen.xi] < nll[0]).sum()} of {len(nll)}")
for fit in (plain, chosen):
    warm, contact = fit.coef_
    print(f"xi = {fit.xi:g}: warm {warm:.2f}, contact {contact:.2f}, ratio {warm / contact:.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
search.loeo_.plot(left, label=2)
handles, names = left.get_legend_handles_labels()
names = [f"judge {name}" if name.isdigit() else name for name in names]
left.legend(handles, names, loc="upper left", fontsize="small", ncols=2)
left.set_title("Each judge, predicted from the other eight", fontsize="medium")
wines = pd.DataFrame([[0.0, 0.0], [1.0, 1.0]], columns=X.columns)
looks = xi_looks([0, chosen.xi])
for fit in (plain, chosen):
    for row, marker, wine in zip(fit.predict_proba(wines), "os", ("cold, no contact", "warm, contact"), strict=True):
        colour, style = looks[fit.xi]
        right.plot(fit.classes_, row, color=colour, linestyle=style, marker=marker, label=f"{wine}; xi = {fit.xi:g}")
right.set_xticks(chosen.classes_)
right.set(xlabel="bitterness, 1 (least) to 5", ylabel="predicted probability", ylim=(0, 0.75))
right.legend(frameon=False, fontsize="small", ncols=2, loc="upper center")
right.set_title("Two wines, rated by a judge nobody has met", fontsize="medium")

# %%
# The solid lines are the wider predictions. Four of nine judges gain by them and five lose, so this is insurance
# against a judge like number 7, not a better model. The ratio of the coefficients hardly changes, because the anchors
# contain no information about it. If you want the levels of these nine judges, you need a model with an effect for each
# judge, not an anchor.
