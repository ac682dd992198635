"""Show findings that contradict the paper or add to it, each in short: python examples/findings.py C1 (or all)."""

from __future__ import annotations

import math
import sys

import numpy as np

import anchortm as atm


def c1() -> None:
    """Show that a penalty cannot gain at low quantiles of the NLL: sigma grows, and with it the least possible NLL."""
    run = atm.scenarios.la().draw(1)
    train, test = run.train, run.test["push"]
    for xi in (0.0, 1.0, 6.0, 50.0):
        fit = atm.NormalLinear(xi=xi).fit(train.X, train.Y, anchors=train.A)
        nll = fit.nll(test.X, test.Y)
        least = math.log(fit.sigma_) + 0.5 * math.log(2 * math.pi)
        print(f"xi = {xi:4g}: sigma {fit.sigma_:5.2f}, no row can be below {least:.2f}; quantiles 0, .5, .99: ", end="")
        print(", ".join(f"{q:.2f}" for q in np.quantile(nll, [0, 0.5, 0.99])))


def c4() -> None:
    """Show that the NLL curves of scenario la vary because the test rows come from another model."""
    for mx in ("run", "redraw_test"):
        high = {"NLL": [], "APE": []}
        for seed in range(40):
            run = atm.scenarios.la(mx=mx).draw(seed)
            fit = atm.NormalLinear(xi=6.0).fit(run.train.X, run.train.Y, anchors=run.train.A)
            test = run.test["push"]
            high["NLL"].append(np.quantile(fit.nll(test.X, test.Y), 0.99))
            high["APE"].append(np.quantile(np.abs(test.Y - fit.predict(test.X)), 0.99))
        spread = {k: np.subtract(*np.quantile(v, [0.75, 0.25])) / np.median(v) for k, v in high.items()}
        print(
            f"M_X {mx}: interquartile range / median at alpha = .99: NLL {spread['NLL']:.2f}, APE {spread['APE']:.2f}"
        )


def b9() -> None:
    """Show that coefficients vanish on the scale of h only: on that of y they settle, while sigma grows without end."""
    data = atm.datasets.load_boston_housing2()
    X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
    path = atm.anchor_path(atm.NormalLinear(), X / X.std(), data.cmedv, data.town, [0, 1, 100, 1e4, 1e6])
    print(atm.diagnostics.over_identification(path, X / X.std()))


def e2() -> None:
    """Show that in scenario iv1 the coefficient goes to the attenuated value, 0.2736, and not to the causal 0.3."""
    train = atm.scenarios.iv1(n_train=200_000, n_test=2).draw(1).train
    anchors = (train.A[:, 0] > 0).astype(int)
    path = atm.anchor_path(atm.ContinuousProbit(), train.X, train.Y, anchors, [0, 7, 1e4])
    for xi, beta in zip(path.xis, -path.coefs[:, 0], strict=True):
        print(f"xi = {xi:6g}: beta = {beta:.3f}")
    print(f"causal 0.3, attenuated by the omitted H {0.3 / math.sqrt(1 + 0.6**2 * 0.75**2):.4f}; 200 000 rows")


def n4() -> None:
    """Show that plain Lm is not worse than plain c-probit in scenario nla."""
    means = []
    for seed in range(30):
        run = atm.scenarios.nla().draw(seed)
        test = run.test["push"]
        fits = (make().fit(run.train.X, run.train.Y) for make in (atm.NormalLinear, atm.ContinuousProbit))
        means.append([fit.nll(test.X, test.Y).mean() for fit in fits])
    lm, probit = np.median(means, axis=0)
    share = np.mean([a < b for a, b in means])
    print(
        f"median of the mean NLL over 30 runs: Lm {lm:.1f}, c-probit {probit:.1f}; Lm is better in {share:.0%} of them"
    )


def convexity() -> None:
    """Show that convex residuals do not make the penalty convex: two exact rows of the minimum extreme value link."""
    a = np.array([1.0, -1.0]) / math.sqrt(2)
    link = atm.links.LINKS["cloglog"]

    def penalty(z):
        return float(a @ link.exact(np.asarray(z, dtype=float)).r) ** 2

    grid = [np.array([u, v]) for u in (-2.0, 0.0, 2.0) for v in (-2.0, 0.0, 2.0)]
    excess, first, last = max(
        (penalty((p + q) / 2) - 0.5 * (penalty(p) + penalty(q)), p.tolist(), q.tolist()) for p in grid for q in grid
    )
    print(f"half way between z = {first} and z = {last} it is {excess:.2f} above the average of the ends: not convex")


def width() -> None:
    """Show that wider predictions alone gain at the worst left-out Boston town almost what the penalty gains."""
    data = atm.datasets.load_boston_housing2()
    X, price, town = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]], data.cmedv, data.town
    left_out = atm.leave_one_environment_out(atm.NormalLinear(), X, price, town, [0, 1, 10, 30])
    for xi, row in left_out.summary().iterrows():
        print(f"xi = {xi:4g}: worst town {row.worst:5.2f}, median town {row['median']:.2f}")
    factors = (1, 1.5, 3, 5)
    nll = []
    for place in town.unique():
        out = (town == place).to_numpy()
        fit = atm.NormalLinear().fit(X[~out], price[~out])
        nll.append([fit.widened(factor).nll(X[out], price[out]).mean() for factor in factors])
    for factor, worst, median in zip(factors, np.max(nll, axis=0), np.median(nll, axis=0), strict=True):
        print(f"maximum likelihood, {factor:3g} times as wide: worst town {worst:5.2f}, median town {median:.2f}")


FINDINGS = {"C1": c1, "C4": c4, "B9": b9, "E2": e2, "N4": n4, "convexity": convexity, "width": width}


def main(names: list[str]) -> None:
    for name in FINDINGS if not names or names == ["all"] else names:
        print(f"{name}: {FINDINGS[name].__doc__}")
        FINDINGS[name]()
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
