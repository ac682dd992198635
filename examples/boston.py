"""Find the towns of BostonHousing2 that a model fails at, and what the anchor penalty trades.

Leaves out each of 92 towns in turn, fits the paper's four models to the others at six values of xi, and
draws how the left-out towns are predicted and what happens to the coefficients.
"""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

import anchortm as atm

ROOT = Path(__file__).resolve().parents[1]
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
XIS = [0, 1, 10, 100, 1000, 10000]


def main() -> None:
    data = atm.datasets.load_boston_housing2()
    X, price, town = data[COVARIATES], data.cmedv, data.town
    support = (12.9, 34.65)  # 10 % and 90 % quantiles of the price
    models = {
        "Lm": (atm.NormalLinear(), price),
        "c-probit": (atm.ContinuousProbit(), price),
        "c-logit": (atm.ContinuousLogit(support=support), price),
        "c-logit (censored)": (atm.ContinuousLogit(support=support), atm.Surv(price, price != 50)),
    }
    start = time.perf_counter()
    results = {name: atm.leave_one_environment_out(m, X, y, town, XIS) for name, (m, y) in models.items()}
    seconds = time.perf_counter() - start
    without = atm.leave_one_environment_out(atm.ContinuousProbit(), X[[]], price, town, [0]).summary()
    for row in ("worst", "median", "mean"):
        table = pd.DataFrame({name: result.summary()[row] for name, result in results.items()}).T
        print(f"\nMean negative log-likelihood of the left-out towns: the {row}, by xi")
        print(table.round(3).to_string())
        print(f"without covariates {without[row].iloc[0]:.3f}")
    print(f"\n{len(models) * len(XIS) * town.nunique()} fits in {seconds:.1f} s.")
    explain(results["Lm"].frame())
    for path in draw(results, X, price, town):
        print(path.relative_to(ROOT))


def explain(frame: pd.DataFrame) -> None:
    table = frame.pivot(index="environment", columns="xi", values="nll")
    for xi in (1.0, 10.0):
        worse = table[xi] - table[0.0]
        print(
            f"Lm, xi = {xi:g} instead of 0: the worst town goes from {table[0.0].max():.1f} to {table[xi].max():.1f}; "
            f"{(worse > 0).mean():.0%} of the towns get worse, half of all by more than {worse.median():.2f}."
        )


def draw(results: dict, X: pd.DataFrame, price: pd.Series, town: pd.Series) -> list[Path]:
    folder = ROOT / "output"
    folder.mkdir(exist_ok=True)
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 6.5), sharex=True, sharey=True, layout="constrained")
    for ax, (name, result) in zip(axes.flat, results.items(), strict=True):
        result.plot(ax, legend=False)
        ax.set_title(name)
        ax.set(xlabel="", ylabel="")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.supxlabel("strength of the anchor penalty, xi")
    figure.supylabel("mean negative log-likelihood of the left-out town")
    figure.savefig(folder / "boston_loeo.png", dpi=110)
    path = atm.anchor_path(atm.NormalLinear(), X / X.std(), price, town, XIS)
    ax = path.plot()
    ax.set_title("Lm: coefficients per standard deviation, all towns")
    ax.figure.savefig(folder / "boston_path.png", dpi=110)
    plt.close("all")
    return [folder / "boston_loeo.png", folder / "boston_path.png"]


if __name__ == "__main__":
    main()
